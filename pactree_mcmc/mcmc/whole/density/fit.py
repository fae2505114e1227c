"""Fit of the density to decisions by maximum likelihood: two convex problems for each depth class."""

from __future__ import annotations

from collections.abc import Callable
from math import exp, log1p, sqrt

import numpy as np

from ....core.compile.jit import jit
from ....core.portable import round_fitted
from ...state.records import N_CELL_TERMS, N_DEPTH_CLASSES
from ...state.tree import MIN_TOP_DEPTHS, initial_density
from .decisions import Decisions, conditional_logit_loss
from .terms import ROWS_TERM

# precision of the normal prior about `initial_density`, of the parameters of terms with unit standard deviation. With
# .05 the run cost as much (benchmarks/README.md).
RIDGE = 1.0
MIN_DEVIATION = 1e-3  # standard deviation of a term below which it counts as constant
MIN_NEWTON_GAIN = 1e-3  # gain of a Newton step, in nats, below which the fit ends


def fit_density(decisions: Decisions) -> np.ndarray:
    """Return the most probable parameters given the decisions, to six digits, by depth class, then `mean_depth`."""
    out = initial_density()
    out[-1, 0] = max(MIN_TOP_DEPTHS, round(mean_depth(decisions)))
    has_choice = decisions.choice >= 0
    level_of_split = np.repeat(np.where(has_choice, decisions.level, -1), np.diff(decisions.first))
    for level, row in enumerate(out[:N_DEPTH_CLASSES]):
        cells = decisions.level == level
        terms, is_split = decisions.cell_terms[cells], decisions.is_split[cells]
        row[:N_CELL_TERMS] = _maximize_posterior(logistic_loss, terms, row[:N_CELL_TERMS], terms, is_split)
        cells = np.flatnonzero(cells & has_choice)
        choices = decisions.offset, decisions.first[cells], decisions.first[cells + 1], decisions.choice[cells]
        terms = decisions.split_terms[level_of_split == level]
        row[N_CELL_TERMS:] = _maximize_posterior(
            _choice_loss, terms, row[N_CELL_TERMS:], decisions.split_terms, *choices
        )
    return round_fitted(out)


def mean_depth(decisions: Decisions) -> float:
    """Return the depth of a row's leaf, averaged over rows and over the trees of the decisions, 0 without trees."""
    # the term is log(1 + rows)
    rows = np.rint(np.expm1(decisions.cell_terms[:, ROWS_TERM]))
    root_rows = float(rows[decisions.level == 0].sum())
    return float((rows * decisions.is_split).sum()) / root_rows if root_rows > 0.0 else 0.0


@jit
def logistic_loss(
    theta: np.ndarray, gradient: np.ndarray, hessian: np.ndarray, terms: np.ndarray, is_split: np.ndarray
) -> float:
    """Return minus the log likelihood of a logistic regression of ``is_split`` (m,) on ``terms`` (m, n_terms)."""
    n_terms, total = len(theta), 0.0
    for i in range(len(terms)):
        z = 0.0
        for j in range(n_terms):
            z += theta[j] * terms[i, j]
        # log(1 + e^z) and the probability of a split, without overflow
        small = exp(-abs(z))
        total += max(z, 0.0) + log1p(small) - is_split[i] * z
        probability = (1.0 if z >= 0.0 else small) / (1.0 + small)
        for j in range(n_terms):
            gradient[j] += (probability - is_split[i]) * terms[i, j]
            weight = probability * (1.0 - probability) * terms[i, j]
            for m in range(n_terms):
                hessian[j, m] += weight * terms[i, m]
    return total


@jit
def solve_in_place(matrix: np.ndarray, right: np.ndarray) -> None:
    """Overwrite ``right`` (n,) by the solution of ``matrix x = right``, and ``matrix`` by its Cholesky root."""
    n = len(right)
    for j in range(n):
        for i in range(j, n):
            rest = matrix[i, j]
            for k in range(j):
                rest -= matrix[i, k] * matrix[j, k]
            matrix[i, j] = sqrt(rest) if i == j else rest / matrix[j, j]
    for j in range(n):
        for k in range(j):
            right[j] -= matrix[j, k] * right[k]
        right[j] /= matrix[j, j]
    for j in range(n - 1, -1, -1):
        for k in range(j + 1, n):
            right[j] -= matrix[k, j] * right[k]
        right[j] /= matrix[j, j]


def _choice_loss(
    theta: np.ndarray,
    gradient: np.ndarray,
    hessian: np.ndarray,
    terms: np.ndarray,
    offset: np.ndarray,
    first: np.ndarray,
    last: np.ndarray,
    choice: np.ndarray,
) -> float:
    """Call `conditional_logit_loss` for the choices of splits with working arrays."""
    z = np.empty((last - first).max())
    mean = np.empty_like(theta)
    return conditional_logit_loss(theta, terms, offset, first, last, choice, gradient, hessian, z, mean)


def _maximize_posterior(
    add_loss: Callable[..., float], terms_of_scale: np.ndarray, start: np.ndarray, terms: np.ndarray, *data: np.ndarray
) -> np.ndarray:
    """Return the parameters that maximize the posterior density, under a normal prior about `start`."""
    # The prior is for terms divided by their standard deviations over the rows of `terms_of_scale`. Newton's method on
    # the convex loss; each step is halved until the loss decreases by at least a quarter of what its slope predicts
    if len(terms_of_scale) == 0:
        return start
    scale = term_scales(terms_of_scale)
    scaled_start, terms = start * scale, terms / scale

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        shift = theta - scaled_start
        gradient, hessian = RIDGE * shift, RIDGE * np.eye(len(theta))
        value = add_loss(theta, gradient, hessian, terms, *data)
        return value + 0.5 * RIDGE * float((shift**2).sum()), gradient, hessian

    theta, (value, gradient, hessian) = scaled_start, loss(scaled_start)
    while True:
        step = gradient.copy()
        solve_in_place(hessian, step)
        descent = float((step * gradient).sum())
        size, candidate = 1.0, loss(theta - step)
        while not candidate[0] <= value - 0.25 * size * descent and size > 1e-4:
            size /= 2.0
            candidate = loss(theta - size * step)
        if not candidate[0] < value:
            return theta / scale
        theta, (value, gradient, hessian) = theta - size * step, candidate
        if descent < MIN_NEWTON_GAIN:
            return theta / scale


def term_scales(terms: np.ndarray) -> np.ndarray:
    """Return the standard deviation of each column of `terms`, or if constant, its largest size, at least 1."""
    # Terms are in nats, or logs of counts. A deviation below `MIN_DEVIATION` counts as none: that of rounding errors
    # alone would give parameters so large that a split has another probability if its terms are computed in another
    # order
    deviation, size = terms.std(axis=0), np.maximum(np.abs(terms).max(axis=0), 1.0)
    return np.where(deviation > MIN_DEVIATION, deviation, size)
