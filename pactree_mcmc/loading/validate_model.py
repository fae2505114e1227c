"""Check of the model of a file: columns, scales, merged rows (units), priors, and the outline of a custom leaf."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..model import FixedTree, GridCuts, LocalCuts, TreeModel
from ..model.leaf.base import Leaf, Target
from ..model.leaf.custom import LeafOutline
from ..model.model import ModelParts
from ..model.rows import Units, number_target, sum_units
from ..model.split_prior.base import MAX_LEVELS, SplitPrior, SplitsOutline
from ..table.coding import DyadicScale, Scale
from ..table.columns import Columns
from ..table.values import MAX_CATEGORIES, labels_of
from ..table.words import is_kind
from ..tree.arrays import LEAF
from .validate import check_kind_and_shape, check_range, require

WRONG_MERGED_ROWS = "the units are not those of the rows"
"""Message about merged rows (units) whose statistics are not the sums over their rows."""


def check_parts(parts: ModelParts) -> None:
    """Raise an error if no model can be made of the parts, because one is missing, malformed or contradicts another."""
    n, p = parts.n_rows, parts.n_features
    kinds: tuple[tuple[Any, type], ...]
    kinds = ((parts, ModelParts), (parts.columns, Columns), (parts.target, Target), (parts.units, Units))
    kinds += ((parts.split_prior, SplitPrior), (parts.leaf, Leaf), (n, int), (p, int), (parts.scales, list))
    require([isinstance(value, kind) for value, kind in kinds], "a part of the model is missing")
    require(hasattr(parts.tree_prior, "log_stop"), "the tree prior is missing")
    columns, target = parts.columns, parts.target
    require(len(columns.names) == len(columns.categories) == p >= 1, "the columns are not those of the table")
    require([type(name) is str for name in columns.names], "a column has no name")
    require([type(k) is int and 0 <= k < p for k in columns.twins], "a feature with two coordinates is not a column")
    require(len(set(columns.twins)) == len(columns.twins), "a column has two twins")
    require(type(columns.kinds) is tuple and len(columns.kinds) in (0, p), "the columns have no kinds")
    require([is_kind(kind) for kind in columns.kinds], "a column is of an unknown kind")
    require(isinstance(columns.branches, bool) and isinstance(columns.named, bool), "the columns lack a word")
    for categories in columns.categories:
        require(categories is None or 0 < len(categories) <= MAX_CATEGORIES, "a column has no categories")
        for category in () if categories is None else categories.tolist():
            require(type(labels_of(category)) is tuple and len(labels_of(category)) > 0, "a group has no categories")
    classifier = target.classes is not None
    require(classifier == parts.leaf.is_classifier, "the leaf is for another y")
    columns_of_y = parts.leaf.y_columns
    shape = (n, columns_of_y) if columns_of_y > 1 else (n,)
    check_kind_and_shape(target.values, "i" if classifier else "f", shape, "y")
    regressors, x_columns = target.regressors, parts.leaf.x_columns  # there may be none
    require((regressors is None) == (x_columns is None), "the leaf looks at other columns")
    if regressors is not None:
        check_kind_and_shape(regressors, "f", (parts.n_rows, len(x_columns)), "regressors")
        require(np.isfinite(regressors), "a regressor is not finite")
        parts.columns.ordered_indices("x_columns", x_columns)
    if target.classes is not None:
        require(target.classes.ndim == 1, "classes has another shape")
        check_range(target.values, 0, len(target.classes), "y")
    numbers = [target.center, target.variance]
    require(np.isfinite(target.values).all() & np.isfinite(numbers).all() & (target.variance > 0.0), "y is not finite")
    require(type(target.names) is tuple and all(type(name) is str for name in target.names), "y has no names")
    if target.weight is not None:
        check_kind_and_shape(target.weight, "f", (n,), "sample_weight")
        require(np.isfinite(target.weight) & (target.weight >= 0.0), "sample_weight is out of range")
    if target.estimation is not None:
        check_kind_and_shape(target.estimation, "b", (n,), "estimation")
    q = p + len(columns.twins)
    require(len(parts.scales) == q, "there is a coordinate too many or too few")
    for k, scale in enumerate(parts.scales):
        _check_scale(scale, columns.categories[columns.source[k]])
    _check_merged_rows(parts, q)
    _check_agreement(parts)


def check_outline(outline: LeafOutline, target: Target) -> None:
    """Raise an error if the outline of a custom leaf, its description in a file, is malformed or does not fit y."""
    require(isinstance(target, Target), "a part of the model is missing")
    require(type(outline.name) is str and type(outline.classes) is bool, "the leaf has no name")
    require(type(outline.y_columns) is int and isinstance(outline.x_columns, tuple), "the leaf has no columns")
    for what in ("params", "stats", "scores"):
        check_kind_and_shape(getattr(outline, what), "f", (-1, -1) if what == "stats" else (-1,), what)
    check_kind_and_shape(
        target.values, "i" if outline.classes else "f", (-1, -1) if outline.y_columns > 1 else (-1,), "y"
    )
    require(np.isfinite(target.values).all() and len(target.values) >= 1, "y is not finite")
    if target.regressors is not None:
        check_kind_and_shape(target.regressors, "f", (len(target.values), len(outline.x_columns)), "regressors")
    if target.classes is not None:
        check_range(target.values, 0, len(target.classes), "y")


def check_splits_outline(outline: SplitsOutline, scales: Any, columns: Any) -> None:
    """Raise an error if the outline of a custom split prior, its description in a file, or its scales are malformed."""
    require(type(outline.name) is str and type(outline.by_depth) is bool, "the split prior has no name")
    require(outline.over in ("feature", "cell"), "the split prior has an unknown argument over")
    require(isinstance(outline.of, LocalCuts | GridCuts), "the split prior weighs an unknown split prior")
    for what in ("params", "weights"):
        check_kind_and_shape(getattr(outline, what), "f", (-1,), what)
    require(isinstance(columns, Columns) and isinstance(scales, list), "a part of the model is missing")
    require(len(scales) == len(columns.source), "there is a coordinate too many or too few")
    for scale, feature in zip(scales, columns.source, strict=True):
        require(isinstance(scale, Scale), "a scale is missing")
        _check_scale(scale, columns.categories[feature])


def _check_scale(scale: Any, categories: np.ndarray | None) -> None:
    """Raise an error unless a scale has cuts that do not fall, or, for a nominal feature, a code for each category."""
    # A scale maps the values of a feature to integer codes. ``categories`` is None for an ordered feature
    if isinstance(scale, DyadicScale):
        finite = np.isfinite([scale.lower, scale.upper]).all()
        require(finite and scale.lower < scale.upper and 1 <= scale.levels <= MAX_LEVELS, "a scale has no range")
        require(type(scale.levels) is int and categories is None, "a scale has no range")
        return
    require(isinstance(scale, Scale) and type(scale.n_codes) is int, "a scale is missing")
    for ends in (scale.cuts, scale.low, scale.high):
        check_kind_and_shape(ends, "f", (-1,), "a scale")
        require(~np.isnan(ends), "a scale holds NaN")
        require(ends[1:] >= ends[:-1], "a scale does not rise")
    if categories is not None:
        require(scale.n_codes == len(categories) and len(scale.cuts) == 0, "a scale is of other categories")
        return
    require(scale.n_codes == len(scale.cuts) + 1, "a scale has other cuts")
    require(len(scale.low) == len(scale.high) and len(scale.low) in (0, scale.n_codes), "a scale has other ends")


def _check_merged_rows(parts: ModelParts, q: int) -> None:
    """Raise an error unless the statistics of the merged rows (units) are the sums over their rows."""
    # the check is needed, since the weights of units determine the length of score tables. A unit is a group of equal
    # rows. ``q`` is the number of coordinates: features, and copies of those with missing values
    merged, merged_row_of_row, target = parts.units, parts.unit_of_row, parts.target
    check_kind_and_shape(merged.codes, "u", (q, -1), "codes")
    m = merged.n_units
    require(m >= 1 and merged.codes.flags.c_contiguous, "there are no units")
    for codes, scale in zip(merged.codes, parts.scales, strict=True):
        check_range(codes, 0, scale.n_codes, "a code")
    if merged_row_of_row is None:
        require(m == parts.n_rows, WRONG_MERGED_ROWS)
    else:
        check_kind_and_shape(merged_row_of_row, "i", (parts.n_rows,), "unit_of_row")
        check_range(merged_row_of_row, 0, m, "a unit")
        present, first = np.unique(merged_row_of_row, return_index=True)
        require(len(present) == m and np.all(first[1:] > first[:-1]), "the units are numbered otherwise")
    recomputed = sum_units(merged.codes, merged_row_of_row, parts.leaf, target)
    for name in Units._fields:
        stored, computed = getattr(merged, name), getattr(recomputed, name)
        require(type(stored) is type(computed) and np.shape(stored) == np.shape(computed), WRONG_MERGED_ROWS)
        require(np.asarray(stored).dtype == np.asarray(computed).dtype, WRONG_MERGED_ROWS)
        # sums of moments depend on the order of the rows
        require(name == "moments" or np.array_equal(stored, computed), WRONG_MERGED_ROWS)
    scale = 1e-6 * np.abs(recomputed.moments).max(axis=1, keepdims=True)
    require(np.abs(merged.moments - recomputed.moments) <= scale, WRONG_MERGED_ROWS)
    if merged.counts:
        check_range(merged.label, 0, int(parts.leaf.n_stats(target)), "a label")
    else:
        own_target = number_target(target.values, target.weight, target.estimation, parts.leaf.needs_variance)
        values, computed = (target.center, target.variance), (own_target.center, own_target.variance)
        require(np.allclose(values, computed, rtol=1e-6, atol=1e-6 * own_target.variance**0.5), "y has another mean")


def _check_agreement(parts: ModelParts) -> None:
    """Raise an error if parts of the model contradict each other. Most cases fail when the model is made."""
    model = TreeModel.from_parts(parts)
    parts.split_prior.weights(parts.n_features)
    if model.shape is not None:
        assert isinstance(parts.split_prior, FixedTree)
        tree = parts.split_prior.tree
        require(tree.feature < parts.n_features, "the fixed tree has other features")
        nominal = np.append(parts.columns.is_nominal, False)[tree.feature]
        require(
            (tree.feature == LEAF) | (nominal == (tree.categories >= 0)), "the fixed tree has other kinds of splits"
        )
    lowered = model.lowered
    for table in ("log_split", "log_stop", "log_forced"):
        require(~np.isnan(lowered.prior.table[table]), "the tree prior is not finite")
    require(np.isfinite(lowered.leaf.params), "a parameter of the leaf is not finite")
