"""Growing a leaf and pruning a pair of leaves: the proposals, and the changes of the state.

The moves `grow_prune`, `blanchard` and `collapsed` share them, and differ in the choice of the node and of the split.
In this file, ``state`` has the arrays of one chain, and ``node`` is the index of a record of ``state.node``.
"""

import numpy as np

from ...core.bits import goes_left, hash_integer
from ...core.compile.jit import jit
from ...model import Lowered
from ...model.rows import add_units
from ...model.split_prior.base import follows_design, has_box, parts_rows
from ...tree.arrays import LEAF
from ..state.lists import (
    is_leaf,
    list_growable,
    list_internal,
    list_prunable,
    sibling,
    unlist_growable,
    unlist_internal,
    unlist_prunable,
)
from ..state.records import N_FREE, N_NODES, N_PRUNABLE, N_VISITED_ROWS, NONE, TREE_CHANGED, ChainState
from ..state.splits import Split, absent_categories, is_splittable
from ..state.terms import next_node, node_log_split, node_log_stop, score_node
from .carry_over import fit_split
from .proposal import GROW, PRUNE, Proposal


@jit
def log_growth_prior_ratio(model: Lowered, state: ChainState, node: int) -> float:
    """Return the log prior, split prior included, of splitting ``node`` into its two leaves, minus that of a leaf."""
    split = node_log_split(model, state, node) + state.node[node].log_rule
    stops = node_log_stop(model, state, state.node[node].left) + node_log_stop(model, state, state.node[node].right)
    return split + stops - node_log_stop(model, state, node)


@jit
def log_growth_score_ratio(state: ChainState, node: int) -> float:
    """Return the log score of both children of ``node`` minus that of ``node``, times the inverse temperature."""
    record = state.node[node]
    return state.beta[0] * (state.node[record.left].score + state.node[record.right].score - record.score)


@jit
def split_gain(state: ChainState, node: int) -> float:
    """Return the gain in log score by the split of a node whose children are leaves, times the inverse temperature.

    `draw_scanned` draws splits in proportion to ``exp(log_rule + split_gain)``. If leaves share an unknown variance,
    the gain is that at a guess of the variance. Else it is `log_growth_score_ratio`.
    """
    record = state.node[node]
    return state.beta[0] * (state.node[record.left].guess + state.node[record.right].guess - record.guess)


@jit
def growth(model: Lowered, state: ChainState, which: int, node: int, log_proposal_ratio: float) -> Proposal:
    """Return the proposal to grow ``node``, to which `attach_children` has attached two children.

    ``which``, 0 or 1, is the index in `Move.counts` of the name that counts it. ``log_proposal_ratio`` is the log
    probability of proposing the old tree from the new one, minus that of the reverse.
    """
    prior, score = log_growth_prior_ratio(model, state, node), log_growth_score_ratio(state, node)
    return Proposal(np.int64(GROW), which, node, np.int64(NONE), prior, score, log_proposal_ratio, 0.0)


@jit
def pruning(model: Lowered, state: ChainState, which: int, node: int, log_proposal_ratio: float) -> Proposal:
    """Return the proposal to remove both leaves below ``node``. See `growth` for ``which`` and the ratio."""
    prior, score = log_growth_prior_ratio(model, state, node), log_growth_score_ratio(state, node)
    return Proposal(np.int64(PRUNE), which, node, np.int64(NONE), -prior, -score, log_proposal_ratio, 0.0)


@jit
def attach_children(model: Lowered, state: ChainState, node: int, split: Split) -> None:
    """Give a leaf the two children of ``split``, with their rows, statistics and scores, but change no list of nodes.

    The loop adds the children to the lists if it accepts the proposal, and else removes them.
    """
    record = state.node[node]
    left = state.node[state.count[N_FREE] - 1].free
    right = state.node[state.count[N_FREE] - 2].free
    state.count[N_FREE] -= 2
    record.left, record.right, record.feature = left, right, split.feature
    record.cut, record.upper, record.categories = split.cut, split.upper, split.categories
    record.log_rule = split.log_rule
    middle = divide_rows(model, state, node)
    init_leaf(state, left, node, record.depth + 1, record.start, middle)
    init_leaf(state, right, node, record.depth + 1, middle, record.stop)
    state.node[right].rows = record.rows - state.node[left].rows
    state.node[right].hash = record.hash - state.node[left].hash
    if follows_design(model.split_prior):
        state.node[left].design = record.design + 1
        state.node[right].design = model.split_prior.design[record.design].right
        state.node[left].hash = state.node[left].design
        state.node[right].hash = state.node[right].design
    _set_child_boxes(model, state, node)
    for child in (left, right):
        score_node(model, state, child)
        state.node[child].splittable = is_splittable(model, state, child)


