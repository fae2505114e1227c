"""Prior probability that a tree splits on each feature, simulated once for a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..core.checks import Seed, is_integer, read_generator
from ..tree.arrays import LEAF
from .plain import draw_prior

if TYPE_CHECKING:
    from .model import TreeModel


def simulated_inclusion(model: TreeModel, draws: int, rng: Seed) -> np.ndarray:
    """Return the fraction (p,) of ``draws`` trees from the prior that split on each feature.

    It is stored with the model if ``rng`` is a number.
    """
    stored = model.__dict__.setdefault("_inclusion_by_seed", {})
    key = (draws, int(rng)) if is_integer(rng) else None  # type: ignore[arg-type]
    if key is not None and key in stored:
        return stored[key]
    generator, count = read_generator(rng), np.zeros(model.n_features)
    for _ in range(draws):
        grown = draw_prior(model, generator)
        if grown is None:
            raise ValueError(
                f"trees of {model.tree_prior!r} cannot be drawn one by one; use exact.solve(model).prior_inclusion(), "
                "or a ChipmanPrior."
            )
        feature = grown.tree.feature
        count[np.unique(feature[feature != LEAF])] += 1.0
    if key is not None:
        stored[key] = count / draws
    return count / draws
