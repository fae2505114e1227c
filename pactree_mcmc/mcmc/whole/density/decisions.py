"""Decisions in the trees of tuning, cell by cell: the data to which the density is fitted."""

from __future__ import annotations

from math import exp, log
from typing import Any, NamedTuple

import numpy as np

from ....core.compile.jit import jit
from ....core.logsum import exp_sum
from ....model.split_prior.geometry import follows_design
from ...state.lists import is_leaf
from ...state.records import DENSITY_LEVELS, N_CELL_TERMS, N_WAY_TERMS, NONE
from ...state.terms import next_node
from ...sums.split_sums import is_candidate
from .density import known
from .systematic import sample_ways
from .terms import cell_terms_into

SAMPLED = 40.0
"""Expected number of splits in the sample of a cell's splits."""
N_CELLS, N_SPLITS = range(2)


class Decisions(NamedTuple):
    """Decisions of splittable cells. The arrays may have room for more than are used."""

    level: np.ndarray
    """(m,) int64: depth class of the cell."""
    is_split: np.ndarray
    """(m,) float64: 1 if the cell is split."""
    cell_terms: np.ndarray
    """(m, N_CELL_TERMS) float64: terms of the cells."""
    first: np.ndarray
    """(m + 1,) int64: index of the first split in its sample. The sample of a leaf is empty."""
    chosen: np.ndarray
    """(m,) int64: index of the split in the tree, -1 for a leaf."""
    way_terms: np.ndarray
    """(r, N_WAY_TERMS) float64: terms of the sampled splits."""
    offset: np.ndarray
    """(r,) float64: log R minus the log probability of being sampled."""
    used: np.ndarray
    """(2,) int64: N_CELLS, N_SPLITS."""


def new_decisions(n_cells: int) -> Decisions:
    """Return empty arrays for this number of cells."""
    n_splits = int(n_cells * SAMPLED)
    return Decisions(
        np.zeros(n_cells, dtype=np.int64),
        np.zeros(n_cells),
        np.zeros((n_cells, N_CELL_TERMS)),
        np.zeros(n_cells + 1, dtype=np.int64),
        np.zeros(n_cells, dtype=np.int64),
        np.zeros((n_splits, N_WAY_TERMS)),
        np.zeros(n_splits),
        np.zeros(2, dtype=np.int64),
    )


@jit
def note_decisions(walk: Any, out: Any) -> None:
    """Append the decisions of the present tree, as far as there is room."""
    model, state = walk.model, walk.state
    node = np.int64(0)
    while node != NONE:
        m, r = out.used[N_CELLS], out.used[N_SPLITS]
        if m == len(out.level) or r + len(state.scratch.density.branch) > len(out.offset):
            return
        if state.node[node].splittable:
            guide = state.stored.guide[known(model, state, node)]
            if abs(guide.odds) < 1e300:
                cell_terms_into(model, state, node, guide.odds)
                for j in range(N_CELL_TERMS):
                    out.cell_terms[m, j] = state.scratch.density.cell_terms[j]
                depth = state.node[node].depth
                out.level[m], out.is_split[m] = min(depth, np.int64(DENSITY_LEVELS - 1)), 0.0
                out.chosen[m] = NONE
                if not is_leaf(state, node):
                    out.is_split[m] = 1.0
                    if not follows_design(model.split_prior) and is_candidate(model, state, node):
                        note_ways(walk, out, node)
                out.used[N_CELLS] += 1
                out.first[m + 1] = out.used[N_SPLITS]
        node = next_node(state, node, np.int64(0))


@jit
def note_ways(walk: Any, out: Any, node: int) -> None:
    """Append a sample of the splits of an internal node."""
    state, r = walk.state, out.used[N_SPLITS]
    n = sample_ways(walk.rng, walk.model, state, node, SAMPLED, node, np.int64(0))
    state.scratch.density.is_exhausted[0] = 0
    for j in range(n):
        branch = state.scratch.density.branch[j]
        for i in range(N_WAY_TERMS):
            out.way_terms[r + j, i] = state.scratch.density.branch_terms[j, i]
        out.offset[r + j] = branch.log_rule - branch.log_p
        if branch.kept:
            out.chosen[out.used[N_CELLS]] = r + j
    out.used[N_SPLITS] += n


def trimmed_decisions(d: Decisions) -> Decisions:
    """Return the decisions without spare room."""
    m, r = (int(d.used[i]) for i in (N_CELLS, N_SPLITS))
    cells = (d.level[:m], d.is_split[:m], d.cell_terms[:m], d.first[: m + 1], d.chosen[:m])
    return Decisions(*(a.copy() for a in (*cells, d.way_terms[:r], d.offset[:r], d.used)))


@jit
def add_likelihood(
    theta: np.ndarray,
    terms: np.ndarray,
    offset: np.ndarray,
    first: np.ndarray,
    last: np.ndarray,
    chosen: np.ndarray,
    gradient: np.ndarray,
    hessian: np.ndarray,
) -> float:
    """Return minus the log likelihood of choosing split ``chosen[i]`` among ``first[i]``, ..., ``last[i] - 1``.

    Add its first and second derivatives by ``theta``, the weights of the terms, to ``gradient`` and ``hessian``.
    """
    q, total = terms.shape[1], 0.0
    z, mean = np.empty(np.max(last - first)), np.zeros(q)
    for i in range(len(first)):
        for r in range(first[i], last[i]):
            value = offset[r]
            for j in range(q):
                value += theta[j] * terms[r, j]
            z[r - first[i]] = value
        largest, norm = exp_sum(z, last[i] - first[i])
        total -= z[chosen[i] - first[i]] - largest - log(norm)
        for j in range(q):
            mean[j] = 0.0
        for r in range(first[i], last[i]):
            weight = exp(z[r - first[i]] - largest) / norm
            for j in range(q):
                mean[j] += weight * terms[r, j]
                for m in range(q):
                    hessian[j, m] += weight * terms[r, j] * terms[r, m]
        for j in range(q):
            gradient[j] += mean[j] - terms[chosen[i], j]
            for m in range(q):
                hessian[j, m] -= mean[j] * mean[m]
    return total
