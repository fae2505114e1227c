"""Dyadic trees (Scott 2004, chapter 2): penalised empirical risk minimisation over all of them, penalties, and bounds.

The bounds are oracle inequalities, risk by root fragments, and Neyman-Pearson tolerances.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from pactree_mcmc.certificates.bound import Bound, check_delta, documented
from pactree_mcmc.certificates.occam_bounds import (
    best_fragment_leaves,
    count_errors,
    dyadic_bits,
    dyadic_penalty,
    sums_below,
)
from pactree_mcmc.core.checks import (
    LARGEST_BELOW_ONE,
    as_number,
    check_count,
    check_flag,
    check_number,
    read_numbers,
    refuse_other_rows,
    repr_of,
)
from pactree_mcmc.core.special import gammaln, logsumexp
from pactree_mcmc.core.texts import fill_docstring
from pactree_mcmc.model import DirichletMultinomial, DyadicCuts, LeafPenalty, TreeModel
from pactree_mcmc.model.split_prior.base import MAX_LEVELS
from pactree_mcmc.table.reader import Table
from pactree_mcmc.tree.arrays import LEAF
from pactree_mcmc.tree.tree import Tree

from ..graph.build import build_graph
from ..graph.cells import CellGraph
from ..limits import Intractable
from ..recursion.inside_outside import CELL, FEATURE, PARENT
from ..recursion.semirings import IN_FRAGMENT, Best
from ..recursion.trees import as_draws, grow_chosen_trees
from ..sums import best_fragments, best_sums, hull_by_size
from .pruning import LARGEST_PENALTY, best_for_sizes, inherit_values, sizes_penalty


class PenaltyInput(NamedTuple):
    """Properties of the data on which a penalty may depend, besides the tree: its argument ``sample``."""

    n: int  # Number of rows
    n_features: int  # Number of features
    n_classes: int  # Number of possible labels, at least 2
    cyclic: bool  # True if the depth determines the coordinate, which then needs no bits


def _shared_by_penalties() -> None:
    """Describe what several docstrings have in common, by placeholder.

    [delta]

    Parameters
    ----------
    delta : float or None, default None
        Confidence parameter in (0, 1). If None, one over the number of rows, as in the paper.

    Raises
    ------
    ValueError
        If ``delta`` is outside (0, 1).
    """


_documented = fill_docstring(_shared_by_penalties)


@dataclass(frozen=True)
class _WithDelta:
    """Base of the penalties of Scott's theorems, which have a confidence parameter delta."""

    delta: float | None = None

    def __post_init__(self) -> None:
        if self.delta is not None:
            check_delta(self.delta)

    def _delta_of(self, sample: PenaltyInput) -> float:
        return 1.0 / sample.n if self.delta is None else self.delta


@_documented
@dataclass(frozen=True)
class SpatiallyAdaptive(_WithDelta):
    """The penalty of Scott's Theorem 2, which adds over the leaves (equation 2.9; `certificates.dyadic_penalty`).

    {delta}
    """

    def of_cells(self, rows: np.ndarray, depth: np.ndarray, sample: PenaltyInput) -> np.ndarray:
        """Return the penalty (m,), in units of risk, of cells as leaves, with ``rows`` (m,) rows at ``depth`` (m,).

        ``sample`` has the numbers of rows, features and classes of the data.
        """
        options: dict[str, Any] = {"n_classes": sample.n_classes, "cyclic": sample.cyclic}
        return dyadic_penalty(rows, depth, sample.n, sample.n_features, self._delta_of(sample), **options)


@_documented
@dataclass(frozen=True)
class SquareRoot(_WithDelta):
    """The penalty of Scott's Proposition 1, a concave function of the number of leaves.

    ``sqrt(([T] ln 2 + ln(1/delta)) / (2n))``, ``[T] = 2k - 1 + k log2 K + (k - 1) log2 p`` bits for k leaves and
    K classes.

    {delta}
    """

    def of_sizes(self, leaves: np.ndarray, sample: PenaltyInput) -> np.ndarray:
        """Return the penalty (m,), in units of risk, of trees with ``leaves`` (m,) leaves, for ``sample`` (n, p, K)."""
        nats = labelled_tree_bits(leaves, sample) * math.log(2.0)
        return np.sqrt((nats - math.log(self._delta_of(sample))) / (2.0 * sample.n))


