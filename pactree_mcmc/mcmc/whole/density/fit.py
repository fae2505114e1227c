"""A density of trees fitted by maximum likelihood on decisions: two convex problems for each depth class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....core.special import expit
from ...state.arrays import FEWEST_TOPS
from ...state.records import DENSITY_LEVELS, N_CELL_TERMS, N_STRATA, N_TOPS, N_WAY_TERMS
from .decisions import Decisions, add_likelihood
from .terms import ROWS_TERM

FEWEST = 20
"""Decisions below which a depth class keeps its parameters."""
RIDGE, FEATURE_RIDGE, STRATUM_RIDGE = 0.05, 1e6, 1.0
"""Weight of squared parameters: of terms of unit spread, of features, and of a stratum's less those of all trees."""
NO_FEATURES = 1e6
"""Weight with which those of features are nothing."""
LEAST_SPREAD = 1e-3
"""Standard deviation of a term below which it counts as constant."""
MOST_STEPS, ENOUGH = 50, 1e-3
"""Newton steps, and the gain in nats below which they end."""


def joined_decisions(parts: Sequence[Decisions]) -> Decisions:
    """All together."""
    shift = np.cumsum([0] + [len(part.offset) for part in parts])
    first = [part.first[:-1] + s for part, s in zip(parts, shift[:-1], strict=True)] + [shift[-1:]]
    chosen = [np.where(part.chosen < 0, -1, part.chosen + s) for part, s in zip(parts, shift[:-1], strict=True)]
    whole = {name: np.concatenate([getattr(part, name) for part in parts]) for name in Decisions._fields}
    return Decisions(**(whole | {"first": np.concatenate(first), "chosen": np.concatenate(chosen)}))


def fit_density(decisions: Decisions, start: np.ndarray) -> np.ndarray:
    """Parameters of a density (see `ChainState.density`) that make the decisions most likely.

    Those of all roots together come first; those of a stratum are drawn to them by a ridge. Strata are the features
    at the roots of most decisions.
    """
    out, column = start.copy(), N_CELL_TERMS + N_WAY_TERMS
    out[-1, N_TOPS] = max(FEWEST_TOPS, round(mean_depth(decisions)))
    for level in range(DENSITY_LEVELS):
        # what is good below some roots is not below another: all trees together say nothing of features there
        features = FEATURE_RIDGE if level == 0 else NO_FEATURES
        _fit_row(decisions, np.flatnonzero(decisions.level == level), out[level], RIDGE, features)
    at_root, count = np.unique(decisions.root[decisions.level == 1], return_counts=True)
    at_root, count = at_root[count >= FEWEST], count[count >= FEWEST]
    frequent = at_root[np.argsort(-count, kind="stable")][: N_STRATA - 1]
    out[-1, column:] = 0.0
    for stratum in range(1, N_STRATA):
        rows = slice(1 + stratum * (DENSITY_LEVELS - 1), 1 + (stratum + 1) * (DENSITY_LEVELS - 1))
        out[rows] = out[1:DENSITY_LEVELS]
        if stratum <= len(frequent):
            out[-1, column + frequent[stratum - 1]] = stratum
            here = decisions.root == frequent[stratum - 1]
            for level, row in enumerate(out[rows], start=1):
                cells = np.flatnonzero(here & (decisions.level == level))
                _fit_row(decisions, cells, row, STRATUM_RIDGE, FEATURE_RIDGE)
    return out


def mean_depth(decisions: Decisions) -> float:
    """Mean depth of a row's leaf in the trees of the decisions, 0 of none."""
    rows = np.expm1(decisions.cell_terms[:, ROWS_TERM])
    whole = float(rows[decisions.level == 0].sum())
    return float((rows * decisions.is_split).sum()) / whole if whole > 0.0 else 0.0


def _fit_row(decisions: Decisions, cells: np.ndarray, row: np.ndarray, ridge: float, features: float) -> None:
    """Fit one row of parameters to the decisions of some cells, in place, from what stands in it."""
    center = np.zeros(len(row)) if ridge == RIDGE else row.copy()
    if len(cells) >= FEWEST:
        terms, is_split = decisions.cell_terms[cells], decisions.is_split[cells]
        row[:N_CELL_TERMS] = _fit_splits(terms, is_split, center[:N_CELL_TERMS], ridge)
    split = cells[decisions.chosen[cells] >= 0]
    if len(split) >= FEWEST:
        ridges = np.full(len(row) - N_CELL_TERMS, ridge)
        ridges[N_WAY_TERMS:] = features
        row[N_CELL_TERMS:] = _fit_choices(decisions, split, row[N_CELL_TERMS:], center[N_CELL_TERMS:], ridges)


def _fit_splits(terms: np.ndarray, is_split: np.ndarray, center: np.ndarray, ridge: float) -> np.ndarray:
    scale = spread_of(terms)
    x, center = terms / scale, center * scale

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        # einsum, and not BLAS, whose threads get in the way of the chains'
        z, apart = np.einsum("ij,j->i", x, theta), theta - center
        p = expit(z)
        value = (np.logaddexp(0.0, z) - is_split * z).sum() + 0.5 * ridge * (apart**2).sum()
        gradient = np.einsum("ij,i->j", x, p - is_split) + ridge * apart
        return value, gradient, np.einsum("ij,i,ik->jk", x, p * (1.0 - p), x) + ridge * np.eye(len(theta))

    return _least(loss, center) / scale


def _fit_choices(
    decisions: Decisions, split: np.ndarray, start: np.ndarray, center: np.ndarray, ridges: np.ndarray
) -> np.ndarray:
    first, last, chosen = decisions.first[split], decisions.first[split + 1], decisions.chosen[split]
    rows = np.concatenate([np.arange(a, b) for a, b in zip(first, last, strict=True)])
    scale = np.ones(len(start))
    scale[:N_WAY_TERMS] = spread_of(decisions.way_terms[rows])
    terms, center = decisions.way_terms / scale[:N_WAY_TERMS], center * scale

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        apart = theta - center
        gradient, hessian = ridges * apart, np.diag(ridges)
        chosen_well = add_likelihood(
            theta, terms, decisions.feature, decisions.offset, first, last, chosen, gradient, hessian
        )
        return chosen_well + 0.5 * (ridges * apart**2).sum(), gradient, hessian

    return _least(loss, start * scale) / scale


def spread_of(terms: np.ndarray) -> np.ndarray:
    """Return the standard deviation of each term, or the larger of its size and 1 if it is constant.

    Terms are in nats, or logs of counts. A smaller deviation than `LEAST_SPREAD` counts as none: that of rounding errors
    alone would give parameters so large that the same split has another probability if its terms are computed in
    another order.
    """
    deviation, size = terms.std(axis=0), np.maximum(np.abs(terms).max(axis=0), 1.0)
    return np.where(deviation > np.maximum(1e-6 * size, LEAST_SPREAD), deviation, size)


def _least(loss: Any, theta: np.ndarray) -> np.ndarray:
    """Where a convex loss is least, by Newton's steps, halved until they lead down."""
    value, gradient, hessian = loss(theta)
    for _ in range(MOST_STEPS):
        step = np.linalg.solve(hessian, gradient)
        descent = float((step * gradient).sum())
        size, there = 1.0, loss(theta - step)
        while not there[0] <= value - 0.25 * size * descent and size > 1e-4:
            size /= 2.0
            there = loss(theta - size * step)
        if not there[0] < value:
            break
        theta, (value, gradient, hessian) = theta - size * step, there
        if descent < ENOUGH:
            break
    return theta
