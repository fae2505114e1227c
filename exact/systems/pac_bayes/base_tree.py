"""A fixed tree with its nodes as cells: the counts of rows, the label of each node, weights of its subtrees, votes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pactree_mcmc.core.compile.jit import jit
from pactree_mcmc.tree.arrays import LEAF
from pactree_mcmc.tree.routing import Routes, depths_between
from pactree_mcmc.tree.tree import Tree

from ...answers import log_sums, occurrences
from ...graph.cells import CellGraph
from ...recursion.terms import with_terms
from ...semirings.exponential import exp_down


class BaseTree(NamedTuple):
    """A tree T0 whose subtrees are weighed, and the rows that count; its nodes are numbered in preorder."""

    tree: Tree
    routes: Routes
    leaf_number: np.ndarray
    """(n_nodes,) int64: how many leaves come before the node."""
    graph: CellGraph
    """Cells are the nodes; ``stats`` the counts (n_nodes, K) of the rows that weigh, ``rows`` their sums."""
    label: np.ndarray
    """(n_nodes,) int64: the commonest class of the rows that label, the smallest of several; see `base_tree`."""
    dummy: np.ndarray
    """(n_nodes,) bool: the node holds no row that labels."""
    errors: np.ndarray
    """(n_nodes,) float64: rows of the node that its label gets wrong."""
    dummies_abstain: bool
    """Whether dummies vote only where nothing else does."""


def base_tree(
    tree: Tree, labelling: np.ndarray, counts: np.ndarray | None = None, *, dummies_abstain: bool = True
) -> BaseTree:
    """Return the nodes of ``tree`` with the counts (n_nodes, K) of the rows that label them, and of those that weigh
    subtrees.

    Dummies, which have no children, take the label of their parent if ``dummies_abstain``, else class 0. They vote only
    where nothing else does if ``dummies_abstain``: in the paper a dummy is no node of T0 and has no label.
    """
    label, dummy = majorities(labelling)
    counts = labelling if counts is None else counts
    inner = np.flatnonzero(tree.feature != LEAF)
    if dummies_abstain:
        for child in (tree.left[inner], tree.right[inner]):
            bare = dummy[child]
            label[child[bare]] = label[inner[bare]]
    rows, errors = count_errors(counts, label)
    is_leaf = tree.feature == LEAF
    graph = _graph_of(tree, inner, counts, rows)
    return BaseTree(tree, tree.routes(), np.cumsum(is_leaf) - is_leaf, graph, label, dummy, errors, dummies_abstain)


@jit
def majorities(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The commonest class (n_nodes,) of each node, the smallest of several, and whether the node is empty."""
    m, n_classes = counts.shape
    label, empty = np.zeros(m, dtype=np.int64), np.zeros(m, dtype=np.bool_)
    for i in range(m):
        most = 0.0
        for j in range(n_classes):
            if counts[i, j] > most:
                label[i], most = j, counts[i, j]
        empty[i] = most == 0.0
    return label, empty


