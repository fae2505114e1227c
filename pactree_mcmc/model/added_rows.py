"""Parts of a model of more rows: the codes and the target of the new rows joined with those of the old ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.checks import refuse_other_rows
from ..table.coding import AnyScale, DyadicScale, Scale, code_type, local_scale
from .data import merge_rows, number_target, read_weight, read_y
from .leaf.base import Target

if TYPE_CHECKING:
    from .model import TreeModel


def parts_with_rows(model: TreeModel, X: Any, y: Any, sample_weight: Any) -> dict[str, Any]:
    """Return the parts of the model that change if rows are added, as fields of `ModelParts` by name."""
    if model.target.estimation is not None:
        raise ValueError("the model has estimation=, and new rows belong neither to E nor to S; build it of all rows.")
    if getattr(model.leaf, "exposure", None) is not None:
        raise ValueError(f"{type(model.leaf).__name__} has an exposure for each row; build the model of all rows.")
    refuse_other_rows(X=X, y=y, sample_weight=sample_weight)
    numbers = model.columns.numbers(X)
    _check_known(model, numbers)
    labels = read_y(y, len(numbers), model.leaf, model.target.names)
    target = _joined_target(model, labels, read_weight(sample_weight, len(numbers)), numbers)
    old = model.units.codes if model.unit_of_row is None else model.units.codes[:, model.unit_of_row]
    values = model.columns.in_coordinates(numbers)
    scales, pairs = [], []
    for c, k in enumerate(model.columns.source):
        is_nominal = model.columns.categories[k] is not None
        scale, *codes = _joined_codes(model, model.scales[c], old[c].astype(np.int64), values[:, c], is_nominal)
        scales.append(scale)
        pairs.append(np.concatenate(codes))
    n_rows = len(target.values)
    every: np.ndarray = np.array(pairs, dtype=code_type(max(scale.n_codes for scale in scales), n_rows))
    leaf = model.leaf.resolve(target)
    units, unit_of_row = merge_rows(every, leaf, target)
    out = {"leaf": leaf, "n_rows": n_rows, "target": target, "scales": scales}
    return out | {"units": units, "unit_of_row": unit_of_row}


def _check_known(model: TreeModel, numbers: np.ndarray) -> None:
    """Raise a ValueError if new rows (m, p) have unknown categories, or missing values in columns that had none."""
    for k, name in enumerate(model.columns.names):
        is_nominal = model.columns.categories[k] is not None
        bad = numbers[:, k] < 0 if is_nominal else np.isnan(numbers[:, k]) & (k not in model.columns.twins)
        if bad.any():
            what = "a category that the model does not have" if is_nominal else "a missing value, as no row before"
            raise ValueError(
                f"column {name!r} has {what}, in row {int(np.argmax(bad))}, which changes the prior; build the model "
                "of all rows, and sample it."
            )


def _joined_target(model: TreeModel, labels: np.ndarray, weight: np.ndarray | None, numbers: np.ndarray) -> Target:
    """Return y, weights and regressors of the rows of the model followed by the new rows."""
    old = model.target
    if weight is not None or old.weight is not None:
        weight = np.concatenate([old.weights, np.ones(len(labels)) if weight is None else weight])
    if old.classes is not None:
        place = np.searchsorted(old.classes, labels).clip(max=len(old.classes) - 1)
        if np.any(old.classes[place] != labels):
            row = int(np.argmax(old.classes[place] != labels))
            raise ValueError(
                f"y is {labels[row]} in row {row}; the model has the classes {old.classes.tolist()}: build the model "
                "of all rows if there are others."
            )
        return old._replace(values=np.concatenate([old.values, place.astype(old.values.dtype)]), weight=weight)
    if labels.dtype.kind not in "fiub":
        raise ValueError(f"y holds {labels.dtype} labels; the model is of numbers.")
    values = np.concatenate([old.values, labels.astype(np.float64)])
    target = number_target(values, weight, None, model.leaf.needs_variance)._replace(names=old.names)
    if old.regressors is None:
        return target
    return target._replace(regressors=np.concatenate([old.regressors, model.regressors(numbers)]))


def _joined_codes(
    model: TreeModel, scale: AnyScale, old: np.ndarray, x: np.ndarray, is_nominal: bool
) -> tuple[AnyScale, np.ndarray, np.ndarray]:
    """Return the scale of a coordinate to which values ``x`` are added, the codes of the old rows, and of the new ones.
    Local cuts between all values are computed again. Other cuts stay; if the scale stores the smallest and the largest
    value of each code, these are extended to the new values.
    """
    if is_nominal:
        return scale, old, x.astype(np.int64)
    if isinstance(scale, DyadicScale) or not len(scale.low):
        return scale, old, scale.encode(x)
    if np.array_equal(scale.low, scale.high):
        every = np.concatenate([scale.low[old], x])
        joined = local_scale(every, getattr(model.split_prior, "max_cuts", None))
        codes = joined.encode(every)
        return joined, codes[: len(old)], codes[len(old) :]
    new = scale.encode(x)
    low, high = scale.low.copy(), scale.high.copy()
    np.minimum.at(low, new, x)
    np.maximum.at(high, new, x)
    return Scale(scale.cuts, low, high, scale.n_codes), old, new


# The sums below are whole loops: compiled code counts references to the arrays that it passes to a function, which in
# the innermost loop would take longer than the sums.
