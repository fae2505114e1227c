"""Splits stored as integers, boxes of cells, and the points of a cell.

A split of an ordered feature is one integer made of the cut (the largest code going left) and the next code that
occurs. A split of a nominal feature is an integer whose bits are the categories going left. Only the functions of this
file use the positions of the bits. A *coordinate* is one ordering of a feature: a feature with missing values has two,
called *twins*, one with the missing values first and one with the missing values last.
"""

from typing import Any

import numpy as np

from pactree_mcmc.core.bits import full_mask, n_bits
from pactree_mcmc.core.compile.jit import jit
from pactree_mcmc.model.split_prior.geometry import follows_design, is_weighted, parts_rows

from .work import FEATURE, LEFT, PARENT, SIDE, SPLIT

UPPER_BITS = 32
"""Number of low bits of an ordered split, which hold the next code."""
UPPER_MASK = (1 << UPPER_BITS) - 1
CUT_MASK = ~UPPER_MASK
"""The bits of an ordered split that hold the cut, which alone identifies it."""


@jit
def pack_cut(cut: int, upper: int) -> int:
    """Return an ordered split as one integer; the cut may be -1."""
    return (cut << UPPER_BITS) | upper


@jit
def cut_of(split: int) -> int:
    """Return the cut of an ordered split."""
    return split >> UPPER_BITS


@jit
def upper_of(split: int) -> int:
    """Return the next code of an ordered split, the smallest code that occurs on the right."""
    return split & UPPER_MASK


