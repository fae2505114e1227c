"""The base class of split priors: the splits of a cell and their probabilities."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ...core.checks import read_numbers, refuse_labels, repr_of
from ...core.names import fields_repr
from ...table.coding import AnyScale
from ...table.columns import Columns
from ...table.reader import Table
from ...tree.arrays import LEAF
from ..cells import PlainCell, PlainSplit
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
FEATURE = np.dtype(
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
    feature: np.recarray  # (q,) records of dtype FEATURE: the coordinates
    n_turns: int  # number of features p, the period of cyclic splits
    # (m,) records of dtype DESIGN: the fixed tree in preorder, so that the left child of node i is i + 1
    design: np.recarray
    # address of the function that weights a split (see `weights`); 0 if the splits on a feature are equally likely
    weight_address: int
    # true if a split is drawn from all splits of the cell by its weight, False if its feature is drawn first
    over_cell: bool
    by_depth: bool  # true if the weight depends on the depth, so that cells of different depths are different
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
    needs_depth: bool = False
    """True if trees would be infinite without a depth limit."""
    has_equal_weights: bool = True
    """True if all splits on a feature in a cell are equally likely."""

    def __repr__(self) -> str:
        return fields_repr(self)

    @property
    def use_of_rows(self) -> str | None:
        """Text for errors: how splits depend on the rows of X and which prior to give instead; None if they do not."""
        return None

    def scales(self, table: Table, columns: Columns) -> list[AnyScale]:
        """Return the scale of each coordinate (q of them), which converts values to integer codes.

        The training ``table`` gives the cut points of a scale, or its range, unless the prior has its own.
        """
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
        """Return the sum of the weights, not their logs, of the splits of the cell on the coordinate ``feature``.

        It is their number if they are equally likely. Feature weights are not in it.
        """
        return float(self.count_splits(cell, feature))

    def weights(self, p: int) -> np.ndarray:
        """Return the feature weights (p,), not normalised; ones if they are equal."""
        return read_weights(getattr(self, "feature_weights", None), p)

    def coordinate_weights(self, columns: Columns) -> np.ndarray:
        """Return the given feature weight of each coordinate (q,), by default one; half of it if a feature has two."""
        weight = self.weights(columns.n_features)[columns.source]
        return np.where(columns.other_coordinate == np.arange(len(weight)), weight, weight / 2.0)

    def natural_depth(self, n_units: int, n_codes: np.ndarray) -> int:
        """Return an upper bound on the depth of trees, without a depth limit of the tree prior; 1 << 62 if unbounded.

        ``n_units`` is the number of distinct rows, ``n_codes`` (p,) that of intervals or categories of each feature.
        """
        return int(min((n_codes - 1).sum(), 1 << 62))

    def fewest_splits(self, columns: Columns) -> int:
        """Return a lower bound on the number of splits from the root to a leaf that has no splits left.

        It is 1 << 62 if every cell has a split.
        """
        return 0

    def finest_cells(self, table: Table, columns: Columns) -> np.ndarray | None:
        """Return for each row of the training ``table`` the index (n,) of its finest cell, one that no split divides.

        Return None if the codes of a row determine this cell.
        """
        return None

    def shape(self) -> FixedShape | None:
        """Return the shape of the fixed tree, or None for other priors."""
        return None

    def children(self, cell: PlainCell, split: PlainSplit) -> tuple[PlainCell, PlainCell]:
        """Return the left and the right child that ``split`` makes of the cell."""
        return cell.split(split)

    def admissible(self, cell: PlainCell) -> np.ndarray:
        """Return for each coordinate (q,) a number proportional to its probability in the draw of a split of the cell.

        It is 0 if the cell has no split on the coordinate.
        """
        weight = self.coordinate_weights(cell.columns)
        return np.array([w if w > 0.0 and self.count_splits(cell, k) > 0 else 0.0 for k, w in enumerate(weight)])

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
        """Return the prior for a model with these ``columns``; a fixed tree finds its own columns among them by name.

        A model calls this when it is built. Other priors return themselves.
        """
        return self

    def bind(self, scales: list[AnyScale]) -> SplitPrior:
        """Return the prior with its own cut points, if it has any, expressed in the codes of a model's ``scales``.

        A model calls this when it is built. Priors without cut points of their own return themselves.
        """
        return self

    def in_file(self, scales: list[AnyScale]) -> Any:
        """Return what a file stores for the prior of a model with these ``scales``: itself, or a description."""
        return self

    def with_min_leaf(self, rows: int) -> SplitPrior:
        """Return a copy of the prior with ``min_leaf=rows``. It fails for priors without this argument."""
        return replace(self, min_leaf=rows)  # type: ignore[type-var]

    def rule(self, n_codes: np.ndarray, columns: Columns) -> SplitRule:
        """Return the parameters of the prior for compiled code; ``n_codes`` (q,) counts the codes of coordinates."""
        feature = np.empty(len(n_codes), dtype=FEATURE).view(np.recarray)
        feature.weight, feature.n_codes = self.coordinate_weights(columns), n_codes
        feature.nominal = columns.is_nominal[columns.source]
        feature.other_coordinate, feature.turn = columns.other_coordinate, columns.source
        feature.ends = 0
        geometry = (self.kind, self.min_leaf, feature, columns.n_features, self.design())
        return SplitRule(*geometry, 0, False, False, np.zeros(1), np.zeros((2, 1)))

    def design(self) -> np.recarray:
        """Return the nodes (m,) of the fixed tree, of dtype DESIGN; one dummy node for other priors."""
        return np.full(1, LEAF, dtype=np.int64).astype(DESIGN).view(np.recarray)


def read_weights(feature_weights: Any, p: int) -> np.ndarray:
    """Check feature weights and return them as float64 (p,), not scaled; ones for None."""
    weight = check_weights(feature_weights)
    if len(weight) == 0:
        return np.ones(p)
    if weight.shape != (p,):
        raise ValueError(f"feature_weights has shape {weight.shape}; X has {p} columns: give shape ({p},).")
    return weight


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
