"""Terms of the posterior: prior and score of nodes and subtrees."""

from math import isfinite

from ...core.compile.jit import jit
from ...model import Lowered
from ...model.leaf.codes import SHARED_NORMAL
from ...model.leaf.compiled import leaf_score
from .lists import is_leaf
from .records import NONE
from .tree import ChainState


@jit
def score_node(model: Lowered, state: ChainState, node: int) -> None:
    """Compute the log score of a node as a leaf, and the same at the guess of a variance that leaves share."""
    # FloatingPointError if they are not finite
    record = state.node[node]
    record.score = record.guess = leaf_score(model.leaf, state.stats, node)
    if model.leaf.kind == SHARED_NORMAL:
        record.guess = leaf_score(model.proposal_leaf, state.stats, node)
    if not isfinite(record.score + record.guess):
        raise_not_finite(state, node, False)


@jit
def raise_not_finite(state: ChainState, node: int, below: bool) -> None:
    """Raise FloatingPointError, since the score of a node, or with `below` of one side of a split, is not finite."""
    # both arguments are stored: `chain.stopped` names the cell
    state.scratch.failed_node[0], state.scratch.failed_node[1] = node, below
    raise FloatingPointError("the score of a cell is not finite")


@jit
def log_stop(model: Lowered, index: int, splittable: bool, rows: int) -> float:
    """Return the log prior factor of a leaf with `rows` rows; `splittable` is False if it had to be a leaf."""
    # a leaf without rows gets the prior's term for empty leaves as well
    factors = model.prior.table[index]
    out = factors.log_stop if splittable else factors.log_forced
    return out + model.prior.empty_bonus if rows == 0 else out


@jit
def prior_index(model: Lowered, depth: int, design: int) -> int:
    """Return the index in the tree prior's tables: ``depth`` or, for tables by node of a fixed tree, ``design``."""
    return design if model.prior.by_node else depth


@jit
def node_log_stop(model: Lowered, state: ChainState, node: int) -> float:
    """Return the log prior factor that the node has, or would have, as a leaf."""
    index = prior_index(model, state.node[node].depth, state.node[node].design)
    return log_stop(model, index, state.node[node].splittable, state.node[node].rows)


@jit
def node_log_split(model: Lowered, state: ChainState, node: int) -> float:
    """Return the log prior factor of splitting the node, split or not, without the split prior R of its split."""
    return model.prior.table[prior_index(model, state.node[node].depth, state.node[node].design)].log_split


@jit
def subtree_log_prior(model: Lowered, state: ChainState, root: int) -> float:
    """Return the log prior of the subtree at ``root``: log stop factors of leaves, and log split factors and log split
    priors of internal nodes.
    """
    total = 0.0
    node = root
    while node != NONE:
        if is_leaf(state, node):
            total += node_log_stop(model, state, node)
        else:
            total += node_log_split(model, state, node)
            total += state.node[node].log_rule
        node = next_node(state, node, root)
    return total


@jit
def subtree_log_score(state: ChainState, root: int) -> float:
    """Return the sum of the log scores, not tempered, of the leaves of the subtree at ``root``."""
    total = 0.0
    node = root
    while node != NONE:
        if is_leaf(state, node):
            total += state.node[node].score
        node = next_node(state, node, root)
    return total


@jit
def count_internal(state: ChainState, root: int) -> int:
    """Return the number of internal nodes at and below ``root``."""
    n, node = 0, root
    while node != NONE:
        n += not is_leaf(state, node)
        node = next_node(state, node, root)
    return n


@jit
def next_node(state: ChainState, node: int, root: int) -> int:
    """Return the node after ``node`` in a preorder walk of the subtree at ``root``, -1 after the last node."""
    if not is_leaf(state, node):
        return state.node[node].left
    while node != root:
        parent = state.node[node].parent
        if state.node[parent].left == node:
            return state.node[parent].right
        node = parent
    return NONE
