"""Evidences and their errors; R-hat, effective sample sizes, and whether chains have converged."""

import math
import re
import warnings

import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.special import ndtr

import exact
import pactree_mcmc as pt
from pactree_mcmc.mcmc.chain.tempering import LadderReport
from pactree_mcmc.posterior import convergence, evidence
from pactree_mcmc.posterior.convergence import SINGLE_TEAM_REMARK, check_convergence, first_failure, verdict
from pactree_mcmc.posterior.ess import (
    ConvergenceWarning,
    ess,
    ess_of_chains,
    explained_by_chance,
    rhat,
    rhat_and_ess,
    split_chains,
)
from pactree_mcmc.posterior.evidence import (
    PriorMass,
    combined_evidence,
    evidence_difference_lines,
    join_ladder_reports,
    log_ratio,
    prior_mass,
)
from pactree_mcmc.posterior.inference_data import load_arviz
from pactree_mcmc.posterior.trees import distances as module
from tests.posterior.test_convergence import cut_at, model_of, posterior_of_trees, warning_of
from tests.problems.runs import course_of_teams

from .spaces import MODELS, independent_draws, with_draws

BETAS = np.array([1.0, 0.5, 0.2, 0.0])
LADDERS = 150
ONE = PriorMass(0.0, -0.7)
"""A normalised prior."""
UNKNOWN_MASS = PriorMass(None, math.log(0.5))
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
REFUSED = {("conditioned, no limit", "trivial"), ("conditioned by depth", "fixed")}
POSSIBLE = [(p, q) for p in PRIORS for q in SPLIT_PRIORS if (p, q) not in REFUSED]
PAIRS_OF_EVIDENCES = [
    ([(-10.0, 0.1), (-10.0, 0.1)], False),
    ([(-10.0, 0.1), (-10.56, 0.1)], False),
    ([(-10.0, 0.1), (-10.57, 0.1)], True),
    ([(-10.57, 0.1), (-10.0, 0.1)], True),
    ([(-10.0, 0.001), (-10.09, 0.001)], False),
    ([(-10.0, 0.001), (-10.11, 0.001)], True),
    ([(-10.0, 0.0), (-10.11, 0.0)], True),
    ([(-10.0, np.nan), (-30.0, 0.1)], False),
    ([(-10.0, 0.1)], False),
    ([(-10.0, 0.01), (-10.2, 0.01), (-10.1, 0.01)], True),
]
PROBLEMS = ("local, nominal", "local, regression", "grid, nominal", "dyadic")
N = 60
NAMES = ["left", "twin", "other", "copy"]


def normals(rng, n, shift=1.5, scale=0.7):
    """Log ratio of the densities exp(-z^2/2), z = (x - shift) / scale, and exp(-x^2/2), at draws of each."""

    def relative(x):
        return x**2 / 2 - ((x - shift) / scale) ** 2 / 2

    return relative(shift + scale * rng.standard_normal(n)), relative(rng.standard_normal(n))


def test_two_normal_distributions():
    high, low = normals(np.random.default_rng(1), 200_000)
    assert log_ratio(high, low) == pytest.approx(math.log(0.7), abs=0.01)
    assert log_ratio(-low, -high) == pytest.approx(-log_ratio(high, low), abs=1e-6)
    assert log_ratio(high + 1000.0, low + 1000.0) == pytest.approx(1000.0 + log_ratio(high, low), abs=1e-6)


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
    assert 0.95 - 4.0 * math.sqrt(0.95 * 0.05 / LADDERS) < fraction and stated > 0.9


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
    assert 0.95 - 4.0 * math.sqrt(0.95 * 0.05 / LADDERS) < fraction and stated == 1.0


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


