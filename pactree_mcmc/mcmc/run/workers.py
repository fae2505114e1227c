"""Running of chains in threads or on an executor, with progress, interruption, checkpoints and lost workers."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from typing import NamedTuple

import numpy as np

from ...core.warn import warn
from ...model.not_finite import NotFinite
from .checkpoint import Checkpoint
from .progress import Progress
from .stop import Pace, Stop
from .task import Plan, Result, Run, run_chain, still_to_do


class Work(NamedTuple):
    """Task of all chains of a run."""

    plans: list[Plan]
    before: list[Result | None]
    """Result of each chain so far, or None if it has none."""
    executor: Executor | None
    progress: bool
    checkpoint: Checkpoint | None
    lost: Mapping[int, Exception] = {}
    """Errors of chains that were lost before, by number."""
    stop: Stop = Stop()
    """Time limit of the run. The default has none."""


class Done(NamedTuple):
    """Results of the chains of a run."""

    results: list[Result]
    """Results of the chains to be returned, with equally many draws."""
    complete: bool
    """True if the run ended by itself, with all draws or by the clock; False if it was interrupted or lost chains."""


def n_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def do(work: Work) -> Done:
    """Run the chains to their ends."""
    return _in_threads(work) if work.executor is None else _on_executor(work)


def _on_executor(work: Work) -> Done:
    """Run each chain as one task, or with a checkpoint as several tasks, each of about its interval."""
    with _progress(work, 0) as progress:
        return _tasks(work, progress)


def _tasks(work: Work, progress: Progress) -> Done:
    """Submit tasks of all chains until the chains are finished, lost, interrupted or out of time."""
    seconds = math.inf if work.checkpoint is None else work.checkpoint.every
    work.stop.start()
    results, lost, pace = list(work.before), dict(work.lost), _pace(work)
    while True:
        todo = [c for c, plan in enumerate(work.plans) if c not in lost and not _is_done(plan, results[c])]
        if not todo:
            return _without_lost(work, results, lost)
        steps = [0 if result is None else result.end.tuned + result.n_draws for result in results]
        left = [c for c in range(len(results)) if c not in lost]
        if all(results[c] is not None for c in left) and pace.skips_tuning([steps[c] for c in left]):
            results = [_tuned(plan, result) for plan, result in zip(work.plans, results, strict=True)]
            continue
        goal = pace.next_goal([steps[c] for c in left])
        todo = [c for c in todo if steps[c] < goal]
        if not todo:
            return _cut(work, _without_lost(work, results, lost))
        futures: dict[int, Future] = {}
        try:
            for c in todo:
                plan, end = still_to_do(work.plans[c], results[c]), None if results[c] is None else results[c].end
                try:
                    futures[c] = work.executor.submit(run_chain, plan, end, seconds, goal - steps[c])
                except RuntimeError as error:
                    # a pool whose worker died takes no more tasks
                    lost[c] = error
            for c in list(futures):
                try:
                    results[c] = futures[c].result().behind(results[c])
                except NotFinite:
                    raise
                except Exception as error:
                    lost[c] = error
                del futures[c]
                progress.update(_n_draws(results) - _n_draws(work.before))
        except KeyboardInterrupt:
            return _interrupted_tasks(work, results, futures)
        if work.checkpoint is not None:
            work.checkpoint.write(results)


def _n_draws(results: list[Result | None]) -> int:
    """Return the number of draws of all chains."""
    return sum(0 if result is None else result.n_draws for result in results)


def _progress(work: Work, tune: int) -> Progress:
    """Return the display of the draws still to be made, and of ``tune`` steps of tuning before them."""
    left = sum(plan.draws for plan in work.plans) - _n_draws(work.before)
    return Progress(left, work.progress, work.plans[0].kernel, work.plans[0].start == "grown", tune=tune)


def _pace(work: Work) -> Pace:
    """Return the steps that chains make between two looks at the clock."""
    plan = work.plans[0]
    return Pace(work.stop, plan.tune, plan.tune + plan.draws)


def _tuned(plan: Plan, result: Result | None) -> Result | None:
    """Return the result of a chain whose remaining steps of tuning are left out."""
    return None if result is None else result._replace(end=result.end._replace(tuned=plan.tune))


def _cut(work: Work, done: Done) -> Done:
    """Record the draws that are missing because the time was over. All chains have equally many draws."""
    length, made = work.plans[0].length, done.results[0].n_draws
    wanted = length.draws
    # a later stretch has no promised length
    if made < wanted and length.before == 0:
        work.stop.cuts.append(f"{wanted - made} of {wanted} draws of each chain")
    return done


def _is_done(plan: Plan, result: Result | None) -> bool:
    """Return True if a chain has all draws of its plan."""
    return result is not None and result.n_draws == plan.draws


def _without_lost(work: Work, results: list[Result | None], lost: dict[int, Exception]) -> Done:
    """Return the finished chains, with a warning about the lost ones."""
    kept = [result for c, result in enumerate(results) if c not in lost]
    if lost:
        what = "; ".join(f"chain {c}: {type(error).__name__}: {error}" for c, error in sorted(lost.items()))
        if not kept:
            error = lost[min(lost)]
            error.add_note(f"every chain was lost: {what}")
            raise error
        rest = "" if work.checkpoint is None else f", and pt.resume({str(work.checkpoint.path)!r}) finishes the lost"
        warn(f"{len(lost)} of {len(results)} chains were lost ({what}); the others are returned{rest}.")
    return Done(kept, not lost)


def _interrupted_tasks(work: Work, results: list[Result | None], futures: dict[int, Future]) -> Done:
    """Return the finished chains of an interrupted run. ``futures`` are the tasks whose results were not read."""
    for c, future in futures.items():
        future.cancel()
        if future.done() and not future.cancelled() and future.exception() is None:
            results[c] = future.result().behind(results[c])
    if work.checkpoint is not None:
        work.checkpoint.write(results)
    done = [result for plan, result in zip(work.plans, results, strict=True) if _is_done(plan, result)]
    made = [result for result in results if result is not None and result.n_draws > 0]
    if not done and len(made) == len(results):
        return _shortened(work, made)
    if not done:
        raise KeyboardInterrupt(nothing_left("a chain had finished", work))
    warn(f"interrupted: {len(done)} of {len(results)} chains had finished and are returned.")
    return Done(done, False)


def _in_threads(work: Work) -> Done:
    ends = [None if result is None else result.end for result in work.before]
    plans = [still_to_do(plan, result) for plan, result in zip(work.plans, work.before, strict=True)]
    tune = sum(plan.tune - (0 if end is None else end.tuned) for plan, end in zip(plans, ends, strict=True))
    with _progress(work, tune) as progress:
        return _advance(work, [Run(plan, end) for plan, end in zip(plans, ends, strict=True)], progress)


def _advance(work: Work, runs: list[Run], progress: Progress) -> Done:
    """Advance all chains block by block in threads until they are finished, interrupted or out of time."""
    work.stop.start()
    pool = ThreadPoolExecutor(min(len(runs), n_cores()))
    pending: dict[Future, int] = {}
    looks, pace = _Looks(work, runs), _pace(work)
    before = [0 if result is None else result.n_draws for result in work.before]

    def steps() -> list[int]:
        return [run.tuned + made + run.n_saved for run, made in zip(runs, before, strict=True)]

    def submit(c: int) -> None:
        block = min(runs[c].block, goal - steps()[c])
        if block > 0 and not runs[c].finished:
            pending[pool.submit(runs[c].advance, block)] = c

    try:
        while not all(run.finished for run in runs):
            if pace.skips_tuning(steps()):
                for run in runs:
                    run.tuned = run.plan.tune
            goal = pace.next_goal(steps())
            for c in range(len(runs)):
                submit(c)
            if not pending:
                return _cut(work, Done(looks.all(), True))
            while pending:
                for future in wait(pending, timeout=0.2, return_when=FIRST_COMPLETED)[0]:
                    c = pending.pop(future)
                    future.result()
                    looks.take(c)
                    submit(c)
                looks.write()
                if progress.shown:
                    progress.update(*_so_far(runs))
        return Done(looks.all(), True)
    except KeyboardInterrupt:
        for future in pending:
            future.cancel()
        wait(pending)
        return _interrupted(work, looks.all())
    finally:
        pool.shutdown(cancel_futures=True)
        if progress.shown:
            progress.update(*_so_far(runs))


def _so_far(runs: list[Run]) -> tuple[int, str]:
    """Return the number of draws made, tuning included, and the acceptance and mean number of leaves as text."""
    kept, made = np.sum([run.acceptance for run in runs], axis=0)
    leaves = np.mean([run.n_leaves for run in runs])
    return sum(run.n_done for run in runs), f"acceptance {kept / max(made, 1):.3f}, leaves {leaves:.1f}"


class _Looks:
    """Results of unfinished runs, taken between two blocks when a checkpoint is due."""

    def __init__(self, work: Work, runs: list[Run]) -> None:
        self.work, self.runs = work, runs
        self.results = list(work.before)
        self.missing: set[int] | None = None
        """Runs whose results the next checkpoint lacks, or None if no checkpoint is due."""

    def _result(self, c: int) -> Result:
        """Return the result of a run, with the draws made before."""
        return self.runs[c].result.behind(self.work.before[c])

    def take(self, c: int) -> None:
        """Take the result of a run between two blocks, if a checkpoint needs it."""
        if self.work.checkpoint is None:
            return
        if self.missing is None and self.work.checkpoint.is_due:
            self.missing = {other for other, run in enumerate(self.runs) if not run.finished}
        if self.runs[c].finished or (self.missing is not None and c in self.missing):
            self.results[c] = self._result(c)
            if self.missing is not None:
                self.missing.discard(c)

    def write(self) -> None:
        """Write the checkpoint that is due, if the results of all runs have been taken."""
        if self.missing is not None and not self.missing:
            self.work.checkpoint.write(self.results)
            self.missing = None

    def all(self) -> list[Result]:
        """Return the results of all runs, none of which is in a block."""
        with ThreadPoolExecutor(min(len(self.runs), n_cores())) as pool:
            return list(pool.map(self._result, range(len(self.runs))))


def _interrupted(work: Work, results: list[Result]) -> Done:
    """Return as many draws as every chain has. Little is lost, since chains advance side by side."""
    if work.checkpoint is not None:
        work.checkpoint.write(results)
    if min(result.n_draws for result in results) == 0:
        raise KeyboardInterrupt(nothing_left("every chain had a draw", work))
    return _shortened(work, results)


def nothing_left(until: str, work: Work) -> str:
    """Return the message of an interruption that leaves no draws."""
    path = None if work.checkpoint is None else str(work.checkpoint.path)
    rest = "nothing to return" if path is None else f"pt.resume({path!r}) goes on from what is written there"
    return f"interrupted before {until}; {rest}"


def _shortened(work: Work, results: list[Result]) -> Done:
    """Return as many draws of every chain as each of them has, with a warning."""
    least = min(result.n_draws for result in results)
    warn(f"interrupted: {least} of {work.plans[0].draws} draws a chain are returned.")
    return Done([result.shortened(least) for result in results], False)
