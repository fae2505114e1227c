"""Prunings of a tree, and penalties by the number of leaves (Scott 2004, chapter 4)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from pactree_mcmc.core import checks
from pactree_mcmc.core.checks import check_count, read_numbers
from pactree_mcmc.model import DirichletMultinomial, FixedTree, LeafPenalty, NormalInverseGamma, TreeModel
from pactree_mcmc.table.reader import Table
from pactree_mcmc.tree.arrays import LEAF
from pactree_mcmc.tree.tree import Tree

from ..graph.build import build_graph
from ..graph.cells import CellGraph
from ..recursion.inside_outside import CELL, FEATURE, RIGHT
from ..recursion.semirings import BestBySize, Hull
from ..recursion.trees import grow_chosen_trees
from ..sums import best_by_size, best_sums, hull_by_size, most_leaves

LARGEST_PENALTY = 1e150  # largest penalty allowed, so that the product of two is finite
FIRST_SIZES = 16  # sizes (numbers of leaves) tried first if the best tree is not a vertex of the hull


class PenalisedChoice(NamedTuple):
    """The tree with the largest log weight minus penalty, in the form from which `grow_chosen_trees` makes it."""

    semiring: Hull | BestBySize
    tree_number: int  # Number of the tree at the root: of a vertex of the hull, or of a coefficient
    log_weight: float  # Log weight of the tree, the penalty not included
    penalty: float  # Penalty of its number of leaves


def best_for_sizes(graph: CellGraph, penalty: Callable[[np.ndarray], np.ndarray]) -> PenalisedChoice:
    """Return the tree with the largest log weight minus a nondecreasing penalty by the number of leaves."""
    # Under a concave penalty the best tree is a vertex of the hull of (leaves, log weight) (Scott 2004, Theorem 18,
    # whose proof does not need a fixed tree). Under others the best trees of all sizes that can matter are compared
    max_leaves = int(most_leaves(graph)[0])
    penalties = penalty(np.arange(1.0, max_leaves + 1.0))
    if is_concave(penalties):
        hull = hull_by_size(graph)
        leaves, weight = root_vertices(hull)
        penalties = penalties[leaves - 1]
        i = int(np.argmax(weight - penalties))
        return PenalisedChoice(hull, i, float(weight[i]), float(penalties[i]))
    largest, n_sizes = best_sums(graph)[0], FIRST_SIZES
    while True:
        sizes = best_by_size(graph, min(n_sizes, max_leaves))
        n = int(sizes.n_sizes[0])
        value = sizes.value[:n] - penalties[:n]
        i = int(np.argmax(value))
        # no tree of a size beyond these can be better, whatever its log weight
        n_useful = int(np.sum(largest - penalties > value[i]))
        if n_useful <= n_sizes:
            return PenalisedChoice(sizes, i, float(sizes.value[i]), float(penalties[i]))
        n_sizes = min(n_useful, 4 * n_sizes)


def root_vertices(hull: Hull) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of leaves, int64, and the log weights of the vertices of the root's hull."""
    vertices = slice(int(hull.start[0]), int(hull.start[0] + hull.length[0]))
    return hull.leaves[vertices].astype(np.int64), hull.weight[vertices]


def sizes_penalty(penalty: Any, leaves: np.ndarray) -> np.ndarray:
    """Return the values of a penalty, a function or an array, at ascending `leaves`: finite, nondecreasing."""
    if callable(penalty):
        out = read_numbers("what penalty returns", penalty(leaves))
    else:
        values = read_numbers("penalty", penalty)
        if values.ndim != 1 or len(values) < leaves[-1]:
            raise ValueError(f"penalty has shape {values.shape}; give values for 1 to {int(leaves[-1])} leaves.")
        out = values[leaves.astype(np.int64) - 1]
    if out.shape != leaves.shape or not np.isfinite(out).all():
        raise ValueError("penalty must return a finite number for each number of leaves in the array it is given.")
    if np.abs(out).max(initial=0.0) > LARGEST_PENALTY:
        raise ValueError(f"penalty is as large as {np.abs(out).max():.3g}; give penalties up to {LARGEST_PENALTY:g}.")
    falls = out[1:] < out[:-1]
    if falls.any():
        i = int(np.argmax(falls))
        raise ValueError(
            f"the penalty falls from {out[i]:.6g} for {leaves[i]:g} leaves to {out[i + 1]:.6g} for {leaves[i + 1]:g}; "
            "give one that increases with the number of leaves."
        )
    return out


