"""Neyman-Pearson learning with dyadic decision trees (Scott 2004, chapter 3).

Class 0 is the null: `false_alarm` is the fraction of its rows called 1, `miss` the fraction of class 1 called 0. The
trees with the fewest misses for each number of leaves and of false alarms come from one upward pass.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from pactree_mcmc.certificates import Bound
from pactree_mcmc.certificates.bound import check_delta
from pactree_mcmc.core.checks import BELOW_ONE, check_choice, check_count, check_number
from pactree_mcmc.core.special import gammaln, logsumexp
from pactree_mcmc.tree.arrays import LEAF
from pactree_mcmc.tree.tree import Tree

from ...answers import best_by_size, hull_by_size, most_leaves
from ...graph.cells import CellGraph
from ...recursion.draws import as_draws, grow
from ...recursion.inside_outside import CELL, FEATURE, WANTED
from ...recursion.terms import with_terms
from ...semirings.algebras import BestBySize
from .adaptive import Weighed, class_penalty, smallest_on_hull
from .risk_minimisation import DyadicProblem, check_factor, dyadic_problem

FIRST_SIZES = 16
"""Sizes tried first."""
MULTIPLIERS = 2.0 ** np.arange(-8.0, 9.0)
"""Lagrange multipliers, misses per false alarm, in the bounds that show how many sizes can matter."""


class NeymanPearsonTree(NamedTuple):
    """The tree with the fewest misses among those within the limit on false alarms."""

    tree: Tree
    """Its leaves have class probabilities 0 and 1. Cells without rows are labelled 0."""
    alpha: float
    false_alarm: float
    """Fraction of class 0 that the tree calls 1, on the training rows."""
    miss: float
    """Fraction of class 1 that it calls 0."""
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


def log_class_size(leaves: Any, n_features: int, *, cyclic: bool = False) -> np.ndarray:
    """Returns the log of the number of labelled dyadic trees with k ``leaves``: ``Catalan(k - 1) 2^k p^(k - 1)``.

    For cyclic trees, without a choice of coordinate, the power of p is left out.

    Examples
    --------
    >>> np.exp(log_class_size([1, 2, 3], 2)).round(6).tolist()
    [2.0, 8.0, 64.0]
    """
    k = np.asarray(leaves, dtype=np.float64)
    catalan = gammaln(2.0 * k - 1.0) - gammaln(k) - gammaln(k + 1.0)
    return catalan + k * math.log(2.0) + (0.0 if cyclic else (k - 1.0) * math.log(n_features))


def srm_tolerance(leaves: Any, n: int, delta: float, n_features: int, *, cyclic: bool = False) -> np.ndarray:
    """Tolerance of equation 3.8 for trees with so many ``leaves`` and a class of ``n`` rows.

    ``sqrt(2 (log |H^k| + k ln 2 + ln(2 / delta)) / n)``; half of it bounds, for all trees of all sizes at once, how far
    a fraction of the class's rows lies from its probability.

    Raises
    ------
    ValueError
        If ``delta`` is outside (0, 1).

    Examples
    --------
    >>> srm_tolerance([1, 10], 1000, 0.05, 2).round(4).tolist()
    [0.1007, 0.2541]
    """
    check_delta(delta)
    k = np.asarray(leaves, dtype=np.float64)
    size = log_class_size(k, n_features, cyclic=cyclic)
    return np.sqrt(2.0 * (size + k * math.log(2.0) + math.log(2.0 / delta)) / n)


def erm_tolerance(max_leaves: int, n: int, delta: float, n_features: int, *, cyclic: bool = False) -> float:
    """Tolerance of equation 3.3 for all trees of at most ``max_leaves`` leaves and a class of ``n`` rows.

    Raises
    ------
    ValueError
        If ``delta`` is outside (0, 1).
    """
    check_delta(delta)
    size = logsumexp(log_class_size(np.arange(1, max_leaves + 1), n_features, cyclic=cyclic))
    return math.sqrt(2.0 * (float(size) + math.log(2.0 / delta)) / n)


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
    """Returns the dyadic tree with the smallest miss rate whose false-alarm rate is at most ``alpha``, up to a
    tolerance.

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
    ValueError
        If y does not have two classes, or an argument is out of range.
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
    >>> x = np.arange(400.0)[:, None]
    >>> y = (x[:, 0] >= 200) | (x[:, 0] % 20 == 0)
    >>> found = neyman_pearson_tree(x, y, alpha=0.1, tolerance=0.0, strength=0.1, levels=3)
    >>> found.n_leaves, found.false_alarm, round(found.miss, 4)
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
    # a hair above the limit is rounding
    alarms = np.floor(limit * n0 * (1.0 + 1e-12)).astype(np.int64)
    found = _fewest_misses(problem.graph, sides, alarms, strength * eps1 / 2.0)
    i, tree = found.leaves - 1, _labelled(problem, found)
    observed0, observed1 = found.alarms / n0, found.misses / n1
    guarantee = Guarantee(
        _bound("false alarms", observed0, eps0[i] / 2.0, delta0, {"alpha + tolerance": alpha + float(eps0[i])}),
        _bound("misses", observed1, eps1[i] / 2.0, delta1, {}),
        eps1,
    )
    return NeymanPearsonTree(
        tree,
        float(alpha),
        observed0,
        observed1,
        found.leaves,
        float(limit[i]),
        observed1 + float(strength * eps1[i] / 2.0),
        problem.levels,
        most,
        guarantee,
    )


