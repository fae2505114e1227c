"""Fixed designs made for a purpose: KD and dyadic trees over a table, context trees over a sequence of symbols."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...core.checks import check_choice, check_count, read_array, read_labels
from ...core.compile.jit import jit
from ...table.columns import learn_columns
from ...table.reader import Table
from ...tree.arrays import LEAF
from ...tree.tree import Tree
from .. import DyadicCuts, FixedTree
from ..tree_prior.base import DEPTH_CEILING

MEDIAN, MIDPOINT = range(2)
CYCLING, WIDEST = range(2)
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
        "median": the cut between two neighbouring values that parts the cell's rows most evenly. "midpoint": the
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
    Time O(n depth), times p with ``coordinate="widest"``; memory 16 bytes a row beside a copy of X. See Nguyen and
    Kpotufe 2018; formula sheet, section 2.

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
    rules, coordinates = {"median": MEDIAN, "midpoint": MIDPOINT}, {"cycling": CYCLING, "widest": WIDEST}
    rule, coordinate = check_choice("rule", rule, rules), check_choice("coordinate", coordinate, coordinates)
    x = _ordered_numbers(X, "a KD tree")
    label = _labels(y, len(x), X)
    with np.errstate(over="ignore"):
        spread = x.std(axis=0)
    unit = np.where((spread > 0.0) & np.isfinite(spread), spread, 1.0)
    return FixedTree(Tree(*grow_kd(x, label, unit, int(depth), rules[rule], coordinates[coordinate])))


def _ordered_numbers(X: Any, what: str) -> np.ndarray:
    """The table as float64 (n, p), every column of it ordered."""
    columns = learn_columns(Table(X), None)
    if columns.is_nominal.any():
        name = columns.names[int(np.argmax(columns.is_nominal))]
        raise ValueError(f"column {name!r} is nominal; {what} halves ordered columns only: drop it.")
    return columns.numbers(X)


def _labels(y: Any, n: int, X: Any) -> np.ndarray:
    """Return class numbers (n,) int64; without labels every row has its own, so that no two are alike."""
    if y is None:
        return np.arange(n)
    labels = read_labels(y, X)
    if labels.shape != (n,):
        raise ValueError(f"y has shape {labels.shape}; X has {n} rows: give one label a row, ({n},).")
    try:
        return np.unique(labels, return_inverse=True)[1].astype(np.int64)
    except Exception as error:
        raise ValueError("y holds labels that cannot be sorted; give numbers or strings.") from error


@jit
def grow_kd(
    x: np.ndarray, label: np.ndarray, unit: np.ndarray, depth: int, rule: int, coordinate: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Feature, threshold, left and right of the nodes in preorder; ``unit`` (p,) measures ranges."""
    n = len(x)
    most = 2 * n - 1 if depth >= 40 else min(2 * n - 1, (1 << (depth + 1)) - 1)
    feature, threshold = np.full(most, LEAF, dtype=np.int32), np.zeros(most)
    left, right = np.zeros(most, dtype=np.int32), np.zeros(most, dtype=np.int32)
    order, value = np.arange(n), np.empty(n)
    # waiting cells: range of the rows, depth, and the parent of a right child
    first, behind = np.empty(depth + 2, dtype=np.int64), np.empty(depth + 2, dtype=np.int64)
    level, parent = np.empty(depth + 2, dtype=np.int64), np.empty(depth + 2, dtype=np.int64)
    first[0], behind[0], level[0], parent[0] = 0, n, 0, -1
    waiting, m = 1, 0
    while waiting > 0:
        waiting -= 1
        start, stop, here = first[waiting], behind[waiting], level[waiting]
        if parent[waiting] >= 0:
            right[parent[waiting]] = m
        k = np.int64(-1)
        if here < depth and not _is_pure(label, order, start, stop):
            k = _coordinate(x, order, start, stop, here, unit, coordinate)
        if k >= 0:
            for i in range(start, stop):
                value[i] = x[order[i], k]
            if rule == MEDIAN:
                middle, cut = _median_cut(value, order, start, stop)
            else:
                middle, cut = _middle_cut(value, order, start, stop)
            feature[m], threshold[m], left[m] = k, cut, m + 1
            first[waiting], behind[waiting], level[waiting], parent[waiting] = middle, stop, here + 1, m
            waiting += 1
            first[waiting], behind[waiting], level[waiting], parent[waiting] = start, middle, here + 1, -1
            waiting += 1
        m += 1
    return feature[:m], threshold[:m], left[:m], right[:m]


