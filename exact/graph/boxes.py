"""Boxes of cells and the splits of ordered features as numbers: what the builder of the graph computes with."""

from typing import Any

import numpy as np

from pactree_mcmc.core.bits import n_bits
from pactree_mcmc.core.compile.jit import jit
from pactree_mcmc.model.split_prior.geometry import follows_design, is_weighted, parts_rows

UPPER_BITS = 32


@jit
def pack_cut(cut: int, upper: int) -> int:
    """An ordered split as one integer; ``cut >> 32`` gives back the cut, -1 too."""
    return (cut << UPPER_BITS) | upper


@jit
def is_relative(rule: Any, rows: int) -> bool:
    """Whether splits of a cell of so many rows are counted from the low end of its box: empty ones, all alike."""
    return rows == 0 and not parts_rows(rule) and not follows_design(rule) and not is_weighted(rule)


@jit
def relative(model: Any, work: Any, k: int, split: int) -> int:
    """A split of an empty cell, counted from the low end of whatever box it has on the way there."""
    box = work.scratch.box
    if not model.split_prior.feature[k].nominal:
        cut = (split >> UPPER_BITS) - span(model, work, k)[0]
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
    """Categories of one box as those at the same places of another, with as many."""
    out = np.int64(0)
    while there:
        if split & there & -there:
            out |= here & -here
        there &= there - 1
        here &= here - 1
    return out


@jit
def span(model: Any, work: Any, k: int) -> tuple[int, int]:
    """First code of an ordered coordinate in the box and one behind the last, seen from both of its feature."""
    box, twin = work.scratch.box, model.split_prior.feature[k].twin
    return max(box[k, 0], box[twin, 0]), min(box[k, 1], box[twin, 1])


@jit
def width(model: Any, work: Any, k: int) -> int:
    """Codes or categories that one coordinate of the box spans."""
    if model.split_prior.feature[k].nominal:
        return n_bits(work.scratch.box[k, 0])
    low, high = span(model, work, k)
    return high - low


@jit
def box_hash(model: Any, work: Any, empty: bool) -> tuple[np.uint64, np.uint64]:
    """Hash of the box in the scratch; of its widths alone if it is empty."""
    box, feature = work.scratch.box, model.split_prior.feature
    word0, word1 = np.uint64(2) + np.uint64(empty), np.uint64(3)
    for k in range(box.shape[0]):
        a = width(model, work, k) if empty else box[k, 0]
        b = 0 if empty else box[k, 1]
        if not empty and feature[k].twin < k:
            # missing values lie in the lowest code of one coordinate and in the highest of the other
            a = np.int64(box[feature[k].twin, 0] == 0 and box[k, 1] == feature[k].n_codes)
            b = 0
        elif not empty and feature[k].twin > k:
            a, b = span(model, work, k)
        word0 = mix(mix(word0 ^ np.uint64(a)) ^ np.uint64(b))
        word1 = mix(mix(word1 + np.uint64(a)) + np.uint64(b))
    return word0, word1


@jit
def mix(h: np.uint64) -> np.uint64:
    """A number that looks random."""
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (h ^ (h >> np.uint64(31))) + np.uint64(0x9E3779B97F4A7C15)
