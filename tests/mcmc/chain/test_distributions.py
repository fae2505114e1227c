"""Long runs have the distribution they should: the prior without data, the posterior with data; prior draws too."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import pactree_mcmc as pt
from pactree_mcmc.mcmc.chain import start as _start
from pactree_mcmc.model.model import draw_prior
from tests.mcmc.distributions import STATISTICS, check_distribution_of_chains, check_independent_draws, seed_of
from tests.problems.leaves import LEAVES
from tests.problems.models import build_model
from tests.problems.priors import FIXED, RHO_BY_NODE
from tests.problems.spaces import case_problem, problem
from tests.problems.tables import THREE
from tests.problems.trees import library_tree, nested_tree
from tests.reference.enumeration import Reference

CHAINS, DRAWS, TUNE, PROPOSALS = 32, 250, 100, 20
"""Few proposals a draw will do: the errors are those of chains, whatever the autocorrelation; trees have few leaves."""
PRIOR_BLOCKS = 40
"""Blocks of proposals that draw a tree from the leaf penalty: a fifth of the usual, on spaces this small."""
GUIDED = {"learned": 0.5, "informed-change": 0.5}
"""The moves that draw from a learned density, alone."""
BY_NODE = {"kind": "conditioned", "rho": RHO_BY_NODE, "max_depth": 3}
LIGHT, UNSCORED = "weights that are lost in every sum", "no row that weighs the trees"
ALL = ("grow-prune", "blanchard", "default", "cgm", "whole", "guided")
RUNS = {
    ("weighted_rows", "chipman", "dirichlet", LIGHT): ("grow-prune", "blanchard", "default", "whole"),
    ("four_categories", "stopped_by_depth", "nig", LIGHT): ("grow-prune", "blanchard", "default", "whole"),
    ("trivial", "conditioned", "poisson", LIGHT): ("grow-prune", "blanchard", "default", "whole"),
    ("min_leaf_2_nominal", "penalty", "known", LIGHT): ("grow-prune", "blanchard", "default", "whole"),
    ("grid", "penalty_empty_cheap", "loss", LIGHT): ("grow-prune", "blanchard", "default", "whole"),
    ("dyadic", "stopped", "dirichlet", LIGHT): ("grow-prune", "blanchard", "default", "whole"),
    ("three_categories", "chipman", "laplace", UNSCORED): ("grow-prune", "blanchard"),
    ("cyclic", "chipman", "laplace", UNSCORED): ("grow-prune", "blanchard"),
    ("ties", "chipman", "laplace", None): ALL,
    ("feature_weights", "conditioned_by_depth", "dirichlet", None): ALL,
    ("min_leaf_2_nominal", "stopped", "nig", None): ALL,
    ("gaps_local", "chipman", "nig", None): ("whole", "guided"),
    ("gaps_nominal", "chipman", "nig", None): ("whole", "guided"),
    ("gaps_grid_line", "chipman", "nig", None): ("whole", "guided"),
}
PRIORS_TO_DRAW_FROM = [
    ("ties", "chipman"),
    ("four_categories", "stopped"),
    ("three_categories", "conditioned_by_depth"),
    ("trivial", "stopped_by_depth"),
    ("min_leaf_2_nominal", "chipman"),
    ("min_leaf_3_nominal", "conditioned"),
    ("grid", "stopped_by_depth"),
    ("dyadic", "conditioned"),
    ("cyclic", "chipman"),
    ("fixed", "by node"),
]


@pytest.fixture(autouse=True)
def _short_chains_of_the_penalty(monkeypatch):
    monkeypatch.setattr(_start, "PRIOR_BLOCKS", PRIOR_BLOCKS)


def check_long_run(naive, distributions, kernel, name):
    seed, kernel = seed_of(f"{kernel} {name}"), GUIDED if kernel == "guided" else kernel
    run = {"tune": TUNE, "chains": CHAINS, "proposals": PROPOSALS, "progress": False}
    post = pt.sample(build_model(pt, naive), DRAWS, rng=seed, kernel=kernel, **run)
    check_distribution_of_chains(post, distributions, seed)


@cache
def problem_of(case, prior, leaf, change):
    """Return the problem of a case, and its distributions. They are those of the prior if it has no scores."""
    naive = case_problem(case, prior, leaf)
    if change == UNSCORED:
        naive = case_problem(case, prior, leaf, estimation=[True] * len(naive.X))
    if change == LIGHT:
        naive.weights = [1e-300] * len(naive.X)
    reference = Reference(naive)
    assert change is None or max(abs(score) for _, _, score in reference.entries) < 1e-100
    return naive, {name: reference.distribution_of(statistic) for name, statistic in STATISTICS.items()}


@pytest.mark.more(
    everyday=[
        "grow-prune-('weighted_rows', 'chipman', 'dirichlet', 'weights that are lost in every sum')",
        "blanchard-('four_categories', 'stopped_by_depth', 'nig', 'weights that are lost in every sum')",
        "default-('trivial', 'conditioned', 'poisson', 'weights that are lost in every sum')",
        "cgm-('ties', 'chipman', 'laplace', None)",
        "guided-('feature_weights', 'conditioned_by_depth', 'dirichlet', None)",
    ]
)
@pytest.mark.parametrize(
    ("kernel", "space"), [(kernel, space) for space, kernels in RUNS.items() for kernel in kernels], ids=str
)
def test_long_runs(kernel, space):
    check_long_run(*problem_of(*space), kernel, space)


@pytest.mark.more
@pytest.mark.parametrize("kernel", ["default", "whole", "guided"])
def test_posterior_under_a_shared_variance(kernel):
    """The distribution of trees without the variance: the prior times the score that integrates it out."""
    leaf = {"kind": "shared", "m0": 0.4, "k0": 0.5, "a0": 2.0, "b0": 0.3}
    naive, known = (
        replace(case_problem("ties", "chipman", "known"), leaf=leaf),
        case_problem("ties", "chipman", "known"),
    )
    model, entries = build_model(pt, naive), Reference(known).entries
    log_joint = [log_prior + model.log_score(library_tree(pt, known, tree)) for tree, log_prior, _ in entries]
    weight = np.exp(np.array(log_joint) - max(log_joint))
    distributions = {name: {} for name in STATISTICS}
    for name, statistic in STATISTICS.items():
        for (tree, _, _), fraction in zip(entries, weight / weight.sum(), strict=True):
            distributions[name][statistic(tree)] = distributions[name].get(statistic(tree), 0.0) + float(fraction)
    check_long_run(naive, distributions, kernel, "shared variance")


def prior_distribution(naive):
    """Prior probabilities of all trees, normalised."""
    reference = Reference(naive)
    weight = np.exp([log_prior for _, log_prior, _ in reference.entries])
    trees = [tree for tree, _, _ in reference.entries]
    return dict(zip(trees, weight / weight.sum(), strict=True))


@pytest.mark.more(everyday=["ties-chipman"])
@pytest.mark.parametrize(("case", "prior"), PRIORS_TO_DRAW_FROM)
def test_draws_from_the_prior(case, prior):
    if case == "fixed":
        naive = problem(THREE, FIXED, BY_NODE, LEAVES["dirichlet"])
    else:
        naive = case_problem(case, prior, "dirichlet")
    seed = seed_of(f"prior draws {case} {prior}")
    model, rng = build_model(pt, naive), np.random.default_rng(seed)
    drawn = [nested_tree(naive, draw_prior(model, rng).tree) for _ in range(400)]
    check_independent_draws(drawn, prior_distribution(naive), seed)


@pytest.mark.parametrize(("case", "prior"), [("ties", "penalty"), ("grid_deep", "penalty_empty_cheap")])
def test_draws_from_the_leaf_penalty(case, prior):
    """The penalty is drawn by a chain that sees no data, whatever the data say."""
    naive = case_problem(case, prior, "dirichlet", weights=[50.0] * 5)
    seed = seed_of(f"penalty draws {case}")
    model, rng = build_model(pt, naive), np.random.default_rng(seed)
    assert draw_prior(model, rng) is None
    drawn = [nested_tree(naive, _start.draw_prior_tree(model, rng)) for _ in range(150)]
    check_independent_draws(drawn, prior_distribution(naive), seed)
