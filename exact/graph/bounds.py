"""Lower bounds on the number of cells, without building the graph, so that intractable problems are refused at once."""

from __future__ import annotations

import numpy as np

from pactree_mcmc.model import TreeModel
from pactree_mcmc.model.split_prior.geometry import halves_box, parts_box, takes_turns, told

from .dyadic import count_cells

SAMPLE_POINTS = 400


def least_cells(model: TreeModel, codes: np.ndarray, enough: int) -> int:
    """A number of cells that the graph is sure to exceed or reach, found without building it;
    no larger than it takes to exceed ``enough``, where counting costs.
    """
    rule, limit = model.split_prior, model.prior_tables.depth_limit
    if not rule.is_even:
        # weights may rule splits out
        return 1
    usable = model.split_prior.weights(model.n_features) > 0
    if told(parts_box, rule) or (told(halves_box, rule) and not told(takes_turns, rule)):
        boxes = _least_boxes(model, codes, limit, usable)
        if told(parts_box, rule) or boxes > enough:
            return boxes
        some = np.random.default_rng(0).permutation(codes.shape[1])[:SAMPLE_POINTS]
        return count_cells(
            codes[: model.n_features, some], usable.astype(np.float64), int(model.split_prior.levels), limit, enough
        )
    return 1


def _least_boxes(model: TreeModel, codes: np.ndarray, limit: int, usable: np.ndarray) -> int:
    """Boxes around one point that ``limit`` splits can make: a product of polynomials in the splits each side takes."""
    best = 1
    for i in np.linspace(0, codes.shape[1] - 1, min(codes.shape[1], 32)).astype(int):
        made = [1]
        for k in np.flatnonzero(usable):
            c, n = int(codes[k, i]), int(model.n_codes[k])
            if told(halves_box, model.split_prior):
                sides = [1] * (int(model.split_prior.levels) + 1)
            elif model.columns.categories[k] is not None:
                sides = [1, (1 << (n - 1)) - 1]
            else:
                sides = [1, n - 1, c * (n - 1 - c)]
            longer = [0] * min(len(made) + len(sides) - 1, limit + 1)
            for a, x in enumerate(made):
                for b, y in enumerate(sides):
                    if a + b < len(longer):
                        longer[a + b] += x * y
            made = longer
        best = max(best, sum(made))
    return best
