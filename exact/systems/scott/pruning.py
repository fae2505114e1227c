"""Prunings of a tree: the best one of each size, for each penalty, for each alpha (Scott 2004, chapter 4)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from pactree_mcmc.core.checks import (
    as_number,
    check_choice,
    check_count,
    in_words,
    read_array,
    read_numbers,
    refuse_other_rows,
)
from pactree_mcmc.model import DirichletMultinomial, FixedTree, LeafPenalty, NormalInverseGamma, TreeModel
from pactree_mcmc.tree.arrays import LEAF
from pactree_mcmc.tree.tree import Tree

from ...answers import best_by_size, best_sums, hull_by_size, most_leaves
from ...graph.building import build_graph
from ...graph.cells import CellGraph
from ...recursion.draws import grow
from ...recursion.inside_outside import CELL, FEATURE, RIGHT
from ...recursion.terms import with_terms
from ...semirings.algebras import BestBySize
from ...semirings.hulls import Hull
from .penalties import dominates, increasing_penalty, is_concave, sizes_penalty

ROUNDING = 1e-13
"""Costs below this fraction of the root's are rounding."""
FIRST_SIZES = 16
"""Sizes tried first when a penalty is not concave."""


class Chosen(NamedTuple):
    """The tree with the largest log weight minus penalty, before it is grown."""

    semiring: Hull | BestBySize
    wanted: int
    """Which of the root's trees it is, in the semiring's terms."""
    log_weight: float
    penalty: float


def best_for_sizes(graph: CellGraph, penalty: Callable[[np.ndarray], np.ndarray]) -> Chosen:
    """The tree of a graph with the largest log weight minus a penalty by the number of leaves, nowhere decreasing.

    A concave penalty is smallest at a corner of the hull of (leaves, log weight) (Scott 2004, Theorem 18, whose proof
    needs no tree); for others the best trees of as many sizes as can matter are found.
    """
    most = int(most_leaves(graph)[0])
    penalties = penalty(np.arange(1.0, most + 1.0))
    if is_concave(penalties):
        hull = hull_by_size(graph)
        corners = slice(int(hull.start[0]), int(hull.start[0] + hull.length[0]))
        paid = penalties[hull.leaves[corners].astype(np.int64) - 1]
        i = int(np.argmax(hull.weight[corners] - paid))
        return Chosen(hull, i, float(hull.weight[corners][i]), float(paid[i]))
    largest, tried = best_sums(graph)[0], FIRST_SIZES
    while True:
        sizes = best_by_size(graph, min(tried, most))
        n = int(sizes.wide[0])
        value = sizes.value[:n] - penalties[:n]
        i = int(np.argmax(value))
        useful = int(np.sum(largest - penalties > value[i]))
        if useful <= tried:
            return Chosen(sizes, i, float(sizes.value[i]), float(penalties[i]))
        tried = min(useful, 4 * tried)


class Pruned(NamedTuple):
    """One pruning of a tree."""

    tree: Tree
    cost: float
    """Mean over the rows of the errors or squared errors it makes."""
    penalty: float


@dataclass(frozen=True, eq=False)
class PruningFamily:
    """The prunings that minimise ``cost + alpha * penalty(leaves)`` for some alpha, the largest first.

    Attributes
    ----------
    n_leaves : ndarray of shape (m,)
        Number of leaves of each, decreasing to 1.
    cost : ndarray of shape (m,)
        Cost of each, mean over the rows.
    threshold : ndarray of shape (m,)
        Pruning l is best for alpha from ``threshold[l]`` (0 for the first) up to ``threshold[l + 1]``, where the next
        one, which is smaller, is as good.
    """

    n_leaves: np.ndarray
    cost: np.ndarray
    threshold: np.ndarray
    _grow: Callable[[int], Tree] = field(repr=False)

    def __len__(self) -> int:
        return len(self.n_leaves)

    def tree(self, member: int) -> Tree:
        """Returns pruning number ``member``."""
        return self._grow(check_count("member", member, 0, len(self) - 1))

    def at(self, alpha: float) -> Tree:
        """Returns the smallest pruning that minimises ``cost + alpha * penalty(leaves)``, alpha >= 0."""
        if as_number(alpha) is None or not alpha >= 0.0:
            raise ValueError(f"alpha={in_words(alpha)} is out of range; give a number >= 0.")
        return self.tree(int(np.searchsorted(self.threshold, alpha, side="right")) - 1)


