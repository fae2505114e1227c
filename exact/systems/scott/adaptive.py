"""Neyman-Pearson trees with the spatially adaptive penalty, conjectured to be optimal (Scott 2004, section 3.5.2).

``min R1^(T) + strength Phi_1(T)`` subject to ``R0^(T) <= alpha + tolerance Phi_0(T)``, Phi_j the penalty of equation
2.9 on the rows of class j. Both sides add over leaves, so that for each multiplier of the constraint the best tree
comes from one pass; the trees of all multipliers are the lower hull of (constraint, objective).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pactree_mcmc.certificates import dyadic_bits
from pactree_mcmc.tree.tree import Tree

from ...answers import best_sums
from ...recursion.terms import with_terms
from ...semirings.algebras import Best
from .risk_minimisation import DyadicProblem, grown_tree

TOLERATED = 1e-9
"""Differences of objectives below this are rounding."""
MOST_PASSES = 200
LARGEST_MULTIPLIER = 1e6


class Weighed(NamedTuple):
    """What each cell adds as a leaf: rows (n_cells,) of both classes as fractions, and their penalties."""

    null: np.ndarray
    other: np.ndarray
    phi0: np.ndarray
    phi1: np.ndarray


class Point(NamedTuple):
    """A tree on the hull."""

    multiplier: float
    """Misses per false alarm, for which it is the best."""
    constraint: float
    """``R0^ - tolerance Phi_0``."""
    objective: float
    """``R1^ + strength Phi_1``."""
    tree: Tree
    cells: np.ndarray
    """Of its leaves, in preorder."""
    label: np.ndarray
    """Of its leaves, bool."""


def class_penalty(rows: np.ndarray, depth: np.ndarray, n: int, p: int, delta: float, cyclic: bool) -> np.ndarray:
    """The penalty of equation 2.9 for one class, whose label needs no code; each of two events has delta / 2."""
    level = dyadic_bits(depth, p, cyclic=cyclic) * math.log(2.0) - math.log(delta / 2.0)
    return np.sqrt(2.0 * 4.0 * np.maximum(rows, level) / n * level / n)


def smallest_on_hull(
    problem: DyadicProblem, weighed: Weighed, alpha: float, tolerance: float, strength: float
) -> tuple[Point, float]:
    """The tree on the hull with the least objective within the constraint, and how far below it another may be."""
    return follow_multipliers(lambda m: _best_at(problem, weighed, m, tolerance, strength), alpha)


def follow_multipliers(best_at: Callable[[float], Point], alpha: float) -> tuple[Point, float]:
    """The least objective among the points that are best for a multiplier and have a constraint of at most ``alpha``,
    and how far below it another point may be.
    """
    inside, outside = best_at(LARGEST_MULTIPLIER), best_at(0.0)
    if outside.constraint <= alpha + TOLERATED:
        return outside, 0.0
    for _ in range(MOST_PASSES):
        slope = (inside.objective - outside.objective) / (outside.constraint - inside.constraint)
        found = best_at(slope)
        if found.objective + slope * (found.constraint - outside.constraint) >= outside.objective - TOLERATED:
            break
        if found.constraint <= alpha + TOLERATED:
            inside = found
        else:
            outside = found
    fraction = (alpha - inside.constraint) / (outside.constraint - inside.constraint)
    return inside, max(fraction * (inside.objective - outside.objective), 0.0)


def _best_at(problem: DyadicProblem, w: Weighed, multiplier: float, tolerance: float, strength: float) -> Point:
    called = multiplier * w.null < w.other
    cost = np.where(called, multiplier * w.null, w.other) + strength * w.phi1 - multiplier * tolerance * w.phi0
    penalised = with_terms(problem.graph, log_stop=-cost)
    tree, cells = grown_tree(problem, penalised, Best(best_sums(penalised)), 0)
    label = called[cells]
    constraint = float((w.null[cells] * label - tolerance * w.phi0[cells]).sum())
    objective = float((w.other[cells] * ~label + strength * w.phi1[cells]).sum())
    return Point(multiplier, constraint, objective, tree, cells, label)
