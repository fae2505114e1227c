"""Trees for TimberTrek: nested nodes with their rows, and every decision path once."""

import json

import numpy as np
import pandas as pd
import pytest

import exact
import pactree_mcmc as pt

X = np.array([[float(a), float(b)] for a in range(4) for b in range(3) for _ in range(2)])
Y = np.where((X[:, 0] > 1) ^ (X[:, 1] > 1), "yes", "no")


def truth(**options):
    return exact.solve(pt.TreeModel(X, Y, tree_prior=pt.ChipmanPrior(max_depth=2), **options))


def test_what_is_refused():
    post = truth()
    with pytest.raises(ValueError, match="has a split"):
        exact.to_timbertrek(post.model, [pt.Tree([-1], [0], [0], [0])])
    with pytest.raises(ValueError, match="two classes"):
        exact.to_timbertrek(pt.TreeModel(X, X[:, 0]), [post.map_tree()])
    with pytest.raises(ValueError, match="two classes"):
        exact.to_timbertrek(pt.TreeModel(X, X[:, 0].astype(int)), [post.map_tree()])
    with pytest.raises(TypeError, match="trees"):
        exact.to_timbertrek(post.model, 3)
    with pytest.raises(TypeError, match="entry"):
        exact.to_timbertrek(post.model, ["a tree"])
    grid = pt.TreeModel(X, Y, split_prior=pt.GridCuts([[0.5], [0.5]]))
    with pytest.raises(ValueError, match="no cut"):
        exact.to_timbertrek(grid, [post.map_tree()])


ROWS = (
    "1111 0000 0001 1111 1111 1111 1101 1101 0110 0110 1000 1010 0000 0000 0000 1111 0110 0010 1101 1111 "
    "1111 0100 1111 1000 0010 1010 1010 1000 1111 0100 0100 0110 0001 1010 0010 1000 1010 0100 1111 0100"
)
"""Binary features a, b, c and the class."""
THEIRS = {
    "trie": ["0 1 _1", "0 1 _2", "0 2 _2", "0 _1", "2 _3"],
    "featureMap": {"0": "a", "1": "b", "2": "c"},
    "treeMap": [
        (
            {
                "f": ["0", 40, -1],
                "c": [{"f": ["1", 22, -1], "c": [{"f": ["+", 13, 13]}, {"f": ["-", 9, 9]}]}, {"f": ["-", 18, 16]}],
            },
            0.95,
        ),
        (
            {
                "f": ["0", 40, -1],
                "c": [
                    {"f": ["1", 22, -1], "c": [{"f": ["+", 13, 13]}, {"f": ["-", 9, 9]}]},
                    {"f": ["2", 18, -1], "c": [{"f": ["+", 7, 0]}, {"f": ["-", 11, 9]}]},
                ],
            },
            0.775,
        ),
        ({"f": ["2", 40, -1], "c": [{"f": ["+", 22, 10]}, {"f": ["-", 18, 13]}]}, 0.575),
    ],
}
"""Result of ``transform_trie_to_rules`` of timbertrek 0.1.7 for three trees on these rows, paths in order."""


def paths_with_trees(node, above=""):
    """Every way down a trie, with the tree at its end."""
    if node["f"] == "_":
        return [f"{above}_{node['t']}"]
    here = "" if node["f"] == "root" else f"{above}{node['f']} "
    return sorted(path for child in node["c"] for path in paths_with_trees(child, here))


def test_equal_to_what_their_own_converter_makes():
    table = np.array([[int(digit) for digit in row] for row in ROWS.split()])
    # 1 is their yes, which comes first; a threshold has the smaller value first
    model = pt.TreeModel(pd.DataFrame(1.0 - table[:, :3], columns=list("abc")), table[:, 3])
    shapes = [([0, 1, -1, -1, -1], [1, 2, 0, 0, 0], [4, 3, 0, 0, 0])]
    shapes += [
        ([0, 1, -1, -1, 2, -1, -1], [1, 2, 0, 0, 5, 0, 0], [4, 3, 0, 0, 6, 0, 0]),
        ([2, -1, -1], [1, 0, 0], [2, 0, 0]),
    ]
    signs = [[0, 0, 1, 0, 0], [0, 0, 1, 0, 0, 1, 0], [0, 1, 0]]
    trees = [
        pt.Tree(f, np.where(np.array(f) < 0, 0.0, 0.5), left, right, value=np.column_stack([1 - np.array(s), s]))
        for (f, left, right), s in zip(shapes, signs)
    ]
    ours = json.loads(json.dumps(exact.to_timbertrek(model, trees)))
    # splits are numbered as they are met; here in the order of their columns
    assert {key: words[0] for key, words in ours["featureMap"].items()} == THEIRS["featureMap"]
    assert all(len(words) == 3 for words in ours["featureMap"].values())
    assert paths_with_trees(ours["trie"]) == THEIRS["trie"]
    for number, (hierarchy, accuracy) in enumerate(THEIRS["treeMap"], start=1):
        # their second entry is the objective of the search, ours the fraction misclassified
        assert ours["treeMap"][str(number)] == [hierarchy, round(1.0 - accuracy, 5), accuracy]
