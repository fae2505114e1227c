"""One tree for many: the majority tree, of the cells that most trees have, and the typical tree among those drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...core.bits import codes_go_left
from ...core.checks import Seed, check_choice, check_count, check_number, check_type
from ...model.leaf_words import lines_of_cells
from ...table.words import count_text
from ...tree.arrays import leaf_values
from ...tree.export import MOST_CLASSES
from ...tree.tree import Tree, stack_trees
from ..draws import DrawnTrees, has_values_by_leaf
from ..protocol import AnyPosterior
from .cells import rows_looked_at, training_points
from .distances import KINDS, distances_between
from .paths import ALL_ROWS, Condition, conditions_in_words, path_to
from .support import check_drawn, most_probable_nodes

if TYPE_CHECKING:
    from collections.abc import Callable

CERTAIN = 1e-9
"""Largest rounding error of a probability of 1."""
N_ROWS = 200
"""Largest number of training rows at which predictions are compared."""
AT_ONCE = 256
"""Number of trees whose predictions are in memory at a time."""


class ConsensusTree(NamedTuple):
    """The cells that more than half of the trees have, each below the smallest one that contains it.

    Nodes are in preorder, node 0 has all rows. A node has one child if its other rows are in no majority cell, and more
    than two if most trees divide it further but not by the same split.
    """

    words: list[str]
    """(m,) the conditions that lead from the parent to the node."""
    support: np.ndarray
    """(m,) probability that a tree has the cell."""
    rows: np.ndarray
    """(m,) training rows in the cell; a row counts as often as its weight says."""
    rest: np.ndarray
    """(m,) rows of the node outside all its children; 0 for a node without children."""
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
    """(m,) equal for the same cell in every posterior of the model, as in `Support`."""
    said: list[list[str]]
    """(m,) the prediction of a leaf with these rows as lines of text; no lines if the leaf predicts nothing."""

    def children(self, node: int) -> list[int]:
        """Return the children of ``node``."""
        return np.flatnonzero(self.parent == node).tolist()

    def format(self) -> str:
        """Return the tree as indented text, one line for each node: conditions, rows, support, and prediction.

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
        facts = [count_text(float(self.rows[node]))]
        if node > 0:
            facts.append(f"support {self.support[node]:.2f}")
        if self.rest[node] > 0.0:
            facts.append(f"{count_text(float(self.rest[node]))} in no child")
        return f"{self.words[node]} ({', '.join(facts)}) {', '.join(self.said[node])}".rstrip()

    def __str__(self) -> str:
        return self.format()


def consensus_of(post: DrawnTrees, probability: np.ndarray, min_support: float) -> ConsensusTree:
    """Return the tree of cells with a ``probability`` (n_cells,) above ``min_support``; see `Posterior.consensus_tree`.

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
    paths = [_path(post, trees_with, chosen, int(parent[i]), i) for i in range(1, len(chosen))]
    words, above = [ALL_ROWS], _conditions_above(parent, paths)
    words += [conditions_in_words(post.model.columns, path, above[i]) for i, path in enumerate(paths, 1)]
    order = _preorder(parent, _places(parent, [[], *paths], inside, post.model.units.codes[:, units]))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    model, stats = post.model, post.node_stats[nodes[order]]
    rows, up = post.node_rows[nodes[order]], np.where(parent[order] < 0, -1, rank[parent[order]])
    depth, below = np.zeros(len(order), dtype=np.int64), np.zeros(len(order))
    for i in range(1, len(order)):
        depth[i] = depth[up[i]] + 1
        below[up[i]] += rows[i]
    return ConsensusTree(
        [words[i] for i in order],
        np.concatenate([[1.0], probability[chosen[order[1:]]]]),
        rows,
        np.where(below > 0.0, np.maximum(rows - below, 0.0), 0.0),
        up,
        depth,
        np.asarray(model.leaf.value(stats, model.target)) if has_values_by_leaf(model) else None,
        model.classes_,
        [tuple(word) for word in post.cells.key[chosen[order]].tolist()],
        lines_of_cells(model, stats, MOST_CLASSES),
    )


def rows_of_node(post: DrawnTrees, node: int, units: np.ndarray) -> np.ndarray:
    """Return which of the distinct rows ``units`` (m,) pass a node, counted over all trees: (m,) bool."""
    trees, codes = post.coded_trees, post.model.units.codes
    inside = np.ones(len(units), dtype=np.bool_)
    for above, condition in path_to(post.distinct_trees, None, int(post.cells.tree_of_node[node]), node):
        values, cut, categories = codes[trees.feature[above], units], trees.cut[above], int(trees.categories[above])
        inside &= codes_go_left(values, cut, categories) == condition.left
    return inside


def _parents(inside: np.ndarray) -> np.ndarray:
    """Return the smallest set that contains each of nested or disjoint sets (m, rows); -1 for that of all rows."""
    size, parent = inside.sum(axis=1), np.full(len(inside), -1)
    for i in range(1, len(inside)):
        contains = (inside[:, inside[i]].all(axis=1)) & (size > size[i])
        parent[i] = min(np.flatnonzero(contains).tolist(), key=lambda j: size[j])
    return parent


def _conditions_above(parent: np.ndarray, paths: list[list[Condition]]) -> list[list[Condition]]:
    """Return the conditions from the root to the parent of each node; ``paths`` lead from the parent to the node."""
    out: list[list[Condition]] = []
    for i in range(len(parent)):
        out.append([])
        node = int(parent[i])
        while node > 0:
            out[-1] += paths[node - 1]
            node = int(parent[node])
    return out


def _path(post: DrawnTrees, trees_with: np.ndarray, chosen: np.ndarray, parent: int, child: int) -> list[Condition]:
    """Return the conditions from a cell to one in it, in the most probable tree that has both.

    If no tree drawn has both, return the conditions from the root.
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
        # a split that separates no rows repeats the cell: the path begins below the last one
        node = start + int(np.flatnonzero(of_node == chosen[child])[0])
        above = start + int(np.flatnonzero(of_node == chosen[parent])[-1])
    return [c for at, c in path_to(post.distinct_trees, post.node_between, tree, node) if at >= above]


