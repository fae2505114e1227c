"""One chain: its start, the loop over draws, and the compaction of a tree into a saved draw."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._numba import jit
from ..model import Lowered
from ..model._leaf_kernels import leaf_score
from ..model._questions import CYCLIC, DYADIC, GRID
from ._moves._growth import hang_children, keep_growth
from ._moves.blanchard import blanchard_step
from ._moves.grow_prune import grow_prune_step
from ._questions import complete_question, is_splittable
from ._state import (
    CHANGED,
    N_FREE,
    N_NODES,
    NONE,
    ChainState,
    is_leaf,
    list_growable,
    log_prior_of,
    log_score_of,
    new_state,
    next_node,
)

GROW_PRUNE, BLANCHARD = range(2)
DONE, NODES_FULL, TREES_FULL = range(3)
DRAWS, TREES, NODES, STEPS = range(4)


class Saved(NamedTuple):
    """Draws of a chain: each tree that differs from the draw before it, and which draw holds which."""

    tree_of_draw: np.ndarray
    """(n_draws,) int64."""
    log_prior: np.ndarray
    """(n_trees,) float64."""
    log_score: np.ndarray
    """(n_trees,) float64."""
    offset: np.ndarray
    """(n_trees + 1,) int64 into the node arrays; nodes are in preorder."""
    feature: np.ndarray
    """(n_nodes,) int32, -1 in a leaf."""
    cut: np.ndarray
    """(n_nodes,) int64."""
    upper: np.ndarray
    """(n_nodes,) int64."""
    categories: np.ndarray
    """(n_nodes,) int64."""
    default_left: np.ndarray
    """(n_nodes,) bool."""
    right: np.ndarray
    """(n_nodes,) int32 right child, counted from the start of the tree; 0 in a leaf."""
    rows: np.ndarray
    """(n_nodes,) int64 training rows."""
    stats: np.ndarray
    """(n_nodes, n_stats) float64."""
    proposed: np.ndarray
    """(n_draws, n_moves) int64 proposals since the draw before."""
    accepted: np.ndarray
    """(n_draws, n_moves) int64."""
    used: np.ndarray
    """(4,) int64: draws, trees, nodes saved so far; steps done towards the next draw."""


_PER_DRAW = ("tree_of_draw", "proposed", "accepted")
_PER_TREE = ("log_prior", "log_score", "offset")


def new_saved(n_draws: int, n_moves: int, n_stats: int) -> Saved:
    """Room for ``n_draws`` draws, and a first guess for their trees."""
    n_trees, n_nodes = max(n_draws, 1), 1024
    return Saved(
        tree_of_draw=np.zeros(n_draws, dtype=np.int64),
        log_prior=np.zeros(n_trees + 1),
        log_score=np.zeros(n_trees + 1),
        offset=np.zeros(n_trees + 1, dtype=np.int64),
        feature=np.zeros(n_nodes, dtype=np.int32),
        cut=np.zeros(n_nodes, dtype=np.int64),
        upper=np.zeros(n_nodes, dtype=np.int64),
        categories=np.zeros(n_nodes, dtype=np.int64),
        default_left=np.zeros(n_nodes, dtype=np.bool_),
        right=np.zeros(n_nodes, dtype=np.int32),
        rows=np.zeros(n_nodes, dtype=np.int64),
        stats=np.zeros((n_nodes, n_stats)),
        proposed=np.zeros((n_draws, n_moves), dtype=np.int64),
        accepted=np.zeros((n_draws, n_moves), dtype=np.int64),
        used=np.zeros(4, dtype=np.int64),
    )


def with_more_nodes(saved: Saved, needed: int) -> Saved:
    """The same draws with room for at least ``needed`` more nodes."""
    extra = max(needed, len(saved.feature))
    wider = {
        name: np.concatenate([a, np.zeros((extra, *a.shape[1:]), dtype=a.dtype)])
        for name, a in saved._asdict().items()
        if name not in (*_PER_DRAW, *_PER_TREE, "used")
    }
    return saved._replace(**wider)


def trimmed(saved: Saved) -> Saved:
    """The draws without spare room."""
    n_draws, n_trees, n_nodes = (int(saved.used[i]) for i in (DRAWS, TREES, NODES))
    sizes = dict.fromkeys(_PER_DRAW, n_draws) | {"log_prior": n_trees, "log_score": n_trees, "offset": n_trees + 1}
    return Saved(
        **{name: a if name == "used" else a[: sizes.get(name, n_nodes)].copy() for name, a in saved._asdict().items()}
    )


def new_chain(model: Lowered, n_moves: int) -> ChainState:
    """A chain whose tree is the stump."""
    uses_box = model.questions.kind in (GRID, DYADIC, CYCLIC)
    state = new_state(model, uses_box, n_moves, 64)
    plant_root(model, state)
    return state


@jit
def plant_root(model: Lowered, state: ChainState) -> None:
    """Make the state the tree of one leaf that holds every unit."""
    cap = len(state.parent)
    for i in range(cap - 1):
        state.free[i] = cap - 1 - i
    state.count[:] = 0
    state.count[N_FREE], state.count[N_NODES], state.count[CHANGED] = cap - 1, 1, 1
    state.parent[0] = state.left[0] = state.right[0] = state.feature[0] = NONE
    state.growable_at[0] = state.prunable_at[0] = NONE
    state.categories[0] = NONE
    state.start[0], state.stop[0] = 0, len(state.order)
    units, rule = model.units, model.questions
    state.stats[0] = 0.0
    for u in range(len(state.order)):
        weight = units.weight[u & units.weight_all]
        state.rows[0] += units.rows[u & units.rows_all]
        if units.counts:
            state.stats[0, units.label[u]] += weight
        else:
            state.stats[0, 0] += weight
            state.stats[0, 1] += units.moments[0, u]
            state.stats[0, 2] += units.moments[1, u]
    for k in range(state.box.shape[1]):
        if rule.nominal[k]:
            half = np.int64(1) << (rule.n_codes[k] - 1)
            state.box[0, k, 0] = (half - 1) + half
        else:
            state.box[0, k, 1] = rule.n_codes[k]
    state.score[0] = leaf_score(model.leaf, state.stats[0])
    state.splittable[0] = is_splittable(model, state, 0)
    list_growable(state, 0)


@jit
def grow_as_given(model: Lowered, state: ChainState, node: int, feature: int, cut: int, categories: int) -> None:
    """Grow a splittable leaf by the question that parts its rows as the given one does."""
    hang_children(model, state, node, complete_question(model, state, node, feature, cut, categories))
    keep_growth(model, state, node)


@jit
def step(rng: np.random.Generator, kernel: int, model: Lowered, state: ChainState) -> None:
    """One step of the kernel."""
    if kernel == GROW_PRUNE:
        grow_prune_step(rng, model, state)
    else:
        blanchard_step(rng, model, state)


@jit
def run_steps(rng: np.random.Generator, kernel: int, model: Lowered, state: ChainState, n_steps: int) -> int:
    """Make up to ``n_steps`` steps, fewer when the node pool runs out; return how many were made."""
    for i in range(n_steps):
        if state.count[N_FREE] < 2:
            return i
        step(rng, kernel, model, state)
    return n_steps


@jit
def run_draws(
    rng: np.random.Generator,
    kernel: int,
    model: Lowered,
    state: ChainState,
    saved: Saved,
    until: int,
    steps_per_draw: int,
) -> int:
    """Run until ``until`` draws are saved; stop early, to go on later, when an array is full."""
    used = saved.used
    while used[DRAWS] < until:
        while used[STEPS] < steps_per_draw:
            if state.count[N_FREE] < 2:
                return NODES_FULL
            step(rng, kernel, model, state)
            used[STEPS] += 1
        if used[NODES] + state.count[N_NODES] > len(saved.feature):
            return TREES_FULL
        save_draw(model, state, saved)
    return DONE


@jit
def save_draw(model: Lowered, state: ChainState, saved: Saved) -> None:
    """Write the present tree as the next draw."""
    used = saved.used
    draw = used[DRAWS]
    if state.count[CHANGED] == 1 or used[TREES] == 0:
        save_tree(model, state, saved)
    saved.tree_of_draw[draw] = used[TREES] - 1
    for j in range(len(state.proposed)):
        saved.proposed[draw, j], saved.accepted[draw, j] = state.proposed[j], state.accepted[j]
    state.proposed[:] = 0
    state.accepted[:] = 0
    used[DRAWS] += 1
    used[STEPS] = 0


@jit
def save_tree(model: Lowered, state: ChainState, saved: Saved) -> None:
    """Append a compacted copy of the present tree."""
    used = saved.used
    base = used[NODES]
    at, node = base, 0
    while node != NONE:
        if node != 0 and state.right[state.parent[node]] == node:
            saved.right[base + state.saved_at[state.parent[node]]] = at - base
        saved.feature[at], saved.rows[at] = state.feature[node], state.rows[node]
        saved.stats[at] = state.stats[node]
        saved.right[at] = 0
        if is_leaf(state, node):
            saved.cut[at] = saved.upper[at] = 0
            saved.categories[at], saved.default_left[at] = NONE, False
        else:
            saved.cut[at], saved.upper[at] = state.cut[node], state.upper[node]
            saved.categories[at], saved.default_left[at] = state.categories[node], state.default_left[node]
        state.saved_at[node] = at - base
        at += 1
        node = next_node(state, node)
    used[NODES] = at
    tree = used[TREES]
    saved.log_prior[tree], saved.log_score[tree] = log_prior_of(model, state), log_score_of(state)
    saved.offset[tree + 1] = at
    used[TREES] += 1
    state.count[CHANGED] = 0
