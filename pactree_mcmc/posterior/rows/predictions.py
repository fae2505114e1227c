"""Predictions: means, quantiles and intervals of a new y and of its expectation, and draws of both.

A row is in one leaf of each tree. The leaf has a predictive distribution of a new y. The posterior of its parameter has
a closed form, and so has that of E(y | x), or P(y | x), which `Leaf.expectation` returns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple, cast

import numpy as np

from ...core.checks import Seed, central_fractions, check_count, read_generator, read_numbers, refuse_other_rows
from ...model import TreeModel
from ...model.leaf.base import Leaf
from ...model.leaf.counts import ExposedLeaf, PoissonGamma, read_exposures
from ...model.leaf.distributions import Mixture
from ...tree.arrays import LEAF, TreeArrays, leaf_values
from ..distribution import TreeDistribution, documented, random_draws, refuse_other_leaves
from ..draws import Draws
from ..laws import MAX_ROUNDING_PROBABILITY, RowLaw

N_INTERVAL_DRAWS = 2000
"""Number of draws for the interval of a leaf model whose expectation has no posterior in closed form."""
LARGEST_SQUARED = 1e150
"""Largest number that is squared without scaling."""


def predict_proba(post: TreeDistribution, X: Any) -> np.ndarray:
    """Return predictive class probabilities.

    Parameters
    ----------
    X : table of shape (n, p)
        With the columns of the model; columns of a frame are taken by name. A category not seen in training follows
        the branch of the majority of the training rows.

    Returns
    -------
    ndarray of shape (n, K)
        Columns follow ``model.classes_``.

    Raises
    ------
    ValueError
        If the model is a regression, or X does not have the model's columns.
    """
    if post.model.classes_ is None:
        raise ValueError(f"{type(post.model.leaf).__name__} is a regression; use predict.")
    return post._rows.values(post.model.columns.numbers(X))


@documented
def predict(post: TreeDistribution, X: Any, *, exposure: Any = None) -> np.ndarray:
    """Return labels, or the predictive means of a regression.

    Parameters
    ----------
    {X}
    {exposure}

    Returns
    -------
    ndarray of shape (n,)
        For a classification the most probable labels, the first one if several are equal.

    Raises
    ------
    ValueError
        If X does not fit the model's columns, or ``exposure`` is out of range or given to a leaf that has none.

    Examples
    --------
    The labels of least expected cost, if a miss costs ten times as much as a false alarm; row i, column j of
    ``costs`` is the cost of deciding class j if the class is i:

    >>> import numpy as np, pactree_mcmc as pt
    >>> model = pt.TreeModel([[0.0]] * 8, ["sick", "well", "well", "well"] * 2)
    >>> post = pt.posterior_from_trees(model, [pt.Tree([-1], [0], [0], [0])])
    >>> costs = np.array([[0.0, 10.0], [1.0, 0.0]])
    >>> str(post.predict([[0.0]])[0]), str(model.classes_[(post.predict_proba([[0.0]]) @ costs).argmin(axis=1)][0])
    ('well', 'sick')
    """
    model, numbers = post.model, post.model.columns.numbers(X)
    values = values_at_exposure(model, post._rows.values(numbers), exposures_of(model, X, numbers, exposure))
    return values[:, 0] if model.classes_ is None else predicted_labels(model, values)


def predicted_labels(model: TreeModel, probabilities: np.ndarray) -> np.ndarray:
    """Return the most probable classes (n,), given class probabilities (n, K)."""
    assert model.classes_ is not None
    return model.classes_[np.argmax(probabilities, axis=1)]


@documented
def predict_quantiles(post: TreeDistribution, X: Any, q: Any, *, exposure: Any = None) -> np.ndarray:
    """Return quantiles of a new y, for regressions and counts.

    Parameters
    ----------
    {X}
    q : float or array-like of shape (m,)
        Probabilities of the quantiles, in (0, 1).
    {exposure}

    Returns
    -------
    ndarray of shape (n, m); (n,) for a single number q
        Integers for counts: the smallest y such that a count is at most y with probability q.

    Raises
    ------
    ValueError
        If the model is a classification, q is out of range, or X does not have the model's columns.

    Notes
    -----
    The distribution of a new y is a mixture over trees of the predictive distribution of the leaf that the row
    reaches, for a row of weight 1. Its quantile is computed without random draws, to nine digits or more, and
    exactly for counts. The cost of a row is the number of leaves that may contain it, times 10 to 40 steps.

    Examples
    --------
    >>> import numpy as np, pactree_mcmc as pt
    >>> x = np.arange(60.0)
    >>> model = pt.TreeModel(x[:, None], np.where(x > 29, 1.0, 0.0) + 0.01 * np.sin(x))
    >>> post = pt.sample(model, 50, tune=50, chains=2, rng=1, kernel="grow-prune")
    >>> post.predict_quantiles([[5.0], [50.0]], 0.5).round(1).tolist()
    [0.0, 1.0]
    """
    model, numbers = post.model, post.model.columns.numbers(X)
    exposures, law = exposures_of(model, X, numbers, exposure), law_of_new_y(post._rows)
    if isinstance(model.leaf, PoissonGamma):
        # counts at another exposure are not multiples of those at exposure 1
        return quantiles_at(post._rows, law, numbers, q, exposures)
    return values_at_exposure(model, quantiles_at(post._rows, law, numbers, q), exposures)


@documented
def predict_interval(post: TreeDistribution, X: Any, coverage: float = 0.9, *, exposure: Any = None) -> np.ndarray:
    """Return the ends (n, 2) of the central interval that contains a new y with probability ``coverage``.

    Parameters
    ----------
    {X}
    {coverage}
    {exposure}

    Raises
    ------
    ValueError
        As for `predict_quantiles`, which computes the ends. For counts the probability is at least ``coverage``.
    """
    return predict_quantiles(post, X, central_fractions(coverage), exposure=exposure)


@documented
def credible_interval(post: TreeDistribution, X: Any, coverage: float = 0.9, *, exposure: Any = None) -> np.ndarray:
    """Return credible intervals of E(y | x), or of P(y | x), over trees and leaf parameters.

    Parameters
    ----------
    {X}
    {coverage}
    {exposure}

    Returns
    -------
    ndarray of shape (n, 2); (n, K, 2) for classes
        Lower and upper end. Columns of classes follow ``model.classes_``. The interval of times is for the mean
        time.

    Raises
    ------
    ValueError
        If the leaf is a loss (PacBayesLoss) or a `CustomLeaf` without ``expectation=``, ``coverage`` is out of
        range, or X does not have the model's columns.

    See Also
    --------
    predict_interval : Interval of a new y, which also contains the noise.

    Notes
    -----
    Given the tree, the parameters of a leaf have a posterior in closed form: Student's t for a mean, beta for a
    class probability, gamma for a rate (formulas, section 3). The interval is that of its mixture over trees,
    computed as in `predict_quantiles`, for each class. The class probabilities of `FrozenLaplace` are
    fixed given the tree, so their intervals are over trees alone. Those of a `CustomLeaf` come from
    2,000 draws.

    Examples
    --------
    >>> import numpy as np, pactree_mcmc as pt
    >>> x = np.arange(60.0)
    >>> post = pt.sample(pt.TreeModel(x[:, None], x > 29), 50, tune=50, chains=2, rng=1, kernel="grow-prune")
    >>> post.credible_interval([[5.0]]).round(1).tolist()
    [[[0.9, 1.0], [0.0, 0.1]]]
    """
    numbers = post.model.columns.numbers(X)
    exposures = exposures_of(post.model, X, numbers, exposure)
    return values_at_exposure(post.model, credible_interval_at(post, numbers, coverage), exposures)


def credible_interval_at(post: TreeDistribution, X: np.ndarray, coverage: float) -> np.ndarray:
    """Return the ends (n, 2), or (n, K, 2), of credible intervals at rows of numbers X and exposure 1."""
    model, rows, fractions = post.model, post._rows, np.array(central_fractions(coverage))
    refuse_no_expectation(model)
    if not model.leaf.has_closed_expectation:
        return np.moveaxis(np.quantile(draw_expectations_at(post, X, N_INTERVAL_DRAWS, 0), fractions, axis=0), 0, -1)
    laws = model.leaf.expectation(rows.place_stats, rows.place_tree, model.target)
    ends = np.stack([quantiles_at(rows, law, X, fractions) for law in laws], axis=1)
    return ends[:, 0] if model.classes_ is None else ends


@documented
def draw_expectations(
    post: TreeDistribution, X: Any, draws: int = 1000, rng: Seed = None, *, exposure: Any = None
) -> np.ndarray:
    """Draw E(y | x), or P(y | x), from its posterior over trees and leaf parameters.

    Parameters
    ----------
    {X}
    {new_draws}
    {exposure}

    Returns
    -------
    ndarray of shape (draws, n); (draws, n, K) for classes
        The rows of one draw have the same tree and the same leaf parameters, so that differences and averages over
        rows have the right spread.

    Raises
    ------
    ValueError
        As for `credible_interval`, or if ``draws`` is not positive.

    Notes
    -----
    Each draw takes a tree (one of the sampled draws, with replacement; for an exact posterior a new tree), then
    draws the parameters of its leaves given their rows. Cost O(draws * n * depth).

    Examples
    --------
    >>> import numpy as np, pactree_mcmc as pt
    >>> x = np.arange(60.0)
    >>> model = pt.TreeModel(x[:, None], np.where(x > 29, 1.0, 0.0) + 0.1 * np.sin(x))
    >>> post = pt.sample(model, 50, tune=50, chains=2, rng=1, kernel="grow-prune")
    >>> drawn = post.draw_expectations([[5.0], [50.0]], 400, rng=1)
    >>> float((drawn[:, 1] - drawn[:, 0]).mean().round(1))
    1.0
    """
    model, numbers = post.model, post.model.columns.numbers(X)
    exposures = exposures_of(model, X, numbers, exposure)
    expectations = draw_expectations_at(post, numbers, draws, rng)
    return np.moveaxis(values_at_exposure(model, np.moveaxis(expectations, 1, 0), exposures), 0, 1)


def draw_expectations_at(post: TreeDistribution, X: np.ndarray, draws: int, rng: Seed) -> np.ndarray:
    """Draw E(y | x) (draws, n), or P(y | x) (draws, n, K), at rows of numbers X and exposure 1, each from one tree."""
    n, generator = check_count("draws", draws), read_generator(rng)
    refuse_no_expectation(post.model)
    refuse_other_leaves(post)
    expectations = draw_predictions(*random_draws(post, n, generator), X, generator)
    return expectations[:, :, 0] if post.model.classes_ is None else expectations


@documented
def sample_predictive(
    post: TreeDistribution, X: Any, draws: int = 1000, rng: Seed = None, *, exposure: Any = None
) -> np.ndarray:
    """Draw a new y for each row from the posterior predictive distribution.

    Parameters
    ----------
    {X}
    {new_draws}
    {exposure}

    Returns
    -------
    ndarray of shape (draws, n)
        Labels of ``model.classes_``; float64 for a regression, integers under PoissonGamma.

    Raises
    ------
    ValueError
        If ``draws`` is not positive, the leaf is a loss (PacBayesLoss), or X does not have the model's columns.

    Notes
    -----
    Each draw takes a tree and the parameters of its leaves, as in `draw_expectations`, then draws a y for each row
    given these. So the rows of a draw are drawn jointly, as is needed for sums over rows, and each row by itself
    has the distribution that `predict_quantiles` describes. Cost O(draws * n * depth).

    Examples
    --------
    >>> import numpy as np, pactree_mcmc as pt
    >>> x = np.arange(60.0)
    >>> post = pt.sample(pt.TreeModel(x[:, None], x > 29), 50, tune=50, chains=2, rng=1, kernel="grow-prune")
    >>> post.sample_predictive([[5.0], [50.0]], 400, rng=1).mean(axis=0).round(1).tolist()
    [0.0, 1.0]
    """
    numbers = post.model.columns.numbers(X)
    return sample_predictive_at(post, numbers, draws, rng, exposures_of(post.model, X, numbers, exposure))


def sample_predictive_at(
    post: TreeDistribution, X: np.ndarray, draws: int, rng: Seed, exposures: np.ndarray | None = None
) -> np.ndarray:
    """Draw a new y (draws, n), as labels or numbers, at rows of numbers X with these exposures, each from one tree."""
    model, n, generator = post.model, check_count("draws", draws), read_generator(rng)
    refuse_loss(model)
    refuse_other_leaves(post)
    sampled, trees = random_draws(post, n, generator)
    regressors = () if model.leaf.x_columns is None else (model.regressors(X),)

    def find_leaves(t: int) -> np.ndarray:
        """Return the leaf (n,) of distinct tree ``t`` that each row reaches, a number over all trees."""
        return sampled.coded_trees.offset[t] + sampled.distinct_tree(t).routes().leaves(X)

    if exposures is None:
        y = draw_new_y(sampled, trees, find_leaves, generator, regressors=regressors)
    else:
        leaf = replace(cast(Any, model.leaf), exposure=exposures)
        y = draw_new_y(sampled, trees, find_leaves, generator, np.arange(len(X)), leaf=leaf)
    return y if model.classes_ is None else model.classes_[y]


@documented
def predict_std_new_y(post: TreeDistribution, X: Any, *, exposure: Any = None) -> np.ndarray:
    """Return the standard deviation (n,) of a new y, noise included, in the mixture of `predict_quantiles`.

    Infinite if the predictive distribution of a leaf has no variance, as can happen with ``a0`` of at most 1 and
    few rows in the leaf. `predict_std_over_trees` is the part due to disagreement between trees.

    Parameters
    ----------
    {X}
    {exposure}

    Raises
    ------
    ValueError
        If the model is a classification, X does not have the model's columns, or ``exposure`` is out of range or given
        to a leaf that has none.
    """
    model, numbers = post.model, post.model.columns.numbers(X)
    exposures = exposures_of(model, X, numbers, exposure)
    mean, std = mean_and_std_of_new_y(post._rows, numbers)
    if exposures is not None and isinstance(model.leaf, PoissonGamma):
        # a count at exposure e has the variance e E(rate) + e^2 var(rate), with var(rate) = var(count at 1) - E(rate)
        return np.sqrt(exposures) * np.sqrt(mean + exposures * np.maximum(std**2 - mean, 0.0))
    return values_at_exposure(model, std, exposures)


@documented
def predict_std_over_trees(post: TreeDistribution, X: Any, *, exposure: Any = None) -> np.ndarray:
    """Return the standard deviation, over trees, of the prediction at each row, which is the disagreement of trees.

    It includes neither the noise of y nor the uncertainty of the mean of a leaf; see `predict_std_new_y`.

    Parameters
    ----------
    {X}
    {exposure}

    Returns
    -------
    ndarray of shape (n,), or (n, K) for class probabilities
        Accurate to about 1e-8 of the range of the predictions; the cost is that of `predict`.

    Raises
    ------
    ValueError
        If X does not fit the model's columns, ``exposure`` is out of range or given to a leaf that has none, or the
        posterior is an exact progressive mixture.
    """
    numbers = post.model.columns.numbers(X)
    exposures = exposures_of(post.model, X, numbers, exposure)
    return values_at_exposure(post.model, std_over_trees(post._rows, numbers), exposures)


def std_over_trees(rows: RowLaw, X: np.ndarray) -> np.ndarray:
    """Return the standard deviation over trees of predictions at rows of numbers X: (n, K) for classes, else (n,)."""
    # sd^2 = E[v^2] - E[v]^2 with means over trees of the value v of the leaf that the row reaches
    scale = 1.0
    if rows.model.leaf.x_columns is not None:
        mean, square = rows.means_by_row(X)
    else:
        by_place = rows.place_values - rows.place_values[0]
        scale = scale_of_squares(by_place)
        by_place = by_place / scale
        mean, square = np.split(rows.average(X, np.hstack([by_place, by_place**2])), 2, axis=1)
    with np.errstate(over="ignore", invalid="ignore"):
        std = scale * np.sqrt(np.maximum(square - mean**2, 0.0))
    # a regression of a leaf may predict numbers whose squares overflow
    std = np.where(np.isnan(std), np.inf, std)
    return std[:, 0] if rows.model.classes_ is None else std


def scale_of_squares(values: np.ndarray) -> float:
    """Return 1, or the size of the largest of the finite ``values`` if its square could overflow."""
    largest = float(np.abs(values, where=np.isfinite(values), out=np.zeros(values.shape)).max(initial=0.0))
    return largest if largest > LARGEST_SQUARED else 1.0


def mean_and_std_of_new_y(rows: RowLaw, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation (n,) of a new y at rows of numbers X; infinite if that of a leaf is."""
    law, center = law_of_new_y(rows), rows.model.target.center
    if rows.model.leaf.x_columns is not None:
        return _mean_and_std_by_row(rows, law, X, center)
    with np.errstate(over="ignore", invalid="ignore"):
        mean, variance = law.mean_and_variance()
    is_infinite = ~np.isfinite(variance)
    scale = scale_of_squares(mean - center)
    square = np.where(is_infinite, 0.0, variance) / scale / scale + ((mean - center) / scale) ** 2
    out = rows.average(X, np.column_stack([mean - center, square, is_infinite]))
    std = scale * np.sqrt(np.maximum(out[:, 1] - (out[:, 0] / scale) ** 2, 0.0))
    return center + out[:, 0], np.where(out[:, 2] > MAX_ROUNDING_PROBABILITY, np.inf, std)


