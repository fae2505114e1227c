"""Total variation of sampled to exact distributions of root and leaves, for every kernel on every problem."""

import math
from typing import NamedTuple

import numpy as np
from answers import PROBLEMS, distributions_of
from joint import kernels
from pictures import matrix
from report import Control, Part, picture

import pactree_mcmc as pt
from pactree_mcmc.posterior.ess import ess
from pactree_mcmc.tree.coded import root_key

FALSE_ALARM = 1e-3
CHAINS, TUNE, PROPOSALS = 4, 100, 60
DRAWS = {True: 400, False: 1500}
LEAST_ESS = {True: 25.0, False: 100.0}
"""Smallest effective number of draws of a run that passes, by ``quick``."""
PLANTED_DRAWS = 2000
DISTRIBUTIONS = ("root", "leaves")


class Distance(NamedTuple):
    """A total variation, the largest that passes, the expected one, and the effective size behind both."""

    value: float
    allowed: float
    expected: float
    ess: float


def values_drawn(post):
    """Return the root split and the number of leaves of each draw, as objects (chains, draws)."""
    roots = np.empty(post.draws.n_distinct_trees, dtype=object)
    roots[:] = [root_key(post.model, post.draws.distinct_trees, int(i)) for i in post.draws.distinct_trees.offset[:-1]]
    return {"root": roots[post.draws.tree_of_draw], "leaves": post.n_leaves.astype(object)}


def distance(drawn, distribution, floor, false_alarm):
    """Return the total variation of ``drawn`` (chains, draws) to an exact distribution, {value: probability}.

    Of n independent draws it is at most half the sum of sqrt(p (1 - p) / n) on average, and further above that than
    sqrt(log(1 / q) / (2 n)) with probability at most q, the ``false_alarm`` (McDiarmid). For chains n is the effective
    size: in the sum that of the value, in the deviation the smallest of these and ``floor``.
    """
    numbers = {value: i for i, value in enumerate(distribution)}
    codes = np.vectorize(lambda value: numbers[value], otypes=[int])(drawn)
    probability = np.array(list(distribution.values()))
    fraction = np.bincount(codes.ravel(), minlength=len(distribution)) / codes.size
    sizes = np.full(len(distribution), floor)
    for i in np.flatnonzero((probability > 0.01) & (fraction > 0.0) & (fraction < 1.0)):
        sizes[i] = ess(codes == i)
    least = min(floor, sizes.min())
    expected = 0.5 * float(np.sqrt(probability * (1.0 - probability) / sizes).sum())
    allowed = expected + math.sqrt(math.log(1.0 / false_alarm) / (2.0 * least))
    return Distance(0.5 * float(np.abs(fraction - probability).sum()), allowed, expected, float(least))


def run(model, sampler, draws, seed):
    """Return the posterior drawn by a kernel."""
    how = {"tune": TUNE, "chains": CHAINS, "proposals": PROPOSALS, "start": "stump", "progress": False}
    return pt.sample(model, draws, rng=seed, kernel=sampler.kernel, **how)


def distances(post, distributions, false_alarm):
    """Return the `Distance` of each of DISTRIBUTIONS, by name."""
    floor = min(ess(post.n_leaves.astype(float)), ess(post.log_prior + post.log_score))
    drawn = values_drawn(post)
    return {name: distance(drawn[name], getattr(distributions, name), floor, false_alarm) for name in DISTRIBUTIONS}