class Prunings:
    """All prunings of a tree, with their costs on given rows.

    A pruning predicts the majority class, or the mean, of the rows in each of its leaves.

    Parameters
    ----------
    tree : Tree, FixedTree, or fitted scikit-learn tree
        For a scikit-learn tree X is rounded to float32, as it does itself.
    X : table of shape (n, p)
        At least two rows: those that grew the tree (CART), or others (reduced-error pruning).
    y : array-like of shape (n,)
        Labels, or numbers.
    loss : {"errors", "squares"}, optional
        Default: "squares" for floats and for scikit-learn's regression trees, else "errors".
    sample_weight : array-like of shape (n,), optional
        Weights >= 0 of the rows, not all 0.

    Attributes
    ----------
    tree : Tree
        The whole tree, with the values of the given rows.
    node_cost : ndarray of shape (n_nodes,)
        Cost of each node as a leaf; costs are means over all rows, so that those of a tree's leaves add.

    Raises
    ------
    ValueError
        If the tree has joint nodes, or the arguments do not fit.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 0, 1, 0])
    >>> prunings = Prunings(DecisionTreeClassifier().fit(X, y), X, y)
    >>> prunings.minimum_cost.tolist()
    [inf, 0.25, 0.25, 0.0]
    >>> prunings.weakest_link().threshold.tolist()
    [0.0, 0.125]
    """

    def __init__(self, tree: Any, X: Any, y: Any, *, loss: str | None = None, sample_weight: Any = None) -> None:
        refuse_other_rows(X=X, y=y, sample_weight=sample_weight)
        design, X, is_regressor = _read_design(tree, X)
        labels = read_array("y", y)
        if loss is None:
            loss = "squares" if is_regressor or labels.dtype.kind == "f" else "errors"
        check_choice("loss", loss, ("errors", "squares"))
        leaf = DirichletMultinomial() if loss == "errors" else NormalInverseGamma()
        model = TreeModel(X, y, tree_prior=LeafPenalty(0.0), split_prior=design, leaf=leaf, sample_weight=sample_weight)
        graph = build_graph(model)
        weight, value, cost = _as_leaves(model, graph.stats)
        cost[cost < ROUNDING * cost[0]] = 0.0
        _inherit(value, weight == 0.0, graph)
        self._model, self._weight = model, float(weight[0])
        self._graph = with_terms(graph, log_stop=-cost, log_split=0.0, log_rule=0.0)
        self.node_cost = cost / weight[0]
        asked, between = design.tree._key(), design.tree.between
        self.tree = Tree(*asked, value=value, columns=model.columns, classes=model.classes_, between=between)

    @cached_property
    def _by_size(self) -> BestBySize:
        return best_by_size(self._graph, self.tree.n_leaves)

    @cached_property
    def _hull(self) -> Hull:
        return hull_by_size(self._graph)

    @cached_property
    def minimum_cost(self) -> np.ndarray:
        """Cost of the best pruning of each size, (n_leaves + 1,); entry 0 is inf. O(n_leaves^2) (Figure 4.1)."""
        costs = -self._by_size.value[: self.tree.n_leaves] / self._weight
        return np.concatenate([[np.inf], costs + 0.0])

    def of_size(self, n_leaves: int) -> Tree:
        """Returns the minimum cost tree with ``n_leaves`` leaves.

        Raises
        ------
        ValueError
            If no pruning has so many leaves.
        """
        check_count("n_leaves", n_leaves, 1, self.tree.n_leaves)
        return self._grown(self._by_size, int(n_leaves) - 1)

    def best(self, penalty: Any) -> Pruned:
        """Returns the pruning that minimises ``cost + penalty(leaves)``; of several the smallest.

        Parameters
        ----------
        penalty : function of an array of numbers of leaves, or array
            Penalty of 1, 2, ... leaves, finite and nondecreasing.

        Returns
        -------
        Pruned

        Raises
        ------
        ValueError
            If the penalty decreases or is not finite.

        Notes
        -----
        A concave (sub-additive) penalty is minimised over the weakest-link trees alone (Theorem 18), others over the
        minimum cost trees of all sizes that can matter (equation 4.3).
        """
        found = best_for_sizes(self._graph, lambda leaves: self._weight * sizes_penalty(penalty, leaves))
        tree = self._grown(found.semiring, found.wanted)
        return Pruned(tree, -found.log_weight / self._weight + 0.0, found.penalty / self._weight)

    def family(self, penalty: Any, *, dominated_by: Any = None) -> PruningFamily:
        """Returns the prunings that minimise ``cost + alpha * penalty(leaves)``, for all alpha.

        Parameters
        ----------
        penalty : function of an array of numbers of leaves, or array
            Penalty of 1, 2, ... leaves, finite and increasing.
        dominated_by : function or array, optional
            Another such penalty that dominates this one (`dominates`): only the members of its family are looked at,
            among which all of this family are (Theorem 18).

        Returns
        -------
        PruningFamily

        Raises
        ------
        ValueError
            If a penalty does not increase everywhere or is not finite, or the other one does not dominate it.

        Notes
        -----
        Figure 4.3. For a concave penalty only weakest-link trees are looked at (Theorem 18 with the penalty ``k``).

        Examples
        --------
        >>> X, y = np.arange(8.0)[:, None], np.array([0, 0, 1, 1, 0, 1, 1, 1])
        >>> tree = Tree([0, 0, -1, -1, 0, -1, -1], [3.5, 1.5, 0, 0, 4.5, 0, 0], [1, 2, 0, 0, 5, 0, 0],
        ...             [4, 3, 0, 0, 6, 0, 0])
        >>> Prunings(tree, X, y).family(np.sqrt).n_leaves.tolist()
        [4, 1]
        """
        phi = increasing_penalty(penalty, self.tree.n_leaves)
        semiring: Any
        if dominated_by is not None:
            other = increasing_penalty(dominated_by, self.tree.n_leaves)
            if not dominates(other, phi, self.tree.n_leaves):
                raise ValueError("dominated_by does not dominate the penalty (Definition 1); leave it out.")
            within = self.family(dominated_by)
            sizes, cost = within.n_leaves[::-1], within.cost[::-1]
            members, threshold = follow_hull(cost, phi[sizes - 1])
            return PruningFamily(
                sizes[members], cost[members] + 0.0, threshold, lambda i: self.of_size(int(sizes[members[i]]))
            )
        if is_concave(phi):
            corners = slice(int(self._hull.start[0]), int(self._hull.start[0] + self._hull.length[0]))
            sizes, cost = self._hull.leaves[corners].astype(np.int64), -self._hull.weight[corners] / self._weight
            members, threshold = follow_hull(cost, phi[sizes - 1])
            semiring = self._hull
        else:
            sizes, cost = np.arange(1, self.tree.n_leaves + 1), self.minimum_cost[1:]
            members, threshold = follow_hull(cost, phi)
            semiring = self._by_size
        return PruningFamily(
            sizes[members], cost[members] + 0.0, threshold, lambda i: self._grown(semiring, int(members[i]))
        )

    def weakest_link(self) -> PruningFamily:
        """Returns the family of CART's weakest-link pruning, with a penalty alpha per leaf: each tree is a pruning of
        the one before.
        """
        return self.family(lambda leaves: leaves)

    def _grown(self, semiring: Any, wanted: int) -> Tree:
        nodes = grow(self._model, self._graph, semiring, [wanted]).nodes
        return _kept(self.tree, self._graph.design[nodes[:, CELL]], nodes[:, FEATURE], nodes[:, RIGHT])

    def __repr__(self) -> str:
        return f"Prunings({self.tree!r}, cost={self.node_cost[self.tree.feature == LEAF].sum():.6g})"


