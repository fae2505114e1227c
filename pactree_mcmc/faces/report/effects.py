"""Effects of features in the report: by how much, and in which direction, each moves the predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...posterior.draws import has_values_by_leaf
from ...posterior.rows.attributions import attributions_of
from ...posterior.rows.predictive import output_names
from ..plots.style import rows_to_average
from .words import LONGEST_NAME, UNKNOWN, cut

if TYPE_CHECKING:
    from ...posterior.sampled import SampledPosterior

N_ROWS, N_TREES = 60, 400
"""Numbers of training rows whose predictions are explained, and of draws behind the intervals."""
COVERAGE = 0.9
MONOTONE = 0.8
"""Smallest size of `concordance` at which an effect is called monotone: nine tenths of the changes have its sign."""
MOST_OUTPUTS = 4
"""Largest number of classes or outputs whose directions are named."""


def effects_of(post: SampledPosterior) -> list[dict[str, Any]]:
    """Return importance, its interval and the direction of the effect of each feature, () if leaves have no values.

    Of several classes or outputs the importance is that for the one to which the feature contributes most. ``output``
    is its name, None if there is only one or there are two classes.
    """
    model = post.model
    if not has_values_by_leaf(model):
        return []
    rows, names = rows_to_average(model, None, N_ROWS), [cut(name, LONGEST_NAME) for name in output_names(model)]
    shap, is_several = attributions_of(post, rows, COVERAGE, N_TREES, 0), len(names) > 1 + (model.classes_ is not None)
    out = []
    for k in range(model.n_features):
        # the contributions to the probabilities of two classes are opposite: the last class stands for both
        j = int(np.argmax(shap.importance[k])) if is_several else len(names) - 1
        numbers = [float(part[k, j]) for part in (shap.importance, shap.importance_lower, shap.importance_upper)]
        outputs = list(enumerate(names)) if is_several else [(j, names[j] if len(names) > 1 else None)]
        direction = UNKNOWN
        if not model.columns.is_nominal[k] and numbers[0] > 0.0:
            parts = [(direction_of(rows[:, k], shap.mean[:, k, i]), name) for i, name in outputs[:MOST_OUTPUTS]]
            direction = ", ".join(word if name is None else f"{word} for {name}" for word, name in parts)
        named = dict(zip(("importance", "lower", "upper"), numbers, strict=True))
        out.append({**named, "output": names[j] if is_several else None, "direction": direction})
    return out


def direction_of(x: np.ndarray, contribution: np.ndarray) -> str:
    """Return "increasing", "decreasing" or "not monotone" for the contributions (n,) of a feature with values (n,)."""
    agreement = concordance(x, contribution)
    return "not monotone" if abs(agreement) < MONOTONE else "increasing" if agreement > 0.0 else "decreasing"


def concordance(x: np.ndarray, contribution: np.ndarray) -> float:
    """Return the sum over pairs of rows of the change with x, divided by that of its absolute value, in [-1, 1].

    Rows with missing values do not count. 0 if nothing changes.
    """
    known = np.isfinite(x)
    x, contribution = x[known], contribution[known]
    change = (contribution[:, None] - contribution) * np.sign(x[:, None] - x)
    total = float(np.abs(change).sum())
    return float(change.sum()) / total if total > 1e-12 * max(float(np.abs(contribution).sum()), 1e-300) else 0.0
