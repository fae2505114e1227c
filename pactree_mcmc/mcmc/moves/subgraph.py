"""Redraw a subtree from the posterior on a random part of all subtrees (formulas, section 12.1).

At every cell u on the way down, a systematic sample C(u) of its splits is drawn, split q with probability ``p_q(u)``,
given that it contains the split that the present tree has there. Then the subtree is drawn from

    Zhat(u, d) = stop_d e^score(u) + split_d sum_{q in C(u)} R(q|u) / p_q(u) Zhat(u0_q, d+1) Zhat(u1_q, d+1)

from the top down. Both steps leave ``pi(T) prod_v 1[q_v in C(v)] / p_{q_v}(v)`` as it is, a distribution whose trees
are those of the posterior, so that every proposal is accepted. ``p_q = min(1, m_l P(split|u) P(q|u))`` by the learned
density, l levels below the top. Cells are visited depth first. Each returns its sum and one subtree drawn from it. The
work is bounded: if the subgraph has more than ``MAX_SUBGRAPH_CELLS`` cells, is deeper than ``MAX_DRAWN_INTERNAL``
levels, or costs more than ``MAX_SUBGRAPH_VALUES`` values, the tree stays as it is. The samples alone decide this. The
tree also stays if the old or the new subtree has more than ``MAX_DRAWN_INTERNAL`` internal nodes, since the reverse
move is then refused likewise.
"""

from math import exp

import numpy as np

from ...core.compile.jit import jit
from ...core.special import log_add
from ...model import Lowered
from ..edits.grow import attach_children, remove_children
from ..edits.proposal import Proposal, nothing, refused, taken, withdrawn
from ..edits.replace_subtree import MAX_DRAWN_INTERNAL, begin
from ..state.lists import is_leaf
from ..state.random import flip_log
from ..state.records import MAX_SUBGRAPH_CELLS, NONE
from ..state.splits import Split
from ..state.terms import next_node, node_log_split, node_log_stop
from ..state.tree import ChainState
from ..whole.density.density import evaluate_cell, pick_cell
from ..whole.density.systematic import sample_splits
from .base import Move
from .learned import is_drawable

EXPECTED_SAMPLE_SIZES = (8.0, 3.0, 1.5)
"""Expected number m_l of splits in the sample of a cell that is split, by level l below the top. Further down 1."""
MAX_SUBGRAPH_VALUES = 50_000_000
"""Largest sum, over the cells of a subgraph, of merged rows times features."""
MIN_LOG_SPLIT = -700.0
"""Smallest log probability of splitting, so that its exponential is positive."""


@jit
def subgraph_step(rng: np.random.Generator, model: Lowered, state: ChainState) -> Proposal:
    """Draw a subtree from a random subgraph, which is a random sample of all subtrees (a Gibbs step)."""
    node = pick_cell(rng, model, state)
    if node == NONE or not state.node[node].splittable:
        return nothing()
    if not is_drawable(model, state, node):
        return refused(0)
    arrays, is_exhausted = state.scratch.subgraph, state.scratch.density.is_exhausted
    arrays.n_cells[0] = arrays.n_values[0] = is_exhausted[0] = 0
    top = begin(state, node)
    zero = np.int64(0)
    n_nodes = draw_from_subgraph(rng, model, state, top, node, zero, zero, zero)[1]
    if is_exhausted[0] > 0 or n_nodes // 2 > MAX_DRAWN_INTERNAL:
        return withdrawn(0, node, top)
    build_drawn(model, state, top)
    return taken(0, node, top)


