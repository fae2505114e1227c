"""Cuts from a fixed list (formulas, section 2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ...core.checks import check_count, in_words, read_numbers
from ...files.encoding import kept
from ...table.coding import AnyScale, Scale, given_scale, nominal_scale, quantile_scale
from ...table.columns import Columns, learn_columns
from ...table.reader import Table
from ..cells import PlainCell, Split, bits
from .base import GRID, SplitPrior, check_weights


@kept
@dataclass(frozen=True, eq=False)
class GridCuts(SplitPrior):
    """Cuts from a fixed list per feature: any that lies strictly inside the cell's box, data or no data.

    Nominal features: the box holds a set of categories, and every split of it is equally likely.

    Parameters
    ----------
    cuts : int or sequence of p arrays
        Increasing finite cut points of each feature (None or empty for a nominal one); or at most how many quantiles
        of each feature, over the rows whatever they weigh, serve as cuts.
    feature_weights : array of shape (p,), "dirichlet" or DirichletWeights, optional
        Weights of the features, >= 0, not all 0; or their prior, if they are unknown and few features are to be
        split on. Default: equal.

    Raises
    ------
    ValueError
        If the cuts of a feature are not finite and strictly increasing, or their number is not p.

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
            raise ValueError(f"cuts={in_words(self.cuts)}; give an integer >= 1 or one increasing array a feature.")
        for k, cuts in enumerate(self.cuts):
            points = np.empty(0) if cuts is None else read_numbers(f"cuts of feature {k}", cuts)
            if points.ndim != 1 or not np.isfinite(points).all():
                what = in_words(cuts)
                raise ValueError(f"cuts of feature {k} are not a one-dimensional array of finite numbers: {what}.")
            if np.any(points[1:] <= points[:-1]):
                what = "duplicate" if np.any(np.diff(np.sort(points)) == 0.0) else "unsorted"
                listed = in_words(points.tolist())
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
        columns = learn_columns(table, nominal, missing)
        # the second coordinate of a feature with missing values has the same cuts
        scales = cls(cuts).scales(table, columns)[: columns.n_features]
        pairs = zip(scales, columns.categories, strict=True)
        return cls(
            [scale.cuts if isinstance(scale, Scale) and c is None else None for scale, c in pairs], feature_weights
        )

    @property
    def use_of_rows(self) -> str | None:
        if not isinstance(self.cuts, int | np.integer):
            return None
        return (
            f"GridCuts({self.cuts}) takes quantiles of all rows, counted ones too; give the cuts, or "
            "GridCuts.from_table with rows of E"
        )

    def scales(self, table: Table, columns: Columns) -> list[AnyScale]:
        counted = isinstance(self.cuts, int | np.integer)
        if not counted and len(self.cuts) != columns.n_features:
            raise ValueError(f"cuts has {len(self.cuts)} entries; X has {columns.n_features} columns: one array each.")
        out: list[AnyScale] = []
        for c, k in enumerate(columns.source):
            categories = columns.categories[k]
            if categories is not None:
                if not counted and self.cuts[k] is not None and len(self.cuts[k]):
                    raise ValueError(f"column {columns.names[k]!r} is nominal; give None as its cuts.")
                out.append(nominal_scale(len(categories)))
                continue
            x = columns.ordered_coordinate(table.column(k), c)
            if not counted and self.cuts[k] is None:
                raise ValueError(f"column {columns.names[k]!r} is ordered; give its cuts (an empty list: none).")
            out.append(quantile_scale(x, int(self.cuts)) if counted else given_scale(self.cuts[k]))
        return out

    def count_splits(self, cell: PlainCell, feature: int) -> int:
        if cell.high[feature] < 0:
            return max((1 << (len(bits(cell.low[feature])) - 1)) - 1, 0) if cell.low[feature] else 0
        low, high = cell.span(feature)
        return high - low - 1

    def admits(self, cell: PlainCell, split: Split) -> bool:
        k = split.feature
        if split.categories >= 0:
            return 0 < split.categories & cell.low[k] < cell.low[k]
        low, high = cell.span(k)
        return low <= split.cut < high - 1

    def draw_split_of(self, rng: np.random.Generator, cell: PlainCell, feature: int) -> Split:
        if cell.high[feature] >= 0:
            low, high = cell.span(feature)
            return Split(feature, int(rng.integers(low, high - 1)), -1)
        present = bits(cell.low[feature])
        pattern = int(rng.integers((1 << (len(present) - 1)) - 1))
        left = [present[0]] + [c for j, c in enumerate(present[1:]) if pattern >> j & 1]
        return Split(feature, -1, sum(1 << c for c in left))
