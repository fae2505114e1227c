"""Systematic samples of the splits of a cell, by the learned density (formulas, section 12.1).

The splits of a cell lie end to end on a line, each on an interval of length ``expected * g(q)``. A split is in the
sample if its interval contains a point of a lattice of mesh 1 whose first point is uniform in [0, 1).
"""

from math import floor, log

import numpy as np

from ....core.compile.jit import jit
from ....model import Lowered
from ....model.split_prior.geometry import follows_design, halves_box, parts_box
from ...edits.carry_over import cell_categories
from ...state.records import N_SPLIT_TERMS, NONE
from ...state.scratch import MAX_PARTITIONED_CATEGORIES
from ...state.splits import Split, box_range, fixed_split, n_splits_of_codes
from ...state.tree import ChainState
from ...sums.bins import fill_bins
from ...sums.split_sums import prefix_number
from .density import evaluate_cell_and_splits, split_at, split_probability
from .terms import LEARNED, evaluate_splits


@jit
def sample_splits(
    rng: np.random.Generator, model: Lowered, state: ChainState, node: int, expected: float, retained: int, base: int
) -> int:
    """Write a systematic sample of the splits of a node into ``density.branch[base:]`` and return its size.

    The sample contains split q with probability ``p_q = min(1, expected * g(q))``. If ``retained`` is a node of the
    same cell and not NONE, draw the sample given that it contains the split of that node. Without room for all splits
    set ``density.is_exhausted``.
    """
    place, prior, work = evaluate_cell_and_splits(model, state, node), model.split_prior, state.scratch.density
    if follows_design(prior):
        _branch_into(state, base, fixed_split(model, state, node), 0.0, retained != NONE)
        return 1
    point = _first_point(rng, model, state, node, expected, retained, place)
    feature, index, alike_index = NONE, np.int64(-3), np.int64(0)
    if retained != NONE:
        feature = state.node[retained].feature
    before, m = 0.0, np.int64(0)
    for k in range(len(prior.feature)):
        fraction = expected * state.stored.fraction[place, k]
        if fraction <= 0.0 or not (point < before + fraction or k == feature):
            before += fraction
            continue
        n = fill_bins(model, state, node, k)
        rule = prior.feature[k].weight / n_splits_of_codes(model, state, node, k, n)
        n_splits, end = evaluate_splits(model, state, node, k, n), before
        if k == feature:
            index, alike_index = split_number_of(model, state, node, retained, k, n)
        for i in range(-2, n_splits):
            if work.n_alike[i + 2] == 0:
                continue
            learned = work.exponent[LEARNED, i + 2]
            length = expected * split_probability(model, state, node, place, np.int64(k), rule, learned)
            for number in range(work.n_alike[i + 2]):
                end += length
                is_retained = k == feature and i == index and number == alike_index
                is_sampled = is_retained
                while point < end:
                    is_sampled = True
                    point += 1.0
                if is_sampled and base + m == len(work.branch):
                    work.is_exhausted[0] = 1
                elif is_sampled:
                    log_rule = log(rule / state.stored.guide[place].weight)
                    split = split_at(model, state, node, np.int64(k), n, i, number, log_rule)
                    _branch_into(state, base + m, split, min(log(length), 0.0), is_retained)
                    for j in range(N_SPLIT_TERMS):
                        work.branch_terms[base + m, j] = work.split_terms[j, i + 2]
                    m += 1
        before += fraction
    return m


@jit
def _first_point(
    rng: np.random.Generator, model: Lowered, state: ChainState, node: int, expected: float, retained: int, place: int
) -> float:
    """Draw the first point of the lattice, in [0, 1).

    If ``retained`` is not NONE, draw it given that the interval of that node's split contains a point of the lattice.
    """
    if retained == NONE:
        return rng.random()
    feature, before, work = state.node[retained].feature, 0.0, state.scratch.density
    for k in range(feature):
        before += expected * state.stored.fraction[place, k]
    n = fill_bins(model, state, node, feature)
    rule = model.split_prior.feature[feature].weight / n_splits_of_codes(model, state, node, feature, n)
    n_splits, length = evaluate_splits(model, state, node, feature, n), 0.0
    index, alike_index = split_number_of(model, state, node, retained, feature, n)
    for i in range(-2, n_splits):
        if work.n_alike[i + 2] > 0:
            learned = work.exponent[LEARNED, i + 2]
            length = expected * split_probability(model, state, node, place, feature, rule, learned)
            if i == index:
                before += alike_index * length
                break
            before += work.n_alike[i + 2] * length
    point = rng.random()
    if length >= 1.0:
        return point
    # a uniform point of [before, before + length), moved by whole numbers into [0, 1)
    point = point * length - (floor(before) - before)
    return point if point < 1.0 else point - 1.0


@jit
def split_number_of(model: Lowered, state: ChainState, node: int, internal: int, k: int, n: int) -> tuple[int, int]:
    """Return the number, as in `sum_or_draw_splits`, of the split of node ``internal`` on feature ``k``.

    The bins of the feature must be filled.

    Return its index among the cuts that separate the rows alike as well. The first number is -3 if the split is not a
    candidate of `split_sums`.
    """
    rule, here, code_of = model.split_prior, state.node[internal], state.scratch.codes.distinct
    first = np.int64(0)
    if here.categories >= 0:
        present = cell_categories(model, state, node, k)
        left = here.categories & present
        if left == 0 or left == present:
            return np.int64(-1 if left == present else -2), first
        if n > MAX_PARTITIONED_CATEGORIES:
            return prefix_number(model, state, n, left, present), first
        pattern = np.int64(0)
        for j in range(n):
            if (left >> code_of[j]) & 1:
                pattern |= np.int64(1) << j
        if not pattern & 1:
            pattern = ((np.int64(1) << n) - 1) & ~pattern
        return (pattern - 1) >> 1, first
    if halves_box(rule):
        return first, first
    below = np.int64(0)
    while below < n and code_of[below] <= here.cut:
        below += 1
    way = below - 1
    start = code_of[way] if below > 0 else first
    if below == 0 and (n > 0 or parts_box(rule)):
        way = np.int64(-2)
        if parts_box(rule):
            start = box_range(model, state, node, k)[0]
    elif below == n:
        way = np.int64(-1)
    return way, (here.cut - start if parts_box(rule) else first)


@jit
def _branch_into(state: ChainState, at: int, split: Split, log_p: float, is_retained: bool) -> None:
    """Write a sampled split, and the log probability of being sampled, into ``density.branch[at]``."""
    branch = state.scratch.density.branch[at]
    branch.feature, branch.cut, branch.upper = split.feature, split.cut, split.upper
    branch.categories, branch.log_rule, branch.log_p, branch.in_tree = (
        split.categories,
        split.log_rule,
        log_p,
        is_retained,
    )