def _mean_and_std_by_row(rows: RowLaw, law: Any, X: np.ndarray, center: float) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation (n,) of a new y, centred to lose fewer digits, if leaves use columns of X."""
    mean, std = np.empty(len(X)), np.empty(len(X))
    for block, mix in rows.reach(X):
        leaf_mean, leaf_variance = _laws_at(rows, law, X[block], mix).mean_and_variance()
        mean[block] = mix.mean(leaf_mean - center)
        scale = scale_of_squares(leaf_mean - center)
        square = mix.mean(leaf_variance / scale / scale + ((leaf_mean - center) / scale) ** 2)
        std[block] = scale * np.sqrt(np.maximum(square - (mean[block] / scale) ** 2, 0.0))
    return center + mean, std


def law_of_new_y(rows: RowLaw) -> Any:
    """Return the predictive distributions of a new y at all places, or raise a ValueError for classes."""
    model = rows.model
    if model.classes_ is not None:
        raise ValueError(
            f"{type(model.leaf).__name__} is a leaf of classes, so a new y has no quantiles, intervals or "
            "standard deviation: predict_proba gives class probabilities, credible_interval their intervals, "
            "and sample_predictive draws labels."
        )
    return model.leaf.predictive(rows.place_stats, rows.place_tree, model.target)


def quantiles_at(rows: RowLaw, law: Any, X: np.ndarray, q: Any, exposures: np.ndarray | None = None) -> np.ndarray:
    """Return quantiles (n, m), (n,) for a number q, of the mixture over trees of the ``law`` of each place."""
    fractions = read_numbers("q", q)
    if fractions.ndim > 1 or not np.all((fractions > 0.0) & (fractions < 1.0)):
        raise ValueError(f"q={fractions.tolist()} is out of range; give probabilities 0 < q < 1, a number or a row.")
    # equal distributions of several places are evaluated once: ``first`` has a place of each distinct distribution
    table = np.ascontiguousarray(np.column_stack(tuple(law)))
    by_bytes = table.view(np.dtype((np.void, table.shape[1] * table.itemsize))).reshape(-1)
    first, number = np.unique(by_bytes, return_index=True, return_inverse=True)[1:]
    out = np.empty((len(X), fractions.size))
    for block, mix in rows.reach(X):
        mixture_of_row: Any = slice(None)
        if rows.model.leaf.x_columns is not None:
            laws = _laws_at(rows, law, X[block], mix)
        elif exposures is not None:
            laws = law.take(mix.place).at_exposure(mix.by_distribution(exposures[block]))
        else:
            mix, mixture_of_row = _distinct_mixtures(_merge_equal(mix, number.reshape(-1), len(first)))
            laws = law.take(first[mix.place])
        for j, fraction in enumerate(fractions.ravel().tolist()):
            out[block, j] = mix.quantile(laws, fraction)[mixture_of_row]
    # quantiles of nearby probabilities may be equal, and then differ by rounding
    order = np.argsort(fractions.ravel(), kind="stable")
    out[:, order] = np.maximum.accumulate(out[:, order], axis=1)
    return out[:, 0] if fractions.ndim == 0 else out


def _laws_at(rows: RowLaw, law: Any, X: np.ndarray, mix: Mixture) -> Any:
    """Return the distributions of a new y at the places of ``mix``, row after row, given each row's regressors."""
    regressors = rows.model.regressors(X)
    assert regressors is not None
    return law.take(mix.place).at(np.repeat(regressors, np.diff(mix.first), axis=0))


