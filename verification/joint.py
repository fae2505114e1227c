"""Geweke's joint test: new y given the tree, then one step of the kernel given y, keep the joint distribution of both.

Geweke, *Getting it right: joint distribution tests of posterior simulators*, JASA 2004.
"""

import importlib
from types import SimpleNamespace
from typing import NamedTuple
from unittest import mock

import numpy as np
import pytest
from designs import has_all_classes, model_of, simulated
from pictures import z_scores
from report import Control, Part, picture
from scipy.stats import norm

import pactree_mcmc as pt
from pactree_mcmc.mcmc.kernel import KERNEL_WEIGHTS, LIBRARY_MOVES
from pactree_mcmc.posterior.ess import ess
from pactree_mcmc.testing.spaces import plain_package
from tests.mcmc.moves.test_planted_moves import GROWTH_BUGS
from tests.mcmc.planting import Bug, plant

FALSE_ALARM = 1e-3
CHAINS = 8
STEPS_OF_A_CHAIN = {True: 30, False: 100}
FROM_THE_PRIOR = {True: 400, False: 1500}
"""Number of independent draws; a third of it under the leaf penalty, whose draws take a chain."""
PLANTED_STEPS = 80
CELL_BYTES, ROOM = 1 << 15, 1024
"""Bytes for stored cells of a chain, and space for nodes: little, as every round makes a new chain."""
BLOCK = {"local": 100, "cgm": 20}
"""Number of proposals between two y by kernel: the fewest in which every move gets its proportion."""
FEW = 8
COMPILED = SimpleNamespace(package=pt, module=lambda name: importlib.import_module(f"pactree_mcmc.{name}"))
PROBLEMS = {
    "numbers": ("local", "chipman", "inverse gamma"),
    "classes": ("dyadic", "stopped", "dirichlet"),
    "shared variance": ("local, missing", "conditioned", "shared variance"),
    "counts": ("fixed", "stopped", "poisson"),
    "penalty": ("grid", "penalty", "known variance"),
}
FOR_EVERY_MOVE = ("numbers", "classes")
QUANTITIES = (
    "leaves",
    "log prior",
    "log score",
    "root is a leaf",
    "root asks the first feature",
    "mean of y",
    "log variance of y",
    "likeness of two y",
    "log noise variance",
)


class Sampler(NamedTuple):
    """A kernel of the compiled or of the plain code, its proposals per block, and the weight of rows (None for 1)."""

    kernel: object
    block: int
    code: object = COMPILED
    weight: float | None = None


def kernels():
    """Return samplers by name: named kernels, and every other move mixed with grow-prune, which reaches every tree."""
    named = {name: Sampler(name, BLOCK.get(name, FEW)) for name in KERNEL_WEIGHTS}
    moves = [move for move in LIBRARY_MOVES if move not in KERNEL_WEIGHTS]
    return named | {move: Sampler({move: 0.5, "grow-prune": 0.5}, FEW) for move in moves}


def step(sampler, model, tree, rng):
    """Return the tree after one block of proposals, its log prior, log score, and the noise variance drawn with it."""
    module = sampler.code.module
    kernel = module("mcmc.kernel").read_kernel(sampler.kernel, sampler.block)
    chain = module("mcmc.chain.chain").Chain(model.lowered, kernel, rng)
    module("mcmc.chain.start").load_tree(model, chain, tree)
    if not chain.lowered.leaf.is_fixed:
        module("mcmc.state.terms").redraw_noise(chain.packed_chain)
    chain.run_blocks(1)
    chain.reserve(1)
    chain.save()
    saved = module("mcmc.chain.draw_store").trim_draws(chain.saved)
    draws = module("posterior.draws").Draws.join(model, [saved])
    return (
        draws.distinct_tree(0),
        float(draws.log_prior_of_tree[0]),
        float(draws.log_score_of_tree[0]),
        float(draws.noise_variance[0, 0]),
    )


def draw_y_given_tree(code, template, tree, noise, rng):
    """Return y with all classes, drawn given tree and noise variance."""
    leaf = template.leaf if template.leaf.has_additive_score else template.leaf.with_variance(noise)
    while True:
        y = code.module("mcmc.simulation").draw_y_given_tree(template, tree, leaf, rng)
        if has_all_classes(template, y):
            return y


