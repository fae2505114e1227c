"""A density of trees, drawn from the top down, whose parameters are fitted in tuning (formulas, section 12.3).

    P(split | u) = logistic(a_k . x(u)),      P(q | u) proportional to R(q | u) exp(b_k . f(q, u))

at a cell u of depth class ``k = min(depth, N_DEPTH_CLASSES - 1)``. Each is mixed with a *defensive* part, so that every
tree has a positive probability: splitting by a power of the lookahead odds, and a split by the learned part within a
feature that is drawn by the prior, since a rarely used feature has a good split too. The probabilities of a cell are
computed in one pass over its rows, feature by feature, and stored with the cell. A nominal feature of many categories
has the same candidates as in `split_sums`.
"""

from math import exp, inf, log

import numpy as np

from ....core.bits import goes_left, hash_integer
from ....core.compile.jit import jit
from ....core.logsum import log_sum
from ....model import Lowered
from ....model.split_prior.geometry import follows_design
from ...state.lists import is_leaf
from ...state.random import pick, pick_weighted
from ...state.records import N_CELL_TERMS, NONE, STORED_VERSION
from ...state.splits import Split, fixed_split, n_splits_of_codes
from ...state.terms import node_log_split, node_log_stop
from ...state.tree import MIN_TOP_DEPTHS, ChainState
from ...sums.bins import fill_bins
from ...sums.split_sums import feature_weight, sum_or_draw_splits, write_split
from .terms import (
    GAIN,
    LEARNED,
    cell_terms_into,
    depth_class,
    evaluate_splits,
    impurity,
    log_sum_of_splits,
    logit,
    split_terms_into,
)

DEFENSIVE_WEIGHT = 0.1
"""Weight of the defensive parts. Without that of splits g lost 63 nats on breast_cancer (benchmarks/README.md)."""
DEFENSIVE_POWER = 0.5
"""Power of the odds in the defensive part of splitting. A probability of 1/2 instead cost 1.28 times as much."""
MAX_LOG_ODDS = 300.0
"""Largest absolute log odds, and largest difference of logits, in the defensive parts. The product of two such
probabilities is still positive in floating point."""
MAX_REDRAWN_VALUES = 200_000
"""Number of merged rows times features of the largest cell whose subtree is redrawn. To a table whose root is larger
no density is fitted by default: local moves predict as well in less time (benchmarks/README.md, Large tables)."""


@jit
def evaluate_cell(model: Lowered, state: ChainState, node: int) -> int:
    """Compute the probability that the cell of a splittable node is split, unless it is stored.

    Return the index of the cell in ``stored.guide``.
    """
    here = state.node[node]
    at = hash_integer(here.hash + state.count[STORED_VERSION] * np.int64(0x9E3779B1) + here.depth * 64)
    place = (at ^ (at >> 32)) & (len(state.stored.guide) - 1)
    guide = state.stored.guide[place]
    if guide.hash == here.hash and guide.depth == here.depth and guide.scan == state.count[STORED_VERSION]:
        return place
    guide.hash, guide.depth, guide.scan = here.hash, here.depth, state.count[STORED_VERSION]
    guide.asked = 0
    if _has_one_class(model, state, node):
        log_w = _log_mean_of_one_feature(model, state, node)
    else:
        _evaluate_features(model, state, node, place)
        log_w = log_sum(state.scratch.density.log_sum[GAIN], len(model.split_prior.feature)) - log(guide.weight)
    guide.odds = lookahead_odds(model, state, node, log_w)
    _split_probability_into(model, state, node, place)
    return place


@jit
def evaluate_cell_and_splits(model: Lowered, state: ChainState, node: int) -> int:
    """Do the same as `evaluate_cell`, and compute the probabilities of the features given a split as well."""
    place = evaluate_cell(model, state, node)
    if state.stored.guide[place].asked == 0:
        _evaluate_features(model, state, node, place)
    return place


@jit
def _has_one_class(model: Lowered, state: ChainState, node: int) -> bool:
    """Return True if all rows of a cell are of one class, so that gains depend on the numbers of rows alone."""
    return model.units.counts and impurity(model, state.scratch.density.logs, state.stats, node).minority == 0.0