def _merge_equal(mix: Mixture, number: np.ndarray, n_distinct: int) -> Mixture:
    """Return ``mix`` with equal distributions of a row merged, numbered by ``number`` (m,), and weights normalised."""
    row = np.repeat(np.arange(len(mix.first) - 1), np.diff(mix.first))
    key, position = np.unique(row * n_distinct + number[mix.place], return_inverse=True)
    weight, row = np.bincount(position, weights=mix.weight), key // n_distinct
    total = np.bincount(row, weights=weight)
    return Mixture(key % n_distinct, weight / total[row], np.searchsorted(row, np.arange(len(mix.first))))


def _distinct_mixtures(mix: Mixture) -> tuple[Mixture, np.ndarray]:
    """Return the distinct mixtures among those of ``mix``, one a row, and the number (n,) of that of each row."""
    number_of_mixture: dict[bytes, int] = {}
    bounds = mix.first.tolist()
    number = np.empty(len(bounds) - 1, dtype=np.int64)
    first_rows: list[int] = []
    for i, (start, stop) in enumerate(pairwise(bounds)):
        key = mix.place[start:stop].tobytes() + mix.weight[start:stop].tobytes()
        number[i] = number_of_mixture.setdefault(key, len(number_of_mixture))
        if number[i] == len(first_rows):
            first_rows.append(i)
    size = np.diff(mix.first)[first_rows]
    first = np.concatenate([[0], np.cumsum(size)])
    entries = np.repeat(mix.first[first_rows] - first[:-1], size) + np.arange(first[-1])
    return Mixture(mix.place[entries], mix.weight[entries], first), number


