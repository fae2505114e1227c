"""Tasks of chains between two stretches of draws: on threads, or on the executor of the run."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from typing import Any

from ...model.not_finite import NotFinite
from .stop import Stop
from .task import Run
from .workers import Work, n_cores

Submit = Callable[..., Future]


def with_pool(work: Work, do: Callable[[Submit], Any], stopped: Stop | None = None) -> Any:
    """Run `do` with a function that submits tasks to the executor, or to threads, and return its result.

    Tasks end by the signal ``stopped``, by default that of the end of the run, and by an interruption.
    """
    stopped = work.stop.part(1.0) if stopped is None else stopped
    pool = ThreadPoolExecutor(min(len(work.plans), n_cores())) if work.executor is None else None
    try:
        return do(partial(_submit, pool or work.executor, stopped))
    finally:
        # an interruption leaves tasks at work; they end by the signal
        stopped.set()
        if pool is not None:
            pool.shutdown(cancel_futures=True)


def map_chains(
    work: Work, submit: Submit, function: Callable[..., Any], tasks: dict[int, Any], lost: dict[int, Exception]
) -> dict[int, Any]:
    """Run one task for each chain and return the results; on an executor add chains without a result to ``lost``."""
    found, futures = {}, {}
    try:
        for c, task in tasks.items():
            try:
                futures[c] = submit(function, task)
            except RuntimeError as error:
                # a pool whose worker died takes no more tasks
                lost[c] = error
        for c, future in futures.items():
            try:
                found[c] = future.result()
            except NotFinite:
                raise
            except Exception as error:
                if work.executor is None:
                    raise
                lost[c] = error
    except KeyboardInterrupt:
        for future in futures.values():
            future.cancel()
        raise
    return found


def start_clock(work: Work) -> None:
    """Compile what chains in threads call, and start the clock if there is a time limit.

    In the main thread, which an interruption ends at once: a pool would wait for its threads to compile.
    """
    if work.executor is None:
        Run(work.plans[0])
    work.stop.start()


def _submit(pool: Executor, stopped: Stop, function: Callable[..., Any], task: Any) -> Future:
    return pool.submit(function, task, stopped)
