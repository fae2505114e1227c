"""Tree prior, split prior and leaf of an estimator, as the user gives them or chosen by the evidence.

The choice is expectation-maximisation over a small grid (Dempster, Laird and Rubin 1977). A short run draws trees under
the current tree prior and leaf. The next ones maximise the mean over these trees of log prior plus log score. Up to
Monte-Carlo error no step decreases the evidence. The grid excludes regions in which the evidence has no maximum.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ...core.checks import as_number, check_count, check_type, is_integer, read_numbers, repr_of
from ...core.portable import weighted_sum
from ...core.special import log_mean, logsumexp
from ...mcmc.sampling import CheckedStarts, sample
from ...model import (
    BranchingProcess,
    ChipmanPrior,
    FrozenLaplace,
    LeafPenalty,
    LocalCuts,
    NormalInverseGamma,
    NormalSharedVariance,
    TreeModel,
)
from ...model.leaf.base import Leaf
from ...model.leaf.compiled import add_scores_into
from ...posterior.ess import ConvergenceWarning
from ...posterior.rows.left_out import leaves_of_merged_rows, rows_left_out
from ...posterior.sampled import SampledPosterior
from ...tree.arrays import LEAF, node_depths

# default tree prior. Its trees are larger than with the customary ``beta = 2``, since they are averaged.
DEFAULT_TREE_PRIOR = ChipmanPrior(0.95, 0.5)
# number of rows above which the cuts of a feature are limited by default, and largest number of cuts then
ROWS_OF_LIMITED_CUTS, MAX_CUTS = 20_000, 254
# grid of (alpha, beta) of Chipman's prior
CHIPMAN_GRID = ((0.95, 2.0), (0.95, 1.0), (0.95, 0.5), (0.95, 0.25), (0.95, 0.0), (0.99, 0.0))
# grid of pseudo-counts of a leaf in total, which are divided equally among the classes
PSEUDO_COUNT_GRID = (0.001, 0.01, 0.05, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
# grid of prior noise variances in a leaf, as fractions of the variance of y
NOISE_GRID = (1.0, 0.5, 0.25, 0.125, *(4.0**-k for k in range(2, 8)))
# grid of `a0` of `NormalInverseGamma`, half the rows that the prior on a leaf's noise is worth; if large, leaves have
# nearly the same noise
A0_GRID = (1.5, 5.0, 20.0, 80.0)
# noise fractions with which further searches start, and the index of their tree prior in ``CHIPMAN_GRID``
START_NOISE, START_PRIOR_INDEX = (1 / 16, 1 / 64), 3
MAX_SEARCH_ROUNDS = 5  # largest number of runs of a search
# number of chains of a short run, number of draws per chain and of tuning steps, and number of proposals per step
SEARCH_CHAINS, SEARCH_STEPS, SEARCH_PROPOSALS = 2, 8, 50
LEFT_OUT_STEPS = 40  # number of draws per chain of a run that estimates the density of left-out rows
POWER_GRID = (1.0, 0.5, 0.25, 0.125)  # powers of the likelihood among which ``power="auto"`` chooses
MAX_LEFT_OUT_ROWS = 5000  # largest number of rows that are left out one by one
# number of digits behind the point, in nats, by which choices are compared, so that rounding errors decide nothing
N_DIGITS = 9


def stated_tree_prior(tree_prior: Any, max_depth: Any) -> Any:
    """Return the tree prior of an estimator with ``max_depth`` set, unless that is None."""
    prior = DEFAULT_TREE_PRIOR if tree_prior is None else tree_prior
    if max_depth is None:
        return prior
    depth = check_count("max_depth", max_depth, 0)
    kinds = BranchingProcess | ChipmanPrior | LeafPenalty
    check_type("tree_prior", prior, kinds, "BranchingProcess, ChipmanPrior or LeafPenalty")
    if prior.max_depth is not None:
        raise ValueError(f"max_depth={depth} and tree_prior={prior!r} both bound the depth; give it once.")
    return replace(prior, max_depth=depth)


def stated_split_prior(split_prior: Any, min_samples_leaf: Any, n_rows: int) -> Any:
    """Return the split prior of an estimator, with the smallest number of rows in a leaf if this is not 1."""
    if split_prior is None:
        split_prior = LocalCuts() if n_rows <= ROWS_OF_LIMITED_CUTS else LocalCuts(max_cuts=MAX_CUTS)
    least = _rows_in_leaf(min_samples_leaf, n_rows)
    if least == 1:
        return split_prior
    if not isinstance(split_prior, LocalCuts) or split_prior.min_leaf != 1:
        raise ValueError(
            f"min_samples_leaf={min_samples_leaf} and split_prior={split_prior!r} cannot be combined; give "
            "LocalCuts(min_leaf=...) or min_samples_leaf, not both, and no other split prior."
        )
    return replace(split_prior, min_leaf=least)


def _rows_in_leaf(min_samples_leaf: Any, n_rows: int) -> int:
    """Return ``min_samples_leaf`` as a number of rows; a value in (0, 1) is a fraction of ``n_rows``, rounded up."""
    if is_integer(min_samples_leaf):
        return check_count("min_samples_leaf", min_samples_leaf)
    fraction = as_number(min_samples_leaf)
    if fraction is None or not 0.0 < fraction < 1.0:
        raise ValueError(f"min_samples_leaf={repr_of(min_samples_leaf)}; give an integer >= 1, or a fraction below 1.")
    return math.ceil(fraction * n_rows)


def thin_split_prior(split_prior: Any, fraction: float) -> Any:
    """Return the split prior for a random ``fraction`` of the rows: its ``min_leaf`` times this, rounded up."""
    least = getattr(split_prior, "min_leaf", 1)
    return split_prior if least == 1 or fraction == 1.0 else split_prior.with_min_leaf(math.ceil(fraction * least))


def check_leaf_fits(leaf: Any, power: Any, *, for_classes: bool) -> None:
    """Raise a ValueError if a leaf does not fit the estimator."""
    if not isinstance(leaf, Leaf):
        return
    name = type(leaf).__name__
    if leaf.is_classifier and not for_classes:
        raise ValueError(f"leaf={repr_of(leaf)} predicts classes; give a leaf of numbers, or use the classifier.")
    if for_classes and not leaf.is_classifier:
        raise ValueError(f"leaf={repr_of(leaf)} predicts numbers; give DirichletMultinomial, or use the regressor.")
    if leaf.y_columns != 1 or isinstance(leaf, FrozenLaplace):
        needs = f"{leaf.y_columns} columns of y" if leaf.y_columns != 1 else "estimation="
        raise ValueError(f"{name} needs {needs}, which the estimators do not have; take pt.TreeModel and pt.sample.")
    if power == "auto" and (isinstance(leaf, NormalSharedVariance) or not leaf.has_likelihood):
        why = "is a loss, not a likelihood" if not leaf.has_likelihood else "has one variance for all leaves"
        raise ValueError(f"power='auto' needs the density of rows left out, and {name} {why}; give a number > 0.")


def leaf_of_rows(leaf: Any, row_index: np.ndarray, n_rows: int) -> Any:
    """Return the leaf model for a part of the rows: with the exposures of the rows `row_index` only, if it has any."""
    # with the exposures of these rows only, if it has any
    if getattr(leaf, "exposure", None) is None:
        return leaf
    exposure = read_numbers("exposure", leaf.exposure)
    if exposure.shape != (n_rows,):
        raise ValueError(f"exposure has shape {exposure.shape}; y has {n_rows} rows: one each.")
    return replace(leaf, exposure=exposure[row_index])


class Choice(NamedTuple):
    """A tree prior, a leaf, and the power of the likelihood, which a fit chooses unless the user gives them."""

    tree_prior: Any  # prior on the size of trees
    leaf: Any  # leaf model with its parameters
    power: float = 1.0  # power of the likelihood, which multiplies the weights of all rows


def choose_by_evidence(
    build: Callable[[Choice], TreeModel],
    starts: list[Choice],
    tree_priors: list[Any],
    leaf_models: list[Any],
    rng: Any = None,
    executor: Executor | None = None,
) -> Choice:
    """Choose one of ``tree_priors`` and one of ``leaf_models`` by expectation-maximisation."""
    # A search can end in a local maximum, so one starts from each of `starts`; if they end differently, the result with
    # the highest density of left-out rows is returned
    sources = np.random.SeedSequence(rng).spawn(MAX_SEARCH_ROUNDS + 1)
    searches = (_search_from(build, first, tree_priors, leaf_models, sources, executor) for first in starts)
    results = list(dict.fromkeys(searches))
    return results[0] if len(results) == 1 else _best_left_out(build, results, sources[-1], executor)


def _search_from(
    build: Callable[[Choice], TreeModel],
    choice: Choice,
    tree_priors: list[Any],
    leaf_models: list[Any],
    sources: list[Any],
    executor: Executor | None,
) -> Choice:
    """Return the choice at the end of one search by expectation-maximisation that starts from ``choice``."""
    # a round draws trees under the choice by a short run, and takes the tree prior and the leaf under which these trees
    # are most probable; it ends early if the choice stays the same
    start: Any = "grown"
    for source in sources[:MAX_SEARCH_ROUNDS]:
        post = _short_run(build(choice), start, source, executor)
        start = CheckedStarts(post.draws.distinct_tree(int(chain[-1])) for chain in post.draws.tree_of_draw)
        prior, leaf = _most_likely_prior(post, tree_priors), _most_likely_leaf(post, leaf_models)
        better = choice._replace(tree_prior=prior, leaf=leaf)
        if better == choice:
            break
        choice = better
    return choice


def choose_power(
    build: Callable[[Choice], TreeModel], choice: Choice, rng: Any = None, executor: Executor | None = None
) -> Choice:
    """Return ``choice`` with the power in POWER_GRID that gives left-out rows the highest density."""
    # Grünwald (2012); formulas, section 12.6
    choices = [choice._replace(power=power) for power in POWER_GRID]
    return _best_left_out(build, choices, np.random.SeedSequence([rng, 1]), executor)


def _best_left_out(
    build: Callable[[Choice], TreeModel], choices: list[Choice], source: Any, executor: Executor | None
) -> Choice:
    """Return the one of ``choices`` that gives left-out rows the highest density, each estimated by a short run."""
    runs = (_short_run(build(choice), "grown", source, executor, LEFT_OUT_STEPS) for choice in choices)
    densities = [log_density_left_out(post, choice.power) for post, choice in zip(runs, choices, strict=True)]
    return choices[int(np.argmax(np.round(densities, N_DIGITS)))]


def log_density_left_out(post: SampledPosterior, power: float) -> float:
    """Return the weighted mean over rows of the log density (nats) of a row given all others, of up to 5000 rows."""
    # It is estimated from the draws by importance weights, which are truncated at their mean times the square root of
    # their number (Ionides 2008). The weights of rows in the model are ``power`` times the weights of the user. The
    # density of the row left out has power one.
    left_out = rows_left_out(post.draws, power, MAX_LEFT_OUT_ROWS)
    mean = log_mean(-left_out.score_gain, axis=0)
    log_w = np.minimum(-left_out.score_gain, mean + 0.5 * np.log(len(left_out.score_gain)))
    log_density = logsumexp(log_w + left_out.density, axis=0) - logsumexp(log_w, axis=0)
    return float(np.average(log_density, weights=left_out.weight))


def number_leaf_grid(y: np.ndarray, variance: float) -> list[NormalInverseGamma]:
    """Return the grid of leaves among which the prior of a regression is chosen, for NOISE_GRID and A0_GRID."""
    # noise variances are fractions of `variance`, that of y, at least gap^2 / 12, the variance of rounding to a grid
    # whose step is the smallest gap between two values of y
    distinct = np.unique(y)
    least = (np.diff(distinct).min() / np.sqrt(variance)) ** 2 / 12.0 if len(distinct) > 1 else 0.0
    noise = [fraction for fraction in NOISE_GRID if fraction >= least] or [NOISE_GRID[0]]
    return [number_leaf(variance, fraction, a0) for fraction in noise for a0 in A0_GRID]


def number_leaf(variance: float, fraction: float, a0: float) -> NormalInverseGamma:
    """Return a normal leaf whose prior noise variance is about ``fraction`` times ``variance``, the variance of y."""
    # `a0` is half the number of rows that this prior is worth; the prior variance of the leaf mean is the noise
    # variance divided by `fraction`, about the variance of y
    return NormalInverseGamma(k0=fraction, a0=a0, b0=a0 * fraction * variance)


def search_starts(first: Choice, tree_priors: list[Any], variance: float) -> list[Choice]:
    """Return the choices with which searches of a regression start: `first`, and two of less noise and larger trees."""
    larger = tree_priors[min(START_PRIOR_INDEX, len(tree_priors) - 1)]
    return [first, *(first._replace(tree_prior=larger, leaf=number_leaf(variance, r, 5.0)) for r in START_NOISE)]


def chipman_grid(max_depth: int | None = None) -> list[ChipmanPrior]:
    return [ChipmanPrior(alpha, beta, max_depth) for alpha, beta in CHIPMAN_GRID]


def _short_run(
    model: TreeModel, start: Any, rng: Any, executor: Executor | None, steps: int = SEARCH_STEPS
) -> SampledPosterior:
    """Return a few draws of each of a few chains, without a warning if they have not converged."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return sample(
            model,
            steps,
            tune=steps,
            chains=SEARCH_CHAINS,
            proposals=SEARCH_PROPOSALS,
            rng=rng,
            kernel="local",
            start=start,
            executor=executor,
            progress=False,
        )


