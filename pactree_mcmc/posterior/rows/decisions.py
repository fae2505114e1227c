"""Decisions: the label of least expected cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.checks import in_words, read_numbers

if TYPE_CHECKING:
    from ...model import TreeModel


def decide(model: TreeModel, probabilities: np.ndarray, costs: Any = None) -> np.ndarray:
    """Return the labels (n,) of least expected cost, given class probabilities (n, K).

    ``costs`` are as of `Posterior.predict`. Of several labels with the same expected cost the first is taken. Without
    costs the leaf chooses: the most probable class, or the median of ordered ones.
    """
    classes = model.classes_
    assert classes is not None
    if costs is None:
        return classes[model.leaf.choose(probabilities, model.target)]
    return classes[np.argmin(probabilities @ read_costs(costs, classes), axis=1)]


def read_costs(costs: Any, classes: np.ndarray) -> np.ndarray:
    """Return costs (K, K) in the order of the classes: entry i, j is the cost of deciding j if the class is i."""
    labels = classes.tolist()
    if hasattr(costs, "index") and hasattr(costs, "columns"):
        for axis, what in ((costs.index, "index"), (costs.columns, "columns")):
            if len(axis) != len(labels) or set(axis) != set(labels):
                raise ValueError(
                    f"the {what} of costs is {in_words(list(axis))}; give the classes, each once: {in_words(labels)}."
                )
        # .loc would take labels True and False for a mask
        rows, columns = ([list(axis).index(label) for label in labels] for axis in (costs.index, costs.columns))
        costs = costs.to_numpy()[np.ix_(rows, columns)]
    matrix = read_numbers("costs", costs)
    if matrix.shape != (len(labels), len(labels)):
        raise ValueError(
            f"costs has shape {matrix.shape}; give shape ({len(labels)}, {len(labels)}): row i, column j has the cost "
            f"of deciding class j if the class is i, classes in the order {in_words(labels)}."
        )
    if not np.isfinite(matrix).all():
        raise ValueError("costs has an entry that is not finite; give finite numbers.")
    return matrix


def refuse_costs(leaf: Any, costs: Any) -> None:
    """Refuse costs of classes for a regression."""
    if costs is not None:
        raise ValueError(
            f"costs={in_words(costs)} is given, but {type(leaf).__name__} is a regression; costs are of decisions "
            "between classes: leave them out."
        )
