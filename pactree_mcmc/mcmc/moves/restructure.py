"""Restructure: another subtree that separates the rows into the same leaves (Wu, Tjelmeland and West 2007).

An internal node is picked uniformly. The new tree has as many. From the node down, each cell that contains more than
one of the old leaves draws uniformly one of the splits that cut none of them, until each leaf is alone. If a cell has
no such split the proposal fails. The scores cancel. With ``log_build`` the log probability of building a subtree,

    log_proposal_ratio = log_build(old) - log_build(new)

Splits with an empty side are never drawn, and a tree with an empty leaf stays. The move is off under dyadic cuts and on
a fixed tree, where few trees have the same leaves.
"""

from math import inf, log

import numpy as np

from ...core.bits import n_bits
from ...core.compile.jit import jit
from ...model import Lowered
from ...model.split_prior.geometry import has_one_way, parts_box
from ..edits.carry_over import LOG_2, cell_bits, fit_split
from ..edits.grow import attach_children
from ..edits.proposal import Proposal, nothing, refused, withdrawn
from ..edits.replace_subtree import begin, replacement
from ..state.lists import is_leaf
from ..state.random import pick, pick_subset
from ..state.records import N_INTERNAL, NONE
from ..state.scratch import MOST_BLOCKS
from ..state.terms import next_node
from ..state.tree import ChainState
from .base import Move

MOST_VALUES = 200_000
"""Largest number of merged rows times features in the cell of a restructured node."""


@jit
def restructure_step(rng: np.random.Generator, model: Lowered, state: ChainState) -> Proposal:
    """Propose another subtree, at a random internal node, that separates the rows into the same leaves."""
    if state.count[N_INTERNAL] == 0:
        return nothing()
    node = state.node[pick(rng, state.count[N_INTERNAL])].internal
    n_blocks = note_blocks(model, state, node)
    if n_blocks == 0:
        return refused(0)
    way_back = log_build(model, state, node)
    top = begin(state, node)
    state.scratch.note[top].blocks = (np.int64(1) << n_blocks) - 1
    way_there = rebuild(rng, model, state, top)
    if way_there == -inf:
        return withdrawn(0, node, top)
    return replacement(model, state, 0, node, top, way_back - way_there)


@jit
def note_blocks(model: Lowered, state: ChainState, top: int) -> int:
    """Number the leaves (blocks) below ``top``, and write the codes of each block and the blocks in each node's cell.

    Return the number of blocks, or 0 if the move is off for this subtree.
    """
    p = len(model.split_prior.feature)
    if has_one_way(model.split_prior):
        return np.int64(0)
    if (state.node[top].stop - state.node[top].start) * p > MOST_VALUES:
        return np.int64(0)
    n, node = np.int64(0), np.int64(top)
    while node != NONE:
        state.scratch.note[node].blocks = 0
        if is_leaf(state, node):
            if n == MOST_BLOCKS or state.node[node].start == state.node[node].stop:
                return np.int64(0)
            for k in range(p):
                _note_block(model, state, node, n, k)
            above = np.int64(node)
            while above != top:
                state.scratch.note[above].blocks |= np.int64(1) << n
                above = state.node[above].parent
            n += 1
        node = next_node(state, node, top)
    state.scratch.note[top].blocks = (np.int64(1) << n) - 1
    return n


@jit
def _note_block(model: Lowered, state: ChainState, node: int, block: int, k: int) -> None:
    """Write the smallest and largest code of feature ``k`` in a leaf, or the bits of its categories and 0."""
    codes, nominal = model.units.codes, model.split_prior.feature[k].nominal
    low, high, seen = np.int64(1) << 40, np.int64(-1), np.int64(0)
    for i in range(state.node[node].start, state.node[node].stop):
        c = np.int64(codes[k, state.order[i]])
        low, high = min(low, c), max(high, c)
        if nominal:
            seen |= np.int64(1) << c
    noted = state.scratch.restructure.codes
    noted[block, k, 0], noted[block, k, 1] = (seen, np.int64(0)) if nominal else (low, high)


@jit
def n_ways_between(model: Lowered, state: ChainState, k: int, blocks: int) -> int:
    """Return the number of splits on feature ``k`` that separate a set of blocks (bits) without cutting a block."""
    if model.split_prior.feature[k].weight == 0.0:
        return np.int64(0)
    n, part = np.int64(0), next_part(model, state, k, blocks, np.int64(0))
    while part != blocks:
        n += 1
        part = next_part(model, state, k, blocks, part)
    return (np.int64(1) << n) - 1 if model.split_prior.feature[k].nominal else n


@jit
def next_part(model: Lowered, state: ChainState, k: int, blocks: int, part: int) -> int:
    """Return the next larger set of blocks, with ``part`` in it, that feature ``k`` can separate from the others.

    For an ordered feature, the blocks below a cut. For a nominal one, ``part`` and the blocks that share categories,
    directly or through others, with the first of the rest.
    """
    nominal, codes = model.split_prior.feature[k].nominal, state.scratch.restructure.codes
    rest = blocks & ~part
    reach, first = np.int64(1) << 40, np.int64(-1)
    for b in range(MOST_BLOCKS):
        if (rest >> b) & 1 and (first < 0 or (not nominal and codes[b, k, 0] < reach)):
            first, reach = np.int64(b), codes[b, k, 0]
    part |= np.int64(1) << first
    reach = codes[first, k, 0] if nominal else codes[first, k, 1]
    growing = True
    while growing:
        growing = False
        for b in range(MOST_BLOCKS):
            if ((blocks & ~part) >> b) & 1:
                joined = codes[b, k, 0] & reach != 0 if nominal else codes[b, k, 0] <= reach
                if joined:
                    part |= np.int64(1) << b
                    reach = reach | codes[b, k, 0] if nominal else max(reach, codes[b, k, 1])
                    growing = True
    return part


