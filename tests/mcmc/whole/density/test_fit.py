"""The density fitted to simulated decisions is the one that made them."""

import numpy as np
import pytest
from scipy.special import expit

from pactree_mcmc.mcmc.state.records import N_CELL_TERMS, N_DEPTH_CLASSES, N_SPLIT_TERMS, initial_density
from pactree_mcmc.mcmc.whole.density.fit import Decisions, conditional_logit_loss, fit_density, join_decisions

TRUE = np.array([1.5, -0.7, 0.4, 0.0, -1.0, 0.6])
TRUE_SPLIT = np.array([0.3, 0.8, -0.5, 0.2, 0.0, -0.4, 0.5, -0.2])


def simulated(n=4000, n_splits=20, expected=None, level=0, seed=0):
    """Decisions drawn from a known density; ``expected``: splits in the sample that stands for those of a cell."""
    rng = np.random.default_rng(seed)
    cells = rng.normal(size=(n, N_CELL_TERMS))
    cells[:, 0] = 1.0
    split = rng.random(n) < expit(cells @ TRUE_SPLIT)
    terms, offset, first, chosen = [], [], [0], []
    for i in range(n):
        if split[i]:
            f, log_rule = rng.normal(size=(n_splits, N_SPLIT_TERMS)), rng.normal(size=n_splits)
            z = log_rule + f @ TRUE
            q = rng.choice(n_splits, p=np.exp(z - np.logaddexp.reduce(z)))
            # a sample by other terms than the distribution's, given that it holds the split taken
            include = np.ones(n_splits) if expected is None else np.clip(expected * expit(f[:, 0]) / 10.0, 0.05, 1.0)
            kept = (rng.random(n_splits) < include) | (np.arange(n_splits) == q)
            chosen.append(first[-1] + int(kept[:q].sum()))
            terms.append(f[kept])
            offset.append(log_rule[kept] - np.log(include[kept]))
        else:
            chosen.append(-1)
        first.append(first[-1] + (int(kept.sum()) if split[i] else 0))
    return Decisions(
        np.full(n, level),
        split.astype(float),
        cells,
        np.array(first),
        np.array(chosen),
        np.concatenate([np.empty((0, N_SPLIT_TERMS)), *terms]),
        np.concatenate([np.empty(0), *offset]),
        np.array([n, first[-1]]),
    )


def fitted(decisions):
    """The parameters of the root: of splitting, and of splits."""
    density = fit_density(decisions)
    assert np.array_equal(density[1:-1], initial_density()[1:-1])
    return density[0, :N_CELL_TERMS], density[0, N_CELL_TERMS:]


@pytest.mark.parametrize("expected", [None, 4.0])
def test_the_density_that_made_the_decisions_is_found(expected):
    """Also from samples of the splits, whose probabilities are taken off."""
    split, ways = fitted(simulated(expected=expected))
    assert np.abs(split - TRUE_SPLIT).max() < 0.15
    assert np.abs(ways - TRUE).max() < 0.15
    x = np.random.default_rng(1).normal(size=(500, N_CELL_TERMS))
    assert np.abs(expit(x @ split) - expit(x @ TRUE_SPLIT)).mean() < 0.02
    f = np.random.default_rng(2).normal(size=(500, 8, N_SPLIT_TERMS))
    z, w = f @ ways, f @ TRUE
    found, true = (np.exp(v - np.logaddexp.reduce(v, axis=1, keepdims=True)) for v in (z, w))
    assert np.abs(found - true).mean() < 0.01


@pytest.mark.planted
def test_samples_taken_for_all_splits_are_noticed():
    decisions = simulated(expected=4.0)
    include = np.clip(4.0 * expit(decisions.split_terms[:, 0]) / 10.0, 0.05, 1.0)
    _, ways = fitted(decisions._replace(offset=decisions.offset + np.log(include)))
    assert np.abs(ways - TRUE).max() > 0.2


def test_derivatives_are_finite_differences():
    d = simulated(40, 7)
    split = np.flatnonzero(d.choice >= 0)
    theta = np.random.default_rng(3).normal(size=N_SPLIT_TERMS)

    def at(theta):
        gradient, hessian = np.zeros(len(theta)), np.zeros((len(theta), len(theta)))
        rest = (d.first[split], d.first[split + 1], d.choice[split], gradient, hessian)
        rest = (*rest, np.empty(len(d.offset)), np.empty(N_SPLIT_TERMS))
        return conditional_logit_loss(theta, d.split_terms, d.offset, *rest), gradient, hessian

    value, gradient, hessian = at(theta)
    distribution = 0.0
    for i in split:
        rows = slice(d.first[i], d.first[i + 1])
        z = d.offset[rows] + d.split_terms[rows] @ theta
        distribution -= z[d.choice[i] - d.first[i]] - np.logaddexp.reduce(z)
    assert value == pytest.approx(distribution, rel=1e-12)
    h = 1e-5 * np.eye(len(theta))
    slopes = [(at(theta + e)[0] - at(theta - e)[0]) / 2e-5 for e in h]
    bends = [(at(theta + e)[1] - at(theta - e)[1]) / 2e-5 for e in h]
    assert np.allclose(gradient, slopes, rtol=1e-6, atol=1e-6)
    assert np.allclose(hessian, bends, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("constant", [0.0, 3.0, 1e8])
def test_constant_terms(constant):
    """What never changes tells nothing and stops nothing."""
    d = simulated(200, 5)
    d.cell_terms[:, 3] = constant
    d.split_terms[:, 2] = constant
    density = fit_density(d)
    assert np.isfinite(density).all()
    assert abs(density[0, N_CELL_TERMS + 2] * constant) < 5.0


def test_few_decisions_change_little_and_none_change_nothing():
    none, one = (join_decisions([simulated(n, 4, level=level) for level in range(N_DEPTH_CLASSES)]) for n in (0, 1))
    assert np.array_equal(fit_density(none), initial_density())
    assert 0.0 < np.abs(fit_density(one) - initial_density())[:-1].max() < 3.0


@pytest.mark.parametrize("is_split", [0.0, 1.0])
def test_cells_that_all_decide_alike(is_split):
    d = simulated(100, 4)
    d.is_split[:] = is_split
    density = fit_density(d)
    assert np.isfinite(density).all()
    assert np.mean(expit(d.cell_terms @ density[0, :N_CELL_TERMS]) > 0.5) == is_split


@pytest.mark.parametrize("size", [1e-15, 1e-9, 1e-5])
def test_terms_of_rounding_errors_have_no_parameter(size):
    """Otherwise the same split would have another probability if its terms are computed in another order."""
    d = simulated(400, 5)
    rng = np.random.default_rng(1)
    d.cell_terms[:, 1] = 2.0 + size * rng.normal(size=len(d.cell_terms))
    d.split_terms[:, 0] = size * rng.normal(size=len(d.split_terms))
    split, ways = fitted(d)
    assert abs(split[1]) < 10.0 and abs(ways[0]) < 10.0


def test_decisions_are_joined_as_they_are():
    parts = [simulated(30, 4, seed=s) for s in (1, 2, 3)]
    whole = join_decisions(parts)
    at = 0
    for part in parts:
        for i in range(len(part.level)):
            ours, theirs = slice(*whole.first[at + i : at + i + 2]), slice(*part.first[i : i + 2])
            assert np.array_equal(whole.split_terms[ours], part.split_terms[theirs])
            if part.choice[i] >= 0:
                taken = whole.split_terms[whole.choice[at + i]]
                assert np.array_equal(taken, part.split_terms[part.choice[i]])
        at += len(part.level)
