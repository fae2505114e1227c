"""Restructure: another subtree that separates the rows into the same leaves (Wu, Tjelmeland and West 2007).

An internal node is picked uniformly. From the node down, each cell that contains more than one of the old leaves draws
uniformly one of the splits that cut none of them, until each leaf is alone. If a cell has no such split the proposal
fails. The scores cancel, and so does the probability of the pick, since the new tree has as many internal nodes. With
``log_build`` the log probability of building a subtree (`log_build_probability`),

    log_proposal_ratio = log_build(old) - log_build(new)
    log_build = - sum over internal nodes u of log[ n_splits_in_all(leaves in u) n_alike(split of u) ]

where ``n_alike`` splits of a box separate its old leaves alike, of which one is drawn uniformly (1 under local cuts).
Old leaves have numbers from 0, and a set of them is an integer with the bits of their numbers. Splits with an empty
side are never drawn, and a tree with an empty leaf stays. The move is off under dyadic cuts and on a fixed tree, where
few trees have the same leaves.
"""

from math import inf, log

import numpy as np

from ...core.bits import n_bits
from ...core.compile.jit import jit
from ...model import Lowered
from ...model.split_prior.base import has_one_split_per_feature, parts_box
from ..edits.carry_over import LOG_2, cell_categories, fit_split
from ..edits.grow import attach_children
from ..edits.proposal import Proposal, nothing, refused, withdrawn
from ..edits.replace_subtree import begin, replacement
from ..state.lists import is_leaf
from ..state.random import pick, pick_subset
from ..state.records import MAX_RESTRUCTURED_LEAVES, N_INTERNAL, NONE
from ..state.terms import next_node
from ..state.tree import ChainState
from .base import Move

MAX_RESTRUCTURE_VALUES = 200_000
"""Largest number of merged rows times features in the cell of a restructured node."""


@jit
def restructure_step(rng: np.random.Generator, model: Lowered, state: ChainState) -> Proposal:
    """Propose another subtree, at a random internal node, that has the same leaves as sets of rows."""
    if state.count[N_INTERNAL] == 0:
        return nothing()
    node = state.node[pick(rng, state.count[N_INTERNAL])].internal
    n_leaves = note_leaves(model, state, node)
    if n_leaves == 0:
        return refused(0)
    log_reverse = log_build_probability(model, state, node)
    top = begin(state, node)
    state.scratch.note[top].leaves = (np.int64(1) << n_leaves) - 1
    log_forward = build_same_leaves(rng, model, state, top)
    if log_forward == -inf:
        return withdrawn(0, node, top)
    return replacement(model, state, 0, node, top, log_reverse - log_forward)


@jit
def note_leaves(model: Lowered, state: ChainState, top: int) -> int:
    """Number the leaves of the subtree at ``top`` from 0, and return how many there are. Return 0 if there are too many
    leaves or values, if a leaf has no rows, or if cells have one split per feature.

    Write the codes of each leaf into ``scratch.restructure.codes``, and the leaves in a node's cell into its ``note``.
    """
    p = len(model.split_prior.feature)
    if has_one_split_per_feature(model.split_prior):
        return np.int64(0)
    if (state.node[top].stop - state.node[top].start) * p > MAX_RESTRUCTURE_VALUES:
        return np.int64(0)
    n, node = np.int64(0), np.int64(top)
    while node != NONE:
        state.scratch.note[node].leaves = 0
        if is_leaf(state, node):
            if n == MAX_RESTRUCTURED_LEAVES or state.node[node].start == state.node[node].stop:
                return np.int64(0)
            for k in range(p):
                _note_leaf(model, state, node, n, k)
            ancestor = np.int64(node)
            while ancestor != top:
                state.scratch.note[ancestor].leaves |= np.int64(1) << n
                ancestor = state.node[ancestor].parent
            n += 1
        node = next_node(state, node, top)
    state.scratch.note[top].leaves = (np.int64(1) << n) - 1
    return n


