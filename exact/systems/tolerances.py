"""Tolerances of Neyman-Pearson learning, from dyadic trees and from VC classes (Scott 2004, sections 3.2 and 3.3)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pactree_mcmc.certificates.bound import check_delta
from pactree_mcmc.core.checks import BELOW_ONE, check_count, check_number, read_numbers
from pactree_mcmc.core.special import gammaln, logsumexp

LARGEST_LOG = 700.0
"""Log at which a bound on a probability is cut off, since its exponential overflows."""


def log_class_size(leaves: Any, n_features: int, *, cyclic: bool = False) -> np.ndarray:
    """Return the log of the number of labelled dyadic trees with k ``leaves``, ``Catalan(k - 1) 2^k p^(k - 1)``.

    For cyclic trees, without a choice of coordinate, the power of p is left out.

    Examples
    --------
    >>> np.exp(log_class_size([1, 2, 3], 2)).round(6).tolist()
    [2.0, 8.0, 64.0]
    """
    k = np.asarray(leaves, dtype=np.float64)
    catalan = gammaln(2.0 * k - 1.0) - gammaln(k) - gammaln(k + 1.0)
    return catalan + k * math.log(2.0) + (0.0 if cyclic else (k - 1.0) * math.log(n_features))


def srm_tolerance(leaves: Any, n: int, delta: float, n_features: int, *, cyclic: bool = False) -> np.ndarray:
    """Return the tolerance of equation 3.8 for trees with ``leaves`` leaves and a class of ``n`` rows.

    ``sqrt(2 (log |H^k| + k ln 2 + ln(2 / delta)) / n)``. Half of it bounds, for all trees of all sizes simultaneously,
    how far a fraction of the class's rows is from its probability.

    Examples
    --------
    >>> srm_tolerance([1, 10], 1000, 0.05, 2).round(4).tolist()
    [0.1007, 0.2541]
    """
    check_delta(delta)
    k = np.asarray(leaves, dtype=np.float64)
    size = log_class_size(k, n_features, cyclic=cyclic)
    return np.sqrt(2.0 * (size + k * math.log(2.0) + math.log(2.0 / delta)) / n)


def erm_tolerance(max_leaves: int, n: int, delta: float, n_features: int, *, cyclic: bool = False) -> float:
    """Return the tolerance of equation 3.3 for all trees of at most ``max_leaves`` leaves and a class of ``n`` rows."""
    check_delta(delta)
    size = logsumexp(log_class_size(np.arange(1, max_leaves + 1), n_features, cyclic=cyclic))
    return math.sqrt(2.0 * (float(size) + math.log(2.0 / delta)) / n)


def vc_tolerance(n: Any, delta: float, vc_dimension: int, *, k: int = 0) -> np.ndarray:
    """Return the tolerance of equations 3.2 and 3.4 for a class of finite VC dimension and ``n`` rows of a class.

    ``sqrt(128 (V ln n + k ln 2 + ln(8 / delta)) / n)``: with it NP-ERM satisfies Theorem 12, and with V and k of the
    k-th of a family of classes NP-SRM satisfies Theorem 14. Trees have smaller ones (`srm_tolerance`).

    Parameters
    ----------
    n : int, or array of these
        Rows of the class, >= 1.
    delta : float
        Probability that the bound fails, in (0, 1).
    vc_dimension : int
        V >= 0.
    k : int, default 0
        Number of the class in the family; 0 for a single class (3.2).

    Returns
    -------
    ndarray
        Tolerances of the shape of ``n``; half of one bounds, over the whole class, how far the fraction of rows is from
        its probability.

    Examples
    --------
    The paper's example, .2 for each class of half of 97,104 rows:

    >>> float(vc_tolerance(97_104 // 2, 0.1, 1).round(4))
    0.2
    """
    check_delta(delta)
    check_count("vc_dimension", vc_dimension, 0)
    check_count("k", k, 0)
    rows = read_numbers("n", n)
    if not np.all((rows >= 1.0) & np.isfinite(rows)):
        raise ValueError("n holds a number below 1; give numbers of rows >= 1.")
    return np.sqrt(128.0 * (vc_dimension * np.log(rows) + k * math.log(2.0) + math.log(8.0 / delta)) / rows)


def vc_failure(n0: int, n1: int, eps0: float, eps1: float, vc_dimension: int) -> float:
    """Return the bound of Theorem 10 on the probability that NP-ERM with fixed tolerances fails, at fixed class sizes.

    ``8 n0^V exp(-n0 eps0^2 / 128) + 8 n1^V exp(-n1 eps1^2 / 128)``; it may be above 1.

    Parameters
    ----------
    n0, n1 : int
        Rows of the null class and of the other, >= 1, known before the sample is drawn.
    eps0, eps1 : float
        Tolerances in (0, 1].
    vc_dimension : int
        V >= 0.

    Notes
    -----
    Cannon, Howse, Hush and Scovel (2002), as in Scott (2004).

    Examples
    --------
    >>> round(vc_failure(48_552, 48_552, 0.2, 0.2, 1), 3)
    0.2
    """
    check_count("vc_dimension", vc_dimension, 0)
    total = 0.0
    for name, n, eps in (("0", n0, eps0), ("1", n1, eps1)):
        check_count(f"n{name}", n)
        eps = check_number(f"eps{name}", eps, "a number in (0, 1]", 5e-324, 1.0)
        total += math.exp(min(math.log(8.0) + vc_dimension * math.log(n) - n * eps**2 / 128.0, LARGEST_LOG))
    return total


def vc_failure_iid(n: int, prior0: float, eps0: float, eps1: float, vc_dimension: int) -> float:
    """Return the bound of Theorem 11 on the probability that NP-ERM with fixed tolerances fails, for independent rows.

    ``10 (2n)^V (exp(-n pi0^2 eps0^2 / (640 sqrt 5)) + exp(-n pi1^2 eps1^2 / (640 sqrt 5)))`` if ``n >= 10 sqrt 5 /
    (pi_j eps_j)^2``, else 1.

    Parameters
    ----------
    n : int
        Rows of both classes, >= 1.
    prior0 : float
        Probability pi0 of the null class, in (0, 1).
    eps0, eps1, vc_dimension
        As for `vc_failure`.

    Notes
    -----
    Cannon, Howse, Hush and Scovel (2002), as in Scott (2004), whose Theorem 12 (`vc_tolerance`) needs no such n.

    Examples
    --------
    >>> round(vc_failure_iid(3_000_000, 0.5, 0.2, 0.2, 1), 4)
    0.0944
    """
    check_count("n", n)
    check_count("vc_dimension", vc_dimension, 0)
    prior0 = check_number("prior0", prior0, "a probability in (0, 1)", 5e-324, BELOW_ONE)
    total = 0.0
    for name, prior, eps in (("0", prior0, eps0), ("1", 1.0 - prior0, eps1)):
        eps = check_number(f"eps{name}", eps, "a number in (0, 1]", 5e-324, 1.0)
        if n * (prior * eps) ** 2 < 10.0 * math.sqrt(5.0):
            return 1.0
        rate = n * (prior * eps) ** 2 / (640.0 * math.sqrt(5.0))
        total += math.exp(min(math.log(10.0) + vc_dimension * math.log(2.0 * n) - rate, LARGEST_LOG))
    return total
