"""The consensus tree: the cells that most trees have, nested in one another.

The exact cell of a node is its set of training rows. If trees agree on the features but not on the cuts, no exact cell
may be in half of the trees. So cells that differ in the places of cuts alone are joined into groups. The *signature* of
a node is, for each feature, the sequence of sides that the path from the root takes; for a nominal feature it is the
set of categories that remains. Two nodes of one tree never have the same signature, because their paths diverge at a
split, and the sequences of that feature differ from there on. So, as with exact cells, two groups that are each in more
than half of the trees are both in some tree, and are nested or disjoint there.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...core.checks import Seed, check_flag, check_number
from ...core.texts import limited_lines, with_short_repr
from ...model.model import lines_of_cells
from ...table.words import count_text
from ...tree.arrays import iterate_nodes
from ...tree.tree import MAX_SHOWN_CLASSES
from ..convergence import caveat_of
from ..distribution import TreeDistribution, documented, draws_of
from ..draws import Draws
from ..laws import has_values_by_leaf
from .paths import (
    ALL_ROWS,
    Condition,
    CutIntervals,
    beside_all_rows,
    conditions_in_words,
    interval_of_cut,
    path_to,
    stats_of_units,
    units_on_side,
)
from .shapes import weighted_quantiles
from .support import most_probable_nodes

CERTAINTY_TOLERANCE = 1e-9
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
    """(m,) number of training rows that satisfy the conditions of the node and of those above it, counted with their
    weights. These are the rows of the cell, or for joined cells those of the cuts in ``words``."""
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
    caveat: str = ""
    """Line with which the text begins: what can be used of draws that have not converged. Empty if they have."""

    def children(self, node: int) -> list[int]:
        """Return the children of ``node``."""
        return np.flatnonzero(self.parent == node).tolist()

    def format(self) -> str:
        """Return the tree as indented text, one line for each node: conditions, rows, support, and prediction.

        Examples
        --------
        >>> import exact, pactree_mcmc as pt
        >>> truth = exact.solve(pt.TreeModel([[float(x)] for x in range(60)], [x >= 30 for x in range(60)]))
        >>> print(truth.consensus_tree().format())
        all rows (60 rows) False: 0.500, True: 0.500
        |-- x0 <= 29.5 [28.5, 30.5] (30 rows, support 1.00) False: 0.969, True: 0.031
        `-- x0 > 29.5 [28.5, 30.5] (30 rows, support 1.00) False: 0.031, True: 0.969
        """
        lines = [self.caveat] * bool(self.caveat)
        todo = [(0, "", "")]
        while todo:
            node, prefix, indent = todo.pop()
            lines.append(prefix + self._line(node))
            for child in reversed(self.children(node)):
                branch, bar = ("`-- ", "    ") if child == self.children(node)[-1] else ("|-- ", "|   ")
                todo.append((child, indent + branch, indent + bar))
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


