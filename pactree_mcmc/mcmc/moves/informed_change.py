"""Informed change: another split of an internal node, drawn from its conditional law given the splits below.

A depth is drawn uniformly among those with internal nodes, then an internal node v of this depth, with cell u. The
splits below v are carried over in raw form (`carry_over`). Candidates are the splits q of u, of a nominal feature only
those between a prefix of its categories, in the order of their means in u, and the rest. The two subtrees below v may
also exchange sides. The weight of a candidate, with the leaves l that it makes of the rows of u, is

    omega(q) = R(q | u) exp(beta sum_l score(l))

or 0 if a leaf gets too few rows. The new split is drawn in proportion to omega (locally informed: Zanella 2020). Old
and new tree have the same raw splits below v, so the same candidates and the same sum of weights:

    log_proposal_ratio = log omega(old) - log omega(new) + log_raw_forms(old) - log_raw_forms(new)

All weights of a feature are computed in O(n). Each row of u reaches one leaf if v sends it to the one subtree, and
one if v sends it to the other; neither depends on q. With the codes of the feature as *bins*, in order, the
candidate j sends the first j bins to the left. So the statistics of a leaf on the left are sums over its rows in the
first j bins, and those of a leaf on the right over its rows in the others. Both are built up bin by bin, without
differences, and a leaf is scored anew only at bins that contain some of its rows.
"""

from math import inf, isfinite, log

import numpy as np

from ...core.bits import goes_left
from ...core.compile.jit import jit
from ...core.special import exp_into, log_sum_exp
from ...model import Lowered
from ...model.leaf.compiled import add_scores_into
from ...model.split_prior.base import follows_design, halves_box, has_empty_sides, is_weighted, least_rows, parts_box
from ..edits.carry_over import MIDPOINT, cell_categories
from ..edits.proposal import Proposal, nothing, refused, withdrawn
from ..edits.replace_subtree import begin, build, drop_subtree, make_plan_raw, plan_copy, plan_node, replacement
from ..state.random import pick, pick_weighted
from ..state.records import MAX_INFORMED_LEAVES, N_INTERNAL, N_VISITED_ROWS, NONE, ChainState
from ..state.splits import box_range, collect_codes, fill_cut_weights, fill_feature_weights, split_mass
from ..state.terms import raise_not_finite, subtree_log_score
from .base import Move
from .change import log_raw_forms_below

# cost of a pass over the rows of a cell for a feature, by row: its time over that of a row that learned visits
ROWS_PER_PASS = 1.5


@jit
def informed_change_step(rng: np.random.Generator, model: Lowered, state: ChainState) -> Proposal:
    """Propose another split of a random internal node, drawn by its posterior given the splits below."""
    if state.count[N_INTERNAL] == 0 or follows_design(model.split_prior):
        return nothing()
    node = pick_by_depth(rng, state)
    n_planned = plan_copy(state, node, 0)
    if not number_leaves(state, n_planned) or not separates_prefix(model, state, node):
        return refused(0)
    log_forms_before = make_plan_raw(rng, model, state, node, node)
    # exchanging two leaves changes nothing
    n_sides = np.int64(1) if n_planned == 3 else np.int64(2)
    total = weigh_features(model, state, node, n_planned, n_sides)
    if not total > 0.0:
        return refused(0)
    part, p = pick_weighted(rng, state.scratch.informed.log_part, total), len(model.split_prior.feature)
    side, k = (np.int64(1), part - p) if part >= p else (np.int64(0), part)
    cut, categories = np.int64(MIDPOINT), np.int64(NONE)
    if not halves_box(model.split_prior):
        cut, categories = draw_candidate(rng, model, state, node, k, side, n_planned, n_sides)
        if is_present_split(model, state, node, k, cut, categories, side):
            return refused(0)
    plan_top(state, k, cut, categories, side)
    top = begin(state, node)
    if not build(model, state, top, n_planned, False):
        return withdrawn(0, node, top)
    log_omega_ratio = log_omega(state, node) - log_omega(state, top)
    log_forms_ratio = log_forms_before - log_raw_forms_below(model, state, top)
    return replacement(model, state, 0, node, top, log_omega_ratio + log_forms_ratio)


