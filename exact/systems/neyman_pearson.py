"""Neyman-Pearson learning with dyadic decision trees (Scott 2004, chapter 3).

Class 0 is the null: `false_alarm` is the fraction of its rows called 1, `miss` the fraction of class 1 called 0.

With the tolerances of the thesis (NP-ERM, NP-SRM) the penalties depend on the number of leaves. One upward pass finds
the trees with the fewest misses for each number of leaves and of false alarms. With the spatially adaptive penalty,
conjectured to be optimal (section 3.5.2), the problem is ``min R1^(T) + strength Phi_1(T)`` subject to ``R0^(T) <=
alpha + tolerance Phi_0(T)``, with Phi_j the penalty of equation 2.9 on the rows of class j. Both sides add over leaves.
Therefore one pass finds the best tree for each multiplier of the constraint; the trees of all multipliers are the lower
hull of (constraint, objective).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from pactree_mcmc.certificates import Bound, dyadic_bits
from pactree_mcmc.certificates.bound import check_delta
from pactree_mcmc.core.checks import BELOW_ONE, check_choice, check_count, check_number
from pactree_mcmc.core.names import short_repr
from pactree_mcmc.tree.arrays import LEAF
from pactree_mcmc.tree.tree import Tree

from ..answers import best_by_size, best_sums, hull_by_size, most_leaves
from ..graph.cells import CellGraph
from ..recursion.inside_outside import CELL, FEATURE, WANTED
from ..recursion.semirings import Best, BestBySize
from ..recursion.terms import with_terms
from ..recursion.trees import as_draws, grow
from .dyadic_bounds import erm_tolerance, srm_tolerance
from .dyadic_trees import DyadicProblem, check_factor, dyadic_problem, grown_tree
from .pruning import root_vertices

FIRST_SIZES = 16
"""Number of sizes tried first."""
MULTIPLIERS = 2.0 ** np.arange(-8.0, 9.0)
"""Lagrange multipliers, misses per false alarm, in the bounds that show how many sizes can matter."""
ROUNDING = 1e-9
"""Difference of objectives below which they are equal but for rounding."""
MOST_PASSES = 200
"""Largest number of multipliers tried for the adaptive tree."""
LARGEST_MULTIPLIER = 1e6
"""Multiplier under which the best tree is taken to have the smallest constraint of all."""


class NeymanPearsonTree(NamedTuple):
    """The tree with the fewest misses among those within the limit on false alarms."""

    tree: Tree
    """The tree, with class probabilities 0 and 1 at the leaves. Cells without rows have label 0."""
    alpha: float
    false_alarm: float
    """Fraction of class 0 that the tree calls 1, on the training rows."""
    miss: float
    """Fraction of class 1 that the tree calls 0."""
    n_leaves: int
    limit: float
    """The limit on the false-alarm rate of a tree of this size: ``alpha`` plus its tolerance."""
    objective: float
    """Miss rate plus penalty, the smallest over all trees within their limits."""
    levels: int
    max_leaves: int
    """Largest number of leaves considered: larger trees cannot be better, or were not allowed."""
    guarantee: Guarantee
    gap: float = 0.0
    """Another tree may have an objective smaller by this much; 0 but for "adaptive"."""

    def __repr__(self) -> str:
        return short_repr(self)


class Guarantee(NamedTuple):
    """The bounds of Scott's Theorem 14, which hold simultaneously with probability at least ``1 - delta0 - delta1``."""

    false_alarm: Bound
    """Bound on the true false-alarm rate of the tree."""
    miss: Bound
    """Bound on its true miss rate."""
    excess: np.ndarray
    """(max_leaves,): entry k - 1 bounds the excess of its true miss rate over that of the best tree of k leaves whose
    true false-alarm rate is at most ``alpha``; with the constants of the theorem (``tolerance = strength = 1``). Empty
    for "adaptive", of which no such theorem is known."""

    def __repr__(self) -> str:
        return short_repr(self)


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
        "srm": tolerances eps0 and eps1 increase with the size of the tree (`srm_tolerance`). "erm": they are those of
        the class of all trees of at most ``max_leaves`` leaves (`erm_tolerance`), so that the penalty is the same for
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
    `docs/theory_dyadic.md`). Minimum empirical risk trees over (leaves, false alarms), from the smallest cells up
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
    sides = _sides(problem)
    if method == "adaptive":
        return _adaptive(problem, sides, float(alpha), tolerance, strength, (delta0, delta1))
    most = int(most_leaves(with_terms(problem.graph, log_stop=0.0))[0])
    most = most if max_leaves is None else min(most, int(max_leaves))
    p, n0, n1 = problem.sample.n_features, int(sides.null[0]), int(sides.other[0])
    k = np.arange(1, most + 1)
    if method == "srm":
        eps0, eps1 = (srm_tolerance(k, n, d, p, cyclic=cyclic) for n, d in ((n0, delta0), (n1, delta1)))
    else:
        allowed = int(max_leaves or most)
        eps0, eps1 = (
            np.full(most, erm_tolerance(allowed, n, d, p, cyclic=cyclic)) for n, d in ((n0, delta0), (n1, delta1))
        )
    limit = np.minimum(alpha + tolerance * eps0 / 2.0, 1.0)
    # a fraction that exceeds the limit by rounding alone is within it
    alarms = np.floor(limit * n0 * (1.0 + 1e-12)).astype(np.int64)
    best = _fewest_misses(problem.graph, sides, alarms, strength * eps1 / 2.0)
    i, observed0, observed1 = best.leaves - 1, best.alarms / n0, best.misses / n1
    half0, half1 = float(eps0[i]) / 2.0, float(eps1[i]) / 2.0
    return NeymanPearsonTree(
        tree=_labelled(problem, best),
        alpha=float(alpha),
        false_alarm=observed0,
        miss=observed1,
        n_leaves=best.leaves,
        limit=float(limit[i]),
        objective=observed1 + float(strength * half1),
        levels=problem.levels,
        max_leaves=most,
        guarantee=_guarantee(float(alpha), (observed0, observed1), (half0, half1), (delta0, delta1), eps1),
    )


