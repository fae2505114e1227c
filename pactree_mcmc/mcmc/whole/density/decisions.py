"""Decisions at the cells of trees of tuning, to which the density is fitted.

A decision is what a tree does at a splittable cell: to stop there, or to take one of the splits. A likelihood of all
splits would be costly, so it uses a random sample of a cell's splits that contains the one of the tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log
from typing import Any, NamedTuple

import numpy as np

from ....core.compile.jit import jit
from ....core.logsum import exp_sum
from ....model.split_prior.geometry import follows_design
from ...state.lists import is_leaf
from ...state.records import N_CELL_TERMS, N_SPLIT_TERMS, NONE
from ...state.terms import next_node
from ...sums.split_sums import is_candidate
from .density import evaluate_cell
from .systematic import sample_splits
from .terms import cell_terms_into, depth_class

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
        if m == len(decisions.level) or len(state.scratch.density.branch) > n_free_splits:
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
    work, n_splits = chain.state.scratch.density, decisions.counts[SPLIT_COUNT]
    n_sampled = sample_splits(chain.rng, chain.model, chain.state, node, SAMPLE_SIZE, node, np.int64(0))
    work.is_exhausted[0] = 0
    for j in range(n_sampled):
        branch = work.branch[j]
        for i in range(N_SPLIT_TERMS):
            decisions.split_terms[n_splits + j, i] = work.branch_terms[j, i]
        decisions.offset[n_splits + j] = branch.log_rule - branch.log_p
        if branch.in_tree:
            decisions.choice[decisions.counts[CELL_COUNT]] = n_splits + j
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
