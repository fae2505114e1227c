"""Models without an evidence stand beside those that have one, and a line says why they have none."""

import numpy as np
import pytest

import pactree_mcmc as pt

RNG = np.random.default_rng(7)
X = RNG.random((50, 2)).round(1)
Y = (X[:, 0] > 0.5) + 0.3 * RNG.normal(size=50)
SHALLOW = pt.ChipmanPrior(max_depth=2)
RUN = {"draws": 150, "tune": 150, "chains": 2, "rng": 1, "progress": False}


def compared(models):
    with pytest.warns(UserWarning, match="has no log evidence") as record:
        table = pt.compare_models(models, rng=1, progress=False)
    return table, [str(one.message) for one in record if "has no log evidence" in str(one.message)]


def test_a_probability_is_among_the_models_that_have_an_evidence():
    models = {
        "one": pt.TreeModel(X, Y, tree_prior=SHALLOW),
        "other": pt.TreeModel(X[:, :1], Y, tree_prior=SHALLOW),
        "shared": pt.sample(pt.TreeModel(X, Y, leaf=pt.NormalSharedVariance(), tree_prior=SHALLOW), **RUN),
    }
    table, lines = compared(models)
    evidence = table.log_evidence[["one", "other"]]
    expected = np.exp(evidence - np.logaddexp(*evidence))
    assert table.probability[["one", "other"]].to_numpy() == pytest.approx(expected.to_numpy())
    assert np.isnan(table.log_evidence["shared"]) and np.isnan(table.probability["shared"])
    assert len(lines) == 1 and "'shared'" in lines[0] and "share a parameter" in lines[0]


def test_the_reason_is_that_of_the_model():
    penalty = pt.TreeModel(X, Y, tree_prior=pt.LeafPenalty(1.0, max_depth=2))
    short = pt.TreeModel(X, Y, tree_prior=SHALLOW)
    models = {"penalty": pt.sample(penalty, **RUN), "short": pt.sample(short, **RUN, kernel="grow-prune")}
    table, lines = compared(models)
    assert table.probability.isna().all()
    assert any("'penalty'" in line and "LeafPenalty" in line for line in lines)
    assert any("'short'" in line and "did not estimate it" in line for line in lines)
