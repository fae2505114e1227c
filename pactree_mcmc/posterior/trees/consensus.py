"""The consensus tree: the cells that most trees have, nested in one another.

The exact cell of a node is its set of training rows. If trees agree on the features but not on the cuts, no exact cell
may be in half of the trees. So cells that differ in the places of cuts alone are joined into groups. The *signature* of
a node is, for each feature, the sequence of sides that the path from the root takes; for a nominal feature it is the
set of categories that remains. Two nodes of one tree never have the same signature, because their paths diverge at a
split, and the sequences of that feature differ from there on. So, as with exact cells, two groups that are each in more
than half of the trees are both in some tree, and are nested or disjoint there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...core.checks import check_flag, check_number
from ...core.names import limited_lines, with_short_repr
from ...model.words import lines_of_cells
from ...table.words import count_text
from ...tree.arrays import walk
from ...tree.export import MOST_CLASSES
from ..draws import has_values_by_leaf
from .paths import ALL_ROWS, Condition, conditions_in_words, path_to
from .shapes import weighted_quantiles
from .support import most_probable_nodes

if TYPE_CHECKING:
    from ..draws import DrawnTrees
    from .paths import Cuts

CERTAIN = 1e-9
"""Largest rounding error of a probability of 1."""


@with_short_repr
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
    """(m,) number of training rows in the cell, counted with their weights; for joined cells its mean over the trees
    that also have the parent."""
    rest: np.ndarray
    """(m,) number of rows of the node that are in none of its children; 0 for a node without children."""
    parent: np.ndarray
    """(m,) int64: the parent of each node; -1 for node 0."""
    depth: np.ndarray
    """(m,) int64: number of ancestors of each node in this tree."""
    value: np.ndarray | None
    """(m, d) prediction of a leaf with these rows: class probabilities, or the mean. None if the prediction depends on
    the row, or the leaf predicts nothing."""
    classes: np.ndarray | None
    """(K,) class labels; None for regression."""
    key: list[tuple[int, ...]]
    """(m,) identifiers of the cells, equal for the same cell in every posterior of the model, as in `Support`."""
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
        |-- x0 <= 14.5 [11.5, 16.5] (15 rows, support 1.00) False: 0.941, True: 0.059
        `-- x0 > 14.5 [11.5, 16.5] (15 rows, support 1.00) False: 0.059, True: 0.941
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
        """Return conditions, rows, support and prediction of a node as one line of text."""
        facts = [count_text(float(self.rows[node]))]
        if node > 0:
            facts.append(f"support {self.support[node]:.2f}")
        if self.rest[node] > 0.0:
            facts.append(f"{count_text(float(self.rest[node]))} in no child")
        return f"{self.words[node]} ({', '.join(facts)}) {', '.join(self.said[node])}".rstrip()

    def __str__(self) -> str:
        return limited_lines(self.format())


def consensus_of(
    post: DrawnTrees, probability: np.ndarray, min_support: float, join_cuts: bool = True
) -> ConsensusTree:
    """Return the tree of the cells with a probability above ``min_support``; see `Posterior.consensus_tree`.

    ``probability`` (n_cells,) is that of exact cells. With ``join_cuts``, cells that differ in the places of cuts alone
    are joined into groups. Two groups that each have a probability above one half are both in some tree, so they are
    nested or disjoint there.
    """
    min_support = check_number("min_support", min_support, "a number 0.5..1", 0.5, 1.0)
    check_flag("join_cuts", join_cuts)
    needed = min(min_support, 1.0 - CERTAIN)
    groups = join_cells(post, probability, needed) if join_cuts else exact_groups(post, probability)
    chosen = np.union1d([0], np.flatnonzero(groups.probability > needed)).astype(np.int64)
    nodes = most_probable_nodes(post, groups.of_node)[chosen]
    parent = _parents(ancestors_of_groups(post, groups.of_node, chosen))
    pairs: list[list[tuple[int, int]]] = [[]]
    paths: list[list[Condition]] = [[]]
    for i in range(1, len(chosen)):
        pairs.append(_nodes_of_both(post, groups.of_node, *chosen[[parent[i], i]].tolist()))
        paths.append(_path(post, pairs[i], int(nodes[i])))
    order = _preorder(parent, _places(parent, paths))
    up = np.where(parent[order] < 0, -1, np.argsort(order)[parent[order]])
    words, rows, depth = [ALL_ROWS], post.node_rows[nodes[order]], np.zeros(len(order), dtype=np.int64)
    # the conditions from the root to each node, parents first
    conditions: list[list[Condition]] = [[]]
    for place, (i, above) in enumerate(zip(order[1:].tolist(), up[1:].tolist(), strict=True), 1):
        is_joined = groups.is_joined[chosen[[parent[i], i]]]
        cuts = _cut_intervals(post, pairs[i]) if is_joined.any() else {}
        words.append(conditions_in_words(post.model.columns, paths[i], conditions[above], cuts))
        conditions.append(conditions[above] + paths[i])
        depth[place] = depth[above] + 1
        if is_joined[1] and pairs[i]:
            rows[place] = _mean_rows(post, pairs[i])
    in_children = np.bincount(up[1:], weights=rows[1:], minlength=len(order))
    model, stats = post.model, post.node_stats[nodes[order]]
    return ConsensusTree(
        words,
        np.concatenate([[1.0], groups.probability[chosen[order[1:]]]]),
        rows,
        np.where(in_children > 0.0, np.maximum(rows - in_children, 0.0), 0.0),
        up,
        depth,
        np.asarray(model.leaf.value(stats, model.target)) if has_values_by_leaf(model) else None,
        model.classes_,
        [tuple(word) for word in post.cells.key[post.cells.of_node[nodes[order]]].tolist()],
        lines_of_cells(model, stats, MOST_CLASSES),
    )


def _mean_rows(post: DrawnTrees, pairs: list[tuple[int, int]]) -> float:
    """Return the mean number of training rows in the lower nodes of (upper, lower) ``pairs``, rounded.

    The mean is weighted by the posterior weight of each tree.
    """
    node = np.array(pairs)[:, 1]
    weight = post.weight_of_tree[post.cells.tree_of_node[node]]
    return float(np.rint(np.average(post.node_rows[node], weights=weight if weight.any() else None)))


def _parents(is_above: np.ndarray) -> np.ndarray:
    """Return the parent (m,) of each group: the group above it that has the most groups above it.

    ``is_above[i, j]`` (m, m) is True if group j is above group i. Group 0, all rows, has parent -1.
    """
    n_above, parent = is_above.sum(axis=1), np.full(len(is_above), -1)
    for i in range(1, len(is_above)):
        # a group above i has fewer groups above it than i, so that no circle can arise
        candidates = [j for j in np.flatnonzero(is_above[i]).tolist() if n_above[j] < n_above[i]]
        parent[i] = max(candidates, key=lambda j: n_above[j], default=0)
    return parent


def _path(post: DrawnTrees, pairs: list[tuple[int, int]], alone: int) -> list[Condition]:
    """Return the conditions on the path between two nodes: the (upper, lower) pair in the most probable tree.

    If ``pairs`` is empty, because no tree drawn has both groups, return the conditions from the root to node ``alone``.
    """
    tree_of_node, above, node = post.cells.tree_of_node, -1, alone
    if pairs:
        log_posterior = post.log_prior_of_tree + post.log_score_of_tree
        above, node = max(pairs, key=lambda pair: log_posterior[tree_of_node[pair[1]]])
    path = path_to(post.distinct_trees, post.node_between, int(tree_of_node[node]), node)
    return [condition for at, condition in path if at >= above]


def _nodes_of_both(post: DrawnTrees, of_node: np.ndarray, parent: int, child: int) -> list[tuple[int, int]]:
    """Return the pair (node of ``parent``, node of ``child``) in each tree that has the first above the second.

    ``parent`` and ``child`` are groups, ``of_node`` (n_nodes,) the group of each node.
    """
    tree_of_node = post.cells.tree_of_node
    # a split that separates no rows gives parent and child the same cell: the path begins at the lowest such node
    last = {int(tree_of_node[node]): node for node in np.flatnonzero(of_node == parent).tolist()}
    first = {int(tree_of_node[node]): node for node in np.flatnonzero(of_node == child).tolist()[::-1]}
    return [(last[t], first[t]) for t in sorted(last.keys() & first.keys()) if last[t] < first[t]]


def _cut_intervals(post: DrawnTrees, pairs: list[tuple[int, int]]) -> Cuts:
    """Return the 90 % interval, over trees, of each cut on the path between the nodes of (upper, lower) ``pairs``.

    Intervals are by feature and side. If all trees have the same cut, it has no interval.
    """
    values: dict[tuple[int, bool], list[tuple[float, float]]] = {}
    for above, node in pairs:
        tree = int(post.cells.tree_of_node[node])
        tightest: dict[tuple[int, bool], float] = {}
        for at, condition in path_to(post.distinct_trees, None, tree, node):
            if at >= above and condition.categories < 0 and np.isfinite(condition.threshold):
                side, pick = (condition.feature, condition.left), min if condition.left else max
                tightest[side] = pick(condition.threshold, tightest.get(side, condition.threshold))
        for side, threshold in tightest.items():
            values.setdefault(side, []).append((threshold, float(post.weight_of_tree[tree])))
    out = {}
    for side, cuts in values.items():
        thresholds, weight = np.array(cuts).T
        lower, _, upper = weighted_quantiles(thresholds, weight, 0.9)
        if lower < upper:
            out[side] = (lower, upper)
    return out


def _places(parent: np.ndarray, paths: list[list[Condition]]) -> np.ndarray:
    """Return a sort key (m,) of each node among its siblings: children on the left side of a split come first.

    ``paths`` are the conditions between each node and its parent. Three or more siblings are ordered by their lower
    bounds of one feature: the one with thresholds in the conditions of most siblings, if at least two have it.
    """
    place = np.array([0.0, *(float(not path[0].left) for path in paths[1:])])
    for node in range(len(parent)):
        children = np.flatnonzero(parent == node)
        features = [k for i in children for k in {c.feature for c in paths[i] if c.categories < 0}]
        if len(children) < 3 or not features:
            continue
        count = np.bincount(features)
        if count.max() >= 2:
            lower = [[c.threshold for c in paths[i] if c.feature == count.argmax() and not c.left] for i in children]
            place[children] = [np.nanmax([-np.inf, *thresholds]) for thresholds in lower]
    return place


def _preorder(parent: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Return the nodes (m,) in preorder; siblings are ordered by the sort key ``place`` (m,)."""
    order, todo = [], [0]
    while todo:
        node = todo.pop()
        order.append(node)
        children = np.flatnonzero(parent == node)
        todo += children[np.argsort(-place[children], kind="stable")].tolist()
    return np.array(order)


