"""The result of every bound, and checks of the arguments of bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..core.checks import check_count, check_number

SMALLEST_DELTA = 1e-300
LARGEST_KL = 1e300
"""Beyond these the terms of a bound overflow."""
LEAST_PART = 1e-3
"""Of delta, for one of several bounds: a part of an allowed delta is allowed."""


@dataclass(frozen=True)
class Bound:
    """An upper bound on a risk, with the terms of its formula.

    Attributes
    ----------
    name : str
    raw : float
        The bound as the formula gives it; above 1 it is vacuous.
    delta : float
        Probability, over the counted rows, that the bound fails.
    terms : dict of str to float
        The parts of the formula, by name.
    """

    name: str
    raw: float
    delta: float
    terms: dict[str, float]

    @property
    def value(self) -> float:
        """The bound, at most 1."""
        return min(self.raw, 1.0)

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        head = f"{self.name}: {self.value:.4f} with probability {1.0 - self.delta:g}"
        return "\n".join([head, *(f"    {name}: {value:.6g}" for name, value in self.terms.items())])


def check_delta(delta: float) -> float:
    """Refuse a ``delta`` outside (0, 1), or so near its ends that it cannot be halved or counted."""
    allowed = f"{SMALLEST_DELTA:g} <= delta < 1, the probability that the bound fails"
    return check_number("delta", delta, allowed, SMALLEST_DELTA * LEAST_PART, 1.0 - 2.0**-53)


def check_fraction(name: str, value: float) -> float:
    """Refuse a mean loss outside [0, 1]."""
    return check_number(name, value, "the mean of losses in [0, 1]", 0.0, 1.0)


def check_kl(kl: float) -> float:
    """Refuse a divergence that is negative or not a number."""
    return check_number("kl", kl, "a finite divergence >= 0, in nats", 0.0, LARGEST_KL)


def check_errors(errors: Any, n: Any) -> None:
    """Refuse ``errors`` that are not between 0 and ``n``."""
    check_count("n", n, 1)
    check_count("errors", errors, 0)
    if errors > n:
        raise ValueError(f"errors={errors} is out of range; there are n={n} rows: give 0 <= errors <= n.")
