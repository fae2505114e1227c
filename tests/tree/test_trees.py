"""Trees: invariants, what can be asked of one tree, and the way to and from scikit-learn."""

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeRegressor

import exact
import pactree_mcmc as pt

# x0 <= 2 ? (x1 <= 5 ? leaf 2 : leaf 3) : leaf 4
NODES = {
    "feature": [0, 1, -1, -1, -1],
    "threshold": [2.0, 5.0, 0, 0, 0],
    "left": [1, 2, 0, 0, 0],
    "right": [4, 3, 0, 0, 0],
}
X = np.array([[1.0, 4.0], [1.0, 6.0], [3.0, 4.0], [2.0, 5.0]])
COLOURS = pd.DataFrame({"colour": pd.Categorical(["red", "blue", "green", "blue"]), "size": [1.0, 2.0, 3.0, 4.0]})


def tree_with(**changes):
    return pt.Tree(**{**NODES, **changes})


def set_at(name, node, value):
    """The nodes with one field changed; ``categories`` and ``default_left`` start from their defaults."""
    start = {"categories": [-1] * 5, "default_left": [False] * 5, **NODES}[name]
    return {name: [value if i == node else v for i, v in enumerate(start)]}


def test_the_tree_itself():
    tree = tree_with()
    assert (tree.n_nodes, tree.n_leaves, tree.depth) == (5, 3, 2)
    assert tree.node_depth.tolist() == [0, 1, 2, 2, 1]
    assert tree.apply(X).tolist() == [2, 3, 4, 2]
    assert repr(tree) == "Tree(n_leaves=3, depth=2)"
    pt.check_tree(tree, 2)


BREACHES = {
    "no node": ({name: [] for name in NODES}, "a tree has at least one node in one dimension"),
    "two dimensions": ({"feature": [[-1]], "threshold": [0], "left": [0], "right": [0]}, r"feature has shape \(1, 1\)"),
    "lengths": ({"threshold": [2.0, 5.0, 0, 0]}, r"threshold has shape \(4,\); it must be \(5,\), as feature"),
    "lengths of categories": ({"categories": [-1]}, r"categories has shape \(1,\); it must be \(5,\)"),
    "value of too few nodes": ({"value": np.zeros((3, 1))}, r"value has shape \(3, 1\); it must be \(5, d\)"),
    "value of one dimension": ({"value": np.zeros(5)}, r"value has shape \(5,\); it must be \(5, d\)"),
    "feature": (set_at("feature", 1, -2), "node 1: feature is below -1"),
    "left child elsewhere": (set_at("left", 1, 3), r"node 1: left is 3; in preorder the left child is node 2"),
    "no left child": (set_at("left", 0, 0), "node 0: left is 0; in preorder the left child is node 1"),
    "right child on the left": (set_at("right", 0, 1), "node 0: right is 1; it must lie behind the left subtree"),
    "right child outside": (set_at("right", 0, 5), "node 0: right is 5; it must lie behind the left subtree"),
    "negative right child": (set_at("right", 1, -1), "node 1: right is -1"),
    "right child inside the left subtree": (set_at("right", 0, 3), "node [34]: not in preorder"),
    "two parents": (set_at("right", 1, 4), "node 3: not in preorder"),
    "a node without parent": (
        {"feature": [0, -1, -1, -1], "threshold": [2, 0, 0, 0], "left": [1, 0, 0, 0], "right": [2, 0, 0, 0]},
        "node 3: not in preorder",
    ),
    "categories": (set_at("categories", 0, -2), "node 0: categories is -2; a bit mask >= 0, or -1 if ordered"),
    "threshold of a leaf": (set_at("threshold", 3, 1.0), "node 3: an unused field of a leaf is not 0"),
    "child of a leaf": (set_at("left", 4, 2), "node 4: an unused field of a leaf is not 0"),
    "right child of a leaf": (set_at("right", 2, 3), "node 2: an unused field of a leaf is not 0"),
    "categories of a leaf": (set_at("categories", 2, 0), "node 2: an unused field of a leaf is not 0"),
    "default of a leaf": (set_at("default_left", 2, True), "node 2: an unused field of a leaf is not 0"),
}


@pytest.mark.parametrize(("changes", "message"), BREACHES.values(), ids=BREACHES.keys())
def test_each_breach_is_named(changes, message):
    with pytest.raises(ValueError, match=message):
        tree_with(**changes)