def follow_hull(cost: np.ndarray, penalty: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places of the family's members among trees of ascending ``penalty``, largest first, and their thresholds.

    From the smallest tree of least cost on, the next one is that with the least
    ``gamma = (rise of cost) / (fall of penalty)``, of several the smallest (Figure 4.3). Costs that differ by rounding
    are equal, so that of several trees on one line only the ends are members.
    """
    slack = ROUNDING * float(np.abs(cost).max())
    members, threshold = [int(np.argmax(cost <= cost.min() + slack))], [0.0]
    while members[-1] > 0:
        here = members[-1]
        rise, fall = cost[:here] - cost[here], penalty[here] - penalty[:here]
        least = float((rise / fall).min())
        members.append(int(np.argmax(rise <= least * fall + slack)))
        threshold.append(max(least, 0.0))
    return np.array(members), np.array(threshold)


def _read_design(tree: Any, X: Any) -> tuple[FixedTree, Any, bool]:
    """The design, the table as the tree reads it, and whether it is a regression tree of scikit-learn."""
    if isinstance(tree, Tree):
        return FixedTree(tree), X, False
    if not isinstance(tree, FixedTree):
        return FixedTree.from_sklearn(tree), _rounded(X), not hasattr(tree, "classes_")
    if tree.joint.any():
        raise ValueError("the tree has joint nodes, which no pruning can part from their parents; give a binary tree.")
    return tree, X, False


def _rounded(X: Any) -> np.ndarray:
    """The table in the precision in which scikit-learn compares."""
    with np.errstate(over="ignore"):
        return read_numbers("X", X).astype(np.float32)


def _as_leaves(model: TreeModel, stats: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weight, value (class fractions, or mean) and cost (errors, or squares about the mean) of cells as leaves."""
    if model.classes_ is None:
        weight, mean, squares = NormalInverseGamma.spread(stats)
        return weight, (mean + model.target.center)[:, None], np.maximum(squares, 0.0)
    weight = stats.sum(axis=1)
    return weight, stats / np.maximum(weight, 1e-300)[:, None], weight - stats.max(axis=1)


def _inherit(value: np.ndarray, is_empty: np.ndarray, graph: CellGraph) -> None:
    """Give cells without rows the value of the cell above."""
    parent = np.zeros(len(value), dtype=np.int64)
    above = np.repeat(np.arange(graph.n_cells), np.diff(graph.first_edge))
    parent[graph.left], parent[graph.right] = above, above
    for i in np.flatnonzero(is_empty):
        value[i] = value[parent[i]]


def _kept(tree: Tree, nodes: np.ndarray, feature: np.ndarray, right: np.ndarray) -> Tree:
    """The tree made of some ``nodes`` of a tree, in preorder, with their new ``feature`` and ``right``."""
    inner = feature != LEAF
    return Tree(
        np.where(inner, tree.feature[nodes], LEAF),
        np.where(inner, tree.threshold[nodes], 0.0),
        np.where(inner, np.arange(len(nodes)) + 1, 0),
        np.where(inner, right, 0),
        np.where(inner, tree.categories[nodes], -1),
        inner & tree.default_left[nodes],
        value=None if tree.value is None else tree.value[nodes],
        columns=tree.columns,
        classes=tree.classes,
        between=None if tree.between is None else tree.between[nodes],
    )
