"""Training rows at which trees are compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ...model import TreeModel


def distinct_rows(model: TreeModel, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Return row numbers and units (m,) of at most ``most`` rows that the model does not treat alike.

    Rows are alike if no split separates them and the leaf uses no values of theirs that differ. Of these the first
    counts. If more than ``most`` remain, those at even steps are chosen, the first and the last one among them.
    """
    units = np.arange(model.n_rows) if model.unit_of_row is None else model.unit_of_row
    regressors = model.target.regressors
    if regressors is None:
        candidates, more = np.sort(np.unique(units, return_index=True)[1]), []
    else:
        candidates, more = np.arange(model.n_rows), [*regressors.T]
    keys, number = [*model.units.codes[:, units[candidates]], *more], np.zeros(len(candidates), dtype=np.int64)
    for key in keys:
        if number.max() + 1 == len(number):
            break
        # number the pairs of the columns so far and the next column
        codes = np.unique(key, return_inverse=True)[1]
        number = np.unique(number * (int(codes.max(initial=0)) + 1) + codes, return_inverse=True)[1]
    rows = candidates[np.sort(np.unique(number, return_index=True)[1])]
    if len(rows) > most:
        rows = rows[np.linspace(0, len(rows) - 1, most).astype(np.int64)]
    return rows, units[rows]


def training_points(model: TreeModel, max_points: int) -> tuple[np.ndarray, np.ndarray]:
    """Return row numbers (m,) and numbers (m, p) that every tree of the model routes as it routes these rows.

    At most ``max_points`` rows, evenly spaced; of rows with equal codes the first. The numbers are one for each code:
    its smallest value under local cuts, else the cut above it.
    """
    rows = np.unique(np.linspace(0, model.n_rows - 1, min(max_points, model.n_rows)).astype(np.int64))
    units = rows if model.unit_of_row is None else model.unit_of_row[rows]
    first = np.sort(np.unique(model.units.codes[:, units], axis=1, return_index=True)[1])
    return rows[first], model.unit_numbers(units[first])
