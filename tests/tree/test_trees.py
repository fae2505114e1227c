"""Trees: invariants, what can be asked of one, the way to other programs; printed trees are read as programs."""

import math
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeRegressor

import exact
import pactree_mcmc as pt
from pactree_mcmc.model.model import draw_prior
from pactree_mcmc.table.words import shortest_between
from tests.problems.refusals import refuses
from tests.tree.printed import hold_together, partition_of_dot, partition_of_text, same_partition, table_columns

# x0 <= 2 ? (x1 <= 5 ? leaf 2 : leaf 3) : leaf 4
NODES = {
    "feature": [0, 1, -1, -1, -1],
    "threshold": [2.0, 5.0, 0, 0, 0],
    "left": [1, 2, 0, 0, 0],
    "right": [4, 3, 0, 0, 0],
}
X = np.array([[1.0, 4.0], [1.0, 6.0], [3.0, 4.0], [2.0, 5.0]])
COLOURS = pd.DataFrame({"colour": pd.Categorical(["red", "blue", "green", "blue"]), "size": [1.0, 2.0, 3.0, 4.0]})
THRICE = np.repeat(np.arange(8.0), 3)[:, None]
RNG = np.random.default_rng(17)
GROWN = {
    "classifier": lambda: DecisionTreeClassifier(random_state=0),
    "classifier, best first": lambda: DecisionTreeClassifier(max_leaf_nodes=13, random_state=0),
    "regressor": lambda: DecisionTreeRegressor(min_samples_leaf=3, random_state=0),
    "regressor, best first": lambda: DecisionTreeRegressor(max_leaf_nodes=20, random_state=0),
    "at random": lambda: ExtraTreeRegressor(random_state=0),
}
NODE = re.compile(r'^  (\d+) \[label="((?:[^"\\]|\\.)*)"(, style="rounded")?\];$')
EDGE = re.compile(r'^  (\d+) -> (\d+) \[label="(yes|no)"\];$')
ARRAYS_NOT_OF_SKLEARN = [
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
]
N = 60
NUMBERS = {
    **{f"size 1e{e}": (lambda rng, e=e: spread(rng, float(f"1e{e}"))) for e in (-300, -100, -7, 0, 7, 100, 300)},
    **{f"offset 1e{e}": (lambda rng, e=e: spread(rng, 1.0, float(f"1e{e}"))) for e in (3, 6, 9, 12, 15)},
    "Unix seconds": lambda rng: 1.7e9 + np.arange(N) // 5,
    "Unix seconds with fractions": lambda rng: 1.7e9 + np.arange(N) * 1e-6,
    "neighbouring floats": lambda rng: rng.choice(next_floats(0.1), N),
    "neighbouring large floats": lambda rng: rng.choice(next_floats(1e300), N),
    "smallest floats": lambda rng: rng.choice([-5e-324, -0.0, 0.0, 5e-324, 1e-323], N),
    "largest floats": lambda rng: rng.choice([-1.7976931348623157e308, -1e308, 0.0, 1e308, 1.7976931348623157e308], N),
    "large integers": lambda rng: 2**53 - rng.integers(0, 30, N),
    "ties": lambda rng: rng.choice([0.1, 0.2, 0.30000000000000004, 0.3], N),
    "thirds": lambda rng: rng.integers(0, 20, N) / 3.0,
}
LABELS = ["a, b", "}", "{", "it's", 'say "x"', " lead", "", "missing", "yes", "no", "a\nb", "größer", "\\", "x0 <= 3"]
FRAMES = {
    "dates": lambda rng: pd.to_datetime("2024-02-20") + pd.to_timedelta(rng.integers(0, 30, N), "D"),
    "times": lambda rng: pd.to_datetime("2024-02-20 23:59:58") + pd.to_timedelta(rng.integers(0, 9, N), "s"),
    "microseconds": lambda rng: pd.to_datetime("2024-02-20 23:59:58") + pd.to_timedelta(rng.integers(0, 9, N), "us"),
    "times of decades": lambda rng: pd.to_datetime("1950-01-01") + pd.to_timedelta(rng.integers(0, 10**9, N) * 2, "s"),
    "zone": lambda rng: (
        pd.to_datetime("2024-03-31 00:10").tz_localize("Europe/Berlin")
        + pd.to_timedelta(rng.integers(0, 300, N), "min")
    ),
    "flags": lambda rng: rng.integers(0, 2, N).astype(bool),
    "categories": lambda rng: pd.Categorical(rng.choice(LABELS, N)),
}
CASES = [(kind, gaps) for kind in NUMBERS | FRAMES for gaps in (False, True)]
N_WORDS = 80
STUMP = ([0, -1, -1], [0.5, 0, 0], [1, 0, 0], [2, 0, 0])
TERM = re.compile(r"([+-]) (\S+) (\(.*? - .*?\)|[^ +-]+)")


