"""Splits stored as integers, boxes of cells, and the points of a cell.

A split of an ordered feature is one integer made of the cut (the largest code going left) and the next code that
occurs. A split of a nominal feature is an integer whose bits are the categories going left. Only the functions of this
file use the positions of the bits. A *coordinate* is one ordering of a feature: a feature with missing values has two,
called *twins*, one with the missing values first and one with the missing values last. ``arrays`` are those of the
builder (see `arrays`), whose scratch holds the *box* of the current cell: the range of codes, or the set of categories,
that the splits on its path leave of each coordinate.
"""

from typing import Any

import numpy as np

from pactree_mcmc.core.bits import full_mask, n_bits
from pactree_mcmc.core.compile.jit import jit
from pactree_mcmc.model.split_prior.geometry import follows_design, halves_box, is_weighted, parts_rows

from .arrays import FEATURE, LEFT, PARENT, SIDE, SPLIT

UPPER_BITS = 32  # number of low bits of an ordered split that hold the next code
UPPER_MASK = (1 << UPPER_BITS) - 1
CUT_MASK = ~UPPER_MASK  # the bits of an ordered split that hold the cut, which alone identifies it
# largest number of splits of one cell. A nominal feature with more than 20 categories is taken to exceed it.
MAX_SPLITS_OF_CELL = 1 << 20


@jit
def pack_cut(cut: int, next_code: int) -> int:
    """Return an ordered split as one integer: its cut (largest code going left, or -1) and the next code."""
    return (cut << UPPER_BITS) | next_code


@jit
def unpack_cut(split: int) -> int:
    """Return the cut of an ordered split (`pack_cut`), the largest code going left, or -1."""
    return split >> UPPER_BITS


@jit
def unpack_next_code(split: int) -> int:
    """Return the next code of an ordered split (`pack_cut`), the smallest code that occurs on the right."""
    return split & UPPER_MASK


def pack_cuts(cut: np.ndarray, next_code: np.ndarray) -> np.ndarray:
    """Return ordered splits as integers: `pack_cut` of arrays, outside compiled code."""
    return (cut << UPPER_BITS) | next_code


