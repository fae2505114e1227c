"""Depth-first search for the best tree below a cell, with bounds, compiled.

The value of a tree is its log prior plus its log score, or minus the number of errors and the penalties. A cell is
evaluated for a *needed* value. If the best tree below the cell reaches it, the result is the value of this tree,
otherwise an upper bound. A split is abandoned as soon as upper bounds of its two sides add up to less than is needed,
or than another split has. Functions take a `Problem`, a `SearchPath` (the cells from the root to the current one) and a
`Memo` (table of results), packed. The upper bound of a cell that is split at depth d is

    largest log prior factor of a tree that is split at d  +  score of the rows as if each class had a leaf of its own,

or, in place of this score, minus the loss of the errors that no tree avoids. Cells one split above the depth limit are
evaluated by counting bits alone. Results are kept in a table, since splits in another order lead to the same cell.
"""

from typing import Any, NamedTuple

import numpy as np

from pactree_mcmc.core.bits import deposit_bits, full_mask, n_bits
from pactree_mcmc.core.compile.jit import jit
from pactree_mcmc.model.leaf.codes import LeafRule
from pactree_mcmc.model.leaf.compiled import leaf_score

from ..graph.boxes import mix_hash, pack_cut

PROBES = 4
"""Number of places of the table in which a cell may be stored."""
EVALUATED, MAX_EVALUATED = range(2)
"""Entries of `Memo.count`."""
LEFT, RIGHT = range(2)
"""Sides of a split."""
N_SUMS = 2
"""Number of sums of a cell besides the statistics."""
ROWS, SURE_ERRORS = range(N_SUMS)
"""Columns of the sums of a cell: rows, and errors that no tree avoids because points are equal."""


class Problem(NamedTuple):
    """Objective and data of a search for the best trees, for compiled code. Sets of distinct rows are W words."""

    # (m, W) uint64: for each code of each coordinate the set of points with codes up to it; of a nominal coordinate
    # the set of points with this code
    points_by_code: np.ndarray
    first_code: np.ndarray  # (q + 1,) int64: place in ``points_by_code`` of the first code of each coordinate
    nominal: np.ndarray  # (q,) bool
    log_weight: np.ndarray  # (q,) float64: log of the weight of the coordinate, -inf if it is never split
    # (n_planes, W) uint64: for each column (the statistics, ROWS, SURE_ERRORS) and each binary digit of its numbers,
    # the set of points that have the digit
    planes: np.ndarray
    first_plane: np.ndarray  # (n_stats + N_SUMS + 1,) int64: first plane of each column
    log_stop: np.ndarray  # (D + 1,) float64: log prior factor, by depth, of a leaf that could be split
    log_forced: np.ndarray  # (D + 1,) float64: log prior factor of a leaf that could not be split
    log_split: np.ndarray  # (D + 1,) float64: log prior factor of a split
    # (K, n + 1) float64: score of a leaf with 0 to n rows, all of one class; (0, 0) if scores are losses
    pure_scores: np.ndarray
    leaf: LeafRule
    error_loss: float  # Loss of an error, for the bound; 0 unless the score of a leaf is minus a loss
    with_rule: bool  # True if splits have the factor log R
    min_leaf: int  # Smallest number of rows of a leaf
    max_splits: int  # Largest number of splits of a cell


class Memo(NamedTuple):
    """Hash table of the cells that were evaluated. New cells overwrite old ones if all places for them are taken."""

    key: np.ndarray  # (m, 2) uint64: hash of the points, the depth and the depth limit; m is a power of two
    value: np.ndarray  # (m,) float64
    need: np.ndarray  # (m,) float64: value that was needed; if ``value`` is smaller, it is an upper bound
    count: np.ndarray  # (2,) int64: number of cells evaluated, and the largest number allowed


class SearchPath(NamedTuple):
    """The cells from the root to the current one, with their splits.

    The splits of the cell at depth d begin at row d times ``max_splits``. R is the number of rows. D is the largest
    depth, and a row is a split.
    """

    bits: np.ndarray  # (D + 1, W) uint64: points of the cell at each depth
    stats: np.ndarray  # (D + 1, n_stats) float64: statistics of these cells
    sums: np.ndarray  # (D + 1, N_SUMS) int64: their rows and sure errors
    n_splits: np.ndarray  # (D + 1,) int64: number of splits of each cell
    # (D + 1,) float64: largest prior factor of a tree that is split at each depth, under the depth limit
    log_max_factor: np.ndarray
    feature: np.ndarray  # (R,) int64: coordinate of each split
    split: np.ndarray  # (R,) int64: packed cut, or categories going left
    left: np.ndarray  # (R + 1, W) uint64: points going left
    log_rule: np.ndarray  # (R,) float64: log R(split | cell)
    side_stats: np.ndarray  # (2 R, n_stats) float64: row 2 r is the left side of split r, row 2 r + 1 the right side
    side_sums: np.ndarray  # (2 R, N_SUMS) int64: rows and sure errors of the sides
    side_value: np.ndarray  # (2 R,) float64: value of the best tree on each side, or an upper bound


