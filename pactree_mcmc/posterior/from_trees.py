"""Trees made elsewhere, as records of the codes of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..model import TreeModel
from ..model.split_prior.geometry import parts_rows, told
from ..tree.arrays import LEAF
from ..tree.coded import CODED_NODE
from ..tree.tree import Tree

if TYPE_CHECKING:
    from ..model.plain import Visit


def coded_tree(model: TreeModel, tree: Tree, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the records of the nodes of a tree, and their statistics."""
    node = np.zeros(tree.n_nodes, dtype=CODED_NODE)
    stats = np.zeros((tree.n_nodes, int(model.leaf.n_stats(model.target))))
    node["feature"], node["categories"], node["right"] = LEAF, -1, tree.right
    inner = tree.feature != LEAF
    node["default_left"] = inner & tree.default_left
    is_valid = np.zeros(tree.n_nodes, dtype=bool)
    for visit in model.visit(tree):
        is_valid[visit.number] = visit.split is not None or not inner[visit.number]
        stats[visit.number] = visit.cell.stats(stats.shape[1])
        if visit.split is not None:
            node["feature"][visit.number], node["categories"][visit.number] = (
                visit.split.feature,
                visit.split.categories,
            )
            if visit.split.categories < 0:
                node["cut"][visit.number], node["upper"][visit.number] = _gap(model, visit)
    if not is_valid.all():
        raise ValueError(
            f"tree {number} splits at node {int(np.argmin(is_valid))} at a value without a cut in the model's coding; "
            "give trees of this model, or cuts among its thresholds."
        )
    return node, stats


def _gap(model: TreeModel, visit: Visit) -> tuple[int, int]:
    """Return the codes on both sides of a cut, in the cell under local cuts."""
    assert visit.split is not None
    cut = visit.split.cut
    if not told(parts_rows, model.split_prior):
        return cut, cut + 1
    codes = visit.cell.codes(visit.split.feature)
    left, right = codes[codes <= cut], codes[codes > cut]
    if not len(left) or not len(right):
        return cut, cut + 1
    return int(left.max()), int(right.min())


def can_start(model: TreeModel, tree: Tree) -> bool:
    """Return True if a chain can start at the tree: it has a prior, and nominal splits send the first category left."""
    if model.log_prior(tree) == -np.inf:
        return False
    for visit in model.visit(tree):
        if visit.split is not None and visit.split.categories >= 0:
            inside = model.categories_in(visit.cell, visit.split.feature)
            if not visit.split.categories & inside & -inside:
                return False
    return True
