"""The base class of split priors, properties of the geometries in compiled code, and weights of splits.

No compiled code outside of this file depends on the codes of geometries (LOCAL, GRID, ...). A new geometry needs its
properties here, and a case in the operations on cells: those of the sampler are in `mcmc/state/splits.py`, those of the
exact engine in `exact/graph/build.py`. A weight is a function of the caller, compiled in a form that compiled code
calls by its address.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numba
import numpy as np

from ...core.checks import read_numbers, refuse_labels, repr_of
from ...core.compile import COMPILES
from ...core.compile.address import call_at, call_at_with_params
from ...core.compile.jit import jit
from ...core.texts import fields_repr
from ...files.encoding import register_class
from ...table.coding import AnyScale, Scale
from ...table.columns import Columns
from ...table.reader import Table
from ...tree.arrays import LEAF
from ..rows import PlainCell, PlainSplit
from ..tree_prior import FixedShape

# codes of the geometries: local cuts, the same with two trivial splits, cuts of a grid, midpoints of a box, midpoints
# of features in turn, nodes of a fixed tree
LOCAL, LOCAL_TRIVIAL, GRID, DYADIC, CYCLIC, FIXED = range(6)
MAX_LEVELS = 31  # largest number of times that dyadic cuts halve a coordinate, since codes would overflow beyond it
# largest weight of a feature or of a split. A positive weight of a feature is at least its inverse.
LARGEST_WEIGHT = 1e100
# record of a node of a fixed tree: feature, largest code that goes left (-1: none), bit set of the categories that go
# left (-1: ordered), right child
DESIGN = np.dtype([("feature", np.int64), ("cut", np.int64), ("categories", np.int64), ("right", np.int64)])


# record of a coordinate. A feature has one coordinate, or two if it has missing values.
COORDINATE = np.dtype(
    [
        ("weight", np.float64),
        ("n_codes", np.int64),
        ("nominal", np.bool_),
        ("other_coordinate", np.int64),  # the other coordinate of the same feature, itself if there is none
        ("turn", np.int64),  # index of the feature (column of X); cyclic splits at depth j are on feature j mod p
        ("ends", np.int64),  # first of the columns of `SplitRule.ends` that belong to its codes
    ],
    align=True,
)


class SplitRule(NamedTuple):
    """Parameters of a split prior in the form that compiled code uses."""

    kind: int  # code of the geometry: LOCAL, LOCAL_TRIVIAL, GRID, DYADIC, CYCLIC or FIXED
    min_leaf: int  # smallest number of rows on each side of a local cut
    feature: np.recarray  # (q,) records of dtype COORDINATE: the coordinates
    n_turns: int  # number of features p, the period of cyclic splits
    # (m,) records of dtype DESIGN: the fixed tree in preorder, so that the left child of node i is i + 1
    design: np.recarray
    # address of the function that weights a split (see `weight_at`); 0 if the splits on a feature are equally likely
    weight_address: int
    # True if a split is drawn from all splits of the cell by its weight, False if its feature is drawn first
    over_cell: bool
    by_depth: bool  # True if the weight depends on the depth, so that cells of different depths are different
    params: np.ndarray  # (1 + m,) float64: a zero, and the parameters of the weight
    # (2, m) float64: smallest and largest value of each code, of one coordinate after another; (2, 1) zeros if splits
    # are not weighted
    ends: np.ndarray


class SplitPrior:
    """Base class of split priors."""

    # A split prior has a geometry, which determines the splits of each cell. Both engines implement the geometry that
    # the code `kind` names. The splits on a feature are equally likely, or weighted by a function (`CustomSplits`).
    # Splits are on one of q coordinates: one for each of p features, and a second one if the feature has missing values
    kind: int
    min_leaf: int = 1
    needs_depth: bool = False  # True if trees would be infinite without a depth limit
    has_equal_weights: bool = True  # True if all splits on a feature in a cell are equally likely

    def __repr__(self) -> str:
        return fields_repr(self)

    @property
    def use_of_rows(self) -> str | None:
        """Text for errors: how splits depend on the rows of X and which prior to give instead; None if they do not."""
        return None

    def scales(self, table: Table, columns: Columns) -> list[AnyScale]:
        """Return the scale of each coordinate (q of them), which converts values to integer codes."""
        # the training ``table`` gives the cut points of a scale, or its range, unless the prior has its own
        raise NotImplementedError

    # if the splits depend on the cut points of a model, only the prior that `bind` returns has the next three methods

    def count_splits(self, cell: PlainCell, feature: int) -> int:
        """Return the number of splits of the cell on coordinate ``feature``; 0 if it is not admissible."""
        raise NotImplementedError

    def admits(self, cell: PlainCell, split: PlainSplit) -> bool:
        """Return True if ``split`` is one of the splits of the cell on the feature of the split."""
        raise NotImplementedError

    def draw_split_of(self, rng: np.random.Generator, cell: PlainCell, feature: int) -> PlainSplit:
        """Draw one of the splits of the cell on an admissible coordinate ``feature``, by their weights."""
        raise NotImplementedError

    def mass(self, cell: PlainCell, feature: int) -> float:
        """Return the sum of the weights, not their logs, of the splits of the cell on the coordinate ``feature``."""
        # it is their number if they are equally likely. Feature weights are not in it
        return float(self.count_splits(cell, feature))

    def weights(self, p: int) -> np.ndarray:
        """Return the feature weights (p,), not normalised; ones if they are equal."""
        weight = check_weights(getattr(self, "feature_weights", None))
        if len(weight) == 0:
            return np.ones(p)
        if weight.shape != (p,):
            raise ValueError(f"feature_weights has shape {weight.shape}; X has {p} columns: give shape ({p},).")
        return weight

    def coordinate_weights(self, columns: Columns) -> np.ndarray:
        """Return the given feature weight of each coordinate (q,), by default one; half of it if a feature has two."""
        weight = self.weights(columns.n_features)[columns.source]
        return np.where(columns.other_coordinate == np.arange(len(weight)), weight, weight / 2.0)

    def natural_depth(self, n_units: int, n_codes: np.ndarray) -> int:
        """Return a bound on the depth of trees of distinct rows with so many codes; 1 << 62 if unbounded."""
        return int(min((n_codes - 1).sum(), 1 << 62))

    def fewest_splits(self, columns: Columns) -> int:
        """Return a lower bound on the number of splits from the root to a leaf that has no splits left."""
        # it is 1 << 62 if every cell has a split
        return 0

    def finest_cells(self, table: Table, columns: Columns) -> np.ndarray | None:
        """Return the index (n,) of the cell of each row that no split divides, None if the codes determine it."""
        return None

    def shape(self) -> FixedShape | None:
        """Return the shape of the fixed tree, or None for other priors."""
        return None

    def children(self, cell: PlainCell, split: PlainSplit) -> tuple[PlainCell, PlainCell]:
        """Return the left and the right child that ``split`` makes of the cell."""
        return cell.split(split)

    def admissible(self, cell: PlainCell) -> np.ndarray:
        """Return weights (q,) of the coordinates in the draw of a split of the cell, 0 for those without a split."""
        weight = self.coordinate_weights(cell.columns)
        return np.array([w if w > 0.0 and self.count_splits(cell, k) > 0 else 0.0 for k, w in enumerate(weight)])

    def has_split(self, cell: PlainCell) -> bool:
        """Return True if the cell has a split on a coordinate that can be drawn."""
        weight = self.coordinate_weights(cell.columns)
        return any(w > 0.0 and self.count_splits(cell, k) > 0 for k, w in enumerate(weight))

    def log_probability(self, cell: PlainCell, split: PlainSplit) -> float:
        """Return log R(split | cell), the log probability of a split of a cell that is split; -inf if impossible."""
        weight = self.admissible(cell)
        k = split.feature
        if weight[k] == 0.0 or not self.admits(cell, split):
            return -math.inf
        return math.log(weight[k]) - math.log(weight.sum()) - math.log(self.mass(cell, k))

    def draw(self, rng: np.random.Generator, cell: PlainCell) -> PlainSplit:
        """Draw a split of a cell from its distribution R."""
        weight = self.admissible(cell)
        return self.draw_split_of(rng, cell, int(rng.choice(len(weight), p=weight / weight.sum())))

    def match_columns(self, columns: Columns) -> SplitPrior:
        """Return the prior for a model with these ``columns``, among which a fixed tree finds its own by name."""
        return self

    def bind(self, scales: list[AnyScale]) -> SplitPrior:
        """Return the prior with its own cut points, if it has any, expressed in the codes of a model's ``scales``."""
        # A model calls this when it is built. Priors without cut points of their own return themselves
        return self

    def in_file(self, scales: list[AnyScale]) -> Any:
        """Return what a file stores for the prior of a model with these ``scales``: itself, or a description."""
        return self

    def with_min_leaf(self, rows: int) -> SplitPrior:
        """Return a copy of the prior with ``min_leaf=rows``. It fails for priors without this argument."""
        return replace(self, min_leaf=rows)  # type: ignore[type-var]

    def rule(self, n_codes: np.ndarray, columns: Columns) -> SplitRule:
        """Return the parameters of the prior for compiled code; ``n_codes`` (q,) counts the codes of coordinates."""
        feature = np.empty(len(n_codes), dtype=COORDINATE).view(np.recarray)
        feature.weight, feature.n_codes = self.coordinate_weights(columns), n_codes
        feature.nominal = columns.is_nominal[columns.source]
        feature.other_coordinate, feature.turn = columns.other_coordinate, columns.source
        feature.ends = 0
        geometry = (self.kind, self.min_leaf, feature, columns.n_features, self.design())
        return SplitRule(*geometry, 0, False, False, np.zeros(1), np.zeros((2, 1)))

    def design(self) -> np.recarray:
        """Return the nodes (m,) of the fixed tree, of dtype DESIGN; one dummy node for other priors."""
        return np.full(1, LEAF, dtype=np.int64).astype(DESIGN).view(np.recarray)