@documented
def consensus_tree(
    post: TreeDistribution, min_support: float = 0.5, *, join_cuts: bool = True, draws: int = 1000, rng: Seed = 0
) -> ConsensusTree:
    """Return the tree of the majority cells: those that more than half of all trees have, nested in one another.

    Parameters
    ----------
    min_support : float, default 0.5
        Cells with a larger probability than this are shown, in [0.5, 1]. At 1 cells that all trees have are shown.
    join_cuts : bool, default True
        Join cells that trees reach by the same sides of the same features, whatever the cuts, and give each cut
        that varies an interval, with probability 0.9 among these trees. With False only cells with exactly the same
        training rows are the same.
    {draws_1000}

    Returns
    -------
    ConsensusTree
        ``print`` shows it. The support is exact for an exact posterior and cells that are not joined.

    {raises}

    Notes
    -----
    Two cells that are each in more than half of the trees are both in some tree, so they are nested or disjoint.
    Conditions of joined cells are those of the most probable tree that has the cell; rows and predictions are those
    of the training rows that satisfy the conditions. The cost is that of `support`.

    Examples
    --------
    >>> import numpy as np, pactree_mcmc as pt
    >>> x = np.repeat([0.0, 1.0], 15)
    >>> post = pt.sample(pt.TreeModel(x[:, None], x > 0), 500, tune=50, chains=2, rng=1, kernel="grow-prune")
    >>> post.consensus_tree().words
    ['all rows', 'x0 <= 0.5', 'x0 > 0.5']
    """
    sampled = draws_of(post, draws, rng)
    min_support = check_number("min_support", min_support, "a number 0.5..1", 0.5, 1.0)
    check_flag("join_cuts", join_cuts)
    if post._cells is None:
        probability = sampled.cells.frequencies(sampled.weight_of_tree)
    else:
        probability = post._cells.probability_of(sampled.cells.key)
    threshold = min(min_support, 1.0 - CERTAINTY_TOLERANCE)
    groups = join_cells(sampled, probability, threshold) if join_cuts else exact_groups(sampled, probability)
    members = np.union1d([0], np.flatnonzero(groups.probability > threshold)).astype(np.int64)
    nodes = most_probable_nodes(sampled, groups.of_node)[members]
    parent = _parents_of_groups(ancestors_of_groups(sampled, groups.of_node, members))
    pairs: list[list[tuple[int, int]]] = [[]]
    paths: list[list[Condition]] = [[]]
    for i in range(1, len(members)):
        pairs.append(_node_pairs(sampled, groups.of_node, *members[[parent[i], i]].tolist()))
        paths.append(_path_between(sampled, pairs[i], int(nodes[i])))
    order = _nodes_in_preorder(parent, _sibling_sort_keys(parent, paths))
    parent_place = np.where(parent[order] < 0, -1, np.argsort(order)[parent[order]])
    model, texts, depth = sampled.model, [ALL_ROWS], np.zeros(len(order), dtype=np.int64)
    rows, stats = sampled.node_rows[nodes[order]], sampled.place_stats[nodes[order]].copy()
    # the conditions from the root to each node, parents first, and the units (merged rows) that satisfy them
    conditions: list[list[Condition]] = [[]]
    masks = [np.ones(model.units.n_units, dtype=np.bool_)]
    # True if the conditions are not those of one cell, or its statistics not those of all rows: trees have other cuts
    # there, rows that are not compared, or rows of one stage
    is_rule = np.full(len(order), sampled.cells.n_rows < sampled.cells.all_rows or not sampled.sees_all_rows)
    is_rule[0] = False
    if not sampled.sees_all_rows:
        stats[0] = stats_of_units(model, masks[0], stats.shape[1])
    for place, (i, parent_number) in enumerate(zip(order[1:].tolist(), parent_place[1:].tolist(), strict=True), 1):
        is_joined = groups.is_joined[members[[parent[i], i]]]
        is_rule[place] |= is_joined.any() or is_rule[parent_number]
        path = [beside_all_rows(model, one) for one in paths[i]] if is_rule[place] else paths[i]
        cuts = _cut_intervals(sampled, pairs[i]) if is_joined.any() else {}
        texts.append(conditions_in_words(model.columns, path, conditions[parent_number], cuts))
        conditions.append(conditions[parent_number] + path)
        depth[place] = depth[parent_number] + 1
        if groups.is_joined.any() or is_rule[place]:
            masks.append(np.logical_and.reduce([masks[parent_number], *(units_on_side(model, one) for one in path)]))
        if is_rule[place]:
            rows[place] = model.weight_of_unit[masks[place]].sum()
            stats[place] = stats_of_units(model, masks[place], stats.shape[1])
    in_children = np.bincount(parent_place[1:], weights=rows[1:], minlength=len(order))
    rest = np.where(in_children > 0.0, np.maximum(rows - in_children, 0.0), 0.0)
    for place in np.unique(parent_place[is_rule]).tolist():
        # children with cuts of different trees may overlap
        below = np.logical_or.reduce([masks[child] for child in np.flatnonzero(parent_place == place).tolist()])
        rest[place] = model.weight_of_unit[masks[place] & ~below].sum()
    return ConsensusTree(
        texts,
        np.concatenate([[1.0], groups.probability[members[order[1:]]]]),
        rows,
        rest,
        parent_place,
        depth,
        np.asarray(model.leaf.value(stats, model.target)) if has_values_by_leaf(model) else None,
        model.classes_,
        [tuple(word) for word in sampled.cells.key[sampled.cells.of_node[nodes[order]]].tolist()],
        lines_of_cells(model, stats, MAX_SHOWN_CLASSES),
        caveat_of(post),
    )


