"""Restructure: another subtree that parts the rows into the same leaves (Wu, Tjelmeland and West 2007).

An internal node is picked uniformly; there are as many after the move. From its top down, each cell that holds more
than one of the old leaves takes one of the splits that cut none of them, uniformly, until each leaf is alone; where
there is none the proposal fails. The scores cancel, and with ``log_build`` the log probability of building a subtree,

    log_proposal_ratio = log_build(old) - log_build(new)

Splits with an empty side are never taken, and a tree with an empty leaf stays. Under dyadic cuts and on a
fixed tree the move does nothing: there the same leaves leave little choice.
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
from ..state.random import flip, pick
from ..state.records import N_INTERNAL, NONE
from ..state.scratch import MOST_BLOCKS
from ..state.terms import next_node
from ..state.tree import ChainState
from .base import Move

MOST_VALUES = 200_000
"""Units times features a restructured node may hold."""


@jit
def restructure_step(rng: np.random.Generator, model: Lowered, state: ChainState) -> Proposal:
    """One proposal."""
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
    """Number the leaves below ``top``, note the codes of each and which each node holds; 0 if the move is off."""
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
    """How many ways feature ``k`` has of parting a set of blocks without cutting one."""
    if model.split_prior.feature[k].weight == 0.0:
        return np.int64(0)
    n, part = np.int64(0), next_part(model, state, k, blocks, np.int64(0))
    while part != blocks:
        n += 1
        part = next_part(model, state, k, blocks, part)
    return (np.int64(1) << n) - 1 if model.split_prior.feature[k].nominal else n


@jit
def next_part(model: Lowered, state: ChainState, k: int, blocks: int, part: int) -> int:
    """The next larger set of blocks, ``part`` in it, that feature ``k`` does not cut off within a block.

    Ordered: the blocks below a cut. Nominal: ``part`` and the blocks that hang together with the first of the others.
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
    """Ways of all features of parting a set of blocks."""
    total = np.int64(0)
    for k in range(len(model.split_prior.feature)):
        total += n_ways_between(model, state, k, blocks)
    return total


@jit
def log_alike(model: Lowered, state: ChainState, node: int, k: int, left: int, right: int) -> float:
    """Log of how many splits of the box part two sets of blocks alike; 0 under local cuts."""
    if not parts_box(model.split_prior):
        return 0.0
    if model.split_prior.feature[k].nominal:
        return LOG_2 * n_bits(state.box[node, k, 0] & ~seen_in(state, k, left | right))
    return log(float(codes_in(state, k, right)[0] - codes_in(state, k, left)[1]))


@jit
def seen_in(state: ChainState, k: int, blocks: int) -> int:
    """Bits of the categories in a set of blocks."""
    seen = np.int64(0)
    for b in range(MOST_BLOCKS):
        if (blocks >> b) & 1:
            seen |= state.scratch.restructure.codes[b, k, 0]
    return seen


@jit
def codes_in(state: ChainState, k: int, blocks: int) -> tuple[int, int]:
    """Return the smallest and the largest code in a set of blocks."""
    low, high, codes = np.int64(1) << 40, np.int64(-1), state.scratch.restructure.codes
    for b in range(MOST_BLOCKS):
        if (blocks >> b) & 1:
            low, high = min(low, codes[b, k, 0]), max(high, codes[b, k, 1])
    return low, high


@jit
def log_build(model: Lowered, state: ChainState, top: int) -> float:
    """Log probability of building the subtree at ``top``, whose nodes know their blocks."""
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
    """Build a subtree with the same leaves at ``top``; log of its probability, ``-inf`` where it came to an end."""
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
            if not _ask(rng, model, state, node, k, left, blocks & ~left):
                return -inf
        node = next_node(state, node, top)
    return total


@jit
def part_number(model: Lowered, state: ChainState, k: int, blocks: int, number: int) -> int:
    """The blocks on one side under way ``number`` of feature ``k``."""
    left, part, j = np.int64(0), np.int64(0), np.int64(0)
    nominal = model.split_prior.feature[k].nominal
    while part != blocks:
        larger = next_part(model, state, k, blocks, part)
        if not nominal and j == number:
            return larger
        # pieces behind the first go with it where the pattern has a bit; the full pattern is no way
        if nominal and (j == 0 or (number >> (j - 1)) & 1):
            left |= larger & ~part
        part = larger
        j += 1
    return left


@jit
def _ask(rng: np.random.Generator, model: Lowered, state: ChainState, node: int, k: int, left: int, right: int) -> bool:
    """Part a leaf so that the given blocks go left and right; False where the split cannot be made."""
    cut, categories = np.int64(0), np.int64(-1)
    if model.split_prior.feature[k].nominal:
        categories = seen_in(state, k, left)
        if parts_box(model.split_prior):
            free = cell_bits(model, state, node, k) & ~seen_in(state, k, left | right)
            while free:
                if flip(rng, 0.5):
                    categories |= free & -free
                free &= free - 1
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
