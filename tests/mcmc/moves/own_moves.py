"""Moves of one's own that are right, and a small model to run them on."""

from math import log

import numba
import pytest

import pactree_mcmc as pt
from pactree_mcmc import moves

SETTINGS = {"draws": 40, "tune": 10, "chains": 2, "rng": 3, "proposals": 20, "progress": False}
X = [[0.0, 1.0], [0.0, 2.0], [1.0, 1.0], [1.0, 1.0], [3.0, 2.0]]
Y = [0, 1, 1, 0, 1]
WIDER = {"X": [*X, [2.0, 1.0], [4.0, 2.0]], "y": [*Y, 0, 1]}
"""Rows enough for a second cut with two rows on either side."""
compiled = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")


@moves.jit
def some_node(rng, state):
    return moves.internal(state, moves.pick(rng, moves.n_internal(state)))


def another_cut(rng, model, state):
    if moves.n_internal(state) == 0:
        return moves.nothing()
    node = some_node(rng, state)
    new = moves.draw_split_of(rng, model, state, node, state.node[node].feature)
    return moves.replace_split(rng, model, state, node, new.feature, new.cut, new.categories, False)


def grow_or_prune(rng, model, state):
    """Either with probability 1/2, a leaf or a pair of leaves chosen uniformly; what cannot be is refused."""
    if moves.flip(rng, 0.5):
        n = moves.n_growable(state)
        if n == 0:
            return moves.refused(0)
        node = moves.growable(state, moves.pick(rng, n))
        moves.attach_children(model, state, node, moves.draw_split(rng, model, state, node))
        other = moves.sibling(state, node)
        parent_loses = other != moves.NONE and moves.is_leaf(state, other)
        back = log(moves.n_prunable(state) + 1 - parent_loses)
        return moves.growth(model, state, 0, node, log(n) - back - state.node[node].log_rule)
    n = moves.n_prunable(state)
    if n == 0:
        return moves.refused(1)
    node = moves.prunable(state, moves.pick(rng, n))
    left, right = state.node[node].left, state.node[node].right
    there = moves.n_growable(state) + 1 - state.node[left].splittable - state.node[right].splittable
    return moves.pruning(model, state, 1, node, log(n) - log(there) + state.node[node].log_rule)


def redraw_all(rng, model, state):
    """Draw the split of a prunable node in proportion to its term of W."""
    if moves.n_prunable(state) == 0:
        return moves.nothing()
    node = moves.prunable(state, moves.pick(rng, moves.n_prunable(state)))
    if not moves.can_scan(model, state, node):
        return moves.refused(0)
    top = moves.begin(state, node)
    moves.attach_children(model, state, top, moves.draw_scanned(rng, model, state, top))
    way_back = state.node[node].log_rule + moves.split_gain(state, node)
    way_there = state.node[top].log_rule + moves.split_gain(state, top)
    return moves.replacement(model, state, 0, node, top, way_back - way_there)


def own_cut():
    return pt.Move("another cut", another_cut, scans=False)


def own_growth():
    return pt.Move("half", grow_or_prune, counts=("half grow", "half prune"), replaces=False, scans=False)


def small_model(**parts):
    return pt.TreeModel(**{"X": X, "y": Y, "tree_prior": pt.ChipmanPrior(0.95, 1.0, max_depth=2)} | parts)
