"""Sums over all splits of a node, with the split integrated out (formulas, section 4).

    W(u) = sum_q R(q | u) exp(beta (score(u0_q) + score(u1_q) - score(u)))

over the splits q of the node u, with the children u0_q and u1_q, is computed in one pass of histograms per feature and
stored with the cell. `draw_scanned` draws q in proportion to its term. The bins of a feature are its codes
(`fill_bins`). Sums by code, in ``scan.by_code`` and ``codes.rows``, are 0 between two uses.

Functions here number the splits of a cell on one feature with n bins, in the order of their codes. Split i >= 0 sends
bins 0 to i left if the feature is ordered. If it is nominal with few categories, split i sends the bins in the bits of
1 + 2 i left, else the first i + 1 bins in the order of their means. Split -2 sends all rows right and split -1 all rows
left. Splits are *alike* if they separate the rows alike, such as all cuts in a gap between two codes of a box. They
have one number.

A nominal feature with more than `MAX_PARTITIONED_CATEGORIES` categories in the cell has too many splits. Only the
prefixes of its categories, in the order of their means, are candidates (`is_candidate`).

If the leaves share an unknown variance, the scores here are those by a *guess* of it that does not change, so that
stored values remain valid. The moves only draw proposals by them, and correct for the difference.
"""

from math import exp, inf, log

import numpy as np

from ...core.bits import full_mask, goes_left, n_bits
from ...core.compile.jit import jit
from ...core.special import exp_into, exp_sum, log_add
from ...model import Lowered
from ...model.leaf.compiled import add_scores_into
from ...model.rows import add_units_by_code, scatter_units
from ...model.split_prior.base import (
    follows_design,
    halves_box,
    has_empty_sides,
    has_one_split_per_feature,
    is_weighted,
    least_rows,
    parts_box,
    parts_rows,
)
from ..edits.carry_over import cell_categories
from ..state.random import pick, pick_weighted
from ..state.records import MAX_PARTITIONED_CATEGORIES, N_VISITED_ROWS, STORED_VERSION, ChainState
from ..state.splits import (
    Split,
    box_range,
    claim_cell_entry,
    collect_codes,
    feature_rule_weight,
    fill_cut_weights,
    fixed_split,
    is_admissible,
    log_cut_weight,
    middle_cut,
    present_bits,
    split_mass_of_codes,
)
from ..state.terms import node_log_split, node_log_stop, raise_not_finite

ROWS_PER_CODE = 10  # cost of a code of a feature in a cell, beside the rows of the cell, in rows


@jit
def fill_bins(model: Lowered, state: ChainState, node: int, k: int) -> int:
    """Sum the statistics and the rows of a node by code of `k`, one bin a code, ascending; return their number."""
    # Under dyadic and fixed splits the bins are the two sides of the only split, with codes 0 and 1, else the codes in
    # the rows. Under grid cuts a nominal feature has a bin for each category of the box, empty ones included. The cost,
    # in rows, is added to the state's count of rows visited
    rule, n_bins = model.split_prior, np.int64(2)
    if has_one_split_per_feature(rule):
        _sum_by_side(model, state, node, k)
    else:
        n_bins = _sum_by_code(model, state, node, k)
    if not has_one_split_per_feature(rule) and parts_box(rule) and rule.feature[k].nominal:
        n_bins = np.int64(0)
        for c in range(rule.feature[k].n_codes):
            if (state.box[node, k, 0] >> c) & 1:
                state.scratch.codes.distinct[n_bins] = c
                n_bins += 1
    state.count[N_VISITED_ROWS] += state.node[node].stop - state.node[node].start + ROWS_PER_CODE * n_bins
    _move_sums_to_bins(state, n_bins)
    if not has_one_split_per_feature(rule) and parts_box(rule) and rule.feature[k].other_coordinate != k and n_bins > 0:
        n_bins = _clip_codes(model, state, node, k, n_bins)
    return n_bins


