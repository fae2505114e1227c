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


def check_tandem(risk: float, tandem: float) -> float:
    """Return ``tandem``, or raise an error if it is not between the square of the risk and the risk."""
    tandem = check_fraction("tandem", tandem)
    if not risk * risk * (1.0 - 1e-12) <= tandem <= risk * (1.0 + 1e-12):
        raise ValueError(f"tandem={tandem} is out of range; with risk={risk} it lies in [{risk * risk}, {risk}].")
    return tandem


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


@documented
def c_bound(risk: float, tandem: float) -> float:
    """Bound the risk of the vote by the true risk and tandem loss of Q: ``(T - R^2) / (T - R + 1/4)``.

    The smallest of the Chebyshev-Cantelli bounds ``(T - 2 mu R + mu^2) / (1/2 - mu)^2`` over mu < 1/2; for two
    classes it is the C-bound ``1 - (1 - 2R)^2 / (1 - 2D)`` with the disagreement ``D = 2 (R - T)``.

    Parameters
    ----------
    risk : float, in [0, 1]
        True risk of a tree drawn from Q; from 1/2 on the bound is 1.
    tandem : float
        True tandem loss of Q, between ``risk**2`` and ``risk``.

    {raises}

    Notes
    -----
    Breiman (2001); Germain, Lacasse, Laviolette, Marchand, Roy (2015); Wu, Masegosa, Lorenzen, Igel, Seldin (2021).

    Examples
    --------
    >>> round(c_bound(0.3, 0.1), 6)  # factor two gives .6, the tandem bound .4
    0.2
    """
    risk = check_fraction("risk", risk)
    tandem = check_tandem(risk, tandem)
    if risk >= 0.5:
        return 1.0
    return max(tandem - risk * risk, 0.0) / (tandem - risk + 0.25)


@documented
def vote_cantelli(risk: float, tandem: float, kl: float, n: int, delta: float = 0.05) -> Bound:
    """Bound the risk of the vote by the Chebyshev-Cantelli inequality, the PAC-Bayes form of the C-bound.

    ``R(vote) <= (T+ - 2 mu R + mu^2) / (1/2 - mu)^2`` at the best mu < 1/2, with T+ the upper bound on the tandem
    loss, and R the lower bound on the risk of Q if mu >= 0, else the upper one. Each of the bounds uses half of delta.
    mu = 0 is the tandem bound.

    Parameters
    ----------
    {risk}
    {tandem}
    {kl_n_delta}

    {bound}

    Notes
    -----
    Cost O(1); the best mu is ``(R/2 - T+) / (1/2 - R)``. Wu, Masegosa, Lorenzen, Igel, Seldin (2021),
    "Chebyshev-Cantelli PAC-Bayes-Bennett inequality for the weighted majority vote".

    Examples
    --------
    >>> round(vote_cantelli(0.3, 0.1, 5.0, 10_000).value, 4)
    0.4632
    """
    risk, kl, n, delta = check_common(risk, kl, n, delta)
    upper = vote_tandem(tandem, kl, n, delta / 2.0).terms["bound on T(Q)"]
    complexity = (kl + log_confidence(n, delta / 2.0)) / n
    low, high = kl_inverse(risk, complexity, upper=False), kl_inverse(risk, complexity)
    upper = max(upper, low * low)  # no tandem loss is smaller than the square of the risk
    best, best_mu, best_risk = 4.0 * upper, 0.0, low
    for bound in (low, high):
        if bound < 0.5:
            mu = (bound / 2.0 - upper) / (0.5 - bound)
            value = (upper - 2.0 * mu * bound + mu * mu) / (0.5 - mu) ** 2 if mu < 0.5 else math.inf
            if (mu >= 0.0) == (bound == low) and value < best:
                best, best_mu, best_risk = value, mu, bound
    terms = {"mu": best_mu, "bound on T(Q)": upper, "bound on R(Q)": best_risk, "empirical risk": risk}
    terms |= {"empirical tandem loss": tandem, "KL / n": kl / n}
    return Bound("vote, Chebyshev-Cantelli", best, delta, terms)


@documented
def vote_disagreement(
    risk: float, disagreement: float, kl: float, n: int, delta: float = 0.05, n_unlabelled: int | None = None
) -> Bound:
    """Bound the risk of the vote between two classes: ``R(vote) <= 4 R(Q) - 2 D(Q)``, D the disagreement of two trees.

    The disagreement needs no labels, so that unlabelled rows can estimate it too. Each of the two bounds uses half of
    delta.

    Parameters
    ----------
    {risk}
    disagreement : float, in [0, 1]
        Probability that two independent trees from Q differ, on average over the rows.
    {kl_n_delta}
    n_unlabelled : int, optional
        Number of rows on which the disagreement was estimated. Default: ``n``.

    {bound}

    Notes
    -----
    Cost O(1). Masegosa et al. (2020), Theorem 9, with inverses of the divergence.

    Examples
    --------
    >>> round(vote_disagreement(0.3, 0.4, 5.0, 10_000).value, 4)
    0.5582
    """
    risk, kl, n, delta = check_common(risk, kl, n, delta)
    disagreement = check_fraction("disagreement", disagreement)
    m = n if n_unlabelled is None else check_count("n_unlabelled", n_unlabelled, 1)
    high = kl_inverse(risk, (kl + log_confidence(n, delta / 2.0)) / n)
    low = kl_inverse(disagreement, (2.0 * kl + log_confidence(m, delta / 2.0)) / m, upper=False)
    terms = {"bound on R(Q)": high, "bound on D(Q)": low, "empirical risk": risk}
    terms |= {"empirical disagreement": disagreement, "KL / n": kl / n}
    return Bound("vote, disagreement", max(4.0 * high - 2.0 * low, 0.0), delta, terms)
