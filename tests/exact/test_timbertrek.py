"""Trees for TimberTrek: nested nodes with their rows, and every decision path once."""

import json

import numpy as np
import pytest

import exact
import pactree_mcmc as pt

X = np.array([[float(a), float(b)] for a in range(4) for b in range(3) for _ in range(2)])
Y = np.where((X[:, 0] > 1) ^ (X[:, 1] > 1), "yes", "no")


def truth(**options):
    return exact.solve(pt.TreeModel(X, Y, tree_prior=pt.ChipmanPrior(max_depth=2), **options))


def test_every_tree_and_every_path_is_there():
    post = truth(nominal=[1])
    trees = post.trees_within(6.0).trees
    found = json.loads(json.dumps(exact.to_timbertrek(post.model, trees)))
    assert set(found) == {"trie", "featureMap", "treeMap"}
    trees = [tree for tree in trees if tree.n_leaves > 1]
    assert len(found["treeMap"]) == len(trees) > 3
    for number, tree in enumerate(trees, start=1):
        root, objective, accuracy = found["treeMap"][str(number)]
        assert accuracy == pytest.approx((tree.predict(X) == Y).mean(), abs=1e-5)
        assert objective == pytest.approx(1.0 - accuracy)
        leaf, paths = tree.apply(X), []

        def walk(shown, node, ids, tree=tree, leaf=leaf, paths=paths):
            name, n, correct = shown["f"]
            if tree.feature[node] < 0:
                here = leaf == node
                label = {"+": "yes", "-": "no"}[name]
                assert (n, correct) == (here.sum(), (Y[here] == label).sum()) and "c" not in shown
                paths.append(ids)
                return
            assert correct == -1 and len(shown["c"]) == 2
            words = found["featureMap"][name]
            assert f"{words[0]} {words[1]}" == tree.split(node)
            for child, below in zip(shown["c"], (tree.left[node], tree.right[node]), strict=True):
                walk(child, int(below), (*ids, name))

        walk(root, 0, ())
        assert root["f"][1] == len(X)
        assert paths_of(found["trie"], number) == sorted(set(paths))


def paths_of(trie, number, ids=()):
    out = []
    for child in trie["c"]:
        if child["f"] == "_":
            out += [ids] * (child["t"] == number)
        else:
            out += paths_of(child, number, (*ids, child["f"]))
    return sorted(out)


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
