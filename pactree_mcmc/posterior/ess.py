"""Rank-normalised split R-hat and bulk effective sample size of quantities.

After Vehtari, Gelman, Simpson, Carpenter, Bürkner, *Rank-normalization, folding, and localization: an improved R-hat
for assessing convergence of MCMC*, Bayesian Analysis 16 (2021).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.special import fdtrc, ndtri

FEWEST_PER_CHAIN = 4
DRIFT_RHAT = 1.05
"""R-hat between the first halves of all chains and the second halves, above which there is a trend."""
APART = 10.0
"""Chains are apart if the variance of their means exceeds by this factor what their own errors explain."""


DRAWS_PER_DEGREE = 5.0
"""Effective draws for one degree of freedom of an autocorrelation time.

Its relative variance is about 2 (2 M + 1) / N for N draws and M lags summed (Sokal 1997), and M is about two to three
times the time.
"""


class ConvergenceWarning(UserWarning):
    """The draws of a run may not represent its posterior.

    Examples
    --------
    >>> issubclass(ConvergenceWarning, UserWarning)
    True
    """


def rhat_and_ess(values: Any) -> tuple[np.ndarray, np.ndarray]:
    """Rank-normalised split R-hat and bulk effective sample size of many quantities at once.

    Parameters
    ----------
    values : array-like of shape (quantities, chains, draws)
        Numbers, or conditions.

    Returns
    -------
    rhat : ndarray of shape (quantities,)
        The larger of the R-hat of the ranks and of the ranks of the distance from the median, each over the halves of
        all chains; 1 for a constant, infinite if all halves are constant and not all equal.
    ess : ndarray of shape (quantities,)
        In (0, draws * log10(draws)] counting all chains; the number of draws for a constant.
        Both are NaN with fewer than 4 draws a chain or a value that is not finite.

    Raises
    ------
    ValueError
        If ``values`` has not three dimensions.

    Notes
    -----
    Vehtari et al. (2021): each chain is cut into halves (of an odd number of draws the middle one is dropped), draws
    become normal scores of their average ranks, autocovariances come from the FFT and are summed as far as Geyer's
    initial monotone sequence goes. The same numbers as ``arviz.rhat`` and ``arviz.ess``, but for one chain, where
    ArviZ gives no R-hat. O(quantities * N log N) for N draws in all.

    Examples
    --------
    >>> import numpy as np
    >>> rhat, ess = rhat_and_ess([np.random.default_rng(0).normal(size=(4, 500)), np.ones((4, 500))])
    >>> rhat.round(2).tolist(), float(ess[1])
    ([1.0, 1.0], 2000.0)
    """
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 3:
        raise ValueError(f"values has shape {values.shape}; give (quantities, chains, draws).")
    n_quantities, chains, draws = values.shape
    rhat, ess = np.full(n_quantities, np.nan), np.full(n_quantities, np.nan)
    if chains == 0 or draws < FEWEST_PER_CHAIN:
        return rhat, ess
    finite = np.isfinite(values).all(axis=(1, 2))
    rhat[finite], ess[finite] = 1.0, chains * draws
    # a constant but for the middle draw that halving drops is a constant
    halves = _halves(values)
    moving = finite & (np.ptp(halves, axis=(1, 2)) > 0.0) if n_quantities else finite
    if moving.any():
        bulk, folded = normal_scores(halves[moving])
        rhat[moving] = np.fmax(_rhat(bulk), _rhat(folded))
        ess[moving] = _ess(bulk)
    return rhat, ess


BLOCK = 1 << 20
"""Numbers diagnosed at a time."""


def rhat_and_ess_by_tree(by_tree: np.ndarray, tree_of_draw: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """As `rhat_and_ess`, of quantities given for each distinct tree (quantities, n_distinct_trees).

    Quantities that are equal for all trees are diagnosed once.
    """
    number, first = _distinct(by_tree)
    rhat, ess = np.empty(len(first)), np.empty(len(first))
    step = max(BLOCK // max(tree_of_draw.size, 1), 1)
    for i in range(0, len(first), step):
        here = slice(i, i + step)
        rhat[here], ess[here] = rhat_and_ess(by_tree[first[here]][:, tree_of_draw])
    return rhat[number], ess[number]


def _distinct(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of the distinct row that each row is, by first occurrence, and the first of each."""
    seen: dict[bytes, int] = {}
    number = np.array([seen.setdefault(row.tobytes(), len(seen)) for row in rows], dtype=np.int64)
    return number, np.unique(number, return_index=True)[1]


