"""One chain: its start, the loop over draws, and the compaction of a tree into a saved draw."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._compiled import all_bits
from .._numba import inlined, jit, struct
from ..model import Lowered, pack_model
from ..model._leaf_kernels import leaf_score
from ..model._questions import CYCLIC, DYADIC, GRID
from ..posterior import SAVED_TREE, Saved
from ..trees import CODED_NODE
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
    enlarged,
    is_leaf,
    list_growable,
    log_prior_of,
    log_score_of,
    new_state,
    next_node,
    pack_state,
)

GROW_PRUNE, BLANCHARD = range(2)
DONE, NODES_FULL, TREES_FULL, STEP = range(4)
DRAWS, TREES, NODES, STEPS = range(4)
WARM_UP = -1


_saved = struct(Saved)


@jit
def pack_saved(s: Saved) -> Any:
    """The draws as one pointer; the arrays are shared."""
    return _saved(s.tree_of_draw, s.moves, s.tree, s.node, s.stats, s.used)


def new_saved(n_draws: int, n_moves: int, n_stats: int) -> Saved:
    """Room for ``n_draws`` draws, and a first guess for their nodes."""
    return Saved(
        tree_of_draw=np.zeros(n_draws, dtype=np.int64),
        moves=np.zeros((n_draws, 2, n_moves), dtype=np.int64),
        tree=np.zeros(n_draws + 1, dtype=SAVED_TREE).view(np.recarray),
        node=np.zeros(1024, dtype=CODED_NODE).view(np.recarray),
        stats=np.zeros((1024, n_stats)),
        used=np.zeros(4, dtype=np.int64),
    )


def with_more_nodes(saved: Saved, needed: int) -> Saved:
    """The same draws with room for at least ``needed`` more nodes."""
    extra = max(needed, len(saved.node))
    node = np.concatenate([saved.node, np.zeros(extra, dtype=CODED_NODE)]).view(np.recarray)
    return saved._replace(node=node, stats=np.concatenate([saved.stats, np.zeros((extra, saved.stats.shape[1]))]))


def trimmed(saved: Saved) -> Saved:
    """The draws without spare room."""
    n_draws, n_trees, n_nodes = (int(saved.used[i]) for i in (DRAWS, TREES, NODES))
    return Saved(
        saved.tree_of_draw[:n_draws].copy(),
        saved.moves[:n_draws].copy(),
        saved.tree[: n_trees + 1].copy(),
        saved.node[:n_nodes].copy(),
        saved.stats[:n_nodes].copy(),
        saved.used.copy(),
    )


class Chain:
    """A chain between calls into compiled code: the arrays, and the same arrays packed."""

    def __init__(self, model: Lowered, n_moves: int) -> None:
        uses_box = model.questions.kind in (GRID, DYADIC, CYCLIC)
        self.model = pack_model(model)
        self.n_moves, self.n_stats = n_moves, model.leaf.n_stats
        self.state = new_state(model, uses_box, n_moves, 64)
        self.packed = pack_state(self.state)
        plant_root(self.model, self.packed)
        self.reserve(0)

    def reserve(self, n_draws: int) -> None:
        """Make room for ``n_draws`` draws, dropping those made before."""
        self.saved = new_saved(n_draws, self.n_moves, self.n_stats)
        self.packed_saved = pack_saved(self.saved)

    def enlarge(self) -> None:
        """Double the room for nodes."""
        self.state = enlarged(self.state)
        self.packed = pack_state(self.state)

    def grow_as_given(self, node: int, feature: int, cut: int, categories: int) -> None:
        """Grow a splittable leaf by the question that parts its rows as the given one does."""
        if self.state.count[N_FREE] < 2:
            self.enlarge()
        grow_as_given(self.model, self.packed, node, feature, cut, categories)

    def run(self, rng: np.random.Generator, kernel: int, until: int, steps_per_draw: int) -> None:
        """Run until ``until`` draws are saved."""
        while True:
            status = self._run(kernel)(rng, self.model, self.packed, self.packed_saved, until, steps_per_draw)
            if status == DONE:
                return
            if status == NODES_FULL:
                self.enlarge()
            else:
                self.saved = with_more_nodes(self.saved, len(self.state.node))
                self.packed_saved = pack_saved(self.saved)

    @staticmethod
    def _run(kernel: int) -> Any:
        return run_grow_prune if kernel == GROW_PRUNE else run_blanchard

    def warm_up(self, rng: np.random.Generator, kernel: int, n_steps: int) -> None:
        """Make ``n_steps`` steps without saving draws."""
        saved, packed = self.saved, self.packed_saved
        self.reserve(0)
        self.saved.used[STEPS] = -n_steps
        while self._run(kernel)(rng, self.model, self.packed, self.packed_saved, WARM_UP, 0) == NODES_FULL:
            self.enlarge()
        self.saved, self.packed_saved = saved, packed
        self.state.moves[:] = 0


@jit
def plant_root(model: Lowered, state: ChainState) -> None:
    """Make the state the tree of one leaf that holds every unit."""
    cap = len(state.node)
    for i in range(cap - 1):
        state.node[i].free = cap - 1 - i
    state.count[:] = 0
    state.count[N_FREE], state.count[N_NODES], state.count[CHANGED] = cap - 1, 1, 1
    state.node[0].parent = state.node[0].left = state.node[0].right = state.node[0].feature = NONE
    state.node[0].growable_at = state.node[0].prunable_at = NONE
    state.node[0].categories = NONE
    state.node[0].start, state.node[0].stop = 0, len(state.order)
    units, rule = model.units, model.questions
    state.stats[0] = 0.0
    for u in range(len(state.order)):
        weight = units.weight[u & units.weight_all]
        state.node[0].rows += units.rows[u & units.rows_all]
        if units.counts:
            state.stats[0, units.label[u]] += weight
        else:
            state.stats[0, 0] += weight
            state.stats[0, 1] += units.moments[0, u]
            state.stats[0, 2] += units.moments[1, u]
    for k in range(state.box.shape[1]):
        if rule.feature[k].nominal:
            state.box[0, k, 0] = all_bits(rule.feature[k].n_codes)
        else:
            state.box[0, k, 1] = rule.feature[k].n_codes
    state.node[0].score = leaf_score(model.leaf, state.stats[0])
    state.node[0].splittable = is_splittable(model, state, 0)
    list_growable(state, 0)


@jit
def grow_as_given(model: Lowered, state: ChainState, node: int, feature: int, cut: int, categories: int) -> None:
    """Grow a splittable leaf by the question that parts its rows as the given one does."""
    hang_children(model, state, node, complete_question(model, state, node, feature, cut, categories))
    keep_growth(model, state, node)


@jit
def next_task(model: Any, state: Any, saved: Any, until: int, steps_per_draw: int) -> int:
    """STEP while the next draw wants another step; saves draws that are due; else why the run must pause."""
    used = saved.used
    while until == WARM_UP or used[DRAWS] < until:
        if used[STEPS] < steps_per_draw:
            if state.count[N_FREE] < 2:
                return NODES_FULL
            used[STEPS] += 1
            return STEP
        if until == WARM_UP:
            return DONE
        if used[NODES] + state.count[N_NODES] > len(saved.node):
            return TREES_FULL
        save_draw(model, state, saved)
    return DONE


@jit
def run_grow_prune(
    rng: np.random.Generator, model: Any, state: Any, saved: Any, until: int, steps_per_draw: int
) -> int:
    """Run until ``until`` draws are saved; stop early, to go on later, when an array is full."""
    task = next_task(model, state, saved, until, steps_per_draw)
    while task == STEP:
        grow_prune_step(rng, model, state)
        task = next_task(model, state, saved, until, steps_per_draw)
    return task


@jit
def run_blanchard(rng: np.random.Generator, model: Any, state: Any, saved: Any, until: int, steps_per_draw: int) -> int:
    """As `run_grow_prune`; each kernel has a loop of its own so that only the one in use is compiled."""
    task = next_task(model, state, saved, until, steps_per_draw)
    while task == STEP:
        blanchard_step(rng, model, state)
        task = next_task(model, state, saved, until, steps_per_draw)
    return task


@inlined
def save_draw(model: Lowered, state: ChainState, saved: Saved) -> None:
    """Write the present tree as the next draw."""
    used = saved.used
    draw = used[DRAWS]
    if state.count[CHANGED] == 1 or used[TREES] == 0:
        save_tree(model, state, saved)
    saved.tree_of_draw[draw] = used[TREES] - 1
    for j in range(state.moves.shape[1]):
        for i in range(2):
            saved.moves[draw, i, j] = state.moves[i, j]
            state.moves[i, j] = 0
    used[DRAWS] += 1
    used[STEPS] = 0


@inlined
def save_tree(model: Lowered, state: ChainState, saved: Saved) -> None:
    """Append a compacted copy of the present tree."""
    used = saved.used
    base = used[NODES]
    at, node = base, 0
    while node != NONE:
        here, copy = state.node[node], saved.node[at]
        here.saved_at = at - base
        if node != 0 and state.node[here.parent].right == node:
            saved.node[base + state.node[here.parent].saved_at].right = at - base
        copy.feature, copy.right = here.feature, 0
        if is_leaf(state, node):
            copy.cut, copy.upper, copy.categories, copy.default_left = 0, 0, NONE, False
        else:
            copy.cut, copy.upper, copy.categories = here.cut, here.upper, here.categories
            copy.default_left = here.default_left
        for j in range(state.stats.shape[1]):
            saved.stats[at, j] = state.stats[node, j]
        at += 1
        node = next_node(state, node)
    used[NODES] = at
    tree = saved.tree[used[TREES]]
    tree.log_prior, tree.log_score = log_prior_of(model, state), log_score_of(state)
    used[TREES] += 1
    saved.tree[used[TREES]].start = at
    state.count[CHANGED] = 0
