"""Trees grown from the root cell by cell, without compiled code: draws from the prior, and data simulated from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..tree.arrays import LEAF
from ..tree.tree import Tree
from .cells import PlainCell, Split
from .model import TreeModel
from .split_prior.geometry import parts_rows, told
from .tree_prior.branching_process import BranchingProcess
from .tree_prior.leaf_penalty import LeafPenalty

MAX_TRIES = 100_000


class Grown(NamedTuple):
    """A tree and the cells of its leaves."""

    tree: Tree
    leaves: list[PlainCell]


def grow(model: TreeModel, decide: Callable[[PlainCell], Split | None]) -> Grown:
    """Returns the tree that splits each cell by the split ``decide`` returns, and stops where it returns None."""
    nodes: list[list] = []
    leaves = []
    todo: list[tuple[PlainCell, int]] = [(model.root_cell(), -1)]
    while todo:
        cell, right_of = todo.pop()
        here = len(nodes)
        if right_of >= 0:
            nodes[right_of][3] = here
        split = decide(cell)
        if split is None:
            nodes.append([LEAF, 0.0, 0, 0, -1, False, (np.nan, np.nan)])
            leaves.append(cell)
            continue
        left, right = model.children(cell, split)
        default_left, c, columns = 2 * left.n_rows >= cell.n_rows, split.feature, model.columns
        threshold, categories, between = _in_data_units(model, cell, split, default_left)
        if columns.twin[c] != c:
            default_left = c < columns.n_features
        nodes.append([columns.source[c], threshold, here + 1, 0, categories, default_left, between])
        todo += [(right, here), (left, -1)]
    features, thresholds, lefts, rights, masks, defaults, between = zip(*nodes, strict=True)
    arrays = (features, thresholds, lefts, rights, masks, defaults)
    known = between if told(parts_rows, model.split_prior) else None
    return Grown(Tree(*arrays, columns=model.columns, classes=model.classes_, between=known), leaves)


def _in_data_units(
    model: TreeModel, cell: PlainCell, split: Split, default_left: bool
) -> tuple[float, int, tuple[float, float]]:
    """Return the threshold, the category bits and the values beside the threshold as a tree stores them."""
    unknown = np.nan, np.nan
    k = split.feature
    local = told(parts_rows, model.split_prior)
    if split.categories >= 0:
        present = sum(1 << int(c) for c in np.unique(cell.codes(k)))
        if not local:
            cut_to_box = model.shape is None and cell.low[k]
            return 0.0, split.categories & int(cell.low[k]) if cut_to_box else split.categories, unknown
        absent = ((1 << int(model.n_codes[k])) - 1) & ~present
        return 0.0, (split.categories & present) | (absent if default_left else 0), unknown
    cut, upper = split.cut, split.cut + 1
    if local:
        codes = np.unique(cell.codes(k))
        below, above = codes[codes <= cut], codes[codes > cut]
        cut = int(below[-1]) if len(below) else -1
        cut, upper = (cut, int(above[0])) if len(above) else (int(model.n_codes[k]) - 1, int(model.n_codes[k]))
    here, scale = (np.array([cut]), np.array([upper])), model.scales[k]
    low, high = scale.between(*here)[0].tolist()
    return float(scale.threshold(*here)[0]), -1, (low, high)


def draw_prior(model: TreeModel, rng: np.random.Generator) -> Grown | None:
    """Returns a tree from the prior; None if the prior is not a branching process, or rejection finds no tree.

    A conditioned process is drawn by rejecting trees that are too deep or reach cells without admissible split. Unknown
    feature weights are drawn with each try.
    """
    prior = model.tree_prior
    if isinstance(prior, LeafPenalty):
        return None
    conditioned = isinstance(prior, BranchingProcess) and prior.conditioned

    class TooFar(Exception):
        pass

    def decide(cell: PlainCell) -> Split | None:
        forced = model.is_forced(cell)
        if forced and not conditioned:
            return None
        if rng.random() >= np.exp(model.log_split(cell)):
            return None
        if forced:
            raise TooFar
        return model.draw_split(rng, cell, log_weight)

    drawn = model.split_prior.drawn_weights
    for _ in range(MAX_TRIES if conditioned else 1):
        log_weight = None if drawn is None else drawn.draw(rng, model.n_features)
        try:
            return grow(model, decide)
        except TooFar:
            continue
    return None
