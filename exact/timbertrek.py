"""Export of trees for TimberTrek, a viewer of the decision paths of many trees.

Wang, Zhong, Xin, Takagi, Chen, Chau, Rudin, Seltzer, *TimberTrek: exploring and curating sparse decision trees with
interactive visualization*, IEEE VIS (2022); https://poloclub.github.io/timbertrek opens the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pactree_mcmc.core.checks import check_type, repr_of
from pactree_mcmc.model import TreeModel
from pactree_mcmc.tree.arrays import LEAF
from pactree_mcmc.tree.tree import Tree, match_columns

DIGITS = 5
"""Number of decimal digits of error rates and accuracies."""


def to_timbertrek(model: TreeModel, trees: Sequence[Tree]) -> dict[str, Any]:
    """Return trees in the format of TimberTrek: decision paths, and each tree with the training rows in its nodes.

    Parameters
    ----------
    model : TreeModel
        Model of two classes. Its rows are counted.
    trees : sequence of Tree
        The trees, such as ``truth.trees_within(3.0).trees``. Those without a split have no decision path and are left
        out.

    Returns
    -------
    dict
        Dictionary with the keys ``trie``, ``featureMap`` and ``treeMap``, to be written with ``json.dump``. Each split
        is a feature in TimberTrek. The second class, ``model.classes_[1]``, is "+". The objective of a tree is the
        fraction of training rows that it misclassifies.

    Raises
    ------
    TypeError
        If ``trees`` is not a sequence of trees.
    ValueError
        If the model does not have two classes, no tree has a split, or a tree has a split that the model lacks.

    Notes
    -----
    Equal, but for the order of entries, to what TimberTrek's own converter (``transform_trie_to_rules`` of its Python
    package) makes of the same trees; not tried in the viewer by our tests. O(trees * rows * depth).

    Examples
    --------
    >>> import exact, json, pactree_mcmc as pt
    >>> truth = exact.solve(pt.TreeModel([[float(x)] for x in range(30)], [x >= 15 for x in range(30)]))
    >>> paths = exact.to_timbertrek(truth.model, truth.trees_within(3.5).trees[:1])
    >>> print(json.dumps(paths["treeMap"]))
    {"1": [{"f": ["0", 30, -1], "c": [{"f": ["-", 15, 15]}, {"f": ["+", 15, 15]}]}, 0.0, 1.0]}
    """
    check_type("model", model, TreeModel, "a TreeModel")
    if model.classes_ is None or len(model.classes_) != 2:
        kind = "a regression" if model.classes_ is None else f"of {len(model.classes_)} classes"
        raise ValueError(f"the model is {kind}; TimberTrek shows trees of two classes.")
    if not isinstance(trees, Sequence):
        raise TypeError(f"trees is {repr_of(trees)}; give a list of Tree.")
    for tree in trees:
        check_type("an entry of trees", tree, Tree, "a pt.Tree")
    trees = [match_columns(tree, model.columns) for tree in trees]
    splits: dict[tuple[Any, ...], int] = {}
    names: dict[str, list[str]] = {}
    trie: dict[str, Any] = {"f": "root", "c": []}
    hierarchies: dict[str, Any] = {}
    counts = _count_rows(model)
    for tree in trees:
        if tree.n_leaves > 1:
            number = len(hierarchies) + 1
            rows, positive = _counts_in_nodes(model, tree, counts)
            nodes = [_split_number(model, tree, i, splits, names) for i in range(tree.n_nodes)]
            hierarchy, correct = _hierarchy(tree, nodes, rows, positive)
            accuracy = correct / int(rows[0])
            hierarchies[str(number)] = [hierarchy, round(1.0 - accuracy, DIGITS), round(accuracy, DIGITS)]
            _add_paths(trie, tree, nodes, number)
    if not hierarchies:
        raise ValueError("none of the trees has a split; give at least one tree with a split.")
    return {"trie": trie, "featureMap": names, "treeMap": hierarchies}


def _count_rows(model: TreeModel) -> np.ndarray:
    """Return the numbers (n_units, 2) of training rows, and of those of the second class, in each merged row."""
    unit_of_row = np.arange(model.n_rows) if model.unit_of_row is None else model.unit_of_row
    positive = np.bincount(unit_of_row, weights=model.target.values == 1, minlength=model.units.n_units)
    return np.column_stack([np.bincount(unit_of_row, minlength=model.units.n_units), positive]).astype(np.int64)


def _counts_in_nodes(model: TreeModel, tree: Tree, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the number (n_nodes,) of training rows in each node, and the number (n_nodes,) of the second class.

    ``counts`` (n_units, 2) is from `_count_rows`. Raise ValueError if the model lacks a split of the tree.
    """
    out = np.zeros((tree.n_nodes, 2), dtype=np.int64)
    for number, cell, split in model.visit(tree):
        if split is None and tree.feature[number] != LEAF:
            raise ValueError(f"node {number}, {tree.split(number)}: the model has no cut there to part its rows.")
        out[number] = counts[cell.index].sum(axis=0)
    return out[:, 0], out[:, 1]


def _split_number(
    model: TreeModel, tree: Tree, node: int, splits: dict[tuple[Any, ...], int], names: dict[str, list[str]]
) -> str:
    """Return the number of the split of a node in TimberTrek, as text, or "" for a leaf.

    A new split gets the next number in ``splits`` and its words in ``names``.
    """
    k = int(tree.feature[node])
    if k == LEAF:
        return ""
    name, words = model.columns.names[k], tree.split(node)
    threshold = str(tree.threshold[node])  # NaN as text is equal to itself
    key = (k, threshold, int(tree.categories[node]), bool(tree.default_left[node]), words)
    number = str(splits.setdefault(key, len(splits)))
    names.setdefault(number, [name, words.removeprefix(name).strip(), name])
    return number


def _hierarchy(tree: Tree, nodes: list[str], rows: np.ndarray, positive: np.ndarray) -> tuple[dict[str, Any], int]:
    """Return the tree as nested dictionaries, and the number of training rows that it classifies correctly.

    ``nodes`` are the numbers of the splits as text, "" for a leaf. ``rows`` and ``positive`` (n_nodes,) are the numbers
    of training rows, and of those of the second class, in the nodes.
    """
    nested: list[dict[str, Any]] = [{} for _ in nodes]
    total = 0
    for i in range(len(nodes) - 1, -1, -1):
        n, ones = int(rows[i]), int(positive[i])
        if nodes[i]:
            nested[i] = {"f": [nodes[i], n, -1], "c": [nested[i + 1], nested[int(tree.right[i])]]}
            continue
        value = tree.value
        plus = 2 * ones > n if value is None else bool(value[i, 1] > value[i, 0])
        correct = ones if plus else n - ones
        total += correct
        nested[i] = {"f": ["+" if plus else "-", n, correct]}
    return nested[0], total


def _add_paths(trie: dict[str, Any], tree: Tree, nodes: list[str], number: int) -> None:
    """Add the path of splits to each leaf of a tree to the trie of such paths, ending once with the tree's ``number``.

    ``nodes`` are the numbers of the splits of the nodes, as text, "" for a leaf.
    """
    stack = [(0, trie)]
    while stack:
        node, branch = stack.pop()
        children = [child for child in branch["c"] if child["f"] == nodes[node]]
        if nodes[node]:
            if not children:
                children = [{"f": nodes[node], "c": []}]
                branch["c"] += children
            stack += [(int(tree.right[node]), children[0]), (int(tree.left[node]), children[0])]
        elif not any(child["f"] == "_" and child["t"] == number for child in branch["c"]):
            branch["c"].append({"f": "_", "t": number})
