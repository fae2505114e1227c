"""The signal that ends the work of a run early: an interruption, or the end of its time.

Tasks of chains look at it between two short pieces of work. `Pace` lets all chains of a run with a time limit go the
same number of steps, so that the clock leaves each of them equally many draws.
"""

from __future__ import annotations

import time
from math import inf
from threading import Event
from typing import Any

from ...core.checks import MAX_COUNT

ROUNDS_FRACTION, TUNING_FRACTION = 0.4, 0.5
"""Fractions of the time limit after which rounds of tuning end, and after which tuning ends.

Half of the time remains for draws. The tenth in between is for steps at the posterior itself, since the last round may
have had a lower power of the score.
"""
MIN_SECONDS = 1.0
"""Smallest time limit in seconds. A smaller one counts as this, so that even then a small table has its draws."""
MAX_SPEED_UP = 4
"""Largest ratio of the numbers of steps between two successive looks at the clock."""


class Stop:
    """Signal at which the tasks of a run end, given by `set` or by the end of a time limit.

    ``seconds`` is the time limit. The clock runs from `start` on.
    """

    def __init__(self, seconds: float = inf) -> None:
        self.seconds = max(seconds, MIN_SECONDS)
        self.start_time, self.until = 0.0, inf
        self.omissions: list[str] = []
        """Descriptions of what the clock left out, for a warning."""
        self._event = Event()

    @property
    def is_timed(self) -> bool:
        """True if there is a time limit."""
        return self.seconds < inf

    def start(self) -> None:
        """Start the clock, if it does not run yet."""
        if self.is_timed and self.until == inf:
            self.start_time = time.perf_counter()
            self.until = self.start_time + self.seconds

    def at_fraction(self, fraction: float) -> Stop:
        """Return another signal, given after this fraction of the time limit since `start`, or by its own `set`.

        If the clock has not started, or there is no limit, no clock gives the new signal.
        """
        other = Stop(self.seconds)
        other.start_time = self.start_time
        other.until = self.until if self.until == inf else self.start_time + fraction * self.seconds
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


Signal = Stop | Event | None
"""Signal that ends a task early, or None if nothing ends it early."""


def is_set(signal: Signal) -> bool:
    """Return True if ``signal`` is not None and the signal was given."""
    return signal is not None and signal.is_set()


def _stop_at_time(end_time: float) -> Stop:
    """Return the signal of a task in another process, given at the time of day ``end_time``, in seconds."""
    stop = Stop()
    stop.until = time.perf_counter() + end_time - time.time()
    return stop


class Pace:
    """Number of steps, tuning included, that every chain of a run must reach before any chain continues.

    After tuning a step here is a draw, whatever the thinning. Between two such goals lies a piece of the run. With a
    time limit the first piece is a single step. Later pieces take at most half of the remaining time, by the speed of
    the piece before. ``stop`` is the signal of the run, ``tune`` and ``total`` are the steps of tuning, and all steps,
    of each chain.
    """

    def __init__(self, stop: Stop, tune: int, total: int) -> None:
        self.stop, self.tune, self.total = stop, tune, total
        self.tuning = stop.at_fraction(TUNING_FRACTION)
        self.goal = self.piece = 0
        self.last_check = time.perf_counter()

    def skips_tuning(self, steps: list[int]) -> bool:
        """Return True if chains that have made ``steps`` steps are to leave out the rest of tuning for lack of time.

        Add that to ``stop.omissions``, for the warning about the run.
        """
        if min(steps) >= self.tune or not self.stop.is_timed or not self._is_over(self.tuning):
            return False
        self.stop.omissions.append(f"the last {self.tune - min(steps)} of {self.tune} steps of tuning of each chain")
        self.goal = self.piece = 0
        return True

    def next_goal(self, steps: list[int]) -> int:
        """Return the number of steps that all chains are to reach next, if they have made ``steps`` steps each.

        The run is to end there if this is ``max(steps)``. Without a time limit it is MAX_COUNT, so that no chain waits.
        """
        if not self.stop.is_timed:
            return MAX_COUNT
        max_steps = max(steps)
        if min(steps) < max_steps or max_steps < self.goal:
            # some chain is behind the others
            self.goal, self.piece = max(max_steps, self.goal), 0
            return self.goal
        limit = self.tuning if max_steps < self.tune else self.stop
        if max_steps > self.tune and self._is_over(limit):
            return max_steps
        now = time.perf_counter()
        piece, elapsed, self.last_check = self.piece, now - self.last_check, now
        self.piece = 1
        if piece > 0:
            # by the speed of the last piece this many steps take half of the time that remains
            piece_of_half_time = (limit.until - now) / 2.0 * piece / max(elapsed, 1e-9)
            self.piece = int(min(max(piece_of_half_time, 1.0), MAX_SPEED_UP * piece))
        self.goal = min(max_steps + self.piece, self.tune if max_steps < self.tune else self.total)
        self.piece = self.goal - max_steps
        return self.goal

    def _is_over(self, limit: Stop) -> bool:
        """Return True if the time of ``limit`` is over, or would be over after one more step at the present speed."""
        if self.piece == 0:
            return limit.is_set()
        elapsed = time.perf_counter() - self.last_check
        return time.perf_counter() + elapsed / self.piece >= limit.until
