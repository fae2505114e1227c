"""Posteriors given a constraint on the trees: the draws that satisfy it, and the probability of the constraint."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..core.checks import check_number, in_words
from ..tree.arrays import LEAF, walk
from .draws import has_values_by_leaf, refuse_by_row
from .ess import rhat_and_ess

if TYPE_CHECKING:
    from .draws import DrawnTrees
    from .sampled import SampledPosterior

    Region = tuple[np.ndarray, ...]

ROUNDING = 1e-12
"""Relative difference of two leaf values up to which they count as equal."""


class Restriction(NamedTuple):
    """The posterior given a constraint on the trees."""

    posterior: SampledPosterior
    """The draws that satisfy the constraint, as one chain."""
    probability: float
    """Posterior probability of the constraint."""
    standard_error: float
    """Monte-Carlo standard error of the probability."""
    by_chain: np.ndarray
    """(chains,) the probability by the draws of each chain alone."""
    ess: float
    """Effective number of draws of ``posterior``."""

    def __str__(self) -> str:
        return (
            f"constraint of probability {self.probability:.3g} +- {self.standard_error:.2g}; "
            f"{self.posterior.n_draws} draws, {self.ess:.0f} effective ones"
        )


class LeafRegions(NamedTuple):
    """The leaves of a tree and their regions of the features that the tree splits on."""

    leaf: np.ndarray
    """(m,) nodes, counted from the start of the tree."""
    low: np.ndarray
    """(m, f): numbers in the region exceed it."""
    high: np.ndarray
    """(m, f): the largest number in the region."""
    known: np.ndarray
    """(m, f) bool: the region has values that are not missing."""
    missing: np.ndarray
    """(m, f) bool: the region has missing values."""
    categories: np.ndarray
    """(m, f) int64: bits of the categories in the region."""


def restriction_of(
    post: DrawnTrees, monotone: Any, interactions: Any, min_ess: float, *, independent: bool
) -> Restriction:
    """Return the draws that satisfy the constraints; see `Posterior.restrict`.

    ``independent``: every draw is an effective one.
    """
    min_ess = check_number("min_ess", min_ess, "a number of draws >= 1", 1.0)
    signs, groups = read_monotone(post, monotone), read_groups(post, interactions)
    if not signs and groups is None:
        raise ValueError(
            "no constraint is given; give monotone={column: 1 or -1}, or interactions=[[column, ...], ...]."
        )
    satisfies = np.ones(post.n_distinct_trees, dtype=bool)
    for t in np.flatnonzero(post.weight_of_tree).tolist():
        satisfies[t] = groups is None or has_allowed_paths(post, t, groups)
        satisfies[t] = satisfies[t] and (not signs or is_monotone(post, t, signs))
    keep = satisfies[post.tree_of_draw]
    n_kept, n = int(keep.sum()), keep.size
    probability, efficiency = n_kept / n, np.ones(2)
    if not independent:
        log_posterior = (post.log_prior_of_tree + post.log_score_of_tree)[post.tree_of_draw]
        # fewer draws than a chain needs for an effective size count as they are
        efficiency = np.minimum(np.nan_to_num(rhat_and_ess([keep, log_posterior])[1], nan=n) / n, 1.0)
    ess = n_kept * float(efficiency.min())
    error = math.sqrt(probability * (1.0 - probability) / (n * efficiency[0]))
    if ess < min_ess:
        more = f"draw about {math.ceil(1.2 * n * min_ess / ess):,}" if ess > 0.0 else "draw many more"
        raise ValueError(
            f"{n_kept} of {n:,} draws satisfy the constraint (probability {probability:.3g}, standard error "
            f"{error:.2g}), {ess:.1f} effective ones, and {min_ess:g} are needed; {more}, give a weaker constraint, or "
            "a smaller min_ess."
        )
    return Restriction(only(post, keep), probability, error, keep.mean(axis=1), ess)


def only(post: DrawnTrees, keep: np.ndarray) -> SampledPosterior:
    """Return the draws (chains, draws) that are True, as one chain of the trees that they have."""
    first, number = np.unique(post.tree_of_draw[keep], return_inverse=True)
    none = np.zeros((1, len(number), 0), dtype=np.int64)
    weights = None if post.weights_of_draw is None else post.weights_of_draw[keep][None]
    by_tree = post.log_prior_of_tree[first], post.log_score_of_tree[first]
    nodes = post.coded_trees.nodes_of(first)
    found: Any = type(post)(
        post.model,
        post.coded_trees.take(first),
        post.node_stats[nodes],
        number.reshape(1, -1),
        *by_tree,
        none,
        none,
        (),
        post.seconds,
        noise_variance=post.noise_variance[keep][None],
        weights_of_draw=weights,
    )
    return found


def read_monotone(post: DrawnTrees, monotone: Any) -> dict[int, int]:
    """Check the argument ``monotone``, and return the sign of each constrained feature."""
    if monotone is None:
        return {}
    if not isinstance(monotone, Mapping) or not all(sign in (-1, 1) for sign in monotone.values()):
        raise ValueError(
            f"monotone={in_words(monotone)}; give {{column: 1}} for increasing, {{column: -1}} for decreasing."
        )
    signs = dict(zip(post.model.columns.ordered_places("monotone", monotone), monotone.values(), strict=True))
    refuse_by_row(post.model)
    if not has_values_by_leaf(post.model):
        raise ValueError(f"{post.model.leaf!r} predicts nothing, so that no tree is monotone; drop monotone=.")
    n_outputs = post.node_values.shape[1]
    if n_outputs != (1 if post.model.classes_ is None else 2):
        raise ValueError(f"the leaves predict {n_outputs} numbers; monotone= is for one output, or for two classes.")
    return signs


def read_groups(post: DrawnTrees, interactions: Any) -> list[int] | None:
    """Check the argument ``interactions``, and return the groups of each feature as bits."""
    if interactions is None:
        return None
    return post.model.columns.group_bits("interactions", interactions)


def has_allowed_paths(post: DrawnTrees, t: int, groups: list[int]) -> bool:
    """Return True if the features on each path of tree ``t`` have a group in common."""
    feature = post.distinct_trees.feature

    def below(node: int, common: int, left: int, right: int) -> list[tuple[int, int]]:
        common &= groups[int(feature[node])]
        return [(left, common), (right, common)]

    return all(common for _, _, common in walk(post.distinct_trees, t, -1, below))


def is_monotone(post: DrawnTrees, t: int, signs: dict[int, int]) -> bool:
    """Return True if the prediction of tree ``t`` is monotone in each feature of ``signs``, all others held fixed."""
    nodes = slice(int(post.distinct_trees.offset[t]), int(post.distinct_trees.offset[t + 1]))
    features = np.unique(post.distinct_trees.feature[nodes])
    features = features[features != LEAF]
    if not np.isin(features, list(signs)).any():
        return True
    regions = regions_of(post, t, features)
    value = post.node_values[nodes][regions.leaf, -1]
    slack = ROUNDING * np.abs(value).max()
    meets = [_meets(regions, j) for j in range(len(features))]
    for j, k in enumerate(features.tolist()):
        if k not in signs:
            continue
        known = regions.known[:, j]
        is_below = known[:, None] & known & (regions.high[:, j][:, None] <= regions.low[:, j])
        for i, both in enumerate(meets):
            is_below &= both if i != j else True
        rise = signs[k] * (value - value[:, None])
        if (rise[is_below] < -slack).any():
            return False
    return True


def regions_of(post: DrawnTrees, t: int, features: np.ndarray) -> LeafRegions:
    """Return the regions of the leaves of tree ``t`` in the ``features`` (f,), those that the tree splits on."""
    trees, base, columns = post.distinct_trees, int(post.distinct_trees.offset[t]), post.model.columns
    f, place = len(features), {k: j for j, k in enumerate(features.tolist())}
    lacks, labels = np.isin(features, columns.twins), [columns.categories[k] for k in features]
    every = np.array([-1 if known is None else (1 << len(known)) - 1 for known in labels], dtype=np.int64)
    root = (np.full(f, -np.inf), np.full(f, np.inf), np.ones(f, dtype=bool), lacks, every)

    def below(node: int, region: Region, left: int, right: int) -> Iterator[tuple[int, Region]]:
        j, cut, mask = place[int(trees.feature[node])], trees.threshold[node], int(trees.categories[node])
        for is_left, child in ((True, left), (False, right)):
            low, high, known, missing, categories = (column.copy() for column in region)
            takes_missing = bool(trees.default_left[node]) == is_left
            if mask >= 0:
                categories[j] &= mask if is_left else ~mask
            else:
                missing[j] &= takes_missing
                if np.isnan(cut):
                    known[j] &= not takes_missing
                elif is_left:
                    high[j] = min(high[j], cut)
                else:
                    low[j] = max(low[j], cut)
            yield child, (low, high, known, missing, categories)

    found = [(node - base, *region) for node, k, region in walk(trees, t, root, below) if k == LEAF]
    return LeafRegions(*(np.array(column) for column in zip(*found, strict=True)))


def _meets(regions: LeafRegions, j: int) -> np.ndarray:
    """Return True (m, m) for the pairs of leaves that have a value of feature ``j`` in common."""
    low, high, known, missing, categories = (column[:, j] for column in regions[1:])
    both = known[:, None] & known & (np.maximum(low[:, None], low) < np.minimum(high[:, None], high))
    return (both | (missing[:, None] & missing)) & ((categories[:, None] & categories) != 0)
