"""Neyman-Pearson learning with dyadic decision trees (Scott 2004, chapter 3).

Class 0 is the null class. A *false alarm* is a row of class 0 that the tree assigns to class 1. A *miss* is a row of
class 1 that the tree assigns to class 0. Rates are fractions of the rows of the class.

With the tolerances of the thesis (NP-ERM, NP-SRM) the penalties depend on the number of leaves. One upward pass finds
the trees with the fewest misses for each number of leaves and of false alarms. With the spatially adaptive penalty,
conjectured to be optimal (section 3.5.2), the problem is ``min R1^(T) + strength Phi_1(T)`` subject to ``R0^(T) <=
alpha + tolerance Phi_0(T)``, with Rj^ the error rate on class j and Phi_j the penalty of equation 2.9 on its rows. Both
sides add over leaves. Therefore one pass finds the best tree for each Lagrange multiplier of the constraint. The trees
of all multipliers are the vertices of the lower hull of (constraint, objective).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from pactree_mcmc.certificates.bound import Bound, check_delta
from pactree_mcmc.certificates.occam_bounds import dyadic_bits
from pactree_mcmc.core.checks import LARGEST_BELOW_ONE, check_choice, check_count, check_number
from pactree_mcmc.core.texts import with_short_repr
from pactree_mcmc.tree.arrays import LEAF
from pactree_mcmc.tree.tree import Tree

from ..graph.cells import CellGraph
from ..recursion.inside_outside import CELL, FEATURE, TREE_NUMBER
from ..recursion.semirings import Best, BestBySize
from ..recursion.trees import as_draws, grow_chosen_trees
from ..sums import best_by_size, best_sums, hull_by_size, most_leaves
from .dyadic_trees import DyadicProblem, best_tree_and_cells, check_factor, dyadic_problem, erm_tolerance, srm_tolerance
from .pruning import FIRST_SIZES, root_vertices

# Lagrange multipliers, misses per false alarm, of the lower bounds that exclude large trees
MULTIPLIERS = 2.0 ** np.arange(-8.0, 9.0)
OBJECTIVE_ROUNDING = 1e-9  # largest difference of two objectives that is attributed to rounding
MAX_MULTIPLIERS = 200  # largest number of multipliers tried for the adaptive tree
LARGEST_MULTIPLIER = 1e6  # its best tree is taken to be the tree with the smallest constraint


@with_short_repr
class NeymanPearsonTree(NamedTuple):
    """The tree with the fewest misses among those within the limit on false alarms."""

    tree: Tree
    """The tree, with class probabilities 0 and 1 at the leaves. Cells without rows have label 0."""
    alpha: float
    """False-alarm level."""
    false_alarm: float
    """Fraction of the training rows of class 0 that the tree assigns to class 1."""
    miss: float
    """Fraction of the training rows of class 1 that the tree assigns to class 0."""
    n_leaves: int
    """Number of leaves."""
    limit: float
    """Limit on the false-alarm rate of a tree of this size: ``alpha`` plus its tolerance, at most 1."""
    objective: float
    """Miss rate plus penalty, the smallest over all trees within their limits."""
    levels: int
    """Number of splits of one coordinate allowed on the path to a leaf."""
    max_leaves: int
    """Largest number of leaves considered: larger trees cannot be better, or were not allowed."""
    guarantee: Guarantee
    """Bounds on the true rates."""
    gap: float = 0.0
    """Upper bound on how much smaller the objective of another tree may be; 0 unless the method is "adaptive"."""


@with_short_repr
class Guarantee(NamedTuple):
    """The bounds of Scott's Theorem 14, which hold simultaneously with probability at least ``1 - delta0 - delta1``."""

    false_alarm: Bound
    """Bound on the true false-alarm rate of the tree."""
    miss: Bound
    """Bound on the true miss rate of the tree."""
    excess: np.ndarray
    """(max_leaves,): entry k - 1 bounds the true miss rate minus that of the best tree of k leaves whose true
    false-alarm rate is at most ``alpha``. It holds with the constants of the theorem, ``tolerance = strength = 1``.
    Empty for "adaptive", for which no such theorem is known."""


