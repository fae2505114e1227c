"""Input that TreeModel accepts: tables, labels and weights of every kind, and edge cases that are not errors."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import pactree_mcmc as pt

X = np.array([[0.0, 3.0], [1.0, 1.0], [2.0, 4.0], [3.0, 2.0]])
Y = [0, 1, 1, 0]
STUMP = pt.Tree([-1], [0], [0], [0])
SPLIT = pt.Tree([0, -1, -1], [1.5, 0, 0], [1, 0, 0], [2, 0, 0])


def log_posteriors(table, y=Y, **parts):
    """Log posterior of the stump and of x0 <= 1.5."""
    model = pt.TreeModel(table, y, **parts)
    return [model.log_posterior(tree) for tree in (STUMP, SPLIT)]


READ_ONLY = X.copy()
READ_ONLY.setflags(write=False)
SAME_TABLES = {
    "Fortran order": np.asfortranarray(X),
    "float32": X.astype(np.float32),
    "float16": X.astype(np.float16),
    "int8": X.astype(np.int8),
    "uint64": X.astype(np.uint64),
    "objects": X.astype(object),
    "read-only": READ_ONLY,
    "strided": np.repeat(X, 2, axis=1)[:, ::2],
    "lists": X.tolist(),
    "pandas": pd.DataFrame(X, columns=["a", "b"]),
    "pandas, nullable": pd.DataFrame(X, columns=["a", "b"]).astype("Int64"),
    "pandas, nullable floats": pd.DataFrame(X).astype("Float64"),
    "polars": pl.DataFrame(X, schema=["a", "b"]),
    "polars, mixed types": pl.DataFrame({"a": X[:, 0].astype(int), "b": X[:, 1].astype(np.float32)}),
}


@pytest.mark.parametrize("table", SAME_TABLES.values(), ids=SAME_TABLES.keys())
def test_tables_that_say_the_same(table):
    assert log_posteriors(table) == log_posteriors(X)


NOMINAL_TABLES = {
    "pandas": pd.DataFrame({"u": pd.Categorical(["b", "a", "c", "b"], categories=["c", "b", "a", "unused"])}),
    "polars categorical": pl.DataFrame({"u": pl.Series(["b", "a", "c", "b"], dtype=pl.Categorical)}),
    "lists": [["b"], ["a"], ["c"], ["b"]],
    "objects": np.array([["b"], ["a"], ["c"], ["b"]], dtype=object),
    "dict": {"u": ["b", "a", "c", "b"]},
}


@pytest.mark.parametrize("table", NOMINAL_TABLES.values(), ids=NOMINAL_TABLES.keys())
def test_categoricals_and_text_are_nominal(table):
    columns = pt.TreeModel(table, Y).columns
    assert columns.is_nominal.tolist() == [True]
    assert columns.categories[0].tolist() == ["a", "b", "c"]


def test_63_categories_are_allowed():
    model = pt.TreeModel(pd.DataFrame({"u": pd.Categorical([f"{i:02}" for i in range(63)])}), np.arange(63) % 2)
    tree = pt.Tree([0, -1, -1], [0] * 3, [1, 0, 0], [2, 0, 0], [0b1, -1, -1])
    assert model.log_prior(tree) == pytest.approx(np.log(0.95) - np.log(2.0**62 - 1) + np.log1p(-0.95 / 4))


LABELS = {
    "integers": ([3, 7, 7, 3], [3, 7]),
    "booleans": ([False, True, True, False], [False, True]),
    "strings": (["no", "yes", "yes", "no"], ["no", "yes"]),
    "objects": (np.array(["no", "yes", "yes", "no"], dtype=object), ["no", "yes"]),
    "series": (pd.Series([3, 7, 7, 3], index=[9, 8, 7, 6]), [3, 7]),
    "nullable": (pd.Series([3, 7, 7, 3], dtype="Int64"), [3, 7]),
    "categorical": (pd.Series(["no", "yes", "yes", "no"], dtype="category"), ["no", "yes"]),
    "polars": (pl.Series(["no", "yes", "yes", "no"]), ["no", "yes"]),
    "one column": (np.array([[3], [7], [7], [3]]), [3, 7]),
}


@pytest.mark.parametrize(("y", "classes"), LABELS.values(), ids=LABELS.keys())
def test_labels(y, classes):
    model = pt.TreeModel(X, y)
    assert isinstance(model.leaf, pt.DirichletMultinomial)
    assert model.classes_.tolist() == classes
    assert log_posteriors(X, y) == log_posteriors(X)


EDGES = {
    "constant column": (np.column_stack([X[:, 0], np.ones(4)]), Y),
    "constant table": (np.ones((4, 2)), Y),
    "constant y": (X, [2.5] * 4),
    "one class": (X, ["a"] * 4),
    "one feature": (X[:, :1], Y),
    "two rows": (X[:2], Y[:2]),
    "two identical rows": (X[[0, 0]], [0, 1]),
    "huge and tiny values": (np.array([[1e308, 5e-324], [-1e308, 0.0], [0.0, -5e-324], [1.0, 1e-300]]), Y),
}
SPLIT_PRIORS = [
    pt.LocalCuts(),
    pt.LocalCuts(True),
    pt.LocalCuts(max_cuts=1),
    pt.GridCuts(2),
    pt.DyadicCuts(2),
    pt.FixedTree(SPLIT),
]


@pytest.mark.parametrize("split_prior", SPLIT_PRIORS, ids=repr)
@pytest.mark.parametrize(("table", "y"), EDGES.values(), ids=EDGES.keys())
def test_edges_are_no_errors(table, y, split_prior):
    model = pt.TreeModel(table, y, split_prior=split_prior, tree_prior=pt.BranchingProcess(0.5, 2))
    assert np.isfinite(model.log_posterior(STUMP))
    tree, simulated = pt.simulate(model, rng=1)
    assert np.isfinite(model.log_posterior(tree))
    assert len(simulated) == len(y)


@pytest.mark.parametrize(
    "weight", [[1, 2, 0, 1], pd.Series([1.0, 2.0, 0.0, 1.0], index=list("abcd")), pl.Series([1, 2, 0, 1])]
)
def test_sample_weights(weight):
    assert log_posteriors(X, sample_weight=weight) == log_posteriors(X, sample_weight=np.array([1.0, 2.0, 0.0, 1.0]))


@pytest.mark.parametrize("nominal", [None, 1])
@pytest.mark.parametrize("split_prior", SPLIT_PRIORS[:4], ids=repr)
def test_input_is_never_modified(split_prior, nominal):
    table, y, weight = X[[0, 1, 2, 3, 0, 1]].copy(), np.array([0.5, 2, 1, 0, 0.5, 2]), np.array([1.0, 2, 3, 4, 5, 6])
    before = [a.copy() for a in (table, y, weight)]
    prior = pt.BranchingProcess(0.5, 3)
    model = pt.TreeModel(table, y, split_prior=split_prior, nominal=nominal, sample_weight=weight, tree_prior=prior)
    model.log_posterior(SPLIT)
    for array, copy in zip((table, y, weight), before, strict=True):
        np.testing.assert_array_equal(array, copy)
