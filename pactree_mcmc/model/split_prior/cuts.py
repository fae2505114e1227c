"""Split priors with local, grid and dyadic cuts: between the points of a cell, from a fixed list, or at midpoints."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ...core.checks import check_count, check_flag, read_numbers, refuse_labels, repr_of, set_field
from ...files.encoding import register_class
from ...table.coding import (
    LARGEST_FLOAT,
    AnyScale,
    DyadicScale,
    Scale,
    local_scale,
    nominal_scale,
    quantile_scale,
    scale_from_cuts,
)
from ...table.columns import Columns, describe_columns
from ...table.reader import Table
from ..rows import PlainCell, PlainSplit, set_bits
from .base import CYCLIC, DYADIC, GRID, LOCAL, LOCAL_TRIVIAL, MAX_LEVELS, SplitPrior, check_weights

DEFAULT_CUTS, DEFAULT_MIN_LEAF = 100, 5  # of a model of MIN_ROWS_OF_DEFAULT rows or more
MIN_ROWS_OF_DEFAULT = 100


@register_class
@dataclass(frozen=True, eq=False, repr=False)
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
    feature_weights : array of shape (p,), optional
        Weights of the features, >= 0, not all 0. Default: equal.

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
        """Return the cuts (m,) of the cell on an ordered coordinate, ascending, as the largest codes that go left."""
        present, rows = cell.rows_by_code(feature)
        below = np.cumsum(rows)[:-1]
        return present[:-1][(below >= self.min_leaf) & (rows.sum() - below >= self.min_leaf)]

    def _is_nominal(self, cell: PlainCell, feature: int) -> bool:
        return bool(cell.high[feature] < 0)

    def count_splits(self, cell: PlainCell, feature: int) -> int:
        if self.trivial and len(cell.index) == 0:
            return 1
        if self._is_nominal(cell, feature):
            return self._count_partitions(cell, feature) + 2 * self.trivial
        return len(self._cuts(cell, feature)) + 2 * self.trivial

    def _count_partitions(self, cell: PlainCell, feature: int) -> int:
        """Return the number of unordered pairs of sets of ``min_leaf`` rows each that divide the cell's categories."""
        _, rows = cell.rows_by_code(feature)
        # the side without the first category determines the split: count the possible sides by their number of rows,
        # adding one category after another, and keep those that leave min_leaf rows on both sides
        counts = Counter({0: 1})
        for r in rows[1:].tolist():
            counts.update({total + r: n_subsets for total, n_subsets in counts.items()})
        min_rows, max_rows = self.min_leaf, int(rows.sum()) - self.min_leaf
        return sum(n_subsets for total, n_subsets in counts.items() if min_rows <= total <= max_rows)

    def admits(self, cell: PlainCell, split: PlainSplit) -> bool:
        if self.trivial:
            return True
        left = int(cell.rows[cell.goes_left(split)].sum())
        return min(left, cell.n_rows - left) >= self.min_leaf

    def draw_split_of(self, rng: np.random.Generator, cell: PlainCell, feature: int) -> PlainSplit:
        nominal = self._is_nominal(cell, feature)
        if self.trivial:
            number = int(rng.integers(self.count_splits(cell, feature)))
            if number < 2:
                last_code = int(cell.merged_rows.codes[feature].max())
                all_left = PlainSplit(feature, last_code, (2 << last_code) - 1 if nominal else -1)
                return all_left if number == 0 else PlainSplit(feature, -1, 0 if nominal else -1)
        if not nominal:
            return PlainSplit(feature, int(rng.choice(self._cuts(cell, feature))), -1)
        present = cell.rows_by_code(feature)[0]
        while True:
            left_codes = [int(present[0])] + [int(c) for c in present[1:] if rng.random() < 0.5]
            split = PlainSplit(feature, -1, sum(1 << c for c in left_codes))
            if len(left_codes) < len(present) and (self.trivial or self.admits(cell, split)):
                return split


def default_cuts(n_rows: int) -> LocalCuts:
    """Return the split prior of a model of ``n_rows`` rows for which none is given."""
    is_small = n_rows < MIN_ROWS_OF_DEFAULT
    return LocalCuts() if is_small else LocalCuts(max_cuts=DEFAULT_CUTS, min_leaf=DEFAULT_MIN_LEAF)


