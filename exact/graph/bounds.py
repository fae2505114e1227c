"""Lower bounds on the number of cells, without building the graph, so that intractable problems are refused at once."""

from __future__ import annotations

import numpy as np

from pactree_mcmc.core.compile.jit import jit
from pactree_mcmc.model import TreeModel
from pactree_mcmc.model.split_prior.geometry import halves_box, parts_box, parts_rows, takes_turns, told

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
    if told(parts_rows, rule) and limit >= 4 and model.split_prior.min_leaf == 1:
        ordered = np.flatnonzero(usable & ~model.columns.is_nominal)
        distinct = [len(np.unique(codes[k])) for k in ordered]
        best = ordered[np.argsort(distinct)[::-1][:2]]
        if len(best) == 2:
            some = np.random.default_rng(0).permutation(codes.shape[1])[:SAMPLE_POINTS]
            x, y = (np.unique(codes[k, some], return_inverse=True)[1].astype(np.int64) for k in best)
            return rectangles(x, y, enough)
        if len(best) == 1:
            return max(distinct) * (max(distinct) + 1) // 2
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


@jit
def rectangles(x: np.ndarray, y: np.ndarray, enough: int) -> int:
    """How many sets of points axis-parallel rectangles cut out of the points (x, y), given by ranks.

    For each interval [a, b] of x: the intervals of y that hold a point of each edge of the strip. Counting stops above
    ``enough``. Time O(range of x squared, times points and range of y).
    """
    n_x, n_y = x.max() + 1, y.max() + 1
    total = 0
    held = np.zeros((3, n_y), dtype=np.int64)
    for a in range(n_x):
        for b in range(a, n_x):
            for level in range(n_y):
                for j in range(3):
                    held[j, level] = 0
            for i in range(len(x)):
                if a <= x[i] <= b:
                    held[0, y[i]] = 1
                    if x[i] == a:
                        held[1, y[i]] = 1
                    if x[i] == b:
                        held[2, y[i]] = 1
            above, near_a, near_b = 0, -1, -1
            # going down the levels: how many levels that hold points lie at or above the nearest points of both edges
            for level in range(n_y - 1, -1, -1):
                if held[0, level] == 0:
                    continue
                above += 1
                if held[1, level] == 1:
                    near_a = above
                if held[2, level] == 1:
                    near_b = above
                if near_a > 0 and near_b > 0:
                    total += min(near_a, near_b)
        if total > enough:
            return total
    return total
