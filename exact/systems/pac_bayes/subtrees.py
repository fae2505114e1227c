"""PAC-Bayes weights over the subtrees of a fixed tree.

A subtree T of T0 weighs ``exp(sum of phi(A) over its leaves A)``, up to a constant. Each rule here is its phi, from the
errors of a node's label and its number of rows (Nguyen and Kpotufe 2018; formula sheet, section 7).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pactree_mcmc.certificates import Bound
from pactree_mcmc.certificates.bound import check_delta
from pactree_mcmc.core.checks import check_count, check_number, read_numbers

from .base_tree import BaseTree

SMALLEST_LAMBDA = 1e-100
LEAST_COUNTED = 8
"""Smallest number of counted rows to which the theorem applies."""


def practical_terms(base: BaseTree, lambda1: float, lambda2: float, penalty: str = "size") -> np.ndarray:
    """``-lambda1 * errors - lambda2 * sqrt(n_A) - 1`` for nodes that hold data, 0 for dummies (section 5)."""
    rows = base.graph.rows
    spread = np.sqrt(rows) if penalty == "size" else spatial_penalty(base)
    return -lambda1 * base.errors - lambda2 * spread - (rows > 0)


def spatial_penalty(base: BaseTree) -> np.ndarray:
    """``sqrt(max(n_A, j) * j)`` for a node with data at depth j: n times that of Scott and Nowak; 0 for dummies."""
    depth, rows = base.graph.depth, base.graph.rows
    return np.where(rows > 0, np.sqrt(np.maximum(rows, depth) * depth), 0.0)


def theoretical_terms(base: BaseTree, lam: float, delta: float, depth: int) -> np.ndarray:
    """``-lambda * (errors + sqrt(2 n_A log(|T0| / delta))) - 3 D0``, 0 for dummies, which |T0| does not count."""
    n_nodes = int(np.sum(~base.dummy))
    cost = base.errors + np.sqrt(2.0 * base.graph.rows * math.log(n_nodes / delta))
    return np.where(base.dummy, 0.0, -lam * cost - 3.0 * depth)


def prior_terms(base: BaseTree, depth: int) -> np.ndarray:
    """``-3 D0`` for each leaf that is no dummy: the prior of Theorem 1 without its constant."""
    return np.where(base.dummy, 0.0, -3.0 * depth)


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
    """Returns the bound of Theorem 1 on the excess risk of the vote of `PACBayesTheoryClassifier`, from one subtree of
    T0.

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

    Returns
    -------
    Bound

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    Cost O(leaves). Nguyen and Kpotufe (2018), Theorem 1. The masses and the excess are unknown outside simulations: the
    bound shows how the vote compares with pruning, but it is not a certificate.

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
        ("n", n, LEAST_COUNTED),
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
    confidence = math.log(2.0 * math.sqrt(n) / delta) + lam * math.sqrt(2.0 * n * math.log(1.0 / delta))
    terms = {
        "excess risk": float(excess),
        "Delta(T)": float(np.sqrt(8.0 * np.maximum(p, least) * math.log(n_nodes / delta) / n).sum()),
        "3 D0 leaves / (lambda n)": 3.0 * depth * len(p) / (lam * n),
        "confidence": confidence / (lam * n),
    }
    raw = n_classes / (1.0 - lam / 2.0) * sum(terms.values())
    return Bound("Oracle bound, PAC-Bayes tree", raw, 4.0 * delta, terms)


def check_lambda(lam: float) -> float:
    """Refuse a lambda that the theory does not cover."""
    return check_number("lam", lam, "0 < lam < 2, for which the theory holds", SMALLEST_LAMBDA, 2.0 - 2.0**-52)