@jit
def n_ways_in_all(model: Lowered, state: ChainState, blocks: int) -> int:
    """Return the number of splits, on all features, that separate a set of blocks without cutting a block."""
    total = np.int64(0)
    for k in range(len(model.split_prior.feature)):
        total += n_ways_between(model, state, k, blocks)
    return total


@jit
def log_alike(model: Lowered, state: ChainState, node: int, k: int, left: int, right: int) -> float:
    """Return the log number of splits of a node's box that separate two sets of blocks alike, 0 under local cuts."""
    if not parts_box(model.split_prior):
        return 0.0
    if model.split_prior.feature[k].nominal:
        return LOG_2 * n_bits(state.box[node, k, 0] & ~seen_in(state, k, left | right))
    return log(float(codes_in(state, k, right)[0] - codes_in(state, k, left)[1]))


@jit
def seen_in(state: ChainState, k: int, blocks: int) -> int:
    """Return the bits of the categories of feature ``k`` that occur in a set of blocks."""
    seen = np.int64(0)
    for b in range(MOST_BLOCKS):
        if (blocks >> b) & 1:
            seen |= state.scratch.restructure.codes[b, k, 0]
    return seen


@jit
def codes_in(state: ChainState, k: int, blocks: int) -> tuple[int, int]:
    """Return the smallest and the largest code of feature ``k`` in a set of blocks."""
    low, high, codes = np.int64(1) << 40, np.int64(-1), state.scratch.restructure.codes
    for b in range(MOST_BLOCKS):
        if (blocks >> b) & 1:
            low, high = min(low, codes[b, k, 0]), max(high, codes[b, k, 1])
    return low, high


@jit
def log_build(model: Lowered, state: ChainState, top: int) -> float:
    """Return the log probability that `rebuild` builds the subtree at ``top``, after `note_blocks`."""
    total, node, note = 0.0, np.int64(top), state.scratch.note
    while node != NONE:
        if not is_leaf(state, node):
            here = state.node[node]
            total -= log(float(n_ways_in_all(model, state, note[node].blocks)))
            left, right = note[here.left].blocks, note[here.right].blocks
            total -= log_alike(model, state, node, here.feature, left, right)
        node = next_node(state, node, top)
    return total


@jit
def rebuild(rng: np.random.Generator, model: Lowered, state: ChainState, top: int) -> float:
    """Build a random subtree with the same leaves (blocks) at ``top``.

    Return the log of its probability, ``-inf`` if a cell has no split.
    """
    total, node = 0.0, np.int64(top)
    while node != NONE:
        blocks = state.scratch.note[node].blocks
        if blocks & (blocks - 1) != 0:
            ways = n_ways_in_all(model, state, blocks)
            if ways == 0:
                return -inf
            number, k = pick(rng, ways), np.int64(0)
            while number >= n_ways_between(model, state, k, blocks):
                number -= n_ways_between(model, state, k, blocks)
                k += 1
            left = part_number(model, state, k, blocks, number)
            total -= log(float(ways)) + log_alike(model, state, node, k, left, blocks & ~left)
            if not _attach_blocks(rng, model, state, node, k, left, blocks & ~left):
                return -inf
        node = next_node(state, node, top)
    return total


@jit
def part_number(model: Lowered, state: ChainState, k: int, blocks: int, number: int) -> int:
    """Return the blocks (bits) on one side of split ``number`` of a set of blocks on feature ``k``."""
    left, part, j = np.int64(0), np.int64(0), np.int64(0)
    nominal = model.split_prior.feature[k].nominal
    while part != blocks:
        larger = next_part(model, state, k, blocks, part)
        if not nominal and j == number:
            return larger
        # parts after the first are on its side if the pattern has their bit, and the full pattern is not a split
        if nominal and (j == 0 or (number >> (j - 1)) & 1):
            left |= larger & ~part
        part = larger
        j += 1
    return left


@jit
def _attach_blocks(
    rng: np.random.Generator, model: Lowered, state: ChainState, node: int, k: int, left: int, right: int
) -> bool:
    """Give a leaf two children with the blocks ``left`` and ``right``. Return False if the split cannot be made."""
    cut, categories = np.int64(0), np.int64(-1)
    if model.split_prior.feature[k].nominal:
        categories = seen_in(state, k, left)
        if parts_box(model.split_prior):
            categories |= pick_subset(rng, cell_bits(model, state, node, k) & ~seen_in(state, k, left | right))
    else:
        cut = codes_in(state, k, left)[1]
        if parts_box(model.split_prior):
            gap = codes_in(state, k, right)[0] - cut
            cut += pick(rng, gap) if gap > 1 else np.int64(0)
    split, swapped = fit_split(model, state, node, k, cut, categories)
    if split.log_rule == -inf:
        return False
    attach_children(model, state, node, split)
    here = state.node[node]
    state.scratch.note[here.left].blocks = right if swapped else left
    state.scratch.note[here.right].blocks = left if swapped else right
    return True


MOVE = Move("restructure", restructure_step, scratch=("replace", "restructure"))