class _Sides(NamedTuple):
    """Rows of each class by cell, int64."""

    null: np.ndarray
    other: np.ndarray


def _sides(problem: DyadicProblem) -> _Sides:
    classes = problem.model.classes_
    labels = [] if classes is None else classes.tolist()
    if len(labels) != 2:
        raise ValueError(f"y holds {len(labels)} class(es), {labels[:5]}; Neyman-Pearson learning is for two classes.")
    counts = np.rint(problem.counts).astype(np.int64)
    return _Sides(np.ascontiguousarray(counts[:, 0]), np.ascontiguousarray(counts[:, 1]))


class _Best(NamedTuple):
    """The best tree, before it is grown."""

    semiring: BestBySize
    wanted: int  # Number of the tree among the root's, in the semiring's terms
    leaves: int
    alarms: int
    misses: int


def _fewest_misses(graph: CellGraph, sides: _Sides, alarms: np.ndarray, penalty: np.ndarray) -> _Best:
    """Return the best tree if trees of k leaves may have ``alarms[k - 1]`` false alarms and cost ``penalty[k - 1]``."""
    n1, most = int(sides.other[0]), len(alarms)
    # a leaf labelled 0 misses class 1, one labelled 1 alarms on class 0
    alarms_of = np.stack([np.zeros_like(sides.null), sides.null], axis=1)
    gain = np.stack([-sides.other, np.zeros_like(sides.other)], axis=1).astype(np.float64)
    plain = with_terms(graph, log_stop=0.0)
    floor, most_tried = None, min(FIRST_SIZES, most)
    while True:
        sizes = best_by_size(plain, most_tried, counts=alarms_of, gain=gain, max_count=int(alarms[most_tried - 1]))
        wide, tall = int(sizes.wide[0]), int(sizes.tall[0])
        misses = -sizes.value[: wide * tall].reshape(tall, wide)
        allowed = np.arange(tall)[:, None] <= alarms[:wide]
        cost = np.where(allowed, misses / n1 + penalty[:wide], np.inf)
        leaves = int(np.argmin(cost.min(axis=0)))
        t = int(np.argmin(cost[:, leaves]))
        if most_tried == most:
            break
        floor = _fewest_possible(plain, sides, alarms) if floor is None else floor
        useful = np.flatnonzero(floor / n1 + penalty < cost[t, leaves])
        if len(useful) == 0 or useful[-1] < most_tried:
            break
        most_tried = min(int(useful[-1]) + 1, 2 * most_tried)
    return _Best(sizes, t * wide + leaves, leaves + 1, t, int(misses[t, leaves]))


