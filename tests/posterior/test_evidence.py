"""The ratio of two normalisers by draws of both distributions, the error of a ladder of such ratios, the mass of the
prior.
"""

import math
import warnings

import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.special import ndtr

import exact
import pactree_mcmc as pt
from pactree_mcmc.mcmc.chain.tempering import LadderReport
from pactree_mcmc.posterior import evidence
from pactree_mcmc.posterior.evidence import PriorMass, join_ladder_reports, log_ratio, prior_mass


def normals(rng, n, shift=1.5, scale=0.7):
    """Log ratio of the densities exp(-z^2/2), z = (x - shift) / scale, and exp(-x^2/2), at draws of each."""

    def relative(x):
        return x**2 / 2 - ((x - shift) / scale) ** 2 / 2

    return relative(shift + scale * rng.standard_normal(n)), relative(rng.standard_normal(n))


def test_two_normal_distributions():
    """The normalisers are those of the scales."""
    high, low = normals(np.random.default_rng(1), 200_000)
    assert log_ratio(high, low) == pytest.approx(math.log(0.7), abs=0.01)
    assert log_ratio(-low, -high) == pytest.approx(-log_ratio(high, low), abs=1e-6)
    assert log_ratio(high + 1000.0, low + 1000.0) == pytest.approx(1000.0 + log_ratio(high, low), abs=1e-6)


BETAS = np.array([1.0, 0.5, 0.2, 0.0])
LADDERS = 150
ONE = PriorMass(0.0, -0.7)
"""A normalised prior."""
UNKNOWN_MASS = PriorMass(None, math.log(0.5))


def ladder(rng, n, time=1.0, shift=0.0):
    """Draws at each power of a score s whose distribution at power 0 is normal of variance 1: Z(b) = exp(b^2/2 + b
    shift).

    From draw to draw a score is an autoregression with integrated autocorrelation time ``time``.
    """
    phi = (time - 1.0) / (time + 1.0)
    noise = rng.standard_normal((n, len(BETAS)))
    noise[1:] *= math.sqrt(1.0 - phi**2)
    scores = lfilter([1.0], [1.0, -phi], noise, axis=0) + BETAS + shift
    return LadderReport(BETAS, scores, np.zeros(n, dtype=bool), np.ones(len(BETAS) - 1), 0)


def coverage(make, mass, truth, seed, repeats=LADDERS):
    """Return the coverage of two standard errors to both sides, and the fraction of runs with an error."""
    rng, is_covered = np.random.default_rng(seed), []
    for _ in range(repeats):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pt.ConvergenceWarning)
            tempering = join_ladder_reports(make(rng), mass)
        if tempering.log_evidence_se is not None:
            is_covered.append(abs(tempering.log_evidence - truth) < 2.0 * tempering.log_evidence_se)
    return np.mean(is_covered), len(is_covered) / repeats


@pytest.mark.more(everyday=["1-400-1.0"])
@pytest.mark.parametrize(
    ("chains", "draws", "time"), [(1, 400, 1.0), (1, 800, 10.0), (1, 2000, 40.0), (2, 1000, 20.0), (4, 500, 40.0)]
)
def test_two_errors_hold_the_evidence_of_a_ladder(chains, draws, time):
    """95 in 100, whatever the autocorrelation."""
    fraction, stated = coverage(lambda rng: [ladder(rng, draws, time) for _ in range(chains)], ONE, 0.5, 2)
    assert 0.95 - 4.0 * math.sqrt(0.95 * 0.05 / LADDERS) < fraction
    assert stated > 0.9


@pytest.mark.planted
def test_blocks_too_short_are_noticed(monkeypatch):
    """Were draws taken for independent, two errors would hold the truth far too rarely."""
    monkeypatch.setattr(evidence, "autocorrelation_times", lambda values: np.ones(len(values)))
    fraction, _ = coverage(lambda rng: [ladder(rng, 2000, 40.0)], ONE, 0.5, 2)
    assert fraction < 0.85


def test_two_errors_hold_where_stumps_tell_the_mass():
    """Stumps make half of the weights and three in five draws, and come in runs."""

    def make(rng):
        one = ladder(rng, 500)
        return [one._replace(is_stump=ndtr(0.6 * lfilter([1.0], [1.0, -0.8], rng.standard_normal(500))) < 0.6)]

    fraction, stated = coverage(make, UNKNOWN_MASS, 0.5 + math.log(0.5 / 0.6), 3)
    assert 0.95 - 4.0 * math.sqrt(0.95 * 0.05 / LADDERS) < fraction
    assert stated == 1.0


def with_stumps(n_stumps):
    tempering = ladder(np.random.default_rng(4), 500)
    return tempering._replace(is_stump=np.arange(500) * n_stumps % 500 < n_stumps)


@pytest.mark.parametrize(
    ("reports", "mass", "words"),
    [
        ([ladder(np.random.default_rng(4), 3)], ONE, "3 draws a chain are too few"),
        ([ladder(np.random.default_rng(4), 300, 40.0)], ONE, "depends? on each other over .* of 300 draws.*draws="),
        ([with_stumps(6)], UNKNOWN_MASS, "6 stumps at the last level"),
        (
            [ladder(np.random.default_rng(4), 200)._replace(scores=np.repeat(BETAS * 2e3, 200).reshape(4, 200).T)],
            ONE,
            "overlap by .* only.*betas=",
        ),
    ],
)
def test_no_error_is_stated_from_too_few_draws(reports, mass, words):
    with pytest.warns(pt.ConvergenceWarning, match=words):
        tempering = join_ladder_reports(reports, mass)
    assert np.isfinite(tempering.log_evidence) and tempering.log_evidence_se is None


