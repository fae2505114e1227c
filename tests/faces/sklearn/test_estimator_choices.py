"""Parameters of the estimators, each obeyed; their posterior is that of the stated model or of the chosen prior."""

import pickle
from itertools import product

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import exact
import pactree_mcmc as pt
from pactree_mcmc.faces.sklearn import estimators as _estimator_base
from pactree_mcmc.faces.sklearn import parts as _parts
from pactree_mcmc.posterior.rows.left_out import rows_left_out
from tests.problems.refusals import refuses

KINDS = (pt.BayesianTreeClassifier, pt.BayesianTreeRegressor)
SMALL = {"n_estimators": 40, "work": 2e5, "random_state": 0}
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
CLASSIFIER, REGRESSOR = KINDS
KIND = {"classifier": CLASSIFIER, "regressor": REGRESSOR}
FEW = {"n_estimators": 200, "work": 1e6, "random_state": 0}
WEIGHTS = {
    "ones": np.ones(7),
    "whole": np.array([1.0, 2, 1, 3, 1, 2, 1]),
    "parts": np.array([0.3, 2, 0.6, 1, 1, 1.7, 1]),
}
CASES = ("plain", "light rows", "heavy rows", "power", "min_samples_leaf")


def table(kind, n=60, p=3, seed=0):
    """Whole numbers 0, 1, 2; the first two columns decide."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 3, (n, p)).astype(float)
    decided = ((X[:, 0] > 0) != (X[:, 1] > 1)).astype(int)
    return X, decided if kind is pt.BayesianTreeClassifier else decided + 0.3 * rng.normal(size=n)


def answers(fitted, X):
    return fitted.predict_proba(X) if isinstance(fitted, pt.BayesianTreeClassifier) else fitted.predict(X)


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
    refuses(r"beta=-1.0 is out of range", lambda: plain.set_params(tree_prior__beta=-1.0))
    refuses(r"Invalid parameter 'seconds'", lambda: plain.set_params(seconds=3.0))
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
    refuses(words, lambda: kind().fit(pd.DataFrame({"a": [1.0, 2.0]})[:n], [0.0, 1.0][:n]))


def test_a_y_that_is_no_column_of_numbers_is_refused():
    X = pd.DataFrame({"a": np.arange(4.0)})
    with pytest.raises(ValueError, match=r"y is not numeric .*'no'.*or take BayesianTreeClassifier"):
        pt.BayesianTreeRegressor().fit(X, ["no", "yes", "no", "yes"])
    with pytest.raises(ValueError, match="y is inf in row 2; give finite numbers, or drop the row"):
        pt.BayesianTreeRegressor().fit(X, [1.0, 2.0, np.inf, 3.0])


def bits(n, p, seed=0):
    return np.random.default_rng(seed).integers(0, 2, (n, p)).astype(float)


def problems():
    """Name, X, y, parameters of estimator and model."""
    rng = np.random.default_rng(1)
    X = bits(64, 4)
    yield "exclusive or of three", X, X[:, :3].sum(axis=1).astype(int) % 2, {}
    yield "few bits", X, ((X[:, 0] + rng.random(64)) > 1.0).astype(int), {}
    steps = rng.integers(0, 7, (50, 1)).astype(float)
    yield "ordered", steps, ((steps[:, 0] > 2) ^ (rng.random(50) < 0.2)).astype(int), {}
    sorts = rng.integers(0, 5, (50, 2)).astype(float)
    yield "nominal", sorts, np.isin(sorts[:, 0], [0, 3]) ^ (rng.random(50) < 0.1), {"nominal": [0]}
    gaps = rng.integers(0, 4, (50, 2)).astype(float)
    is_missing = rng.random((50, 2)) < 0.2
    y = (is_missing[:, 0] | (gaps[:, 1] > 1)).astype(int)
    yield "missing", np.where(is_missing, np.nan, gaps), y, {"missing": "branch"}
    yield "three classes", X[:, :3], (X[:, 0] + X[:, 1]).astype(int), {}


PROBLEMS = {name: rest for name, *rest in problems()}


def stated(kind, X, y, weight=None, leaf=None, **parts):
    """Return the posterior of the model in the docstring: ChipmanPrior(0.95, 0.5) and the default leaf."""
    if leaf is None:
        leaf = pt.DirichletMultinomial(0.5 / len(set(np.asarray(y).tolist()))) if kind is CLASSIFIER else None
        leaf = pt.NormalInverseGamma() if leaf is None else leaf
    y = y if kind is CLASSIFIER else np.asarray(y, dtype=float)
    return exact.solve(
        pt.TreeModel(X, y, tree_prior=pt.ChipmanPrior(0.95, 0.5), leaf=leaf, sample_weight=weight, **parts)
    )


def predicted_by(truth, kind, X):
    return truth.predict_proba(X) if kind is CLASSIFIER else truth.predict(X)


@pytest.mark.more(
    everyday=["exact-classifier-exclusive or of three", "exact-classifier-nominal", "sampled-regressor-few bits"]
)
@pytest.mark.parametrize(("engine", "kind", "name"), list(product(("exact", "sampled"), KIND, PROBLEMS)))
def test_the_stated_model(engine, kind, name, monkeypatch):
    """Exactly where it is summed, within 0.03 where it is drawn (of the range of y, which is 1 or 2)."""
    is_exact, kind = engine == "exact", KIND[kind]
    X, y, parts = PROBLEMS[name]
    truth = predicted_by(stated(kind, X, y, **parts), kind, X)
    if not is_exact:
        monkeypatch.setattr(_estimator_base, "exact_posterior", lambda *_: None)
    fitted = kind(**{**FEW, "n_estimators": 1000, "work": 1e7}, prior="stated", **parts).fit(X, y)
    assert isinstance(fitted.posterior_, exact.ExactPosterior if is_exact else pt.SampledPosterior)
    assert repr(fitted.prior_.tree_prior) == repr(pt.ChipmanPrior(0.95, 0.5))
    off, error = np.abs(answers(fitted, X) - truth).max(), fitted.monte_carlo_error_
    assert off < (1e-9 if is_exact else 0.03) and error < (1e-300 if is_exact else 0.05)


def tiny(kind, seed=0):
    rng = np.random.default_rng(seed)
    X = np.array([[0, 0], [0, 1], [1, 0], [1, 1], [2, 0], [2, 1], [2, 1]], dtype=float)
    y = np.array([0, 1, 1, 0, 1, 1, 0])
    return X, y if kind is CLASSIFIER else y + 0.5 * rng.normal(size=len(y))


def model_of(kind, X, y, weight):
    leaf = pt.DirichletMultinomial(0.4) if kind is CLASSIFIER else pt.NormalInverseGamma(0.5, 0.7, 2.0, 0.5)
    return pt.TreeModel(X, y, tree_prior=pt.ChipmanPrior(0.8, 0.5), leaf=leaf, sample_weight=weight)


def refits(kind, power, count):
    """Log density of each row's y, one of its counts left out, by the evidence with and without it."""
    X, y = tiny(kind)
    out = np.empty(len(y))
    for i in range(len(y)):
        kept_count = count.copy()
        kept_count[i] = max(count[i] - 1.0, 0.0)
        kept_count *= power
        more = kept_count.copy()
        more[i] += 1.0
        with_it, without = (exact.solve(model_of(kind, X, y, w)).log_evidence for w in (more, kept_count))
        out[i] = with_it - without
    return out