@jit
def pick_by_depth(rng: np.random.Generator, state: ChainState) -> int:
    """Draw a depth uniformly among those with internal nodes, and then one of its internal nodes uniformly."""
    # neither depends on the splits, as the new tree has as many internal nodes at each depth
    n, deepest = state.count[N_INTERNAL], np.int64(0)
    for i in range(n):
        deepest = max(deepest, state.node[state.node[i].internal].depth)
    # every depth above the deepest one has an internal node
    depth, n_there = pick(rng, deepest + 1), np.int64(0)
    for i in range(n):
        n_there += state.node[state.node[i].internal].depth == depth
    at = pick(rng, n_there)
    for i in range(n):
        node = state.node[i].internal
        if state.node[node].depth == depth:
            if at == 0:
                return node
            at -= 1
    return np.int64(NONE)


@jit
def log_omega(state: ChainState, node: int) -> float:
    """Return the log weight of the split that a node has: log R plus the tempered scores of the leaves below."""
    return state.node[node].log_rule + state.beta[0] * subtree_log_score(state, node)


@jit
def number_leaves(state: ChainState, n_planned: int) -> bool:
    """Number the leaves of both planned subtrees from 0 in ``plan.side``. Return False if there are too many."""
    n_leaves = state.scratch.informed.n_leaves
    n_leaves[0] = n_leaves[1] = 0
    for i in range(1, n_planned):
        # the plan is in preorder
        s = np.int64(i >= state.plan[0].right)
        if state.plan[i].feature == NONE:
            state.plan[i].side = n_leaves[s]
            n_leaves[s] += 1
    return n_leaves[0] <= MAX_INFORMED_LEAVES and n_leaves[1] <= MAX_INFORMED_LEAVES


@jit
def separates_prefix(model: Lowered, state: ChainState, node: int) -> bool:
    """Return False if the split of a node is nominal and separates no prefix of its categories from the others."""
    record = state.node[node]
    if record.categories < 0:
        return True
    present, prefix = cell_categories(model, state, node, record.feature), np.int64(0)
    left = record.categories & present
    for j in range(list_bins(model, state, node, record.feature)):
        prefix |= np.int64(1) << state.scratch.informed.code_of_bin[j]
        if prefix == left or present & ~prefix == left:
            return True
    return left == 0


@jit
def weigh_features(model: Lowered, state: ChainState, node: int, n_planned: int, n_sides: int) -> float:
    """Write the weight of the candidates on each feature, over the largest, into ``log_part``. Return the sum."""
    # behind them come those of the candidates with exchanged subtrees
    log_part, p = state.scratch.informed.log_part, len(model.split_prior.feature)
    total = fill_feature_weights(model, state, node)
    for k in range(p):
        weight = state.scratch.feature_weight[k]
        log_part[k], log_part[p + k] = log(weight / total) if weight > 0.0 else -inf, -inf
    if not halves_box(model.split_prior):
        group_units(model, state, node)
    for k in range(p):
        log_fraction = log_part[k]
        if log_fraction > -inf and halves_box(model.split_prior):
            for side in range(n_sides):
                log_part[side * p + k] = weigh_middle(model, state, node, k, side, n_planned)
        elif log_fraction > -inf:
            log_fraction -= log(split_mass(model, state, node, k))
            n_bins = weigh_candidates(model, state, node, k, n_planned, n_sides)
            for side in range(n_sides):
                log_sum = log_sum_exp(state.scratch.informed.log_weight[side], n_bins + 1)
                log_part[side * p + k] = log_fraction + log_sum
    return exp_into(log_part, log_part, 2 * p)