class Groups(NamedTuple):
    """Groups of nodes of the distinct trees of a posterior: exact cells, or cells joined by their signatures."""

    of_node: np.ndarray
    """(n_nodes,) int64: the group of each node of ``coded_trees``, -1 for a node without rows; group 0 is all rows."""
    probability: np.ndarray
    """(n_groups,) probability that a tree has a node of the group."""
    is_joined: np.ndarray
    """(n_groups,) bool: True if the group consists of several exact cells."""


def exact_groups(post: DrawnTrees, probability: np.ndarray) -> Groups:
    """Return groups of which each is one exact cell with its ``probability`` (n_cells,)."""
    return Groups(post.cells.of_node, probability, np.zeros(len(probability), dtype=np.bool_))


def join_cells(post: DrawnTrees, probability: np.ndarray, least: float) -> Groups:
    """Join the cells of all nodes with the same signature, if nodes with this signature have a weight above ``least``.

    The signature of a node is the sequence of sides on its path, by feature, without the cuts. All other nodes are
    grouped by exact cell, which has ``probability`` (n_cells,). An exact cell more probable than ``least`` is not
    joined if less than three quarters of its weight would be, because then trees reach the same rows by different
    paths.
    """
    cells, has_rows = post.cells, post.cells.of_node >= 0
    number, weight = _number_signatures(post), post.weight_of_tree[cells.tree_of_node] * has_rows
    mass = np.bincount(number, weights=weight)
    of_pair = np.unique(np.column_stack([number, cells.of_node])[has_rows], axis=0)
    is_joined = (mass > least) & (np.bincount(of_pair[:, 0], minlength=len(mass)) > 1)
    in_joined = np.bincount(cells.of_node[has_rows], weights=(weight * is_joined[number])[has_rows])
    own = (probability > least) & (in_joined < 0.75 * probability)
    own[0] = True
    group = np.where(has_rows & is_joined[number] & ~own[cells.of_node], cells.n_cells + number, cells.of_node)
    used, of_node = np.unique(np.append(np.arange(-1, cells.n_cells), group), return_inverse=True)
    of_node = of_node[cells.n_cells + 1 :] - 1
    n_groups = len(used) - 1
    # a tree with several nodes of a group counts once
    once = np.unique(np.column_stack([cells.tree_of_node, of_node])[of_node >= cells.n_cells], axis=0)
    of_joined = np.bincount(once[:, 1], weights=post.weight_of_tree[once[:, 0]], minlength=n_groups)[cells.n_cells :]
    every = np.concatenate([np.where(own, probability, 0.0), of_joined])
    return Groups(of_node, every, np.arange(n_groups) >= cells.n_cells)


