"""Clusters of trees: their probability, in all and by chain, a typical tree of each, and their differences."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...core.checks import check_choice, check_count
from ...core.names import short_repr
from ...table.words import count_text
from ...tree.tree import Tree
from .distances import KINDS, MOST_DRAWS, between_trees, spaced
from .support import most_probable_nodes, words_of_node

if TYPE_CHECKING:
    from ..draws import DrawnTrees

LEAST_SILHOUETTE = 0.25
"""Smallest mean silhouette of clusters (Kaufman and Rousseeuw 1990, table 2.4)."""
MORE, LEAST_FRACTION = 0.05, 0.05
"""Smallest increase of the silhouette by further clusters, and smallest fraction of the draws in a cluster."""
APART = 0.25
"""Smallest difference in frequency, between a cluster and the others, that is reported."""
N_REPORTED = 3
"""Number of splits by which a cluster is described."""
ROUNDS = 100
"""Largest number of updates of the medoids; a few suffice."""


class Mode(NamedTuple):
    """A cluster of trees."""

    mass: float
    """Fraction of all draws."""
    by_chain: np.ndarray
    """(chains,) fraction of the draws of each chain."""
    tree: Tree
    """The tree of the cluster with the smallest mean distance to the others."""
    differs: list[str]
    """Root features and splits that its trees have more or less often than all others, the largest difference first."""
    trees: np.ndarray
    """Numbers of its distinct trees."""


class Modes(NamedTuple):
    """Clusters of the trees of a posterior, the largest first; a single one if the trees do not form clusters."""

    def __repr__(self) -> str:
        return short_repr(self)

    modes: list[Mode]
    of_draw: np.ndarray
    """(chains, draws) int64: the mode of each draw."""
    silhouette: float
    """Mean silhouette of the draws used, in [-1, 1]: 1 if clusters are far apart, about 0 if not; 0 with one mode."""
    kind: str
    """Name of the distance."""

    def format(self) -> str:
        """Return the modes as text, one after the other."""
        out = []
        for i, mode in enumerate(self.modes):
            chains = ", ".join(f"{fraction:.2f}" for fraction in mode.by_chain)
            out.append(f"mode {i}: {mode.mass:.3f} of the draws (by chain: {chains})")
            out += [f"  {line}" for line in (*mode.differs, *mode.tree.format().splitlines())]
        return "\n".join(out)

    def __str__(self) -> str:
        return self.format()


def modes_of(post: DrawnTrees, kind: str, most: int) -> Modes:
    """Return clusters of the trees drawn; see `Posterior.modes`."""
    kind, most = check_choice("distance", kind, KINDS), check_count("most", most, 1, 50)
    tree = post.tree_of_draw.ravel()[spaced(post.tree_of_draw.size, MOST_DRAWS)]
    distinct, which = np.unique(tree, return_inverse=True)
    distance = between_trees(post, distinct, distinct, kind)[which[:, None], which]
    centres, silhouette = cluster(distance, most)
    middle = tree[centres]
    nearest = np.argmin(between_trees(post, np.arange(post.n_distinct_trees), middle, kind), axis=1)
    mass = np.bincount(nearest, weights=post.weight_of_tree, minlength=len(centres))
    order = np.argsort(-mass, kind="stable")
    rank = np.argsort(order)
    of_draw = rank[nearest][post.tree_of_draw]
    modes = [
        Mode(
            float(mass[old]),
            (of_draw == new).mean(axis=1),
            post.distinct_tree(int(middle[old])),
            differences(post, nearest == old) if len(order) > 1 else [],
            np.flatnonzero(nearest == old),
        )
        for new, old in enumerate(order.tolist())
    ]
    return Modes(modes, of_draw, silhouette, kind)


def cluster(distance: np.ndarray, most: int) -> tuple[np.ndarray, float]:
    """Return medoids (k,) of at most ``most`` clusters by ``distance`` (m, m), and their mean silhouette.

    More clusters are chosen if their mean silhouette is 0.25 or more, is larger by 0.05 than with fewer, and each has
    5 % of the places; else one.
    """
    best, score = medoids(distance, 1), 0.0
    for k in range(2, min(most, len(distance)) + 1):
        centres = medoids(distance, k)
        if len(np.unique(distance[centres], axis=0)) < k:
            break
        nearest = np.argmin(distance[:, centres], axis=1)
        if np.bincount(nearest, minlength=k).min() < LEAST_FRACTION * len(distance):
            continue
        silhouette = _silhouette(distance, nearest, k)
        if silhouette >= max(score + MORE, LEAST_SILHOUETTE):
            best, score = centres, silhouette
    return best, score


def medoids(distance: np.ndarray, k: int) -> np.ndarray:
    """Return places (k,) that make the sum of the distances to the nearest one small, a local minimum.

    First the place that lowers the sum most is added, k times (the first phase of partitioning around medoids). Then
    medoids and clusters are computed in turn until they stay the same.
    """
    chosen = [int(np.argmin(distance.sum(axis=0)))]
    for _ in range(1, k):
        gain = np.maximum(distance[:, chosen].min(axis=1)[:, None] - distance, 0.0).sum(axis=0)
        chosen.append(int(np.argmax(gain)))
    centres = np.array(chosen)
    for _ in range(ROUNDS):
        nearest = np.argmin(distance[:, centres], axis=1)
        moved = centres.copy()
        for j in range(k):
            members = np.flatnonzero(nearest == j)
            if len(members):
                moved[j] = members[np.argmin(distance[np.ix_(members, members)].sum(axis=0))]
        if np.array_equal(moved, centres):
            break
        centres = moved
    return centres


def _silhouette(distance: np.ndarray, nearest: np.ndarray, k: int) -> float:
    """Return the mean silhouette; that of a place alone in its cluster is 0."""
    belongs = np.eye(k)[nearest]
    size = belongs.sum(axis=0)
    sums = distance @ belongs
    each = np.arange(len(distance))
    own = sums[each, nearest] / np.maximum(size[nearest] - 1.0, 1.0)
    means = sums / size
    means[each, nearest] = np.inf
    other = means.min(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        out = (other - own) / np.maximum(other, own)
    out[(size[nearest] == 1) | ~np.isfinite(out)] = 0.0
    return float(out.mean())


def differences(post: DrawnTrees, inside: np.ndarray) -> list[str]:
    """Return what the distinct trees ``inside`` (bool) have more or less often than the others, as lines of text.

    The feature that they have at the root a quarter more often, if any, and the three splits that differ most.
    """
    weight = post.weight_of_tree
    groups = np.array([np.where(inside, weight, 0.0), np.where(inside, 0.0, weight)])
    groups /= np.maximum(groups.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    out, names = [], post.model.columns.names
    root = post.root_feature_of_tree
    at_root = np.array([np.bincount(root + 1, weights=group, minlength=len(names) + 1) for group in groups])
    k = int(np.argmax(at_root[0] - at_root[1]))
    if at_root[0, k] - at_root[1, k] >= APART:
        root_words = "no split" if k == 0 else f"root feature {names[k - 1]!r}"
        out.append(_frequency_words(root_words, at_root[:, k]))
    fraction = post.cells.frequencies(groups, splits=True)
    if fraction.shape[1]:
        gap = np.abs(fraction[0] - fraction[1])
        nodes = most_probable_nodes(post, splits=True)
        rows = post.node_rows[nodes]
        for i in np.lexsort((-rows, -np.round(gap, 6)))[:N_REPORTED].tolist():
            if gap[i] >= APART:
                words = f"{words_of_node(post, int(nodes[i]), split=True)} ({count_text(float(rows[i]))})"
                out.append(_frequency_words(words, fraction[:, i]))
    return out


def _frequency_words(name: str, fraction: np.ndarray) -> str:
    return f"{name}: in {fraction[0]:.2f} of its trees, in {fraction[1]:.2f} of the others"
