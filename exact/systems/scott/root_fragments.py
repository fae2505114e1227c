"""The spatially adaptive penalty on root fragments (Scott 2004, remark 1; Mansour and McAllester 2000).

A tree T is cut off at the leaves of a root fragment R; the deviance of each cell A of R is bounded as that of a leaf,
with the code of the part of T below A added to the code of A:

``Phi_R(T) = sum over A of sqrt(2 p'_A ([A] ln 2 + [T_A] ln 2 + ln(1 / delta)) / n)``,  the smallest over R counts.

The pairs of a cell and a tree below it have a prefix code, so that Theorem 2 holds for all T and R simultaneously.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from pactree_mcmc.certificates import Bound, dyadic_bits
from pactree_mcmc.certificates.bound import check_delta
from pactree_mcmc.core.checks import check_count, check_flag, check_type, differ, read_labels
from pactree_mcmc.table.reader import Table
from pactree_mcmc.tree.arrays import LEAF
from pactree_mcmc.tree.tree import Tree

from ...answers import best_sums, hull_by_size
from ...graph.cells import CellGraph
from ...recursion.terms import with_terms
from ...semirings.hulls import Hull
from .penalties import Sample


@dataclass(frozen=True)
class RootFragments:
    """The spatially adaptive penalty at the best root fragment of each tree (Scott 2004, remark 1).

    Parameters
    ----------
    delta : float or None, default None
        Confidence parameter in (0, 1); None: one over the number of rows.

    Raises
    ------
    ValueError
        If ``delta`` is outside (0, 1).

    Notes
    -----
    A fragment that is the whole tree has the penalty of `SpatiallyAdaptive` with one bit more for each leaf, which says
    that it is one.
    """

    delta: float | None = None

    def __post_init__(self) -> None:
        if self.delta is not None:
            check_delta(self.delta)

    def of_fragments(self, rows: Any, depth: Any, leaves: Any, sample: Sample) -> np.ndarray:
        """Returns the penalty of cells with ``rows`` rows at ``depth`` below which a tree has ``leaves`` leaves."""
        delta = 1.0 / sample.n if self.delta is None else self.delta
        nats = dyadic_bits(depth, sample.n_features, cyclic=sample.cyclic) * math.log(2.0)
        below = fragment_bits(leaves, sample) * math.log(2.0)
        mass = 4.0 * np.maximum(rows, nats - math.log(delta)) / sample.n
        return np.sqrt(2.0 * mass * (nats + below - math.log(delta)) / sample.n)


def fragment_bits(leaves: Any, sample: Sample) -> np.ndarray:
    """Code length of a labelled tree of so many leaves below a known cell, bits: ``[T]`` of Proposition 1."""
    k = np.asarray(leaves, dtype=np.float64)
    split_bits = 0.0 if sample.cyclic else math.log2(sample.n_features)
    return 2.0 * k - 1.0 + k * math.log2(sample.n_classes) + (k - 1.0) * split_bits


def dyadic_fragment_bound(
    tree: Tree, X: Any, y: Any, *, n_classes: int = 2, delta: float = 0.05, cyclic: bool = False
) -> Bound:
    """Risk of a dyadic tree: the empirical one plus the spatially adaptive penalty of its best root fragment.

    Parameters
    ----------
    tree : Tree
        A classification tree whose splits are midpoints of a dyadic partition that does not depend on the rows.
    X : table of shape (n, p)
        The counted rows; the tree may depend on them.
    y : array-like of shape (n,)
        Their labels.
    n_classes : int, default 2
        Number of possible labels, fixed before the rows were seen.
    delta : float, default 0.05
        Probability that the bound fails, in (0, 1); each of the two events takes half of it.
    cyclic : bool, default False
        Whether the depth determines the coordinate.

    Returns
    -------
    Bound

    Raises
    ------
    ValueError
        If the tree has no classes or more than ``n_classes``, X and y do not fit, or an argument is out of range.

    Notes
    -----
    From the leaves up each node ends the fragment or takes the best ones of its children: O(n depth). Scott (2004),
    Theorem 2 and remark 1.

    Examples
    --------
    >>> tree = Tree([0, -1, -1], [0.5, 0, 0], [1, 0, 0], [2, 0, 0], value=np.eye(2)[[0, 0, 1]], classes=np.arange(2))
    >>> x = (np.arange(10_000.0) + 0.5) / 10_000
    >>> bound = dyadic_fragment_bound(tree, x[:, None], x > 0.5)
    >>> round(bound.value, 4), bound.terms["leaves of the fragment"]
    (0.0827, 1.0)
    """
    check_type("tree", tree, Tree, "a Tree")
    delta = check_delta(delta)
    check_flag("cyclic", cyclic)
    if tree.classes is None or tree.value is None:
        raise ValueError("the tree predicts no classes; the bound counts errors: give a classification tree.")
    if check_count("n_classes", n_classes, 2) < len(tree.classes):
        raise ValueError(
            f"the tree has {len(tree.classes)} classes and n_classes={n_classes}; give how many there are."
        )
    labels, leaf = read_labels(y, X), tree.apply(X)
    if labels.shape != leaf.shape or len(leaf) == 0:
        raise ValueError(f"X has {len(leaf)} rows and y has shape {labels.shape}; give one label a row, at least one.")
    risk = float(np.mean(differ(tree.classes[np.argmax(tree.value[leaf], axis=1)], labels)))
    rows, leaves = np.bincount(leaf, minlength=tree.n_nodes), (tree.feature == LEAF).astype(np.int64)
    for i in np.flatnonzero(tree.feature != LEAF)[::-1]:
        rows[i] = rows[tree.left[i]] + rows[tree.right[i]]
        leaves[i] = leaves[tree.left[i]] + leaves[tree.right[i]]
    sample = Sample(len(leaf), Table(X).n_features, int(n_classes), bool(cyclic))
    best = RootFragments(delta / 2.0).of_fragments(rows, tree.node_depth, leaves, sample)
    ends = np.ones(tree.n_nodes)
    for i in np.flatnonzero(tree.feature != LEAF)[::-1]:
        below = best[tree.left[i]] + best[tree.right[i]]
        if below < best[i]:
            best[i], ends[i] = below, ends[tree.left[i]] + ends[tree.right[i]]
    terms = {"empirical risk": risk, "penalty": float(best[0]), "leaves of the fragment": float(ends[0])}
    return Bound("Scott, root fragment", risk + float(best[0]), delta, terms)


def best_fragments(
    graph: CellGraph, errors: np.ndarray, rule: RootFragments, sample: Sample, strength: float
) -> tuple[list[tuple[int, int]], float, float]:
    """The tree with the least risk plus penalty at its best fragment: cells and splits in preorder, errors, penalty.

    Below a cell of the fragment the penalty is concave in the number of leaves, so that one of the corners of the hull
    of (leaves, errors) is best there.
    """
    hull = hull_by_size(with_terms(graph, log_stop=-errors))
    cell = np.repeat(np.arange(graph.n_cells), hull.length)
    corner = np.arange(len(cell)) - np.repeat(np.cumsum(hull.length) - hull.length, hull.length)
    at = hull.start[cell] + corner
    paid = sample.n * strength * rule.of_fragments(graph.rows[cell], graph.depth[cell], hull.leaves[at], sample)
    value = hull.weight[at] - paid
    first = np.cumsum(hull.length) - hull.length
    top = np.maximum.reduceat(value, first)
    best = best_sums(with_terms(graph, log_stop=top))
    nodes: list[tuple[int, int]] = []
    wrong = penalty = 0.0
    todo = [(0, -1)]
    while todo:
        c, wanted = todo.pop()
        if wanted < 0 and best[c] > top[c]:
            e = _best_split(graph, best, c)
            nodes.append((c, e))
            todo += [(int(graph.right[e]), -1), (int(graph.left[e]), -1)]
            continue
        if wanted < 0:
            wanted = int(np.argmax(value[first[c] : first[c] + hull.length[c]]))
            wrong -= float(hull.weight[hull.start[c] + wanted])
            penalty += float(paid[first[c] + wanted]) / sample.n
        e, left, right = _split_of_corner(graph, hull, c, wanted)
        nodes.append((c, e))
        if e >= 0:
            todo += [(int(graph.right[e]), right), (int(graph.left[e]), left)]
    return nodes, wrong, penalty


def _best_split(graph: CellGraph, best: np.ndarray, cell: int) -> int:
    edges = np.arange(graph.first_edge[cell], graph.first_edge[cell + 1])
    return int(edges[np.argmax(best[graph.left[edges]] + best[graph.right[edges]])])


def _split_of_corner(graph: CellGraph, hull: Hull, cell: int, wanted: int) -> tuple[int, int, int]:
    """The split and the corners of both children that make a corner of a cell; -1 for a leaf."""
    at = hull.start[cell] + wanted
    leaves, weight = hull.leaves[at], hull.weight[at]
    if leaves == 1.0:
        return -1, 0, 0
    found, smallest = (-1, 0, 0), np.inf
    for e in range(int(graph.first_edge[cell]), int(graph.first_edge[cell + 1])):
        a, b = int(graph.left[e]), int(graph.right[e])
        left = slice(hull.start[a], hull.start[a] + hull.length[a])
        right = slice(hull.start[b], hull.start[b] + hull.length[b])
        fits = hull.leaves[left][:, None] + hull.leaves[right] == leaves
        off = np.where(fits, np.abs(hull.weight[left][:, None] + hull.weight[right] - weight), np.inf)
        i = int(np.argmin(off))
        if off.flat[i] < smallest:
            smallest = float(off.flat[i])
            found = (e, i // off.shape[1], i % off.shape[1])
    return found