@jit
def count_bits(word: np.uint64) -> int:
    """Return the number of bits of a word that are 1, in a form that compilers turn into one instruction."""
    word -= (word >> np.uint64(1)) & np.uint64(0x5555555555555555)
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@jit
def sum_left(problem: Any, path: Any, row: int, column: int) -> int:
    """Return the sum of one column (the statistics, then rows and sure errors) over the points left of a split.

    ``path`` holds the cells from the root to the current one and, one a ``row``, their splits. Points are distinct
    training rows, sure errors those that no tree avoids. The sum is that over the binary digits b of ``2^b`` times the
    number of these points that have the digit.
    """
    total = np.int64(0)
    first = problem.first_plane[column]
    for plane in range(first, problem.first_plane[column + 1]):
        n = np.int64(0)
        for w in range(path.left.shape[1]):
            n += count_bits(path.left[row, w] & problem.planes[plane, w])
        total += n << (plane - first)
    return total


@jit
def list_splits(problem: Any, path: Any, depth: int) -> int:
    """Write the splits of the cell at ``depth`` of the path and the sums of their sides, and return their number.

    The path holds the cells from the root to the current one of a depth-first search. As in `exact.graph.build`, splits
    of one feature that divide the points of the cell in the same way are one split. Its probability is R = weight /
    (sum of the weights of the features with a split * number of splits on the feature). Without the factor R in the
    objective (``with_rule`` False), log R is 0.
    """
    first = depth * problem.max_splits
    row, weight = first, 0.0
    for k in range(len(problem.nominal)):
        first_row = row
        if problem.nominal[k]:
            row = _list_partitions_into_path(problem, path, depth, k, row)
        else:
            row = _list_cuts_into_path(problem, path, depth, k, row)
        if row > first_row:
            weight += np.exp(problem.log_weight[k])
            for r in range(first_row, row):
                path.log_rule[r] = problem.log_weight[k] - np.log(float(row - first_row))
    for r in range(first, row):
        path.log_rule[r] = path.log_rule[r] - np.log(weight) if problem.with_rule else 0.0
    path.n_splits[depth] = row - first
    return row - first


@jit
def _list_cuts_into_path(problem: Any, path: Any, depth: int, k: int, row: int) -> int:
    """Write the cuts of the cell at ``depth`` on ordered coordinate ``k`` into the path, from ``row`` on.

    The path holds the cells from the root to the current one and, one a row, their splits. Return the next free row.
    Cuts with too few rows on a side are left out.
    """
    n_stats, n_rows = path.stats.shape[1], path.sums[depth, ROWS]
    rows_up_to_code, cut = np.int64(0), np.int64(-1)
    for place in range(problem.first_code[k], problem.first_code[k + 1]):
        for w in range(path.left.shape[1]):
            path.left[row, w] = path.bits[depth, w] & problem.points_by_code[place, w]
        rows = sum_left(problem, path, row, n_stats + ROWS)
        if rows == rows_up_to_code:
            continue
        code = place - problem.first_code[k]
        if cut >= 0:
            # the next code of the split before is this one
            path.split[row - 1] = pack_cut(cut, code)
            cut = np.int64(-1)
        rows_up_to_code = rows
        if rows == n_rows:
            break
        if min(rows, n_rows - rows) >= problem.min_leaf:
            _sum_sides(problem, path, depth, k, row)
            row, cut = row + 1, code
    return row