def test_format():
    value = np.array([[0.5], [1.0], [1.25], [-3.0], [1234567.0]])
    assert tree_with(value=value).format().split("\n") == [
        "x0 <= 2",
        "|-- yes: x1 <= 5",
        "|   |-- yes: leaf 1.25",
        "|   `-- no:  leaf -3",
        "`-- no:  leaf 1234567",
    ]


THRICE = np.repeat(np.arange(8.0), 3)[:, None]


@pytest.mark.more(everyday=["leaf0"])
@pytest.mark.parametrize(
    "leaf", [pt.DirichletMultinomial(), pt.PacBayesLoss(2.0), pt.FrozenLaplace(), pt.NormalInverseGamma()]
)
def test_trees_of_posteriors_know_their_rows(leaf):
    E = np.arange(24) % 2 == 0 if isinstance(leaf, pt.FrozenLaplace) else None
    post = exact.solve(pt.TreeModel(THRICE, (THRICE[:, 0] > 3).astype(int), leaf=leaf, estimation=E))
    for tree in [post.map_tree(), *post.draw_trees(5, rng=1), *post.best_trees(3).trees]:
        reached = tree.apply(THRICE)
        leaves = np.flatnonzero(tree.feature < 0)
        assert tree.rows[leaves].tolist() == [np.sum(reached == i) for i in leaves]
        inner = np.flatnonzero(tree.left)
        assert np.array_equal(tree.rows[inner], tree.rows[tree.left[inner]] + tree.rows[tree.right[inner]])
        assert f"({24} rows)" in tree.format().splitlines()[0]


def test_predict():
    tree = tree_with(value=[[0], [0], [1.5], [2.5], [-1.0]])
    assert tree.predict(X).tolist() == [1.5, 2.5, -1.0, 1.5]
    assert tree.predict(X.tolist()).tolist() == [1.5, 2.5, -1.0, 1.5]
    with pytest.raises(ValueError, match="this tree carries no values"):
        tree_with().predict(X)


@pytest.mark.parametrize(
    ("table", "message"),
    [([1.0, 2.0], r"X has 1 dimension\(s\); give a table"), ([[1.0]], "X has 1 columns; the tree splits on feature 1")],
)
def test_apply_refuses_tables_of_another_shape(table, message):
    with pytest.raises(ValueError, match=message):
        tree_with().apply(table)


@pytest.mark.parametrize("default_left", [True, False])
class TestUnseenCategories:
    """A category that the training data lack follows ``default_left``; the known ones follow the bits."""

    def tree(self, default_left):
        columns = pt.TreeModel(COLOURS, [0, 1, 0, 1]).columns
        nodes = {"feature": [0, -1, -1], "threshold": [0] * 3, "left": [1, 0, 0], "right": [2, 0, 0]}
        return pt.Tree(**nodes, categories=[0b001, -1, -1], default_left=[default_left, False, False], columns=columns)

    def test_apply(self, default_left):
        table = pd.DataFrame({"colour": ["blue", "green", "red", "mauve"], "size": [0.0] * 4})
        assert self.tree(default_left).apply(table).tolist() == [1, 2, 2, 1 if default_left else 2]

    def test_a_simulated_tree_sends_them_with_the_majority(self, default_left):
        """Two of three rows are on the side they follow."""
        sizes = {"a": 1, "b": 2} if default_left else {"a": 2, "b": 1}
        labels = [label for label, n in sizes.items() for _ in range(n)]
        prior = pt.BranchingProcess(0.999, 1)
        model = pt.TreeModel(np.array(labels)[:, None], [0, 1, 0], nominal=0, tree_prior=prior)
        tree, _ = pt.simulate(model, rng=1)
        majority = max(sizes, key=sizes.get)
        assert tree.apply([["z"]]) == tree.apply([[majority]])


RNG = np.random.default_rng(17)
DATA = RNG.normal(size=(300, 4)).astype(np.float32)
CLASSES = np.array(["lo", "mid", "hi"])[(DATA[:, 0] > 0).astype(int) + (DATA[:, 1] * DATA[:, 2] > 0.2)]
FITTED = {
    "classifier": (DecisionTreeClassifier(random_state=0), CLASSES),
    "classifier, best first": (DecisionTreeClassifier(max_leaf_nodes=13, random_state=0), CLASSES),
    "regressor": (DecisionTreeRegressor(min_samples_leaf=5, random_state=0), DATA[:, 0] + DATA[:, 1] ** 2),
    "regressor, best first": (DecisionTreeRegressor(max_leaf_nodes=20, random_state=0), DATA[:, 0] * DATA[:, 3]),
    "one leaf": (DecisionTreeClassifier(random_state=0), np.zeros(300, dtype=int)),
}


