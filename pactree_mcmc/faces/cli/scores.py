"""The score of predictions, if the file with the rows to predict has the target."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd

import pactree_mcmc as pt

from .arguments import UsageError
from .tables import CsvTable

MAX_NAMED_LABELS = 5
"""Largest number of unknown labels that a note names."""
MIN_FIXED_POINT = 0.1
"""Smallest score that is printed with three decimals; smaller ones have three significant digits."""


def target_to_compare(table: CsvTable, name: str | None, model: pt.TreeModel) -> np.ndarray | None:
    """Return y (n,) of the rows to predict, float64: indices of classes, or numbers; None if it cannot be compared.

    That is so if ``name`` is None or not a column, or has no values or none of the classes. A value is NaN if the file
    has none, and -1 for a label that is not a class of the model. A warning says how many rows these are, and whether
    the model has another target. If ``name`` is a feature of the model, raise a UsageError.
    """
    if name is None or name not in table.frame.columns:
        return None
    if name in model.columns.names:
        raise UsageError(f"--target {name} is a feature of the model; name the column of its target, or leave it out")
    names = model.target.names
    if len(names) == 1 and names[0] != name:
        warnings.warn(f"the target of the model is {names[0]!r}; the score compares with {name!r}.", stacklevel=2)
    n, n_empty = len(table.line), int(table.frame[name].isna().sum())
    if n_empty == n:
        warnings.warn(f"column {name!r} of {table.path} has no value: nothing is scored.", stacklevel=2)
        return None
    if n_empty:
        rest = f"the score is of the other {n - n_empty}"
        warnings.warn(f"{n_empty} of {n} rows have no value in column {name!r}; {rest}.", stacklevel=2)
    if model.classes_ is None:
        return table.values(name, "a regression needs numbers", may_be_text=False).astype(np.float64)
    return _class_indices(table, name, model.classes_)


def _class_indices(table: CsvTable, name: str, classes: np.ndarray) -> np.ndarray | None:
    """Return the index of the class of each row as float64 (n,), with warnings about labels that are not classes.

    The index is NaN if the row has no value in the column ``name``, and -1 for a label that is not among ``classes``.
    Return None if no row has one of the classes.
    """
    fields = table.text(name)
    y = np.array([np.nan if field is None else _class_index(field, classes) for field in fields])
    unknown = sorted({str(field) for field in fields[y == -1.0]})
    unknown_text = ", ".join(map(repr, unknown[:MAX_NAMED_LABELS])) + (
        ", ..." if len(unknown) > MAX_NAMED_LABELS else ""
    )
    class_text = ", ".join(map(str, classes[:MAX_NAMED_LABELS].tolist())) + (
        ", ..." if len(classes) > MAX_NAMED_LABELS else ""
    )
    if not (y >= 0.0).any():
        warnings.warn(
            f"column {name!r} of {table.path} has none of the classes of the model ({class_text}) but {unknown_text}: "
            "nothing is scored; name the column of the target in --target.",
            stacklevel=2,
        )
        return None
    if unknown:
        warnings.warn(
            f"{(y == -1.0).sum()} of {len(y)} rows have labels in column {name!r} that are not classes of the model "
            f"({unknown_text}). The accuracy counts them as wrong, and they make the log loss infinite.",
            stacklevel=2,
        )
    return y


def _class_index(field: str, classes: np.ndarray) -> int:
    """Return the index of the class that a field of a CSV file has, or -1. The field "1.0" is the class 1."""
    labels = [str(label) for label in classes.tolist()]
    text = field.strip().title() if classes.dtype.kind == "b" else field
    if text in labels:
        return labels.index(text)
    if classes.dtype.kind not in "iuf":
        return -1
    number = pd.to_numeric(text, errors="coerce")
    return int(np.argmax(classes == number)) if (classes == number).any() else -1


def score_of(post: pt.SampledPosterior, X: pd.DataFrame, y: np.ndarray) -> dict[str, float]:
    """Return scores by name: "accuracy" and "log loss", or "root mean square error" and "mean absolute error".

    The log loss is the mean over rows, in nats, infinite if a label is not a class of the model. ``y`` (n,) is the
    result of `target_to_compare`; rows without a value are left out.
    """
    has_value = ~np.isnan(y)
    if post.model.classes_ is None:
        error = (y - post.predict(X))[has_value]
        root_mean_square = float(np.sqrt((error**2).mean()))
        return {"root mean square error": root_mean_square, "mean absolute error": float(abs(error).mean())}
    proba, class_index = post.predict_proba(X)[has_value], y[has_value].astype(np.int64)
    probability = np.where(class_index >= 0, proba[np.arange(len(class_index)), class_index], 0.0)
    with np.errstate(divide="ignore"):
        loss = float(-np.log(probability).mean())
    return {"accuracy": float((proba.argmax(axis=1) == class_index).mean()), "log loss": loss}


def score_text(score: dict[str, Any]) -> str:
    """Return a score as one line.

    Examples
    --------
    >>> score_text({"accuracy": 0.75, "log loss": 0.0000123})
    'score: accuracy 0.750, log loss 1.23e-05'
    """
    digits = {name: ".3f" if value >= MIN_FIXED_POINT or value == 0.0 else "#.3g" for name, value in score.items()}
    return "score: " + ", ".join(f"{name} {value:{digits[name]}}" for name, value in score.items())
