"""Rank-normalised split R-hat and bulk effective sample size of quantities.

After Vehtari, Gelman, Simpson, Carpenter, Bürkner, *Rank-normalization, folding, and localization: an improved R-hat
for assessing convergence of MCMC*, Bayesian Analysis 16 (2021). All quantities are diagnosed in one call of NumPy's
FFT; ``arviz.rhat`` and ``arviz.ess`` give the same numbers, one at a time (`tests/posterior/test_evidence.py`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.special import fdtrc, ndtri

MIN_DRAWS_PER_CHAIN = 4
"""Smallest number of draws per chain for which R-hat and effective sample sizes are computed."""
DISAGREEMENT_FACTOR = 10.0
"""Chains are apart if the variance of their means exceeds the error of their means by this factor."""
DRAWS_PER_DEGREE = 5.0
"""Number of effective draws that give one degree of freedom to an estimated autocorrelation time.

The relative variance of the time is about 2 (2 M + 1) / N for N draws and M lags summed (Sokal 1997), and M is about
two to three times the time.
"""
MAX_VALUES_PER_BLOCK = 1 << 20
"""Largest number of values, quantities times draws, that are diagnosed at a time."""


class ConvergenceWarning(UserWarning):
    """The draws of a run may not represent its posterior.

    Examples
    --------
    >>> issubclass(ConvergenceWarning, UserWarning)
    True
    """


def rhat_and_ess(values: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return rank-normalised split R-hat and bulk effective sample size of many quantities at once.

    Each chain is cut into halves (of an odd number of draws the middle one is dropped), draws become normal scores of
    their average ranks, autocovariances come from the FFT and are summed to the end of Geyer's initial monotone
    sequence. For one chain, for which ArviZ gives no R-hat, its halves are compared. O(quantities * N log N) for N
    draws in all.

    ``values`` are numbers or conditions (quantities, chains, draws). R-hat is the larger one of the ranks and of the
    ranks of the distance from the median; 1 for a constant, infinite if all halves are constant and not all equal. The
    effective sample size counts all chains; it is the number of draws for a constant. Both are NaN with fewer than 4
    draws a chain or a value that is not finite.

    Examples
    --------
    >>> rhat, ess = rhat_and_ess([np.random.default_rng(0).normal(size=(4, 500)), np.ones((4, 500))])
    >>> rhat.round(2).tolist(), float(ess[1])
    ([1.0, 1.0], 2000.0)
    """
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 3:
        raise ValueError(f"values has shape {values.shape}; give (quantities, chains, draws).")
    n_quantities, n_chains, n_draws = values.shape
    rhat, ess = np.full(n_quantities, np.nan), np.full(n_quantities, np.nan)
    if n_chains == 0 or n_draws < MIN_DRAWS_PER_CHAIN:
        return rhat, ess
    finite = np.isfinite(values).all(axis=(1, 2))
    rhat[finite], ess[finite] = 1.0, n_chains * n_draws
    # if only the middle draw, which halving drops, differs, the quantity counts as a constant
    halves = split_chains(values)
    varying = finite & (np.ptp(halves, axis=(1, 2)) > 0.0) if n_quantities else finite
    if varying.any():
        bulk, folded = normal_scores(halves[varying])
        rhat[varying] = np.fmax(_rhat(bulk), _rhat(folded))
        ess[varying] = ess_of_chains(bulk)
    return rhat, ess