def posterior_of_teams(evidences, teams=(0, 1, 0, 1), kernel="whole"):
    draws = (np.random.default_rng(5).random((len(teams), 4000 // len(teams))) < 0.4).astype(np.int64)
    post = posterior_of_trees(model_of("two classes"), [cut_at(19.5), cut_at(0.5, feature=1)], draws)
    evidences = None if evidences is None else np.array(evidences)
    post.course = course_of_teams(kernel, teams, 1000, evidences)
    return post


def test_teams_that_agree_are_weighted_by_their_precision():
    value, se = combined_evidence(np.array([[-10.0, 0.1], [-10.05, 0.2]]))
    assert value == pytest.approx((-10.0 * 4 - 10.05) / 5) and se == pytest.approx((100.0 + 25.0) ** -0.5)


@pytest.mark.parametrize("difference", [0.5, 1.0, 30.0])
def test_the_error_covers_a_difference(difference):
    """Whichever team is right, its evidence is within two errors of the mean, even if its own error is the larger."""
    for errors in ([0.01, 0.01], [0.001, 0.05], [0.05, 0.001]):
        values = np.array([-10.0, -10.0 - difference])
        value, se = combined_evidence(np.column_stack([values, errors]))
        assert values[1] <= value <= values[0] and (abs(values - value) <= 2.0 * se).all()
        assert se == pytest.approx(difference / 2.0, rel=0.1)


@pytest.mark.parametrize("errors", [(0.1, np.nan), (np.nan, 0.1), (np.nan, np.nan)])
def test_an_unknown_error_leaves_the_plain_mean(errors):
    assert combined_evidence(np.column_stack([[-10.0, -11.0], errors])) == (-10.5, None)


def test_evidences_that_differ_are_reported():
    post = posterior_of_teams([(-123.41, 0.1), (-122.1, 0.08)])
    (line,) = evidence_difference_lines(post.course.evidences)
    assert line == (
        "the log evidence is -123.41 +- 0.10 by one half of the chains and -122.10 +- 0.08 by the other half, which "
        "tuned separately: one half has lost part of the posterior"
    )
    lines = check_convergence(post)
    assert len(lines) == 3 and lines[1] == line
    assert re.fullmatch(r"not converged; predictions: not; .* used: not; which tree: not\.", lines[0])
    sentence = f"The{line[3:]}."
    assert sentence in verdict(post) and sentence in warning_of(post) and first_failure(post)
    assert post.log_evidence_se > 0.6


@pytest.mark.parametrize(("evidences", "is_told"), PAIRS_OF_EVIDENCES)
def test_evidences_differ_beyond_their_errors(evidences, is_told):
    """A warning needs more than four standard errors and a tenth of a nat, and known errors."""
    post = posterior_of_teams(evidences, teams=(0, 1, 2, 0)[: 1 + len(evidences)])
    assert len(evidence_difference_lines(post.course.evidences)) == (len(check_convergence(post)) > 0) == is_told
    assert bool(first_failure(post)) == is_told


def test_runs_without_evidences_have_nothing_to_compare():
    post = posterior_of_teams(None)
    assert evidence_difference_lines(None) == check_convergence(post) == [] and not first_failure(post)
    assert post.log_evidence is None and post.log_evidence_se is None
    post.course = None
    assert check_convergence(post) == [] and not first_failure(post)


def test_one_team_has_no_witness():
    assert SINGLE_TEAM_REMARK in verdict(posterior_of_teams([(-10.0, 0.1)], teams=(0,)))
    for post in (
        posterior_of_teams([(-10.0, 0.1), (-10.0, 0.1)]),
        posterior_of_teams([(-10.0, 0.1), (-10.0, 0.1)], teams=(0, 1)),
        posterior_of_teams(None, teams=(0,), kernel="local"),
    ):
        assert "confirms it independently" not in verdict(post)


def chains(rng, shape, stickiness=0.0):
    """Return autocorrelated normal draws."""
    values = rng.normal(size=shape)
    for t in range(1, shape[-1]):
        values[..., t] += stickiness * values[..., t - 1]
    return values


def figures_of_arviz(values):
    """Return R-hat and effective sample size of each quantity by ArviZ."""
    az = load_arviz()
    with np.errstate(invalid="ignore"):
        # a part of few draws may be constant
        return [float(az.rhat(quantity)) for quantity in values], [float(az.ess(quantity)) for quantity in values]


@pytest.mark.more(everyday=["shape0--0.7", "shape1-0.0"])
@pytest.mark.parametrize("stickiness", [-0.7, 0.0, 0.95, 0.999])
@pytest.mark.parametrize("shape", [(4, 500), (3, 101), (5, 7), (2, 4), (7, 18)])
def test_figures_equal_those_of_arviz(shape, stickiness):
    values = chains(np.random.default_rng(len(shape) + shape[1]), (12, *shape), stickiness)
    values[4:8] = np.round(values[4:8])
    values[8:] = values[8:] > 0.3
    half = shape[1] // 2
    moves = [np.ptp(v[:, :half], axis=1).any() or np.ptp(v[:, -half:]).any() for v in values]
    for own, reference in zip(rhat_and_ess(values[moves]), figures_of_arviz(values[moves]), strict=True):
        assert own == pytest.approx(reference, rel=1e-9, nan_ok=True)


def test_figures_of_odd_input():
    values = np.random.default_rng(0).normal(size=(6, 3, 20))
    values[1] = 7.0
    values[2] = [[0.0], [1.0], [5.0]]
    values[3, 0, 3] = np.nan
    values[4, 1, 0] = -np.inf
    values[5] = np.arange(3 * 20).reshape(3, 20) % 2
    own_rhat, own_ess = rhat_and_ess(values)
    assert (own_rhat[1], own_ess[1]) == (1.0, 60.0) and own_rhat[2] == np.inf and own_ess[2] < 10
    assert np.isnan(own_rhat[3:5]).all() and np.isnan(own_ess[3:5]).all() and own_rhat[5] < 1.01
    assert [rhat(v) for v in values] == pytest.approx(own_rhat, nan_ok=True)
    assert [ess(v) for v in values] == pytest.approx(own_ess, nan_ok=True)
    assert [a.shape for a in rhat_and_ess(np.ones((0, 2, 9)))] == [(0,), (0,)]
    for few in (np.ones((2, 0, 9)), np.ones((2, 3, 3)), np.ones((2, 3, 0)), np.ones((2, 1, 0))):
        assert np.isnan(rhat_and_ess(few)).all() and np.isnan([rhat(few[0]), ess(few[0])]).all()


def quantities(rng, n, rho, shift=0.0):
    """Autocorrelated normal quantities (n, 4 * 1000) by draw, in four chains, one of which is shifted in the first."""
    values = rng.normal(size=(n, 4, 1000))
    for t in range(1, 1000):
        values[..., t] = rho * values[..., t - 1] + np.sqrt(1.0 - rho**2) * values[..., t]
    values[0, 2] += shift
    return values.reshape(n, -1)


@pytest.mark.more
@pytest.mark.parametrize(("rho", "strict"), [pytest.param(0.0, False, marks=pytest.mark.more), (0.6, True)])
def test_chance_explains_the_largest_of_many(rho, strict):
    """Five hundred unrelated quantities of the same distribution in all chains: some exceed 1.01, and are explained."""
    rng, draws = np.random.default_rng(3), np.arange(4000).reshape(4, 1000)
    n_strict = n_failed = 0
    for _ in range(4):
        values = quantities(rng, 500, rho)
        rhat, ess = rhat_and_ess(values.reshape(-1, 4, 1000))
        above = np.flatnonzero(rhat > convergence.MAX_RHAT)
        n_strict += len(above) > 0
        n_failed += not explained_by_chance(values, draws, above, convergence.FALSE_ALARM_LEVEL).all()
        assert rhat.max() <= convergence.MAX_RHAT_BY_CHANCE and ess.min() >= convergence.MIN_ESS
    assert (n_strict > 0) == strict and n_failed == 0


@pytest.mark.planted
@pytest.mark.parametrize("shift", [0.5, 0.8])
def test_chance_does_not_explain_chains_that_differ(shift):
    """R-hat of about 1.02 and of 1.05 in one of 500 quantities."""
    rng, draws = np.random.default_rng(4), np.arange(4000).reshape(4, 1000)
    for _ in range(5):
        values = quantities(rng, 500, 0.3, shift)
        rhat, ess = rhat_and_ess(values[:1].reshape(-1, 4, 1000))
        is_explained = explained_by_chance(values, draws, np.array([0]), convergence.FALSE_ALARM_LEVEL)[0]
        assert rhat[0] > convergence.MAX_RHAT and not (is_explained and ess[0] >= convergence.MIN_ESS)


@pytest.mark.more(everyday=["1-local, nominal"])
@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("chains", [1, 4])
def test_independent_draws_are_worth_as_many_as_they_are(name, chains):
    post = independent_draws(exact.solve(MODELS[name]), chains=chains, draws=4000 // chains, seed=chains)
    ess = post.tree_ess()
    assert ess.n_draws == 4000 and ess.frechet == pytest.approx(4000, rel=0.1)
    assert ess.pseudo_median == pytest.approx(4000, rel=0.1) and 0.7 * 4000 < ess.pseudo_min <= ess.pseudo_median
    assert ess.rhat < 1.01


def sticky_draws(post, stay, seed=0):
    """Chains that stay where they are with a probability."""
    rng = np.random.default_rng(seed)
    draws = post.draws.tree_of_draw.copy()
    for t in range(1, draws.shape[1]):
        still = rng.random(len(draws)) < stay
        draws[still, t] = draws[still, t - 1]
    return with_draws(post, draws)


@pytest.mark.more(everyday=["0.0-7"])
@pytest.mark.parametrize("draws", [7, 60, 61])
@pytest.mark.parametrize("stay", [0.0, 0.95])
def test_frechet_ess_is_that_of_the_vectors_of_cells(draws, stay):
    """The autocovariances are those of the 0/1 vectors, summed over cells; the rest is as for one number."""
    post = sticky_draws(independent_draws(exact.solve(MODELS["local, regression"]), chains=3, draws=draws), stay)
    vectors = post.draws.cells.trees_with(np.arange(post.draws.cells.n_cells))[:, post.draws.tree_of_draw].astype(float)
    halves = np.concatenate([split_chains(v[None]) for v in vectors])
    n = halves.shape[2]
    centred = halves - halves.mean(axis=2, keepdims=True)
    covariance = np.array([(centred[:, :, : n - lag] * centred[:, :, lag:]).sum() for lag in range(n)]) / n / 6
    between = halves.mean(axis=2).var(axis=1, ddof=1).sum()
    assert post.tree_ess().frechet == pytest.approx(
        module.ess_from_autocovariances(covariance[None], np.array([between]), 6)[0]
    )
    one = np.moveaxis(vectors[post.draws.cells.frequencies(post.draws.weight_of_tree) < 1.0][:1], 0, 0)
    if np.ptp(split_chains(one)[0], axis=1).any():
        direct = split_chains(one)
        mean = direct - direct.mean(axis=2, keepdims=True)
        product_of_means = np.array([(mean[0, :, : n - lag] * mean[0, :, lag:]).sum() for lag in range(n)]) / n / 6
        spread = direct.mean(axis=2).var(axis=1, ddof=1)
        assert module.ess_from_autocovariances(product_of_means[None], spread, 6) == pytest.approx(
            ess_of_chains(direct)
        )


def mirrored_posterior():
    """Two columns that y depends on alike: every tree has a twin, the columns changed, of the same posterior."""
    rng = np.random.default_rng(3)
    X = rng.integers(0, 4, (60, 2)).astype(float)
    X = np.vstack([X, X[:, ::-1]])
    return pt.TreeModel(X, (X[:, 0] > 1) & (X[:, 1] > 1), tree_prior=pt.ChipmanPrior(0.9, 1.0, max_depth=3))


def stuck_in_two_modes():
    """Chains that each draw independently, but two with one root only and two with the other."""
    post = exact.solve(mirrored_posterior()).sample(20_000, rng=1)
    root = post.root_feature[0]
    rng = np.random.default_rng(2)
    sides = [rng.choice(post.draws.tree_of_draw[0][root == k], size=(2, 1000)) for k in (0, 1)]
    return with_draws(post, np.concatenate(sides))


@pytest.mark.planted
def test_stuck_chains_of_the_same_posterior_are_found():
    post = stuck_in_two_modes()
    rhat, ess = rhat_and_ess((post.log_prior + post.log_score)[None])
    assert rhat[0] < 1.01 and ess[0] > 3000
    tree_ess = post.tree_ess()
    assert max(tree_ess.pseudo_min, tree_ess.pseudo_median, tree_ess.frechet) < 40 and tree_ess.rhat > 1.5
    frequencies = post.asdsf()
    assert frequencies.asdsf > 5 * frequencies.expected
    assert any(line.startswith("distance from the tree of draw ") for line in check_convergence(post))
    mixed = with_draws(post, np.random.default_rng(0).permutation(post.draws.tree_of_draw.ravel()).reshape(4, 1000))
    assert mixed.tree_ess().frechet == pytest.approx(4000, rel=0.1)


def test_too_few_draws():
    post = independent_draws(exact.solve(MODELS["dyadic"]), draws=3)
    ess = post.tree_ess()
    assert np.isnan([ess.frechet, ess.pseudo_min, ess.pseudo_median, ess.rhat]).all() and ess.mean_distance > 0.0


def model():
    """Columns 0 and 1 are the same, so are 2 and 3: trees that split on the one or the other predict y equally."""
    pd = pytest.importorskip("pandas")
    x = np.arange(float(N))
    z = x * 7 % N
    y = np.where(x < 30, 0.0, np.where(z < 30, 1.0, 2.0))
    return pt.TreeModel(pd.DataFrame(np.column_stack([x, x, z, z]), columns=NAMES), y + 0.1 * np.sin(9.0 * x))


def tree(root, below):
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