def tree_with(**changes):
    return pt.Tree(**{**NODES, **changes})


def set_at(name, node, value):
    start = {"categories": [-1] * 5, "default_left": [False] * 5, **NODES}[name]
    return {name: [value if i == node else v for i, v in enumerate(start)]}


def test_the_tree_itself():
    tree = tree_with()
    assert (tree.n_nodes, tree.n_leaves, tree.depth) == (5, 3, 2) and tree.node_depth.tolist() == [0, 1, 2, 2, 1]
    assert tree.apply(X).tolist() == [2, 3, 4, 2] and repr(tree) == "Tree(n_leaves=3, depth=2)"
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
    refuses(message, lambda: tree_with(**changes))


def test_format():
    value = np.array([[0.5], [1.0], [1.25], [-3.0], [1234567.0]])
    assert tree_with(value=value).format().split("\n") == [
        "x0 <= 2",
        "|-- yes: x1 <= 5",
        "|   |-- yes: leaf 1.25",
        "|   `-- no:  leaf -3",
        "`-- no:  leaf 1234567",
    ]


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
    refuses("this tree carries no values", lambda: tree_with().predict(X))


@pytest.mark.parametrize(
    ("table", "message"),
    [([1.0, 2.0], r"X has 1 dimension\(s\); give a table"), ([[1.0]], "X has 1 columns; the tree splits on feature 1")],
)
def test_apply_refuses_tables_of_another_shape(table, message):
    refuses(message, lambda: tree_with().apply(table))


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
    X = rng.normal(size=(n, 4)).astype(np.float32)
    X[rng.random(X.shape) < fraction] = np.nan
    numbers = np.where(np.isnan(X), 0.5, X)
    return X, numbers[:, 0] * numbers[:, 1] + 2.0 * np.isnan(X[:, 2]) + 0.1 * rng.normal(size=n)


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


@pytest.mark.parametrize(("fitted", "message"), ARRAYS_NOT_OF_SKLEARN)
def test_from_sklearn_refuses_other_arrays(fitted, message):
    refuses(message, lambda: pt.Tree.from_sklearn(fitted))


def random_tree(n_leaves, seed, p=3):
    """Thresholds that float32 holds exactly."""
    rng = np.random.default_rng(seed)
    nodes = []

    def grow(n):
        here = len(nodes)
        nodes.append([-1, 0.0, 0, 0])
        if n > 1:
            nodes[here][:3] = [int(rng.integers(p)), float(rng.integers(-8, 8)) / 4.0, len(nodes)]
            first = int(rng.integers(1, n))
            grow(first)
            nodes[here][3] = len(nodes)
            grow(n - first)

    grow(n_leaves)
    return pt.Tree(*zip(*nodes, strict=True), value=rng.normal(size=(len(nodes), 1)))


def parsed(dot):
    """Labels and edges of the nodes; every line must be one of the two kinds."""
    lines = dot.split("\n")
    assert lines[0].startswith("digraph ") and lines[-1] == "}"
    nodes, edges = {}, {}
    for line in lines[4:-1]:
        node, edge = NODE.match(line), EDGE.match(line)
        assert (node is None) != (edge is None), line
        if node:
            nodes[int(node[1])] = node[2], node[3] is not None
        else:
            edges[int(edge[1]), edge[3]] = int(edge[2])
    return nodes, edges