@jit
def _is_pure(label: np.ndarray, order: np.ndarray, start: int, stop: int) -> bool:
    """Whether all rows of a range have one label; so it is where there is one row, or none."""
    for i in range(start + 1, stop):
        if label[order[i]] != label[order[start]]:
            return False
    return True


@jit
def _coordinate(
    x: np.ndarray, order: np.ndarray, start: int, stop: int, depth: int, unit: np.ndarray, coordinate: int
) -> int:
    """The feature to halve; -1 if all rows are equal."""
    p, best, widest = x.shape[1], -1, 0.0
    for j in range(p):
        k = (depth + j) % p if coordinate == CYCLING else j
        low = high = x[order[start], k]
        for i in range(start + 1, stop):
            low, high = min(low, x[order[i], k]), max(high, x[order[i], k])
            if coordinate == CYCLING and low < high:
                return k
        if high / unit[k] - low / unit[k] > widest or (best < 0 and high > low):
            best, widest = k, high / unit[k] - low / unit[k]
    return best


@jit
def _median_cut(value: np.ndarray, order: np.ndarray, start: int, stop: int) -> tuple[int, float]:
    """Part a range at the cut nearest its middle; where the right side begins, and the threshold."""
    middle = (start + stop) // 2
    _select(value, order, start, stop, middle)
    pivot, largest = value[middle], value[start]
    for i in range(start + 1, middle):
        largest = max(largest, value[i])
    if largest < pivot and middle > start:
        return middle, _halfway(largest, pivot)
    below = _gather_left(value, order, start, stop, pivot, False)
    upto = _gather_left(value, order, below, stop, pivot, True)
    if upto == stop or (below > start and start + stop - 2 * below <= 2 * upto - start - stop):
        return below, _between(value, start, below, stop)
    return upto, _between(value, start, upto, stop)


@jit
def _middle_cut(value: np.ndarray, order: np.ndarray, start: int, stop: int) -> tuple[int, float]:
    """Part a range at the middle between its smallest and largest value."""
    low = high = value[start]
    for i in range(start + 1, stop):
        low, high = min(low, value[i]), max(high, value[i])
    cut = _halfway(low, high)
    return _gather_left(value, order, start, stop, cut, True), cut


@jit
def _between(value: np.ndarray, start: int, middle: int, stop: int) -> float:
    """Threshold midway between the largest value on the left and the smallest on the right."""
    a, b = value[start], value[middle]
    for i in range(start, middle):
        a = max(a, value[i])
    for i in range(middle, stop):
        b = min(b, value[i])
    return _halfway(a, b)


@jit
def _halfway(a: float, b: float) -> float:
    """A threshold that parts ``a < b``, their midpoint if there are numbers between."""
    cut = a / 2.0 + b / 2.0
    return cut if a <= cut < b else a


@jit
def _gather_left(value: np.ndarray, order: np.ndarray, start: int, stop: int, pivot: float, equal: bool) -> int:
    """Bring the values below ``pivot`` (or ``equal`` to it) to the front of the range; where the others begin."""
    place = start
    for i in range(start, stop):
        if value[i] < pivot or (equal and value[i] == pivot):
            value[i], value[place] = value[place], value[i]
            order[i], order[place] = order[place], order[i]
            place += 1
    return place


