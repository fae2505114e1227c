"""Systematic samples of the splits of a cell, by the learned density g (formulas, section 12.1).

The splits of a cell lie end to end on a line, each on an interval of length ``size * g(q)``. A split is in the sample
if its interval contains a point of a lattice of mesh 1 whose first point is uniform in [0, 1).
"""

from math import floor, log

import numpy as np

from ....core.compile.jit import jit
from ....model import Lowered
from ....model.split_prior.base import follows_design, halves_box, parts_box
from ...edits.carry_over import cell_categories
from ...state.records import MAX_PARTITIONED_CATEGORIES, N_SPLIT_TERMS, NONE
from ...state.splits import Split, box_range, fixed_split, n_splits_of_codes
from ...state.tree import ChainState
from ...sums.split_sums import fill_bins, prefix_number
from .density import evaluate_cell_and_splits, numbered_split, split_probability
from .terms import LEARNED, evaluate_splits


@jit
def sample_splits(
    rng: np.random.Generator, model: Lowered, state: ChainState, node: int, size: float, retained: int, first_entry: int
) -> int:
    """Write a systematic sample of the splits of a node into ``density.branch[first_entry:]`` and return its size."""
    # The sample contains split q with probability p_q = min(1, size * g(q)), with g(q) the probability of q by the
    # density g given a split. If `retained` is a node of the same cell and not NONE, the sample is drawn given that it
    # contains the split of that node. Without room for all splits `density.is_exhausted` is set
    guide_index, prior, work = evaluate_cell_and_splits(model, state, node), model.split_prior, state.scratch.density
    if follows_design(prior):
        _write_branch(state, first_entry, fixed_split(model, state, node), 0.0, retained != NONE)
        return 1
    point, has_one_point = _first_point(rng, model, state, node, size, retained, guide_index)
    feature, retained_number, retained_alike = NONE, np.int64(-3), np.int64(0)
    if retained != NONE:
        feature = state.node[retained].feature
    start, n_sampled = 0.0, np.int64(0)
    for k in range(len(prior.feature)):
        fraction = size * state.stored.fraction[guide_index, k]
        if fraction <= 0.0 or not (point < start + fraction or k == feature):
            start += fraction
            continue
        n = fill_bins(model, state, node, k)
        rule_weight = prior.feature[k].weight / n_splits_of_codes(model, state, node, k, n)
        n_splits, end, last_end = evaluate_splits(model, state, node, k, n), start, start + fraction
        if k == feature:
            retained_number, retained_alike = split_number_of(model, state, node, retained, k, n)
        for i in range(-2, n_splits):
            if work.n_alike[i + 2] == 0:
                continue
            z = work.exponent[LEARNED, i + 2]
            length = size * split_probability(model, state, node, guide_index, np.int64(k), rule_weight, z)
            for number in range(work.n_alike[i + 2]):
                end = min(end + length, last_end)
                is_retained = k == feature and i == retained_number and number == retained_alike
                is_sampled = is_retained
                if is_retained and has_one_point:
                    point += 1.0
                while point < end:
                    is_sampled = True
                    point += 1.0
                if is_sampled and first_entry + n_sampled == len(work.branch):
                    work.is_exhausted[0] = 1
                elif is_sampled:
                    log_rule = log(rule_weight / state.stored.guide[guide_index].weight)
                    split = numbered_split(model, state, node, np.int64(k), n, i, number, log_rule)
                    _write_branch(state, first_entry + n_sampled, split, min(log(length), 0.0), is_retained)
                    for j in range(N_SPLIT_TERMS):
                        work.branch_terms[first_entry + n_sampled, j] = work.split_terms[j, i + 2]
                    n_sampled += 1
        start += fraction
    return n_sampled


@jit
def _first_point(
    rng: np.random.Generator, model: Lowered, state: ChainState, node: int, size: float, retained: int, guide_index: int
) -> tuple[float, bool]:
    """Draw the first point, in [0, 1), of the lattice of a systematic sample."""
    # If `retained` is not NONE, given that the interval of that node's split contains a point of the lattice. True as
    # well if the interval is shorter than the mesh, so that it contains exactly one
    if retained == NONE:
        return rng.random(), False
    # interval ends are added up as in `sample_splits`, to the last bit: intervals may be shorter than rounding errors
    feature, start, work = state.node[retained].feature, 0.0, state.scratch.density
    for k in range(feature):
        start += size * state.stored.fraction[guide_index, k]
    n_bins = fill_bins(model, state, node, feature)
    rule_weight = model.split_prior.feature[feature].weight / n_splits_of_codes(model, state, node, feature, n_bins)
    n_splits, length = evaluate_splits(model, state, node, feature, n_bins), 0.0
    last_end = start + size * state.stored.fraction[guide_index, feature]
    split_number, alike_index = split_number_of(model, state, node, retained, feature, n_bins)
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
def split_number_of(model: Lowered, state: ChainState, node: int, other: int, k: int, n_bins: int) -> tuple[int, int]:
    """Return the number of the split that node `other` has on `k`, or -3, and its index among those alike."""
    # -3 if the split is not a candidate of `split_sums`
    rule, here, code_of = model.split_prior, state.node[other], state.scratch.codes.distinct
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


@jit
def _write_branch(state: ChainState, entry: int, split: Split, log_p: float, is_retained: bool) -> None:
    """Write a sampled split, its log probability, and if the tree has it, into `density.branch[entry]`."""
    branch = state.scratch.density.branch[entry]
    branch.feature, branch.cut, branch.upper = split.feature, split.cut, split.upper
    branch.categories, branch.log_rule, branch.log_p, branch.in_tree = (
        split.categories,
        split.log_rule,
        log_p,
        is_retained,
    )