def refuse_loss(model: TreeModel) -> None:
    """Raise a ValueError if the leaf is a loss, which has no distribution of y."""
    if not model.leaf.has_likelihood:
        raise ValueError(
            f"{type(model.leaf).__name__} is a loss, not a model of y, so no y can be drawn. predict_proba gives "
            "the votes for each class; DirichletMultinomial has labels to draw."
        )


def draw_new_y(
    draws: Draws,
    trees: np.ndarray,
    find_leaves: Callable[[int], np.ndarray],
    rng: np.random.Generator,
    rows: np.ndarray | None = None,
    regressors: tuple[Any, ...] = (),
    leaf: Leaf | None = None,
) -> np.ndarray:
    """Draw a new y (m, n) or (m, n, d) for each of n rows from each of the distinct trees numbered ``trees`` (m,)."""
    # labels are drawn as numbers of classes. ``find_leaves(t)`` returns the nodes (n,), numbered over all trees,
    # that the rows reach in tree t. If the rows are training rows, ``rows`` (n,) are their numbers, and the new y
    # have their exposures. For new rows it is None. ``regressors`` has the columns that leaves use, if any.
    # ``leaf`` is the leaf model with the exposures of the rows, by default that of the model.
    model, arrays, leaf = draws.model, draws.coded_trees, draws.model.leaf if leaf is None else leaf
    out = []
    for t in trees.tolist():
        nodes = slice(int(arrays.offset[t]), int(arrays.offset[t + 1]))
        is_leaf = arrays.feature[nodes] == LEAF
        reached = (np.cumsum(is_leaf) - 1)[find_leaves(t) - nodes.start]
        out.append(leaf.draw(rng, draws.place_stats[nodes][is_leaf], reached, model.target, rows, *regressors))
    return np.array(out, dtype=np.float64 if model.classes_ is None else np.int64)


