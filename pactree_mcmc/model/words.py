"""Texts about cells: predictions in words, and the error about a score that is not finite."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..table.columns import Columns
from ..table.words import DATES, SHORT_DIGITS, categories_text, rounded_text, side_words, threshold_text, value_text
from ..tree.export import value_lines

if TYPE_CHECKING:
    from .model import TreeModel

# ratio of mean to standard deviation of a column beyond which a text subtracts a value near the mean
MAX_MEAN_BY_DEVIATION = 100.0
# largest error of a prediction that rounded coefficients cause, as a fraction of the standard deviation of y
MAX_ROUNDING_ERROR = 1e-3
# largest relative deviation from a straight line of predictions that are shown as a regression
LINEARITY_TOLERANCE = 1e-6


class Regressor(NamedTuple):
    """Text for a column of X in a regression."""

    name: str  # name of the column, or the text of its difference from the origin
    origin: float  # value of the column that the text subtracts; 0 if it subtracts none
    reach: float  # largest absolute value of the column less the origin in the training table; 1 if this is 0


def words_of_cells(model: TreeModel, stats: np.ndarray) -> list[str] | None:
    """Return the predictions of m cells with the statistics ``stats`` (m, n_stats) in words."""
    # None if `Leaf.value` describes them completely. A prediction that is linear in columns of X is shown as "y = 1.2 +
    # 3.4 x0"; for another dependence the text names the columns
    leaf = model.leaf
    if leaf.x_columns is None or not leaf.predicts:
        return leaf.words(stats, model.target)
    regressors = model.target.regressors
    assert regressors is not None
    indices = model.columns.ordered_indices("columns", leaf.x_columns)
    names = [model.columns.names[k] for k in indices]
    center, scale = regressors.mean(axis=0), regressors.std(axis=0)
    scale = np.where(scale > 0.0, scale, 1.0)
    at_center, slope, is_linear = _fit_linear(model, stats, center, scale)
    if not is_linear:
        return [f"depends on {', '.join(names)}"] * len(stats)
    descriptions = [_describe_regressor(model.columns, k, regressors[:, j]) for j, k in enumerate(indices)]
    at_origin = at_center - slope @ (center - [one.origin for one in descriptions])
    # y of several columns has its first one here, such as the time of times and events
    spread = float(model.target.values.reshape(model.n_rows, -1)[:, 0].std())
    name = prediction_names(model)[0]
    return [f"{name} = {_regression_text(at_origin[i], slope[i], descriptions, spread)}" for i in range(len(stats))]


def prediction_names(model: TreeModel) -> list:
    """Return the classes, or a list with the name of y, that of its first column if it has several, "y" without one."""
    return [*model.target.names[:1]] or ["y"] if model.classes_ is None else model.classes_.tolist()


def lines_of_cells(model: TreeModel, stats: np.ndarray, max_classes: int | None = None) -> list[list[str]]:
    """Return the predictions of m cells with the statistics ``stats`` (m, n_stats), each as a list of lines of text."""
    texts = words_of_cells(model, stats)
    if texts is not None:
        return [[text] for text in texts]
    if not model.leaf.predicts:
        return [[] for _ in stats]
    return value_lines(np.asarray(model.leaf.value(stats, model.target)), model.classes_, max_classes)


def _fit_linear(
    model: TreeModel, stats: np.ndarray, center: np.ndarray, scale: np.ndarray
) -> tuple[np.ndarray, np.ndarray, bool]:
    """Return predictions (m,) of m cells at ``center`` (c,), their slopes (m, c) in c columns, and a test result."""

    # the test is with steps of one `scale` up and down each column, and of one to two in all columns at a time
    def at(offset: np.ndarray) -> np.ndarray:
        return model.leaf.value(stats, model.target, np.tile(center + offset * scale, (len(stats), 1)))[:, 0]

    steps = np.eye(len(center))
    up, down, middle = [at(step) for step in steps], [at(-step) for step in steps], at(0.0 * center)
    slope = (np.stack(up, axis=1) - np.stack(down, axis=1)) / 2.0
    bend = np.stack(up, axis=1) + np.stack(down, axis=1) - 2.0 * middle[:, None]
    oblique = at(np.linspace(1.0, 2.0, len(center)))
    oblique_bend = oblique - middle - slope @ np.linspace(1.0, 2.0, len(center))
    size = np.abs(middle) + np.abs(slope).sum(axis=1)
    limit = LINEARITY_TOLERANCE * size
    is_linear = np.all(np.abs(bend) <= limit[:, None]) and np.all(np.abs(oblique_bend) <= limit)
    return middle, slope / scale, bool(is_linear)


def _describe_regressor(columns: Columns, k: int, x: np.ndarray) -> Regressor:
    """Return the text by which a regression names column ``k``, which has the values `x` (n,) in the training table."""
    # the difference from a value near the mean, if the column consists of dates or the mean is far from 0
    name, kind, mean, spread = columns.names[k], columns.kind(k), float(x.mean()), float(x.std())
    if kind not in DATES and not 0.0 < MAX_MEAN_BY_DEVIATION * spread < abs(mean):
        return Regressor(name, 0.0, float(np.abs(x).max()) or 1.0)
    origin = float(math.floor(mean))
    if kind not in DATES:
        text = threshold_text(mean, mean - spread / 2.0, mean + spread / 2.0)
        origin = float(text)
    else:
        text = value_text(origin, kind)
    return Regressor(f"({name} - {text})", float(origin), float(np.abs(x - origin).max()) or 1.0)


def _regression_text(constant: float, slope: np.ndarray, regressors: list[Regressor], spread: float) -> str:
    """Return a regression as text, such as ``1.2 + 3.4 x0``, by its constant and the ``slope`` (c,) of c regressors."""
    # rounding changes predictions by less than MAX_ROUNDING_ERROR times `spread`, the standard deviation of y
    max_error = MAX_ROUNDING_ERROR * (spread or abs(constant) or 1.0) / (len(regressors) + 1)
    parts = [_text_within_error(constant, max_error)]
    for coefficient, regressor in zip(slope.tolist(), regressors, strict=True):
        text = _text_within_error(coefficient, max_error / regressor.reach)
        parts.append(f"- {text[1:]} {regressor.name}" if text.startswith("-") else f"+ {text} {regressor.name}")
    return " ".join(parts)


def _text_within_error(x: float, error: float) -> str:
    """Return a number as text, with two significant digits, or more to keep the change by rounding below ``error``."""
    if x == 0.0 or not math.isfinite(x):
        return rounded_text(x)
    digits = math.floor(math.log10(abs(x))) - math.floor(math.log10(max(2.0 * error, 1e-300))) + 1
    return rounded_text(x, min(max(digits, 2), SHORT_DIGITS + 9))


MAX_LISTED_STATS = 12  # largest number of statistics that an error lists


class NotFinite(ValueError):
    """Error for a leaf score that is NaN or infinite."""


class PathSplit(NamedTuple):
    """A split on the path to a cell, in codes, and True as ``left`` if the cell is on the left side."""

    # `cut` is the largest code on the left, `upper` the smallest on the right
    coordinate: int
    cut: int
    upper: int
    categories: int
    left: bool


def not_finite(model: TreeModel, path: Iterable[PathSplit], what: str, rows: int, stats: Any, score: Any) -> NotFinite:
    """Return the error about a score that is not finite, that of the cell which the text ``what`` names."""
    conditions = " and ".join(split_words(model, split) for split in path)
    numbers = [f"{v:.6g}" for v in np.asarray(stats)[:MAX_LISTED_STATS].tolist()] + ["..."] * (
        len(stats) > MAX_LISTED_STATS
    )
    cell = f"{conditions}{'; ' if conditions else ''}{int(rows)} rows, statistics [{', '.join(numbers)}]"
    return NotFinite(
        f"the score of {what} is {float(score)}: {cell}, {model.leaf!r}. Give less extreme leaf parameters, y or "
        "sample_weight."
    )


def split_words(model: TreeModel, split: PathSplit) -> str:
    """Return the condition for the side of a split on which a cell lies, as text such as ``x0 > 2.5``."""
    columns, c = model.columns, split.coordinate
    k = int(columns.source[c])
    name = columns.names[k]
    if columns.categories[k] is not None:
        categories = categories_text(columns.label_set(k, split.categories))
        return name + (categories if split.left else " not" + categories)
    scale, cut, upper = model.scales[c], np.array([split.cut]), np.array([split.upper])
    threshold, (low, high) = float(scale.threshold(cut, upper)[0]), scale.between(cut, upper)[0].tolist()
    missing = k in columns.twins and split.left == (c < columns.n_features)
    if np.isnan(threshold):
        return f"{name} is {'missing' if missing else 'known'}"
    return f"{name} {side_words(threshold, split.left, columns.kind(k), low, high)}{' or missing' if missing else ''}"
