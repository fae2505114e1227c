"""Question priors: which questions a cell admits, and how likely each is (formula sheet, section 2)."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from ...core.checks import check_count, check_flag, in_words, read_numbers, settle
from ...files.encoding import kept
from ...table.coding import LARGEST, AnyScale, DyadicScale, given_scale, local_scale, nominal_scale, quantile_scale
from ...table.columns import Columns, Table, learn_columns
from ...tree.arrays import LEAF
from ..cells import PlainCell, Question, bits
from ..tree_prior.priors import FixedShape

LOCAL, LOCAL_TRIVIAL, GRID, DYADIC, CYCLIC, FIXED = range(6)
MAX_LEVELS = 31
LARGEST_WEIGHT = 1e100


FEATURE = np.dtype(
    [
        ("weight", np.float64),
        ("n_codes", np.int64),
        ("nominal", np.bool_),
        ("twin", np.int64),  # the other coordinate of the same feature, itself where there is none
        ("turn", np.int64),  # place among the features, by which cyclic questions choose
    ],
    align=True,
)
"""A coordinate: a feature, or one of the two of a feature with missing values."""
DESIGN = np.dtype([("feature", np.int64), ("cut", np.int64), ("categories", np.int64), ("right", np.int64)])


class QuestionRule(NamedTuple):
    """A question prior as compiled code takes it."""

    kind: int
    """One of the codes of this module."""
    min_leaf: int
    """Rows each side of a local question needs."""
    feature: np.recarray
    """(q,) records of dtype FEATURE: the coordinates."""
    n_turns: int
    """Number of features."""
    design: np.recarray
    """(m,) records of dtype DESIGN: the fixed tree in preorder, so that the left child of node i is i + 1."""


class Questions:
    """A question prior: subclass it, give it a code and, in each engine, the compiled form of ``ways``."""

    kind: int
    min_leaf: int = 1
    needs_depth: bool = False
    """Whether trees would be infinite without a depth limit."""

    @property
    def use_of_rows(self) -> str | None:
        """How the prior depends on the rows of X, and what to give instead; None: it does not."""
        return None

    @abstractmethod
    def scales(self, table: Table, columns: Columns) -> list[AnyScale]:
        """Cut points of each coordinate."""

    @abstractmethod
    def ways(self, cell: PlainCell, feature: int) -> int:
        """In how many ways ``feature`` may part the cell; 0 when it is not admissible."""

    @abstractmethod
    def admits(self, cell: PlainCell, question: Question) -> bool:
        """Whether ``question`` is one of the ways of its feature."""

    @abstractmethod
    def draw_way(self, rng: np.random.Generator, cell: PlainCell, feature: int) -> Question:
        """One of the ways of an admissible ``feature``, uniformly."""

    def weights(self, p: int) -> np.ndarray:
        """Feature weights (p,), not normalised."""
        return read_weights(getattr(self, "feature_weights", None), p)

    def coordinate_weights(self, columns: Columns) -> np.ndarray:
        """Weights (q,) of the coordinates: two of the same feature have half of its weight each."""
        weight = self.weights(columns.n_features)[columns.source]
        return np.where(columns.twin == np.arange(len(weight)), weight, weight / 2.0)

    def natural_depth(self, n_units: int, n_codes: np.ndarray) -> int:
        """No tree can be deeper, for want of questions."""
        return int(min((n_codes - 1).sum(), 1 << 62))

    def fewest_questions(self, columns: Columns) -> int:
        """How many questions in a row every way down from the root is sure to find."""
        return 0

    def finest_cells(self, table: Table, columns: Columns) -> np.ndarray | None:
        """Number of the finest cell of each row (n,), where it is known without coding the row; else None."""
        return None

    def shape(self) -> FixedShape | None:
        """Shape of the fixed tree, None when questions are free."""
        return None

    def children(self, cell: PlainCell, question: Question) -> tuple[PlainCell, PlainCell]:
        """The two cells ``question`` makes."""
        return cell.split(question)

    def admissible(self, cell: PlainCell) -> np.ndarray:
        """Weight of each coordinate (q,), 0 where it is not admissible in the cell."""
        weight = self.coordinate_weights(cell.columns)
        return np.array([w if w > 0.0 and self.ways(cell, k) > 0 else 0.0 for k, w in enumerate(weight)])

    def log_probability(self, cell: PlainCell, question: Question) -> float:
        """Log R(question | cell)."""
        weight = self.admissible(cell)
        k = question.feature
        if weight[k] == 0.0 or not self.admits(cell, question):
            return -math.inf
        return math.log(weight[k]) - math.log(weight.sum()) - math.log(self.ways(cell, k))

    def draw(self, rng: np.random.Generator, cell: PlainCell) -> Question:
        """A question of a cell that admits one, from R."""
        weight = self.admissible(cell)
        return self.draw_way(rng, cell, int(rng.choice(len(weight), p=weight / weight.sum())))

    def bind(self, scales: list[AnyScale]) -> Questions:
        """The prior with its own cut points, if it has any, expressed in codes."""
        return self

    def rule(self, n_codes: np.ndarray, columns: Columns) -> QuestionRule:
        """The prior as compiled code takes it."""
        feature = np.empty(len(n_codes), dtype=FEATURE).view(np.recarray)
        feature.weight, feature.n_codes = self.coordinate_weights(columns), n_codes
        feature.nominal = columns.is_nominal[columns.source]
        feature.twin, feature.turn = columns.twin, columns.source
        return QuestionRule(self.kind, self.min_leaf, feature, columns.n_features, self.design())

    def design(self) -> np.recarray:
        """Records of the fixed tree; one dummy when there is none."""
        return np.full(1, LEAF, dtype=np.int64).astype(DESIGN).view(np.recarray)


@kept
@dataclass(frozen=True, eq=False)
class LocalCuts(Questions):
    """The ways a feature parts the points in the cell, all equally likely (Blanchard 1999, section 5).

    A feature is chosen by weight among those that can part the cell's points, then one of its ways uniformly: a cut
    midway between neighbouring values in the cell, or, for a nominal feature, one of the ``2^(m-1) - 1`` ways to part
    the m categories present. All rows of X count as points, those of E and those of weight zero too.

    Parameters
    ----------
    trivial : bool, default False
        True adds the two trivial ways, everything left and everything right: ``I + 1`` ways for I distinct values
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
        """Code of the compiled form."""
        return LOCAL_TRIVIAL if self.trivial else LOCAL

    @property
    def needs_depth(self) -> bool:  # type: ignore[override]
        """Trivial ways never run out."""
        return self.trivial

    @property
    def use_of_rows(self) -> str:
        return (
            "LocalCuts asks the questions that part the rows of a cell, counted ones too; give GridCuts.from_table "
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

    def fewest_questions(self, columns: Columns) -> int:
        return 1 << 62 if self.trivial else 0

    def _cuts(self, cell: PlainCell, feature: int) -> np.ndarray:
        present, rows = cell.rows_by_code(feature)
        below = np.cumsum(rows)[:-1]
        return present[:-1][(below >= self.min_leaf) & (rows.sum() - below >= self.min_leaf)]

    def _is_nominal(self, cell: PlainCell, feature: int) -> bool:
        return bool(cell.high[feature] < 0)

    def ways(self, cell: PlainCell, feature: int) -> int:
        if self.trivial and len(cell.index) == 0:
            return 1
        if self._is_nominal(cell, feature):
            return self._partitions(cell, feature) + 2 * self.trivial
        return len(self._cuts(cell, feature)) + 2 * self.trivial

    def _partitions(self, cell: PlainCell, feature: int) -> int:
        """Partitions of the categories present with enough rows on both sides, by dynamic programming over rows."""
        _, rows = cell.rows_by_code(feature)
        counts = {0: 1}
        for r in rows[1:].tolist():
            longer = dict(counts)
            for total, ways in counts.items():
                longer[total + r] = longer.get(total + r, 0) + ways
            counts = longer
        least, most = self.min_leaf, int(rows.sum()) - self.min_leaf
        return sum(ways for total, ways in counts.items() if least <= total <= most)

    def admits(self, cell: PlainCell, question: Question) -> bool:
        if self.trivial:
            return True
        left = int(cell.rows[cell.goes_left(question)].sum())
        return min(left, cell.n_rows - left) >= self.min_leaf

    def draw_way(self, rng: np.random.Generator, cell: PlainCell, feature: int) -> Question:
        nominal = self._is_nominal(cell, feature)
        if self.trivial:
            way = int(rng.integers(self.ways(cell, feature)))
            if way < 2:
                every = int(cell.units.codes[feature].max())
                whole = Question(feature, every, (2 << every) - 1 if nominal else -1)
                return whole if way == 0 else Question(feature, -1, 0 if nominal else -1)
        if not nominal:
            return Question(feature, int(rng.choice(self._cuts(cell, feature))), -1)
        present = cell.rows_by_code(feature)[0]
        while True:
            left = [int(present[0])] + [int(c) for c in present[1:] if rng.random() < 0.5]
            question = Question(feature, -1, sum(1 << c for c in left))
            if len(left) < len(present) and (self.trivial or self.admits(cell, question)):
                return question


class _BoxQuestions(Questions):
    """Question priors that look at the cell's box alone."""

    def _width(self, cell: PlainCell, feature: int) -> int:
        low, high = cell.span(feature)
        return high - low


@kept
@dataclass(frozen=True, eq=False)
class GridCuts(_BoxQuestions):
    """Cuts from a fixed list per feature: any that lies strictly inside the cell's box, data or no data.

    Nominal features: the box holds a set of categories, and any way to part it is equally likely.

    Parameters
    ----------
    cuts : int or sequence of p arrays
        Increasing finite cut points of each feature (None or empty for a nominal one); or at most how many quantiles
        of each feature, over the rows whatever they weigh, serve as cuts.
    feature_weights : array of shape (p,), optional
        Weights of the features, >= 0, not all 0. Default: equal.

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
        if isinstance(self.cuts, int | np.integer) and not isinstance(self.cuts, bool):
            check_count("cuts", self.cuts)
            check_weights(self.feature_weights)
            return
        check_weights(self.feature_weights)
        if not isinstance(self.cuts, list | tuple | np.ndarray) or getattr(self.cuts, "ndim", 1) == 0:
            raise ValueError(f"cuts={in_words(self.cuts)}; give an integer >= 1 or one increasing array a feature.")
        for k, given in enumerate(self.cuts):
            points = np.empty(0) if given is None else read_numbers(f"cuts of feature {k}", given)
            if points.ndim != 1 or not np.isfinite(points).all():
                what = in_words(given)
                raise ValueError(f"cuts of feature {k} are not a one-dimensional array of finite numbers: {what}.")
            if np.any(points[1:] <= points[:-1]):
                what = "duplicate" if np.any(np.diff(np.sort(points)) == 0.0) else "unsorted"
                listed = in_words(points.tolist())
                raise ValueError(f"cuts of feature {k} are {what}: {listed}; give strictly increasing cuts.")

    @classmethod
    def from_table(
        cls, X: Any, cuts: int, *, nominal: Any = None, missing: str = "error", feature_weights: Any = None
    ) -> Self:
        """At most ``cuts`` quantiles of each feature of another table, such as the rows of E.

        Parameters
        ----------
        X : table of shape (m, p)
            With the columns of the model's X.
        cuts : int
            Cuts a feature, >= 1.
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
        known = zip(scales, columns.categories, strict=True)
        return cls([scale.cuts if c is None else None for scale, c in known], feature_weights)

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

    def ways(self, cell: PlainCell, feature: int) -> int:
        if cell.high[feature] < 0:
            return max((1 << (len(bits(cell.low[feature])) - 1)) - 1, 0) if cell.low[feature] else 0
        return self._width(cell, feature) - 1

    def admits(self, cell: PlainCell, question: Question) -> bool:
        k = question.feature
        if question.categories >= 0:
            return 0 < question.categories & cell.low[k] < cell.low[k]
        low, high = cell.span(k)
        return low <= question.cut < high - 1

    def draw_way(self, rng: np.random.Generator, cell: PlainCell, feature: int) -> Question:
        if cell.high[feature] >= 0:
            low, high = cell.span(feature)
            return Question(feature, int(rng.integers(low, high - 1)), -1)
        present = bits(cell.low[feature])
        pattern = int(rng.integers((1 << (len(present) - 1)) - 1))
        left = [present[0]] + [c for j, c in enumerate(present[1:]) if pattern >> j & 1]
        return Question(feature, -1, sum(1 << c for c in left))


@kept
@dataclass(frozen=True, eq=False)
class DyadicCuts(_BoxQuestions):
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
    feature_weights : array of shape (p,), optional
        Weights of the features when free, >= 0, not all 0. Default: equal.

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
        """Code of the compiled form."""
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
            lower, upper = (x.min(), x.max()) if self.bounds is None else self.bounds[k]
            if upper <= lower:
                upper = lower + max(1.0, abs(lower))
            out.append(DyadicScale(float(lower), float(upper), int(self.levels)))
        return out

    def natural_depth(self, n_units: int, n_codes: np.ndarray) -> int:
        return int(self.levels) * len(n_codes)

    def fewest_questions(self, columns: Columns) -> int:
        weight = self.coordinate_weights(columns)
        n_asked = np.count_nonzero(weight)
        if len(weight) > columns.n_features or (self.cyclic and n_asked < len(weight)):
            return 0
        return int(self.levels) * int(n_asked)

    def ways(self, cell: PlainCell, feature: int) -> int:
        if self.cyclic and cell.columns.source[feature] != cell.depth % cell.columns.n_features:
            return 0
        return int(self._width(cell, feature) >= 2)

    def admits(self, cell: PlainCell, question: Question) -> bool:
        return question.cut == sum(cell.span(question.feature)) // 2 - 1

    def draw_way(self, rng: np.random.Generator, cell: PlainCell, feature: int) -> Question:
        return Question(feature, sum(cell.span(feature)) // 2 - 1, -1)


def read_weights(feature_weights: Any, p: int) -> np.ndarray:
    """Check feature weights and return them as float64 (p,)."""
    if feature_weights is None:
        return np.ones(p)
    weight = check_weights(feature_weights)
    if weight.shape != (p,):
        raise ValueError(f"feature_weights has shape {weight.shape}; X has {p} columns: give shape ({p},).")
    return weight


def check_weights(feature_weights: Any) -> np.ndarray:
    """Refuse feature weights that cannot fit any table; an empty array for None."""
    if feature_weights is None:
        return np.empty(0)
    weight = read_numbers("feature_weights", feature_weights)
    if weight.ndim != 1:
        raise ValueError(f"feature_weights has shape {weight.shape}; give one weight a feature: (p,).")
    if not np.isfinite(weight).all() or np.any(weight < 0.0) or not weight.any():
        raise ValueError(f"feature_weights={in_words(weight.tolist())}; give finite weights >= 0, not all 0.")
    if weight.max() > LARGEST_WEIGHT or weight[weight > 0.0].min() < 1.0 / LARGEST_WEIGHT:
        raise ValueError(f"feature_weights lie outside 1e-100..1e100: {in_words(weight.tolist())}; rescale them.")
    return weight
