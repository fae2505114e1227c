"""PAC-Bayes weights over the subtrees of a fixed tree, whose nodes are cells, and their vote.

A subtree T of T0 has the weight ``exp(sum of phi(A) over its leaves A)``, up to a constant. `practical_terms` and
`theoretical_terms` are the phi of the two rules, from the errors of a node's label and its number of rows (Nguyen and
Kpotufe 2018; formulas, section 7).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from pactree_mcmc.certificates.occam_bounds import sum_below
from pactree_mcmc.core.compile.jit import jit
from pactree_mcmc.tree.arrays import LEAF, Routes, depths_between
from pactree_mcmc.tree.tree import Tree

from ...answers import log_sums, occurrences
from ...graph.cells import CellGraph
from ...recursion.terms import with_terms
from ...semirings.exponential import exp_down


class BaseTree(NamedTuple):
    """A tree T0 whose subtrees have weights, and the counted rows. Nodes are numbered in preorder."""

    tree: Tree
    routes: Routes
    leaf_number: np.ndarray
    """(n_nodes,) int64: number of leaves before the node."""
    graph: CellGraph
    """Cells are the nodes, ``stats`` the counts (n_nodes, K) of the rows that weigh subtrees, ``rows`` their sums."""
    label: np.ndarray
    """(n_nodes,) int64: most frequent class of the rows that label nodes, the first of several; see `base_tree`."""
    dummy: np.ndarray
    """(n_nodes,) bool: the node contains no row that labels nodes."""
    errors: np.ndarray
    """(n_nodes,) float64: number of the node's rows that have another label."""
    dummies_abstain: bool
    """True if dummies vote only for rows for which no other node votes."""


def base_tree(
    tree: Tree, labelling: np.ndarray, counts: np.ndarray | None = None, *, dummies_abstain: bool = True
) -> BaseTree:
    """Return a tree as cells, with the counts (n_nodes, K) of the rows that label nodes and that weigh subtrees.

    A dummy is a node without rows that label it. It has no children. With ``dummies_abstain`` it takes the label of its
    parent and votes only for rows for which no other node votes, since in the paper a dummy is not a node of T0 and has
    no label. Without, its label is class 0.
    """
    label, dummy = np.argmax(labelling, axis=1), labelling.sum(axis=1) == 0.0
    counts = labelling if counts is None else counts
    inner = np.flatnonzero(tree.feature != LEAF)
    if dummies_abstain:
        for child in (tree.left[inner], tree.right[inner]):
            is_dummy = dummy[child]
            label[child[is_dummy]] = label[inner[is_dummy]]
    rows = counts.sum(axis=1)
    errors = rows - counts[np.arange(tree.n_nodes), label]
    is_leaf = tree.feature == LEAF
    graph = _graph_of(tree, inner, counts, rows.astype(np.int64))
    return BaseTree(tree, tree.routes(), np.cumsum(is_leaf) - is_leaf, graph, label, dummy, errors, dummies_abstain)


def _graph_of(tree: Tree, inner: np.ndarray, counts: np.ndarray, rows: np.ndarray) -> CellGraph:
    """Return the nodes as cells, without prior and score. Splits are those of the tree; ``split`` is 0."""
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


def count_rows(tree: Tree, X: np.ndarray, label: np.ndarray, n_classes: int) -> np.ndarray:
    """Return the rows of each class in each node of a tree, (n_nodes, n_classes) float64."""
    place = label * tree.n_nodes + tree.routes().leaves(X)
    by_leaf = np.bincount(place, minlength=n_classes * tree.n_nodes).reshape(n_classes, -1).astype(np.float64)
    return np.column_stack([sum_below(tree.feature, tree.left, tree.right, counts) for counts in by_leaf])


