"""A tree prior and a leaf chosen by the evidence, the likelihood averaged over trees.

Expectation-maximisation over a small grid (Dempster, Laird and Rubin 1977). A short run draws trees under the present
choice; the next choice maximises the mean over these trees of the log of prior times score. Up to Monte-Carlo error no
step decreases the evidence; the grid excludes regions where it has no maximum.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ...core.logsum import log_mean
from ...core.special import logsumexp
from ...mcmc.sampling import sample
from ...model import ChipmanPrior, DirichletMultinomial, LocalCuts, NormalInverseGamma, TreeModel
from ...model.leaf.compiled import add_scores_into
from ...posterior.ess import ConvergenceWarning
from ...posterior.rows.left_out import leaf_of_units, rows_left_out
from ...posterior.sampled import SampledPosterior
from ...tree.arrays import LEAF, node_depths

TREE_PRIORS = ((0.95, 2.0), (0.95, 1.0), (0.95, 0.5), (0.95, 0.25), (0.95, 0.0), (0.99, 0.0))
"""(alpha, beta) of Chipman's prior."""
PSEUDO_ROWS = (0.001, 0.01, 0.05, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Of a leaf, spread over the classes."""
NOISE = (1.0, 0.5, 0.25, 0.125, *(4.0**-k for k in range(2, 8)))
"""Part of the variance of y that is noise."""
SHAPES = (1.5, 5.0, 20.0, 80.0)
"""``a0``: half the rows that the noise of a leaf is known by beforehand; many: all leaves have nearly the same."""
FIRST_NOISE, FIRST_LARGER = (1 / 16, 1 / 64), 3
"""Parts of the variance that searches begin with beside the default, and which of the tree priors."""
ROUNDS = 5
"""Runs, at most."""
CHAINS, STEPS, PROPOSALS = 2, 8, 50
"""Chains of a run, draws of each, as many before them, and proposals between two."""
STEPS_LEFT_OUT = 40
"""The same where rows are left out."""


POWERS = (1.0, 0.5, 0.25, 0.125)
"""Powers of the likelihood to choose among."""
MOST_ROWS = 5000
"""Rows that are left out, one by one, at most."""


class Choice(NamedTuple):
    """A prior on trees, a leaf, and the power of the likelihood."""

    tree_prior: Any
    leaf: Any
    power: float = 1.0


def choose(
    build: Callable[[Choice], TreeModel],
    firsts: list[Choice],
    trees: list[Any],
    leaves: list[Any],
    rng: Any = None,
    executor: Executor | None = None,
) -> Choice:
    """Choose among tree priors and among leaves; ``build`` makes the model of a choice.

    Where the search ends depends on where it begins: of the ends from several ``firsts`` that one is chosen which
    gives rows that are left out the highest density.
    """
    sources = np.random.SeedSequence(rng).spawn(ROUNDS + 1)
    ends = list(dict.fromkeys(_climbed(build, first, trees, leaves, sources, executor) for first in firsts))
    if len(ends) == 1:
        return ends[0]
    return _best_left_out(build, ends, sources[-1], executor)


def _climbed(
    build: Callable[[Choice], TreeModel],
    choice: Choice,
    trees: list[Any],
    leaves: list[Any],
    sources: list[Any],
    executor: Executor | None,
) -> Choice:
    """Where expectation and maximisation in turn lead from a choice."""
    start: Any = "grown"
    for source in sources[:ROUNDS]:
        post = _short_run(build(choice), start, source, executor)
        start = [post.distinct_tree(int(chain[-1])) for chain in post.tree_of_draw]
        better = choice._replace(tree_prior=_most_likely_shape(post, trees), leaf=_best_score(post, leaves))
        if better == choice:
            break
        choice = better
    return choice


def choose_power(
    build: Callable[[Choice], TreeModel], choice: Choice, rng: Any = None, executor: Executor | None = None
) -> Choice:
    """Choose the power of the likelihood by the density of rows left out (Grünwald 2012; formula sheet, 12.6)."""
    tried = [choice._replace(power=power) for power in POWERS]
    return _best_left_out(build, tried, np.random.SeedSequence([rng, 1]), executor)


def _best_left_out(
    build: Callable[[Choice], TreeModel], choices: list[Choice], source: Any, executor: Executor | None
) -> Choice:
    """Of several choices the one that gives rows that are left out the highest density."""
    runs = (_short_run(build(choice), "grown", source, executor, STEPS_LEFT_OUT) for choice in choices)
    found = [left_out(post, choice.power) for post, choice in zip(runs, choices, strict=True)]
    return choices[int(np.argmax(found))]


def left_out(post: SampledPosterior, power: float) -> float:
    """Mean log density of a row given all others, by importance weights cut off at the root of their number.

    The weights of the rows are ``power`` times what they count (Ionides 2008 for the cut).
    """
    left = rows_left_out(post, power, MOST_ROWS)
    mean = log_mean(-left.gained, axis=0)
    log_w = np.minimum(-left.gained, mean + 0.5 * np.log(len(left.gained)))
    each = logsumexp(log_w + left.density, axis=0) - logsumexp(log_w, axis=0)
    return float(np.average(each, weights=left.weight))


def class_leaves(n_classes: int) -> list[DirichletMultinomial]:
    """Leaves of a classification to choose among."""
    return [DirichletMultinomial(rows / n_classes) for rows in PSEUDO_ROWS]


def number_leaves(y: np.ndarray, variance: float) -> list[NormalInverseGamma]:
    """Leaves of a regression to choose among: their noise is a part of the variance of y, their means lie as y does.

    Noise is no less than what rounding leaves, if the smallest gap between two numbers is that of the scale.
    """
    distinct = np.unique(y)
    least = (np.diff(distinct).min() / np.sqrt(variance)) ** 2 / 12.0 if len(distinct) > 1 else 0.0
    noise = [part for part in NOISE if part >= least] or [NOISE[0]]
    return [number_leaf(variance, part, a0) for part in noise for a0 in SHAPES]


def number_leaf(variance: float, part: float, a0: float) -> NormalInverseGamma:
    """A leaf whose noise is a part of the variance of y."""
    return NormalInverseGamma(k0=part, a0=a0, b0=a0 * part * variance)


def number_starts(first: Choice, trees: list[Any], variance: float) -> list[Choice]:
    """Where searches among ``trees`` and the leaves of a regression begin: at less noise with larger trees."""
    larger = trees[min(FIRST_LARGER, len(trees) - 1)]
    return [first, *(first._replace(tree_prior=larger, leaf=number_leaf(variance, r, 5.0)) for r in FIRST_NOISE)]


def tree_priors(max_depth: int | None = None) -> list[ChipmanPrior]:
    """Priors on trees to choose among."""
    return [ChipmanPrior(alpha, beta, max_depth) for alpha, beta in TREE_PRIORS]


def _short_run(
    model: TreeModel, start: Any, rng: Any, executor: Executor | None, steps: int = STEPS
) -> SampledPosterior:
    """A few trees of each of a few chains, after as many steps of tuning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return sample(
            model,
            steps,
            tune=steps,
            chains=CHAINS,
            proposals=PROPOSALS,
            rng=rng,
            kernel="local",
            start=start,
            executor=executor,
            progress=False,
        )


def _most_likely_shape(post: SampledPosterior, priors: list[Any]) -> Any:
    """The prior under which the trees drawn are most likely; a leaf that must be one says nothing of it."""
    if len(priors) == 1:
        return priors[0]
    trees = post.distinct_trees
    depth, weight = node_depths(trees), _weight_of_node(post)
    is_split, is_free = trees.feature != LEAF, _could_split(post, depth)

    def log_likely(prior: ChipmanPrior) -> float:
        split, stop = prior.log_split(depth, 0), prior.log_stop(depth, 0, forced=False, empty=False)
        return float(weight @ np.where(is_split, split, np.where(is_free, stop, 0.0)))

    return max(priors, key=log_likely)


def _could_split(post: SampledPosterior, depth: np.ndarray) -> np.ndarray:
    """Which nodes of the trees drawn are leaves though their cells have a split, (n_nodes,) bool."""
    model, trees = post.model, post.distinct_trees
    out = np.zeros(len(trees.feature), dtype=bool)
    if not isinstance(model.split_prior, LocalCuts):
        for t, first in enumerate(trees.offset[:-1].tolist()):
            tree = post.distinct_tree(t)
            for number, cell, split in model.visit(tree):
                out[first + number] = split is None and not model.is_forced(cell)
        return out
    # local cuts see nothing of a cell but its rows, and a first split is soon found
    root, least = model.root_cell(), 0 if model.split_prior.trivial else 2 * model.split_prior.min_leaf
    features = np.flatnonzero(model.split_prior.coordinate_weights(model.columns)).tolist()
    for t, leaf in leaf_of_units(post, range(post.n_distinct_trees)):
        order, first = np.argsort(leaf, kind="stable"), trees.offset[t]
        ends = np.searchsorted(leaf[order], np.arange(first, trees.offset[t + 1] + 1))
        for node in range(first, trees.offset[t + 1]):
            if trees.feature[node] == LEAF and depth[node] < model.prior_tables.depth_limit:
                cell = replace(root, index=order[ends[node - first] : ends[node - first + 1]])
                out[node] = cell.n_rows >= least and any(model.count_splits(cell, k) > 0 for k in features)
    return out


def _best_score(post: SampledPosterior, leaves: list[Any]) -> Any:
    """The leaf by which the trees drawn have the largest score on average."""
    if len(leaves) == 1:
        return leaves[0]
    at = np.flatnonzero(post.distinct_trees.feature == LEAF)
    stats, weight, target = np.ascontiguousarray(post.node_stats[at]), _weight_of_node(post)[at], post.model.target

    def score(leaf: Any) -> float:
        out = np.zeros(len(stats))
        add_scores_into(out, leaf.resolve(target).rule(target), stats, len(stats))
        return float(weight @ out)

    return max(leaves, key=score)


def _weight_of_node(post: SampledPosterior) -> np.ndarray:
    return np.repeat(post.weight_of_tree, np.diff(post.distinct_trees.offset))
