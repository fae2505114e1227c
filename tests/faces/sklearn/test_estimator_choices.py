"""Parameters of the estimators: what each may be, that each is obeyed, which of them contradict one another."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import exact
import pactree_mcmc as pt
from pactree_mcmc.faces.sklearn import estimators as _estimator_base

KINDS = (pt.BayesianTreeClassifier, pt.BayesianTreeRegressor)
SMALL = {"n_estimators": 40, "work": 2e5, "random_state": 0}


def table(kind, n=60, p=3, seed=0):
    """Whole numbers 0, 1, 2; the first two columns decide."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 3, (n, p)).astype(float)
    decided = ((X[:, 0] > 0) != (X[:, 1] > 1)).astype(int)
    return X, decided if kind is pt.BayesianTreeClassifier else decided + 0.3 * rng.normal(size=n)


def answers(fitted, X):
    return fitted.predict_proba(X) if isinstance(fitted, pt.BayesianTreeClassifier) else fitted.predict(X)


WRONG = {
    "tree_prior": (
        # with max_depth= only those that have one
        "BranchingProcess, ChipmanPrior or LeafPenalty",
        "chipman",
        3,
        pt.ChipmanPrior,
        pt.LocalCuts(),
    ),
    "split_prior": (
        "LocalCuts, GridCuts, DyadicCuts, FixedTree or CustomSplits",
        "local",
        3,
        pt.LocalCuts,
        pt.ChipmanPrior(),
    ),
    "leaf": ("DirichletMultinomial", "dirichlet", 3, pt.DirichletMultinomial, pt.ChipmanPrior()),
    "prior": ("'auto', 'stated'", "empirical", "AUTO", None, 1, pt.ChipmanPrior(), np.array(["auto", "stated"])),
    "power": ("> 0, or 'auto'", 0, -1.0, np.nan, np.inf, "max", "1", None, True, [1.0]),
    "max_depth": ("integer >= 0", -1, 1.5, "deep", np.nan, True, [2]),
    "min_samples_leaf": (">= 1", 0, -1, 1.5, 2.0, 1.0, 0.0, -0.5, np.nan, "few", None, True, [1]),
    "nominal": ("X has 3|0..2", "nope", ["nope"], [9], [-7], [0.5], 3.5),
    "missing": ("'error', 'branch'", "drop", None, True, 1),
    "n_estimators": (">= 1, or None", 0, -3, 2.5, "many", True, np.nan),
    "chains": (">= 1", 0, -1, 1.5, "four", None, True),
    "work": (">= 1, or None", 0, -1, 0.5, np.nan, np.inf, "lots", True),
    "n_jobs": ("not 0, or None", 0, "two", 1.5, True),
    "random_state": ("RandomState, or None", "seed", -1, 1.5, np.random.default_rng(0), [1]),
    "verbose": (">= 0", -1, "loud", None, 1.5),
}


def forbidden(*_, **__):
    raise AssertionError("computed before the parameters were checked")


def first_model(build, firsts, *_):
    """In place of the search: the model that it begins with is made, and no more."""
    build(firsts[0])
    forbidden()


@pytest.fixture
def nothing_runs(monkeypatch):
    for name in ("sample", "exact_posterior", "choose_power"):
        monkeypatch.setattr(_estimator_base, name, forbidden)
    monkeypatch.setattr(_estimator_base, "choose_by_evidence", first_model)


def refuse(kind, match, **parameters):
    """Each way to the model refuses the parameters: with a depth or none, with the prior chosen or stated."""
    X, y = table(kind)
    for more in ({}, {"max_depth": 2}, {"prior": "stated"}):
        if not set(more) & set(parameters):
            with pytest.raises((TypeError, ValueError), match=match):
                kind(**{**SMALL, **more, **parameters}).fit(X, y)


@pytest.mark.more(
    everyday=["BayesianTreeClassifier-tree_prior", "BayesianTreeClassifier-leaf", "BayesianTreeRegressor-split_prior"]
)
@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("kind", KINDS)
def test_wrong_values_are_refused_before_anything_runs(kind, name):
    message, *values = WRONG[name]
    for value in values:
        refuse(kind, rf"(?s){name}.*({message})", **{name: value})


@pytest.mark.usefixtures("nothing_runs")
def test_leaves_of_the_other_estimator_are_refused():
    """A leaf of classes in the regressor would predict the probability of the first class."""
    classifier, regressor = KINDS
    for leaf in (pt.NormalInverseGamma(), pt.NormalSharedVariance(), pt.NormalKnownVariance(), pt.PoissonGamma()):
        refuse(classifier, r"leaf=\w+\(.*predicts numbers; give Dirichlet", leaf=leaf)
    X, _ = table(classifier)
    for leaf in (pt.DirichletMultinomial(), pt.PacBayesLoss(1.0), pt.FrozenLaplace()):
        with pytest.raises(ValueError, match=r"leaf=\w+\(.*predicts classes; give a leaf of numbers"):
            regressor(**SMALL, leaf=leaf).fit(X, X[:, 0].astype(int) + 1)


