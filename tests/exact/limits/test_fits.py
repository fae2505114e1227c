"""Settings that Intractable names as tractable are so, found without building the graph that is not."""

import pickle

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from exact.graph import building
from exact.limits import intractable, sizes
from exact.limits.intractable import Limit
from exact.limits.sizes import settings_that_fit

RNG = np.random.default_rng(0)
X = RNG.integers(0, 6, (12, 2)).astype(float)
GAPS = np.where(np.arange(24).reshape(12, 2) == 5, np.nan, X)
Y = RNG.integers(0, 2, 12)
LIMITED = pt.ChipmanPrior(max_depth=3)
PROBLEMS = {
    "local": {},
    "thinned": {"split_prior": pt.LocalCuts(max_cuts=4)},
    "min_leaf": {"split_prior": pt.LocalCuts(min_leaf=2)},
    "limited": {"tree_prior": LIMITED},
    "nominal": {"nominal": [0]},
    "trivial": {"split_prior": pt.LocalCuts(trivial=True), "tree_prior": LIMITED},
    "grid": {"split_prior": pt.GridCuts(4)},
    "grid given": {"split_prior": pt.GridCuts([[0.5, 1.5, 2.5, 3.5], [0.5, 2.5, 4.5]])},
    "nominal grid": {"split_prior": pt.GridCuts(4), "nominal": [1]},
    "limited grid": {"split_prior": pt.GridCuts(5), "tree_prior": LIMITED},
    "dyadic": {"split_prior": pt.DyadicCuts(3)},
    "cyclic": {"split_prior": pt.DyadicCuts(3, cyclic=True)},
    "missing": {"missing": "branch"},
    "missing grid": {"missing": "branch", "split_prior": pt.GridCuts(3)},
    "fixed": {"split_prior": None},
}


def model_of(name, **options):
    parts = {**PROBLEMS[name], **options}
    if name == "fixed":
        parts["split_prior"] = pt.kd_tree(X, 3)
    return pt.TreeModel(GAPS if "missing" in parts else X, Y, **parts)


def changed(name, setting, value):
    """The model, and the cells allowed, with a setting as the error gives it."""
    prior = PROBLEMS[name].get("tree_prior", pt.ChipmanPrior())
    split_prior = PROBLEMS[name].get("split_prior", pt.LocalCuts())
    if setting == "max_depth":
        return model_of(name, tree_prior=pt.ChipmanPrior(prior.alpha, prior.beta, max_depth=value))
    if setting == "GridCuts":
        return model_of(name, split_prior=pt.GridCuts(value))
    if setting == "DyadicCuts":
        return model_of(name, split_prior=pt.DyadicCuts(value, cyclic=split_prior.cyclic))
    trivial, min_leaf = split_prior.trivial, split_prior.min_leaf
    return model_of(name, split_prior=pt.LocalCuts(trivial=trivial, min_leaf=min_leaf, max_cuts=value))


@pytest.mark.more(everyday=["grid given", "nominal grid"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_what_is_said_to_fit_does(name):
    model = model_of(name)
    n_cells = exact.build_graph(model).n_cells
    settings = set()
    for max_cells in (n_cells // 2, n_cells - 1):
        with pytest.raises(exact.Intractable) as refusal:
            exact.solve(model, max_cells=max_cells)
        error = refusal.value
        assert error.fits == pickle.loads(pickle.dumps(error)).fits
        for setting, value in error.fits.items():
            assert str(value) in str(error).replace("_", "")
            if setting == "max_cells":
                assert exact.solve(model, max_cells=value).graph.n_cells == n_cells
            else:
                assert exact.solve(changed(name, setting, value), max_cells=max_cells).graph.n_cells <= max_cells
        settings |= set(error.fits)
    assert "max_depth" in settings


def test_large_problems_are_answered_at_once():
    """Ten columns of a thousand values: the answer comes from counts of codes."""
    wide = RNG.normal(size=(1000, 10))
    model = pt.TreeModel(wide, wide[:, 0] > 0)
    fits = settings_that_fit(model, Limit(20_000_000))
    assert fits == {"max_cuts": 1, "max_depth": 1}
    few = pt.TreeModel(wide[:, :2], wide[:, 0] > 0)
    assert settings_that_fit(few, Limit(1_000_000))["max_cuts"] > 20


def test_nothing_fits_if_nothing_can():
    model = pt.TreeModel(np.arange(8.0)[:, None], np.arange(8) > 3, nominal=[0])
    with pytest.raises(exact.Intractable, match="needs more than the 1 cells allowed") as refusal:
        exact.solve(model, max_cells=1)
    assert set(refusal.value.fits) <= {"max_cells"}


@pytest.mark.parametrize("part", [2, 5])
def test_what_is_said_to_fit_fits_into_memory(part, monkeypatch):
    """The limit is that of memory, and the estimate is made even for small graphs."""
    monkeypatch.setattr(sizes, "FEW_BOXES", 1)
    wide = RNG.integers(0, 30, (200, 2)).astype(float)

    def build(**parts):
        return pt.TreeModel(wide, wide[:, 0] > 14, **parts)

    points = building.distinct_points(build()).codes
    needed = sizes.estimate_size(build(), points, Limit(20_000_000), False).n_bytes
    monkeypatch.setattr(intractable, "available_bytes", lambda: int(needed / part))
    with pytest.raises(exact.Intractable, match="bytes allowed") as refusal:
        exact.solve(build())
    assert set(refusal.value.fits) == {"max_cuts", "max_depth"}
    exact.solve(build(split_prior=pt.LocalCuts(max_cuts=refusal.value.fits["max_cuts"])))
    exact.solve(build(tree_prior=pt.ChipmanPrior(max_depth=refusal.value.fits["max_depth"])))