def _parents_of_groups(is_above: np.ndarray) -> np.ndarray:
    """Return the parent (m,) of each group in the consensus tree: that with most ancestors of the groups above it."""
    n_above, parent = is_above.sum(axis=1), np.full(len(is_above), -1)
    for i in range(1, len(is_above)):
        # a group above i has fewer groups above it than i, so that no circle can arise
        candidates = [j for j in np.flatnonzero(is_above[i]).tolist() if n_above[j] < n_above[i]]
        parent[i] = max(candidates, key=lambda j: n_above[j], default=0)
    return parent


def _path_between(draws: Draws, pairs: list[tuple[int, int]], lone_node: int) -> list[Condition]:
    """Return the conditions on the path between two nodes."""
    tree_of_node, upper, node = draws.cells.tree_of_node, -1, lone_node
    if pairs:
        key = draws.order_key_of_tree
        upper, node = max(pairs, key=lambda pair: key[tree_of_node[pair[1]]])
    path = path_to(draws.distinct_trees, draws.node_between, int(tree_of_node[node]), node)
    return [condition for ancestor, condition in path if ancestor >= upper]


def _node_pairs(draws: Draws, of_node: np.ndarray, parent: int, child: int) -> list[tuple[int, int]]:
    """Return the pair (node of ``parent``, node of ``child``) in each tree that has the first above the second."""
    # ``parent`` and ``child`` are numbers of groups of nodes, ``of_node`` (n_nodes,) is the group of each node.
    # Nodes are numbered over all trees. If a tree has several nodes of a group, the lowest of ``parent`` and the
    # highest of ``child`` are taken.
    tree_of_node = draws.cells.tree_of_node
    # a split that separates no rows gives parent and child the same cell: the path begins at the lowest such node
    upper = {int(tree_of_node[node]): node for node in np.flatnonzero(of_node == parent).tolist()}
    lower = {int(tree_of_node[node]): node for node in np.flatnonzero(of_node == child).tolist()[::-1]}
    return [(upper[t], lower[t]) for t in sorted(upper.keys() & lower.keys()) if upper[t] < lower[t]]


def _cut_intervals(draws: Draws, pairs: list[tuple[int, int]]) -> CutIntervals:
    """Return the 90 % interval, over trees by weight, of each cut on the path between the nodes of ``pairs``."""
    # a pair is (upper node, lower node). Intervals (lower, upper), as text, are by (feature, True for the left
    # side). Of several cuts of a tree on one side the tightest one counts. A cut whose interval is one value has
    # none.
    values: dict[tuple[int, bool], list[tuple[float, float]]] = {}
    for upper_node, node in pairs:
        tree = int(draws.cells.tree_of_node[node])
        tightest: dict[tuple[int, bool], float] = {}
        for ancestor, condition in path_to(draws.distinct_trees, None, tree, node):
            if ancestor >= upper_node and condition.categories < 0 and np.isfinite(condition.threshold):
                side, tighter = (condition.feature, condition.left), min if condition.left else max
                tightest[side] = tighter(condition.threshold, tightest.get(side, condition.threshold))
        for side, threshold in tightest.items():
            values.setdefault(side, []).append((threshold, float(draws.weight_of_tree[tree])))
    out = {}
    for side, cuts in values.items():
        thresholds, weight = np.array(cuts).T
        lower, _, upper = weighted_quantiles(thresholds, weight, 0.9)
        ends = interval_of_cut(draws.model, side[0], lower, upper)
        if ends is not None:
            out[side] = ends
    return out


