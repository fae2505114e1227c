"""A density g of trees, drawn from the top down, whose parameters are fitted in tuning (formulas, section 12.3).

    P(split | u) = logistic(a_k . x(u)),      P(q | u) proportional to R(q | u) exp(b_k . f(q, u))

at a cell u of depth class ``k = min(depth, N_DEPTH_CLASSES - 1)``, with terms x of the cell and f of its split q. Each
is mixed with a *defensive* part of weight e (`DEFENSIVE_WEIGHT`), so that every tree has a positive probability. With
the lookahead odds o, those of splitting once against stopping by prior and score, and the prior weights w of features,

    P(split | u) = (1 - e) logistic(a_k . x) + e logistic(o / 2)
    P(q | u) = (1 - e) P_b(q) + e w_feature(q) / sum w  P_b(q | feature)

with P_b the learned probability above, since a rarely used feature has a good split too. The probabilities of a cell
are computed in one pass over its rows, feature by feature, and stored with the cell, in the table ``stored.guide``. A
nominal feature of many categories has the same candidates as in `split_sums`, whose numbers of splits are used here.
"""

from math import exp, inf, log

import numpy as np

from ....core.bits import goes_left, hash_integer
from ....core.compile.jit import jit
from ....core.special import log_sum_exp
from ....model import Lowered
from ....model.split_prior.base import follows_design
from ...state.lists import is_leaf
from ...state.random import pick, pick_weighted
from ...state.records import MIN_TOP_DEPTHS, N_CELL_TERMS, NONE, STORED_VERSION, ChainState
from ...state.splits import Split, fixed_split, n_splits_of_codes
from ...state.terms import node_log_split, node_log_stop
from ...sums.split_sums import feature_weight, fill_bins, sum_or_draw_splits, write_split
from .terms import (
    GAIN,
    LEARNED,
    cell_terms_into,
    depth_class,
    evaluate_splits,
    finish_split_terms,
    impurity,
    log_sum_of_splits,
    logit,
    split_terms_into,
)

# weight of the defensive parts. Without that of splits g lost 63 nats on breast_cancer (benchmarks/README.md).
DEFENSIVE_WEIGHT = 0.1
# power of the odds in the defensive part of splitting. A probability of 1/2 instead cost 1.28 times as much.
DEFENSIVE_POWER = 0.5
# largest absolute log odds, and largest difference of logits, in the defensive parts. The product of two such
# probabilities is still positive in floating point.
MAX_LOG_ODDS = 300.0
# merged rows times features of the largest cell whose subtree is redrawn; a table with a larger root has no density by
# default: local moves predict as well in less time (benchmarks/README.md, Large tables)
MAX_REDRAWN_VALUES = 200_000


@jit
def evaluate_cell(model: Lowered, state: ChainState, node: int) -> int:
    """Compute log P(split) and log P(stop) of a splittable node by g unless stored; return the index of its guide."""
    here = state.node[node]
    hash_value = hash_integer(here.hash + state.count[STORED_VERSION] * np.int64(0x9E3779B1) + here.depth * 64)
    guide_index = (hash_value ^ (hash_value >> 32)) & (len(state.stored.guide) - 1)
    guide = state.stored.guide[guide_index]
    if guide.hash == here.hash and guide.depth == here.depth and guide.scan == state.count[STORED_VERSION]:
        return guide_index
    guide.hash, guide.depth, guide.scan = here.hash, here.depth, state.count[STORED_VERSION]
    guide.asked = 0
    if _has_one_class(model, state, node):
        log_w = _log_mean_of_one_feature(model, state, node)
    else:
        _evaluate_features(model, state, node, guide_index)
        log_w = log_sum_exp(state.scratch.density.log_sum[GAIN], len(model.split_prior.feature)) - log(guide.weight)
    guide.odds = lookahead_odds(model, state, node, log_w)
    _split_probability_into(model, state, node, guide_index)
    return guide_index


@jit
def evaluate_cell_and_splits(model: Lowered, state: ChainState, node: int) -> int:
    """Do the same as `evaluate_cell`, and compute the probability of each feature given a split, unless stored."""
    guide_index = evaluate_cell(model, state, node)
    if state.stored.guide[guide_index].asked == 0:
        _evaluate_features(model, state, node, guide_index)
    return guide_index


@jit
def _has_one_class(model: Lowered, state: ChainState, node: int) -> bool:
    """Return True if all rows of a cell are of one class, so that gains depend on row counts alone."""
    return model.units.counts and impurity(model, state.scratch.density.logs, state.stats, node).minority == 0.0


