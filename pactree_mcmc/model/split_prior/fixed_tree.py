"""Split prior of a fixed tree, and constructors of fixed trees: KD trees, dyadic trees and context trees.

The given tree determines the split of every node (formulas, section 2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np

from ...core.checks import LARGEST_BELOW_ONE, check_choice, check_count, check_number, read_array, read_labels
from ...core.compile.jit import jit
from ...core.texts import with_short_repr
from ...files.encoding import register_class
from ...table.coding import AnyScale, Scale, nominal_scale, scale_from_cuts
from ...table.columns import Columns, describe_columns, ordered_values
from ...table.reader import Table
from ...tree.arrays import LEAF, depths_without_joint
from ...tree.tree import Tree, check_tree, match_columns
from ..rows import PlainCell, PlainSplit
from ..tree_prior import DEPTH_CEILING, FixedShape
from .base import DESIGN, FIXED, SplitPrior
from .cuts import DyadicCuts

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
                f"joint has dtype {is_joint.dtype} and shape {is_joint.shape}; give booleans of shape ({m},)"
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
        n_values = count_distinct(ranks, *np.searchsorted(leaf[order], [np.arange(tree.n_nodes), end]))
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
        record = self.splits[node]
        return PlainSplit(int(record.feature), int(record.cut), int(record.categories))

    def admits(self, cell: PlainCell, split: PlainSplit) -> bool:
        return split == self._split(cell.node)

    def draw_split_of(self, rng: np.random.Generator, cell: PlainCell, feature: int) -> PlainSplit:
        return self._split(cell.node)

    def children(self, cell: PlainCell, split: PlainSplit) -> tuple[PlainCell, PlainCell]:
        left, right = cell.split(split, (int(self.tree.left[cell.node]), int(self.tree.right[cell.node])))
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


MAX_CONTEXT_NODES = 1 << 27  # largest number of nodes of a context tree


def kd_tree(X: Any, depth: int, *, y: Any = None, rule: str = "median", coordinate: str = "cycling") -> FixedTree:
    """Return the KD tree over the rows of a table, as a fixed design.

    Parameters
    ----------
    X : table of shape (n, p)
        Ordered columns; it may be the model's own X, or another sample.
    depth : int
        Depth of the deepest leaf, >= 1.
    y : array-like of shape (n,), optional
        Class labels: a cell whose rows have one label is a leaf too.
    rule : {"median", "midpoint"}, default "median"
        "median": the cut between two neighbouring values that splits the rows of the cell most evenly. "midpoint": the
        middle of the range of the cell's rows.
    coordinate : {"cycling", "widest"}, default "cycling"
        "cycling": feature ``depth mod p``, or the next one in which the cell's rows differ. "widest": the feature
        whose range in the cell is largest, in units of its standard deviation over X.

    Returns
    -------
    FixedTree
        A cell in which all rows are equal is a leaf; every other leaf lies at ``depth``, and no cell is empty of the
        rows of X.

    Raises
    ------
    ValueError
        If ``depth``, ``rule`` or ``coordinate`` is out of range, a column is nominal or not finite, or ``y`` has
        another length.

    Notes
    -----
    Time O(n (p + log n) depth). See Nguyen and Kpotufe 2018; formulas, section 2.

    Examples
    --------
    >>> kd_tree([[0.0], [1.0], [2.0], [10.0]], 1).tree.threshold.tolist()
    [1.5, 0.0, 0.0]
    """
    check_count("depth", depth)
    if depth > DEPTH_CEILING:
        raise ValueError(f"depth={depth} is out of range; give at most {DEPTH_CEILING}.")
    check_choice("rule", rule, ("median", "midpoint"))
    check_choice("coordinate", coordinate, ("cycling", "widest"))
    x, columns = _ordered_numbers(X, "a KD tree")
    with np.errstate(over="ignore"):
        spread = x.std(axis=0)
    unit = np.where((spread > 0.0) & np.isfinite(spread), spread, 1.0)
    how = rule == "median", coordinate == "cycling", unit, np.empty((0, 2))
    return FixedTree(Tree(*grow_design(x, _class_of_row(y, len(x), X), int(depth), *how), columns=columns))


def _ordered_numbers(X: Any, what: str) -> tuple[np.ndarray, Columns | None]:
    """Return the table as float64 (n, p), and its columns, None without names."""
    columns = describe_columns(Table(X), None)
    if columns.is_nominal.any():
        name = columns.names[int(np.argmax(columns.is_nominal))]
        raise ValueError(f"column {name!r} is nominal; {what} halves ordered columns only: drop it.")
    return columns.numbers(X), columns if columns.named else None


def _class_of_row(y: Any, n: int, X: Any) -> np.ndarray:
    """Return the index of the class of each row (n,); if ``y`` is None every row is a class of its own."""
    if y is None:
        return np.arange(n)
    labels = read_labels(y, X)
    if labels.shape != (n,):
        raise ValueError(f"y has shape {labels.shape}; X has {n} rows: give one label a row, ({n},).")
    try:
        return np.unique(labels, return_inverse=True)[1].astype(np.int64)
    except Exception as error:
        raise ValueError("y holds labels that cannot be sorted; give numbers or strings.") from error


def grow_design(
    x: np.ndarray, label: np.ndarray, depth: int, is_median: bool, is_cycling: bool, unit: np.ndarray, box: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return feature, threshold, left and right, in preorder, of a dyadic tree in `box` (p, 2), or of a KD tree."""
    # a cell with one class is a leaf, as is one at `depth`; `box` (0, 2) means a KD tree, which cuts at the median or
    # at mid-range, on features in turn or on that with the widest range in multiples of `unit`
    n = len(x)
    code = np.zeros((len(box), n), dtype=np.int64)
    order, scratch, todo = np.arange(n), np.empty(n, dtype=np.int64), np.zeros((depth + 2, 4), dtype=np.int64)
    node, threshold, n_nodes = grow_nodes(
        x, label, depth, is_median, is_cycling, unit, box, order, scratch, np.empty(n), code, todo
    )
    return node[:n_nodes, 0], threshold[:n_nodes], node[:n_nodes, 1], node[:n_nodes, 2]


