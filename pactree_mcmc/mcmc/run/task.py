"""One chain as a task: its plan, its progress block by block, its draws; begun anew, or where it stopped."""

from __future__ import annotations

import math
import time
from typing import Any, NamedTuple

import numpy as np

from ...files.calls import Call
from ...files.encoding import kept
from ...model import TreeModel
from ...tree.drawn import Saved
from ..chain.chain import Chain
from ..chain.draw_store import chosen, joined, trimmed
from ..chain.snapshot import Snapshot, chain_from, generator_from, snapshot_of
from ..chain.start import may_grow, put_start
from ..chain.stopped import cells_named
from ..chain.tempering import Ladder, read_ladder
from ..kernel import Kernel
from ..state.records import N_NODES
from ..state.tree import ACCEPTED, PROPOSED
from .entries import make_ready

BLOCK_SECONDS = 0.1
WORK = 1e10
"""Rows visited by all chains of a run that finds its own length, at most about; see `split_sums.CODE_ROWS`."""


LENGTHS = 8
"""Largest length of a run that finds its own, in multiples of its first draws, about."""
PILOT_STEPS = 10
"""Number of first steps by which the cost of a step is measured."""


@kept
class Length(NamedTuple):
    """Where a run that finds its own length must end."""

    draws: int
    """Draws to be kept."""
    steps: int
    """Steps of a chain, at most; 0 until tuning has measured what one costs."""
    seconds: float | None = None
    """Wall time after which it ends, at a step that is recorded."""
    before: int = 0
    """Steps of a chain made before those whose draws are kept, and after tuning."""
    work: float = WORK
    """Rows visited by all chains, at most about."""
    stretch: int = 0
    """Number of the stretch to which the draws belong, without those that confirm another one."""
    confirms: bool = False
    """True if the draws are to confirm those of the stretch before, which satisfied the criterion."""


@kept
class Plan(NamedTuple):
    """What one chain is to do."""

    model: TreeModel
    draws: int
    tune: int
    thin: int
    kernel: Kernel
    seed: Any
    start: Any
    betas: Any = None
    length: Length | None = None
    """Of a run that finds its own; None: the draws and no more."""
    calls: tuple[Call, ...] = ()
    """Those that ask for the draws, and for draws before."""


@kept
class Result(NamedTuple):
    """What one chain has done."""

    saved: Saved
    ladder: Any
    """What a tempered chain found out about its ladder; None otherwise."""
    end: Snapshot | None
    """Where the chain stopped; None where that is not behind the last draw."""

    @property
    def n_draws(self) -> int:
        """Draws made."""
        return len(self.saved.tree_of_draw)

    def behind(self, before: Result | None) -> Result:
        """The result with the draws of the one before put first."""
        if before is None:
            return self
        ladder = None if self.ladder is None else self.ladder.behind(before.ladder)
        return Result(joined(before.saved, self.saved), ladder, self.end)

    def chosen(self, which: np.ndarray) -> Result:
        """The draws with the given numbers, increasing, the last one among them."""
        ladder = self.ladder
        if ladder is not None:
            ladder = ladder._replace(scores=ladder.scores[which], is_stump=ladder.is_stump[which])
        return Result(chosen(self.saved, which), ladder, self.end)

    def shortened(self, n_draws: int) -> Result:
        """The first draws alone."""
        if n_draws == self.n_draws:
            return self
        short = {name: getattr(self.saved, name)[:n_draws] for name in ("tree_of_draw", "noise", "moves", "weights")}
        ladder = self.ladder
        if ladder is not None:
            ladder = ladder._replace(scores=ladder.scores[:n_draws], is_stump=ladder.is_stump[:n_draws])
        return Result(self.saved._replace(**short), ladder, None)


class Run:
    """A chain at work: advanced block by block, so that others can look, and stop it, in between.

    It begins anew, or goes on from ``end``, where it stopped, to make the draws of the plan.
    """

    def __init__(self, plan: Plan, end: Snapshot | None = None) -> None:
        self.plan = plan
        self.block = 1
        with cells_named(plan.model, []):
            self.chain = _new_chain(plan) if end is None else chain_from(end, plan.model.lowered, plan.kernel)
        self.chain.reserve(plan.draws)
        make_ready(self.chain.all_chains[0], may_grow(plan.start))
        self.tuned = self.tuned_before = 0 if end is None else end.tuned
        self.begun = end is not None
        self.team = 0 if end is None else end.team

    def advance(self, block: int | None = None) -> Run:
        """Run about ``BLOCK_SECONDS``, or ``block`` draws, tuning first."""
        self.begin()
        with cells_named(self.plan.model, self.chain.all_chains):
            return self._advance(block)

    def begin(self) -> None:
        """Bring the chain to its start, if it is not on its way."""
        if not self.begun:
            with cells_named(self.plan.model, self.chain.all_chains):
                put_start(self.plan.model, self.chain, self.plan.start, self.chain.rng)
            self.begun = True

    def _advance(self, block: int | None) -> Run:
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
        """True if the chain is tuned and all draws are saved."""
        return self.tuned >= self.plan.tune and self.n_saved == self.plan.draws

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
        return self.tuned - self.tuned_before + self.n_saved

    @property
    def acceptance(self) -> tuple[int, int]:
        """Proposals accepted and made since tuning."""
        saved, now = self.chain.saved.moves.sum(axis=(0, 2)), self.chain.state.moves.sum(axis=1)
        return int(saved[ACCEPTED] + now[ACCEPTED]), int(saved[PROPOSED] + now[PROPOSED])

    @property
    def result(self) -> Result:
        """The draws made, and where the chain is."""
        return Result(trimmed(self.chain.saved), self.chain.report, self.snapshot)

    @property
    def snapshot(self) -> Snapshot:
        """Where the chain is."""
        return snapshot_of(self.chain, self.tuned)._replace(team=self.team)


def _new_chain(plan: Plan) -> Any:
    """The stump of a plan, at every level of its ladder."""
    lowered, kernel, rng = plan.model.lowered, plan.kernel, generator_from(plan.seed)
    grown = may_grow(plan.start)
    if plan.betas is None:
        return Chain(lowered, kernel, rng, grown)
    return Ladder(lowered, kernel, rng, read_ladder(plan.betas), grown)


def run_chain(plan: Plan, end: Snapshot | None = None, seconds: float = math.inf, steps: float = math.inf) -> Result:
    """Run a chain to its end, or for about so many seconds or exactly so many steps, tuning included.

    A plain function of plain data, for any executor.
    """
    run, until = Run(plan, end), time.perf_counter() + seconds
    while not run.finished and run.n_done < steps:
        run.advance(int(min(run.block, steps - run.n_done)))
        if time.perf_counter() >= until:
            break
    return run.result


def still_to_do(plan: Plan, before: Result | None) -> Plan:
    """The plan less the draws made."""
    return plan if before is None else plan._replace(draws=plan.draws - before.n_draws)
