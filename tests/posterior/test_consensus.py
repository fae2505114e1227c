"""The majority tree: its cells are those of more than half of all trees, listed; and how it is printed."""

import numpy as np
import pytest

import exact
import pactree_mcmc as pt

from .spaces import MODELS, all_trees, independent_draws, probabilities_of_cells_and_splits

pytest.importorskip("pandas")


def expected_of(model, trees, weight, min_support=0.5):
    """The majority cells as sets of rows, and their probabilities."""
    return {
        cell: p for cell, p in probabilities_of_cells_and_splits(model, trees, weight)[0].items() if p > min_support
    }


def rows_of(model, tree):
    """The set of distinct rows in each node of a consensus tree, from its words."""
    out = [set(range(model.units.n_units))]
    for node in range(1, len(tree.words)):
        above = out[tree.parent[node]]
        texts = conditions(tree.words[node])
        out.append({u for u in above if all(satisfies(model, u, condition) for condition in texts)})
    return out


def conditions(words):
    """Conditions apart; labels between braces may hold commas."""
    return words.replace("}, ", "}|").split("|") if "{" in words else words.split(", ")


def satisfies(model, unit, condition):
    """Return True if a distinct row meets one condition, or more joined by commas behind a brace."""
    x = model.unit_numbers(np.array([unit]))[0]
    if "{" not in condition:
        return all(satisfies_bound(model, x, part) for part in condition.split(", "))
    text_before, _, braces = condition.rpartition("x")
    name, _, listed = braces.partition(" ")
    label = str(model.columns.categories[int(name)].tolist()[int(x[int(name)])])
    is_listed = label in listed[listed.index("{") + 1 : -1].split(", ")
    ordered = (
        all(satisfies_bound(model, x, part) for part in text_before.rstrip(", ").split(", ")) if text_before else True
    )
    return ordered and (is_listed != listed.startswith("not"))


def satisfies_bound(model, x, condition):
    missing = condition.endswith(" or missing")
    name, _, bound = condition.removesuffix(" or missing").partition(" ")
    value = x[int(name[1:])]
    if bound in ("is missing", "is known"):
        return np.isnan(value) == (bound == "is missing")
    side, threshold = bound.split()
    return missing if np.isnan(value) else (value <= float(threshold)) == (side == "<=")


def check(model, tree, expected):
    support_of_rows = {frozenset(rows): p for rows, p in zip(rows_of(model, tree), tree.support, strict=True)}
    assert support_of_rows.keys() == expected.keys()
    assert [support_of_rows[cell] for cell in expected] == pytest.approx(list(expected.values()))
    for node in range(1, len(tree.words)):
        assert tree.parent[node] < node and tree.depth[node] == tree.depth[tree.parent[node]] + 1
    for node in range(len(tree.words)):
        children = tree.children(node)
        in_children = sum(tree.rows[child] for child in children)
        assert tree.rest[node] == (tree.rows[node] - in_children if children else 0.0)


@pytest.mark.more(everyday=["local, nominal"])
@pytest.mark.parametrize("name", [name for name in MODELS if "twice" not in name])
def test_exact_consensus_is_that_of_all_trees_listed(name):
    model = MODELS[name]
    truth, trees, probability = all_trees(model)
    check(model, truth.consensus_tree(join_cuts=False), expected_of(model, trees, probability))
    check(model, truth.consensus_tree(0.8, join_cuts=False), expected_of(model, trees, probability, 0.8))


@pytest.mark.more(everyday=["local, nominal"])
@pytest.mark.parametrize("name", ["local, nominal", "local, missing", "grid, empty cells", "dyadic"])
def test_consensus_of_draws(name):
    model = MODELS[name]
    post = independent_draws(exact.solve(model), chains=2, draws=60)
    trees = [post.draws.distinct_tree(t) for t in range(post.draws.n_distinct_trees)]
    check(model, post.consensus_tree(join_cuts=False), expected_of(model, trees, post.draws.weight_of_tree))


def test_values_and_rows_are_those_of_leaves():
    post = independent_draws(exact.solve(MODELS["a row counts twice"]), draws=100)
    tree = post.consensus_tree()
    assert tree.rows[0] == 10.0
    single = pt.posterior_from_trees(post.model, [pt.Tree([-1], [0], [0], [0])])
    assert tree.value[0] == pytest.approx(single.draws.place_values[0])


def test_a_node_may_have_three_children():
    """Three pieces in every tree, joined differently in each of three: no pair is in a majority."""
    X = np.array([[float(a), float(b)] for a in range(3) for b in range(4)])
    model = pt.TreeModel(X[:, :1], X[:, 0] > 1, nominal=[0], leaf=pt.DirichletMultinomial(1.0))

    def tree(first, second):
        return pt.Tree([0, -1, 0, -1, -1], [0] * 5, [1, 0, 3, 0, 0], [2, 0, 4, 0, 0], [first, -1, second, -1, -1])

    post = pt.posterior_from_trees(model, [tree(1, 2), tree(2, 4), tree(4, 1)])
    consensus = post.consensus_tree()
    assert consensus.children(0) == [1, 2, 3] and consensus.support.tolist() == [1.0] * 4
    lines = consensus.format().splitlines()
    assert len(lines) == 4 and [line[:4] for line in lines] == ["all ", "|-- ", "|-- ", "`-- "]
    assert sorted(consensus.words[1:]) == ["x0 in {0.0}", "x0 in {1.0}", "x0 in {2.0}"]
    assert "(4 rows, support 1.00) False: 0.833, True: 0.167" in consensus.format()


def test_a_cell_reached_by_several_paths_is_listed_once():
    """Of twenty trees 19 have the cell x0 > 3.5, x1 > 0.5, by three paths."""
    x0, x1 = (a.ravel().astype(float) for a in np.meshgrid(np.arange(6), np.arange(2)))
    model = pt.TreeModel(np.column_stack([x0, x1]), (x0 > 3) & (x1 > 0))

    def tree(*splits):
        """Return the tree whose splits (feature, threshold) each divide the right child of the one before."""
        n = len(splits)
        feature, threshold = np.full(2 * n + 1, -1), np.zeros(2 * n + 1)
        left, right = np.zeros(2 * n + 1, dtype=int), np.zeros(2 * n + 1, dtype=int)
        feature[:-1:2], threshold[:-1:2] = zip(*splits, strict=True)
        left[:-1:2], right[:-1:2] = np.arange(n) * 2 + 1, np.arange(n) * 2 + 2
        return pt.Tree(feature, threshold, left, right)

    trees = [tree((0, 3.5), (1, 0.5))] * 8 + [tree((0, 1.5), (1, 0.5), (0, 3.5))] * 4
    trees += [tree((0, 1.5), (0, 3.5), (1, 0.5))] * 7 + [tree((0, 1.5), (0, 2.5), (1, 0.5))]
    found = pt.posterior_from_trees(model, trees).consensus_tree()
    nodes = [i for i in range(len(found.words)) if found.rows[i] == 2.0]
    assert [(round(float(found.support[i]), 9), found.children(i)) for i in nodes] == [(0.75, []), (0.95, [])], (
        found.format()
    )