@_documented
@dataclass(frozen=True)
class RootFragments(_WithDelta):
    """The spatially adaptive penalty at the best root fragment of each tree (Scott 2004, remark 1).

    A root fragment R is a subtree of T with the same root. The deviation of each leaf A of R is bounded as that of a
    leaf of T, with the code of T_A, the part of T below A, added to the code of A. The penalty is the smallest, over R,
    of

    ``Phi_R(T) = sum over A of sqrt(2 p'_A ([A] ln 2 + [T_A] ln 2 + ln(1 / delta)) / n)``.

    {delta}

    Notes
    -----
    The pairs of a cell and a tree below it have a prefix code, so that Theorem 2 holds for all T and R simultaneously
    (Mansour and McAllester 2000). A fragment that is the whole tree has the penalty of `SpatiallyAdaptive` with one bit
    more for each leaf, which says that it is one.
    """

    def of_fragments(self, rows: Any, depth: Any, leaves: Any, sample: PenaltyInput) -> np.ndarray:
        """Return the penalty of leaves of a fragment: cells with ``rows`` rows at ``depth``, and ``leaves`` below them.

        It is in units of risk. ``leaves`` is the number of leaves that the tree has below the cell, 1 if the cell is a
        leaf of the tree. ``sample`` has the numbers of rows, features and classes of the data.
        """
        log_delta = math.log(self._delta_of(sample))
        nats = dyadic_bits(depth, sample.n_features, cyclic=sample.cyclic) * math.log(2.0)
        subtree_nats = labelled_tree_bits(leaves, sample) * math.log(2.0)
        mass = 4.0 * np.maximum(rows, nats - log_delta) / sample.n
        return np.sqrt(2.0 * mass * (nats + subtree_nats - log_delta) / sample.n)


def labelled_tree_bits(leaves: Any, sample: PenaltyInput) -> np.ndarray:
    """Return the code length [T] of `SquareRoot`, bits, of a labelled tree with `leaves` leaves below a cell."""
    k = np.asarray(leaves, dtype=np.float64)
    split_bits = 0.0 if sample.cyclic else math.log2(sample.n_features)
    return 2.0 * k - 1.0 + k * math.log2(sample.n_classes) + (k - 1.0) * split_bits


@dataclass(frozen=True)
class AdditivePenalty:
    """A penalty that adds over the leaves.

    Parameters
    ----------
    cost : float, or function of (rows, depth) that returns an array
        Cost of each leaf, in units of risk, finite and >= 0.

    Examples
    --------
    >>> AdditivePenalty(0.01).of_cells(np.array([5, 3]), np.array([0, 1]), None).tolist()
    [0.01, 0.01]
    """

    cost: float | Callable[[np.ndarray, np.ndarray], Any]

    def __post_init__(self) -> None:
        if not callable(self.cost):
            number = check_number("cost", self.cost, "a number >= 0, or a function of (rows, depth)", 0.0)
            object.__setattr__(self, "cost", number)

    def of_cells(self, rows: np.ndarray, depth: np.ndarray, sample: PenaltyInput) -> np.ndarray:
        """Return the penalty, in units of risk, of cells with ``rows`` rows at ``depth``. ``sample`` is not used."""
        cost = read_numbers("what cost returns", self.cost(rows, depth) if callable(self.cost) else self.cost)
        if cost.shape not in ((), rows.shape):
            raise ValueError(f"cost returns shape {cost.shape}; return one value for each of the {len(rows)} cells.")
        if not np.all(np.isfinite(cost) & (cost >= 0.0)):
            raise ValueError("the cost of a leaf is negative or not finite; give numbers >= 0.")
        return np.broadcast_to(cost, rows.shape)


@dataclass(frozen=True)
class SizePenalty:
    """A penalty that depends only on the number of leaves.

    Parameters
    ----------
    function : function of an array of numbers of leaves that returns an array
        Finite and nondecreasing, in units of risk.

    Examples
    --------
    >>> SizePenalty(lambda leaves: 0.1 * leaves**0.7).of_sizes(np.array([1.0, 2.0]), None).round(4).tolist()
    [0.1, 0.1625]
    """

    function: Callable[[np.ndarray], Any]

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise TypeError(f"function is {repr_of(self.function)}; give a function of an array of numbers of leaves.")

    def of_sizes(self, leaves: np.ndarray, sample: PenaltyInput) -> np.ndarray:
        """Return the penalty, in units of risk, of trees with ``leaves`` leaves. ``sample`` is not used."""
        return sizes_penalty(self.function, leaves)


