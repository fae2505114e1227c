"""Reshape: draw from the prior another arrangement of connected nodes that cut the same ordered feature.

An internal node is picked uniformly. The connected nodes around it that cut the same ordered feature form a *block*.
Below it are, from left to right, m subtrees whose top nodes do not cut the feature, its *pieces*. Every binary tree
over the pieces in their order separates the rows alike, and has the same m - 1 nodes to be picked. So drawing one in
proportion to its prior is a Gibbs step, which is never refused. With ``p(i, i, d)`` the prior of piece i at depth d and
``R(i..j)`` that of the feature and one of its cuts in the union of pieces i to j,

    p(i, j, d) = split(d) R(i..j) sum_k p(i, k, d + 1) p(k + 1, j, d + 1),

is computed from the pieces up, with R of each cut within the sum if cuts have weights. The tree is drawn from the top
down. Turning an edge (see `rotate`) is one step of such a change. The move is off if the split of a cell follows from
its depth or its node, if R depends on the depth, and under trivial splits.
"""

from math import inf

import numpy as np

from ...core.compile.jit import jit
from ...core.special import exp_into, log_sum_exp
from ...model import Lowered
from ...model.split_prior.base import has_free_cuts, is_weighted, parts_box, parts_rows
from ..edits.grow import box_hash_term, set_default_side
from ..edits.proposal import Proposal, made, nothing, refused
from ..edits.rotate_in_place import log_split_factor, move_node_down, relist_growable
from ..state.lists import relist_prunable
from ..state.random import pick, pick_weighted
from ..state.records import MAX_RESHAPED_PIECES, N_FREE, N_INTERNAL, NONE, TREE_CHANGED, ChainState
from ..state.splits import log_rule_of
from ..state.terms import next_node, score_node
from .base import Move

MAX_RESHAPE_VALUES = 200_000
"""Largest number of merged rows times features of a block under local cuts, whose cells are visited row by row."""


@jit
def reshape_step(rng: np.random.Generator, model: Lowered, state: ChainState) -> Proposal:
    """Draw another arrangement of a random block from its conditional distribution, and change the tree at once."""
    # a block is a set of connected nodes that cut the same ordered feature
    if state.count[N_INTERNAL] == 0:
        return nothing()
    top = block_top(state, state.node[pick(rng, state.count[N_INTERNAL])].internal)
    n = note_pieces(model, state, top)
    if n < 3:
        return refused(0)
    fill_log_rules(model, state, top, n)
    fill_log_priors(model, state, top, n)
    draw_arrangement(rng, model, state, top, n)
    update_block_lists(model, state, top, n)
    return made(0)


@jit
def block_top(state: ChainState, node: int) -> int:
    """Return the highest node of the block, the connected nodes with the same split feature, of an internal node."""
    parent = state.node[node].parent
    while parent != NONE and state.node[parent].feature == state.node[node].feature:
        node = parent
        parent = state.node[node].parent
    return node


@jit
def note_pieces(model: Lowered, state: ChainState, top: int) -> int:
    """Write the pieces below the block at ``top``, from left to right, and the nodes of the block between them."""
    # into ``reshape.piece`` and ``reshape.gap``. Return the number of pieces, or 0 if there are too many, the cell is
    # too large or the move is off
    record, rule, scratch = state.node[top], model.split_prior, state.scratch.reshape
    if record.categories >= 0 or not has_free_cuts(rule) or rule.by_depth:
        return np.int64(0)
    if parts_rows(rule) and (record.stop - record.start) * len(model.split_prior.feature) > MAX_RESHAPE_VALUES:
        return np.int64(0)
    n, node = np.int64(0), np.int64(top)
    while True:
        parent = state.node[node].parent
        if node != top and state.node[parent].right == node:
            gap, parent_record = scratch.gap[n - 1], state.node[parent]
            gap.node, gap.cut, gap.upper = parent, parent_record.cut, parent_record.upper
        if state.node[node].feature == record.feature:
            node = state.node[node].left
            continue
        if n == MAX_RESHAPED_PIECES:
            return np.int64(0)
        scratch.piece[n] = node
        n += 1
        while node != top and state.node[state.node[node].parent].right == node:
            node = state.node[node].parent
        if node == top:
            return n
        node = state.node[state.node[node].parent].right


@jit
def set_union_cell(state: ChainState, node: int, top: int, i: int, j: int, has_box: bool) -> None:
    """Give a node the rows, hash and, with ``has_box``, box of the union of pieces i to j of the block at ``top``."""
    record, k = state.node[node], state.node[top].feature
    pieces = state.scratch.reshape.piece
    first, last = pieces[i], pieces[j]
    record.start, record.stop, record.rows = state.node[first].start, state.node[last].stop, 0
    total = np.int64(0)
    for piece in pieces[i : j + 1]:
        record.rows += state.node[piece].rows
        total += state.node[piece].hash
    if has_box:
        for f in range(state.box.shape[1]):
            state.box[node, f, 0], state.box[node, f, 1] = state.box[top, f, 0], state.box[top, f, 1]
        state.box[node, k, 0], state.box[node, k, 1] = state.box[first, k, 0], state.box[last, k, 1]
        total = state.node[top].hash - box_hash_term(state, top, k) + box_hash_term(state, node, k)
    record.hash = total


