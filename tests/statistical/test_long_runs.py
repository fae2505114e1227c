"""Long runs of both kernels agree with the exact posterior within Monte-Carlo error.

Two gates: the run must mix (effective sizes of at least 400), then no quantity may be off by more than the normal
quantile at a false-alarm rate of 1e-4 for the whole test, shared out over its quantities.
"""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import exact
import pactree_mcmc as pt
from pactree_mcmc.inference_data import ess

FALSE_ALARM = 1e-4


def nominal_problem():
    rng = np.random.default_rng(5)
    table = pd.DataFrame({"size": rng.integers(0, 5, 30), "kind": pd.Categorical(rng.choice(list("abcd"), 30))})
    y = np.where(rng.random(30) < 0.25 + 0.5 * table["kind"].isin(["a", "b"]), "yes", "no")
    return pt.TreeModel(table, y, tree_prior=pt.ChipmanPrior(0.9, 1.0), questions=pt.LocalCuts(min_leaf=2))


def grid_regression():
    rng = np.random.default_rng(6)
    X = rng.random((25, 2))
    y = (X[:, 0] > 0.4) + 0.7 * rng.normal(size=25)
    prior = pt.BranchingProcess(rho=0.4, max_depth=4, conditioned=True)
    return pt.TreeModel(X, y, tree_prior=prior, questions=pt.GridCuts(4))


def dyadic_laplace():
    rng = np.random.default_rng(7)
    X = rng.random((60, 2))
    y = (rng.random(60) < 0.2 + 0.6 * (X[:, 1] > 0.5)).astype(int)
    prior = pt.BranchingProcess(rho=0.45, max_depth=3)
    mask = np.arange(60) % 3 == 0
    return pt.TreeModel(X, y, tree_prior=prior, questions=pt.DyadicCuts(2), leaf=pt.FrozenLaplace(), estimation=mask)


@pytest.mark.parametrize("kernel", ["grow-prune", "blanchard"])
@pytest.mark.parametrize("problem", [nominal_problem, grid_regression, dyadic_laplace])
def test_agrees_with_exact(problem, kernel):
    model = problem()
    truth = exact.solve(model)
    sampled = pt.sample(model, draws=6000, tune=200, chains=4, rng=11, kernel=kernel, thin=6, progress=False)
    assert ess(sampled.n_leaves[sampled.tree_of_draw].astype(float)) >= 400
    rows = [
        row
        for row in exact.compare(truth, sampled).rows
        if np.isfinite(row.z) and (row.quantity.startswith("predictive") or 0.01 <= row.exact <= 0.99)
    ]
    assert len(rows) >= 10
    threshold = norm.isf(FALSE_ALARM / (2 * len(rows)))
    worst = max(rows, key=lambda row: abs(row.z))
    assert abs(worst.z) <= threshold, f"{worst}; allowed |z| {threshold:.2f}, rng=11"


def test_a_wrong_prior_is_noticed():
    """Negative control: chains of a model with another tree prior do not pass for this one's."""
    model, truth = nominal_problem(), exact.solve(nominal_problem())
    other = nominal_problem()
    other.tree_prior = pt.ChipmanPrior(0.8, 1.0)
    sampled = pt.sample(other, draws=6000, tune=200, chains=4, rng=11, thin=2, progress=False)
    sampled.model = truth.model
    assert model is not other
    assert exact.compare(truth, sampled).max_abs_z > 6