@pytest.mark.usefixtures("nothing_runs")
def test_leaves_that_the_estimators_cannot_have_are_refused():
    X, advice = np.arange(8.0)[:, None], "which the estimators do not have; take pt.TreeModel and pt.sample"
    for leaf in (pt.ExponentialGamma(), pt.WeibullGamma()):
        with pytest.raises(ValueError, match=f"{type(leaf).__name__} needs 2 columns of y, {advice}"):
            pt.BayesianTreeRegressor(leaf=leaf).fit(X, X[:, 0])
    with pytest.raises(ValueError, match=f"FrozenLaplace needs estimation=, {advice}"):
        pt.BayesianTreeClassifier(leaf=pt.FrozenLaplace()).fit(X, X[:, 0] > 3)


def test_parameters_that_contradict_one_another():
    tree = pt.Tree([0, -1, -1], [0.5, 0.0, 0.0], [1, 0, 0], [2, 0, 0])
    for kind in KINDS:
        for prior in (pt.ChipmanPrior(0.5, 1.0, max_depth=2), pt.BranchingProcess(0.5, max_depth=3)):
            for depth in (2, 4):
                refuse(kind, rf"max_depth={depth} and tree_prior=.*give it once", tree_prior=prior, max_depth=depth)
        for split_prior in (pt.LocalCuts(min_leaf=3), pt.GridCuts(3), pt.DyadicCuts(2), pt.FixedTree(tree)):
            refuse(kind, r"min_samples_leaf=5 and split_prior=.*not both", split_prior=split_prior, min_samples_leaf=5)
        trivial = pt.LocalCuts(trivial=True)
        refuse(kind, r"min_leaf=5 contradicts trivial=True", split_prior=trivial, min_samples_leaf=5)
        refuse(kind, r"(?s)trivial=True.*max_depth", split_prior=trivial, max_depth=None, prior="stated")
    refuse(KINDS[0], r"alpha has shape \(3,\); y has 2 classes", leaf=pt.DirichletMultinomial([1.0, 2.0, 3.0]))
    refuse(KINDS[0], r"power='auto' needs .*PacBayesLoss is a loss", leaf=pt.PacBayesLoss(1.0), power="auto")
    refuse(KINDS[1], r"power='auto' needs .*one variance", leaf=pt.NormalSharedVariance(), power="auto")


@pytest.mark.parametrize("kind", KINDS)
def test_nested_parameters(kind):
    """Those of a part that is left out start from the default; what stands does not change."""
    plain = kind()
    assert not any("__" in name for name in plain.get_params())
    plain.set_params(tree_prior__beta=1.5)
    assert repr(plain.tree_prior) == repr(pt.ChipmanPrior(0.95, 1.5))
    before = plain.tree_prior
    plain.set_params(tree_prior__alpha=0.5, max_depth=3, split_prior__min_leaf=4)
    assert repr(before) == repr(pt.ChipmanPrior(0.95, 1.5))
    result = plain.get_params()
    assert (result["tree_prior__alpha"], result["tree_prior__beta"], result["tree_prior__max_depth"]) == (
        0.5,
        1.5,
        None,
    )
    assert result["split_prior__min_leaf"] == 4 and result["max_depth"] == 3
    assert not any("__" in name for name in plain.get_params(deep=False))
    assert kind(**plain.get_params(deep=False)).get_params() == result
    # the part and its parameter at once, in either order: the parameter is that of the new part
    for order in (1, -1):
        both = dict([("tree_prior", pt.LeafPenalty(2.0)), ("tree_prior__cost", 3.0)][::order])
        assert kind().set_params(**both).tree_prior.cost == 3.0
    with pytest.raises(ValueError, match=r"tree_prior__gamma: .*which has alpha, beta, max_depth; give one of these"):
        plain.set_params(tree_prior__gamma=1.0)
    with pytest.raises(ValueError, match=r"leaf__sigma: leaf is by default .*which has (alpha|m0, k0, a0, b0);"):
        plain.set_params(leaf__sigma=1.0)
    with pytest.raises(ValueError, match=r"beta=-1.0 is out of range"):
        plain.set_params(tree_prior__beta=-1.0)
    with pytest.raises(ValueError, match=r"Invalid parameter 'seconds'"):
        plain.set_params(seconds=3.0)
    assert plain.get_params() == result


@pytest.mark.parametrize("kind", KINDS)
def test_clones_and_pickles_answer_alike(kind):
    X, y = table(kind)
    parts = {"tree_prior": pt.ChipmanPrior(0.9, 1.0), "split_prior": pt.LocalCuts(min_leaf=2), "power": 0.5}
    parts["prior"] = "stated"
    first = kind(**SMALL, **parts).fit(X, y)
    copy = clone(first)
    assert not hasattr(copy, "posterior_")
    # clones copy parts, which compare by identity
    assert {k: repr(v) for k, v in copy.get_params().items()} == {k: repr(v) for k, v in first.get_params().items()}
    assert np.array_equal(answers(copy.fit(X, y), X), answers(first, X))
    unpickled = pickle.loads(pickle.dumps(first))
    assert np.array_equal(answers(unpickled, X), answers(first, X)) and repr(unpickled.prior_) == repr(first.prior_)
    assert np.array_equal(unpickled.feature_importances_, first.feature_importances_)


