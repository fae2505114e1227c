"""A tree taken down the cells of a model: each of its nodes with its cell, and its split in the model's codes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..table.coding import Scale
from ..tree.arrays import LEAF
from ..tree.tree import Tree, check_tree
from .cells import PlainCell, Split
from .split_prior.geometry import parts_rows, told

if TYPE_CHECKING:
    from .model import TreeModel


class Visit(NamedTuple):
    """A node of a tree, with its cell."""

    number: int
    cell: PlainCell
    split: Split | None


def visits(model: TreeModel, tree: Tree) -> Iterator[Visit]:
    """Nodes of ``tree`` in preorder with their cells; a split that the coding lacks is None and not followed."""
    check_tree(tree, model.n_features)
    todo = [(0, model.root_cell())]
    while todo:
        number, cell = todo.pop()
        if tree.feature[number] == LEAF:
            yield Visit(number, cell, None)
            continue
        split = coded_split(model, tree, number, cell)
        yield Visit(number, cell, split)
        if split is not None:
            left, right = model.children(cell, split)
            todo += [(int(tree.right[number]), right), (int(tree.left[number]), left)]


def coded_split(model: TreeModel, tree: Tree, node: int, cell: PlainCell) -> Split | None:
    """Returns the split of an inner node in codes, as one of its cell; None if the coding lacks it."""
    k, categories = int(tree.feature[node]), int(tree.categories[node])
    if (categories >= 0) != model.columns.is_nominal[k]:
        return None
    if categories >= 0:
        return Split(k, -1, categories & ((1 << int(model.n_codes[k])) - 1))
    threshold, c = float(tree.threshold[node]), int(model.columns.coordinate(k, tree.default_left[node]))
    scale = model.scales[c]
    if np.isnan(threshold) and k not in model.columns.twins:
        # no training row lacks the value: all of them go to the side of known values
        threshold = -np.inf if tree.default_left[node] else np.inf
    cut = scale.cut_of(threshold)
    if cut is None and isinstance(scale, Scale) and told(parts_rows, model.split_prior):
        # a threshold among the values of one code parts nothing in a cell that lacks the code
        code = int(np.searchsorted(scale.low, threshold, side="right")) - 1
        cut = None if code in cell.codes(c) else code
    return None if cut is None else Split(c, cut, -1)
