"""Splits of the root, weighed by draws of the subtrees of either side.

Given the split of the root, the subtrees of its sides are independent. So the mean weights of a few subtrees drawn from
the density on each side, multiplied, estimate the sum over all trees with that split as well as if each subtree of one
side had been joined to each of the other. And the mean weight of either side is what the graph should know of the sum
over the subtrees of its cell, at least: a graph explored by its own draws does not find out what it lacks.
"""

from math import exp, inf, log
from typing import Any

import numpy as np

from ...core.compile.jit import jit
from ...core.logsum import log_add
from ...model import Lowered
from ..edits.grow import attach_children
from ..edits.replace_subtree import begin, cut_back, drop, has_room
from ..learned.density import asked, split_of_way
from ..learned.graph import add_tree, piece_of, value_piece
from ..learned.terms import LEARNED, enter_stratum, weigh_ways
from ..moves.learned import draw_tree
from ..state.arrays import ChainState
from ..state.random import flip_log
from ..state.splits import n_splits_of
from ..state.terms import subtree_log_prior, subtree_log_score
from ..sums.split_sums import fill_bins

EVENLY, BY_DENSITY, BY_VALUE = range(3)
"""How splits are chosen: all alike; by the density; by the values known of others on the same ordered feature."""
FLATTENING = 3.0
"""What values are divided by, so that splits between good ones are seen too."""
SURE = 0.5
"""Nats by which the sum over the subtrees of a cell may lie below a mean weight without being raised."""


@jit
def weigh_root_split(
    walk: Any, feature: int, how: int, point: float, cuts: np.ndarray, values: np.ndarray, out: np.ndarray
) -> bool:
    """Draw as many subtrees as ``out`` has rows for each side of a split of the root; False where there is no room.

    The split is the one at ``point``, in [0, 1), of all those on ``feature``, chosen as ``how`` says; ``cuts``,
    ascending, and ``values`` are at least two that are known, by value. The log weights of the subtrees come into
    ``out``, (m, 2), infinite where there is no such split; some of the subtrees, by weight, come into the graph.
    """
    rng, model, state = walk.rng, walk.model, walk.state
    if not has_room(state):
        return False
    root, k = np.int64(0), np.int64(feature)
    out[:] = -inf
    top = begin(state, root)
    ways = n_splits_of(model, state, top, k, fill_bins(model, state, top, k))
    if ways > 0.0:
        place = asked(model, state, top)
        n = fill_bins(model, state, top, k)
        n_splits = weigh_ways(model, state, top, k, n, place)
        _tilt_ways(state, n_splits, how, cuts, values)
        log_rule = log(model.split_prior.feature[k].weight / ways / state.guide[place].weight)
        split = split_of_way(rng, model, state, top, k, n, _way_at(state, n_splits, point), log_rule)
        attach_children(model, state, top, split)
        enter_stratum(state, k)
        _weigh_side(rng, model, state, state.node[top].left, out[:, 0])
        _weigh_side(rng, model, state, state.node[top].right, out[:, 1])
        add_tree(model, state, top)
    drop(state, root, top)
    return True


@jit
def _tilt_ways(state: ChainState, n_splits: int, how: int, cuts: np.ndarray, values: np.ndarray) -> None:
    """Log weights of the ways, as ``how`` says, in place of the learned ones; known values are joined by lines."""
    tilts, j = state.tilts[LEARNED], 0
    for at in range(n_splits + 2):
        if how == EVENLY:
            tilts[at] = 0.0
        elif how == BY_VALUE and at < 2:
            tilts[at] = -inf
        elif how == BY_VALUE:
            cut = state.codes[0, at - 2]
            while j + 2 < len(cuts) and cuts[j + 1] <= cut:
                j += 1
            t = min(max((cut - cuts[j]) / (cuts[j + 1] - cuts[j]), 0.0), 1.0)
            tilts[at] = (values[j] + t * (values[j + 1] - values[j])) / FLATTENING


@jit
def _way_at(state: ChainState, n_splits: int, point: float) -> int:
    """The way at ``point`` of the weights of all."""
    alike, tilts, largest, total = state.alike, state.tilts[LEARNED], -inf, 0.0
    for at in range(n_splits + 2):
        if alike[at] > 0:
            largest = max(largest, tilts[at])
    for at in range(n_splits + 2):
        if alike[at] > 0:
            total += alike[at] * exp(tilts[at] - largest)
    left, chosen = point * total, np.int64(-3)
    for at in range(n_splits + 2):
        if alike[at] > 0 and tilts[at] > -inf:
            chosen = np.int64(at - 2)
            left -= alike[at] * exp(tilts[at] - largest)
            if left < 0.0:
                break
    return chosen


@jit
def _weigh_side(rng: np.random.Generator, model: Lowered, state: ChainState, node: int, out: np.ndarray) -> None:
    """Draw subtrees at a child of the root; their mean weight raises what the graph knows of its cell."""
    if not state.node[node].splittable:
        out[:] = subtree_log_prior(model, state, node) + state.beta[0] * subtree_log_score(state, node)
        return
    total = -inf
    for i in range(len(out)):
        log_g = draw_tree(rng, model, state, node)
        if log_g < inf:
            out[i] = subtree_log_prior(model, state, node) + state.beta[0] * subtree_log_score(state, node) - log_g
            total = log_add(total, out[i])
            if flip_log(rng, out[i] - total):
                add_tree(model, state, node)
        cut_back(state, node)
    at = piece_of(state, node)
    if at >= 0:
        piece = state.graph.piece[at]
        piece.floor = max(piece.floor, total - log(len(out)) - SURE)
        value_piece(state.graph, at)