@jit
def _list_partitions_into_path(problem: Any, path: Any, depth: int, k: int, row: int) -> int:
    """Write the partitions of the categories of coordinate ``k`` in the cell at ``depth`` into the path, from ``row``.

    The path holds the cells from the root to the current one and, one a row, their splits. Return the next free row.
    The smallest category goes left. Too few rows on a side exclude a partition.
    """
    n_stats, n_rows, first = path.stats.shape[1], path.sums[depth, ROWS], problem.first_code[k]
    n_codes, present = problem.first_code[k + 1] - first, np.int64(0)
    for code in range(n_codes):
        for w in range(path.left.shape[1]):
            if path.bits[depth, w] & problem.points_by_code[first + code, w]:
                present |= np.int64(1) << code
    for number in range((np.int64(1) << max(n_bits(present) - 1, 0)) - 1):
        split = deposit_bits(present, 1 + 2 * number)
        for w in range(path.left.shape[1]):
            path.left[row, w] = 0
            for code in range(n_codes):
                if (split >> code) & 1:
                    path.left[row, w] |= path.bits[depth, w] & problem.points_by_code[first + code, w]
        rows = sum_left(problem, path, row, n_stats + ROWS)
        if min(rows, n_rows - rows) >= problem.min_leaf:
            _sum_sides(problem, path, depth, k, row)
            # categories that are not in the cell go with the larger side
            path.split[row] = split | (full_mask(n_codes) & ~present) if 2 * rows >= n_rows else split
            row += 1
    return row


@jit
def _sum_sides(problem: Any, path: Any, depth: int, k: int, row: int) -> None:
    """Write the sums of both sides of a split on coordinate ``k`` of the cell at ``depth`` into ``row`` of the path.

    The path (cells from the root to the current one, and their splits) already has the points of the left side there.
    The sums are the statistics, the number of rows, and the errors that no tree avoids because rows are equal.
    """
    path.feature[row] = k
    n_stats = path.stats.shape[1]
    for a in range(n_stats):
        path.side_stats[2 * row, a] = sum_left(problem, path, row, a)
        path.side_stats[2 * row + 1, a] = path.stats[depth, a] - path.side_stats[2 * row, a]
    for a in range(N_SUMS):
        path.side_sums[2 * row, a] = sum_left(problem, path, row, n_stats + a)
        path.side_sums[2 * row + 1, a] = path.sums[depth, a] - path.side_sums[2 * row, a]


@jit
def _move_down(path: Any, depth: int, row: int, side: int) -> None:
    """Make one side of the split in ``row`` of the path, of the cell at ``depth``, the cell at the next depth.

    The path holds the cells from the root to the current one of a depth-first search.
    """
    for w in range(path.bits.shape[1]):
        left = path.left[row, w]
        path.bits[depth + 1, w] = left if side == LEFT else path.bits[depth, w] & ~left
    for a in range(path.stats.shape[1]):
        path.stats[depth + 1, a] = path.side_stats[2 * row + side, a]
    for a in range(N_SUMS):
        path.sums[depth + 1, a] = path.side_sums[2 * row + side, a]


@jit
def value_bound(
    problem: Any, path: Any, stats: np.ndarray, sums: np.ndarray, row: int, depth: int, limit: int
) -> float:
    """Return an upper bound of the value (log prior plus log score) of trees below the cell in ``row`` of two tables.

    The tables are ``stats`` and ``sums`` (numbers of rows, and of errors that no tree avoids because rows are equal).
    At the largest depth of the prior the bound is the value of the cell as a leaf. If the search ends at a smaller
    depth ``limit``, return a lower bound of this value there.
    """
    score = leaf_score(problem.leaf, stats, row)
    if depth == len(problem.log_stop) - 1:
        return problem.log_forced[depth] + score
    if depth == limit:
        # the search is cut here: a lower bound, whether or not the cell can be split
        return min(problem.log_stop[depth], problem.log_forced[depth]) + score
    best = -problem.error_loss * sums[row, SURE_ERRORS]
    for c in range(len(problem.pure_scores)):
        best += problem.pure_scores[c, np.int64(stats[row, c])]
    return max(max(problem.log_stop[depth], problem.log_forced[depth]) + score, path.log_max_factor[depth] + best)


@jit
def _hash(bits: np.ndarray, depth: int, limit: int) -> tuple[np.uint64, np.uint64]:
    """Return the two words of the hash of a cell: its points, in row ``depth`` of ``bits``, its depth, the depth limit.

    ``bits`` (depths, W) are the sets of points of the cells on the path.
    """
    word0 = mix_hash(np.uint64((depth << 20) + limit + 1))
    word1 = mix_hash(word0)
    for w in range(bits.shape[1]):
        word0, word1 = mix_hash(word0 ^ bits[depth, w]), mix_hash(word1 + bits[depth, w])
    return mix_hash(word0 ^ word1), mix_hash(word1 + word0)