@register_class
@dataclass(frozen=True, eq=False, repr=False)
class GridCuts(SplitPrior):
    """Cuts from a fixed list for each feature. A cell has those strictly inside its box, whether or not it has rows.

    The box contains a set of categories of each nominal feature, and all splits of this set are equally likely.

    Parameters
    ----------
    cuts : int or sequence of p arrays
        Increasing finite cut points of each feature (None or empty for a nominal one); or the largest number of
        quantiles of each feature that serve as cuts, each the shortest decimal between two neighbouring values.
        Quantiles ignore the weights of rows.
    feature_weights : array of shape (p,), optional
        Weights of the features, >= 0, not all 0. Default: equal.

    Raises
    ------
    ValueError
        If the cuts of a feature are not finite and strictly increasing, or there are not p lists of cuts.

    Examples
    --------
    >>> GridCuts(16)
    GridCuts(cuts=16, feature_weights=None)
    """

    cuts: Any
    feature_weights: Any = None
    kind = GRID

    def __post_init__(self) -> None:
        check_weights(self.feature_weights)
        if isinstance(self.cuts, int | np.integer) and not isinstance(self.cuts, bool):
            check_count("cuts", self.cuts)
            return
        if not isinstance(self.cuts, list | tuple | np.ndarray) or getattr(self.cuts, "ndim", 1) == 0:
            raise ValueError(f"cuts={repr_of(self.cuts)}; give an integer >= 1 or one increasing array a feature.")
        for k, cuts in enumerate(self.cuts):
            points = np.empty(0) if cuts is None else read_numbers(f"cuts of feature {k}", cuts)
            if points.ndim != 1 or not np.isfinite(points).all():
                what = repr_of(cuts)
                raise ValueError(f"cuts of feature {k} are not a one-dimensional array of finite numbers: {what}.")
            if np.any(points[1:] <= points[:-1]):
                what = "duplicate" if np.any(np.diff(np.sort(points)) == 0.0) else "unsorted"
                listed = repr_of(points.tolist())
                raise ValueError(f"cuts of feature {k} are {what}: {listed}; give strictly increasing cuts.")

    @classmethod
    def from_table(
        cls, X: Any, cuts: int, *, nominal: Any = None, missing: str = "error", feature_weights: Any = None
    ) -> Self:
        """Return GridCuts at quantiles of another table, such as the rows of E.

        Parameters
        ----------
        X : table of shape (m, p)
            With the columns of the model's X.
        cuts : int
            Largest number of quantiles of each feature, >= 1.
        nominal, missing, feature_weights
            As for TreeModel and GridCuts. With ``missing="branch"`` quantiles are those of the values that are known.

        Raises
        ------
        ValueError
            If an argument is out of range or a column cannot be used.

        Examples
        --------
        >>> GridCuts.from_table([[0.0], [1.0], [4.0]], 2).cuts
        [array([0.5, 2.5])]
        """
        check_count("cuts", cuts)
        table = Table(X)
        columns = describe_columns(table, nominal, missing)
        # the second coordinate of a feature with missing values has the same cuts
        pairs = zip(cls(cuts).scales(table, columns)[: columns.n_features], columns.categories, strict=True)
        own_cuts = [scale.cuts if isinstance(scale, Scale) and c is None else None for scale, c in pairs]
        return cls(own_cuts, feature_weights)

    @property
    def use_of_rows(self) -> str | None:
        if not isinstance(self.cuts, int | np.integer):
            return None
        return (
            f"GridCuts({self.cuts}) takes quantiles of all rows, counted ones too; give the cuts, or "
            "GridCuts.from_table with rows of E"
        )

    def scales(self, table: Table, columns: Columns) -> list[AnyScale]:
        are_quantiles = isinstance(self.cuts, int | np.integer)
        if not are_quantiles and len(self.cuts) != columns.n_features:
            raise ValueError(f"cuts has {len(self.cuts)} entries; X has {columns.n_features} columns: one array each.")
        out: list[AnyScale] = []
        for c, k in enumerate(columns.source):
            categories = columns.categories[k]
            if categories is not None:
                if not are_quantiles and self.cuts[k] is not None and len(self.cuts[k]):
                    raise ValueError(f"column {columns.names[k]!r} is nominal; give None as its cuts.")
                out.append(nominal_scale(len(categories)))
                continue
            x = columns.ordered_coordinate(table.column(k), c)
            if not are_quantiles and self.cuts[k] is None:
                raise ValueError(f"column {columns.names[k]!r} is ordered; give its cuts (an empty list: none).")
            out.append(quantile_scale(x, int(self.cuts)) if are_quantiles else scale_from_cuts(self.cuts[k]))
        return out

    def count_splits(self, cell: PlainCell, feature: int) -> int:
        if cell.high[feature] < 0:
            return max((1 << (len(set_bits(cell.low[feature])) - 1)) - 1, 0) if cell.low[feature] else 0
        low, high = cell.span(feature)
        return high - low - 1

    def admits(self, cell: PlainCell, split: PlainSplit) -> bool:
        k = split.feature
        if split.categories >= 0:
            return 0 < split.categories & cell.low[k] < cell.low[k]
        low, high = cell.span(k)
        return low <= split.cut < high - 1

    def draw_split_of(self, rng: np.random.Generator, cell: PlainCell, feature: int) -> PlainSplit:
        if cell.high[feature] >= 0:
            low, high = cell.span(feature)
            return PlainSplit(feature, int(rng.integers(low, high - 1)), -1)
        categories = set_bits(cell.low[feature])
        pattern = int(rng.integers((1 << (len(categories) - 1)) - 1))
        left_categories = [categories[0]] + [c for j, c in enumerate(categories[1:]) if pattern >> j & 1]
        return PlainSplit(feature, -1, sum(1 << c for c in left_categories))


