"""PAC-Bayes bounds on the risk of a tree drawn from a posterior Q, and of the vote of all trees weighted by Q.

Each bound holds, with the stated probability over ``n`` counted rows, simultaneously for all Q. The prior P must not
depend on these rows. The losses may be any numbers in [0, 1]. ``2 sqrt(n)`` is an upper bound on Maurer's constant for
every n >= 1 (equality at n = 1).
"""

from __future__ import annotations

import math

from ..core.checks import check_count, check_number
from .bound import Bound, check_delta, check_fraction, check_kl, documented, kl_inverse


def log_confidence(n: int, delta: float) -> float:
    """Return ``log(2 sqrt(n) / delta)``, the term of the bounds that depends on delta, the probability of failure."""
    return math.log(2.0 * math.sqrt(n) / delta)


def check_common(risk: float, kl: float, n: int, delta: float, name: str = "risk") -> tuple[float, float, int, float]:
    """Check and return mean loss, divergence, number of rows and delta; ``name`` is that of the first, for errors."""
    return check_fraction(name, risk), check_kl(kl), check_count("n", n, 1), check_delta(delta)


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
    terms = {
        "bound on T(Q)": upper,
        "empirical tandem loss": tandem,
        "2 KL / n": 2.0 * kl / n,
        "log(2 sqrt(n) / delta) / n": confidence / n,
    }
    return Bound("vote, tandem", 4.0 * upper, delta, terms)