@pytest.mark.parametrize(("estimator", "y"), FITTED.values(), ids=FITTED.keys())
class TestScikitLearn:
    def test_round_trip(self, estimator, y):
        """There and back is the same tree; arrays already in preorder come back as they were."""
        fitted = estimator.fit(DATA, y)
        tree = pt.Tree.from_sklearn(fitted)
        arrays = tree.to_sklearn()
        tree_again = pt.Tree.from_sklearn(arrays)
        assert tree_again == tree
        np.testing.assert_array_equal(tree_again.value, tree.value)
        if estimator.max_leaf_nodes is None:
            for name in ("children_left", "children_right", "feature", "threshold", "value"):
                np.testing.assert_array_equal(arrays[name], getattr(fitted.tree_, name))


def with_gaps(rng, n, fraction=0.3):
    """Rows of float32 with missing values, among them some of which that is all that matters, and labels."""
    X = rng.normal(size=(n, 4)).astype(np.float32)
    X[rng.random(X.shape) < fraction] = np.nan
    numbers = np.where(np.isnan(X), 0.5, X)
    return X, numbers[:, 0] * numbers[:, 1] + 2.0 * np.isnan(X[:, 2]) + 0.1 * rng.normal(size=n)


GROWN = {
    "classifier": lambda: DecisionTreeClassifier(random_state=0),
    "classifier, best first": lambda: DecisionTreeClassifier(max_leaf_nodes=13, random_state=0),
    "regressor": lambda: DecisionTreeRegressor(min_samples_leaf=3, random_state=0),
    "regressor, best first": lambda: DecisionTreeRegressor(max_leaf_nodes=20, random_state=0),
    "at random": lambda: ExtraTreeRegressor(random_state=0),
}


def check_missing_values(kind, seed, gaps):
    """Row by row as scikit-learn, of the rows it was fitted to and of others; whether a split meets missing values."""
    rng = np.random.default_rng(seed)
    X, y = with_gaps(rng, 250, 0.3 if gaps else 0.0)
    estimator = GROWN[kind]()
    fitted = estimator.fit(X, np.digitize(y, [0.0, 1.0]) if isinstance(estimator, DecisionTreeClassifier) else y)
    tree = pt.Tree.from_sklearn(fitted)
    for table in (X, with_gaps(rng, 400)[0]):
        np.testing.assert_array_equal(tree.predict(table), fitted.predict(table))
        assert len(set(zip(tree.apply(table), fitted.apply(table), strict=True))) == len(set(tree.apply(table)))
    assert pt.Tree.from_sklearn(tree.to_sklearn()) == tree
    return tree


@pytest.mark.more(everyday=["classifier-True"])
@pytest.mark.parametrize("gaps", [True, False])
@pytest.mark.parametrize("kind", GROWN)
def test_missing_values_go_where_scikit_learn_sends_them(kind, gaps):
    trees = [check_missing_values(kind, seed, gaps) for seed in range(4)]
    assert any(tree.default_left.any() for tree in trees)
    assert any(np.isnan(tree.threshold).any() for tree in trees) == (gaps and kind != "at random")


@pytest.mark.parametrize(
    ("fitted", "message"),
    [
        (DecisionTreeClassifier(), "DecisionTreeClassifier has no arrays .*; give a fitted DecisionTreeClassifier"),
        ({"feature": [0]}, "dict has no arrays"),
        (
            {
                "children_left": [1, -1, -1],
                "children_right": [1, -1, -1],
                "feature": [0, -2, -2],
                "threshold": [1.0, -2, -2],
            },
            "node 1 is reached twice or does not exist",
        ),
        (
            {"children_left": [1, -1], "children_right": [5, -1], "feature": [0, -2], "threshold": [1.0, -2]},
            "node 5 is reached twice or does not exist",
        ),
        (
            {
                "children_left": [1, -1, -1],
                "children_right": [2, -1, -1],
                "feature": [0, -2, -2],
                "threshold": [1.0, -2, -2],
                "missing_go_to_left": [2, 0, 0],
            },
            "missing_go_to_left is .*; give 0 or 1 for each node",
        ),
    ],
)
def test_from_sklearn_refuses_other_arrays(fitted, message):
    with pytest.raises(ValueError, match=message):
        pt.Tree.from_sklearn(fitted)
