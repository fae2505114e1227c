"""Shah's bounds for one tree: sample compression, and Occam's razor with coded thresholds.

``n_nodes`` counts every node of the tree, leaves too, as the paper's table does. A leaf's label is coded like a
feature, so there must be at least as many features as classes. The bounds without a compression set need probabilities
of messages that sum to at most one over the trees of all sizes. They do: there are at most 4^k binary trees of k nodes,
one for k = 1, and ``1/4 + sum over k >= 2 of 4^k (2 (k + 1))^-k`` is below .86.

The bounds for a given tree choose, for each node, the threshold with the shortest code among those between the same two
neighbouring values of the rows at the node, which divide these rows alike. They return the tree with these thresholds,
which predicts the counted rows as the given tree does. The message has the parent and side of each of the k nodes, a
feature for each of the m inner nodes, a label for each leaf, and the thresholds in one of three codes: values of the
rows of a compression set, entries of lists, or dyadic numbers of an interval. Only ordered splits are encoded.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from ..core.checks import (
    MAX_COUNT,
    check_choice,
    check_count,
    check_flag,
    check_number,
    read_array,
    read_matrix,
    read_numbers,
    repr_of,
)
from ..core.compile.jit import jit
from ..table.coding import LARGEST_FLOAT
from ..table.reader import Table
from ..tree.arrays import LEAF
from ..tree.tree import Tree
from .bound import Bound, binomial_tail_inversion, check_delta, check_errors, documented, log_choose
from .occam_bounds import count_errors

# codes of a node's parent among k nodes: one of k + 1 strings, as in the paper, or a number (footnote 3)
STRING, NUMBER = PARENTS = ("string", "number")


@documented
def compression_tail(n_nodes: int, n_features: int, n: int, errors: int, delta: float = 0.05) -> Bound:
    """Bound the risk of a tree whose thresholds are values of training rows by the binomial tail inversion.

    Parameters
    ----------
    {compression_set}

    {bound}

    Notes
    -----
    Cost O(errors). Shah (2007), Theorem 1 with equations 4 and 5.

    Examples
    --------
    >>> round(compression_tail(11, 17, 435, 9).value, 3)
    0.312
    """
    n_nodes, n_features, n, errors, delta = _check_compression(n_nodes, n_features, n, errors, delta)
    nats = _compressed_tree_nats(n_nodes, n_features, n)
    return tail_bound("sample compression, binomial tail", nats, n - n_nodes, errors, delta)


@documented
def compression(n_nodes: int, n_features: int, n: int, errors: int, delta: float = 0.05) -> Bound:
    """Bound the risk of a tree whose thresholds are values of training rows in closed form.

    ``1 - exp(-[ln C(n - d, errors) + ln(1 / (P_I P_M delta))] / (n - d - errors))`` with ``d = n_nodes``.

    The bound of `compression_tail` is never larger.

    Parameters
    ----------
    {compression_set}

    {bound}

    Notes
    -----
    Cost O(1). Shah (2007), Corollary 2 with equations 4 and 5: the bounds of its Table 1.

    Examples
    --------
    >>> round(compression(11, 17, 435, 9).value, 3)
    0.329
    """
    n_nodes, n_features, n, errors, delta = _check_compression(n_nodes, n_features, n, errors, delta)
    return _closed_form("sample compression", _compressed_tree_nats(n_nodes, n_features, n), n - n_nodes, errors, delta)


@documented
def occam_discrete(n_nodes: int, n_features: int, n_thresholds: int, n: int, errors: int, delta: float = 0.05) -> Bound:
    """Bound the risk of a tree whose thresholds come from a list fixed in advance, in closed form.

    ``1 - exp(-[ln C(n, errors) + ln(1 / (P_M delta))] / (n - errors))``, with a factor ``1 / n_thresholds`` per node in
    ``P_M``.

    Parameters
    ----------
    {n_nodes_n_features}
    n_thresholds : int
        Number of possible thresholds per feature.
    {n_errors_delta}

    {bound}

    Notes
    -----
    Cost O(1). Shah (2007), Theorem 3.

    Examples
    --------
    >>> round(occam_discrete(11, 17, 2, 435, 9).value, 3)
    0.243
    """
    n_nodes, n_features, n, errors, delta = _check_sizes(n_nodes, n_features, n, errors, delta)
    n_thresholds = check_count("n_thresholds", n_thresholds, 1)
    nats = message_nats(n_nodes, n_features) | {"thresholds": n_nodes * math.log(n_thresholds)}
    return _closed_form("Occam, discrete thresholds", nats, n, errors, delta)


@documented
def occam_continuous(
    n_nodes: int, n_features: int, lengths: Any, n: int, errors: int, delta: float = 0.05, *, halvings: Any = 0
) -> Bound:
    """Bound the risk of a tree whose thresholds are encoded dyadically by the binomial tail inversion.

    A threshold costs ``-ln[zeta(kappa) zeta(kappa') zeta(l) 2^-l]``, ``zeta(a) = 6 / (pi^2 (a + 1)^2)``.

    Parameters
    ----------
    {n_nodes_n_features}
    lengths : array-like of int of shape (m,)
        Number of bits l of each of the m <= n_nodes thresholds (`dyadic_length`).
    {n_errors_delta}
    halvings : int, or array of int that broadcasts to (2, m)
        How often the interval of each threshold was halved below (kappa) and above (kappa') its middle.

    {bound}

    Notes
    -----
    Cost O(errors). Shah (2007), Theorem 5 with equation 8.

    Examples
    --------
    >>> round(occam_continuous(11, 17, [1, 0, 2, 3, 1], 435, 9).value, 3)
    0.242
    """
    n_nodes, n_features, n, errors, delta = _check_sizes(n_nodes, n_features, n, errors, delta)
    bits, kappa = read_array("lengths", lengths), read_array("halvings", halvings)
    if bits.ndim != 1 or len(bits) > n_nodes:
        raise ValueError(f"lengths has shape {bits.shape}; give one a threshold, at most {n_nodes} of them.")
    for name, array in (("lengths", bits), ("halvings", kappa)):
        if array.size and (array.dtype.kind not in "iu" or array.min() < 0 or array.max() > MAX_COUNT):
            raise ValueError(f"{name}={repr_of(array)}; give integers 0..{MAX_COUNT}.")
    if kappa.shape not in ((), (len(bits),), (2, 1), (2, len(bits)), (1,), (1, 1), (1, len(bits))):
        raise ValueError(f"halvings has shape {kappa.shape}; give one number, or two a threshold: (2, {len(bits)}).")
    bits, kappa = bits.astype(np.float64), kappa.astype(np.float64)
    kappa = np.broadcast_to(kappa, (2, len(bits)))
    threshold_nats = float(len(bits) and (zeta_nats(bits) + bits * math.log(2.0) + zeta_nats(kappa).sum(axis=0)).sum())
    nats = message_nats(n_nodes, n_features) | {"thresholds": threshold_nats}
    return tail_bound("Occam, continuous thresholds", nats, n, errors, delta)


def dyadic_length(low: float, high: float, lower: float, upper: float) -> int:
    """Return the smallest number of bits that encode a threshold in ``[low, high]``, within ``[lower, upper]``.

    l bits code the points ``lower + (2j - 1) / 2^(l+1) * (upper - lower)``, j = 1, ..., 2^l.

    Raises
    ------
    ValueError
        Unless ``lower <= low < high <= upper``, or if the interval is too short for 60 bits.

    Notes
    -----
    Shah (2007), section 4.2.

    Examples
    --------
    >>> dyadic_length(0.2, 0.3, 0.0, 1.0)
    1
    """
    ends = {"low": low, "high": high, "lower": lower, "upper": upper}
    low, high, lower, upper = (check_number(name, value, "a finite number") for name, value in ends.items())
    if upper - lower > LARGEST_FLOAT:
        raise ValueError(f"[{lower}, {upper}] is too wide: its length overflows; rescale the feature.")
    if not lower <= low < high <= upper:
        raise ValueError(f"[{low}, {high}] in [{lower}, {upper}] is not an interval of thresholds; give low < high.")
    length, _ = dyadic_code(low, high, lower, upper)
    if length >= 0:
        return int(length)
    raise ValueError(f"[{low}, {high}] is too short a part of [{lower}, {upper}]: no threshold of 60 bits lies in it.")


@jit
def dyadic_code(low: float, high: float, lower: float, upper: float) -> tuple[int, float]:
    """Return the smallest number of bits of a dyadic code with a point in ``[low, high]``, and that point."""
    for length in range(61):
        scale = 2.0 ** (length + 1)
        # the smallest j whose point is at least `low`
        first = max(math.ceil(((low - lower) / (upper - lower) * scale + 1.0) / 2.0), 1.0)
        point = lower + (2.0 * first - 1.0) / scale * (upper - lower)
        if point <= high and first <= 2.0**length:
            return length, max(point, low)
    return -1, math.nan


def zeta_nats(a: Any) -> Any:
    """Return minus the log of ``zeta(a) = 6 / (pi^2 (a + 1)^2)``, a prior of a >= 0: the code length of a in nats."""
    return math.log(math.pi**2 / 6.0) + 2.0 * np.log(np.asarray(a) + 1.0)


def message_nats(n_nodes: int, n_features: int, parents: str = STRING) -> dict[str, float]:
    """Return the code length, nats, of a tree of k = `n_nodes` nodes without thresholds, in two parts by name."""
    # "features": those of inner nodes and labels of leaves; "structure": parent and side of each node. The sum is minus
    # the log of P_M = n_features^-k (k + 1)^-k 2^-k, with k^-k in the middle if parents are numbers
    structure = n_nodes * (math.log(n_nodes + 1.0 if parents == STRING else float(n_nodes)) + math.log(2.0))
    return {"features": n_nodes * math.log(n_features), "structure": structure}


def _compressed_tree_nats(n_nodes: int, n_features: int, n: int) -> dict[str, float]:
    """Return the code lengths, in nats, of `message_nats` and of the "compression set": ``n_nodes`` of ``n`` rows."""
    set_nats = float(log_choose(n, n_nodes) + zeta_nats(np.array(n_nodes)))
    return message_nats(n_nodes, n_features) | {"compression set": set_nats}


def _closed_form(name: str, nats: dict[str, float], n: int, errors: int, delta: float) -> Bound:
    """Return 1 - exp(-(ln C(n, errors) + sum(nats) + ln(1 / delta)) / (n - errors)) as a bound called `name`."""
    # 1 if all n rows are errors
    total = float(log_choose(n, errors)) + sum(nats.values()) - math.log(delta)
    raw = 1.0 - math.exp(-total / (n - errors)) if errors < n else 1.0
    return Bound(name, raw, delta, {"empirical risk": errors / n, **_in_nats(nats)})


def tail_bound(name: str, nats: dict[str, float], n: int, errors: int, delta: float) -> Bound:
    """Bound the risk of a classifier with ``errors`` errors on n rows by the binomial tail inversion."""
    # the prior of the classifier is exp(-sum(nats)), the lengths of the parts of its message
    raw = binomial_tail_inversion(errors, n, math.log(delta) - sum(nats.values()))
    return Bound(name, raw, delta, {"empirical risk": errors / n, **_in_nats(nats)})


def _in_nats(nats: dict[str, float]) -> dict[str, float]:
    return {f"{name}, nats": value for name, value in nats.items()}


def _check_sizes(n_nodes: int, n_features: int, n: int, errors: int, delta: float) -> tuple[int, int, int, int, float]:
    """Check and return the arguments that all bounds of this module have, in this order."""
    check_errors(errors, n)
    sizes = check_count("n_nodes", n_nodes, 1), check_count("n_features", n_features, 1)
    return *sizes, int(n), int(errors), check_delta(delta)


def _check_compression(
    n_nodes: int, n_features: int, n: int, errors: int, delta: float
) -> tuple[int, int, int, int, float]:
    """Check and return the arguments, in this order, of a bound whose compression set has a row for each node."""
    # n_nodes < n, and errors <= n - n_nodes
    n_nodes, n_features, n, _, delta = _check_sizes(n_nodes, n_features, n, 0, delta)
    if n_nodes >= n:
        raise ValueError(f"n_nodes={n_nodes} rows would be the compression set of n={n}; no row is left to count.")
    check_errors(errors, n - n_nodes)
    return n_nodes, n_features, n, int(errors), delta


MAX_HALVINGS = 24  # largest number of times that an interval of thresholds is halved on each side
ROWS, CHEAPEST = HALVING_RULES = ("rows", "cheapest")  # values of the argument ``halvings`` of `occam_tree_bound`


@dataclass(frozen=True)
class TreeBound(Bound):
    """A bound on the risk of one tree, and that tree.

    Attributes
    ----------
    tree : Tree
        The tree whose risk is bounded: the given tree with the thresholds that the message encodes.
    rows : ndarray of shape (d,), int64
        The compression set, numbers of the rows whose values are thresholds; empty if the message has the thresholds.
    n, errors : int
        Number of rows outside the compression set, and number of errors of the tree on these rows.
    """

    tree: Tree = field(repr=False)
    rows: np.ndarray = field(repr=False)
    n: int
    errors: int


class TreeOnRows(NamedTuple):
    """The counted rows, the errors of a tree on them, and the possible thresholds of its m inner nodes."""

    X: np.ndarray  # (n, p) float64: the rows
    wrong: np.ndarray  # (n,) bool: True for rows on which the tree errs
    inner: np.ndarray  # (m,) int64: numbers of the inner nodes
    feature: np.ndarray  # (m,) int32: the feature that each inner node splits on
    low: np.ndarray  # (m,) float64: the largest value of a row that goes left at each inner node
    # (m,) float64: the smallest value of a row that goes right; thresholds t with low <= t < high divide alike
    high: np.ndarray


@documented
def compression_tree_bound(
    tree: Tree, X: Any, y: Any, *, parents: str = STRING, n_classes: int = 2, delta: float = 0.05
) -> TreeBound:
    """Bound the risk of a tree whose thresholds are values of a few counted rows.

    A row encodes the threshold of every node at which its value of the feature divides the rows as the tree does, so d
    rows may encode m > d thresholds. The message lists the nodes in the order of their rows. The numbers of nodes per
    row have the prior ``1 / C(m - 1, d - 1)``, and m the prior ``zeta(m - d)``. Rows on which the tree errs are
    preferred, since rows of the compression set are not counted.

    Parameters
    ----------
    {coded_tree}
    {coded_options}

    Raises
    ------
    ValueError
        If the tree has no classes or more than ``n_classes``, nominal splits or splits with an empty side, X and y do
        not fit, or an argument is out of range.

    Notes
    -----
    Cost O(n m); the rows are found greedily, at most ``1 + ln m`` times as many as needed. Shah (2007), Theorem 1 with
    equations 4 and 5, and the remark before equation 4 that rows may be fewer than thresholds.

    Examples
    --------
    >>> import numpy as np, pactree_mcmc as pt
    >>> tree = pt.Tree([0, -1, -1], [49.5, 0, 0], [1, 0, 0], [2, 0, 0], value=np.eye(2)[[0, 0, 1]], classes=[0, 1])
    >>> x = np.arange(100.0)
    >>> bound = compression_tree_bound(tree, x[:, None], x > 49)
    >>> round(bound.value, 3), bound.rows.tolist(), bound.tree.threshold[0].item()
    (0.169, [49], 49.0)
    """
    check_choice("parents", parents, PARENTS)
    tree_rows = _check_tree_on_rows(tree, X, y, n_classes)
    delta, (n, p), m = check_delta(delta), tree_rows.X.shape, len(tree_rows.inner)
    row_of_threshold = _cover_cuts(tree_rows.low, tree_rows.high, tree_rows.feature, tree_rows.X, tree_rows.wrong)
    rows = np.unique(row_of_threshold)
    if len(rows) == n:
        raise ValueError(f"all {n} rows would be the compression set; no row is left to count: prune the tree.")
    nats = message_nats(tree.n_nodes, max(p, n_classes), parents) | compression_nats(m, len(rows), n)
    errors = int(tree_rows.wrong.sum() - tree_rows.wrong[rows].sum())
    bound = tail_bound("sample compression of a tree", nats, n - len(rows), errors, delta)
    bounded = _with_thresholds(tree, tree_rows, tree_rows.X[row_of_threshold, tree_rows.feature])
    return _with_tree(bound, bounded, rows, n - len(rows), errors)


@documented
def occam_tree_bound(
    tree: Tree,
    X: Any,
    y: Any,
    *,
    thresholds: Any = None,
    ranges: Any = None,
    halvings: str = ROWS,
    shared: bool = False,
    parents: str = STRING,
    n_classes: int = 2,
    delta: float = 0.05,
) -> TreeBound:
    """Bound the risk of a tree whose thresholds come from lists fixed in advance, or are encoded dyadically.

    Parameters
    ----------
    {coded_tree}
    thresholds : list of p arrays, optional
        Possible thresholds of each feature, fixed before the rows were seen. A threshold costs the log of the length of
        the list of its feature.
    ranges : array of shape (p, 2), optional
        The smallest and the largest value that each feature can have, known before the rows were seen. A threshold
        costs ``-ln[zeta(kappa) zeta(kappa') zeta(l) 2^-l]``: l bits in the range halved kappa times below its middle
        and kappa' times above. Give either ``thresholds`` or ``ranges``.
    halvings : {"rows", "cheapest"}, default "rows"
        Choice of kappa and kappa'. "rows": for each feature the largest for which the halved range still contains the
        values of the rows (as in the paper; 0 on a side of the middle without rows). "cheapest": for each threshold
        those of the shortest message.
    shared : bool, default False
        True if all thresholds have the same kappa and kappa', which the message contains once (the paper's homogeneous
        systems); by "rows" the smallest of the features that have rows on that side of the middle.
    {coded_options}

    Raises
    ------
    ValueError
        As for `compression_tree_bound`; if no threshold of a list, or of the halved range, divides the rows of a node
        as the tree does; if rows lie outside ``ranges``.

    Notes
    -----
    Cost O(n depth), 625 codes a threshold if the cheapest is sought. Shah (2007), Theorem 3 by the binomial tail, and
    Theorem 5 with section 4.2. The message has no thresholds of leaves.

    Examples
    --------
    >>> import numpy as np, pactree_mcmc as pt
    >>> tree = pt.Tree([0, -1, -1], [49.5, 0, 0], [1, 0, 0], [2, 0, 0], value=np.eye(2)[[0, 0, 1]], classes=[0, 1])
    >>> x = np.arange(100.0)
    >>> bound = occam_tree_bound(tree, x[:, None], x > 49, ranges=[[0.0, 400.0]])
    >>> round(bound.value, 3), bound.tree.threshold[0].item()
    (0.203, 49.21875)
    """
    check_choice("parents", parents, PARENTS)
    tree_rows = _check_tree_on_rows(tree, X, y, n_classes)
    _refuse_other_order(tree, X)
    delta, (n, p) = check_delta(delta), tree_rows.X.shape
    if (thresholds is None) == (ranges is None):
        raise ValueError("give either thresholds, a list for each feature, or ranges, two numbers for each feature.")
    if thresholds is not None:
        name = "Occam of a tree, listed thresholds"
        values, threshold_nats = _thresholds_from_lists(tree_rows, read_lists(thresholds, p))
    else:
        name = "Occam of a tree, coded thresholds"
        check_choice("halvings", halvings, HALVING_RULES)
        ends, is_shared = read_ranges(ranges, p), check_flag("shared", shared)
        values, threshold_nats = _thresholds_from_ranges(tree_rows, ends, halvings, is_shared)
    nats = message_nats(tree.n_nodes, max(p, n_classes), parents) | threshold_nats
    errors = int(tree_rows.wrong.sum())
    bounded = _with_thresholds(tree, tree_rows, values)
    return _with_tree(tail_bound(name, nats, n, errors, delta), bounded, np.empty(0, dtype=np.int64), n, errors)


def compression_nats(n_inner: int, n_rows: int, n: int) -> dict[str, float]:
    """Return the code lengths, nats, of the "compression set", and of the "rows of the thresholds"."""
    assignment = float(zeta_nats(n_inner - n_rows))
    if n_inner:
        assignment += float(log_choose(n_inner - 1, n_rows - 1))
    return {"compression set": float(log_choose(n, n_rows) + zeta_nats(n_rows)), "rows of the thresholds": assignment}


def halvings_of_rows(X: np.ndarray, ranges: np.ndarray) -> np.ndarray:
    """Return the largest numbers of halvings for which each range still contains the values of all rows."""
    # row 0: the part of a range below its middle, row 1: above; at most 24, and 0 if no value lies in the part
    middle, half = _middle_and_half(ranges)
    distance = np.array([middle - X.min(axis=0), X.max(axis=0) - middle])
    outside_features = np.flatnonzero((distance > half).any(axis=0))
    if len(outside_features):
        k = int(outside_features[0])
        raise ValueError(f"feature {k} has values outside its range {ranges[k].tolist()}; give all that it can have.")
    kappa = np.zeros(distance.shape, dtype=np.int64)
    for _ in range(MAX_HALVINGS):
        kappa += (distance > 0.0) & (2.0 ** -(kappa + 1.0) * half >= distance)
    return kappa


def halved_ranges(ranges: np.ndarray, kappa: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the lower and the upper ends, (p,) each, of ``ranges`` (p, 2) after ``kappa`` (2, p) halvings."""
    # a halving moves an end half of the way towards the middle
    middle, half = _middle_and_half(ranges)
    return middle - 2.0 ** -kappa[0].astype(np.float64) * half, middle + 2.0 ** -kappa[1].astype(np.float64) * half


def _middle_and_half(ranges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    half = (ranges[:, 1] - ranges[:, 0]) / 2.0
    return ranges[:, 0] + half, half


def read_lists(thresholds: Any, p: int) -> list[np.ndarray]:
    """Check the argument ``thresholds``, and return the distinct thresholds of each of p features, ascending."""
    is_table = isinstance(thresholds, np.ndarray) and thresholds.ndim == 2
    fits = (is_table or isinstance(thresholds, list | tuple)) and len(thresholds) == p
    lists = [np.unique(read_numbers("thresholds", part)) for part in (thresholds if fits else [])]
    if not lists or not all(len(part) and np.isfinite(part).all() for part in lists):
        raise ValueError(f"thresholds is {repr_of(thresholds)}; give finite numbers for each of the {p} features.")
    return lists


def read_ranges(ranges: Any, p: int) -> np.ndarray:
    """Check the argument ``ranges``, and return it as an array (p, 2), the lowest and highest value of each feature."""
    ends = read_numbers("ranges", ranges)
    if ends.shape != (p, 2) or not np.isfinite(ends).all() or not np.isfinite(ends[:, 1] - ends[:, 0]).all():
        raise ValueError(f"ranges has shape {ends.shape}; give two finite numbers for each of the {p} features.")
    if not np.all(ends[:, 0] < ends[:, 1]):
        raise ValueError(f"ranges is {repr_of(ends)}; give the smallest value of each feature before the largest.")
    return ends


def _check_tree_on_rows(tree: Tree, X: Any, y: Any, n_classes: int) -> TreeOnRows:
    """Check a tree and its rows; return its errors and, for each inner node, the interval of possible thresholds."""
    wrong = count_errors(tree, X, y, check_count("n_classes", n_classes, 2)).wrong
    table = read_matrix("X", X) if tree.columns is None else tree.columns.numbers(X)
    inner = np.flatnonzero(tree.feature != LEAF)
    if np.any(tree.categories >= 0):
        raise ValueError("the tree has a nominal split, which this code lacks; give a tree with ordered splits.")
    if not np.isfinite(table).all():
        raise ValueError("X holds missing or infinite values, which this code lacks; fill them in.")
    low, high = _threshold_intervals(tree.feature, tree.cuts, tree.left, tree.right, table)
    one_sided = inner[~np.isfinite(low[inner]) | ~np.isfinite(high[inner])]
    if len(one_sided):
        raise ValueError(f"node {int(one_sided[0])} sends rows to one side only; prune it: the tree then costs less.")
    return TreeOnRows(table, wrong, inner, tree.feature[inner], low[inner], high[inner])


def _refuse_other_order(tree: Tree, X: Any) -> None:
    """Raise a ValueError if the columns of X have other places than those of the tree."""
    names = Table(X).names
    if names is not None and tree.columns is not None and tree.columns.named and list(tree.columns.names) != names:
        raise ValueError(f"the tree has the columns {list(tree.columns.names)}, and X {names}; give both in one order.")


def _thresholds_from_lists(tree_rows: TreeOnRows, lists: list[np.ndarray]) -> tuple[np.ndarray, dict[str, float]]:
    """Return for each inner node the smallest listed threshold that divides the rows alike, and all code lengths."""
    values, nats = np.empty(len(tree_rows.inner)), 0.0
    for i, k in enumerate(tree_rows.feature):
        place = int(np.searchsorted(lists[k], tree_rows.low[i]))
        if place == len(lists[k]) or lists[k][place] >= tree_rows.high[i]:
            raise ValueError(
                f"no threshold of feature {k} lies in [{tree_rows.low[i]}, {tree_rows.high[i]}), where node "
                f"{int(tree_rows.inner[i])} parts the rows; give lists that hold the tree's thresholds."
            )
        values[i], nats = lists[k][place], nats + math.log(len(lists[k]))
    return values, {"thresholds": nats}


def _thresholds_from_ranges(
    tree_rows: TreeOnRows, ranges: np.ndarray, halvings: str, shared: bool
) -> tuple[np.ndarray, dict[str, float]]:
    """Return the threshold of each inner node (m,) with the shortest dyadic code, and two code lengths in nats."""
    if len(tree_rows.inner) == 0:
        return np.empty(0), {"thresholds": 0.0, "halvings": 0.0}
    max_halvings = halvings_of_rows(tree_rows.X, ranges)
    if halvings == ROWS:
        kappa = _common_halvings(tree_rows.X, ranges, max_halvings) if shared else max_halvings
        candidates = kappa[:, tree_rows.feature][None]
    else:
        pairs = np.indices((MAX_HALVINGS + 1,) * 2).reshape(2, -1).T
        candidates = np.broadcast_to(pairs[:, :, None], (*pairs.shape, len(tree_rows.inner)))
    own_ranges = ranges[tree_rows.feature]
    bits, values = np.empty((2, len(candidates), len(tree_rows.inner)))
    for t, kappa in enumerate(candidates):
        bits[t], values[t] = code_between(tree_rows.low, tree_rows.high, *halved_ranges(own_ranges, kappa))
    length = np.where(bits < 0.0, np.inf, zeta_nats(np.maximum(bits, 0.0)) + bits * math.log(2.0))
    halving_nats = zeta_nats(candidates).sum(axis=1)
    if shared:
        best = np.full(len(tree_rows.inner), np.argmin(length.sum(axis=1) + halving_nats[:, 0]))
    else:
        best = np.argmin(length + halving_nats, axis=0)
    best_codes = best, np.arange(len(tree_rows.inner))
    if not np.isfinite(length[best_codes]).all():
        i = int(np.argmax(length[best_codes]))
        raise ValueError(
            f"no threshold of 60 bits in the range of feature {int(tree_rows.feature[i])} lies in [{tree_rows.low[i]}, "
            f"{tree_rows.high[i]}), where node {int(tree_rows.inner[i])} parts the rows; prune it."
        )
    total = float(halving_nats[best_codes][0] if shared else halving_nats[best_codes].sum())
    return values[best_codes], {"thresholds": float(length[best_codes].sum()), "halvings": total}


def _common_halvings(X: np.ndarray, ranges: np.ndarray, kappa: np.ndarray) -> np.ndarray:
    """Return numbers of halvings (2, p), below and above the middle, that are the same for all features."""
    # the minimum over the features with rows on that side of the middle, 0 if none has any
    middle, _ = _middle_and_half(ranges)
    has_rows = np.array([X.min(axis=0) < middle, X.max(axis=0) > middle])
    least = np.where(has_rows, kappa, MAX_HALVINGS).min(axis=1, keepdims=True)
    return np.broadcast_to(np.where(has_rows.any(axis=1, keepdims=True), least, 0), kappa.shape)


def _with_thresholds(tree: Tree, tree_rows: TreeOnRows, values: np.ndarray) -> Tree:
    """Return the tree with the thresholds `values` (m,) at its inner nodes, all of which send missing values right."""
    threshold = tree.threshold.copy()
    threshold[tree_rows.inner] = values
    return replace(tree, threshold=threshold, default_left=np.zeros(tree.n_nodes, dtype=bool))


def _with_tree(bound: Bound, tree: Tree, rows: np.ndarray, n: int, errors: int) -> TreeBound:
    """Return ``bound`` as a `TreeBound` on the risk of ``tree``, with the numbers ``rows`` of its compression set."""
    return TreeBound(bound.name, bound.raw, bound.delta, bound.terms, tree, rows, n, errors)


@jit
def _threshold_intervals(
    feature: np.ndarray, threshold: np.ndarray, left: np.ndarray, right: np.ndarray, X: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest value that goes left at each node, and the smallest that goes right, (n_nodes,) each."""
    low, high = np.full(len(feature), -np.inf), np.full(len(feature), np.inf)
    for i in range(len(X)):
        node = 0
        while feature[node] != LEAF:
            x = X[i, feature[node]]
            if x <= threshold[node]:
                low[node] = max(low[node], x)
                node = left[node]
            else:
                high[node] = min(high[node], x)
                node = right[node]
    return low, high


@jit
def _cover_cuts(low: np.ndarray, high: np.ndarray, feature: np.ndarray, X: np.ndarray, wrong: np.ndarray) -> np.ndarray:
    """Choose for each of m thresholds a row of X whose value in [low, high) can replace it, few rows in all."""
    # greedy set cover: each step takes the row that can be used for most of the remaining thresholds, and among equal
    # ones a row on which the tree errs
    m, n = len(low), len(X)
    holder, gain = np.full(m, -1), np.zeros(n, dtype=np.int64)
    for j in range(m):
        for i in range(n):
            gain[i] += low[j] <= X[i, feature[j]] < high[j]
    n_remaining = m
    while n_remaining > 0:
        best = 0
        for i in range(1, n):
            if gain[i] > gain[best] or (gain[i] == gain[best] and wrong[i] and not wrong[best]):
                best = i
        for j in range(m):
            if holder[j] < 0 and low[j] <= X[best, feature[j]] < high[j]:
                holder[j] = best
                n_remaining -= 1
                for i in range(n):
                    gain[i] -= low[j] <= X[i, feature[j]] < high[j]
    return holder


@jit
def code_between(
    low: np.ndarray, high: np.ndarray, lower: np.ndarray, upper: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of bits (m,) and the value (m,) of the shortest dyadic code in each interval `[low, high)`."""
    bits, values = np.empty(len(low)), np.empty(len(low))
    for j in range(len(low)):
        bits[j], values[j] = dyadic_code(low[j], np.nextafter(high[j], -np.inf), lower[j], upper[j])
    return bits, values
