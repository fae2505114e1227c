"""Curves of effects in the report, against functions whose directions are known."""

import re

import numpy as np
import pandas as pd
import pytest

import pactree_mcmc as pt
from pactree_mcmc.posterior.report.content import curves_in_boxes, feature_effects

RNG = np.random.default_rng(0)
X = pd.DataFrame({name: RNG.integers(0, 6, 240).astype(float) for name in ("up", "down", "hump", "idle")})
X["kind"] = RNG.choice(["p", "q"], 240)
MEAN = 2.0 * X["up"] - X["down"] - 1.5 * np.abs(X["hump"] - 2.5) + 3.0 * (X["kind"] == "q")


def split_on(k, threshold):
    return pt.Tree([k, -1, -1], [threshold, 0, 0], [1, 0, 0], [2, 0, 0])


@pytest.fixture(scope="module")
def numbers():
    """A tree for each of the features: those for the hump cut at both sides of the middle."""
    hump = pt.Tree([2, -1, 2, -1, -1], [0.5, 0, 4.5, 0, 0], [1, 0, 3, 0, 0], [2, 0, 4, 0, 0])
    kind = pt.Tree([4, -1, -1], [0, 0, 0], [1, 0, 0], [2, 0, 0], [1, -1, -1])
    trees = [split_on(0, 2.5), split_on(1, 2.5), hump, split_on(3, 2.5), kind]
    return pt.posterior_from_trees(pt.TreeModel(X, pd.Series(MEAN, name="yield"), split_prior=pt.LocalCuts()), trees)


def test_directions_and_bands_of_a_regression(numbers):
    effects = feature_effects(numbers, [0, 1, 2, 3, 4], [0])
    assert [one.directions for one in effects[:3]] == [["increasing"], ["decreasing"], ["not monotone"]]
    assert effects[4].directions == ["-"]
    for one in effects:
        mean, (low, high) = one.dependence.mean, (one.dependence.lower, one.dependence.upper)
        assert (low <= mean).all() and (mean <= high).all() and (low < high).any()
    boxes = curves_in_boxes(effects, 100.0, 40.0)
    across, up = ([float(z) for z in re.findall(rf"{c}([0-9.]+)", boxes[0][0]["band"])] for c in "HV")
    assert min(across + up) >= 0.0 and max(across) == 100.0 and max(up) <= 40.0
    # the curve of an increasing effect goes up, and so the heights in the picture go down
    line = [float(z) for z in re.findall(r"V([0-9.]+)", boxes[0][0]["line"])]
    assert line == sorted(line, reverse=True) and line[0] > line[-1]