Penalty = SpatiallyAdaptive | SquareRoot | AdditivePenalty | SizePenalty | RootFragments


def read_penalty(penalty: Any) -> Penalty:
    """Return the penalty for a name ("adaptive" or "square-root"), a number (the cost of a leaf), or a penalty."""
    named: dict[str, Penalty] = {"adaptive": SpatiallyAdaptive(), "square-root": SquareRoot()}
    if isinstance(penalty, str) and penalty in named:
        return named[penalty]
    if as_number(penalty) is not None:
        return AdditivePenalty(penalty)
    if isinstance(penalty, Penalty):
        return penalty
    raise ValueError(
        f"penalty={repr_of(penalty)} is unknown; give 'adaptive', 'square-root', a number for the cost of a leaf, "
        "SpatiallyAdaptive(...), SquareRoot(...), AdditivePenalty(...), SizePenalty(...) or RootFragments(...)."
    )


MAX_DEFAULT_CELLS = 4_000_000  # largest number of cells under the default number of levels, by a bound from n and p
# largest number of (row, cell) pairs under the default number of levels, by a bound from n and p
MAX_ROW_CELL_PAIRS = 40_000_000


class PenalisedTree(NamedTuple):
    """The dyadic tree with the smallest risk plus penalty."""

    tree: Tree
    """The tree, with smoothed class probabilities at the leaves; a cell without rows has those of its parent."""
    risk: float
    """Error rate on the training rows."""
    penalty: float
    """``strength`` times the penalty of the tree."""
    levels: int
    """Number of splits of one coordinate allowed on the path to a leaf."""
    n_cells: int
    """Number of cells searched."""

    @property
    def objective(self) -> float:
        """Risk plus penalty, the smallest over all trees."""
        return self.risk + self.penalty


def minimise_risk(
    X: Any,
    y: Any,
    *,
    penalty: Any = "adaptive",
    strength: float = 1.0,
    levels: int | None = None,
    cyclic: bool = False,
    bounds: Any = None,
    max_cells: int = 20_000_000,
) -> PenalisedTree:
    """Return the dyadic tree that minimises ``risk + strength * penalty``.

    Parameters
    ----------
    X : table of shape (n, p)
        Ordered columns.
    y : array-like of shape (n,)
        Labels of any number of classes; the penalties count at least two.
    penalty : {"adaptive", "square-root"}, float, or penalty, default "adaptive"
        `SpatiallyAdaptive`, `SquareRoot`, a number as the cost of a leaf, or a penalty object: one of these classes,
        `AdditivePenalty`, `SizePenalty` or `RootFragments`.
    strength : float, default 1.0
        Multiplies the penalty, finite and >= 0. The constants of the theory (1) are large; a tenth predicts better.
    levels : int, optional
        Largest number of splits of one coordinate on a path to a leaf, 1 to 31. Default: log2(n / ln n), or fewer.
    cyclic : bool, default False
        If True, split coordinate ``depth mod p``; otherwise any coordinate at each split.
    bounds : array of shape (p, 2), optional
        Ends of each feature's range. Default: the range of the data, with which Theorem 2 holds only approximately.
    max_cells : int, default 20,000,000
        Largest number of cells.

    Returns
    -------
    PenalisedTree
        Among trees with the same objective, one that stops rather than splits. `certificates.dyadic_tree_bound` bounds
        its true risk.

    Raises
    ------
    Intractable
        If there are more cells than allowed: give fewer levels, or ``cyclic=True``.

    Notes
    -----
    Only cells that hold rows are split: with free coordinates at most ``n (levels + 1)^p`` of them, one pass over their
    splits for a penalty that adds over leaves; for a size penalty the hull of (leaves, errors), if it is concave,
    else a polynomial in the leaves at each cell. Scott (2004), sections 2.3 and 2.6; Blanchard et al. (2004).

    Examples
    --------
    >>> import numpy as np
    >>> x = np.arange(100.0)[:, None]
    >>> best = minimise_risk(x, x[:, 0] > 49.5, penalty=0.01, levels=3)
    >>> best.tree.n_leaves, best.risk, round(best.penalty, 6)
    (2, 0.0, 0.02)
    """
    rule = read_penalty(penalty)
    check_factor("strength", strength)
    problem = dyadic_problem(X, y, levels, cyclic, bounds, max_cells)
    errors = problem.counts.sum(axis=1) - problem.counts.max(axis=1)
    if isinstance(rule, RootFragments):
        return _minimise_over_fragments(problem, errors, rule, strength)
    if isinstance(rule, SpatiallyAdaptive | AdditivePenalty):
        return _minimise_over_cells(problem, errors, rule, strength)
    return _minimise_over_sizes(problem, errors, rule, strength)