@jit
def _sum_by_side(model: Lowered, state: ChainState, node: int, k: int) -> None:
    """Add the statistics and rows of a node's units to those of their side at the only split on `k`."""
    # in `scan.by_code` and `codes.rows`; the codes of the bins are then 0 (left) and 1
    rule, cut, categories = model.split_prior, np.int64(0), np.int64(-1)
    if follows_design(rule):
        design = rule.design[state.node[node].design]
        cut, categories = design.cut, design.categories
    else:
        cut = middle_cut(model, state, node, k)
    merged_rows, order, start, stop = model.units, state.order, state.node[node].start, state.node[node].stop
    codes, rows_by_side, side_of_row = merged_rows.codes[k], state.scratch.codes.rows, state.scratch.codes.side
    for i in range(start, stop):
        side = 1 - goes_left(np.int64(codes[order[i]]), cut, categories)
        side_of_row[i - start] = side
        rows_by_side[side] += merged_rows.rows[order[i] & merged_rows.rows_all]
    scatter_units(state.scratch.scan.by_code, side_of_row, merged_rows, order, start, stop)
    state.scratch.codes.distinct[0], state.scratch.codes.distinct[1] = 0, 1


@jit
def _sum_by_code(model: Lowered, state: ChainState, node: int, k: int) -> int:
    """Add the statistics and rows of a node's units to those of their code of `k`; return the number of codes."""
    # in `scan.by_code` and `codes.rows`; the codes are written, ascending, into `codes.distinct`
    codes, rows_by_code, distinct = model.units.codes[k], state.scratch.codes.rows, state.scratch.codes.distinct
    start, stop = state.node[node].start, state.node[node].stop
    low, high = add_units_by_code(
        state.scratch.scan.by_code, rows_by_code, codes, model.units, state.order, start, stop
    )
    if high - low >= 16 * (stop - start):
        return collect_codes(model, state, node, k)
    n_codes = np.int64(0)
    for c in range(low, high + 1):
        distinct[n_codes] = c
        n_codes += rows_by_code[c] > 0
    return n_codes


@jit
def _move_sums_to_bins(state: ChainState, n_bins: int) -> None:
    """Move the sums of the ``n_bins`` codes in ``codes.distinct`` to bins, in this order, and set the sums to 0."""
    codes, bins = state.scratch.codes, state.scratch.scan
    stats, rows, by_code, code_of, rows_by_code = bins.stats, bins.rows, bins.by_code, codes.distinct, codes.rows
    for j in range(n_bins):
        c = code_of[j]
        rows[j] = rows_by_code[c]
        rows_by_code[c] = 0
        for i in range(stats.shape[1]):
            stats[j, i] = by_code[c, i]
            by_code[c, i] = 0.0


@jit
def _clip_codes(model: Lowered, state: ChainState, node: int, k: int, n_bins: int) -> int:
    """Clip the codes of bins to the node's box on feature ``k``. Return the number of bins."""
    # codes of missing values may be outside; two bins that get the same code become one
    codes, bins = state.scratch.codes.distinct, state.scratch.scan
    low, high = box_range(model, state, node, k)
    if codes[0] < low:
        codes[0] = low
        if n_bins > 1 and codes[1] == low:
            n_bins -= 1
            _add_bin(state, np.int64(0), np.int64(1))
            for j in range(1, n_bins):
                codes[j], bins.rows[j] = codes[j + 1], bins.rows[j + 1]
                for i in range(bins.stats.shape[1]):
                    bins.stats[j, i] = bins.stats[j + 1, i]
    if codes[n_bins - 1] >= high:
        codes[n_bins - 1] = high - 1
        if n_bins > 1 and codes[n_bins - 2] == high - 1:
            n_bins -= 1
            _add_bin(state, n_bins - 1, n_bins)
    return n_bins


