"""Split priors of one's own: both engines agree on them, they travel and are saved, and wrong ones are refused."""

import copy
import math
import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.core.compile.cache import watch_compilation
from pactree_mcmc.model.split_prior import weights as _weights
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


def test_the_default_kernel_is_the_local_one():
    local = pt.sample(model_of(NEAR), 50, tune=20, chains=1, rng=1, progress=False, kernel="local")
    default = pt.sample(model_of(NEAR), 50, tune=20, chains=1, rng=1, progress=False)
    assert default.moves == local.moves
    assert np.array_equal(default.predict_proba(X), local.predict_proba(X))
    line = pt.TreeModel(X[:, :1], Y, split_prior=NEAR)
    assert "regrow-line" not in pt.sample(line, 50, tune=20, chains=1, rng=1, progress=False).moves


def test_a_weight_of_one_is_the_prior_that_is_weighed():
    for of in (pt.LocalCuts(min_leaf=2, feature_weights=[1.0, 2.0, 3.0]), GRID):
        one = model_of(pt.CustomSplits(lambda cut: 1.0, of))
        truth, other = exact.solve(model_of(of)), exact.solve(one)
        assert other.log_evidence == pytest.approx(truth.log_evidence, abs=1e-10)


@pytest.mark.more
def test_prior_draws_follow_the_weights():
    """The first split of trees from the prior, by plain draws and by the sampler's, beside R of the root cell."""
    model = model_of(SPLITS["deep"])
    cell, rng = model.root_cell(), np.random.default_rng(2)
    plain = [model.rules.draw(rng, cell) for _ in range(4000)]
    for split in set(plain):
        p = math.exp(model.rules.log_probability(cell, split))
        assert plain.count(split) / 4000 == pytest.approx(p, abs=5.0 * math.sqrt(p / 4000))
    trees = [pt.simulate(model, rng=i)[0] for i in range(600)]
    root_features = np.array([tree.feature[0] for tree in trees if tree.feature[0] >= 0])
    weight = model.rules.admissible(cell)
    for k, p in enumerate(weight / weight.sum()):
        assert (root_features == k).mean() == pytest.approx(p, abs=0.09)


def test_nothing_of_the_library_is_compiled_for_it():
    pt.sample(model_of(NEAR), 20, tune=10, chains=1, rng=1, progress=False)
    exact.solve(model_of(NEAR))
    compiled = []
    with watch_compilation(compiled.append):
        other = pt.CustomSplits(lambda cut: 1.0 + cut.number)
        pt.sample(model_of(other), 20, tune=10, chains=1, rng=1, progress=False)
        exact.solve(model_of(other))
    assert compiled == []


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

    def test_weights_are_compared_where_few_cuts_leave_enough_rows_and_below_the_root(self, tmp_path):
        def first(cut):
            return 1.0 + cut.depth + cut.number

        def other(cut):
            return 1.0 + 2.0 * cut.depth + cut.number

        of = pt.LocalCuts(min_leaf=19)
        model_of(pt.CustomSplits(first, of, by_depth=True, name="mine")).save(tmp_path / "model.nc")
        with pytest.raises(ValueError, match=r"another split prior.*its weights"):
            pt.load(tmp_path / "model.nc", split_prior=pt.CustomSplits(other, of, by_depth=True, name="mine"))
        pt.load(tmp_path / "model.nc", split_prior=pt.CustomSplits(first, of, by_depth=True, name="mine"))

    def test_one_that_is_not_wanted_is_refused(self, tmp_path):
        model_of(None).save(tmp_path / "model.nc")
        with pytest.raises(ValueError, match="leave split_prior= out"):
            pt.load(tmp_path / "model.nc", split_prior=NEAR)
        model_of(NEAR).save(tmp_path / "model.nc")
        with pytest.raises(TypeError, match="split_prior"):
            pt.load(tmp_path / "model.nc", split_prior=pt.LocalCuts())


