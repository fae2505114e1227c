"""A lower bound of the number of cells, so that graphs that are far too large are refused before anything is built.

Under grids and dyadic cuts a cell is a box, and the boxes around one row are counted.

Under local cuts a cell is the set of rows in a box, so boxes count only if they contain different rows. Take a small
*core*, a box around a row. The *arm* of a side of the core are the rows beyond that side which are within the core in
all other coordinates. A box that contains the core has, for each side, a cut between two values of its arm, or none.
Two such boxes that differ at a side contain different rows: those of this arm between the two cuts, which lie in both
boxes as regards all other sides. So an arm with m cuts makes m + 1 choices, independently of the others, and

    number of cells  >=  product over arms of (m + 1),

of which those with at most D cuts are reached within depth D. Cores of several sizes around several rows are tried.
"""

from __future__ import annotations

import numpy as np

from pactree_mcmc.model import TreeModel
from pactree_mcmc.model.split_prior.geometry import call_uncompiled, halves_box, takes_turns

N_CENTRES = 32  # number of rows around which boxes of grids and dyadic cuts are counted
N_CORES = 4  # number of rows around which cores are tried under local cuts
# fractions of the rows within a core in each coordinate; 0: the rows with the value of the middle row
CORE_FRACTIONS = (0.0, 0.5, 0.8, 0.9, 0.96)
# numbers of coordinates that cores have, besides all; the others do not limit them
NUMBERS_OF_COORDINATES = (3, 6, 12, 24)


def least_boxes(model: TreeModel, codes: np.ndarray) -> int:
    """Return the number of boxes around one of the rows with ``codes`` (q, P), under grids and dyadic cuts."""
    # weights may rule splits out, and splits that take turns are not counted
    rule, best = model.split_prior, 1
    if not rule.has_equal_weights or call_uncompiled(takes_turns, rule):
        return 1
    for i in np.linspace(0, codes.shape[1] - 1, min(codes.shape[1], N_CENTRES)).astype(int):
        sides = []
        for k in np.flatnonzero(rule.weights(model.n_features) > 0):
            c, n = int(codes[k, i]), int(model.n_codes[k])
            if call_uncompiled(halves_box, rule):
                sides.append([1] * (int(rule.levels) + 1))
            elif model.columns.categories[k] is not None:
                sides.append([1, (1 << (n - 1)) - 1])
            else:
                sides.append([1, n - 1, c * (n - 1 - c)])
        best = max(best, _count_boxes(sides, int(model.prior_tables.depth_limit)))
    return best


def least_row_sets(model: TreeModel, codes: np.ndarray, rows: np.ndarray) -> int:
    """Return a lower bound on the number of sets of rows that are cells under local cuts."""
    if not model.split_prior.has_equal_weights:
        return 1
    limit, least = int(model.prior_tables.depth_limit), int(model.split_prior.min_leaf)
    # the second coordinate of a feature with missing values would empty its arms
    usable = np.flatnonzero(model.split_prior.coordinate_weights(model.columns)[: model.n_features] > 0.0)
    usable = usable[np.argsort([-len(np.unique(codes[k])) for k in usable], kind="stable")]
    ordered = np.sort(codes, axis=1)
    n, best = codes.shape[1], 1
    for i in np.linspace(0, n - 1, N_CORES + 2).astype(int)[1:-1]:
        for fraction in CORE_FRACTIONS:
            for n_used in sorted({min(m, len(usable)) for m in (*NUMBERS_OF_COORDINATES, len(usable))} - {0}):
                core = _Core(model, codes, rows, usable[:n_used])
                best = max(best, _count_boxes(core.sides(ordered, int(i), fraction, least), limit))
    return best


class _Core:
    """Cores over the points with ``codes`` (q, P), each with a number of ``rows`` (P,), in ``coordinates``."""

    def __init__(self, model: TreeModel, codes: np.ndarray, rows: np.ndarray, coordinates: np.ndarray) -> None:
        self.codes, self.rows, self.coordinates = codes, rows, coordinates
        self.is_nominal = [model.columns.categories[k] is not None for k in coordinates.tolist()]

    def sides(self, ordered: np.ndarray, centre: int, fraction: float, least: int) -> list[list[int]]:
        """Return for each coordinate the numbers of boxes around the core by the number of their cuts in it."""
        n = len(self.rows)
        half = int(0.5 * fraction * n)
        low, high = np.empty(len(self.coordinates), dtype=np.int64), np.empty(len(self.coordinates), dtype=np.int64)
        for j, k in enumerate(self.coordinates.tolist()):
            code = self.codes[k, centre]
            low[j] = high[j] = code
            if not self.is_nominal[j]:
                place = int(np.searchsorted(ordered[k], code))
                low[j] = min(code, ordered[k, max(place - half, 0)])
                high[j] = max(code, ordered[k, min(place + half, n - 1)])
        codes = self.codes[self.coordinates]
        is_outside = (codes < low[:, None]) | (codes > high[:, None])
        n_outside = is_outside.sum(axis=0)
        if self.rows[n_outside == 0].sum() < least:
            return []
        out = []
        for j in range(len(self.coordinates)):
            arm = is_outside[j] & (n_outside == 1)
            values, place = np.unique(codes[j, arm], return_inverse=True)
            counts = np.bincount(place.reshape(-1), weights=self.rows[arm], minlength=len(values))
            if self.is_nominal[j]:
                out.append([1, (1 << int((counts >= least).sum())) - 1])
                continue
            below = values < low[j]
            left = int((np.cumsum(counts[below]) >= least).sum())
            right = int((np.cumsum(counts[~below][::-1]) >= least).sum())
            out.append([1, left + right, left * right])
        return out


def _count_boxes(sides: list[list[int]], depth: int) -> int:
    """Return the number of boxes with at most ``depth`` cuts, given their numbers by cuts in each coordinate."""
    boxes = [1]
    for side in sides:
        # integers of any size
        boxes = np.convolve(np.array(boxes, dtype=object), np.array(side, dtype=object))[: depth + 1].tolist()
    return sum(boxes)