SPLIT_PRIORS = {
    "local": pt.LocalCuts(),
    "min_leaf": pt.LocalCuts(min_leaf=2),
    "trivial": pt.LocalCuts(trivial=True),
    "grid": pt.GridCuts([[0.5, 1.5], [0.5]]),
    "dyadic": pt.DyadicCuts(2),
    "dyadic, one feature": pt.DyadicCuts(2, feature_weights=[1.0, 0.0]),
    "cyclic": pt.DyadicCuts(1, cyclic=True),
    "fixed": pt.FixedTree(pt.Tree([0, 1, -1, -1, -1], [0.5, 0.5, 0, 0, 0], [1, 2, 0, 0, 0], [4, 3, 0, 0, 0])),
}
PRIORS = {
    "conditioned": pt.BranchingProcess(0.45, 3, conditioned=True),
    "conditioned, flat": pt.BranchingProcess(0.6, 2, conditioned=True),
    "conditioned by depth": pt.BranchingProcess([0.7, 0.3, 0.2, 0.1], 3, conditioned=True),
    "conditioned, no limit": pt.BranchingProcess(0.4, None, conditioned=True),
    "stopped": pt.BranchingProcess(0.45, 3),
    "chipman": pt.ChipmanPrior(max_depth=3),
    "penalty": pt.LeafPenalty(0.8, max_depth=3),
}
WITH_KNOWN_MASS = {("conditioned, flat", "dyadic"), ("conditioned, flat", "cyclic"), ("conditioned", "dyadic")}
WITH_KNOWN_MASS |= {(prior, "trivial") for prior in PRIORS if prior != "penalty"}
WITH_KNOWN_MASS |= {(prior, "fixed") for prior in PRIORS if prior != "penalty"}
WITH_KNOWN_MASS |= {(prior, split_prior) for prior in ("stopped", "chipman") for split_prior in SPLIT_PRIORS}
WITH_KNOWN_MASS |= {("conditioned, flat", "dyadic, one feature"), ("conditioned by depth", "dyadic")}


def model_without_scores(prior, split_prior):
    """A model whose rows weigh next to nothing, so that its evidence is the mass of its prior."""
    X = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [2.0, 1.0], [2.0, 0.0]])
    return pt.TreeModel(
        X,
        [0, 1, 1, 0, 0],
        tree_prior=PRIORS[prior],
        split_prior=SPLIT_PRIORS[split_prior],
        sample_weight=np.full(5, 1e-300),
    )


REFUSED = {("conditioned, no limit", "trivial"), ("conditioned by depth", "fixed")}
POSSIBLE = [(p, q) for p in PRIORS for q in SPLIT_PRIORS if (p, q) not in REFUSED]


@pytest.mark.more(
    everyday=[
        "conditioned-local",
        "conditioned, flat-min_leaf",
        "conditioned by depth-trivial",
        "conditioned, no limit-grid",
        "stopped-dyadic",
        "chipman-dyadic, one feature",
    ]
)
@pytest.mark.parametrize(("prior", "split_prior"), POSSIBLE)
def test_the_mass_of_a_prior(prior, split_prior):
    """The mass known without looking at cells is the sum over all trees; the fraction of stumps gives the rest."""
    model = model_without_scores(prior, split_prior)
    truth, mass = exact.solve(model), prior_mass(model)
    assert (mass.log_mass is not None) == ((prior, split_prior) in WITH_KNOWN_MASS)
    fraction = float(truth.n_leaves_pmf()[1])
    assert mass.log_mass_from(fraction) == pytest.approx(truth.log_evidence, abs=1e-12)


SAMPLED = [("conditioned", "local"), ("conditioned, flat", "min_leaf"), ("conditioned, no limit", "grid")]
SAMPLED += [("conditioned by depth", "dyadic, one feature"), ("conditioned", "fixed"), ("penalty", "local")]


@pytest.mark.more
@pytest.mark.parametrize(("prior", "split_prior"), SAMPLED)
def test_tempered_and_progressive_evidence_hold_the_mass_of_the_prior(prior, split_prior):
    """Under a prior whose mass is not one, as under any other, the evidence is the sum over trees."""
    rng = np.random.default_rng(8)
    X = rng.integers(0, 3, size=(12, 2)).astype(float)
    X[:2] = [[0.0, 0.0], [2.0, 1.0]]
    y = (X[:, 0] + rng.normal(size=12) > 1).astype(int)
    model = pt.TreeModel(X, y, tree_prior=PRIORS[prior], split_prior=SPLIT_PRIORS[split_prior])
    truth = exact.solve(model).log_evidence
    how = {"tune": 100, "chains": 2, "betas": 4, "proposals": 20, "progress": False, "kernel": "grow-prune"}
    post = pt.sample(model, 1500, rng=3, **how)
    assert abs(post.log_evidence - truth) < 2.5 * post.log_evidence_se < 0.25
    mixture = pt.progressive_mixture(model, chains=16, particles=100, draws=20, steps=20, kernel="grow-prune", rng=5)
    assert abs(mixture.log_evidence - truth) < 2.5 * mixture.log_evidence_se < 0.4
    stages = exact.progressive_mixture(model).stage_log_evidence[0]
    assert mixture.stage_log_evidence.mean(axis=0) == pytest.approx(stages, abs=0.15)
