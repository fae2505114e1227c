"""Chains stuck at different roots of equal posterior are seen; independent exact draws pass, nearly always."""

import warnings

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.posterior.convergence import check_convergence
from pactree_mcmc.posterior.ess import ConvergenceWarning, rhat

N = 60
NAMES = ["left", "twin", "other", "copy"]


def model():
    """Columns 0 and 1 are the same, so are 2 and 3: trees that split on the one or the other predict y equally."""
    pd = pytest.importorskip("pandas")
    x = np.arange(float(N))
    z = x * 7 % N
    y = np.where(x < 30, 0.0, np.where(z < 30, 1.0, 2.0))
    return pt.TreeModel(pd.DataFrame(np.column_stack([x, x, z, z]), columns=NAMES), y + 0.1 * np.sin(9.0 * x))


def tree(root, below):
    """Cut at the root, and on its right."""
    return pt.Tree([root, -1, below, -1, -1], [29.5, 0, 29.5, 0, 0], [1, 0, 3, 0, 0], [2, 0, 4, 0, 0])


def draws_of(trees, tree_of_draw):
    return pt.posterior_from_trees(model(), trees, tree_of_draw)


@pytest.mark.planted
@pytest.mark.parametrize("sticky", [False, True], ids=["to the end", "nearly"])
def test_different_roots_of_equal_posterior_are_named(sticky):
    """The log posterior, leaves, depth and predictions are the same in all draws: only the root differs."""
    trees = [tree(0, 2), tree(1, 2)]
    stuck = np.repeat([[0], [0], [1], [1]], 1000, axis=1)
    if sticky:
        stuck = stuck ^ (np.random.default_rng(0).random(stuck.shape) < 0.05)
    post = draws_of(trees, stuck)
    assert np.ptp(post.log_score + post.log_prior) < 1e-9 and np.ptp(post.predict([[40.0, 40.0, 3.0, 3.0]])) < 1e-9
    lines = check_convergence(post)
    figure = r"\d" if sticky else "inf"
    for what in ("root feature 'left'", "root feature 'twin'", "inclusion of feature 'left'"):
        assert any(line.startswith(f"{what}: R-hat ") for line in lines), what
    assert sticky or sum("R-hat inf" in line for line in lines) == 4, figure
    assert not any(line.startswith(("log posterior", "number of leaves", "depth", "prediction")) for line in lines)
    table = post.summary()
    assert table.loc["root feature 'left'", "rhat"] > 1.5 and table.loc["lp", "rhat"] == pytest.approx(1.0, abs=0.01)
    worst = "root feature 'left'", "inclusion of feature 'left'"
    assert all(f"{name} ({'' if sticky else 'inf'}" in table.attrs["verdict"] for name in worst)


@pytest.mark.planted
def test_features_below_the_root_are_named():
    """All chains have the same root; which of two copies is split on below it differs from chain to chain."""
    lines = check_convergence(draws_of([tree(0, 2), tree(0, 3)], np.repeat([[0], [0], [0], [1]], 1000, axis=1)))
    assert [line.split(":")[0] for line in lines[1:-1]] == [f"inclusion of feature {name!r}" for name in NAMES[2:]]


@pytest.mark.planted
def test_a_depth_that_does_not_mix_is_named():
    """Two trees of four leaves, one of them deep."""
    deep = pt.Tree(
        [0, 0, 0, -1, -1, -1, -1], [29.5, 19.5, 9.5, 0, 0, 0, 0], [1, 2, 3, 0, 0, 0, 0], [6, 5, 4, 0, 0, 0, 0]
    )
    flat = pt.Tree(
        [0, 0, -1, -1, 0, -1, -1], [29.5, 19.5, 0, 0, 39.5, 0, 0], [1, 2, 0, 0, 5, 0, 0], [4, 3, 0, 0, 6, 0, 0]
    )
    lines = check_convergence(draws_of([deep, flat], np.repeat([[0], [1], [0], [1]], 500, axis=1)))
    assert any(line.startswith("depth: R-hat inf") for line in lines)
    assert not any(line.startswith("number of leaves") for line in lines)


def test_constants_are_fine_and_the_verdict_promises_nothing():
    post = draws_of([tree(0, 2)], np.zeros((4, 500), dtype=np.int64))
    assert check_convergence(post) == []
    verdict = post.summary().attrs["verdict"]
    assert verdict.startswith(
        "The 4 chains agree within what is wanted. No proof of convergence: chains that are all in"
    )
    assert rhat(post.root_feature == 0) == 1.0


@pytest.fixture(scope="module")
def truth():
    """Eight features, several of them at the root, trees of up to six leaves."""
    rng = np.random.default_rng(3)
    X = rng.integers(0, 3, (70, 5)).astype(float)
    y = (X[:, 0] + X[:, 1] + rng.normal(size=70) > 2.0) ^ (rng.random(70) < 0.2)
    return exact.solve(pt.TreeModel(X, y, tree_prior=pt.ChipmanPrior(0.9, 1.0, 3), split_prior=pt.GridCuts(2)))


def false_alarms(truth, runs, draws, rng=1):
    """Return the number of runs of four chains of independent draws with a warning, and of quantities checked."""
    post = truth.sample(4 * draws * 20, rng=rng)
    pool, rng, alarms = post.draws.tree_of_draw.ravel(), np.random.default_rng(rng), 0
    for _ in range(runs):
        post = pt.SampledPosterior(post.draws.replace(tree_of_draw=rng.choice(pool, (4, draws))))
        alarms += bool(check_convergence(post))
    return alarms, len(post.summary()) - 5


@pytest.mark.more
def test_false_alarms_are_rarer_than_one_in_a_hundred(truth):
    assert false_alarms(truth, 300, 1000)[0] == 0


def test_the_sampler_warns_of_a_root_that_does_not_move():
    """Twins at the root under grow-prune, whose chains keep the root they start with."""
    of = model()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        pt.sample(
            of, 200, tune=50, chains=4, rng=1, kernel="grow-prune", start=[tree(0, 2), tree(1, 2)] * 2, progress=False
        )
    messages = [str(w.message) for w in caught if w.category is ConvergenceWarning]
    assert len(messages) == 1 and "root feature 'left' (inf, " in messages[0]
