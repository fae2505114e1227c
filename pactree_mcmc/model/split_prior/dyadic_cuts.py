"""The midpoint of the cell (formulas, section 2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.checks import check_count, check_flag, read_numbers, settle
from ...files.encoding import kept
from ...table.coding import LARGEST, AnyScale, DyadicScale
from ...table.columns import Columns
from ...table.reader import Table
from ..cells import PlainCell, Split
from .base import CYCLIC, DYADIC, MAX_LEVELS, SplitPrior, check_weights


@kept
@dataclass(frozen=True, eq=False)
class DyadicCuts(SplitPrior):
    """The midpoint of the cell's box along a coordinate (Scott 2004; Nguyen and Kpotufe 2018).

    Free: any coordinate split fewer than ``levels`` times on the way down, by weight. Cyclic: coordinate
    ``depth mod p``. Values outside the bounds lie in the outermost cells. Ordered features only.

    Parameters
    ----------
    levels : int
        Splits of one coordinate on the way to a leaf, 1 to 31.
    cyclic : bool, default False
    bounds : array of shape (p, 2), optional
        Lower and upper end of each feature. Default: the range of the data.
    feature_weights : array of shape (p,), "dirichlet" or DirichletWeights, optional
        Weights of the features when free, >= 0, not all 0; or their prior, if they are unknown and few features are to
        be split on. Default: equal.

    Raises
    ------
    ValueError
        If an argument is out of range.

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
            bounds = read_numbers("bounds", self.bounds)
            settle(self, "bounds", self.bounds if isinstance(self.bounds, list | tuple) else bounds)
            if bounds.ndim != 2 or bounds.shape[1] != 2 or not np.isfinite(bounds).all():
                raise ValueError(
                    f"bounds has shape {bounds.shape}; give finite (lower, upper) for each feature: (p, 2)."
                )
            if np.any(bounds[:, 0] >= bounds[:, 1]):
                k = int(np.argmax(bounds[:, 0] >= bounds[:, 1]))
                raise ValueError(f"bounds of feature {k} are {bounds[k].tolist()}; give lower < upper.")
            if np.any(bounds[:, 1] / 2.0 - bounds[:, 0] / 2.0 > LARGEST / 4.0):
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
        weight = self.coordinate_weights(columns)
        n_asked = np.count_nonzero(weight)
        if len(weight) > columns.n_features or (self.cyclic and n_asked < len(weight)):
            return 0
        return int(self.levels) * int(n_asked)

    def count_splits(self, cell: PlainCell, feature: int) -> int:
        if self.cyclic and cell.columns.source[feature] != cell.depth % cell.columns.n_features:
            return 0
        low, high = cell.span(feature)
        return int(high - low >= 2)

    def admits(self, cell: PlainCell, split: Split) -> bool:
        return split.cut == sum(cell.span(split.feature)) // 2 - 1

    def draw_split_of(self, rng: np.random.Generator, cell: PlainCell, feature: int) -> Split:
        return Split(feature, sum(cell.span(feature)) // 2 - 1, -1)