def increasing_penalty(penalty: Any, max_leaves: int) -> np.ndarray:
    """Return the values of a penalty for 1 to ``max_leaves`` leaves, which must strictly increase (else ValueError)."""
    phi = sizes_penalty(penalty, np.arange(1.0, max_leaves + 1.0))
    if np.any(np.diff(phi) <= 0.0):
        k = int(np.argmax(np.diff(phi) <= 0.0)) + 1
        raise ValueError(f"the penalty of {k + 1} leaves is not above that of {k}; give an increasing one.")
    return phi


def is_concave(values: np.ndarray) -> bool:
    """Return True if values at 1, 2, ... are concave up to rounding, as a sub-additive penalty in Scott's sense is."""
    bend = np.diff(values, 2)
    return bool(np.all(bend <= 1e-12 * max(1.0, float(np.abs(values).max(initial=0.0)))))


def dominates(first: Any, second: Any, max_leaves: int) -> bool:
    """Return True if one penalty of the number of leaves dominates another (Scott 2004, definition 1).

    ``(g(a) - g(b)) / (g(a) - g(c)) <= (f(a) - f(b)) / (f(a) - f(c))`` for all ``a > b > c``, with f the first and g the
    second: g is a concave function of f. Then every pruning that is best under ``alpha g`` for some alpha is so under
    ``alpha f`` for another one, for every tree (Theorem 18). A penalty that is dominated by ``k`` is sub-additive in
    Scott's words.

    Parameters
    ----------
    first, second : function of an array of numbers of leaves, or array
        Increasing penalties of 1, 2, ... leaves.
    max_leaves : int
        Largest number of leaves, >= 1.

    Notes
    -----
    It is enough that ``(g(k + 1) - g(k)) / (f(k + 1) - f(k))`` does not increase: O(max_leaves), up to rounding.
    Scott's Propositions 9 and 10 are conditions on functions under which this holds for all sizes.

    Examples
    --------
    >>> import numpy as np
    >>> dominates(lambda k: k, np.sqrt, 1000), dominates(np.sqrt, lambda k: k, 1000)
    (True, False)
    """
    check_count("max_leaves", max_leaves)
    f, g = increasing_penalty(first, max_leaves), increasing_penalty(second, max_leaves)
    slope = np.diff(g) / np.diff(f)
    return bool(np.all(np.diff(slope) <= 1e-9 * slope[:-1]))


COST_ROUNDING = 1e-13  # fraction of the root's cost below which costs are rounding errors


class BestPruning(NamedTuple):
    """One pruning of a tree."""

    tree: Tree  # The pruning
    cost: float  # Mean over the rows of errors, or of squared errors
    penalty: float  # Penalty of its number of leaves


@dataclass(frozen=True, eq=False)
class PruningFamily:
    """The prunings that minimise ``cost + alpha * penalty(leaves)`` for some alpha, the largest first.

    Attributes
    ----------
    n_leaves : ndarray of shape (m,)
        Number of leaves of each pruning, decreasing to 1.
    cost : ndarray of shape (m,)
        Cost of each pruning, the mean over the rows.
    threshold : ndarray of shape (m,)
        Pruning l is best for alpha from ``threshold[l]`` (0 for the first) up to ``threshold[l + 1]``, at which the
        next pruning, which is smaller, is as good.
    """

    n_leaves: np.ndarray
    cost: np.ndarray
    threshold: np.ndarray
    _grow: Callable[[int], Tree] = field(repr=False)

    def __len__(self) -> int:
        return len(self.n_leaves)

    def tree(self, member: int) -> Tree:
        """Return pruning number ``member``."""
        return self._grow(checks.check_count("member", member, 0, len(self) - 1))

    def at(self, alpha: float) -> Tree:
        """Return the smallest pruning that minimises ``cost + alpha * penalty(leaves)``, alpha >= 0."""
        if checks.as_number(alpha) is None or not alpha >= 0.0:
            raise ValueError(f"alpha={checks.repr_of(alpha)} is out of range; give a number >= 0.")
        return self.tree(int(np.searchsorted(self.threshold, alpha, side="right")) - 1)