def quantities(tree, log_prior, log_score, y, noise):
    """Return the QUANTITIES of a tree and its data; the last one is NaN if ``noise`` is None."""
    numbers, root = np.asarray(y, dtype=float), int(tree.feature[0])
    likeness = np.exp(-abs(numbers[0] - numbers[1]))
    return (
        tree.n_leaves,
        log_prior,
        log_score,
        root == -1,
        root == 0,
        numbers.mean(),
        np.log(numbers.var() + 0.1),
        likeness,
        np.nan if noise is None else np.log(noise),
    )


def model_for(code, names, y=None, weight=None):
    """Return the model of these names, by the compiled or the plain ``code``; every row has ``weight``."""
    weights = None if weight is None else np.full(len(y), weight)
    return model_of(*names, y, sample_weight=weights, package=code.package)


def tree_for(code, tree):
    """Return a tree as one of the classes of the compiled or the plain ``code``."""
    arrays = tree.feature, tree.threshold, tree.left, tree.right, tree.categories, tree.default_left
    return code.package.Tree(*arrays)


def from_the_prior(names, n, seed):
    """Return the quantities (n, 9) of trees of the prior with their data, and the first CHAINS (tree, y, noise)."""
    rng, template = np.random.default_rng(seed), model_of(*names)
    drawn = [simulated(template, rng) for _ in range(n)]
    models = [model_of(*names, y) for _, y, _ in drawn]
    values = [
        quantities(tree, model.log_prior(tree), model.log_score(tree), y, noise)
        for model, (tree, y, noise) in zip(models, drawn, strict=True)
    ]
    return np.array(values, dtype=float), drawn[:CHAINS]


def successive(sampler, names, starts, n, seed):
    """Return quantities (chains, n, 9) of chains from ``starts`` that draw y given tree and tree given y in turn."""
    code = sampler.code
    out = np.empty((len(starts), n, len(QUANTITIES)))
    room = ROOM if code is COMPILED else code.module("mcmc.chain.chain").FIRST_NODES
    with (
        mock.patch.object(code.module("mcmc.state.records"), "MAX_STORED_BYTES", CELL_BYTES),
        mock.patch.object(code.module("mcmc.chain.chain"), "FIRST_NODES", room),
        np.errstate(over="ignore"),  # plain hashes wrap around
    ):
        template = model_for(code, names)
        for c, (tree, _, noise) in enumerate(starts):
            rng, tree = np.random.default_rng((*seed, c)), tree_for(code, tree)
            for i in range(n):
                y = draw_y_given_tree(code, template, tree, noise, rng)
                model = model_for(code, names, y, sampler.weight)
                tree, log_prior, log_score, drawn_noise = step(sampler, model, tree, rng)
                if sampler.weight is not None:  # the score as independent draws have it
                    log_score = model_for(code, names, y).log_score(tree)
                noise = None if noise is None else drawn_noise
                out[c, i] = quantities(tree, log_prior, log_score, y, noise)
    return out


def z_of(independent, chains):
    """Return z scores (9,) of means of chains against those of independent draws; NaN for a quantity without values."""
    found = np.full(len(QUANTITIES), np.nan)
    for q in range(len(QUANTITIES)):
        alone, dependent = independent[:, q], chains[:, :, q]
        if not np.isnan(alone).any():
            variance = alone.var() / len(alone) + dependent.var() / max(ess(dependent), 1.0)
            found[q] = (dependent.mean() - alone.mean()) / np.sqrt(variance)
    return found


def half(right, *args):
    """Return the sums that the correct function ``right`` returns, with half the misfit: a planted error."""
    weight, misfit, shrinkage = right(*args)
    return weight, misfit / 2.0, shrinkage


PLANTED = {
    "rows weigh 2": ("grow-prune", "numbers", None),
    "count of prunable nodes of the old tree": ("grow-prune", "numbers", GROWTH_BUGS["prunable nodes of the old tree"]),
    "R dropped from the proposal ratio": ("blanchard", "numbers", GROWTH_BUGS["blanchard: R dropped"]),
    "variance drawn from half the misfit": (
        "grow-prune",
        "shared variance",
        Bug("", "", (("mcmc.state.terms", "noise_sums", half),)),
    ),
}
"""Kernel, problem, and the error, planted in the plain code; None if rows have the wrong weight."""