def check_weights(feature_weights: Any) -> np.ndarray:
    """Check feature weights and return them as float64 (p,); an empty array for None (equal)."""
    if feature_weights is None:
        return np.empty(0)
    refuse_labels("feature_weights", feature_weights, "of the columns of X")
    weight = read_numbers("feature_weights", feature_weights)
    if weight.ndim != 1:
        raise ValueError(f"feature_weights has shape {weight.shape}; give one weight a feature: (p,).")
    if not np.isfinite(weight).all() or np.any(weight < 0.0) or not weight.any():
        raise ValueError(f"feature_weights={repr_of(weight.tolist())}; give finite weights >= 0, not all 0.")
    if weight.max() > LARGEST_WEIGHT or weight[weight > 0.0].min() < 1.0 / LARGEST_WEIGHT:
        raise ValueError(f"feature_weights lie outside 1e-100..1e100: {repr_of(weight.tolist())}; rescale them.")
    return weight


def call_uncompiled(function: Callable[..., Any], rule: Any) -> Any:
    """Return ``function(rule)`` in Python, for a compiled function of this file; ``rule`` may be a split prior too."""
    return getattr(function, "py_func", function)(rule)


@jit
def parts_rows(rule: SplitRule) -> bool:
    return rule.kind == LOCAL or rule.kind == LOCAL_TRIVIAL


