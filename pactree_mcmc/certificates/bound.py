"""The class `Bound`, checks of the arguments of bounds, the bounds from held-out rows, and PAC-Bayes bounds.

Also here are the inverses of the binary divergence and of the binomial tail, on which most bounds are built, and
descriptions of arguments that the docstrings of several bounds have in common.

The PAC-Bayes bounds are on the risk of a tree drawn from a posterior Q, and of the vote of all trees weighted by Q.
Each holds, with the stated probability over ``n`` counted rows, simultaneously for all Q. The prior P must not depend
on these rows. The losses may be any numbers in [0, 1]. ``2 sqrt(n)`` is an upper bound on Maurer's constant for every
n >= 1 (equality at n = 1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, inf, lgamma, log, log1p
from typing import Any, overload

import numpy as np

from ..core.checks import check_count, check_flag, check_number, read_numbers, repr_of
from ..core.compile.jit import jit
from ..core.special import gammaln
from ..core.texts import fill_docstring

MIN_DELTA = 1e-300  # smallest allowed ``delta``. Below it the terms of a bound overflow.
MAX_KL = 1e300  # largest allowed divergence. Above it the terms of a bound overflow.
# smallest fraction of an allowed ``delta`` that may be assigned to one of several simultaneous bounds
MIN_DELTA_FRACTION = 1e-3

NEGLIGIBLE = 1e-24  # a term of this fraction of a sum ends the sum
BISECTION_STEPS = 80  # steps of bisection: an interval of length 1 shrinks below 1e-24


def _shared_by_bounds() -> None:
    """Describe what several docstrings have in common, by placeholder.

    [delta]
    delta : float, default 0.05
        Probability that the bound fails, in (0, 1).
    [raises]

    Raises
    ------
    ValueError
        If an argument is out of range.

    [bound]

    Returns
    -------
    Bound

    {raises}

    [n_classes]
    n_classes : int, default 2
        Number of possible labels, fixed before the rows were seen: the code must not depend on them.
    [risk]
    risk : float, in [0, 1]
        Empirical risk of Q: mean loss of a tree drawn from Q.
    [tandem]
    tandem : float, in [0, 1]
        Empirical tandem loss: the mean over rows of the squared mean loss of a tree drawn from Q.
    [kl_n_delta]
    kl : float
        Divergence of Q from the prior, nats, >= 0.
    n : int
        Number of counted rows, >= 1.
    {delta}
    [counted_rows]
    tree : Tree
        A classification tree with leaf values, as posteriors return it.
    X : table of shape (n, p)
        The counted rows; the tree may depend on them.
    y : array-like of shape (n,)
        Labels of these rows.
    [bound_of_tree]

    Returns
    -------
    Bound

    Raises
    ------
    ValueError
        If the tree has no classes or more than ``n_classes``, X and y do not fit, or an argument is out of range.

    [split_bits]
    split_bits : float, or array of shape (n_nodes,)
        Code length of the splits, bits, >= 0; entries of leaves are ignored.
    [n_nodes_n_features]
    n_nodes, n_features : int
        Number of nodes of the tree, leaves included, and number of features.
    [n_errors_delta]
    n : int
        Number of rows.
    errors : int
        Number of training errors.
    {delta}
    [compression_set]
    n_nodes, n_features, n : int
        Numbers of nodes of the tree, leaves included, of features, and of rows. ``n_nodes < n``.
    errors : int
        Number of training errors on the ``n - n_nodes`` rows outside the compression set, which has a row for each
        node.
    {delta}
    [coded_tree]
    tree : Tree
        A classification tree with leaf values and ordered splits, each of which sends counted rows both ways.
    X : table of shape (n, p)
        The counted rows, without missing values; the tree may depend on them.
    y : array-like of shape (n,)
        Labels of these rows.
    [coded_options]
    parents : {"string", "number"}, default "string"
        Code of a node's parent: one of k + 1 strings, or a number among k (footnote 3).
    {n_classes}
    {delta}
    [cyclic]
    cyclic : bool, default False
        If True, the depth determines the coordinate.
    """


# replaces placeholders such as {delta} in the docstring of a bound
documented = fill_docstring(_shared_by_bounds)


@dataclass(frozen=True)
class Bound:
    """An upper bound on a risk, with the terms of its formula.

    Attributes
    ----------
    name : str
        Name of the bound.
    raw : float
        The bound as the formula gives it; above 1 it is vacuous.
    delta : float
        Probability, over the counted rows, that the bound fails.
    terms : dict of str to float
        The parts of the formula, by name.
    """

    name: str
    raw: float
    delta: float
    terms: dict[str, float]

    @property
    def value(self) -> float:
        """The bound, at most 1."""
        return min(self.raw, 1.0)

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        head = f"{self.name}: {self.value:.4f} with probability {1.0 - self.delta:g}"
        return "\n".join([head, *(f"    {name}: {value:.6g}" for name, value in self.terms.items())])


def check_delta(delta: float) -> float:
    """Return ``delta``, or raise a ValueError if it is outside (0, 1), or too near 0 or 1 to compute with."""
    requirement = f"{MIN_DELTA:g} <= delta < 1, the probability that the bound fails"
    return check_number("delta", delta, requirement, MIN_DELTA * MIN_DELTA_FRACTION, 1.0 - 2.0**-53)


def check_fraction(name: str, value: float) -> float:
    return check_number(name, value, "the mean of losses in [0, 1]", 0.0, 1.0)


def check_errors(errors: Any, n: Any) -> None:
    """Raise an error unless ``n`` >= 1 and ``errors`` are counts with 0 <= errors <= n."""
    check_count("n", n, 1)
    check_count("errors", errors, 0)
    if errors > n:
        raise ValueError(f"errors={errors} is out of range; there are n={n} rows: give 0 <= errors <= n.")


@overload
def binary_kl(p: float, q: float) -> float: ...
@overload
def binary_kl(p: Any, q: Any) -> np.ndarray: ...
def binary_kl(p: Any, q: Any) -> float | np.ndarray:
    """Return the binary divergence ``p log(p/q) + (1-p) log((1-p)/(1-q))`` in nats, of numbers or arrays.

    Raises
    ------
    ValueError
        If p or q is outside [0, 1], or their shapes do not fit.

    Examples
    --------
    >>> round(float(binary_kl(0.1, 0.2)), 6)
    0.03669
    """
    p, q = _broadcast(p=p, q=q)
    for name, array in (("p", p), ("q", q)):
        if not np.all((array >= 0.0) & (array <= 1.0)):
            raise ValueError(f"{name} is {repr_of(array)}; give probabilities, 0 <= {name} <= 1.")
    return np.array([_scalar_kl(a, b) for a, b in zip(p.flat, q.flat, strict=True)]).reshape(p.shape)[()]


@overload
def kl_inverse(p: float, complexity: float, *, upper: bool = True) -> float: ...
@overload
def kl_inverse(p: Any, complexity: Any, *, upper: bool = True) -> np.ndarray: ...
def kl_inverse(p: Any, complexity: Any, *, upper: bool = True) -> float | np.ndarray:
    """Return the largest (or smallest) q whose divergence ``kl(p || q)`` is at most ``complexity``.

    Parameters
    ----------
    p : float or array, in [0, 1]
        Empirical mean.
    complexity : float or array, >= 0
        Largest allowed divergence, in nats.
    upper : bool, default True
        Return the largest q >= p if True, otherwise the smallest q <= p.

    Returns
    -------
    float, or array of the broadcast shape

    Raises
    ------
    ValueError
        If p is outside [0, 1] or the complexity is negative.

    Notes
    -----
    Bisection, 80 evaluations of `binary_kl`; exact to rounding. The end of the last interval that lies farther from p
    is returned. Seeger (2002), Journal of Machine Learning Research 3; Langford (2005).

    Examples
    --------
    >>> round(kl_inverse(0.0, 0.05), 6), round(kl_inverse(0.1, 0.05), 6)
    (0.048771, 0.220079)
    """
    p, c = _broadcast(p=p, complexity=complexity)
    check_flag("upper", upper)
    if not np.all((p >= 0.0) & (p <= 1.0)):
        raise ValueError(f"p={p[~((p >= 0.0) & (p <= 1.0))].flat[0]} is out of range; give 0 <= p <= 1.")
    if not np.all(c >= 0.0):
        raise ValueError(f"complexity={c[~(c >= 0.0)].flat[0]} is out of range; give complexity >= 0.")
    q = np.array([_kl_inverse(a, b, float(upper)) for a, b in zip(p.flat, c.flat, strict=True)])
    return q.reshape(p.shape) if p.ndim else float(q[0])


@documented
def binomial_tail_inversion(errors: int, n: int, log_delta: float) -> float:
    """Return the largest risk at which ``errors`` errors or fewer in ``n`` rows have probability ``exp(log_delta)``.

    Parameters
    ----------
    errors, n : int
        Number of errors, and of rows, 0 <= errors <= n.
    log_delta : float
        Log of a probability, <= 0; the probability itself may be too small for a float.

    {raises}

    Notes
    -----
    Bisection on the log of the tail, 80 sums of O(sqrt(n)) terms. Langford (2005), Journal of Machine Learning Research
    6; Shah (2007), section 3.

    Examples
    --------
    >>> import numpy as np
    >>> round(binomial_tail_inversion(0, 100, np.log(0.05)), 6) == round(1 - 0.05 ** (1 / 100), 6)
    True
    """
    check_errors(errors, n)
    log_delta = check_number("log_delta", log_delta, "the log of a probability, <= 0", most=0.0)
    return 1.0 if errors == n else float(_tail_inverse(float(errors), float(n), float(log_delta)))


@documented
def holdout(errors: int, n: int, delta: float = 0.05) -> Bound:
    """Bound the risk of a fixed classifier from its errors on ``n`` held-out rows, by the binomial tail inversion.

    Parameters
    ----------
    errors, n : int
        Number of errors, and of held-out rows, 0 <= errors <= n.
    {delta}

    {bound}

    Notes
    -----
    Langford (2005); the upper end of Clopper and Pearson's interval.

    Examples
    --------
    >>> round(holdout(5, 200).value, 4)
    0.0518
    """
    delta = check_delta(delta)
    raw = binomial_tail_inversion(errors, n, log(delta))
    return Bound("hold-out, binomial tail", raw, delta, {"empirical risk": errors / n, "errors": errors, "n": n})


@documented
def holdout_gibbs(risk: float, n: int, delta: float = 0.05) -> Bound:
    """Bound an expected loss in [0, 1] by its mean over ``n`` held-out rows: ``kl(risk || R) <= ln(1/delta) / n``.

    Parameters
    ----------
    risk : float, in [0, 1]
        Mean loss on the held-out rows.
    n : int
        Number of held-out rows, >= 1.
    {delta}

    {bound}

    Notes
    -----
    Chernoff's bound in Hoeffding's form (1963).

    Examples
    --------
    >>> round(holdout_gibbs(0.025, 200).value, 4)
    0.0619
    """
    delta, risk, n = check_delta(delta), check_fraction("risk", risk), check_count("n", n, 1)
    complexity = log(1.0 / delta) / n
    terms = {"empirical risk": risk, "ln(1/delta) / n": complexity}
    return Bound("hold-out, Chernoff", kl_inverse(risk, complexity), delta, terms)


def _broadcast(**arguments: Any) -> Sequence[np.ndarray]:
    """Return the arguments, in order, as arrays of numbers broadcast to one shape; their names are for errors."""
    arrays = {name: read_numbers(name, value) for name, value in arguments.items()}
    try:
        return np.broadcast_arrays(*arrays.values())
    except (ValueError, RuntimeError) as error:  # the latter if there are more than 32 dimensions
        shapes = " and ".join(f"{name} has shape {array.shape}" for name, array in arrays.items())
        raise ValueError(f"{shapes}; give numbers, or arrays that broadcast together.") from error


def log_choose(n: Any, k: Any) -> Any:
    return gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)


@jit
def _scalar_kl(p: float, q: float) -> float:
    """Return the binary divergence of probabilities p and q in nats; infinite if q is 0 or 1 and p is not."""
    if (p > 0.0 and q <= 0.0) or (p < 1.0 and q >= 1.0):
        return inf
    out = 0.0
    if p > 0.0:
        out += p * log(p / q)
    if p < 1.0:
        out += (1.0 - p) * log((1.0 - p) / (1.0 - q))
    return out


@jit
def _kl_inverse(p: float, complexity: float, outer: float) -> float:
    """Return the q between p and `outer`, 0 or 1, farthest from p with kl(p || q) <= complexity, by bisection."""
    # the end of the last interval that is farther from p is returned
    inner = p
    for _ in range(BISECTION_STEPS):
        middle = (inner + outer) / 2.0
        if _scalar_kl(p, middle) <= complexity:
            inner = middle
        else:
            outer = middle
    return outer


@jit
def _tail_inverse(errors: float, n: float, log_delta: float) -> float:
    """Return the q at which the binomial probability of at most ``errors`` in ``n`` falls below exp(log_delta)."""
    low, high = 0.0, 1.0
    for _ in range(BISECTION_STEPS):
        q = (low + high) / 2.0
        if q <= 0.0 or q >= 1.0:
            break
        if _log_lower_tail(errors, n, q) >= log_delta:
            low = q
        else:
            high = q
    return high


@jit
def _log_lower_tail(errors: float, n: float, q: float) -> float:
    """Return the log of the sum of C(n, k) q^k (1 - q)^(n - k) over k = 0, ..., errors, errors < n, 0 < q < 1."""
    # both ways from the largest term, as multiples of it: these fall faster and faster, below NEGLIGIBLE after some ten
    # standard deviations
    largest = min(errors, floor((n + 1.0) * q))
    total, term, k = 1.0, 1.0, largest
    while k > 0.0 and term > NEGLIGIBLE * total:
        term *= k * (1.0 - q) / ((n - k + 1.0) * q)
        total += term
        k -= 1.0
    term, k = 1.0, largest
    while k < errors and term > NEGLIGIBLE * total:
        term *= (n - k) * q / ((k + 1.0) * (1.0 - q))
        total += term
        k += 1.0
    log_choose = lgamma(n + 1.0) - lgamma(largest + 1.0) - lgamma(n - largest + 1.0)
    return log_choose + largest * log(q) + (n - largest) * log1p(-q) + log(total)


def log_confidence(n: int, delta: float) -> float:
    """Return ``log(2 sqrt(n) / delta)``, the term of the bounds that depends on delta, the probability of failure."""
    return math.log(2.0 * math.sqrt(n) / delta)


def check_common(risk: float, kl: float, n: int, delta: float, name: str = "risk") -> tuple[float, float, int, float]:
    """Check and return mean loss, divergence, number of rows and delta; ``name`` is that of the first, for errors."""
    kl = check_number("kl", kl, "a finite divergence >= 0, in nats", 0.0, MAX_KL)
    return check_fraction(name, risk), kl, check_count("n", n, 1), check_delta(delta)


@documented
def pac_bayes_kl(risk: float, kl: float, n: int, delta: float = 0.05) -> Bound:
    """Bound the risk of a tree drawn from Q by the inverse of the binary divergence.

    ``kl(risk || R(Q)) <= (KL(Q || P) + log(2 sqrt(n) / delta)) / n``.

    Parameters
    ----------
    {risk}
    {kl_n_delta}

    {bound}

    Notes
    -----
    Cost O(1). Seeger (2002), with the constant of Maurer (2004), "A note on the PAC Bayesian theorem".

    Examples
    --------
    >>> print(pac_bayes_kl(0.1, 5.0, 1000))
    PAC-Bayes, kl inverse: 0.1531 with probability 0.95
        empirical risk: 0.1
        KL / n: 0.005
        log(2 sqrt(n) / delta) / n: 0.00714276
    """
    risk, kl, n, delta = check_common(risk, kl, n, delta)
    confidence = log_confidence(n, delta)
    terms = {"empirical risk": risk, "KL / n": kl / n, "log(2 sqrt(n) / delta) / n": confidence / n}
    return Bound("PAC-Bayes, kl inverse", kl_inverse(risk, (kl + confidence) / n), delta, terms)


@documented
def optimal_lambda(risk: float, kl: float, n: int, delta: float = 0.05) -> float:
    """Return the lambda at which `pac_bayes_lambda` is smallest.

    ``2 / (sqrt(2 n risk / (KL + log(2 sqrt(n) / delta)) + 1) + 1)``.

    Parameters
    ----------
    {risk}
    {kl_n_delta}

    {raises}

    Examples
    --------
    >>> optimal_lambda(0.0, 5.0, 1000)
    1.0
    """
    risk, kl, n, delta = check_common(risk, kl, n, delta)
    return 2.0 / (math.sqrt(2.0 * n * risk / (kl + log_confidence(n, delta)) + 1.0) + 1.0)


@documented
def pac_bayes_lambda(risk: float, kl: float, n: int, delta: float = 0.05, lam: float | None = None) -> Bound:
    """Bound the risk of a tree drawn from Q by a sum, which is never below `pac_bayes_kl`.

    ``R(Q) <= risk / (1 - lam/2) + (KL + log(2 sqrt(n) / delta)) / (lam (1 - lam/2) n)``, for all lambda simultaneously.

    Parameters
    ----------
    {risk}
    {kl_n_delta}
    lam : float in (0, 2), optional
        Parameter lambda of the bound. Default: the best one, `optimal_lambda`.

    {bound}

    Notes
    -----
    Cost O(1). Thiemann, Igel, Wintenberger, Seldin (2017); Nguyen and Kpotufe (2018), Proposition 1.

    Examples
    --------
    >>> round(pac_bayes_lambda(0.1, 5.0, 1000).value, 4)
    0.1629
    """
    risk, kl, n, delta = check_common(risk, kl, n, delta)
    if lam is None:
        lam = optimal_lambda(risk, kl, n, delta)
    lam = check_number("lam", lam, "0 < lam < 2, for which the bound holds", 1e-300, 2.0 - 2.0**-52)
    shrink = 1.0 - lam / 2.0
    parts = {
        "empirical risk / (1 - lambda/2)": risk / shrink,
        "KL / (lambda (1 - lambda/2) n)": kl / (lam * shrink * n),
        "log(2 sqrt(n) / delta) / (lambda (1 - lambda/2) n)": log_confidence(n, delta) / (lam * shrink * n),
    }
    return Bound("PAC-Bayes, relaxed", sum(parts.values()), delta, {"lambda": lam, **parts})


@documented
def vote_factor_two(risk: float, kl: float, n: int, delta: float = 0.05) -> Bound:
    """Bound the risk of the vote by twice that of a tree drawn from Q: the vote errs only if half of the trees do.

    Parameters
    ----------
    {risk}
    {kl_n_delta}

    {bound}

    Examples
    --------
    >>> round(vote_factor_two(0.02, 5.0, 1000).value, 4)
    0.1
    """
    gibbs = pac_bayes_kl(risk, kl, n, delta)
    return Bound("vote, factor two", 2.0 * gibbs.raw, delta, {"bound on R(Q)": gibbs.raw, **gibbs.terms})


@documented
def vote_tandem(tandem: float, kl: float, n: int, delta: float = 0.05) -> Bound:
    """Bound the risk of the vote by four times the tandem loss, that two independent trees from Q both err.

    ``kl(tandem || T(Q)) <= (2 KL + log(2 sqrt(n) / delta)) / n`` and ``R(vote) <= 4 T(Q)``.

    Parameters
    ----------
    {tandem}
    {kl_n_delta}

    {bound}

    Notes
    -----
    Cost O(1). Masegosa, Lorenzen, Igel, Seldin (2020), "Second order PAC-Bayesian bounds for the weighted majority
    vote", with the inverse of the divergence in place of its relaxation.

    Examples
    --------
    >>> round(vote_tandem(0.02, 5.0, 1000).value, 4)
    0.2302
    """
    tandem, kl, n, delta = check_common(tandem, kl, n, delta, "tandem")
    confidence = log_confidence(n, delta)
    upper = kl_inverse(tandem, (2.0 * kl + confidence) / n)
    terms = {"bound on T(Q)": upper, "empirical tandem loss": tandem, "2 KL / n": 2.0 * kl / n}
    terms["log(2 sqrt(n) / delta) / n"] = confidence / n
    return Bound("vote, tandem", 4.0 * upper, delta, terms)
