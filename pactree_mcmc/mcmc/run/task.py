"""Plan, draws and running of one chain, as a task that an executor can carry out."""

from __future__ import annotations

import functools
import math
import time
from typing import Any, NamedTuple

import numpy as np

from ...files.calls import Call
from ...files.encoding import register_class
from ...model import TreeModel
from ...tree.coded import Saved
from ..chain.chain import Chain
from ..chain.draw_store import join_draws, select_draws, trim_draws
from ..chain.snapshot import Snapshot, generator_from, restore_chain, snapshot_of
from ..chain.start import is_grown_start, move_to_start
from ..chain.stopped import name_cell_in_errors
from ..chain.tempering import Ladder, read_ladder
from ..kernel import Kernel
from ..state.records import N_NODES
from ..state.tree import ACCEPTED, PROPOSED
from .compiled import compile_for_chain

BLOCK_SECONDS = 0.1
"""Smallest time of a block of steps in seconds. After a shorter block the next one gets twice as many steps."""
DEFAULT_WORK = 1e10
"""Default number of rows that an adaptive run visits, in all chains (see `split_sums.ROWS_PER_CODE`)."""
MAX_RELATIVE_LENGTH = 8
"""Largest length of an adaptive run, about, in multiples of its first draws."""
PILOT_STEPS = 10
"""Number of first steps by which the cost of a step is measured."""


@register_class
class Length(NamedTuple):
    """Limits of an adaptive run, and number and start of its present stretch, a series of draws judged together."""

    draws: int
    """Number of draws of each chain that the run returns."""
    steps: int
    """Largest number of steps of a chain after tuning, 0 until tuning has measured the cost of a step."""
    seconds: float | None = None
    """Wall time after which the run ends, or None for no limit. The step at which it ends is recorded."""
    before: int = 0
    """Number of steps of a chain between tuning and the present stretch."""
    work: float = DEFAULT_WORK
    """Number of rows that all chains may visit, about."""
    stretch: int = 0
    """Number of the present stretch from 0, not counting stretches that confirm another one."""
    confirms: bool = False
    """True if the draws are to confirm those of the stretch before, which satisfied the criterion."""


@register_class
class Plan(NamedTuple):
    """Plan of one chain, by the arguments of `sample`: its draws, tuning steps, kernel, seed, start and ladder."""

    model: TreeModel
    draws: int
    tune: int
    thin: int
    kernel: Kernel
    seed: Any
    start: Any
    betas: Any = None
    length: Length | None = None
    """Limits of an adaptive run, or None for a run of fixed length."""
    calls: tuple[Call, ...] = ()
    """Calls of `sample` and `resume` that asked for the draws of the run, for the record."""


@register_class
class Result(NamedTuple):
    """Draws of one chain, and the state of the chain after the last draw."""

    saved: Saved
    ladder: Any
    """`LadderReport` of a tempered chain, or None for other chains."""
    end: Snapshot | None
    """State of the chain after the last draw, or None if later draws were made and dropped."""

    @property
    def n_draws(self) -> int:
        """Number of draws."""
        return len(self.saved.tree_of_draw)

    def with_earlier_draws(self, earlier: Result | None) -> Result:
        """Return the result with the draws of an earlier result, or none, put first."""
        if earlier is None:
            return self
        ladder = None if self.ladder is None else self.ladder.with_earlier_draws(earlier.ladder)
        return Result(join_draws(earlier.saved, self.saved), ladder, self.end)

    def select(self, indices: np.ndarray) -> Result:
        """Return the result with the draws of these increasing indices only. They must contain the last draw."""
        return Result(select_draws(self.saved, indices), self._ladder_of(indices), self.end)

    def first_draws(self, n_draws: int) -> Result:
        """Return the result with the first ``n_draws`` draws only, and without the end state if there are more."""
        if n_draws == self.n_draws:
            return self
        return Result(first_draws(self.saved, n_draws), self._ladder_of(slice(n_draws)), None)

    def _ladder_of(self, indices: np.ndarray | slice) -> Any:
        """Return the report of the ladder for the draws of these indices, or None without a ladder."""
        if self.ladder is None:
            return None
        return self.ladder._replace(scores=self.ladder.scores[indices], is_stump=self.ladder.is_stump[indices])


def first_draws(saved: Saved, n_draws: int) -> Saved:
    """Return the first ``n_draws`` draws of a chain, as views. Keep all trees, even if no draw refers to them now."""
    return saved._replace(**{name: getattr(saved, name)[:n_draws] for name in ("tree_of_draw", "noise", "moves")})