@jit
def parts_box(rule: SplitRule) -> bool:
    """Return True if cells of a split prior are boxes whose splits are all cuts inside, or subsets of categories."""
    # so it is for `GridCuts`, whose cuts need no rows on either side, not for cuts between rows (`LocalCuts`)
    return rule.kind == GRID


@jit
def halves_box(rule: SplitRule) -> bool:
    return rule.kind == DYADIC or rule.kind == CYCLIC


@jit
def has_box(rule: SplitRule) -> bool:
    """Return True if cells of a split prior are boxes, with or without rows; False for sets of rows and fixed trees."""
    return rule.kind == GRID or rule.kind == DYADIC or rule.kind == CYCLIC


@jit
def follows_design(rule: SplitRule) -> bool:
    return rule.kind == FIXED


@jit
def has_one_split_per_feature(rule: SplitRule) -> bool:
    return rule.kind == DYADIC or rule.kind == CYCLIC or rule.kind == FIXED


@jit
def has_empty_sides(rule: SplitRule) -> bool:
    return rule.kind == LOCAL_TRIVIAL


@jit
def takes_turns(rule: SplitRule) -> bool:
    """Return True if under a split prior the depth of a cell determines the feature of its splits, in turn."""
    return rule.kind == CYCLIC


@jit
def has_free_cuts(rule: SplitRule) -> bool:
    """Return True if cells can have several cuts on a feature, and children keep those on their side."""
    return rule.kind == LOCAL or rule.kind == GRID


