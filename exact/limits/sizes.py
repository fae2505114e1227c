"""Estimates and bounds of the sizes of graphs before anything is built, so that intractable problems fail immediately.

Under grids and dyadic cuts there is a lower bound. Under local cuts the size is estimated from random boxes. Upper
bounds give the settings that would be tractable.

A cell is the set of rows in a box. If the box is shrunk until each of its sides holds a row of the cell, there is one
box for each cell. Sides are drawn one coordinate after the other, among the values of the rows that are left. A box
counts if the rows that are left at the end touch all of its sides. With n_k values of coordinate k left when its sides
are drawn, a box is drawn with probability ``product of 2 / (n_k (n_k + 1))``. So

    number of cells  =  E( [the rows touch all sides] * product over k of n_k (n_k + 1) / 2 )

(Knuth 1975 counts the nodes of a tree in this way). For the last coordinate all choices are counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pactree_mcmc.model import TreeModel
from pactree_mcmc.model.split_prior.geometry import (
    call_uncompiled,
    follows_design,
    halves_box,
    has_empty_sides,
    parts_box,
    takes_turns,
)

from .intractable import EDGES_PER_CELL, MIN_BYTES_PER_CELL, Intractable, Limit, memory_bytes

SAMPLES, FEW_SAMPLES = 400, 100
"""Largest numbers of boxes drawn if all coordinates are used, and if only the first few of them are."""
MIN_SAMPLES, MAX_SAMPLED_POINTS = 40, 4_000_000
"""Smallest number of boxes, and number of boxes times points above which fewer boxes are drawn, to take about a second.

So fewer are drawn from more than 10,000 points, whose graphs are nearly always far above all limits.
"""
FEW_BOXES = 30_000
"""Number of boxes below which nothing is estimated: such graphs take a fraction of a second."""
NUMBERS_OF_COORDINATES = (1, 2, 3, 4, 6, 9, 14, 20)
"""Numbers of coordinates whose boxes are drawn, one after another. More than the last would take seconds."""
N_STANDARD_ERRORS = 3.0
"""Number of standard errors below the estimate that is taken as certain, wrong in about one problem of a thousand."""
MAX_SHOWN_ERROR = 0.5
"""Relative standard error above which an estimate is not shown."""
CELL_BYTES, STAT_BYTES, SPLIT_BYTES = 240, 18, 90
"""Bytes of a cell, of each of its statistics and of a split while the graph is built.