@jit
def _log_mean_of_one_feature(model: Lowered, state: ChainState, node: int) -> float:
    """Return the log of the mean of exp(gain in tempered score) over the splits of one feature, or -inf."""
    # The feature with most codes in the table among those with splits in the cell. It stands for log W, the mean over
    # all features, in a cell of one class, where other features gain about as much
    most_codes, log_w = np.int64(0), -inf
    for k in range(len(model.split_prior.feature)):
        n_codes = model.split_prior.feature[k].n_codes
        if n_codes > most_codes and feature_weight(model, state, node, k) > 0.0:
            n_bins = fill_bins(model, state, node, k)
            n_splits = n_splits_of_codes(model, state, node, k, n_bins)
            if n_splits > 0.0:
                most_codes = np.int64(n_codes)
                log_w = sum_or_draw_splits(model, state, node, k, n_bins, False, 0.0, 0.0) - log(n_splits)
    return log_w


@jit
def _evaluate_features(model: Lowered, state: ChainState, node: int, guide_index: int) -> None:
    """Compute P(feature | split) by g of each feature, and the normalisers of g's two parts."""
    # for each feature `density.log_sum` gets the log of the sum over its splits of R exp(gain) and of R exp(logit),
    # with R not divided by the sum of the weights of features, which `guide.weight` gets
    stored, guide, work = state.stored, state.stored.guide[guide_index], state.scratch.density
    n_features, total_weight = len(model.split_prior.feature), 0.0
    for k in range(n_features):
        work.log_sum[GAIN, k] = work.log_sum[LEARNED, k] = -inf
        weight = feature_weight(model, state, node, k)
        if weight > 0.0:
            n_bins = fill_bins(model, state, node, k)
            n_splits = n_splits_of_codes(model, state, node, k, n_bins)
            if n_splits > 0.0:
                total_weight += weight
                n_entries, log_rule = evaluate_splits(model, state, node, k, n_bins) + 2, log(weight / n_splits)
                for part in (GAIN, LEARNED):
                    log_total = log_sum_of_splits(work.exponent[part], work.n_alike, np.int64(n_entries))
                    work.log_sum[part, k] = log_rule + log_total
    guide.weight, guide.asked = total_weight, 1
    guide.log_learned = log_sum_exp(work.log_sum[LEARNED], n_features)
    for k in range(n_features):
        stored.fraction[guide_index, k] = stored.log_learned[guide_index, k] = 0.0
        learned = work.log_sum[LEARNED, k]
        if learned > -inf:
            stored.log_learned[guide_index, k] = learned
            stored.fraction[guide_index, k] = (1.0 - DEFENSIVE_WEIGHT) * exp(learned - guide.log_learned)
            stored.fraction[guide_index, k] += DEFENSIVE_WEIGHT * feature_weight(model, state, node, k) / guide.weight


@jit
def lookahead_odds(model: Lowered, state: ChainState, node: int, log_w: float) -> float:
    """Return log(split W / stop), the log odds of splitting a node once against stopping, by prior and score."""
    # the prior factors of the children are left out; -inf if no split has a positive probability
    split = node_log_split(model, state, node)
    if split == -inf or log_w == -inf:
        return -inf
    return split + log_w - node_log_stop(model, state, node)


@jit
def _split_probability_into(model: Lowered, state: ChainState, node: int, guide_index: int) -> None:
    """Write log P(split) and log P(stop) at a node by the learned density into its entry of `stored.guide`."""
    guide = state.stored.guide[guide_index]
    if guide.odds == -inf or guide.odds == inf:
        guide.log_split, guide.log_stop = (0.0, -inf) if guide.odds > 0.0 else (-inf, 0.0)
        return
    cell_terms_into(model, state, node, guide.odds)
    log_odds, row = 0.0, depth_class(state, node)
    for j in range(N_CELL_TERMS):
        log_odds += state.density[row, j] * state.scratch.density.cell_terms[j]
    flat_odds = min(max(DEFENSIVE_POWER * guide.odds, -MAX_LOG_ODDS), MAX_LOG_ODDS)
    guide.log_split = log((1.0 - DEFENSIVE_WEIGHT) * _logistic(log_odds) + DEFENSIVE_WEIGHT * _logistic(flat_odds))
    guide.log_stop = log((1.0 - DEFENSIVE_WEIGHT) * _logistic(-log_odds) + DEFENSIVE_WEIGHT * _logistic(-flat_odds))


@jit
def _logistic(z: float) -> float:
    """Return the logistic function, 0 below -700."""
    return 1.0 / (1.0 + exp(-z)) if z > -700.0 else 0.0


@jit
def split_probability(
    model: Lowered, state: ChainState, node: int, guide_index: int, k: int, rule_weight: float, split_logit: float
) -> float:
    """Return the probability by g of one split on feature `k`, given that its node is split."""
    # `split_logit` is its log weight before R (`logit`), `rule_weight` R times the sum of the weights of features
    guide = state.stored.guide[guide_index]
    # the learned part is normalised over all splits, the defensive one over those of the feature
    defensive = feature_weight(model, state, node, k) / guide.weight
    defensive *= exp(max(split_logit - state.stored.log_learned[guide_index, k], -MAX_LOG_ODDS))
    learned = exp(split_logit - guide.log_learned)
    return rule_weight * ((1.0 - DEFENSIVE_WEIGHT) * learned + DEFENSIVE_WEIGHT * defensive)


