"""Bounds on the vote from how two trees err together: both, one, or neither.

The weighted vote errs on a row only if at least half of the trees err, by weight. So for every mu < 1/2 its risk is at
most the mean of ``Z = (1[first errs] - mu) (1[second errs] - mu)`` over rows and pairs of independent trees from Q,
divided by ``(1/2 - mu)^2`` (Wu, Masegosa, Lorenzen, Igel, Seldin 2021). Z takes three values. Two bounds on its mean
are here.

Every bound is a function of three numbers: the risk R of a tree drawn with the weights q, the tandem loss T (two
independent trees both err) and the divergence of q from the prior. The gradients of these numbers in q are the error
rate of each tree, twice its tandem loss with the others, and ``log(q / prior) + 1``. So one gradient descent finds
weights that make any of the bounds small.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..core.checks import read_numbers
from ..core.compile.jit import jit
from ..core.special import gammaln
from .bound import BISECTION_STEPS, Bound, documented, kl_inverse
from .pac_bayes_bounds import check_common, check_tandem, log_confidence, optimal_lambda, pac_bayes_kl

N_MUS = 2_000
"""Number of values of mu, from -1 to 1/2, that `vote_split_kl` tries: its bound holds for all simultaneously."""
N_SUMMED_WEIGHTS = 20
"""Number of the largest weights of trees of which all sums of subsets are computed: 2^20 sums take 8 MB."""
WEIGHT_SUM_ERROR = 1e-12
"""Largest error of a sum of weights."""
MUS = (-0.5, -0.2, -0.1, 0.0, 0.1, 0.2, 0.3, 0.4)
"""Default values of mu of `vote_coin_betting`, fixed in advance. Each has an equal part of delta."""
BoundOf = Callable[[float, float, float], Bound]
"""A bound as a function of risk, tandem loss (two independent trees both err) and divergence in nats."""
MAX_DESCENT_STEPS = 200
"""Largest number of steps of a gradient descent on weights."""
MAX_STEP_HALVINGS = 40
"""Largest number of times that a step of the descent is halved."""
DERIVATIVE_STEP = 1e-6
"""Difference of risk, or of tandem loss, from which derivatives of a bound are estimated."""
MIN_DECREASE = 1e-7
"""Smallest decrease of the bound by a step at which the descent continues."""


@documented
def vote_split_kl(risk: float, tandem: float, kl: float, n: int, delta: float = 0.05) -> Bound:
    """Bound the risk of the vote by the split kl inequality, at the best mu.

    The probabilities that both of two trees err, that at least one does and that both err or neither does are each
    bounded from above by the inverse of the divergence, with a third of delta. For ``0 <= mu < 1/2`` the mean is at
    most ``-mu (1 - mu) + mu P(both or neither) + (1 - 2 mu) P(both)``, for ``mu < 0`` at most
    ``mu^2 - mu P(one or both) + (1 - mu) P(both)``; no mu has to be fixed in advance.

    Parameters
    ----------
    {risk}
    {tandem}
    {kl_n_delta}

    {bound}

    Notes
    -----
    Cost O(1). Wu and Seldin (2022), "Split-kl and PAC-Bayes-split-kl inequalities for ternary random variables".

    Examples
    --------
    >>> round(vote_split_kl(0.3, 0.1, 5.0, 10_000).value, 4)  # vote_cantelli gives .4632
    0.4136
    """
    risk, tandem, kl, n, delta = _check_vote(risk, tandem, kl, n, delta)
    complexity = (2.0 * kl + log_confidence(n, delta / 3.0)) / n
    empirical = np.clip([tandem, 2.0 * risk - tandem, 1.0 - 2.0 * risk + 2.0 * tandem], 0.0, 1.0)
    both, any_one, alike = (float(p) for p in kl_inverse(empirical, complexity))
    raw, mu = _best_mu(both, any_one, alike)
    terms = {"mu": mu, "bound on both err": both, "bound on one or both err": any_one}
    terms |= {"bound on both or neither": alike, "empirical risk": risk}
    terms |= {"empirical tandem loss": tandem, "2 KL / n": 2.0 * kl / n}
    return Bound("vote, split kl", raw, delta, terms)


@documented
def vote_coin_betting(risk: float, tandem: float, kl: float, n: int, delta: float = 0.05, mus: Any = MUS) -> Bound:
    """Bound the risk of the vote by coin betting: the wealth of a gambler who bets against the true mean stays small.

    Let z be ``(e - mu) (e' - mu)``, with e and e' 1 if a tree of a pair errs, else 0, and ``V(m)`` the maximum over
    beta of the mean of ``log(1 + beta (z - m))`` over rows and pairs. At the true mean m,
    ``V(m) <= (2 KL + log(sqrt(pi) Gamma(n + 1) / Gamma(n + 1/2) / delta)) / n``; the largest such m bounds the mean.

    Parameters
    ----------
    {risk}
    {tandem}
    {kl_n_delta}
    mus : sequence of float < 1/2, optional
        Values of mu fixed before the rows were seen; each has an equal part of delta. Default: eight from -.5 to .4.

    {bound}

    Notes
    -----
    Cost O(number of mus), 4,000 evaluations of V each. The wealth of Cover's universal portfolio is a martingale and
    its regret is the factor with Gamma; V is convex in the distribution of z and m together, so that the inequality
    for pairs of trees passes to their mean. Jang, Jun, Kuzborskij, Orabona (2023), "Tighter PAC-Bayes bounds through
    coin-betting".

    Examples
    --------
    >>> round(vote_coin_betting(0.3, 0.1, 5.0, 10_000).value, 4)  # vote_split_kl gives .4136
    0.3892
    """
    risk, tandem, kl, n, delta = _check_vote(risk, tandem, kl, n, delta)
    mus = read_numbers("mus", mus)
    if mus.ndim != 1 or not len(mus) or not np.all((mus < 0.5) & (mus >= -1e6)):
        raise ValueError(f"mus has shape {mus.shape}; give numbers below 1/2, at least one.")
    regret = 0.5 * math.log(math.pi) + float(gammaln(n + 1.0) - gammaln(n + 0.5))
    complexity = (2.0 * kl + regret + math.log(len(mus) / delta)) / n
    raw, mu, mean = _best_coin_bet(risk, tandem, complexity, mus)
    terms = {"mu": mu, "bound on the mean": mean, "values of mu": float(len(mus)), "empirical risk": risk}
    terms |= {"empirical tandem loss": tandem, "2 KL / n": 2.0 * kl / n}
    return Bound("vote, coin betting", raw, delta, terms)


@documented
def vote_partition(risk: float, kl: float, n: int, weights: Any, delta: float = 0.05) -> Bound:
    """Bound the risk of the vote of finitely many trees by the risk of a tree drawn from Q and the trees' weights.

    If the vote errs on a row, the trees that err have at least half of the weight. So their weight is one of the sums
    of weights that are at least 1/2, hence at least the smallest such sum c. By Markov's inequality the risk of the
    vote is at most R(Q) / c, which is never above `vote_factor_two`. With a tree of weight c > 1/2 the vote is that
    tree, and this bounds its risk.

    Parameters
    ----------
    {risk}
    {kl_n_delta}
    weights : array-like of shape (trees,)
        Probabilities of the trees under Q, >= 0 and not all 0; they are divided by their sum.

    {bound}

    Notes
    -----
    The sums of the 20 largest weights are listed, 2^20 at most; if one of them lies below 1/2, and the other weights
    can bring it to 1/2, then c = 1/2. So c is never too large. c depends on Q alone, and the bound of R(Q) holds for
    all Q simultaneously. After the partition bound of Leblanc and Germain (2025), "A framework for bounding
    deterministic risk with PAC-Bayes".

    Examples
    --------
    >>> round(vote_partition(0.02, 5.0, 1000, [0.9, 0.05, 0.05]).value, 4)  # vote_factor_two gives .1
    0.0556
    """
    weights = read_numbers("weights", weights)
    total = float(weights.sum()) if weights.ndim == 1 else math.nan
    if not (0.0 < total < math.inf and weights.min() >= 0.0):
        raise ValueError(
            f"weights has shape {weights.shape} and sum {total:g}; give numbers >= 0, not all 0, one a tree."
        )
    gibbs, smallest_half = pac_bayes_kl(risk, kl, n, delta), least_half(weights / total)
    terms = {"bound on R(Q)": gibbs.raw, "smallest weight of trees that outvote": smallest_half, **gibbs.terms}
    return Bound("vote, partition", gibbs.raw / smallest_half, delta, terms)


def least_half(weights: np.ndarray) -> float:
    """Return a lower bound on the smallest sum of a subset of ``weights`` (trees,) that is at least 1/2.

    The weights sum to 1. The bound is that sum, up to rounding, for 20 weights or fewer, and at least 1/2.
    """
    weights = np.sort(weights)[::-1]
    sums = np.zeros(1)
    for weight in weights[:N_SUMMED_WEIGHTS]:
        sums = np.concatenate([sums, sums + weight])
    half = 0.5 - WEIGHT_SUM_ERROR
    is_half = sums >= half
    if (sums[~is_half] + weights[N_SUMMED_WEIGHTS:].sum() >= half).any():
        return 0.5
    return max(0.5, float(sums[is_half].min()) - WEIGHT_SUM_ERROR)


def _check_vote(risk: float, tandem: float, kl: float, n: int, delta: float) -> tuple[float, float, float, int, float]:
    """Check and return the arguments of a bound that uses risk and tandem loss, the chance that two trees both err."""
    risk, kl, n, delta = check_common(risk, kl, n, delta)
    return risk, min(check_tandem(risk, tandem), risk), kl, n, delta


def _best_mu(both: float, any_one: float, alike: float) -> tuple[float, float]:
    """Return the smallest split-kl bound on the risk of the vote over a grid of mu < 1/2, and that mu.

    The arguments are upper bounds on the probabilities that both of two trees err, that at least one errs, and that
    both err or neither does.
    """
    mu = 0.5 - 1.5 * np.arange(1, N_MUS + 1) / N_MUS
    # Z = mu^2, -mu (1 - mu) or (1 - mu)^2 if none, one or both err; its mean is written with the bounded probabilities
    # times factors >= 0
    if_mu_positive = -mu * (1.0 - mu) + mu * alike + (1.0 - 2.0 * mu) * both
    if_mu_negative = mu * mu - mu * any_one + (1.0 - mu) * both
    value = np.where(mu >= 0.0, if_mu_positive, if_mu_negative) / (0.5 - mu) ** 2
    best = int(np.argmin(np.where(value >= 0.0, value, np.inf)))
    return float(value[best]), float(mu[best])


@jit
def _best_coin_bet(risk: float, tandem: float, complexity: float, mus: np.ndarray) -> tuple[float, float, float]:
    """Return the smallest coin-betting bound on the risk of the vote over ``mus``, that mu, and its bound on E[Z].

    Z is (e - mu) (e' - mu), with e and e' 1 if a tree errs, else 0, for two independent trees. ``risk`` and ``tandem``
    are empirical. ``complexity`` is the upper bound on the log wealth per row, the right side in `vote_coin_betting`.
    """
    best, best_mu, mean_bound = np.inf, 0.0, 0.0
    p = np.array([max(1.0 - 2.0 * risk + tandem, 0.0), 2.0 * (risk - tandem), tandem])
    p /= p.sum()
    for mu in mus:
        z = np.array([mu * mu, -mu * (1.0 - mu), (1.0 - mu) ** 2])
        # the wealth increases in m above the empirical mean: bisect for the largest m with wealth <= complexity
        low, high = (p * z).sum(), z.max()
        for _ in range(BISECTION_STEPS):
            m = (low + high) / 2.0
            if _log_wealth(p, z, m) <= complexity:
                low = m
            else:
                high = m
        value = high / (0.5 - mu) ** 2
        if value < best:
            best, best_mu, mean_bound = value, mu, high
    return best, best_mu, mean_bound


@jit
def _log_wealth(p: np.ndarray, z: np.ndarray, m: float) -> float:
    """Return the log wealth per row, the largest ``sum p_j log(1 - beta (z_j - m))`` for 0 <= beta < 1 / (max z - m).

    ``p`` (3,) are probabilities of the values ``z`` (3,), and m is a bet on the mean of z that is above it.
    """
    # the sum is concave in beta and rises at 0: bisect for the zero of its derivative
    low, high = 0.0, 1.0 / max(z.max() - m, 1e-300)
    for _ in range(50):
        beta = (low + high) / 2.0
        slope = 0.0
        for j in range(len(p)):
            if p[j] > 0.0:
                slope -= p[j] * (z[j] - m) / (1.0 - beta * (z[j] - m))
        if slope > 0.0:
            low = beta
        else:
            high = beta
    out = 0.0
    for j in range(len(p)):
        if p[j] > 0.0:
            out += p[j] * math.log(1.0 - low * (z[j] - m))
    return out


class WeightedTrees(NamedTuple):
    """Weights of trees, with the three numbers on which bounds on their vote depend."""

    weight: np.ndarray
    """(n_trees,) float64: weights with sum 1."""
    risk: float
    """Empirical risk of a tree drawn with these weights."""
    tandem: float
    """Empirical tandem loss: probability that two trees drawn independently both err."""
    kl: float
    """Kullback-Leibler divergence of the weights from the prior, nats."""


def evaluate_weights(weight: np.ndarray, prior: np.ndarray, wrong: np.ndarray) -> WeightedTrees:
    """Return the weights ``weight`` (n_trees,) of trees with their risk, tandem loss and divergence from ``prior``.

    ``wrong`` (n_trees, n) uint8 is 1 if the tree errs on the row.
    """
    is_positive = weight > 0.0
    kl = float((weight[is_positive] * np.log(weight[is_positive] / prior[is_positive])).sum())
    mean = np.minimum(_error_weights(weight, wrong), 1.0)
    return WeightedTrees(weight, float(mean.mean()), float((mean * mean).mean()), max(kl, 0.0))


def gibbs_weights(prior: np.ndarray, wrong: np.ndarray, delta: float) -> WeightedTrees:
    """Return weights proportional to ``prior exp(-lambda n risk)``, with the lambda that minimises `pac_bayes_lambda`.

    ``prior`` (n_trees,) are the prior weights, and ``wrong`` (n_trees, n) is 1 if the tree errs on the row.

    Weights and lambda are updated in turn until the weights no longer change, at most MAX_DESCENT_STEPS times (Thiemann
    et al. 2017, section 4).
    """
    n, errors = wrong.shape[1], wrong.sum(axis=1).astype(np.float64)
    current = evaluate_weights(prior, prior, wrong)
    for _ in range(MAX_DESCENT_STEPS):
        lam = optimal_lambda(current.risk, current.kl, n, delta)
        updated = evaluate_weights(_normalised_weights(np.log(prior) - lam * errors), prior, wrong)
        has_converged = np.abs(updated.weight - current.weight).max() < MIN_DECREASE
        current = updated
        if has_converged:
            break
    return current


def descend_weights(bound: BoundOf, prior: np.ndarray, wrong: np.ndarray, starts: list[WeightedTrees]) -> WeightedTrees:
    """Return weights at which ``bound`` is small, by exponentiated gradient descent from the best of ``starts``.

    ``bound`` is a function of risk, tandem loss and divergence. ``prior`` (n_trees,) are the prior weights, and
    ``wrong`` (n_trees, n) is 1 for errors. The end may be a local minimum.
    """
    current = min(starts, key=lambda w: bound(w.risk, w.tandem, w.kl).raw)
    value, step = bound(current.risk, current.tandem, current.kl).raw, 1.0
    error_rates = wrong.mean(axis=1)
    for _ in range(MAX_DESCENT_STEPS):
        by_risk, by_tandem, by_kl = _derivatives(bound, current)
        tandem_of_trees = _tandem_of_trees(_error_weights(current.weight, wrong), wrong)
        gradient = by_risk * error_rates + 2.0 * by_tandem * tandem_of_trees
        log_ratio = np.log(np.maximum(current.weight, 1e-300)) - np.log(prior)
        gradient += by_kl * log_ratio
        log_weight = np.log(np.maximum(current.weight, 1e-300))
        for _ in range(MAX_STEP_HALVINGS):
            candidate = evaluate_weights(_normalised_weights(log_weight - step * gradient), prior, wrong)
            new_value = bound(candidate.risk, candidate.tandem, candidate.kl).raw
            if new_value < value:
                break
            step /= 2.0
        else:
            break
        gain, current, value, step = value - new_value, candidate, new_value, 2.0 * step
        if gain < MIN_DECREASE:
            break
    return current


def _derivatives(bound: BoundOf, weights: WeightedTrees) -> tuple[float, float, float]:
    """Return the partial derivatives of a bound in risk, tandem loss and divergence, at some weights of trees.

    They are finite differences. A derivative is 0 if its step would leave the range risk^2 <= tandem <= risk.
    """
    value = bound(weights.risk, weights.tandem, weights.kl).raw
    up = DERIVATIVE_STEP if weights.risk * weights.risk + 2.0 * DERIVATIVE_STEP < weights.tandem else 0.0
    by_risk = (bound(weights.risk + up, weights.tandem, weights.kl).raw - value) / up if up else 0.0
    up = DERIVATIVE_STEP if weights.tandem + DERIVATIVE_STEP < weights.risk else 0.0
    by_tandem = (bound(weights.risk, weights.tandem + up, weights.kl).raw - value) / up if up else 0.0
    by_kl = (bound(weights.risk, weights.tandem, weights.kl + 1e-4).raw - value) / 1e-4
    return by_risk, by_tandem, by_kl


def _normalised_weights(log_weight: np.ndarray) -> np.ndarray:
    """Return weights (n_trees,) with sum 1 that are proportional to the exponential of ``log_weight`` (n_trees,)."""
    weight = np.exp(log_weight - log_weight.max())
    return np.asarray(weight / weight.sum())


@jit
def _error_weights(weight: np.ndarray, wrong: np.ndarray) -> np.ndarray:
    """Return the total weight (n,) of the trees that err on each row; ``wrong`` (n_trees, n) is 1 for an error."""
    out = np.zeros(wrong.shape[1])
    for t in range(len(weight)):
        if weight[t] > 0.0:
            for i in range(len(out)):
                out[i] += weight[t] * wrong[t, i]
    return out


@jit
def _tandem_of_trees(mean: np.ndarray, wrong: np.ndarray) -> np.ndarray:
    """Return the tandem loss (n_trees,) of each tree with a tree drawn by weight: mean over rows of wrong[t] * mean.

    ``mean`` (n,) is the total weight of the trees that err on each row.
    """
    out = np.zeros(len(wrong))
    for t in range(len(wrong)):
        total = 0.0
        for i in range(len(mean)):
            total += wrong[t, i] * mean[i]
        out[t] = total / len(mean)
    return out
