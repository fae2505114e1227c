"""One chain as a task: its plan, its progress block by block, its draws."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np

from ..model import TreeModel
from ..trees import Tree
from ._chain import (
    BLANCHARD,
    DONE,
    DRAWS,
    GROW_PRUNE,
    NODES_FULL,
    Saved,
    new_chain,
    new_saved,
    run_draws,
    run_steps,
    trimmed,
    with_more_nodes,
)
from ._moves._growth import MOVES
from ._start import draw_prior_tree, load_tree
from ._state import N_NODES, enlarged

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
        self.model = plan.model.lowered
        self.rng = np.random.default_rng(plan.seed)
        self.state = new_chain(self.model, len(MOVES))
        self.saved = new_saved(plan.draws, len(MOVES), self.model.leaf.n_stats)
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
            self._steps(block * PROPOSALS_PER_DRAW)
            self.tuned += block
            if self.tuned == self.plan.tune:
                self.state.proposed[:] = 0
                self.state.accepted[:] = 0
        else:
            self._draws(min(int(self.saved.used[DRAWS]) + block, self.plan.draws))
        if time.perf_counter() - began < BLOCK_SECONDS:
            self.block = min(2 * self.block, 1 << 20)
        return self

    @property
    def finished(self) -> bool:
        """Whether all draws are saved."""
        return int(self.saved.used[DRAWS]) == self.plan.draws

    @property
    def n_leaves(self) -> int:
        """Leaves of the present tree."""
        return (int(self.state.count[N_NODES]) + 1) // 2

    @property
    def n_done(self) -> int:
        """Draws made, tuning included."""
        return self.tuned + int(self.saved.used[DRAWS])

    def _begin(self) -> None:
        self.begun = True
        tree = self.plan.start
        if isinstance(tree, str) and tree == "prior":
            tree = draw_prior_tree(self.plan.model, self.rng)
        if isinstance(tree, Tree):
            self.state = load_tree(self.plan.model, self.state, tree)

    def _steps(self, n: int) -> None:
        while n > 0:
            n -= run_steps(self.rng, self.plan.kernel, self.model, self.state, n)
            if n > 0:
                self.state = enlarged(self.state)

    def _draws(self, until: int) -> None:
        steps = PROPOSALS_PER_DRAW * self.plan.thin
        while True:
            status = run_draws(self.rng, self.plan.kernel, self.model, self.state, self.saved, until, steps)
            if status == DONE:
                return
            if status == NODES_FULL:
                self.state = enlarged(self.state)
            else:
                self.saved = with_more_nodes(self.saved, len(self.state.parent))


def run_chain(plan: Plan) -> Saved:
    """Run a whole chain; a plain function of plain data, for any executor."""
    run = Run(plan)
    while not run.finished:
        run.advance()
    return trimmed(run.saved)
