"""Parts of a model of more rows: the codes and the target of the new rows joined with those of the old ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.checks import refuse_other_rows
from ..table.coding import AnyScale, DyadicScale, Scale, code_type, local_scale
from .leaf.base import Target
from .target import number_target, read_weight, read_y
from .units import merge_rows

if TYPE_CHECKING:
    from .model import TreeModel


def parts_with_rows(model: TreeModel, X: Any, y: Any, sample_weight: Any) -> dict[str, Any]:
    """Return the parts of the model that change if rows are added, by the names of the fields of `ModelParts`.

    These are leaf, n_rows, target, scales, units and unit_of_row. ``X`` (m, p), ``y`` and ``sample_weight`` are those
    of the new rows, as `TreeModel.with_rows` takes them.
    """
    if model.target.estimation is not None:
        raise ValueError("the model has estimation=, and new rows belong neither to E nor to S; build it of all rows.")
    if getattr(model.leaf, "exposure", None) is not None:
        raise ValueError(f"{type(model.leaf).__name__} has an exposure for each row; build the model of all rows.")
    refuse_other_rows(X=X, y=y, sample_weight=sample_weight)
    numbers = model.columns.numbers(X)
    _check_new_values(model, numbers)
    labels = read_y(y, len(numbers), model.leaf, model.target.names)
    target = _join_targets(model, labels, read_weight(sample_weight, len(numbers)), numbers)
    old = model.units.codes if model.unit_of_row is None else model.units.codes[:, model.unit_of_row]
    values = model.columns.in_coordinates(numbers)
    scales, pairs = [], []
    for c, k in enumerate(model.columns.source):
        is_nominal = model.columns.categories[k] is not None
        scale, *codes = _join_codes(model, model.scales[c], old[c].astype(np.int64), values[:, c], is_nominal)
        scales.append(scale)
        pairs.append(np.concatenate(codes))
    n_rows = len(target.values)
    joined_codes: np.ndarray = np.array(pairs, dtype=code_type(max(scale.n_codes for scale in scales), n_rows))
    leaf = model.leaf.resolve(target)
    merged_rows, unit_of_row = merge_rows(joined_codes, leaf, target)
    changed_parts = {"leaf": leaf, "n_rows": n_rows, "target": target, "scales": scales}
    return changed_parts | {"units": merged_rows, "unit_of_row": unit_of_row}


def _check_new_values(model: TreeModel, numbers: np.ndarray) -> None:
    """Raise a ValueError if new rows ``numbers`` (m, p), as `Columns.numbers` returns them, do not fit the model.

    They must not have unknown categories, nor missing values in columns that had none.
    """
    for k, name in enumerate(model.columns.names):
        is_nominal = model.columns.categories[k] is not None
        bad = numbers[:, k] < 0 if is_nominal else np.isnan(numbers[:, k]) & (k not in model.columns.twins)
        if bad.any():
            what = "a category that the model does not have" if is_nominal else "a missing value, as no row before"
            raise ValueError(
                f"column {name!r} has {what}, in row {int(np.argmax(bad))}, which changes the prior; build the model "
                "of all rows, and sample it."
            )


def _join_targets(model: TreeModel, labels: np.ndarray, weight: np.ndarray | None, numbers: np.ndarray) -> Target:
    """Return y, weights and regressors of the rows of the model followed by the new rows.

    The new rows have y ``labels`` (m,) or (m, d), weights ``weight`` (m,) or None, and feature values ``numbers`` (m,
    p).
    """
    old = model.target
    if weight is not None or old.weight is not None:
        weight = np.concatenate([old.weights, np.ones(len(labels)) if weight is None else weight])
    if old.classes is not None:
        index = np.searchsorted(old.classes, labels).clip(max=len(old.classes) - 1)
        if np.any(old.classes[index] != labels):
            row = int(np.argmax(old.classes[index] != labels))
            raise ValueError(
                f"y is {labels[row]} in row {row}; the model has the classes {old.classes.tolist()}: build the model "
                "of all rows if there are others."
            )
        return old._replace(values=np.concatenate([old.values, index.astype(old.values.dtype)]), weight=weight)
    if labels.dtype.kind not in "fiub":
        raise ValueError(f"y holds {labels.dtype} labels; the model is of numbers.")
    values = np.concatenate([old.values, labels.astype(np.float64)])
    target = number_target(values, weight, None, model.leaf.needs_variance)._replace(names=old.names)
    if old.regressors is None:
        return target
    return target._replace(regressors=np.concatenate([old.regressors, model.regressors(numbers)]))


def _join_codes(
    model: TreeModel, scale: AnyScale, old_codes: np.ndarray, x: np.ndarray, is_nominal: bool
) -> tuple[AnyScale, np.ndarray, np.ndarray]:
    """Return the scale of a coordinate with the values ``x`` (m,) of m new rows, and the codes of old and of new rows.

    A scale converts values to integer codes. ``old_codes`` (n,) are those of the old rows under ``scale``. Local cuts
    between all values are computed again. Other cuts stay; if the scale stores the smallest and the largest value of
    each code, these include the new values. If ``is_nominal``, ``x`` are codes.
    """
    if is_nominal:
        return scale, old_codes, x.astype(np.int64)
    if isinstance(scale, DyadicScale) or not len(scale.low):
        return scale, old_codes, scale.encode(x)
    if np.array_equal(scale.low, scale.high):
        values = np.concatenate([scale.low[old_codes], x])
        joined = local_scale(values, getattr(model.split_prior, "max_cuts", None))
        codes = joined.encode(values)
        return joined, codes[: len(old_codes)], codes[len(old_codes) :]
    new_codes = scale.encode(x)
    low, high = scale.low.copy(), scale.high.copy()
    np.minimum.at(low, new_codes, x)
    np.maximum.at(high, new_codes, x)
    return Scale(scale.cuts, low, high, scale.n_codes), old_codes, new_codes
