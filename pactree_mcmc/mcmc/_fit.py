"""A density of trees fitted by maximum likelihood on decisions: two convex problems for each depth class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import expit

from ._decisions import Decisions, add_likelihood
from ._state import DENSITY_LEVELS, N_CELL_TERMS, N_WAY_TERMS

FEWEST = 20
"""Decisions below which a depth class keeps its parameters."""
RIDGE, FEATURE_RIDGE = 0.05, 0.05
"""Squared parameters, of terms of unit spread, weigh so much; so do those of features."""
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
    """Parameters (DENSITY_LEVELS, N_CELL_TERMS + N_WAY_TERMS + p) that make the decisions most likely."""
    out = start.copy()
    for level in range(DENSITY_LEVELS):
        cells = np.flatnonzero(decisions.level == level)
        if len(cells) >= FEWEST:
            out[level, :N_CELL_TERMS] = _fit_splits(decisions.cell_terms[cells], decisions.is_split[cells])
        split = cells[decisions.chosen[cells] >= 0]
        if len(split) >= FEWEST:
            out[level, N_CELL_TERMS:] = _fit_questions(decisions, split, out[level, N_CELL_TERMS:])
    return out


def _fit_splits(terms: np.ndarray, is_split: np.ndarray) -> np.ndarray:
    scale = _spread(terms)
    x = terms / scale

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        # einsum, and not BLAS, whose threads get in the way of the chains'
        z = np.einsum("ij,j->i", x, theta)
        p = expit(z)
        value = (np.logaddexp(0.0, z) - is_split * z).sum() + 0.5 * RIDGE * (theta**2).sum()
        gradient = np.einsum("ij,i->j", x, p - is_split) + RIDGE * theta
        return value, gradient, np.einsum("ij,i,ik->jk", x, p * (1.0 - p), x) + RIDGE * np.eye(len(theta))

    return _least(loss, np.zeros(N_CELL_TERMS)) / scale


def _fit_questions(decisions: Decisions, split: np.ndarray, start: np.ndarray) -> np.ndarray:
    first, last, chosen = decisions.first[split], decisions.first[split + 1], decisions.chosen[split]
    rows = np.concatenate([np.arange(a, b) for a, b in zip(first, last, strict=True)])
    scale = _spread(decisions.way_terms[rows])
    terms = decisions.way_terms / scale
    ridge = np.full(len(start), FEATURE_RIDGE)
    ridge[:N_WAY_TERMS] = RIDGE

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        gradient, hessian = ridge * theta, np.diag(ridge)
        chosen_well = add_likelihood(
            theta, terms, decisions.feature, decisions.offset, first, last, chosen, gradient, hessian
        )
        return chosen_well + 0.5 * (ridge * theta**2).sum(), gradient, hessian

    theta = start.copy()
    theta[:N_WAY_TERMS] *= scale
    theta = _least(loss, theta)
    theta[:N_WAY_TERMS] /= scale
    return theta


def _spread(terms: np.ndarray) -> np.ndarray:
    """Standard deviation of each term; of a constant its size, or 1."""
    deviation, size = terms.std(axis=0), np.abs(terms).max(axis=0)
    return np.where(deviation > 1e-6 * size, deviation, np.maximum(size, 1.0))


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
