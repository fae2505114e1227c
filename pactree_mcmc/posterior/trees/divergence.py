"""Divergence of draws from the prior over trees; trees with the same splits are equal, however they are stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...model.obstacles import unknown_constant
from ...model.split_prior.geometry import follows_design, parts_rows, told
from ...tree.arrays import LEAF
from ...tree.coded import CodedTrees
from .cells import hash_nodes, rows_looked_at

if TYPE_CHECKING:
    from ...model import TreeModel
    from ..draws import DrawnTrees


def kl_of_draws(post: DrawnTrees) -> float:
    """Return the divergence from the prior of the distribution of the draws; see `SampledPosterior.kl_to_prior`."""
    reason = unknown_constant(post.model)
    if reason is not None:
        raise ValueError(f"the divergence from the prior is unknown: {reason}.")
    number = same_trees(post.model, post.coded_trees)
    first, which = np.unique(number, return_index=True, return_inverse=True)[1:]
    weight = np.bincount(which, weights=post.weight_of_tree)
    drawn = weight > 0.0
    weight, log_prior = weight[drawn], post.log_prior_of_tree[first[drawn]]
    return as_divergence(float(weight @ (np.log(weight) - log_prior)), float(weight @ np.abs(log_prior)))


def as_divergence(difference: float, size: float) -> float:
    """Return a divergence computed as a difference of terms of order ``size``, without the negative rounding of zero.

    Raises
    ------
    RuntimeError
        If it is negative beyond rounding, which no divergence is.
    """
    if not difference >= -1e-9 * max(1.0, size):
        raise RuntimeError(
            f"the divergence from the prior came out as {difference} nats, but divergences are not negative: unless "
            "the tree prior is your own and its probabilities add up to more than 1, this is an error in pactree_mcmc; "
            "please report it."
        )
    return max(difference, 0.0)


def same_trees(model: TreeModel, trees: CodedTrees) -> np.ndarray:
    """Return the number (n_trees,) int64 of the distinct tree equal to each tree, by first occurrence.

    Under local cuts two splits of a cell are equal if they are on the same feature and divide its rows in the same way;
    otherwise if they have the same cut, or the same set of categories. The two sides of a nominal split may be
    exchanged.
    """
    subtree: dict[tuple[int, ...], int] = {}
    first = np.repeat(trees.offset[:-1], np.diff(trees.offset))
    split, is_turned = _canonical_splits(model, trees, first)
    number = [0] * len(split)
    # children have larger numbers than their parents: number equal subtrees from the leaves up
    right = (first + trees.right).tolist()
    for node, key in reversed([*enumerate(split)]):
        if key is not None:
            sides = number[node + 1], number[right[node]]
            number[node] = subtree.setdefault(key + (sides[::-1] if is_turned[node] else sides), len(subtree) + 1)
    root = np.array(number, dtype=np.int64)[trees.offset[:-1]]
    _, place, which = np.unique(root, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(place))[which]


def _canonical_splits(
    model: TreeModel, trees: CodedTrees, first: np.ndarray
) -> tuple[list[tuple[int, ...] | None], np.ndarray]:
    """Return equal tuples for equal splits of a cell, None for leaves, and the splits (n_nodes,) with exchanged sides.

    ``first`` (n_nodes,) is the root of the tree of each node.
    """
    is_inner = trees.feature != LEAF
    is_nominal = is_inner & model.columns.is_nominal[model.columns.source][trees.feature]
    if told(parts_rows, model.split_prior):
        # a split of a cell is known by the rows of its sides
        units, key = rows_looked_at(model, model.units.n_units)
        word = hash_nodes(trees, model.units.codes, units, key)
        sides = word[np.arange(len(word)) + is_inner], word[first + trees.right]
        both = sides[0].any(axis=1) & sides[1].any(axis=1)
        is_turned = is_nominal & both & (sides[0][:, 0] > sides[1][:, 0])
        low, high = (np.where(is_turned[:, None], one, other) for one, other in (sides[::-1], sides))
        rows = np.column_stack([trees.feature.astype(np.uint64), low, high]).tolist()
    else:
        cell = _categories_in_box(model, trees, first)
        mask = trees.categories & cell
        turns = not told(follows_design, model.split_prior)
        lowest_right = (mask != 0) & (mask != cell) & (mask & (cell & -cell) == 0)
        is_turned = is_nominal & turns & lowest_right
        mask = np.where(is_turned, cell & ~mask, mask)
        rows = np.column_stack([trees.feature, np.where(is_nominal, mask, trees.cut)]).tolist()
    return [tuple(row) if inner else None for row, inner in zip(rows, is_inner.tolist(), strict=True)], is_turned


def _categories_in_box(model: TreeModel, trees: CodedTrees, first: np.ndarray) -> np.ndarray:
    """Return the bits (n_nodes,) of the categories in the box of each node, of the feature that it splits on."""
    whole = np.array([(1 << min(n, 63)) - 1 for n in model.n_codes.tolist()], dtype=np.int64)
    box, out = [whole] * len(first), np.zeros(len(first), dtype=np.int64)
    # parents have smaller numbers than their children
    for node in np.flatnonzero(trees.feature != LEAF).tolist():
        k, mask = int(trees.feature[node]), trees.categories[node]
        left = right = box[node]
        out[node] = left[k]
        if mask >= 0:
            left, right = left.copy(), right.copy()
            left[k], right[k] = left[k] & mask, right[k] & ~mask
        box[node + 1], box[int(first[node] + trees.right[node])] = left, right
    return out