def _places(parent: np.ndarray, paths: list[list[Condition]], inside: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return sort keys (m,) of the children of a node: those whose first condition holds come before the others.

    Three or more are ordered by the mean code (p, rows) of their rows along one feature: the feature with thresholds in
    the conditions of most of them, if two have one in common.
    """
    place = np.array([0.0, *(float(not path[0].left) for path in paths[1:])])
    for node in range(len(parent)):
        children = np.flatnonzero(parent == node)
        features = [k for i in children for k in {c.feature for c in paths[i] if c.categories < 0}]
        if len(children) < 3 or not features:
            continue
        count = np.bincount(features)
        if count.max() >= 2:
            place[children] = [codes[count.argmax(), inside[i]].mean() for i in children]
    return place


def _preorder(parent: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Return the nodes in preorder, children by their ``place`` (m,)."""
    order, todo = [], [0]
    while todo:
        node = todo.pop()
        order.append(node)
        children = np.flatnonzero(parent == node)
        todo += children[np.argsort(-place[children], kind="stable")].tolist()
    return np.array(order)


def typical_tree(posterior: AnyPosterior, n_draws: int = 1000, rng: Seed = 0, *, distance: str = "predictions") -> Tree:
    """Return the tree of the posterior that is closest to all others.

    A central tree, whereas the most probable tree is the mode. By predictions it is the tree whose predictions are
    closest to those of the posterior, in mean square over up to 200 training rows; among the trees drawn it is also the
    one with the smallest mean squared distance to all draws. By cells it is the tree that differs from a draw in the
    fewest cells on average, by partitions the one whose leaves divide the training rows most nearly as those of a draw
    do.

    Parameters
    ----------
    posterior : Posterior
        For a sampled one, all trees drawn are candidates.
    n_draws : int, default 1000
        Number of candidates drawn from an exact posterior.
    rng : int, SeedSequence, Generator or None
        Source of randomness for those draws.
    distance : {"predictions", "cells", "partitions"}, default "predictions"
        As of `SampledPosterior.tree_distances`.

    Returns
    -------
    Tree

    Raises
    ------
    ValueError
        If a sampled posterior has no draws, or an argument is out of range.

    Notes
    -----
    Cost: predictions of 200 rows by every candidate; their cells; for partitions, the distances of 400 draws, evenly
    spaced, which are then the candidates.

    Examples
    --------
    >>> import exact, pactree_mcmc as pt
    >>> truth = exact.solve(pt.TreeModel([[float(x)] for x in range(30)], [x >= 15 for x in range(30)]))
    >>> typical_tree(truth).n_leaves, typical_tree(truth, distance="cells").n_leaves
    (2, 2)
    """
    check_type("posterior", posterior, AnyPosterior, "a posterior over trees")
    if check_choice("distance", distance, KINDS) != "predictions":
        return middle_tree(posterior._as_draws(n_draws, rng), distance)
    tree: Callable[[int], Tree]
    if isinstance(posterior, DrawnTrees):
        check_drawn(posterior)
        stacked, value, tree = posterior.distinct_trees, posterior.node_values, posterior.distinct_tree
    else:
        drawn = posterior.draw_trees(check_count("n_draws", n_draws), rng)
        stacked, value, tree = stack_trees(drawn), np.concatenate([t.value for t in drawn]), drawn.__getitem__
    X = training_points(posterior.model, N_ROWS)[1]
    mean, distances = posterior._values(X), []
    for first in range(0, len(stacked.offset) - 1, AT_ONCE):
        some = stacked._replace(offset=stacked.offset[first : first + AT_ONCE + 1])
        distances.append(((leaf_values(some, value, X) - mean) ** 2).sum(axis=(1, 2)))
    return tree(int(np.argmin(np.concatenate(distances))))


def middle_tree(post: DrawnTrees, distance: str) -> Tree:
    """Return the tree whose mean distance from all draws, by "cells" or "partitions", is least."""
    check_drawn(post)
    if distance == "cells":
        # of the sum over cells only those that the tree has depend on it
        cells, p = post.cells, post.cells.frequencies(post.weight_of_tree)
        summed = np.concatenate([[0.0], np.cumsum(1.0 - 2.0 * p[cells.member])])
        from_all = summed[cells.offset[1:]] - summed[cells.offset[:-1]]
        return post.distinct_tree(int(np.argmin(np.where(post.weight_of_tree > 0.0, from_all, np.inf))))
    distances = distances_between(post, None, distance)
    return post.distinct_tree(int(distances.tree[np.argmin(distances.matrix.sum(axis=1))]))