class Prunings:
    """All prunings of a tree, with their costs on given rows.

    A pruning predicts the majority class, or the mean, of the rows in each of its leaves.

    Parameters
    ----------
    tree : Tree, FixedTree, or fitted scikit-learn tree
        The whole tree. For a scikit-learn tree X is rounded to float32, as scikit-learn does.
    X : table of shape (n, p)
        At least two rows: those with which the tree was grown (CART), or others (reduced-error pruning).
    y : array-like of shape (n,)
        Labels, or numbers.
    loss : {"errors", "squares"}, optional
        Default: "squares" for floats and for scikit-learn's regression trees, else "errors".
    sample_weight : array-like of shape (n,), optional
        Weights >= 0 of the rows, not all 0.

    Attributes
    ----------
    tree : Tree
        The whole tree, with the values of these rows.
    node_cost : ndarray of shape (n_nodes,)
        Cost of each node as a leaf; costs are means over all rows, so that those of a tree's leaves add.

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
        checks.refuse_other_rows(X=X, y=y, sample_weight=sample_weight)
        design, X, is_regressor = _read_design(tree, X)
        labels = checks.read_array("y", y)
        if loss is None:
            loss = "squares" if is_regressor or labels.dtype.kind == "f" else "errors"
        checks.check_choice("loss", loss, ("errors", "squares"))
        leaf = DirichletMultinomial() if loss == "errors" else NormalInverseGamma()
        model = TreeModel(X, y, tree_prior=LeafPenalty(0.0), split_prior=design, leaf=leaf, sample_weight=sample_weight)
        graph = build_graph(model)
        weight, value, cost = _leaf_values_and_costs(model, graph.stats)
        cost[cost < COST_ROUNDING * cost[0]] = 0.0
        parent = np.full(graph.n_cells, -1)
        above = np.repeat(np.arange(graph.n_cells), np.diff(graph.first_edge))
        parent[graph.left], parent[graph.right] = above, above
        inherit_values(value, weight == 0.0, parent)
        self._model, self._weight = model, float(weight[0])
        self._graph = graph.with_terms(log_stop=-cost, log_split=0.0, log_rule=0.0)
        self.node_cost = cost / weight[0]
        whole_tree = design.match_columns(model.columns).tree
        whole_tree = replace(whole_tree, rows=None, words=None)
        self.tree = replace(whole_tree, value=value, columns=model.columns, classes=model.classes_)

    @cached_property
    def _by_size(self) -> BestBySize:
        """The prunings of least cost of each number of leaves, as the result of a recursion over the nodes."""
        return best_by_size(self._graph, self.tree.n_leaves)

    @cached_property
    def _hull(self) -> Hull:
        return hull_by_size(self._graph)

    @cached_property
    def minimum_cost(self) -> np.ndarray:
        """Cost of the best pruning of each size, (n_leaves + 1,); entry 0 is inf. O(n_leaves^2) (Figure 4.1)."""
        return np.concatenate([[np.inf], -self._by_size.value[: self.tree.n_leaves] / self._weight + 0.0])

    def of_size(self, n_leaves: int) -> Tree:
        """Return the minimum cost tree with ``n_leaves`` leaves."""
        checks.check_count("n_leaves", n_leaves, 1, self.tree.n_leaves)
        return self._grow_pruning(self._by_size, int(n_leaves) - 1)

    def best(self, penalty: Any) -> BestPruning:
        """Return the pruning that minimises ``cost + penalty(leaves)``; of several the smallest.

        Parameters
        ----------
        penalty : function of an array of numbers of leaves, or array
            Penalty of 1, 2, ... leaves, finite and nondecreasing.

        Notes
        -----
        A concave (sub-additive) penalty is minimised over the weakest-link trees alone (Theorem 18), others over the
        minimum cost trees of all sizes that can matter (equation 4.3).
        """
        best = best_for_sizes(self._graph, lambda leaves: self._weight * sizes_penalty(penalty, leaves))
        tree = self._grow_pruning(best.semiring, best.tree_number)
        return BestPruning(tree, -best.log_weight / self._weight + 0.0, best.penalty / self._weight)

    def family(self, penalty: Any, *, dominated_by: Any = None) -> PruningFamily:
        """Return the prunings that minimise ``cost + alpha * penalty(leaves)``, for all alpha.

        Parameters
        ----------
        penalty : function of an array of numbers of leaves, or array
            Penalty of 1, 2, ... leaves, finite and increasing.
        dominated_by : function or array, optional
            Another such penalty that dominates this one (`dominates`): only the members of its family are compared,
            among which all of this family are (Theorem 18).

        Notes
        -----
        Figure 4.3. For a concave penalty only weakest-link trees are compared (Theorem 18 with the penalty ``k``).

        Examples
        --------
        >>> X, y = np.arange(8.0)[:, None], np.array([0, 0, 1, 1, 0, 1, 1, 1])
        >>> tree = Tree([0, 0, -1, -1, 0, -1, -1], [3.5, 1.5, 0, 0, 4.5, 0, 0], [1, 2, 0, 0, 5, 0, 0],
        ...             [4, 3, 0, 0, 6, 0, 0])
        >>> Prunings(tree, X, y).family(np.sqrt).n_leaves.tolist()
        [4, 1]
        """
        phi = increasing_penalty(penalty, self.tree.n_leaves)
        if dominated_by is not None:
            other = increasing_penalty(dominated_by, self.tree.n_leaves)
            if not dominates(other, phi, self.tree.n_leaves):
                raise ValueError("dominated_by does not dominate the penalty (Definition 1); leave it out.")
            larger_family = self.family(dominated_by)
            sizes, cost = larger_family.n_leaves[::-1], larger_family.cost[::-1]
        elif is_concave(phi):
            sizes, log_weight = root_vertices(self._hull)
            cost = -log_weight / self._weight
        else:
            sizes, cost = np.arange(1, self.tree.n_leaves + 1), self.minimum_cost[1:]
        members, threshold = follow_hull(cost, phi[sizes - 1])

        def member_tree(member: int) -> Tree:
            """Return the tree of a member of the family."""
            if dominated_by is None and is_concave(phi):
                return self._grow_pruning(self._hull, int(members[member]))
            return self.of_size(int(sizes[members[member]]))

        return PruningFamily(sizes[members], cost[members] + 0.0, threshold, member_tree)

    def weakest_link(self) -> PruningFamily:
        """Return the family of CART's weakest-link pruning, with a penalty alpha per leaf.

        Each tree of this family is a pruning of the tree before.
        """
        return self.family(lambda leaves: leaves)

    def _grow_pruning(self, semiring: Any, tree_number: int) -> Tree:
        """Return a pruning of a semiring, by vertex (`Hull`) or number of leaves minus 1 (`BestBySize`)."""
        nodes = grow_chosen_trees(self._model, self._graph, semiring, [tree_number]).nodes
        return _subtree(self.tree, self._graph.design[nodes[:, CELL]], nodes[:, FEATURE], nodes[:, RIGHT])

    def __repr__(self) -> str:
        return f"Prunings({self.tree!r}, cost={self.node_cost[self.tree.feature == LEAF].sum():.6g})"


def follow_hull(cost: np.ndarray, penalty: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the trees that minimise cost + alpha * penalty for some alpha, largest first, and their thresholds."""
    # A threshold is the alpha from which on a tree is best, 0 for the first. Tree j is as good as the larger tree i at
    # alpha = (cost_j - cost_i) / (penalty_i - penalty_j). The first member is the smallest tree of least cost, the next
    # the tree with the least such alpha, of several the smallest (Figure 4.3). Costs that differ by rounding are equal,
    # so that of several trees on one line only the ends are members
    slack = COST_ROUNDING * float(np.abs(cost).max())
    members, threshold = [int(np.argmax(cost <= cost.min() + slack))], [0.0]
    while members[-1] > 0:
        member = members[-1]
        rise, fall = cost[:member] - cost[member], penalty[member] - penalty[:member]
        least = float((rise / fall).min())
        members.append(int(np.argmax(rise <= least * fall + slack)))
        threshold.append(max(least, 0.0))
    return np.array(members), np.array(threshold)