@jit
def _select(value: np.ndarray, order: np.ndarray, start: int, stop: int, middle: int) -> None:
    """Hoare's selection: put at ``middle`` the value that belongs there, no larger ones before, no smaller behind."""
    low, high = start, stop - 1
    while low < high:
        a, b, c = value[low], value[(low + high) // 2], value[high]
        pivot = max(min(a, b), min(max(a, b), c))
        i, j = low, high
        while i <= j:
            while value[i] < pivot:
                i += 1
            while value[j] > pivot:
                j -= 1
            if i <= j:
                value[i], value[j] = value[j], value[i]
                order[i], order[j] = order[j], order[i]
                i += 1
                j -= 1
        if middle <= j:
            high = j
        elif middle >= i:
            low = i
        else:
            return


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
    Time O(n depth); memory 12 bytes a value beside a copy of X. See Nguyen and Kpotufe 2018, section 3.3.

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
    return FixedTree(Tree(*grow_dyadic(np.ascontiguousarray(x.T), _labels(y, n, X), box, int(depth))))


def box_around(x: np.ndarray) -> np.ndarray:
    """Lower and upper end (p, 2) of each column; a constant one gets a wider end."""
    low, high = x.min(axis=0), x.max(axis=0)
    return np.column_stack([low, np.where(low < high, high, low + np.maximum(1.0, np.abs(low)))])


@jit
def grow_dyadic(
    x: np.ndarray, label: np.ndarray, box: np.ndarray, depth: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Feature, threshold, left and right of the nodes in preorder, over columns ``x`` (p, n) in the ``box`` (p, 2).

    Thresholds are those of `DyadicScale`.
    """
    p, n = x.shape
    feature, threshold = np.empty(2 * n, dtype=np.int32), np.empty(2 * n)
    right = np.empty(2 * n, dtype=np.int32)
    order, code = np.arange(n), np.zeros((p, n), dtype=np.uint32)  # a code is the halves taken so far, a bit each
    todo = np.empty((depth + 2, 4), dtype=np.int64)  # first row, behind the last, depth, parent if a right child
    todo[0, 0], todo[0, 1], todo[0, 2], todo[0, 3] = 0, n, 0, -1
    n_todo, m = 1, 0
    while n_todo > 0:
        n_todo -= 1
        start, stop, here, parent = todo[n_todo, 0], todo[n_todo, 1], todo[n_todo, 2], todo[n_todo, 3]
        if parent >= 0:
            right[parent] = m
        if m == len(feature):
            feature, threshold, right = _doubled(feature), _doubled(threshold), _doubled(right)
        feature[m], threshold[m], right[m] = LEAF, 0.0, 0
        if here < depth and not _is_pure(label, order, start, stop):
            k = here % p
            fraction = (2.0 * code[k, order[start]] + 1.0) / (np.int64(2) << (here // p))
            feature[m], threshold[m] = k, box[k, 0] * (1.0 - fraction) + box[k, 1] * fraction
            middle = start
            for i in range(start, stop):
                row = order[i]
                if x[k, row] <= threshold[m]:
                    code[k, row] = code[k, row] * 2
                    order[i], order[middle] = order[middle], row
                    middle += 1
                else:
                    code[k, row] = code[k, row] * 2 + 1
            todo[n_todo, 0], todo[n_todo, 1], todo[n_todo, 2], todo[n_todo, 3] = middle, stop, here + 1, m
            n_todo += 1
            todo[n_todo, 0], todo[n_todo, 1], todo[n_todo, 2], todo[n_todo, 3] = start, middle, here + 1, -1
            n_todo += 1
        m += 1
    left = np.zeros(m, dtype=np.int32)
    for i in range(m):
        if feature[i] != LEAF:
            left[i] = i + 1
    return feature[:m], threshold[:m], left, right[:m]


@jit
def _doubled(a: np.ndarray) -> np.ndarray:
    out = np.empty(2 * len(a), dtype=a.dtype)
    for i in range(len(a)):
        out[i] = a[i]
    return out


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
    given = read_array("symbols", symbols)
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise ValueError(f"symbols has dtype {given.dtype} and shape {given.shape}; give integers of shape (n,).")
    if len(given) < depth + 2:
        raise ValueError(f"symbols holds {len(given)} symbols; depth={depth} needs at least {depth + 2}.")
    wrong = (given < 0) | (given >= n_symbols)
    if wrong.any():
        i = int(np.argmax(wrong))
        raise ValueError(f"symbols[{i}] is {given[i]}, outside the alphabet 0..{n_symbols - 1}.")
    coded = given.astype(np.min_scalar_type(n_symbols - 1))
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
    """Feature, threshold, left, right and joint of the nodes of a complete context tree in preorder."""
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
