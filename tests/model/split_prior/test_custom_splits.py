"""Split priors of one's own: both engines agree on them, they travel and are saved, and wrong ones are refused."""

import math

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from tests.problems.own_splits import WEIGHED, deep, even, late, near, own_splits, wide

RNG = np.random.default_rng(3)
X = np.column_stack([RNG.random(40).round(1), RNG.integers(0, 4, 40), RNG.integers(0, 3, 40)]).astype(float)
Y = (X[:, 0] + 0.4 * RNG.normal(size=40) > 0.5).astype(int)
NEAR = pt.CustomSplits(near, params=[0.5, 0.3])
GRID = pt.GridCuts([[0.25, 0.5, 0.75], [0.5, 1.5, 2.5], None])
SPLITS = {
    "even": pt.CustomSplits(even, pt.LocalCuts(min_leaf=2)),
    "near": NEAR,
    "near on a grid": pt.CustomSplits(near, GRID, params=[0.5, 0.3]),
    "wide": pt.CustomSplits(wide, over="cell"),
    "deep": pt.CustomSplits(deep, over="cell", by_depth=True),
    "deep on a grid": pt.CustomSplits(deep, GRID, over="cell", by_depth=True),
    "late": pt.CustomSplits(late, pt.LocalCuts(feature_weights=[1.0, 2.0, 0.5])),
}


def model_of(split_prior, max_depth=2, **parts):
    return pt.TreeModel(
        X, Y, split_prior=split_prior, nominal=[2], tree_prior=pt.ChipmanPrior(max_depth=max_depth), **parts
    )


@pytest.mark.more(everyday=["1-even", "2-near"])
@pytest.mark.parametrize("name", WEIGHED)
@pytest.mark.parametrize("of", [pt.LocalCuts(), pt.LocalCuts(min_leaf=2), pt.GridCuts(3)], ids=["1", "2", "grid"])
def test_both_forms_are_one_prior(name, of):
    if name == "even" and isinstance(of, pt.GridCuts):
        pytest.skip("needs rows")
    assert pt.testing.check_split_prior(own_splits(of, WEIGHED[name])).max_difference < 1e-12


def test_a_weight_of_one_is_the_prior_that_is_weighed():
    for of in (pt.LocalCuts(min_leaf=2, feature_weights=[1.0, 2.0, 3.0]), GRID):
        one = model_of(pt.CustomSplits(lambda cut: 1.0, of))
        truth, other = exact.solve(model_of(of)), exact.solve(one)
        assert other.log_evidence == pytest.approx(truth.log_evidence, abs=1e-10)


class TestFiles:
    @pytest.mark.more
    def test_a_file_holds_no_code_and_says_so(self, tmp_path):
        path = tmp_path / "post.nc"
        post = pt.sample(model_of(NEAR), 30, tune=10, chains=1, rng=1, progress=False)
        post.save(path)
        with pytest.raises(ValueError, match="a file holds no code: give the split prior"):
            pt.load(path)
        loaded = pt.load(path, split_prior=pt.CustomSplits(near, params=[0.5, 0.3]))
        assert np.array_equal(loaded.predict_proba(X), post.predict_proba(X))
        longer = pt.resume(loaded, 20, progress=False)
        assert longer.n_draws == 50
        assert np.array_equal(pt.resume(post, 20, progress=False).predict_proba(X), longer.predict_proba(X))
        resumed = pt.resume(path, 20, split_prior=NEAR, progress=False)
        assert np.array_equal(resumed.predict_proba(X), longer.predict_proba(X))

    @pytest.mark.more(everyday=["other0-its name"])
    @pytest.mark.parametrize(
        ("other", "said"),
        [
            (pt.CustomSplits(even), "its name"),
            (pt.CustomSplits(near, params=[0.5, 0.4]), "its params"),
            (pt.CustomSplits(near, params=[0.5, 0.3], over="cell"), "its over"),
            (pt.CustomSplits(near, pt.LocalCuts(min_leaf=2), params=[0.5, 0.3]), "its splits are those of"),
            (pt.CustomSplits(near, GRID, params=[0.5, 0.3]), "its splits are those of"),
            (pt.CustomSplits(lambda cut, p: 2.0 + cut.at * p[0], params=[0.5, 0.3], name="near"), "its weights"),
        ],
    )
    def test_another_one_is_refused(self, tmp_path, other, said):
        model_of(NEAR).save(tmp_path / "model.nc")
        with pytest.raises(ValueError, match=f"another split prior.*{said}"):
            pt.load(tmp_path / "model.nc", split_prior=other)