class DyadicProblem(NamedTuple):
    """The cells of all dyadic trees over some rows."""

    model: TreeModel
    graph: CellGraph  # Splits have prior factor 1; a cell without rows is not split
    counts: np.ndarray  # (n_cells, K) float64: rows of each class
    sample: PenaltyInput

    @property
    def levels(self) -> int:
        """Largest number of splits of one coordinate on the path to a leaf."""
        cuts = self.model.split_prior
        assert isinstance(cuts, DyadicCuts)
        return int(cuts.levels)


def dyadic_problem(X: Any, y: Any, levels: int | None, cyclic: bool, bounds: Any, max_cells: int) -> DyadicProblem:
    """Check arguments of `minimise_risk`, choose `levels` if it is None, and build the graph of dyadic cells."""
    check_flag("cyclic", cyclic)
    table = Table(X)
    n, p = table.n_rows, table.n_features
    depth = default_levels(max(n, 2), p, cyclic=cyclic) if levels is None else levels
    split_prior = DyadicCuts(depth, cyclic=cyclic, bounds=bounds)
    model = TreeModel(X, y, tree_prior=LeafPenalty(0.0), split_prior=split_prior, leaf=DirichletMultinomial())
    graph = dyadic_graph(model, max_cells, cyclic)
    classes = model.classes_
    assert classes is not None
    # at least two: a code for one class, if y has only one, would depend on the labels
    return DyadicProblem(model, graph, graph.stats, PenaltyInput(n, p, max(2, len(classes)), cyclic))


def dyadic_graph(model: TreeModel, max_cells: int, cyclic: bool) -> CellGraph:
    """Build the cells of a dyadic model. Splits have prior factor 1, and a cell without rows is not split."""
    try:
        graph = build_graph(model, max_cells)
    except Intractable as refusal:
        others = "fewer columns" if cyclic else "fewer columns, or cyclic=True"
        advice = f"Lower levels or give {others}; or raise max_cells as far as memory allows."
        raise refusal.with_advice(advice) from None
    return graph.with_terms(log_split=np.where(graph.rows > 0, 0.0, -np.inf), log_rule=0.0)


def default_levels(n: int, p: int, *, cyclic: bool = False) -> int:
    """Return log2(n / ln n), rounded up, or fewer levels if there may be too many cells (`_is_small`)."""
    # cells of side ln n / n adapt to noise and dimension alike (Scott 2004, theorems 6 to 9)
    levels = max(1, math.ceil(math.log2(n / max(1.0, math.log(n)))))
    while levels > 1 and not _is_small(n, p, levels, cyclic):
        levels -= 1
    return levels


def needs_cyclic(n: int, p: int, levels: int | None = None) -> bool:
    return not _is_small(n, p, 1 if levels is None else check_count("levels", levels, 1, MAX_LEVELS), False)


def _is_small(n: int, p: int, levels: int, cyclic: bool) -> bool:
    """Return True if dyadic trees of these levels surely have few enough cells and (row, cell) pairs."""
    # vectors of how often each coordinate is halved, counted by their sum, the depth of the cell
    n_vectors = np.ones(1)
    for _ in range(p):
        n_vectors = np.convolve(n_vectors, np.ones(levels + 1))
        if n_vectors.max() > MAX_DEFAULT_CELLS:
            break
    n_vectors = np.ones(p * levels + 1) if cyclic else n_vectors
    at_depth = np.exp2(np.minimum(np.arange(len(n_vectors)), 60.0))
    return bool(n_vectors @ np.minimum(n, at_depth) <= MAX_DEFAULT_CELLS and n * n_vectors.sum() <= MAX_ROW_CELL_PAIRS)


