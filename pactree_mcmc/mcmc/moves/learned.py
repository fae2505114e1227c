"""Draw the whole tree, or a subtree, from a learned density (formulas, section 12.3).

A merged row and a depth are drawn uniformly. v is the node of that depth on the path of the row, counted from the first
cell that is not too large (`pick_cell`). The pick is equally probable in both trees. So with g the density of the
subtree at v, given its cell,

    log_proposal_ratio = log g(T) - log g(T')

v keeps its subtree if the old or the new one has more than ``MAX_DRAWN_INTERNAL`` internal nodes, or if the old one has
a split that g cannot draw.
"""

from math import inf
from typing import Any

import numpy as np

from ...core.compile.jit import jit
from ...model import Lowered
from ..edits.grow import attach_children, prune_all, restore_saved_tree
from ..edits.proposal import Proposal, nothing, refused, withdrawn
from ..edits.replace_subtree import MAX_DRAWN_INTERNAL, begin, drop_subtree, has_room, replacement
from ..state.records import NONE, ChainState
from ..state.terms import next_node, subtree_log_prior, subtree_log_score
from ..whole.density.density import pick_cell
from ..whole.density.graph import add_tree, draw_decision, is_drawable, log_density
from .base import Move


@jit
def learned_step(rng: np.random.Generator, model: Lowered, state: ChainState) -> Proposal:
    """Propose a subtree of a random node, drawn from the learned density. Add it and the present one to the graph."""
    node = pick_cell(rng, model, state)
    if node == NONE or not state.node[node].splittable:
        return nothing()
    if not is_drawable(model, state, node):
        return refused(0)
    log_reverse = log_density(model, state, node)
    # before `draw_subtree` sorts the rows of these nodes in another order
    add_tree(model, state, node)
    top = begin(state, node)
    log_forward = draw_subtree(rng, model, state, top)
    if log_forward == inf:
        return withdrawn(0, node, top)
    add_tree(model, state, top)
    return replacement(model, state, 0, node, top, log_reverse - log_forward)


@jit
def draw_subtree(rng: np.random.Generator, model: Lowered, state: ChainState, top: int) -> float:
    """Grow the leaf ``top`` into a subtree drawn from the density. Return its log density, +inf if it is too large."""
    total, n_internal, node = 0.0, 0, np.int64(top)
    while node != NONE:
        if state.node[node].splittable:
            split, log_g = draw_decision(rng, model, state, node)
            total += log_g
            if split.feature != NONE:
                n_internal += 1
                if n_internal > MAX_DRAWN_INTERNAL:
                    return inf
                attach_children(model, state, node, split)
        node = next_node(state, node, top)
    return total


@jit
def sample_trees(chain: Any, out: np.ndarray, first_tree: int) -> int:
    """Draw independent trees from the learned density, and add them to a growing graph of visited cells."""
    # write the log weights ``log pi(T) - log g(T)``, with pi = prior times likelihood and g the density, into
    # ``out[first_tree:]``, -inf for a tree that gets too large. Return the number of entries of ``out`` that are now
    # written, less than all if free nodes run out
    rng, model, state = chain.rng, chain.model, chain.state
    root = np.int64(0)
    for i in range(first_tree, len(out)):
        if not has_room(state):
            return i
        top = begin(state, root)
        log_g = draw_subtree(rng, model, state, top)
        out[i] = -inf
        if log_g < inf:
            out[i] = subtree_log_prior(model, state, top) + subtree_log_score(state, top) - log_g
            add_tree(model, state, top)
        drop_subtree(state, root, top)
    return len(out)


@jit
def add_saved_trees(chain: Any, nodes: np.recarray, start: np.ndarray, stop: np.ndarray, first_tree: int) -> int:
    """Add saved trees that the learned density can draw to the graph of visited cells. The chain ends as a stump."""
    # tree i is ``nodes[start[i]:stop[i]]``, in preorder. Begin with tree ``first_tree``. Return the number of trees
    # treated so far, which is less than all if free nodes run out
    model, state = chain.model, chain.state
    for i in range(first_tree, len(start)):
        if not restore_saved_tree(model, state, nodes, start[i], stop[i]):
            return i
        if is_drawable(model, state, np.int64(0)):
            add_tree(model, state, np.int64(0))
    prune_all(state)
    return len(start)


@jit
def saved_log_weights_into(
    chain: Any, nodes: np.recarray, start: np.ndarray, stop: np.ndarray, out: np.ndarray, first_tree: int
) -> int:
    """Write ``log pi(T) - log g(T)`` of saved trees, +inf if g cannot draw the tree, into ``out[first_tree:]``."""
    # pi = prior times likelihood. Tree i is nodes[start[i]:stop[i]], in preorder. Return the number of entries of `out`
    # that are now written, less than all if free nodes run out. The chain ends as a stump
    model, state = chain.model, chain.state
    root = np.int64(0)
    for i in range(first_tree, len(start)):
        if not restore_saved_tree(model, state, nodes, start[i], stop[i]):
            return i
        out[i] = inf
        if is_drawable(model, state, root):
            log_pi = subtree_log_prior(model, state, root) + subtree_log_score(state, root)
            out[i] = log_pi - log_density(model, state, root)
    prune_all(state)
    return len(start)


MOVE = Move("learned", learned_step, scratch=("scan", "replace", "density"))
