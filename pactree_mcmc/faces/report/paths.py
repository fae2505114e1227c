"""The decision paths of drawn trees, merged from the root down: what the icicle of the report shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...posterior.ess import rhat_and_ess_by_tree
from ...tree.arrays import LEAF

if TYPE_CHECKING:
    from ...posterior.sampled import SampledPosterior

LEAST_WIDTH, MOST_DEPTH, MOST_PATHS = 0.004, 8, 300
"""Smallest probability that a training row takes a path that is shown, its largest depth, and their largest number."""


class Paths(NamedTuple):
    """The most frequent decision paths. A path is a sequence of cells from the root, each split into the next.

    Path 0 is that of the root alone. Parents come before their children, which are grouped by the feature of the split,
    the most probable first.
    """

    parent: np.ndarray
    """(m,) int64: number of the path without its last cell; -1 for path 0."""
    depth: np.ndarray
    """(m,) int64: number of splits."""
    cell: np.ndarray
    """(m,) int64: number in ``post.cells`` of the last cell."""
    node: np.ndarray
    """(m,) int64: node at the end of the path in the most probable tree that has it, numbered over all trees."""
    above: np.ndarray
    """(m,) int64: node of that tree whose split leads there; -1 for path 0."""
    probability: np.ndarray
    """(m,) probability that a tree has the path."""
    mcse: np.ndarray
    """(m,) Monte-Carlo standard error of ``probability``; NaN with fewer than 4 draws a chain."""
    stops: np.ndarray
    """(m,) probability that a tree has the path and the last cell is a leaf."""
    rows: np.ndarray
    """(m,) fraction of the training rows in the last cell."""
    of_node: np.ndarray
    """(n_nodes,) int64: path to each node of the distinct trees; -1 if it is not among the ``m``."""

    @property
    def width(self) -> np.ndarray:
        """(m,) probability that a training row drawn at random takes the path in a tree drawn at random."""
        return self.probability * self.rows


def common_paths(post: SampledPosterior) -> Paths:
    """Return the paths that training rows take most often. Cost: O(nodes of all distinct trees)."""
    of_node, parent, cell, node, above, probability, stops = _all_paths(post)
    rows = post.node_rows[node]
    rows = rows / max(float(rows[0]), np.finfo(np.float64).tiny)
    depth = np.zeros(len(parent), dtype=np.int64)
    for i in range(1, len(parent)):
        depth[i] = depth[parent[i]] + 1
    width = np.where(depth <= MOST_DEPTH, probability * rows, 0.0)
    width[0] = np.inf
    frequent = np.argsort(-width, kind="stable")[:MOST_PATHS]
    # a child is never wider than its parent, and of equal width comes later, so parents are among the frequent ones
    shown = np.sort(frequent[width[frequent] >= LEAST_WIDTH])
    shown = _sorted_paths(shown, parent, probability, post.distinct_trees.feature[above])
    place = np.full(len(parent) + 1, -1)
    place[shown] = np.arange(len(shown))
    return Paths(
        place[parent[shown]],
        depth[shown],
        cell[shown],
        node[shown],
        above[shown],
        probability[shown],
        _errors(post, place[of_node], len(shown), probability[shown]),
        stops[shown],
        rows[shown],
        place[of_node],
    )


def _all_paths(post: SampledPosterior) -> tuple[np.ndarray, ...]:
    """Return the path of each node, and the first fields of `Paths` for all paths, in the order of first occurrence.

    The fields are parent, cell, node, above, probability and stops.
    """
    trees, cells = post.coded_trees, post.cells
    feature, right, of_cell, ends = (a.tolist() for a in (trees.feature, trees.right, cells.of_node, trees.offset))
    log_posterior = (post.log_prior_of_tree + post.log_score_of_tree).tolist()
    of_node, number = [-1] * len(feature), {(-1, of_cell[0]): 0}
    n_paths = 1
    parent, cell, node, above = [-1], [of_cell[0]], [0], [-1]
    probability, stops, best = [0.0], [0.0], [-np.inf]
    for t, weight in enumerate(post.weight_of_tree.tolist()):
        base, better = ends[t], log_posterior[t]
        of_node[base] = 0
        probability[0] += weight
        if better > best[0]:
            best[0], node[0] = better, base
        for i in range(base, ends[t + 1]):
            path = of_node[i]
            if path < 0:
                continue
            if feature[i] == LEAF:
                stops[path] += weight
                continue
            for child in (i + 1, base + right[i]):
                c = of_cell[child]
                if c < 0 or c == of_cell[i]:
                    # a split that does not divide the training rows does not make a longer path
                    of_node[child] = path if c >= 0 else -1
                    continue
                new = number.setdefault((path, c), n_paths)
                if new == n_paths:
                    n_paths += 1
                    parent.append(path)
                    cell.append(c)
                    node.append(child)
                    above.append(i)
                    probability.append(0.0)
                    stops.append(0.0)
                    best.append(-np.inf)
                of_node[child] = new
                probability[new] += weight
                if better > best[new]:
                    best[new], node[new], above[new] = better, child, i
    return tuple(np.array(a) for a in (of_node, parent, cell, node, above, probability, stops))


def _sorted_paths(shown: np.ndarray, parent: np.ndarray, probability: np.ndarray, feature: np.ndarray) -> np.ndarray:
    """Return paths with parents first, and the children of each by the feature of the split, then by the split.

    Features and splits have decreasing probability, and the sides of a split are next to each other.
    """
    below: dict[int, list[int]] = {}
    for i in shown[1:].tolist():
        below.setdefault(int(parent[i]), []).append(i)
    order = [0]
    for path in order:
        # the sides of a split have neighbouring numbers, the left one first
        children = below.get(path, [])
        of_feature: dict[int, float] = {}
        for i in children:
            of_feature[feature[i]] = of_feature.get(feature[i], 0.0) + probability[i]
        keys = {i: (-round(of_feature[feature[i]], 9), feature[i], -round(probability[i], 9), i) for i in children}
        order += sorted(children, key=keys.__getitem__)
    return np.array(order)


def _errors(post: SampledPosterior, of_node: np.ndarray, m: int, probability: np.ndarray) -> np.ndarray:
    """Return the Monte-Carlo standard errors of the probabilities of ``m`` paths."""
    in_tree = np.zeros((m, post.n_distinct_trees), dtype=np.bool_)
    listed = of_node >= 0
    in_tree[of_node[listed], post.cells.tree_of_node[listed]] = True
    ess = rhat_and_ess_by_tree(in_tree, post.tree_of_draw)[1]
    return np.sqrt(np.maximum(probability * (1.0 - probability), 0.0) / ess)