def neyman_pearson_tree(
    X: Any,
    y: Any,
    *,
    alpha: float,
    method: str = "srm",
    max_leaves: int | None = None,
    tolerance: float = 1.0,
    strength: float = 1.0,
    delta0: float = 0.05,
    delta1: float = 0.05,
    levels: int | None = None,
    cyclic: bool = False,
    bounds: Any = None,
    max_cells: int = 20_000_000,
) -> NeymanPearsonTree:
    """Return the dyadic tree with the fewest misses whose false-alarm rate is at most ``alpha`` up to a tolerance.

    ``min miss + strength * eps1 / 2`` subject to ``false_alarm <= alpha + tolerance * eps0 / 2``.

    Parameters
    ----------
    X : table of shape (n, p)
        Ordered columns.
    y : array-like of shape (n,)
        Two labels; the smaller one is the null class 0.
    alpha : float
        False-alarm level, in (0, 1).
    method : {"srm", "erm", "adaptive"}, default "srm"
        "srm": tolerances eps0 and eps1 increase with the size of the tree (docs/theory.md). "erm": they are those of
        the class of all trees of at most ``max_leaves`` leaves, so that the penalty is the same for
        all. "adaptive": in place of eps0 / 2 and eps1 / 2 each tree has the spatially adaptive penalty of equation 2.9
        on the rows of class 0 and of class 1, as the thesis conjectures; the best of the trees that are best for some
        multiplier of the constraint.
    max_leaves : int, optional
        Largest number of leaves, >= 1; needed by "erm", not for "adaptive". Default: as many as can matter.
    tolerance : float, default 1.0
        Multiplies eps0; with 0 the false-alarm rate on the training rows is at most ``alpha``, with 1, as in the
        theory, it need not be.
    strength : float, default 1.0
        Multiplies eps1.
    delta0, delta1 : float, default 0.05
        Probabilities that the bounds on false alarms and on misses fail, in (0, 1).
    levels, cyclic, bounds, max_cells
        As for `minimise_risk`.

    Returns
    -------
    NeymanPearsonTree
        Among several solutions one with the fewest leaves, then the fewest false alarms.

    Raises
    ------
    Intractable
        If the table of (leaves, false alarms) of all cells is too large: give a smaller ``max_leaves``.

    Notes
    -----
    Trees that split no cell without rows; a tree that does has a larger tolerance and can be better (see
    `docs/theory.md`). Minimum empirical risk trees over (leaves, false alarms), from the smallest cells up
    (Figures 3.2 and 3.3). Sizes are skipped if a Lagrange multiplier for false alarms shows that no tree so large can
    be optimal. Cyclic: O(max_leaves^2 n0^2) near the root. Without ``bounds`` the range is that of the rows, and the
    guarantee holds only approximately.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.arange(400.0)[:, None]
    >>> y = (x[:, 0] >= 200) | (x[:, 0] % 20 == 0)
    >>> best = neyman_pearson_tree(x, y, alpha=0.1, tolerance=0.0, strength=0.1, levels=3)
    >>> best.n_leaves, best.false_alarm, round(best.miss, 4)
    (2, 0.0, 0.0476)
    """
    _check_arguments(alpha, method, max_leaves, tolerance, strength)
    check_delta(delta0)
    check_delta(delta1)
    problem = dyadic_problem(X, y, levels, cyclic, bounds, max_cells)
    class_counts = _class_counts(problem)
    if method == "adaptive":
        return _adaptive(problem, class_counts, float(alpha), tolerance, strength, (delta0, delta1))
    max_size = int(most_leaves(problem.graph.with_terms(log_stop=0.0))[0])
    max_size = max_size if max_leaves is None else min(max_size, int(max_leaves))
    p, n0, n1 = problem.sample.n_features, int(class_counts.null[0]), int(class_counts.other[0])
    k = np.arange(1, max_size + 1)
    if method == "srm":
        eps0, eps1 = (srm_tolerance(k, n, d, p, cyclic=cyclic) for n, d in ((n0, delta0), (n1, delta1)))
    else:
        max_class_leaves = int(max_leaves or max_size)
        by_class = (n0, delta0), (n1, delta1)
        eps0, eps1 = (np.full(max_size, erm_tolerance(max_class_leaves, n, d, p, cyclic=cyclic)) for n, d in by_class)
    limit = np.minimum(alpha + tolerance * eps0 / 2.0, 1.0)
    # a fraction that exceeds the limit by rounding alone is within it
    alarms = np.floor(limit * n0 * (1.0 + 1e-12)).astype(np.int64)
    best = _best_within_limits(problem.graph, class_counts, alarms, strength * eps1 / 2.0)
    i, observed0, observed1 = best.leaves - 1, best.alarms / n0, best.misses / n1
    half0, half1 = float(eps0[i]) / 2.0, float(eps1[i]) / 2.0
    return NeymanPearsonTree(
        tree=_labelled_tree(problem, best),
        alpha=float(alpha),
        false_alarm=observed0,
        miss=observed1,
        n_leaves=best.leaves,
        limit=float(limit[i]),
        objective=observed1 + float(strength * half1),
        levels=problem.levels,
        max_leaves=max_size,
        guarantee=_guarantee(float(alpha), (observed0, observed1), (half0, half1), (delta0, delta1), eps1),
    )


