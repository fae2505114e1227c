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


@pytest.mark.more(
    everyday=["truth truth-got ExactPosterior and ExactPosterior; .*: both are exact, and .sample\\\\(draws, rng\\\\)"]
)
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