def verify(quick, folder):
    """Run all kernels on all problems, draw pictures into ``folder``, and return the `Part`."""
    samplers = kernels()
    n_checks = len(samplers) * len(PROBLEMS) * len(DISTRIBUTIONS)
    fraction, failures, found = FALSE_ALARM / n_checks, [], {}
    exact_distributions = {name: distributions_of(make()) for name, make in PROBLEMS.items()}
    for k, (kernel, sampler) in enumerate(samplers.items()):
        for i, (name, make) in enumerate(PROBLEMS.items()):
            found[kernel, name] = distances(
                run(make(), sampler, DRAWS[quick], 100 * k + i), exact_distributions[name], fraction
            )
            for distribution, one in found[kernel, name].items():
                if one.value > one.allowed:
                    failures.append(f"{kernel}, {name}, {distribution}: {one.value:.4f}, allowed {one.allowed:.4f}")
                if one.ess < LEAST_ESS[quick]:
                    failures.append(f"{kernel}, {name}, {distribution}: effective size {one.ess:.0f}, too few to tell")
    for distribution in DISTRIBUTIONS:
        values, limits = (
            np.array([[getattr(found[k, p][distribution], field) for p in PROBLEMS] for k in samplers])
            for field in ("value", "expected")
        )
        label = "ratio to what independent draws are expected to have, at most"
        matrix(values, limits, list(samplers), list(PROBLEMS), folder / f"distances_{distribution}.png", label)
    text = TEXT.format(
        n_kernels=len(samplers),
        n_problems=len(PROBLEMS),
        chains=CHAINS,
        draws=DRAWS[quick],
        proposals=PROPOSALS,
        least=int(LEAST_ESS[quick]),
        nearest="; ".join(nearest_of(found, distribution) for distribution in DISTRIBUTIONS),
        root=picture(
            "distances_root.png", "Total variation of the distribution of the root, kernels by problems", folder
        ),
        leaves=picture(
            "distances_leaves.png", "Total variation of the distribution of leaves, kernels by problems", folder
        ),
    )
    return Part("Total variation to exact", text, n_checks, FALSE_ALARM, tuple(failures), planted_errors(fraction))


def nearest_of(found, distribution):
    """Return the cell nearest to its limit as text."""
    where, one = max(
        ((where, cell[distribution]) for where, cell in found.items()), key=lambda item: item[1].value / item[1].allowed
    )
    return f"{distribution}: {one.value:.4f} of {one.allowed:.4f} ({', '.join(where)})"


def planted_errors(fraction):
    """Return controls: chains of a model that differs a little from the one that is solved."""
    found, sampler = [], kernels()["local"]
    for what, name, changes in (
        ("rows weigh 1.6 in the chain", "nominal", {"weight": 1.6}),
        ("alpha .6 instead of .95 in the chain", "grid", {"alpha": 0.6}),
    ):
        post = run(PROBLEMS[name](**changes), sampler, PLANTED_DRAWS, 7)
        cells = distances(post, distributions_of(PROBLEMS[name]()), fraction)
        distribution, one = max(cells.items(), key=lambda item: item[1].value / item[1].allowed)
        figure = f"{one.value:.4f} of {distribution}, allowed {one.allowed:.4f}"
        found.append(Control(f"{what} ({name})", bool(one.value > one.allowed), figure))
    return tuple(found)


TEXT = """
{n_kernels} kernels (those with a name, and every move mixed half and half with grow-prune) on {n_problems} problems
with an exact answer, 24 rows each: total variation of the sampled distribution of the root split, and of the number of
leaves, to the exact distribution. {chains} chains of {draws} draws, {proposals} proposals apart. Under a shared
variance the exact distribution is a mixture over the variance of the distributions given it.

n independent draws of a distribution p have a total variation of at most half the sum of sqrt(p (1 - p) / n) on
average, and exceed that by more than sqrt(log(1 / q) / (2 n)) with probability at most q (McDiarmid's inequality, as
one draw changes it by 1 / n at most). For chains n is the effective sample size, in the sum that of each value, in the
deviation the least of these and of the sizes for leaves and log posterior. A check fails beyond the sum of both, q
being the false-alarm rate shared out; a run whose effective size is below {least} fails as well. The cells nearest to
their limit: {nearest}.

{root}

{leaves}

Numbers are total variations; red is above the average of independent draws of the same effective size, which any cell
may be, blue below.
"""