class _ClassCounts(NamedTuple):
    """Numbers of rows of the null class and of the other class in each cell."""

    null: np.ndarray  # (n_cells,) int64
    other: np.ndarray  # (n_cells,) int64


def _class_counts(problem: DyadicProblem) -> _ClassCounts:
    """Return the numbers of rows of both classes by cell; class 0, the first in order, is the null class."""
    classes = problem.model.classes_
    labels = [] if classes is None else classes.tolist()
    if len(labels) != 2:
        raise ValueError(f"y holds {len(labels)} class(es), {labels[:5]}; Neyman-Pearson learning is for two classes.")
    counts = np.rint(problem.counts).astype(np.int64)
    return _ClassCounts(np.ascontiguousarray(counts[:, 0]), np.ascontiguousarray(counts[:, 1]))


class _Best(NamedTuple):
    """The tree with the smallest miss rate plus penalty, in the form from which `grow_chosen_trees` makes it."""

    semiring: BestBySize
    tree_number: int  # Place of the tree among the coefficients of the root
    leaves: int  # Number of leaves
    alarms: int  # Number of false alarms
    misses: int  # Number of misses


def _best_within_limits(graph: CellGraph, class_counts: _ClassCounts, alarms: np.ndarray, penalty: np.ndarray) -> _Best:
    """Return the tree with the smallest miss rate plus penalty within the limits on false alarms."""
    # a tree of k leaves may have alarms[k - 1] false alarms, and penalty[k - 1] in units of the miss rate
    n1, max_size = int(class_counts.other[0]), len(alarms)
    # a leaf with label 0 misses its rows of class 1, one with label 1 has false alarms in its rows of class 0
    alarms_of = np.stack([np.zeros_like(class_counts.null), class_counts.null], axis=1)
    gain = np.stack([-class_counts.other, np.zeros_like(class_counts.other)], axis=1).astype(np.float64)
    unweighted = graph.with_terms(log_stop=0.0)
    min_misses, n_tried = None, min(FIRST_SIZES, max_size)
    while True:
        sizes = best_by_size(unweighted, n_tried, counts=alarms_of, gain=gain, max_count=int(alarms[n_tried - 1]))
        n_sizes, n_counts = int(sizes.n_sizes[0]), int(sizes.n_counts[0])
        misses = -sizes.value[: n_sizes * n_counts].reshape(n_counts, n_sizes)
        cost = np.where(np.arange(n_counts)[:, None] <= alarms[:n_sizes], misses / n1 + penalty[:n_sizes], np.inf)
        leaves = int(np.argmin(cost.min(axis=0)))
        t = int(np.argmin(cost[:, leaves]))
        if n_tried == max_size:
            break
        min_misses = _min_misses(unweighted, class_counts, alarms) if min_misses is None else min_misses
        useful = np.flatnonzero(min_misses / n1 + penalty < cost[t, leaves])
        if len(useful) == 0 or useful[-1] < n_tried:
            break
        n_tried = min(int(useful[-1]) + 1, 2 * n_tried)
    return _Best(sizes, t * n_sizes + leaves, leaves + 1, t, int(misses[t, leaves]))