@jit
def _add_bin(state: ChainState, target: int, source: int) -> None:
    """Add the rows and statistics of bin ``source`` to those of bin ``target``. Leave ``source`` as it is."""
    bins = state.scratch.scan
    bins.rows[target] += bins.rows[source]
    for i in range(bins.stats.shape[1]):
        bins.stats[target, i] += bins.stats[source, i]


MAX_PAIRED_STATS = 3  # largest number of statistics of a leaf that `_sum_sides_of_cuts` adds up two at a time
# log of the smallest term, relative to the largest one, that rounding does not remove from a sum
LOG_SMALLEST_TERM = -60.0


@jit
def scan(model: Lowered, state: ChainState, node: int) -> float:
    """Return log W of a splittable node, W the sum over its splits of split prior times exp(gain in tempered score)."""
    # -inf if the sum has no term
    return state.stored.cell[scan_cell(model, state, node)].log_w


@jit
def log_lookahead(model: Lowered, state: ChainState, node: int) -> float:
    """Return log(stop + split W), with the prior factors of a leaf and of a split at a node, and W of `scan`."""
    # the log sum of prior times exp(beta score) over the subtrees with at most one split, minus beta times the score as
    # a leaf, without the prior factors of the two children; log(stop) without a possible split
    stop = node_log_stop(model, state, node)
    if not state.node[node].splittable:
        return stop
    return log_add(stop, node_log_split(model, state, node) + scan(model, state, node))


@jit
def scan_cell(model: Lowered, state: ChainState, node: int) -> int:
    """Compute log W of a node's cell and each feature's part of W (`scan`), unless stored; return its index."""
    cell_index, rule, stored = claim_cell_entry(model, state, node), model.split_prior, state.stored
    if stored.cell[cell_index].scan == state.count[STORED_VERSION]:
        return cell_index
    total_weight = 0.0
    for k in range(len(rule.feature)):
        # before the mass is set to 0, since the weight may depend on the stored one
        weight = feature_weight(model, state, node, k)
        stored.log_part[cell_index, k], stored.mass[cell_index, k] = -inf, 0.0
        if weight > 0.0:
            n_bins = fill_bins(model, state, node, k)
            mass = stored.mass[cell_index, k] = split_mass_of_codes(model, state, node, k, n_bins)
            if mass > 0.0:
                # W = sum_k w_k / sum w  *  sum_q v_q e^(beta gain_q) / m_k, with w_k the weight of feature k, v_q that
                # of split q (1 by default) and m_k = sum_q v_q. The part of k is log(w_k / m_k sum_q v_q e^...)
                weight = feature_rule_weight(rule, weight, mass)
                total_weight += weight
                log_sum = sum_or_draw_splits(model, state, node, k, n_bins, False, 0.0, 0.0)
                stored.log_part[cell_index, k] = log(weight / mass) + log_sum
    largest, total = exp_sum(stored.log_part[cell_index], len(rule.feature))
    stored.cell[cell_index].weight = total_weight
    stored.cell[cell_index].log_w = largest + log(total / total_weight) if total > 0.0 else -inf
    stored.cell[cell_index].scan = state.count[STORED_VERSION]
    return cell_index


@jit
def draw_scanned(rng: np.random.Generator, model: Lowered, state: ChainState, node: int) -> Split:
    """Draw a split q of a splittable node in proportion to R(q) exp(beta gain), its prior probability times the
    exponential of its gain in tempered score. The sum W of these (see `scan`) must not be 0.
    """
    cell_index, rule = scan_cell(model, state, node), model.split_prior
    if follows_design(rule):
        return fixed_split(model, state, node)
    total = exp_into(state.scratch.feature_weight, state.stored.log_part[cell_index], len(rule.feature))
    return draw_scanned_on_feature(rng, model, state, node, pick_weighted(rng, state.scratch.feature_weight, total))


