"""The decision paths of drawn trees, merged from the root down: what the icicle of the report shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...posterior.ess import rhat_and_ess_by_tree
from ...tree.arrays import LEAF

if TYPE_CHECKING:
    from ...posterior.sampled import SampledPosterior

LEAST_WIDTH, MOST_DEPTH, MOST_PATHS = 0.004, 8, 300
"""Paths are shown that a training row takes with such a probability, so deep, and so many."""


class Paths(NamedTuple):
    """The commonest paths: cells one after the other from the root, each of which the tree splits into the next.

    Path 0 is that of the root alone; parents come before their children, which are
    grouped by the feature split on, the most probable first.
    """

    parent: np.ndarray
    """(m,) int64; -1 of path 0."""
    depth: np.ndarray
    """(m,) int64."""
    cell: np.ndarray
    """(m,) int64: the last cell, a number of ``post.cells``."""
    node: np.ndarray
    """(m,) int64: a node, counted over all trees, at the end of the path in the most probable tree that has it."""
    above: np.ndarray
    """(m,) int64: the node of that tree whose split leads there; -1 of path 0."""
    probability: np.ndarray
    """(m,) that a tree has the path."""
    mcse: np.ndarray
    """(m,) Monte-Carlo standard error of it; NaN with fewer than 4 draws a chain."""
    stops: np.ndarray
    """(m,) that a tree has the path and the cell is a leaf of it."""
    rows: np.ndarray
    """(m,) training rows in the cell, as a fraction of all."""
    of_node: np.ndarray
    """(n_nodes,) int64: the path to each node of the distinct trees; -1 of those not listed."""

    @property
    def width(self) -> np.ndarray:
        """(m,) probability that a training row drawn at random takes the path in a tree drawn at random."""
        return self.probability * self.rows


def common_paths(post: SampledPosterior) -> Paths:
    """The paths that training rows take most often; O(nodes of all distinct trees)."""
    of_node, parent, cell, node, above, probability, stops = _all_paths(post)
    rows = post.node_rows[node]
    rows = rows / max(float(rows[0]), np.finfo(np.float64).tiny)
    depth = np.zeros(len(parent), dtype=np.int64)
    for i in range(1, len(parent)):
        depth[i] = depth[parent[i]] + 1
    width = np.where(depth <= MOST_DEPTH, probability * rows, 0.0)
    width[0] = np.inf
    often = np.argsort(-width, kind="stable")[:MOST_PATHS]
    # children are never wider than their parents, and of equal width come later
    kept = np.sort(often[width[often] >= LEAST_WIDTH])
    kept = _in_order(kept, parent, probability, post.distinct_trees.feature[above])
    place = np.full(len(parent) + 1, -1)
    place[kept] = np.arange(len(kept))
    return Paths(
        place[parent[kept]],
        depth[kept],
        cell[kept],
        node[kept],
        above[kept],
        probability[kept],
        _errors(post, place[of_node], len(kept), probability[kept]),
        stops[kept],
        rows[kept],
        place[of_node],
    )


def _all_paths(post: SampledPosterior) -> tuple[np.ndarray, ...]:
    """Path of each node, and of each path parent, cell, node, node above, probability, probability of a leaf there."""
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
                    # a split that parts no training rows leads nowhere else
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


def _in_order(kept: np.ndarray, parent: np.ndarray, probability: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """The paths ``kept`` with parents first, and of each the children by the feature ``asked`` about, then the split.

    Both by falling probability; the sides of a split stand together.
    """
    below: dict[int, list[int]] = {}
    for i in kept[1:].tolist():
        below.setdefault(int(parent[i]), []).append(i)
    order = [0]
    for path in order:
        # the two sides of a split are found one after the other, the side of the yes first
        children = below.get(path, [])
        of_feature: dict[int, float] = {}
        for i in children:
            of_feature[int(asked[i])] = of_feature.get(int(asked[i]), 0.0) + float(probability[i])
        keys = {
            i: (-round(of_feature[int(asked[i])], 9), int(asked[i]), -round(float(probability[i]), 9), i)
            for i in children
        }
        order += sorted(children, key=keys.__getitem__)
    return np.array(order)


def _errors(post: SampledPosterior, of_node: np.ndarray, m: int, probability: np.ndarray) -> np.ndarray:
    """Monte-Carlo standard errors of the probabilities of ``m`` paths."""
    held = np.zeros((m, post.n_distinct_trees), dtype=np.bool_)
    listed = of_node >= 0
    held[of_node[listed], post.cells.tree_of_node[listed]] = True
    ess = rhat_and_ess_by_tree(held, post.tree_of_draw)[1]
    return np.sqrt(np.maximum(probability * (1.0 - probability), 0.0) / ess)
