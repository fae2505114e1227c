"""Draws in the form in which chains save them, and their trees with thresholds in the units of the data."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..core.names import short_repr
from ..files.encoding import register_class, register_records
from ..table.coding import Scale
from ..table.words import categories_text, ordered_words
from .arrays import LEAF, TreeArrays
from .coded import CodedTrees

if TYPE_CHECKING:
    from ..model import TreeModel

OrderedKey = tuple[int, float | None] | tuple[int, float | None, str]
# key of a root split: None without splits, (feature, threshold), (feature, threshold, side of missing values), or
# (feature, categories going left). The threshold is None if the split separates missing from known values.
RootKey = OrderedKey | tuple[int, frozenset[Any]] | None

# record of a saved tree: its log prior, its log score, and the index of its first node
SAVED_TREE = np.dtype([("log_prior", np.float64), ("log_score", np.float64), ("start", np.int64)])


register_records(SAVED_TREE=SAVED_TREE)


@register_class
class Saved(NamedTuple):
    """Draws of a chain. Successive draws of the same tree store the tree once."""

    tree_of_draw: np.ndarray  # (n_draws,) int64: index of the tree of each draw
    noise: np.ndarray  # (n_draws,) float64: noise variance that all leaves share; NaN if leaves share no variance
    # (n_draws, 2, n_moves) int64: number of proposals since the draw before, and number of these accepted
    moves: np.ndarray
    tree: np.recarray  # (n_trees + 1,) records of dtype SAVED_TREE; the last one only marks the end of the nodes
    node: np.recarray  # (n_nodes,) records of dtype CODED_NODE, one tree after another, each in preorder
    stats: np.ndarray  # (n_nodes, n_stats) float64: statistics of each node
    used: np.ndarray  # (3,) int64: number of draws, trees and nodes saved so far


@register_class
class Course(NamedTuple):
    """State from which `resume` continues the chains of a run."""

    def __repr__(self) -> str:
        return short_repr(self)

    kernel: Any  # mixture of moves of the chains
    thin: int  # number of steps of a chain from one draw to the next
    ends: tuple  # state of each chain at its end
    steps: int  # number of steps of each chain since tuning
    # (teams, 2): log evidence in nats by the draws and the fitted density of each team of chains that tuned together,
    # and its standard error, NaN if unknown. None with a temperature ladder, without density, or if there is no
    # estimate.
    evidences: np.ndarray | None = None
    # (2, p): the probability that a tree has each feature at its root, and anywhere, is at least this, by the exact sum
    # over the trees that a team has visited in tuning. None without evidences.
    visited: np.ndarray | None = None

    @property
    def teams(self) -> list[list[int]]:
        """Indices of the chains of each team, a group of chains that tuned together, separately from other teams."""
        numbers = [end.team for end in self.ends]
        return [[c for c, other in enumerate(numbers) if other == number] for number in sorted(set(numbers))]


def in_data_units(model: TreeModel, trees: CodedTrees) -> TreeArrays:
    """Return ``trees`` of a model with splits on features by thresholds, instead of splits on coordinates by codes."""
    inner, columns = trees.feature != LEAF, model.columns
    threshold = np.zeros(len(inner))
    feature, default_left = trees.feature, trees.default_left
    if columns.twins:
        has_two_coordinates = inner & (columns.other_coordinate[feature] != feature)
        default_left = np.where(has_two_coordinates, feature < columns.n_features, default_left)
        feature = np.where(inner, columns.source[feature], LEAF).astype(np.int32)
    for k, scale in enumerate(model.scales):
        is_ordered_on = (trees.feature == k) & (trees.categories < 0)
        if is_ordered_on.any():
            threshold[is_ordered_on] = scale.threshold(trees.cut[is_ordered_on], trees.upper[is_ordered_on])
    return TreeArrays(trees.offset, feature, threshold, trees.left, trees.right, trees.categories, default_left)


def values_between(model: TreeModel, trees: CodedTrees) -> np.ndarray | None:
    """Return the training values (n_nodes, 2) on either side of each threshold, in the cell that it splits."""
    out = np.full((len(trees.feature), 2), np.nan)
    for c, scale in enumerate(model.scales):
        is_ordered_on = (trees.feature == c) & (trees.categories < 0)
        if is_ordered_on.any():
            out[is_ordered_on] = scale.between(trees.cut[is_ordered_on], trees.upper[is_ordered_on])
    local = any(isinstance(scale, Scale) and len(scale.low) for scale in model.scales)
    return out if local else None


def root_key(model: TreeModel, trees: TreeArrays, node: int) -> RootKey:
    """Return the key of the split of `node`, the root of a tree, in `root_split_pmf`, probabilities of root splits."""
    k = int(trees.feature[node])
    if k == LEAF:
        return None
    if trees.categories[node] < 0:
        return ordered_key(model, k, float(trees.threshold[node]), bool(trees.default_left[node]))
    return (k, model.columns.label_set(k, int(trees.categories[node])))


def ordered_key(model: TreeModel, feature: int, threshold: float, missing_left: bool) -> OrderedKey:
    """Return the key in ``root_split_pmf`` of an ordered split: its feature, its threshold, and maybe a side."""
    key_threshold = None if math.isnan(threshold) else threshold
    if feature in model.columns.twins:
        return (feature, key_threshold, "missing left" if missing_left else "missing right")
    return (feature, key_threshold)


def key_words(model: TreeModel, key: RootKey) -> str:
    """Return a root split as text, given its key in ``root_split_pmf``; "none" for a tree without splits."""
    if key is None:
        return "none"
    columns, (k, threshold_or_categories, *side) = model.columns, key
    if isinstance(threshold_or_categories, frozenset):
        return columns.names[k] + categories_text(threshold_or_categories)
    missing_left = side == ["missing left"] if side else None
    threshold, low, high = math.nan if threshold_or_categories is None else threshold_or_categories, math.nan, math.nan
    scale = model.scales[int(columns.coordinate(k, bool(missing_left) if side else True))]
    cut = scale.cut_of(threshold)
    if cut is not None and 0 <= cut < scale.n_codes - 1:
        low, high = scale.between(np.array([cut]), np.array([cut + 1]))[0].tolist()
    return columns.names[k] + ordered_words(threshold, missing_left, columns.kind(k), low, high)