def _fewest_possible(graph: CellGraph, sides: _Sides, alarms: np.ndarray) -> np.ndarray:
    """Return a lower bound (most,) on the misses of trees of each size within their ``alarms``.

    By Lagrangian duality: for each multiplier, the hull over sizes of misses plus multiplier times alarms, minus the
    multiplier times the alarms allowed.
    """
    k = np.arange(1.0, len(alarms) + 1.0)
    out = np.zeros(len(k))
    for multiplier in MULTIPLIERS:
        cost = np.minimum(sides.other.astype(np.float64), multiplier * sides.null)
        leaves, weight = root_vertices(hull_by_size(with_terms(graph, log_stop=-cost)))
        out = np.maximum(out, -np.interp(k, leaves, weight) - multiplier * alarms)
    return np.ceil(out - 1e-6)


def _labelled(problem: DyadicProblem, best: _Best) -> Tree:
    """Grow the tree and label each leaf 1 if its entry of the table has false alarms."""
    model, graph, sizes = problem.model, problem.graph, best.semiring
    grown = grow(model, graph, sizes, [best.wanted])
    nodes = grown.nodes
    cell, alarms = nodes[:, CELL], nodes[:, WANTED] // np.maximum(sizes.wide[nodes[:, CELL]], 1)
    counts = np.rint(problem.counts[cell])
    # without rows of class 0 either label raises no alarm; the other class's misses less
    is_one = np.where(counts[:, 0] == 0, counts[:, 1] > 0, alarms > 0)
    is_one = np.where(nodes[:, FEATURE] == LEAF, is_one, counts[:, 1] > counts[:, 0])
    tree = as_draws(model, graph, grown).distinct_tree(0)
    return replace(tree, value=np.stack([~is_one, is_one], axis=1).astype(np.float64))


def _guarantee(
    alpha: float,
    observed: tuple[float, float],
    deviation: tuple[float, float],
    delta: tuple[float, float],
    excess: np.ndarray,
) -> Guarantee:
    """Return the bounds of both classes: the observed rates plus their deviations."""
    false_alarm, miss = (
        Bound(f"Neyman-Pearson, {name}", rate + gap, level, {"observed": rate, "deviation": gap})
        for name, rate, gap, level in zip(("false alarms", "misses"), observed, deviation, delta, strict=True)
    )
    false_alarm.terms["alpha + tolerance"] = alpha + 2.0 * deviation[0]
    return Guarantee(false_alarm, miss, excess)


class CellTerms(NamedTuple):
    """The terms that each cell adds as a leaf: rows (n_cells,) of both classes as fractions, and their penalties."""

    null: np.ndarray
    other: np.ndarray
    phi0: np.ndarray
    phi1: np.ndarray


class Point(NamedTuple):
    """A tree on the hull."""

    multiplier: float  # Misses per false alarm, for which it is the best
    constraint: float  # ``R0^ - tolerance Phi_0``
    objective: float  # ``R1^ + strength Phi_1``
    tree: Tree
    cells: np.ndarray  # Cells of the leaves, in preorder
    label: np.ndarray  # Labels of the leaves, bool


