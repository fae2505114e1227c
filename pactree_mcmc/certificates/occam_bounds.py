"""Bounds on the risk of one tree that hold simultaneously for all trees of a prefix code.

Therefore the tree may be chosen by the rows that are counted.

A prefix code for splits, which must not depend on the rows, gives the code length of each split. If a list of N splits
is fixed in advance, each split takes ``log2(N)`` bits. Lengths need not be integers.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..core.checks import (
    MAX_COUNT,
    check_count,
    check_flag,
    check_type,
    labels_differ,
    read_labels,
    read_numbers,
    repr_of,
)
from ..core.compile.jit import jit
from ..core.texts import with_short_repr
from ..table.columns import refuse_missing
from ..table.reader import Table
from ..tree.arrays import LEAF
from ..tree.tree import Tree
from .bound import Bound, check_delta, documented

# largest ln(2/delta) for which the bound by a root fragment is proved here. The limit of the proof is 524, for a
# fragment with a path of one bit and a subtree of two bits.
MAX_LEVEL = 500.0


class RowErrors(NamedTuple):
    """The rows on which a tree errs, and the number of rows in each node."""

    wrong: np.ndarray  # (n,) bool: True if the tree errs on the row
    rows: np.ndarray  # (n_nodes,) int64: number of rows that pass through each node

    @property
    def n(self) -> int:
        return len(self.wrong)

    @property
    def risk(self) -> float:
        return float(self.wrong.mean())


@documented
def tree_bits(tree: Tree, split_bits: Any, n_classes: int = 2) -> np.ndarray:
    """Return the code length, in bits, of the subtree whose root is each node.

    ``2 m + 1 + (m + 1) log2 K + sum |B|`` for m splits and K classes; ``2 + 3 m + sum |B|`` for two classes.

    Parameters
    ----------
    tree : Tree
        Any tree.
    {split_bits}
    n_classes : int, default 2
        Number of labels that a leaf can have.

    Returns
    -------
    ndarray of shape (n_nodes,)
        Entry 0 is the code length of the whole tree.

    Raises
    ------
    ValueError
        If a length is negative or not finite, or their number is not that of the nodes.

    Notes
    -----
    Cost O(n_nodes). Mansour and McAllester (2000), section 2.

    Examples
    --------
    >>> import pactree_mcmc as pt
    >>> tree_bits(pt.Tree([0, -1, -1], [2.5, 0, 0], [1, 0, 0], [2, 0, 0]), 4.0).tolist()
    [9.0, 2.0, 2.0]
    """
    n_classes, split_bits = check_count("n_classes", n_classes), _read_split_bits(tree, split_bits)
    own_bits = np.where(tree.feature == LEAF, 1.0 + math.log2(n_classes), 1.0 + split_bits)
    return sums_below(tree.feature, tree.left, tree.right, own_bits)


@documented
def naive_occam(tree: Tree, X: Any, y: Any, *, split_bits: Any, n_classes: int = 2, delta: float = 0.05) -> Bound:
    """Bound the risk of a tree by its code length: ``risk + sqrt((|T| ln 2 + ln(1/delta)) / (2 n))``.

    Parameters
    ----------
    {counted_rows}
    {split_bits}
    {n_classes}
    {delta}

    {bound_of_tree}

    Notes
    -----
    Cost O(n depth). Mansour and McAllester (2000), Lemma 2.

    Examples
    --------
    >>> import numpy as np, pactree_mcmc as pt
    >>> tree = pt.Tree([0, -1, -1], [49.5, 0, 0], [1, 0, 0], [2, 0, 0], value=np.eye(2)[[0, 0, 1]], classes=[0, 1])
    >>> x = np.arange(100.0)
    >>> round(naive_occam(tree, x[:, None], x > 49, split_bits=np.log2(10)).value, 4)
    0.2093
    """
    delta = check_delta(delta)
    row_errors = count_errors(tree, X, y, n_classes)
    bits = float(tree_bits(tree, split_bits, n_classes)[0])
    penalty = math.sqrt((bits * math.log(2.0) + math.log(1.0 / delta)) / (2.0 * row_errors.n))
    terms = {"empirical risk": row_errors.risk, "penalty": penalty, "bits of the tree": bits}
    return Bound("Occam, naive", row_errors.risk + penalty, delta, terms)


@with_short_repr
class RootFragment(NamedTuple):
    """The root fragment with the smallest penalty: a tree with the same root, whose leaves are nodes of the tree."""

    penalty: float
    """Difference between the bound and the empirical risk: the sum of the three parts below."""
    leaves: np.ndarray
    """(m,) int64: nodes of the tree that are leaves of the fragment, in preorder."""
    subtrees: float
    """The part of the penalty from the code lengths of the subtrees below the leaves of the fragment."""
    paths: float
    """The part of the penalty from the code lengths of the paths to the leaves of the fragment."""
    confidence: float
    """The part of the penalty that is due to delta."""


@documented
def compute_R(tree: Tree, rows: Any, *, split_bits: Any, n_classes: int = 2, delta: float = 0.05) -> RootFragment:
    """Return the root fragment that minimises the penalty of Mansour and McAllester.

    Parameters
    ----------
    tree : Tree
        Any tree.
    rows : array of shape (n_nodes,)
        Number of rows that pass through each node, >= 1: the bound is for trees without empty nodes.
    {split_bits}
    n_classes : int, default 2
        Number of labels that a leaf can have, >= 2.
    delta : float, default 0.05
        Probability that the bound fails, in (0, 1), not below 1.4e-217.

    Raises
    ------
    ValueError
        If a node has no rows, or a child has more rows than its parent, or an argument is out of range.

    Notes
    -----
    From the leaves up each node either ends the fragment or takes the best fragments of its children: O(n_nodes).
    Mansour and McAllester (2000), section 5.

    Examples
    --------
    >>> import pactree_mcmc as pt
    >>> tree = pt.Tree([0, -1, -1], [49.5, 0, 0], [1, 0, 0], [2, 0, 0])
    >>> compute_R(tree, [1000, 900, 100], split_bits=4.0).leaves.tolist()
    [0]
    """
    check_type("tree", tree, Tree, "a Tree")
    delta, n, n_classes = check_delta(delta), read_numbers("rows", rows), check_count("n_classes", n_classes, 2)
    if n.shape == (tree.n_nodes,) and not np.isfinite(n).all():
        raise ValueError("rows holds NaN or infinity; give the rows of each node.")
    inner = np.flatnonzero(tree.feature != LEAF)
    if n.shape != (tree.n_nodes,) or np.any(n[tree.left[inner]] + n[tree.right[inner]] != n[inner]):
        raise ValueError(f"rows has shape {n.shape}; give the rows of each of the {tree.n_nodes} nodes, adding up.")
    if n.min() < 1.0:
        raise ValueError(f"node {int(np.argmin(n))} holds no row, and the bound needs some in every node: prune it.")
    split_bits = _read_split_bits(tree, split_bits)
    subtree_bits, path_bits = tree_bits(tree, split_bits, n_classes), np.ones(tree.n_nodes)
    for i in inner:
        path_bits[tree.left[i]] = path_bits[tree.right[i]] = path_bits[i] + split_bits[i] + 2.0
    level = fragment_level(delta)
    subtrees = np.sqrt(n * subtree_bits * math.log(2.0) / 2.0)
    paths, confidence = 2.0 * (np.sqrt(n * path_bits) + path_bits), 2.0 * (np.sqrt(n * level) + level)
    leaves = best_fragment_leaves(tree.feature, tree.left, tree.right, subtrees + paths + confidence)
    parts = [float(part[leaves].sum() / n[0]) for part in (subtrees, paths, confidence)]
    return RootFragment(sum(parts), leaves, *parts)


def fragment_level(delta: float) -> float:
    """Return ``ln(2/delta)``, or raise a ValueError if it exceeds 500, up to which the fragment bound is proved."""
    level = math.log(2.0 / delta)
    if level > MAX_LEVEL:
        raise ValueError(
            f"delta={delta} is too small: the theorem's terms are proved up to ln(2/delta) = {MAX_LEVEL:g}; give "
            f"delta >= {2.0 * math.exp(-MAX_LEVEL):.2g}."
        )
    return level


@documented
def root_fragment(tree: Tree, X: Any, y: Any, *, split_bits: Any, n_classes: int = 2, delta: float = 0.05) -> Bound:
    """Bound the risk of a tree by its best root fragment: ``risk + min over R of f(T, S, R, delta)``.

    Every node of the tree must hold a row.

    Parameters
    ----------
    {counted_rows}
    {split_bits}
    {n_classes}
    {delta}

    {bound_of_tree}

    Notes
    -----
    Cost O(n depth). Mansour and McAllester (2000), Theorem 3. The last line of its proof bounds the coefficient of
    ``sqrt(ln(2/delta) / n_v)``, which is ``sqrt 2 + 1 / sqrt 2 = 2.12``, by 2; with two labels or more the slack of
    the other terms makes up for it while ``ln(2/delta) <= 500``. Smaller deltas are refused.

    Examples
    --------
    >>> import numpy as np, pactree_mcmc as pt
    >>> tree = pt.Tree([0, -1, -1], [49.5, 0, 0], [1, 0, 0], [2, 0, 0], value=np.eye(2)[[0, 0, 1]], classes=[0, 1])
    >>> x = np.arange(10_000.0) / 100
    >>> round(root_fragment(tree, x[:, None], x > 49.5, split_bits=np.log2(10)).value, 4)
    0.0763
    """
    row_errors = count_errors(tree, X, y, n_classes)
    best = compute_R(tree, row_errors.rows, split_bits=split_bits, n_classes=n_classes, delta=delta)
    terms = {
        "empirical risk": row_errors.risk,
        "subtrees": best.subtrees,
        "paths": best.paths,
        "confidence": best.confidence,
        "leaves of the fragment": float(len(best.leaves)),
    }
    return Bound("Mansour-McAllester, root fragment", row_errors.risk + best.penalty, delta, terms)


@documented
def dyadic_bits(depth: Any, n_features: int, *, cyclic: bool = False) -> np.ndarray:
    """Return the code length of a dyadic cell: ``2 (depth + 1) + depth log2 p`` bits for p = ``n_features``.

    If ``cyclic``, the depth determines the feature, and the term with ``log2 p`` is left out.

    {raises}

    Examples
    --------
    >>> dyadic_bits([0, 2], 4).tolist()
    [2.0, 10.0]
    """
    depth, n_features = read_numbers("depth", depth), check_count("n_features", n_features)
    check_flag("cyclic", cyclic)
    if not np.all((depth >= 0.0) & (depth <= MAX_COUNT)):
        raise ValueError(f"depth is {repr_of(depth)}; give depths 0..{MAX_COUNT}.")
    return 2.0 * (depth + 1.0) + (0.0 if cyclic else depth * math.log2(n_features))


@documented
def dyadic_penalty(
    rows: Any, depth: Any, n: int, n_features: int, delta: float, *, n_classes: int = 2, cyclic: bool = False
) -> np.ndarray:
    """Return the spatially adaptive penalty of each cell of a dyadic tree.

    ``sqrt(2 p' ([A] ln 2 + ln(K / delta)) / n)`` with ``p' = 4 max(rows / n, ([A] ln 2 + ln(1 / delta)) / n)``, where
    ``[A]`` is `dyadic_bits` of the cell.

    Parameters
    ----------
    rows, depth : array-like of the same shape
        Number of rows of each cell, and its depth.
    n, n_features : int
        Number of all rows, and of features.
    delta : float
        The paper's delta, in (0, 1): the bound with this penalty fails with probability at most ``2 delta``.
    n_classes : int, default 2
        Number K of possible labels; the paper has 2.
    {cyclic}

    Returns
    -------
    ndarray of the shape of ``rows``

    Raises
    ------
    ValueError
        If an argument is out of range, or the shapes of ``rows`` and ``depth`` do not fit.

    Notes
    -----
    Scott (2004), equation 2.9.

    Examples
    --------
    >>> dyadic_penalty([1000], [0], 1000, 2, 0.025).round(4).tolist()
    [0.2148]
    """
    delta, n, n_classes = check_delta(delta), check_count("n", n), check_count("n_classes", n_classes)
    nats, rows = dyadic_bits(depth, n_features, cyclic=cyclic) * math.log(2.0), read_numbers("rows", rows)
    if not np.all((rows >= 0.0) & (rows <= n)):
        raise ValueError(f"rows is {repr_of(rows)}; give counts 0..{n}.")
    if rows.ndim and nats.ndim and rows.shape != nats.shape:
        raise ValueError(f"rows has shape {rows.shape} and depth {nats.shape}; give one depth a cell.")
    fraction = 4.0 * np.maximum(rows, nats - math.log(delta)) / n
    return np.sqrt(2.0 * fraction * (nats + math.log(n_classes / delta)) / n)


@documented
def dyadic_tree_bound(
    tree: Tree, X: Any, y: Any, *, n_classes: int = 2, delta: float = 0.05, cyclic: bool = False
) -> Bound:
    """Bound the risk of a dyadic tree by its empirical risk plus the spatially adaptive penalty of its leaves.

    Parameters
    ----------
    {counted_rows}
    {n_classes}
    {delta}
    {cyclic}

    {bound_of_tree}

    Notes
    -----
    The splits must be midpoints of a dyadic partition whose bounds do not depend on the rows. Each of the two events of
    the theorem takes half of delta. Cost O(n depth). Scott (2004), Theorem 2, with the root at depth 0 in the code
    length.

    Examples
    --------
    >>> import numpy as np, pactree_mcmc as pt
    >>> tree = pt.Tree([0, -1, -1], [0.5, 0, 0], [1, 0, 0], [2, 0, 0], value=np.eye(2)[[0, 0, 1]], classes=[0, 1])
    >>> x = (np.arange(10_000.0) + 0.5) / 10_000
    >>> round(dyadic_tree_bound(tree, x[:, None], x > 0.5).value, 4)
    0.107
    """
    delta = check_delta(delta)
    row_errors = count_errors(tree, X, y, n_classes)
    leaf = tree.feature == LEAF
    p = Table(X).n_features
    rows, depth = row_errors.rows[leaf], tree.node_depth[leaf]
    penalty = dyadic_penalty(rows, depth, row_errors.n, p, delta / 2.0, n_classes=n_classes, cyclic=cyclic)
    terms = {"empirical risk": row_errors.risk, "penalty": float(penalty.sum()), "leaves": float(leaf.sum())}
    return Bound("Scott, spatially adaptive", row_errors.risk + float(penalty.sum()), delta, terms)


def _read_split_bits(tree: Tree, split_bits: Any) -> np.ndarray:
    """Return ``split_bits``, one number for all splits or (n_nodes,), as an array (n_nodes,) that is 0 at leaves."""
    check_type("tree", tree, Tree, "a Tree")
    bits = read_numbers("split_bits", split_bits)
    if bits.ndim and bits.shape != (tree.n_nodes,):
        raise ValueError(f"split_bits has shape {bits.shape}; give one number, or one a node: ({tree.n_nodes},).")
    bits = np.where(tree.feature == LEAF, 0.0, bits)
    if not np.all((bits >= 0.0) & (bits <= MAX_COUNT)):
        raise ValueError("split_bits has a negative or infinite entry; give the lengths of a prefix code, >= 0.")
    return bits


def count_errors(tree: Tree, X: Any, y: Any, n_classes: int) -> RowErrors:
    """Return the errors of a classification tree on rows with labels ``y``, and the number of rows in each node."""
    check_type("tree", tree, Tree, "a Tree")
    if tree.classes is None or tree.value is None:
        raise ValueError("the tree predicts no classes; these bounds count errors: give a classification tree.")
    if check_count("n_classes", n_classes, 2) < len(tree.classes):
        raise ValueError(
            f"the tree has {len(tree.classes)} classes and n_classes={n_classes}; give how many labels there can be, "
            "known before the rows were seen: classes learnt from counted rows make the code depend on them."
        )
    labels = read_labels(y, X)
    refuse_missing(labels)
    leaf = tree.apply(X)
    if labels.shape != leaf.shape or len(leaf) == 0:
        raise ValueError(f"X has {len(leaf)} rows and y has shape {labels.shape}; give one label a row, at least one.")
    if all(labels_differ(np.full(len(labels), label, tree.classes.dtype), labels).all() for label in tree.classes):
        raise ValueError(f"y has none of the tree's classes, {repr_of(tree.classes.tolist())}; give labels like them.")
    wrong = labels_differ(tree.classes[np.argmax(tree.value[leaf], axis=1)], labels)
    return RowErrors(wrong, sums_below(tree.feature, tree.left, tree.right, np.bincount(leaf, minlength=tree.n_nodes)))


@jit
def sums_below(feature: np.ndarray, left: np.ndarray, right: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return for each node the sum (n_nodes,) of ``values`` (n_nodes,) over the subtree with this root."""
    out = values.copy()
    for i in range(len(values) - 1, -1, -1):
        if feature[i] != LEAF:
            out[i] += out[left[i]] + out[right[i]]
    return out


@jit
def best_fragment_leaves(feature: np.ndarray, left: np.ndarray, right: np.ndarray, cost: np.ndarray) -> np.ndarray:
    """Return the leaves (m,), as ascending numbers of nodes, of the root fragment with the smallest sum of costs."""
    # cost[i] is the cost of a leaf of the fragment at node i
    m = len(cost)
    best, ends_here = cost.copy(), np.ones(m, dtype=np.bool_)
    for i in range(m - 1, -1, -1):
        if feature[i] != LEAF and best[left[i]] + best[right[i]] < cost[i]:
            best[i], ends_here[i] = best[left[i]] + best[right[i]], False
    is_reached = np.zeros(m, dtype=np.bool_)
    is_reached[0] = True
    for i in range(m):
        if is_reached[i] and not ends_here[i]:
            is_reached[left[i]] = is_reached[right[i]] = True
    return np.flatnonzero(is_reached & ends_here)
