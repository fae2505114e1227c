"""Cells in plain Python: merged rows and box of a cell. The engines use faster forms of their own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ..core.bits import codes_go_left
from ..table.columns import Columns
from .units import Units


class PlainSplit(NamedTuple):
    """A split of a cell into two children, in codes."""

    feature: int  # coordinate that is split on
    cut: int  # largest code that goes left; -1 if no code does
    categories: int  # bits of the categories that go left; -1 for an ordered feature


@dataclass(frozen=True, eq=False)
class PlainCell:
    """A cell of feature space, a box, with its merged training rows (units). Values are in codes of q coordinates."""

    merged_rows: Units  # all merged rows of the model
    index: np.ndarray  # (m,) int64: indices of the merged rows in the cell
    columns: Columns  # names and categories of the features
    # (q,) int64: first code of an ordered coordinate in the box, or the bit set of the categories of a nominal one
    low: np.ndarray
    high: np.ndarray  # (q,) int64: last code of an ordered coordinate in the box plus one, or -1 for a nominal one
    depth: int = 0
    node: int = 0  # node of the fixed tree that the cell is, for `FixedTree` only

    def span(self, feature: int) -> tuple[int, int]:
        """Return the first code of ordered coordinate ``feature`` in the box, and the last code plus one."""
        # the two coordinates of a feature with missing values have the same range, the intersection of theirs
        both = [feature, self.columns.other_coordinate[feature]]
        return int(self.low[both].max()), int(self.high[both].min())

    def codes(self, feature: int) -> np.ndarray:
        """Return the code (index of an interval or a category) of each merged row (m,) of the cell in a coordinate."""
        return self.merged_rows.codes[feature, self.index].astype(np.int64)

    @property
    def rows(self) -> np.ndarray:
        """Number of training rows (m,) in each merged row of the cell."""
        return self.merged_rows.rows[self.index & self.merged_rows.rows_all].astype(np.int64)

    @property
    def n_rows(self) -> int:
        """Number of training rows in the cell."""
        return int(self.rows.sum())

    def rows_by_code(self, feature: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the distinct codes of ``feature`` in the cell, ascending, and the number of training rows of each."""
        codes, rows = self.codes(feature), self.rows
        if len(codes) and codes.max() < 64 + 8 * len(codes):
            # faster than sorting if there are few codes
            present = np.flatnonzero(np.bincount(codes))
            return present, np.bincount(codes, weights=rows)[present].astype(np.int64)
        present, where = np.unique(codes, return_inverse=True)
        return present, np.bincount(where, weights=rows, minlength=len(present)).astype(np.int64)

    def stats(self, n_stats: int) -> np.ndarray:
        """Return the sums (n_stats,) over rows that the leaf model reads: weights by class, or weight and moments."""
        merged_rows = self.merged_rows
        weight = merged_rows.weight[self.index & merged_rows.weight_all]
        if merged_rows.counts:
            return np.bincount(merged_rows.label[self.index], weights=weight, minlength=n_stats).astype(np.float64)
        return np.concatenate([[weight.sum()], merged_rows.moments[:, self.index].sum(axis=1)])

    def goes_left(self, split: PlainSplit) -> np.ndarray:
        """Return for each merged row (m,) in the cell True if the split sends it left."""
        return codes_go_left(self.codes(split.feature), split.cut, split.categories)

    def split(self, split: PlainSplit, nodes: tuple[int, int] = (0, 0)) -> tuple[PlainCell, PlainCell]:
        """Return the left and right child by ``split``; ``nodes`` are their indices in a fixed tree, 0 without one."""
        goes_left, k = self.goes_left(split), split.feature
        children = []
        for is_left, rows, node in ((True, goes_left, nodes[0]), (False, ~goes_left, nodes[1])):
            low, high = self.low.copy(), self.high.copy()
            if split.categories >= 0:
                low[k] &= split.categories if is_left else ~split.categories
            else:
                (high if is_left else low)[k] = split.cut + 1
            deeper = self.depth + 1
            children.append(replace(self, index=self.index[rows], low=low, high=high, depth=deeper, node=node))
        return children[0], children[1]


def root_cell(merged_rows: Units, columns: Columns, n_codes: np.ndarray) -> PlainCell:
    """Return the cell that contains all rows of a model; ``n_codes`` (q,) counts the codes of each coordinate."""
    is_nominal = columns.is_nominal[columns.source]
    low = np.where(is_nominal, (1 << np.where(is_nominal, n_codes, 0)) - 1, 0).astype(np.int64)
    high = np.where(is_nominal, -1, n_codes).astype(np.int64)
    return PlainCell(merged_rows, np.arange(merged_rows.n_units), columns, low, high)


def set_bits(mask: int) -> list[int]:
    """Return the positions of the bits that are 1 in ``mask``, ascending, such as the categories in a bit set."""
    return [j for j in range(int(mask).bit_length()) if mask >> j & 1]