@jit
def is_weighted(rule: SplitRule) -> bool:
    return rule.weight_address != 0


@jit
def least_rows(rule: SplitRule) -> int:
    """Return the smallest number of rows that a split prior needs on each side of a split; 0 if there is none."""
    return rule.min_leaf if rule.kind == LOCAL else 0


class Cut(NamedTuple):
    """A split of a cell as the weight of `CustomSplits` sees it: between two neighbouring values of one feature."""

    feature: int
    """Column of X."""
    nominal: bool
    """True for a nominal feature. One weight is for all its splits, and the fields on values and rows are NaN."""
    at: float
    """The threshold: rows of at most this value go left."""
    below: float
    """Under LocalCuts the largest value in the cell that goes left, under GridCuts the threshold."""
    above: float
    """Under LocalCuts the smallest value in the cell that goes right, under GridCuts the threshold."""
    low: float
    """Under LocalCuts the smallest value in the cell, under GridCuts the lower end of its box, -inf if it is open."""
    high: float
    """Under LocalCuts the largest value in the cell, under GridCuts the upper end of its box, inf if it is open."""
    left: float
    """Number of rows of X that go left; NaN under GridCuts, whose splits do not depend on rows."""
    right: float
    """Number of rows of X that go right; NaN under GridCuts."""
    number: int
    """Index of the split among those on the feature, 0 for the lowest threshold."""
    n_splits: float
    """Number of splits of the cell on the feature. On a nominal one, those that leave too few rows count too."""
    depth: int
    """Depth of the cell if ``by_depth`` is set, else 0."""


# positions of the fields of a `Cut` in an array of ``N_FIELDS`` numbers
FEATURE, NOMINAL, AT, BELOW, ABOVE, LOW, HIGH, ROWS_LEFT, ROWS_RIGHT, NUMBER, N_SPLITS, DEPTH = range(12)
N_FIELDS = len(Cut._fields)


@functools.lru_cache(maxsize=256)
def weight_of_fields(function: Callable[..., float], with_params: bool) -> Callable[..., float]:
    """Return a weight ``function`` of a `Cut` as one of the array of its fields, its length and, if any, parameters."""
    if not COMPILES:
        if with_params:
            return lambda s, n, params: plain_weight(function, cut_from_fields(s), params)
        return lambda s, n: plain_weight(function, cut_from_fields(s), np.empty(0))
    inner = numba.njit(error_model="numpy")(function)

    @numba.njit(error_model="numpy")
    def cut_at(s):
        return Cut(int(s[0]), s[1] > 0.0, s[2], s[3], s[4], s[5], s[6], s[7], s[8], int(s[9]), s[10], int(s[11]))

    def without(s, n):
        return 1.0 * inner(cut_at(s))

    def with_them(s, n, params):
        return 1.0 * inner(cut_at(s), params)

    return with_them if with_params else without


def cut_from_fields(s: np.ndarray) -> Cut:
    """Return the `Cut` whose fields are the numbers ``s`` (N_FIELDS,), in the order of `Cut`."""
    at, below, above, low, high, left, right = (float(x) for x in s[2:9])
    ends = (at, below, above, low, high, left, right)
    return Cut(int(s[0]), bool(s[1] > 0.0), *ends, int(s[9]), float(s[10]), int(s[11]))


def plain_weight(function: Callable[..., float], cut: Cut, params: np.ndarray) -> float:
    """Return the weight of a cut by the user's ``function``, in Python; NaN after a ValueError or ArithmeticError."""
    # without parameters the function is called with the cut alone
    try:
        with np.errstate(all="ignore"):
            return float(function(cut, np.array(params)) if len(params) else function(cut))
    except (ValueError, ArithmeticError):
        # as in compiled code, where math.log(-1.0) is NaN
        return math.nan