def rhat_and_ess_by_tree(by_tree: np.ndarray, tree_of_draw: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return R-hat and effective sample size of quantities that depend on the tree alone."""
    # ``by_tree`` (quantities, n_distinct_trees) has their values and ``tree_of_draw`` (chains, draws) the tree of each
    # draw. Equal quantities are diagnosed once; see `rhat_and_ess`
    number, first_row = _number_distinct_rows(by_tree)
    rhat, ess = np.empty(len(first_row)), np.empty(len(first_row))
    step = max(MAX_VALUES_PER_BLOCK // tree_of_draw.size, 1)
    for i in range(0, len(first_row), step):
        block = slice(i, i + step)
        rhat[block], ess[block] = rhat_and_ess(by_tree[first_row[block]][:, tree_of_draw])
    return rhat[number], ess[number]


def ess(values: Any) -> float:
    """Return the bulk effective sample size of one quantity (chains, draws); see `rhat_and_ess`."""
    return float(rhat_and_ess(_one_quantity(values))[1][0])


def rhat(values: Any) -> float:
    """Return the R-hat of one quantity (chains, draws); NaN for one chain that is not constant. See `rhat_and_ess`."""
    values = _one_quantity(values)
    if values.shape[1] == 1 and values.size and np.ptp(values) > 0.0:
        return math.nan
    return float(rhat_and_ess(values)[0][0])


def _one_quantity(values: Any) -> np.ndarray:
    """Return the draws (chains, draws) of one quantity as (1, chains, draws) float64; refuse any other shape."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 2:
        raise ValueError(f"values has shape {array.shape}; give (chains, draws).")
    return array[None]


def _number_distinct_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Number the distinct ``rows`` (n, ...). Return the number (n,) of each, and the first row (m,) of each number."""
    number_of_row: dict[bytes, int] = {}
    number = np.array([number_of_row.setdefault(row.tobytes(), len(number_of_row)) for row in rows], dtype=np.int64)
    return number, np.unique(number, return_index=True)[1]


def explained_by_chance(
    by_tree: np.ndarray, tree_of_draw: np.ndarray, quantities: np.ndarray, level: float
) -> np.ndarray:
    """Return a (m,) bool array: True if chance explains why the R-hat of quantity ``quantities[i]`` exceeds 1."""
    # ``by_tree`` (n, n_distinct_trees) are the values of all quantities, ``tree_of_draw`` (chains, draws) the draws.
    # This is an analysis of variance of the halves of chains with effective numbers of draws: if all halves follow the
    # same distribution, the variance of their means, over that expected from the effective sample size within halves,
    # is about an F variable. R-hat is explained if this ratio or a larger one has a probability above ``level`` over
    # the number of tests: two, of the ranks and of the ranks of the distance from the median, for each distinct row of
    # ``by_tree`` (Bonferroni)
    is_explained = np.empty(len(quantities), dtype=bool)
    test_level = level / (2.0 * max(len(_number_distinct_rows(by_tree)[1]), 1))
    for i, quantity in enumerate(quantities.tolist()):
        scores = np.concatenate(normal_scores(split_chains(by_tree[quantity][tree_of_draw][None])))
        varying = scores[np.ptp(scores, axis=(1, 2)) > 0.0]
        halves, within = varying.shape[1], varying - varying.mean(axis=2, keepdims=True)
        if (np.ptp(within, axis=(1, 2)) == 0.0).any():
            is_explained[i] = False
            continue
        size = ess_of_chains(within)
        ratio = varying.mean(axis=2).var(axis=1, ddof=1) / (within.var(axis=2, ddof=1).mean(axis=1) * halves / size)
        freedom = np.maximum(size / DRAWS_PER_DEGREE, 1.0)
        is_explained[i] = bool((fdtrc(halves - 1, freedom, ratio) > test_level).all())
    return is_explained


def split_chains(values: np.ndarray) -> np.ndarray:
    """Return chains cut in two (quantities, 2 * chains, draws // 2): all first halves, then all second halves."""
    # ``values`` has shape (quantities, chains, draws). The middle draw of an odd number is dropped
    half = values.shape[2] // 2
    return np.concatenate([values[:, :, :half], values[:, :, -half:]], axis=1)


def normal_scores(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the normal scores of the draws of each quantity, and those of the distances of draws from their median."""
    # A normal score is the normal quantile of the average rank, among the draws of all chains. Both arrays have the
    # shape of ``values``, whose first axis counts quantities
    flat = values.reshape(len(values), -1)
    bulk, folded = np.empty(flat.shape), np.empty(flat.shape)
    n = flat.shape[1]
    # normal scores of the average ranks r = 0, 1/2, 1, ..., n: ndtri((r - 3/8) / (n + 1/4)) (Blom 1958); all r are >= 1
    score_of_rank = ndtri(np.maximum(np.arange(2 * n + 1) / 2.0 - 0.375, 0.0) / (n + 0.25))
    for i, draws in enumerate(flat):
        distinct_values, value_of_draw, count = np.unique(draws, return_inverse=True, return_counts=True)
        median_values = np.searchsorted(np.cumsum(count), [(n - 1) // 2, n // 2], side="right")
        _, distance = np.unique(np.abs(distinct_values - distinct_values[median_values].mean()), return_inverse=True)
        bulk[i] = score_of_rank[_twice_ranks(count)][value_of_draw]
        folded[i] = score_of_rank[_twice_ranks(np.bincount(distance, count).astype(np.int64))][distance][value_of_draw]
    return bulk.reshape(values.shape), folded.reshape(values.shape)


def _twice_ranks(count: np.ndarray) -> np.ndarray:
    """Return twice the average rank (m,), an integer, of each of m increasing values; value i occurs count[i] times."""
    return 2 * np.cumsum(count) - count + 1


def _rhat(scores: np.ndarray) -> np.ndarray:
    """Return the R-hat (quantities,) of ``scores`` (quantities, chains, draws), without splitting or ranking."""
    # NaN for a constant; infinite if each chain is constant and not all are equal
    n_draws = scores.shape[2]
    within = scores.var(axis=2, ddof=1).mean(axis=1)
    between = scores.mean(axis=2).var(axis=1, ddof=1)
    # the scores of one value repeated vary by rounding only
    within[within < 1e-24] = 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        out = np.sqrt(between / within + (n_draws - 1.0) / n_draws)
    out[np.ptp(scores, axis=(1, 2)) == 0.0] = np.nan
    return out


def ess_of_chains(scores: np.ndarray) -> np.ndarray:
    """Return the effective sample size (quantities,) of ``scores`` (quantities, chains, draws), all chains together."""
    # chains are not split and draws not ranked. No quantity may be constant in all chains
    _, n_chains, n_draws = scores.shape
    n_padded = 1 << (2 * n_draws - 1).bit_length()
    spectrum = np.fft.rfft(scores - scores.mean(axis=2, keepdims=True), n_padded, axis=2)
    power = (spectrum.real**2 + spectrum.imag**2).mean(axis=1)
    autocovariance = np.fft.irfft(power, n_padded, axis=1)[:, :n_draws] / n_draws
    between = scores.mean(axis=2).var(axis=1, ddof=1) if n_chains > 1 else np.zeros(len(scores))
    return ess_from_autocovariances(autocovariance, between, n_chains)


def ess_from_autocovariances(autocovariance: np.ndarray, between: np.ndarray, n_chains: int) -> np.ndarray:
    """Return the effective sample size (quantities,) from autocovariances, by Geyer's initial monotone sequence."""
    # ``autocovariance`` (quantities, draws) has the mean over chains at each lag, of sums divided by the number of
    # draws, ``between`` (quantities,) is the variance of the means of chains, and ``n_chains`` the number of chains.
    # The size counts all N draws, and is at most N log10 N
    n_draws = autocovariance.shape[1]
    # autocorrelation at lag t: 1 - (W - autocovariance_t) / V with V = (n - 1) W / n + B (Vehtari et al., equation 10)
    within = autocovariance[:, :1] * n_draws / (n_draws - 1.0)
    rho = 1.0 - (within - autocovariance) / (autocovariance[:, :1] + between[:, None])
    rho[:, 0] = 1.0

    # Geyer: pairs of lags up to the first sum that is not positive, each sum at most the one before
    last_pair = max((n_draws - 3) // 2, 0)
    pair = rho[:, : 2 * last_pair + 1 : 2] + rho[:, 1 : 2 * last_pair + 2 : 2]
    stop_pair = np.where((pair <= 0.0).any(axis=1), np.argmax(pair <= 0.0, axis=1), last_pair)
    before_stop = np.arange(last_pair + 1) < stop_pair[:, None]
    # time = -1 + 2 (sum of the pairs before the stop) + the even lag of the stop, at least 1 / log10(draws)
    summed = np.where(before_stop, np.minimum.accumulate(pair, axis=1), 0.0).sum(axis=1)
    quantity = np.arange(len(rho))
    rho_at_stop = rho[quantity, 2 * stop_pair]
    tail = np.where((rho_at_stop > 0.0) | (pair[quantity, stop_pair] >= 0.0), rho_at_stop, 0.0)
    size = n_chains * n_draws
    return size / np.maximum(-1.0 + 2.0 * summed + tail, 1.0 / math.log10(size))


def autocorrelation_times(values: np.ndarray) -> np.ndarray:
    """Return the integrated autocorrelation time (quantities,), in draws, of ``values`` (quantities, chains, draws)."""
    # each chain is centred at its own mean. A constant has time 1. There must be at least ``MIN_DRAWS_PER_CHAIN`` draws
    centred = values - values.mean(axis=2, keepdims=True)
    times, varying = np.ones(len(values)), np.ptp(values, axis=2).max(axis=1) > 0.0
    if varying.any():
        times[varying] = values.shape[1] * values.shape[2] / ess_of_chains(centred[varying])
    return times


def chains_disagree(values: np.ndarray) -> bool:
    """Return True if the chain means of some quantity differ by much more than their Monte-Carlo errors."""
    # this happens if each chain mixes well by itself, or hardly moves, in a part of the space that the others do not
    # visit. ``values`` has shape (quantities, chains, draws)
    quantities, chains, draws = values.shape
    scores = normal_scores(values)[0]
    _, ess = rhat_and_ess(values.reshape(-1, 1, draws))
    error = scores.var(axis=2) / ess.reshape(quantities, chains)
    return bool(np.any(scores.mean(axis=2).var(axis=1, ddof=1) > DISAGREEMENT_FACTOR * error.mean(axis=1) + 1e-24))
