"""Cuts between the points in the cell (formulas, section 2)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.checks import check_count, check_flag
from ...files.encoding import kept
from ...table.coding import AnyScale, local_scale, nominal_scale
from ...table.columns import Columns
from ...table.reader import Table
from ..cells import PlainCell, Split
from .base import LOCAL, LOCAL_TRIVIAL, SplitPrior, check_weights


@kept
@dataclass(frozen=True, eq=False)
class LocalCuts(SplitPrior):
    """Splits that separate the points in the cell in different ways, all equally likely (Blanchard 1999, section 5).

    A feature is drawn by weight among those that can split the points in the cell, then one of its splits uniformly: a
    cut midway between neighbouring values in the cell, or, for a nominal feature, one of the ``2^(m-1) - 1`` splits of
    the m categories present. All rows of X count as points, those of E and those of weight zero too.

    Parameters
    ----------
    trivial : bool, default False
        True adds the two trivial splits, everything left and everything right: ``I + 1`` splits for I distinct values
        (one for an empty cell), every feature always admissible. The tree prior then needs a ``max_depth``.
    min_leaf : int, default 1
        Rows of X that each side needs, >= 1; 1 when ``trivial``. Rows count one each, merged or not and whatever
        they weigh, as for scikit-learn's ``min_samples_leaf`` and rpart's ``minbucket``: a row of weight 2 is one
        row here, the row given twice is two, a row of weight 0 is one.
    max_cuts : int or None, default None
        Thin the candidate cuts of a feature to that many quantiles of the rows first, for large n; weights do not
        count. None: every midpoint.
    feature_weights : array of shape (p,), "dirichlet" or DirichletWeights, optional
        Weights of the features, >= 0, not all 0; or their prior, if they are unknown and few features are to be
        split on. Default: equal.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> LocalCuts(min_leaf=5)
    LocalCuts(trivial=False, min_leaf=5, max_cuts=None, feature_weights=None)
    """

    trivial: bool = False
    min_leaf: int = 1
    max_cuts: int | None = None
    feature_weights: Any = None

    def __post_init__(self) -> None:
        check_count("min_leaf", self.min_leaf)
        check_flag("trivial", self.trivial)
        check_weights(self.feature_weights)
        if self.max_cuts is not None:
            check_count("max_cuts", self.max_cuts)
        if self.trivial and self.min_leaf != 1:
            raise ValueError(f"min_leaf={self.min_leaf} contradicts trivial=True, which allows empty cells; drop one.")

    @property
    def kind(self) -> int:  # type: ignore[override]
        return LOCAL_TRIVIAL if self.trivial else LOCAL

    @property
    def needs_depth(self) -> bool:  # type: ignore[override]
        return self.trivial

    @property
    def use_of_rows(self) -> str:
        return (
            "LocalCuts has the splits that separate the rows of a cell, counted ones too; give GridCuts.from_table "
            "with rows of E, DyadicCuts with bounds, or a FixedTree grown on E"
        )

    def scales(self, table: Table, columns: Columns) -> list[AnyScale]:
        return [
            nominal_scale(len(columns.categories[k]))
            if columns.categories[k] is not None
            else local_scale(columns.ordered_coordinate(table.column(k), c), self.max_cuts)
            for c, k in enumerate(columns.source)
        ]

    def natural_depth(self, n_units: int, n_codes: np.ndarray) -> int:
        return 1 << 62 if self.trivial else n_units - 1

    def fewest_splits(self, columns: Columns) -> int:
        return 1 << 62 if self.trivial else 0

    def _cuts(self, cell: PlainCell, feature: int) -> np.ndarray:
        present, rows = cell.rows_by_code(feature)
        below = np.cumsum(rows)[:-1]
        return present[:-1][(below >= self.min_leaf) & (rows.sum() - below >= self.min_leaf)]

    def _is_nominal(self, cell: PlainCell, feature: int) -> bool:
        return bool(cell.high[feature] < 0)

    def count_splits(self, cell: PlainCell, feature: int) -> int:
        if self.trivial and len(cell.index) == 0:
            return 1
        if self._is_nominal(cell, feature):
            return self._partitions(cell, feature) + 2 * self.trivial
        return len(self._cuts(cell, feature)) + 2 * self.trivial

    def _partitions(self, cell: PlainCell, feature: int) -> int:
        """Count the partitions of the categories present with enough rows on both sides."""
        _, rows = cell.rows_by_code(feature)
        # number of subsets without the first category by their number of rows
        counts = Counter({0: 1})
        for r in rows[1:].tolist():
            counts.update({total + r: n_subsets for total, n_subsets in counts.items()})
        least, most = self.min_leaf, int(rows.sum()) - self.min_leaf
        return sum(n_subsets for total, n_subsets in counts.items() if least <= total <= most)

    def admits(self, cell: PlainCell, split: Split) -> bool:
        if self.trivial:
            return True
        left = int(cell.rows[cell.goes_left(split)].sum())
        return min(left, cell.n_rows - left) >= self.min_leaf

    def draw_split_of(self, rng: np.random.Generator, cell: PlainCell, feature: int) -> Split:
        nominal = self._is_nominal(cell, feature)
        if self.trivial:
            number = int(rng.integers(self.count_splits(cell, feature)))
            if number < 2:
                every = int(cell.units.codes[feature].max())
                whole = Split(feature, every, (2 << every) - 1 if nominal else -1)
                return whole if number == 0 else Split(feature, -1, 0 if nominal else -1)
        if not nominal:
            return Split(feature, int(rng.choice(self._cuts(cell, feature))), -1)
        present = cell.rows_by_code(feature)[0]
        while True:
            left = [int(present[0])] + [int(c) for c in present[1:] if rng.random() < 0.5]
            split = Split(feature, -1, sum(1 << c for c in left))
            if len(left) < len(present) and (self.trivial or self.admits(cell, split)):
                return split