@jit
def weigh_middle(model: Lowered, state: ChainState, node: int, k: int, side: int, n_planned: int) -> float:
    """Return the log weight of the split in the middle of coordinate ``k`` of a node's box."""
    # which leaf a row reaches depends on the splits above, all in the middle of a box. So the subtree is built
    plan_top(state, k, np.int64(MIDPOINT), np.int64(NONE), side)
    top = begin(state, node)
    log_weight = log_omega(state, top) if build(model, state, top, n_planned, False) else -inf
    drop_subtree(state, node, top)
    plan_top(state, k, np.int64(MIDPOINT), np.int64(NONE), side)
    return log_weight


@jit
def plan_top(state: ChainState, k: int, cut: int, categories: int, side: int) -> None:
    """Plan a split at the top, with the planned subtrees below, which exchange places if ``side`` is 1."""
    left, right = state.plan[0].left, state.plan[0].right
    plan_node(state, 0, k, cut, categories)
    state.plan[0].left, state.plan[0].right = (left, right) if side == 0 else (right, left)


@jit
def group_units(model: Lowered, state: ChainState, node: int) -> None:
    """Sort the units of a node by the leaf that they reach in either planned subtree, into ``informed.unit``."""
    # leaf i of subtree s gets the units from ``informed.leaf_start[s, i]`` to the next start
    codes, order, plan, work = model.units.codes, state.order, state.plan, state.scratch.informed
    start, stop = state.node[node].start, state.node[node].stop
    unit, leaf, leaf_start = work.unit, work.place, work.leaf_start
    for s in range(2):
        for i in range(work.n_leaves[s] + 2):
            leaf_start[s, i] = 0
        for i in range(start, stop):
            u, at = order[i], plan[0].left if s == 0 else plan[0].right
            while plan[at].feature != NONE:
                code = np.int64(codes[plan[at].feature, u])
                at = plan[at].left if goes_left(code, plan[at].cut, plan[at].categories) else plan[at].right
            leaf[s, i - start] = plan[at].side
            leaf_start[s, plan[at].side + 2] += 1
        for i in range(2, work.n_leaves[s] + 2):
            leaf_start[s, i] += leaf_start[s, i - 1]
        for i in range(start, stop):
            at = leaf[s, i - start] + 1
            unit[s, leaf_start[s, at]] = order[i]
            leaf_start[s, at] += 1
    state.count[N_VISITED_ROWS] += 2 * int(ROWS_PER_PASS * (stop - start))


@jit
def list_bins(model: Lowered, state: ChainState, node: int, k: int) -> int:
    """Write the code of each bin of feature ``k`` in a node, and the bin of each code. Return the number of bins."""
    # in a box a nominal feature has a bin for each category of the box, and codes outside, of missing values, belong to
    # the bin at the end
    rule, work, n, n_bins = model.split_prior, state.scratch.informed, np.int64(0), np.int64(0)
    code_of_bin, low, high = work.code_of_bin, np.int64(0), rule.feature[k].n_codes
    if parts_box(rule) and rule.feature[k].nominal:
        for c in range(high):
            code_of_bin[n] = c
            n += (state.box[node, k, 0] >> c) & 1
    else:
        n = collect_codes(model, state, node, k)
        for j in range(n):
            code_of_bin[j] = state.scratch.codes.distinct[j]
        if parts_box(rule):
            low, high = box_range(model, state, node, k)
    if rule.feature[k].nominal:
        sort_by_mean(model, state, node, k, n)
    for j in range(n):
        c = code_of_bin[j]
        clipped = min(max(c, low), high - 1)
        if n_bins == 0 or code_of_bin[n_bins - 1] != clipped:
            code_of_bin[n_bins] = clipped
            n_bins += 1
        work.bin_of_code[c] = n_bins - 1
    return n_bins