def class_penalty(rows: np.ndarray, depth: np.ndarray, n: int, p: int, delta: float, cyclic: bool) -> np.ndarray:
    """Return the penalty of equation 2.9 for one class, whose label needs no code; each of two events has delta / 2."""
    level = dyadic_bits(depth, p, cyclic=cyclic) * math.log(2.0) - math.log(delta / 2.0)
    return np.sqrt(2.0 * 4.0 * np.maximum(rows, level) / n * level / n)


def _adaptive(
    problem: DyadicProblem, sides: _Sides, alpha: float, tolerance: float, strength: float, delta: tuple[float, float]
) -> NeymanPearsonTree:
    """Return the best tree on the hull under the spatially adaptive penalties."""
    n0, n1 = int(sides.null[0]), int(sides.other[0])
    p, cyclic = problem.sample.n_features, problem.sample.cyclic
    phi0, phi1 = (
        class_penalty(rows, problem.graph.depth, n, p, d, cyclic)
        for rows, n, d in ((sides.null, n0, delta[0]), (sides.other, n1, delta[1]))
    )
    terms = CellTerms(sides.null / n0, sides.other / n1, phi0, phi1)
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


def follow_multipliers(best_at: Callable[[float], Point], alpha: float) -> tuple[Point, float]:
    """Search the hull of (constraint, objective), whose points are best for some multiplier.

    Returns
    -------
    Point
        The one with the least objective among those with a constraint of at most ``alpha``.
    float
        A bound on how far below it another tree may be, which is not on the hull.
    """
    inside, outside = best_at(LARGEST_MULTIPLIER), best_at(0.0)
    if outside.constraint <= alpha + ROUNDING:
        return outside, 0.0
    for _ in range(MOST_PASSES):
        slope = (inside.objective - outside.objective) / (outside.constraint - inside.constraint)
        point = best_at(slope)
        if point.objective + slope * (point.constraint - outside.constraint) >= outside.objective - ROUNDING:
            break
        if point.constraint <= alpha + ROUNDING:
            inside = point
        else:
            outside = point
    fraction = (alpha - inside.constraint) / (outside.constraint - inside.constraint)
    return inside, max(fraction * (inside.objective - outside.objective), 0.0)


def _best_at(problem: DyadicProblem, terms: CellTerms, multiplier: float, tolerance: float, strength: float) -> Point:
    """Return the tree with the least ``objective + multiplier * constraint``."""
    called = multiplier * terms.null < terms.other
    cost = np.where(called, multiplier * terms.null, terms.other)
    cost += strength * terms.phi1 - multiplier * tolerance * terms.phi0
    penalised = with_terms(problem.graph, log_stop=-cost)
    tree, cells = grown_tree(problem, penalised, Best(best_sums(penalised)), 0)
    label = called[cells]
    constraint = float((terms.null[cells] * label - tolerance * terms.phi0[cells]).sum())
    objective = float((terms.other[cells] * ~label + strength * terms.phi1[cells]).sum())
    return Point(multiplier, constraint, objective, tree, cells, label)


def _check_arguments(alpha: float, method: str, max_leaves: Any, tolerance: Any, strength: Any) -> None:
    check_number("alpha", alpha, "a false-alarm level in (0, 1)", 5e-324, BELOW_ONE)
    check_choice("method", method, ("srm", "erm", "adaptive"))
    if max_leaves is None and method == "erm":
        raise ValueError("method='erm' needs the class of trees: give max_leaves.")
    if max_leaves is not None and method == "adaptive":
        raise ValueError("method='adaptive' has no limit on the leaves; leave max_leaves out.")
    if max_leaves is not None:
        check_count("max_leaves", max_leaves)
    check_factor("tolerance", tolerance)
    check_factor("strength", strength)
