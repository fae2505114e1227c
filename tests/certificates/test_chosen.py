"""The certificate of choice: its alternatives are what they say, the smallest is taken, and it covers."""

import math
from functools import partial

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc import certificates as pc
from pactree_mcmc.posterior.rows import certificate as chosen
from pactree_mcmc.posterior.rows.certificate import DELTA_FRACTIONS

CUTS = pt.GridCuts([[2.5, 4.5, 6.5], [2.5, 4.5, 6.5]])


def rows(rng, n):
    """Two features of eight values; the label is a step of the first and of the second, with noise."""
    X = rng.integers(0, 8, (n, 2)).astype(float)
    return X, np.where(rng.random(n) < probability(X), "yes", "no")


def probability(X):
    return np.where((X[:, 0] > 4.5) & (X[:, 1] > 2.5), 0.85, 0.2)


def prior_posterior(seed, n=60, depth=2):
    X, y = rows(np.random.default_rng(seed), n)
    return exact.solve(pt.TreeModel(X, y, split_prior=CUTS, tree_prior=pt.ChipmanPrior(0.9, 1.0, depth)))


EVERY = np.array([(a, b) for a in range(8) for b in range(8)], dtype=float)


def risk(predict):
    """The true risk of a classifier: the mean over all 64 equally likely points."""
    yes = predict(EVERY) == "yes"
    return float(np.where(yes, 1 - probability(EVERY), probability(EVERY)).mean())


@pytest.fixture(scope="module")
def post():
    return prior_posterior(0)


def test_its_parts(post):
    X, y = rows(np.random.default_rng(1), 400)
    c = post.holdout_certificate(X, y, 0.1, choose=True, n_trees=100, rng=3)
    assert sum(DELTA_FRACTIONS.values()) == pytest.approx(1.0)
    assert list(c.bounds) == list(DELTA_FRACTIONS) == list(c.paid) == list(c.weights)
    assert all(bound.delta == pytest.approx(0.1 * DELTA_FRACTIONS[name]) for name, bound in c.bounds.items())
    assert c.paid["one tree"] == pytest.approx(math.log(12))
    assert c.vote is min(c.bounds.values(), key=lambda bound: bound.raw)
    sample = post.draw_trees(100, 3)
    prior = np.array([sum(tree == other for other in sample) for tree in c.trees]) / 100
    assert np.array_equal(c.weights["as fitted"], prior)
    assert c.bounds["as fitted"].raw == pc.holdout(int(np.sum(post.predict(X) != y)), 400, 0.05).raw
    singles = [
        pc.binomial_tail_inversion(int(np.sum(tree.predict(X) != y)), 400, math.log(0.1 / 12 * p))
        for tree, p in zip(c.trees, prior)
    ]
    assert c.bounds["one tree"].raw == pytest.approx(min(singles))
    assert np.flatnonzero(c.weights["one tree"]).tolist() == [int(np.argmin(singles))]
    wrong = np.array([tree.predict(X) != y for tree in c.trees], dtype=float)
    for name, of in (("factor two", pc.vote_factor_two), ("tandem", pc.vote_tandem), ("split kl", pc.vote_split_kl)):
        q = c.weights[name]
        kl = float((q * np.log(q / prior)).sum())
        mean = q @ wrong
        losses = {"factor two": (mean.mean(),), "tandem": ((mean**2).mean(),)}.get(
            name, (mean.mean(), (mean**2).mean())
        )
        assert c.bounds[name].raw == pytest.approx(of(*losses, kl, 400, 0.1 / 12).raw, rel=1e-6)
        votes = sum(w * (tree.predict(X) == "yes") for w, tree in zip(q, c.trees))
        assert np.array_equal(c.predict_as(name, X), np.where(votes > 0.5, "yes", "no"))
    assert np.array_equal(c.predict(X), c.predict_as(c.chosen, X))
    assert c.gibbs.raw == pytest.approx(c.bounds["factor two"].raw / 2)
    assert "with 0.0833 of delta" in str(c)


def test_the_rows_choose():
    """Few rows fitted the posterior; the counted ones choose a single tree that is better."""
    post = prior_posterior(3, n=14)
    X, y = rows(np.random.default_rng(2), 4000)
    c = post.holdout_certificate(X, y, choose=True)
    assert c.chosen == "one tree"
    assert risk(c.predict) < risk(post.predict)


def failures(samples, delta, n=60):
    """Return the fractions of samples in which any of the bounds fails, and in which the chosen one does."""
    any_fails = chosen_fails = 0
    for seed in range(samples):
        post = prior_posterior(10_000 + seed, n=25, depth=1)
        X, y = rows(np.random.default_rng(seed), n)
        c = post.holdout_certificate(X, y, delta, choose=True, n_trees=30)
        bad = [bound.raw < risk(partial(c.predict_as, name)) for name, bound in c.bounds.items()]
        any_fails += any(bad)
        chosen_fails += c.vote.raw < risk(c.predict)
    return any_fails / samples, chosen_fails / samples


def test_rows_on_which_all_trees_err(post):
    """Weights whose sum is a hair above 1 must not make a risk above 1."""
    X, _ = rows(np.random.default_rng(1), 50)
    for n_trees in (7, 30, 60):
        c = post.holdout_certificate(X, ["other"] * 50, choose=True, n_trees=n_trees)
        assert all(bound.value > 0.9 for bound in c.bounds.values())


@pytest.mark.more
def test_it_covers_500_data_sets():
    any_fails, chosen_fails = failures(500, 0.2)
    assert chosen_fails <= any_fails <= 0.2


@pytest.mark.planted
def test_a_choice_that_is_not_paid_for_is_caught(monkeypatch):
    """Trees that guess: the best of many looks better than it is where its prior is not paid for."""
    rng, failed = np.random.default_rng(0), np.zeros(2)
    real = chosen.binomial_tail_inversion
    for _ in range(60):
        wrong = (rng.random((100, 40)) < 0.5).astype(np.uint8)
        monkeypatch.setattr(chosen, "binomial_tail_inversion", lambda e, n, log_delta: real(e, n, math.log(0.2)))
        failed[0] += chosen._bound_of_best_tree(wrong, np.full(100, 0.01), 0.2)[0].raw < 0.5
        monkeypatch.setattr(chosen, "binomial_tail_inversion", real)
        failed[1] += chosen._bound_of_best_tree(wrong, np.full(100, 0.01), 0.2)[0].raw < 0.5
    assert failed[0] > 40
    assert failed[1] <= 12


def test_refused(post):
    X, y = rows(np.random.default_rng(1), 20)
    with pytest.raises(ValueError, match="choose='yes' is not a boolean"):
        post.holdout_certificate(X, y, choose="yes")
    with pytest.raises(ValueError, match="n_trees=0 is out of range"):
        post.holdout_certificate(X, y, choose=True, n_trees=0)
    with pytest.raises(ValueError, match="give one label a row"):
        post.holdout_certificate(X, y[:3], choose=True)
    with pytest.raises(ValueError, match="is unknown; give one of"):
        post.holdout_certificate(X, y, choose=True).predict_as("best", X)
    regression = exact.solve(
        pt.TreeModel(X, np.arange(20.0), split_prior=CUTS, tree_prior=pt.ChipmanPrior(0.9, 1.0, 1))
    )
    with pytest.raises(ValueError, match="is a regression"):
        regression.holdout_certificate(X, y, choose=True)