@jit
def log_split_probability(model: Lowered, state: ChainState, node: int) -> float:
    """Return the log probability of an internal node's split by the learned density g, given that the node is split."""
    # the split must be one that `is_candidate` admits
    if follows_design(model.split_prior):
        return 0.0
    guide_index, here, work = evaluate_cell_and_splits(model, state, node), state.node[node], state.scratch.density
    gain = state.beta[0] * (state.node[here.left].guess + state.node[here.right].guess - here.guess)
    left = impurity(model, work.logs, state.stats, here.left)
    right = impurity(model, work.logs, state.stats, here.right)
    spare, n_left = work.split_terms.shape[1] - 1, state.node[here.left].rows
    split_terms_into(work, spare, gain, left, right, n_left)
    finish_split_terms(work, spare, spare + 1, here.rows)
    split_logit = logit(state.density, depth_class(state, node), work.split_terms, spare)
    rule_weight = exp(here.log_rule) * state.stored.guide[guide_index].weight
    return log(split_probability(model, state, node, guide_index, here.feature, rule_weight, split_logit))


@jit
def draw_guided_split(rng: np.random.Generator, model: Lowered, state: ChainState, node: int) -> tuple[Split, float]:
    """Draw a split of a splittable node from the learned density. Return it and its log probability, given a split."""
    if follows_design(model.split_prior):
        return fixed_split(model, state, node), 0.0
    guide_index, weight, total = evaluate_cell_and_splits(model, state, node), state.scratch.feature_weight, 0.0
    for k in range(len(weight)):
        weight[k] = state.stored.fraction[guide_index, k]
        total += weight[k]
    k, work = np.int64(pick_weighted(rng, weight, total)), state.scratch.density
    n_bins = fill_bins(model, state, node, k)
    rule_weight = model.split_prior.feature[k].weight / n_splits_of_codes(model, state, node, k, n_bins)
    n_splits, number, g = evaluate_splits(model, state, node, k, n_bins), np.int64(-3), 0.0
    remaining = rng.random() * state.stored.fraction[guide_index, k]
    for i in range(-2, n_splits):
        if work.n_alike[i + 2] > 0:
            number = np.int64(i)
            g = split_probability(model, state, node, guide_index, k, rule_weight, work.exponent[LEARNED, i + 2])
            remaining -= work.n_alike[i + 2] * g
            if remaining < 0.0:
                break
    n_alike, log_rule = work.n_alike[number + 2], log(rule_weight / state.stored.guide[guide_index].weight)
    alike_index = np.int64(pick(rng, n_alike) if n_alike > 1 else 0)
    return numbered_split(model, state, node, k, n_bins, number, alike_index, log_rule), log(g)


@jit
def numbered_split(
    model: Lowered, state: ChainState, node: int, k: int, n_bins: int, number: int, alike_index: int, log_rule: float
) -> Split:
    """Return split number `number` on `k` as a `Split`, after `fill_bins`, which returned `n_bins`."""
    # `alike_index` is its index among the cuts that separate the rows alike, `log_rule` its log R
    write_split(model, state, node, k, n_bins, number)
    entry = state.scratch.scan.drawn_split[0]
    cut = entry.cut + alike_index
    upper = cut + 1 if entry.n_alike > 1 else entry.upper
    return Split(k, cut, upper, entry.categories, log_rule)


@jit
def pick_cell(rng: np.random.Generator, model: Lowered, state: ChainState) -> int:
    """Return a random node whose subtree is to be redrawn, or NONE, with a probability that ignores the subtree."""
    # Follow the path of a random merged row to the first cell that is not too large, and from there a number of levels
    # that is uniform on 0 to n - 1, with n in the density's last row. NONE if the path ends before
    n_depths = np.int64(state.density[len(state.density) - 1, 0])
    # the number may come from a file, and be too small
    unit, levels = pick(rng, len(state.order)), pick(rng, max(n_depths, np.int64(MIN_TOP_DEPTHS)))
    node, n_features = np.int64(0), len(model.split_prior.feature)
    while True:
        here = state.node[node]
        is_large = (here.stop - here.start) * n_features > MAX_REDRAWN_VALUES
        if not is_large and levels == 0:
            return node
        if is_leaf(state, node):
            return NONE
        levels -= 0 if is_large else 1
        code = np.int64(model.units.codes[here.feature, unit])
        node = here.left if goes_left(code, here.cut, here.categories) else here.right
