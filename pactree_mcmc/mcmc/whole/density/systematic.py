"""Systematic samples of the splits of a cell, by the learned density g (formulas, section 12.1).

The splits of a cell lie end to end on a line, each on an interval of length ``size * g(q)``. A split is in the sample
if its interval contains a point of a lattice of mesh 1 whose first point is uniform in [0, 1).
"""

from math import floor, log

import numpy as np

from ....core.compile.jit import jit
from ....model import Lowered
from ....model.split_prior.base import halves_box, parts_box
from ...edits.carry_over import cell_categories
from ...state.records import MAX_PARTITIONED_CATEGORIES, MAX_SAMPLED_SPLITS, N_SPLIT_TERMS, NONE, ChainState
from ...state.splits import box_range, n_splits_of_codes
from ...sums.split_sums import fill_bins, prefix_number
from .density import evaluate_cell_and_splits, split_probability
from .terms import LEARNED, evaluate_splits


@jit
def sample_splits(
    rng: np.random.Generator,
    model: Lowered,
    state: ChainState,
    node: int,
    size: float,
    terms: np.ndarray,
    offset: np.ndarray,
    first: int,
) -> tuple[int, int]:
    """Write a systematic sample of the splits of an internal node, given that it contains the node's own split."""
    # Row ``first + i`` of ``terms`` and ``offset`` gets split i: its terms, and log R minus the log probability of
    # being sampled. Return the size of the sample, and the number of the node's own split in it, or NONE without room.
    # the sample contains split q with probability p_q = min(1, size * g(q)), with g(q) the probability of q by the
    # density g given a split
    guide_index, prior, work = evaluate_cell_and_splits(model, state, node), model.split_prior, state.scratch.density
    point, has_one_point = _first_point(rng, model, state, node, size, guide_index)
    feature = state.node[node].feature
    own_number, own_alike = np.int64(-3), np.int64(0)
    start, n_sampled, own = 0.0, np.int64(0), np.int64(NONE)
    for k in range(len(prior.feature)):
        fraction = size * state.stored.fraction[guide_index, k]
        if fraction <= 0.0 or not (point < start + fraction or k == feature):
            start += fraction
            continue
        n = fill_bins(model, state, node, k)
        rule_weight = prior.feature[k].weight / n_splits_of_codes(model, state, node, k, n)
        n_splits, end, last_end = evaluate_splits(model, state, node, k, n), start, start + fraction
        if k == feature:
            own_number, own_alike = split_number_of(model, state, node, k, n)
        for i in range(-2, n_splits):
            if work.n_alike[i + 2] == 0:
                continue
            z = work.exponent[LEARNED, i + 2]
            length = size * split_probability(model, state, node, guide_index, np.int64(k), rule_weight, z)
            for number in range(work.n_alike[i + 2]):
                end = min(end + length, last_end)
                is_own = k == feature and i == own_number and number == own_alike
                is_sampled = is_own
                if is_own and has_one_point:
                    point += 1.0
                while point < end:
                    is_sampled = True
                    point += 1.0
                if is_sampled and n_sampled < MAX_SAMPLED_SPLITS:
                    log_rule = log(rule_weight / state.stored.guide[guide_index].weight)
                    offset[first + n_sampled] = log_rule - min(log(length), 0.0)
                    for j in range(N_SPLIT_TERMS):
                        terms[first + n_sampled, j] = work.split_terms[j, i + 2]
                    if is_own:
                        own = n_sampled
                    n_sampled += 1
        start += fraction
    return n_sampled, own


@jit
def _first_point(
    rng: np.random.Generator, model: Lowered, state: ChainState, node: int, size: float, guide_index: int
) -> tuple[float, bool]:
    """Draw the first point, in [0, 1), of the lattice, given that the interval of the node's split contains a point."""
    # True as well if the interval is shorter than the mesh, so that it contains exactly one. Interval ends are added up
    # as in `sample_splits`, to the last bit: intervals may be shorter than rounding errors
    feature, start, work = state.node[node].feature, 0.0, state.scratch.density
    for k in range(feature):
        start += size * state.stored.fraction[guide_index, k]
    n_bins = fill_bins(model, state, node, feature)
    rule_weight = model.split_prior.feature[feature].weight / n_splits_of_codes(model, state, node, feature, n_bins)
    n_splits, length = evaluate_splits(model, state, node, feature, n_bins), 0.0
    last_end = start + size * state.stored.fraction[guide_index, feature]
    split_number, alike_index = split_number_of(model, state, node, feature, n_bins)
    for i in range(-2, n_splits):
        if work.n_alike[i + 2] > 0:
            z = work.exponent[LEARNED, i + 2]
            length = size * split_probability(model, state, node, guide_index, feature, rule_weight, z)
            if i == split_number:
                for _ in range(alike_index):
                    start = min(start + length, last_end)
                break
            for _ in range(work.n_alike[i + 2]):
                start = min(start + length, last_end)
    point = rng.random()
    if length >= 1.0:
        return point, False
    # a uniform point of [start, start + length), moved by whole numbers into [0, 1); no rounding on the way back moves
    # it below the start
    point = point * length - (floor(start) - start)
    return (point if point < 1.0 else point - 1.0), True


@jit
def split_number_of(model: Lowered, state: ChainState, node: int, k: int, n_bins: int) -> tuple[int, int]:
    """Return the number of the split of a node, which is on `k`, or -3, and its index among those alike."""
    # -3 if the split is not a candidate of `split_sums`
    rule, here, code_of = model.split_prior, state.node[node], state.scratch.codes.distinct
    zero = np.int64(0)
    if here.categories >= 0:
        present = cell_categories(model, state, node, k)
        left_categories = here.categories & present
        if left_categories == 0 or left_categories == present:
            return np.int64(-1 if left_categories == present else -2), zero
        if n_bins > MAX_PARTITIONED_CATEGORIES:
            return prefix_number(model, state, n_bins, left_categories, present), zero
        left_bins = np.int64(0)
        for j in range(n_bins):
            if (left_categories >> code_of[j]) & 1:
                left_bins |= np.int64(1) << j
        if not left_bins & 1:
            left_bins = ((np.int64(1) << n_bins) - 1) & ~left_bins
        return (left_bins - 1) >> 1, zero
    if halves_box(rule):
        return zero, zero
    n_left_bins = np.int64(0)
    while n_left_bins < n_bins and code_of[n_left_bins] <= here.cut:
        n_left_bins += 1
    number = n_left_bins - 1
    first_cut = code_of[number] if n_left_bins > 0 else zero
    if n_left_bins == 0 and (n_bins > 0 or parts_box(rule)):
        number = np.int64(-2)
        if parts_box(rule):
            first_cut = box_range(model, state, node, k)[0]
    elif n_left_bins == n_bins:
        number = np.int64(-1)
    return number, (here.cut - first_cut if parts_box(rule) else zero)
