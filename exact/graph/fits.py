"""Settings that make a problem small enough, from bounds on cells and splits, without building the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pactree_mcmc.model import TreeModel
from pactree_mcmc.model.split_prior.geometry import (
    follows_design,
    halves_box,
    has_empty_sides,
    parts_box,
    takes_turns,
    told,
)

from .limits import BYTES_PER_CELL, EDGES_PER_CELL, Limit, memory_bytes

DEEPEST = 64
"""Depth limits tried; deeper ones are no limit in what is bounded here."""
MOST_CODES = 1 << 40


class Side(NamedTuple):
    """How many ranges of one coordinate a cell can have, by the splits they take at least; all of them, summed."""

    ranges: list[int]
    ways: int
    """Splits of the whole range."""
    all_ways: int
    """Splits summed over all ranges."""


def settings_that_fit(model: TreeModel, limit: Limit) -> dict[str, int]:
    """Returns settings each of which, changed alone, makes the graph no larger than allowed, with their largest values.

    As they come from bounds, larger values may be enough too. A cell is a product of ranges, one for each coordinate:
    intervals of codes, or sets of categories. Under local cuts several products may contain the same rows, so the
    number of products is an upper bound on the number of cells.
    """
    rule, depth = model.split_prior, int(model.prior_tables.depth_limit)
    out: dict[str, int] = {}
    if told(follows_design, rule):
        nodes = np.bincount(np.minimum(model.shape.depth, depth)).cumsum()
        fits = np.flatnonzero(nodes <= limit.cells)
        return {"max_depth": int(fits[-1])} if len(fits) and fits[-1] > 0 else {}

    def fits_with(n_codes: int, at_depth: int) -> bool:
        cells, edges = bound(model, n_codes, at_depth)
        return cells <= limit.cells and edges <= EDGES_PER_CELL * limit.cells

    widest = int(model.n_codes.max())
    if told(halves_box, rule):
        levels = _largest(lambda g: fits_with(1 << g, depth), widest.bit_length() - 2)
        if levels:
            out["DyadicCuts"] = levels
    else:
        cuts = _largest(lambda g: fits_with(g + 1, depth), widest - 2)
        if cuts:
            out["GridCuts" if told(parts_box, rule) else "max_cuts"] = cuts
    shallow = _largest(lambda d: fits_with(MOST_CODES, d), min(depth - 1, DEEPEST))
    if shallow:
        out["max_depth"] = shallow
    cells, edges = bound(model, MOST_CODES, depth)
    enough = max(cells, -(-edges // EDGES_PER_CELL))
    if limit.cells < enough <= memory_bytes() // BYTES_PER_CELL:
        out["max_cells"] = enough
    return out


def _largest(fits: Callable[[int], bool], most: int) -> int:
    """Returns the largest number up to ``most`` that fits, 0 if none does; smaller ones must fit as well."""
    low, high = 0, max(most, 0)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def bound(model: TreeModel, n_codes: int, depth: int) -> tuple[int, int]:
    """Cells and splits that trees can have at most, with ``n_codes`` codes an ordered feature and this depth."""
    usable = model.split_prior.coordinate_weights(model.columns) > 0.0
    sides = [_side(model, c, n_codes) for c in np.flatnonzero(usable)]
    if told(takes_turns, model.split_prior):
        levels = sum(len(side.ranges) - 1 for side in sides)
        made = [1 << j for j in range(min(levels, depth) + 1)]
    else:
        made = [1]
        for side in sides:
            made = _product(made, side.ranges, depth)
    cells, splittable = sum(made), sum(made[:depth])
    edges = splittable * sum(side.ways for side in sides)
    if len(made) <= depth:
        # without the limit the splits are counted, not bounded
        totals = [sum(side.ranges) for side in sides]
        counted = sum(cells // total * side.all_ways for side, total in zip(sides, totals, strict=True))
        edges = min(edges, counted)
    if model.lowered.split_prior.by_depth:
        layers = len(made)
        cells, edges = cells * layers, edges * layers
    if told(has_empty_sides, model.split_prior):
        cells, edges = cells + 1, edges + 2 * len(sides) * (cells + 1)
    return cells, edges


def _side(model: TreeModel, c: int, n_codes: int) -> Side:
    """The ranges of coordinate ``c`` if an ordered one had at most so many codes."""
    n = int(model.n_codes[c])
    k = int(model.columns.source[c])
    if model.columns.categories[k] is not None:
        return Side([1, (1 << n) - 2], (1 << (n - 1)) - 1, (3**n - 1) // 2 - ((1 << n) - 1))
    if told(halves_box, model.split_prior):
        levels = min(n, n_codes).bit_length() - 1
        return Side([1 << j for j in range(levels + 1)], 1, (1 << levels) - 1)
    if n > n_codes:
        # missing values keep a code of their own
        n = min(n, n_codes + (k in model.columns.twins))
    return Side([1, 2 * (n - 1), (n - 1) * (n - 2) // 2], n - 1, (n + 1) * n * (n - 1) // 6)


def _product(a: list[int], b: list[int], depth: int) -> list[int]:
    """Coefficients of the product of two polynomials, up to ``depth``."""
    out = [0] * min(len(a) + len(b) - 1, depth + 1)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            if i + j < len(out):
                out[i + j] += x * y
    return out
