"""Cells of a graph whose scores are not finite are refused before anything is summed."""

from __future__ import annotations

import numpy as np

from pactree_mcmc.model import TreeModel
from pactree_mcmc.model.not_finite import Answer, not_finite

from .boxes import UPPER_BITS

Parts = dict[str, np.ndarray]


def refuse_not_finite(model: TreeModel, parts: Parts) -> None:
    """Raise NotFinite, naming the first such cell by a path that leads to it, if a score is not finite.

    ``parts`` are columns of a graph: first_edge, left, right, feature, split, rows, stats, score.
    """
    finite = np.isfinite(parts["score"])
    if not finite.all():
        cell = int(np.argmin(finite))
        rows, stats, score = (parts[name][cell] for name in ("rows", "stats", "score"))
        raise not_finite(model, _path(model, parts, cell), "a cell", rows, stats, score)


def _path(model: TreeModel, parts: Parts, cell: int) -> list[Answer]:
    parent = np.repeat(np.arange(len(parts["rows"])), np.diff(parts["first_edge"]))
    out: list[Answer] = []
    while cell != 0:
        e = int(np.argmax(((parts["left"] == cell) | (parts["right"] == cell)) & (parent != cell)))
        c, split, left = int(parts["feature"][e]), int(parts["split"][e]), int(parts["left"][e]) == cell
        if c < len(model.scales):  # the first split of a graph of stages selects the stage
            out.append(Answer(c, split >> UPPER_BITS, split & 0xFFFFFFFF, split, left))
        cell = int(parent[e])
    return out[::-1]