@jit
def draw_from_subgraph(
    rng: np.random.Generator,
    model: Lowered,
    state: ChainState,
    node: int,
    retained: int,
    level: int,
    first_branch: int,
    entry: int,
) -> tuple[float, int]:
    """Draw a subtree of the leaf ``node`` from the random subgraph below it, which is sampled at the same time.

    Write the subtree, in preorder, into ``subgraph.drawn_node[entry:]``. Return log Zhat of the leaf, the log sum of
    prior times tempered likelihood of its subtrees in the subgraph, each split over its probability of being sampled,
    and the number of nodes of the drawn one. ``retained`` is the node of the present tree with the same cell, or NONE.
    ``level`` is the number of levels below the top, and ``first_branch`` the first free entry of ``density.branch``,
    where the sampled splits are stored. Set ``density.is_exhausted`` if the subgraph gets too large. The results then
    mean nothing.
    """
    record, arrays, is_exhausted = state.node[node], state.scratch.subgraph, state.scratch.density.is_exhausted
    arrays.drawn_node[entry].feature = NONE
    arrays.n_cells[0] += 1
    arrays.n_values[0] += (record.stop - record.start) * len(model.split_prior.feature)
    if arrays.n_cells[0] > MAX_SUBGRAPH_CELLS or arrays.n_values[0] > MAX_SUBGRAPH_VALUES or level > MAX_DRAWN_INTERNAL:
        is_exhausted[0] = 1
    total = node_log_stop(model, state, node) + state.beta[0] * record.score
    if not record.splittable or is_exhausted[0] > 0:
        return total, 1
    log_split = node_log_split(model, state, node)
    if retained != NONE and is_leaf(state, retained):
        retained = np.int64(NONE)
    expected = EXPECTED_SAMPLE_SIZES[level] if level < len(EXPECTED_SAMPLE_SIZES) else 1.0
    expected *= exp(max(state.stored.guide[evaluate_cell(model, state, node)].log_split, MIN_LOG_SPLIT))
    n_branches, size = sample_splits(rng, model, state, node, expected, retained, first_branch), np.int64(1)
    for j in range(first_branch, first_branch + n_branches):
        branch = state.scratch.density.branch[j]
        split = Split(branch.feature, branch.cut, branch.upper, branch.categories, branch.log_rule)
        attach_children(model, state, node, split)
        left, right, left_retained, right_retained = state.node[node].left, state.node[node].right, NONE, NONE
        if branch.in_tree and retained != NONE:
            left_retained, right_retained = state.node[retained].left, state.node[retained].right
        next_entry = entry + size
        next_level, next_branch = level + 1, first_branch + n_branches
        z_left, n_left = draw_from_subgraph(
            rng, model, state, left, np.int64(left_retained), next_level, next_branch, next_entry
        )
        z_right, n_right = draw_from_subgraph(
            rng, model, state, right, np.int64(right_retained), next_level, next_branch, next_entry + n_left
        )
        remove_children(state, node)
        if is_exhausted[0] > 0:
            return total, 1
        # the term split_d R(q|u) / p_q Zhat(u0_q, d+1) Zhat(u1_q, d+1); its subtree replaces the one kept so far with
        # probability term / sum so far, so that in the end each is drawn in proportion to its term
        term = log_split + branch.log_rule - branch.log_p + z_left + z_right
        new_total = log_add(total, term)
        if flip_log(rng, term - new_total):
            _move_drawn_subtrees(state, entry, next_entry, n_left, n_right)
            out = arrays.drawn_node[entry]
            out.feature, out.cut, out.upper = branch.feature, branch.cut, branch.upper
            out.categories, out.log_rule = branch.categories, branch.log_rule
            out.left, out.right = 1, 1 + n_left
            size = 1 + n_left + n_right
        total = new_total
    return total, size


@jit
def _move_drawn_subtrees(state: ChainState, root: int, first: int, n_left: int, n_right: int) -> None:
    """Move two drawn subtrees, ``n_left`` and ``n_right`` nodes, from entry ``first`` to entry ``root + 1`` on.

    The entries are those of the scratch array ``drawn_node``. The subtrees, the left one first, overwrite those drawn
    for an earlier split at ``root``. The tree of the chain is not changed.
    """
    if first == root + 1:
        return
    nodes = state.scratch.subgraph.drawn_node
    for i in range(n_left + n_right):
        old, new = nodes[first + i], nodes[root + 1 + i]
        new.feature, new.cut, new.upper, new.categories = old.feature, old.cut, old.upper, old.categories
        new.log_rule, new.left, new.right = old.log_rule, old.left, old.right


@jit
def build_drawn(model: Lowered, state: ChainState, top: int) -> None:
    """Grow the leaf ``top`` into the subtree that `draw_from_subgraph` wrote from entry 0 of ``drawn_node`` on."""
    note, node = state.scratch.note, np.int64(top)
    note[top].drawn_at = 0
    while node != NONE:
        at = note[node].drawn_at
        entry = state.scratch.subgraph.drawn_node[at]
        if entry.feature != NONE:
            split = Split(entry.feature, entry.cut, entry.upper, entry.categories, entry.log_rule)
            attach_children(model, state, node, split)
            note[state.node[node].left].drawn_at = at + entry.left
            note[state.node[node].right].drawn_at = at + entry.right
        node = next_node(state, node, top)


MOVE = Move("subgraph", subgraph_step, scratch=("scan", "replace", "density", "subgraph"))
