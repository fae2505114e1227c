"""Where a chain starts: a given tree, or one drawn from the prior."""

from __future__ import annotations

import numpy as np

from ..model import TreeModel
from ..model._grown import draw_prior
from ..posterior import SampledPosterior
from ..trees import LEAF, Tree
from ._chain import DONE, GROW_PRUNE, grow_as_given, new_chain, new_saved, run_draws, run_steps, trimmed, with_more_nodes
from ._moves._growth import MOVES
from ._state import N_FREE, ChainState, enlarged

PRIOR_STEPS = 20_000


def load_tree(model: TreeModel, state: ChainState, tree: Tree) -> ChainState:
    """The state, a stump, grown into ``tree``; the part with the smallest category is put left."""
    lowered = model.lowered
    todo: list[tuple[int, int]] = [(0, 0)]
    for number, cell, question in model.visit(tree):
        _, node = todo.pop()
        if tree.feature[number] == LEAF:
            continue
        if state.count[N_FREE] < 2:
            state = enlarged(state)
        left, right = int(tree.left[number]), int(tree.right[number])
        k, categories = question.feature, question.categories
        if categories >= 0:
            inside = model.categories_in(cell, k)
            if inside and not categories & inside & -inside:
                raise ValueError(f"node {number} of the start tree sends its smallest category right; swap its children.")
        grow_as_given(lowered, state, node, k, question.cut, categories)
        todo += [(right, int(state.right[node])), (left, int(state.left[node]))]
    return state


def draw_prior_tree(model: TreeModel, rng: np.random.Generator) -> Tree:
    """A tree from the prior: drawn directly, or, under LeafPenalty, the end of a long chain that sees no data."""
    grown = draw_prior(model, rng)
    return grown.tree if grown is not None else _prior_by_chain(model, rng)


def _prior_by_chain(model: TreeModel, rng: np.random.Generator) -> Tree:
    lowered = model.lowered
    blind = lowered._replace(units=lowered.units._replace(weight=np.zeros(1), weight_all=0))
    state = new_chain(blind, len(MOVES))
    left = PRIOR_STEPS
    while left > 0:
        left -= run_steps(rng, GROW_PRUNE, blind, state, left)
        if left > 0:
            state = enlarged(state)
    saved = new_saved(1, len(MOVES), blind.leaf.n_stats)
    while run_draws(rng, GROW_PRUNE, blind, state, saved, 1, 0) != DONE:
        saved = with_more_nodes(saved, len(state.parent))
    return SampledPosterior.from_chains(model, [trimmed(saved)], MOVES, 0.0).tree(0)