def _number_signatures(post: DrawnTrees) -> np.ndarray:
    """Number the signatures, and return the one of each node, (n_nodes,) int64; a root has signature 0.

    A signature maps each feature on the path to the sequence of sides taken, or to the categories that remain.
    """
    trees, columns = post.distinct_trees, post.model.columns
    feature, categories, is_missing = trees.feature.tolist(), trees.categories.tolist(), np.isnan(trees.threshold)
    every = {k: (1 << len(labels)) - 1 for k, labels in enumerate(columns.categories) if labels is not None}

    def below(node: int, sides: dict[int, Any], left: int, right: int) -> list[tuple[int, dict[int, Any]]]:
        """Return both children with their signatures, given the signature of the node."""
        k = feature[node]
        if categories[node] >= 0:
            remaining = sides.get(k, every[k])
            low, high = remaining & categories[node], remaining & ~categories[node]
        else:
            names = ("known", "missing") if is_missing[node] else ("<=", ">")
            low, high = ((*sides.get(k, ()), name) for name in names)
        return [(left, sides | {k: low}), (right, sides | {k: high})]

    seen: dict[tuple, int] = {(): 0}
    number = np.zeros(len(feature), dtype=np.int64)
    for t in range(post.n_distinct_trees):
        for node, _, sides in walk(trees, t, {}, below):
            number[node] = seen.setdefault(tuple(sorted(sides.items())), len(seen))
    return number


