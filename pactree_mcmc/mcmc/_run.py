"""One chain as a task: its plan, its progress block by block, its draws."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np

from ..model import TreeModel
from ..posterior import Saved
from ..trees import Tree
from ._chain import BLANCHARD, DRAWS, GROW_PRUNE, Chain, trimmed
from ._moves._growth import MOVES
from ._start import draw_prior_tree, load_tree
from ._state import N_NODES

PROPOSALS_PER_DRAW = 100
KERNELS = {"default": GROW_PRUNE, "grow-prune": GROW_PRUNE, "blanchard": BLANCHARD}
BLOCK_SECONDS = 0.1


class Plan(NamedTuple):
    """What one chain is to do."""

    model: TreeModel
    draws: int
    tune: int
    thin: int
    kernel: int
    seed: Any
    start: Any


class Run:
    """A chain at work: advanced block by block, so that others can look, and stop it, in between."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.rng = np.random.default_rng(plan.seed)
        self.chain = Chain(plan.model.lowered, len(MOVES))
        self.chain.reserve(plan.draws)
        self.tuned = 0
        self.block = 1
        self.begun = False

    def advance(self, block: int | None = None) -> Run:
        """Run about ``BLOCK_SECONDS``, or ``block`` draws, tuning first."""
        if not self.begun:
            self._begin()
        block = self.block if block is None else block
        began = time.perf_counter()
        if self.tuned < self.plan.tune:
            block = min(block, self.plan.tune - self.tuned)
            self.chain.warm_up(self.rng, self.plan.kernel, block * PROPOSALS_PER_DRAW)
            self.tuned += block
        else:
            until = min(self.n_saved + block, self.plan.draws)
            self.chain.run(self.rng, self.plan.kernel, until, PROPOSALS_PER_DRAW * self.plan.thin)
        if time.perf_counter() - began < BLOCK_SECONDS:
            self.block = min(2 * self.block, 1 << 20)
        return self

    @property
    def finished(self) -> bool:
        """Whether all draws are saved."""
        return self.n_saved == self.plan.draws

    @property
    def n_saved(self) -> int:
        """Draws saved so far."""
        return int(self.chain.saved.used[DRAWS])

    @property
    def n_leaves(self) -> int:
        """Leaves of the present tree."""
        return (int(self.chain.state.count[N_NODES]) + 1) // 2

    @property
    def n_done(self) -> int:
        """Draws made, tuning included."""
        return self.tuned + self.n_saved

    def _begin(self) -> None:
        self.begun = True
        tree = self.plan.start
        if isinstance(tree, str) and tree == "prior":
            tree = draw_prior_tree(self.plan.model, self.rng)
        if isinstance(tree, Tree):
            load_tree(self.plan.model, self.chain, tree)


def run_chain(plan: Plan) -> Saved:
    """Run a whole chain; a plain function of plain data, for any executor."""
    run = Run(plan)
    while not run.finished:
        run.advance()
    return trimmed(run.chain.saved)
