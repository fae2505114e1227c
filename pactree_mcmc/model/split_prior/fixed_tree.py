"""Split prior of a fixed tree: the given tree determines the split of every node (formulas, section 2)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from ...core.checks import LARGEST_BELOW_ONE, check_number, read_array
from ...core.compile.jit import jit
from ...files.encoding import register_class
from ...table.coding import AnyScale, Scale, nominal_scale, scale_from_cuts
from ...table.columns import Columns, describe_columns
from ...table.reader import Table
from ...table.values import ordered_values
from ...tree.arrays import LEAF, depths_without_joint
from ...tree.tree import Tree, check_tree, match_columns
from ..cells import PlainCell, PlainSplit
from ..tree_prior import FixedShape
from .base import DESIGN, FIXED, SplitPrior

ROWS_PER_PIECE = 1 << 16  # number of rows of a table that are converted to numbers at a time


@register_class
@dataclass(frozen=True, eq=False, repr=False)
class FixedTree(SplitPrior):
    """The split of every node is that of a given tree; the prior is over its prunings (Blanchard 1999, section 4).

    Parameters
    ----------
    tree : Tree
        The deepest tree; a node that is a leaf of it is never split. Its columns are found by name in the X of a model,
        if both have names.
    joint : bool array of shape (n_nodes,), optional
        Nodes that belong to the split of their parent, which so has more than two children. A joint node is always
        split, whatever the tree prior, is never a leaf and adds no depth. A node with m children is m - 1 nodes of the
        tree, all but the first joint. `exact.solve` takes joint nodes; chains cannot, since they grow one node at a
        time. Default: none.

    Raises
    ------
    TypeError
        If ``tree`` is not a Tree.
    ValueError
        If ``joint`` has another shape or type, or marks the root or a leaf of the tree.

    Examples
    --------
    >>> from pactree_mcmc import Tree
    >>> FixedTree(Tree([0, -1, -1], [2.5, 0, 0], [1, 0, 0], [2, 0, 0]))
    FixedTree(tree=Tree(n_leaves=2, depth=1))
    """

    tree: Tree
    joint: Any = field(default=None, repr=False)
    kind = FIXED

    def __post_init__(self) -> None:
        if not isinstance(self.tree, Tree):
            raise TypeError(f"tree is a {type(self.tree).__name__}; give a Tree, or use FixedTree.from_sklearn.")
        m = self.tree.n_nodes
        is_joint = np.zeros(m, dtype=np.bool_) if self.joint is None else np.array(read_array("joint", self.joint))
        if is_joint.dtype.kind != "b" or is_joint.shape != (m,):
            raise ValueError(
                f"joint has dtype {is_joint.dtype} and shape {is_joint.shape}; give booleans of shape ({m},)."
            )
        wrong = is_joint & (self.tree.feature == LEAF)
        wrong[0] = is_joint[0]
        if wrong.any():
            what = "the root" if is_joint[0] else f"node {int(np.argmax(wrong))}, a leaf of the tree,"
            raise ValueError(f"{what} cannot be joint: joint nodes continue the split of their parent.")
        object.__setattr__(self, "joint", is_joint)

    @classmethod
    def from_sklearn(cls, fitted: Any) -> Self:
        """Return the design of a fitted scikit-learn tree.

        Raises
        ------
        ValueError
            If ``fitted`` holds no tree.
        """
        return cls(Tree.from_sklearn(fitted))

    def split_probabilities(self, X: Any, rho: float = 0.95) -> np.ndarray:
        """Return split probabilities that correct for the choice of each split: ``rho`` times R under local cuts.

        A tree fitted to the data has splits picked among many. With these probabilities its prunings have, up to a
        factor, the prior that they have among all trees with local cuts.

        Parameters
        ----------
        X : table of shape (n, p)
            The rows by which the splits were picked. Features that the tree splits by categories are nominal.
        rho : float, default 0.95
            Split probability of a cell before the choice of the split, in [0, 1).

        Returns
        -------
        ndarray of shape (n_nodes,)
            For ``BranchingProcess(rho)``; 0 in leaves, joint nodes, and nodes whose split does not separate rows.

        Raises
        ------
        ValueError
            If rho is out of range, or X does not fit the tree.

        Notes
        -----
        With I_k distinct values of feature k among the rows of a node and p' features that have two or more,
        ``R = 1 / (p' (I_k - 1))``, or ``1 / (p' (2^(I_k - 1) - 1))`` of a nominal feature (formulas, section 2).
        Cost O(n p depth).

        Examples
        --------
        >>> from pactree_mcmc import Tree
        >>> design = FixedTree(Tree([0, -1, -1], [2.5, 0, 0], [1, 0, 0], [2, 0, 0]))
        >>> design.split_probabilities([[1.0], [2.0], [3.0], [4.0]], rho=0.6).round(3).tolist()
        [0.2, 0.0, 0.0]
        """
        rho = check_number("rho", rho, "0 <= rho < 1", 0.0, LARGEST_BELOW_ONE)
        tree = self.tree
        columns = tree.columns
        if columns is None:
            columns = describe_columns(Table(X), sorted(set(tree.feature[tree.categories >= 0].tolist())))
        check_tree(tree, columns.n_features)
        numbers = columns.numbers(X)
        leaf = tree.routes().leaves(numbers).astype(np.int64)
        order = np.argsort(leaf, kind="stable")
        ranks = np.array([np.unique(x[order], return_inverse=True)[1] for x in numbers.T], dtype=np.int64)
        end = np.arange(1, tree.n_nodes + 1)
        for i in range(tree.n_nodes - 1, -1, -1):
            if tree.feature[i] != LEAF:
                end[i] = end[tree.right[i]]
        bounds = np.searchsorted(leaf[order], [np.arange(tree.n_nodes), end])
        n_values = count_distinct(ranks, *bounds)
        nominal = columns.is_nominal
        n_splits = np.where(nominal, np.exp2(np.maximum(n_values - 1, 0)) - 1.0, np.maximum(n_values - 1, 0))
        n_alternatives = n_splits[np.arange(tree.n_nodes), np.maximum(tree.feature, 0)]
        n_usable = (n_splits > 0.0).sum(axis=1)
        has_alternatives = (tree.feature != LEAF) & ~self.joint & (n_alternatives > 0.0)
        return np.where(has_alternatives, rho / np.maximum(n_usable * n_alternatives, 1.0), 0.0)

    def match_columns(self, columns: Columns) -> FixedTree:
        tree = match_columns(self.tree, columns)
        return self if tree is self.tree else replace(self, tree=tree)

    def scales(self, table: Table, columns: Columns) -> list[AnyScale]:
        check_tree(self.tree, columns.n_features)
        if columns.twins:
            raise ValueError(
                f"column {columns.names[columns.twins[0]]!r} has missing values, and the splits of a FixedTree do "
                "not say where they go; fill them in, or use LocalCuts, GridCuts or DyadicCuts."
            )
        out: list[AnyScale] = []
        for k, (raw, categories) in enumerate(zip(table, columns.categories, strict=True)):
            on_feature = self.tree.feature == k
            if np.any((self.tree.categories[on_feature] >= 0) != (categories is not None)):
                raise ValueError(f"the fixed tree and X disagree on whether column {columns.names[k]!r} is nominal.")
            if categories is not None:
                out.append(nominal_scale(len(categories)))
            else:
                ordered_values(raw, columns.names[k])
                points = self.tree.threshold[on_feature]
                out.append(scale_from_cuts(np.unique(points[np.isfinite(points)])))
        return out

    def finest_cells(self, table: Table, columns: Columns) -> np.ndarray:
        """Return the index (n,) of the leaf of the fixed tree that contains each row of the table."""
        routes, out = self.tree.routes(), np.empty(table.n_rows, dtype=np.uint32)
        for start in range(0, table.n_rows, ROWS_PER_PIECE):
            rows = slice(start, start + ROWS_PER_PIECE)
            out[rows] = routes.leaves(columns.numbers(table.take(rows)))
        return out

    def bind(self, scales: list[AnyScale]) -> SplitPrior:
        tree = self.tree
        splits = np.zeros(tree.n_nodes, dtype=DESIGN).view(np.recarray)
        splits.feature, splits.right = tree.feature, tree.right
        splits["cut"] = splits["categories"] = -1
        for k, scale in enumerate(scales):
            nodes = np.flatnonzero((tree.feature == k) & (tree.categories < 0))
            threshold = tree.threshold[nodes]
            assert isinstance(scale, Scale)
            all_go_right = (threshold == -np.inf) | (np.isnan(threshold) & tree.default_left[nodes])
            splits["cut"][nodes] = np.where(all_go_right, -1, np.searchsorted(scale.cuts, threshold))
            nodes = np.flatnonzero((tree.feature == k) & (tree.categories >= 0))
            if len(nodes):
                splits["categories"][nodes] = tree.categories[nodes] & ((1 << scale.n_codes) - 1)
        return _BoundFixedTree(tree, self.joint, splits)

    def natural_depth(self, n_units: int, n_codes: np.ndarray) -> int:
        return int(self.shape().depth.max())

    def shape(self) -> FixedShape:
        tree = self.tree
        depth = depths_without_joint(tree.feature, tree.right, self.joint)
        return FixedShape(depth, tree.left, tree.right, tree.feature == LEAF, self.joint)

    def count_splits(self, cell: PlainCell, feature: int) -> int:
        return int(self.tree.feature[cell.node] == feature)


@dataclass(frozen=True, eq=False, repr=False)
class _BoundFixedTree(FixedTree):
    """Fixed tree with the split of each node expressed in codes of a model."""

    splits: Any = None  # records (n_nodes,) of dtype DESIGN

    def _split(self, node: int) -> PlainSplit:
        """Return the split of a node of the fixed tree in the codes of the model."""
        record = self.splits[node]
        return PlainSplit(int(record.feature), int(record.cut), int(record.categories))

    def admits(self, cell: PlainCell, split: PlainSplit) -> bool:
        return split == self._split(cell.node)

    def draw_split_of(self, rng: np.random.Generator, cell: PlainCell, feature: int) -> PlainSplit:
        return self._split(cell.node)

    def children(self, cell: PlainCell, split: PlainSplit) -> tuple[PlainCell, PlainCell]:
        nodes = int(self.tree.left[cell.node]), int(self.tree.right[cell.node])
        left, right = cell.split(split, nodes)
        deeper = cell.depth + (not self.joint[cell.node])
        return replace(left, depth=deeper), replace(right, depth=deeper)

    def design(self) -> np.recarray:
        return self.splits


@jit
def count_distinct(ranks: np.ndarray, start: np.ndarray, stop: np.ndarray) -> np.ndarray:
    """Return the number (m, p) of distinct values of each feature among the rows ``start[i]:stop[i]``, for i < m."""
    # `ranks` (p, n) are the values of the features in n rows as ranks 0, 1, ..., equal for equal values
    p = ranks.shape[0]
    out = np.zeros((len(start), p), dtype=np.int64)
    for k in range(p):
        last_range = np.full(ranks[k].max() + 1, -1)
        for i in range(len(start)):
            for j in range(start[i], stop[i]):
                if last_range[ranks[k, j]] != i:
                    last_range[ranks[k, j]] = i
                    out[i, k] += 1
    return out