@jit
def grow_nodes(
    x: np.ndarray,
    label: np.ndarray,
    depth: int,
    is_median: bool,
    is_cycling: bool,
    unit: np.ndarray,
    box: np.ndarray,
    order: np.ndarray,
    right_rows: np.ndarray,
    value: np.ndarray,
    code: np.ndarray,
    todo: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, int]:
    """Return feature, left, right and threshold of the nodes of a tree, and their number."""
    # A cell is a leaf if it has fewer than two rows, rows of one label, or lies at `depth`. If `box` has entries,
    # splits halve its sides in turn, else `kd_cut` determines them, and a cell whose rows are equal is a leaf too.
    # `order` has the rows, sorted by cell; `code` gets for each feature and row one bit per halving, 1 for the upper
    # half. `todo` is a stack of cells to split: start and stop in `order`, level, and the parent of a right child (LEAF
    # for a left one)
    n, p = x.shape
    node, threshold, n_nodes, n_todo = np.zeros((64, 3), dtype=np.int64), np.zeros(64), 0, 1
    todo[0, 1], todo[0, 3] = n, LEAF
    while n_todo > 0:
        n_todo -= 1
        start, stop, level, parent = todo[n_todo, 0], todo[n_todo, 1], todo[n_todo, 2], todo[n_todo, 3]
        here, n_nodes = n_nodes, n_nodes + 1
        if n_nodes > len(node):
            node, threshold = _doubled(node, threshold)
        if parent >= 0:
            node[parent, 2] = here
        k, cut = np.int64(LEAF), 0.0
        if level < depth and _has_two_labels(label, order, start, stop):
            if len(box) > 0:
                k = level % p
                fraction = (2.0 * code[k, order[start]] + 1.0) / float(np.int64(2) << (level // p))
                cut = box[k, 0] * (1.0 - fraction) + box[k, 1] * fraction  # as `DyadicScale` computes it
            else:
                k, cut = kd_cut(x, order, start, stop, level, is_median, is_cycling, unit, value)
        node[here, 0], threshold[here] = k, cut
        if k == LEAF:
            continue
        node[here, 1], middle, n_right = here + 1, start, 0
        for i in range(start, stop):
            row = order[i]
            goes_left = x[row, k] <= cut
            if len(box) > 0:
                code[k, row] = 2 * code[k, row] + (not goes_left)
            if goes_left:
                order[middle] = row
                middle += 1
            else:
                right_rows[n_right] = row
                n_right += 1
        for i in range(n_right):
            order[middle + i] = right_rows[i]
        todo[n_todo, 0], todo[n_todo, 1], todo[n_todo, 2], todo[n_todo, 3] = middle, stop, level + 1, here
        n_todo += 1
        todo[n_todo, 0], todo[n_todo, 1], todo[n_todo, 2], todo[n_todo, 3] = start, middle, level + 1, LEAF
        n_todo += 1
    return node, threshold, n_nodes


@jit
def _has_two_labels(label: np.ndarray, order: np.ndarray, start: int, stop: int) -> bool:
    """Return True if two of the rows ``order[start:stop]`` have different labels."""
    i = start + 1
    while i < stop and label[order[i]] == label[order[start]]:
        i += 1
    return i < stop


@jit
def _doubled(node: np.ndarray, threshold: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return copies of ``node`` (n, 3) and ``threshold`` (n,) that are twice as long, with zeros at the end."""
    n = len(node)
    wider, longer = np.zeros((2 * n, 3), dtype=np.int64), np.zeros(2 * n)
    for i in range(n):
        wider[i, 0], wider[i, 1], wider[i, 2], longer[i] = node[i, 0], node[i, 1], node[i, 2], threshold[i]
    return wider, longer


@jit
def _select(value: np.ndarray, n: int, k: int) -> float:
    """Return the number that would stand at ``k`` if the first ``n`` entries of ``value`` were sorted. Reorder them."""
    first, last = np.int64(0), n - 1
    while first < last:
        pivot, i, j = value[k], first, last
        while i <= j:
            while value[i] < pivot:
                i += 1
            while value[j] > pivot:
                j -= 1
            if i <= j:
                value[i], value[j] = value[j], value[i]
                i += 1
                j -= 1
        if j < k:
            first = i
        if k < i:
            last = j
    return value[k]


@jit
def kd_cut(
    x: np.ndarray,
    order: np.ndarray,
    start: int,
    stop: int,
    level: int,
    is_median: bool,
    is_cycling: bool,
    unit: np.ndarray,
    value: np.ndarray,
) -> tuple[np.int64, float]:
    """Return feature and threshold by which a KD tree splits a cell; the feature is LEAF if its rows are equal."""
    # If `is_cycling`, the feature is the first from level mod p on in which rows differ, otherwise that of the widest
    # range, in `unit`. The threshold lies between the two neighbouring values that split the rows most evenly if
    # `is_median`, otherwise in the middle of the range
    p, feature, widest, low, high = x.shape[1], np.int64(LEAF), -1.0, 0.0, 0.0
    for j in range(p):
        k = (level + j) % p if is_cycling else np.int64(j)
        least = most = x[order[start], k]
        for i in range(start + 1, stop):
            here = x[order[i], k]
            least, most = here if here < least else least, here if here > most else most
        # rows that differ count more than equal ones, even if their range rounds to 0
        width = 0.0 if is_cycling else most / unit[k] - least / unit[k]
        if least < most and width > widest:
            feature, widest, low, high = k, width, least, most
            if is_cycling:
                break
    if is_median and feature != LEAF:
        size, below, at_most, least, most = stop - start, 0, 0, low, high
        for i in range(size):
            value[i] = x[order[start + i], feature]
        middle = _select(value, size, size // 2)
        for i in range(size):
            if value[i] < middle:
                below += 1
                least = value[i] if value[i] > least else least
            elif value[i] > middle:
                most = value[i] if value[i] < most else most
            at_most += value[i] <= middle
        is_below = at_most == size or (below > 0 and size - 2 * below <= 2 * at_most - size)
        low, high = (least, middle) if is_below else (middle, most)
    halfway = low / 2.0 + high / 2.0
    return feature, halfway if low <= halfway and halfway < high else low


def dyadic_tree(X: Any, depth: int, *, y: Any = None, bounds: Any = None) -> FixedTree:
    """Return the cyclic dyadic tree over the rows of a table: the cells of ``DyadicCuts(cyclic=True)`` that have rows.

    Parameters
    ----------
    X : table of shape (n, p)
        Ordered columns; it may be the model's own X, or another sample.
    depth : int
        Depth of the deepest leaf, 1 to 31 p; a node at depth j halves feature ``j mod p``.
    y : array-like of shape (n,), optional
        Class labels: a cell whose rows have one label is a leaf too.
    bounds : array of shape (p, 2), optional
        Lower and upper end of each feature. Default: the range of X.

    Returns
    -------
    FixedTree
        A cell with one row or none is a leaf; every other leaf lies at ``depth``. Values outside the bounds lie in the
        outermost cells.

    Raises
    ------
    ValueError
        If ``depth`` or ``bounds`` is out of range, a column is nominal or not finite, or ``y`` has another length.

    Notes
    -----
    Time O(n depth). See Nguyen and Kpotufe 2018, section 3.3.

    Examples
    --------
    >>> dyadic_tree([[0.0], [1.0], [7.0], [8.0]], 3).tree.threshold.tolist()
    [4.0, 2.0, 1.0, 0.0, 0.0, 0.0, 6.0, 0.0, 7.0, 0.0, 0.0]
    """
    check_count("depth", depth)
    x, columns = _ordered_numbers(X, "a dyadic tree")
    n, p = x.shape
    cuts = DyadicCuts(-(-depth // p), cyclic=True, bounds=column_ranges(x) if bounds is None else bounds)
    if len(cuts.bounds) != p:
        raise ValueError(f"bounds has {len(cuts.bounds)} rows; X has {p} columns: one each.")
    box = np.asarray(cuts.bounds, dtype=np.float64)
    nodes = grow_design(x, _class_of_row(y, n, X), int(depth), False, False, np.ones(p), box)
    return FixedTree(Tree(*nodes, columns=columns))


def column_ranges(x: np.ndarray) -> np.ndarray:
    """Return the smallest and largest value (p, 2) of each column; a constant c has the ends c and c + max(1, |c|)."""
    low, high = x.min(axis=0), x.max(axis=0)
    return np.column_stack([low, np.where(low < high, high, low + np.maximum(1.0, np.abs(low)))])


@with_short_repr
class Contexts(NamedTuple):
    """A sequence as a table: each row has a symbol as its label and the symbols before it as features."""

    X: np.ndarray
    """(n - depth, depth): column r holds the symbol r + 1 places back."""
    y: np.ndarray
    """(n - depth,): the symbol itself."""


def contexts(symbols: Any, depth: int, n_symbols: int) -> Contexts:
    """Return the table on which a context tree splits, with a row for each symbol of a sequence.

    Parameters
    ----------
    symbols : array-like of int of shape (n,)
        Symbols 0 to ``n_symbols - 1``, in the order of time; n >= depth + 2.
    depth : int
        Number of symbols in a context, >= 1.
    n_symbols : int
        Size of the alphabet, >= 2.

    Returns
    -------
    Contexts

    Raises
    ------
    ValueError
        If a symbol lies outside the alphabet, the sequence is too short, or an argument is out of range.

    Examples
    --------
    >>> table = contexts([0, 1, 1, 0, 1], 2, 2)
    >>> table.X.tolist(), table.y.tolist()
    ([[1, 0], [1, 1], [0, 1]], [1, 0, 1])
    """
    _check_alphabet(depth, n_symbols)
    sequence = read_array("symbols", symbols)
    if sequence.ndim != 1 or sequence.dtype.kind not in "iu":
        raise ValueError(f"symbols has dtype {sequence.dtype} and shape {sequence.shape}; give integers of shape (n,).")
    if len(sequence) < depth + 2:
        raise ValueError(f"symbols holds {len(sequence)} symbols; depth={depth} needs at least {depth + 2}.")
    wrong = (sequence < 0) | (sequence >= n_symbols)
    if wrong.any():
        i = int(np.argmax(wrong))
        raise ValueError(f"symbols[{i}] is {sequence[i]}, outside the alphabet 0..{n_symbols - 1}.")
    coded = sequence.astype(np.min_scalar_type(n_symbols - 1))
    back = np.lib.stride_tricks.sliding_window_view(coded[:-1], depth)[:, ::-1]
    return Contexts(np.ascontiguousarray(back), coded[depth:])


def context_tree(depth: int, n_symbols: int) -> FixedTree:
    """Return the complete context tree. A node at depth r has a child for each value of the symbol r + 1 places back.

    Parameters
    ----------
    depth : int
        Number of symbols of the longest context, >= 1.
    n_symbols : int
        Size of the alphabet, >= 2.

    Returns
    -------
    FixedTree
        Over ``depth`` ordered columns, as `contexts` makes them. A node with m children is m - 1 splits
        ``symbol <= 0``, ``symbol <= 1``, ..., all but the first of them joint.

    Raises
    ------
    ValueError
        If an argument is out of range, or the tree would have more than 134 million nodes.

    Notes
    -----
    With ``BranchingProcess(0.5, max_depth=None)`` and ``DirichletMultinomial(0.5)`` the evidence of a sequence is that
    of context-tree weighting (Willems, Shtarkov and Tjalkens 1995).

    Examples
    --------
    >>> design = context_tree(1, 3)
    >>> design.tree.threshold.tolist(), design.joint.tolist()
    ([0.5, 0.0, 1.5, 0.0, 0.0], [False, False, True, False, False])
    """
    _check_alphabet(depth, n_symbols)
    log_leaves = depth * math.log(n_symbols)
    if log_leaves > math.log(MAX_CONTEXT_NODES) - math.log(2.0):
        raise ValueError(
            f"depth={depth} and n_symbols={n_symbols} make a tree of {2 * math.exp(min(log_leaves, 700)):.3g} nodes; "
            f"at most {MAX_CONTEXT_NODES:,} are allowed: give a smaller depth."
        )
    feature, threshold, left, right, joint = grow_contexts(int(depth), int(n_symbols))
    return FixedTree(Tree(feature, threshold, left, right), joint)


@jit
def grow_contexts(depth: int, n_symbols: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return feature, threshold, left, right and joint of the nodes of a complete context tree in preorder."""
    # At level r < `depth` the split is on feature r, the symbol r + 1 places back. A split into `n_symbols` children is
    # a chain of binary nodes; `joint` marks all but the first of the chain
    size = np.ones(depth + 1, dtype=np.int64)  # nodes of the subtree of a node with r symbols left to split on
    for r in range(1, depth + 1):
        size[r] = n_symbols - 1 + n_symbols * size[r - 1]
    m = size[depth]
    feature, threshold = np.full(m, LEAF, dtype=np.int32), np.zeros(m)
    left, right = np.zeros(m, dtype=np.int32), np.zeros(m, dtype=np.int32)
    joint, ahead = np.zeros(m, dtype=np.bool_), np.zeros(m, dtype=np.int64)
    ahead[0] = depth
    for i in range(m):
        if ahead[i] == 0:
            continue
        symbol = np.int64(threshold[i]) if joint[i] else 0
        feature[i], threshold[i] = depth - ahead[i], symbol + 0.5
        left[i], right[i] = i + 1, i + 1 + size[ahead[i] - 1]
        ahead[i + 1] = ahead[i] - 1
        if symbol + 2 == n_symbols:
            ahead[right[i]] = ahead[i] - 1
        else:
            joint[right[i]], ahead[right[i]], threshold[right[i]] = True, ahead[i], symbol + 1.0
    return feature, threshold, left, right, joint


def _check_alphabet(depth: int, n_symbols: int) -> None:
    """Raise a ValueError unless the depth is at least 1 and there are at least 2 symbols."""
    check_count("depth", depth)
    check_count("n_symbols", n_symbols)
    if n_symbols < 2:
        raise ValueError(f"n_symbols={n_symbols} is out of range; give at least 2.")
