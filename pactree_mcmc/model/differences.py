"""Differences of two models of one table: in the rows of X, and in the trees that their priors allow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..core.checks import repr_of
from ..table.coding import AnyScale, DyadicScale
from .split_prior.base import CYCLIC, DYADIC, FIXED, GRID, LOCAL, LOCAL_TRIVIAL, SplitRule
from .units import first_rows

if TYPE_CHECKING:
    from .model import TreeModel


def difference_of_rows(one: TreeModel, other: TreeModel) -> str:
    """Return a text that says in which part the rows of X of two models differ; an empty text if they may be equal.

    A model stores the code of each value, thus an interval that contains the value, which is the value itself under
    local cuts between all values. The rows differ if the two intervals of a value do not meet, whatever the cuts.
    """
    if one is other:
        return ""
    if one.columns.twins != other.columns.twins:
        return "the columns of X with missing values"
    a, b = one.target.regressors, other.target.regressors
    if one.leaf.x_columns == other.leaf.x_columns and not (a is None or b is None or np.array_equal(a, b)):
        return "the columns of X that its leaves use"
    rows = np.intersect1d(_rows_with_codes(one), _rows_with_codes(other), assume_unique=True)
    unit_indices = [rows if m.unit_of_row is None else m.unit_of_row[rows] for m in (one, other)]
    for c, k in enumerate(one.columns.source.tolist()):
        codes = [m.units.codes[c, unit].astype(np.int64) for m, unit in zip((one, other), unit_indices, strict=True)]
        first, second = one.columns.categories[k], other.columns.categories[k]
        name = one.columns.names[k]
        if first is not None and second is not None:
            if not np.array_equal(first, second):
                return f"the categories of column {name!r} of X"
            differs = codes[0] != codes[1]
        elif first is not None or second is not None:
            continue  # labels on one side, and numbers on the other
        else:
            low, high = _value_intervals(one.scales[c], codes[0])
            other_low, other_high = _value_intervals(other.scales[c], codes[1])
            differs = np.maximum(low, other_low) > np.minimum(high, other_high)
        if differs.any():
            return f"column {name!r} of X, in row {int(rows[np.argmax(differs)])},"
    return ""


def _rows_with_codes(model: TreeModel) -> np.ndarray:
    """Return the indices (m,) of the rows with stored codes: all, or with a fixed tree the first of each merged row."""
    if model.shape is None or model.unit_of_row is None:
        return np.arange(model.n_rows)
    return first_rows(model.unit_of_row, model.units.n_units).astype(np.int64)


def _value_intervals(scale: AnyScale, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the smallest and the largest value, (n,) each, that have each of the ``codes`` (n,) under a scale."""
    if isinstance(scale, DyadicScale):
        below, above = scale.threshold(codes - 1, codes), scale.threshold(codes, codes + 1)
        below, above = np.where(codes == 0, -np.inf, below), np.where(codes == scale.n_codes - 1, np.inf, above)
    elif len(scale.low):
        return scale.low[codes], scale.high[codes]
    else:
        below, above = np.append(-np.inf, scale.cuts)[codes], np.append(scale.cuts, np.inf)[codes]
    return np.where(np.isinf(below), below, np.nextafter(below, np.inf)), above


def wider_support(old: TreeModel, new: TreeModel) -> str:
    """Return a text that says by which parameter the prior of ``new`` allows trees that the prior of ``old`` excludes.

    Both are models of the same rows. The text is empty if the parameters do not show such trees; there may be some. The
    functions below return such texts for one part of the prior each.
    """
    before, after = (m.rules.rule(m.n_codes, m.columns) for m in (old, new))
    difference = _wider_tree_prior(old, new) if old.shape is None and new.shape is None else ""
    is_same_design = before.kind == after.kind == FIXED and np.array_equal(before.design, after.design)
    if is_same_design and np.any(_nodes_reached(new) & ~_nodes_reached(old)):
        difference = "the tree prior allows nodes of the fixed tree that could not be reached"
    return difference or _wider_cuts(old, before, after) or _wider_choice_of_columns(old, before, after)