@jit
def draw_scanned_on_feature(rng: np.random.Generator, model: Lowered, state: ChainState, node: int, k: int) -> Split:
    """Draw a split q on feature `k` in proportion to R(q) exp(beta gain), as `draw_scanned`."""
    # the part of the feature in the sum W must not be 0
    cell_index, rule = scan_cell(model, state, node), model.split_prior
    if follows_design(rule):
        return fixed_split(model, state, node)
    n_bins = fill_bins(model, state, node, k)
    mass = state.stored.mass[cell_index, k]
    weight = feature_rule_weight(rule, rule.feature[k].weight, mass)
    log_sum = state.stored.log_part[cell_index, k] - log(weight / mass)
    sum_or_draw_splits(model, state, node, k, n_bins, True, rng.random(), log_sum)
    entry = state.scratch.scan.drawn_split[0]
    cut, upper = entry.cut, entry.upper
    if entry.n_alike > 1:
        cut += draw_alike_cut(rng, model, state, node, k, cut, entry.n_alike)
        upper = cut + 1
    log_rule = log(weight / state.stored.cell[cell_index].weight) - log(mass)
    if is_weighted(rule):
        log_rule += log_cut_weight(model, state, node, np.int64(k), cut)
    return Split(np.int64(k), cut, upper, entry.categories, log_rule)


@jit
def feature_weight(model: Lowered, state: ChainState, node: int, k: int) -> float:
    """Return the prior weight of feature ``k`` in a node, not normalised, 0 if box, depth or fixed tree exclude it."""
    # under local cuts a feature that is constant in the cell has its weight nevertheless, since rows are not visited
    rule = model.split_prior
    if follows_design(rule):
        return 1.0 if k == rule.design[state.node[node].design].feature else 0.0
    return rule.feature[k].weight if parts_rows(rule) or is_admissible(model, state, node, k) else 0.0


@jit
def is_candidate(model: Lowered, state: ChainState, node: int) -> bool:
    """Return True if the sum W (see `scan`) contains the split that a node has, so that `draw_scanned` can draw it."""
    # of many categories W contains only the prefixes in the order of their means, not all partitions
    here = state.node[node]
    if here.categories < 0 or follows_design(model.split_prior):
        return True
    present = cell_categories(model, state, node, here.feature)
    left_categories = here.categories & present
    if n_bits(present) <= MAX_PARTITIONED_CATEGORIES or left_categories == 0 or left_categories == present:
        return True
    return prefix_number(model, state, fill_bins(model, state, node, here.feature), left_categories, present) >= 0


@jit
def sum_or_draw_splits(
    model: Lowered, state: ChainState, node: int, k: int, n_bins: int, is_drawing: bool, uniform: float, log_sum: float
) -> float:
    """Return the log of the sum of ``exp(beta gain)`` over the splits on feature ``k`` of a node, after `fill_bins`."""
    # If splits have weights, each term is multiplied by the weight; splits that leave too few rows on a side are left
    # out. With `is_drawing` a split is drawn in proportion to its term instead, into `scan.drawn_split`: then `log_sum`
    # is from an earlier call, `uniform` a random number of [0, 1), and the result has no meaning
    n_splits, weighted = gains_into(model, state, node, k, n_bins), is_weighted(model.split_prior)
    if weighted:
        fill_cut_weights(model, state, node, k, n_bins)
    bins, beta, code_of = state.scratch.scan, state.beta[0], state.scratch.codes.distinct
    gains, rows_left = bins.gain, bins.rows_left
    least, rows = least_rows(model.split_prior), state.node[node].rows
    has_gaps = parts_box(model.split_prior) and not model.split_prior.feature[k].nominal
    largest, total, cumulative, drawn_split = -inf, 0.0, 0.0, np.int64(-3)
    for split in range(-2, n_splits):
        n_alike, gain = np.int64(1), 0.0
        if split < 0:
            n_alike = empty_sided_splits(model, state, node, k, n_bins, split)[0]
            if n_alike == 0:
                continue
        else:
            if rows_left[split] < least or rows - rows_left[split] < least:
                continue
            gain = beta * gains[split]
            if has_gaps:
                n_alike = code_of[split + 1] - code_of[split]
        if weighted:
            # alike splits have one term, with the sum of their weights; one with a small gain may have a large weight
            weight = weight_of_alike_splits(model, state, node, k, n_bins, split)
            if weight == 0.0:
                continue
            n_alike = np.int64(1)
            gain += log(weight)
        if is_drawing:
            # inverse of the distribution function: the first split whose cumulative probability exceeds the uniform
            if gain - log_sum > LOG_SMALLEST_TERM:
                cumulative += n_alike * exp(gain - log_sum)
                drawn_split = np.int64(split)
                if uniform < cumulative:
                    break
        elif gain > largest:
            # the running sum is total e^largest; a new largest term rescales it
            total = total * exp(largest - gain) + n_alike if largest > -inf else float(n_alike)
            largest = gain
        elif not gain - largest <= LOG_SMALLEST_TERM:  # NaN counts
            total += n_alike * exp(gain - largest)
    if is_drawing:
        write_split(model, state, node, k, n_bins, drawn_split)
    elif total != total:
        raise_not_finite(state, node, True)
    return largest + log(total) if total > 0.0 else -inf


