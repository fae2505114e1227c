"""Weighted votes of the subtrees of a fixed tree, and bounds on their excess risk (Nguyen and Kpotufe 2018).

A subtree T of the base tree T0 has the weight ``exp(sum of phi(A) over its leaves A)``, up to a constant.
`practical_terms` computes phi from the number of errors and rows of a node (formulas, section 7).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from pactree_mcmc.certificates.bound import Bound, check_delta
from pactree_mcmc.certificates.occam_bounds import sums_below
from pactree_mcmc.core.checks import check_count, check_number, read_numbers
from pactree_mcmc.core.compile.jit import jit
from pactree_mcmc.tree.arrays import LEAF, Routes, depths_without_joint
from pactree_mcmc.tree.tree import Tree

from ..graph.cells import CellGraph, graph_of_single_splits
from ..recursion.semirings import exp_down
from ..sums import log_sums, occurrences


class BaseTree(NamedTuple):
    """A tree T0 whose subtrees vote, with counts of the rows that determine their weights. Nodes are in preorder."""

    tree: Tree
    routes: Routes  # The tree in a form that sends many rows to leaves
    leaf_number: np.ndarray  # (n_nodes,) int64: number of leaves before the node
    # The nodes as cells: ``stats`` are the counts (n_nodes, K) of their rows, ``rows`` the sums
    graph: CellGraph
    # (n_nodes,) int64: most frequent class of the node's rows, the first of several; of a dummy, that of its parent
    label: np.ndarray
    dummy: np.ndarray  # (n_nodes,) bool: True for a node without rows
    errors: np.ndarray  # (n_nodes,) float64: number of the node's rows that have another label


def base_tree(tree: Tree, counts: np.ndarray) -> BaseTree:
    """Return a tree as a `BaseTree`, with a label (the most frequent class) and errors for each node."""
    # A *dummy* is a node without rows. It has no children, takes the label of its parent and votes only for rows for
    # which no other node votes, since in the paper a dummy is not a node of T0 and has no label
    label, dummy = np.argmax(counts, axis=1), counts.sum(axis=1) == 0.0
    inner = np.flatnonzero(tree.feature != LEAF)
    for child in (tree.left[inner], tree.right[inner]):
        is_dummy_child = dummy[child]
        label[child[is_dummy_child]] = label[inner[is_dummy_child]]
    rows = counts.sum(axis=1)
    errors = rows - counts[np.arange(tree.n_nodes), label]
    is_leaf = tree.feature == LEAF
    depth = depths_without_joint(tree.feature, tree.right, np.zeros(tree.n_nodes, dtype=np.bool_))
    zeros = np.zeros(tree.n_nodes)
    by_cell = rows.astype(np.int64), counts, zeros, np.arange(tree.n_nodes, dtype=np.int32), depth
    children = np.where(is_leaf, -1, tree.left), tree.right
    graph = graph_of_single_splits(*children, tree.feature, by_cell, zeros, np.where(is_leaf, -np.inf, 0.0))
    return BaseTree(tree, tree.routes(), np.cumsum(is_leaf) - is_leaf, graph, label, dummy, errors)


def count_rows(tree: Tree, X: np.ndarray, label: np.ndarray, n_classes: int) -> np.ndarray:
    """Return the number of rows of ``X`` (n, p) of each class in each node of a tree, (n_nodes, n_classes) float64."""
    place = label * tree.n_nodes + tree.routes().leaves(X)
    by_leaf = np.bincount(place, minlength=n_classes * tree.n_nodes).reshape(n_classes, -1).astype(np.float64)
    return np.column_stack([sums_below(tree.feature, tree.left, tree.right, counts) for counts in by_leaf])


class Weights(NamedTuple):
    """Weights of the nodes of a base tree, if its subtrees are drawn with probability proportional to their weights."""

    log_leaf: np.ndarray  # (n_nodes,): log of the fraction of the subtrees, by weight, in which the node is a leaf
    split_fraction: np.ndarray  # (n_nodes,): the fraction in which the node is split
    log_total: float  # Log of the sum of the weights before normalisation; the log weight if there is one subtree


def node_weights(graph: CellGraph, log_stop: np.ndarray) -> Weights:
    """Return log P(leaf) and P(split) of each node in a random subtree of a base tree, and the log sum of weights."""
    # the weight of a subtree is the product of exp(log_stop) over its leaves (Nguyen and Kpotufe 2018, algorithms 1, 2)
    weighted_graph = graph.with_terms(log_stop=log_stop, log_split=0.0)
    log_inside = log_sums(weighted_graph)
    occurs = occurrences(weighted_graph, log_inside)
    split_fraction = np.zeros(graph.n_cells)
    split_fraction[np.diff(graph.first_edge) > 0] = occurs.split
    with np.errstate(divide="ignore"):
        log_slot = np.log(occurs.slot)
    return Weights(log_slot + log_stop - log_inside, split_fraction, float(log_inside[0]))


def practical_terms(base: BaseTree, lambda1: float, lambda2: float, penalty: str = "size") -> np.ndarray:
    """Return the log weight of each node as a leaf, phi = -lambda1 * errors - lambda2 * sqrt(n_A) - 1."""
    # n_A is the number of rows of node A, phi 0 if it has none; "spatial" replaces the square root by
    # `spatial_penalty`. This is the practical rule of Nguyen and Kpotufe (2018), section 5
    rows = base.graph.rows
    spread = np.sqrt(rows) if penalty == "size" else spatial_penalty(base)
    return -lambda1 * base.errors - lambda2 * spread - (rows > 0)


def spatial_penalty(base: BaseTree) -> np.ndarray:
    """Return sqrt(max(n_A, j) * j) for each node with n_A > 0 rows at depth j, else 0."""
    # n times the penalty of Scott and Nowak, for n rows
    depth, rows = base.graph.depth, base.graph.rows
    return np.where(rows > 0, np.sqrt(np.maximum(rows, depth) * depth), 0.0)


class NodeVotes(NamedTuple):
    """The vote of each node, a distribution over the K classes."""

    fraction: np.ndarray  # (m, K): the m different votes
    vote_of_node: np.ndarray  # (n_nodes,) int64: row of ``fraction`` that is the vote of each node


@jit
def sum_votes_to_leaves(
    depth: np.ndarray,
    left: np.ndarray,
    log_leaf: np.ndarray,
    fraction: np.ndarray,
    vote_of_node: np.ndarray,
    abstains: np.ndarray,
) -> np.ndarray:
    """Return the weighted sums (n_leaves, K) of the votes of the nodes on the path to each leaf of a tree."""
    # A node that `abstains` votes only if no ancestor has a positive weight. Weights are divided by the largest one on
    # the path, so that they do not underflow. path[d] is the sum of the votes on the path to the current node, at depth
    # d; in preorder path[d - 1] is that of its parent
    m, n_classes, deepest = len(left), fraction.shape[1], 0
    n_leaves = 0
    for i in range(m):
        deepest = max(deepest, depth[i])
        n_leaves += left[i] == 0
    out, path, log_tops = np.empty((n_leaves, n_classes)), np.zeros((deepest + 1, n_classes)), np.empty(deepest + 1)
    n = 0
    for i in range(m):
        d, log_weight = depth[i], log_leaf[i]
        log_largest = log_tops[d - 1] if d > 0 else -np.inf
        if abstains[i] and log_largest > -np.inf:
            log_weight = -np.inf
        log_tops[d] = max(log_largest, log_weight)
        old_factor, new_factor = exp_down(log_largest - log_tops[d]), exp_down(log_weight - log_tops[d])
        vote = vote_of_node[i]
        for j in range(n_classes):
            path[d, j] = new_factor * fraction[vote, j]
            if d > 0:
                path[d, j] += old_factor * path[d - 1, j]
        if left[i] == 0:
            for j in range(n_classes):
                out[n, j] = path[d, j]
            n += 1
    return out


SMALLEST_LAMBDA = 1e-100  # smallest lambda that is accepted
MIN_COUNTED_ROWS = 8  # smallest number of counted rows to which the theorem applies
MAX_ARGUMENT = 1e100  # largest deviation, cost and constant allowed
MAX_RATE_ROWS = 10**40  # largest number of rows at which `adaptive_rate` shows the rate


def oracle_bound(
    excess: float,
    mass: Any,
    *,
    n: int,
    n_nodes: int,
    depth: int,
    n_features: int,
    n_classes: int,
    lam: float = 1.0,
    delta: float = 0.05,
) -> Bound:
    """Return the bound of Theorem 1 on the excess risk of the vote of all subtrees, from one subtree.

    ``L / (1 - lam/2) * (E(T) + Delta(T) + 3 D0 leaves / (lam n) + (log(2 sqrt(n) / delta) + lam sqrt(2 n log(1/delta)))
    / (lam n))`` with ``Delta(T) = sum over leaves sqrt(8 max(p(A), ((2 + log D) D0 + log(1/delta)) / n)
    log(|T0| / delta) / n)``; the theorem takes the smallest over all subtrees T.

    Parameters
    ----------
    excess : float, in [0, 1]
        E(T), the risk of T's classifier minus that of Bayes.
    mass : array-like of shape (n_leaves,)
        Probability p(A) of each leaf of T, in [0, 1].
    n : int
        Number of counted rows, >= 8.
    n_nodes : int
        ``|T0|``, nodes of the base tree without dummies, >= 1.
    depth : int
        D0, the depth of the base tree, >= 0.
    n_features, n_classes : int
        D >= 1 and L >= 2.
    lam : float, default 1.0
        In (0, 2).
    delta : float, default 0.05
        In (0, 1); the bound fails with probability at most 4 delta.

    Notes
    -----
    Nguyen and Kpotufe (2018), Theorem 1. The masses and the excess are unknown outside simulations: the bound shows how
    the vote compares with pruning, but it is not a certificate.

    Examples
    --------
    >>> print(oracle_bound(0.0, [0.5, 0.5], n=100_000, n_nodes=7, depth=2, n_features=1, n_classes=2))
    Oracle bound, PAC-Bayes tree: 0.1443 with probability 0.8
        excess risk: 0
        Delta(T): 0.0281187
        3 D0 leaves / (lambda n): 0.00012
        confidence: 0.00783491
    """
    lam, delta = check_lambda(lam), check_delta(delta)
    for name, value, fewest in (
        ("n", n, MIN_COUNTED_ROWS),
        ("n_nodes", n_nodes, 1),
        ("depth", depth, 0),
        ("n_features", n_features, 1),
        ("n_classes", n_classes, 2),
    ):
        check_count(name, value, fewest)
    p = read_numbers("mass", mass)
    if p.ndim != 1 or len(p) == 0 or not np.all((p >= 0.0) & (p <= 1.0)):
        raise ValueError(f"mass has shape {p.shape}; give the probability, in [0, 1], of each leaf of T: (n_leaves,).")
    excess = check_number("excess", excess, "a difference of risks in [0, 1]", 0.0, 1.0)
    least = ((2.0 + math.log(n_features)) * depth + math.log(1.0 / delta)) / n
    terms = {
        "excess risk": float(excess),
        "Delta(T)": float(np.sqrt(8.0 * np.maximum(p, least) * math.log(n_nodes / delta) / n).sum()),
        "3 D0 leaves / (lambda n)": 3.0 * depth * len(p) / (lam * n),
        "confidence": confidence_term(n, lam, delta),
    }
    raw = n_classes / (1.0 - lam / 2.0) * sum(terms.values())
    return Bound("Oracle bound, PAC-Bayes tree", raw, 4.0 * delta, terms)


def vote_excess_bound(
    excess: Any, deviation: Any, log_prior: Any, *, n: int, n_classes: int, lam: float = 1.0, delta: float = 0.05
) -> Bound:
    """Return the bound of Proposition 2 on the excess risk of the vote of any family of classifiers.

    ``L / (1 - lam/2) * inf over h of { E(h) + Delta(h) + log(1 / P(h)) / (lam n) } + ...``, for the posterior ``Q(h)
    proportional to P(h) exp(-n lam (R^(h) + Delta^(h)))``.

    Parameters
    ----------
    excess : array-like of shape (m,)
        E(h), the risk of each classifier minus that of Bayes, in [0, 1].
    deviation : array-like of shape (m,)
        Delta(h) >= 0, which with probability ``1 - delta`` is at least the Delta^(h) of the posterior.
    log_prior : array-like of shape (m,)
        log P(h) <= 0, fixed before the rows are seen.
    n : int
        Number of counted rows, >= 8.
    n_classes : int
        L >= 2.
    lam : float, default 1.0
        In (0, 2).
    delta : float, default 0.05
        In (0, 1); the bound fails with probability at most 4 delta.

    Returns
    -------
    Bound
        ``terms["classifier"]`` is the place of the classifier with the infimum.

    Notes
    -----
    Nguyen and Kpotufe (2018), Proposition 2; `oracle_bound` is its case of subtrees, Theorem 1. A bound for
    simulations: the excess is unknown otherwise.

    Examples
    --------
    >>> import numpy as np
    >>> print(vote_excess_bound([0.0, 0.1], [0.01, 0.0], np.log([0.5, 0.5]), n=100_000, n_classes=2))
    Vote, excess risk: 0.0714 with probability 0.8
        excess risk: 0
        deviation: 0.01
        log(1 / P(h)) / (lambda n): 6.93147e-06
        confidence: 0.00783491
        classifier: 0
    """
    lam, delta = check_lambda(lam), check_delta(delta)
    check_count("n", n, MIN_COUNTED_ROWS)
    check_count("n_classes", n_classes, 2)
    columns = {"excess": _read_column("excess", excess, 0.0, 1.0)}
    columns["deviation"] = _read_column("deviation", deviation, 0.0, MAX_ARGUMENT)
    columns["log_prior"] = _read_column("log_prior", log_prior, -MAX_ARGUMENT, 0.0)
    if len({len(values) for values in columns.values()}) > 1:
        raise ValueError("excess, deviation and log_prior have different lengths; give one number for each classifier.")
    prior_cost = -columns["log_prior"] / (lam * n)
    i = int(np.argmin(columns["excess"] + columns["deviation"] + prior_cost))
    terms = {
        "excess risk": float(columns["excess"][i]),
        "deviation": float(columns["deviation"][i]),
        "log(1 / P(h)) / (lambda n)": float(prior_cost[i]) + 0.0,
        "confidence": confidence_term(n, lam, delta),
    }
    raw = n_classes / (1.0 - lam / 2.0) * sum(terms.values())
    return Bound("Vote, excess risk", raw, 4.0 * delta, {**terms, "classifier": float(i)})


def _read_column(name: str, column: Any, low: float, high: float) -> np.ndarray:
    """Check that an argument holds a number in [low, high] for each classifier, and return it as an array (m,)."""
    values = read_numbers(name, column)
    if values.ndim != 1 or len(values) == 0:
        raise ValueError(f"{name} has shape {values.shape}; give a number for each classifier: (m,).")
    out_of_range = np.flatnonzero(~((values >= low) & (values <= high)))
    if len(out_of_range):
        raise ValueError(f"{name} holds {values[out_of_range[0]]}; give numbers from {low:g} to {high:g}.")
    return values


class AdaptiveRate(NamedTuple):
    """A bound on the expected excess risk of the vote over subtrees of a dyadic tree, and its rate."""

    value: float
    """The bound: a factor times the sum of the terms below, plus 4 / n. A value above 1 does not restrict the risk."""
    exponent: float
    """``alpha / (2 alpha + d)``: the bound decreases like ``log(n) / n`` to this power."""
    radius: float
    """Diameter of the leaves of the subtree that gives the smallest bound."""
    n_leaves: float
    """Bound on the number of leaves of this subtree, ``C2 radius^-d``."""
    approximation: float
    """``2 lambda radius^alpha``, with the Hoelder constant lambda of the class probabilities."""
    labels: float
    """Term for labels that are majorities of n other rows: ``2 sqrt(leaves log(2 L) / n) + leaves / (e n)``."""
    deviation: float
    """Bound on Delta(T) of `oracle_bound`."""
    prior: float
    """``3 D0 leaves / (lam n)``."""
    confidence: float
    """Term of the confidence level."""


def adaptive_rate(
    n: int,
    *,
    smoothness: float,
    holder: float,
    n_features: int,
    dimension: float | None = None,
    packing: float | None = None,
    n_classes: int = 2,
    lam: float = 1.0,
) -> AdaptiveRate:
    """Bound the expected excess risk of the vote over subtrees of a dyadic tree (Corollary 1, with its constants).

    Theorem 1 at the subtree whose leaves have diameter r, for the best r: smoothness bounds its approximation error,
    its labels are the majorities of n further rows, and its leaves are at most ``C2 r^-d``. The theorem fails with
    probability at most ``4 delta``, here ``delta = 1 / n``, which adds ``4 / n``.

    Parameters
    ----------
    n : int
        Rows of each half of the sample, >= 8.
    smoothness : float
        alpha in (0, 1]: the class probabilities are Hoelder continuous of this order.
    holder : float
        Their Hoelder constant, >= 0.
    n_features : int
        D, features in [0, 1].
    dimension : float, optional
        d in (0, D], the intrinsic dimension of the rows. Default: D.
    packing : float, optional
        C2 > 0: there are subtrees of diameter r with at most ``C2 r^-d`` leaves. Default: ``(2 sqrt D)^D``, that of all
        cubes, which needs ``dimension = D``.
    n_classes : int, default 2
        L >= 2.
    lam : float, default 1.0
        In (0, 2).

    Notes
    -----
    The corollary has no parameter of noise: it holds for every distribution of that smoothness. T0 has depth ``D
    ceil(log2 n)`` and at most 2n nodes. The constants are large: the number is meant to show the rate.
    Nguyen and Kpotufe (2018), PAC-Bayes tree: weighted subtrees with guarantees, NeurIPS.

    Examples
    --------
    >>> rate = adaptive_rate(10**8, smoothness=1.0, holder=1.0, n_features=1)
    >>> round(rate.exponent, 4), round(rate.value, 3), round(rate.radius, 4)
    (0.3333, 0.192, 0.0079)
    """
    check_count("n", n, MIN_COUNTED_ROWS, MAX_RATE_ROWS)
    alpha = check_number("smoothness", smoothness, "a number in (0, 1]", 5e-324, 1.0)
    holder = check_number("holder", holder, "a number >= 0", 0.0, MAX_ARGUMENT)
    check_count("n_features", n_features)
    check_count("n_classes", n_classes, 2)
    lam = check_lambda(lam)
    d = float(n_features)
    if dimension is not None:
        d = check_number("dimension", dimension, f"a number in (0, {n_features}]", 5e-324, float(n_features))
    if packing is None and d < n_features:
        raise ValueError("a dimension below n_features needs packing, the constant of the number of leaves; give it.")
    if packing is None and n_features * math.log(2.0 * math.sqrt(n_features)) > math.log(MAX_ARGUMENT):
        raise ValueError(f"n_features={n_features} has too many cubes at each diameter; give dimension and packing.")
    if packing is None:
        packing = (2.0 * math.sqrt(n_features)) ** n_features
    c2 = check_number("packing", packing, "a number > 0", 5e-324, MAX_ARGUMENT)
    radius = np.geomspace(1.0 / n, math.sqrt(n_features), 2000)
    leaves = np.maximum(c2 * radius**-d, 1.0)
    depth, delta = n_features * math.ceil(math.log2(n)), 1.0 / n
    min_mass = (2.0 + math.log(n_features)) * depth + math.log(1.0 / delta)
    parts = np.array(
        [
            2.0 * holder * radius**alpha,
            2.0 * np.sqrt(leaves * math.log(2.0 * n_classes) / n) + leaves / (math.e * n),
            np.sqrt(8.0 * leaves * (1.0 + leaves * min_mass / n) * math.log(2.0 * n / delta) / n),
            3.0 * depth * leaves / (lam * n),
            np.full(len(radius), confidence_term(n, lam, delta)),
        ]
    )
    i = int(np.argmin(parts.sum(axis=0)))
    value = n_classes / (1.0 - lam / 2.0) * float(parts[:, i].sum()) + 4.0 * delta
    exponent = alpha / (2.0 * alpha + d)
    return AdaptiveRate(value, exponent, float(radius[i]), float(leaves[i]), *(float(part) for part in parts[:, i]))


def check_lambda(lam: float) -> float:
    """Return lambda as a float, and raise ValueError if it is not in (0, 2), for which the theory holds."""
    return check_number("lam", lam, "0 < lam < 2, for which the theory holds", SMALLEST_LAMBDA, 2.0 - 2.0**-52)


def confidence_term(n: int, lam: float, delta: float) -> float:
    """Return the term ``(log(2 sqrt(n) / delta) + lam sqrt(2 n log(1 / delta))) / (lam n)`` of Theorem 1."""
    return (math.log(2.0 * math.sqrt(n) / delta) + lam * math.sqrt(2.0 * n * math.log(1.0 / delta))) / (lam * n)