def _min_misses(graph: CellGraph, class_counts: _ClassCounts, alarms: np.ndarray) -> np.ndarray:
    """Return lower bounds (m,) on the misses of trees of 1, ..., m leaves with at most `alarms` (m,) false alarms."""
    # By Lagrangian duality, for each multiplier m >= 0,
    #     misses of k leaves  >=  min over trees of k leaves of (misses + m * false alarms)  -  m * alarms[k - 1] ,
    # and the lower hull over the number of leaves bounds the minimum from below
    k = np.arange(1.0, len(alarms) + 1.0)
    out = np.zeros(len(k))
    for multiplier in MULTIPLIERS:
        cost = np.minimum(class_counts.other.astype(np.float64), multiplier * class_counts.null)
        leaves, weight = root_vertices(hull_by_size(graph.with_terms(log_stop=-cost)))
        out = np.maximum(out, -np.interp(k, leaves, weight) - multiplier * alarms)
    return np.ceil(out - 1e-6)


def _labelled_tree(problem: DyadicProblem, best: _Best) -> Tree:
    """Return the best tree with a label of each leaf: 1 if the best tree counts false alarms there, else 0."""
    # the value (1, 0) or (0, 1); a leaf without rows of the null class has label 1 if it has any rows
    model, graph, sizes = problem.model, problem.graph, best.semiring
    trees = grow_chosen_trees(model, graph, sizes, [best.tree_number])
    nodes = trees.nodes
    cell, alarms = nodes[:, CELL], nodes[:, TREE_NUMBER] // np.maximum(sizes.n_sizes[nodes[:, CELL]], 1)
    counts = np.rint(problem.counts[cell])
    # without rows of class 0 no label has false alarms: label 1 has no misses
    is_one = np.where(counts[:, 0] == 0, counts[:, 1] > 0, alarms > 0)
    is_one = np.where(nodes[:, FEATURE] == LEAF, is_one, counts[:, 1] > counts[:, 0])
    tree = as_draws(model, graph, trees).distinct_tree(0)
    return replace(tree, value=np.stack([~is_one, is_one], axis=1).astype(np.float64))


def _guarantee(
    alpha: float,
    observed: tuple[float, float],
    deviation: tuple[float, float],
    delta: tuple[float, float],
    excess: np.ndarray,
) -> Guarantee:
    """Return the bounds on the true rates of both classes: the `observed` rates plus `deviation`."""
    # pairs are (false alarms, misses)
    false_alarm, miss = (
        Bound(f"Neyman-Pearson, {name}", rate + gap, level, {"observed": rate, "deviation": gap})
        for name, rate, gap, level in zip(("false alarms", "misses"), observed, deviation, delta, strict=True)
    )
    false_alarm.terms["alpha + tolerance"] = alpha + 2.0 * deviation[0]
    return Guarantee(false_alarm, miss, excess)


class CellTerms(NamedTuple):
    """The terms (n_cells,) that each cell adds to rates and penalties as a leaf."""

    null: np.ndarray  # Fraction of the rows of the null class that are in the cell
    other: np.ndarray  # Fraction of the rows of the other class that are in the cell
    phi0: np.ndarray  # Penalty for the null class
    phi1: np.ndarray  # Penalty for the other class


class HullTree(NamedTuple):
    """Tree on the lower hull of (constraint, objective): false alarms minus tolerance, misses plus penalty."""

    multiplier: float  # Lagrange multiplier, misses per false alarm, for which the tree is the best
    constraint: float  # ``R0^ - tolerance Phi_0``
    objective: float  # ``R1^ + strength Phi_1``
    tree: Tree
    cells: np.ndarray  # Cells of the leaves, in preorder
    label: np.ndarray  # Labels of the leaves, bool


def class_penalty(rows: np.ndarray, depth: np.ndarray, n: int, p: int, delta: float, cyclic: bool) -> np.ndarray:
    """Return the penalty (n_cells,) of equation 2.9 for leaves at `depth` with `rows` of the `n` rows of a class."""
    # sqrt(8 max(rows, level) level) / n with level = [A] ln 2 + ln(2 / delta) and [A] the code length of the cell in
    # bits. Labels need no code, since the class is given. Each of the two events of the theorem has probability delta /
    # 2
    level = dyadic_bits(depth, p, cyclic=cyclic) * math.log(2.0) - math.log(delta / 2.0)
    return np.sqrt(2.0 * 4.0 * np.maximum(rows, level) / n * level / n)