@jit
def weight_of_alike_splits(model: Lowered, state: ChainState, node: int, k: int, n_bins: int, split: int) -> float:
    """Return the sum of the prior weights of all splits on `k` that separate the rows as number `split`."""
    if model.split_prior.feature[k].nominal:
        return state.scratch.cut_weight[0]
    if not parts_box(model.split_prior):
        return state.scratch.cut_weight[split]
    low, code_of = box_range(model, state, node, k)[0], state.scratch.codes.distinct
    n_alike, first, _ = empty_sided_splits(model, state, node, k, n_bins, split)
    if split >= 0:
        n_alike, first = code_of[split + 1] - code_of[split], code_of[split]
    total = 0.0
    for c in range(first, first + n_alike):
        total += state.scratch.cut_weight[c - low]
    return total


@jit
def draw_alike_cut(
    rng: np.random.Generator, model: Lowered, state: ChainState, node: int, k: int, cut: int, n_alike: int
) -> int:
    """Draw one of the `n_alike` cuts from `cut` on, by the prior; return its distance from `cut`."""
    if not is_weighted(model.split_prior):
        return pick(rng, n_alike)
    first, total = cut - box_range(model, state, node, k)[0], 0.0
    for j in range(first, first + n_alike):
        total += state.scratch.cut_weight[j]
    return pick_weighted(rng, state.scratch.cut_weight[first : first + n_alike], total)


@jit
def gains_into(model: Lowered, state: ChainState, node: int, k: int, n_bins: int) -> int:
    """Write the gain in log score of each split on `k`, not tempered, into `scan.gain`; return their number."""
    # Split i sends bins 0 to i left, or of a nominal feature with few categories the bins in the bits of 1 + 2 i, with
    # many the first i + 1 in the order of their means. Cuts outside of all `n_bins` bins have no gain and are not
    # counted
    rule, bins, score = model.split_prior, state.scratch.scan, state.node[node].guess
    if rule.feature[k].nominal and not follows_design(rule):
        n_splits = _sum_sides_of_partitions(model, state, n_bins)
    else:
        n_splits = max(n_bins - 1, 0)
        _sum_sides_of_cuts(state, n_splits)
    for split in range(n_splits):
        bins.gain[split] = -score
    add_scores_into(bins.gain, model.proposal_leaf, bins.left, n_splits)
    add_scores_into(bins.gain, model.proposal_leaf, bins.right, n_splits)
    return n_splits