def explained_by_chance(by_tree: np.ndarray, tree_of_draw: np.ndarray, which: np.ndarray, level: float) -> np.ndarray:
    """Return for each quantity ``which`` (m,) of ``by_tree`` True if chance explains that its R-hat is above 1.

    This is an analysis of variance of the halves of chains with effective numbers of draws: if all halves follow the
    same distribution, the variance of their means over what the effective sample size within halves explains is about
    an F variable. R-hat is explained if so large a value or a larger one has a probability above ``level`` over the
    number of tests: two, of the ranks and of the ranks of the distance from the median, for each distinct row of
    ``by_tree`` (Bonferroni).
    """
    out, each = np.empty(len(which), dtype=bool), level / (2.0 * max(len(_distinct(by_tree)[1]), 1))
    for i, quantity in enumerate(which.tolist()):
        scores = np.concatenate(normal_scores(_halves(by_tree[quantity][tree_of_draw][None])))
        moving = scores[np.ptp(scores, axis=(1, 2)) > 0.0]
        halves, within = moving.shape[1], moving - moving.mean(axis=2, keepdims=True)
        if (np.ptp(within, axis=(1, 2)) == 0.0).any():
            out[i] = False
            continue
        size = _ess(within)
        error = within.var(axis=2, ddof=1).mean(axis=1) * halves / size
        ratio = moving.mean(axis=2).var(axis=1, ddof=1) / error
        freedom = np.maximum(size / DRAWS_PER_DEGREE, 1.0)
        out[i] = bool((fdtrc(halves - 1, freedom, ratio) > each).all())
    return out


def _halves(values: np.ndarray) -> np.ndarray:
    """Chains cut in two (quantities, 2 * chains, draws // 2): all first halves, then all second halves."""
    half = values.shape[2] // 2
    return np.concatenate([values[:, :, :half], values[:, :, -half:]], axis=1)


