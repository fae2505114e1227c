"""Lookahead sums of a node, and splits drawn in proportion to their terms (formula sheet, section 4).

All are relative to the node's own score. ``log_z`` is ``log Z_k(u) - beta score(u)``, by the guessed scores.
"""

from math import inf

import numpy as np

from ...core.bits import n_bits, spread_bits
from ...core.compile.jit import jit
from ...core.logsum import exp_into, log_add, log_sum
from ...model import Lowered
from ...model.split_prior.geometry import follows_design, has_empty_sides, is_weighted, parts_box, parts_rows
from ..edits.carry_over import MIDPOINT, cell_bits, fit_split
from ..edits.grow import attach_children, drop_children, guessed_score_ratio
from ..edits.replace_subtree import begin, drop
from ..state.codes import collect_codes
from ..state.lists import is_leaf
from ..state.random import pick_weighted
from ..state.records import SCAN
from ..state.splits import Split, cell_of, cut_range, ends, fixed_split, is_admissible, mass, n_splits_of, span
from ..state.terms import node_log_split, node_log_stop
from ..state.tree import ChainState
from .split_sums import draw_scanned, scan


@jit
def log_z(model: Lowered, state: ChainState, node: int, ahead: int) -> float:
    """Return the log lookahead sum of a node over ``ahead`` levels, 0 to 2, relative to its score."""
    if ahead == 0:
        return 0.0
    if ahead == 1 or not state.node[node].splittable:
        return log_z1(model, state, node)
    stop, split = node_log_stop(model, state, node), node_log_split(model, state, node)
    return log_add(stop, split + two_levels(model, state, node))


@jit
def log_z1(model: Lowered, state: ChainState, node: int) -> float:
    """Return `log_z` with lookahead 1."""
    stop = node_log_stop(model, state, node)
    if not state.node[node].splittable:
        return stop
    return log_add(stop, node_log_split(model, state, node) + scan(model, state, node))


@jit
def draw_ahead(rng: np.random.Generator, model: Lowered, state: ChainState, node: int, ahead: int) -> Split:
    """Draw a split of a leaf, in proportion to its term of the sum over ``ahead`` levels."""
    if ahead == 1:
        return draw_scanned(rng, model, state, node)
    n, term = _terms_into(model, state, node), state.scratch.lookahead.term
    total = exp_into(term, term, n)
    return _split_number(model, state, node, pick_weighted(rng, term[:n], total))


@jit
def two_levels(model: Lowered, state: ChainState, node: int) -> float:
    """Return the log sum over the splits of R times the gain and the lookahead sums of both children.

    The sum is stored with the cell. For an internal node it is computed at a leaf beside the tree, so nothing else may
    be built there at the time.
    """
    place, depth = cell_of(model, state, node), state.node[node].depth
    if state.stored.cell[place].ahead == state.count[SCAN] and state.stored.cell[place].depth == depth:
        return state.stored.cell[place].log_z2
    if is_leaf(state, node):
        n = _terms_into(model, state, node)
    else:
        top = begin(state, node)
        n = _terms_into(model, state, top)
        drop(state, node, top)
    # children may have taken the place
    place = cell_of(model, state, node)
    state.stored.cell[place].ahead, state.stored.cell[place].depth = state.count[SCAN], depth
    state.stored.cell[place].log_z2 = log_sum(state.scratch.lookahead.term, n)
    return state.stored.cell[place].log_z2


@jit
def n_tries(model: Lowered, state: ChainState, node: int, k: int) -> int:
    """Return the number of splits tried on an admissible feature, with those that have too few rows or weight 0."""
    rule = model.split_prior
    if parts_rows(rule) and not has_empty_sides(rule) and rule.feature[k].nominal:
        return (1 << (n_bits(cell_bits(model, state, node, k)) - 1)) - 1
    if is_weighted(rule):
        n = collect_codes(model, state, node, k) if parts_rows(rule) else np.int64(0)
        return np.int64(n_splits_of(model, state, node, k, n))
    return np.int64(mass(model, state, node, k))


@jit
def _terms_into(model: Lowered, state: ChainState, node: int) -> int:
    """Write the log terms of the two-level sum of a leaf into ``lookahead.term``, and return their number."""
    n, term = np.int64(0), state.scratch.lookahead.term
    for k in range(len(model.split_prior.feature)):
        if asks(model, state, node, k):
            for i in range(n_tries(model, state, node, k)):
                split = _split(model, state, node, k, i)
                term[n] = -inf
                if split.log_rule > -inf:
                    attach_children(model, state, node, split)
                    left, right = state.node[node].left, state.node[node].right
                    ahead = log_z1(model, state, left) + log_z1(model, state, right)
                    term[n] = split.log_rule + guessed_score_ratio(state, node) + ahead
                    drop_children(state, node)
                n += 1
    return n


@jit
def _split_number(model: Lowered, state: ChainState, node: int, number: int) -> Split:
    """Return the split of a term."""
    first = np.int64(0)
    for k in range(len(model.split_prior.feature)):
        if asks(model, state, node, k):
            tries = n_tries(model, state, node, k)
            if number < first + tries:
                return _split(model, state, node, k, number - first)
            first += tries
    return _split(model, state, node, np.int64(0), np.int64(0))


@jit
def asks(model: Lowered, state: ChainState, node: int, k: int) -> bool:
    """Return True if some split of a splittable node is on feature ``k``."""
    if follows_design(model.split_prior):
        return k == model.split_prior.design[state.node[node].design].feature
    return model.split_prior.feature[k].weight > 0.0 and is_admissible(model, state, node, k)


@jit
def _split(model: Lowered, state: ChainState, node: int, k: int, i: int) -> Split:
    """Return split number ``i`` on feature ``k``, with ``log_rule`` -inf if it leaves too few rows or has weight 0."""
    rule = model.split_prior
    cut, categories = np.int64(0), np.int64(-1)
    if follows_design(rule):
        return fixed_split(model, state, node)
    if rule.feature[k].nominal:
        present = cell_bits(model, state, node, k)
        if has_empty_sides(rule):
            categories = spread_bits(present, 1 + 2 * (i - 2)) if i >= 2 else (present if i == 0 else np.int64(0))
        else:
            categories = spread_bits(present, 1 + 2 * i)
    elif parts_rows(rule):
        n = collect_codes(model, state, node, k)
        below = i
        if not has_empty_sides(rule):
            below += cut_range(model, state, node, k, n)[0] + 1
        cut = ends(model, state, k, n, below)[0]
    elif parts_box(rule):
        cut = span(model, state, node, k)[0] + i
    else:
        cut = np.int64(MIDPOINT)
    return fit_split(model, state, node, k, cut, categories)[0]
