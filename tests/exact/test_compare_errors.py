"""The Monte-Carlo errors of a comparison: z over many short runs has standard deviation 1, for rare events too."""

import numpy as np
import pytest

import exact
import pactree_mcmc as pt

RNG = np.random.default_rng(0)
X = RNG.integers(0, 5, (60, 3)).astype(float)
Y = X[:, 0] + RNG.normal(0.0, 2.5, 60)


@pytest.fixture(scope="module")
def truth():
    return exact.solve(pt.TreeModel(X, Y, tree_prior=pt.ChipmanPrior(0.95, 2.0, max_depth=3)))


def z_of_rows(truth, runs):
    """Exact values and z (runs, rows) of events and predictions over several runs."""
    rows = [[row for row in exact.compare(truth, run, X=X[:4]).rows if np.isfinite(row.z)] for run in runs]
    return np.array([row.exact for row in rows[0]]), np.array([[row.z for row in one] for one in rows])


def is_event(truth, run):
    rows = [row for row in exact.compare(truth, run, X=X[:4]).rows if np.isfinite(row.z)]
    return np.array([not row.quantity.startswith("predictive") for row in rows])


def check(truth, runs, least=0.75):
    exact_values, z = z_of_rows(truth, runs)
    event = is_event(truth, runs[0])
    chance = np.minimum(exact_values, 1.0 - exact_values)
    for rows in (event & (chance < 0.05) & (chance > 0.001), event & (chance >= 0.05), ~event):
        some = z[:, rows]
        assert some.size
        assert least < some.std() < 1.2
        assert np.mean(np.abs(some) > 2.0) < 0.09 and np.mean(np.abs(some) > 3.0) < 0.02


def test_independent_draws(truth):
    """With the variance of the draws, z of events of probability below .05 is beyond 3 in 4 of 100 runs."""
    check(truth, [truth.sample(1000, rng=seed) for seed in range(60)])


def test_an_event_that_is_never_seen_has_the_exact_variance(truth):
    run = truth.sample(1000, rng=1)
    rows = exact.compare(truth, run).rows
    for row in rows:
        if row.quantity.startswith(("leaves", "root", "inclusion")) and row.exact < 0.999:
            variance = row.exact * (1.0 - row.exact)
            # the effective size of independent draws is estimated, and seldom below one half of their number
            assert variance / 1500 < row.mc_error**2 < variance / 500


def test_a_wrong_sampler_is_seen(truth):
    """Draws of another model have z far beyond 3."""
    other = pt.TreeModel(X, Y, tree_prior=pt.ChipmanPrior(0.5, 2.0, max_depth=3))
    wrong = exact.solve(other).sample(1000, rng=1)
    trees = [wrong.draws.distinct_tree(t) for t in range(wrong.draws.n_distinct_trees)]
    run = pt.posterior_from_trees(truth.model, trees, wrong.draws.tree_of_draw)
    assert exact.compare(truth, run).max_abs_z > 8.0