@jit
def sort_by_mean(model: Lowered, state: ChainState, node: int, k: int, n: int) -> None:
    """Sort the ``n`` categories in ``informed.code_of_bin`` by the mean of y, or of the class number, in a node."""
    merged_rows, order, codes, work = model.units, state.order, model.units.codes[k], state.scratch.informed
    code_of_bin, mean, weight = work.code_of_bin, work.mean, work.weight
    for j in range(n):
        mean[code_of_bin[j]] = weight[code_of_bin[j]] = 0.0
    for i in range(state.node[node].start, state.node[node].stop):
        u = order[i]
        c, unit_weight = codes[u], merged_rows.weight[u & merged_rows.weight_all]
        weight[c] += unit_weight
        mean[c] += unit_weight * merged_rows.label[u] if merged_rows.counts else merged_rows.moments[0, u]
    for i in range(n):
        c, j = code_of_bin[i], i
        mean[c] = mean[c] / weight[c] if weight[c] > 0.0 else 0.0
        while j > 0 and mean[code_of_bin[j - 1]] > mean[c]:
            code_of_bin[j] = code_of_bin[j - 1]
            j -= 1
        code_of_bin[j] = c


@jit
def weigh_candidates(model: Lowered, state: ChainState, node: int, k: int, n_planned: int, n_sides: int) -> int:
    """Write the log weights of the candidates on feature ``k`` into ``log_weight``. Return the number of bins."""
    # up to the log of P(k) / split_mass; in row 1 those with exchanged subtrees. Entry j sends the first j bins left
    rule, work, beta = model.split_prior, state.scratch.informed, state.beta[0]
    n_bins = list_bins(model, state, node, k)
    if is_weighted(rule):
        fill_cut_weights(model, state, node, k, n_bins)
    place_units(model, state, k, n_bins)
    # an empty side is possible if the prior has such splits; of those in a box `alike_cuts` knows the number
    ends = has_empty_sides(rule) or (parts_box(rule) and not rule.feature[k].nominal)
    for side in range(n_sides):
        first = max(work.fewest[side], np.int64(0) if ends else np.int64(1))
        last = min(work.most[1 - side], n_bins if ends else n_bins - 1)
        work.first[side], work.last[side] = first, last
        for j in range(n_bins + 1):
            work.log_weight[side, j] = 0.0 if first <= j <= last else -inf
    for s in range(2):
        add_scores_of_leaves(model, state, node, s, n_bins, n_sides)
    for side in range(n_sides):
        for j in range(work.first[side], work.last[side] + 1):
            log_alike = log_weight_of_alike(model, state, node, k, side, j, n_bins, n_planned)
            work.log_weight[side, j] = beta * work.log_weight[side, j] + log_alike
    return n_bins


@jit
def place_units(model: Lowered, state: ChainState, k: int, n_bins: int) -> None:
    """Write the bins of the grouped units into ``informed.place``, and how many bins a side needs or may lack."""
    # for each planned subtree ``informed.fewest`` gets the smallest number of bins, from the first on, that leaves
    # enough rows in all its leaves, and ``informed.most`` the largest number of bins that may be left out
    work, codes, merged_rows, least = (
        state.scratch.informed,
        model.units.codes[k],
        model.units,
        least_rows(model.split_prior),
    )
    unit, place, rows, bin_of_code = work.unit, work.place, work.rows, work.bin_of_code
    for s in range(2):
        fewest, most = np.int64(0), np.int64(n_bins)
        for leaf in range(work.n_leaves[s]):
            start, stop = work.leaf_start[s, leaf], work.leaf_start[s, leaf + 1]
            for i in range(start, stop):
                u = unit[s, i]
                b = bin_of_code[codes[u]]
                place[s, i] = b
                rows[b] += merged_rows.rows[u & merged_rows.rows_all]
            n_left, at = np.int64(0), np.int64(0)
            while n_left < least and at < n_bins:
                n_left += rows[at]
                at += 1
            fewest = max(fewest, at if n_left >= least else np.int64(n_bins + 1))
            n_right, at = np.int64(0), np.int64(n_bins)
            while n_right < least and at > 0:
                at -= 1
                n_right += rows[at]
            most = min(most, at if n_right >= least else np.int64(-1))
            for i in range(start, stop):
                rows[place[s, i]] = 0
        work.fewest[s], work.most[s] = fewest, most
        state.count[N_VISITED_ROWS] += int(ROWS_PER_PASS * work.leaf_start[s, work.n_leaves[s]])


