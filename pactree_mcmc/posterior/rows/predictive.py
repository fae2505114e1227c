"""The distributions of a new y and of its expectation: mixtures, over trees, of distributions in leaves.

A row is in one leaf of each tree. The leaf has a predictive distribution of a new y. The posterior of its parameter has
a closed form, and so has that of E(y | x), or P(y | x), which `Leaf.expectation` returns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from ...core.checks import Seed, central_fractions, check_count, read_generator, read_numbers, refuse_other_rows
from ...model.leaf.counts import ExposedLeaf, PoissonGamma, read_exposures
from ...model.leaf.distributions import Mixture
from ...tree.arrays import LEAF, TreeArrays, leaf_values

if TYPE_CHECKING:
    from ...model import TreeModel
    from ...model.leaf.base import Leaf
    from ..draws import DrawnTrees
    from ..protocol import AnyPosterior

N_INTERVAL_DRAWS = 2000
"""Number of draws for the interval of a leaf model whose expectation has no posterior in closed form."""
MAX_LEAVES_PER_BLOCK = 1 << 19
"""Largest number of leaf distributions that are evaluated at a time."""
MAX_ROUNDING_PROBABILITY = 1e-11
"""Largest probability that counts as rounding error of a sum over thousands of cells."""


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
    factor = leaf.at_exposure(np.ones((len(exposures), 1)), exposures)
    return values * factor.reshape(-1, *[1] * (values.ndim - 1))


class MixtureOverTrees:
    """Mixture, over the trees of a posterior, of the distributions in the leaves that a row reaches.

    Parameters
    ----------
    post : AnyPosterior
        The posterior whose trees are mixed.
    distribution : Distributions, optional
        A distribution for each place, that is for each node or cell where a row can end. By default the predictive
        distributions of a new y, as `Leaf.predictive` returns them.
    exposures : array of shape (n,), optional
        Exposures of the rows of which counts are predicted.

    Raises
    ------
    ValueError
        If the distributions are those of a new y and the model is a classification, or the posterior does not have
        the distributions of places.
    """

    def __init__(self, post: AnyPosterior, distribution: Any = None, exposures: np.ndarray | None = None) -> None:
        if distribution is None:
            if post.model.classes_ is not None:
                raise ValueError(
                    f"{type(post.model.leaf).__name__} is a leaf of classes, so a new y has no quantiles, intervals or "
                    "standard deviation: predict_proba gives class probabilities, credible_interval their intervals, "
                    "and sample_predictive draws labels."
                )
            tree = post._tree_of_place
            distribution = post.model.leaf.predictive(post._stats_by_place, tree, post.model.target)
        self._post, self._distribution = post, distribution
        self._uses_regressors = post.model.leaf.x_columns is not None
        self._exposures = exposures
        # equal distributions of several places are evaluated once: _first has a place of each distinct distribution,
        # and _number the number of the distinct distribution of each place
        table = np.ascontiguousarray(np.column_stack(tuple(self._distribution)))
        by_bytes = table.view(np.dtype((np.void, table.shape[1] * table.itemsize))).reshape(-1)
        self._first, number = np.unique(by_bytes, return_index=True, return_inverse=True)[1:]
        self._number = number.reshape(-1)

    def mean_and_variance(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return mean (n,) and variance (n,) of a new y at rows X (n, p), in the form of `Columns.numbers`.

        The variance is infinite if a leaf that the row reaches with positive probability has an infinite one.
        """
        center = self._post.model.target.center
        if self._uses_regressors:
            return self._mean_and_variance_by_row(X, center)
        mean, variance = self._distribution.mean_and_variance()
        is_infinite = np.isinf(variance)
        square = np.where(is_infinite, 0.0, variance) + (mean - center) ** 2
        out = self._post._averages(X, np.column_stack([mean - center, square, is_infinite]))
        total_variance = np.maximum(out[:, 1] - out[:, 0] ** 2, 0.0)
        return center + out[:, 0], np.where(out[:, 2] > MAX_ROUNDING_PROBABILITY, np.inf, total_variance)

    def quantiles(self, X: np.ndarray, q: Any) -> np.ndarray:
        """Return quantiles (n, m) of the mixture at rows of X for probabilities q (m,) in (0, 1), or (n,) for one q.

        X (n, p) is in the form of `Columns.numbers`, here and below.
        """
        fractions = read_numbers("q", q)
        if fractions.ndim > 1 or not np.all((fractions > 0.0) & (fractions < 1.0)):
            raise ValueError(
                f"q={fractions.tolist()} is out of range; give probabilities 0 < q < 1, a number or a row."
            )
        out = np.empty((len(X), fractions.size))
        for rows, mix in self._post._mixtures(X):
            mixture_of_row: Any = slice(None)
            if self._uses_regressors:
                distribution = self._distributions_at(X[rows], mix)
            elif self._exposures is not None:
                at_one = self._distribution.take(mix.place)
                distribution = at_one.at_exposure(mix.by_distribution(self._exposures[rows]))
            else:
                mix, mixture_of_row = _distinct_mixtures(self._merge_equal(mix))
                distribution = self._distribution.take(self._first[mix.place])
            for j, fraction in enumerate(fractions.ravel().tolist()):
                out[rows, j] = mix.quantile(distribution, fraction)[mixture_of_row]
        return out[:, 0] if fractions.ndim == 0 else out

    def interval(self, X: np.ndarray, coverage: Any) -> np.ndarray:
        """Return the ends (n, 2) of the interval with equal tails and probability ``coverage`` at rows of numbers X."""
        return self.quantiles(X, central_fractions(coverage))

    def cdf(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the probability (n,) that a new y at each row of X is at most ``y`` (n,)."""
        out = np.empty(len(y))
        for rows, mix in self._post._mixtures(X):
            distribution = (
                self._distributions_at(X[rows], mix) if self._uses_regressors else self._distribution.take(mix.place)
            )
            out[rows] = mix.mean(distribution.below(mix.by_distribution(y[rows])))
        return out

    def _distributions_at(self, X: np.ndarray, mix: Mixture) -> Any:
        """Return the distributions of a new y in the leaves of ``mix``, row after row, given each row's regressors.

        ``mix`` has the leaves that each row of X (n, p) reaches in the trees. Only for leaf models with regressors,
        columns of X on which the prediction of a leaf depends.
        """
        regressors, distributions = self._post.model.regressors(X), cast(Any, self._distribution.take(mix.place))
        assert regressors is not None
        return distributions.at(np.repeat(regressors, np.diff(mix.first), axis=0))

    def _mean_and_variance_by_row(self, X: np.ndarray, center: float) -> tuple[np.ndarray, np.ndarray]:
        """Return mean (n,) and variance (n,) of a new y for leaves that use columns of the row.

        ``X`` (n, p) are rows as numbers. Values of y are centred at ``center`` to lose fewer digits.
        """
        mean, variance = np.empty(len(X)), np.empty(len(X))
        for rows, mix in self._post._mixtures(X):
            leaf_mean, leaf_variance = self._distributions_at(X[rows], mix).mean_and_variance()
            mean[rows] = mix.mean(leaf_mean - center)
            variance[rows] = mix.mean(leaf_variance + (leaf_mean - center) ** 2) - mean[rows] ** 2
        return center + mean, np.maximum(variance, 0.0)

    def _merge_equal(self, mix: Mixture) -> Mixture:
        """Return ``mix`` with equal distributions of a row merged, and their weights added and normalised.

        The ``place`` of the result are numbers of distinct distributions, ascending in each row.
        """
        row = np.repeat(np.arange(len(mix.first) - 1), np.diff(mix.first))
        key, position = np.unique(row * len(self._first) + self._number[mix.place], return_inverse=True)
        weight, row = np.bincount(position, weights=mix.weight), key // len(self._first)
        total = np.bincount(row, weights=weight)
        first = np.searchsorted(row, np.arange(len(mix.first)))
        return Mixture(key % len(self._first), weight / total[row], first)


def _distinct_mixtures(mix: Mixture) -> tuple[Mixture, np.ndarray]:
    """Return the distinct mixtures among those of ``mix``, one a row, and the number (n,) of that of each row.

    Rows that reach the same leaves have the same mixture, whose quantiles are then computed once.
    """
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


def mean_and_square_by_row(post: AnyPosterior, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the posterior mean, over trees, of predictions at rows of numbers X, and of their squares, (n, d) each.

    For leaves that use columns of the row.
    """
    leaf, target, regressors = post.model.leaf, post.model.target, post.model.regressors(X)
    assert regressors is not None
    numbers, means, squares = [np.empty(0, dtype=np.int64)], [], []
    for rows, mix in post._mixtures(X):
        numbers.append(np.arange(len(X))[rows])
        row = np.repeat(numbers[-1], np.diff(mix.first))
        value = leaf.value(post._stats_by_place[mix.place], target, regressors[row])
        means.append(np.column_stack([mix.mean(column) for column in value.T]))
        squares.append(np.column_stack([mix.mean(column) for column in value.T**2]))
    order = np.argsort(np.concatenate(numbers))
    return np.concatenate(means)[order], np.concatenate(squares)[order]


def std_over_trees(post: AnyPosterior, X: np.ndarray, find_values: Callable[[], np.ndarray]) -> np.ndarray:
    """Return the standard deviation over trees of predictions at rows of numbers X: (n, K) for classes, else (n,).

    sd^2 = E[v^2] - E[v]^2 with means over trees of the value v of the leaf that the row reaches. ``find_values()``
    returns the predictions (m, d) of all places (nodes or cells); it is not called if leaves use columns of the row.
    """
    if post.model.leaf.x_columns is not None:
        mean, square = mean_and_square_by_row(post, X)
    else:
        by_place = find_values()
        by_place = by_place - by_place[0]
        mean, square = np.split(post._averages(X, np.hstack([by_place, by_place**2])), 2, axis=1)
    std = np.sqrt(np.maximum(square - mean**2, 0.0))
    return std[:, 0] if post.model.classes_ is None else std


def refuse_loss(model: TreeModel) -> None:
    """Raise a ValueError if the leaf is a loss, which has no distribution of y."""
    if not model.leaf.has_likelihood:
        raise ValueError(
            f"{type(model.leaf).__name__} is a loss, not a model of y, so no y can be drawn. predict_proba gives "
            "the votes for each class; DirichletMultinomial has labels to draw."
        )


def new_y_quantiles(post: AnyPosterior, X: Any, q: Any, exposure: Any) -> np.ndarray:
    """Return quantiles of a new y at the rows ``X`` of a table; see `Posterior.predict_quantiles`."""
    numbers = post.model.columns.numbers(X)
    exposures = exposures_of(post.model, X, numbers, exposure)
    if exposures is None or isinstance(post.model.leaf, PoissonGamma):
        return MixtureOverTrees(post, exposures=exposures).quantiles(numbers, q)
    return values_at_exposure(post.model, MixtureOverTrees(post).quantiles(numbers, q), exposures)


def sample_new_y(
    post: AnyPosterior, X: np.ndarray, draws: int, rng: Seed, exposures: np.ndarray | None = None
) -> np.ndarray:
    """Draw a new y (draws, n), or (draws, n, d), for each row of X from each of ``draws`` trees.

    X (n, p) are rows as numbers, ``exposures`` (n,) their exposures. Labels are those of the model. See
    `Posterior.sample_predictive`.
    """
    model, draws, rng = post.model, check_count("draws", draws), read_generator(rng)
    refuse_loss(model)
    post_draws, trees = post._drawn_trees(draws, rng)
    regressors = () if model.leaf.x_columns is None else (model.regressors(X),)

    def find_leaves(t: int) -> np.ndarray:
        """Return the leaf (n,) of distinct tree ``t`` that each row of X reaches, a number over all trees."""
        return post_draws.coded_trees.offset[t] + post_draws.distinct_tree(t).routes().leaves(X)

    if exposures is None:
        y = draw_new_y(post_draws, trees, find_leaves, rng, regressors=regressors)
    else:
        leaf = replace(cast(Any, model.leaf), exposure=exposures)
        y = draw_new_y(post_draws, trees, find_leaves, rng, np.arange(len(X)), leaf=leaf)
    return y if model.classes_ is None else model.classes_[y]


def draw_new_y(
    post: DrawnTrees,
    trees: np.ndarray,
    find_leaves: Callable[[int], np.ndarray],
    rng: np.random.Generator,
    rows: np.ndarray | None = None,
    regressors: tuple[Any, ...] = (),
    leaf: Leaf | None = None,
) -> np.ndarray:
    """Draw a new y (m, n) or (m, n, d) for each of n rows from each of the distinct trees numbered ``trees`` (m,).

    Labels are drawn as numbers of classes. ``find_leaves(t)`` returns the nodes (n,), numbered over all trees, that the
    rows reach in tree t. If the rows are training rows, ``rows`` (n,) are their numbers, and the new y have their
    exposures. For new rows it is None. ``regressors`` has the columns that leaves use, if any. ``leaf`` is the leaf
    model with the exposures of the rows, by default that of the model.
    """
    model, arrays, leaf = post.model, post.coded_trees, post.model.leaf if leaf is None else leaf
    out = []
    for t in trees.tolist():
        nodes = slice(int(arrays.offset[t]), int(arrays.offset[t + 1]))
        is_leaf = arrays.feature[nodes] == LEAF
        leaf_number = np.cumsum(is_leaf) - 1
        reached = leaf_number[find_leaves(t) - nodes.start]
        out.append(leaf.draw(rng, post.node_stats[nodes][is_leaf], reached, model.target, rows, *regressors))
    return np.array(out, dtype=np.float64 if model.classes_ is None else np.int64)


def credible_interval(post: AnyPosterior, X: np.ndarray, coverage: float) -> np.ndarray:
    """Return the ends of credible intervals of E(y | x) (n, 2), or of class probabilities (n, K, 2), at rows X.

    X are numbers. The posterior probability of an interval is ``coverage``, equal tails. Without a closed form the ends
    are quantiles of 2,000 draws. Implementation of `Posterior.credible_interval`.
    """
    fractions = central_fractions(coverage)
    refuse_no_expectation(post.model)
    leaf = post.model.leaf
    if not leaf.has_closed_expectation:
        draws = draw_expectations(post, X, N_INTERVAL_DRAWS, 0)
        return np.moveaxis(np.quantile(draws, fractions, axis=0), 0, -1)
    expectations = leaf.expectation(post._stats_by_place, post._tree_of_place, post.model.target)
    ends = np.stack([MixtureOverTrees(post, one).interval(X, coverage) for one in expectations], axis=1)
    return ends[:, 0] if post.model.classes_ is None else ends


def credible_interval_of_nodes(post: DrawnTrees, nodes: np.ndarray, weight: np.ndarray, coverage: float) -> np.ndarray:
    """Return the ends (l, d, 2) of credible intervals of the expectation in l leaves that m trees have in common.

    ``nodes`` (m, l) are these leaves in each tree, numbered over all trees, and ``weight`` (m,) are the weights of the
    trees in the mixture, whose quantiles leave out (1 - ``coverage``) / 2 at each end. An expectation without a
    posterior in closed form is drawn, as in `credible_interval`.
    """
    (n_trees, n_leaves), fractions, model = nodes.shape, central_fractions(coverage), post.model
    if not model.leaf.has_closed_expectation:
        # each tree is taken in proportion to its weight, and the parameters of its leaf are drawn each time
        places = np.searchsorted(
            np.cumsum(weight), weight.sum() * (np.arange(N_INTERVAL_DRAWS) + 0.5) / N_INTERVAL_DRAWS
        )
        leaves_of_draws, rng, draw_numbers = (
            nodes[np.minimum(places, n_trees - 1)],
            read_generator(0),
            np.arange(N_INTERVAL_DRAWS),
        )
        expectations = [
            model.leaf.draw_expectation(rng, post.node_stats[leaf], draw_numbers, model.target)
            for leaf in leaves_of_draws.T
        ]
        return np.moveaxis(np.quantile(np.array(expectations), fractions, axis=1), 0, -1)
    of_nodes = model.leaf.expectation(post.node_stats, post._tree_of_place, model.target)
    mix = Mixture(nodes.T.ravel(), np.tile(weight, n_leaves), np.arange(n_leaves + 1) * n_trees)
    ends = [[mix.quantile(one.take(mix.place), q) for q in fractions] for one in of_nodes]
    return np.array(ends).transpose(2, 0, 1)


def draw_expectations(post: AnyPosterior, X: np.ndarray, draws: int, rng: Seed) -> np.ndarray:
    """Draw E(y | x) (draws, n[, d]) at rows of numbers X, a tree for each draw; see `Posterior.draw_expectations`."""
    model, draws, rng = post.model, check_count("draws", draws), read_generator(rng)
    refuse_no_expectation(model)
    expectations = draw_predictions(*post._drawn_trees(draws, rng), X, rng)
    return expectations[:, :, 0] if model.classes_ is None else expectations


def refuse_no_expectation(model: TreeModel) -> None:
    """Raise a ValueError if the leaf model cannot draw E(y) given the rows of a leaf."""
    refuse_loss(model)
    if not model.leaf.has_expectation:
        raise ValueError(
            f"{model.leaf!r} has no expectation, which an interval or a draw of E(y) needs; give expectation=."
        )


class DrawnLeafValues(NamedTuple):
    """One tree for each draw, with leaf values drawn from their posterior."""

    trees: TreeArrays
    """The trees of the draws, one after the other."""
    value: np.ndarray
    """(n_nodes, d) E(y), or class probabilities, given the drawn leaf parameters; not to be used for internal nodes."""


def draw_leaf_values(post: DrawnTrees, numbers: np.ndarray, rng: np.random.Generator) -> DrawnLeafValues:
    """Draw E(y) in each leaf of the distinct trees with these ``numbers`` (draws,), given the rows in the leaf.

    If the leaf is a loss, or cannot draw E(y), the values are the fixed predictions of the leaves.
    """
    model, node, sizes = post.model, post.coded_trees.nodes_of(numbers), np.diff(post.coded_trees.offset)[numbers]
    offset = np.concatenate([[0], np.cumsum(sizes)])
    trees = TreeArrays(offset, *(column[node] for column in post.distinct_trees[1:]))
    if not model.leaf.has_expectation:
        return DrawnLeafValues(trees, post.node_values[node])
    leaves, is_leaf = np.flatnonzero(trees.feature == LEAF), np.concatenate([[0], np.cumsum(trees.feature == LEAF)])
    ends, stats = is_leaf[offset], post.node_stats[node[leaves]]
    values_by_tree = [
        model.leaf.draw_expectation(rng, stats[start:end], np.arange(end - start), model.target)
        for start, end in pairwise(ends.tolist())
    ]
    value = np.zeros((len(node), values_by_tree[0].shape[1] if values_by_tree else 1))
    value[leaves] = np.concatenate(values_by_tree) if values_by_tree else 0.0
    return DrawnLeafValues(trees, value)


def draw_predictions(
    post: DrawnTrees, numbers: np.ndarray, X: np.ndarray, rng: np.random.Generator, columns: Any = slice(None)
) -> np.ndarray:
    """Draw the predictions (draws, n, d) at rows of numbers X of the distinct trees with these ``numbers`` (draws,).

    The leaf parameters are drawn as in `draw_leaf_values`, once for all rows of a draw. ``columns`` is a slice or a
    list of some of the d columns, the classes.
    """
    model = post.model
    regressors = model.regressors(X)
    if regressors is None:
        leaf_draws = draw_leaf_values(post, numbers, rng)
        return leaf_values(leaf_draws.trees, np.ascontiguousarray(leaf_draws.value[:, columns]), X)
    out = []
    for t in numbers.tolist():
        nodes = slice(int(post.coded_trees.offset[t]), int(post.coded_trees.offset[t + 1]))
        is_leaf, reached = post.coded_trees.feature[nodes] == LEAF, post.distinct_tree(t).routes().leaves(X)
        stats, leaf = post.node_stats[nodes], (np.cumsum(is_leaf) - 1)[reached]
        if model.leaf.has_expectation:
            out.append(model.leaf.draw_expectation(rng, stats[is_leaf], leaf, model.target, regressors))
        else:
            out.append(model.leaf.value(stats[reached], model.target, regressors))
    return np.array([predictions[:, columns] for predictions in out])


def trees_of_spaced_draws(post: DrawnTrees, draws: int) -> np.ndarray:
    """Return the numbers (draws,) of the distinct trees of ``draws`` evenly spaced draws, chain after chain.

    Each draw is taken once if the posterior has exactly ``draws`` draws; some are repeated if it has fewer.
    """
    trees = post.tree_of_draw.ravel()
    return trees[np.arange(draws) * len(trees) // draws]
