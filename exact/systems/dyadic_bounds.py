"""Bounds for dyadic trees: the oracle inequality (Scott 2004, theorem 3), and the risk by root fragments (remark 1)."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from pactree_mcmc.certificates import Bound, dyadic_bits
from pactree_mcmc.certificates.bound import check_delta, documented
from pactree_mcmc.certificates.occam_bounds import best_fragment, count_errors, sum_below
from pactree_mcmc.core.checks import check_count, check_flag, read_numbers, refuse_other_rows
from pactree_mcmc.model import DirichletMultinomial, DyadicCuts, LeafPenalty, TreeModel
from pactree_mcmc.table.reader import Table
from pactree_mcmc.tree.arrays import LEAF
from pactree_mcmc.tree.tree import Tree

from ..answers import best_sums
from ..recursion.semirings import Best
from ..recursion.terms import with_terms
from .dyadic_trees import DyadicProblem, RootFragments, Sample, dyadic_graph, grown_tree


class OracleInequality(NamedTuple):
    """The right-hand side of Theorem 3 and its parts. No dyadic tree has a smaller one."""

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
    """Return Theorem 3 for a known distribution: how much worse than Bayes the penalised tree of ``n`` rows can be.

    ``min over T of { R(T) - R* + sum over A of sqrt(8 p'_A ([A] ln 2 + ln(K n)) / n) } + sqrt(ln(n) / 2n)`` with ``p'_A
    = 4 max(p_A, ([A] ln 2 + ln n) / 2n)``, for `minimise_risk` with ``penalty="adaptive"`` and ``strength=1``.

    Parameters
    ----------
    X : table of shape (m, p)
        Points of equal mass, which are the distribution: in a simulation a grid or a large sample.
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

    Raises
    ------
    Intractable
        If there are more cells than allowed.

    Notes
    -----
    One pass over the cells. With K classes ``ln(2 n)`` is ``ln(K n)``, as in the penalty. Scott (2004), section 2.3.4.

    Examples
    --------
    >>> x = (np.arange(1024.0)[:, None] + 0.5) / 1024
    >>> p = np.where(x < 0.25, 0.9, 0.1)
    >>> oracle = dyadic_oracle(x, np.hstack([p, 1.0 - p]), n=100_000, levels=5, bounds=[[0, 1]])
    >>> oracle.tree.n_leaves, oracle.excess, round(oracle.penalty, 3), round(oracle.value, 3)
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


@documented
def dyadic_fragment_bound(
    tree: Tree, X: Any, y: Any, *, n_classes: int = 2, delta: float = 0.05, cyclic: bool = False
) -> Bound:
    """Bound the risk of a dyadic tree by the empirical one plus the adaptive penalty of its best root fragment.

    Parameters
    ----------
    {counted_rows}
    {n_classes}
    {delta}
    {cyclic}

    {bound_of_tree}

    Notes
    -----
    The splits must be midpoints of a dyadic partition that does not depend on the rows. Each of the two events of the
    theorem takes half of delta. From the leaves up each node ends the fragment or takes the best ones of its children:
    O(n depth). Scott (2004), Theorem 2 and remark 1.

    Examples
    --------
    >>> tree = Tree([0, -1, -1], [0.5, 0, 0], [1, 0, 0], [2, 0, 0], value=np.eye(2)[[0, 0, 1]], classes=np.arange(2))
    >>> x = (np.arange(10_000.0) + 0.5) / 10_000
    >>> bound = dyadic_fragment_bound(tree, x[:, None], x > 0.5)
    >>> round(bound.value, 4), bound.terms["leaves of the fragment"]
    (0.0827, 1.0)
    """
    delta = check_delta(delta)
    check_flag("cyclic", cyclic)
    counted = count_errors(tree, X, y, n_classes)
    leaves = sum_below(tree.feature, tree.left, tree.right, (tree.feature == LEAF).astype(np.int64))
    sample = Sample(counted.n, Table(X).n_features, int(n_classes), bool(cyclic))
    cost = RootFragments(delta / 2.0).of_fragments(counted.rows, tree.node_depth, leaves, sample)
    ends = best_fragment(tree.feature, tree.left, tree.right, cost)
    penalty = float(cost[ends].sum())
    terms = {"empirical risk": counted.risk, "penalty": penalty, "leaves of the fragment": float(len(ends))}
    return Bound("Scott, root fragment", counted.risk + penalty, delta, terms)
