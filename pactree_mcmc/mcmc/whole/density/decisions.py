"""Decisions (to stop, or to take one of the splits) at the cells of trees of tuning, to which the density is fitted."""

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

SAMPLE_SIZE = 40.0
"""Expected number of splits in the sample of a cell's splits."""
N_CELLS, N_SPLITS = range(2)
"""Indices of the entries of `Decisions.used`."""


class Decisions(NamedTuple):
    """Decisions at m splittable cells, with samples of their splits, r in all. The arrays may have spare room."""

    level: np.ndarray
    """(m,) int64: depth class of the cell, its row in the density."""
    is_split: np.ndarray
    """(m,) float64: 1 if the cell is split."""
    cell_terms: np.ndarray
    """(m, N_CELL_TERMS) float64: terms of the cells."""
    first: np.ndarray
    """(m + 1,) int64: the sample of cell i is the splits ``first[i]`` to ``first[i + 1] - 1``, none for a leaf."""
    choice: np.ndarray
    """(m,) int64: index of the split that the tree has, -1 for a leaf or a split that is never sampled."""
    split_terms: np.ndarray
    """(r, N_SPLIT_TERMS) float64: terms of the sampled splits."""
    offset: np.ndarray
    """(r,) float64: log R of each split minus the log probability that it is in the sample."""
    used: np.ndarray
    """(2,) int64: numbers m (index N_CELLS) and r (N_SPLITS) of entries in use."""


def new_decisions(n_cells: int) -> Decisions:
    """Return arrays with room for the decisions at this number of cells."""
    n_splits = int(n_cells * SAMPLE_SIZE)
    return Decisions(
        level=np.zeros(n_cells, dtype=np.int64),
        is_split=np.zeros(n_cells),
        cell_terms=np.zeros((n_cells, N_CELL_TERMS)),
        first=np.zeros(n_cells + 1, dtype=np.int64),
        choice=np.full(n_cells, NONE, dtype=np.int64),
        split_terms=np.zeros((n_splits, N_SPLIT_TERMS)),
        offset=np.zeros(n_splits),
        used=np.zeros(2, dtype=np.int64),
    )


@jit
def record_decisions(walk: Any, out: Any) -> None:
    """Append the decisions at the splittable cells of the present tree, as far as there is room."""
    model, state = walk.model, walk.state
    node = np.int64(0)
    while node != NONE:
        m = out.used[N_CELLS]
        if m == len(out.level) or out.used[N_SPLITS] + len(state.scratch.density.branch) > len(out.offset):
            return
        if state.node[node].splittable:
            guide = state.stored.guide[evaluate_cell(model, state, node)]
            # infinite odds leave nothing to decide
            if abs(guide.odds) < 1e300:
                cell_terms_into(model, state, node, guide.odds)
                for j in range(N_CELL_TERMS):
                    out.cell_terms[m, j] = state.scratch.density.cell_terms[j]
                out.level[m] = depth_class(state, node)
                if not is_leaf(state, node):
                    out.is_split[m] = 1.0
                    if not follows_design(model.split_prior) and is_candidate(model, state, node):
                        _record_splits(walk, out, node)
                out.used[N_CELLS] += 1
                out.first[m + 1] = out.used[N_SPLITS]
        node = next_node(state, node, np.int64(0))


@jit
def _record_splits(walk: Any, out: Any, node: int) -> None:
    """Append a sample of the splits of an internal node's cell that contains the split of the node."""
    work, r = walk.state.scratch.density, out.used[N_SPLITS]
    n = sample_splits(walk.rng, walk.model, walk.state, node, SAMPLE_SIZE, node, np.int64(0))
    work.is_exhausted[0] = 0
    for j in range(n):
        branch = work.branch[j]
        for i in range(N_SPLIT_TERMS):
            out.split_terms[r + j, i] = work.branch_terms[j, i]
        out.offset[r + j] = branch.log_rule - branch.log_p
        if branch.in_tree:
            out.choice[out.used[N_CELLS]] = r + j
    out.used[N_SPLITS] += n


def joined_decisions(parts: Sequence[Decisions]) -> Decisions:
    """Return the decisions of several chains or rounds as one, without spare room."""
    out: dict[str, list[np.ndarray]] = {name: [] for name in Decisions._fields}
    n_splits = 0
    for part in parts:
        m, r = (int(part.used[i]) for i in (N_CELLS, N_SPLITS))
        lengths = dict.fromkeys(Decisions._fields, m) | {"split_terms": r, "offset": r, "used": 2}
        arrays = {name: getattr(part, name)[:n] for name, n in lengths.items()}
        arrays["first"] = arrays["first"] + n_splits
        arrays["choice"] = np.where(arrays["choice"] < 0, NONE, arrays["choice"] + n_splits)
        for name, array in arrays.items():
            out[name].append(array)
        n_splits += r
    out["first"].append(np.array([n_splits]))
    return Decisions(**{name: np.concatenate(arrays) for name, arrays in out.items()} | {"used": sum(out["used"])})


@jit
def add_likelihood(
    theta: np.ndarray,
    terms: np.ndarray,
    offset: np.ndarray,
    first: np.ndarray,
    last: np.ndarray,
    choice: np.ndarray,
    gradient: np.ndarray,
    hessian: np.ndarray,
    z: np.ndarray,
    mean: np.ndarray,
) -> float:
    """Return minus the log likelihood of choosing split ``choice[i]`` among ``first[i]``, ..., ``last[i] - 1``.

    With z_r = offset_r + theta . f_r for the terms f_r of split r, and p the probabilities in proportion to exp(z),
    choice c adds ``log sum_r exp(z_r) - z_c`` to the sum, ``E_p[f] - f_c`` to ``gradient`` and the covariance
    ``E_p[f f'] - E_p[f] E_p[f]'`` to ``hessian``. Write z and E_p[f] into the arguments of these names.
    """
    q, total = terms.shape[1], 0.0
    for i in range(len(first)):
        for r in range(first[i], last[i]):
            value = offset[r]
            for j in range(q):
                value += theta[j] * terms[r, j]
            z[r - first[i]] = value
        largest, norm = exp_sum(z, last[i] - first[i])
        total -= z[choice[i] - first[i]] - largest - log(norm)
        for j in range(q):
            mean[j] = 0.0
        for r in range(first[i], last[i]):
            weight = exp(z[r - first[i]] - largest) / norm
            for j in range(q):
                mean[j] += weight * terms[r, j]
                for m in range(q):
                    hessian[j, m] += weight * terms[r, j] * terms[r, m]
        for j in range(q):
            gradient[j] += mean[j] - terms[choice[i], j]
            for m in range(q):
                hessian[j, m] -= mean[j] * mean[m]
    return total
