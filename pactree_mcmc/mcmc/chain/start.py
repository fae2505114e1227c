"""Starts of chains: the stump, a tree of the user, one drawn from the prior, or one grown on the data.

By default the starts are more dispersed than the posterior, so that chains that have not mixed disagree (Gelman and
Rubin 1992). Each start has another feature at the root and is grown by another power of the likelihood.
"""

from __future__ import annotations

from math import exp, inf
from typing import Any, NamedTuple

import numpy as np

from ...core.compile.jit import jit
from ...core.portable import exp as exp_of
from ...files.encoding import register_class
from ...model import TreeModel
from ...model.model import draw_prior
from ...posterior.draws import Draws
from ...tree.arrays import LEAF
from ...tree.tree import Tree
from ..edits.grow import accept_growth, attach_children
from ..kernel import read_kernel
from ..state.lists import is_leaf
from ..state.random import flip
from ..state.records import N_FREE, NONE, STORED_VERSION
from ..state.terms import next_node, node_log_split, node_log_stop
from ..sums.split_sums import draw_scanned, draw_scanned_on_feature, log_lookahead, scan_cell
from .chain import Chain
from .draw_store import trim_draws

PRIOR_BLOCKS = 200
"""Number of blocks of proposals by which a chain without data draws a tree from the prior."""
N_DIGITS_OF_WEIGHTS = 6
"""Number of digits behind the point to which the log weights of features are rounded before a start."""
MAX_FEATURE_PROBABILITY = 0.25
"""Largest probability with which a dispersed start has a given feature at its root."""
PLACE_OFFSET = (5.0**0.5 - 2.0) / 2.0
"""Offset of `Dispersed.place`, which keeps it as far as possible from the bounds between equally likely features."""
START_POWERS = (1.0, 0.5, 0.25)
"""Powers of the likelihood by which dispersed starts grow. Chain c uses entry c modulo 3."""
TEMPORARY_VERSION = -2
"""Value of `count[STORED_VERSION]`, which marks stored values, while a start grows. No chain uses it later."""


@register_class
class Dispersed(NamedTuple):
    """Start of a chain at a grown tree, with another root feature and power of the likelihood than other chains."""

    chain: int
    """Number of the chain in the run, from 0."""

    @property
    def place(self) -> float:
        """Point of [0, 1) for the root feature; those of the first 2^k chains are in different intervals of 2^-k."""
        bits = f"{self.chain:b}"[::-1]
        return (int(bits, 2) / (1 << len(bits)) + PLACE_OFFSET) % 1.0

    @property
    def power(self) -> float:
        """Power of the likelihood by which the tree grows."""
        return START_POWERS[self.chain % len(START_POWERS)]


def move_to_start(model: TreeModel, chain: Any, start: Any, rng: np.random.Generator) -> None:
    """Bring a chain, or each replica of a ladder, from the stump to its ``start``."""
    # this is "grown", "prior" (a tree drawn by ``rng``), a `Dispersed` or a Tree. Any other value means the stump
    for replica in chain.all_chains:
        tree = draw_prior_tree(model, rng) if isinstance(start, str) and start == "prior" else start
        if isinstance(tree, Tree):
            load_tree(model, replica, tree)
        elif isinstance(tree, Dispersed):
            grow_dispersed(replica, tree)
        elif tree == "grown":
            grow_tree(replica)


def is_grown_start(start: Any) -> bool:
    """Return True if a start grows a tree on the data, for which a chain needs more arrays."""
    return isinstance(start, Dispersed) or (isinstance(start, str) and start == "grown")


def grow_dispersed(chain: Chain, start: Dispersed) -> None:
    """Grow a random tree by prior times likelihood to ``start.power``, with the root feature at ``start.place``."""
    state = chain.state
    beta, version = float(state.beta[0]), int(state.count[STORED_VERSION])
    state.beta[0], state.count[STORED_VERSION] = start.power * beta, TEMPORARY_VERSION
    sums = np.full(len(state.scratch.feature_weight), -np.inf)
    if root_sums_into(sums, chain.packed_chain):
        split_root(chain.packed_chain, feature_at(sums, start.place))
    grow_tree(chain)
    # growing may have replaced the arrays
    state = chain.state
    state.beta[0], state.count[STORED_VERSION] = beta, version
    state.stored.cell.scan[:] = NONE


