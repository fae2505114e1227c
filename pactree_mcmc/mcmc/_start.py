"""Where a chain starts: the stump, a given tree, one drawn from the prior, one grown on the data."""

from __future__ import annotations

from math import exp
from typing import Any

import numpy as np

from .._numba import jit
from ..model import TreeModel
from ..model._grown import draw_prior
from ..posterior import SampledPosterior
from ..trees import LEAF, Tree
from ._ahead import log_z
from ._chain import Chain
from ._kernels import read_kernel
from ._moves._growth import hang_children, keep_growth
from ._random import flip
from ._saving import trimmed
from ._scan import draw_scanned
from ._state import N_FREE, NONE, is_leaf, next_node, node_log_stop

PRIOR_BLOCKS = 200


def put_start(model: TreeModel, chain: Any, start: Any, rng: np.random.Generator) -> None:
    """Bring a chain, or each of a ladder's, from the stump to its start."""
    for one in chain.all_chains:
        tree = draw_prior_tree(model, rng) if isinstance(start, str) and start == "prior" else start
        if isinstance(tree, Tree):
            load_tree(model, one, tree)
        elif tree == "grown":
            grow_tree(one)


def grow_tree(chain: Chain) -> None:
    """Grow a tree, each cell split or not as its lookahead sum of one level says."""
    node = 0
    while node != NONE:
        node = grow_from(chain.walk, np.int64(node))
        if node != NONE:
            chain.enlarge()


@jit
def grow_from(walk: Any, node: int) -> int:
    """Go on from ``node`` in preorder; -1 when done, else the node at which there was no room."""
    model, state, root = walk.model, walk.state, np.int64(0)
    while node != NONE:
        if is_leaf(state, node) and state.node[node].splittable:
            if state.count[N_FREE] < 2:
                return node
            stop = node_log_stop(model, state, node) - log_z(model, state, node, 1)
            if not flip(walk.rng, exp(min(stop, 0.0))):
                hang_children(model, state, node, draw_scanned(walk.rng, model, state, node))
                keep_growth(model, state, node)
        node = next_node(state, node, root)
    return NONE


def load_tree(model: TreeModel, chain: Chain, tree: Tree) -> None:
    """Grow the chain, a stump, into ``tree``; the part with the smallest category is put left."""
    todo: list[tuple[int, int]] = [(0, 0)]
    for number, cell, question in model.visit(tree):
        _, node = todo.pop()
        if tree.feature[number] == LEAF:
            continue
        left, right = int(tree.left[number]), int(tree.right[number])
        k, categories = question.feature, question.categories
        if categories >= 0:
            inside = model.categories_in(cell, k)
            if categories & inside and not categories & inside & -inside:
                raise ValueError(
                    f"node {number} of the start tree sends its smallest category right; swap its children."
                )
        chain.grow_as_given(node, k, question.cut, categories)
        grown = chain.state.node[node]
        todo += [(right, int(grown.right)), (left, int(grown.left))]


def draw_prior_tree(model: TreeModel, rng: np.random.Generator) -> Tree:
    """A tree from the prior: drawn directly, or, under LeafPenalty, the end of a long chain that sees no data."""
    grown = draw_prior(model, rng)
    return grown.tree if grown is not None else _prior_by_chain(model, rng)


def _prior_by_chain(model: TreeModel, rng: np.random.Generator) -> Tree:
    lowered = model.lowered
    blind = lowered._replace(units=lowered.units._replace(weight=np.zeros(1), weight_all=0))
    chain = Chain(blind, read_kernel("grow-prune"), rng)
    chain.proceed(PRIOR_BLOCKS)
    chain.reserve(1)
    chain.save()
    return SampledPosterior.from_chains(model, [trimmed(chain.saved)], (), 0.0).tree(0)