class Weights(NamedTuple):
    """Weights of the subtrees of a base tree."""

    log_leaf: np.ndarray
    """(n_nodes,): log of the fraction of the subtrees, by weight, in which the node is a leaf."""
    goes_on: np.ndarray
    """(n_nodes,): the fraction in which the node is split."""
    log_total: float
    """Log of the sum of the weights before normalisation; the log weight if there is one subtree."""


def weigh(graph: CellGraph, log_stop: np.ndarray, log_split: float = 0.0) -> Weights:
    """Weigh subtrees by the product of ``exp(log_stop)`` over leaves and ``exp(log_split)`` over inner nodes.

    One pass up, one down: Algorithms 1 and 2 of Nguyen and Kpotufe (2018) in logarithms.
    """
    weighed = with_terms(graph, log_stop=log_stop, log_split=log_split)
    log_inside = log_sums(weighed)
    occurs = occurrences(weighed, log_inside)
    goes_on = np.zeros(graph.n_cells)
    goes_on[np.diff(graph.first_edge) > 0] = occurs.split
    with np.errstate(divide="ignore"):
        log_slot = np.log(occurs.slot)
    return Weights(log_slot + log_stop - log_inside, goes_on, float(log_inside[0]))


def practical_terms(base: BaseTree, lambda1: float, lambda2: float, penalty: str = "size") -> np.ndarray:
    """Return ``-lambda1 * errors - lambda2 * sqrt(n_A) - 1`` for nodes that hold data, 0 for dummies (section 5)."""
    rows = base.graph.rows
    spread = np.sqrt(rows) if penalty == "size" else spatial_penalty(base)
    return -lambda1 * base.errors - lambda2 * spread - (rows > 0)


def spatial_penalty(base: BaseTree) -> np.ndarray:
    """Return ``sqrt(max(n_A, j) * j)`` for a node with data at depth j, else 0: n times that of Scott and Nowak."""
    depth, rows = base.graph.depth, base.graph.rows
    return np.where(rows > 0, np.sqrt(np.maximum(rows, depth) * depth), 0.0)


def theoretical_terms(base: BaseTree, lam: float, delta: float, depth: int) -> np.ndarray:
    """Return ``-lambda * (errors + sqrt(2 n_A log(|T0| / delta))) - 3 D0``, 0 for dummies. |T0| leaves dummies out."""
    n_nodes = int(np.sum(~base.dummy))
    cost = base.errors + np.sqrt(2.0 * base.graph.rows * math.log(n_nodes / delta))
    return np.where(base.dummy, 0.0, -lam * cost - 3.0 * depth)


def prior_terms(base: BaseTree, depth: int) -> np.ndarray:
    """Return ``-3 D0`` for each leaf that is not a dummy: the prior of Theorem 1 without its constant."""
    return np.where(base.dummy, 0.0, -3.0 * depth)


class NodeVotes(NamedTuple):
    """The vote of each node."""

    fraction: np.ndarray
    """(m, K): the m different votes, by class."""
    which: np.ndarray
    """(n_nodes,) int64: number of the node's vote."""


@jit
def votes_down(
    depth: np.ndarray,
    left: np.ndarray,
    log_leaf: np.ndarray,
    fraction: np.ndarray,
    which: np.ndarray,
    abstains: np.ndarray,
) -> np.ndarray:
    """Return the votes (n_leaves, K) of the nodes on the path to each leaf of a tree, by weight.

    The votes are relative to the largest weight on the path, so that no weight is too small. A node that ``abstains``
    votes only if no ancestor has a weight. ``path[d]`` contains the votes of the path to the current node at depth d.
    In preorder ``path[d - 1]`` is that of its parent.
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
        before, new, vote = exp_down(above - top[d]), exp_down(here - top[d]), which[i]
        for j in range(n_classes):
            path[d, j] = new * fraction[vote, j]
            if d > 0:
                path[d, j] += before * path[d - 1, j]
        if left[i] == 0:
            for j in range(n_classes):
                out[n, j] = path[d, j]
            n += 1
    return out
