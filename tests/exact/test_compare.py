"""Exact against sampled: what is refused, with what to give instead."""

import numpy as np
import pandas as pd
import pytest

import exact
import pactree_mcmc as pt

DAYS = pd.Timestamp("2020-03-01") + pd.to_timedelta(range(12), unit="D")
TABLE = pd.DataFrame({"smoker": [True, False] * 6, "day": DAYS})
MODEL = pt.TreeModel(TABLE, np.arange(12) > 5)
TRUTH = exact.solve(MODEL)
DRAWS = TRUTH.sample(300, rng=1)


@pytest.mark.parametrize(
    ("pair", "words"),
    [
        ((DRAWS, DRAWS), "got SampledPosterior and SampledPosterior; .*: both are Monte Carlo, .*exact.solve.*R-hat"),
        ((TRUTH, TRUTH), r"got ExactPosterior and ExactPosterior; .*: both are exact, and .sample\(draws, rng\)"),
        ((DRAWS, TRUTH), "got SampledPosterior and ExactPosterior; .*: swap them"),
        ((TRUTH, None), r"got ExactPosterior and NoneType; give an ExactPosterior, then a SampledPosterior\.$"),
    ],
)
def test_other_pairs_are_told_what_to_do(pair, words):
    with pytest.raises(TypeError, match=words):
        exact.compare(*pair)


def test_questions_at_the_root_are_in_the_words_of_trees():
    asked = [row.quantity for row in exact.compare(TRUTH, DRAWS).rows if row.quantity.startswith("root: ")]
    assert "root: day <= 2020-03-06" in asked
    assert "root: smoker = no" in asked