def counted(cut):
    return 1.0 + LEVEL * cut.number


LEVEL = 1.0


class TestWhatIsWrong:
    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (lambda: pt.CustomSplits(3), "weight is"),
            (lambda: pt.CustomSplits(even, pt.LocalCuts(trivial=True)), "without trivial"),
            (lambda: pt.CustomSplits(even, pt.DyadicCuts(2)), "LocalCuts or GridCuts"),
            (lambda: pt.CustomSplits(even, over="node"), "over="),
            (lambda: pt.CustomSplits(even, by_depth=3), "by_depth"),
            (lambda: pt.CustomSplits(even, params=[np.nan]), "params is"),
            (lambda: pt.CustomSplits(even, name=3), "name is"),
            (lambda: model_of(pt.CustomSplits(lambda cut: -1.0)), "weighs Cut.*with -1.0"),
            (lambda: model_of(pt.CustomSplits(lambda cut: math.log(-cut.n_splits))), "with nan"),
            (lambda: model_of(pt.CustomSplits(lambda cut: 1e101)), r"with 1e\+101"),
            (lambda: model_of(pt.CustomSplits(even, GRID)), "with nan"),
            (lambda: model_of(pt.CustomSplits(lambda cut: 1.0 + cut.depth)), "give by_depth=True"),
            (lambda: pt.TreeModel([[0.0], [np.nan], [1.0]], [0, 1, 1], missing="branch", split_prior=NEAR), "missing"),
            (lambda: model_of(pt.CustomSplits(lambda cut: [cut.at])), "cannot be compiled"),
            (lambda: NEAR.check(X, cells=0), "cells"),
            (lambda: pt.resume(3, split_prior=NEAR), "split_prior= is for the path"),
            (lambda: exact.DesignCounts(SPLITS["near on a grid"]), "weighs splits"),
        ],
    )
    def test_is_refused(self, call, message):
        with pytest.raises((ValueError, TypeError), match=message):
            call()

    def test_a_weight_that_fails_further_down_stops_both_engines(self):
        """The root's splits are fine; only `check` sees, and names, those of other cells."""

        def fails(cut):
            return cut.n_splits - 1.5

        splits, x = pt.CustomSplits(fails), np.arange(6.0)[:, None]
        model = pt.TreeModel(x, [0, 1, 1, 0, 1, 0], split_prior=splits)
        with pytest.raises(ValueError, match=r"weighs Cut.*n_splits=1.0.*with -0.5"):
            splits.check(x)
        with pytest.raises(ValueError, match="the weight of a split is negative"):
            exact.solve(model)
        with pytest.raises(ValueError, match="the weight of a split is negative"):
            pt.sample(model, 200, tune=10, chains=1, rng=1, progress=False)

    @pytest.mark.planted
    def test_a_weight_that_reads_what_changes_is_seen(self, monkeypatch):
        """Compiled once, its number stays; plainly it is another by then."""
        splits = pt.CustomSplits(counted)
        splits.check(X)
        monkeypatch.setattr(f"{__name__}.LEVEL", 2.0)
        with pytest.raises(ValueError, match="both must be the same function"):
            splits.check(X)
        with pytest.raises(ValueError, match="both must be the same function"):
            model_of(splits)
