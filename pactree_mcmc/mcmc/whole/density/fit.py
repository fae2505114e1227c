"""Fit of the density to decisions of trees of tuning by maximum likelihood: two convex problems for each depth class.

A decision is what a tree does at a splittable cell: to stop there, or to take one of the splits. A likelihood of all
splits would be costly, so it uses a random sample of a cell's splits that contains the one of the tree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp, log, log1p, sqrt
from typing import Any, NamedTuple

import numpy as np

from ....core.compile.jit import jit
from ....core.portable import round_fitted
from ....core.special import exp_sum
from ....model.split_prior.base import follows_design
from ...state.lists import is_leaf
from ...state.records import (
    MAX_SAMPLED_SPLITS,
    MIN_TOP_DEPTHS,
    N_CELL_TERMS,
    N_DEPTH_CLASSES,
    N_SPLIT_TERMS,
    NONE,
    initial_density,
)
from ...state.terms import next_node
from ...sums.split_sums import is_candidate
from .density import evaluate_cell
from .systematic import sample_splits
from .terms import ROWS_TERM, cell_terms_into, depth_class

SAMPLE_SIZE = 40.0  # expected number of splits in the sample of a cell's splits
CELL_COUNT, SPLIT_COUNT = range(2)  # indices of the entries of `Decisions.counts`


class Decisions(NamedTuple):
    """Decisions of trees at m splittable cells, with samples of the splits of these cells, r in all."""

    # the arrays may have spare entries
    level: np.ndarray  # (m,) int64: depth class of the cell, its row in the parameters of the density
    is_split: np.ndarray  # (m,) float64: 1 if the cell is split
    cell_terms: np.ndarray  # (m, N_CELL_TERMS) float64: covariates of the decision to split (`cell_terms_into`)
    # (m + 1,) int64: the sample of cell i is the splits ``first[i]`` to ``first[i + 1] - 1``, none for a leaf
    first: np.ndarray
    # (m,) int64: index of the split that the tree has, -1 for a leaf or a split that is never sampled
    choice: np.ndarray
    split_terms: np.ndarray  # (r, N_SPLIT_TERMS) float64: covariates of the sampled splits (`split_terms_into`)
    offset: np.ndarray  # (r,) float64: log R of each split minus the log probability that the split is in the sample
    counts: np.ndarray  # (2,) int64: numbers m (index CELL_COUNT) and r (SPLIT_COUNT) of entries in use


def new_decisions(n_cells: int) -> Decisions:
    """Return empty arrays with room for the decisions at ``n_cells`` cells, and for `SAMPLE_SIZE` splits of each."""
    n_splits = int(n_cells * SAMPLE_SIZE)
    return Decisions(
        level=np.zeros(n_cells, dtype=np.int64),
        is_split=np.zeros(n_cells),
        cell_terms=np.zeros((n_cells, N_CELL_TERMS)),
        first=np.zeros(n_cells + 1, dtype=np.int64),
        choice=np.full(n_cells, NONE, dtype=np.int64),
        split_terms=np.zeros((n_splits, N_SPLIT_TERMS)),
        offset=np.zeros(n_splits),
        counts=np.zeros(2, dtype=np.int64),
    )


@jit
def record_decisions(chain: Any, decisions: Any) -> None:
    """Append what the chain's tree does at its splittable cells to `decisions`, until these are full."""
    # cells that the density always or never splits are left out
    model, state = chain.model, chain.state
    node = np.int64(0)
    while node != NONE:
        m = decisions.counts[CELL_COUNT]
        n_free_splits = len(decisions.offset) - decisions.counts[SPLIT_COUNT]
        if m == len(decisions.level) or n_free_splits < MAX_SAMPLED_SPLITS:
            return
        if state.node[node].splittable:
            guide = state.stored.guide[evaluate_cell(model, state, node)]
            # infinite odds leave nothing to decide
            if abs(guide.odds) < 1e300:
                cell_terms_into(model, state, node, guide.odds)
                for j in range(N_CELL_TERMS):
                    decisions.cell_terms[m, j] = state.scratch.density.cell_terms[j]
                decisions.level[m] = depth_class(state, node)
                if not is_leaf(state, node):
                    decisions.is_split[m] = 1.0
                    if not follows_design(model.split_prior) and is_candidate(model, state, node):
                        _record_splits(chain, decisions, node)
                decisions.counts[CELL_COUNT] += 1
                decisions.first[m + 1] = decisions.counts[SPLIT_COUNT]
        node = next_node(state, node, np.int64(0))