@pytest.mark.more(everyday=["classifier-ones-1.0"])
@pytest.mark.parametrize(("kind", "weights", "power"), list(product(KIND, WEIGHTS, (1.0, 0.5))))
def test_rows_left_out_are_those_of_refits(kind, weights, power):
    kind = KIND[kind]
    count = WEIGHTS[weights]
    X, y = tiny(kind)
    draws = exact.solve(model_of(kind, X, y, power * count)).sample(30_000, 1)
    left_out = rows_left_out(draws.draws, power, 100)
    log_w = -left_out.score_gain
    each = np.log(np.sum(np.exp(log_w + left_out.density), axis=0) / np.sum(np.exp(log_w), axis=0))
    want = refits(kind, power, count)
    assert np.abs(each - want).max() < 0.02
    mean = float(np.average(want, weights=count))
    assert _parts.log_density_left_out(draws, power) == pytest.approx(mean, abs=0.02)


def noisy(kind, n=80):
    X = bits(n, 3)
    rng = np.random.default_rng(2)
    y = (X[:, 0] != X[:, 1]).astype(int) ^ (rng.random(n) < 0.1)
    return X, y if kind is CLASSIFIER else y + 0.3 * rng.normal(size=n)


def log_evidence(X, y, tree_prior, leaf, weight=None, **parts):
    return exact.solve(pt.TreeModel(X, y, tree_prior=tree_prior, leaf=leaf, sample_weight=weight, **parts)).log_evidence


