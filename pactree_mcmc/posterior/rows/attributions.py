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
from ...tree.arrays import LEAF, TreeArrays, leaf_values, node_depths, number_goes_left, walk
from ..draws import has_values_by_leaf, refuse_by_row
from ..trees.cells import training_points
from ..trees.support import check_drawn
from .predictive import draw_values, spaced_draws

if TYPE_CHECKING:
    import pandas as pd

    from ..draws import DrawnTrees
    from ..protocol import AnyPosterior

AT_ONCE = 1 << 24
"""Largest number of Shapley values in memory at a time."""
N_POINTS = 40
"""Number of training rows at which partial dependences are evaluated, and over which they average."""
N_TREES = 200
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
    """Return Shapley values for the rows ``X`` (n, p), with intervals; see `Posterior.shap`."""
    ends, n, coverage = central_fractions(coverage), len(X), float(coverage)
    post, drawn = drawn_trees(posterior, draws, rng)
    distinct = TreesWithValues(post.distinct_trees, post.node_values, fractions_of_rows(post))
    (p, d), n_trees = (post.model.n_features, drawn.value.shape[1]), len(drawn.trees.offset) - 1
    mean, lower, upper = np.zeros((n, p, d)), np.zeros((n, p, d)), np.zeros((n, p, d))
    size = np.zeros((n_trees, p, d))
    step = max(AT_ONCE // max(max(n_trees, post.n_distinct_trees) * p * d, 1), 1)
    for rows in (slice(start, start + step) for start in range(0, n, step)):
        mean[rows] = np.tensordot(post.weight_of_tree, distinct.shapley_values(X[rows]), 1)
        values = drawn.shapley_values(X[rows])
        size += np.abs(values).sum(axis=1)
        lower[rows], upper[rows] = np.quantile(values, ends, axis=0)
    size /= max(n, 1)
    base_lower, base_upper = np.quantile(drawn.means(), ends, axis=0)
    size_lower, size_upper = np.quantile(size, ends, axis=0)
    base, importance = post.weight_of_tree @ distinct.means(), size.mean(axis=0)
    names = list(post.model.columns.names), names_of_outputs(post.model, d)
    intervals = base, base_lower, base_upper, importance, size_lower, size_upper
    return Attributions(mean, lower, upper, *intervals, coverage, *names)


def importance_of(posterior: AnyPosterior, X: np.ndarray, draws: int, rng: Seed) -> np.ndarray:
    """Return the mean absolute Shapley value (p, d) of each feature over the rows ``X`` (n, p) and over draws."""
    return np.abs(drawn_trees(posterior, draws, rng)[1].shapley_values(X)).mean(axis=(0, 1))


class TreesWithValues(NamedTuple):
    """Several trees with the predictions of their leaves."""

    trees: TreeArrays
    """The trees, one after the other."""
    value: np.ndarray
    """(n_nodes, d) prediction of each node; only those of leaves are used."""
    fraction: np.ndarray
    """(n_nodes,) fraction of the parent's training rows that are in each node, from `fractions_of_rows`."""

    def shapley_values(self, X: np.ndarray) -> np.ndarray:
        """Return the Shapley values (n_trees, n, p, d) of each tree's predictions for the rows ``X`` (n, p)."""
        out = np.zeros((len(self.trees.offset) - 1, *X.shape, self.value.shape[1]))
        nodes, weights = gauss_legendre((int(node_depths(self.trees).max(initial=0)) + 1) // 2)
        X = np.ascontiguousarray(X)
        add_shapley_values_into(out, self.trees, self.value, self.fraction, X, nodes, weights)
        return out

    def means(self) -> np.ndarray:
        """Return the mean (n_trees, d) of the leaf values of each tree over the training rows."""
        reach = np.ones(len(self.fraction))
        _multiply_down(reach, self.trees, self.fraction)
        part = np.where(self.trees.feature == LEAF, reach, 0.0)[:, None] * self.value
        return np.add.reduceat(part, self.trees.offset[:-1])


def drawn_trees(posterior: AnyPosterior, draws: int, rng: Seed) -> tuple[DrawnTrees, TreesWithValues]:
    """Return a posterior as draws, and the trees of ``draws`` of these draws, evenly spaced, with random leaf values.

    The leaf values of a tree are drawn from their posterior given the rows in each leaf.
    """
    rng = read_generator(rng)
    post = posterior._draws_that_predict(check_count("draws", draws), rng)
    check_drawn(post)
    refuse_by_row(post.model)
    values = draw_values(post, spaced_draws(post, draws), rng)
    return post, TreesWithValues(values.trees, values.value, fractions_of_rows(post)[values.node])


def shapley_values(post: DrawnTrees, X: np.ndarray) -> np.ndarray:
    """Return the Shapley values (n_trees, n, p, d) of each distinct tree's predictions for the rows ``X`` (n, p)."""
    return TreesWithValues(post.distinct_trees, post.node_values, fractions_of_rows(post)).shapley_values(X)


def gauss_legendre(most: int) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes and weights (most + 1, most) of Gauss-Legendre rules on [0, 1]; row m has the rule of m nodes."""
    nodes, weights = np.zeros((most + 1, max(most, 1))), np.zeros((most + 1, max(most, 1)))
    for m in range(1, most + 1):
        x, w = np.polynomial.legendre.leggauss(m)
        nodes[m, :m], weights[m, :m] = (x + 1.0) / 2.0, w / 2.0
    return nodes, weights


def fractions_of_rows(post: DrawnTrees) -> np.ndarray:
    """Return for each node the fraction (n_nodes,) of its parent's training rows that it contains; 1 for roots.

    Rows count with their weights, as in ``Tree.rows``. The two children of an empty node have one half each.
    """
    trees, rows = post.distinct_trees, post.node_rows
    out = np.ones(len(rows))
    first = np.repeat(trees.offset[:-1], np.diff(trees.offset))
    inner = np.flatnonzero(trees.feature != LEAF)
    sides = first[inner] + trees.left[inner], first[inner] + trees.right[inner]
    total = rows[sides[0]] + rows[sides[1]]
    for side in sides:
        out[side] = np.where(total > 0.0, rows[side] / np.where(total > 0.0, total, 1.0), 0.5)
    return out


@jit
def _multiply_down(reach: np.ndarray, trees: TreeArrays, fraction: np.ndarray) -> None:
    """Write into ``reach`` (n_nodes,) the product of ``fraction`` (n_nodes,) on the path to each node.

    Roots must contain 1.
    """
    for t in range(len(trees.offset) - 1):
        start = trees.offset[t]
        for i in range(start, trees.offset[t + 1]):
            if trees.feature[i] != LEAF:
                for child in (start + trees.left[i], start + trees.right[i]):
                    reach[child] = reach[i] * fraction[child]


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
    """Add to ``out`` (n_trees, n, p, d) the Shapley values of each tree's predictions for the rows ``X`` (n, p).

    ``value`` (n_nodes, d) has the predictions of nodes, ``fraction`` (n_nodes,) that of the parent's rows in each node,
    and ``nodes`` and ``weights`` the rules of `gauss_legendre`. The formula is in the docstring of this module.
    """
    deepest = 2 * (len(nodes) - 1) + 1
    # the path to a node, by depth: number of features, the features, o and z of each, and the side of the row
    count, left = np.zeros(deepest + 1, dtype=np.int64), np.zeros(deepest + 1, dtype=np.bool_)
    feature, met = np.zeros((deepest + 1, deepest + 1), dtype=np.int64), np.zeros((deepest + 1, deepest + 1))
    absent = np.zeros((deepest + 1, deepest + 1))
    before, integral = np.empty(deepest + 2), np.empty(deepest + 1)
    depth, parent = np.zeros(len(trees.feature), dtype=np.int64), np.zeros(len(trees.feature), dtype=np.int64)
    for t in range(len(trees.offset) - 1):
        start = trees.offset[t]
        for here in range(start, trees.offset[t + 1]):
            if trees.feature[here] != LEAF:
                for child in (start + trees.left[here], start + trees.right[here]):
                    depth[child], parent[child] = depth[here] + 1, here
        for i in range(len(X)):
            # nodes are in preorder, so the path to the parent is still stored
            for here in range(start, trees.offset[t + 1]):
                level = depth[here]
                if level > 0:
                    up = parent[here]
                    follows = left[level - 1] == (here == start + trees.left[up])
                    _extend_path(count, feature, met, absent, level, trees.feature[up], follows, fraction[here])
                if trees.feature[here] != LEAF:
                    x, default = X[i, trees.feature[here]], trees.default_left[here]
                    left[level] = number_goes_left(x, trees.threshold[here], trees.categories[here], default)
                    continue
                n = count[level]
                _integrate(integral, before, met[level], absent[level], n, nodes, weights)
                for a in range(n):
                    gain = (met[level, a] - absent[level, a]) * integral[a]
                    for j in range(value.shape[1]):
                        out[t, i, feature[level, a], j] += gain * value[here, j]


@jit
def _extend_path(
    count: np.ndarray,
    feature: np.ndarray,
    met: np.ndarray,
    absent: np.ndarray,
    level: int,
    k: int,
    follows: bool,
    fraction: float,
) -> None:
    """Write the path to a node into row ``level``: the path to its parent, extended by a condition on feature ``k``.

    Per feature on the path, ``met`` is o, 1 if the row meets all conditions so far, and ``absent`` is z, the product of
    the fractions of training rows. ``follows`` is True if the row meets the new condition, whose factor of z is
    ``fraction``.
    """
    n, at = count[level - 1], -1
    for a in range(n):
        feature[level, a], met[level, a] = feature[level - 1, a], met[level - 1, a]
        absent[level, a] = absent[level - 1, a]
        if feature[level, a] == k:
            at = a
    if at < 0:
        feature[level, n], met[level, n], absent[level, n] = k, 1.0, 1.0
        at, n = n, n + 1
    count[level] = n
    if not follows:
        met[level, at] = 0.0
    absent[level, at] *= fraction


@jit
def _integrate(
    integral: np.ndarray,
    before: np.ndarray,
    met: np.ndarray,
    absent: np.ndarray,
    n: int,
    nodes: np.ndarray,
    weights: np.ndarray,
) -> None:
    """Write the integral over t in [0, 1] of prod_{k != j} (t met[k] + (1 - t) absent[k]) into integral[j], j < n.

    ``before`` is room for products of the first factors; ``nodes`` and ``weights`` are the rules of `gauss_legendre`.
    """
    m = (n + 1) // 2
    for a in range(n):
        integral[a] = 0.0
    for q in range(m):
        t = nodes[m, q]
        before[0] = 1.0
        for a in range(n):
            before[a + 1] = before[a] * (t * met[a] + (1.0 - t) * absent[a])
        behind = weights[m, q]
        for a in range(n - 1, -1, -1):
            integral[a] += before[a] * behind
            behind *= t * met[a] + (1.0 - t) * absent[a]


def interactions_of(
    posterior: AnyPosterior, min_probability: float, most: int, coverage: float, draws: int, rng: Seed
) -> pd.DataFrame:
    """Return the table of the pairs of features that interact; see `Posterior.interactions`."""
    import pandas as pd

    min_probability = check_number("min_probability", min_probability, "a number 0..1", 0.0, 1.0)
    most = check_count("most", most)
    fractions = central_fractions(coverage)
    rng = read_generator(rng)
    post = posterior._draws_that_predict(draws, rng)
    probability = pair_probabilities(post)
    first, second = np.triu_indices(len(probability), 1)
    order = np.argsort(-probability[first, second], kind="stable")
    of_pair = probability[first, second][order]
    order = order[(of_pair > 0.0) & (of_pair >= min_probability)][:most]
    pairs = np.column_stack([first, second])[order]
    names = np.array(post.model.columns.names, dtype=object)
    table = {
        "feature": names[pairs[:, 0]],
        "other": names[pairs[:, 1]],
        "probability": probability[pairs[:, 0], pairs[:, 1]],
    }
    if has_values_by_leaf(post.model):
        strength, h = _strengths(post, pairs, rng)
        ends = np.quantile(strength, fractions, axis=1)
        table |= {"strength": strength.mean(axis=1), "lower": ends[0], "upper": ends[1], "H": h.mean(axis=1)}
    return pd.DataFrame(table)


def pair_probabilities(post: DrawnTrees) -> np.ndarray:
    """Return the probability (p, p) that a tree splits on one of two features in a subtree below a split on the other.

    0 on the diagonal.
    """
    feature, out = post.distinct_trees.feature.tolist(), np.zeros((post.model.n_features, post.model.n_features))

    def below(node: int, above: frozenset[int], left: int, right: int) -> list[tuple[int, frozenset[int]]]:
        """Return both children, each with the set of features that its ancestors split on."""
        reached = above | {feature[node]}
        return [(left, reached), (right, reached)]

    for t, weight in enumerate(post.weight_of_tree.tolist()):
        visited = walk(post.distinct_trees, t, frozenset(), below)
        pairs = {frozenset((j, k)) for _, k, above in visited if k != LEAF for j in above if j != k}
        for j, k in pairs:
            out[j, k] += weight
    return np.minimum(out + out.T, 1.0)


def _strengths(post: DrawnTrees, pairs: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return strength and H, (m, draws) each, of the interaction of the features in each of ``pairs`` (m, 2).

    For each draw of a tree and its leaf values: sd(I_jk) and sd(I_jk) / sd(F_jk), see the docstring of this module.
    """
    drawn = draw_values(post, spaced_draws(post, N_TREES), rng)
    value, points = drawn.value, training_points(post.model, N_POINTS)[1]

    def dependence(features: list[int]) -> np.ndarray:
        """Return the partial dependence (draws, points, d) on some features, centred to mean 0 over the points."""
        X = np.repeat(points[None], len(points), axis=0)
        X[:, :, features] = points[:, None, features]
        found = leaf_values(drawn.trees, value, X.reshape(-1, X.shape[2]))
        mean = found.reshape(N_TREES, len(points), len(points), -1).mean(axis=2)
        return mean - mean.mean(axis=1, keepdims=True)

    alone = {k: dependence([k]) for k in np.unique(pairs).tolist()}
    strength, h = np.empty((len(pairs), N_TREES)), np.empty((len(pairs), N_TREES))
    for i, (j, k) in enumerate(pairs.tolist()):
        both = dependence([j, k])
        rest, whole = (_sd(part) for part in (both - alone[j] - alone[k], both))
        # sums of the same leaf values in another order differ in the last digits
        strength[i] = np.where(rest > 1e-12 * np.maximum(whole, np.abs(value).max()), rest, 0.0)
        h[i] = np.divide(strength[i], whole, out=np.zeros(N_TREES), where=whole > 0.0)
    return strength, h


def _sd(component: np.ndarray) -> np.ndarray:
    """Return the standard deviation (draws,) of centred functions (draws, points, d) over points.

    Over the d outputs the root mean square is taken.
    """
    return np.sqrt((component**2).mean(axis=(1, 2)))
