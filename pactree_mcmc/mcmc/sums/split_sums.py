"""Sums over all splits of a node, with the split integrated out (formulas, section 4).

``W(u) = sum_q R(q | u) exp(beta (score(u0_q) + score(u1_q) - score(u)))``, over the splits q of the node, is computed
in one pass of histograms per feature and stored with the cell. `draw_scanned` draws q in proportion to its term.

A nominal feature with more than ``MAX_PARTITIONED_CATEGORIES`` categories in the cell has too many splits. Only the
prefixes of its categories, in the order of their means, are candidates (`is_candidate`).

If the leaves share an unknown variance, the scores here are those by a *guess* of it that does not change, so that
stored values remain valid. The moves only draw proposals by them, and correct for the difference.
"""

from math import exp, inf, log

import numpy as np

from ...core.bits import all_bits, goes_left, n_bits
from ...core.compile.jit import jit
from ...core.logsum import exp_into, exp_sum, log_add
from ...model import Lowered
from ...model.data import scatter_units
from ...model.leaf.compiled import add_scores_into
from ...model.split_prior.geometry import (
    follows_design,
    halves_box,
    has_empty_sides,
    has_one_way,
    is_weighted,
    least_rows,
    parts_box,
    parts_rows,
)
from ..edits.carry_over import cell_categories
from ..state.codes import collect_codes
from ..state.random import pick, pick_weighted
from ..state.records import N_VISITED_ROWS, STORED_VERSION
from ..state.scratch import MAX_PARTITIONED_CATEGORIES
from ..state.splits import (
    Split,
    box_range,
    claim_cell_entry,
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
from ..state.tree import ChainState

MAX_PAIRED_STATS = 3
"""Largest number of statistics of a leaf that `_sum_sides_of_cuts` adds up two at a time."""
ROWS_PER_CODE = 10
"""Cost of a code of a feature in a cell, beside the rows of the cell, in rows."""
LOG_SMALLEST_TERM = -60.0
"""Log of the smallest term, relative to the largest one, that rounding does not remove from a sum."""


@jit
def scan(model: Lowered, state: ChainState, node: int) -> float:
    """Return log W of a splittable node, the log sum of R exp(gain in score) over its splits."""
    return state.stored.cell[scan_cell(model, state, node)].log_w


@jit
def log_lookahead(model: Lowered, state: ChainState, node: int) -> float:
    """Return ``log(stop + split W)``, the log sum of prior times exp(score) over the subtrees with at most one split,
    minus the score of the node as a leaf.
    """
    stop = node_log_stop(model, state, node)
    if not state.node[node].splittable:
        return stop
    return log_add(stop, node_log_split(model, state, node) + scan(model, state, node))


@jit
def scan_cell(model: Lowered, state: ChainState, node: int) -> int:
    """Compute log W, the log sum of R exp(gain) over the splits of a node's cell, and each feature's part of it, unless
    stored. Return the index of the cell in the tables of `Stored`.
    """
    place, rule, stored = claim_cell_entry(model, state, node), model.split_prior, state.stored
    if stored.cell[place].scan == state.count[STORED_VERSION]:
        return place
    weights = 0.0
    for k in range(len(rule.feature)):
        # before the mass is set to 0, since the weight may depend on the stored one
        weight = feature_weight(model, state, node, k)
        stored.log_part[place, k], stored.mass[place, k] = -inf, 0.0
        if weight > 0.0:
            n = fill_bins(model, state, node, k)
            ways = stored.mass[place, k] = split_mass_of_codes(model, state, node, k, n)
            if ways > 0.0:
                weight = feature_rule_weight(rule, weight, ways)
                weights += weight
                stored.log_part[place, k] = log(weight / ways) + sum_or_draw_splits(
                    model, state, node, k, n, False, 0.0, 0.0
                )
    largest, total = exp_sum(stored.log_part[place], len(rule.feature))
    stored.cell[place].weight = weights
    stored.cell[place].log_w = largest + log(total / weights) if total > 0.0 else -inf
    stored.cell[place].scan = state.count[STORED_VERSION]
    return place


@jit
def draw_scanned(rng: np.random.Generator, model: Lowered, state: ChainState, node: int) -> Split:
    """Draw a split of a splittable node, in proportion to its term of W, which must not be zero."""
    place, rule = scan_cell(model, state, node), model.split_prior
    if follows_design(rule):
        return fixed_split(model, state, node)
    total = exp_into(state.scratch.feature_weight, state.stored.log_part[place], len(rule.feature))
    return draw_scanned_on_feature(rng, model, state, node, pick_weighted(rng, state.scratch.feature_weight, total))


@jit
def draw_scanned_on_feature(rng: np.random.Generator, model: Lowered, state: ChainState, node: int, k: int) -> Split:
    """Draw a split of a splittable node on feature ``k`` in proportion to its term of W.

    The part of W of the feature must not be zero.
    """
    place, rule = scan_cell(model, state, node), model.split_prior
    if follows_design(rule):
        return fixed_split(model, state, node)
    n = fill_bins(model, state, node, k)
    ways = state.stored.mass[place, k]
    weight = feature_rule_weight(rule, rule.feature[k].weight, ways)
    sum_or_draw_splits(
        model, state, node, k, n, True, rng.random(), state.stored.log_part[place, k] - log(weight / ways)
    )
    chosen = state.scratch.scan.drawn_split[0]
    cut, upper = chosen.cut, chosen.upper
    if chosen.n_alike > 1:
        cut += draw_alike_cut(rng, model, state, node, k, cut, chosen.n_alike)
        upper = cut + 1
    log_rule = log(weight / state.stored.cell[place].weight) - log(ways)
    if is_weighted(rule):
        log_rule += log_cut_weight(model, state, node, np.int64(k), cut)
    return Split(np.int64(k), cut, upper, chosen.categories, log_rule)


@jit
def feature_weight(model: Lowered, state: ChainState, node: int, k: int) -> float:
    """Return the prior weight of feature ``k``, 0 if the box, the depth or the fixed tree excludes it in this node.

    Under local cuts, rows may exclude the feature too, but are not visited.
    """
    rule = model.split_prior
    if follows_design(rule):
        return 1.0 if k == rule.design[state.node[node].design].feature else 0.0
    if parts_rows(rule) or is_admissible(model, state, node, k):
        return rule.feature[k].weight
    return 0.0


@jit
def is_candidate(model: Lowered, state: ChainState, node: int) -> bool:
    """Return True if the split of an internal node is one of those over which the sums of this module run."""
    here = state.node[node]
    if here.categories < 0 or follows_design(model.split_prior):
        return True
    present = cell_categories(model, state, node, here.feature)
    left = here.categories & present
    if n_bits(present) <= MAX_PARTITIONED_CATEGORIES or left == 0 or left == present:
        return True
    return prefix_number(model, state, fill_bins(model, state, node, here.feature), left, present) >= 0


@jit
def fill_bins(model: Lowered, state: ChainState, node: int, k: int) -> int:
    """Compute statistics and rows of a node by code of feature ``k`` into ``scan.stats`` and ``scan.rows``, codes
    ascending. Return the number of codes, or bins.

    Under dyadic and fixed splits the bins are the two sides of the one split. Under grid cuts a nominal feature has a
    bin for each category of the box.
    """
    rule, n = model.split_prior, np.int64(2)
    if has_one_way(rule):
        _sides_into(model, state, node, k)
    else:
        n = collect_codes(model, state, node, k)
    _sum_by_code(model, state, node)
    if not has_one_way(rule) and parts_box(rule) and rule.feature[k].nominal:
        n = np.int64(0)
        for c in range(rule.feature[k].n_codes):
            if (state.box[node, k, 0] >> c) & 1:
                state.scratch.codes.distinct[n] = c
                n += 1
    state.count[N_VISITED_ROWS] += state.node[node].stop - state.node[node].start + ROWS_PER_CODE * n
    _move_sums_to_bins(state, n)
    if not has_one_way(rule) and parts_box(rule) and rule.feature[k].twin != k and n > 0:
        n = _clip_codes(model, state, node, k, n)
    return n


@jit
def _sides_into(model: Lowered, state: ChainState, node: int, k: int) -> None:
    """Write the side, 0 or 1, of each unit (merged row) at the one split on feature ``k`` into ``codes.of_unit``."""
    rule, cut, categories = model.split_prior, np.int64(0), np.int64(-1)
    if follows_design(rule):
        design = rule.design[state.node[node].design]
        cut, categories = design.cut, design.categories
    else:
        cut = middle_cut(model, state, node, k)
    codes, order, to, start = model.units.codes[k], state.order, state.scratch.codes.of_unit, state.node[node].start
    for i in range(start, state.node[node].stop):
        to[i - start] = 1 - goes_left(np.int64(codes[order[i]]), cut, categories)
    state.scratch.codes.distinct[0], state.scratch.codes.distinct[1] = 0, 1


@jit
def _sum_by_code(model: Lowered, state: ChainState, node: int) -> None:
    """Add up statistics and rows of a node's units by ``codes.of_unit``, into ``scan.by_code`` and ``codes.rows``."""
    units, order, total, to = model.units, state.order, state.scratch.codes.rows, state.scratch.codes.of_unit
    start, stop = state.node[node].start, state.node[node].stop
    rows, rows_all = units.rows, units.rows_all
    for i in range(start, stop):
        total[to[i - start]] += rows[order[i] & rows_all]
    scatter_units(state.scratch.scan.by_code, to, units, order, start, stop)


@jit
def _move_sums_to_bins(state: ChainState, n: int) -> None:
    """Move statistics and rows by code to the bins of the ``n`` codes collected, and set the sums by code to 0."""
    codes, bins = state.scratch.codes, state.scratch.scan
    stats, rows, by_code, code_of, total = bins.stats, bins.rows, bins.by_code, codes.distinct, codes.rows
    for j in range(n):
        c = code_of[j]
        rows[j] = total[c]
        total[c] = 0
        for i in range(stats.shape[1]):
            stats[j, i] = by_code[c, i]
            by_code[c, i] = 0.0


@jit
def _clip_codes(model: Lowered, state: ChainState, node: int, k: int, n: int) -> int:
    """Replace codes of ``n`` bins that lie outside the box by its first or last code. Return the number of bins.

    Codes of missing values may be outside. Two bins that get the same code become one.
    """
    codes, bins = state.scratch.codes.distinct, state.scratch.scan
    low, high = box_range(model, state, node, k)
    if codes[0] < low:
        codes[0] = low
        if n > 1 and codes[1] == low:
            n -= 1
            _add_bin(state, np.int64(0), np.int64(1))
            for j in range(1, n):
                codes[j], bins.rows[j] = codes[j + 1], bins.rows[j + 1]
                for i in range(bins.stats.shape[1]):
                    bins.stats[j, i] = bins.stats[j + 1, i]
    if codes[n - 1] >= high:
        codes[n - 1] = high - 1
        if n > 1 and codes[n - 2] == high - 1:
            n -= 1
            _add_bin(state, n - 1, n)
    return n


@jit
def _add_bin(state: ChainState, to: int, other: int) -> None:
    """Add the rows and statistics of bin ``other`` to bin ``to``."""
    bins = state.scratch.scan
    bins.rows[to] += bins.rows[other]
    for i in range(bins.stats.shape[1]):
        bins.stats[to, i] += bins.stats[other, i]


@jit
def sum_or_draw_splits(
    model: Lowered, state: ChainState, node: int, k: int, n: int, drawing: bool, u: float, log_sum: float
) -> float:
    """Return the log of the sum of ``exp(gain in score)`` over the splits on feature ``k``, in ``n`` bins.

    Each term is multiplied by the weight of its split, if splits have weights. If ``drawing``, draw a split in
    proportion to its term instead, by the sum ``log_sum`` and a uniform number ``u``, and write it into
    ``scan.drawn_split``.
    """
    n_splits, weighted = gains_into(model, state, node, k, n), is_weighted(model.split_prior)
    if weighted:
        fill_cut_weights(model, state, node, k, n)
    bins, beta, code_of = state.scratch.scan, state.beta[0], state.scratch.codes.distinct
    gains, rows_left = bins.gain, bins.rows_left
    least, rows = least_rows(model.split_prior), state.node[node].rows
    gaps = parts_box(model.split_prior) and not model.split_prior.feature[k].nominal
    largest, total, done, chosen = -inf, 0.0, 0.0, np.int64(-3)
    for way in range(-2, n_splits):
        count, gain = np.int64(1), 0.0
        if way < 0:
            count = empty_sided_splits(model, state, node, k, n, way)[0]
            if count == 0:
                continue
        else:
            if rows_left[way] < least or rows - rows_left[way] < least:
                continue
            gain = beta * gains[way]
            if gaps:
                count = code_of[way + 1] - code_of[way]
        if weighted:
            # a term with a small gain may have a large weight
            weight = weight_of_alike_splits(model, state, node, k, n, way)
            if weight == 0.0:
                continue
            count = np.int64(1)
            gain += log(weight)
        if drawing:
            # inverse of the distribution function: the first split whose cumulative probability exceeds u
            if gain - log_sum > LOG_SMALLEST_TERM:
                done += count * exp(gain - log_sum)
                chosen = np.int64(way)
                if u < done:
                    break
        elif gain > largest:
            # the running sum is total e^largest; a new largest term rescales it
            total = total * exp(largest - gain) + count if largest > -inf else float(count)
            largest = gain
        elif not gain - largest <= LOG_SMALLEST_TERM:  # NaN counts
            total += count * exp(gain - largest)
    if drawing:
        write_split(model, state, node, k, n, chosen)
    elif total != total:
        raise_not_finite(state, node, True)
    return largest + log(total) if total > 0.0 else -inf


@jit
def weight_of_alike_splits(model: Lowered, state: ChainState, node: int, k: int, n: int, way: int) -> float:
    """Return the weight, after `fill_cut_weights`, of split ``way`` and all splits that separate the rows alike."""
    if model.split_prior.feature[k].nominal:
        return state.scratch.cut_weight[0]
    if not parts_box(model.split_prior):
        return state.scratch.cut_weight[way]
    low, code_of = box_range(model, state, node, k)[0], state.scratch.codes.distinct
    count, first, _ = empty_sided_splits(model, state, node, k, n, way)
    if way >= 0:
        count, first = code_of[way + 1] - code_of[way], code_of[way]
    total = 0.0
    for c in range(first, first + count):
        total += state.scratch.cut_weight[c - low]
    return total


@jit
def draw_alike_cut(
    rng: np.random.Generator, model: Lowered, state: ChainState, node: int, k: int, cut: int, count: int
) -> int:
    """Draw one of the ``count`` cuts from ``cut`` on, which separate the rows alike. Return its number, from 0."""
    if not is_weighted(model.split_prior):
        return pick(rng, count)
    first, total = cut - box_range(model, state, node, k)[0], 0.0
    for j in range(first, first + count):
        total += state.scratch.cut_weight[j]
    return pick_weighted(rng, state.scratch.cut_weight[first : first + count], total)


@jit
def gains_into(model: Lowered, state: ChainState, node: int, k: int, n: int) -> int:
    """Write the gain in score of each split of the ``n`` bins into ``scan.gain``, and return the number of splits."""
    rule, bins, score = model.split_prior, state.scratch.scan, state.node[node].guess
    if rule.feature[k].nominal and not follows_design(rule):
        n_splits = _sum_sides_of_partitions(model, state, n)
    else:
        n_splits = max(n - 1, 0)
        _sum_sides_of_cuts(state, n_splits)
    for way in range(n_splits):
        bins.gain[way] = -score
    add_scores_into(bins.gain, model.guess, bins.left, n_splits)
    add_scores_into(bins.gain, model.guess, bins.right, n_splits)
    return n_splits


@jit
def _sum_sides_of_cuts(state: ChainState, n_splits: int) -> None:
    """Compute the statistics of both sides of each split of ordered bins.

    Both are sums, since a difference would contain the rounding error of the whole. Each partial sum waits for the one
    before, so several are computed at a time: many statistics side by side, few statistics two at a time.
    """
    bins = state.scratch.scan
    stats, left, right, rows_left = bins.stats, bins.left, bins.right, bins.rows_left
    n_stats, last, rows = stats.shape[1], n_splits - 1, np.int64(0)
    for way in range(n_splits):
        rows += bins.rows[way]
        rows_left[way] = rows
    for way in range(n_splits if n_stats > MAX_PAIRED_STATS else 0):
        for i in range(n_stats):
            left[way, i] = stats[way, i] + (left[way - 1, i] if way > 0 else 0.0)
            right[last - way, i] = stats[n_splits - way, i] + (right[n_splits - way, i] if way > 0 else 0.0)
    for i in range(0, n_stats if n_stats <= MAX_PAIRED_STATS else 0, 2):
        j = min(i + 1, n_stats - 1)
        one, other, one_right, other_right = 0.0, 0.0, 0.0, 0.0
        for way in range(n_splits):
            one += stats[way, i]
            other += stats[way, j]
            one_right += stats[n_splits - way, i]
            other_right += stats[n_splits - way, j]
            left[way, i], left[way, j] = one, other
            right[last - way, i], right[last - way, j] = one_right, other_right


@jit
def _sum_sides_of_partitions(model: Lowered, state: ChainState, n: int) -> int:
    """Compute the statistics of both sides of all splits of few categories, or of the prefixes of many, in order of
    their means. Return the number of splits.
    """
    bins = state.scratch.scan
    left, right, rows_left = bins.left, bins.right, bins.rows_left
    few, ordered, n_splits = n <= MAX_PARTITIONED_CATEGORIES, np.int64(0), max(n - 1, 0)
    if few and n > 1:
        n_splits = (1 << (n - 1)) - 1
    for way in range(n_splits):
        if few:
            # bin 0 is always on the left, so that no partition is tried twice: odd patterns 1, 3, ..., 2^n - 3
            ordered = np.int64(1 + 2 * way)
            rows_left[way] = _sum_bins_into(state, left, way, n, ordered)
        else:
            j = next_bin_by_mean(model, state, n, ordered)
            ordered |= np.int64(1) << j
            rows_left[way] = bins.rows[j] + (rows_left[way - 1] if way > 0 else 0)
            for i in range(left.shape[1]):
                left[way, i] = bins.stats[j, i] + (left[way - 1, i] if way > 0 else 0.0)
        _sum_bins_into(state, right, way, n, ~ordered)
    return n_splits


@jit
def write_split(model: Lowered, state: ChainState, node: int, k: int, n: int, way: int) -> None:
    """Write split ``way`` of `sum_or_draw_splits` into ``scan.drawn_split``. At -2 (-1) all rows go right (left)."""
    rule, out, codes = model.split_prior, state.scratch.scan.drawn_split[0], state.scratch.codes.distinct
    nominal = rule.feature[k].nominal and not follows_design(rule)
    cut, upper, categories, count = np.int64(-1), np.int64(-1), np.int64(-1), np.int64(1)
    if way < 0:
        count, cut, categories = empty_sided_splits(model, state, node, k, n, way)
        upper = cut if nominal else cut + 1
        if has_empty_sides(rule) and not nominal and cut < 0 and n > 0:
            upper = codes[0]
    elif nominal:
        categories, ordered = np.int64(0), np.int64(0)
        for j in range(n if n <= MAX_PARTITIONED_CATEGORIES else way + 1):
            if n > MAX_PARTITIONED_CATEGORIES:
                here = next_bin_by_mean(model, state, n, ordered)
                ordered |= np.int64(1) << here
                categories |= np.int64(1) << codes[here]
            elif ((1 + 2 * way) >> j) & 1:
                categories |= np.int64(1) << codes[j]
        if not categories & (np.int64(1) << codes[0]):
            categories = present_bits(state, n) & ~categories
    elif halves_box(rule):
        cut = middle_cut(model, state, node, k)
        upper = cut + 1
    else:
        cut, upper = codes[way], codes[way + 1]
        if parts_box(rule):
            count, upper = upper - cut, cut + 1
    out.cut, out.upper, out.categories, out.n_alike = cut, upper, categories, count


@jit
def _sum_bins_into(state: ChainState, side: np.ndarray, way: int, n: int, pattern: int) -> int:
    """Write the summed statistics of the bins in the bits ``pattern`` into ``side[way]``. Return their rows."""
    rows, bins = np.int64(0), state.scratch.scan
    for i in range(side.shape[1]):
        side[way, i] = 0.0
    for j in range(n):
        if (pattern >> j) & 1:
            rows += bins.rows[j]
            for i in range(side.shape[1]):
                side[way, i] += bins.stats[j, i]
    return rows


@jit
def next_bin_by_mean(model: Lowered, state: ChainState, n: int, done: int) -> int:
    """Return the bin with the smallest mean of those whose bit in ``done`` is 0."""
    best, lowest, stats = np.int64(-1), inf, state.scratch.scan.stats
    for j in range(n):
        if not (done >> j) & 1:
            mean, weight = 0.0, 0.0
            if model.units.counts:
                for i in range(stats.shape[1]):
                    weight += stats[j, i]
                    mean += i * stats[j, i]
            else:
                weight, mean = stats[j, 0], stats[j, 1]
            mean = mean / weight if weight > 0.0 else 0.0
            if best < 0 or mean < lowest:
                best, lowest = np.int64(j), mean
    return best


@jit
def prefix_number(model: Lowered, state: ChainState, n: int, left: int, present: int) -> int:
    """Return the index of the prefix of the ``n`` ordered categories that is ``left`` or its complement, -3 if there is
    none.
    """
    prefix, done = np.int64(0), np.int64(0)
    for way in range(n - 1):
        j = next_bin_by_mean(model, state, n, done)
        done |= np.int64(1) << j
        prefix |= np.int64(1) << state.scratch.codes.distinct[j]
        if prefix == left or present & ~prefix == left:
            return np.int64(way)
    return np.int64(-3)


@jit
def empty_sided_splits(model: Lowered, state: ChainState, node: int, k: int, n: int, step: int) -> tuple[int, int, int]:
    """Return the number of splits that send all rows right (step -2) or left (-1), the first of them, and its
    categories.
    """
    rule = model.split_prior
    n_codes = rule.feature[k].n_codes
    if has_empty_sides(rule):
        nominal = rule.feature[k].nominal
        if step == -2:
            return (np.int64(1) if n > 0 else np.int64(0)), np.int64(-1), np.int64(0) if nominal else np.int64(-1)
        return np.int64(1), (np.int64(-1) if nominal else n_codes - 1), all_bits(n_codes) if nominal else np.int64(-1)
    if parts_box(rule) and not rule.feature[k].nominal:
        (low, high), codes = box_range(model, state, node, k), state.scratch.codes.distinct
        if n == 0:
            return (high - low - 1 if step == -2 else np.int64(0)), low, np.int64(-1)
        if step == -2:
            return codes[0] - low, low, np.int64(-1)
        return high - 1 - codes[n - 1], codes[n - 1], np.int64(-1)
    return np.int64(0), np.int64(0), np.int64(-1)
