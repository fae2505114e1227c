"""Exact against sampled: what is refused, with what to give instead."""

import numpy as np
import pandas as pd
import pytest

import exact
import pactree_mcmc as pt

DAYS = pd.Timestamp("2020-03-01") + pd.to_timedelta(range(12), unit="D")
TABLE = pd.DataFrame({"smoker": [True, False] * 6, "day": DAYS})


@pytest.fixture(scope="module")
def both():
    """A posterior, exact and sampled."""
    truth = exact.solve(pt.TreeModel(TABLE, np.arange(12) > 5))
    return {"truth": truth, "draws": truth.sample(300, rng=1), "none": None}


@pytest.mark.more(everyday=["draws truth-got SampledPosterior and ExactPosterior; .*: swap them"])
@pytest.mark.parametrize(
    ("pair", "words"),
    [
        ("draws draws", "got SampledPosterior and SampledPosterior; .*: both are Monte Carlo, .*exact.solve.*R-hat"),
        ("truth truth", r"got ExactPosterior and ExactPosterior; .*: both are exact, and .sample\(draws, rng\)"),
        ("draws truth", "got SampledPosterior and ExactPosterior; .*: swap them"),
        ("truth none", r"got ExactPosterior and NoneType; give an ExactPosterior, then a SampledPosterior\.$"),
    ],
)
def test_other_pairs_are_told_what_to_do(pair, words, both):
    with pytest.raises(TypeError, match=words):
        exact.compare(*(both[name] for name in pair.split()))


def test_splits_at_the_root_are_in_the_words_of_trees(both):
    rows = exact.compare(both["truth"], both["draws"]).rows
    root_quantities = [row.quantity for row in rows if row.quantity.startswith("root: ")]
    assert "root: day <= 2020-03-06" in root_quantities
    assert "root: smoker = no" in root_quantities


def test_every_output_is_compared_by_its_name():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, (40, 1)).astype(float)
    y = pd.DataFrame({"height": X[:, 0] + rng.normal(size=40), "weight": rng.normal(size=40)})
    model = pt.TreeModel(X, y, leaf=pt.IndependentNormals(2))
    sampled = pt.sample(model, 200, tune=100, chains=2, rng=1, kernel="local", progress=False)
    quantities = [row.quantity for row in exact.compare(exact.solve(model), sampled, X=X[:1]).rows]
    assert quantities[-2:] == ["predictive mean of height, row 0", "predictive mean of weight, row 0"]