@jit
def fill_log_rules(model: Lowered, state: ChainState, top: int, n: int) -> None:
    """Write log R, the log split prior, of cutting pieces i to j behind piece k into ``reshape.log_rule[i, j, k]``."""
    # do so for all i < j of the n pieces of the block at ``top``. If all cuts of a union are equally likely it has one
    # number, at [i, j, 0]
    union, k, scratch = state.node[state.count[N_FREE] - 1].free, state.node[top].feature, state.scratch.reshape
    has_box = parts_box(model.split_prior)
    for i in range(n):
        for j in range(i + 1, n):
            set_union_cell(state, union, top, i, j, has_box)
            if is_weighted(model.split_prior):
                for cut_place in range(i, j):
                    scratch.log_rule[i, j, cut_place] = log_rule_of(model, state, union, k, scratch.gap[cut_place].cut)
            else:
                scratch.log_rule[i, j, 0] = log_rule_of(model, state, union, k, np.int64(0))


@jit
def fill_log_priors(model: Lowered, state: ChainState, top: int, n: int) -> None:
    """Write log p(i, j, d) of the n pieces of the block at ``top`` into ``reshape.log_prior``."""
    # p(i, j, d) is the sum of the priors of all trees over pieces i to j whose top is d levels below that of the block.
    # The pieces are moved for that, and stay at the largest depth at which they can be
    log_prior, depth = state.scratch.reshape.log_prior, state.node[top].depth
    for i in range(n):
        piece = state.scratch.reshape.piece[i]
        n_levels = depth + 1 - state.node[piece].depth
        for d in range(1, n):
            log_prior[i, i, d] = move_piece_down(model, state, piece, n_levels)
            n_levels = np.int64(1)
    for size in range(2, n + 1):
        for i in range(n - size + 1):
            j = i + size - 1
            # a union of size pieces is at most n - size levels below the top, since every level above it cuts one off
            for d in range(1 if size < n else 0, n - size + 1):
                log_prior[i, j, d] = -inf
                if depth + d < model.prior.depth_limit:
                    log_prior[i, j, d] = log_split_factor(model, depth + d) + log_sum_over_cuts(model, state, i, j, d)


@jit
def move_piece_down(model: Lowered, state: ChainState, top: int, n_levels: int) -> float:
    """Add ``n_levels``, maybe negative, to the depths in piece ``top``. Return its log prior, split prior excluded."""
    total, node = 0.0, np.int64(top)
    while node != NONE:
        total += move_node_down(model, state, node, n_levels)
        node = next_node(state, node, top)
    return total


@jit
def log_sum_over_cuts(model: Lowered, state: ChainState, i: int, j: int, d: int) -> float:
    """Return ``log sum_k R(i..j, k) p(i, k, d + 1) p(k + 1, j, d + 1)`` over the cuts k of pieces i to j."""
    # the log prior of all trees that cut there, d levels below the top of the block, without the factor of splitting
    log_below = log_sum_exp(log_cut_terms(model, state, i, j, d), j - i)
    return log_below if is_weighted(model.split_prior) else state.scratch.reshape.log_rule[i, j, 0] + log_below


@jit
def log_cut_terms(model: Lowered, state: ChainState, i: int, j: int, d: int) -> np.ndarray:
    """Return `log_cut_term` (j - i,) for the cuts behind pieces k = i to j - 1, d levels down."""
    # the array is scratch, which the next call overwrites
    out = state.scratch.reshape.term[: j - i]
    for k in range(i, j):
        out[k - i] = log_cut_term(model, state, i, j, k, d)
    return out


@jit
def log_cut_term(model: Lowered, state: ChainState, i: int, j: int, k: int, d: int) -> float:
    """Return the log prior of all trees over pieces i to j that cut behind piece k, d levels below the block's top."""
    # the prior factor of splitting is left out, and the split prior R too if it is the same for all cuts
    scratch = state.scratch.reshape
    log_below = scratch.log_prior[i, k, d + 1] + scratch.log_prior[k + 1, j, d + 1]
    return log_below + scratch.log_rule[i, j, k] if is_weighted(model.split_prior) else log_below


