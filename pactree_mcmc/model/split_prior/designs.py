"""Fixed designs made for a purpose: KD and dyadic trees over a table, context trees over a sequence of symbols."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...core.checks import check_choice, check_count, read_array, read_labels
from ...core.compile.jit import jit
from ...table.columns import learn_columns
from ...table.reader import Table
from ...tree.arrays import LEAF
from ...tree.tree import Tree
from .. import DyadicCuts, FixedTree
from ..tree_prior import DEPTH_CEILING

MOST_NODES = 1 << 27


def kd_tree(X: Any, depth: int, *, y: Any = None, rule: str = "median", coordinate: str = "cycling") -> FixedTree:
    """KD tree over the rows of a table.

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
    Time O(n (p + log n) depth). See Nguyen and
    Kpotufe 2018; formulas, section 2.

    Examples
    --------
    >>> print(kd_tree([[0.0], [1.0], [2.0], [10.0]], 1).tree.format())
    x0 <= 1.5
    |-- yes: leaf
    `-- no:  leaf
    """
    check_count("depth", depth)
    if depth > DEPTH_CEILING:
        raise ValueError(f"depth={depth} is out of range; give at most {DEPTH_CEILING}.")
    check_choice("rule", rule, ("median", "midpoint"))
    check_choice("coordinate", coordinate, ("cycling", "widest"))
    x = _ordered_numbers(X, "a KD tree")
    return FixedTree(_grow(_labels(y, len(x), X), int(depth), _KdSplits(x, rule, coordinate)))


def _ordered_numbers(X: Any, what: str) -> np.ndarray:
    """Return the table as float64 (n, p) if every column is ordered."""
    columns = learn_columns(Table(X), None)
    if columns.is_nominal.any():
        name = columns.names[int(np.argmax(columns.is_nominal))]
        raise ValueError(f"column {name!r} is nominal; {what} halves ordered columns only: drop it.")
    return columns.numbers(X)


def _labels(y: Any, n: int, X: Any) -> np.ndarray:
    """Return class numbers (n,) int64; without labels every row has its own, so that no two are equal."""
    if y is None:
        return np.arange(n)
    labels = read_labels(y, X)
    if labels.shape != (n,):
        raise ValueError(f"y has shape {labels.shape}; X has {n} rows: give one label a row, ({n},).")
    try:
        return np.unique(labels, return_inverse=True)[1].astype(np.int64)
    except Exception as error:
        raise ValueError("y holds labels that cannot be sorted; give numbers or strings.") from error


class _Cells(NamedTuple):
    """Cells of one level whose rows are not all alike, m of them."""

    rows: np.ndarray
    """Rows of the table, cell after cell."""
    first: np.ndarray
    """(m,): place in ``rows`` where each cell begins."""
    sizes: np.ndarray
    """(m,)."""


class _Splits(NamedTuple):
    """Splits of m cells."""

    feature: np.ndarray
    """(m,); LEAF for a cell that is not split."""
    threshold: np.ndarray
    is_left: np.ndarray
    """True for each entry of `_Cells.rows` that goes left."""


def _grow(label: np.ndarray, depth: int, split: Callable[[int, _Cells], _Splits]) -> Tree:
    """Return the tree over rows with class numbers ``label`` (n,), grown level by level.

    A cell whose rows have one label, or that has no rows, is a leaf. So is one at ``depth``.
    """
    rows, sizes = np.arange(len(label)), np.array([len(label)])
    features, thresholds, lefts, n_nodes = [], [], [], 1
    for level in range(depth + 1):
        feature, threshold = np.full(len(sizes), LEAF, dtype=np.int32), np.zeros(len(sizes))
        left = np.zeros(len(sizes), dtype=np.int64)
        cells, is_open = _open_cells(label, rows, sizes)
        if level < depth and is_open.any():
            splits = split(level, cells)
            is_split = splits.feature != LEAF
            is_open[is_open] = is_split
            feature[is_open], threshold[is_open] = splits.feature[is_split], splits.threshold[is_split]
            left[is_open] = n_nodes + 2 * np.arange(is_split.sum())
            # the rows of the cells that are split: cell after cell, those that go left first
            cell, stays = np.repeat(np.arange(len(is_split)), cells.sizes), np.repeat(is_split, cells.sizes)
            child = (2 * cell + ~splits.is_left)[stays]
            rows = cells.rows[stays][np.argsort(child, kind="stable")]
            sizes = np.bincount(child, minlength=2 * len(is_split)).reshape(-1, 2)[is_split].ravel()
        else:
            sizes = sizes[:0]
        features.append(feature)
        thresholds.append(threshold)
        lefts.append(left)
        n_nodes += len(sizes)
        if len(sizes) == 0:
            break
    return _in_preorder(features, thresholds, lefts)


def _open_cells(label: np.ndarray, rows: np.ndarray, sizes: np.ndarray) -> tuple[_Cells, np.ndarray]:
    """Return the cells that contain different labels, and a mask of them."""
    filled = np.flatnonzero(sizes)
    first = (np.cumsum(sizes) - sizes)[filled]
    is_open = np.zeros(len(sizes), dtype=np.bool_)
    labels = label[rows]
    is_open[filled] = np.minimum.reduceat(labels, first) < np.maximum.reduceat(labels, first)
    some = sizes[is_open]
    return _Cells(rows[np.repeat(is_open, sizes)], np.cumsum(some) - some, some), is_open


def _in_preorder(features: list[np.ndarray], thresholds: list[np.ndarray], lefts: list[np.ndarray]) -> Tree:
    """Return the tree of nodes that are listed level by level; a right child is behind its left sibling."""
    ends = np.cumsum([len(level) for level in features])
    feature, threshold, left = np.concatenate(features), np.concatenate(thresholds), np.concatenate(lefts)
    inner = np.flatnonzero(feature != LEAF)
    levels = np.split(inner, np.searchsorted(inner, ends))
    sizes, place = np.ones(len(feature), dtype=np.int64), np.zeros(len(feature), dtype=np.int64)
    for nodes in reversed(levels):
        sizes[nodes] += sizes[left[nodes]] + sizes[left[nodes] + 1]
    for nodes in levels:
        place[left[nodes]] = place[nodes] + 1
        place[left[nodes] + 1] = place[left[nodes]] + sizes[left[nodes]]
    order = np.argsort(place)
    children = np.zeros((2, len(feature)), dtype=np.int64)
    children[:, place[inner]] = place[left[inner]], place[left[inner] + 1]
    return Tree(feature[order], threshold[order], *children)


class _KdSplits:
    """Splits of the cells of a KD tree over a table (n, p)."""

    def __init__(self, x: np.ndarray, rule: str, coordinate: str) -> None:
        self.x, self.is_median, self.is_cycling = x, rule == "median", coordinate == "cycling"
        with np.errstate(over="ignore"):
            spread = x.std(axis=0)
        self.unit = np.where((spread > 0.0) & np.isfinite(spread), spread, 1.0)
        self.ranked: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def __call__(self, level: int, cells: _Cells) -> _Splits:
        m, p = len(cells.first), self.x.shape[1]
        feature, widest, low, high = np.full(m, LEAF), np.full(m, -1.0), np.zeros(m), np.zeros(m)
        for k in [(level + j) % p for j in range(p)] if self.is_cycling else range(p):
            value = self.x[cells.rows, k]
            lowest, highest = np.minimum.reduceat(value, cells.first), np.maximum.reduceat(value, cells.first)
            # rows that differ count more than equal ones, even if their range rounds to 0
            width = 0.0 if self.is_cycling else highest / self.unit[k] - lowest / self.unit[k]
            is_wider = (lowest < highest) & (width > widest)
            feature, widest = np.where(is_wider, k, feature), np.where(is_wider, width, widest)
            low, high = np.where(is_wider, lowest, low), np.where(is_wider, highest, high)
            if self.is_cycling and np.all(widest == 0.0):
                break
        threshold = _median_cuts(self._ordered(cells, feature), cells) if self.is_median else _halfway(low, high)
        value = self.x[cells.rows, np.repeat(feature, cells.sizes)]
        return _Splits(feature, threshold, value <= np.repeat(threshold, cells.sizes))

    def _ordered(self, cells: _Cells, feature: np.ndarray) -> np.ndarray:
        """Return the values of the feature of each cell in ascending order, cell after cell."""
        cell, n = np.repeat(np.arange(len(feature)), cells.sizes), len(self.x)
        out = np.zeros(len(cell))
        for k in np.unique(feature[feature != LEAF]).tolist():
            here, (order, rank) = (feature == k)[cell], self._ranks(k)
            # sorting integers that contain cell and rank is an order of magnitude faster than sorting by two keys
            out[here] = self.x[order[np.sort(cell[here] * n + rank[cells.rows[here]]) % n], k]
        return out

    def _ranks(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows in the order of feature ``k``, and the place of each row in this order."""
        if k not in self.ranked:
            order = np.argsort(self.x[:, k]).astype(np.int32)
            rank = np.empty_like(order)
            rank[order] = np.arange(len(order))
            self.ranked[k] = order, rank
        return self.ranked[k]


def _median_cuts(value: np.ndarray, cells: _Cells) -> np.ndarray:
    """Return the threshold (m,) of the cut of each cell nearest the middle of its values, which ascend."""
    cell = np.repeat(np.arange(len(cells.sizes)), cells.sizes)
    middle = value[cells.first + cells.sizes // 2]
    below = np.add.reduceat(value < middle[cell], cells.first, dtype=np.int64)
    most = np.add.reduceat(value <= middle[cell], cells.first, dtype=np.int64)
    is_below = (most == cells.sizes) | ((below > 0) & (cells.sizes - 2 * below <= 2 * most - cells.sizes))
    cut = cells.first + np.maximum(np.where(is_below, below, most), 1)
    return _halfway(value[cut - 1], value[np.minimum(cut, len(value) - 1)])


def _halfway(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return thresholds that separate ``a < b``: their midpoints if there are numbers between."""
    cut = a / 2.0 + b / 2.0
    return np.where((a <= cut) & (cut < b), cut, a)


def dyadic_tree(X: Any, depth: int, *, y: Any = None, bounds: Any = None) -> FixedTree:
    """Cyclic dyadic tree over the rows of a table: the cells of ``DyadicCuts(cyclic=True)`` that rows ask for.

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
    >>> print(dyadic_tree([[0.0], [1.0], [7.0], [8.0]], 3).tree.format())
    x0 <= 4
    |-- yes: x0 <= 2
    |   |-- yes: x0 <= 1
    |   |   |-- yes: leaf
    |   |   `-- no:  leaf
    |   `-- no:  leaf
    `-- no:  x0 <= 6
        |-- yes: leaf
        `-- no:  x0 <= 7
            |-- yes: leaf
            `-- no:  leaf
    """
    check_count("depth", depth)
    x = _ordered_numbers(X, "a dyadic tree")
    n, p = x.shape
    cuts = DyadicCuts(-(-depth // p), cyclic=True, bounds=box_around(x) if bounds is None else bounds)
    if len(cuts.bounds) != p:
        raise ValueError(f"bounds has {len(cuts.bounds)} rows; X has {p} columns: one each.")
    box = np.asarray(cuts.bounds, dtype=np.float64)
    code = np.zeros((p, n), dtype=np.int64)  # the halves in which a row lies, a bit each

    def split(level: int, cells: _Cells) -> _Splits:
        k = level % p
        fraction = (2.0 * code[k, cells.rows[cells.first]] + 1.0) / (2 << (level // p))
        threshold = box[k, 0] * (1.0 - fraction) + box[k, 1] * fraction  # as `DyadicScale` computes it
        is_left = x[cells.rows, k] <= np.repeat(threshold, cells.sizes)
        code[k, cells.rows] = 2 * code[k, cells.rows] + ~is_left
        return _Splits(np.full(len(threshold), k), threshold, is_left)

    return FixedTree(_grow(_labels(y, n, X), int(depth), split))


def box_around(x: np.ndarray) -> np.ndarray:
    """Return the lower and upper end (p, 2) of each column; a constant one gets a wider end."""
    low, high = x.min(axis=0), x.max(axis=0)
    return np.column_stack([low, np.where(low < high, high, low + np.maximum(1.0, np.abs(low)))])


class Contexts(NamedTuple):
    """A sequence as a table: each symbol and those before it."""

    X: np.ndarray
    """(n - depth, depth): column r holds the symbol r + 1 places back."""
    y: np.ndarray
    """(n - depth,): the symbol itself."""


def contexts(symbols: Any, depth: int, n_symbols: int) -> Contexts:
    """Turn a sequence into the table a context tree splits on.

    Parameters
    ----------
    symbols : array-like of int of shape (n,)
        Symbols 0 to ``n_symbols - 1``, in the order of time; n >= depth + 2.
    depth : int
        How many symbols back a context reaches, >= 1.
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
    >>> contexts([0, 1, 1, 0, 1], 2, 2)
    Contexts(X=array([[1, 0],
           [1, 1],
           [0, 1]], dtype=uint8), y=array([1, 0, 1], dtype=uint8))
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
    """Complete context tree: a node at depth r asks for the symbol r + 1 places back, with one child a symbol.

    Parameters
    ----------
    depth : int
        Symbols of the longest context, >= 1.
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
    >>> print(design.tree.format())
    x0 <= 0.5
    |-- yes: leaf
    `-- no:  x0 <= 1.5
        |-- yes: leaf
        `-- no:  leaf
    >>> design.joint.tolist()
    [False, False, True, False, False]
    """
    _check_alphabet(depth, n_symbols)
    log_leaves = depth * math.log(n_symbols)
    if log_leaves > math.log(MOST_NODES) - math.log(2.0):
        raise ValueError(
            f"depth={depth} and n_symbols={n_symbols} make a tree of {2 * math.exp(min(log_leaves, 700)):.3g} nodes; "
            f"at most {MOST_NODES:,} are allowed: give a smaller depth."
        )
    feature, threshold, left, right, joint = grow_contexts(int(depth), int(n_symbols))
    return FixedTree(Tree(feature, threshold, left, right), joint)


@jit
def grow_contexts(depth: int, n_symbols: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return feature, threshold, left, right and joint of the nodes of a complete context tree in preorder."""
    size = np.ones(depth + 1, dtype=np.int64)  # of the tree below a node, by how many symbols it may still ask for
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
    check_count("depth", depth)
    check_count("n_symbols", n_symbols)
    if n_symbols < 2:
        raise ValueError(f"n_symbols={n_symbols} is out of range; give at least 2.")
