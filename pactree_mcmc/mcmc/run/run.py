"""A run on its way: its records, chains and draws, the clock that may end it, and the progress that it shows."""

from __future__ import annotations

import math
import sys
import time
from concurrent.futures import Executor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple, Self

import numpy as np

from ...core.compile.cache import CodeCache, watch_compilation
from ...tree.coded import Saved
from .records import Request, Stretch, Tuned
from .run_chain import RunChain

MIN_SECONDS = 1.0
"""Smallest time limit in seconds. A smaller one counts as this, so that even then a small table has its draws."""
SECONDS_BETWEEN_LINES = 30.0
"""Seconds between two lines if there is no terminal."""


class Verdict(NamedTuple):
    """Result of the criterion on the draws of a stretch."""

    failure: str  # phrase on what fails first, "" if the draws satisfy the criterion
    evidences: np.ndarray | None  # `Course.evidences` of the draws, or None if they were not computed

    @property
    def passes(self) -> bool:
        """True if the draws satisfy the criterion."""
        return not self.failure


@dataclass
class Run:
    """A run on its way: its records, its chains and their draws, and what one call holds in its hand."""

    request: Request
    tuned: Tuned
    stretch: Stretch
    chains: list[RunChain]
    draws: list[Saved | None]  # draws of each chain in the present stretch, None if it has none
    executor: Executor | None  # executor of the works, or None for threads
    is_shown: bool  # True if the progress is shown
    path: Path | None = None  # file to which the run is written ``every`` so many seconds, or None
    every: float = 60.0
    seconds: float = 0.0  # wall time that the run took in earlier calls
    # errors of the chains whose worker died, by number of the chain
    lost_chains: dict[int, Exception] = field(default_factory=dict)
    # chains that an interruption leaves out, since an executor has not finished them
    unfinished: set[int] = field(default_factory=set)
    omissions: list[str] = field(default_factory=list)  # descriptions of what the clock left out, for a warning
    verdict: Verdict | None = None  # verdict on the present draws, None if they were not judged
    run_before: Run | None = None  # the run before the present stretch, which is returned if the stretch is cut short
    is_interrupted: bool = False
    n_tune: int = 0  # number of tuning steps of a chain, for the progress
    phase: str = ""  # description of the present part of tuning, for the progress
    failure: str = ""  # phrase on what failed first at the last judgement, for the progress

    def __post_init__(self) -> None:
        self.stop = Stop() if self.request.seconds is None else Stop(self.request.seconds)
        self.start_time = self.time_written = self.stretch_start = time.perf_counter()
        self.progress = Progress(self.is_shown)

    @property
    def up(self) -> list[int]:
        """Numbers of the chains that are neither lost nor left out."""
        return [c for c in range(len(self.chains)) if c not in self.lost_chains and c not in self.unfinished]

    def n_draws_of(self, c: int) -> int:
        """Return the number of draws that chain ``c`` has in the present stretch."""
        saved = self.draws[c]
        return 0 if saved is None else len(saved.tree_of_draw)

    @property
    def n_draws(self) -> int:
        """Number of draws that all chains have in the present stretch."""
        return min(self.n_draws_of(c) for c in self.up)

    @property
    def steps(self) -> int:
        """Number of steps that each chain has made since tuning."""
        return self.stretch.before + self.n_draws * self.stretch.thin

    @property
    def limit(self) -> int:
        """Largest number of steps of a chain after tuning."""
        return self.stretch.limit or self.tuned.steps

    def tuned_of(self, chain: RunChain) -> Tuned:
        """Return ``tuned`` for a chain on an executor, with the graph of its team only."""
        graphs = tuple(graph if t == chain.team else None for t, graph in enumerate(self.tuned.graphs))
        return self.tuned._replace(graphs=graphs)


class Stop:
    """Signal at which works end: by `set`, or ``seconds`` after `start`."""

    def __init__(self, seconds: float = math.inf) -> None:
        self.seconds = max(seconds, MIN_SECONDS)
        self.start_time, self.until = 0.0, math.inf
        self._event = Event()

    @property
    def is_timed(self) -> bool:
        """True if there is a time limit."""
        return self.seconds < math.inf

    def start(self) -> None:
        """Start the clock, if it does not run yet."""
        if self.is_timed and self.until == math.inf:
            self.start_time = time.perf_counter()
            self.until = self.start_time + self.seconds

    def at_fraction(self, fraction: float) -> Stop:
        """Return another signal, given after this fraction of the time limit since `start`, or by its own `set`."""
        # if the clock has not started, or there is no limit, no clock gives the new signal
        other = Stop(self.seconds)
        other.start_time = self.start_time
        other.until = self.until if self.until == math.inf else self.start_time + fraction * self.seconds
        return other

    def set(self) -> None:
        """Give the signal now."""
        self._event.set()

    def is_set(self) -> bool:
        """Return True if the signal was given by `set`, or the time limit is over."""
        return self._event.is_set() or time.perf_counter() >= self.until

    def __reduce__(self) -> tuple[Any, ...]:
        # other processes and machines share the time of day, not the counter
        return _stop_at_time, (time.time() + self.until - time.perf_counter(),)


