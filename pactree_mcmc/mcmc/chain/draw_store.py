"""Saved draws of a chain: compacted copies of its trees."""

from __future__ import annotations

from math import isfinite

import numpy as np

from ...core.compile.jit import jit
from ...model import Lowered
from ...model.leaf.base import SHARED_NORMAL
from ...tree.coded import CODED_NODE, SAVED_TREE, Saved, bytes_view
from ..state.lists import is_leaf
from ..state.records import NONE, TREE_CHANGED, ChainState
from ..state.terms import next_node, raise_not_finite, subtree_log_prior, tree_log_score

DRAW_COUNT, TREE_COUNT, NODE_COUNT = range(3)
"""Indices of the entries of `Saved.used`: numbers of draws, of distinct successive trees and of their nodes."""


def new_saved(n_draws: int, n_moves: int, n_stats: int, n_levels: int = 0) -> Saved:
    """Return empty arrays with room for draws with so many proposal counts, statistics and levels, and 1024 nodes."""
    return Saved(
        tree_of_draw=np.zeros(n_draws, dtype=np.int64),
        noise=np.zeros(n_draws),
        moves=np.zeros((n_draws, 2, n_moves), dtype=np.int64),
        levels=np.zeros((n_draws, n_levels)),
        is_stump=np.zeros(n_draws, dtype=bool),
        tree=np.zeros(n_draws + 1, dtype=SAVED_TREE).view(np.recarray),
        node=np.zeros(1024, dtype=CODED_NODE).view(np.recarray),
        stats=np.zeros((1024, n_stats)),
        used=np.zeros(3, dtype=np.int64),
    )


def _node_records(copied: np.ndarray) -> np.recarray:
    """Return ``copied``, nodes that were copied as bytes, as a record array."""
    return copied.view(CODED_NODE).view(np.recarray)


def with_more_nodes(saved: Saved, n_needed: int) -> Saved:
    """Return a copy of the draws with room for at least ``n_needed`` more nodes."""
    extra = max(n_needed, len(saved.node))
    node = _node_records(np.concatenate([bytes_view(saved.node), bytes_view(np.zeros(extra, dtype=CODED_NODE))]))
    return saved._replace(node=node, stats=np.concatenate([saved.stats, np.zeros((extra, saved.stats.shape[1]))]))


def trim_draws(saved: Saved) -> Saved:
    """Return the draws without spare room."""
    n_draws, n_trees, n_nodes = (int(saved.used[i]) for i in (DRAW_COUNT, TREE_COUNT, NODE_COUNT))
    node = _node_records(bytes_view(saved.node[:n_nodes]).copy())
    out = first_draws(saved, n_draws)._replace(tree=saved.tree[: n_trees + 1], node=node, stats=saved.stats[:n_nodes])
    return Saved(*(array if array is node else array.copy() for array in out))


def join_draws(first: Saved, second: Saved) -> Saved:
    """Return the draws ``first`` of a chain followed by its later draws ``second``."""
    if len(first.node) == 0:
        return second
    n_trees, n_nodes = len(first.tree) - 1, len(first.node)
    later = second.tree.copy()
    later.start += n_nodes
    tree = np.concatenate([first.tree[:-1], later]).view(np.recarray)
    node = _node_records(np.concatenate([bytes_view(first.node), bytes_view(second.node)]))
    second = second._replace(tree_of_draw=second.tree_of_draw + n_trees)
    joined = {name: np.concatenate([getattr(first, name), getattr(second, name)]) for name in (*BY_DRAW, "stats")}
    return Saved(tree=tree, node=node, used=first.used + second.used, **joined)