@jit
def add_scores_of_leaves(model: Lowered, state: ChainState, node: int, s: int, n_bins: int, n_sides: int) -> None:
    """Add the scores of all leaves of planned subtree ``s`` to ``informed.log_weight``, for all candidates."""
    work, merged_rows = state.scratch.informed, model.units
    unit, place, rows, stats = work.unit, work.place, work.rows, work.stats
    label, unit_weight, weight_all, moments = (
        merged_rows.label,
        merged_rows.weight,
        merged_rows.weight_all,
        merged_rows.moments,
    )
    if work.first[0] > work.last[0] and (n_sides == 1 or work.first[1] > work.last[1]):
        return
    for leaf in range(work.n_leaves[s]):
        start, stop = work.leaf_start[s, leaf], work.leaf_start[s, leaf + 1]
        for i in range(start, stop):
            u, b = unit[s, i], place[s, i]
            rows[b] += merged_rows.rows[u & merged_rows.rows_all]
            if merged_rows.counts:
                stats[b, label[u]] += unit_weight[u & weight_all]
            else:
                stats[b, 0] += unit_weight[u & weight_all]
                for j in range(len(moments)):
                    stats[b, j + 1] += moments[j, u]
        for side in range(n_sides):
            if work.first[side] <= work.last[side]:
                add_scores_of_leaf(model, state, node, side, n_bins, side == s)
        for i in range(start, stop):
            rows[place[s, i]] = 0
            for j in range(stats.shape[1]):
                stats[place[s, i], j] = 0.0
    state.count[N_VISITED_ROWS] += int(ROWS_PER_PASS * work.leaf_start[s, work.n_leaves[s]])


@jit
def add_scores_of_leaf(model: Lowered, state: ChainState, node: int, side: int, n_bins: int, on_left: bool) -> None:
    """Add the score of a leaf, whose rows are in ``informed.stats`` by bin, to ``informed.log_weight[side]``."""
    # the bins are added up from the first one if the leaf is on the left, else from the last one
    work, first, last = state.scratch.informed, state.scratch.informed.first[side], state.scratch.informed.last[side]
    stats, rows, log_weight, sums, score, since = (
        work.stats,
        work.rows,
        work.log_weight,
        work.sums,
        work.score,
        work.since,
    )
    n_stats, n_sums, n_always = stats.shape[1], np.int64(1), first if on_left else n_bins - last
    for j in range(n_stats):
        sums[0, j] = 0.0
    since[0], score[0] = first if on_left else last, 0.0
    for i in range(n_always + last - first):
        b = i if on_left else n_bins - 1 - i
        if rows[b] > 0:
            if i >= n_always:
                # the first candidate that has bin b on the side of the leaf
                since[n_sums], score[n_sums] = b + 1 if on_left else b, 0.0
                for j in range(n_stats):
                    sums[n_sums, j] = sums[n_sums - 1, j]
                n_sums += 1
            for j in range(n_stats):
                sums[n_sums - 1, j] += stats[b, j]
    add_scores_into(score, model.leaf, sums, n_sums)
    for e in range(n_sums):
        if not isfinite(score[e]):
            work.failed_rows[0] = 0
            for b in range(since[e]) if on_left else range(since[e], n_bins):
                work.failed_rows[0] += rows[b]
            raise_not_finite(state, node, True)
        start = since[e] if on_left else (since[e + 1] + 1 if e + 1 < n_sums else first)
        stop = since[e] + 1 if not on_left else (since[e + 1] if e + 1 < n_sums else last + 1)
        for j in range(start, stop):
            log_weight[side, j] += score[e]