@jit
def _log_mean_of_one_feature(model: Lowered, state: ChainState, node: int) -> float:
    """Return the log of the mean of exp(gain) over the splits of one admissible feature, that with most codes."""
    most, log_w = np.int64(0), -inf
    for k in range(len(model.split_prior.feature)):
        n_codes = model.split_prior.feature[k].n_codes
        if n_codes > most and feature_weight(model, state, node, k) > 0.0:
            n = fill_bins(model, state, node, k)
            n_splits = n_splits_of_codes(model, state, node, k, n)
            if n_splits > 0.0:
                most = np.int64(n_codes)
                log_w = sum_or_draw_splits(model, state, node, k, n, False, 0.0, 0.0) - log(n_splits)
    return log_w


@jit
def _evaluate_features(model: Lowered, state: ChainState, node: int, place: int) -> None:
    """Compute the probability of each feature given a split, and the normalisers of the parts of the mixture.

    The log sums of the features remain in ``density.log_sum``.
    """
    stored, guide, work = state.stored, state.stored.guide[place], state.scratch.density
    p, weights = len(model.split_prior.feature), 0.0
    for k in range(p):
        work.log_sum[GAIN, k] = work.log_sum[LEARNED, k] = -inf
        weight = feature_weight(model, state, node, k)
        if weight > 0.0:
            n = fill_bins(model, state, node, k)
            n_splits = n_splits_of_codes(model, state, node, k, n)
            if n_splits > 0.0:
                weights += weight
                n_entries, log_rule = evaluate_splits(model, state, node, k, n) + 2, log(weight / n_splits)
                for part in (GAIN, LEARNED):
                    log_total = log_sum_of_splits(work.exponent[part], work.n_alike, np.int64(n_entries))
                    work.log_sum[part, k] = log_rule + log_total
    guide.weight, guide.asked = weights, 1
    guide.log_learned = log_sum(work.log_sum[LEARNED], p)
    for k in range(p):
        stored.fraction[place, k] = stored.log_learned[place, k] = 0.0
        learned = work.log_sum[LEARNED, k]
        if learned > -inf:
            stored.log_learned[place, k] = learned
            stored.fraction[place, k] = (1.0 - DEFENSIVE_WEIGHT) * exp(learned - guide.log_learned)
            stored.fraction[place, k] += DEFENSIVE_WEIGHT * feature_weight(model, state, node, k) / guide.weight


@jit
def lookahead_odds(model: Lowered, state: ChainState, node: int, log_w: float) -> float:
    """Return the log odds of splitting once against stopping, by prior and score, with ``log_w`` the log sum over
    splits.
    """
    split = node_log_split(model, state, node)
    if split == -inf or log_w == -inf:
        return -inf
    return split + log_w - node_log_stop(model, state, node)


@jit
def _split_probability_into(model: Lowered, state: ChainState, node: int, place: int) -> None:
    """Write the log probabilities by the density of splitting and of stopping, given a cell's lookahead odds."""
    guide = state.stored.guide[place]
    if guide.odds == -inf or guide.odds == inf:
        guide.log_split, guide.log_stop = (0.0, -inf) if guide.odds > 0.0 else (-inf, 0.0)
        return
    cell_terms_into(model, state, node, guide.odds)
    z, row = 0.0, depth_class(state, node)
    for j in range(N_CELL_TERMS):
        z += state.density[row, j] * state.scratch.density.cell_terms[j]
    flat = min(max(DEFENSIVE_POWER * guide.odds, -MAX_LOG_ODDS), MAX_LOG_ODDS)
    guide.log_split = log((1.0 - DEFENSIVE_WEIGHT) * _logistic(z) + DEFENSIVE_WEIGHT * _logistic(flat))
    guide.log_stop = log((1.0 - DEFENSIVE_WEIGHT) * _logistic(-z) + DEFENSIVE_WEIGHT * _logistic(-flat))


@jit
def _logistic(z: float) -> float:
    """Return the logistic function, 0 below -700."""
    return 1.0 / (1.0 + exp(-z)) if z > -700.0 else 0.0


@jit
def split_probability(
    model: Lowered, state: ChainState, node: int, place: int, k: int, rule: float, learned: float
) -> float:
    """Return the probability of a split on feature ``k`` whose logit is ``learned``.

    ``place`` is the index of the cell, and ``rule`` the prior weight of one split of the feature.
    """
    guide = state.stored.guide[place]
    defence = feature_weight(model, state, node, k) / guide.weight
    defence *= exp(max(learned - state.stored.log_learned[place, k], -MAX_LOG_ODDS))
    return rule * ((1.0 - DEFENSIVE_WEIGHT) * exp(learned - guide.log_learned) + DEFENSIVE_WEIGHT * defence)