def credible_interval_of_nodes(draws: Draws, nodes: np.ndarray, weight: np.ndarray, coverage: float) -> np.ndarray:
    """Return the ends (l, d, 2) of credible intervals of the expectation in l leaves that m trees have in common."""
    (n_trees, n_leaves), fractions, model = nodes.shape, central_fractions(coverage), draws.model
    if not model.leaf.has_closed_expectation:
        # each tree is taken in proportion to its weight, and the parameters of its leaf are drawn each time
        rng, numbers = read_generator(0), np.arange(N_INTERVAL_DRAWS)
        places = np.searchsorted(np.cumsum(weight), weight.sum() * (numbers + 0.5) / N_INTERVAL_DRAWS)
        stats = (draws.place_stats[leaf] for leaf in nodes[np.minimum(places, n_trees - 1)].T)
        expectations = [model.leaf.draw_expectation(rng, of_leaf, numbers, model.target) for of_leaf in stats]
        return np.moveaxis(np.quantile(np.array(expectations), fractions, axis=1), 0, -1)
    of_nodes = model.leaf.expectation(draws.place_stats, draws.place_tree, model.target)
    mix = Mixture(nodes.T.ravel(), np.tile(weight, n_leaves), np.arange(n_leaves + 1) * n_trees)
    ends = [[mix.quantile(one.take(mix.place), q) for q in fractions] for one in of_nodes]
    return np.array(ends).transpose(2, 0, 1)


