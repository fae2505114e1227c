"""Long runs of every kernel and move agree with the exact posterior within Monte-Carlo error.

Two gates. The run must mix and see enough: effective sizes of at least 400, and no standard error of a probability
above MOST_ERROR. Then no quantity may be off by more than the normal quantile at the false-alarm rate of the test,
shared out over its quantities: 4.65 standard errors for 30 of them. Hence a probability that is off by
(4.65 + 2.33) MOST_ERROR = .042 is noticed with probability .99.
"""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import exact
import pactree_mcmc as pt
from pactree_mcmc.mcmc.kernel import STEPS, read_kernel
from pactree_mcmc.posterior.ess import ess

FALSE_ALARM = 1e-4
MOST_ERROR = 0.006


def nominal_problem():
    rng = np.random.default_rng(5)
    table = pd.DataFrame({"size": rng.integers(0, 5, 30), "kind": pd.Categorical(rng.choice(list("abcd"), 30))})
    y = np.where(rng.random(30) < 0.25 + 0.5 * table["kind"].isin(["a", "b"]), "yes", "no")
    return pt.TreeModel(table, y, tree_prior=pt.ChipmanPrior(0.9, 1.0), split_prior=pt.LocalCuts(min_leaf=2))


def grid_regression():
    rng = np.random.default_rng(6)
    X = rng.random((25, 2))
    y = (X[:, 0] > 0.4) + 0.7 * rng.normal(size=25)
    prior = pt.BranchingProcess(rho=0.4, max_depth=4, conditioned=True)
    return pt.TreeModel(X, y, tree_prior=prior, split_prior=pt.GridCuts(4))


def dyadic_laplace():
    rng = np.random.default_rng(7)
    X = rng.random((60, 2))
    y = (rng.random(60) < 0.2 + 0.6 * (X[:, 1] > 0.5)).astype(int)
    prior = pt.BranchingProcess(rho=0.45, max_depth=3)
    mask = np.arange(60) % 3 == 0
    return pt.TreeModel(X, y, tree_prior=prior, split_prior=pt.DyadicCuts(2), leaf=pt.FrozenLaplace(), estimation=mask)


def line_of_steps():
    rng = np.random.default_rng(8)
    x = rng.random(60)
    prior = pt.ChipmanPrior(0.9, 1.0, max_depth=5)
    return pt.TreeModel(x[:, None], (x > 0.3) * (x < 0.7) + 0.6 * rng.normal(size=60), tree_prior=prior)


def gaps():
    """Missing values of a feature, beside a nominal one."""
    rng = np.random.default_rng(9)
    table = pd.DataFrame(
        {"size": rng.integers(0, 4, 30).astype(float), "kind": pd.Categorical(rng.choice(list("abc"), 30))}
    )
    table.loc[rng.random(30) < 0.3, "size"] = np.nan
    y = np.where(rng.random(30) < 0.2 + 0.6 * table["size"].isna(), "yes", "no")
    return pt.TreeModel(table, y, tree_prior=pt.ChipmanPrior(0.9, 1.0, max_depth=3), missing="branch")


def compared(truth, sampled):
    """Quantities worth comparing, and how many standard errors one may be off."""
    rows = [
        row
        for row in exact.compare(truth, sampled).rows
        if np.isfinite(row.z) and (row.quantity.startswith("predictive") or 0.01 <= row.exact <= 0.99)
    ]
    assert len(rows) >= 10
    return rows, norm.isf(FALSE_ALARM / (2 * len(rows)))


def largest_error(rows):
    """Largest Monte-Carlo error of a probability; predictive means have units of their own."""
    return max(row.mc_error for row in rows if not row.quantity.startswith("predictive"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("problem", "kernel", "draws", "thin"),
    [
        (dyadic_laplace, "default", 2500, 1),
        (line_of_steps, "default", 2500, 1),
        (grid_regression, "whole", 2500, 1),
        (gaps, "whole", 2500, 3),
        (dyadic_laplace, "whole", 2500, 1),
        (nominal_problem, "default", 4500, 1),
        (nominal_problem, "whole", 2500, 3),
        (nominal_problem, "cgm", 4000, 1),
        (dyadic_laplace, "blanchard", 2500, 2),
        (grid_regression, "grow-prune", 3500, 2),
        (grid_regression, "default", 2500, 1),
    ],
)
def test_agrees_with_exact(problem, kernel, draws, thin):
    model = problem()
    sampled = pt.sample(model, draws=draws, tune=200, chains=4, rng=11, kernel=kernel, thin=thin, progress=False)
    assert ess(sampled.n_leaves.astype(float)) >= 400
    rows, allowed = compared(exact.solve(model), sampled)
    assert largest_error(rows) <= MOST_ERROR
    worst = max(rows, key=lambda row: abs(row.z))
    assert abs(worst.z) <= allowed, f"{worst}; allowed |z| {allowed:.2f}, rng=11"


@pytest.mark.slow
@pytest.mark.planted
def test_a_wrong_prior_is_noticed():
    """Negative control: chains of a model with another tree prior do not pass for this one's."""
    truth, other = exact.solve(nominal_problem()), nominal_problem()
    other.tree_prior = pt.ChipmanPrior(0.8, 1.0)
    sampled = pt.sample(other, draws=2500, tune=200, chains=4, rng=11, kernel="cgm", progress=False)
    sampled.model = truth.model
    rows, allowed = compared(truth, sampled)
    assert max(abs(row.z) for row in rows) > 2.0 * allowed


def test_every_move_runs_long():
    moves = {"grow-prune", "blanchard"}
    for kernel, is_line in (("cgm", False), ("default", False), ("default", True), ("whole", False)):
        moves |= set(read_kernel(kernel, is_line=is_line).names)
    assert moves == set(STEPS)