def _adaptive(
    problem: DyadicProblem,
    class_counts: _ClassCounts,
    alpha: float,
    tolerance: float,
    strength: float,
    delta: tuple[float, float],
) -> NeymanPearsonTree:
    """Return the tree of method "adaptive": smallest objective, constraint at most `alpha`, on the hull of both."""
    n0, n1 = int(class_counts.null[0]), int(class_counts.other[0])
    p, cyclic = problem.sample.n_features, problem.sample.cyclic
    phi0, phi1 = (
        class_penalty(rows, problem.graph.depth, n, p, d, cyclic)
        for rows, n, d in ((class_counts.null, n0, delta[0]), (class_counts.other, n1, delta[1]))
    )
    terms = CellTerms(class_counts.null / n0, class_counts.other / n1, phi0, phi1)
    best, gap = follow_multipliers(lambda m: _best_at(problem, terms, m, tolerance, strength), alpha)
    leaf = best.tree.feature == LEAF
    label = np.zeros(best.tree.n_nodes, dtype=np.int64)
    label[leaf] = best.label
    alarms, misses = float(terms.null[best.cells][best.label].sum()), float(terms.other[best.cells][~best.label].sum())
    deviation = float(phi0[best.cells].sum()), float(phi1[best.cells].sum())
    return NeymanPearsonTree(
        tree=replace(best.tree, value=np.eye(2)[label]),
        alpha=alpha,
        false_alarm=alarms,
        miss=misses,
        n_leaves=int(leaf.sum()),
        limit=min(alpha + tolerance * deviation[0], 1.0),
        objective=best.objective,
        levels=problem.levels,
        max_leaves=int(leaf.sum()),
        guarantee=_guarantee(alpha, (alarms, misses), deviation, delta, np.empty(0)),
        gap=gap,
    )


def follow_multipliers(best_at: Callable[[float], HullTree], alpha: float) -> tuple[HullTree, float]:
    """Return the best `HullTree` with constraint at most `alpha`, and how much better a tree off the hull may be."""
    # the next multiplier is minus the slope between the best trees on both sides of alpha, until no tree is below the
    # line
    feasible, infeasible = best_at(LARGEST_MULTIPLIER), best_at(0.0)
    if infeasible.constraint <= alpha + OBJECTIVE_ROUNDING:
        return infeasible, 0.0
    for _ in range(MAX_MULTIPLIERS):
        slope = (feasible.objective - infeasible.objective) / (infeasible.constraint - feasible.constraint)
        point = best_at(slope)
        value = point.objective + slope * (point.constraint - infeasible.constraint)
        if value >= infeasible.objective - OBJECTIVE_ROUNDING:
            break
        if point.constraint <= alpha + OBJECTIVE_ROUNDING:
            feasible = point
        else:
            infeasible = point
    fraction = (alpha - feasible.constraint) / (infeasible.constraint - feasible.constraint)
    return feasible, max(fraction * (feasible.objective - infeasible.objective), 0.0)


def _best_at(
    problem: DyadicProblem, terms: CellTerms, multiplier: float, tolerance: float, strength: float
) -> HullTree:
    """Return the tree with the smallest objective + multiplier * constraint, by one pass over the cells."""
    labels_one = multiplier * terms.null < terms.other
    cost = np.where(labels_one, multiplier * terms.null, terms.other)
    cost += strength * terms.phi1 - multiplier * tolerance * terms.phi0
    penalised = problem.graph.with_terms(log_stop=-cost)
    tree, cells = best_tree_and_cells(problem, penalised, Best(best_sums(penalised)), 0)
    label = labels_one[cells]
    constraint = float((terms.null[cells] * label - tolerance * terms.phi0[cells]).sum())
    objective = float((terms.other[cells] * ~label + strength * terms.phi1[cells]).sum())
    return HullTree(multiplier, constraint, objective, tree, cells, label)


def _check_arguments(alpha: float, method: str, max_leaves: Any, tolerance: Any, strength: Any) -> None:
    """Raise ValueError if the arguments of `neyman_pearson_tree` are out of range, or do not fit together."""
    check_number("alpha", alpha, "a false-alarm level in (0, 1)", 5e-324, LARGEST_BELOW_ONE)
    check_choice("method", method, ("srm", "erm", "adaptive"))
    if max_leaves is None and method == "erm":
        raise ValueError("method='erm' needs the class of trees: give max_leaves.")
    if max_leaves is not None and method == "adaptive":
        raise ValueError("method='adaptive' has no limit on the leaves; leave max_leaves out.")
    if max_leaves is not None:
        check_count("max_leaves", max_leaves)
    check_factor("tolerance", tolerance)
    check_factor("strength", strength)
