"""The predictive law of a regression: a mixture over the trees drawn of the laws in the leaves that a row reaches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ._special import gammaln, ndtr, ndtri, stdtr, stdtrit
from .convergence import leaves_reached
from .model._number_leaves import StudentT
from .posterior import SampledPosterior
from .trees import LEAF, add_predictions_into

BLOCK = 1 << 19
"""Leaf laws weighed at a time."""
TOLERANCE = 1e-9
"""Of a quantile, relative to its magnitude and to the scale of its laws."""
MOST_STEPS = 200


class Predictive:
    """The predictive law of rows of numbers, as ``model.columns.numbers`` gives them, under a sampled regression.

    Parameters
    ----------
    post : SampledPosterior
        Draws under NormalInverseGamma, NormalSharedVariance or NormalKnownVariance.

    Raises
    ------
    ValueError
        If the leaf has no such law.

    Notes
    -----
    In a leaf the parameters are integrated out: a Student law (normal, if the variance is known), whose variance is
    that of a row of weight 1. With T distinct trees a row costs O(T depth), a quantile some ten times O(T) more.

    Examples
    --------
    >>> import numpy as np, pactree_mcmc as pt
    >>> x = np.arange(60.0)
    >>> model = pt.TreeModel(x[:, None], np.where(x > 29, 1.0, 0.0) + 0.01 * np.sin(x))
    >>> law = Predictive(pt.sample(model, 50, tune=50, chains=2, rng=1, kernel="grow-prune"))
    >>> law.quantiles(np.array([[5.0], [50.0]]), [0.5]).round(1).tolist()
    [[0.0], [1.0]]
    """

    def __init__(self, post: SampledPosterior) -> None:
        model, trees = post.model, post.distinct_trees
        if model.classes_ is not None:
            raise ValueError(f"{type(model.leaf).__name__} is a classification; its law is predict_proba.")
        tree = np.repeat(np.arange(post.n_distinct_trees), np.diff(trees.offset))
        self._law: StudentT = model.leaf.predictive(
            post.node_stats, np.where(trees.feature == LEAF, tree, -1), model.target
        )
        self._post = post

    def mean_and_variance(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean (n,) and variance (n,) of a new y at rows of X; the variance is infinite where a law's is."""
        df, location, scale = self._law
        with np.errstate(divide="ignore", invalid="ignore"):
            widening = np.where(np.isinf(df), 1.0, np.where(df > 2.0, df / (df - 2.0), np.inf))
        center = self._post.model.target.center
        moments = np.stack([location - center, scale**2 * widening + (location - center) ** 2], axis=1)
        out = np.zeros((len(X), 2))
        add_predictions_into(out, self._post.distinct_trees, self._post.weight_of_tree, moments, X)
        return center + out[:, 0], out[:, 1] - out[:, 0] ** 2

    def quantiles(self, X: np.ndarray, q: Any) -> np.ndarray:
        """Quantiles (n, len(q)) of a new y at rows of X, for probabilities ``q`` in (0, 1)."""
        q = np.atleast_1d(np.asarray(q, dtype=np.float64))
        if q.ndim != 1 or not np.all((q > 0.0) & (q < 1.0)):
            raise ValueError(f"q={q.tolist()} is out of range; give probabilities 0 < q < 1.")
        out = np.empty((len(X), len(q)))
        for rows, law in self._laws(X):
            for j, share in enumerate(q.tolist()):
                out[rows, j] = _mixture_quantile(law, self._weight, share)
        return out

    def cdf(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Probability (n,) that a new y at each row of X is at most ``y`` (n,)."""
        out = np.empty(len(y))
        for rows, law in self._laws(X):
            out[rows] = _below(law, y[rows, None]) @ self._weight
        return out

    @property
    def _drawn(self) -> np.ndarray:
        return np.flatnonzero(self._post.weight_of_tree)

    @property
    def _weight(self) -> np.ndarray:
        return self._post.weight_of_tree[self._drawn]

    def _laws(self, X: np.ndarray) -> Iterator[tuple[slice, StudentT]]:
        """The law of every drawn tree at some rows at a time, (rows, trees)."""
        drawn = self._drawn
        step = max(BLOCK // len(drawn), 1)
        for start in range(0, len(X), step):
            rows = slice(start, start + step)
            node = leaves_reached(self._post.distinct_trees, X[rows])[:, drawn]
            yield rows, StudentT(*(part[node] for part in self._law))


def _below(law: StudentT, y: np.ndarray) -> np.ndarray:
    """Probability of at most y under each law."""
    z = (y - law.location) / law.scale
    return ndtr(z) if np.isinf(law.df).all() else stdtr(law.df, z)


def _density(law: StudentT, y: np.ndarray) -> np.ndarray:
    z, df = (y - law.location) / law.scale, law.df
    if np.isinf(df).all():
        return np.exp(-0.5 * z * z) / (np.sqrt(2.0 * np.pi) * law.scale)
    log_constant = gammaln((df + 1.0) / 2.0) - gammaln(df / 2.0) - 0.5 * np.log(np.pi * df)
    return np.exp(log_constant - (df + 1.0) / 2.0 * np.log1p(z * z / df)) / law.scale


def _mixture_quantile(law: StudentT, weight: np.ndarray, q: float) -> np.ndarray:
    """The q-quantile (rows,) of mixtures of laws (rows, trees): Newton's steps kept between bounds that close in."""
    each = law.location + law.scale * (ndtri(q) if np.isinf(law.df).all() else stdtrit(law.df, q))
    low, high = each.min(axis=1), each.max(axis=1)
    y = each @ weight
    close = TOLERANCE * (law.scale.min(axis=1) + np.abs(y))
    for _ in range(MOST_STEPS):
        if np.all(high - low <= close):
            break
        excess = _below(law, y[:, None]) @ weight - q
        low, high = np.where(excess < 0.0, y, low), np.where(excess < 0.0, high, y)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            step = excess / (_density(law, y[:, None]) @ weight)
        moved = y - step
        done = np.abs(step) <= close
        low, high = np.where(done, y, low), np.where(done, y, high)
        y = np.where(done, y, np.where((moved > low) & (moved < high), moved, (low + high) / 2.0))
    return y
