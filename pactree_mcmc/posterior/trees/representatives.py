"""Trees that represent a posterior: the medoids of its clusters, the typical tree, and a choice for a paper."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...core.checks import Seed, check_choice, check_count, check_type
from ...core.names import limited_lines, with_short_repr
from ...table.words import count_text
from ...tree.arrays import leaf_values
from ...tree.tree import Tree, stack_trees
from ..draws import DrawnTrees, has_values_by_leaf
from ..protocol import AnyPosterior
from .cells import training_points
from .consensus import ConsensusTree, consensus_of
from .distances import DEFAULT_N_DRAWS, DISTANCE_KINDS, distance_matrix, distances_between, evenly_spaced_integers
from .projection import Projection, projection_of
from .shapes import Shape, shapes_of
from .support import check_drawn, most_probable_nodes, words_of_node

if TYPE_CHECKING:
    from collections.abc import Callable

MIN_SILHOUETTE = 0.25
"""Smallest mean silhouette at which clusters are reported (Kaufman and Rousseeuw 1990, table 2.4)."""
MIN_SILHOUETTE_GAIN, MIN_CLUSTER_FRACTION = 0.05, 0.05
"""Smallest increase of the silhouette for which more clusters are used, and smallest fraction of draws in a cluster."""
MIN_FREQUENCY_DIFFERENCE = 0.25
"""Smallest difference in frequency, between a cluster and the others, that is reported."""
MAX_REPORTED_SPLITS = 3
"""Number of splits by which a cluster is described."""
MAX_MEDOID_UPDATES = 100
"""Largest number of updates of the medoids; a few suffice."""
MAJORITY = 0.5
"""Smallest probability at which the most probable shape is recommended; no other shape can be more probable then."""
MAX_COMPARED_ROWS = 200
"""Largest number of training rows at which predictions are compared."""
TREES_PER_BLOCK = 256
"""Number of trees whose predictions are in memory at a time."""


@with_short_repr
class Mode(NamedTuple):
    """A cluster of trees."""

    mass: float
    """Fraction of all draws that are in the cluster."""
    by_chain: np.ndarray
    """(chains,) fraction of the draws of each chain that are in the cluster."""
    tree: Tree
    """Medoid of the cluster: the tree with the smallest mean distance to the trees of the cluster."""
    differs: list[str]
    """Lines of text: root feature and splits that are more or less frequent in this cluster than in all other trees."""
    trees: np.ndarray
    """(n,) int64: numbers of the distinct trees in the cluster."""


@with_short_repr
class Modes(NamedTuple):
    """Clusters of the trees of a posterior, the largest first; a single one if the trees do not form clusters."""

    modes: list[Mode]
    """The clusters, the largest first."""
    of_draw: np.ndarray
    """(chains, draws) int64: index in ``modes`` of the cluster of each draw."""
    silhouette: float
    """Mean silhouette of the draws used, in [-1, 1]: 1 if clusters are far apart, about 0 if not; 0 with one mode."""
    kind: str
    """Distance between trees: "cells", "partitions" or "predictions"."""

    def format(self) -> str:
        """Return the modes as text, one after the other."""
        out = []
        for i, mode in enumerate(self.modes):
            chains = ", ".join(f"{fraction:.2f}" for fraction in mode.by_chain)
            out.append(f"mode {i}: {mode.mass:.3f} of the draws (by chain: {chains})")
            out += [f"  {line}" for line in (*mode.differs, *mode.tree.format().splitlines())]
        return "\n".join(out)

    def __str__(self) -> str:
        return limited_lines(self.format())


def modes_of(post: DrawnTrees, kind: str, max_modes: int) -> Modes:
    """Return at most ``max_modes`` clusters of the trees drawn, by the distance ``kind``; see `Posterior.modes`.

    Medoids are chosen among 400 draws, evenly spaced. Then each tree joins the nearest medoid.
    """
    kind, max_modes = check_choice("distance", kind, DISTANCE_KINDS), check_count("most", max_modes, 1, 50)
    tree = post.tree_of_draw.ravel()[evenly_spaced_integers(post.tree_of_draw.size, DEFAULT_N_DRAWS)]
    distinct, position = np.unique(tree, return_inverse=True)
    distance = distance_matrix(post, distinct, distinct, kind)[position[:, None], position]
    medoids, silhouette = choose_medoids(distance, max_modes)
    medoid_trees = tree[medoids]
    cluster_of_tree = np.argmin(distance_matrix(post, np.arange(post.n_distinct_trees), medoid_trees, kind), axis=1)
    mass = np.bincount(cluster_of_tree, weights=post.weight_of_tree, minlength=len(medoids))
    order = np.argsort(-mass, kind="stable")
    rank = np.argsort(order)
    of_draw = rank[cluster_of_tree][post.tree_of_draw]
    modes = [
        Mode(
            float(mass[old]),
            (of_draw == new).mean(axis=1),
            post.distinct_tree(int(medoid_trees[old])),
            describe_cluster(post, cluster_of_tree == old) if len(order) > 1 else [],
            np.flatnonzero(cluster_of_tree == old),
        )
        for new, old in enumerate(order.tolist())
    ]
    return Modes(modes, of_draw, silhouette, kind)


def choose_medoids(distance: np.ndarray, max_clusters: int) -> tuple[np.ndarray, float]:
    """Choose clusters of m points by ``distance`` (m, m); return the indices (k,) of medoids, and the mean silhouette.

    k > 1 clusters, at most ``max_clusters``, are chosen if their mean silhouette is at least 0.25, exceeds that of the
    best smaller number by 0.05, and each cluster has 5 % of the points. Otherwise k = 1 and the silhouette is 0.
    """
    best, score = find_medoids(distance, 1), 0.0
    for k in range(2, min(max_clusters, len(distance)) + 1):
        medoids = find_medoids(distance, k)
        if len(np.unique(distance[medoids], axis=0)) < k:
            break
        cluster_of_point = np.argmin(distance[:, medoids], axis=1)
        if np.bincount(cluster_of_point, minlength=k).min() < MIN_CLUSTER_FRACTION * len(distance):
            continue
        silhouette = _mean_silhouette(distance, cluster_of_point, k)
        if silhouette >= max(score + MIN_SILHOUETTE_GAIN, MIN_SILHOUETTE):
            best, score = medoids, silhouette
    return best, score


def find_medoids(distance: np.ndarray, k: int) -> np.ndarray:
    """Return the indices (k,) of medoids of m points, which locally minimise sum_i min_j distance[i, medoid_j].

    First the point that lowers the sum most is added as a medoid, k times (the first phase of partitioning around
    medoids). Then clusters and their medoids are computed in turn until they stay the same.
    """
    first_medoids = [int(np.argmin(distance.sum(axis=0)))]
    for _ in range(1, k):
        gain = np.maximum(distance[:, first_medoids].min(axis=1)[:, None] - distance, 0.0).sum(axis=0)
        first_medoids.append(int(np.argmax(gain)))
    medoids = np.array(first_medoids)
    for _ in range(MAX_MEDOID_UPDATES):
        cluster_of_point = np.argmin(distance[:, medoids], axis=1)
        updated = medoids.copy()
        for j in range(k):
            members = np.flatnonzero(cluster_of_point == j)
            if len(members):
                updated[j] = members[np.argmin(distance[np.ix_(members, members)].sum(axis=0))]
        if np.array_equal(updated, medoids):
            break
        medoids = updated
    return medoids


def _mean_silhouette(distance: np.ndarray, cluster_of_point: np.ndarray, k: int) -> float:
    """Return the mean over m points of the silhouette (b - a) / max(a, b), which is in [-1, 1].

    a is the mean ``distance`` (m, m) of a point from its own cluster, b that from the nearest other one of the ``k``
    clusters, and ``cluster_of_point`` (m,) the number of the cluster of each point. A point that is the only one in its
    cluster has silhouette 0.
    """
    membership = np.eye(k)[cluster_of_point]
    size = membership.sum(axis=0)
    sums = distance @ membership
    points = np.arange(len(distance))
    distance_inside = sums[points, cluster_of_point] / np.maximum(size[cluster_of_point] - 1.0, 1.0)
    means = sums / size
    means[points, cluster_of_point] = np.inf
    distance_to_next = means.min(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        out = (distance_to_next - distance_inside) / np.maximum(distance_to_next, distance_inside)
    out[(size[cluster_of_point] == 1) | ~np.isfinite(out)] = 0.0
    return float(out.mean())


def describe_cluster(post: DrawnTrees, is_member: np.ndarray) -> list[str]:
    """Return lines of text on the splits that the trees of a cluster have more or less often than all other trees.

    ``is_member`` (n_distinct_trees,) is True for trees of the cluster. The first line is the root feature, or "no
    split", that is more frequent in the cluster by 0.25 or more, if there is one. Then follow at most three splits
    whose frequencies, fractions of draws, differ most, by at least 0.25.
    """
    weight = post.weight_of_tree
    groups = np.array([np.where(is_member, weight, 0.0), np.where(is_member, 0.0, weight)])
    groups /= np.maximum(groups.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    lines, names = [], post.model.columns.names
    root = post.root_feature_of_tree
    at_root = np.array([np.bincount(root + 1, weights=group, minlength=len(names) + 1) for group in groups])
    k = int(np.argmax(at_root[0] - at_root[1]))
    if at_root[0, k] - at_root[1, k] >= MIN_FREQUENCY_DIFFERENCE:
        root_words = "no split" if k == 0 else f"root feature {names[k - 1]!r}"
        lines.append(_frequency_line(root_words, at_root[:, k]))
    fraction = post.cells.frequencies(groups, splits=True)
    if fraction.shape[1]:
        difference = np.abs(fraction[0] - fraction[1])
        nodes = most_probable_nodes(post, post.cells.split_of_node)
        rows = post.node_rows[nodes]
        for i in np.lexsort((-rows, -np.round(difference, 6)))[:MAX_REPORTED_SPLITS].tolist():
            if difference[i] >= MIN_FREQUENCY_DIFFERENCE:
                words = f"{words_of_node(post, int(nodes[i]), split=True)} ({count_text(float(rows[i]))})"
                lines.append(_frequency_line(words, fraction[:, i]))
    return lines


def _frequency_line(name: str, fraction: np.ndarray) -> str:
    """Return the frequencies (2,) of the split ``name``, in a cluster and in all other trees, as a line of text."""
    return f"{name}: in {fraction[0]:.2f} of its trees, in {fraction[1]:.2f} of the others"


def typical_tree(posterior: AnyPosterior, n_draws: int = 1000, rng: Seed = 0, *, distance: str = "predictions") -> Tree:
    """Return the tree of the posterior that is closest to all others.

    This is a central tree, whereas the most probable tree is the mode. By predictions it is the tree whose predictions
    are closest to those of the posterior, in mean square over up to 200 training rows. Among the trees drawn it then
    also has the smallest mean squared distance to all draws. By cells it is the tree that differs from a draw in the
    fewest cells on average. By partitions it is the tree with the smallest mean distance, from all draws, of the
    partitions of the training rows into leaves.

    Parameters
    ----------
    posterior : Posterior
        The posterior to represent. If it is sampled, all trees drawn are candidates.
    n_draws : int, default 1000
        Number of candidates drawn from an exact posterior.
    rng : int, SeedSequence, Generator or None
        Source of randomness for those draws.
    distance : {"predictions", "cells", "partitions"}, default "predictions"
        Distance between trees, as in `SampledPosterior.tree_distances`.

    Returns
    -------
    Tree

    Raises
    ------
    ValueError
        If a sampled posterior has no draws, or an argument is out of range.

    Notes
    -----
    Cost: predictions of 200 rows by every candidate; their cells; for partitions, the distances of 400 draws, evenly
    spaced, which are then the candidates.

    Examples
    --------
    >>> import exact, pactree_mcmc as pt
    >>> truth = exact.solve(pt.TreeModel([[float(x)] for x in range(30)], [x >= 15 for x in range(30)]))
    >>> typical_tree(truth).n_leaves, typical_tree(truth, distance="cells").n_leaves
    (2, 2)
    """
    check_type("posterior", posterior, AnyPosterior, "a posterior over trees")
    if check_choice("distance", distance, DISTANCE_KINDS) != "predictions":
        return tree_nearest_to_draws(posterior._as_draws(n_draws, rng), distance)
    tree: Callable[[int], Tree]
    if isinstance(posterior, DrawnTrees):
        check_drawn(posterior)
        stacked, value, tree = posterior.distinct_trees, posterior.node_values, posterior.distinct_tree
    else:
        candidates = posterior.draw_trees(check_count("n_draws", n_draws), rng)
        stacked, tree = stack_trees(candidates), candidates.__getitem__
        value = np.concatenate([t.value for t in candidates])
    X = training_points(posterior.model, MAX_COMPARED_ROWS)[1]
    mean, distances = posterior._values(X), []
    for first in range(0, len(stacked.offset) - 1, TREES_PER_BLOCK):
        block = stacked._replace(offset=stacked.offset[first : first + TREES_PER_BLOCK + 1])
        distances.append(((leaf_values(block, value, X) - mean) ** 2).sum(axis=(1, 2)))
    return tree(int(np.argmin(np.concatenate(distances))))


def tree_nearest_to_draws(post: DrawnTrees, distance: str) -> Tree:
    """Return the drawn tree with the smallest mean distance from all draws.

    ``distance`` is "cells" or "partitions", as for `SampledPosterior.tree_distances`. For partitions, only 400
    draws, evenly spaced, are compared.
    """
    check_drawn(post)
    if distance == "cells":
        # the mean distance of a tree is sum p over all cells plus the sum of 1 - 2 p over the cells that it has
        cells, p = post.cells, post.cells.frequencies(post.weight_of_tree)
        summed = np.concatenate([[0.0], np.cumsum(1.0 - 2.0 * p[cells.member])])
        from_all = summed[cells.offset[1:]] - summed[cells.offset[:-1]]
        return post.distinct_tree(int(np.argmin(np.where(post.weight_of_tree > 0.0, from_all, np.inf))))
    distances = distances_between(post, None, distance)
    return post.distinct_tree(int(distances.tree[np.argmin(distances.matrix.sum(axis=1))]))


@with_short_repr
class Representatives(NamedTuple):
    """Four trees that can represent a posterior in a paper."""

    shape: Shape
    """The most probable shape: the features of its splits, with intervals of cuts and leaves."""
    consensus: ConsensusTree
    """The cells that more than half of the trees have."""
    best: Tree
    """The most probable tree."""
    best_probability: float
    """Posterior probability of the most probable tree; for draws, the fraction of them that have it."""
    projection: Projection | None
    """The projection of the posterior mean on a tree with at most as many leaves as the shape, or 2 if that is more.

    None if a leaf does not predict one value for all of its rows."""

    @property
    def recommended(self) -> str:
        """Name of the field to print: "shape" if it has most of the posterior probability, otherwise "consensus"."""
        return "shape" if self.shape.probability >= MAJORITY else "consensus"

    def format(self) -> str:
        """Return how much of the posterior each tree represents as text, and then the recommended tree."""
        support = self.consensus.support[1:]
        cells = f"support {support.min():.2f} to {support.max():.2f}" if len(support) else "no cell but all rows"
        lines = [
            f"most probable shape   {self.shape.probability:.3f} of the posterior, {self.shape.tree.n_leaves} leaves",
            f"consensus tree        cells in more than half of the trees, {cells}",
            f"most probable tree    {self.best_probability:.3g} of the posterior, {self.best.n_leaves} leaves",
        ]
        if self.projection is not None:
            tree, r2 = self.projection.tree, self.projection.r2
            lines.append(f"projection            {r2:.2f} of the variance of the predictions, {tree.n_leaves} leaves")
        if self.recommended == "shape":
            reason = "most trees have the same shape, so print it with its intervals"
        else:
            reason = "no shape has half of the probability, so print what most trees have in common"
        recommended = self.shape if self.recommended == "shape" else self.consensus
        return "\n".join([*lines, f"{reason}:", recommended.format()])

    def __str__(self) -> str:
        return limited_lines(self.format())


def representatives_of(post: AnyPosterior, draws: int, rng: Seed) -> Representatives:
    """Return the shape, consensus tree, most probable tree and projection; see `Posterior.representatives`.

    ``draws`` trees are drawn with ``rng`` if the posterior does not consist of draws.
    """
    sampled = post._draws_that_predict(draws, rng)
    shape = shapes_of(sampled, 1, 0.9).shapes[0]
    best = post.map_tree()
    log_joint, log_evidence = getattr(post, "map_log_joint", None), post.log_evidence
    if sampled is post or log_joint is None or log_evidence is None:
        t = int(np.argmax(sampled.log_prior_of_tree + sampled.log_score_of_tree))
        probability = float(sampled.weight_of_tree[t])
    else:
        probability = float(np.exp(log_joint - log_evidence))
    projection = None
    if has_values_by_leaf(post.model):
        projection = projection_of(sampled, max(shape.tree.n_leaves, 2), post._mean_at)
    consensus = consensus_of(sampled, post._cell_probability(sampled), MAJORITY)
    return Representatives(shape, consensus, best, probability, projection)
