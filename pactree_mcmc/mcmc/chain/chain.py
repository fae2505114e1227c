"""One chain: its arrays, packed for compiled code, and the proposals it makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...core.bits import full_mask, hash_integer
from ...core.compile.jit import jit, pack
from ...model import Lowered
from ...model.rows import add_unit
from ...model.split_prior.base import parts_rows
from ..edits.grow import box_hash_term, grow_by_split, init_leaf
from ..kernel import Kernel
from ..state.lists import list_growable
from ..state.records import (
    N_FREE,
    N_NODES,
    N_VISITED_ROWS,
    NONE,
    TREE_CHANGED,
    ChainState,
    Graph,
    new_graph,
    new_state,
    with_node_capacity,
)
from ..state.splits import is_splittable
from ..state.terms import redraw_noise, score_node, update_noise_guess
from .draw_store import DRAW_COUNT, NODE_COUNT, new_saved, save_draw, with_more_nodes

FIRST_NODES = 64
"""Number of nodes for which a new chain has room."""


class PackedChain(NamedTuple):
    """A chain as compiled functions take it: a source of randomness, the packed model and the packed `ChainState`."""

    rng: Any
    model: Any
    state: Any


class Chain:
    """Markov chain of trees, with its arrays, and the same arrays packed for compiled code."""

    def __init__(
        self,
        model: Lowered,
        kernel: Kernel,
        rng: np.random.Generator,
        has_grown_start: bool = False,
        prepare: Callable[[Chain], None] = lambda chain: None,
    ) -> None:
        if not model.leaf.is_fixed:
            leaf, proposal_leaf = (model.leaf._replace(params=model.leaf.params.copy()) for _ in range(2))
            model = model._replace(leaf=leaf, proposal_leaf=proposal_leaf)
        self.lowered, self.rng = model, rng
        self.model = pack(model)
        scratch = kernel.scratch | {"scan"} if has_grown_start else kernel.scratch
        self.state = new_state(model, FIRST_NODES, len(kernel.count_names), scratch)
        self.use_kernel(kernel)
        self._pack()
        self.reserve(0)
        prepare(self)
        plant_root(self.model, self.packed_state)
        self.blocks = 0
        self.tuning = False

    def use_kernel(self, kernel: Kernel) -> None:
        """Make proposals by ``kernel`` from now on, which has the moves of the former one, and count their cost."""
        self.kernel, self.cost = kernel, np.zeros((2, len(kernel.names)))
        # computed once, since every call of compiled code reads them
        self.move_objects, self.first_counts = kernel.move_objects, kernel.first_counts

    def _pack(self) -> None:
        """Pack the present arrays for compiled code, after one was replaced."""
        self.packed_state = pack(self.state)
        self.packed_chain = pack(PackedChain(self.rng, self.model, self.packed_state))

    def reserve(self, n_draws: int, n_levels: int = 0) -> None:
        """Make room for ``n_draws`` draws with the scores of ``n_levels`` levels. Drop the draws saved before."""
        self.saved = new_saved(n_draws, len(self.state.moves[0]), self.lowered.leaf.n_stats, n_levels)
        self.packed_saved = pack(self.saved)

    @property
    def n_saved(self) -> int:
        """Number of draws saved so far."""
        return int(self.saved.used[DRAW_COUNT])

    def enlarge(self, n_nodes: int | None = None) -> None:
        """Make room for ``n_nodes`` nodes, or for twice as many as before if it is None."""
        self.state = with_node_capacity(self.state, n_nodes or 2 * len(self.state.node))
        self._pack()

    def use_graph(self, graph: Graph) -> None:
        """Use ``graph``, which other chains may share, as the graph of visited cells from now on."""
        self.state = self.state._replace(graph=graph)
        self._pack()

    def grow_by_split(self, node: int, feature: int, cut: int, categories: int) -> None:
        """Grow a splittable leaf by the split of its cell that separates the rows as this one does."""
        # ``cut`` is the largest code going left, ``categories`` the bits going left, -1 for an ordered feature
        if self.state.count[N_FREE] < 2:
            self.enlarge()
        grow_by_split(self.model, self.packed_state, node, feature, cut, categories)

    def propose(self, move_index: int, n: int) -> None:
        """Make ``n`` proposals of move ``move_index``. Add ``n`` and the rows visited to its column of ``cost``."""
        rows_before, remaining = int(self.state.count[N_VISITED_ROWS]), n
        loop, first_count = self.move_objects[move_index].loop, self.first_counts[move_index]
        while remaining > 0:
            remaining -= loop(self.packed_chain, remaining, first_count)
            if remaining > 0:
                self.enlarge()
        self.cost[:, move_index] += n, int(self.state.count[N_VISITED_ROWS]) - rows_before

    def run_blocks(self, n_blocks: int) -> None:
        """Make ``n_blocks`` blocks of proposals of all moves. In each, draw an unknown noise variance."""
        if len(self.kernel.names) == 1 and self.lowered.leaf.is_fixed:
            self.propose(0, n_blocks * self.kernel.block)
            self.blocks += n_blocks
            return
        for _ in range(n_blocks):
            for step, n in enumerate(self.kernel.proposals_of_block(self.blocks)):
                if n > 0:
                    self.propose(step, n)
            self.blocks += 1
            if not self.lowered.leaf.is_fixed:
                redraw_noise(self.packed_chain)
                if self.tuning:
                    update_noise_guess(self.model, self.packed_state)

    def tune(self, n_done: int, n_planned: int) -> None:
        """Make a block of tuning, whose proposals are not counted. A `Ladder` uses the arguments."""
        self.tuning = True
        self.run_blocks(1)
        self.tuning = False
        self.state.moves[:] = 0

    @property
    def all_chains(self) -> list[Chain]:
        """List of this chain alone. A ladder has several."""
        return [self]

    def save(self, as_new: bool = False) -> None:
        """Save the present tree as the next draw."""
        # With ``as_new`` store a new copy of the tree even if it is the same as at the last draw
        if as_new:
            self.state.count[TREE_CHANGED] = 1
        n_missing = int(self.saved.used[NODE_COUNT] + self.state.count[N_NODES]) - len(self.saved.node)
        if n_missing > 0:
            self.saved = with_more_nodes(self.saved, n_missing)
            self.packed_saved = pack(self.saved)
        save_draw(self.model, self.packed_state, self.packed_saved)


def set_density(chain: Chain, density: np.ndarray | None, beta: float) -> None:
    """Set the density, whose graph is then empty, and the inverse temperature of a chain; None keeps the density."""
    state = chain.state
    if density is not None:
        state.density[...] = density
        chain.use_graph(new_graph())
    state.beta[0] = beta
    # the stored values of cells depend on the power and on the density
    state.stored.guide.hash[:] = NONE
    state.stored.cell.scan[:] = NONE


@jit
def plant_root(model: Lowered, state: ChainState) -> None:
    """Make a new state the stump, a tree of one leaf that contains all rows."""
    n_nodes = len(state.node)
    for i in range(n_nodes - 1):
        state.node[i].free = n_nodes - 1 - i
    for i in range(len(state.count)):
        state.count[i] = 0
    state.count[N_FREE], state.count[N_NODES], state.count[TREE_CHANGED] = n_nodes - 1, 1, 1
    root = np.int64(0)
    init_leaf(state, root, np.int64(NONE), root, root, len(state.order))
    state.node[0].hash = 0
    merged_rows, rule = model.units, model.split_prior
    for row in range(len(state.order)):
        state.node[0].rows += merged_rows.rows[row & merged_rows.rows_all]
        if parts_rows(rule):
            state.node[0].hash += hash_integer(np.int64(row))
        add_unit(state.stats, np.int64(0), merged_rows, np.int64(row))
    for k in range(state.box.shape[1]):
        if rule.feature[k].nominal:
            state.box[0, k, 0] = full_mask(rule.feature[k].n_codes)
        else:
            state.box[0, k, 1] = rule.feature[k].n_codes
        state.node[0].hash += box_hash_term(state, np.int64(0), k)
    score_node(model, state, root)
    state.node[0].splittable = is_splittable(model, state, root)
    list_growable(state, root)