def _sibling_sort_keys(parent: np.ndarray, paths: list[list[Condition]]) -> np.ndarray:
    """Return a sort key (m,) of each node among its siblings: children on the left side of a split come first."""
    # ``paths`` are the conditions between each node and its parent. Three or more siblings are ordered by their
    # lower bounds of one feature: the one with thresholds in the conditions of most siblings, if at least two have
    # it.
    sort_key = np.array([0.0, *(float(not path[0].left) for path in paths[1:])])
    for node in range(len(parent)):
        children = np.flatnonzero(parent == node)
        features = [k for i in children for k in {c.feature for c in paths[i] if c.categories < 0}]
        if len(children) < 3 or not features:
            continue
        count = np.bincount(features)
        if count.max() >= 2:
            lower = [[c.threshold for c in paths[i] if c.feature == count.argmax() and not c.left] for i in children]
            sort_key[children] = [np.nanmax([-np.inf, *thresholds]) for thresholds in lower]
    return sort_key


def _nodes_in_preorder(parent: np.ndarray, sort_key: np.ndarray) -> np.ndarray:
    """Return the node numbers (m,) in preorder, given the ``parent`` (m,) of each; siblings ascend in ``sort_key``."""
    order, todo = [], [0]
    while todo:
        node = todo.pop()
        order.append(node)
        children = np.flatnonzero(parent == node)
        todo += children[np.argsort(-sort_key[children], kind="stable")].tolist()
    return np.array(order)


class Groups(NamedTuple):
    """Groups of nodes of the distinct trees of a posterior: exact cells, or cells joined by their signatures."""

    of_node: np.ndarray
    """(n_nodes,) int64: the group of each node of ``coded_trees``, -1 for a node without rows; group 0 is all rows."""
    probability: np.ndarray
    """(n_groups,) probability that a tree has a node of the group."""
    is_joined: np.ndarray
    """(n_groups,) bool: True if the group consists of several exact cells."""


def exact_groups(draws: Draws, probability: np.ndarray) -> Groups:
    """Return groups of nodes of which each is one cell, a set of training rows, with its ``probability`` (n_cells,)."""
    return Groups(draws.cells.of_node, probability, np.zeros(len(probability), dtype=np.bool_))


def join_cells(draws: Draws, probability: np.ndarray, threshold: float) -> Groups:
    """Join the cells of all nodes with the same signature, if it has a posterior probability above ``threshold``."""
    # the signature of a node is the sequence of sides on its path, by feature, without the cuts. All other nodes
    # are grouped by exact cell, of posterior ``probability`` (n_cells,). An exact cell more probable than
    # ``threshold`` is not joined if less than three quarters of its probability would be in one group, since then
    # trees reach the same rows by different paths.
    cells, has_rows = draws.cells, draws.cells.of_node >= 0
    number, weight = np.where(has_rows, _number_signatures(draws), 0), draws.weight_of_tree[cells.tree_of_node]
    pairs, of_node = np.unique(np.column_stack([number, cells.of_node])[has_rows], axis=0, return_inverse=True)
    weight_of_pair = np.bincount(of_node.ravel(), weights=weight[has_rows])
    is_joined, is_exact = _choose_joined(pairs, weight_of_pair, probability, threshold)
    group = np.where(has_rows & is_joined[number] & ~is_exact[cells.of_node], cells.n_cells + number, cells.of_node)
    group_numbers, of_node = np.unique(np.append(np.arange(-1, cells.n_cells), group), return_inverse=True)
    of_node = of_node[cells.n_cells + 1 :] - 1
    n_groups = len(group_numbers) - 1
    # a tree with several nodes of a group counts once
    pairs = np.unique(np.column_stack([cells.tree_of_node, of_node])[of_node >= cells.n_cells], axis=0)
    of_joined = np.bincount(pairs[:, 1], draws.weight_of_tree[pairs[:, 0]], n_groups)[cells.n_cells :]
    all_probabilities = np.concatenate([np.where(is_exact, probability, 0.0), of_joined])
    return Groups(of_node, all_probabilities, np.arange(n_groups) >= cells.n_cells)


