"""Divergences from the prior, and equality of trees: trees with the same splits are equal, however they are written."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from ..core.bits import all_bits, goes_left
from ..core.compile.jit import jit
from ..model.split_prior.geometry import follows_design, parts_rows, told
from ..tree.arrays import LEAF
from ..tree.coded import CodedTrees

if TYPE_CHECKING:
    from ..model import TreeModel

COORDINATE, CUT, CATEGORIES = range(3)


def as_divergence(found: float, size: float) -> float:
    """A divergence computed as a difference of terms of order ``size``, the negative rounding of zero taken off.

    Raises
    ------
    RuntimeError
        If it is negative beyond rounding, which no divergence is.
    """
    if not found >= -1e-9 * max(1.0, size):
        raise RuntimeError(
            f"the divergence from the prior came out as {found} nats, and none is negative: unless the tree prior is "
            "your own and its probabilities add up to more than 1, this is an error in pactree_mcmc; please report it."
        )
    return max(found, 0.0)


def same_trees(model: TreeModel, trees: CodedTrees) -> np.ndarray:
    """Returns the number of the distinct tree that each tree is, (n_trees,) int64, by first occurrence.

    Under local cuts two splits of a cell are equal if they divide its rows in the same way; otherwise if they have the
    same cut, or the same set of categories. The two sides of a nominal split may be exchanged.
    """
    local = told(parts_rows, model.split_prior)
    nominal = model.columns.is_nominal[model.columns.source]
    codes = model.units.codes if local else np.empty((len(nominal), 0), dtype=model.units.codes.dtype)
    nodes = told_nodes(
        trees.offset,
        trees.left,
        trees.right,
        trees.feature.astype(np.int64),
        trees.cut,
        trees.categories,
        codes,
        np.where(nominal, model.n_codes, 0),
        local,
        not told(follows_design, model.split_prior),
    )
    seen: dict[bytes, int] = {}
    return np.array([seen.setdefault(nodes[a:b].tobytes(), len(seen)) for a, b in pairwise(trees.offset.tolist())])


@jit
def told_nodes(
    offset: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    coordinate: np.ndarray,
    cut: np.ndarray,
    categories: np.ndarray,
    codes: np.ndarray,
    n_categories: np.ndarray,
    local: bool,
    turns: bool,
) -> np.ndarray:
    """Returns nodes (n_nodes, 3) in preorder with splits in a canonical form; leaves are (LEAF, 0, 0).

    ``n_categories`` is 0 for an ordered coordinate; if the sides of nominal splits may be exchanged, ``turns``, the
    side with the smallest category of the cell comes first.
    """
    out, n_units = np.zeros((len(coordinate), 3), dtype=np.int64), codes.shape[1]
    longest = 1
    for t in range(len(offset) - 1):
        longest = max(longest, offset[t + 1] - offset[t])
    row, spare = np.empty(n_units, dtype=np.int64), np.empty(n_units, dtype=np.int64)
    todo, first, last = (
        np.empty(longest + 1, np.int64),
        np.empty(longest + 1, np.int64),
        np.empty(longest + 1, np.int64),
    )
    parent, side = np.empty(longest, dtype=np.int64), np.empty(longest, dtype=np.int64)
    for t in range(len(offset) - 1):
        start, at, n = offset[t], offset[t], 1
        for i in range(n_units):
            row[i] = i
        todo[0], first[0], last[0], parent[0] = 0, 0, n_units, -1
        while n > 0:
            n -= 1
            node, a, b = todo[n], first[n], last[n]
            here, k = start + node, coordinate[start + node]
            out[at, COORDINATE] = k
            if k == LEAF:
                at += 1
                continue
            middle, turned = a, False
            if n_categories[k] > 0:
                cell = _categories_in(codes, row, a, b, k) if local else all_bits(n_categories[k])
                if not local:
                    cell = _categories_of_box(cell, node, parent, side, start, coordinate, categories)
                mask = categories[here] & cell
                turned = turns and mask != 0 and mask != cell and mask & (cell & -cell) == 0
                out[at, CATEGORIES] = cell & ~mask if turned else mask
            else:
                out[at, CUT] = _largest_left(codes, row, a, b, k, cut[here]) if local else cut[here]
            if local:
                middle = _part(codes, row, spare, a, b, k, cut[here], categories[here], n_categories[k] > 0)
            at += 1
            for yes in range(2):
                # the side that comes first is put on top
                goes_left = (yes == 1) != turned
                child = np.int64(left[here] if goes_left else right[here])
                todo[n], parent[child], side[child] = child, node, 1 if goes_left else 0
                first[n], last[n] = (a, middle) if goes_left else (middle, b)
                n += 1
    return out


@jit
def _categories_in(codes: np.ndarray, row: np.ndarray, a: int, b: int, k: int) -> np.int64:
    """Bits of the categories that the rows from ``a`` to ``b`` have."""
    out = np.int64(0)
    for i in range(a, b):
        out |= np.int64(1) << np.int64(codes[k, row[i]])
    return out


@jit
def _categories_of_box(
    whole: int,
    node: int,
    parent: np.ndarray,
    side: np.ndarray,
    start: int,
    coordinate: np.ndarray,
    categories: np.ndarray,
) -> np.int64:
    """Bits of the categories that the splits above leave in the box of a node, for the feature it splits on."""
    k, out, at = coordinate[start + node], np.int64(whole), node
    while parent[at] >= 0:
        above = start + parent[at]
        if coordinate[above] == k:
            out &= categories[above] if side[at] == 1 else ~categories[above]
        at = parent[at]
    return out


@jit
def _largest_left(codes: np.ndarray, row: np.ndarray, a: int, b: int, k: int, cut: int) -> np.int64:
    """Largest code of the rows from ``a`` to ``b`` that is at most ``cut``; -1 where there is none."""
    out = np.int64(-1)
    for i in range(a, b):
        code = np.int64(codes[k, row[i]])
        if code <= cut and code > out:
            out = code
    return out


@jit
def _part(
    codes: np.ndarray,
    row: np.ndarray,
    spare: np.ndarray,
    a: int,
    b: int,
    k: int,
    cut: int,
    categories: int,
    nominal: bool,
) -> int:
    """Order the rows from ``a`` to ``b`` so that those that go left come first; where the others begin."""
    middle, n = a, 0
    for i in range(a, b):
        if goes_left(np.int64(codes[k, row[i]]), cut, categories if nominal else np.int64(-1)):
            row[middle] = row[i]
            middle += 1
        else:
            spare[n] = row[i]
            n += 1
    for j in range(n):
        row[middle + j] = spare[j]
    return middle