def _stop_at_time(end_time: float) -> Stop:
    """Return the signal of a task in another process, given at the time of day ``end_time``, in seconds."""
    stop = Stop()
    stop.until = time.perf_counter() + end_time - time.time()
    return stop


class Progress:
    """Progress bar on a terminal, or lines, while the ``with`` block runs. It also announces compilation."""

    def __init__(self, is_shown: bool) -> None:
        from tqdm.auto import tqdm

        terminal = sys.stderr.isatty()
        self.is_shown, self.lines = is_shown, is_shown and not terminal
        hidden = not (is_shown and terminal)
        self.bar = tqdm(total=1, unit=" steps", disable=hidden, dynamic_ncols=True, mininterval=0.2)
        self.start_time = self.last_line = time.monotonic()
        self.n_compiled, self.compiling, self._watching = 0, "", ExitStack()
        self.first_steps: tuple[float, float] | None = None  # when draws were seen first, and the steps of a chain then

    def __enter__(self) -> Self:
        if self.is_shown:
            self._watching.enter_context(watch_compilation(self._compile))
        return self

    def __exit__(self, *_: object) -> None:
        self._watching.close()
        self.bar.close()

    def show(self, run: Run) -> None:
        """Show the number of tuning steps or draws that all chains of a run have made."""
        # on a terminal every call redraws the bar. Otherwise a call prints a line, unless the last line was printed
        # less than ``SECONDS_BETWEEN_LINES`` ago.
        if not self.is_shown:
            return
        chains, is_tuning = [run.chains[c] for c in run.up], run.tuned.tune < 0
        if is_tuning:
            n, total, unit = sum(chain.tuned for chain in chains), len(chains) * run.n_tune, "steps"
            text = run.phase
        else:
            n = sum(run.n_draws_of(chain.number) + chain.n_saved for chain in chains)
            total, unit = len(chains) * run.stretch.goal, "draws"
            parts = _words_of_trees(chains), run.failure, self._time_left(run, n / len(chains))
            text = ", ".join(part for part in parts if part)
        if n > 0:
            self.compiling = ""
        if not self.bar.disable:
            if self.bar.total != total or self.bar.unit != f" {unit}":
                self.bar.unit = f" {unit}"
                self.bar.reset(total)
            self.bar.n = n
            self.bar.set_description_str(self.compiling or ("tuning" if is_tuning else "draws"), refresh=False)
            self.bar.set_postfix_str(text, refresh=True)
        now = time.monotonic()
        if self.lines and now - self.last_line >= SECONDS_BETWEEN_LINES:
            self.last_line = now
            what = "tuning, " if is_tuning else ""
            parts = [self.compiling, f"{what}{n} of {total} {unit} after {now - self.start_time:.0f} s", text]
            print(", ".join(part for part in parts if part), file=sys.stderr, flush=True)

    def _time_left(self, run: Run, n_draws: float) -> str:
        """Return when a run ends at the latest, by its speed so far, given the draws of a chain in its stretch."""
        now, stretch = time.monotonic(), run.stretch
        steps = stretch.before + n_draws * stretch.thin
        since, first = self.first_steps = self.first_steps or (now, steps)
        if steps <= first:
            return ""
        n_left = (run.limit if run.request.is_adaptive else stretch.goal * stretch.thin) - steps
        seconds = min((now - since) / (steps - first) * max(n_left, 0), run.stop.until - time.perf_counter())
        return f"ends within {seconds:.0f} s" if seconds < 120.0 else f"ends within {seconds / 60.0:.0f} min"

    def _compile(self, _: CodeCache) -> None:
        """Announce that a function is about to be compiled."""
        self.n_compiled += 1
        self.compiling = f"compiling function {self.n_compiled}"
        if not self.bar.disable:
            self.bar.set_description_str(self.compiling)
        elif self.n_compiled == 1:
            print("compiling, once; later runs find the code on disk", file=sys.stderr, flush=True)


def _words_of_trees(chains: list[RunChain]) -> str:
    """Return the acceptance and the mean number of leaves of chains in this process, else nothing."""
    if any(chain.sampler is None for chain in chains):
        return ""
    n_accepted, n_proposed = np.sum([chain.acceptance for chain in chains], axis=0)
    leaves = np.mean([chain.n_leaves for chain in chains])
    return f"acceptance {n_accepted / max(n_proposed, 1):.3f}, leaves {leaves:.1f}"
