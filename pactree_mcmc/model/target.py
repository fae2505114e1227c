"""Checked y, weights and mask of estimation rows of a model."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from ..core.checks import as_number, read_array, read_numbers, repr_of
from ..core.portable import weighted_sum
from ..core.warn import warn
from ..table.labels import refuse_missing, refuse_nul
from ..table.reader import Table, is_frame
from .leaf.base import Leaf, Target
from .leaf.classes import DirichletMultinomial
from .leaf.normal import NormalInverseGamma

MAX_QUIET_CLASSES = 20  # number of distinct integers in y above which a warning says that they are treated as classes


def read_target(y: Any, n: int, leaf: Leaf | None, sample_weight: Any, estimation: Any) -> tuple[Target, Leaf]:
    """Check y, the weights and E, the rows that determine leaf parameters, of ``n`` rows; return them and the leaf."""
    labels = read_y(y, n, leaf)
    names, kind = _names_of_y(y, leaf), labels.dtype.kind
    for name in names:
        refuse_nul("the name of y", name)
    is_given = leaf is not None
    if leaf is None:
        leaf = NormalInverseGamma() if kind == "f" else DirichletMultinomial()
    if not isinstance(leaf, Leaf):
        advice = "a leaf model such as DirichletMultinomial() or NormalInverseGamma()"
        raise TypeError(f"leaf is {repr_of(leaf)}; give {advice}.")
    weight = read_weight(sample_weight, n)
    mask = read_mask(estimation, n)
    if mask is not None and not leaf.uses_estimation:
        raise ValueError(
            f"{type(leaf).__name__} does not use estimation=; only FrozenLaplace and PacBayesLoss split the sample."
        )
    if leaf.is_classifier:
        target = _class_target(labels, weight, mask)._replace(names=names)
        if kind in "iu" and not is_given and target.n_classes > MAX_QUIET_CLASSES:
            warn(
                f"y holds {target.n_classes} different whole numbers, which make {target.n_classes} classes. Give "
                "floats for a regression, y.astype(float); give strings, or leaf=DirichletMultinomial(), if classes "
                "are meant, and this warning goes."
            )
        return target, leaf
    if kind not in "fiub":
        raise ValueError(f"{type(leaf).__name__} needs numbers; y holds {labels.dtype} labels.")
    with np.errstate(over="ignore"):
        target = number_target(labels.astype(np.float64), weight, mask, leaf.needs_variance)
    return target._replace(names=names), leaf


def _names_of_y(y: Any, leaf: Any) -> tuple[str, ...]:
    """Return the names of the columns of y in the order of the leaf, or () if a column has no name."""
    if is_frame(y):
        names, columns = [str(name) for name in y.columns], list(Table(y, "y"))
    elif isinstance(y, np.ndarray) and y.dtype.names is not None:
        names, columns = list(y.dtype.names), [y[name] for name in y.dtype.names]
    else:
        name = getattr(y, "name", None)
        return (name,) if isinstance(name, str) and name else ()
    order = leaf.order_of_y(names, columns) if isinstance(leaf, Leaf) and len(names) > 1 else range(len(names))
    names_of_leaf = tuple(names[k] for k in order)
    others = [name for name in names if name not in names_of_leaf]
    if others:
        leaf_name, columns_of_leaf = type(leaf).__name__, repr_of(list(names_of_leaf))
        warn(f"of the columns of y {leaf_name} uses {columns_of_leaf} alone; {repr_of(others)} have no effect.")
    return names_of_leaf


def read_y(y: Any, n: int, leaf: Any, model_names: tuple[str, ...] = ()) -> np.ndarray:
    """Return numbers or labels (n,), or (n, d) if the leaf has d columns of y."""
    columns = leaf.y_columns if isinstance(leaf, Leaf) else 1
    labels = _named_columns(y, leaf, model_names) if columns > 1 else None
    labels = read_array("y", y) if labels is None else labels
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim == 0 or labels.shape[1:] != ((columns,) if columns > 1 else ()):
        if columns > 1:
            raise ValueError(f"y has shape {labels.shape}; {leaf!r} needs {columns} columns, shape ({n}, {columns}).")
        several = ", or a leaf of several columns, such as pt.ExponentialGamma() for time and event"
        raise ValueError(
            f"y has shape {labels.shape}; give one value a row, shape ({n},){several if labels.ndim == 2 else ''}."
        )
    if len(labels) != n:
        raise ValueError(f"X has {n} rows and y has {len(labels)}; give as many.")
    kind = labels.dtype.kind
    if kind in "VcmM":
        what = {"V": f"holds records of dtype {labels.dtype}", "c": "is complex"}.get(kind, f"has dtype {labels.dtype}")
        raise ValueError(f"y {what}; give real numbers or labels.")
    if kind not in "fiubUS" and type(labels.dtype).__name__ != "StringDType":
        labels = _uniform_objects(labels)
    refuse_infinite_y(labels)
    return labels


def refuse_infinite_y(y: np.ndarray) -> None:
    """Raise a ValueError if ``y``, (n,) or (n, d), has a number that is infinite or NaN."""
    is_valid = np.isfinite(y) if y.dtype.kind == "f" else np.True_
    if not np.all(is_valid):
        row = int(np.argmax(~is_valid.reshape(len(y), -1).all(axis=1)))
        raise ValueError(f"y is {y[row]} in row {row}; give finite numbers, or drop the row.")


def _named_columns(y: Any, leaf: Leaf, model_names: tuple[str, ...]) -> np.ndarray | None:
    """Return the columns (n, d) of a frame or the fields of records in the order of the leaf; None for any other y."""
    if is_frame(y):
        names, columns = [str(name) for name in y.columns], list(Table(y, "y"))
    elif isinstance(y, np.ndarray) and y.dtype.names is not None:
        names, columns = list(y.dtype.names), [y[name] for name in y.dtype.names]
    else:
        return None
    order = leaf.order_of_y(names, columns) if len(model_names) < 2 else _order_of_names(names, leaf, model_names)
    for k in order:
        refuse_missing(columns[k])
    return np.column_stack([read_numbers(f"column {names[k]!r} of y", columns[k]) for k in order])


def _order_of_names(names: list[str], leaf: Leaf, model_names: tuple[str, ...]) -> list[int]:
    """Return the indices among ``names``, those of the columns of y, of the columns that the model was built on."""
    # columns that the leaf knows by name, such as "time", may replace lacking ones
    lacking = [name for name in model_names if name not in names]
    if lacking and leaf.y_names and set(leaf.y_names) <= {name.lower() for name in names}:
        return leaf.order_of_y(names, [])
    if lacking:
        raise ValueError(
            f"y lacks {repr_of(lacking)}; it has the columns {repr_of(names)}, and the model was built on "
            f"{repr_of(list(model_names))}. Give these columns, or an array with them in this order."
        )
    return [names.index(name) for name in model_names]


def _uniform_objects(labels: np.ndarray) -> np.ndarray:
    """Return labels (n,) of dtype object as strings, booleans, integers or floats, not mixed; (n, d) as floats."""
    refuse_missing(labels)
    if labels.ndim > 1:
        return read_numbers("y", labels)
    values = labels.tolist()
    if all(isinstance(v, str) for v in values):
        for label in set(values):
            # NumPy would drop a NUL at the end
            refuse_nul("the class label", label)
        return np.array(values, dtype=str)
    if all(isinstance(v, bool | np.bool_) for v in values):
        return np.array(values, dtype=bool)
    if all(isinstance(v, numbers.Integral) for v in values):
        if not all(-(2**63) <= int(v) < 2**63 for v in values):
            raise ValueError("y holds integers beyond 64 bits; give labels that fit, or strings.")
        return np.array(values, dtype=np.int64)
    if all(as_number(v) is not None for v in values):
        return np.array([as_number(v) for v in values])
    kinds = sorted({type(v).__name__ for v in values})
    raise ValueError(f"y mixes or holds {', '.join(kinds)}; give all strings, all booleans or all numbers.")


def _class_target(labels: np.ndarray, weight: np.ndarray | None, mask: np.ndarray | None) -> Target:
    """Return labels (n,) as indices of the sorted classes, with weights (n,) and ``mask`` (n,) of E, or None."""
    classes, class_index = np.unique(labels, return_inverse=True)
    if labels.dtype.kind == "f" and np.any(classes != np.floor(classes)):
        raise ValueError("y holds fractions; a classification needs labels: give integers or strings, or another leaf.")
    if len(classes) > 32_767:
        raise ValueError(f"y has {len(classes)} classes; at most 32767 are allowed.")
    for label in classes.tolist():
        refuse_nul("the class label", label)
    return Target(class_index.astype(np.int32), classes, weight, mask, 0.0, 1.0)


def number_target(
    y: np.ndarray, weight: np.ndarray | None, mask: np.ndarray | None, needs_variance: bool = True
) -> Target:
    """Return the target of a regression: y with its weighted mean and variance, or 0 and 1 if y has several columns."""
    # The variance is 1 if all y of positive weight are equal, otherwise at least the smallest float. If it is not
    # needed, it is cut at the largest float
    if y.ndim > 1:
        return Target(y, None, weight, mask, 0.0, 1.0)
    fractions = np.full(len(y), 1.0 / len(y)) if weight is None or weight.sum() == 0.0 else weight / weight.sum()
    with np.errstate(over="ignore", invalid="ignore"):
        center = weighted_sum(fractions, y)
        variance = weighted_sum(fractions, (y - center) ** 2)
        total = variance * (len(y) if weight is None else float(weight.sum()))
    if not needs_variance and np.isfinite(center):
        variance = min(variance, float(np.finfo(np.float64).max))
    elif not np.isfinite(total):
        raise ValueError("y is too large: its variance overflows; rescale y, or sample_weight if given.")
    counted = y[fractions > 0.0]
    if np.all(counted == counted[0]):  # rounding leaves its variance above zero
        center, variance = float(counted[0]), 1.0
    return Target(y, None, weight, mask, center, max(variance, 5e-324))


def read_weight(sample_weight: Any, n: int) -> np.ndarray | None:
    """Check the weights of rows and return them as float64 (n,), or None if there are none."""
    if sample_weight is None:
        return None
    weight = read_numbers("sample_weight", sample_weight)
    if weight.shape != (n,):
        raise ValueError(f"sample_weight has shape {weight.shape}; give one weight a row, shape ({n},).")
    bad = ~((weight >= 0.0) & np.isfinite(weight))
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(f"sample_weight is {weight[row]} in row {row}; give finite weights >= 0.")
    if not weight.any():
        raise ValueError("sample_weight is 0 in every row; give weights that count some rows.")
    with np.errstate(over="ignore"):
        if not np.isfinite(weight.sum()):
            raise ValueError("sample_weight adds up to infinity; rescale it.")
    return weight


def read_mask(estimation: Any, n: int) -> np.ndarray | None:
    """Return the mask (n,) of E, the rows that determine leaf parameters; None if there is no E."""
    if estimation is None:
        return None
    mask = read_array("estimation", estimation)
    if isinstance(estimation, float | np.floating):
        if not 0.0 < estimation < 1.0 or not 0 < round(n * estimation) < n:
            raise ValueError(f"estimation={estimation} of {n} rows leaves E or S empty; give a fraction in (0, 1).")
        mask = np.arange(n) >= n - round(n * estimation)
    if mask.dtype.kind != "b" or mask.shape != (n,):
        raise ValueError(
            f"estimation has dtype {mask.dtype} and shape {mask.shape}; give booleans of shape ({n},), True for "
            "E, or the fraction of the rows, the last ones, that are E."
        )
    return mask
