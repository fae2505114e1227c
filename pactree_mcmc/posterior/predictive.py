"""The distribution of a new y under a posterior over trees: a mixture of the distributions in the leaves that a row
reaches.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ..core.checks import Seed, check_count, check_number, read_generator, read_numbers
from ..model.leaf.distributions import Mixture, NegativeBinomial, StudentT
from ..tree.arrays import LEAF

if TYPE_CHECKING:
    from ..model import TreeModel
    from .sampled import SampledPosterior

BLOCK = 1 << 19
"""Leaf distributions weighed at a time."""
ROUNDING = 1e-11
"""Probability that may be left by rounding when the probabilities of thousands of cells are added."""


class PredictsNewY(ABC):
    """Methods for the predictive distribution of a new y; a part of `Posterior`."""

    model: TreeModel
    _stats_by_place: np.ndarray
    """Statistics (k, n_stats) of the nodes of trees, or cells, that a row may reach."""

    def predict_quantiles(self, X: Any, q: Any) -> np.ndarray:
        """Quantiles of a new y, for regressions and counts.

        Parameters
        ----------
        X : table of shape (n, p)
            As the model's.
        q : float or array-like of shape (m,)
            Probabilities in (0, 1).

        Returns
        -------
        ndarray of shape (n, m); (n,) for a single number q
            Integers for counts: the smallest y such that a count (at exposure 1) is at most y with probability q.

        Raises
        ------
        ValueError
            If the model is a classification, q is out of range, or X does not have the model's columns.

        Notes
        -----
        The distribution of a new y is a mixture: over trees (the distinct ones drawn; all trees, for an exact
        posterior) of the predictive distribution of the leaf that the row reaches, for a row of weight 1: Student's t,
        normal if the variance is known, negative binomial for counts. The quantile of this mixture is computed without
        random draws, to about twelve digits for y of any size, and exactly for counts. The cost of a row is the number
        of leaves that may contain it, times 10 to 40 steps, and at most 140. Rows in the same leaves are computed once,
        with 2^19 leaf distributions in memory at a time.

        Examples
        --------
        >>> import numpy as np, pactree_mcmc as pt
        >>> x = np.arange(60.0)
        >>> model = pt.TreeModel(x[:, None], np.where(x > 29, 1.0, 0.0) + 0.01 * np.sin(x))
        >>> post = pt.sample(model, 50, tune=50, chains=2, rng=1, kernel="grow-prune")
        >>> post.predict_quantiles([[5.0], [50.0]], 0.5).round(1).tolist()
        [0.0, 1.0]
        """
        return Predictive(self).quantiles(self.model.columns.numbers(X), q)

    def predict_interval(self, X: Any, coverage: float = 0.9) -> np.ndarray:
        """Returns the ends (n, 2) of the central interval that contains a new y with probability ``coverage``.

        Parameters
        ----------
        X : table of shape (n, p)
            As the model's.
        coverage : float, default 0.9
            In (0, 1); the rest is divided equally between both sides. For counts the probability is at least this.

        Raises
        ------
        ValueError
            As for `predict_quantiles`, two of which are the ends; distribution and cost are the same.
        """
        return Predictive(self).interval(self.model.columns.numbers(X), coverage)

    def predict_std_new_y(self, X: Any) -> np.ndarray:
        """Returns the standard deviation (n,) of a new y, noise included: of the mixture that `predict_quantiles`
        describes.

        Infinite if the predictive distribution of a leaf has no variance, as can happen with ``a0`` of at most 1 and
        few rows in the leaf. `predict_std_over_trees` is the part due to disagreement between trees.

        Raises
        ------
        ValueError
            If the model is a classification, or X does not have the model's columns.
        """
        return np.sqrt(Predictive(self).mean_and_variance(self.model.columns.numbers(X))[1])

    def sample_predictive(self, X: Any, draws: int = 1000, rng: Seed = None) -> np.ndarray:
        """Draws of a new y for each row, from the posterior predictive distribution.

        Parameters
        ----------
        X : table of shape (n, p)
            As the model's.
        draws : int, default 1000
            At least 1.
        rng : int, SeedSequence, Generator or None
            Source of randomness.

        Returns
        -------
        ndarray of shape (draws, n)
            Labels of ``model.classes_``; float64 for a regression, integers at exposure 1 under PoissonGamma.

        Raises
        ------
        ValueError
            If ``draws`` is not positive, the leaf is a loss (PacBayesLoss), or X does not have the model's columns.

        Notes
        -----
        Each draw takes a tree (one of the sampled draws, with replacement; for an exact posterior a new tree), draws
        the parameters of its leaves given their rows, then a y for each row given these. So the rows of a draw are
        drawn jointly, as is needed for sums over rows, and each row by itself has the mixture distribution that
        `predict_quantiles` describes. Cost O(draws * n * depth); memory O(n) in addition to the result.

        Examples
        --------
        >>> import numpy as np, pactree_mcmc as pt
        >>> x = np.arange(60.0)
        >>> post = pt.sample(pt.TreeModel(x[:, None], x > 29), 50, tune=50, chains=2, rng=1, kernel="grow-prune")
        >>> post.sample_predictive([[5.0], [50.0]], 400, rng=1).mean(axis=0).round(1).tolist()
        [0.0, 1.0]
        """
        return self._new_y(self.model.columns.numbers(X), draws, rng)

    def _new_y(self, X: np.ndarray, draws: int, rng: Any) -> np.ndarray:
        draws, rng = check_count("draws", draws), read_generator(rng)
        refuse_loss(self.model)
        post, trees = self._drawn_trees(draws, rng)
        regressors = () if self.model.leaf.x_columns is None else (self.model.regressors(X),)

        def leaves_in(t: int) -> np.ndarray:
            return post.coded_trees.offset[t] + post.distinct_tree(t).routes().leaves(X)

        y = draw_new_y(post, trees, leaves_in, rng, regressors=regressors)
        return y if self.model.classes_ is None else self.model.classes_[y]

    @abstractmethod
    def _drawn_trees(self, n: int, rng: np.random.Generator) -> tuple[SampledPosterior, np.ndarray]:
        """``n`` trees: a sampled posterior, and the numbers (n,) of its distinct trees."""

    def _values_by_row(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns mean and mean square (n, d) of the predictions at rows of numbers, for leaves that depend on the
        row.
        """
        leaf, target, regressors = self.model.leaf, self.model.target, self.model.regressors(X)
        assert regressors is not None
        places, means, squares = [np.empty(0, dtype=np.int64)], [], []
        for rows, mix in self._mixtures(X):
            places.append(np.arange(len(X))[rows])
            at = np.repeat(places[-1], np.diff(mix.first))
            value = leaf.value(self._stats_by_place[mix.place], target, regressors[at])
            means.append(np.column_stack([mix.mean(column) for column in value.T]))
            squares.append(np.column_stack([mix.mean(column) for column in value.T**2]))
        order = np.argsort(np.concatenate(places))
        return np.concatenate(means)[order], np.concatenate(squares)[order]

    @abstractmethod
    def _leaf_distributions(self) -> StudentT | NegativeBinomial:
        """Distributions of a new y in the places that a row may reach: nodes of trees, or cells."""

    @abstractmethod
    def _mixtures(self, X: np.ndarray) -> Iterator[tuple[slice | np.ndarray, Mixture]]:
        """Yield some rows of numbers at a time, about ``BLOCK`` distributions, with the places that they reach and how
        probably. Each row comes once.
        """

    @abstractmethod
    def _averages(self, X: np.ndarray, by_place: np.ndarray) -> np.ndarray:
        """Returns the posterior means (n, d) of the values (m, d) of the nodes or cells that rows of numbers reach."""