def _choose_joined(
    pairs: np.ndarray, weight: np.ndarray, probability: np.ndarray, threshold: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return whether the cells of each signature are joined, and whether each cell is a group by itself."""
    # ``pairs`` (m, 2) are the distinct pairs of a signature and a cell, ``weight`` (m,) is the posterior weight of
    # the nodes of each pair, and ``probability`` (n_cells,) that of each cell. Cells that become groups by
    # themselves leave their joined groups. These may then be at or below ``threshold`` and dissolve, so the choice
    # is repeated until nothing changes.
    signature, cell = pairs.T
    is_exact = np.arange(len(probability)) == 0
    while True:
        remains = ~is_exact[cell]
        mass = np.bincount(signature, weights=weight * remains)
        is_joined = (mass > threshold) & (np.bincount(signature, weights=remains) > 1.0)
        largest = np.zeros(len(probability))
        np.maximum.at(largest, cell, weight * is_joined[signature])
        more_exact = is_exact | ((probability > threshold) & (largest < 0.75 * probability))
        if np.array_equal(more_exact, is_exact):
            return is_joined, is_exact
        is_exact = more_exact


def _number_signatures(draws: Draws) -> np.ndarray:
    """Number the signatures, and return the one of each node, (n_nodes,) int64; a root has signature 0."""
    trees, columns = draws.distinct_trees, draws.model.columns
    feature, categories, is_missing = trees.feature.tolist(), trees.categories.tolist(), np.isnan(trees.threshold)
    all_categories = {k: (1 << len(labels)) - 1 for k, labels in enumerate(columns.categories) if labels is not None}

    def with_signatures(node: int, sides: dict[int, Any], left: int, right: int) -> list[tuple[int, dict[int, Any]]]:
        """Return both children with their signatures, given the signature of the node."""
        k = feature[node]
        if categories[node] >= 0:
            remaining = sides.get(k, all_categories[k])
            low, high = remaining & categories[node], remaining & ~categories[node]
        else:
            names = ("<=", ">")
            if is_missing[node]:
                names = ("missing", "known") if trees.default_left[node] else ("known", "missing")
            low, high = ((*sides.get(k, ()), name) for name in names)
        return [(left, sides | {k: low}), (right, sides | {k: high})]

    number_of_signature: dict[tuple, int] = {(): 0}
    number = np.zeros(len(feature), dtype=np.int64)
    for t in range(draws.n_distinct_trees):
        for node, _, sides in iterate_nodes(trees, t, {}, with_signatures):
            number[node] = number_of_signature.setdefault(tuple(sorted(sides.items())), len(number_of_signature))
    return number


def ancestors_of_groups(draws: Draws, of_node: np.ndarray, members: np.ndarray) -> np.ndarray:
    """Return a (m, m) bool array, True at [i, j] if group j is above group i in most of the draws that have both."""
    position = np.full(int(of_node.max()) + 2, -1)
    position[members] = np.arange(len(members))
    member_of_node, weight = position[of_node].tolist(), draws.weight_of_tree
    weight_above, weight_of_both = np.zeros((len(members), len(members))), np.zeros((len(members), len(members)))

    def extend(node: int, ancestors: frozenset[int], left: int, right: int) -> list[tuple[int, frozenset[int]]]:
        """Return both children, each with the set of indices in ``members`` of the groups of its ancestors."""
        extended = ancestors if member_of_node[node] < 0 else ancestors | {member_of_node[node]}
        return [(left, extended), (right, extended)]

    for t in range(draws.n_distinct_trees):
        present: set[int] = set()
        for node, _, ancestors in iterate_nodes(draws.distinct_trees, t, frozenset(), extend):
            i = member_of_node[node]
            if i >= 0 and i not in ancestors:
                present.add(i)
                weight_above[i, list(ancestors)] += weight[t]
        numbers = list(present)
        weight_of_both[np.ix_(numbers, numbers)] += weight[t]
    return weight_above > weight_of_both / 2.0