@jit
def count_errors(counts: np.ndarray, label: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows (n_nodes,) of each node, and how many of them ``label`` gets wrong."""
    rows, errors = np.zeros(len(label), dtype=np.int64), np.zeros(len(label))
    for i in range(len(label)):
        total = 0.0
        for j in range(counts.shape[1]):
            total += counts[i, j]
        rows[i], errors[i] = np.int64(total), total - counts[i, label[i]]
    return rows, errors


def _graph_of(tree: Tree, inner: np.ndarray, counts: np.ndarray, rows: np.ndarray) -> CellGraph:
    """The nodes as cells, without prior and score; its splits are those of the tree and not named again."""
    m = tree.n_nodes
    has_edge = tree.feature != LEAF
    return CellGraph(
        first_edge=np.concatenate([[0], np.cumsum(has_edge)]),
        left=tree.left[inner],
        right=tree.right[inner],
        feature=tree.feature[inner],
        split=np.zeros(len(inner), dtype=np.int64),
        log_rule=np.zeros(len(inner)),
        rows=rows,
        stats=counts,
        score=np.zeros(m),
        design=np.arange(m, dtype=np.int32),
        depth=depths_between(tree.feature, tree.right, np.zeros(m, dtype=np.bool_)),
        first_slot=np.arange(m + 1),
        log_stop=np.zeros(m),
        log_split=np.where(has_edge, 0.0, -np.inf),
        layered=False,
    )


@jit
def count_rows(
    feature: np.ndarray, threshold: np.ndarray, right: np.ndarray, x: np.ndarray, label: np.ndarray, n_classes: int
) -> np.ndarray:
    """Rows of each class in each node of a tree in preorder, (n_nodes, n_classes) float64.

    Nodes below a node are the ones numbered next, so a node's counts are a difference of sums over leaves so far.
    """
    m = len(feature)
    so_far, end = np.zeros((m + 1, n_classes)), np.empty(m, dtype=np.int64)
    for i in range(len(x)):
        node = np.int64(0)
        while feature[node] >= 0:
            node = node + 1 if x[i, feature[node]] <= threshold[node] else np.int64(right[node])
        so_far[node + 1, label[i]] += 1.0
    end[0] = m
    for i in range(m):
        for j in range(n_classes):
            so_far[i + 1, j] += so_far[i, j]
        if feature[i] >= 0:
            end[i + 1], end[right[i]] = right[i], end[i]
    # the end of a node lies behind it, so its own sum is not read again
    for i in range(m):
        for j in range(n_classes):
            so_far[i, j] = so_far[end[i], j] - so_far[i, j]
    return so_far[:m]


class Weights(NamedTuple):
    """Which subtrees of a base tree are meant, and how much each weighs."""

    log_leaf: np.ndarray
    """(n_nodes,): log of the fraction of the subtrees, by weight, in which the node is a leaf."""
    goes_on: np.ndarray
    """(n_nodes,): the fraction in which it has its split."""
    log_total: float
    """Log of the sum of the weights before they were divided by it; of a single subtree, its log weight."""


def weigh(graph: CellGraph, log_stop: np.ndarray, log_split: float = 0.0) -> Weights:
    """Subtrees in proportion to the product of ``exp(log_stop)`` over leaves and ``exp(log_split)`` over inner nodes.

    One pass up, one down: Algorithms 1 and 2 of Nguyen and Kpotufe (2018) in logarithms.
    """
    weighed = with_terms(graph, log_stop=log_stop, log_split=log_split)
    log_inside = log_sums(weighed)
    occurs = occurrences(weighed, log_inside)
    goes_on = np.zeros(graph.n_cells)
    goes_on[np.diff(graph.first_edge) > 0] = occurs.split
    return Weights(_log(occurs.slot) + log_stop - log_inside, goes_on, float(log_inside[0]))


def _log(fraction: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(fraction)


class Says(NamedTuple):
    """What each node votes for."""

    fraction: np.ndarray
    """(m, K): votes by class, m of them in all."""
    which: np.ndarray
    """(n_nodes,) int64: which of them is the node's."""


@jit
def votes_down(
    depth: np.ndarray,
    left: np.ndarray,
    log_leaf: np.ndarray,
    fraction: np.ndarray,
    which: np.ndarray,
    abstains: np.ndarray,
) -> np.ndarray:
    """Votes (n_leaves, K) on the way down to each leaf of a tree, of all its nodes by weight.

    Relative to the heaviest of them, so that weights may be as small as they like. A node that ``abstains`` has a vote
    only where no ancestor has one. The way to a node stands in ``path``; a visit in preorder finds that to its parent.
    """
    m, n_classes, deepest = len(left), fraction.shape[1], 0
    n_leaves = 0
    for i in range(m):
        deepest = max(deepest, depth[i])
        n_leaves += left[i] == 0
    out, path, top = np.empty((n_leaves, n_classes)), np.zeros((deepest + 1, n_classes)), np.empty(deepest + 1)
    n = 0
    for i in range(m):
        d, here = depth[i], log_leaf[i]
        above = top[d - 1] if d > 0 else -np.inf
        if abstains[i] and above > -np.inf:
            here = -np.inf
        top[d] = max(above, here)
        before, new, says = exp_down(above - top[d]), exp_down(here - top[d]), which[i]
        for j in range(n_classes):
            path[d, j] = new * fraction[says, j]
            if d > 0:
                path[d, j] += before * path[d - 1, j]
        if left[i] == 0:
            for j in range(n_classes):
                out[n, j] = path[d, j]
            n += 1
    return out