@jit
def _note_leaf(model: Lowered, state: ChainState, node: int, leaf: int, k: int) -> None:
    """Write the codes of feature ``k`` that the rows of a leaf have into ``restructure.codes[leaf, k]``.

    They are the smallest and the largest code, or the bits of the categories and 0. ``node`` is the leaf's node.
    """
    codes, nominal = model.units.codes, model.split_prior.feature[k].nominal
    low, high, categories = np.int64(1) << 40, np.int64(-1), np.int64(0)
    for i in range(state.node[node].start, state.node[node].stop):
        c = np.int64(codes[k, state.order[i]])
        low, high = min(low, c), max(high, c)
        if nominal:
            categories |= np.int64(1) << c
    leaf_codes = state.scratch.restructure.codes
    leaf_codes[leaf, k, 0], leaf_codes[leaf, k, 1] = (categories, np.int64(0)) if nominal else (low, high)


@jit
def n_splits_on(model: Lowered, state: ChainState, k: int, leaves: int) -> int:
    """Return the number of splits on feature ``k`` that separate a set of old leaves (bits) without cutting a leaf."""
    if model.split_prior.feature[k].weight == 0.0:
        return np.int64(0)
    n, side = np.int64(0), next_leaf_set(model, state, k, leaves, np.int64(0))
    while side != leaves:
        n += 1
        side = next_leaf_set(model, state, k, leaves, side)
    # n + 1 groups of leaves without a common category can be put on two sides in 2^n - 1 ways
    return (np.int64(1) << n) - 1 if model.split_prior.feature[k].nominal else n


@jit
def next_leaf_set(model: Lowered, state: ChainState, k: int, leaves: int, side: int) -> int:
    """Return the smallest subset of ``leaves``, larger than ``side``, that feature ``k`` separates from the others, or
    ``leaves`` if there is none. The sets are bits, and ``side`` is 0 or a result of this function, not all leaves.

    For an ordered feature, it has the leaves below a cut. For a nominal feature, it is ``side`` and a group of leaves
    that share categories, directly or through others.
    """
    nominal, codes = model.split_prior.feature[k].nominal, state.scratch.restructure.codes
    others = leaves & ~side
    reach, first = np.int64(1) << 40, np.int64(-1)
    for b in range(MAX_RESTRUCTURED_LEAVES):
        if (others >> b) & 1 and (first < 0 or (not nominal and codes[b, k, 0] < reach)):
            first, reach = np.int64(b), codes[b, k, 0]
    side |= np.int64(1) << first
    reach = codes[first, k, 0] if nominal else codes[first, k, 1]
    has_grown = True
    while has_grown:
        has_grown = False
        for b in range(MAX_RESTRUCTURED_LEAVES):
            if ((leaves & ~side) >> b) & 1:
                is_inseparable = codes[b, k, 0] & reach != 0 if nominal else codes[b, k, 0] <= reach
                if is_inseparable:
                    side |= np.int64(1) << b
                    reach = reach | codes[b, k, 0] if nominal else max(reach, codes[b, k, 1])
                    has_grown = True
    return side


@jit
def n_splits_in_all(model: Lowered, state: ChainState, leaves: int) -> int:
    """Return the number of splits, on all features, that separate a set of old leaves (bits) without cutting a leaf."""
    total = np.int64(0)
    for k in range(len(model.split_prior.feature)):
        total += n_splits_on(model, state, k, leaves)
    return total


@jit
def log_n_alike(model: Lowered, state: ChainState, node: int, k: int, left: int, right: int) -> float:
    """Return the log number of a node's splits on feature ``k`` that separate two sets of old leaves (bits) alike.

    The ``left`` set has the smaller codes. The number is 1 under local cuts: splits that divide rows alike are one.
    """
    if not parts_box(model.split_prior):
        return 0.0
    if model.split_prior.feature[k].nominal:
        return LOG_2 * n_bits(state.box[node, k, 0] & ~categories_in(state, k, left | right))
    return log(float(code_range_in(state, k, right)[0] - code_range_in(state, k, left)[1]))


@jit
def categories_in(state: ChainState, k: int, leaves: int) -> int:
    """Return the bits of the categories of feature ``k`` that the rows of a set of old leaves (bits) have."""
    categories = np.int64(0)
    for b in range(MAX_RESTRUCTURED_LEAVES):
        if (leaves >> b) & 1:
            categories |= state.scratch.restructure.codes[b, k, 0]
    return categories