class Predictive:
    """The distribution of a new y at rows of numbers, as ``model.columns.numbers`` gives them.

    Parameters
    ----------
    post : Posterior

    Raises
    ------
    ValueError
        If the model is a classification, or the posterior does not keep these distributions.
    """

    def __init__(self, post: PredictsNewY) -> None:
        if post.model.classes_ is not None:
            raise ValueError(
                f"{type(post.model.leaf).__name__} is a leaf of classes, which have no quantiles, intervals or "
                "standard deviation: predict_proba gives their probabilities, sample_predictive draws labels."
            )
        self._post, self._distribution = post, post._leaf_distributions()
        self._by_row = post.model.leaf.x_columns is not None
        # equal distributions of many places are weighed once: a place of each, and which of them every place has
        table = np.ascontiguousarray(np.column_stack(tuple(self._distribution)))
        by_bytes = table.view(np.dtype((np.void, table.shape[1] * table.itemsize))).reshape(-1)
        self._first, number = np.unique(by_bytes, return_index=True, return_inverse=True)[1:]
        self._number = number.reshape(-1)

    def mean_and_variance(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean (n,) and variance (n,) of a new y at rows of X; the variance is infinite where a distribution's is."""
        center = self._post.model.target.center
        if self._by_row:
            return self._mean_and_variance_by_row(X, center)
        mean, variance = self._distribution.mean_and_variance()
        endless = np.isinf(variance)
        square = np.where(endless, 0.0, variance) + (mean - center) ** 2
        out = self._post._averages(X, np.column_stack([mean - center, square, endless]))
        spread = np.maximum(out[:, 1] - out[:, 0] ** 2, 0.0)
        return center + out[:, 0], np.where(out[:, 2] > ROUNDING, np.inf, spread)

    def quantiles(self, X: np.ndarray, q: Any) -> np.ndarray:
        """Quantiles (n, len(q)) of a new y at rows of X, for probabilities ``q`` in (0, 1); (n,) for a number q."""
        given = read_numbers("q", q)
        if given.ndim > 1 or not np.all((given > 0.0) & (given < 1.0)):
            raise ValueError(f"q={given.tolist()} is out of range; give probabilities 0 < q < 1, a number or a row.")
        out = np.empty((len(X), given.size))
        for rows, mix in self._post._mixtures(X):
            same: Any = slice(None)
            if self._by_row:
                distribution = self._distributions_at(X[rows], mix)
            else:
                mix, same = _distinct(self._merged(mix))
                distribution = self._distribution.take(self._first[mix.place])
            for j, fraction in enumerate(given.ravel().tolist()):
                out[rows, j] = mix.quantile(distribution, fraction)[same]
        return out[:, 0] if given.ndim == 0 else out

    def interval(self, X: np.ndarray, coverage: Any) -> np.ndarray:
        """Ends (n, 2) of the central interval."""
        coverage = check_number("coverage", coverage, "a probability 0 < coverage < 1", 1e-15, 1.0 - 1e-15)
        return self.quantiles(X, [(1.0 - coverage) / 2.0, (1.0 + coverage) / 2.0])

    def cdf(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Probability (n,) that a new y at each row of X is at most ``y`` (n,)."""
        out = np.empty(len(y))
        for rows, mix in self._post._mixtures(X):
            distribution = self._distributions_at(X[rows], mix) if self._by_row else self._distribution.take(mix.place)
            out[rows] = mix.mean(distribution.below(mix.by_distribution(y[rows])))
        return out

    def _distributions_at(self, X: np.ndarray, mix: Mixture) -> Any:
        """The distributions of a mixture, of leaves that look at the row too."""
        regressors, distributions = self._post.model.regressors(X), cast(Any, self._distribution.take(mix.place))
        assert regressors is not None
        return distributions.at(np.repeat(regressors, np.diff(mix.first), axis=0))

    def _mean_and_variance_by_row(self, X: np.ndarray, center: float) -> tuple[np.ndarray, np.ndarray]:
        mean, variance = np.empty(len(X)), np.empty(len(X))
        for rows, mix in self._post._mixtures(X):
            each, spread = self._distributions_at(X[rows], mix).mean_and_variance()
            mean[rows] = mix.mean(each - center)
            variance[rows] = mix.mean(spread + (each - center) ** 2) - mean[rows] ** 2
        return center + mean, np.maximum(variance, 0.0)

    def _merged(self, mix: Mixture) -> Mixture:
        """Equal distributions of a row as one, by their numbers, which increase in each row; the weights sum to one."""
        row = np.repeat(np.arange(len(mix.first) - 1), np.diff(mix.first))
        key, at = np.unique(row * len(self._first) + self._number[mix.place], return_inverse=True)
        weight, row = np.bincount(at, weights=mix.weight), key // len(self._first)
        total = np.bincount(row, weights=weight)
        first = np.searchsorted(row, np.arange(len(mix.first)))
        return Mixture(key % len(self._first), weight / total[row], first)


def _distinct(mix: Mixture) -> tuple[Mixture, np.ndarray]:
    """Each mixture once, and which of them each row has."""
    seen: dict[bytes, int] = {}
    bounds = mix.first.tolist()
    same = np.empty(len(bounds) - 1, dtype=np.int64)
    keep: list[int] = []
    for i, (start, stop) in enumerate(pairwise(bounds)):
        key = mix.place[start:stop].tobytes() + mix.weight[start:stop].tobytes()
        same[i] = seen.setdefault(key, len(seen))
        if same[i] == len(keep):
            keep.append(i)
    size = np.diff(mix.first)[keep]
    first = np.concatenate([[0], np.cumsum(size)])
    taken = np.repeat(mix.first[keep] - first[:-1], size) + np.arange(first[-1])
    return Mixture(mix.place[taken], mix.weight[taken], first), same


def spread(model: TreeModel, averages: Callable[[np.ndarray], np.ndarray], value: np.ndarray) -> np.ndarray:
    """Standard deviation over trees of what rows reach: in one leaf each, so the square is a mean over leaves too.

    ``averages`` means over trees, (n, d), of a table of values by leaf; ``value`` that table, (m, d).
    """
    value = value - value[0]
    mean, square = np.split(averages(np.hstack([value, value**2])), 2, axis=1)
    std = np.sqrt(np.maximum(square - mean**2, 0.0))
    return std[:, 0] if std.shape[1] == 1 and model.classes_ is None else std


def spread_by_row(mean: np.ndarray, square: np.ndarray) -> np.ndarray:
    """`spread` from what leaves that look at the row predict on average, and its square, (n, d)."""
    std = np.sqrt(np.maximum(square - mean**2, 0.0))
    return std[:, 0] if std.shape[1] == 1 else std


def has_values_by_leaf(model: TreeModel) -> bool:
    """Whether a leaf predicts the same for all rows in it."""
    return model.leaf.predicts and model.leaf.x_columns is None


def refuse_by_row(model: TreeModel) -> None:
    """Refuse leaves that predict for each row something else, where there is no row."""
    if model.leaf.x_columns is not None:
        raise ValueError(
            f"{model.leaf!r} looks at columns of X, so a leaf predicts no one value; predict, predict_interval and "
            "sample_predictive take rows."
        )


def refuse_loss(model: TreeModel) -> None:
    """Refuse a loss, which has no distribution of y."""
    if not model.leaf.has_likelihood:
        raise ValueError(
            f"{type(model.leaf).__name__} is a loss, not a model of y: there is nothing to draw. predict_proba gives "
            "the votes for each class; DirichletMultinomial has labels to draw."
        )


def draw_new_y(
    post: SampledPosterior,
    trees: np.ndarray,
    leaves_in: Callable[[int], np.ndarray],
    rng: np.random.Generator,
    rows: np.ndarray | None = None,
    regressors: tuple[Any, ...] = (),
) -> np.ndarray:
    """New y (len(trees), n[, d]) of rows, a draw for each number of a tree; labels by number.

    ``leaves_in`` gives the nodes (n,) that the rows reach in a tree, counted over all trees; ``rows`` (n,) the training
    rows whose exposure the y have; None for new rows.
    """
    model, arrays = post.model, post.coded_trees
    out = []
    for t in trees.tolist():
        nodes = slice(int(arrays.offset[t]), int(arrays.offset[t + 1]))
        is_leaf = arrays.feature[nodes] == LEAF
        number = np.cumsum(is_leaf) - 1
        leaf = number[leaves_in(t) - nodes.start]
        out.append(model.leaf.draw(rng, post.node_stats[nodes][is_leaf], leaf, model.target, rows, *regressors))
    return np.array(out, dtype=np.float64 if model.classes_ is None else np.int64)
