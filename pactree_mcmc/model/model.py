"""`TreeModel`: data, tree prior, split prior and leaf model, and the log posterior of a tree without compiled code."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from ..core.checks import check_flag, refuse_other_rows
from ..files.encoding import register_class
from ..files.store import AnyPath, write_parts
from ..table.coding import AnyScale, Scale, encode
from ..table.columns import Columns, describe_columns
from ..table.reader import Table
from ..tree.arrays import LEAF
from ..tree.tree import Tree
from .cells import PlainCell, root_cell
from .leaf.base import Leaf, Target
from .leaf.codes import LeafRule
from .obstacles import check_known, obstacle_to_certificate
from .plain import Visit, visits
from .split_prior.base import SplitPrior, SplitRule
from .split_prior.custom_splits import BoundSplits
from .split_prior.cuts import LocalCuts
from .split_prior.geometry import call_uncompiled, has_empty_sides, parts_box
from .target import read_target
from .tree_prior import (
    BranchingProcess,
    ChipmanPrior,
    LeafPenalty,
    PriorTables,
    tabulate_prior,
)
from .units import MergedRows, Units, first_rows, merge_rows
from .words import not_finite


class Lowered(NamedTuple):
    """A model in the form that compiled code uses: arrays and integer codes."""

    units: Units  # merged rows
    prior: PriorTables  # log factors of the tree prior
    split_prior: SplitRule  # parameters of the split prior
    leaf: LeafRule  # parameters of the leaf model
    # leaf model of stored sums over splits, from which proposals are drawn. Equals `leaf`, but if leaves share a
    # variance that is drawn, it changes rarely, so that stored sums stay valid.
    proposal_leaf: LeafRule


@register_class
class ModelParts(NamedTuple):
    """Parts of a model from which it is built again, as in a file: checked arguments and coded data."""

    tree_prior: Any
    split_prior: SplitPrior
    leaf: Leaf
    columns: Columns
    n_rows: int
    n_features: int
    target: Target
    scales: list[AnyScale]  # conversion of values to codes, for each coordinate
    units: Units  # merged rows
    unit_of_row: np.ndarray | None  # (n,) int32: the merged row that contains each row; None if row i is merged row i


class TreeModel:
    """A Bayesian model of a table: it defines the posterior over trees that both engines compute.

    ``log post(T) = sum over internal nodes [log_split + log R(split | cell)]
    + sum over leaves [log_stop + score] - log Z`` (formulas, section 0).

    Parameters
    ----------
    X : table of shape (n, p)
        Array, list of rows, dict of columns, pandas or polars frame; at least two rows. Columns of text and
        categoricals are nominal. Ordered are numbers, truth values, dates and times (days since 1970), durations
        (days), periods, and ordered categoricals (pandas ``ordered=True``, polars Enum), whose splits are cuts in the
        order of the levels. Integers that float64 would round are refused.
    y : array-like of shape (n,), or (n, d) for a leaf with d columns of y, such as time and event
        Integers, booleans or strings are class labels; floats make a regression, unless ``leaf`` says otherwise. More
        than 20 distinct integers are treated as classes with a warning.
    tree_prior : BranchingProcess, ChipmanPrior or LeafPenalty, optional
        Default ``ChipmanPrior()``.
    split_prior : LocalCuts, GridCuts, DyadicCuts, FixedTree or CustomSplits, optional
        Default ``LocalCuts()``.
    leaf : leaf model, optional
        Default ``DirichletMultinomial()`` for classes, ``NormalInverseGamma()`` for a regression.
    nominal : column names or indices, optional
        Further nominal columns. If a column has more than 63 categories, splits part groups of neighbouring ones
        (`docs/howto_prior.md`).
    missing : {"error", "branch"}, default "error"
        "branch" allows missing values: each split also says where they go, to either side with probability one half.
        Under local cuts a split can separate them from all other values, as if they were -inf or +inf. In a nominal
        column they are an additional category, in new rows too. A missing value in a column that had none in X
        follows the branch with more training rows, of two equal ones the left (``x <= threshold``). So does a category
        that is not in X.
    sample_weight : array-like of shape (n,), optional
        Weights >= 0, not all 0, that multiply the leaf statistics: a row of weight 2 has the score of two such rows.
        The prior does not depend on them: if splits count rows (``min_leaf``, quantiles) each row counts once, whatever
        its weight.
    estimation : bool array of shape (n,), or float, optional
        Rows of E, which determine the leaf parameters; the other rows are S. For FrozenLaplace and PacBayesLoss. A
        float is the fraction of the rows in E, which are the last ones: shuffle a sorted table first.

    Attributes
    ----------
    classes_ : ndarray of shape (K,) or None
        Sorted class labels.
    columns : Columns
        Names and categories of the features.
    leaf : leaf model
        With the parameters that were not given set from the data.

    Raises
    ------
    ValueError
        If an input is invalid; the message says what was received and what is allowed, and names all invalid columns.
    TypeError
        If a part of the model has the wrong type.

    Warns
    -----
    UserWarning
        If y has more than 20 distinct integers and no ``leaf`` is given, or if a column has more than 63 categories.

    Notes
    -----
    Values of a row belong together by position. If X, y, sample_weight, estimation and the exposure of the leaf are
    pandas objects, their indices must be equal, in the same order; any other index is refused.

    Building costs O(n p log n). The codes take one to four bytes a value. `LocalCuts` without ``max_cuts`` stores the
    thresholds too, so that a value of a column without ties takes some 30 bytes. Tree prior, split prior and leaf are
    checked before the table is coded.

    Examples
    --------
    >>> import numpy as np
    >>> model = TreeModel([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1], tree_prior=ChipmanPrior(0.5, 1.0))
    >>> stump = Tree([-1], [0], [0], [0])
    >>> round(model.log_posterior(stump), 4)
    -4.0943
    """

    def __init__(
        self,
        X: Any,
        y: Any,
        *,
        tree_prior: BranchingProcess | ChipmanPrior | LeafPenalty | None = None,
        split_prior: SplitPrior | None = None,
        leaf: Leaf | None = None,
        nominal: Any = None,
        missing: str = "error",
        sample_weight: Any = None,
        estimation: Any = None,
    ) -> None:
        self.tree_prior = ChipmanPrior() if tree_prior is None else tree_prior
        self.split_prior = LocalCuts() if split_prior is None else split_prior
        check_known(self.tree_prior, self.split_prior, leaf if isinstance(leaf, Leaf) else None)
        if self.split_prior.needs_depth and self.tree_prior.max_depth is None:
            raise ValueError("LocalCuts(trivial=True) never runs out of splits; give the tree prior a max_depth.")
        exposure = getattr(leaf, "exposure", None)
        refuse_other_rows(X=X, y=y, sample_weight=sample_weight, estimation=estimation, exposure=exposure)
        table = Table(X)
        self.columns = describe_columns(table, nominal, missing)
        self.split_prior = self.split_prior.match_columns(self.columns)
        self.n_rows, self.n_features = table.n_rows, table.n_features
        self.target, leaf = read_target(y, self.n_rows, leaf, sample_weight, estimation)
        self.target = self.target._replace(regressors=self._regressors_of(table, leaf))
        self.leaf = leaf.resolve(self.target)
        self.split_prior.weights(self.n_features)
        self.shape = self.split_prior.shape()
        self.tree_prior.check(self.shape)
        if self.columns.twins and call_uncompiled(has_empty_sides, self.split_prior):
            raise ValueError(
                f"column {self.columns.names[self.columns.twins[0]]!r} has missing values, which trivial splits cannot "
                "send either side; fill them in, or give LocalCuts() without trivial=True."
            )
        self.scales = self.split_prior.scales(table, self.columns)
        self.units, self.unit_of_row = self._merge(table)
        self.rules = self.split_prior.bind(self.scales)
        if isinstance(self.rules, BoundSplits):
            self.rules.warn_of_root(self.root_cell())

    def _regressors_of(self, table: Table, leaf: Leaf) -> np.ndarray | None:
        """Return the columns (n, c) of the training table that the leaf uses, or None if it uses no columns."""
        if leaf.x_columns is None:
            return None
        return np.column_stack([self.columns.ordered_values(table.column(k), k) for k in self._x_indices(leaf)])

    def _x_indices(self, leaf: Leaf) -> list[int]:
        """Return the indices of the columns of X that the leaf uses, in its order; it must use some."""
        return self.columns.ordered_indices("x_columns", leaf.x_columns)

    def regressors(self, numbers: np.ndarray) -> np.ndarray | None:
        """Return the columns (n, c) of feature values ``numbers`` (n, p) that the leaf uses, None if it uses none.

        A value that is missing there raises a ValueError.
        """
        if self.leaf.x_columns is None:
            return None
        columns = numbers[:, self._x_indices(self.leaf)]
        if not np.isfinite(columns).all():
            row = int(np.argmax(~np.isfinite(columns).all(axis=1)))
            raise ValueError(f"row {row} lacks a value of {self.leaf.x_columns}, which the leaf needs; fill it in.")
        return np.ascontiguousarray(columns)

    def __getstate__(self) -> dict[str, Any]:
        # `lowered` contains addresses of compiled functions, which are not valid in another process
        return {name: value for name, value in vars(self).items() if name not in ("lowered", "_inclusion_by_seed")}

    @property
    def parts(self) -> ModelParts:
        """Parts of the model, for `from_parts`."""
        return ModelParts(*(getattr(self, name) for name in ModelParts._fields))

    @property
    def parts_in_file(self) -> ModelParts:
        """`parts` with leaf model and split prior in the form that a file stores."""
        return self.parts._replace(
            leaf=self.leaf.in_file(self.target), split_prior=self.split_prior.in_file(self.scales)
        )

    @classmethod
    def from_parts(cls, parts: ModelParts) -> Self:
        """Return the model with these ``parts``, which are not checked again."""
        model = cls.__new__(cls)
        for name, part in parts._asdict().items():
            setattr(model, name, part)
        model.shape = parts.split_prior.shape()
        model.rules = parts.split_prior.bind(parts.scales)
        return model

    def save(self, path: AnyPath) -> None:
        """Write the model to a netCDF file, for `load`; errors as of `SampledPosterior.save`."""
        write_parts({"model": self.parts_in_file}, path)

    def _merge(self, table: Table) -> MergedRows:
        """Merge rows of the training table that no split can separate, and return the merged rows."""
        # rows with equal codes and, for classes, labels; under a fixed tree those in the same leaf
        finest_cells = self.split_prior.finest_cells(table, self.columns)
        if finest_cells is None:
            return merge_rows(encode(table, self.columns, self.scales), self.leaf, self.target)
        merged_rows = merge_rows(finest_cells[None], self.leaf, self.target)
        of_row = merged_rows.unit_of_row
        representatives = table if of_row is None else Table(table.take(first_rows(of_row, merged_rows.rows.n_units)))
        codes = encode(representatives, self.columns, self.scales)
        return MergedRows(merged_rows.rows._replace(codes=codes), of_row)

    @property
    def classes_(self) -> np.ndarray | None:
        """Sorted class labels (K,); None for a regression."""
        return self.target.classes

    @cached_property
    def counted_rows(self) -> np.ndarray:
        """Indices (m,) of the rows that a score counts: those of positive weight, and not in E if E fixes leaves."""
        counted = self.target.weights > 0.0
        if self.leaf.uses_estimation and self.target.estimation is not None:
            counted = counted & ~self.target.estimation
        return np.flatnonzero(counted)

    @cached_property
    def n_codes(self) -> np.ndarray:
        """Number of codes of each coordinate, (q,) int64."""
        return np.array([scale.n_codes for scale in self.scales], dtype=np.int64)

    @cached_property
    def natural_depth(self) -> int:
        """Upper bound on the depth of a tree that follows from the splits alone, without ``max_depth``."""
        return self.rules.natural_depth(self.units.n_units, self.n_codes[: self.n_features])

    @cached_property
    def prior_tables(self) -> PriorTables:
        """Tree prior as tables of log factors by depth, or by node of the fixed tree."""
        return tabulate_prior(self.tree_prior, self.natural_depth, self.shape)

    @cached_property
    def lowered(self) -> Lowered:
        """The model in the form that compiled code uses."""
        check_known(self.tree_prior, self.split_prior, self.leaf)
        rule = self.rules.rule(self.n_codes, self.columns)
        leaf = self.leaf.rule(self.target)
        return Lowered(self.units, self.prior_tables, rule, leaf, leaf)

    def unit_numbers(self, unit_indices: np.ndarray) -> np.ndarray:
        """Return feature values (m, p) that have the codes of the merged rows ``unit_indices`` (m,); NaN if missing.

        They are values from the interval of each code, and for nominal features the codes themselves. A leaf that uses
        columns of the row needs `row_numbers`.
        """
        out = np.empty((len(unit_indices), self.n_features))
        for k in range(self.n_features):
            out[:, k] = self.unit_column(k, unit_indices)
        return out

    def unit_column(self, k: int, unit_indices: Any = slice(None)) -> np.ndarray:
        """Return the column (m,) of feature ``k`` in `unit_numbers`, by default of all merged rows."""
        codes = self.units.codes[k, unit_indices].astype(np.int64)
        if self.columns.is_nominal[k]:
            return codes.astype(np.float64)
        out = self.scales[k].numbers(codes)
        if k in self.columns.twins:
            # one coordinate has missing values lowest, the other highest
            c = self.n_features + self.columns.twins.index(k)
            second_code, scale = self.units.codes[c, unit_indices].astype(np.int64), self.scales[c]
            has_own_code = isinstance(scale, Scale) and len(scale.low)
            is_missing = np.isinf(scale.low[second_code]) if has_own_code else second_code != codes  # type: ignore[union-attr]
            out = np.where(is_missing, np.nan, out)
        return out

    def row_numbers(self, rows: np.ndarray) -> np.ndarray:
        """Return feature values (m, p) of the training rows with these indices (m,), as trees and leaves see them.

        Columns that the leaf uses are the row's own. The others are values with the row's code, as in `unit_numbers`.
        """
        out = self.unit_numbers(rows if self.unit_of_row is None else self.unit_of_row[rows])
        if self.target.regressors is not None:
            out[:, self._x_indices(self.leaf)] = self.target.regressors[rows]
        return out

    @cached_property
    def weight_of_unit(self) -> np.ndarray:
        """Total weight (n_units,) of the training rows in each merged row, whatever their exposures."""
        if self.unit_of_row is None:
            return self.target.weights
        return np.bincount(self.unit_of_row, weights=self.target.weights, minlength=self.units.n_units)

    @cached_property
    def first_row_of_unit(self) -> np.ndarray:
        """Index (n_units,) of the first training row in each merged row."""
        if self.unit_of_row is None:
            return np.arange(self.n_rows)
        return first_rows(self.unit_of_row, self.units.n_units).astype(np.int64)

    def certificate_obstacle(self, *, sampled: bool = False) -> str | None:
        """Return the first reason why posteriors of this model have no certificate, and what to give instead, or None.

        `Posterior.certificate` refuses with this reason: something in the prior may depend on the counted rows, such as
        leaves, splits, classes, categories, missing values or weights. A FixedTree, given cuts, bounds and parameters
        are assumed not to depend on them. ``sampled`` is True for a certificate of draws, which do not determine the
        normalising constant of LeafPenalty. Cost O(n p) at most.

        Examples
        --------
        >>> model = TreeModel([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
        >>> model.certificate_obstacle().partition(";")[0]
        'DirichletMultinomial learns leaf values from every row, counted ones too'
        """
        check_flag("sampled", sampled)
        return obstacle_to_certificate(self, bool(sampled))

    def root_cell(self) -> PlainCell:
        """Return the cell that contains all rows."""
        return root_cell(self.units, self.columns, self.n_codes)

    def log_posterior(self, tree: Tree) -> float:
        """Return the unnormalised log posterior of ``tree`` in nats: ``log_prior + log_score``.

        Raises
        ------
        ValueError
            If the tree splits on a feature X lacks.
        """
        prior = self.log_prior(tree)
        return prior + self.log_score(tree) if prior > -math.inf else prior

    def log_prior(self, tree: Tree) -> float:
        """Return the log prior of ``tree`` in nats, ``-inf`` if it cannot occur; unnormalised under LeafPenalty.

        Under LocalCuts all thresholds that separate the rows of a cell in the same way are the same split.

        Parameters
        ----------
        tree : Tree
            A tree that splits on features of X, found by name if both the tree and X have names.

        Raises
        ------
        ValueError
            If the tree splits on a feature X lacks.

        Notes
        -----
        Plain NumPy, independent of both engines; O(n p) per level of the tree.
        """
        total = self.prior_tables.log_constant
        for number, cell, split in self.visit(tree):
            if tree.feature[number] == LEAF:
                total += self._log_stop(cell)
            elif split is None or self.is_forced(cell):
                return -math.inf
            else:
                total += self.log_split(cell)
                total += self.rules.log_probability(cell, split)
            if total == -math.inf:
                return total
        return float(total)

    def log_score(self, tree: Tree) -> float:
        """Return the score of ``tree`` in nats, for most leaf models the sum of its leaf scores.

        Raises
        ------
        ValueError
            If the tree splits on a feature that X lacks, if its thresholds separate rows that the model's splits
            cannot, or if the score of a leaf is not finite.
        """
        stats, leaves = [], []
        for number, cell, split in self.visit(tree):
            if tree.feature[number] == LEAF:
                if len(cell.index):
                    stats.append(cell.stats(self.leaf.n_stats(self.target)))
                    leaves.append((number, cell.n_rows))
            elif split is None:
                raise ValueError(f"node {number}, {tree.split(number)}: the model has no cut there to part its rows.")
        score = self.leaf.log_tree_score(np.array(stats), self.target)
        if not math.isfinite(score):
            leaf_scores = [self.leaf.log_tree_score(leaf_stats[None], self.target) for leaf_stats in stats]
            i = int(np.argmin(np.isfinite(leaf_scores)))
            raise not_finite(self, [], f"leaf {leaves[i][0]} of the tree", leaves[i][1], stats[i], leaf_scores[i])
        return score

    def is_forced(self, cell: PlainCell) -> bool:
        """Return True if a cell must be a leaf: at the depth limit, or without admissible split.

        A joint node of a fixed tree never must.
        """
        if self._is_joint(cell):
            return False
        return cell.depth >= self.prior_tables.depth_limit or not self.rules.admissible(cell).any()

    def log_split(self, cell: PlainCell) -> float:
        """Return the log prior factor of splitting a cell, in nats, without the probability R of the split.

        It is 0 for a joint node of a fixed tree.
        """
        if self._is_joint(cell):
            return 0.0
        return self.tree_prior.log_split(cell.depth, self._node(cell))

    def categories_in(self, cell: PlainCell, feature: int) -> int:
        """Return the bit set of the categories of ``feature`` that a split of the cell divides.

        They are those in its box under `GridCuts`, otherwise those of its rows. It is 0 under a `FixedTree`.
        """
        if call_uncompiled(parts_box, self.split_prior):
            return int(cell.low[feature])
        return 0 if self.shape is not None else sum(1 << int(c) for c in np.unique(cell.codes(feature)))

    def _log_stop(self, cell: PlainCell) -> float:
        """Return the log prior factor of a leaf, in nats, by its cell; -inf for a joint node of a fixed tree."""
        if self._is_joint(cell):
            return -math.inf
        forced = self.is_forced(cell)
        return self.tree_prior.log_stop(cell.depth, self._node(cell), forced=forced, empty=len(cell.index) == 0)

    def _is_joint(self, cell: PlainCell) -> bool:
        """Return True if the cell is a joint node of a fixed tree, which is always split."""
        return self.shape is not None and bool(self.shape.is_joint[cell.node])

    def _node(self, cell: PlainCell) -> int:
        """Return the index of the node of the fixed tree that the cell is, or -1 under other split priors."""
        return -1 if self.shape is None else cell.node

    def visit(self, tree: Tree) -> Iterator[Visit]:
        """Yield the nodes of ``tree`` in preorder, with their cells and splits in codes.

        A node whose split the codes of the model cannot express has the split None, and no node below it is visited.
        """
        return visits(self, tree)

    def __repr__(self) -> str:
        kind = "regression" if self.classes_ is None else f"{len(self.classes_)} classes"
        parts = f"tree_prior={self.tree_prior!r}, split_prior={self.split_prior!r}, leaf={self.leaf!r}"
        return f"TreeModel(n={self.n_rows}, p={self.n_features}, {kind}, {parts})"
