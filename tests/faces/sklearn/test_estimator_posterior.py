"""The posterior of the estimators: that of the stated model, of the power, of the chosen prior, whatever the table."""

from itertools import product

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.faces.sklearn import estimators as _estimator_base
from pactree_mcmc.faces.sklearn import parts as _parts
from pactree_mcmc.posterior.rows.left_out import rows_left_out

KINDS = (pt.BayesianTreeClassifier, pt.BayesianTreeRegressor)
CLASSIFIER, REGRESSOR = KINDS
KIND = {"classifier": CLASSIFIER, "regressor": REGRESSOR}
SMALL = {"n_estimators": 200, "work": 1e6, "random_state": 0}


def answers(fitted, X):
    return fitted.predict_proba(X) if isinstance(fitted, CLASSIFIER) else fitted.predict(X)


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
    fitted = kind(**{**SMALL, "n_estimators": 1000, "work": 1e7}, prior="stated", **parts).fit(X, y)
    assert isinstance(fitted.posterior_, exact.ExactPosterior if is_exact else pt.SampledPosterior)
    assert repr(fitted.prior_.tree_prior) == repr(pt.ChipmanPrior(0.95, 0.5))
    off, error = np.abs(answers(fitted, X) - truth).max(), fitted.monte_carlo_error_
    assert off < (1e-9 if is_exact else 0.03) and error < (1e-300 if is_exact else 0.05)


# rows left out, against refits without the row


def tiny(kind, seed=0):
    rng = np.random.default_rng(seed)
    X = np.array([[0, 0], [0, 1], [1, 0], [1, 1], [2, 0], [2, 1], [2, 1]], dtype=float)
    y = np.array([0, 1, 1, 0, 1, 1, 0])
    return X, y if kind is CLASSIFIER else y + 0.5 * rng.normal(size=len(y))


def model_of(kind, X, y, weight):
    leaf = pt.DirichletMultinomial(0.4) if kind is CLASSIFIER else pt.NormalInverseGamma(0.5, 0.7, 2.0, 0.5)
    return pt.TreeModel(X, y, tree_prior=pt.ChipmanPrior(0.8, 0.5), leaf=leaf, sample_weight=weight)


WEIGHTS = {
    "ones": np.ones(7),
    "whole": np.array([1.0, 2, 1, 3, 1, 2, 1]),
    "parts": np.array([0.3, 2, 0.6, 1, 1, 1.7, 1]),
}


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


# the choice by evidence


def noisy(kind, n=80):
    X = bits(n, 3)
    rng = np.random.default_rng(2)
    y = (X[:, 0] != X[:, 1]).astype(int) ^ (rng.random(n) < 0.1)
    return X, y if kind is CLASSIFIER else y + 0.3 * rng.normal(size=n)


def log_evidence(X, y, tree_prior, leaf, weight=None, **parts):
    return exact.solve(pt.TreeModel(X, y, tree_prior=tree_prior, leaf=leaf, sample_weight=weight, **parts)).log_evidence


CASES = ("plain", "light rows", "heavy rows", "power", "min_samples_leaf")


@pytest.mark.more(everyday=["classifier-plain"])
@pytest.mark.parametrize(("kind", "case"), list(product(KIND, CASES)))
def test_the_choice_raises_the_evidence(kind, case):
    """Over that of the default, and to within a nat of the best of the grid's tree priors with the leaf chosen."""
    kind = KIND[kind]
    X, y = noisy(kind)
    weight = {"light rows": 0.2, "heavy rows": 5.0}.get(case)
    weight = None if weight is None else np.full(len(y), weight)
    power, least = 0.5 if case == "power" else 1.0, 12 if case == "min_samples_leaf" else 1
    fitted = kind(**SMALL, power=power, min_samples_leaf=least).fit(X, y, sample_weight=weight)
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


# tables at the edge


def test_constant_y():
    """A scale of one, whatever the value: rounding of its mean is not a variance."""
    X, widths = bits(24, 3), []
    for value in (1.0, -1e9 + 0.1):
        fitted = REGRESSOR(**SMALL).fit(X, np.full(24, value))
        assert np.allclose(fitted.predict(X), value, rtol=1e-14)
        widths.append(np.diff(fitted.predict_interval(X[:1])))
    assert widths[0] == pytest.approx(widths[1], rel=1e-4)
    one_class = CLASSIFIER(**SMALL).fit(X, np.full(24, "same"))
    assert one_class.predict_proba(X).tolist() == [[1.0]] * 24 and set(one_class.predict(X)) == {"same"}


@pytest.mark.parametrize("kind", KINDS)
def test_missing_values(kind):
    X, y, _ = PROBLEMS["missing"]
    with pytest.raises(ValueError, match=r"NaN"):
        kind(**SMALL).fit(X, y)
    fitted = kind(**SMALL, prior="stated", missing="branch").fit(X, y)
    assert answers(fitted, X[:1]).shape[0] == 1 and fitted.score(X, y) > 0.8
    rounded = kind(**SMALL, prior="stated").fit(np.nan_to_num(X), y)
    with pytest.raises(ValueError, match=r"NaN"):
        rounded.predict(X)
    is_missing = np.asarray(y, dtype=float)
    is_missing[3] = np.nan
    with pytest.raises(ValueError, match=r"(?s)y.*(row 3|NaN)"):
        kind(**SMALL, missing="branch").fit(X, is_missing)


def noisy_bits():
    X = bits(40, 3)
    return X, np.round(X[:, 0] + 0.5 * np.random.default_rng(0).normal(size=40), 3)


@pytest.mark.more(everyday=["-3.0-1000.0-1e-09"])
@pytest.mark.parametrize(("scale", "shift", "most"), [(1.0, 1e9, 1e-5), (1e100, 0.0, 1e-9), (-3.0, 1e3, 1e-9)])
def test_numbers_of_any_size(scale, shift, most):
    """From y and a y + b come the same trees, if the differences of y are representable beside b."""
    X, y = noisy_bits()
    plain, other = REGRESSOR(**SMALL).fit(X, y), REGRESSOR(**SMALL).fit(X, scale * y + shift)
    assert np.abs((other.predict(X) - shift) / scale - plain.predict(X)).max() < most
    assert repr(other.prior_.tree_prior) == repr(plain.prior_.tree_prior)
    assert other.prior_.leaf.k0 == plain.prior_.leaf.k0
