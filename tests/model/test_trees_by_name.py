"""Trees and tables with names of columns meet by name: a permuted table gives the answers of the table itself."""

from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier

import exact
import pactree_mcmc as pt

mpl.use("Agg")

RNG = np.random.default_rng(5)
N = 60
X = pd.DataFrame({name: RNG.integers(0, high, N).astype(float) for name, high in (("a", 6), ("b", 5), ("c", 4))})
PERMUTED = X[["c", "a", "b"]]
Y = np.where((X.a > 2) & (X.b > 1), "hi", "lo")
TREE = pt.Tree(
    [0, -1, 1, -1, -1],
    [2.5, 0, 1.5, 0, 0],
    [1, 0, 3, 0, 0],
    [2, 0, 4, 0, 0],
    value=np.eye(2)[[1, 1, 0, 1, 0]],
    columns=pt.TreeModel(X, Y).columns,
    classes=["hi", "lo"],
)
CART = DecisionTreeClassifier(max_depth=2, random_state=0).fit(X, Y)
QUICK = {"progress": False}
ONLY_BY_NAME = {
    "log_prior": lambda: pt.TreeModel(X.rename(columns={"a": "z"}), Y).log_prior(TREE),
    "FixedTree": lambda: pt.TreeModel(X[["a", "b"]], Y, split_prior=pt.FixedTree(TREE)),
    "ranges": lambda: pt.certificates.occam_tree_bound(TREE, PERMUTED, Y, ranges=[[-1, 9]] * 3),
    "DesignCounts": lambda: exact.DesignCounts(pt.FixedTree(TREE)).update(X.rename(columns={"a": "z"}), Y),
}


def model(table, **parts):
    return pt.TreeModel(table, Y, **parts)


def solve(table, **parts):
    return exact.solve(model(table, tree_prior=pt.BranchingProcess(0.5, 3), **parts), **QUICK)


def evidence_of_prunings(table, design):
    truth = exact.solve(model(table, split_prior=design, tree_prior=pt.BranchingProcess(0.5, None)), **QUICK)
    return np.append(truth.log_evidence, truth.predict_proba(X))


def n_draws_from_tree(table):
    """The start would be refused by position: only column a has values above 4.5."""
    start = pt.Tree([0, -1, -1], [4.5, 0, 0], [1, 0, 0], [2, 0, 0], columns=TREE.columns)
    return pt.sample(model(table), 5, tune=0, chains=1, rng=1, start=start, kernel="grow-prune", **QUICK).n_draws


def design_counts(table):
    counts = exact.DesignCounts(pt.FixedTree(TREE))
    for rows in (slice(0, 20), slice(20, N)):
        counts.update(table[rows], Y[rows])
    return counts.solve(tree_prior=pt.BranchingProcess(0.5, None)).log_evidence


def mixture_bound(table):
    parts = {"leaf": pt.FrozenLaplace(), "tree_prior": pt.BranchingProcess(0.5, 3)}
    return exact.kl_bound(
        model(table, estimation=0.5, split_prior=pt.LocalCuts(trivial=True), **parts), TREE, splits="global"
    ).total


def survival(table):
    y = np.column_stack([np.arange(1.0, N + 1), np.ones(N)])
    post = pt.posterior_from_trees(pt.TreeModel(table, y, leaf=pt.ExponentialGamma()), [replace(TREE, value=None)])
    return sorted(post.calibration(table, y, groups=replace(TREE, value=None)).names)


def leaves_drawn(table):
    post = pt.posterior_from_trees(model(table), [TREE])
    return sorted(text.get_text() for text in pt.plots.plot_leaves(post, tree=TREE).texts)


def partition(table):
    post = pt.posterior_from_trees(model(table), [TREE])
    return pt.plots.plot_partition(post, ("a", "b"), tree=TREE).collections[0].get_array().tolist()