@jit
def divide_rows(model: Lowered, state: ChainState, node: int) -> int:
    """Sort the units (merged rows) of a node, those that go left first, and sum the statistics of both children."""
    # number of rows and hash of the left child are written; the index in `order` at which the right side begins is
    # returned
    order, to_right, here = state.order, state.scratch.to_right, state.node[node]
    codes, k, cut, categories = model.units.codes, here.feature, here.cut, here.categories
    n_left, n_right = 0, 0
    state.count[N_VISITED_ROWS] += here.stop - here.start
    for i in range(here.start, here.stop):
        u = order[i]
        right = 1 - goes_left(np.int64(codes[k, u]), cut, categories)
        order[here.start + n_left] = u
        to_right[n_right] = u
        n_left += 1 - right
        n_right += right
    middle = here.start + n_left
    for i in range(n_right):
        order[middle + i] = to_right[i]
    _sum_children(model, state, node, middle)
    return middle


@jit
def _sum_children(model: Lowered, state: ChainState, node: int, middle: int) -> None:
    """Sum the statistics of both children of a node, whose rows are divided at `order[middle]`."""
    # whole numbers are summed for the smaller child, and subtracted from the node's for the other one, without rounding
    here, order, merged_rows, stats = state.node[node], state.order, model.units, state.stats
    is_left_smaller = middle - here.start <= here.stop - middle
    smaller, start, stop = here.left, here.start, middle
    larger, larger_start, larger_stop = here.right, middle, here.stop
    if not is_left_smaller:
        smaller, larger = larger, smaller
        start, stop, larger_start, larger_stop = larger_start, larger_stop, start, stop
    rows, cell_hash = np.int64(0), np.int64(0)
    for i in range(start, stop):
        rows += merged_rows.rows[order[i] & merged_rows.rows_all]
    if parts_rows(model.split_prior):
        for i in range(start, stop):
            cell_hash += hash_integer(np.int64(order[i]))
    state.node[here.left].rows = rows if is_left_smaller else here.rows - rows
    state.node[here.left].hash = cell_hash if is_left_smaller else here.hash - cell_hash
    for j in range(stats.shape[1]):
        stats[smaller, j] = stats[larger, j] = 0.0
    add_units(stats, smaller, merged_rows, order, start, stop)
    if merged_rows.counts and model.leaf.lookup.shape[1] > 1:
        for j in range(stats.shape[1]):
            stats[larger, j] = stats[node, j] - stats[smaller, j]
    else:
        add_units(stats, larger, merged_rows, order, larger_start, larger_stop)


@jit
def init_leaf(state: ChainState, node: int, parent: int, depth: int, start: int, stop: int) -> None:
    """Make a free node a leaf with the units (merged rows) ``order[start:stop]``, without statistics and on no list."""
    record = state.node[node]
    record.parent, record.depth, record.start, record.stop = parent, depth, start, stop
    record.left, record.right, record.feature = NONE, NONE, NONE
    record.categories, record.log_rule, record.design = NONE, 0.0, 0
    record.growable_at, record.prunable_at, record.internal_at = NONE, NONE, NONE