def _read_design(tree: Any, X: Any) -> tuple[FixedTree, Any, bool]:
    """Return a tree as a `FixedTree`, its table, and True for a scikit-learn regression tree."""
    # a scikit-learn tree reads X rounded to float32
    if isinstance(tree, Tree):
        return FixedTree(tree), X, False
    if not isinstance(tree, FixedTree):
        with np.errstate(over="ignore"):
            rounded = checks.read_numbers("X", X).astype(np.float32)
        names = Table(X).names
        table = rounded if names is None else dict(zip(names, rounded.T, strict=True))
        return FixedTree.from_sklearn(tree), table, not hasattr(tree, "classes_")
    if tree.joint.any():
        raise ValueError("the tree has joint nodes, which no pruning separates from their parents; give a binary tree.")
    return tree, X, False


def _leaf_values_and_costs(model: TreeModel, stats: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return weight (n,), value (n, K or 1) and cost (n,) of cells as leaves."""
    # fractions of the classes and weight of errors, or mean and sum of squares about it
    if model.classes_ is None:
        weight, mean, squares = NormalInverseGamma.spread(stats)
        return weight, (mean + model.target.center)[:, None], np.maximum(squares, 0.0)
    weight = stats.sum(axis=1)
    return weight, stats / np.maximum(weight, 1e-300)[:, None], weight - stats.max(axis=1)


def inherit_values(value: np.ndarray, is_empty: np.ndarray, parent: np.ndarray) -> None:
    """Overwrite the values of nodes without rows with those of their parents, which come before; the root has -1."""
    for i in np.flatnonzero(is_empty):
        if parent[i] >= 0:
            value[i] = value[parent[i]]


def _subtree(tree: Tree, nodes: np.ndarray, feature: np.ndarray, right: np.ndarray) -> Tree:
    """Return the pruning of a tree that consists of `nodes`, in preorder; `right` are new numbers."""
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