def refuse_no_expectation(model: TreeModel) -> None:
    """Raise a ValueError if the leaf model cannot draw E(y) given the rows of a leaf."""
    refuse_loss(model)
    if not model.leaf.has_expectation:
        raise ValueError(f"{model.leaf!r} has no expectation, which intervals and draws of E(y) need; give it one.")


class DrawnLeafValues(NamedTuple):
    """One tree for each draw, with leaf values drawn from their posterior."""

    trees: TreeArrays
    """The trees of the draws, one after the other."""
    value: np.ndarray
    """(n_nodes, d) E(y), or class probabilities, given the drawn leaf parameters; not to be used for internal nodes."""


def draw_leaf_values(draws: Draws, numbers: np.ndarray, rng: np.random.Generator) -> DrawnLeafValues:
    """Draw E(y) in each leaf of the distinct trees with these ``numbers`` (draws,), given the rows in the leaf."""
    model, node, sizes = draws.model, draws.coded_trees.nodes_of(numbers), np.diff(draws.coded_trees.offset)[numbers]
    offset = np.concatenate([[0], np.cumsum(sizes)])
    trees = TreeArrays(offset, *(column[node] for column in draws.distinct_trees[1:]))
    if not model.leaf.has_expectation:
        return DrawnLeafValues(trees, draws.place_values[node])
    leaves, is_leaf = np.flatnonzero(trees.feature == LEAF), np.concatenate([[0], np.cumsum(trees.feature == LEAF)])
    ends, stats = is_leaf[offset], draws.place_stats[node[leaves]]
    values_by_tree = [
        model.leaf.draw_expectation(rng, stats[start:end], np.arange(end - start), model.target)
        for start, end in pairwise(ends.tolist())
    ]
    value = np.zeros((len(node), values_by_tree[0].shape[1] if values_by_tree else 1))
    value[leaves] = np.concatenate(values_by_tree) if values_by_tree else 0.0
    return DrawnLeafValues(trees, value)


