"""Bounds for dyadic trees (Scott 2004): oracle inequality, risk by root fragments, Neyman-Pearson tolerances."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from pactree_mcmc.certificates import Bound, dyadic_bits
from pactree_mcmc.certificates.bound import check_delta, documented
from pactree_mcmc.certificates.occam_bounds import best_fragment_leaves, count_errors, sums_below
from pactree_mcmc.core.checks import (
    LARGEST_BELOW_ONE,
    check_count,
    check_flag,
    check_number,
    read_numbers,
    refuse_other_rows,
)
from pactree_mcmc.core.special import gammaln, logsumexp
from pactree_mcmc.model import DirichletMultinomial, DyadicCuts, LeafPenalty, TreeModel
from pactree_mcmc.table.reader import Table
from pactree_mcmc.tree.arrays import LEAF
from pactree_mcmc.tree.tree import Tree

from ..answers import best_sums
from ..recursion.semirings import Best
from ..recursion.terms import with_terms
from .dyadic_trees import DyadicProblem, PenaltyInput, RootFragments, best_tree_and_cells, dyadic_graph

LARGEST_LOG = 700.0  # largest log of a term of a bound; exponentials of larger ones overflow


def log_class_size(leaves: Any, n_features: int, *, cyclic: bool = False) -> np.ndarray:
    """Return the log of the number of labelled dyadic trees with k `leaves`, Catalan(k - 1) 2^k p^(k - 1)."""
    # cyclic trees have no choice of coordinate: without the power of p
    k = np.asarray(leaves, dtype=np.float64)
    catalan = gammaln(2.0 * k - 1.0) - gammaln(k) - gammaln(k + 1.0)
    return catalan + k * math.log(2.0) + (0.0 if cyclic else (k - 1.0) * math.log(n_features))


def srm_tolerance(leaves: Any, n: int, delta: float, n_features: int, *, cyclic: bool = False) -> np.ndarray:
    """Return the NP-SRM tolerance (Scott, equation 3.8) for trees with `leaves` leaves and a class of `n` rows."""
    # sqrt(2 (log |H^k| + k ln 2 + ln(2 / delta)) / n). With probability 1 - delta, half of it bounds, for all trees of
    # all sizes simultaneously, how far the error rate on these rows is from the true one
    check_delta(delta)
    k = np.asarray(leaves, dtype=np.float64)
    size = log_class_size(k, n_features, cyclic=cyclic)
    return np.sqrt(2.0 * (size + k * math.log(2.0) + math.log(2.0 / delta)) / n)


def erm_tolerance(max_leaves: int, n: int, delta: float, n_features: int, *, cyclic: bool = False) -> float:
    """Return the NP-ERM tolerance (Scott, equation 3.3) for trees of at most `max_leaves` leaves."""
    # with probability 1 - delta, half of it bounds how far the error rate of each such tree on n rows is from the true
    # one
    check_delta(delta)
    size = logsumexp(log_class_size(np.arange(1, max_leaves + 1), n_features, cyclic=cyclic))
    return math.sqrt(2.0 * (float(size) + math.log(2.0 / delta)) / n)


def vc_tolerance(n: Any, delta: float, vc_dimension: int, *, k: int = 0) -> np.ndarray:
    """Return the tolerance of equations 3.2 and 3.4 for a class of finite VC dimension and ``n`` rows of a class.

    ``sqrt(128 (V ln n + k ln 2 + ln(8 / delta)) / n)``: with it NP-ERM satisfies Theorem 12, and with V and k of the
    k-th of a family of classes NP-SRM satisfies Theorem 14. Trees have smaller ones (`srm_tolerance`).

    Parameters
    ----------
    n : int, or array of these
        Rows of the class, >= 1.
    delta : float
        Probability that the bound fails, in (0, 1).
    vc_dimension : int
        V >= 0.
    k : int, default 0
        Number of the class in the family; 0 for a single class (3.2).

    Returns
    -------
    ndarray
        Tolerances of the shape of ``n``; half of one bounds, over the whole class, how far the fraction of rows is from
        its probability.

    Examples
    --------
    The paper's example, .2 for each class of half of 97,104 rows:

    >>> float(vc_tolerance(97_104 // 2, 0.1, 1).round(4))
    0.2
    """
    check_delta(delta)
    check_count("vc_dimension", vc_dimension, 0)
    check_count("k", k, 0)
    rows = read_numbers("n", n)
    if not np.all((rows >= 1.0) & np.isfinite(rows)):
        raise ValueError("n holds a number below 1; give numbers of rows >= 1.")
    return np.sqrt(128.0 * (vc_dimension * np.log(rows) + k * math.log(2.0) + math.log(8.0 / delta)) / rows)


def vc_failure(n0: int, n1: int, eps0: float, eps1: float, vc_dimension: int) -> float:
    """Return the bound of Theorem 10 on the probability that NP-ERM with fixed tolerances fails, at fixed class sizes.

    ``8 n0^V exp(-n0 eps0^2 / 128) + 8 n1^V exp(-n1 eps1^2 / 128)``; it may be above 1.

    Parameters
    ----------
    n0, n1 : int
        Rows of the null class and of the other, >= 1, known before the sample is drawn.
    eps0, eps1 : float
        Tolerances in (0, 1].
    vc_dimension : int
        V >= 0.

    Notes
    -----
    Cannon, Howse, Hush and Scovel (2002), as in Scott (2004).

    Examples
    --------
    >>> round(vc_failure(48_552, 48_552, 0.2, 0.2, 1), 3)
    0.2
    """
    check_count("vc_dimension", vc_dimension, 0)
    total = 0.0
    for name, n, eps in (("0", n0, eps0), ("1", n1, eps1)):
        check_count(f"n{name}", n)
        eps = check_number(f"eps{name}", eps, "a number in (0, 1]", 5e-324, 1.0)
        total += math.exp(min(math.log(8.0) + vc_dimension * math.log(n) - n * eps**2 / 128.0, LARGEST_LOG))
    return total


def vc_failure_iid(n: int, prior0: float, eps0: float, eps1: float, vc_dimension: int) -> float:
    """Return the bound of Theorem 11 on the probability that NP-ERM with fixed tolerances fails, for independent rows.

    ``10 (2n)^V (exp(-n pi0^2 eps0^2 / (640 sqrt 5)) + exp(-n pi1^2 eps1^2 / (640 sqrt 5)))`` if ``n >= 10 sqrt 5 /
    (pi_j eps_j)^2``, else 1.

    Parameters
    ----------
    n : int
        Rows of both classes, >= 1.
    prior0 : float
        Probability pi0 of the null class, in (0, 1).
    eps0, eps1, vc_dimension
        As for `vc_failure`.

    Notes
    -----
    Cannon, Howse, Hush and Scovel (2002), as in Scott (2004), whose Theorem 12 (`vc_tolerance`) needs no such n.

    Examples
    --------
    >>> round(vc_failure_iid(3_000_000, 0.5, 0.2, 0.2, 1), 4)
    0.0944
    """
    check_count("n", n)
    check_count("vc_dimension", vc_dimension, 0)
    prior0 = check_number("prior0", prior0, "a probability in (0, 1)", 5e-324, LARGEST_BELOW_ONE)
    total = 0.0
    for name, prior, eps in (("0", prior0, eps0), ("1", 1.0 - prior0, eps1)):
        eps = check_number(f"eps{name}", eps, "a number in (0, 1]", 5e-324, 1.0)
        if n * (prior * eps) ** 2 < 10.0 * math.sqrt(5.0):
            return 1.0
        rate = n * (prior * eps) ** 2 / (640.0 * math.sqrt(5.0))
        total += math.exp(min(math.log(10.0) + vc_dimension * math.log(2.0 * n) - rate, LARGEST_LOG))
    return total


class OracleInequality(NamedTuple):
    """The right-hand side of Scott's Theorem 3, the smallest over all dyadic trees, and its parts."""

    tree: Tree
    """The tree T that has the smallest excess plus penalty."""
    excess: float
    """``R(T) - R*``, its approximation error."""
    penalty: float
    """Bound on the estimation error of T: the penalty with the true probabilities of its cells."""
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
        """Bound on the expected excess risk of the penalised tree (2.12)."""
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
    """Bound, for a known distribution, how much worse than Bayes the penalised tree of ``n`` rows is (Theorem 3).

    ``min over T of { R(T) - R* + sum over A of sqrt(8 p'_A ([A] ln 2 + ln(K n)) / n) } + sqrt(ln(n) / 2n)`` with ``p'_A
    = 4 max(p_A, ([A] ln 2 + ln n) / 2n)``, for `minimise_risk` with ``penalty="adaptive"`` and ``strength=1``.

    Parameters
    ----------
    X : table of shape (m, p)
        Points of equal probability that represent the distribution: in a simulation a grid or a large sample.
    probability : array-like of shape (m, K)
        Probability of each class at these points.
    n : int
        Rows of the training sample, >= 2.
    levels : int
        As for `minimise_risk`.
    bounds : array of shape (p, 2)
        Ends of each feature's range, which must not depend on the training rows.
    cyclic : bool, default False
        As for `minimise_risk`.
    max_cells : int, default 20,000,000
        Largest number of cells.

    Raises
    ------
    Intractable
        If there are more cells than allowed.

    Notes
    -----
    One pass over the cells. With K classes ``ln(2 n)`` is ``ln(K n)``, as in the penalty. Scott (2004), section 2.3.4.

    Examples
    --------
    >>> import numpy as np
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
    row_of_copy = np.repeat(np.arange(m), k)
    model = TreeModel(
        table.take(row_of_copy),
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
    problem = DyadicProblem(model, graph, sums, PenaltyInput(int(n), table.n_features, k, bool(cyclic)))
    tree, cells = best_tree_and_cells(problem, penalised, Best(best_sums(penalised)), 0)
    bayes = float((1.0 - p.max(axis=1)).mean())
    excess = max(float(risk[cells].sum()) - bayes, 0.0)
    excess = 0.0 if excess < 1e-12 else excess
    return OracleInequality(tree, excess, float(penalty[cells].sum()), math.sqrt(math.log(n) / (2.0 * n)), int(n))


@documented
def dyadic_fragment_bound(
    tree: Tree, X: Any, y: Any, *, n_classes: int = 2, delta: float = 0.05, cyclic: bool = False
) -> Bound:
    """Bound the risk of a dyadic tree by its empirical risk plus the adaptive penalty at its best root fragment.

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
    >>> from pactree_mcmc import Tree
    >>> import numpy as np
    >>> tree = Tree([0, -1, -1], [0.5, 0, 0], [1, 0, 0], [2, 0, 0], value=np.eye(2)[[0, 0, 1]], classes=np.arange(2))
    >>> x = (np.arange(10_000.0) + 0.5) / 10_000
    >>> bound = dyadic_fragment_bound(tree, x[:, None], x > 0.5)
    >>> round(bound.value, 4), bound.terms["leaves of the fragment"]
    (0.0827, 1.0)
    """
    delta = check_delta(delta)
    check_flag("cyclic", cyclic)
    counted = count_errors(tree, X, y, n_classes)
    leaves = sums_below(tree.feature, tree.left, tree.right, (tree.feature == LEAF).astype(np.int64))
    sample = PenaltyInput(counted.n, Table(X).n_features, int(n_classes), bool(cyclic))
    cost = RootFragments(delta / 2.0).of_fragments(counted.rows, tree.node_depth, leaves, sample)
    fragment_leaves = best_fragment_leaves(tree.feature, tree.left, tree.right, cost)
    penalty = float(cost[fragment_leaves].sum())
    terms = {"empirical risk": counted.risk, "penalty": penalty, "leaves of the fragment": float(len(fragment_leaves))}
    return Bound("Scott, root fragment", counted.risk + penalty, delta, terms)
