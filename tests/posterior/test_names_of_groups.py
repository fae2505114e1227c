"""Names of groups of rows and of ticks say what distinguishes them."""

import numpy as np
import pandas as pd
import pytest

import exact
import pactree_mcmc as pt

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