def draw_predictions(
    draws: Draws, numbers: np.ndarray, X: np.ndarray, rng: np.random.Generator, columns: Any = slice(None)
) -> np.ndarray:
    """Draw the predictions (draws, n, d) at rows of numbers X of the distinct trees with these ``numbers`` (draws,)."""
    model = draws.model
    regressors = model.regressors(X)
    if regressors is None:
        leaf_draws = draw_leaf_values(draws, numbers, rng)
        return leaf_values(leaf_draws.trees, np.ascontiguousarray(leaf_draws.value[:, columns]), X)
    out = []
    for t in numbers.tolist():
        nodes = slice(int(draws.coded_trees.offset[t]), int(draws.coded_trees.offset[t + 1]))
        is_leaf, reached = draws.coded_trees.feature[nodes] == LEAF, draws.distinct_tree(t).routes().leaves(X)
        stats, leaf = draws.place_stats[nodes], (np.cumsum(is_leaf) - 1)[reached]
        if model.leaf.has_expectation:
            out.append(model.leaf.draw_expectation(rng, stats[is_leaf], leaf, model.target, regressors))
        else:
            out.append(model.leaf.value(stats[reached], model.target, regressors))
    return np.array([predictions[:, columns] for predictions in out])


def trees_of_spaced_draws(sampled: Draws, draws: int) -> np.ndarray:
    """Return the numbers (draws,) of the distinct trees of ``draws`` evenly spaced draws, chain after chain."""
    # each draw is taken once if the posterior has exactly ``draws`` draws; some are repeated if it has fewer.
    trees = sampled.tree_of_draw.ravel()
    return trees[np.arange(draws) * len(trees) // draws]


def exposures_of(model: TreeModel, X: Any, numbers: np.ndarray, exposure: Any) -> np.ndarray | None:
    """Return the exposures (n,) of the rows ``X``, whose numbers are ``numbers`` (n, p); None if none are given."""
    if exposure is None:
        return None
    refuse_other_rows(X=X, exposure=exposure)
    return read_exposures(model.leaf, exposure, len(numbers))


def values_at_exposure(model: TreeModel, values: np.ndarray, exposures: np.ndarray | None) -> np.ndarray:
    """Return ``values`` (n, ...) of E(y), or of times, at ``exposures`` (n,), given those at exposure 1."""
    if exposures is None:
        return values
    leaf = cast(ExposedLeaf, model.leaf)
    with np.errstate(over="ignore"):
        factor = leaf.at_exposure(np.ones((len(exposures), 1)), exposures)[:, 0]
        is_lost = ~np.isfinite(factor) | (factor == 0.0)
        if is_lost.any():
            wrong = exposures[np.argmax(is_lost)]
            raise ValueError(f"exposure={wrong} multiplies the times beyond all floats; give one nearer to 1.")
        return values * factor.reshape(-1, *[1] * (values.ndim - 1))