@jit
def code_range_in(state: ChainState, k: int, leaves: int) -> tuple[int, int]:
    """Return the smallest and the largest code of feature ``k`` in the rows of a set of old leaves (bits)."""
    low, high, codes = np.int64(1) << 40, np.int64(-1), state.scratch.restructure.codes
    for b in range(MAX_RESTRUCTURED_LEAVES):
        if (leaves >> b) & 1:
            low, high = min(low, codes[b, k, 0]), max(high, codes[b, k, 1])
    return low, high


@jit
def log_build_probability(model: Lowered, state: ChainState, top: int) -> float:
    """Return the log probability that `build_same_leaves` builds the subtree at ``top``, after `note_leaves`."""
    total, node, note = 0.0, np.int64(top), state.scratch.note
    while node != NONE:
        if not is_leaf(state, node):
            record = state.node[node]
            total -= log(float(n_splits_in_all(model, state, note[node].leaves)))
            left, right = note[record.left].leaves, note[record.right].leaves
            total -= log_n_alike(model, state, node, record.feature, left, right)
        node = next_node(state, node, top)
    return total


@jit
def build_same_leaves(rng: np.random.Generator, model: Lowered, state: ChainState, top: int) -> float:
    """Grow the leaf ``top`` into a random subtree with the old leaves, the set of which is in ``note[top].leaves``.

    Return the log probability of the subtree, ``-inf`` if a cell has no split or one is not admissible.
    """
    total, node = 0.0, np.int64(top)
    while node != NONE:
        leaves = state.scratch.note[node].leaves
        if leaves & (leaves - 1) != 0:
            n_splits = n_splits_in_all(model, state, leaves)
            if n_splits == 0:
                return -inf
            number, k = pick(rng, n_splits), np.int64(0)
            while number >= n_splits_on(model, state, k, leaves):
                number -= n_splits_on(model, state, k, leaves)
                k += 1
            left = left_leaves(model, state, k, leaves, number)
            total -= log(float(n_splits)) + log_n_alike(model, state, node, k, left, leaves & ~left)
            if not _attach_leaf_sets(rng, model, state, node, k, left, leaves & ~left):
                return -inf
        node = next_node(state, node, top)
    return total


@jit
def left_leaves(model: Lowered, state: ChainState, k: int, leaves: int, number: int) -> int:
    """Return the bits of the old leaves on the left of split ``number``, from 0, of those that `n_splits_on` counts.

    ``leaves`` are the bits of the old leaves that feature ``k`` separates.
    """
    left, side, j = np.int64(0), np.int64(0), np.int64(0)
    nominal = model.split_prior.feature[k].nominal
    while side != leaves:
        next_side = next_leaf_set(model, state, k, leaves, side)
        if not nominal and j == number:
            return next_side
        # parts after the first are on its side if the pattern has their bit, and the full pattern is not a split
        if nominal and (j == 0 or (number >> (j - 1)) & 1):
            left |= next_side & ~side
        side = next_side
        j += 1
    return left


@jit
def _attach_leaf_sets(
    rng: np.random.Generator, model: Lowered, state: ChainState, node: int, k: int, left: int, right: int
) -> bool:
    """Split the leaf ``node`` on feature ``k``, so that the sets ``left`` and ``right`` (bits) of old leaves go to
    different children, by one of the splits that do so, drawn uniformly.

    Return False, with nothing attached, if the split is not admissible.
    """
    cut, categories = np.int64(0), np.int64(-1)
    if model.split_prior.feature[k].nominal:
        categories = categories_in(state, k, left)
        if parts_box(model.split_prior):
            categories |= pick_subset(
                rng, cell_categories(model, state, node, k) & ~categories_in(state, k, left | right)
            )
    else:
        cut = code_range_in(state, k, left)[1]
        if parts_box(model.split_prior):
            gap = code_range_in(state, k, right)[0] - cut
            cut += pick(rng, gap) if gap > 1 else np.int64(0)
    split, swapped = fit_split(model, state, node, k, cut, categories)
    if split.log_rule == -inf:
        return False
    attach_children(model, state, node, split)
    record = state.node[node]
    state.scratch.note[record.left].leaves = right if swapped else left
    state.scratch.note[record.right].leaves = left if swapped else right
    return True


MOVE = Move("restructure", restructure_step, scratch=("replace", "restructure"))