def select_draws(saved: Saved, indices: np.ndarray) -> Saved:
    """Return the draws with these increasing indices. Proposals are counted since the selected draw before."""
    trees, tree_index = np.unique(saved.tree_of_draw[indices], return_inverse=True)
    start = np.asarray(saved.tree)["start"]
    sizes = start[trees + 1] - start[trees]
    ends = np.cumsum(sizes)
    nodes = np.arange(ends[-1]) + np.repeat(start[trees] - ends + sizes, sizes)
    tree = np.zeros(len(trees) + 1, dtype=SAVED_TREE).view(np.recarray)
    tree[:-1] = saved.tree[trees]
    tree.start = np.concatenate([[0], ends])
    first = np.concatenate([[0], indices[:-1] + 1])
    return Saved(
        tree_index.astype(np.int64),
        saved.noise[indices],
        np.add.reduceat(saved.moves[: indices[-1] + 1], first, axis=0),
        saved.levels[indices],
        saved.is_stump[indices],
        tree,
        _node_records(bytes_view(saved.node)[nodes]),
        saved.stats[nodes],
        np.array([len(indices), len(trees), len(nodes)], dtype=np.int64),
    )


BY_DRAW = ("tree_of_draw", "noise", "moves", "levels", "is_stump")
"""Fields of `Saved` with an entry for each draw."""


def first_draws(saved: Saved, n_draws: int) -> Saved:
    """Return the first ``n_draws`` draws of a chain, as views. Keep all trees, even if no draw refers to them now."""
    return saved._replace(**{name: getattr(saved, name)[:n_draws] for name in BY_DRAW})


def pad_draws(saved: Saved, n_draws: int) -> Saved:
    """Return the draws followed by copies of the first tree without any proposals, ``n_draws`` in all."""
    arrays = {name: getattr(saved, name) for name in BY_DRAW}
    missing = {name: np.zeros((n_draws - len(a), *a.shape[1:]), dtype=a.dtype) for name, a in arrays.items()}
    return saved._replace(**{name: np.concatenate([a, missing[name]]) for name, a in arrays.items()})


@jit
def save_draw(model: Lowered, state: ChainState, saved: Saved) -> None:
    """Write the present tree as the next draw, with variance and proposal counts, which start again from 0."""
    # copy the tree only if it has changed since the last draw. Without a shared variance write NaN
    counts = saved.used
    draw = counts[DRAW_COUNT]
    if state.count[TREE_CHANGED] == 1 or counts[TREE_COUNT] == 0:
        save_tree(model, state, saved)
    saved.tree_of_draw[draw] = counts[TREE_COUNT] - 1
    saved.noise[draw] = model.leaf.params[0] if model.leaf.kind == SHARED_NORMAL else np.nan
    for j in range(state.moves.shape[1]):
        for i in range(2):
            saved.moves[draw, i, j] = state.moves[i, j]
            state.moves[i, j] = 0
    counts[DRAW_COUNT] += 1


@jit
def log_prior_of(model: Lowered, state: ChainState) -> float:
    """Return the log prior of the present tree, constants included."""
    return model.prior.log_constant + subtree_log_prior(model, state, np.int64(0))


@jit
def save_tree(model: Lowered, state: ChainState, saved: Saved) -> None:
    """Append a copy of the present tree, its nodes in preorder, with log prior and log score, to ``saved``."""
    counts = saved.used
    first_node = counts[NODE_COUNT]
    root = np.int64(0)
    saved_index, node = first_node, root
    while node != NONE:
        here, copy = state.node[node], saved.node[saved_index]
        here.saved_at = saved_index - first_node
        if node != 0 and state.node[here.parent].right == node:
            saved.node[first_node + state.node[here.parent].saved_at].right = saved_index - first_node
        copy.feature, copy.right = here.feature, 0
        if is_leaf(state, node):
            copy.cut, copy.upper, copy.categories, copy.default_left = 0, 0, NONE, False
        else:
            copy.cut, copy.upper, copy.categories = here.cut, here.upper, here.categories
            copy.default_left = here.default_left
        for j in range(state.stats.shape[1]):
            saved.stats[saved_index, j] = state.stats[node, j]
        saved_index += 1
        node = next_node(state, node, root)
    counts[NODE_COUNT] = saved_index
    tree = saved.tree[counts[TREE_COUNT]]
    tree.log_prior, tree.log_score = log_prior_of(model, state), tree_log_score(model, state)
    if not isfinite(tree.log_score):
        raise_not_finite(state, root, False)
    counts[TREE_COUNT] += 1
    saved.tree[counts[TREE_COUNT]].start = saved_index
    state.count[TREE_CHANGED] = 0