def planted_z(error, sampler, names, starts, independent, n, seed):
    """Return the z scores under a planted error; the arguments are as of `successive` and `z_of`."""
    if error is None:
        return z_of(independent, successive(sampler._replace(weight=2.0), names, starts, n, seed))
    plain = sampler._replace(code=plain_package())
    with pytest.MonkeyPatch.context() as patch:
        plant(patch, error)
        return z_of(independent, successive(plain, names, starts, n, seed))


def verify(quick, folder):
    """Run the joint test of all kernels, draw a picture into ``folder``, and return the `Part`."""
    prior = {}
    for i, (problem, names) in enumerate(PROBLEMS.items()):
        prior[problem] = from_the_prior(names, FROM_THE_PRIOR[quick] // (3 if "penalty" in names else 1), (1, i))
    found = {}
    for k, (kernel, sampler) in enumerate(kernels().items()):
        for i, (problem, names) in enumerate(PROBLEMS.items()):
            if kernel in KERNEL_WEIGHTS or problem in FOR_EVERY_MOVE:
                independent, starts = prior[problem]
                chains = successive(sampler, names, starts, STEPS_OF_A_CHAIN[quick], (2, k, i))
                found[f"{kernel}, {problem}"] = z_of(independent, chains)
    n_checks = sum(int(np.isfinite(z).sum()) for z in found.values())
    limit = norm.isf(FALSE_ALARM / (2 * n_checks))
    failures = tuple(
        f"{where}, {what}: z = {z:.2f}"
        for where, values in found.items()
        for what, z in zip(QUANTITIES, values, strict=True)
        if abs(z) > limit
    )
    shown, controls = dict(found), []
    for number, (what, (kernel, problem, error)) in enumerate(PLANTED.items()):
        independent, starts = prior[problem]
        names, n = PROBLEMS[problem], PLANTED_STEPS
        z = planted_z(error, kernels()[kernel], names, starts, independent, n, (3, number))
        worst = int(np.nanargmax(np.abs(z)))
        figure = f"z = {z[worst]:.1f} of {QUANTITIES[worst]}, limit {limit:.2f}"
        controls.append(Control(f"{what} ({kernel}, {problem})", bool(abs(z[worst]) > limit), figure))
        shown[f"planted: {what}"] = z
    z_scores(shown, limit, folder / "joint.png", "z of the mean in the chain against independent draws")
    text = TEXT.format(
        prior=FROM_THE_PRIOR[quick],
        chains=CHAINS,
        steps=STEPS_OF_A_CHAIN[quick],
        n_kernels=len(kernels()),
        few=FEW,
        limit=limit,
        problems="; ".join(f"{name}: {', '.join(names)}" for name, names in PROBLEMS.items()),
        worst=f"{max(np.nanmax(np.abs(z)) for z in found.values()):.2f}",
        quantities=", ".join(QUANTITIES),
        picture=picture("joint.png", "z scores by kernel and problem", folder),
    )
    return Part("Joint distribution tests", text, n_checks, FALSE_ALARM, failures, tuple(controls))


TEXT = """
Geweke's test (2004) of {n_kernels} kernels: those with a name, and every move mixed half and half with grow-prune. Tree
and data are drawn in two ways: {prior} times independently (a third as often under the leaf penalty), tree from the
prior, data from the tree; and by {chains} chains of {steps} rounds, in which new data are drawn given the tree and the
tree is moved given the data by one block of proposals ({few}, or as many as share out the moves of the mixture). If
the kernel leaves the posterior of any data as it is, means agree; the variance is drawn along where leaves share it.
Means of: {quantities}. Standard errors of chains are corrected by their effective sample size. Kernels with a name run
on all problems, single moves on the first two (splits, tree prior, leaf): {problems}.

A check fails beyond |z| = {limit:.2f}; the largest of the checks was {worst}. Errors are planted in the same code run
as plain Python, by the functions of `tests/mcmc/moves/test_planted_*.py`.

{picture}
"""