@pytest.mark.parametrize("n_leaves", [1, 2, 30])
def test_dot_has_every_node_and_edge(n_leaves):
    tree = random_tree(n_leaves, n_leaves)
    nodes, edges = parsed(tree.to_dot())
    inner = np.flatnonzero(tree.feature >= 0)
    assert edges == {(i, "yes"): tree.left[i] for i in inner} | {(i, "no"): tree.right[i] for i in inner}
    for i in range(tree.n_nodes):
        is_leaf = tree.feature[i] < 0
        assert nodes[i] == (f"{tree.value[i, 0]:.6g}" if is_leaf else tree.split(i), is_leaf)


@pytest.mark.more(everyday=["1"])
@pytest.mark.parametrize("n_leaves", [1, 2, 40])
def test_scikit_learns_own_code_predicts_alike_from_the_arrays(n_leaves):
    tree = random_tree(n_leaves, 7)
    arrays = tree.to_sklearn()
    X = np.random.default_rng(3).integers(-10, 10, (300, 3)) / 4.0
    fitted = DecisionTreeRegressor(max_depth=1).fit(X, X[:, 0])
    state = fitted.tree_.__getstate__()
    nodes = np.zeros(tree.n_nodes, dtype=state["nodes"].dtype)
    nodes["left_child"], nodes["right_child"] = arrays["children_left"], arrays["children_right"]
    nodes["feature"], nodes["threshold"] = arrays["feature"], arrays["threshold"]
    changed = {"nodes": nodes, "values": arrays["value"], "node_count": tree.n_nodes, "max_depth": tree.depth}
    theirs = type(fitted.tree_)(3, np.array([1]), 1)
    theirs.__setstate__(state | changed)
    np.testing.assert_array_equal(theirs.predict(X.astype(np.float32))[:, 0], tree.predict(X))
    np.testing.assert_array_equal(theirs.apply(X.astype(np.float32)), tree.apply(X))


def test_nominal_splits_are_refused_with_what_to_do():
    frame = pd.DataFrame({"colour": pd.Categorical(["red", "blue"])})
    columns = pt.TreeModel(frame, [0, 1]).columns
    tree = pt.Tree([0, -1, -1], [0, 0, 0], [1, 0, 0], [2, 0, 0], categories=[1, -1, -1], columns=columns)
    refuses(r"node 0 has a nominal split.*colour in \{blue\}.*indicator columns", lambda: tree.to_sklearn())


def leaves_of_sklearn(arrays, X):
    """Leaf (n,) by scikit-learn's own rule: X as float32 against thresholds in float64."""
    x, out = np.asarray(X, dtype=np.float32), np.zeros(len(X), dtype=np.int64)
    for i, row in enumerate(x):
        node = 0
        while arrays["children_left"][node] >= 0:
            value = row[arrays["feature"][node]]
            left = arrays["missing_go_to_left"][node] == 1 if np.isnan(value) else value <= arrays["threshold"][node]
            node = arrays["children_left" if left else "children_right"][node]
        out[i] = node
    return out


def unix_seconds(step, n=200):
    rng = np.random.default_rng(0)
    return (1.7e9 + step * rng.permutation(n))[:, None]


def prior_trees(X, split_prior=None, n=10):
    model = pt.TreeModel(
        X, np.arange(len(X)) % 2, tree_prior=pt.ChipmanPrior(0.97, 0.3), split_prior=split_prior or pt.LocalCuts()
    )
    rng = np.random.default_rng(1)
    return pt.posterior_from_trees(model, [draw_prior(model, rng).tree for _ in range(n)])


def check_agreement(X, split_prior=None, rows=None):
    """Every exported tree agrees with the tree on all rows, or is refused; returns how many are exported."""
    post, exported, refused = prior_trees(X, split_prior), 0, []
    for t in range(post.draws.n_distinct_trees):
        tree = post.draws.distinct_tree(t)
        try:
            arrays = tree.to_sklearn(rows)
        except ValueError as error:
            refused.append(str(error))
            continue
        exported += 1
        np.testing.assert_array_equal(leaves_of_sklearn(arrays, X), tree.apply(X))
    assert all("'x0'" in message and "float32" in message for message in refused)
    return exported


