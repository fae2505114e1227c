"""Leaf models of rates that a known factor of each row multiplies: its exposure."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.checks import read_numbers
from .base import Leaf, check_positive
from .target import Target


class ExposedLeaf(Leaf):
    """Leaf models with an exposure e of each row, a known factor of its rate; log e is called its offset."""

    exposure: Any

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.exposure is not None:
            check_positive("exposure", self.exposure, entries=True)

    def check_exposure(self, target: Target) -> None:
        """Refuse exposures that are not one for each row."""
        n = len(target.values)
        if self.exposure is not None and np.shape(self.exposure) != (n,):
            raise ValueError(f"exposure has shape {np.shape(self.exposure)}; y has {n} rows: one each.")

    def exposures(self, target: Target) -> np.ndarray:
        """Return the exposures (n,) of the training rows; ones if there are none."""
        return np.ones(len(target.values)) if self.exposure is None else np.asarray(self.exposure, dtype=np.float64)

    def at_exposure(self, values: np.ndarray, exposure: np.ndarray) -> np.ndarray:
        """Return the means (n, 1) at exposures (n,), given those at exposure 1."""
        return values * exposure[:, None]


def predict_at_exposure(leaf: Leaf, values: np.ndarray, exposure: Any) -> np.ndarray:
    """Return means (n, 1) at the exposure of each row, or refuse leaf models without exposure.

    ``exposure`` is a number or an array (n,).
    """
    if not isinstance(leaf, ExposedLeaf):
        raise ValueError(
            f"{type(leaf).__name__} has no exposure; leave exposure= out. PoissonGamma, NegativeBinomialBeta, "
            "ExponentialGamma and WeibullGamma have one."
        )
    check_positive("exposure", exposure, entries=True)
    given = read_numbers("exposure", exposure)
    if given.ndim and given.shape != (len(values),):
        raise ValueError(f"exposure has shape {given.shape}; X has {len(values)} rows: give a number, or one each.")
    return leaf.at_exposure(values, np.broadcast_to(given, len(values)))
