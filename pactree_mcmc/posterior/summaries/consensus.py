"""The majority tree: the cells that most trees have, which are nested or disjoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...core.bits import codes_go_left
from ...core.checks import check_number
from ...model.leaf_words import lines_of_cells
from ...table.words import count_text
from ...tree.export import MOST_CLASSES
from ..space.cells import rows_looked_at
from ..space.paths import ALL_ROWS, Condition, conditions_in_words, path_to
from ..space.support import most_probable_nodes

if TYPE_CHECKING:
    from ..sampled import SampledPosterior

CERTAIN = 1e-9
"""Largest rounding error of a probability of 1."""


class ConsensusTree(NamedTuple):
    """The cells that more than half of the trees have, each below the smallest one that contains it.

    Nodes are in preorder, node 0 has all rows. A node may have one child, where its other rows are in no majority
    cell, and more than two, where most trees part it further but not by the same split.
    """

    words: list[str]
    """(m,) the conditions that lead from the parent to the node."""
    support: np.ndarray
    """(m,) probability that a tree has the cell."""
    rows: np.ndarray
    """(m,) training rows in the cell; a row counts as often as its weight says."""
    rest: np.ndarray
    """(m,) rows of the node that are in none of its children; 0 for a node without children."""
    parent: np.ndarray
    """(m,) int64; -1 for node 0."""
    depth: np.ndarray
    """(m,) int64."""
    value: np.ndarray | None
    """(m, d) prediction of a leaf with these rows: class probabilities, or the mean; None if it depends on the row or
    the leaf predicts nothing."""
    classes: np.ndarray | None
    """(K,) class labels; None for regression."""
    key: list[tuple[int, ...]]
    """(m,) the same for the same cell in every posterior of the model, as in `Support`."""
    said: list[list[str]]
    """(m,) the prediction of a leaf with these rows as lines of text; no lines if the leaf predicts nothing."""

    def children(self, node: int) -> list[int]:
        """Returns the children of ``node``."""
        return np.flatnonzero(self.parent == node).tolist()

    def format(self) -> str:
        """Returns the tree as indented text, one line for each node: conditions, rows, support, and prediction.

        Examples
        --------
        >>> import exact, pactree_mcmc as pt
        >>> truth = exact.solve(pt.TreeModel([[float(x)] for x in range(30)], [x >= 15 for x in range(30)]))
        >>> print(truth.consensus_tree().format())
        all rows (30 rows) False: 0.500, True: 0.500
        |-- x0 <= 14.5 (15 rows, support 0.81) False: 0.941, True: 0.059
        `-- x0 > 14.5 (15 rows, support 0.81) False: 0.059, True: 0.941
        """
        lines: list[str] = []
        todo = [(0, "", "")]
        while todo:
            node, here, below = todo.pop()
            lines.append(here + self._line(node))
            for child in reversed(self.children(node)):
                last = child == self.children(node)[-1]
                todo.append((child, below + ("`-- " if last else "|-- "), below + ("    " if last else "|   ")))
        return "\n".join(lines)

    def _line(self, node: int) -> str:
        known = [count_text(float(self.rows[node]))]
        if node > 0:
            known.append(f"support {self.support[node]:.2f}")
        if self.rest[node] > 0.0:
            known.append(f"{count_text(float(self.rest[node]))} in no child")
        shown = ", ".join(self.said[node])
        return f"{self.words[node]} ({', '.join(known)}) {shown}".rstrip()

    def __str__(self) -> str:
        return self.format()


def consensus_of(post: SampledPosterior, probability: np.ndarray, min_support: float) -> ConsensusTree:
    """The tree of the cells whose ``probability`` (n_cells,) exceeds ``min_support``; see `Posterior.consensus_tree`.

    Two cells that each have a probability above one half are both in some tree, so they are nested or disjoint.
    """
    min_support = check_number("min_support", min_support, "a number 0.5..1", 0.5, 1.0)
    needed = min(min_support, 1.0 - CERTAIN)
    chosen = np.union1d([0], np.flatnonzero(probability > needed)).astype(np.int64)
    nodes = most_probable_nodes(post)[chosen]
    units = rows_looked_at(post.model)[0]
    inside = np.array([rows_of_node(post, node, units) for node in nodes.tolist()])
    parent = _parents(inside)
    trees_with = post.cells.holders(chosen)
    ways = [_way(post, trees_with, chosen, int(parent[i]), i) for i in range(1, len(chosen))]
    words, above = [ALL_ROWS], _conditions_above(parent, ways)
    words += [conditions_in_words(post.model.columns, way, above[i]) for i, way in enumerate(ways, 1)]
    order = _preorder(parent, _places(parent, [[], *ways], inside, post.model.units.codes[:, units]))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    model, stats = post.model, post.node_stats[nodes[order]]
    rows, up = post.node_rows[nodes[order]], np.where(parent[order] < 0, -1, rank[parent[order]])
    depth, below = np.zeros(len(order), dtype=np.int64), np.zeros(len(order))
    for i in range(1, len(order)):
        depth[i] = depth[up[i]] + 1
        below[up[i]] += rows[i]
    predicts = model.leaf.predicts and model.leaf.x_columns is None
    return ConsensusTree(
        [words[i] for i in order],
        np.concatenate([[1.0], probability[chosen[order[1:]]]]),
        rows,
        np.where(below > 0.0, np.maximum(rows - below, 0.0), 0.0),
        up,
        depth,
        np.asarray(model.leaf.value(stats, model.target)) if predicts else None,
        model.classes_,
        [tuple(word) for word in post.cells.key[chosen[order]].tolist()],
        lines_of_cells(model, stats, MOST_CLASSES),
    )