@pytest.mark.more(everyday=["1.0"])
@pytest.mark.parametrize("step", [1.0, 64.0, 100.0, 150.0, 1000.0])
def test_all_training_rows_agree_or_the_column_is_named(step):
    assert (check_agreement(unix_seconds(step)) > 0) == (step > 100.0) or step == 100.0


def spread(rng, size, offset=0.0):
    return offset + size * rng.normal(size=N)


def next_floats(start, n=12):
    """Neighbouring floats."""
    out = [start]
    for _ in range(n - 1):
        out.append(np.nextafter(out[-1], np.inf))
    return np.array(out)


def table_of(kind, rng, gaps=False):
    """A frame with a column of this kind, a column of whole numbers, and an odd name."""
    column = pd.Series((NUMBERS | FRAMES)[kind](rng))
    if gaps:
        column = column.astype(object) if column.dtype == bool else column.copy()
        column[rng.random(N) < 0.2] = None
    return pd.DataFrame({"a <= b": column, "a": rng.integers(0, 9, N).astype(float)})


def model_of(X, gaps=False, **kwargs):
    """A model that likes deep trees."""
    return pt.TreeModel(
        X,
        np.arange(len(X)) % 2,
        tree_prior=pt.ChipmanPrior(0.97, 0.3, max_depth=7),
        missing="branch" if gaps else "error",
        **kwargs,
    )


def trees_of(model, n=6, seed=3):
    rng = np.random.default_rng(seed)
    return pt.posterior_from_trees(model, [draw_prior(model, rng).tree for _ in range(n)])


def check_printed(X, gaps, **kwargs):
    """Text, dot and the words of cells of some trees, read as programs; returns the posterior."""
    post = trees_of(model_of(X, gaps, **kwargs))
    columns = table_columns(X)
    for t in range(post.draws.n_distinct_trees):
        tree = post.draws.distinct_tree(t)
        leaf = tree.apply(X)
        assert same_partition(partition_of_text(tree.format(), X), leaf), tree.format()
        if not any("\n" in str(c) for c in columns["a <= b"]):
            assert np.array_equal(partition_of_dot(tree.to_dot(), X), leaf)
    result = post.support(0.0)
    for words, rows in zip(result.words, result.rows, strict=True):
        if ": " not in words:
            assert hold_together(words, columns).sum() == rows, words
    check_consensus(post.consensus_tree(join_cuts=False), columns)
    return post


def check_consensus(tree, columns):
    """The words of each node select its rows among those of its parent."""
    rows_of_node = [np.ones(N, dtype=bool)]
    for i in range(1, len(tree.words)):
        rows_of_node.append(rows_of_node[tree.parent[i]] & hold_together(tree.words[i], columns))
        assert rows_of_node[i].sum() == tree.rows[i], tree.words[i]


@pytest.mark.more(
    everyday=[
        "size 1e-300-False",
        "size 1e-100-True",
        "size 1e-7-False",
        "size 1e0-False",
        "size 1e7-True",
        "size 1e100-False",
    ]
)
@pytest.mark.parametrize(("kind", "gaps"), CASES)
def test_printed_trees_give_back_the_partition(kind, gaps):
    check_printed(table_of(kind, np.random.default_rng(len(kind)), gaps), gaps)


@pytest.mark.parametrize("seed", range(4))
def test_the_shortest_number_between_two(seed):
    rng = np.random.default_rng(seed)
    for _ in range(300):
        low = float(rng.normal() * 10.0 ** rng.integers(-300, 300)) * float(rng.choice([0.0, 1.0, 1.0, 1.0]))
        high = float(
            rng.choice([np.nextafter(low, np.inf), low + abs(low) * 10.0 ** -rng.integers(0, 16), abs(low) + 1.0])
        )
        if not low < high:
            continue
        midpoint = low / 2.0 + high / 2.0
        midpoint = midpoint if low <= midpoint < high else low
        text = shortest_between(low, high, midpoint)
        assert low <= float(text) < high
        digits = len(re.sub(r"e.*", "", text).replace(".", "").replace("-", "").lstrip("0").rstrip("0"))
        for fewer in range(1, digits if digits > 6 else 1):
            step = 10.0 ** (math.floor(math.log10(abs(midpoint))) - fewer + 1)
            around = [round(midpoint / step) * step + j * step for j in (-1, 0, 1)]
            assert not any(low <= float(f"{x:.{fewer - 1}e}") < high for x in around)


