"""Where a chain starts: a given tree, or one drawn from the prior."""

from __future__ import annotations

import numpy as np

from ..model import TreeModel
from ..model._grown import draw_prior
from ..posterior import SampledPosterior
from ..trees import LEAF, Tree
from ._chain import GROW_PRUNE, Chain, trimmed
from ._moves._growth import MOVES

PRIOR_STEPS = 20_000


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
    chain = Chain(blind, len(MOVES))
    chain.warm_up(rng, GROW_PRUNE, PRIOR_STEPS)
    chain.reserve(1)
    chain.run(rng, GROW_PRUNE, 1, 0)
    return SampledPosterior.from_chains(model, [trimmed(chain.saved)], MOVES, 0.0).tree(0)