The arrays have spare room and are copied once. `tests/exact/limits/test_sizes.py` compares with measured peaks.
"""
FINISHED_CELL_BYTES, FINISHED_STAT_BYTES, FINISHED_SPLIT_BYTES, SLOT_BYTES = 60, 8, 28, 34
"""Bytes of a cell, a statistic, a split and a slot (cell at a depth) when the graph is finished and summed over."""
SPLIT_SECONDS, MEMBER_SECONDS, TERM_SECONDS = 7e-7, 3e-8, 6e-8
"""Processor time for a split, for each coordinate of each row of a cell, and for each split at each depth. Measured on
a graph of 800,000 cells and 9 million splits (300 rows, 5 columns of 6 values), 2026.
"""
MAX_TRIED_DEPTH = 64
"""Largest depth limit that is tried. Deeper ones change nothing in the bounds."""
UNLIMITED_CODES = 1 << 40
"""Number of codes larger than that of any feature."""


class SizeEstimate(NamedTuple):
    """Estimated size of a graph of cells."""

    cells: float  # Number of cells
    least_cells: float  # Number of cells three standard errors below the estimate
    error: float  # Relative standard error of ``cells``
    n_bytes: float  # Largest memory while the graph is built and summed over
    seconds: float  # Processor time

    def as_phrase(self, at_least: bool = False) -> str:
        """Return cells, memory and time as a phrase, which begins with "at least" if ``at_least`` is True."""
        error = f" (standard error {100.0 * self.error:.0f}%)" if self.error >= 0.005 else ""
        about = "at least about" if at_least else "about"
        return f"{about} {self.cells:.2g} cells{error}, {as_bytes(self.n_bytes)}, {as_time(self.seconds)}"


def estimate_size(model: TreeModel, codes: np.ndarray, limit: Limit, layered: bool) -> SizeEstimate | None:
    """Return the estimated size of the graph of a model with local cuts over points with ``codes`` (q, P).

    Points are distinct training rows; local cuts lie between the values of a cell. Return None if the graph is small,
    the estimate is too inexact, or cells differ by depth or by interaction groups. ``layered`` is True if a cell is
    counted at each of its depths. Coordinates are added a few at a time, since more coordinates never make fewer cells.
    The function stops with an error as soon as there are certainly too many cells.

    Raises
    ------
    Intractable
        If three standard errors below the estimate there are still more cells than ``limit`` allows, or they need more
        memory than is available.
    """
    usable = np.flatnonzero(model.split_prior.coordinate_weights(model.columns) > 0.0)
    distinct = np.array([len(np.unique(codes[c])) for c in usable])
    nominal = model.columns.is_nominal[model.columns.source]
    is_small = _log_boxes(distinct, nominal[usable]) <= math.log(FEW_BOXES)
    if is_small or model.lowered.split_prior.by_depth or model.lowered.split_prior.n_open > 1:
        return None
    order = usable[np.lexsort((-distinct, nominal[usable]))]
    rng, estimate = np.random.default_rng(20_261_125), None
    # weights and the smallest leaf may rule splits out, so that there are fewer cells than boxes
    is_certain = model.split_prior.has_equal_weights and model.split_prior.min_leaf == 1
    for n in sorted({min(n, len(order)) for n in NUMBERS_OF_COORDINATES}):
        is_last = n == min(len(order), NUMBERS_OF_COORDINATES[-1])
        boxes = Boxes(model, codes, order[:n], nominal, layered, rng)
        estimate = _estimate_from_terms(boxes.draw(SAMPLES if is_last else FEW_SAMPLES), model)
        if is_certain:
            refuse_large_estimate(estimate, limit, not is_last)
    is_useful = estimate is not None and estimate.cells > 0.0 and estimate.error < MAX_SHOWN_ERROR
    return estimate if is_useful else None


def _log_boxes(distinct: np.ndarray, nominal: np.ndarray) -> float:
    """Return the log of the number of boxes: products over coordinates of an interval of codes, or a set of categories.

    ``distinct`` is the number of codes of each coordinate. ``nominal`` is True for those of categories.
    """
    n = distinct.astype(np.float64)
    return float(np.where(nominal, n * math.log(2.0), np.log(n * (n + 1.0) / 2.0)).sum())


def refuse_large_estimate(estimate: SizeEstimate, limit: Limit, at_least: bool) -> None:
    """Raise Intractable if three standard errors below the estimate there are still too many cells for ``limit``.

    The limit is one of cells and one of memory. ``at_least`` is True if the estimate leaves features out, so that it is
    a lower bound.
    """
    if estimate.least_cells > limit.cells:
        raise Intractable(int(min(estimate.cells, 1e300)), limit.cells, estimate=estimate.as_phrase(at_least))
    least = estimate.n_bytes * estimate.least_cells / max(estimate.cells, 1.0)
    if least > limit.n_bytes:
        raise Intractable(int(min(least, 1e300)), limit.n_bytes, "bytes", estimate=estimate.as_phrase(at_least))


def _estimate_from_terms(terms: np.ndarray, model: TreeModel) -> SizeEstimate:
    """Return the estimate from the ``terms`` (n, 5) of random boxes that `Boxes.draw` returns: means and error."""
    cells, members, splits, slots, n_terms = terms.mean(axis=0).tolist()
    deviation = float(np.std(terms[:, 0], ddof=1)) / math.sqrt(len(terms))
    q, n_stats = len(model.scales), model.lowered.leaf.n_stats
    largest_bytes = building_bytes(model, cells, splits)
    finished_bytes = (FINISHED_CELL_BYTES + FINISHED_STAT_BYTES * n_stats) * cells
    finished_bytes += FINISHED_SPLIT_BYTES * splits + SLOT_BYTES * slots
    seconds = SPLIT_SECONDS * splits + MEMBER_SECONDS * members * q + TERM_SECONDS * n_terms
    least = cells - N_STANDARD_ERRORS * deviation
    return SizeEstimate(cells, least, deviation / max(cells, 1.0), max(largest_bytes, finished_bytes), seconds)


def building_bytes(model: TreeModel, cells: float, splits: float) -> float:
    """Return the memory while a graph of so many cells and splits is built."""
    return (CELL_BYTES + STAT_BYTES * model.lowered.leaf.n_stats) * cells + SPLIT_BYTES * splits


class Boxes:
    """Random boxes over points with ``codes`` (q, P), in the coordinates ``order``, nominal ones last.

    A box is valid if each of its sides has a point of the box on it. Each set of points that is a cell has one valid
    box, so that cells are counted by drawing boxes. ``touches`` and ``excluded`` in the methods are lists with a mask
    (P,) for each side of a box: True for the points on the side, and for those beyond it.
    """

    def __init__(
        self,
        model: TreeModel,
        codes: np.ndarray,
        order: np.ndarray,
        nominal: np.ndarray,
        layered: bool,
        rng: np.random.Generator,
    ) -> None:
        self.codes, self.nominal, self.rng = codes[order], nominal[order], rng
        self.ranks = np.array([np.unique(row, return_inverse=True)[1].reshape(-1) for row in self.codes])
        self.n_codes = self.ranks.max(axis=1) + 1
        self.limit = int(model.prior_tables.depth_limit)
        self.layered, self.trivial = layered, call_uncompiled(has_empty_sides, model.split_prior)

    def draw(self, n_samples: int) -> np.ndarray:
        """Return the terms (n, 5) of up to ``n_samples`` random boxes, fewer if there are many points.

        A slot is a cell at a depth. The means of the columns are unbiased estimates of the numbers of cells, of (cell,
        point) pairs, of splits, of slots and of (split, depth) pairs.
        """
        n_that_fit = max(MAX_SAMPLED_POINTS // self.ranks.shape[1], MIN_SAMPLES)
        return np.array([self._draw_box() for _ in range(min(n_samples, n_that_fit))])

    def _draw_box(self) -> tuple[float, ...]:
        """Draw a box, and return what its cell adds to the five sizes of a graph (see `draw`), over its probability.

        They are 0 if a side has no point of the box on it, so that the box is not that of its cell.
        """
        points, weight = np.arange(self.ranks.shape[1]), 1.0
        touches: list[np.ndarray] = []
        excluded: list[np.ndarray] = []
        for k in (*range(1, len(self.ranks)), *([0] if self.nominal[0] else [])):
            ranks, values = self.ranks[k], np.unique(self.ranks[k, points])
            n = len(values)
            if self.nominal[k]:
                ends = self._draw_subset(values)
                weight *= 2.0**n - 1.0
                excluded.append(~np.isin(ranks, ends))
            else:
                low, high = np.sort(self.rng.choice(n + 1, 2, replace=False))
                ends = np.unique([values[low], values[high - 1]])
                weight *= n * (n + 1) / 2.0
                excluded += [ranks < ends[0], ranks > ends[-1]]
            touches += [ranks == value for value in ends]
            points = points[~excluded[-1][points] & (ranks[points] >= ends[0])]
        if not self.nominal[0]:
            points, n_intervals = self._draw_last_interval(points, touches, excluded)
            weight *= n_intervals
        if not len(points) or not all(touch[points].any() for touch in touches):
            return (0.0,) * 5
        return self._terms_of_cell(points, excluded, weight)

    def _draw_subset(self, values: np.ndarray) -> np.ndarray:
        """Draw a non-empty subset of the values, uniformly."""
        while True:
            subset = values[self.rng.random(len(values)) < 0.5]
            if len(subset):
                return subset

    def _draw_last_interval(
        self, points: np.ndarray, touches: list[np.ndarray], excluded: list[np.ndarray]
    ) -> tuple[np.ndarray, int]:
        """Draw an interval of the first coordinate such that all other sides are touched.

        Sides are ends of the intervals of other coordinates, and one is touched if a point (a row) of the box is on it.
        ``points`` are the indices of those of all P points that are in the box so far. Return those in the interval and
        the number of such intervals (none and 0 if there is none), and add its two sides to ``excluded``. The lists
        hold a mask (P,) for each side: True for the points on it (``touches``), and for those beyond it.
        """
        ranks = self.ranks[0]
        values, place = np.unique(ranks[points], return_inverse=True)
        n = len(values)
        first_end = np.arange(n)
        for touch in touches:
            # the first value from each one on at which this side is touched
            next_touch = np.full(n, n)
            touched = place[touch[points]]
            next_touch[touched] = touched
            first_end = np.maximum(first_end, np.minimum.accumulate(next_touch[::-1])[::-1])
        n_ends = n - first_end
        total = int(n_ends.sum())
        if total == 0:
            return points[:0], 0
        low = int(self.rng.choice(n, p=n_ends / total))
        high = int(self.rng.integers(first_end[low], n))
        excluded += [ranks < values[low], ranks > values[high]]
        return points[(place >= low) & (place <= high)], total

    def _terms_of_cell(self, cell: np.ndarray, excluded: list[np.ndarray], weight: float) -> tuple[float, ...]:
        """Return ``weight`` (one over the probability of the box) times the five sizes that one cell adds to a graph.

        These are of cells, (cell, point) pairs, splits, (cell, depth) pairs and (split, depth) pairs. ``cell`` holds
        its points. The terms are 0 if the sides need more splits than the depth limit. ``excluded`` has a mask (P,) for
        each side, True for the points beyond it.
        """
        present = [len(np.unique(ranks[cell])) for ranks in self.ranks]
        depth = fewest_cuts(np.array(excluded))
        if depth > self.limit:
            return (0.0,) * 5
        n_splits = (
            2.0 ** (n - 1) - 1.0 if nominal else n - 1.0 for n, nominal in zip(present, self.nominal, strict=True)
        )
        splits = sum(n_splits) if depth < self.limit else 0.0
        n_layers = 1.0
        if self.trivial:
            splits += 2.0 * len(present)
            n_layers += self.limit - depth
        elif self.layered:
            cuts = sum(self.n_codes) - sum(present)
            n_layers += max(min(cuts, self.ranks.shape[1] - len(cell), self.limit) - depth, 0)
        return weight, weight * len(cell), weight * splits, weight * n_layers, weight * n_layers * splits


def fewest_cuts(excluded: np.ndarray) -> int:
    """Return how many sides of a box are enough to exclude all points outside, found greedily: at times one too many.

    ``excluded`` (n_sides, P) is True for the points (distinct rows) beyond each side. The side that excludes most is
    taken first.
    """
    n = 0
    excluded = excluded[:, excluded.any(axis=0)]
    while excluded.shape[1]:
        n += 1
        excluded = excluded[:, ~excluded[int(np.argmax(excluded.sum(axis=1)))]]
    return n


def as_bytes(n_bytes: float) -> str:
    """Return a number of bytes in words, such as "1.2 GB"."""
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if n_bytes >= size:
            return f"{n_bytes / size:.2g} {unit}" if n_bytes < 1e3 * size else f"{n_bytes / size:.0f} {unit}"
    return "less than 1 MB"


def as_time(seconds: float) -> str:
    """Return a processor time in words."""
    for unit, size in (("years", 31_557_600.0), ("days", 86_400.0), ("hours", 3_600.0), ("minutes", 60.0)):
        if seconds >= 2.0 * size:
            return f"{seconds / size:.3g} {unit} of processor time"
    return f"{max(seconds, 1.0):.0f} s of processor time"


def least_cells(model: TreeModel, codes: np.ndarray) -> int:
    """Return a lower bound on the number of cells of a graph over points with ``codes`` (q, P).

    Points are distinct training rows. It is the number of boxes around one point that the splits of a tree can make:
    the coefficients of a product of polynomials, one for each feature, in the number of splits that the sides of the
    box take. Return 1 for cuts between training values (local), weighted splits and splits that take turns, for which
    this number may be too large.
    """
    rule, limit = model.split_prior, int(model.prior_tables.depth_limit)
    # weights may rule splits out
    halves_any_side = call_uncompiled(halves_box, rule) and not call_uncompiled(takes_turns, rule)
    if not rule.has_equal_weights or not (call_uncompiled(parts_box, rule) or halves_any_side):
        return 1
    best = 1
    for i in np.linspace(0, codes.shape[1] - 1, min(codes.shape[1], 32)).astype(int):
        boxes = [1]
        for k in np.flatnonzero(rule.weights(model.n_features) > 0):
            c, n = int(codes[k, i]), int(model.n_codes[k])
            if call_uncompiled(halves_box, rule):
                sides = [1] * (int(rule.levels) + 1)
            elif model.columns.categories[k] is not None:
                sides = [1, (1 << (n - 1)) - 1]
            else:
                sides = [1, n - 1, c * (n - 1 - c)]
            boxes = _multiply_polynomials(boxes, sides, limit)
        best = max(best, sum(boxes))
    return best


class RangeCounts(NamedTuple):
    """Numbers of ranges of one feature (intervals of codes, or sets of categories) and of their splits."""

    ranges: list[int]  # Entry j: number of ranges that j splits, and no fewer, lead to
    n_splits: int  # Number of splits of the whole range
    n_all_splits: int  # Sum of the numbers of splits of all ranges


def settings_that_fit(model: TreeModel, limit: Limit) -> dict[str, int]:
    """Return settings, by name (see `Intractable.fits`), each of which alone would make the graph small enough.

    The values are the largest for which an upper bound is small enough, so that larger ones may fit too; ``max_cells``
    is the upper bound for the model as it is. A cell is a product of ranges, one for each coordinate: intervals of
    codes, or sets of categories. Under local cuts several products may contain the same rows, so the number of products
    is an upper bound on the number of cells.
    """
    rule, depth = model.split_prior, int(model.prior_tables.depth_limit)
    out: dict[str, int] = {}
    if call_uncompiled(follows_design, rule):
        nodes = np.bincount(np.minimum(model.shape.depth, depth)).cumsum()
        fits = np.flatnonzero(nodes <= limit.cells)
        return {"max_depth": int(fits[-1])} if len(fits) and fits[-1] > 0 else {}

    def fits_with(n_codes: int, at_depth: int) -> bool:
        """Return True if the bounds allow the graph with these limits on codes and depth."""
        cells, edges = bound_graph_size(model, n_codes, at_depth)
        is_small = cells <= limit.cells and edges <= EDGES_PER_CELL * limit.cells
        return is_small and building_bytes(model, cells, edges) <= limit.n_bytes

    widest = int(model.n_codes.max())
    if call_uncompiled(halves_box, rule):
        levels = _largest_that_fits(lambda g: fits_with(1 << g, depth), widest.bit_length() - 2)
        if levels:
            out["DyadicCuts"] = levels
    else:
        cuts = _largest_that_fits(lambda g: fits_with(g + 1, depth), widest - 2)
        if cuts:
            out["GridCuts" if call_uncompiled(parts_box, rule) else "max_cuts"] = cuts
    shallow = _largest_that_fits(lambda d: fits_with(UNLIMITED_CODES, d), min(depth - 1, MAX_TRIED_DEPTH))
    if shallow:
        out["max_depth"] = shallow
    cells, edges = bound_graph_size(model, UNLIMITED_CODES, depth)
    min_cells = max(cells, -(-edges // EDGES_PER_CELL))
    has_room = (
        min_cells <= memory_bytes() // MIN_BYTES_PER_CELL and building_bytes(model, cells, edges) <= limit.n_bytes
    )
    if limit.cells < min_cells and has_room:
        out["max_cells"] = min_cells
    return out


def _largest_that_fits(fits: Callable[[int], bool], most: int) -> int:
    """Return the largest number up to ``most`` for which ``fits`` is True, by bisection; 0 if it never is."""
    low, high = 0, max(most, 0)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def bound_graph_size(model: TreeModel, n_codes: int, depth: int) -> tuple[int, int]:
    """Return upper bounds on the numbers of cells and of splits up to ``depth``.

    Ordered features with more than ``n_codes`` codes (values that splits distinguish) are taken to have ``n_codes``.
    """
    usable = model.split_prior.coordinate_weights(model.columns) > 0.0
    sides = [_count_ranges(model, c, n_codes) for c in np.flatnonzero(usable)]
    if call_uncompiled(takes_turns, model.split_prior):
        levels = sum(len(side.ranges) - 1 for side in sides)
        boxes = [1 << j for j in range(min(levels, depth) + 1)]
    else:
        boxes = [1]
        for side in sides:
            boxes = _multiply_polynomials(boxes, side.ranges, depth)
    cells, splittable = sum(boxes), sum(boxes[:depth])
    edges = splittable * sum(side.n_splits for side in sides)
    if len(boxes) <= depth:
        # without the limit the splits are counted, not bounded
        totals = [sum(side.ranges) for side in sides]
        counted = sum(cells // total * side.n_all_splits for side, total in zip(sides, totals, strict=True))
        edges = min(edges, counted)
    if model.lowered.split_prior.by_depth:
        n_layers = len(boxes)
        cells, edges = cells * n_layers, edges * n_layers
    cells, edges = cells * model.lowered.split_prior.n_open, edges * model.lowered.split_prior.n_open
    if call_uncompiled(has_empty_sides, model.split_prior):
        cells, edges = cells + 1, edges + 2 * len(sides) * (cells + 1)
    return cells, edges


def _count_ranges(model: TreeModel, c: int, n_codes: int) -> RangeCounts:
    """Return the numbers of ranges and splits of coordinate ``c``, counting at most ``n_codes`` codes if ordered.

    A range is an interval of codes, or a set of categories.
    """
    n = int(model.n_codes[c])
    k = int(model.columns.source[c])
    if model.columns.categories[k] is not None:
        return RangeCounts([1, (1 << n) - 2], (1 << (n - 1)) - 1, (3**n - 1) // 2 - ((1 << n) - 1))
    if call_uncompiled(halves_box, model.split_prior):
        levels = min(n, n_codes).bit_length() - 1
        return RangeCounts([1 << j for j in range(levels + 1)], 1, (1 << levels) - 1)
    if n > n_codes:
        # missing values keep a code of their own
        n = min(n, n_codes + (k in model.columns.twins))
    return RangeCounts([1, 2 * (n - 1), (n - 1) * (n - 2) // 2], n - 1, (n + 1) * n * (n - 1) // 6)


def _multiply_polynomials(a: list[int], b: list[int], depth: int) -> list[int]:
    """Return the coefficients, integers of any size, of the product of two polynomials up to degree ``depth``."""
    return np.convolve(np.array(a, dtype=object), np.array(b, dtype=object))[: depth + 1].tolist()