@pytest.mark.more
def test_it_travels_to_other_processes():
    model = model_of(pt.CustomSplits(lambda cut: cut.left * cut.right, name="even"))
    here = pt.sample(model, 30, tune=10, chains=2, rng=1, progress=False)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        there = pt.sample(model, 30, tune=10, chains=2, rng=1, progress=False, executor=pool)
    assert np.array_equal(here.predict_proba(X), there.predict_proba(X))


def test_copies_are_the_same_prior():
    unpickled = pickle.loads(pickle.dumps(NEAR))
    assert unpickled.params.tolist() == NEAR.params.tolist()
    assert copy.deepcopy(NEAR) is NEAR
    assert pickle.loads(pickle.dumps(NEAR)) is unpickled
    assert (
        exact.solve(pickle.loads(pickle.dumps(model_of(NEAR)))).log_evidence == exact.solve(model_of(NEAR)).log_evidence
    )
    assert NEAR.with_min_leaf(3).of.min_leaf == 3


@pytest.mark.filterwarnings("ignore::pactree_mcmc.ConvergenceWarning")
def test_estimators_take_it():
    fitted = pt.BayesianTreeClassifier(split_prior=NEAR, n_estimators=20, work=2e5, prior="stated", random_state=0)
    assert fitted.fit(X, Y).predict_proba(X).shape == (40, 2)


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

    @pytest.mark.planted
    def test_the_weight_of_another_address_is_seen(self, monkeypatch):
        right = _weights.address_of

        def wrong(function, with_params):
            return right(_weights._weight_of_fields(wide, False), False)

        monkeypatch.setattr(_weights, "address_of", wrong)
        with pytest.raises(ValueError, match="both must be the same function"):
            model_of(pt.CustomSplits(even))

    @pytest.mark.planted
    def test_a_plain_form_without_weights_is_seen(self, monkeypatch):
        """R of the plain form, by which trees are scored, without the weight of the split."""
        rules = type(model_of(NEAR).rules)
        monkeypatch.setattr(rules, "_weight_of_split", lambda self, cell, split: 1.0)
        with pytest.raises(pt.testing.SplitPriorError):
            pt.testing.check_split_prior(NEAR)


@pytest.mark.more
def test_empty_boxes_of_equal_widths_are_not_alike():
    """One of the empty boxes with one cut cannot be split, since the cut at 2 has weight 0."""
    splits = pt.CustomSplits(lambda cut: cut.at != 2.0, pt.GridCuts([[1.0, 2.0, 3.0, 5.0, 7.0]]))
    prior = pt.LeafPenalty(0.5, max_depth=4)
    model = pt.TreeModel([[0.0], [0.0], [9.0]], [0, 0, 1], split_prior=splits, tree_prior=prior)
    trees = pt.testing.check_balance("grow-prune", model).trees
    log_weight = np.array([model.log_posterior(tree) for tree in trees])
    weight = np.exp(log_weight - log_weight.max())
    right = np.bincount([tree.n_leaves for tree in trees], weights=weight / weight.sum())
    truth = exact.solve(model)
    assert truth.n_leaves_pmf() == pytest.approx(right, abs=1e-12)
    assert truth.sample(300, rng=1).n_leaves_pmf()[-1] == pytest.approx(right[-1], abs=0.15)


def test_a_root_without_a_split_of_positive_weight_is_warned_of():
    gap = pt.CustomSplits(lambda cut: cut.above - cut.below, GRID)
    with pytest.warns(UserWarning, match="every split of the root weighs 0") as caught:
        pt.TreeModel(X[:, :2], Y, split_prior=pt.CustomSplits(lambda cut: 0.0))
    assert caught[0].filename == __file__
    # a nominal feature can be split on all the same
    model_of(gap)
    with pytest.warns(UserWarning, match="cut.below and cut.above are the threshold"):
        pt.TreeModel(X[:, :2], Y, split_prior=pt.CustomSplits(gap.weight, pt.GridCuts(3)))