def nested_table(seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "g": pd.Categorical(rng.choice(list("abcdef"), N)),
            "h": pd.Categorical(rng.choice(["u", "v", "w"], N)),
            "x": rng.normal(size=N),
        }
    )


@pytest.mark.more(everyday=["0-prior0"])
@pytest.mark.parametrize("prior", [pt.LocalCuts(), pt.GridCuts(4)])
@pytest.mark.parametrize("seed", range(3))
def test_nested_nominal_splits_name_what_the_cell_can_contain(prior, seed):
    X = nested_table(seed)
    post = trees_of(model_of(X, split_prior=prior), seed=seed)
    for t in range(post.draws.n_distinct_trees):
        tree = post.draws.distinct_tree(t)
        assert same_partition(partition_of_text(tree.format(), X), tree.apply(X))


def missing_model(leaf=None):
    x = np.concatenate([np.full(20, np.nan), np.tile([1.0, 2.0], 20)])[:, None]
    return pt.TreeModel(x, np.isnan(x[:, 0]), missing="branch", leaf=leaf)


def missing_posterior():
    """Both ways to separate missing from known values, and a tree that splits known ones."""
    trees = [pt.Tree([0, -1, -1], [np.nan, 0, 0], [1, 0, 0], [2, 0, 0], default_left=[side, 0, 0]) for side in (0, 1)]
    other = pt.Tree([0, -1, -1], [1.5, 0, 0], [1, 0, 0], [2, 0, 0], default_left=[1, 0, 0])
    return pt.posterior_from_trees(missing_model(), [*trees, other], [[0, 1, 2, 2]])


def test_a_split_of_missing_from_known_values_has_no_threshold():
    post = missing_posterior()
    trees = [post.draws.distinct_tree(t) for t in range(3)]
    assert [bool(np.isnan(tree.threshold[0])) for tree in trees] == [True, True, False]
    assert [tree.split(0) for tree in trees] == ["x0 is known", "x0 is missing", "x0 <= 1.5 or missing"]
    assert post._root_split_pmf() == {
        (0, None, "missing right"): 0.25,
        (0, None, "missing left"): 0.25,
        (0, 1.5, "missing left"): 0.5,
    }
    table = [[np.nan], [-1e308], [1e308]]
    assert [tree.apply(table).tolist() for tree in trees] == [[2, 1, 1], [1, 2, 2], [1, 1, 2]]
    assert post.predict_proba(table).shape == (3, 2)
    for tree in trees:
        assert pt.Tree.from_sklearn(tree.to_sklearn()) == tree
        assert hash(tree) == hash(pt.Tree.from_sklearn(tree.to_sklearn()))
        assert np.isfinite(post.model.log_posterior(tree))
    assert set(post.support(0.0).words) >= {"x0 is known", "x0 is missing"}


def table(seed=0):
    return np.random.default_rng(seed).random((N_WORDS, 2))


def stump_posterior(model, feature=0, threshold=0.5):
    nodes = [[feature, -1, -1], [threshold, 0, 0], *STUMP[2:]]
    return pt.posterior_from_trees(model, [pt.Tree(*nodes)])


def evaluated(formula, columns):
    """Values (n,) of ``y = 1.2 + 3.4 x0 - 0.5 (t - 1700000000)`` at rows of columns by name."""
    constant, rest = re.fullmatch(r"y\d* = (\S+)(.*)", formula).groups()
    out = np.full(len(next(iter(columns.values()))), float(constant))
    for sign, coefficient, name in TERM.findall(rest):
        origin = 0.0
        if name.startswith("("):
            name, text = name[1:-1].rsplit(" - ", 1)
            origin = float(text) if re.fullmatch(r"[\d.e+-]+", text) and "-" not in text else pd.Timestamp(text)
        x = columns[name] - origin
        x = x / pd.Timedelta("1D") if x.dtype.kind == "m" else x
        out += (1.0 if sign == "+" else -1.0) * float(coefficient) * np.asarray(x, dtype=float)
    return out


