"""Contributions of features to predictions: Shapley values of trees, exactly, and interactions of pairs of features.

A tree with the features S alone is evaluated as in path-dependent TreeSHAP (Lundberg et al., *From local explanations
to global understanding with explainable AI for trees*, Nature Machine Intelligence 2 (2020)): a split on a feature of S
sends the row to one side, a split on another feature sends it to both sides, in the proportions of the training rows
in the two children. A leaf with value v whose path splits on the features k = 1..d then contributes

    v * prod_{k in S} o_k * prod_{k not in S} z_k,

with o_k = 1 if the row meets all conditions on k and 0 otherwise, and z_k the product of the fractions of training
rows that follow the splits on k. By the multilinear extension of Owen (*Multilinear extensions of games*, Management
Science 18 (1972)) the Shapley value of feature j is

    sum over leaves of  v (o_j - z_j) * integral_0^1 prod_{k != j} (t o_k + (1 - t) z_k) dt,

a polynomial of degree d - 1 in t, which ceil(d / 2) Gauss-Legendre nodes integrate without error. All factors are in
[0, 1], so nothing is divided and nothing cancels.

The strength of an interaction is that of Friedman and Popescu (*Predictive learning via rule ensembles*, Annals of
Applied Statistics 2 (2008), section 8.1). With the partial dependences F_j, F_k and F_jk of a tree, each with mean zero
over the rows,

    I_jk = F_jk - F_j - F_k,        strength = sd(I_jk),        H = sd(I_jk) / sd(F_jk),

in the units of y or of a probability. A tree that never splits on one of the two below the other has I_jk = 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...core.checks import Seed, central_fractions, check_count, check_number, read_generator
from ...core.compile.jit import jit
from ...model.words import names_of_outputs
from ...tree.arrays import LEAF, TreeArrays, iterate_nodes, leaf_values, node_depths, number_goes_left
from ..draws import has_values_by_leaf, refuse_by_row
from ..trees.cells import training_points
from ..trees.support import check_drawn
from .predictive import draw_leaf_values, trees_of_spaced_draws

if TYPE_CHECKING:
    import pandas as pd

    from ..draws import DrawnTrees
    from ..protocol import AnyPosterior

MAX_VALUES_IN_MEMORY = 1 << 24
"""Largest number of Shapley values in memory at a time."""
N_DEPENDENCE_POINTS = 40
"""Number of training rows at which partial dependences are evaluated, and over which they average."""
N_STRENGTH_DRAWS = 200
"""Number of draws of trees and leaf parameters for which strengths are computed."""


class Attributions(NamedTuple):
    """Shapley values of the predictions for some rows, and their intervals over trees and leaf parameters.

    The d outputs are the class probabilities, in the order of ``model.classes_``, or the means of a regression.
    ``base`` and the values of all features sum to the prediction: ``mean.sum(axis=1) + base`` is that of the draws.
    """

    mean: np.ndarray
    """(n, p, d) mean over the draws of the contribution of each feature to the prediction for each row."""
    lower: np.ndarray
    """(n, p, d) lower end of the credible interval of the contribution, with probability ``coverage``, equal tails."""
    upper: np.ndarray
    """(n, p, d) upper end of the credible interval of the contribution."""
    base: np.ndarray
    """(d,) prediction without any feature: the mean prediction over training rows, averaged over the draws."""
    base_lower: np.ndarray
    """(d,) lower end of the credible interval of the base."""
    base_upper: np.ndarray
    """(d,) upper end of the credible interval of the base."""
    importance: np.ndarray
    """(p, d) importance of each feature: posterior mean of the mean over the rows of its absolute contribution."""
    importance_lower: np.ndarray
    """(p, d) lower end of the credible interval of the importance."""
    importance_upper: np.ndarray
    """(p, d) upper end of the credible interval of the importance."""
    coverage: float
    """Coverage of the intervals, in (0, 1)."""
    features: list[str]
    """(p,) names of the features."""
    outputs: list
    """(d,) names of the predicted numbers: the classes, or the outputs of a regression."""

    def table(self) -> pd.DataFrame:
        """Return the importance of the features, one line for each feature and output, the most important one first.

        Returns
        -------
        DataFrame
            Columns feature, output (the class, or the name of the output), importance, lower, upper.
        """
        import pandas as pd

        columns = {"importance": self.importance, "lower": self.importance_lower, "upper": self.importance_upper}
        order = np.argsort(-self.importance.mean(axis=1), kind="stable")
        lines = {name: values[order].ravel() for name, values in columns.items()}
        names = [(self.features[k], output) for k in order.tolist() for output in self.outputs]
        return pd.DataFrame(names, columns=["feature", "output"]).assign(**lines)

    def __repr__(self) -> str:
        n, p, d = self.mean.shape
        return f"Attributions({n} rows, {p} features, {d} outputs, intervals of {self.coverage:g})"


def attributions_of(posterior: AnyPosterior, X: np.ndarray, coverage: float, draws: int, rng: Seed) -> Attributions:
    """Return Shapley values for rows of numbers ``X`` (n, p), with intervals; see `Posterior.shap`."""
    quantile_levels, n, coverage = central_fractions(coverage), len(X), float(coverage)
    post, tree_draws = draw_trees_with_values(posterior, draws, rng)
    distinct = TreesWithValues(post.distinct_trees, post.node_values, fractions_of_rows(post))
    (p, d), n_trees = (post.model.n_features, tree_draws.value.shape[1]), len(tree_draws.trees.offset) - 1
    mean, lower, upper = np.zeros((n, p, d)), np.zeros((n, p, d)), np.zeros((n, p, d))
    abs_sum = np.zeros((n_trees, p, d))
    step = max(MAX_VALUES_IN_MEMORY // max(max(n_trees, post.n_distinct_trees) * p * d, 1), 1)
    for rows in (slice(start, start + step) for start in range(0, n, step)):
        mean[rows] = np.tensordot(post.weight_of_tree, distinct.shapley_values(X[rows]), 1)
        values = tree_draws.shapley_values(X[rows])
        abs_sum += np.abs(values).sum(axis=1)
        lower[rows], upper[rows] = np.quantile(values, quantile_levels, axis=0)
    abs_sum /= max(n, 1)
    base_lower, base_upper = np.quantile(tree_draws.means(), quantile_levels, axis=0)
    importance_lower, importance_upper = np.quantile(abs_sum, quantile_levels, axis=0)
    base, importance = post.weight_of_tree @ distinct.means(), abs_sum.mean(axis=0)
    names = list(post.model.columns.names), names_of_outputs(post.model, d)
    intervals = base, base_lower, base_upper, importance, importance_lower, importance_upper
    return Attributions(mean, lower, upper, *intervals, coverage, *names)


def importance_of(posterior: AnyPosterior, X: np.ndarray, draws: int, rng: Seed) -> np.ndarray:
    """Return the mean absolute Shapley value (p, d) of each feature for the d outputs, its importance.

    The mean is over rows of numbers ``X`` (n, p) and over ``draws`` draws of a tree and its leaf values.
    """
    return np.abs(draw_trees_with_values(posterior, draws, rng)[1].shapley_values(X)).mean(axis=(0, 1))


class TreesWithValues(NamedTuple):
    """Several trees with the predictions of their leaves."""

    trees: TreeArrays
    """The trees, one after the other."""
    value: np.ndarray
    """(n_nodes, d) prediction of each node; only those of leaves are used."""
    fraction: np.ndarray
    """(n_nodes,) fraction of the parent's training rows that are in each node, from `fractions_of_rows`."""

    def shapley_values(self, X: np.ndarray) -> np.ndarray:
        """Return the Shapley values (n_trees, n, p, d) of each tree's predictions for rows of numbers ``X`` (n, p)."""
        out = np.zeros((len(self.trees.offset) - 1, *X.shape, self.value.shape[1]))
        nodes, weights = gauss_legendre_rules((int(node_depths(self.trees).max(initial=0)) + 1) // 2)
        X = np.ascontiguousarray(X)
        add_shapley_values_into(out, self.trees, self.value, self.fraction, X, nodes, weights)
        return out

    def means(self) -> np.ndarray:
        """Return the mean (n_trees, d) of the leaf values of each tree over the training rows."""
        reach = np.ones(len(self.fraction))
        _multiply_down_into(reach, self.trees, self.fraction)
        weighted = np.where(self.trees.feature == LEAF, reach, 0.0)[:, None] * self.value
        return np.add.reduceat(weighted, self.trees.offset[:-1])


def draw_trees_with_values(posterior: AnyPosterior, draws: int, rng: Seed) -> tuple[DrawnTrees, TreesWithValues]:
    """Return a posterior as draws, and the trees of ``draws`` evenly spaced ones of them with random leaf values.

    A leaf value is drawn from its posterior given the training rows in the leaf. A posterior that does not consist of
    draws is replaced by ``draws`` draws from it.
    """
    rng = read_generator(rng)
    post = posterior._draws_that_predict(check_count("draws", draws), rng)
    check_drawn(post)
    refuse_by_row(post.model)
    values = draw_leaf_values(post, trees_of_spaced_draws(post, draws), rng)
    return post, TreesWithValues(values.trees, values.value, fractions_of_rows(post)[values.node])


def shapley_values(post: DrawnTrees, X: np.ndarray) -> np.ndarray:
    """Return Shapley values (n_trees, n, p, d) of each distinct tree's predictions for rows of numbers ``X`` (n, p)."""
    return TreesWithValues(post.distinct_trees, post.node_values, fractions_of_rows(post)).shapley_values(X)


def gauss_legendre_rules(max_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes and weights, (max_nodes + 1, max_nodes) each, of Gauss-Legendre quadrature rules on [0, 1].

    Row m has the rule of m nodes, then zeros.
    """
    nodes, weights = np.zeros((max_nodes + 1, max(max_nodes, 1))), np.zeros((max_nodes + 1, max(max_nodes, 1)))
    for m in range(1, max_nodes + 1):
        x, w = np.polynomial.legendre.leggauss(m)
        nodes[m, :m], weights[m, :m] = (x + 1.0) / 2.0, w / 2.0
    return nodes, weights


def fractions_of_rows(post: DrawnTrees) -> np.ndarray:
    """Return for each node the fraction (n_nodes,) of its parent's training rows that it contains; 1 for roots.

    Rows count with their weights, as in ``Tree.rows``. The two children of an empty node have one half each.
    """
    trees, rows = post.distinct_trees, post.node_rows
    out = np.ones(len(rows))
    root = np.repeat(trees.offset[:-1], np.diff(trees.offset))
    inner = np.flatnonzero(trees.feature != LEAF)
    sides = root[inner] + trees.left[inner], root[inner] + trees.right[inner]
    total = rows[sides[0]] + rows[sides[1]]
    for side in sides:
        out[side] = np.where(total > 0.0, rows[side] / np.where(total > 0.0, total, 1.0), 0.5)
    return out


@jit
def _multiply_down_into(product: np.ndarray, trees: TreeArrays, fraction: np.ndarray) -> None:
    """Write into ``product`` (n_nodes,) the product of ``fraction`` (n_nodes,) over each node and its ancestors.

    The product is without the fraction of the root. On entry ``product`` must be 1 at the roots.
    """
    for t in range(len(trees.offset) - 1):
        start = trees.offset[t]
        for i in range(start, trees.offset[t + 1]):
            if trees.feature[i] != LEAF:
                for child in (start + trees.left[i], start + trees.right[i]):
                    product[child] = product[i] * fraction[child]


@jit
def add_shapley_values_into(
    out: np.ndarray,
    trees: TreeArrays,
    value: np.ndarray,
    fraction: np.ndarray,
    X: np.ndarray,
    nodes: np.ndarray,
    weights: np.ndarray,
) -> None:
    """Add to ``out`` (n_trees, n, p, d) the Shapley values of each tree's predictions for rows of numbers ``X`` (n, p).

    ``value`` (n_nodes, d) has the predictions of nodes, ``fraction`` (n_nodes,) the fraction of the parent's training
    rows that are in each node, and ``nodes`` and ``weights`` the rules of `gauss_legendre_rules`. Given some features
    only, a tree predicts the mean over both sides of the other splits, weighted by ``fraction``.
    """
    max_depth = 2 * (len(nodes) - 1) + 1
    # the path to a node, by depth: number of features, the features, o and z of each, and the side of the row
    count, goes_left = np.zeros(max_depth + 1, dtype=np.int64), np.zeros(max_depth + 1, dtype=np.bool_)
    feature, present = (
        np.zeros((max_depth + 1, max_depth + 1), dtype=np.int64),
        np.zeros((max_depth + 1, max_depth + 1)),
    )
    absent = np.zeros((max_depth + 1, max_depth + 1))
    prefix, integral = np.empty(max_depth + 2), np.empty(max_depth + 1)
    depth, parent = np.zeros(len(trees.feature), dtype=np.int64), np.zeros(len(trees.feature), dtype=np.int64)
    for t in range(len(trees.offset) - 1):
        start = trees.offset[t]
        for node in range(start, trees.offset[t + 1]):
            if trees.feature[node] != LEAF:
                for child in (start + trees.left[node], start + trees.right[node]):
                    depth[child], parent[child] = depth[node] + 1, node
        for i in range(len(X)):
            # nodes are in preorder, so the path to the parent is still stored
            for node in range(start, trees.offset[t + 1]):
                level = depth[node]
                if level > 0:
                    above = parent[node]
                    is_met = goes_left[level - 1] == (node == start + trees.left[above])
                    k = trees.feature[above]
                    _extend_path_into(count, feature, present, absent, level, k, is_met, fraction[node])
                if trees.feature[node] != LEAF:
                    x, default = X[i, trees.feature[node]], trees.default_left[node]
                    goes_left[level] = number_goes_left(x, trees.threshold[node], trees.categories[node], default)
                    continue
                n = count[level]
                _integrate_into(integral, prefix, present[level], absent[level], n, nodes, weights)
                for k in range(n):
                    change = (present[level, k] - absent[level, k]) * integral[k]
                    for j in range(value.shape[1]):
                        out[t, i, feature[level, k], j] += change * value[node, j]


@jit
def _extend_path_into(
    count: np.ndarray,
    feature: np.ndarray,
    present: np.ndarray,
    absent: np.ndarray,
    level: int,
    k: int,
    is_met: bool,
    fraction: float,
) -> None:
    """Write the path to a node of depth ``level`` into row ``level`` of four arrays, for `add_shapley_values_into`.

    Row ``level - 1`` has the path to its parent, whose split on feature ``k`` is the new condition. A path has
    ``count`` different features, listed in ``feature``; ``present`` is o, 1 if the data row meets all conditions on the
    feature, else 0, and ``absent`` is z, the product of the fractions of training rows. ``is_met`` is True if the data
    row meets the new condition; ``fraction`` is that of the parent's training rows that do. A new condition on a
    feature already on the path changes the o and z of this feature.
    """
    n, place = count[level - 1], -1
    for j in range(n):
        feature[level, j], present[level, j] = feature[level - 1, j], present[level - 1, j]
        absent[level, j] = absent[level - 1, j]
        if feature[level, j] == k:
            place = j
    if place < 0:
        feature[level, n], present[level, n], absent[level, n] = k, 1.0, 1.0
        place, n = n, n + 1
    count[level] = n
    if not is_met:
        present[level, place] = 0.0
    absent[level, place] *= fraction


@jit
def _integrate_into(
    integral: np.ndarray,
    prefix: np.ndarray,
    present: np.ndarray,
    absent: np.ndarray,
    n: int,
    nodes: np.ndarray,
    weights: np.ndarray,
) -> None:
    """Write the integral over t in [0, 1] of prod_{k != j} (t o[k] + (1 - t) z[k]) into ``integral[j]`` for each j.

    j and k are from 0 to ``n - 1``, the features on a path to a leaf; o is ``present`` and z is ``absent``. ``prefix``
    is scratch space for n + 1 products; ``nodes`` and ``weights`` are the rules of `gauss_legendre_rules`.
    """
    m = (n + 1) // 2
    for j in range(n):
        integral[j] = 0.0
    for q in range(m):
        t = nodes[m, q]
        prefix[0] = 1.0
        for j in range(n):
            prefix[j + 1] = prefix[j] * (t * present[j] + (1.0 - t) * absent[j])
        suffix = weights[m, q]
        for j in range(n - 1, -1, -1):
            integral[j] += prefix[j] * suffix
            suffix *= t * present[j] + (1.0 - t) * absent[j]


def interactions_of(
    posterior: AnyPosterior, min_probability: float, max_pairs: int, coverage: float, draws: int, rng: Seed
) -> pd.DataFrame:
    """Return the table of pairs of features that interact with probability >= ``min_probability``, by probability.

    At most ``max_pairs`` are listed. See `Posterior.interactions`.
    """
    import pandas as pd

    min_probability = check_number("min_probability", min_probability, "a number 0..1", 0.0, 1.0)
    max_pairs = check_count("most", max_pairs)
    quantile_levels = central_fractions(coverage)
    rng = read_generator(rng)
    post = posterior._draws_that_predict(draws, rng)
    probability = pair_probabilities(post)
    first, second = np.triu_indices(len(probability), 1)
    order = np.argsort(-probability[first, second], kind="stable")
    of_pair = probability[first, second][order]
    order = order[(of_pair > 0.0) & (of_pair >= min_probability)][:max_pairs]
    pairs = np.column_stack([first, second])[order]
    names = np.array(post.model.columns.names, dtype=object)
    table = {
        "feature": names[pairs[:, 0]],
        "other": names[pairs[:, 1]],
        "probability": probability[pairs[:, 0], pairs[:, 1]],
    }
    if has_values_by_leaf(post.model):
        strength, relative = _interaction_strengths(post, pairs, rng)
        ends = np.quantile(strength, quantile_levels, axis=1)
        table |= {"strength": strength.mean(axis=1), "lower": ends[0], "upper": ends[1], "H": relative.mean(axis=1)}
    return pd.DataFrame(table)


def pair_probabilities(post: DrawnTrees) -> np.ndarray:
    """Return the probability (p, p) that a tree splits on one of two features in a subtree below a split on the other.

    0 on the diagonal.
    """
    feature, out = post.distinct_trees.feature.tolist(), np.zeros((post.model.n_features, post.model.n_features))

    def with_ancestors(node: int, ancestors: frozenset[int], left: int, right: int) -> list[tuple[int, frozenset[int]]]:
        """Return both children, each with the set of features that its ancestors split on."""
        extended = ancestors | {feature[node]}
        return [(left, extended), (right, extended)]

    for t, weight in enumerate(post.weight_of_tree.tolist()):
        visited = iterate_nodes(post.distinct_trees, t, frozenset(), with_ancestors)
        pairs = {frozenset((j, k)) for _, k, ancestors in visited if k != LEAF for j in ancestors if j != k}
        for j, k in pairs:
            out[j, k] += weight
    return np.minimum(out + out.T, 1.0)


def _interaction_strengths(
    post: DrawnTrees, pairs: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return strength and H, (m, 200) each, of the interaction of the features in each of ``pairs`` (m, 2).

    The second axis are draws of a tree and its leaf values. The strength is sd(I_jk), in units of the prediction, and H
    is sd(I_jk) / sd(F_jk), or 0 if that is 0 / 0. F_jk is the partial dependence of the prediction on both features,
    centred over up to 40 training rows, and I_jk = F_jk - F_j - F_k.
    """
    tree_draws = draw_leaf_values(post, trees_of_spaced_draws(post, N_STRENGTH_DRAWS), rng)
    value, points = tree_draws.value, training_points(post.model, N_DEPENDENCE_POINTS)[1]

    def dependence(features: list[int]) -> np.ndarray:
        """Return the partial dependence (draws, points, d) on some features, centred to mean 0 over the points."""
        X = np.repeat(points[None], len(points), axis=0)
        X[:, :, features] = points[:, None, features]
        predictions = leaf_values(tree_draws.trees, value, X.reshape(-1, X.shape[2]))
        dependences = predictions.reshape(N_STRENGTH_DRAWS, len(points), len(points), -1).mean(axis=2)
        return dependences - dependences.mean(axis=1, keepdims=True)

    single = {k: dependence([k]) for k in np.unique(pairs).tolist()}
    strength, relative = np.empty((len(pairs), N_STRENGTH_DRAWS)), np.empty((len(pairs), N_STRENGTH_DRAWS))
    for i, (j, k) in enumerate(pairs.tolist()):
        pair = dependence([j, k])
        interaction, joint_effect = (_standard_deviations(part) for part in (pair - single[j] - single[k], pair))
        # sums of the same leaf values in another order differ in the last digits
        strength[i] = np.where(interaction > 1e-12 * np.maximum(joint_effect, np.abs(value).max()), interaction, 0.0)
        relative[i] = np.divide(strength[i], joint_effect, out=np.zeros(N_STRENGTH_DRAWS), where=joint_effect > 0.0)
    return strength, relative


def _standard_deviations(component: np.ndarray) -> np.ndarray:
    """Return the root mean square (draws,) of ``component`` (draws, points, d), centred functions of the points.

    It is the standard deviation over points if d is 1; squares are averaged over the d outputs too.
    """
    return np.sqrt((component**2).mean(axis=(1, 2)))