def pack_cuts(cut: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Return ordered splits as integers: `pack_cut` of arrays, outside compiled code."""
    return (cut << UPPER_BITS) | upper


def unpack_cuts(split: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the cuts and next codes of one ordered split or of an array, as arrays, outside compiled code."""
    split = np.atleast_1d(split)
    return split >> UPPER_BITS, split & UPPER_MASK


@jit
def sends_left(split: int, code: int, nominal: bool) -> bool:
    """Return True if a split sends a code to the left."""
    return (split >> code) & 1 == 1 if nominal else code <= cut_of(split)


@jit
def is_relative(rule: Any, rows: int) -> bool:
    """Return True if the splits of a cell with ``rows`` rows are stored relative to the low end of its box.

    These are the empty cells of grid and dyadic cuts without a weight function, of which only the widths matter.
    """
    return rows == 0 and not parts_rows(rule) and not follows_design(rule) and not is_weighted(rule)


@jit
def relative_split(model: Any, work: Any, k: int, split: int) -> int:
    """Return a split of an empty cell relative to the box in the scratch.

    A cut is counted from the first code of the box, a category by its place among those of the box.
    """
    box = work.scratch.box
    if not model.split_prior.feature[k].nominal:
        cut = cut_of(split) - span(model, work, k)[0]
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
def moved_bits(split: int, there: int, here: int) -> int:
    """Translate a set of categories from one box to another: the j-th category of ``there`` to the j-th of ``here``.

    All three arguments are bits of categories. Both boxes have as many categories.
    """
    out = np.int64(0)
    while there:
        if split & there & -there:
            out |= here & -here
        there &= there - 1
        here &= here - 1
    return out


@jit
def span(model: Any, work: Any, k: int) -> tuple[int, int]:
    """Return the first code and the end (exclusive) of the codes of an ordered coordinate in the box.

    Both coordinates of a feature with missing values limit this range.
    """
    box, twin = work.scratch.box, model.split_prior.feature[k].twin
    return max(box[k, 0], box[twin, 0]), min(box[k, 1], box[twin, 1])


@jit
def width(model: Any, work: Any, k: int) -> int:
    """Return the number of codes, or of categories, of one coordinate in the box."""
    if model.split_prior.feature[k].nominal:
        return n_bits(work.scratch.box[k, 0])
    low, high = span(model, work, k)
    return high - low


@jit
def widest_box(model: Any, work: Any) -> None:
    """Set the box in the scratch to that of the root."""
    box, feature = work.scratch.box, model.split_prior.feature
    for k in range(len(feature)):
        box[k, 0] = full_mask(feature[k].n_codes) if feature[k].nominal else 0
        box[k, 1] = 0 if feature[k].nominal else feature[k].n_codes


@jit
def narrow_box(model: Any, work: Any, k: int, split: int, side: int) -> None:
    """Narrow the box in the scratch to one side of a split."""
    box = work.scratch.box
    if model.split_prior.feature[k].nominal:
        box[k, 0] &= split if side == LEFT else ~split
    elif side == LEFT:
        box[k, 1] = min(box[k, 1], cut_of(split) + 1)
    else:
        box[k, 0] = max(box[k, 0], cut_of(split) + 1)


@jit
def find_members(model: Any, work: Any, cell: int) -> int:
    """Write the box and the points of a cell into the scratch, and return the number of points.

    They follow from the splits on the path by which the cell was first reached. An empty cell has 0 points.
    """
    points, cells, box, members = work.points, work.cells, work.scratch.box, work.scratch.members
    feature, here = model.split_prior.feature, cell
    widest_box(model, work)
    while cells.origin[PARENT, here] >= 0:
        k, split, side = cells.origin[FEATURE, here], cells.origin[SPLIT, here], cells.origin[SIDE, here]
        narrow_box(model, work, k, split, side)
        here = cells.origin[PARENT, here]
    if cells.rows[cell] == 0:
        return 0
    best, begin, end = 0, 0, len(points.rows)
    asked, n_asked = work.scratch.asked, 0
    for k in range(len(feature)):
        if feature[k].nominal or box[k, 0] > 0 or box[k, 1] < feature[k].n_codes:
            asked[n_asked] = k
            n_asked += 1
        if not feature[k].nominal and (box[k, 0] > 0 or box[k, 1] < feature[k].n_codes):
            first, last = _place(points, k, box[k, 0]), _place(points, k, box[k, 1])
            if last - first < end - begin:
                best, begin, end = k, first, last
    n = 0
    for j in range(begin, end):
        i = points.order[best, j]
        inside = True
        for j_asked in range(n_asked):
            k = asked[j_asked]
            code = points.codes[k, i]
            inside &= (box[k, 0] >> code) & 1 == 1 if feature[k].nominal else box[k, 0] <= code < box[k, 1]
            if not inside:
                break
        if inside:
            members[n] = i
            n += 1
    return n


@jit
def _place(points: Any, k: int, code: int) -> int:
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
def box_hash(model: Any, work: Any, empty: bool) -> tuple[np.uint64, np.uint64]:
    """Return the two words of the hash of the box in the scratch, or of its widths alone if ``empty`` is True."""
    box, feature = work.scratch.box, model.split_prior.feature
    word0, word1 = np.uint64(2) + np.uint64(empty), np.uint64(3)
    for k in range(box.shape[0]):
        a = width(model, work, k) if empty else box[k, 0]
        b = 0 if empty else box[k, 1]
        if not empty and feature[k].twin < k:
            # missing values have the lowest code of one coordinate and the highest of the other: of the second
            # coordinate only this matters, whether the box still contains them
            a = np.int64(box[feature[k].twin, 0] == 0 and box[k, 1] == feature[k].n_codes)
            b = 0
        elif not empty and feature[k].twin > k:
            a, b = span(model, work, k)
        word0 = mix(mix(word0 ^ np.uint64(a)) ^ np.uint64(b))
        word1 = mix(mix(word1 + np.uint64(a)) + np.uint64(b))
    return word0, word1


@jit
def mix(h: np.uint64) -> np.uint64:
    """Return a pseudo-random 64-bit function of ``h``, for hashes."""
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (h ^ (h >> np.uint64(31))) + np.uint64(0x9E3779B97F4A7C15)