@pytest.mark.parametrize(("stated", "rows"), [(7, 7), (0.1, 6), (0.11, 7), (1e-9, 1)])
def test_depth_and_rows_of_a_leaf_are_those_of_the_model(stated, rows):
    """That the trees of a model obey its bounds is tested where the model is."""
    fitted = pt.BayesianTreeClassifier(**SMALL, max_depth=3, min_samples_leaf=stated).fit(*table(KINDS[0]))
    model = fitted.posterior_.model
    assert (model.split_prior.min_leaf, model.tree_prior.max_depth) == (rows, 3)


def test_what_is_stated_is_not_chosen():
    """Each of tree prior and leaf alone is kept, and the other one chosen; with "stated" none is."""
    X, y = table(KINDS[0])
    prior, leaf = pt.ChipmanPrior(0.7, 3.0), pt.DirichletMultinomial(0.77)
    kept_prior = pt.BayesianTreeClassifier(**SMALL, tree_prior=prior).fit(X, y).prior_
    assert repr(kept_prior.tree_prior) == repr(prior) and kept_prior.leaf.alpha != 0.25
    kept_prior = pt.BayesianTreeClassifier(**SMALL, leaf=leaf).fit(X, y).prior_
    assert kept_prior.leaf is leaf and repr(kept_prior.tree_prior) != repr(pt.ChipmanPrior(0.95, 0.5))
    both = pt.BayesianTreeClassifier(**SMALL, tree_prior=prior, leaf=leaf).fit(X, y).prior_
    assert repr(both.tree_prior) == repr(prior) and both.leaf is leaf and both.power == 1.0
    auto = pt.BayesianTreeClassifier(**SMALL, power="auto", prior="stated").fit(X, y).prior_
    assert auto.power in (1.0, 0.5, 0.25, 0.125) and auto.leaf.alpha == 0.25


def large(n=4200):
    """More rows than a prior is chosen by; the last class is a row that none of these are."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (n, 2)).astype(float)
    return X, (X[:, 0] > 0).astype(int), rng.poisson(1.0 + X[:, 1]).astype(float)


def test_exposures_follow_their_rows():
    X, _, y = large()
    exposure = np.random.default_rng(1).uniform(0.5, 2.0, len(y))
    many = pt.BayesianTreeRegressor(**SMALL, leaf=pt.PoissonGamma(exposure=exposure)).fit(X, y)
    assert np.array_equal(many.posterior_.model.leaf.exposure, exposure)
    few, weight = slice(0, 100), np.arange(100) % 3.0
    leaf = pt.PoissonGamma(2.0, 1.0, exposure[few])
    some = pt.BayesianTreeRegressor(**SMALL, leaf=leaf, prior="stated").fit(X[few], y[few], sample_weight=weight)
    kept_prior = weight > 0
    leaf = pt.PoissonGamma(2.0, 1.0, exposure[few][kept_prior])
    model = pt.TreeModel(
        *(X[few][kept_prior], y[few][kept_prior]),
        tree_prior=pt.ChipmanPrior(0.95, 0.5),
        leaf=leaf,
        sample_weight=weight[kept_prior],
    )
    assert np.allclose(some.predict(X[few]), exact.solve(model).predict(X[few]))
    for wrong in (99, kept_prior.sum()):
        with pytest.raises(ValueError, match=rf"exposure has shape \({wrong},\); y has 100 rows"):
            pt.BayesianTreeRegressor(**SMALL, leaf=pt.PoissonGamma(exposure=np.ones(wrong))).fit(
                X[few], y[few], sample_weight=weight
            )


@pytest.mark.parametrize("kind", [pt.BayesianTreeClassifier, pt.BayesianTreeRegressor])
@pytest.mark.parametrize(("n", "words"), [(0, "X has no rows; a tree needs at least 2"), (1, "X has one row; a tree")])
def test_frames_of_too_few_rows_are_refused(kind, n, words):
    with pytest.raises(ValueError, match=words):
        kind().fit(pd.DataFrame({"a": [1.0, 2.0]})[:n], [0.0, 1.0][:n])


def test_a_y_that_is_no_column_of_numbers_is_refused():
    X = pd.DataFrame({"a": np.arange(4.0)})
    with pytest.raises(ValueError, match=r"y is not numeric .*'no'.*or take BayesianTreeClassifier"):
        pt.BayesianTreeRegressor().fit(X, ["no", "yes", "no", "yes"])
    with pytest.raises(ValueError, match="y is inf in row 2; give finite numbers, or drop the row"):
        pt.BayesianTreeRegressor().fit(X, [1.0, 2.0, np.inf, 3.0])
