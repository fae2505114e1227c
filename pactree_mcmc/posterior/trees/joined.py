"""Cells that differ in the places of cuts alone, joined into one group.

The exact cell of a node is its set of training rows. If trees agree on the features but not on the cuts, no exact cell
may be in half of the trees. The *signature* of a node is, for each feature, the sequence of sides that the path from
the root takes; for a nominal feature it is the set of categories that remains. Two nodes of one tree never have the
same signature, because their paths diverge at a split, and the sequences of that feature differ from there on. So, as
with exact cells, two groups that are each in more than half of the trees are both in some tree, and are nested or
disjoint there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...tree.arrays import walk

if TYPE_CHECKING:
    from ..draws import DrawnTrees


class Groups(NamedTuple):
    """Groups of nodes of the distinct trees of a posterior: exact cells, or cells joined by their signatures."""

    of_node: np.ndarray
    """(n_nodes,) int64: the group of each node of ``coded_trees``, -1 if it has none; group 0 is all rows."""
    probability: np.ndarray
    """(n_groups,) probability that a tree has a node of the group."""
    is_joined: np.ndarray
    """(n_groups,) True if the group has several exact cells."""


def exact_groups(post: DrawnTrees, probability: np.ndarray) -> Groups:
    """Return the exact cells as groups."""
    return Groups(post.cells.of_node, probability, np.zeros(len(probability), dtype=np.bool_))


def join_cells(post: DrawnTrees, probability: np.ndarray, least: float) -> Groups:
    """Return groups by signature if these are in more than ``least`` of the trees, and otherwise exact cells.

    ``probability`` (n_cells,) is that of exact cells. An exact cell in more than ``least`` of the trees keeps a group
    of its own if less than three quarters of its weight are in groups by signature, because then trees reach the same
    rows by different paths.
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
    """Return the number of the signature of each node, (n_nodes,) int64; that of all rows is 0."""
    trees, columns = post.distinct_trees, post.model.columns
    feature, categories, is_missing = trees.feature.tolist(), trees.categories.tolist(), np.isnan(trees.threshold)
    every = {k: (1 << len(labels)) - 1 for k, labels in enumerate(columns.categories) if labels is not None}

    def below(node: int, sides: dict[int, Any], left: int, right: int) -> list[tuple[int, dict[int, Any]]]:
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
    """Return whether group j is above group i in most of the trees that have both, (m, m) bool.

    ``chosen`` (m,) are numbers of groups; the first is all rows.
    """
    place = np.full(int(of_node.max()) + 2, -1)
    place[chosen] = np.arange(len(chosen))
    at, weight = place[of_node].tolist(), post.weight_of_tree
    above, both = np.zeros((len(chosen), len(chosen))), np.zeros((len(chosen), len(chosen)))

    def below(node: int, ancestors: frozenset[int], left: int, right: int) -> list[tuple[int, frozenset[int]]]:
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
