"""Running of chains in threads or on an executor, with progress, interruption, checkpoints and lost workers.

All tasks of chains go through the loop of `Pool.run`: the rounds of tuning, the first steps of runs without a density,
what happens between two stretches, and the draws.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any, NamedTuple, Self

import numpy as np

from ...core.texts import warn
from ...model.model import NotFinite
from ..chain.draw_store import new_saved, trim_draws
from ..chain.snapshot import Snapshot
from ..kernel import PROPOSAL_ROWS
from .checkpoint import Checkpoint
from .progress import Progress
from .stop import ROUNDS_FRACTION, Pace, Signal, Stop, is_set
from .task import MAX_RELATIVE_LENGTH, PILOT_STEPS, Plan, Result, Run, remaining_plan, run_chain

MAX_PILOT_FRACTION = 0.5
"""Largest fraction of the work for tuning and the first draws of a run without a density."""


class RunState(NamedTuple):
    """Chains of a run with their plans, their results so far, and the executor on which they run."""

    plans: list[Plan]
    results: list[Result | None]
    """Result of each chain so far, or None if it has none."""
    executor: Executor | None
    """Executor of the tasks, or None for threads."""
    progress: bool
    """True if the progress is shown."""
    checkpoint: Checkpoint | None
    """File to which the run is written at intervals, or None."""
    lost_chains: Mapping[int, Exception] = {}
    """Errors of the chains whose worker died, by number of the chain."""
    stop: Stop = Stop()
    """Time limit of the run. The default has none."""
    is_complete: bool = True
    """True unless the run was interrupted or has lost chains."""

    @property
    def present_results(self) -> list[Result]:
        """Results without None, in the order of the chains."""
        return [result for result in self.results if result is not None]


class Pool:
    """Executor of a run, or threads, for the tasks of its chains.

    Tasks end by ``signal``. The end of the ``with`` block gives it, since an interruption leaves unfinished tasks.
    """

    def __init__(self, run_state: RunState, signal: Stop) -> None:
        self.signal, self.is_local = signal, run_state.executor is None
        self.executor: Executor
        if run_state.executor is None:
            self.executor = ThreadPoolExecutor(min(len(run_state.plans), n_cores()))
        else:
            self.executor = run_state.executor

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.signal.set()
        if self.is_local:
            self.executor.shutdown(cancel_futures=True)

    def run(
        self,
        chains: Iterable[int],
        next_task: Callable[[int], tuple | None],
        store: Callable[[int, Any], None],
        lost_chains: dict[int, Exception],
    ) -> None:
        """Run the tasks of each chain one after another, until ``next_task(chain)`` returns None.

        A task is a function and its arguments. Call ``store`` with the number of the chain and the result of each task.
        Add errors of chains whose worker died to ``lost_chains``, by number. Errors in threads are raised.
        """
        pending: dict[Future, int] = {}

        def submit(c: int) -> None:
            task = next_task(c)
            if task is None:
                return
            try:
                pending[self.executor.submit(*task)] = c
            except RuntimeError as error:
                # a pool whose worker died takes no more tasks
                if self.is_local:
                    raise
                lost_chains[c] = error

        try:
            for c in chains:
                submit(c)
            while pending:
                finished = wait(pending, timeout=0.2, return_when=FIRST_COMPLETED)[0]
                # in order, so that an executor gets the tasks of a run always in the same order
                for future in sorted(finished, key=lambda future: pending[future]):
                    c = pending.pop(future)
                    try:
                        result = future.result()
                    except Exception as error:
                        if self.is_local or isinstance(error, NotFinite):
                            raise
                        lost_chains[c] = error
                    else:
                        store(c, result)
                        submit(c)
        except KeyboardInterrupt:
            for future in pending:
                future.cancel()
            if self.is_local:
                self.signal.set()
                wait(pending)
            for future, c in pending.items():
                if future.done() and not future.cancelled() and future.exception() is None:
                    store(c, future.result())
            raise

    def map(
        self, function: Callable[..., Any], arguments: Mapping[int, tuple], lost_chains: dict[int, Exception]
    ) -> dict[int, Any]:
        """Call ``function(*arguments[c], signal)`` for each chain c, with the signal at which the tasks of the pool
        end. Return the results by number of the chain.

        Leave out chains whose worker died, and add their errors to ``lost_chains``.
        """
        results: dict[int, Any] = {}
        tasks = {c: (function, *args, self.signal) for c, args in arguments.items()}
        self.run(arguments, lambda c: tasks.pop(c, None), results.__setitem__, lost_chains)
        return results


@contextmanager
def tuning_pool(run_state: RunState, n_steps: int) -> Iterator[tuple[Pool, Progress]]:
    """Start the clock of a run. Yield a pool for its tuning, with the signal at `ROUNDS_FRACTION` of the time limit,
    and a progress display for ``n_steps`` steps in all.
    """
    first = run_state.plans[0]
    try:
        with Progress(0, run_state.progress, tune=n_steps) as progress:
            if run_state.executor is None:
                # compile in the main thread, which an interruption ends at once: a pool would wait for its threads
                Run(first)
            run_state.stop.start()
            with Pool(run_state, run_state.stop.at_fraction(ROUNDS_FRACTION)) as pool:
                yield pool, progress
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_interruption_message(run_state)) from None


def run_first_steps(plan: Plan, signal: Signal = None) -> tuple[Snapshot, float]:
    """Run the first tuning steps of a chain. Return its state, and the mean cost of a step: the rows visited, plus
    `PROPOSAL_ROWS` for each proposal.

    The chain makes ``PILOT_STEPS`` steps, or fewer if ``signal`` is set, which asks for a stop.
    """
    run = Run(plan._replace(tune=min(PILOT_STEPS, plan.tune), draws=0))
    run.begin()
    while run.tuned < run.plan.tune and not (run.tuned > 0 and is_set(signal)):
        run.advance(1)
    proposals, rows = run.chain.cost.sum(axis=1)
    return run.snapshot, float(rows + PROPOSAL_ROWS * proposals) / max(run.tuned, 1)


def fit_steps(run_state: RunState) -> RunState:
    """Run the first steps of all chains of a run without a density, and set the length of the run by their cost.

    Return the new state of the run. A step gets fewer proposals if the usual number would exceed the work. Chains that
    an executor loses begin anew.
    """
    first, chains = run_state.plans[0], len(run_state.plans)
    with tuning_pool(run_state, chains * min(PILOT_STEPS, first.tune)) as (pool, _):
        measured = pool.map(run_first_steps, {c: (plan,) for c, plan in enumerate(run_state.plans)}, {})
    if not measured or first.length is None:
        return run_state
    rows, length, kernel = chains * np.mean([rows for _, rows in measured.values()]), first.length, first.kernel
    # the first draws, tuning included, get at most a part of the work: otherwise a step has fewer proposals
    part = min(1.0, MAX_PILOT_FRACTION * length.work / (rows * (first.tune + length.draws)))
    block = max(int(part * kernel.block), 1)
    steps = length.work / (rows * block / kernel.block) - first.tune
    length = length._replace(
        steps=length.steps or int(min(max(steps, length.draws), MAX_RELATIVE_LENGTH * length.draws))
    )
    plans = [plan._replace(kernel=kernel._replace(block=block), length=length) for plan in run_state.plans]
    results = [result_without_draws(first, measured[c][0]) if c in measured else None for c in range(chains)]
    return run_state._replace(plans=plans, results=results)


def result_without_draws(plan: Plan, end: Snapshot) -> Result:
    """Return the result of a chain in the state ``end`` that has no draws."""
    lowered = plan.model.lowered
    return Result(trim_draws(new_saved(0, len(plan.kernel.count_names), lowered.leaf.n_stats)), None, end)


def n_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _ChainInThread:
    """Chain in this process, which advances block by block. Its result may be read between two blocks."""

    has_begun = True

    def __init__(self, plan: Plan, earlier: Result | None) -> None:
        self.before = earlier
        self.run = Run(remaining_plan(plan, earlier), None if earlier is None else earlier.end)
        self.is_finished = self.run.is_finished
        """True if all draws are made, as seen between two blocks."""

    @property
    def steps(self) -> int:
        """Number of tuning steps and of draws made, both together."""
        return self.run.tuned + self.run.n_saved + (0 if self.before is None else self.before.n_draws)

    @property
    def result(self) -> Result:
        """Draws so far, earlier ones included, and the present state."""
        return self.run.result.with_earlier_draws(self.before)

    def next_task(self, goal: int) -> tuple | None:
        """Return the next task towards ``goal`` tuning steps and draws, a function and its arguments, or None if none
        is missing.
        """
        block = min(self.run.block, goal - self.steps)
        return (self.run.advance, block) if block > 0 and not self.is_finished else None

    def store(self, run: Run) -> None:
        """Note after a task, which returned ``run``, if the chain is finished."""
        self.is_finished = run.is_finished

    def skip_tuning(self) -> None:
        """Leave out the remaining steps of tuning."""
        self.run.tuned = self.run.plan.tune


class _ChainOnExecutor:
    """Chain whose tasks run on an executor: one task, or with a checkpoint one for each interval of ``seconds``.

    Its methods are those of `_ChainInThread`.
    """

    def __init__(self, plan: Plan, earlier: Result | None, seconds: float) -> None:
        self.plan, self.result, self.seconds = plan, earlier, seconds

    @property
    def has_begun(self) -> bool:
        """True if a task of the chain has returned, or the chain goes on from an earlier result."""
        return self.result is not None

    @property
    def steps(self) -> int:
        """Number of tuning steps and of draws made, both together, in the tasks that have returned."""
        return 0 if self.result is None else self.result.end.tuned + self.result.n_draws

    @property
    def is_finished(self) -> bool:
        """True if all draws are made."""
        return self.result is not None and self.result.n_draws == self.plan.draws

    def next_task(self, goal: int) -> tuple | None:
        """Return the next task towards ``goal`` tuning steps and draws, `run_chain` and its arguments, or None if none
        is missing.
        """
        if self.is_finished or self.steps >= goal:
            return None
        end = None if self.result is None else self.result.end
        return run_chain, remaining_plan(self.plan, self.result), end, self.seconds, goal - self.steps

    def store(self, result: Result) -> None:
        """Add the result of a task to those of the tasks before."""
        self.result = result.with_earlier_draws(self.result)

    def skip_tuning(self) -> None:
        """Leave out the remaining steps of tuning."""
        self.result = self.result._replace(end=self.result.end._replace(tuned=self.plan.tune))


class _DrawingRun:
    """Implementation of `make_draws`, with the state of all chains of a run while they make their draws."""

    def __init__(self, run_state: RunState) -> None:
        self.run_state, self.lost_chains = run_state, dict(run_state.lost_chains)
        self.chains: list[Any] = []
        self.at_checkpoint: dict[int, Result | None] = {}
        """Results for the checkpoint that is due, by chain. A chain in threads has one between two blocks only."""
        first, self.n_before, tune = run_state.plans[0], sum(result.n_draws for result in run_state.present_results), 0
        if run_state.executor is None:
            tune = len(run_state.plans) * first.tune - sum(result.end.tuned for result in run_state.present_results)
        n_draws = sum(plan.draws for plan in run_state.plans) - self.n_before
        self.progress = Progress(n_draws, run_state.progress, tune=tune)

    def run(self) -> RunState:
        """Make the draws, until the chains are finished, lost, interrupted or out of time."""
        run_state, pairs = self.run_state, zip(self.run_state.plans, self.run_state.results, strict=True)
        with self.progress:
            if run_state.executor is None:
                self.chains = [_ChainInThread(plan, result) for plan, result in pairs]
            else:
                seconds = math.inf if run_state.checkpoint is None else run_state.checkpoint.every
                self.chains = [_ChainOnExecutor(plan, result, seconds) for plan, result in pairs]
            run_state.stop.start()
            try:
                with Pool(run_state, run_state.stop.at_fraction(1.0)) as pool:
                    self._advance(pool)
            except KeyboardInterrupt:
                return self._interrupted_state()
        return self._finished_state()

    def _advance(self, pool: Pool) -> None:
        """Advance all chains to one goal of `Pace` after another, until they are finished or out of time."""
        first = self.run_state.plans[0]
        pace = Pace(self.run_state.stop, first.tune, first.tune + first.draws)
        while self.unfinished_chains:
            chains = [self.chains[c] for c in self.surviving_chains]
            steps = [chain.steps for chain in chains]
            if all(chain.has_begun for chain in chains) and pace.skips_tuning(steps):
                for chain in chains:
                    chain.skip_tuning()
                continue
            goal = pace.next_goal(steps)
            if all(self.chains[c].steps >= goal for c in self.unfinished_chains):
                return
            pool.run(
                self.unfinished_chains,
                lambda c, goal=goal: self.chains[c].next_task(goal),
                self._store,
                self.lost_chains,
            )

    @property
    def surviving_chains(self) -> list[int]:
        """Numbers of the chains that are not lost."""
        return [c for c in range(len(self.chains)) if c not in self.lost_chains]

    @property
    def unfinished_chains(self) -> list[int]:
        """Numbers of the chains that are neither lost nor finished."""
        return [c for c in self.surviving_chains if not self.chains[c].is_finished]

    def _store(self, c: int, result: Any) -> None:
        """Store the result of a task of chain ``c``, show the progress, and write the checkpoint if it is due."""
        self.chains[c].store(result)
        if self.progress.is_shown:
            self._show_progress()
        checkpoint = self.run_state.checkpoint
        if checkpoint is None or not (self.at_checkpoint or checkpoint.is_due):
            return
        self.at_checkpoint[c] = self.chains[c].result
        if all(other in self.at_checkpoint for other in self.unfinished_chains):
            # chains that are lost or finished run no task, so that their results may be read at once
            checkpoint.write([self.at_checkpoint.get(i) or chain.result for i, chain in enumerate(self.chains)])
            self.at_checkpoint = {}

    def _show_progress(self) -> None:
        """Show the number of draws, in threads also of tuning steps, the acceptance and the mean number of leaves."""
        if self.run_state.executor is not None:
            n_draws = sum(chain.result.n_draws for chain in self.chains if chain.has_begun)
            self.progress.update(n_draws - self.n_before)
            return
        runs = [chain.run for chain in self.chains]
        n_accepted, n_proposed = np.sum([run.acceptance for run in runs], axis=0)
        leaves = np.mean([run.n_leaves for run in runs])
        text = f"acceptance {n_accepted / max(n_proposed, 1):.3f}, leaves {leaves:.1f}"
        self.progress.update(sum(run.n_done for run in runs), text)

    def _finished_state(self) -> RunState:
        """Return the state of the run with the chains that were not lost, after the draws.

        Warn about lost chains, and note in ``stop.omissions`` which draws the time limit left out.
        """
        lost_chains, run_state = self.lost_chains, self.run_state
        if lost_chains:
            if run_state.checkpoint is not None:
                run_state.checkpoint.write([chain.result for chain in self.chains])
            messages = [f"chain {c}: {type(error).__name__}: {error}" for c, error in sorted(lost_chains.items())]
            errors = "; ".join(messages)
            if not self.surviving_chains:
                error = lost_chains[min(lost_chains)]
                error.add_note(f"every chain was lost: {errors}")
                raise error
            path = None if run_state.checkpoint is None else str(run_state.checkpoint.path)
            rest = "" if path is None else f", and pt.resume({path!r}) finishes the lost"
            n_lost, n = len(lost_chains), len(self.chains)
            warn(f"{n_lost} of {n} chains were lost ({errors}); the others are returned{rest}.")
        out = self._state_of_chains(self.surviving_chains)._replace(is_complete=not lost_chains)
        if self.unfinished_chains:
            length, n_made = run_state.plans[0].length, out.present_results[0].n_draws
            # the requested number of draws is promised for the first stretch alone
            if length is not None and n_made < length.draws and length.before == 0:
                run_state.stop.omissions.append(f"{length.draws - n_made} of {length.draws} draws of each chain")
        return out

    def _interrupted_state(self) -> RunState:
        """Return the draws of an interrupted run, with a warning, or raise KeyboardInterrupt if there are none.

        In threads chains advance side by side, and as many draws as every chain has are returned. On an executor this
        is so if no chain has finished. Otherwise the finished chains are returned.
        """
        run_state, results = self.run_state, [chain.result for chain in self.chains]
        if run_state.checkpoint is not None:
            run_state.checkpoint.write(results)
        finished = [c for c, chain in enumerate(self.chains) if chain.is_finished]
        if finished and run_state.executor is not None:
            warn(f"interrupted: {len(finished)} of {len(results)} chains had finished and are returned.")
            return self._state_of_chains(finished)._replace(is_complete=False)
        n = min(0 if result is None else result.n_draws for result in results)
        if n == 0:
            raise KeyboardInterrupt(_interruption_message(run_state))
        warn(f"interrupted: {n} of {run_state.plans[0].draws} draws a chain are returned.")
        shortened = [result.first_draws(n) for result in results if result is not None]
        return run_state._replace(results=shortened, is_complete=False)

    def _state_of_chains(self, chains: list[int]) -> RunState:
        """Return the state of the run with these chains alone, and their present results."""
        plans, results = [self.run_state.plans[c] for c in chains], [self.chains[c].result for c in chains]
        return self.run_state._replace(plans=plans, results=results)


def make_draws(run_state: RunState) -> RunState:
    """Make the draws of the plans, and return the state of the run with the results.

    Chains that were lost are left out. All chains have equally many draws.
    """
    return _DrawingRun(run_state).run()


def _interruption_message(run_state: RunState) -> str:
    """Return the message of the KeyboardInterrupt of a run that has no draws yet to return."""
    until = "every chain had a draw" if run_state.executor is None else "a chain had finished"
    rest = "nothing to return"
    if run_state.checkpoint is not None:
        rest = f"pt.resume({str(run_state.checkpoint.path)!r}) goes on from what is written there"
    return f"interrupted before {until}; {rest}"