@jit
def log_weight_of_alike(
    model: Lowered, state: ChainState, node: int, k: int, side: int, j: int, n_bins: int, n_planned: int
) -> float:
    """Return the log of the prior weight of all splits that send the first ``j`` bins of feature ``k`` to the left."""
    # the log of their number if all are equally likely
    rule, weights, total = model.split_prior, state.scratch.cut_weight, 0.0
    if parts_box(rule) and not rule.feature[k].nominal:
        start, stop = alike_cuts(model, state, node, k, side, j, n_bins, n_planned)
        total = float(max(stop - start, 0))
        if is_weighted(rule):
            total, low = 0.0, box_range(model, state, node, k)[0]
            for c in range(start, stop):
                total += weights[c - low]
    elif is_weighted(rule):
        total = weights[0] if rule.feature[k].nominal else weights[j - 1]
    else:
        return 0.0
    return log(total) if total > 0.0 else -inf


@jit
def alike_cuts(
    model: Lowered, state: ChainState, node: int, k: int, side: int, j: int, n_bins: int, n_planned: int
) -> tuple[int, int]:
    """Return the range of the cuts of a box on coordinate ``k`` that send the first ``j`` bins to the left."""
    # these leave the planned cuts on the same feature inside the boxes of their side
    code_of_bin, other = state.scratch.informed.code_of_bin, model.split_prior.feature[k].other_coordinate
    low, high = box_range(model, state, node, k)
    start, stop = code_of_bin[j - 1] if j > 0 else low, code_of_bin[j] if j < n_bins else high - 1
    for i in range(1, n_planned):
        if state.plan[i].feature == k or state.plan[i].feature == other:
            # the plan is in preorder, and its top not yet that of the new tree
            if (i >= state.plan[0].right) != (side == 1):
                stop = min(stop, state.plan[i].cut)
            else:
                start = max(start, state.plan[i].cut + 1)
    return start, stop


@jit
def draw_candidate(
    rng: np.random.Generator,
    model: Lowered,
    state: ChainState,
    node: int,
    k: int,
    side: int,
    n_planned: int,
    n_sides: int,
) -> tuple[int, int]:
    """Draw a candidate on feature ``k`` by its weight, with exchanged subtrees if ``side`` is 1: cut and categories."""
    rule, work = model.split_prior, state.scratch.informed
    n_bins, weights = weigh_candidates(model, state, node, k, n_planned, n_sides), work.log_weight[side]
    total = exp_into(weights, weights, n_bins + 1)
    for j in range(n_bins + 1, len(weights)):
        weights[j] = 0.0
    n_left = pick_weighted(rng, weights, total)
    if rule.feature[k].nominal:
        categories = np.int64(0)
        for j in range(n_left):
            categories |= np.int64(1) << work.code_of_bin[j]
        return np.int64(NONE), categories
    if not parts_box(rule):
        if n_left == n_bins:
            return rule.feature[k].n_codes - 1, np.int64(NONE)
        return work.code_of_bin[n_left - 1] if n_left > 0 else np.int64(NONE), np.int64(NONE)
    start, stop = alike_cuts(model, state, node, k, side, n_left, n_bins, n_planned)
    if stop - start == 1:
        return start, np.int64(NONE)
    low, alike = box_range(model, state, node, k)[0], state.scratch.cut_weight
    if not is_weighted(rule):
        return start + pick(rng, stop - start), np.int64(NONE)
    total = 0.0
    for j in range(len(weights)):
        weights[j] = alike[start - low + j] if j < stop - start else 0.0
        total += weights[j]
    return start + pick_weighted(rng, weights, total), np.int64(NONE)


@jit
def is_present_split(
    model: Lowered, state: ChainState, node: int, k: int, cut: int, categories: int, side: int
) -> bool:
    """Return True if a candidate divides a node as its present split does, with each planned subtree on its side."""
    record = state.node[node]
    if k != record.feature:
        return False
    if categories < 0:
        return side == 0 and record.cut <= cut < record.upper
    present = cell_categories(model, state, node, k)
    return (categories if side == 0 else ~categories) & present == record.categories & present


MOVE = Move("informed-change", informed_change_step, scratch=("replace", "informed"))
