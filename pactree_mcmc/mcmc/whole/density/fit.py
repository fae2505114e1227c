"""Fit of the density to decisions by maximum likelihood: two convex problems for each depth class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....core.special import expit
from ...state.records import DENSITY_LEVELS, N_CELL_TERMS
from ...state.tree import FEWEST_TOPS, first_density
from .decisions import Decisions, add_likelihood
from .terms import ROWS_TERM

RIDGE = 1.0
"""Precision of the normal prior about `first_density`, of the parameters of terms with unit standard deviation."""
LEAST_SPREAD = 1e-3
"""Standard deviation of a term below which it counts as constant."""
MOST_STEPS, ENOUGH = 50, 1e-3
"""Largest number of Newton steps, and the gain in nats below which they end."""


def joined_decisions(parts: Sequence[Decisions]) -> Decisions:
    """Return the decisions of several chains or rounds as one."""
    shift = np.cumsum([0] + [len(part.offset) for part in parts])
    first = [part.first[:-1] + s for part, s in zip(parts, shift[:-1], strict=True)] + [shift[-1:]]
    chosen = [np.where(part.chosen < 0, -1, part.chosen + s) for part, s in zip(parts, shift[:-1], strict=True)]
    whole = {name: np.concatenate([getattr(part, name) for part in parts]) for name in Decisions._fields}
    return Decisions(**(whole | {"first": np.concatenate(first), "chosen": np.concatenate(chosen)}))


def fit_density(decisions: Decisions) -> np.ndarray:
    """Return the parameters of a density (see `ChainState.density`) under which the decisions are most likely."""
    out = first_density()
    out[-1, 0] = max(FEWEST_TOPS, round(mean_depth(decisions)))
    for level, row in enumerate(out[:DENSITY_LEVELS]):
        cells = np.flatnonzero(decisions.level == level)
        row[:N_CELL_TERMS] = _fit_splits(decisions.cell_terms[cells], decisions.is_split[cells], row[:N_CELL_TERMS])
        split = cells[decisions.chosen[cells] >= 0]
        row[N_CELL_TERMS:] = _fit_choices(decisions, split, row[N_CELL_TERMS:])
    return out


def mean_depth(decisions: Decisions) -> float:
    """Return the mean depth of a row's leaf in the trees of the decisions, 0 without trees."""
    rows = np.expm1(decisions.cell_terms[:, ROWS_TERM])
    whole = float(rows[decisions.level == 0].sum())
    return float((rows * decisions.is_split).sum()) / whole if whole > 0.0 else 0.0


def _fit_splits(terms: np.ndarray, is_split: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Return the parameters of a logistic regression of ``is_split`` (m,) on the terms (m, N_CELL_TERMS)."""
    if len(terms) == 0:
        return start
    scale = spread_of(terms)
    x, first = terms / scale, start * scale

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        # einsum instead of BLAS, whose threads would compete with those of the chains
        z = np.einsum("ij,j->i", x, theta)
        p = expit(z)
        value = (np.logaddexp(0.0, z) - is_split * z).sum() + 0.5 * RIDGE * ((theta - first) ** 2).sum()
        gradient = np.einsum("ij,i->j", x, p - is_split) + RIDGE * (theta - first)
        return value, gradient, np.einsum("ij,i,ik->jk", x, p * (1.0 - p), x) + RIDGE * np.eye(len(theta))

    return _least(loss, first) / scale


def _fit_choices(decisions: Decisions, split: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Return the parameters of a conditional logit of the splits that the cells ``split`` took."""
    if len(split) == 0:
        return start
    first, last, chosen = decisions.first[split], decisions.first[split + 1], decisions.chosen[split]
    rows = np.concatenate([np.arange(a, b) for a, b in zip(first, last, strict=True)])
    scale = spread_of(decisions.way_terms[rows])
    terms = decisions.way_terms / scale

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        shift = theta - start * scale
        gradient, hessian = RIDGE * shift, RIDGE * np.eye(len(theta))
        value = add_likelihood(theta, terms, decisions.offset, first, last, chosen, gradient, hessian)
        return value + 0.5 * RIDGE * (shift**2).sum(), gradient, hessian

    return _least(loss, start * scale) / scale


def spread_of(terms: np.ndarray) -> np.ndarray:
    """Return the standard deviation of each term, or the larger of its size and 1 if it is constant.

    Terms are in nats, or logs of counts. A deviation below `LEAST_SPREAD` counts as none: that of rounding errors alone
    would give parameters so large that a split has another probability if its terms are computed in another order.
    """
    deviation, size = terms.std(axis=0), np.maximum(np.abs(terms).max(axis=0), 1.0)
    return np.where(deviation > np.maximum(1e-6 * size, LEAST_SPREAD), deviation, size)


def _least(loss: Any, theta: np.ndarray) -> np.ndarray:
    """Return the minimum of a convex loss, by Newton's method with steps halved until the loss decreases."""
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