def feature_at(log_weights: np.ndarray, place: float) -> int:
    """Return the feature at a point of [0, 1), of which each has an interval of its probability, likely ones first."""
    # log weights (q,) are divided by 2 until no probability is above `MAX_FEATURE_PROBABILITY`, or all are equal
    features = np.flatnonzero(log_weights > -np.inf)
    # rounding errors must not order features that are equally likely
    log_ratios = np.round(log_weights[features] - log_weights[features].max(), N_DIGITS_OF_WEIGHTS)
    power = 1.0
    weight = exp_of(log_ratios)
    while weight.max() > MAX_FEATURE_PROBABILITY * weight.sum() and -power * log_ratios.min() > 1e-3:
        power /= 2.0
        weight = exp_of(power * log_ratios)
    order = np.argsort(-weight, kind="stable")
    ends = np.cumsum(weight[order])
    return int(features[order[np.searchsorted(ends, place * ends[-1], side="right")]])


@jit
def root_sums_into(sums: np.ndarray, chain: Any) -> bool:
    """Write the log of each feature's part of the sum W of the root into ``sums`` (q,). Return True if W > 0."""
    # W is the sum of split prior times exp(tempered gain) over the splits, up to a constant. Nothing is written if the
    # root cannot be split
    model, state, root = chain.model, chain.state, np.int64(0)
    if not state.node[root].splittable or node_log_split(model, state, root) == -inf:
        return False
    cell_index = scan_cell(model, state, root)
    for k in range(len(sums)):
        sums[k] = state.stored.log_part[cell_index, k]
    return state.stored.cell[cell_index].log_w > -inf


@jit
def split_root(chain: Any, k: int) -> None:
    """Split a packed chain's stump on feature ``k``, drawing in proportion to split prior times exp(tempered gain)."""
    model, state, root = chain.model, chain.state, np.int64(0)
    attach_children(model, state, root, draw_scanned_on_feature(chain.rng, model, state, root, k))
    accept_growth(model, state, root)


def grow_tree(chain: Chain) -> None:
    """Grow the tree of a chain: split each leaf with the probability split W / (stop + split W) (`log_lookahead`)."""
    node = 0
    while node != NONE:
        node = grow_from(chain.packed_chain, np.int64(node))
        if node != NONE:
            chain.enlarge()


@jit
def grow_from(chain: Any, node: int) -> int:
    """Do what `grow_tree` does from ``node`` on in preorder; return -1, or a node for which no free nodes are left."""
    model, state, root = chain.model, chain.state, np.int64(0)
    while node != NONE:
        if is_leaf(state, node) and state.node[node].splittable:
            if state.count[N_FREE] < 2:
                return node
            stop = node_log_stop(model, state, node) - log_lookahead(model, state, node)
            if not flip(chain.rng, exp(min(stop, 0.0))):
                attach_children(model, state, node, draw_scanned(chain.rng, model, state, node))
                accept_growth(model, state, node)
        node = next_node(state, node, root)
    return NONE


def load_tree(model: TreeModel, chain: Chain, tree: Tree) -> None:
    """Grow a chain's stump into ``tree``. Raise ValueError if a split sends its cell's smallest category right."""
    todo: list[tuple[int, int]] = [(0, 0)]
    for number, cell, split in model.visit(tree):
        _, node = todo.pop()
        if tree.feature[number] == LEAF:
            continue
        left, right = int(tree.left[number]), int(tree.right[number])
        k, categories = split.feature, split.categories
        if categories >= 0:
            present = model.categories_in(cell, k)
            if categories & present and not categories & present & -present:
                raise ValueError(f"node {number} of the start sends its smallest category right; swap its children.")
        chain.grow_by_split(node, k, split.cut, categories)
        grown_node = chain.state.node[node]
        todo += [(right, int(grown_node.right)), (left, int(grown_node.left))]


def draw_prior_tree(model: TreeModel, rng: np.random.Generator) -> Tree:
    """Draw a tree from the prior, exactly or, if that is impossible (`LeafPenalty`), by a long chain without data."""
    prior_draw = draw_prior(model, rng)
    return prior_draw.tree if prior_draw is not None else _prior_by_chain(model, rng)


def _prior_by_chain(model: TreeModel, rng: np.random.Generator) -> Tree:
    """Draw a tree from the prior by a chain of grow and prune proposals without data."""
    lowered = model.lowered
    without_data = lowered._replace(units=lowered.units._replace(weight=np.zeros(1), weight_all=0))
    chain = Chain(without_data, read_kernel("grow-prune"), rng)
    chain.run_blocks(PRIOR_BLOCKS)
    chain.reserve(1)
    chain.save()
    return Draws.join(model, [trim_draws(chain.saved)]).distinct_tree(0)
