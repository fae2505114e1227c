"""Regrowing a line: with one ordered feature, each step draws the whole tree from the posterior."""

from math import inf

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.mcmc.state.records import MAX_LINE_SUMS, MIN_LINE_LEVELS
from pactree_mcmc.testing.spaces import plain_package
from tests.mcmc.balance import check_balance, moving
from tests.mcmc.transitions import explore, posterior_of
from tests.problems.leaves import LEAVES
from tests.problems.models import build_model
from tests.problems.spaces import case_problem
from tests.problems.tree_priors import PRIORS

LINES = ("line_of_four", "short_line", "pairs_on_a_line", "weighted_line", "grid_line", "feature_without_weight")
LINE, MOVE = "mcmc.sums.interval_sums", "mcmc.moves.regrow_line"


def distance_and_transition(case, prior, leaf, beta=1.0):
    """Return the largest difference of the distribution of the next tree from the posterior, and the matrix."""
    model = build_model(plain_package().package, case_problem(case, prior, leaf))
    space = explore(model, "regrow-line", beta, walker="grow-prune")
    distribution = posterior_of(model, space.trees, beta)
    return np.abs(space.transition - distribution).max(), space.transition


@pytest.mark.more(everyday=["line_of_four-chipman-dirichlet", "feature_without_weight-conditioned_by_depth-poisson"])
@pytest.mark.parametrize(
    ("case", "prior", "leaf"),
    [(LINES[i % 6], prior, list(LEAVES)[(i + i // 6) % 6]) for i, prior in enumerate([*PRIORS, *PRIORS])],
)
def test_the_next_tree_is_drawn_from_the_posterior(case, prior, leaf):
    distance, transition = distance_and_transition(case, prior, leaf)
    assert len(transition) > 3
    assert distance < 1e-12


@pytest.mark.parametrize("beta", [0.0, 0.4])
def test_the_tempered_posterior(beta):
    assert distance_and_transition("weighted_line", "chipman", "nig", beta)[0] < 1e-12


@pytest.mark.more
def test_sums_of_small_shares(monkeypatch):
    """Sums too small for fractions are found from logs."""
    monkeypatch.setattr(plain_package().module(LINE), "MIN_SUM", inf)
    assert distance_and_transition("short_line", "stopped_by_depth", "nig")[0] < 1e-12
    assert distance_and_transition("pairs_on_a_line", "chipman", "poisson")[0] < 1e-12


def test_off_where_subtrees_are_too_large(monkeypatch):
    monkeypatch.setattr(plain_package().module(MOVE), "MAX_DRAWN_INTERNAL", -1)
    assert (distance_and_transition("short_line", "stopped_by_depth", "nig")[1] == np.eye(11)).all()


def test_subtrees_without_a_share_stay(monkeypatch):
    """A run that weighs far less than it would at another level is left out, and trees with one stay."""
    monkeypatch.setattr(plain_package().module(LINE), "LOG_SMALLEST_FRACTION", -0.2)
    space = check_balance(case_problem("line_of_four", "stopped_by_depth", "nig"), "regrow-line", walker="grow-prune")
    stays = np.diag(space.transition) == 1.0
    assert 0 < stays.sum() < len(stays) - 1


@pytest.mark.parametrize("leaf", ["dirichlet", "nig"])
def test_a_line_below_other_splits(leaf):
    space = check_balance(case_problem("line_below", "chipman", leaf), "regrow-line", walker="grow-prune")
    assert 0.0 < moving(space).max() < 1.0


def test_few_codes_fit(monkeypatch):
    """A table with too little room is not made, and other moves stay in balance with what is."""
    monkeypatch.setattr(plain_package().module("mcmc.state.tree"), "MIN_LINE_SUMS", 40)
    space = check_balance(case_problem("line_below", "chipman", "nig"), "regrow-line", walker="grow-prune")
    assert moving(space).max() > 0.0


def test_large_subtrees_stay(monkeypatch):
    monkeypatch.setattr(plain_package().module(MOVE), "MAX_DRAWN_INTERNAL", 1)
    space = check_balance(case_problem("line_of_four", "chipman", "nig"), "regrow-line", walker="grow-prune")
    large = np.array([tree.n_leaves > 2 for tree in space.trees])
    assert (np.diag(space.transition)[large] == 1.0).all()
    assert (space.transition[~large][:, large] == 0.0).all()


def test_deep_subtrees_stay(monkeypatch):
    """With fewer levels than trees may have, the next of those that are not deeper is drawn from their distribution."""
    monkeypatch.setattr(plain_package().module("mcmc.state.records"), "MAX_LINE_LEVELS", 3)
    space = check_balance(case_problem("line_of_four", "chipman", "nig"), "regrow-line", walker="grow-prune")
    model = build_model(plain_package().package, case_problem("line_of_four", "chipman", "nig"))
    deep, distribution = np.array([tree.depth > 2 for tree in space.trees]), posterior_of(model, space.trees)
    assert deep.any()
    assert (np.diag(space.transition)[deep] == 1.0).all()
    assert np.abs(space.transition[~deep] - np.where(deep, 0.0, distribution) / distribution[~deep].sum()).max() < 1e-12


def steps(n=120, seed=0):
    """A function with three steps, in one dimension."""
    rng = np.random.default_rng(seed)
    x = rng.random(n)
    return x[:, None], (rng.random(n) < np.select([x < 0.3, x < 0.6, x < 0.8], [0.9, 0.2, 0.7], 0.1)).astype(int)


@pytest.mark.more
def test_distribution_of_the_root_in_one_dimension():
    """Independent draws: the total variation is that of so many draws from the exact distribution."""
    X, y = steps()
    model = pt.TreeModel(X, y, tree_prior=pt.ChipmanPrior(0.95, 1.0, max_depth=8))
    post = pt.sample(model, 2000, tune=0, chains=2, rng=1, proposals=5, progress=False)
    distribution = exact.solve(model)._root_split_pmf()
    exact_distribution = {key[1]: p for key, p in distribution.items() if key}
    fractions = {}
    for t, fraction in zip(*np.unique(post.tree_of_draw, return_counts=True), strict=True):
        tree = post.distinct_tree(int(t))
        if tree.feature[0] >= 0:
            key = float(tree.threshold[0])
            fractions[key] = fractions.get(key, 0.0) + fraction / post.tree_of_draw.size
    by_exact_cut = {min(exact_distribution, key=lambda cut: abs(cut - key)): p for key, p in fractions.items()}
    assert len(by_exact_cut) == len(fractions)
    distance = 0.5 * sum(abs(by_exact_cut.get(cut, 0.0) - p) for cut, p in exact_distribution.items())
    expected = 0.5 * sum(
        np.sqrt(2.0 * p * (1.0 - p) / np.pi / post.tree_of_draw.size) for p in exact_distribution.values()
    )
    assert distance < 2.0 * expected


def moves_of(model, **how):
    return pt.sample(model, 2, tune=0, chains=1, rng=0, proposals=10, progress=False, **how).moves


def test_when_the_default_kernel_regrows_lines():
    X, y = steps(60)
    assert "regrow-line" in moves_of(pt.TreeModel(X, y))
    assert "regrow-line" in moves_of(pt.TreeModel(X, y, split_prior=pt.GridCuts(10)))
    assert "regrow-line" not in moves_of(pt.TreeModel(np.hstack([X, X**2]), y))
    assert "regrow-line" not in moves_of(pt.TreeModel(X, y), betas=[1.0, 0.5])
    assert "regrow-line" not in moves_of(pt.TreeModel(X, y, split_prior=pt.DyadicCuts(3)))
    many = np.arange(600.0)[:, None]
    assert 2 * MIN_LINE_LEVELS * len(many) ** 2 > MAX_LINE_SUMS
    assert "regrow-line" not in moves_of(pt.TreeModel(many, many[:, 0] > 250))


@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_strong_steps(scale):
    """Chains agree with the exact answer if one tree has nearly all the mass, or fractions underflow."""
    x = np.arange(40.0)
    y = np.where(x < 11, 0.0, np.where(x < 23, 5.0, -3.0)) + 0.01 * np.sin(x)
    model = pt.TreeModel(
        x[:, None], y, leaf=pt.NormalKnownVariance(scale, 0.0, 0.01), tree_prior=pt.ChipmanPrior(0.95, 1.0, max_depth=6)
    )
    post = pt.sample(model, 400, tune=100, chains=2, rng=2, proposals=20, progress=False)
    mean = post.n_leaves.mean()
    truth = exact.solve(model).n_leaves_pmf()
    assert mean == pytest.approx(truth @ np.arange(len(truth)), rel=0.1)