CALLS = {
    "log_posterior": lambda t: model(t).log_posterior(TREE),
    "log_prior": lambda t: model(t).log_prior(TREE),
    "log_score": lambda t: model(t).log_score(TREE),
    "posterior_from_trees": lambda t: pt.posterior_from_trees(model(t), [TREE]).predict_proba(X),
    "sample, start": n_draws_from_tree,
    "FixedTree": lambda t: evidence_of_prunings(t, pt.FixedTree(TREE)),
    "FixedTree.from_sklearn": lambda t: evidence_of_prunings(t, pt.FixedTree.from_sklearn(CART)),
    "kd_tree": lambda t: evidence_of_prunings(t, pt.kd_tree(X, 3)),
    "dyadic_tree": lambda t: evidence_of_prunings(t, pt.dyadic_tree(X, 3)),
    "Tree.from_sklearn": lambda t: pt.Tree.from_sklearn(CART).predict(t),
    "level": lambda t: solve(t).credible_set(0.95).level(TREE),
    "level of a scikit-learn tree": lambda t: solve(t).credible_set(0.95).level(CART),
    "Prunings": lambda t: exact.Prunings(TREE, t, Y).minimum_cost,
    "Prunings of a scikit-learn tree": lambda t: exact.Prunings(CART, t, Y).minimum_cost,
    "prediction of a pruning": lambda t: exact.Prunings(CART, t, Y).of_size(3).predict(X),
    "compression_tree_bound": lambda t: pt.certificates.compression_tree_bound(TREE, t, Y).value,
    "compression_tree_bound of a scikit-learn tree": lambda t: (
        pt.certificates.compression_tree_bound(pt.Tree.from_sklearn(CART), t, Y).value
    ),
    "root_fragment": lambda t: pt.certificates.root_fragment(TREE, t, Y, split_bits=3.0).value,
    "count_global_splittings": lambda t: exact.count_global_splittings(t, TREE),
    "kl_bound": mixture_bound,
    "DesignCounts": design_counts,
    "minimise_root_fragment": lambda t: exact.minimise_root_fragment(
        t, Y, split_prior=pt.FixedTree(TREE), strength=0.01
    ).tree.predict(t),
    "BayesianTreeClassifier": lambda t: (
        pt.BayesianTreeClassifier(split_prior=pt.FixedTree(TREE), random_state=1).fit(t, Y).predict_proba(t)
    ),
    "calibration": survival,
    "plot_leaves": leaves_drawn,
    "plot_partition": partition,
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_permuted_columns_change_nothing(call):
    expected, answer = call(X), call(PERMUTED)
    if isinstance(expected, float) or np.asarray(expected).dtype.kind == "f":
        np.testing.assert_allclose(answer, expected, rtol=1e-9)
    else:
        assert np.all(np.asarray(answer) == np.asarray(expected))


@pytest.mark.parametrize("call", ONLY_BY_NAME.values(), ids=ONLY_BY_NAME.keys())
def test_other_names_are_refused(call):
    with pytest.raises(ValueError, match=r"\['a', 'b', 'c'\]") as refusal:
        call()
    assert str(refusal.value).count("[") == 2


@pytest.mark.parametrize("kind", ["categories", "levels", "numbers and dates"])
def test_other_codes_of_values_are_refused(kind):
    """A tree stores indices of categories and levels, which mean other values over other categories and levels."""
    texts = np.array(["p", "q", "r"])[np.arange(N) % 3]
    columns = {
        "categories": (texts, np.where(texts == "p", "s", texts)),
        "levels": tuple(pd.Categorical(texts, order, ordered=True) for order in (["p", "q", "r"], ["r", "q", "p"])),
        "numbers and dates": (np.arange(N), pd.date_range("2020", periods=N)),
    }[kind]
    mine, theirs = (pt.TreeModel(pd.DataFrame({"v": column}), Y) for column in columns)
    y = np.arange(N) % 3 == 0
    tree = exact.solve(pt.TreeModel(pd.DataFrame({"v": columns[0]}), y), max_cells=10**7, **QUICK).draw_trees(50, 1)
    tree = next(t for t in tree if t.n_leaves > 1)
    assert mine.log_prior(tree) > -np.inf
    with pytest.raises(ValueError, match=r"the tree has .* column 'v', and the model .*; give a tree over the same"):
        theirs.log_prior(tree)