def unpack_cuts(split: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the cuts and next codes of one ordered split or of an array, as arrays, outside compiled code."""
    split = np.atleast_1d(split)
    return split >> UPPER_BITS, split & UPPER_MASK


@jit
def sends_left(split: int, code: int, nominal: bool) -> bool:
    """Return True if a split of an ordered (or ``nominal``) coordinate sends a code to the left."""
    # a nominal split has bit 1 for each category that goes left
    return (split >> code) & 1 == 1 if nominal else code <= unpack_cut(split)


@jit
def is_relative(rule: Any, rows: int) -> bool:
    """Return True if the splits of a cell with ``rows`` rows are stored relative to the low end of its box."""
    # of empty cells of grid and dyadic cuts without a weight function only the widths of the box matter
    return rows == 0 and not parts_rows(rule) and not follows_design(rule) and not is_weighted(rule)


@jit
def relative_split(model: Any, arrays: Any, k: int, split: int) -> int:
    """Return a split on ``k`` of an empty cell relative to its box, so that boxes of the same widths share one cell."""
    # a cut is counted from the first code of the box, a category by its place among those of the box
    box = arrays.scratch.box
    if not model.split_prior.feature[k].nominal:
        cut = unpack_cut(split) - box_code_range(model, arrays, k)[0]
        return pack_cut(cut, cut + 1)
    out, place, mask = np.int64(0), 0, box[k, 0]
    while mask:
        lowest = mask & -mask
        if split & lowest:
            out |= np.int64(1) << place
        place += 1
        mask &= mask - 1
    return out


@jit
def translated_bits(split: int, source: int, target: int) -> int:
    """Translate a set of categories, as bits, from one box to another: the j-th of `source` to the j-th of `target`."""
    out = np.int64(0)
    while source:
        if split & source & -source:
            out |= target & -target
        source &= source - 1
        target &= target - 1
    return out


@jit
def box_code_range(model: Any, arrays: Any, k: int) -> tuple[int, int]:
    """Return the first code and the end of the codes of ordered coordinate `k` in the current cell's box."""
    # a feature with missing values has two coordinates (missing first, missing last); both limit its range
    box, paired = arrays.scratch.box, model.split_prior.feature[k].other_coordinate
    return max(box[k, 0], box[paired, 0]), min(box[k, 1], box[paired, 1])


@jit
def n_codes_in_box(model: Any, arrays: Any, k: int) -> int:
    """Return the number of codes, or of categories, of coordinate ``k`` in the box in the scratch."""
    if model.split_prior.feature[k].nominal:
        return n_bits(arrays.scratch.box[k, 0])
    low, high = box_code_range(model, arrays, k)
    return high - low


@jit
def bound_n_splits(model: Any, arrays: Any, n_members: int) -> int:
    """Return an upper bound on the splits of the cell, MAX_SPLITS_OF_CELL + 1 if a feature has over 20 categories."""
    split_prior = model.split_prior
    total = 0
    for k in range(len(split_prior.feature)):
        n_codes = n_codes_in_box(model, arrays, k)
        if halves_box(split_prior):
            n_codes = 0
        elif parts_rows(split_prior):
            n_codes = min(n_codes, n_members)
        if split_prior.feature[k].nominal:
            if n_codes > 20:
                return MAX_SPLITS_OF_CELL + 1
            n_codes = 1 << max(n_codes - 1, 0)
        total += n_codes + 2
    return total


@jit
def set_root_box(model: Any, arrays: Any) -> None:
    """Set the box in the builder's scratch to that of the root, all codes of all coordinates."""
    box, feature = arrays.scratch.box, model.split_prior.feature
    for k in range(len(feature)):
        box[k, 0] = full_mask(feature[k].n_codes) if feature[k].nominal else 0
        box[k, 1] = 0 if feature[k].nominal else feature[k].n_codes


@jit
def narrow_box(model: Any, arrays: Any, k: int, split: int, side: int) -> None:
    """Narrow the box in the builder's scratch to one side, LEFT or RIGHT, of a split on coordinate ``k``."""
    box = arrays.scratch.box
    if model.split_prior.feature[k].nominal:
        box[k, 0] &= split if side == LEFT else ~split
    elif side == LEFT:
        box[k, 1] = min(box[k, 1], unpack_cut(split) + 1)
    else:
        box[k, 0] = max(box[k, 0], unpack_cut(split) + 1)


@jit
def find_members(model: Any, arrays: Any, cell: int) -> int:
    """Write box and points of a cell, which follow from the path by which it was first reached."""
    # return the number of points
    # only points in the range of the most selective ordered coordinate are examined
    points, cells, box, members = arrays.points, arrays.cells, arrays.scratch.box, arrays.scratch.members
    feature, ancestor = model.split_prior.feature, cell
    set_root_box(model, arrays)
    while cells.origin[PARENT, ancestor] >= 0:
        k, split, side = cells.origin[FEATURE, ancestor], cells.origin[SPLIT, ancestor], cells.origin[SIDE, ancestor]
        narrow_box(model, arrays, k, split, side)
        ancestor = cells.origin[PARENT, ancestor]
    if cells.rows[cell] == 0:
        return 0
    best_feature, begin, end = 0, 0, len(points.rows)
    limited, n_limited = arrays.scratch.limited, 0
    for k in range(len(feature)):
        if feature[k].nominal or box[k, 0] > 0 or box[k, 1] < feature[k].n_codes:
            limited[n_limited] = k
            n_limited += 1
        if not feature[k].nominal and (box[k, 0] > 0 or box[k, 1] < feature[k].n_codes):
            first, last = _first_with_code(points, k, box[k, 0]), _first_with_code(points, k, box[k, 1])
            if last - first < end - begin:
                best_feature, begin, end = k, first, last
    n = 0
    for j in range(begin, end):
        i = points.order[best_feature, j]
        in_box = True
        for i_limited in range(n_limited):
            k = limited[i_limited]
            code = points.codes[k, i]
            in_box &= (box[k, 0] >> code) & 1 == 1 if feature[k].nominal else box[k, 0] <= code < box[k, 1]
            if not in_box:
                break
        if in_box:
            members[n] = i
            n += 1
    return n


@jit
def _first_with_code(points: Any, k: int, code: int) -> int:
    """Return the first place, among the points sorted by coordinate ``k``, with a code of at least ``code``."""
    low, high = 0, points.order.shape[1]
    while low < high:
        middle = (low + high) // 2
        if points.codes[k, points.order[k, middle]] < code:
            low = middle + 1
        else:
            high = middle
    return low


@jit
def box_hash(model: Any, arrays: Any, is_empty: bool) -> tuple[np.uint64, np.uint64]:
    """Return the two words of the hash of the box, of its widths alone if the cell ``is_empty``."""
    box, feature = arrays.scratch.box, model.split_prior.feature
    word0, word1 = np.uint64(2) + np.uint64(is_empty), np.uint64(3)
    for k in range(box.shape[0]):
        first = n_codes_in_box(model, arrays, k) if is_empty else box[k, 0]
        second = 0 if is_empty else box[k, 1]
        if not is_empty and feature[k].other_coordinate < k:
            # missing values have the lowest code of one coordinate and the highest of the other: of the second
            # coordinate only this matters, whether the box still contains them
            first = np.int64(box[feature[k].other_coordinate, 0] == 0 and box[k, 1] == feature[k].n_codes)
            second = 0
        elif not is_empty and feature[k].other_coordinate > k:
            first, second = box_code_range(model, arrays, k)
        word0 = mix_hash(mix_hash(word0 ^ np.uint64(first)) ^ np.uint64(second))
        word1 = mix_hash(mix_hash(word1 + np.uint64(first)) + np.uint64(second))
    return word0, word1


@jit
def mix_hash(h: np.uint64) -> np.uint64:
    """Return a pseudo-random 64-bit function of ``h``, for hashes."""
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (h ^ (h >> np.uint64(31))) + np.uint64(0x9E3779B97F4A7C15)
