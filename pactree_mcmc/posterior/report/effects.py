"""Effects of features in the report: curves of partial dependence with their bands."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..distribution import TreeDistribution
from ..rows.dependence import Dependence, partial_dependence, rows_to_average
from .words import NOT_KNOWN_TEXT

MAX_CURVE_ROWS, N_CURVE_DRAWS, MAX_CURVE_STEPS = 30, 100, 24
"""Numbers of rows and of draws of a curve, and the largest number of its steps."""
EFFECT_COVERAGE = 0.9
MIN_MONOTONE_AGREEMENT = 0.8
"""Smallest |sum of steps| / sum of |steps| of a monotone curve: nine tenths of its changes have one sign."""
MAX_FLAT_CHANGE = 0.02
"""Changes of a curve below this fraction of the largest range of a curve are called flat."""


class FeatureEffect(NamedTuple):
    """Effect of one feature on the predictions."""

    dependence: Dependence
    """Mean predictions at the values of the feature, with the interval of each."""
    directions: list[str]
    """"increasing", "decreasing", "not monotone", "flat", or "-" for a nominal feature, for each curve."""


def feature_effects(post: TreeDistribution, features: list[int], columns: list[int]) -> list[FeatureEffect]:
    """Return the effects of some ``features`` (indices) on the ``columns`` of predictions, one for each class."""
    model = post.model
    if not model.leaf.predicts:
        return []
    rows = rows_to_average(model, None, MAX_CURVE_ROWS)
    curves = [
        partial_dependence(post, k, rows, EFFECT_COVERAGE, N_CURVE_DRAWS, 0, MAX_CURVE_STEPS, columns) for k in features
    ]
    ranges = np.max([np.ptp(one.mean, axis=0) for one in curves] or [np.zeros(len(columns))], axis=0)
    out = []
    for k, curve in zip(features, curves, strict=True):
        directions = [direction_of(curve.mean[:, j], ranges[j]) for j in range(len(columns))]
        out.append(FeatureEffect(curve, [NOT_KNOWN_TEXT] * len(columns) if model.columns.is_nominal[k] else directions))
    return out


def direction_of(curve: np.ndarray, largest_range: float) -> str:
    """Return "increasing", "decreasing", "not monotone" or "flat" for a curve (m,) of mean predictions."""
    steps = np.diff(curve)
    total = float(np.abs(steps).sum())
    if total <= MAX_FLAT_CHANGE * largest_range:
        return "flat"
    agreement = float(steps.sum()) / total
    return (
        "not monotone" if abs(agreement) < MIN_MONOTONE_AGREEMENT else "increasing" if agreement > 0.0 else "decreasing"
    )


def curves_in_boxes(effects: list[FeatureEffect], width: float, height: float) -> list[list[dict[str, Any]]]:
    """Return the curves of each feature, one for each class, for a box of this size in pixels."""
    if not effects:
        return []
    low = np.min([one.dependence.lower.min(axis=0) for one in effects], axis=0)
    high = np.max([one.dependence.upper.max(axis=0) for one in effects], axis=0)
    span = np.where(high > low, high - low, 1.0)
    out = []
    for one in effects:
        curve, edges = one.dependence, one.dependence.axis.edges
        x = width * (edges - edges[0]) / (edges[-1] - edges[0])
        lower, mean, upper = (height * (high - part) / span for part in (curve.lower, curve.mean, curve.upper))
        boxes = []
        for j, direction in enumerate(one.directions):
            # from left to right along the upper end, and back along the lower one
            band = f"M{_step_path(x, upper[:, j])}L{_step_path(x[::-1], lower[::-1, j])}Z"
            ends = (float(curve.mean[:, j].min()), float(curve.mean[:, j].max()))
            line = f"M{_step_path(x, mean[:, j])}"
            boxes.append({"band": band, "line": line, "direction": direction, "ends": ends})
        out.append(boxes)
    return out


def _step_path(x: np.ndarray, y: np.ndarray) -> str:
    """Return a step function with heights ``y`` (m,) between the ends ``x`` (m + 1,) as part of an SVG path."""
    first = f"{x[0]:.0f} {y[0]:.1f}"
    return first + "".join(f"V{height:.1f}H{end:.0f}" for height, end in zip(y, x[1:], strict=True))
