"""Missing values through the public interface."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import exact
import pactree_mcmc as pt

NAN = np.nan


def table(n=50, seed=0):
    """Two columns with gaps, one without; missing values of the first tell the class."""
    rng = np.random.default_rng(seed)
    x, is_missing = rng.normal(size=n).round(1), rng.random(n) < 0.3
    town = rng.choice(["a", "b", None], n)
    y = np.where(is_missing, "lost", np.where(x > 0, "high", "low"))
    return pd.DataFrame({"x": np.where(is_missing, NAN, x), "town": town, "z": rng.integers(0, 3, n)}), y


def model(split_prior=None, **parts):
    X, y = table()
    split_prior = pt.LocalCuts(max_cuts=5) if split_prior is None else split_prior
    prior = pt.ChipmanPrior(0.95, 1.0, max_depth=2)
    return pt.TreeModel(X, y, nominal=["town"], missing="branch", split_prior=split_prior, tree_prior=prior, **parts)


def draws(of, n=60, **how):
    return pt.sample(of, n, tune=20, chains=2, rng=3, kernel="grow-prune", progress=False, **how)


NEW = pd.DataFrame({"x": [NAN, 1.0, -1.0], "town": ["a", None, "c"], "z": [0, 1, 2]})


def test_it_may_matter_that_a_value_is_missing():
    truth = exact.solve(model())
    text = truth.map_tree().format()
    assert "x is missing" in text or "x is known" in text
    assert truth.predict_proba(NEW)[0, truth.model.classes_.tolist().index("lost")] > 0.6
    assert {key[2] for key in truth._root_split_pmf() if key and key[0] == 0} == {"missing left", "missing right"}


@pytest.mark.parametrize("split_prior", [pt.LocalCuts(max_cuts=5), pt.GridCuts(5)], ids=["local", "grid"])
def test_draws_of_the_exact_posterior_agree_with_the_model(split_prior):
    """Each tree, read from its thresholds and sides, has the scores it was drawn with."""
    of = model(split_prior)
    sample = exact.solve(of).sample(40, rng=1)
    for t in range(sample.draws.n_distinct_trees):
        tree = sample.draws.distinct_tree(t)
        assert of.log_prior(tree) == pytest.approx(sample.draws.log_prior_of_tree[t], abs=1e-9)
        assert of.log_score(tree) == pytest.approx(sample.draws.log_score_of_tree[t], abs=1e-9)


@pytest.mark.parametrize("missing_left", [False, True])
def test_missing_values_go_to_the_side_that_the_split_says(missing_left):
    """The model gives each leaf the rows that the tree sends there by its threshold."""
    X = np.array([[NAN], [1.0], [2.0], [NAN], [3.0]])
    of = pt.TreeModel(X, [0, 1, 1, 0, 0], missing="branch")
    tree = pt.Tree([0, -1, -1], [1.5, 0, 0], [1, 0, 0], [2, 0, 0], default_left=[missing_left, False, False])
    leaf, units = tree.apply(X), {visit.number: set(visit.cell.index.tolist()) for visit in of.visit(tree)}
    assert set(leaf[[0, 3]]) == {1 if missing_left else 2}
    for number in (1, 2):
        assert units[number] == set(of.unit_of_row[leaf == number].tolist())


@pytest.mark.more(everyday=["DataFrame0"])
@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_forms_of_missing(frame):
    """NaN, None, pandas' NA and polars' null are the same."""
    truth = exact.solve(model())
    expected = truth.predict_proba(NEW)
    columns = {"x": [None, 1.0, -1.0], "town": ["a", None, "c"], "z": [0, 1, 2]}
    assert (truth.predict_proba(frame(columns)) == expected).all()
    if frame is pd.DataFrame:
        assert (truth.predict_proba(NEW.convert_dtypes()) == expected).all()
    assert (truth.predict_proba(np.array(list(zip(*columns.values(), strict=True)), dtype=object)) == expected).all()


def test_missing_where_none_was_in_training():
    """A value missing in column z follows the larger branch."""
    X, y = [[0.0], [0.0], [0.0], [1.0]], [0, 0, 0, 1]
    of = pt.TreeModel(X, y, missing="branch", tree_prior=pt.ChipmanPrior(0.9, 1.0))
    truth, post = exact.solve(of), draws(of)
    assert truth.predict_proba([[NAN]]) == pytest.approx(truth.predict_proba([[0.0]]))
    assert (post.predict_proba([[NAN]]) == post.predict_proba([[0.0]])).all()


@pytest.mark.parametrize(
    ("X", "parts", "words"),
    [
        ([[NAN], [1.0]], {}, ["column 'x0'", "NaN", "row 0", 'missing="branch"']),
        ([[NAN], [NAN]], {"missing": "branch"}, ["column 'x0'", "no value at all", "drop it"]),
        ([[NAN], [np.inf]], {"missing": "branch"}, ["column 'x0'", "infinity", "row 1"]),
        ([[NAN], [1.0]], {"missing": "drop"}, ["missing='drop'", "error", "branch"]),
        ([[NAN], [1.0]], {"missing": None}, ["missing=None", "error", "branch"]),
        ([[None], ["a"]], {"nominal": [0]}, ["column 'x0'", "missing value", 'missing="branch"']),
        (
            [[NAN], [1.0]],
            {"missing": "branch", "split_prior": pt.FixedTree(pt.Tree([0, -1, -1], [0, 0, 0], [1, 0, 0], [2, 0, 0]))},
            ["column 'x0'", "FixedTree", "LocalCuts"],
        ),
        (
            [[NAN], [1.0]],
            {
                "missing": "branch",
                "split_prior": pt.LocalCuts(trivial=True),
                "tree_prior": pt.BranchingProcess(0.5, max_depth=2),
            },
            ["column 'x0'", "trivial"],
        ),
    ],
)
def test_what_is_refused(X, parts, words):
    with pytest.raises(ValueError) as refused:
        pt.TreeModel(np.array(X, dtype=object), [0, 1], **parts)
    for word in words:
        assert word in str(refused.value)


def test_cuts_of_a_table_with_gaps_are_those_of_the_model():
    """`GridCuts.from_table(missing="branch")` of a model's own table is `GridCuts` of a number."""
    X, _ = table()
    with pytest.raises(ValueError, match="column 'x' contains NaN"):
        pt.GridCuts.from_table(X[["x", "z"]], 5)
    cuts = pt.GridCuts.from_table(X, 5, missing="branch")
    assert [None if c is None else len(c) for c in cuts.cuts] == [5, None, 2]
    with_given_cuts, counted = exact.solve(model(cuts)), exact.solve(model(pt.GridCuts(5)))
    assert with_given_cuts.log_evidence == counted.log_evidence
    assert np.array_equal(with_given_cuts.predict_proba(NEW), counted.predict_proba(NEW))
    known_values = X["x"].dropna().to_numpy()
    assert np.array_equal(cuts.cuts[0], pt.GridCuts.from_table(known_values[:, None], 5).cuts[0])