@jit
def _set_child_boxes(model: Lowered, state: ChainState, node: int) -> None:
    """Set the boxes of both children of a node, and their hashes, if cells are boxes."""
    if has_box(model.split_prior):
        left, right, k = state.node[node].left, state.node[node].right, state.node[node].feature
        for j in range(state.box.shape[1]):
            for end in range(2):
                state.box[left, j, end] = state.box[right, j, end] = state.box[node, j, end]
        if state.node[node].categories >= 0:
            state.box[left, k, 0] &= state.node[node].categories
            state.box[right, k, 0] &= ~state.node[node].categories
        else:
            state.box[left, k, 1] = state.node[node].cut + 1
            state.box[right, k, 0] = state.node[node].cut + 1
        without = state.node[node].hash - box_hash_term(state, node, k)
        state.node[left].hash = without + box_hash_term(state, left, k)
        state.node[right].hash = without + box_hash_term(state, right, k)


@jit
def box_hash_term(state: ChainState, node: int, k: int) -> int:
    """Return the term of feature ``k`` in the hash of a node's box. The hash is the sum over all features."""
    return hash_integer(hash_integer(hash_integer(np.int64(k)) + state.box[node, k, 0]) + state.box[node, k, 1])


@jit
def accept_growth(model: Lowered, state: ChainState, node: int) -> None:
    """Make the new children of ``node`` part of the tree: update the lists and the number of nodes."""
    unlist_growable(state, node)
    if state.node[node].parent != NONE:
        unlist_prunable(state, state.node[node].parent)
    list_prunable(state, node)
    list_internal(state, node)
    list_growable(state, state.node[node].left)
    list_growable(state, state.node[node].right)
    set_default_side(model, state, node)
    state.count[N_NODES] += 2
    state.count[TREE_CHANGED] = 1


@jit
def set_default_side(model: Lowered, state: ChainState, node: int) -> None:
    """Set the side of unknown values at an internal node to that of most training rows, left if both have as many."""
    # under local cuts the same side gets the categories that no row of the node has
    record = state.node[node]
    record.default_left = 2 * state.node[record.left].rows >= record.rows
    if record.categories >= 0 and record.default_left:
        record.categories |= absent_categories(model, state, node, record.feature)


@jit
def remove_children(state: ChainState, node: int) -> None:
    """Remove both children of a node, which are leaves, and free their records. Do not change the lists."""
    state.node[state.count[N_FREE]].free = state.node[node].right
    state.node[state.count[N_FREE] + 1].free = state.node[node].left
    state.count[N_FREE] += 2
    state.node[node].left = state.node[node].right = state.node[node].feature = NONE
    state.node[node].categories, state.node[node].log_rule = NONE, 0.0


@jit
def prune(state: ChainState, node: int) -> None:
    """Turn a prunable node into a leaf, and update the lists."""
    unlist_growable(state, state.node[node].left)
    unlist_growable(state, state.node[node].right)
    unlist_prunable(state, node)
    unlist_internal(state, node)
    remove_children(state, node)
    list_growable(state, node)
    sibling_node = sibling(state, node)
    if sibling_node != NONE and is_leaf(state, sibling_node):
        list_prunable(state, state.node[node].parent)
    state.count[N_NODES] -= 2
    state.count[TREE_CHANGED] = 1


@jit
def prune_all(state: ChainState) -> None:
    """Make the present tree a single leaf, the root."""
    while state.count[N_PRUNABLE] > 0:
        prune(state, state.node[0].prunable)


@jit
def grow_by_split(model: Lowered, state: ChainState, node: int, feature: int, cut: int, categories: int) -> None:
    """Grow a splittable leaf by an admissible split in raw form (`fit_split`), and update the lists of nodes."""
    attach_children(model, state, node, fit_split(model, state, node, feature, cut, categories)[0])
    accept_growth(model, state, node)


@jit
def restore_saved_tree(model: Lowered, state: ChainState, nodes: np.recarray, start: int, stop: int) -> bool:
    """Make the saved preorder ``nodes[start:stop]`` the present tree, or a part and return False if nodes run out."""
    prune_all(state)
    node = np.int64(0)
    for at in range(start, stop):
        saved = nodes[at]
        if saved.feature != LEAF:
            if state.count[N_FREE] < 2:
                return False
            grow_by_split(model, state, node, np.int64(saved.feature), np.int64(saved.cut), np.int64(saved.categories))
        node = next_node(state, node, np.int64(0))
    return True