@jit
def _sum_sides_of_cuts(state: ChainState, n_splits: int) -> None:
    """Write statistics of both sides, and rows to the left, of the `n_splits` cuts between ordered bins."""
    # Both sides are sums, since a difference would contain the rounding error of the whole. Each partial sum waits for
    # the one before, so several are computed at a time: many statistics side by side, few statistics two at a time
    bins = state.scratch.scan
    stats, left, right, rows_left = bins.stats, bins.left, bins.right, bins.rows_left
    n_stats, last_split, rows = stats.shape[1], n_splits - 1, np.int64(0)
    for split in range(n_splits):
        rows += bins.rows[split]
        rows_left[split] = rows
    for split in range(n_splits if n_stats > MAX_PAIRED_STATS else 0):
        for i in range(n_stats):
            left[split, i] = stats[split, i] + (left[split - 1, i] if split > 0 else 0.0)
            at = n_splits - split
            right[at - 1, i] = stats[at, i] + (right[at, i] if split > 0 else 0.0)
    for i in range(0, n_stats if n_stats <= MAX_PAIRED_STATS else 0, 2):
        j = min(i + 1, n_stats - 1)
        sum_i, sum_j, right_i, right_j = 0.0, 0.0, 0.0, 0.0
        for split in range(n_splits):
            sum_i += stats[split, i]
            sum_j += stats[split, j]
            right_i += stats[n_splits - split, i]
            right_j += stats[n_splits - split, j]
            left[split, i], left[split, j] = sum_i, sum_j
            right[last_split - split, i], right[last_split - split, j] = right_i, right_j


@jit
def _sum_sides_of_partitions(model: Lowered, state: ChainState, n_bins: int) -> int:
    """Write statistics of both sides, and rows to the left, of each split of a nominal feature; return their number."""
    # all partitions of few categories, or the prefixes of many in the order of their means
    bins = state.scratch.scan
    left, right, rows_left = bins.left, bins.right, bins.rows_left
    tries_all, left_bins, n_splits = n_bins <= MAX_PARTITIONED_CATEGORIES, np.int64(0), max(n_bins - 1, 0)
    if tries_all and n_bins > 1:
        n_splits = (1 << (n_bins - 1)) - 1
    for split in range(n_splits):
        if tries_all:
            # bin 0 is always on the left, so that no partition is tried twice: odd patterns 1, 3, ..., 2^n - 3
            left_bins = np.int64(1 + 2 * split)
            rows_left[split] = _sum_bins_into(state, left, split, n_bins, left_bins)
        else:
            j = next_bin_by_mean(model, state, n_bins, left_bins)
            left_bins |= np.int64(1) << j
            rows_left[split] = bins.rows[j] + (rows_left[split - 1] if split > 0 else 0)
            for i in range(left.shape[1]):
                left[split, i] = bins.stats[j, i] + (left[split - 1, i] if split > 0 else 0.0)
        _sum_bins_into(state, right, split, n_bins, ~left_bins)
    return n_splits


@jit
def write_split(model: Lowered, state: ChainState, node: int, k: int, n_bins: int, split: int) -> None:
    """Write cut, next code, categories of split number `split` on `k`, and the splits alike, to `scan.drawn_split`."""
    rule, out, codes = model.split_prior, state.scratch.scan.drawn_split[0], state.scratch.codes.distinct
    nominal = rule.feature[k].nominal and not follows_design(rule)
    cut, upper, categories, n_alike = np.int64(-1), np.int64(-1), np.int64(-1), np.int64(1)
    if split < 0:
        n_alike, cut, categories = empty_sided_splits(model, state, node, k, n_bins, split)
        upper = cut if nominal else cut + 1
        if has_empty_sides(rule) and not nominal and cut < 0 and n_bins > 0:
            upper = codes[0]
    elif nominal:
        categories, left_bins = np.int64(0), np.int64(0)
        for j in range(n_bins if n_bins <= MAX_PARTITIONED_CATEGORIES else split + 1):
            if n_bins > MAX_PARTITIONED_CATEGORIES:
                next_bin = next_bin_by_mean(model, state, n_bins, left_bins)
                left_bins |= np.int64(1) << next_bin
                categories |= np.int64(1) << codes[next_bin]
            elif ((1 + 2 * split) >> j) & 1:
                categories |= np.int64(1) << codes[j]
        if not categories & (np.int64(1) << codes[0]):
            categories = present_bits(state, n_bins) & ~categories
    elif halves_box(rule):
        cut = middle_cut(model, state, node, k)
        upper = cut + 1
    else:
        cut, upper = codes[split], codes[split + 1]
        if parts_box(rule):
            n_alike, upper = upper - cut, cut + 1
    out.cut, out.upper, out.categories, out.n_alike = cut, upper, categories, n_alike


