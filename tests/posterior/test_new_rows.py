"""Decisions by costs, and values that the training rows do not have."""

import numpy as np
import pandas as pd
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.posterior.rows import new_rows

RNG = np.random.default_rng(0)
N = 40
PRIOR = {"tree_prior": pt.ChipmanPrior(0.8, 1.0, max_depth=2)}
X = pd.DataFrame({"a": RNG.integers(0, 4, N).astype(float), "b": RNG.choice(["u", "v"], N), "c": 1.0})
LABELS = np.array(["low", "mid", "top"])[(X["a"].to_numpy() > 1).astype(int) + (RNG.random(N) < 0.4)]
COSTS = np.array([[0.0, 1.0, 9.0], [4.0, 0.0, 1.0], [2.0, 3.0, 0.0]])
SAMPLED = {"tune": 50, "chains": 2, "rng": 1, "kernel": "local", "progress": False}


@pytest.fixture(scope="module")
def posteriors():
    """One exact and one sampled posterior of three classes."""
    model = pt.TreeModel(X, LABELS, **PRIOR)
    return exact.solve(model), pt.sample(model, 200, **SAMPLED)


def cheapest_labels(post, table, costs):
    """Return the labels of least expected cost, in plain loops."""
    out = []
    for row in post.predict_proba(table):
        expected = [sum(row[i] * costs[i][j] for i in range(3)) for j in range(3)]
        out.append(post.model.classes_[expected.index(min(expected))])
    return out


def test_the_label_of_least_expected_cost(posteriors):
    for post in posteriors:
        assert post.predict(X, costs=COSTS).tolist() == cheapest_labels(post, X, COSTS.tolist())
        assert post.predict(X, costs=1.0 - np.eye(3)).tolist() == post.predict(X).tolist()
        # what every decision of a class costs beside does not matter
        assert post.predict(X, costs=COSTS - [[5.0], [1.0], [2.0]]).tolist() == post.predict(X, costs=COSTS).tolist()
        assert post.predict(X.head(1), costs=COSTS).shape == (1,)


def test_costs_by_name_in_any_order(posteriors):
    labels = ["top", "low", "mid"]
    place = [2, 0, 1]
    frame = pd.DataFrame(COSTS[np.ix_(place, place)], index=labels, columns=labels)
    frame = frame[["mid", "top", "low"]]
    assert posteriors[0].predict(X, costs=frame).tolist() == posteriors[0].predict(X, costs=COSTS).tolist()


@pytest.mark.planted
def test_costs_read_the_wrong_way_round_are_seen(posteriors, monkeypatch):
    """Planted: rows of the costs taken as decisions, columns as classes."""
    read_costs = new_rows.read_costs
    monkeypatch.setattr(new_rows, "read_costs", lambda costs, classes: read_costs(costs, classes).T)
    assert posteriors[0].predict(X, costs=COSTS).tolist() != cheapest_labels(posteriors[0], X, COSTS.tolist())


def test_the_classifier_and_truth_values():
    y = X["a"].to_numpy() > 1
    fitted = pt.BayesianTreeClassifier(random_state=0, prior="stated").fit(X, y)
    assert fitted.predict(X, costs=[[0.0, 1.0], [1000.0, 0.0]]).tolist() == [True] * N
    frame = pd.DataFrame([[0.0, 1000.0], [1.0, 0.0]], index=[False, True], columns=[False, True])
    assert fitted.predict(X, costs=frame).tolist() == [False] * N
    assert fitted.predict(X).tolist() == y.tolist()


def test_costs_that_are_refused(posteriors):
    post = posteriors[0]
    for costs, message in (
        (COSTS[:2], r"shape \(2, 3\)"),
        (np.where(np.eye(3) > 0, np.nan, COSTS), "not finite"),
        ("dear", "costs has dtype"),
        (pd.DataFrame(COSTS), "the index of costs"),
        (pd.DataFrame(COSTS, index=["low", "mid", "top"], columns=["low", "mid", "mid"]), "the columns of costs"),
    ):
        with pytest.raises(ValueError, match=message):
            post.predict(X, costs=costs)
    regression = exact.solve(pt.TreeModel(X, X["a"] + 0.5, **PRIOR))
    with pytest.raises(ValueError, match="is a regression"):
        regression.predict(X, costs=COSTS)


NEW = pd.DataFrame({"a": [1.0, -2.0, 9.0, np.nan], "b": ["u", "w", None, "v"], "c": [1.0, 1.0, 1.0, 2.0]})
EXPECTED_LINES = [
    (1, "a", "below the smallest training value, 0"),
    (1, "b", "category not in the training rows"),
    (2, "a", "above the largest training value, 3"),
    (2, "b", "missing, but never in the training rows"),
    (3, "a", "missing, but never in the training rows"),
    (3, "c", "above the largest training value, 1"),
]


def lines_by_name(table):
    return list(zip(table["row"], table["feature"], table["reason"], strict=True))


@pytest.mark.parametrize("missing", ["error", "branch"])
def test_novel_values(posteriors, missing):
    for post in (*posteriors, exact.solve(pt.TreeModel(X, LABELS, missing=missing, **PRIOR))):
        table = post.novelty(NEW)
        assert lines_by_name(table) == EXPECTED_LINES
        assert table["value"].tolist()[:3] == [-2.0, "w", 9.0]
        assert post.novelty(X).empty
        assert post.novelty(X).columns.tolist() == ["row", "feature", "value", "reason"]
        assert lines_by_name(post.novelty(NEW.iloc[[2]])) == [(0, *entry[1:]) for entry in EXPECTED_LINES[2:4]]


def test_missing_values_that_training_has_are_not_novel():
    table = X.assign(a=np.where(np.arange(N) < 5, np.nan, X["a"]), b=np.where(np.arange(N) < 5, None, X["b"]))
    post = exact.solve(pt.TreeModel(table, LABELS, missing="branch", **PRIOR))
    assert lines_by_name(post.novelty(NEW)) == [entry for entry in EXPECTED_LINES if "missing" not in entry[2]]


def test_dates_and_many_categories():
    many = [f"town {i}" for i in range(100)]
    table = pd.DataFrame({"day": pd.date_range("2020-01-01", periods=200), "town": many * 2})
    with pytest.warns(UserWarning, match="100 categories"):
        model = pt.TreeModel(table, np.arange(200) > 99)
    post = pt.posterior_from_trees(model, [pt.Tree([-1], [0], [0], [0])])
    new = pd.DataFrame({"day": pd.to_datetime(["2019-12-31", "2020-03-01"]), "town": ["town 7", "village"]})
    novel = post.novelty(new)
    assert novel["reason"].tolist() == [
        "below the smallest training value, 2020-01-01",
        "category not in the training rows",
    ]


def test_refused_tables(posteriors):
    with pytest.raises(ValueError, match="lacks column 'c'"):
        posteriors[0].novelty(NEW[["a", "b"]])
    with pytest.raises(ValueError, match="column 'a'"):
        posteriors[0].novelty(NEW.assign(a="text"))
    model = pt.TreeModel(X, LABELS, **PRIOR)
    object.__setattr__(model.columns, "ranges", None)
    with pytest.raises(ValueError, match="earlier release"):
        exact.solve(model).novelty(NEW)
