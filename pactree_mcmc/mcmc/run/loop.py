"""The loop that advances the chains of a run: all that knows executors, threads, interruption and the clock."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from typing import Any

from ...model.model import NotFinite
from ..chain.stopped import name_cell_in_errors
from .records import Request, Tuned
from .run import Run, Stop
from .run_chain import RunChain

BLOCK_SECONDS = 0.1
"""Time in seconds after which a thread turns to another chain."""
ROUNDS_FRACTION, TUNING_FRACTION = 0.4, 0.5
"""Fractions of the time limit after which rounds of tuning end, and after which tuning ends.

Half of the time remains for draws. The tenth in between is for steps at the posterior itself, since the last round may
have had a lower power of the score.
"""
MAX_SPEED_UP = 4
"""Largest ratio of the numbers of draws between two successive looks at the clock."""

Work = Callable[..., Generator[None, bool | None, Any]]
"""A work, see `run_chain`."""


def advance(run: Run, work: Work, args: Mapping[int, tuple], until: float | None = None) -> dict[int, Any]:
    """Let each chain c do ``work(chain, tuned, *args[c])``, and return the values by chain, without lost chains."""
    # works end early at ``until`` of the time limit, None for no limit. Errors in threads, and those that name a cell,
    # are raised. A chain whose worker died is added to ``run.lost_chains``, with the error.
    is_near, values = run.executor is None, dict[int, Any]()
    pending: dict[Future, int] = {}
    works: dict[int, Generator] = {}
    stop = Stop() if until is None else run.stop.at_fraction(until)
    pool: Executor = ThreadPoolExecutor(min(len(args) or 1, n_cores())) if is_near else run.executor

    def submit(c: int) -> None:
        chain = run.chains[c]
        try:
            if is_near:
                if c not in works:
                    works[c] = wake_and_do(run.request, run.tuned, chain, work, args[c])
                task: tuple = go_on, chain, works[c], stop, BLOCK_SECONDS
            else:
                task = do_task, run.request, run.tuned_of(chain), chain.at_rest(), work, args[c], stop
            pending[pool.submit(*task)] = c
        except RuntimeError as error:
            # a pool whose worker died takes no more tasks
            if is_near:
                raise
            run.lost_chains[c] = error

    def store(c: int, result: tuple[RunChain, bool, Any]) -> None:
        run.chains[c], is_done, value = result
        if is_done:
            values[c] = value
        else:
            # behind the others, so that chains advance evenly
            submit(c)

    try:
        for c in args:
            submit(c)
        while pending:
            finished = wait(pending, timeout=0.2, return_when=FIRST_COMPLETED)[0]
            # in order, so that an executor gets the tasks of a run always in the same order
            for future in sorted(finished, key=lambda future: pending[future]):
                c = pending.pop(future)
                try:
                    result = future.result()
                except Exception as error:
                    if is_near or isinstance(error, NotFinite):
                        raise
                    run.lost_chains[c] = error
                else:
                    store(c, result)
            run.progress.show(run)
    except KeyboardInterrupt:
        stop.set()
        for future in pending:
            future.cancel()
        if is_near:
            wait(pending)
        for future, c in pending.items():
            if future.done() and not future.cancelled() and future.exception() is None:
                run.chains[c] = future.result()[0]
        raise
    finally:
        stop.set()
        if is_near:
            pool.shutdown(cancel_futures=True)
    if len(run.lost_chains) == run.request.n_chains:
        error = run.lost_chains[min(run.lost_chains)]
        error.add_note(f"every chain was lost: {errors_by_chain(run.lost_chains)}")
        raise error
    return values


def go_on(chain: RunChain, work: Generator, stop: Stop, seconds: float) -> tuple[RunChain, bool, Any]:
    """Do a work for some seconds, one piece at least. Return the chain, and if the work is done True and its value."""
    end_time, is_over = time.perf_counter() + seconds, None
    try:
        while True:
            work.send(is_over)
            is_over = stop.is_set() or None
            if not is_over and time.perf_counter() >= end_time:
                return chain, False, None
    except StopIteration as done:
        return chain, True, done.value


def do_task(
    request: Request, tuned: Tuned, chain: RunChain, work: Work, args: tuple, stop: Stop
) -> tuple[RunChain, bool, Any]:
    """Do a work as a task of an executor. ``chain`` is a copy, so that a lost task leaves the chain as it was."""
    _, is_done, value = go_on(chain, wake_and_do(request, tuned, chain, work, args), stop, math.inf)
    return chain.at_rest(), is_done, value


def wake_and_do(request: Request, tuned: Tuned, chain: RunChain, work: Work, args: tuple) -> Generator[None, Any, Any]:
    """Wake a chain and let it do a work, whose value is returned."""
    assert request.model is not None
    with name_cell_in_errors(request.model, chain.replicas):
        chain.wake(request, tuned)
        return (yield from work(chain, tuned, *args))


def slices(run: Run, n: int) -> Iterator[int]:
    """Yield numbers of draws that add up to ``n``: one, or with a clock or a file several."""
    # when the time is over, or would be over after one more draw, yield no more than the first. With a clock the first
    # slice is a single draw, and a later one takes at most half of the remaining time by the speed of the one before.
    if not run.stop.is_timed and run.path is None:
        yield from [n] * (n > 0)
        return
    end_time, size, seconds_each = run.stop.until, 1, 0.0
    while n > 0 and (seconds_each == 0.0 or time.perf_counter() + seconds_each < end_time):
        start_time, size = time.perf_counter(), min(size, n)
        yield size
        now = time.perf_counter()
        seconds_each, n = max(now - start_time, 1e-9) / size, n - size
        seconds = (end_time - now) / 2.0 if run.path is None else min(run.every, (end_time - now) / 2.0)
        size = int(min(max(seconds / seconds_each, 1.0), MAX_SPEED_UP * size))


def errors_by_chain(lost_chains: Mapping[int, Exception]) -> str:
    """Return the errors of lost chains as text."""
    return "; ".join(f"chain {c}: {type(error).__name__}: {error}" for c, error in sorted(lost_chains.items()))


def n_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