def _minimise_over_cells(
    problem: DyadicProblem, errors: np.ndarray, rule: SpatiallyAdaptive | AdditivePenalty, strength: float
) -> PenalisedTree:
    """Return the tree of least risk plus a penalty that adds over the leaves, by one pass over the cells."""
    graph, n = problem.graph, problem.sample.n
    penalty = strength * rule.of_cells(graph.rows, graph.depth, problem.sample)
    penalised = graph.with_terms(log_stop=-(errors + n * penalty))
    tree, cells = best_tree_and_cells(problem, penalised, Best(best_sums(penalised)), 0)
    return _penalised_tree(problem, tree, errors[cells].sum(), float(penalty[cells].sum()))


def _minimise_over_sizes(problem: DyadicProblem, errors: np.ndarray, rule: Any, strength: float) -> PenalisedTree:
    """Return the tree of least risk plus `strength` times `rule`, a penalty by the number of leaves."""
    n, sample = problem.sample.n, problem.sample
    graph = problem.graph.with_terms(log_stop=-errors)

    def penalty(leaves: np.ndarray) -> np.ndarray:
        return strength * sizes_penalty(lambda k: rule.of_sizes(k, sample), leaves)

    best = best_for_sizes(graph, lambda leaves: n * penalty(leaves))
    tree, _ = best_tree_and_cells(problem, graph, best.semiring, best.tree_number)
    return _penalised_tree(problem, tree, -best.log_weight, best.penalty / n)


def _minimise_over_fragments(
    problem: DyadicProblem, errors: np.ndarray, rule: RootFragments, strength: float
) -> PenalisedTree:
    """Return the tree of least risk plus `strength` times the penalty `rule` at its best root fragment."""
    graph, sample = problem.graph, problem.sample

    def penalty(cell: np.ndarray, leaves: np.ndarray) -> np.ndarray:
        return sample.n * strength * rule.of_fragments(graph.rows[cell], graph.depth[cell], leaves, sample)

    best = best_fragments(graph, hull_by_size(graph.with_terms(log_stop=-errors)), penalty)
    tree, cells = best_tree_and_cells(problem, graph, best, IN_FRAGMENT)
    risk = float(errors[cells].sum()) / sample.n
    return _penalised_tree(problem, tree, errors[cells].sum(), max(-float(best.value[0]) / sample.n - risk, 0.0))


def _penalised_tree(problem: DyadicProblem, tree: Tree, n_errors: float, penalty: float) -> PenalisedTree:
    """Return the result of `minimise_risk`: a tree with ``n_errors`` errors and its ``penalty``, factor included."""
    risk = float(n_errors) / problem.sample.n + 0.0
    return PenalisedTree(tree, risk, penalty, problem.levels, problem.graph.n_cells)


def best_tree_and_cells(
    problem: DyadicProblem, graph: CellGraph, semiring: Any, tree_number: int
) -> tuple[Tree, np.ndarray]:
    """Return tree `tree_number` of a recursion's result, and the cells of its leaves in preorder."""
    # leaves without rows get the values of their parents
    grown_trees = grow_chosen_trees(problem.model, graph, semiring, [tree_number])
    nodes = grown_trees.nodes
    tree = as_draws(problem.model, problem.graph, grown_trees).distinct_tree(0)
    value = np.array(tree.value)
    inherit_values(value, graph.rows[nodes[:, CELL]] == 0, nodes[:, PARENT])
    return replace(tree, value=value), nodes[nodes[:, FEATURE] == LEAF, CELL]


def check_factor(name: str, value: Any) -> None:
    check_number(name, value, "a finite number >= 0", 0.0, LARGEST_PENALTY)


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
    k-th of a family of classes NP-SRM satisfies Theorem 14. Trees have smaller ones (`neyman_pearson_tree`).

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
    X: Any, probability: Any, *, n: int, levels: int, bounds: Any, cyclic: bool = False, max_cells: int = 20_000_000
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
    penalised = graph.with_terms(log_stop=-(risk + penalty))
    problem = DyadicProblem(model, graph, sums, PenaltyInput(int(n), table.n_features, k, bool(cyclic)))
    tree, cells = best_tree_and_cells(problem, penalised, Best(best_sums(penalised)), 0)
    excess = max(float(risk[cells].sum()) - float((1.0 - p.max(axis=1)).mean()), 0.0)
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