@jit
def _place_in_table(memo: Any, word0: np.uint64, word1: np.uint64) -> int:
    """Return the place in the table of the cell with this hash of two words, or -1 if the table does not hold it."""
    mask = len(memo.value) - 1
    for i in range(PROBES):
        place = (np.int64(word0 & np.uint64(0x3FFFFFFFFFFFFFFF)) + i) & mask
        if memo.key[place, 0] == word0 and memo.key[place, 1] == word1:
            return place
    return np.int64(-1)


@jit
def _store_value(memo: Any, word0: np.uint64, word1: np.uint64, value: float, need: float) -> None:
    """Write the ``value`` of a cell, given by the two words of its hash, into the table.

    A value below ``need``, for which it was evaluated, is an upper bound. The place is that of the cell, a free one, or
    that of another cell, which is overwritten.
    """
    mask, place = len(memo.value) - 1, _place_in_table(memo, word0, word1)
    for i in range(PROBES):
        candidate = (np.int64(word0 & np.uint64(0x3FFFFFFFFFFFFFFF)) + i) & mask
        if place < 0 and memo.key[candidate, 0] == 0 and memo.key[candidate, 1] == 0:
            place = candidate
    if place < 0:
        place = np.int64((word0 & np.uint64(0x3FFFFFFFFFFFFFFF)) + (word1 & np.uint64(PROBES - 1))) & mask
    memo.key[place, 0], memo.key[place, 1], memo.value[place], memo.need[place] = word0, word1, value, need


@jit
def best_value(
    problem: Any, memo: Any, path: Any, depth: int, limit: int, need: float, margin: float, only_best: bool
) -> float:
    """Return the value of the best tree below the cell at ``depth`` of the path, or an upper bound below ``need``.

    The value is log prior plus log score, or minus the objective with a penalty. Only trees with a value of at least
    ``need`` matter to the caller. Return a bound too if as many cells as allowed were evaluated. ``limit`` is the
    largest depth of the trees, and ``margin`` the largest rounding error of a value. ``memo`` stores the values of
    cells. If ``only_best`` is True, splits that cannot be better than the best split so far are abandoned. If it is
    False, the sides of all splits that reach ``need`` are evaluated.

    A side needs what the cell needs, minus the weight of the split and the value (or bound) of the other side:
    ``need_left = goal - log_split - log R - right``, with R the prior probability of the split given the cell. The goal
    is ``need``, or if ``only_best`` the best value so far if that is larger.
    """
    if depth == limit:
        return value_bound(problem, path, path.stats, path.sums, depth, depth, limit)
    word0, word1 = _hash(path.bits, depth, limit)
    if only_best:
        place = _place_in_table(memo, word0, word1)
        if place >= 0 and (memo.value[place] >= memo.need[place] or memo.value[place] < need):
            return memo.value[place]
        if memo.count[EVALUATED] >= memo.count[MAX_EVALUATED]:
            return value_bound(problem, path, path.stats, path.sums, depth, depth, limit)
    memo.count[EVALUATED] += 1
    n = list_splits(problem, path, depth)
    stop = problem.log_stop[depth] if n > 0 else problem.log_forced[depth]
    best, goal = stop + leaf_score(problem.leaf, path.stats, depth), need
    first = depth * problem.max_splits
    for side in range(2 * first, 2 * (first + n)):
        path.side_value[side] = value_bound(problem, path, path.side_stats, path.side_sums, side, depth + 1, limit)
    for row in range(first, first + n):
        term = problem.log_split[depth] + path.log_rule[row]
        left, right = path.side_value[2 * row], path.side_value[2 * row + 1]
        # a tree of probability zero is not evaluated further, and no side needs a difference of infinities
        if depth + 1 < limit and -np.inf < term + left + right >= goal:
            need_left = goal - term - right - margin
            _move_down(path, depth, row, LEFT)
            left = best_value(problem, memo, path, depth + 1, limit, need_left, margin, np.bool_(True))
            if -np.inf < term + left + right >= goal:
                need_right = goal - term - left - margin
                _move_down(path, depth, row, RIGHT)
                right = best_value(problem, memo, path, depth + 1, limit, need_right, margin, np.bool_(True))
            path.side_value[2 * row], path.side_value[2 * row + 1] = left, right
        best = max(best, term + left + right)
        if only_best:
            goal = max(goal, best)
    if only_best and memo.count[EVALUATED] < memo.count[MAX_EVALUATED]:
        _store_value(memo, word0, word1, best, need)
    return best


@jit
def scores_into(out: np.ndarray, problem: Any, stats: np.ndarray) -> None:
    """Write the scores (m,) as leaves of cells with ``stats`` (m, n_stats) into ``out``."""
    for row in range(len(out)):
        out[row] = leaf_score(problem.leaf, stats, row)