def _most_likely_prior(post: SampledPosterior, priors: list[Any]) -> Any:
    """Return the one of ``priors`` with the largest mean over the draws of the log prior of the tree."""
    # the product of P(split) of each node with a split and 1 - P(split) of each leaf that has a possible split, both at
    # its depth; which split a node has is left out, since all `priors` agree in it
    if len(priors) == 1:
        return priors[0]
    trees = post.draws.distinct_trees
    depth, weight = node_depths(trees), _weight_of_node(post)
    is_split, is_free = trees.feature != LEAF, _has_possible_split(post, depth)

    def log_likely(prior: ChipmanPrior) -> float:
        """Return the mean log probability under ``prior`` of the trees drawn."""
        split, stop = prior.log_split(depth, 0), prior.log_stop(depth, 0, forced=False, empty=False)
        return round(weighted_sum(weight, np.where(is_split, split, np.where(is_free, stop, 0.0))), N_DIGITS)

    return max(priors, key=log_likely)


def _has_possible_split(post: SampledPosterior, depth: np.ndarray) -> np.ndarray:
    """Return a bool array (n_nodes,), True for leaves of the drawn trees that could be split further."""
    # A leaf could not if its rows differ in no feature, it is at the depth limit, or every split leaves too few rows in
    # a leaf. Nodes are those of the distinct trees, one tree after another; ``depth`` (n_nodes,) is the depth of each
    model, trees = post.model, post.draws.distinct_trees
    out = np.zeros(len(trees.feature), dtype=bool)
    split_prior = model.split_prior
    if not isinstance(split_prior, LocalCuts) or split_prior.trivial:
        for t, first in enumerate(trees.offset[:-1].tolist()):
            for number, cell, split in model.visit(post.draws.distinct_tree(t)):
                out[first + number] = split is None and not model.is_forced(cell)
        return out
    # Local cuts depend on the rows of a cell alone: a cell has a split if its rows differ in a feature. If leaves have
    # a smallest number of rows, the cuts of such a cell must be counted too.
    root = model.root_cell()
    features = np.flatnonzero(split_prior.coordinate_weights(model.columns)).tolist()
    codes = np.asarray(model.units.codes)[features]
    for _, leaf in leaves_of_merged_rows(post.draws, range(post.draws.n_distinct_trees)):
        order = np.argsort(leaf, kind="stable")
        nodes, first = np.unique(leaf[order], return_index=True)
        sorted_codes = codes[:, order]
        differs = np.minimum.reduceat(sorted_codes, first, axis=1) != np.maximum.reduceat(sorted_codes, first, axis=1)
        out[nodes] = differs.any(axis=0) & (depth[nodes] < model.prior_tables.depth_limit)
        if split_prior.min_leaf > 1:
            for node, rows in zip(nodes.tolist(), np.split(order, first[1:]), strict=True):
                cell = replace(root, index=rows)
                is_large = cell.n_rows >= 2 * split_prior.min_leaf
                out[node] &= is_large and any(model.rules.count_splits(cell, k) > 0 for k in features)
    return out


def _most_likely_leaf(post: SampledPosterior, leaf_models: list[Any]) -> Any:
    """Return the one of ``leaf_models`` with the largest mean over the draws of the log score of the tree."""
    if len(leaf_models) == 1:
        return leaf_models[0]
    is_leaf, target = post.draws.distinct_trees.feature == LEAF, post.model.target
    stats, weight = np.ascontiguousarray(post.draws.place_stats[is_leaf]), _weight_of_node(post)[is_leaf]

    def score(leaf: Any) -> float:
        """Return the mean log score under ``leaf`` of the trees drawn."""
        out = np.zeros(len(stats))
        add_scores_into(out, leaf.resolve(target).rule(target), stats, len(stats))
        return round(weighted_sum(weight, out), N_DIGITS)

    return max(leaf_models, key=score)


def _weight_of_node(post: SampledPosterior) -> np.ndarray:
    """Return for each node of the distinct trees (n_nodes,) the fraction of the draws that are its tree."""
    return np.repeat(post.draws.weight_of_tree, np.diff(post.draws.distinct_trees.offset))
