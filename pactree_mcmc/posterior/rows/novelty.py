"""Values of rows to predict that the training rows do not have."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...table.labels import nominal_labels
from ...table.reader import Table
from ...table.words import value_text

if TYPE_CHECKING:
    import pandas as pd

    from ...model import TreeModel
    from ...table.columns import Columns

UNSEEN, MISSING = "category not in the training rows", "missing, but never in the training rows"


def novelty_of(model: TreeModel, X: Any) -> pd.DataFrame:
    """Return the values of rows that the training rows do not have; see `Posterior.novelty`."""
    import pandas as pd

    columns, table = model.columns, Table(X)
    if columns.ranges is None:
        raise ValueError(
            "the file of this model is of an earlier release, which did not store the ranges of the columns; build the "
            "model again from its table."
        )
    # values that are missing are to be reported, also by a model that does not predict them
    numbers = replace(columns, branches=True).numbers(table.array if table.frame is None else table.frame)
    places = columns.places_in(table)
    lines = []
    for k, name in enumerate(columns.names):
        raw = table.column(places[k])
        if columns.is_nominal[k]:
            reasons = _unseen(name, raw, numbers[:, k])
        else:
            reasons = _outside(columns, k, columns.ranges[k], numbers[:, k])
        if reasons:
            values = list(raw)
            lines += [(row, name, values[row], reason) for row, reason in reasons]
    lines.sort(key=lambda line: line[0])
    return pd.DataFrame(lines, columns=["row", "feature", "value", "reason"]).astype({"row": np.int64})


def _unseen(name: str, raw: Any, codes: np.ndarray) -> list[tuple[int, str]]:
    """Return the rows with an unknown category, and the reasons."""
    rows = np.flatnonzero(codes < 0.0).tolist()
    if not rows:
        return []
    labels = nominal_labels(raw, name, may_lack=True, is_new=True)
    return [(row, MISSING if labels[row] is None else UNSEEN) for row in rows]


def _outside(columns: Columns, k: int, ends: np.ndarray, values: np.ndarray) -> list[tuple[int, str]]:
    """Return the rows outside the training range of an ordered column, and the reasons."""
    (low, high), kind = ends.tolist(), columns.kind(k)
    reasons = [
        (values < low, f"below the smallest training value, {value_text(low, kind)}"),
        (values > high, f"above the largest training value, {value_text(high, kind)}"),
        (np.isnan(values) & (k not in columns.twins), MISSING),
    ]
    return [(row, reason) for where, reason in reasons for row in np.flatnonzero(where).tolist()]
