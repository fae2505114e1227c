"""Prior recovery: without weight in the data, chains draw from the prior, and so does the simulator."""

import numpy as np
from designs import PRIORS, TABLES, model_of
from pictures import z_scores
from report import Control, Part, picture
from scipy import stats

import exact
import pactree_mcmc as pt
from tests.mcmc.distributions import counts_in_bins, deviations

FALSE_ALARM = 1e-3
CHAINS, TUNE, PROPOSALS = 40, 20, 40
DRAWS = {True: 40, False: 80}
PLANTED_DRAWS = 150
SIMULATED = {True: 100, False: 400}
SLOWER = 8
"""Factor by which fewer trees are simulated under the leaf penalty, whose draws take a chain."""
KERNELS = {"grow-prune": "loss", "default": "known variance"}
"""Leaf model whose scores must vanish, by kernel."""
OTHER_PRIOR = pt.ChipmanPrior(0.85, 0.8, max_depth=3)
ROWS = 12


def distributions_of(truth):
    """Return exact distributions, {statistic: {value: probability}}, of leaves, depth and the feature of the root."""
    root = {}
    for key, probability in truth._root_split_pmf().items():
        feature = None if key is None else key[0]
        root[feature] = root.get(feature, 0.0) + probability
    distributions = {"leaves": dict(enumerate(truth.n_leaves_pmf())), "depth": dict(enumerate(truth.depth_pmf()))}
    distributions["root feature"] = root
    return {
        name: {v: float(p) for v, p in distribution.items() if p > 0.0} for name, distribution in distributions.items()
    }


def weightless(split_prior, prior, leaf, weight=1e-300, **rest):
    """Return a model whose rows weigh next to nothing, since weights that are all 0 are refused."""
    return model_of(split_prior, prior, leaf, sample_weight=np.full(ROWS, weight), **rest)


def t_values(model, distributions, kernel, draws, seed):
    """Return (event, t) of common events: its fraction in chains against its probability, by the spread of chains."""
    how = {"tune": TUNE, "chains": CHAINS, "proposals": PROPOSALS, "start": "stump", "progress": False}
    post = pt.sample(model, draws, rng=seed, kernel=kernel, **how)
    return [
        (f"P({d.statistic} in {sorted(d.values, key=str)})", (d.fraction - d.expected) / d.error)
        for d in deviations(post, distributions)
    ]


def simulated_p(model, distributions, n, seed):
    """Return the chi-square p value of the numbers of leaves of ``n`` simulated trees."""
    rng = np.random.default_rng(seed)
    leaves = [pt.simulate(model, rng)[0].n_leaves for _ in range(n)]
    observed, expected = counts_in_bins(leaves, distributions["leaves"])
    return float(stats.chisquare(observed, expected).pvalue)


def normal_of(t):
    """Return the normal deviate with the same tail probability as a t with CHAINS - 1 degrees of freedom."""
    return float(np.sign(t) * stats.norm.isf(stats.t.sf(abs(t), df=CHAINS - 1)))


def verify(quick, folder):
    """Compare chains and simulated trees with all priors, draw a picture into ``folder``, and return the `Part`."""
    found, simulated = {}, {}
    for i, split_prior in enumerate(TABLES):
        for j, prior in enumerate(PRIORS):
            for k, (kernel, leaf) in enumerate(KERNELS.items()):
                model = weightless(split_prior, prior, leaf)
                distributions = distributions_of(exact.solve(model))
                found[f"{split_prior}, {prior}, {kernel}"] = t_values(
                    model, distributions, kernel, DRAWS[quick], 100 * i + 10 * j + k
                )
            n = SIMULATED[quick] // (SLOWER if prior == "penalty" else 1)
            simulated[f"{split_prior}, {prior}"] = simulated_p(
                model_of(split_prior, prior, "known variance"), distributions, n, (4, i, j)
            )
    n_checks = sum(map(len, found.values())) + len(simulated)
    fraction = FALSE_ALARM / n_checks
    limit = float(stats.t.isf(fraction / 2, df=CHAINS - 1))
    failures = [f"{w}: {event}: t = {t:.2f}" for w, ts in found.items() for event, t in ts if abs(t) > limit]
    failures += [f"simulated, {where}: p = {p:.1e}" for where, p in simulated.items() if p < fraction]
    controls, planted = planted_errors(limit)
    shown = {}
    for where, ts in (found | planted).items():
        row = where.removesuffix(", grow-prune").removesuffix(", default")
        shown[row] = [*shown.get(row, []), *(normal_of(t) for _, t in ts)]
    z_limit = float(stats.norm.isf(fraction / 2))
    z_scores(shown, z_limit, folder / "prior.png", "deviate of each event's fraction of the draws from its probability")
    text = TEXT.format(
        chains=CHAINS,
        draws=DRAWS[quick],
        proposals=PROPOSALS,
        simulated=SIMULATED[quick],
        few=SIMULATED[quick] // SLOWER,
        limit=limit,
        worst=f"{max(abs(t) for ts in found.values() for _, t in ts):.2f}",
        p=f"{fraction:.1e}",
        smallest=f"{min(simulated.values()):.1e}",
        picture=picture("prior.png", "Deviates of events by split prior and tree prior", folder),
    )
    return Part("Prior recovery", text, n_checks, FALSE_ALARM, tuple(failures), controls)


def planted_errors(limit):
    """Return controls, and their t values by name."""
    model = weightless("local", "chipman", "known variance")
    wrong = distributions_of(
        exact.solve(weightless("local", "chipman", "known variance", tree_prior_given=OTHER_PRIOR))
    )
    heavy = weightless("dyadic", "stopped", "known variance", weight=0.5)
    distribution = distributions_of(exact.solve(weightless("dyadic", "stopped", "known variance")))
    cases = {
        "planted: ChipmanPrior(0.85, 0.8) expected, ChipmanPrior(0.9, 0.8) drawn": (model, wrong, "default"),
        "planted: rows weigh 0.5": (heavy, distribution, "grow-prune"),
    }
    found = {what: t_values(*case, PLANTED_DRAWS, 900) for what, case in cases.items()}
    worst = {what: max(ts, key=lambda event: abs(event[1])) for what, ts in found.items()}
    return tuple(
        Control(what.removeprefix("planted: "), bool(abs(t) > limit), f"t = {t:.1f} of {event}, limit {limit:.2f}")
        for what, (event, t) in worst.items()
    ), found


TEXT = """
Rows of weight 1e-300 leave every score at 0, so the posterior is the prior, under every tree prior and split prior.
`pt.sample`, {chains} chains of {draws} draws, {proposals} proposals apart, must draw leaves, depth and the feature of
the root by their exact prior distributions (`exact.solve` of the same model, itself proved against enumeration in
`tests/exact`); kernel grow-prune with `PacBayesLoss`, the default kernel with `NormalKnownVariance`.
The fraction of an event in a chain is one observation, and chains are independent: a t test over chains needs no model
of autocorrelation. Events are values with probability between .04 and .96; rarer ones are taken together. And trees
from `pt.simulate`, {simulated} under each prior ({few} under the leaf penalty), must have the exact distribution of
leaves (chi-square).

A check fails beyond |t| = {limit:.2f}, or below p = {p}; the largest |t| was {worst}, the smallest p {smallest}.

{picture}
"""