class _Sides(NamedTuple):
    """Rows of each class by cell, int64."""

    null: np.ndarray
    other: np.ndarray


class _Found(NamedTuple):
    semiring: BestBySize
    wanted: int
    leaves: int
    alarms: int
    misses: int


def _sides(problem: DyadicProblem) -> _Sides:
    classes = problem.model.classes_
    labels = [] if classes is None else classes.tolist()
    if len(labels) != 2:
        raise ValueError(f"y holds {len(labels)} class(es), {labels[:5]}; Neyman-Pearson learning is for two classes.")
    counts = np.rint(problem.counts).astype(np.int64)
    return _Sides(np.ascontiguousarray(counts[:, 0]), np.ascontiguousarray(counts[:, 1]))


def _fewest_misses(graph: CellGraph, sides: _Sides, alarms: np.ndarray, penalty: np.ndarray) -> _Found:
    """Returns the best tree if trees of k leaves may have ``alarms[k - 1]`` false alarms and have penalty ``penalty[k -
    1]``.
    """
    n1, most = int(sides.other[0]), len(alarms)
    # a leaf labelled 0 misses class 1, one labelled 1 alarms on class 0
    alarms_of = np.stack([np.zeros_like(sides.null), sides.null], axis=1)
    gain = np.stack([-sides.other, np.zeros_like(sides.other)], axis=1).astype(np.float64)
    plain = with_terms(graph, log_stop=0.0)
    floor, tried = None, min(FIRST_SIZES, most)
    while True:
        sizes = best_by_size(plain, tried, counts=alarms_of, gain=gain, max_count=int(alarms[tried - 1]))
        wide, tall = int(sizes.wide[0]), int(sizes.tall[0])
        misses = -sizes.value[: wide * tall].reshape(tall, wide)
        allowed = np.arange(tall)[:, None] <= alarms[:wide]
        cost = np.where(allowed, misses / n1 + penalty[:wide], np.inf)
        leaves = int(np.argmin(cost.min(axis=0)))
        t = int(np.argmin(cost[:, leaves]))
        if tried == most:
            break
        floor = _fewest_possible(plain, sides, alarms) if floor is None else floor
        useful = np.flatnonzero(floor / n1 + penalty < cost[t, leaves])
        if len(useful) == 0 or useful[-1] < tried:
            break
        tried = min(int(useful[-1]) + 1, 2 * tried)
    return _Found(sizes, t * wide + leaves, leaves + 1, t, int(misses[t, leaves]))


