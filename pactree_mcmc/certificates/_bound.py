"""What every bound returns, and the checks of what goes into one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from .._checks import check_count


@dataclass(frozen=True)
class Bound:
    """An upper bound on a risk, and what it is made of.

    Attributes
    ----------
    name : str
    raw : float
        The bound as the formula gives it; above 1 it says nothing.
    delta : float
        Probability, over the counted rows, that the bound does not hold.
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


def check_delta(delta: float) -> None:
    """Refuse a ``delta`` outside (0, 1)."""
    if not 0.0 < delta < 1.0:
        raise ValueError(f"delta={delta} is out of range; give 0 < delta < 1, the probability that the bound fails.")


def check_share(name: str, value: float) -> None:
    """Refuse a mean loss outside [0, 1]."""
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"{name}={value} is out of range; the bound is for losses in [0, 1].")


def check_kl(kl: float) -> None:
    """Refuse a divergence that is negative or no number."""
    if not 0.0 <= kl < math.inf:
        raise ValueError(f"kl={kl} is out of range; give a finite divergence >= 0, in nats.")


def check_errors(errors: Any, n: Any) -> None:
    """Refuse ``errors`` that are no count among ``n`` rows."""
    check_count("n", n, 1)
    check_count("errors", errors, 0)
    if errors > n:
        raise ValueError(f"errors={errors} is out of range; there are n={n} rows: give 0 <= errors <= n.")