def normal_scores(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Normal scores of the average ranks of each quantity, and of its distance from its median; shaped as ``values``.

    The first axis counts quantities.
    """
    flat = values.reshape(len(values), -1)
    bulk, folded = np.empty(flat.shape), np.empty(flat.shape)
    n = flat.shape[1]
    # of average ranks 0, 1/2, 1, ..., n (Blom 1958); none is below 1
    score = ndtri(np.maximum(np.arange(2 * n + 1) / 2.0 - 0.375, 0.0) / (n + 0.25))
    for i, drawn in enumerate(flat):
        distinct, which, count = np.unique(drawn, return_inverse=True, return_counts=True)
        middle = np.searchsorted(np.cumsum(count), [(n - 1) // 2, n // 2], side="right")
        _, where = np.unique(np.abs(distinct - distinct[middle].mean()), return_inverse=True)
        bulk[i] = score[_twice_ranks(count)][which]
        folded[i] = score[_twice_ranks(np.bincount(where, count).astype(np.int64))][where][which]
    return bulk.reshape(values.shape), folded.reshape(values.shape)


def _twice_ranks(count: np.ndarray) -> np.ndarray:
    """Twice the average rank, an integer, of each of increasing values that occur ``count`` times."""
    return 2 * np.cumsum(count) - count + 1


def _rhat(z: np.ndarray) -> np.ndarray:
    """R-hat of chains (quantities, chains, draws) as they are; NaN for a constant."""
    n = z.shape[2]
    within = z.var(axis=2, ddof=1).mean(axis=1)
    between = z.mean(axis=2).var(axis=1, ddof=1)
    # the scores of one value repeated vary by rounding only
    within[within < 1e-24] = 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        out = np.sqrt(between / within + (n - 1.0) / n)
    out[np.ptp(z, axis=(1, 2)) == 0.0] = np.nan
    return out


def _ess(z: np.ndarray) -> np.ndarray:
    """Effective sample size of chains (quantities, chains, draws) as they are, none of them constant throughout."""
    _, chains, n = z.shape
    padded = 1 << (2 * n - 1).bit_length()
    spectrum = np.fft.rfft(z - z.mean(axis=2, keepdims=True), padded, axis=2)
    power = (spectrum.real**2 + spectrum.imag**2).mean(axis=1)
    autocovariance = np.fft.irfft(power, padded, axis=1)[:, :n] / n
    return ess_from(autocovariance, z.mean(axis=2).var(axis=1, ddof=1) if chains > 1 else np.zeros(len(z)), chains)


def ess_from(autocovariance: np.ndarray, between: np.ndarray, chains: int) -> np.ndarray:
    """Effective sample size from autocovariances (quantities, draws), means over ``chains``, and the variance
    ``between`` (quantities,) of the means of chains.
    """
    n = autocovariance.shape[1]
    within = autocovariance[:, :1] * n / (n - 1.0)
    total = autocovariance[:, :1] + between[:, None]
    rho = 1.0 - (within - autocovariance) / total
    rho[:, 0] = 1.0

    # pairs of lags as far as their sums stay positive, each at most the one before
    last = max((n - 3) // 2, 0)
    pair = rho[:, : 2 * last + 1 : 2] + rho[:, 1 : 2 * last + 2 : 2]
    stop = np.where((pair <= 0.0).any(axis=1), np.argmax(pair <= 0.0, axis=1), last)
    kept = np.arange(last + 1) < stop[:, None]
    summed = np.where(kept, np.minimum.accumulate(pair, axis=1), 0.0).sum(axis=1)
    quantity = np.arange(len(rho))
    even = rho[quantity, 2 * stop]
    tail = np.where((even > 0.0) | (pair[quantity, stop] >= 0.0), even, 0.0)
    size = chains * n
    return size / np.maximum(-1.0 + 2.0 * summed + tail, 1.0 / math.log10(size))


def autocorrelation_times(values: np.ndarray) -> np.ndarray:
    """Integrated autocorrelation time (quantities,), in draws, of ``values`` (quantities, chains, draws).

    Each chain is taken about its own mean; a constant has time 1. At least ``FEWEST_PER_CHAIN`` draws.
    """
    about = values - values.mean(axis=2, keepdims=True)
    out, moving = np.ones(len(values)), np.ptp(values, axis=2).max(axis=1) > 0.0
    if moving.any():
        out[moving] = values.shape[1] * values.shape[2] / _ess(about[moving])
    return out


def chains_apart(values: np.ndarray) -> bool:
    """Whether two or more chains differ in some quantity by far more than their own errors explain.

    This happens if each mixes well by itself, or hardly moves, in a part of the space that the others do not visit.
    ``values``: (quantities, chains, draws).
    """
    quantities, chains, draws = values.shape
    z = normal_scores(values)[0]
    _, ess = rhat_and_ess(values.reshape(-1, 1, draws))
    error = z.var(axis=2) / ess.reshape(quantities, chains)
    return bool(np.any(z.mean(axis=2).var(axis=1, ddof=1) > APART * error.mean(axis=1) + 1e-24))


def chains_drift(values: np.ndarray) -> bool:
    """Whether some quantity (quantities, chains, draws) went the same way in all chains, from half to half."""
    halves = _halves(values)
    z = normal_scores(halves)[0].reshape(len(values), 2, -1)
    rise = np.diff(z.reshape(len(values), 2, values.shape[1], -1).mean(axis=3), axis=1)[:, 0]
    one_way = (rise > 0.0).all(axis=1) | (rise < 0.0).all(axis=1)
    return bool(np.any(one_way & (_rhat(z) > DRIFT_RHAT)))
