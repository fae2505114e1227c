"""Names of groups of rows and of ticks say what distinguishes them."""

import numpy as np
import pandas as pd
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.faces.plots.style import shortened_names

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("scale", [1.0, 1e-6, 3e7])
@pytest.mark.parametrize("gap", [1.0001, 1.3])
def test_groups_by_mean_time_have_different_names(scale, gap):
    z = RNG.integers(0, 6, 120)
    time = scale * (gap**z) * np.tile(np.linspace(0.5, 1.5, 12), 10)
    X, y = pd.DataFrame({"z": z}), pd.DataFrame({"time": time, "event": RNG.random(120) < 0.8})
    model = pt.TreeModel(X, y, leaf=pt.ExponentialGamma(), tree_prior=pt.ChipmanPrior(0.99, 0.1, max_depth=3))
    names = exact.solve(model, progress=False).survival_calibration(X, y, 6).names
    assert len(names) >= 3 and len(set(names)) == len(names)
    ends = [[float(text) for text in name.removeprefix("mean time ").split(" to ")] for name in names]
    assert all(one[-1] < other[0] for one, other in zip(ends[:-1], ends[1:], strict=True))


def test_equal_predictions_are_in_one_group():
    # z and g never matter, so that the predictions of all rows are the same number up to rounding
    X = pd.DataFrame({"g": np.repeat(["a", "b"], 30), "z": RNG.integers(0, 3, 60)})
    y = pd.DataFrame({"time": np.full(60, 0.7), "event": True})
    model = pt.TreeModel(X, y, leaf=pt.ExponentialGamma(), split_prior=pt.LocalCuts(min_leaf=30))
    names = exact.solve(model, progress=False).survival_calibration(X, y, 4).names
    assert len(set(names)) == len(names)


def test_shortened_names_stay_different():
    names = [f"a long name of a feature that ends in {k} and goes on for a while" for k in range(12)]
    texts = shortened_names(names, 20)
    assert len(set(texts)) == 12 and shortened_names(["short", "other"], 20) == ["short", "other"]
    assert shortened_names([names[0]] * 2 + [names[1]], 10)[0] != shortened_names([names[0]] * 2 + [names[1]], 10)[2]
