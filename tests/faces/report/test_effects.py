"""Importance and direction of effects in the report, against functions whose directions are known."""

import numpy as np
import pandas as pd
import pytest

import pactree_mcmc as pt
from pactree_mcmc.faces.report.effects import concordance, direction_of, effects_of
from tests.faces.report.pages import Read, written

RNG = np.random.default_rng(0)
X = pd.DataFrame({name: RNG.integers(0, 6, 240).astype(float) for name in ("up", "down", "hump", "idle")})
X["kind"] = RNG.choice(["p", "q"], 240)
MEAN = 2.0 * X["up"] - X["down"] - 1.5 * np.abs(X["hump"] - 2.5) + 3.0 * (X["kind"] == "q")


def sampled(y, X=X, **options):
    model = pt.TreeModel(X, y, **options)
    return pt.sample(model, 100, tune=100, chains=2, rng=1, kernel="local", progress=False)


@pytest.fixture(scope="module")
def numbers():
    return sampled(MEAN.to_numpy(), leaf=pt.NormalKnownVariance(0.1))


def test_directions_of_a_regression(numbers):
    found = effects_of(numbers)
    assert [one["direction"] for one in found[:3]] == ["increasing", "decreasing", "not monotone"]
    assert found[4]["direction"] == "-" and found[4]["importance"] > 0.0
    assert all(one["lower"] <= one["importance"] <= one["upper"] and one["output"] is None for one in found[:3])
    assert found[0]["importance"] > 10.0 * found[3]["importance"]


def test_two_classes_stand_for_the_last_one():
    post = sampled(np.where(X["up"] > 2, "yes", "no"), X[["up", "idle"]])
    found = effects_of(post)
    assert found[0]["direction"] == "increasing for yes" and found[0]["output"] is None


def test_several_classes_are_named():
    post = sampled(np.array(["low", "middle", "top"])[(X["up"] // 2).astype(int)], X[["up"]])
    (found,) = effects_of(post)
    assert found["direction"] == "decreasing for low, not monotone for middle, increasing for top"
    assert found["output"] in ("low", "middle", "top")


def test_concordance():
    x = np.array([0.0, 1.0, 2.0, np.nan])
    assert concordance(x, np.array([0.0, 1.0, 5.0, -9.0])) == 1.0
    # changes 1, -1 and 0 of pairs of neighbours, and of the ends
    assert concordance(x, np.array([0.0, 1.0, 0.0, 3.0])) == 0.0
    assert concordance(x, np.zeros(4)) == 0.0 and concordance(x[:1], np.ones(1)) == 0.0
    assert direction_of(x, -np.exp(x)) == "decreasing"


@pytest.mark.planted
def test_contributions_in_another_order_have_no_direction(numbers, monkeypatch):
    """Planted: contributions of other rows."""
    from pactree_mcmc.faces.report import effects

    real = effects.attributions_of
    monkeypatch.setattr(
        effects, "attributions_of", lambda *given: (found := real(*given))._replace(mean=found.mean[::-1])
    )
    assert effects_of(numbers)[0]["direction"] != "increasing"


def test_the_page_has_them(numbers, tmp_path):
    words = Read(written(numbers, tmp_path)).words
    assert "importance" in words and "not monotone" in words and "decreasing" in words


def test_leaves_that_use_columns_have_none(tmp_path):
    model = pt.TreeModel(X[["up", "down"]], MEAN.to_numpy(), leaf=pt.NormalLinear(["up"]))
    post = pt.posterior_from_trees(model, [pt.Tree([1, -1, -1], [2.5, 0, 0], [1, 0, 0], [2, 0, 0])])
    assert effects_of(post) == []
    assert "importance" in Read(written(post, tmp_path)).words
    constant = pt.posterior_from_trees(pt.TreeModel(np.ones((2, 1)), [0.0, 1.0]), [pt.Tree([-1], [0], [0], [0])])
    assert effects_of(constant)[0] == {"importance": 0.0, "lower": 0.0, "upper": 0.0, "output": None, "direction": "-"}
