"""The loop that advances the chains of a run: all that knows executors, threads, interruption and the clock.

Tasks of an executor are sent with the model, on a Dask cluster once for all tasks of a run. An error that stops a chain
names the cell whose score is not finite.
"""

from __future__ import annotations

import math
import os
import pickle
import sys
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...model import TreeModel
from ...model.leaf.compiled import leaf_score
from ...model.model import NotFinite, PathSplit, not_finite
from ..state.records import NONE, ChainState
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


def with_model_sent_once(executor: Executor | None, model: Any) -> Executor | None:
    """Return a `ModelOnceExecutor` if the executor is one of Dask, otherwise the executor itself (None stays None)."""
    client = _client_of(executor)
    return executor if client is None else ModelOnceExecutor(executor, client, model)


class ModelOnceExecutor(Executor):
    """Executor of a Dask client that sends the model to the workers before the first task, and then not again."""

    # every argument that has the model, a NamedTuple with the field ``model``, is sent without it
    def __init__(self, executor: Executor, client: Any, model: Any) -> None:
        self.executor, self.client, self.model = executor, client, model
        self._sent: Any = None

    def submit(self, task: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future:
        """Submit ``task`` and return its future. Arguments that have the model are sent without it."""
        light = [_replace_model(arg, None) for arg in args]
        # Dask names pure tasks by a hash of their arguments
        return self.executor.submit(run_with_model, self._sent_model(), task, *light, pure=False, **kwargs)

    def _sent_model(self) -> Any:
        """Return the reference to the model on the workers, and send the model at the first call."""
        # the model is the result of a task, whose argument the scheduler keeps: Dask can make it again if all workers
        # that had it are gone, which it cannot do with scattered data
        if self._sent is None:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Sending large graph")
                self._sent = self.client.submit(pickle.loads, pickle.dumps(self.model, 5), pure=False)
            # Dask runs tasks on workers that have their arguments
            self.client.replicate(self._sent)
        return self._sent


def run_with_model(model: Any, task: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return task(*(_replace_model(arg, model) for arg in args), **kwargs)


def _replace_model(argument: Any, model: Any) -> Any:
    """Return a NamedTuple with ``model`` in its field of that name. Return others as they are."""
    return argument._replace(model=model) if "model" in getattr(argument, "_fields", ()) else argument


def _client_of(executor: Any) -> Any:
    """Return the client of an executor of Dask, or None for any other executor."""
    # an executor of Dask exists only if its module has been imported
    module = sys.modules.get("distributed.cfexecutor")
    return executor._client if module is not None and isinstance(executor, module.ClientExecutor) else None


@contextmanager
def name_cell_in_errors(model: TreeModel, chains: Iterable[Any]) -> Iterator[None]:
    """Run the ``with`` block. If the score of a cell of a chain is not finite, raise an error that names the cell."""
    try:
        yield
    except FloatingPointError as error:
        existing = list(chains)
        for chain in existing:
            cell_error = _error_of_chain(model, chain)
            if cell_error is not None:
                raise cell_error from error
        root = model.root_cell()
        stats = root.stats(model.leaf.n_stats(model.target))
        what, score = "a cell", float(leaf_score(model.lowered.leaf, stats[None], 0))
        if existing or np.isfinite(score):
            # the score is not a sum over cells
            what, score = "a tree, whose cells are all finite,", model.leaf.log_tree_score(stats[None], model.target)
        raise not_finite(model, [], what, root.n_rows, stats, score) from error


def _error_of_chain(model: TreeModel, chain: Any) -> NotFinite | None:
    """Return the error about the cell that stopped this chain, or None if no cell did."""
    state = chain.state
    node, is_side = int(state.scratch.failed_node[0]), bool(state.scratch.failed_node[1])
    if not 0 <= node < len(state.node):
        return None
    here = state.node[node]
    if not np.isfinite(here.score + here.guess):
        return not_finite(model, _splits_above(state, node), "a cell", here.rows, state.stats[node], here.score)
    scan, informed = state.scratch.scan, state.scratch.informed
    if is_side and not np.isfinite(informed.score).all():
        i, what = int(np.argmin(np.isfinite(informed.score))), "a leaf below another split of a node"
        rows, stats, score = int(informed.failed_rows[0]), informed.sums[i], float(informed.score[i])
        return not_finite(model, _splits_above(state, node), what, rows, stats, score)
    if is_side and np.isnan(scan.gain).any():
        split = int(np.argmax(np.isnan(scan.gain)))
        scores = [float(leaf_score(chain.lowered.proposal_leaf, side, split)) for side in (scan.left, scan.right)]
        rows = int(scan.rows_left[split])
        path = _splits_above(state, node)
        if not np.isfinite(scores[0]):
            return not_finite(model, path, "the left side of a possible split", rows, scan.left[split], scores[0])
        rows = int(here.rows) - rows
        return not_finite(model, path, "the right side of a possible split", rows, scan.right[split], scores[1])
    return None


def _splits_above(state: ChainState, node: int) -> list[PathSplit]:
    """Return the splits on the path from the root to a node, each with the side of the path."""
    out: list[PathSplit] = []
    while (number := int(state.node[node].parent)) != NONE:
        parent = state.node[number]
        is_left = int(parent.left) == node
        out.append(PathSplit(int(parent.feature), int(parent.cut), int(parent.upper), int(parent.categories), is_left))
        node = number
    return out[::-1]