@register_class
@dataclass(frozen=True, eq=False, repr=False)
class DyadicCuts(SplitPrior):
    """Cuts at the midpoint of the cell's box along a coordinate (Scott 2004; Nguyen and Kpotufe 2018).

    By default the coordinate is drawn by weight among those split fewer than ``levels`` times above the cell. Cyclic
    splits at depth j are on coordinate ``j mod p``. Values outside the bounds lie in the outermost cells. Features are
    ordered.

    Parameters
    ----------
    levels : int
        Largest number of splits of one coordinate from the root to a leaf, 1 to 31.
    cyclic : bool, default False
        True if the depth determines the coordinate.
    bounds : array of shape (p, 2), optional
        Lower and upper end of each feature. Default: the range of the data.
    feature_weights : array of shape (p,), optional
        Weights of the features unless ``cyclic``, >= 0, not all 0. Default: equal.

    Examples
    --------
    >>> DyadicCuts(3, cyclic=True)
    DyadicCuts(levels=3, cyclic=True, bounds=None, feature_weights=None)
    """

    levels: int
    cyclic: bool = False
    bounds: Any = None
    feature_weights: Any = None

    def __post_init__(self) -> None:
        check_count("levels", self.levels)
        check_flag("cyclic", self.cyclic)
        check_weights(self.feature_weights)
        if self.levels > MAX_LEVELS:
            raise ValueError(f"levels={self.levels}: codes would overflow; give at most {MAX_LEVELS}.")
        if self.bounds is not None:
            refuse_labels("bounds", self.bounds, "of the columns of X")
            bounds = read_numbers("bounds", self.bounds)
            set_field(self, "bounds", self.bounds if isinstance(self.bounds, list | tuple) else bounds)
            if bounds.ndim != 2 or bounds.shape[1] != 2 or not np.isfinite(bounds).all():
                raise ValueError(f"bounds has shape {bounds.shape}; give finite (lower, upper) of each feature: (p, 2)")
            if np.any(bounds[:, 0] >= bounds[:, 1]):
                k = int(np.argmax(bounds[:, 0] >= bounds[:, 1]))
                raise ValueError(f"bounds of feature {k} are {bounds[k].tolist()}; give lower < upper.")
            if np.any(bounds[:, 1] / 2.0 - bounds[:, 0] / 2.0 > LARGEST_FLOAT / 4.0):
                raise ValueError("bounds are too wide: their difference overflows; rescale the feature.")
        if self.cyclic and self.feature_weights is not None:
            raise ValueError("feature_weights mean nothing when cyclic=True: depth chooses the coordinate.")

    @property
    def kind(self) -> int:  # type: ignore[override]
        return CYCLIC if self.cyclic else DYADIC

    @property
    def use_of_rows(self) -> str | None:
        if self.bounds is not None:
            return None
        return "DyadicCuts without bounds takes the range of all rows, counted ones too; give bounds"

    def scales(self, table: Table, columns: Columns) -> list[AnyScale]:
        if self.bounds is not None and len(self.bounds) != columns.n_features:
            raise ValueError(f"bounds has {len(self.bounds)} rows; X has {columns.n_features} columns: one each.")
        out: list[AnyScale] = []
        for c, k in enumerate(columns.source):
            if columns.categories[k] is not None:
                raise ValueError(f"column {columns.names[k]!r} is nominal; use LocalCuts or GridCuts.")
            x = columns.ordered_coordinate(table.column(k), c)
            x = x[np.isfinite(x)]
            lower, upper = (float(end) for end in ((x.min(), x.max()) if self.bounds is None else self.bounds[k]))
            if upper <= lower:
                upper = lower + max(1.0, abs(lower))
            if upper == np.inf:  # a constant column of numbers too large to be doubled
                lower, upper = 0.0, lower
            out.append(DyadicScale(lower, upper, int(self.levels)))
        return out

    def natural_depth(self, n_units: int, n_codes: np.ndarray) -> int:
        return int(self.levels) * len(n_codes)

    def fewest_splits(self, columns: Columns) -> int:
        """Return the number of splits from the root to every leaf without splits; 0 if it may differ among leaves."""
        weight = self.coordinate_weights(columns)
        n_weighted = np.count_nonzero(weight)
        if len(weight) > columns.n_features or (self.cyclic and n_weighted < len(weight)):
            return 0
        return int(self.levels) * int(n_weighted)

    def count_splits(self, cell: PlainCell, feature: int) -> int:
        if self.cyclic and cell.columns.source[feature] != cell.depth % cell.columns.n_features:
            return 0
        low, high = cell.span(feature)
        return int(high - low >= 2)

    def admits(self, cell: PlainCell, split: PlainSplit) -> bool:
        return split.cut == sum(cell.span(split.feature)) // 2 - 1

    def draw_split_of(self, rng: np.random.Generator, cell: PlainCell, feature: int) -> PlainSplit:
        return PlainSplit(feature, sum(cell.span(feature)) // 2 - 1, -1)