def _wider_tree_prior(old: TreeModel, new: TreeModel) -> str:
    """Return a text that says how the tree prior of ``new`` allows deeper trees than ``old``, or ""."""
    depth, new_depth = (int(_nodes_reached(m).sum()) - 1 for m in (old, new))
    new_depth = min(new_depth, *(_depth_by_splits(m) for m in (old, new)))
    return f"trees may have depth {new_depth}, and the depth was at most {depth}" if depth < new_depth else ""


def _depth_by_splits(model: TreeModel) -> int:
    """Return an upper bound on the depth of trees that follows from the splits and the numbers of rows."""
    depth = int(model.natural_depth)
    if model.rules.kind == LOCAL:
        depth = min(depth, int((model.n_codes - 1).sum()), model.n_rows // model.rules.min_leaf - 1)
    return max(depth, 0)


def _nodes_reached(model: TreeModel) -> np.ndarray:
    """Return for each depth (m,), or each node of the fixed tree, True if the tree prior allows a tree to reach it."""
    splits = model.prior_tables.table.log_split > -np.inf
    if model.shape is None:
        return np.cumprod(np.append(True, splits[:-1])).astype(np.bool_)
    out = np.zeros(len(splits), dtype=np.bool_)
    out[0] = True
    for node in range(len(out)):
        if out[node] and splits[node]:
            out[[model.shape.left[node], model.shape.right[node]]] = True
    return out


def _wider_cuts(old: TreeModel, before: SplitRule, after: SplitRule) -> str:
    """Return a text that says how the split rule ``after`` allows more cuts of a column than ``before``, or "".

    ``old`` gives the names of columns.
    """
    kinds = before.kind, after.kind
    if kinds == (LOCAL, LOCAL_TRIVIAL):
        return "splits may leave one side empty (trivial=True)"
    if kinds == (CYCLIC, DYADIC) and before.n_turns > 1:
        return "splits may be on any column (cyclic=False)"
    if kinds == (LOCAL, LOCAL) and after.min_leaf < before.min_leaf:
        return f"min_leaf is {after.min_leaf}, and was {before.min_leaf}"
    if before.kind == after.kind != FIXED:
        has_more_cuts = (after.feature.n_codes > before.feature.n_codes) & (after.feature.weight > 0.0)
        if has_more_cuts.any():
            c = int(np.argmax(has_more_cuts))
            name = old.columns.names[int(old.columns.source[c])]
            cuts = [int(rule.feature.n_codes[c]) - 1 for rule in (after, before)]
            return f"column {name!r} has {cuts[0]} cuts, and had {cuts[1]}"
    return ""


def _wider_choice_of_columns(old: TreeModel, before: SplitRule, after: SplitRule) -> str:
    """Return a text that says how the rule ``after`` allows splits on more columns, or on more of them on one path.

    Return "" if it does not. ``before`` and ``after`` are the split rules of ``old`` and of the other model.
    """
    independent_kinds = (LOCAL, LOCAL_TRIVIAL, GRID, DYADIC)
    if before.kind not in independent_kinds or after.kind not in independent_kinds:
        return ""
    has_splits = (after.feature.weight > 0.0) & (after.feature.n_codes > 1)
    has_new_weight = has_splits & (before.feature.weight == 0.0)
    names = np.array(old.columns.names, dtype=object)[old.columns.source]
    if has_new_weight.any():
        return f"column {names[np.argmax(has_new_weight)]!r} has a feature weight above 0, and had 0"
    groups = after.feature.groups
    bits = [1 << b for b in range(62)] if np.all(groups >= 0) else [-1]
    for bit in bits:
        in_group = has_splits & ((groups & bit) != 0)
        if in_group.any() and np.bitwise_and.reduce(before.feature.groups[in_group]) == 0:
            listed = repr_of(list(dict.fromkeys(names[in_group].tolist())))
            return f"the columns {listed} may interact, and could not all interact before (interactions)"
    return ""
