"""Generator by which code runs on every outcome of ``rng.random()`` and ``rng.integers(0, n)``.

The generator returns prescribed outcomes. A step that is replayed with every possible sequence of outcomes, depth
first, gives the distribution of its result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

ASK = "draw all chance by moves.pick, moves.flip, moves.flip_log or moves.pick_weighted"


class StepError(ValueError):
    """Error for a step that returns or draws what a step may not."""


class Outcomes:
    """Generator that follows prescribed outcomes, and takes the first one beyond them."""

    def __init__(self, prescribed: Sequence[int]) -> None:
        self.prescribed = prescribed
        self.trail: list[tuple[int, int]] = []
        self.probability = 1.0

    def choose(self, probabilities: Sequence[float]) -> int:
        """Return the number of the outcome among those with these probabilities."""
        at = len(self.trail)
        outcome = self.prescribed[at] if at < len(self.prescribed) else 0
        self.trail.append((outcome, len(probabilities)))
        self.probability *= probabilities[outcome]
        return outcome

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise StepError(f"uses rng.{name}, whose outcomes cannot be followed; {ASK}")

    def integers(self, low: int, high: int | None = None, *more: Any, **named: Any) -> int:
        """Return each of low, ..., high - 1 with equal probability."""
        if high is None or more or named:
            raise StepError("calls rng.integers other than as rng.integers(low, high); use moves.pick(rng, n)")
        assert high > low, f"[{low}, {high}) has no integer"
        return int(low) + self.choose([1.0 / (high - low)] * int(high - low))

    def random(self, *size: Any) -> Uniform:
        """Return a uniform number of which only the results of comparisons are determined."""
        if size:
            raise StepError(f"calls rng.random with a size; {ASK}")
        return Uniform(self, [0.0, 1.0], 1.0, 0.0)

    def next_prescription(self) -> list[int] | None:
        """Return the outcomes to prescribe next, in depth-first order, or None after the last."""
        trail = list(self.trail)
        while trail and trail[-1][0] + 1 == trail[-1][1]:
            trail.pop()
        return [outcome for outcome, _ in trail[:-1]] + [trail[-1][0] + 1] if trail else None


class Uniform:
    """Number ``scale * U + shift`` with U uniform in ``interval``, which all numbers that derive from U share."""

    def __init__(self, outcomes: Outcomes, interval: list[float], scale: float, shift: float) -> None:
        self.outcomes, self.interval, self.scale, self.shift = outcomes, interval, scale, shift

    def __lt__(self, other: Any) -> bool:
        low, high = self.interval
        threshold = (float(other) - self.shift) / self.scale
        if threshold <= low or threshold >= high:
            return threshold >= high
        below = (threshold - low) / (high - low)
        if self.outcomes.choose([below, 1.0 - below]) == 0:
            self.interval[1] = threshold
            return True
        self.interval[0] = threshold
        return False

    def __float__(self) -> float:
        raise StepError(f"computes with rng.random(), which may only be compared; {ASK}")

    __int__ = __float__

    def __mul__(self, factor: Any) -> Uniform:
        return Uniform(self.outcomes, self.interval, self.scale * float(factor), self.shift * float(factor))

    __rmul__ = __mul__

    def __add__(self, other: Any) -> Uniform:
        return Uniform(self.outcomes, self.interval, self.scale, self.shift + float(other))

    __radd__ = __add__

    def __sub__(self, other: Any) -> Uniform:
        return Uniform(self.outcomes, self.interval, self.scale, self.shift - float(other))


def all_outcomes(run: Callable[[Outcomes], Any]) -> Iterator[tuple[float, Any]]:
    """Yield pairs (probability, result of ``run(generator)``) over all outcomes of the generator."""
    prescribed: list[int] | None = []
    while prescribed is not None:
        outcomes = Outcomes(prescribed)
        result = run(outcomes)
        yield outcomes.probability, result
        prescribed = outcomes.next_prescription()
