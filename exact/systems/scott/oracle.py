"""The oracle inequality of dyadic trees as a number (Scott 2004, theorem 3)."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from pactree_mcmc.certificates import dyadic_bits
from pactree_mcmc.core.checks import check_count, check_flag, read_numbers, refuse_other_rows
from pactree_mcmc.model import DirichletMultinomial, DyadicCuts, LeafPenalty, TreeModel
from pactree_mcmc.table.reader import Table
from pactree_mcmc.tree.tree import Tree

from ...answers import best_sums
from ...recursion.terms import with_terms
from ...semirings.algebras import Best
from .penalties import Sample
from .risk_minimisation import DyadicProblem, dyadic_graph, grown_tree


class OracleInequality(NamedTuple):
    """The right-hand side of Theorem 3 and its parts; no dyadic tree makes it smaller."""

    tree: Tree
    """The tree T that has the smallest excess plus penalty."""
    excess: float
    """``R(T) - R*``, its approximation error."""
    penalty: float
    """The bound on its estimation error, the penalty with the true masses of its cells."""
    confidence: float
    """``sqrt(log(n) / 2n)``."""
    n: int
    """Rows of the training sample."""

    @property
    def value(self) -> float:
        """Bound on the excess risk of the penalised tree, with probability at least ``1 - 4 / n`` (2.11)."""
        return self.excess + self.penalty + self.confidence

    @property
    def expected(self) -> float:
        """Bound on its expected excess risk (2.12)."""
        return self.value + 4.0 / self.n


def dyadic_oracle(
    X: Any,
    probability: Any,
    *,
    n: int,
    levels: int,
    bounds: Any,
    cyclic: bool = False,
    max_cells: int = 20_000_000,
) -> OracleInequality:
    """Returns Theorem 3 for a known distribution: how much worse than Bayes the penalised tree of ``n`` rows can be.

    ``min over T of { R(T) - R* + sum over A of sqrt(8 p'_A ([A] ln 2 + ln(K n)) / n) } + sqrt(ln(n) / 2n)`` with ``p'_A
    = 4 max(p_A, ([A] ln 2 + ln n) / 2n)``, for `minimise_risk` with ``penalty="adaptive"`` and ``strength=1``.

    Parameters
    ----------
    X : table of shape (m, p)
        Points of equal mass, in a simulation a grid or a large sample: they are taken as the distribution.
    probability : array-like of shape (m, K)
        Of each class at these points.
    n : int
        Rows of the training sample, >= 2.
    levels : int
        As for `minimise_risk`.
    bounds : array of shape (p, 2)
        Ends of each feature's range, which must not depend on the training rows.
    cyclic : bool, default False
        As for `minimise_risk`.
    max_cells : int, default 20,000,000
        Cells allowed.

    Returns
    -------
    OracleInequality

    Raises
    ------
    ValueError
        If an argument is out of range, or ``probability`` does not hold probabilities of each point.
    Intractable
        If there are more cells than allowed.

    Notes
    -----
    One pass over the cells. With K classes ``ln(2 n)`` is ``ln(K n)``, as in the penalty. Scott (2004), section 2.3.4.

    Examples
    --------
    >>> x = (np.arange(1024.0)[:, None] + 0.5) / 1024
    >>> p = np.where(x < 0.25, 0.9, 0.1)
    >>> found = dyadic_oracle(x, np.hstack([p, 1.0 - p]), n=100_000, levels=5, bounds=[[0, 1]])
    >>> found.tree.n_leaves, found.excess, round(found.penalty, 3), round(found.value, 3)
    (3, 0.0, 0.121, 0.129)
    """
    check_count("n", n, 2)
    check_flag("cyclic", cyclic)
    refuse_other_rows(X=X, probability=probability)
    table, p = Table(X), read_numbers("probability", probability)
    if p.ndim != 2 or len(p) != table.n_rows or p.shape[1] < 2:
        raise ValueError(f"probability has shape {p.shape}; give one row for each of the {table.n_rows} points.")
    if not (p >= 0.0).all() or not np.allclose(p.sum(axis=1), 1.0, atol=1e-9):
        raise ValueError("probability holds rows that are not probabilities; give numbers >= 0 that sum to 1.")
    m, k = p.shape
    at = np.repeat(np.arange(m), k)
    model = TreeModel(
        table.take(at),
        np.tile(np.arange(k), m),
        tree_prior=LeafPenalty(0.0),
        split_prior=DyadicCuts(levels, cyclic=cyclic, bounds=bounds),
        leaf=DirichletMultinomial(),
        sample_weight=p.ravel(),
    )
    graph = dyadic_graph(model, max_cells, cyclic)
    sums = graph.stats
    nats = dyadic_bits(graph.depth, table.n_features, cyclic=cyclic) * math.log(2.0)
    mass = 4.0 * np.maximum(sums.sum(axis=1) / m, (nats + math.log(n)) / (2.0 * n))
    penalty = np.sqrt(8.0 * mass * (nats + math.log(k * n)) / n)
    risk = (sums.sum(axis=1) - sums.max(axis=1)) / m
    penalised = with_terms(graph, log_stop=-(risk + penalty))
    problem = DyadicProblem(model, graph, sums, Sample(int(n), table.n_features, k, bool(cyclic)))
    tree, cells = grown_tree(problem, penalised, Best(best_sums(penalised)), 0)
    bayes = float((1.0 - p.max(axis=1)).mean())
    excess = max(float(risk[cells].sum()) - bayes, 0.0)
    excess = 0.0 if excess < 1e-12 else excess
    return OracleInequality(tree, excess, float(penalty[cells].sum()), math.sqrt(math.log(n) / (2.0 * n)), int(n))
