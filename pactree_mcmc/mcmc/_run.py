"""One chain as a task: its plan, its progress block by block, its draws."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np

from ..model import TreeModel
from ..posterior import Saved
from ._chain import Chain
from ._kernels import Kernel
from ._saving import trimmed
from ._start import put_start
from ._state import ACCEPTED, MOVES, N_NODES, PROPOSED
from ._tempering import Ladder, read_ladder

BLOCK_SECONDS = 0.1


class Plan(NamedTuple):
    """What one chain is to do."""

    model: TreeModel
    draws: int
    tune: int
    thin: int
    kernel: Kernel
    seed: Any
    start: Any
    temperatures: Any = None


class Result(NamedTuple):
    """What one chain has done."""

    saved: Saved
    ladder: Any
    """What a tempered chain found out about its ladder; None otherwise."""


class Run:
    """A chain at work: advanced block by block, so that others can look, and stop it, in between."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.rng = np.random.default_rng(plan.seed)
        lowered, kernel = plan.model.lowered, plan.kernel
        grown = isinstance(plan.start, str) and plan.start == "grown"
        if plan.temperatures is None:
            self.chain: Any = Chain(lowered, kernel, self.rng, grown)
        else:
            self.chain = Ladder(lowered, kernel, self.rng, read_ladder(plan.temperatures), grown)
        self.chain.reserve(plan.draws)
        self.tuned = 0
        self.block = 1
        self.begun = False

    def advance(self, block: int | None = None) -> Run:
        """Run about ``BLOCK_SECONDS``, or ``block`` draws, tuning first."""
        if not self.begun:
            put_start(self.plan.model, self.chain, self.plan.start, self.rng)
            self.begun = True
        block = self.block if block is None else block
        began = time.perf_counter()
        if self.tuned < self.plan.tune:
            block = min(block, self.plan.tune - self.tuned)
            self.chain.tune(block, self.tuned + block, self.plan.tune)
            self.tuned += block
        else:
            for _ in range(min(block, self.plan.draws - self.n_saved)):
                self.chain.proceed(self.plan.thin)
                self.chain.save()
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
        return self.chain.n_saved

    @property
    def n_leaves(self) -> int:
        """Leaves of the present tree."""
        return (int(self.chain.state.count[N_NODES]) + 1) // 2

    @property
    def n_done(self) -> int:
        """Draws made, tuning included."""
        return self.tuned + self.n_saved

    @property
    def acceptance(self) -> tuple[int, int]:
        """Proposals accepted and made since tuning."""
        saved, now = self.chain.saved.moves.sum(axis=(0, 2)), self.chain.state.moves.sum(axis=1)
        return int(saved[ACCEPTED] + now[ACCEPTED]), int(saved[PROPOSED] + now[PROPOSED])

    @property
    def result(self) -> Result:
        """The draws made, with the counts of the kernel's own moves."""
        saved = trimmed(self.chain.saved)
        columns = [MOVES.index(move) for move in self.plan.kernel.moves]
        return Result(saved._replace(moves=saved.moves[:, :, columns]), self.chain.report)


def run_chain(plan: Plan) -> Result:
    """Run a whole chain; a plain function of plain data, for any executor."""
    run = Run(plan)
    while not run.finished:
        run.advance()
    return run.result