@jit
def _record_splits(chain: Any, decisions: Any, node: int) -> None:
    """Append a random sample of the splits of an internal node's cell, which contains the split of the node."""
    first = decisions.counts[SPLIT_COUNT]
    n_sampled, own = sample_splits(
        chain.rng, chain.model, chain.state, node, SAMPLE_SIZE, decisions.split_terms, decisions.offset, first
    )
    if own != NONE:
        decisions.choice[decisions.counts[CELL_COUNT]] = first + own
    decisions.counts[SPLIT_COUNT] += n_sampled


def join_decisions(parts: Sequence[Decisions]) -> Decisions:
    """Return the decisions of several chains or rounds as one, without spare entries."""
    joined: dict[str, list[np.ndarray]] = {name: [] for name in Decisions._fields}
    n_splits = 0
    for part in parts:
        n_cells, n_samples = (int(part.counts[i]) for i in (CELL_COUNT, SPLIT_COUNT))
        lengths = dict.fromkeys(Decisions._fields, n_cells) | {"split_terms": n_samples, "offset": n_samples}
        lengths["counts"] = 2
        arrays = {name: getattr(part, name)[:n] for name, n in lengths.items()}
        arrays["first"] = arrays["first"] + n_splits
        arrays["choice"] = np.where(arrays["choice"] < 0, NONE, arrays["choice"] + n_splits)
        for name, array in arrays.items():
            joined[name].append(array)
        n_splits += n_samples
    joined["first"].append(np.array([n_splits]))
    counts = sum(joined["counts"])
    return Decisions(**{name: np.concatenate(arrays) for name, arrays in joined.items()} | {"counts": counts})


@jit
def conditional_logit_loss(
    theta: np.ndarray,
    terms: np.ndarray,
    offset: np.ndarray,
    first: np.ndarray,
    last: np.ndarray,
    choice: np.ndarray,
    gradient: np.ndarray,
    hessian: np.ndarray,
    logits: np.ndarray,
    mean_terms: np.ndarray,
) -> float:
    """Return minus the log likelihood of choosing split choice[i] of first[i]:last[i], and add its derivatives."""
    # With z_r = offset_r + theta . f_r for the terms f_r of split r, and p the probabilities in proportion to exp(z),
    # choice c adds log sum_r exp(z_r) - z_c to the sum, E_p[f] - f_c to `gradient` and the covariance E_p[f f'] -
    # E_p[f] E_p[f]' to `hessian`. `logits` and `mean_terms` are overwritten with z and E_p[f]
    n_terms, total = terms.shape[1], 0.0
    for i in range(len(first)):
        for r in range(first[i], last[i]):
            value = offset[r]
            for j in range(n_terms):
                value += theta[j] * terms[r, j]
            logits[r - first[i]] = value
        largest, norm = exp_sum(logits, last[i] - first[i])
        total -= logits[choice[i] - first[i]] - largest - log(norm)
        for j in range(n_terms):
            mean_terms[j] = 0.0
        for r in range(first[i], last[i]):
            weight = exp(logits[r - first[i]] - largest) / norm
            for j in range(n_terms):
                mean_terms[j] += weight * terms[r, j]
                for m in range(n_terms):
                    hessian[j, m] += weight * terms[r, j] * terms[r, m]
        for j in range(n_terms):
            gradient[j] += mean_terms[j] - terms[choice[i], j]
            for m in range(n_terms):
                hessian[j, m] -= mean_terms[j] * mean_terms[m]
    return total


# precision of the normal prior about `initial_density`, of the parameters of terms with unit standard deviation. Trees
# of neighbouring steps are alike, so decisions count for less than their number. With 1 every fourth team on vehicle
# got a poor density; other tables cost as much (benchmarks/README.md).
RIDGE = 10.0
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