@jit
def new_cut(rule: SplitRule, k: int, n_splits: float, depth: int) -> np.ndarray:
    """Return the fields (1, N_FIELDS) of a `Cut` that all cuts, or nominal splits, on coordinate ``k`` share."""
    # `depth` is stored as 0 unless the weight depends on it
    out = np.full((1, N_FIELDS), math.nan)
    out[0, FEATURE], out[0, NOMINAL] = rule.feature[k].turn, rule.feature[k].nominal
    out[0, NUMBER], out[0, N_SPLITS], out[0, DEPTH] = 0.0, n_splits, depth if rule.by_depth else 0
    return out


@jit
def set_cell_ends(rule: SplitRule, out: np.ndarray, k: int, first: int, last: int) -> None:
    """Write the ends LOW and HIGH of a cell, in units of the feature, to ``out``, the fields (1, N_FIELDS) of a cut."""
    first_column = rule.feature[k].ends
    out[0, LOW], out[0, HIGH] = rule.ends[0, first_column + first], rule.ends[1, first_column + last]


@jit
def weight_between_codes(rule: SplitRule, out: np.ndarray, k: int, cut: int, upper: int, number: int) -> float:
    """Return the weight of the cut with index ``number`` on coordinate ``k``, between the codes ``cut`` and `upper`."""
    first_column = rule.feature[k].ends
    below, above = rule.ends[1, first_column + cut], rule.ends[0, first_column + upper]
    middle = below / 2.0 + above / 2.0
    out[0, AT] = middle if below <= middle and middle < above else below
    out[0, BELOW], out[0, ABOVE], out[0, NUMBER] = below, above, number
    return checked_weight(rule, out)


@jit
def checked_weight(rule: SplitRule, cut: np.ndarray) -> float:
    """Return the weight of a cut, its fields (1, N_FIELDS), by the function in the split prior ``rule``."""
    weight = weight_at(rule.weight_address, cut, rule.params)
    if not (weight >= 0.0 and weight <= LARGEST_WEIGHT):
        raise ValueError("CustomSplits: the weight of a split is negative, above 1e100 or not a number; see check(X).")
    return weight


@jit
def weight_at(address: int, cut: np.ndarray, params: np.ndarray) -> float:
    """Return the weight of a cut with fields (1, N_FIELDS), from the function at ``address``, without a check."""
    zero, one, n = np.int64(0), np.int64(1), np.int64(N_FIELDS)
    if len(params) > 1:
        return call_at_with_params(address, cut, zero, zero, n, params, one)
    return call_at(address, cut, zero, zero, n)


@jit
def nominal_split_weight(rule: SplitRule, k: int, n_splits: float, depth: int) -> float:
    """Return the weight of each split on a nominal coordinate ``k``; 1 if the feature is drawn first, as it cancels."""
    return checked_weight(rule, new_cut(rule, k, n_splits, depth)) if rule.over_cell and n_splits > 0.0 else 1.0


@register_class
class SplitsOutline(NamedTuple):
    """Description of a `CustomSplits` prior in a file, which does not contain a weight function of the user."""

    name: str
    of: Any  # split prior whose splits are weighted
    over: str
    by_depth: bool
    params: np.ndarray
    weights: np.ndarray  # (m,): the weights of some cuts in the range of the data


def ends_of_codes(scale: AnyScale) -> np.ndarray:
    """Return the smallest and the largest value of each code of a scale, (2, n_codes); NaN for a nominal feature."""
    # values of the data under LocalCuts, cuts under GridCuts, with infinite outer ends, as for one category
    assert isinstance(scale, Scale)
    if len(scale.low):
        return np.array([scale.low, scale.high])
    if len(scale.cuts) + 1 != scale.n_codes:
        return np.full((2, scale.n_codes), np.nan)
    return np.array([np.append(-np.inf, scale.cuts), np.append(scale.cuts, np.inf)])