@jit
def _sum_bins_into(state: ChainState, stats_of_side: np.ndarray, row: int, n_bins: int, bin_bits: int) -> int:
    """Write the summed statistics of the bins in `bin_bits` into `stats_of_side[row]`; return their rows."""
    rows, bins = np.int64(0), state.scratch.scan
    for i in range(stats_of_side.shape[1]):
        stats_of_side[row, i] = 0.0
    for j in range(n_bins):
        if (bin_bits >> j) & 1:
            rows += bins.rows[j]
            for i in range(stats_of_side.shape[1]):
                stats_of_side[row, i] += bins.stats[j, i]
    return rows


@jit
def next_bin_by_mean(model: Lowered, state: ChainState, n_bins: int, excluded: int) -> int:
    """Return the bin with the smallest mean (of y, or of the class number) whose bit in ``excluded`` is 0, or -1."""
    next_bin, lowest_mean, stats = np.int64(-1), inf, state.scratch.scan.stats
    for j in range(n_bins):
        if not (excluded >> j) & 1:
            mean, weight = 0.0, 0.0
            if model.units.counts:
                for i in range(stats.shape[1]):
                    weight += stats[j, i]
                    mean += i * stats[j, i]
            else:
                weight, mean = stats[j, 0], stats[j, 1]
            mean = mean / weight if weight > 0.0 else 0.0
            if next_bin < 0 or mean < lowest_mean:
                next_bin, lowest_mean = np.int64(j), mean
    return next_bin


@jit
def prefix_number(model: Lowered, state: ChainState, n_bins: int, left_categories: int, present: int) -> int:
    """Return the number of the split between `left_categories` and the other `present` ones, or -3."""
    # the numbered splits are the prefixes of the `n_bins` categories in the order of their means, on either side
    prefix, prefix_bins = np.int64(0), np.int64(0)
    for number in range(n_bins - 1):
        next_bin = next_bin_by_mean(model, state, n_bins, prefix_bins)
        prefix_bins |= np.int64(1) << next_bin
        prefix |= np.int64(1) << state.scratch.codes.distinct[next_bin]
        if prefix == left_categories or present & ~prefix == left_categories:
            return np.int64(number)
    return np.int64(-3)


@jit
def empty_sided_splits(
    model: Lowered, state: ChainState, node: int, k: int, n_bins: int, split: int
) -> tuple[int, int, int]:
    """Return the number of splits that send all rows right or left, the cut of the first, and its categories."""
    # only under grid cuts there can be several
    rule = model.split_prior
    n_codes = rule.feature[k].n_codes
    if has_empty_sides(rule):
        nominal = rule.feature[k].nominal
        if split == -2:
            return (np.int64(1) if n_bins > 0 else np.int64(0)), np.int64(-1), np.int64(0) if nominal else np.int64(-1)
        return np.int64(1), (np.int64(-1) if nominal else n_codes - 1), full_mask(n_codes) if nominal else np.int64(-1)
    if parts_box(rule) and not rule.feature[k].nominal:
        (low, high), codes = box_range(model, state, node, k), state.scratch.codes.distinct
        if n_bins == 0:
            return (high - low - 1 if split == -2 else np.int64(0)), low, np.int64(-1)
        if split == -2:
            return codes[0] - low, low, np.int64(-1)
        return high - 1 - codes[n_bins - 1], codes[n_bins - 1], np.int64(-1)
    return np.int64(0), np.int64(0), np.int64(-1)