def rows_of_node(post: SampledPosterior, node: int, units: np.ndarray) -> np.ndarray:
    """Which of the distinct rows ``units`` (m,) of the model pass a node, counted over all trees: (m,) bool."""
    trees, codes = post.coded_trees, post.model.units.codes
    inside = np.ones(len(units), dtype=np.bool_)
    for above, condition in path_to(post.distinct_trees, None, int(post.cells.tree_of_node[node]), node):
        values, cut, categories = codes[trees.feature[above], units], trees.cut[above], int(trees.categories[above])
        inside &= codes_go_left(values, cut, categories) == condition.left
    return inside


def _parents(inside: np.ndarray) -> np.ndarray:
    """The smallest set that holds each of nested or disjoint sets (m, rows); -1 of the first, which holds all."""
    size, parent = inside.sum(axis=1), np.full(len(inside), -1)
    for i in range(1, len(inside)):
        holds = (inside[:, inside[i]].all(axis=1)) & (size > size[i])
        parent[i] = min(np.flatnonzero(holds).tolist(), key=lambda j: size[j])
    return parent


def _conditions_above(parent: np.ndarray, ways: list[list[Condition]]) -> list[list[Condition]]:
    """Return the conditions on the way from the root to the parent of each node; ``ways`` lead from it to the node."""
    out: list[list[Condition]] = []
    for i in range(len(parent)):
        out.append([])
        node = int(parent[i])
        while node > 0:
            out[-1] += ways[node - 1]
            node = int(parent[node])
    return out


def _way(
    post: SampledPosterior, trees_with: np.ndarray, chosen: np.ndarray, parent: int, child: int
) -> list[Condition]:
    """The conditions from a cell to one in it, in the most probable tree that has both.

    Where no tree drawn has both, the conditions from the root.
    """
    log_posterior = np.where(
        trees_with[parent] & trees_with[child], post.log_prior_of_tree + post.log_score_of_tree, -np.inf
    )
    tree = int(np.argmax(log_posterior))
    if log_posterior[tree] == -np.inf:
        node, above = int(most_probable_nodes(post)[chosen[child]]), -1
        tree = int(post.cells.tree_of_node[node])
    else:
        start, stop = post.coded_trees.offset[tree : tree + 2].tolist()
        of_node = post.cells.of_node[start:stop]
        # a split that parts no rows repeats the cell: the way begins below the last one
        node = start + int(np.flatnonzero(of_node == chosen[child])[0])
        above = start + int(np.flatnonzero(of_node == chosen[parent])[-1])
    return [c for at, c in path_to(post.distinct_trees, post.node_between, tree, node) if at >= above]


def _places(parent: np.ndarray, ways: list[list[Condition]], inside: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """By what children of one node are ordered (m,): those whose first condition holds are before the others.

    Three or more are ordered along the feature with thresholds that most of them are said to be split by, if there is
    one that two have, by the mean code (p, rows) of their rows.
    """
    place = np.array([0.0, *(float(not way[0].left) for way in ways[1:])])
    for node in range(len(parent)):
        children = np.flatnonzero(parent == node)
        features = [k for i in children for k in {c.feature for c in ways[i] if c.categories < 0}]
        if len(children) < 3 or not features:
            continue
        count = np.bincount(features)
        if count.max() >= 2:
            place[children] = [codes[count.argmax(), inside[i]].mean() for i in children]
    return place


def _preorder(parent: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Nodes in preorder, children by their ``place`` (m,)."""
    order, todo = [], [0]
    while todo:
        node = todo.pop()
        order.append(node)
        children = np.flatnonzero(parent == node)
        todo += children[np.argsort(-place[children], kind="stable")].tolist()
    return np.array(order)