def ancestors_of_groups(post: DrawnTrees, of_node: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Return a (m, m) bool array, True at [i, j] if group j is above group i in most of the trees that have both.

    ``chosen`` (m,) are numbers of groups, the first that of all rows, and ``of_node`` (n_nodes,) the group of each
    node.
    """
    place = np.full(int(of_node.max()) + 2, -1)
    place[chosen] = np.arange(len(chosen))
    at, weight = place[of_node].tolist(), post.weight_of_tree
    above, both = np.zeros((len(chosen), len(chosen))), np.zeros((len(chosen), len(chosen)))

    def below(node: int, ancestors: frozenset[int], left: int, right: int) -> list[tuple[int, frozenset[int]]]:
        """Return both children, each with the set of chosen groups among its ancestors."""
        reached = ancestors if at[node] < 0 else ancestors | {at[node]}
        return [(left, reached), (right, reached)]

    for t in range(post.n_distinct_trees):
        present: set[int] = set()
        for node, _, ancestors in walk(post.distinct_trees, t, frozenset(), below):
            i = at[node]
            if i >= 0 and i not in ancestors:
                present.add(i)
                above[i, list(ancestors)] += weight[t]
        some = list(present)
        both[np.ix_(some, some)] += weight[t]
    return above > both / 2.0