@pytest.mark.more(everyday=["classifier-plain"])
@pytest.mark.parametrize(("kind", "case"), list(product(KIND, CASES)))
def test_the_choice_raises_the_evidence(kind, case):
    """Over that of the default, and to within a nat of the best of the grid's tree priors with the leaf chosen."""
    kind = KIND[kind]
    X, y = noisy(kind)
    weight = {"light rows": 0.2, "heavy rows": 5.0}.get(case)
    weight = None if weight is None else np.full(len(y), weight)
    power, least = 0.5 if case == "power" else 1.0, 12 if case == "min_samples_leaf" else 1
    fitted = kind(**FEW, power=power, min_samples_leaf=least).fit(X, y, sample_weight=weight)
    tree_prior, leaf, _ = fitted.prior_
    scale = power * (np.ones(len(y)) if weight is None else weight)
    parts = {"weight": scale, "split_prior": pt.LocalCuts(min_leaf=least)}
    default = pt.DirichletMultinomial(0.25) if kind is CLASSIFIER else pt.NormalInverseGamma()
    evidence = log_evidence(X, y, tree_prior, leaf, **parts)
    assert evidence > log_evidence(X, y, pt.ChipmanPrior(0.95, 0.5), default, **parts)
    assert evidence > max(log_evidence(X, y, other, leaf, **parts) for other in _parts.chipman_grid()) - 1.0


@pytest.mark.more(everyday=["plain"])
@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"split_prior": pt.LocalCuts(min_leaf=6)},
        {"split_prior": pt.LocalCuts(feature_weights=[1.0, 0.0, 1.0])},
        {"split_prior": pt.GridCuts(3)},
        {"nominal": [0], "split_prior": pt.LocalCuts(min_leaf=4)},
        {"split_prior": pt.LocalCuts(max_cuts=1)},
        {"tree_prior": pt.ChipmanPrior(0.95, 0.0, max_depth=2)},
    ],
    ids=["plain", "min_leaf", "weights", "grid", "nominal", "max_cuts", "depth"],
)
def test_leaves_that_could_split_are_those_of_the_model(parts):
    X = np.random.default_rng(0).integers(0, 4, (40, 3)).astype(float)
    y = (X[:, 0] > 1).astype(int) ^ (np.arange(40) % 5 == 0)
    model = pt.TreeModel(X, y, **{"tree_prior": pt.ChipmanPrior(0.95, 0.0), **parts})
    post = exact.solve(model).sample(30, 0)
    actual = _parts._has_possible_split(post, _parts.node_depths(post.draws.distinct_trees))
    want = np.zeros_like(actual)
    for t in range(post.draws.n_distinct_trees):
        tree = post.draws.distinct_tree(t)
        for number, cell, _ in model.visit(tree):
            want[post.draws.distinct_trees.offset[t] + number] = tree.feature[number] < 0 and not model.is_forced(cell)
    assert np.array_equal(actual, want) and 0 < want.sum() < (post.draws.distinct_trees.feature < 0).sum()


def test_constant_y():
    """A scale of one, whatever the value: rounding of its mean is not a variance."""
    X, widths = bits(24, 3), []
    for value in (1.0, -1e9 + 0.1):
        fitted = REGRESSOR(**FEW).fit(X, np.full(24, value))
        assert np.allclose(fitted.predict(X), value, rtol=1e-14)
        widths.append(np.diff(fitted.predict_interval(X[:1])))
    assert widths[0] == pytest.approx(widths[1], rel=1e-4)
    one_class = CLASSIFIER(**FEW).fit(X, np.full(24, "same"))
    assert one_class.predict_proba(X).tolist() == [[1.0]] * 24 and set(one_class.predict(X)) == {"same"}


@pytest.mark.parametrize("kind", KINDS)
def test_missing_values(kind):
    X, y, _ = PROBLEMS["missing"]
    refuses(r"NaN", lambda: kind(**FEW).fit(X, y))
    fitted = kind(**FEW, prior="stated", missing="branch").fit(X, y)
    assert answers(fitted, X[:1]).shape[0] == 1 and fitted.score(X, y) > 0.8
    rounded = kind(**FEW, prior="stated").fit(np.nan_to_num(X), y)
    refuses(r"NaN", lambda: rounded.predict(X))
    is_missing = np.asarray(y, dtype=float)
    is_missing[3] = np.nan
    refuses(r"(?s)y.*(row 3|NaN)", lambda: kind(**FEW, missing="branch").fit(X, is_missing))


def noisy_bits():
    X = bits(40, 3)
    return X, np.round(X[:, 0] + 0.5 * np.random.default_rng(0).normal(size=40), 3)


@pytest.mark.more(everyday=["-3.0-1000.0-1e-09"])
@pytest.mark.parametrize(("scale", "shift", "most"), [(1.0, 1e9, 1e-5), (1e100, 0.0, 1e-9), (-3.0, 1e3, 1e-9)])
def test_numbers_of_any_size(scale, shift, most):
    """From y and a y + b come the same trees, if the differences of y are representable beside b."""
    X, y = noisy_bits()
    plain, other = REGRESSOR(**FEW).fit(X, y), REGRESSOR(**FEW).fit(X, scale * y + shift)
    assert np.abs((other.predict(X) - shift) / scale - plain.predict(X)).max() < most
    assert repr(other.prior_.tree_prior) == repr(plain.prior_.tree_prior)
    assert other.prior_.leaf.k0 == plain.prior_.leaf.k0