class Run:
    """A chain that advances block by block, so that it can be read and stopped between two blocks.

    The chain begins anew, or goes on from the state ``end``, to make the draws of the plan.
    """

    def __init__(self, plan: Plan, end: Snapshot | None = None) -> None:
        self.plan, self.block = plan, 1
        lowered, is_grown = plan.model.lowered, is_grown_start(plan.start)
        prepare = functools.partial(compile_for_chain, has_grown_start=is_grown)
        with name_cell_in_errors(plan.model, []):
            if end is not None:
                self.chain: Any = restore_chain(end, lowered, plan.kernel, prepare)
            else:
                arguments = lowered, plan.kernel, generator_from(plan.seed)
                if plan.betas is None:
                    self.chain = Chain(*arguments, is_grown, prepare)
                else:
                    self.chain = Ladder(*arguments, read_ladder(plan.betas), is_grown, prepare)
        self.chain.reserve(plan.draws)
        self.tuned = self.tuned_before = 0 if end is None else end.tuned
        self.has_begun = end is not None
        self.team = 0 if end is None else end.team

    def advance(self, block: int | None = None) -> Run:
        """Make ``block`` steps of tuning or, after tuning, ``block`` draws, or if it is None, as many as take about
        `BLOCK_SECONDS`. Return the run itself.
        """
        self.begin()
        block, start_time = self.block if block is None else block, time.perf_counter()
        with name_cell_in_errors(self.plan.model, self.chain.all_chains):
            if self.tuned < self.plan.tune:
                block = min(block, self.plan.tune - self.tuned)
                self.chain.tune(block, self.tuned + block, self.plan.tune)
                self.tuned += block
            else:
                for _ in range(min(block, self.plan.draws - self.n_saved)):
                    self.chain.run_blocks(self.plan.thin)
                    self.chain.save()
        if time.perf_counter() - start_time < BLOCK_SECONDS:
            self.block = min(2 * self.block, 1 << 20)
        return self

    def begin(self) -> None:
        """Bring the chain to its start, unless it has begun."""
        if not self.has_begun:
            with name_cell_in_errors(self.plan.model, self.chain.all_chains):
                move_to_start(self.plan.model, self.chain, self.plan.start, self.chain.rng)
            self.has_begun = True

    @property
    def is_finished(self) -> bool:
        """True if the chain is tuned and all draws are saved."""
        return self.tuned >= self.plan.tune and self.n_saved == self.plan.draws

    @property
    def n_saved(self) -> int:
        """Number of draws saved so far."""
        return self.chain.n_saved

    @property
    def n_leaves(self) -> int:
        """Number of leaves of the present tree."""
        return (int(self.chain.state.count[N_NODES]) + 1) // 2

    @property
    def n_done(self) -> int:
        """Number of tuning steps and draws made since this object was created."""
        return self.tuned - self.tuned_before + self.n_saved

    @property
    def acceptance(self) -> tuple[int, int]:
        """Number of accepted proposals, and of all proposals, since tuning."""
        saved, now = self.chain.saved.moves.sum(axis=(0, 2)), self.chain.state.moves.sum(axis=1)
        return int(saved[ACCEPTED] + now[ACCEPTED]), int(saved[PROPOSED] + now[PROPOSED])

    @property
    def result(self) -> Result:
        """Result with the draws made so far and the present state."""
        return Result(trim_draws(self.chain.saved), self.chain.report, self.snapshot)

    @property
    def snapshot(self) -> Snapshot:
        """Present state of the chain."""
        return snapshot_of(self.chain, self.tuned)._replace(team=self.team)


def run_chain(plan: Plan, end: Snapshot | None = None, seconds: float = math.inf, steps: float = math.inf) -> Result:
    """Run a chain to the end of its plan, or for about ``seconds``, or until it has made ``steps`` further tuning steps
    and draws, whatever comes first.

    The chain begins anew, or continues from the state ``end``. Any executor can call the function.
    """
    run, end_time = Run(plan, end), time.perf_counter() + seconds
    while not run.is_finished and run.n_done < steps:
        run.advance(int(min(run.block, steps - run.n_done)))
        if time.perf_counter() >= end_time:
            break
    return run.result


def remaining_plan(plan: Plan, earlier: Result | None) -> Plan:
    """Return the plan with the number of draws that are still to be made after the result ``earlier``, if any."""
    return plan if earlier is None else plan._replace(draws=plan.draws - earlier.n_draws)