def leaf_formulas(text):
    return re.findall(r"leaf (.*?) \(\d+ rows\)", text)


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e6])
@pytest.mark.parametrize("offset", [0.0, 1e4, 1.7e9])
def test_the_printed_regression_gives_the_predictions(scale, offset):
    X = table()
    y = scale * (3.0 + 2.0 * X[:, 1] * np.where(X[:, 0] > 0.5, -1.0, 1.0) + 0.1 * np.sin(40.0 * X[:, 0]))
    frame = pd.DataFrame({"a": X[:, 0], "seconds": offset + 100.0 * X[:, 1]})
    post = stump_posterior(pt.TreeModel(frame, y, leaf=pt.NormalLinear(["seconds", "a"])))
    left, right = leaf_formulas(post.map_tree().format())
    columns = {name: frame[name].to_numpy() for name in frame}
    printed_values = np.where(X[:, 0] <= 0.5, evaluated(left, columns), evaluated(right, columns))
    np.testing.assert_allclose(printed_values, post.predict(frame), atol=2e-3 * y.std())
    assert len(left) < 90
    for text in (post.map_tree().to_dot(), post.consensus_tree().format()):
        assert left in text and right in text


def survival(leaf):
    X = table()
    time = np.random.default_rng(1).exponential(1.0 + 5.0 * (X[:, 0] > 0.5))
    event = np.arange(N_WORDS) % 3 > 0
    return X, time, event, stump_posterior(pt.TreeModel(X, np.column_stack([time, event]), leaf=leaf))


def test_times_show_mean_events_and_time_at_risk():
    X, time, event, post = survival(pt.ExponentialGamma())
    rows = X[:, 0] <= 0.5
    mean, events, at_risk = re.fullmatch(
        r"mean (\S+), (\d+) events, time at risk (\S+)", leaf_formulas(post.map_tree().format())[0]
    ).groups()
    assert float(mean) == pytest.approx(post.predict([[0.0, 0.0]])[0], rel=1e-3) and int(events) == event[rows].sum()
    assert float(at_risk) == pytest.approx(time[rows].sum(), rel=1e-3)
    _, _, _, weibull = survival(pt.WeibullGamma(k=2.0))
    assert re.fullmatch(r"mean \S+, \d+ events", leaf_formulas(weibull.map_tree().format())[0])


def test_rows_are_not_exposures():
    X, exposure = table(), np.linspace(0.5, 4.0, N_WORDS)
    y = np.random.default_rng(2).poisson(exposure * (1.0 + 5.0 * (X[:, 0] > 0.5))).astype(float)
    weight = np.arange(N_WORDS) % 3.0
    for sample_weight in (None, weight):
        model = pt.TreeModel(X, y, leaf=pt.PoissonGamma(exposure=exposure), sample_weight=sample_weight)
        post = stump_posterior(model)
        w = np.ones(N_WORDS) if sample_weight is None else weight
        rows = X[:, 0] <= 0.5
        assert post.map_tree().rows.tolist() == [w.sum(), w[rows].sum(), w[~rows].sum()]
        assert post.consensus_tree().rows[0] == w.sum()
        assert set(post.support(0.0).rows) <= {w.sum(), w[rows].sum(), w[~rows].sum()}
        text = post.map_tree().format()
        rate, events, exposed = re.search(r"leaf rate (\S+), (\d+) events, exposure (\S+) \(", text).groups()
        assert float(rate) == pytest.approx(post.predict([[0.0, 0.0]])[0], rel=1e-3)
        assert int(events) == (w * y)[rows].sum()
        assert float(exposed) == pytest.approx((w * exposure)[rows].sum(), rel=1e-3)