@jit
def draw_cut(rng: np.random.Generator, model: Lowered, state: ChainState, i: int, j: int, d: int) -> int:
    """Draw the piece behind which the top of a tree over pieces i to j cuts, by the prior. Return its index."""
    # ``d`` is the number of levels between that top and the top of the block
    # P(k) = R(i..j, k) p(i, k, d + 1) p(k + 1, j, d + 1) / sum_k; split(d), and R if it is the same for all k, cancel
    weight = log_cut_terms(model, state, i, j, d)
    return i + pick_weighted(rng, weight, exp_into(weight, weight, j - i))


@jit
def draw_arrangement(rng: np.random.Generator, model: Lowered, state: ChainState, top: int, n: int) -> None:
    """Draw a tree over the n pieces of a block from its prior, top down, and make it part of the present tree."""
    scratch, top_depth, n_open = state.scratch.reshape, state.node[top].depth, 1
    _push_union(state, 0, np.int64(0), n - 1, np.int64(NONE), False)
    while n_open > 0:
        n_open -= 1
        union = scratch.pending[n_open]
        i, j, parent, on_left = union.first, union.last, union.parent, union.on_left == 1
        node_depth = top_depth if parent == NONE else state.node[parent].depth + 1
        if i == j:
            node = scratch.piece[i]
            move_piece_down(model, state, node, node_depth - state.node[node].depth)
        else:
            k = draw_cut(rng, model, state, i, j, node_depth - top_depth)
            if parent == NONE:
                keep_top_node(state, top, k, n)
            node = scratch.gap[k].node
            make_union(model, state, node, top, i, j)
            if is_weighted(model.split_prior):
                state.node[node].log_rule = scratch.log_rule[i, j, k]
            gap, record = scratch.gap[k], state.node[node]
            record.cut, record.upper, record.depth = gap.cut, gap.upper, node_depth
            _push_union(state, n_open, i, k, node, True)
            _push_union(state, n_open + 1, k + 1, j, node, False)
            n_open += 2
        if parent != NONE:
            attach_child(state, node, parent, on_left)


@jit
def _push_union(state: ChainState, at: int, i: int, j: int, parent: int, on_left: bool) -> None:
    """Write the union of pieces i to j, a child of ``parent`` that is to be arranged, into ``reshape.pending[at]``."""
    union = state.scratch.reshape.pending[at]
    union.first, union.last, union.parent, union.on_left = i, j, parent, on_left


@jit
def keep_top_node(state: ChainState, top: int, k: int, n: int) -> None:
    """Exchange two of the nodes between n pieces, so that the block's top node ``top`` is the one behind piece k."""
    # which node splits behind which piece does not matter, but the node at the top must stay there
    gap = state.scratch.reshape.gap
    for b in range(n - 1):
        if gap[b].node == top:
            gap[b].node, gap[k].node = gap[k].node, top
            return


@jit
def make_union(model: Lowered, state: ChainState, node: int, top: int, i: int, j: int) -> None:
    """Make a node of the block at ``top`` the union of pieces i to j: its cell, statistics and scores."""
    # set ``log_rule``, the log split prior of its split, as well, if cuts have equal weights
    if is_union(state, node, state.node[top].feature, i, j):
        return
    set_union_cell(state, node, top, i, j, parts_box(model.split_prior))
    for column in range(state.stats.shape[1]):
        state.stats[node, column] = 0.0
        for piece in state.scratch.reshape.piece[i : j + 1]:
            state.stats[node, column] += state.stats[piece, column]
    state.node[node].log_rule = state.scratch.reshape.log_rule[i, j, 0]
    score_node(model, state, node)


@jit
def is_union(state: ChainState, node: int, k: int, i: int, j: int) -> bool:
    """Return True if the cell of a node of the block is the union of pieces i to j. The block cuts feature ``k``."""
    pieces = state.scratch.reshape.piece
    record, first, last = state.node[node], pieces[i], pieces[j]
    if record.start != state.node[first].start or record.stop != state.node[last].stop:
        return False
    if state.box.shape[1] == 0:
        return True
    return state.box[node, k, 0] == state.box[first, k, 0] and state.box[node, k, 1] == state.box[last, k, 1]


@jit
def attach_child(state: ChainState, node: int, parent: int, on_left: bool) -> None:
    """Make ``node`` the left (``on_left``) or right child of ``parent``, and note if that changes the tree."""
    old_child = state.node[parent].left if on_left else state.node[parent].right
    if old_child != node or state.node[node].parent != parent:
        state.count[TREE_CHANGED] = 1
    state.node[node].parent = parent
    if on_left:
        state.node[parent].left = node
    else:
        state.node[parent].right = node


@jit
def update_block_lists(model: Lowered, state: ChainState, top: int, n: int) -> None:
    """Update the lists of nodes, and the sides of unknown values, for the nodes between the n pieces of a new block."""
    for b in range(n - 1):
        node = state.scratch.reshape.gap[b].node
        set_default_side(model, state, node)
        relist_prunable(state, node)
    relist_growable(state, top)


MOVE = Move("reshape", reshape_step, scratch=("replace", "reshape"))
