"""Regrow the whole subtree of a cell in which only one ordered feature is admissible, by its `interval_sums`.

A node is picked uniformly among internal nodes and growable leaves. v is the highest node above it, or itself, in whose
cell only one ordered feature is admissible. The subtree of v is drawn in proportion to prior and score, top down, from
the exact sums over all subtrees. With ``n(T)`` the number of nodes that may be picked in the tree T and ``m(T)`` the
number of those at and below v, the acceptance ratio is ``m(T') n(T) / (m(T) n(T'))``. With one feature v is the root,
the ratio is 1, and the tree drawn does not depend on the one before.

If the variance of the leaves is unknown, the sums are those by its guess, and the ratio corrects for the difference. v
keeps its subtree if the old or the new one has more than ``MAX_DRAWN_INTERNAL`` internal nodes, or if the old one has a
node without a fraction in the table.
"""

from math import exp, log

import numpy as np

from ...core.compile.jit import jit
from ...model import Lowered
from ..edits.grow import attach_children
from ..edits.proposal import Proposal, nothing, refused, withdrawn
from ..edits.replace_subtree import MAX_DRAWN_INTERNAL, begin, replacement
from ..state.lists import is_leaf
from ..state.random import flip, pick, pick_weighted
from ..state.records import N_GROWABLE, N_INTERNAL, NONE
from ..state.splits import Split
from ..state.terms import next_node, node_log_stop, subtree_log_prior
from ..state.tree import ChainState
from ..sums.interval_sums import compute_line, cut_weights_into, cuts_of_run, line_feature, log_z, z_fraction
from .base import Move
from .regrow import n_choices


@jit
def regrow_line_step(rng: np.random.Generator, model: Lowered, state: ChainState) -> Proposal:
    """Propose a new subtree of a line, a cell in which only one ordered feature is admissible. It is drawn from its
    exact conditional distribution (at a guess of a shared variance), in the largest line around a random node.
    """
    n_internal = state.count[N_INTERNAL]
    n_before = n_internal + state.count[N_GROWABLE]
    if n_before == 0:
        return nothing()
    i = pick(rng, n_before)
    node = line_top(model, state, state.node[i].internal if i < n_internal else state.node[i - n_internal].growable)
    feature = line_feature(model, state, node) if node != NONE else np.int64(NONE)
    if feature == NONE or compute_line(model, state, node, feature) == 0 or not is_in_table(state, node):
        return refused(0)
    top = begin(state, node)
    if not regrow_line(rng, model, state, top, feature):
        return withdrawn(0, node, top)
    m_before, m_after = n_choices(state, node), n_choices(state, top)
    # m(T) of the n(T) nodes lead to v, and the sum over all subtrees, by which both weights are divided, cancels
    log_reverse = log_guessed_weight(model, state, node) - log(n_before - m_before + m_after) + log(m_after)
    log_forward = log_guessed_weight(model, state, top) - log(n_before) + log(m_before)
    return replacement(model, state, 0, node, top, log_reverse - log_forward)


@jit
def line_top(model: Lowered, state: ChainState, node: int) -> int:
    """Return the highest node, of ``node`` and its ancestors, in whose cell only one ordered feature is admissible.

    Return -1 if ``node`` itself has no such cell.
    """
    top = np.int64(NONE)
    while node != NONE and line_feature(model, state, node) != NONE:
        top = node
        node = state.node[node].parent
    return top


@jit
def is_in_table(state: ChainState, top: int) -> bool:
    """Return True if the stored sums of the line contain the subtree at ``top``, so that `regrow_line` could draw it.

    Write the first and last place of each node on the line into ``note``. A place is the index of a code of the line.
    """
    line, codes, note = state.stored.line.header[0], state.stored.line.code, state.scratch.note
    n_internal, node = 0, np.int64(top)
    note[top].first_place, note[top].last_place = 0, line.n_codes - 1
    while node != NONE:
        record = state.node[node]
        i, j, d = note[node].first_place, note[node].last_place, record.depth - state.node[top].depth
        if d >= line.n_levels or z_fraction(state, i, j, d) <= 0.0 or n_internal > MAX_DRAWN_INTERNAL:
            return False
        if not is_leaf(state, node):
            n_internal += 1
            place, next_place = i, j
            while next_place - place > 1:
                middle = (place + next_place) // 2
                if codes[middle] <= record.cut:
                    place = middle
                else:
                    next_place = middle
            _note_children(state, node, place)
        node = next_node(state, node, top)
    return n_internal <= MAX_DRAWN_INTERNAL


@jit
def log_guessed_weight(model: Lowered, state: ChainState, top: int) -> float:
    """Return log prior plus beta times log score of the subtree at ``top``, at the guess of a variance, if shared.

    It is the log weight, up to a constant, with which `regrow_line` draws the subtree.
    """
    total, node = 0.0, np.int64(top)
    while node != NONE:
        if is_leaf(state, node):
            total += state.node[node].guess
        node = next_node(state, node, top)
    return subtree_log_prior(model, state, top) + state.beta[0] * total


@jit
def regrow_line(rng: np.random.Generator, model: Lowered, state: ChainState, top: int, feature: int) -> bool:
    """Grow the leaf ``top`` by cuts of ``feature`` into a subtree drawn in proportion to exp(`log_guessed_weight`).

    The stored sums must be those of its cell. Return False, with a part grown, if the subtree gets too large.
    """
    line, codes, note = state.stored.line.header[0], state.stored.line.code, state.scratch.note
    n_internal, node = 0, np.int64(top)
    note[top].first_place, note[top].last_place = 0, line.n_codes - 1
    while node != NONE:
        record, d = state.node[node], state.node[node].depth - state.node[top].depth
        if record.splittable and d + 1 < line.n_levels:
            i, j = note[node].first_place, note[node].last_place
            stop = node_log_stop(model, state, node) + state.beta[0] * record.guess - log_z(state, i, j, d)
            if not flip(rng, exp(min(stop, 0.0))):
                n_internal += 1
                if n_internal > MAX_DRAWN_INTERNAL:
                    return False
                first, last = cuts_of_run(model, state, i, j)
                total = cut_weights_into(state, i, j, first, last, d)
                k = first + pick_weighted(rng, state.scratch.line.weight[: last - first], total)
                log_rule = -log(float(last - first))
                attach_children(model, state, node, Split(feature, codes[k], codes[k + 1], np.int64(NONE), log_rule))
                _note_children(state, node, k)
        node = next_node(state, node, top)
    return True


@jit
def _note_children(state: ChainState, node: int, k: int) -> None:
    """Write the first and last place on the line (indices of its codes) of both children of a node that is split behind
    place ``k`` into ``note``.
    """
    note, record = state.scratch.note, state.node[node]
    note[record.left].first_place, note[record.left].last_place = note[node].first_place, k
    note[record.right].first_place, note[record.right].last_place = k + 1, note[node].last_place


MOVE = Move("regrow-line", regrow_line_step, scratch=("scan", "replace", "line"))
