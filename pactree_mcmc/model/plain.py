"""Trees of a model in plain Python: visits of nodes with their cells, draws from the prior, and the marginal prior."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..core.checks import Seed, is_integer, read_generator
from ..table.coding import Scale
from ..tree.arrays import LEAF
from ..tree.coded import CODED_NODE
from ..tree.tree import Tree, check_tree, match_columns
from .cells import PlainCell, PlainSplit
from .split_prior.geometry import call_uncompiled, parts_rows
from .tree_prior import BranchingProcess

if TYPE_CHECKING:
    from .model import TreeModel

MAX_TRIES = 100_000  # largest number of trees that rejection draws for one tree of a conditioned prior


class Visit(NamedTuple):
    """A node of a tree with its cell, and its split in the codes of the model."""

    number: int  # index of the node in the tree
    cell: PlainCell
    # split of an inner node, None for a leaf or if the codes of the model cannot express the split
    split: PlainSplit | None


def visits(model: TreeModel, tree: Tree) -> Iterator[Visit]:
    """Yield the nodes of ``tree`` in preorder, with their cells and splits in codes."""
    # no node below one whose split the codes of the model cannot express, which has the split None, is visited
    tree = match_columns(tree, model.columns)
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
            left, right = model.rules.children(cell, split)
            todo += [(int(tree.right[number]), right), (int(tree.left[number]), left)]


def coded_split(model: TreeModel, tree: Tree, node: int, cell: PlainCell) -> PlainSplit | None:
    """Return the split of an inner ``node`` of `tree` in the codes of the model, or None if they cannot express it."""
    # under local cuts a threshold may lie anywhere between two values in the cell
    k, categories = int(tree.feature[node]), int(tree.categories[node])
    if (categories >= 0) != model.columns.is_nominal[k]:
        return None
    if categories >= 0:
        return PlainSplit(k, -1, categories & ((1 << int(model.n_codes[k])) - 1))
    threshold, c = float(tree.threshold[node]), int(model.columns.coordinate(k, tree.default_left[node]))
    scale = model.scales[c]
    if np.isnan(threshold) and k not in model.columns.twins:
        # no training row lacks the value: all of them go to the side of known values
        threshold = -np.inf if tree.default_left[node] else np.inf
    cut = scale.cut_of(threshold)
    if cut is None and isinstance(scale, Scale) and call_uncompiled(parts_rows, model.split_prior):
        # a threshold among the values of one code parts nothing in a cell that lacks the code
        code = int(np.searchsorted(scale.low, threshold, side="right")) - 1
        cut = None if code in cell.codes(c) else code
    return None if cut is None else PlainSplit(c, cut, -1)


class GrownTree(NamedTuple):
    """A tree and the cells of its leaves, from left to right."""

    tree: Tree
    leaves: list[PlainCell]


def grow_plain_tree(model: TreeModel, decide: Callable[[PlainCell], PlainSplit | None]) -> GrownTree:
    """Return a tree grown in preorder, with its leaf cells. ``decide`` returns the split of a cell, None for a leaf."""
    nodes: list[list] = []
    leaves = []
    todo: list[tuple[PlainCell, int]] = [(model.root_cell(), -1)]
    while todo:
        cell, right_of = todo.pop()
        index = len(nodes)
        if right_of >= 0:
            nodes[right_of][3] = index
        split = decide(cell)
        if split is None:
            nodes.append([LEAF, 0.0, 0, 0, -1, False, (np.nan, np.nan)])
            leaves.append(cell)
            continue
        left, right = model.rules.children(cell, split)
        default_left, c, columns = 2 * left.n_rows >= cell.n_rows, split.feature, model.columns
        threshold, categories, between = _in_data_units(model, cell, split, default_left)
        if columns.other_coordinate[c] != c:
            default_left = c < columns.n_features
        nodes.append([columns.source[c], threshold, index + 1, 0, categories, default_left, between])
        todo += [(right, index), (left, -1)]
    features, thresholds, lefts, rights, masks, defaults, between = zip(*nodes, strict=True)
    arrays = (features, thresholds, lefts, rights, masks, defaults)
    ends = between if call_uncompiled(parts_rows, model.split_prior) else None
    return GrownTree(Tree(*arrays, columns=model.columns, classes=model.classes_, between=ends), leaves)


def _in_data_units(
    model: TreeModel, cell: PlainCell, split: PlainSplit, default_left: bool
) -> tuple[float, int, tuple[float, float]]:
    """Return threshold, categories that go left, and the values next to the threshold of a split, for a `Tree`."""
    unknown = np.nan, np.nan
    k = split.feature
    has_local_cuts = call_uncompiled(parts_rows, model.split_prior)
    if split.categories >= 0:
        present = sum(1 << int(c) for c in np.unique(cell.codes(k)))
        if not has_local_cuts:
            cut_to_box = model.shape is None and cell.low[k]
            return 0.0, split.categories & int(cell.low[k]) if cut_to_box else split.categories, unknown
        absent = ((1 << int(model.n_codes[k])) - 1) & ~present
        return 0.0, (split.categories & present) | (absent if default_left else 0), unknown
    cut, upper = split.cut, split.cut + 1
    if has_local_cuts:
        codes = cell.codes(k)
        n_codes, cut = int(model.n_codes[k]), int(codes[codes <= cut].max(initial=-1))
        upper = int(codes[codes > cut].min(initial=n_codes))
        cut = n_codes - 1 if upper == n_codes else cut
    arguments, scale = (np.array([cut]), np.array([upper])), model.scales[k]
    low, high = scale.between(*arguments)[0].tolist()
    return float(scale.threshold(*arguments)[0]), -1, (low, high)


def draw_prior(model: TreeModel, rng: np.random.Generator) -> GrownTree | None:
    """Draw a tree, with its leaf cells, from the prior; None if it is not a process, or rejection finds no tree."""
    # a conditioned process is drawn by rejecting trees, up to `MAX_TRIES`, that would split a cell at the depth limit
    # or without admissible split
    prior = model.tree_prior
    if not prior.is_process:
        return None
    conditioned = isinstance(prior, BranchingProcess) and prior.conditioned

    class TooDeep(Exception):
        pass

    def decide(cell: PlainCell) -> PlainSplit | None:
        forced = model.is_forced(cell)
        if forced and not conditioned:
            return None
        if rng.random() >= math.exp(model.log_split(cell)):
            return None
        if forced:
            raise TooDeep
        return model.rules.draw(rng, cell)

    for _ in range(MAX_TRIES if conditioned else 1):
        try:
            return grow_plain_tree(model, decide)
        except TooDeep:
            continue
    return None


def simulated_inclusion(model: TreeModel, draws: int, rng: Seed) -> np.ndarray:
    """Return the fraction (p,) of ``draws`` trees from the prior that split on each feature."""
    # the stored array is returned later if `rng` is an integer: do not write to it
    stored = model.__dict__.setdefault("_inclusion_by_seed", {})
    key = (draws, int(rng)) if is_integer(rng) else None  # type: ignore[arg-type]
    if key is not None and key in stored:
        return stored[key]
    generator, count = read_generator(rng), np.zeros(model.n_features)
    for _ in range(draws):
        sampled_tree = draw_prior(model, generator)
        if sampled_tree is None:
            raise ValueError(
                f"prior_inclusion cannot draw trees of {model.tree_prior!r} split by split. Give exact.solve(model)."
                "prior_inclusion(), or draw trees by pt.simulate(model, rng)[0], each "
                "from a chain of 20,000 proposals, and count those that split on each feature."
            )
        feature = sampled_tree.tree.feature
        count[np.unique(feature[feature != LEAF])] += 1.0
    if key is not None:
        stored[key] = count / draws
    return count / draws


def coded_tree(model: TreeModel, tree: Tree, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the nodes (m,) of a tree in codes, of dtype CODED_NODE, and the statistics (m, n_stats) of their cells."""
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
                node["cut"][visit.number], node["upper"][visit.number] = _codes_beside_cut(model, visit)
    if not is_valid.all():
        raise ValueError(
            f"tree {number} splits at node {int(np.argmin(is_valid))} at a value without a cut in the model's coding; "
            "give trees of this model, or cuts among its thresholds."
        )
    return node, stats


def _codes_beside_cut(model: TreeModel, visit: Visit) -> tuple[int, int]:
    """Return the largest code left of the cut of a visited node, and the smallest right of it."""
    assert visit.split is not None
    cut = visit.split.cut
    if not call_uncompiled(parts_rows, model.split_prior):
        return cut, cut + 1
    codes = visit.cell.codes(visit.split.feature)
    codes_left, codes_right = codes[codes <= cut], codes[codes > cut]
    if not len(codes_left) or not len(codes_right):
        return cut, cut + 1
    return int(codes_left.max()), int(codes_right.min())