def _fewest_possible(graph: CellGraph, sides: _Sides, alarms: np.ndarray) -> np.ndarray:
    """Returns a lower bound (most,) on the misses of trees of each size within their ``alarms``.

    By Lagrangian duality: for each multiplier, the hull over sizes of misses plus multiplier times alarms, minus the
    multiplier times the alarms allowed.
    """
    k = np.arange(1.0, len(alarms) + 1.0)
    out = np.zeros(len(k))
    for multiplier in MULTIPLIERS:
        cost = np.minimum(sides.other.astype(np.float64), multiplier * sides.null)
        hull = hull_by_size(with_terms(graph, log_stop=-cost))
        corners = slice(int(hull.start[0]), int(hull.start[0] + hull.length[0]))
        out = np.maximum(out, -np.interp(k, hull.leaves[corners], hull.weight[corners]) - multiplier * alarms)
    return np.ceil(out - 1e-6)


def _adaptive(
    problem: DyadicProblem, sides: _Sides, alpha: float, tolerance: float, strength: float, delta: tuple[float, float]
) -> NeymanPearsonTree:
    graph, sample = problem.graph, problem.sample
    n0, n1 = int(sides.null[0]), int(sides.other[0])
    phi0, phi1 = (
        class_penalty(rows, graph.depth, n, sample.n_features, d, sample.cyclic)
        for rows, n, d in ((sides.null, n0, delta[0]), (sides.other, n1, delta[1]))
    )
    weighed = Weighed(sides.null / n0, sides.other / n1, phi0, phi1)
    found, gap = smallest_on_hull(problem, weighed, alpha, tolerance, strength)
    leaf, value = found.tree.feature == LEAF, np.eye(2)[np.zeros(found.tree.n_nodes, dtype=np.int64)]
    value[leaf] = np.eye(2)[found.label.astype(np.int64)]
    alarms = float(weighed.null[found.cells][found.label].sum())
    misses = float(weighed.other[found.cells][~found.label].sum())
    allowed, paid = float(phi0[found.cells].sum()), float(phi1[found.cells].sum())
    guarantee = Guarantee(
        _bound("false alarms", alarms, allowed, delta[0], {"alpha + tolerance": alpha + 2.0 * allowed}),
        _bound("misses", misses, paid, delta[1], {}),
        np.empty(0),
    )
    return NeymanPearsonTree(
        replace(found.tree, value=value),
        alpha,
        alarms,
        misses,
        int(leaf.sum()),
        min(alpha + tolerance * allowed, 1.0),
        found.objective,
        problem.levels,
        int(leaf.sum()),
        guarantee,
        gap,
    )


def _labelled(problem: DyadicProblem, found: _Found) -> Tree:
    """The tree, each leaf with the label its place among the coefficients stands for."""
    model, graph, sizes = problem.model, problem.graph, found.semiring
    grown = grow(model, graph, sizes, [found.wanted])
    nodes = grown.nodes
    cell, alarms = nodes[:, CELL], nodes[:, WANTED] // np.maximum(sizes.wide[nodes[:, CELL]], 1)
    counts = np.rint(problem.counts[cell])
    # without rows of class 0 either label raises no alarm; the other class's misses less
    is_one = np.where(counts[:, 0] == 0, counts[:, 1] > 0, alarms > 0)
    is_one = np.where(nodes[:, FEATURE] == LEAF, is_one, counts[:, 1] > counts[:, 0])
    tree = as_draws(model, graph, grown).distinct_tree(0)
    return replace(tree, value=np.stack([~is_one, is_one], axis=1).astype(np.float64))


def _bound(what: str, observed: float, deviation: float, delta: float, terms: dict[str, float]) -> Bound:
    parts = {"observed": observed, "deviation": float(deviation), **terms}
    return Bound(f"Neyman-Pearson, {what}", observed + float(deviation), delta, parts)


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