@jit
def log_split_probability(model: Lowered, state: ChainState, node: int) -> float:
    """Return the log probability of an internal node's split, given that its cell is split.

    The split must be one of the candidates of `split_sums`.
    """
    if follows_design(model.split_prior):
        return 0.0
    place, here, work = evaluate_cell_and_splits(model, state, node), state.node[node], state.scratch.density
    gain = state.beta[0] * (state.node[here.left].guess + state.node[here.right].guess - here.guess)
    left = impurity(model, work.logs, state.stats, here.left)
    right = impurity(model, work.logs, state.stats, here.right)
    last, n_left = work.split_terms.shape[1] - 1, state.node[here.left].rows
    split_terms_into(work.split_terms, last, work.logs, gain, left, right, n_left, here.rows)
    learned = logit(state.density, depth_class(state, node), work.split_terms, last)
    rule = exp(here.log_rule) * state.stored.guide[place].weight
    return log(split_probability(model, state, node, place, here.feature, rule, learned))


@jit
def draw_guided_split(rng: np.random.Generator, model: Lowered, state: ChainState, node: int) -> tuple[Split, float]:
    """Draw a split of a splittable node from the density. Return the split and its log probability, given splitting."""
    if follows_design(model.split_prior):
        return fixed_split(model, state, node), 0.0
    place, weight, total = evaluate_cell_and_splits(model, state, node), state.scratch.feature_weight, 0.0
    for k in range(len(weight)):
        weight[k] = state.stored.fraction[place, k]
        total += weight[k]
    k, work = np.int64(pick_weighted(rng, weight, total)), state.scratch.density
    n = fill_bins(model, state, node, k)
    rule = model.split_prior.feature[k].weight / n_splits_of_codes(model, state, node, k, n)
    n_splits, drawn, g = evaluate_splits(model, state, node, k, n), np.int64(-3), 0.0
    remaining = rng.random() * state.stored.fraction[place, k]
    for i in range(-2, n_splits):
        if work.n_alike[i + 2] > 0:
            drawn = np.int64(i)
            g = split_probability(model, state, node, place, k, rule, work.exponent[LEARNED, i + 2])
            remaining -= work.n_alike[i + 2] * g
            if remaining < 0.0:
                break
    n_alike, log_rule = work.n_alike[drawn + 2], log(rule / state.stored.guide[place].weight)
    number = np.int64(pick(rng, n_alike) if n_alike > 1 else 0)
    return split_at(model, state, node, k, n, drawn, number, log_rule), log(g)


@jit
def split_at(
    model: Lowered, state: ChainState, node: int, k: int, n: int, i: int, number: int, log_rule: float
) -> Split:
    """Return split i of feature ``k``, in ``n`` bins. ``number`` is its index among cuts that part the rows alike."""
    write_split(model, state, node, k, n, i)
    entry = state.scratch.scan.drawn_split[0]
    cut = entry.cut + number
    upper = cut + 1 if entry.n_alike > 1 else entry.upper
    return Split(k, cut, upper, entry.categories, log_rule)


@jit
def pick_cell(rng: np.random.Generator, model: Lowered, state: ChainState) -> int:
    """Draw a unit, and return a node on its path, a random number of levels below the first cell that is not too large.

    The levels are uniform below the number in the density's last row. Return NONE if the path ends before. Another
    subtree below the node would not change the probability of picking it.
    """
    tops = np.int64(state.density[len(state.density) - 1, 0])
    # the number may come from a file, and be too small
    unit, levels = pick(rng, len(state.order)), pick(rng, max(tops, np.int64(MIN_TOP_DEPTHS)))
    node, p = np.int64(0), len(model.split_prior.feature)
    while True:
        here = state.node[node]
        is_large = (here.stop - here.start) * p > MAX_REDRAWN_VALUES
        if not is_large and levels == 0:
            return node
        if is_leaf(state, node):
            return NONE
        levels -= 0 if is_large else 1
        code = np.int64(model.units.codes[here.feature, unit])
        node = here.left if goes_left(code, here.cut, here.categories) else here.right
