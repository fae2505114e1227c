"""Some of the trees drawn in compact form, for the script of the page, which sends rows down them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from ...model.leaf.distributions import NegativeBinomial, StudentT
from ...model.leaf_words import words_of_cells
from ...posterior.predictive import has_values_by_leaf
from ...posterior.space.cells import rows_looked_at
from ...posterior.space.distances import row_counts, spaced
from ...posterior.summaries.credible_set import CredibleSet
from ...table.kinds import NUMBER
from ...table.words import digits_of_range, figure, threshold_text
from ...tree.arrays import LEAF
from ...tree.words import label_words
from .words import LONGEST_NAME, cut

if TYPE_CHECKING:
    from ...posterior.sampled import SampledPosterior
    from .paths import Paths

MOST_TREES, FEWEST_TREES = 400, 10
"""Largest number of trees in a page beside the best ones, and the number that a page has even if trees are large."""
BEST = 40
"""Number of the most probable trees that a page always has, unless trees are large."""
MOST_BYTES = 250_000
"""Size of the trees in a page above which it gets fewer."""
LONGEST = 240
"""Largest number of characters of the prediction of a leaf."""
ENOUGH = 0.9
"""Fraction of the draws from which on the most frequent trees stand for all, instead of evenly spaced draws."""


def trees_for_page(
    post: SampledPosterior, credible_set: CredibleSet | None, paths: Paths, mode_of_tree: np.ndarray
) -> dict[str, Any]:
    """Return as many trees as a page can hold, in the form of `packed_trees`."""
    most = MOST_TREES
    while True:
        packed = packed_trees(post, credible_set, paths, mode_of_tree, most)
        size = len(json.dumps(packed, separators=(",", ":")))
        if size <= MOST_BYTES or most <= FEWEST_TREES:
            return packed
        most = max(min(int(0.9 * most * MOST_BYTES / size), most - 1), FEWEST_TREES)


def chosen_trees(
    post: SampledPosterior, credible_set: CredibleSet | None, most: int
) -> tuple[np.ndarray, np.ndarray, str]:
    """Return ``most`` distinct trees and the best ones, their weights, and a description of the choice."""
    fraction = post.weight_of_tree
    chosen = np.argsort(-fraction, kind="stable")[:most]
    part = fraction[chosen].sum()
    if (fraction > 0.0).sum() <= most:
        chosen = chosen[fraction[chosen] > 0.0]
        weight, description = fraction, f"all {len(chosen)} distinct trees drawn"
    elif part >= ENOUGH:
        weight = np.zeros_like(fraction)
        weight[chosen] = fraction[chosen] / part
        description = f"the {len(chosen)} most frequent trees, {part:.1%} of the draws"
    else:
        n_draws = post.tree_of_draw.size
        draws = post.tree_of_draw.ravel()[spaced(n_draws, most)]
        weight = np.bincount(draws, minlength=len(fraction)) / len(draws)
        chosen = np.flatnonzero(weight)
        description = f"the trees of {len(draws)} of {n_draws} draws, evenly spaced"
    log_posterior = post.log_prior_of_tree + post.log_score_of_tree
    best = np.argsort(np.where(fraction > 0.0, -log_posterior, np.inf), kind="stable")
    best = best[: min(BEST, most // 4) if credible_set else 0]
    chosen = np.union1d(chosen, best[fraction[best] > 0.0])
    chosen = chosen[np.lexsort((-fraction[chosen], -log_posterior[chosen]))]
    return chosen, weight[chosen], description


def packed_trees(
    post: SampledPosterior, credible_set: CredibleSet | None, paths: Paths, mode_of_tree: np.ndarray, most: int
) -> dict[str, Any]:
    """Return trees, with tables of the splits, of the leaf values and of the features that they share.

    ``nodes`` of a tree are in preorder: the number of a split, or ``-1 - i`` for leaf i. ``paths`` are the paths of its
    nodes, without those below a node that is not on a path.
    """
    chosen, weight, description = chosen_trees(post, credible_set, most)
    trees, nodes, offset = post.distinct_trees, post.coded_trees.nodes_of(chosen), post.coded_trees.offset
    inner, leaves = nodes[trees.feature[nodes] != LEAF], nodes[trees.feature[nodes] == LEAF]
    used = np.unique(trees.feature[inner])
    number = np.zeros(len(trees.feature), dtype=np.int64)
    first, number[inner] = _distinct_splits(post, inner)
    leaf_table, of_leaf = _leaf_table(post, leaves)
    number[leaves] = -1 - of_leaf
    place = np.zeros(post.model.n_features, dtype=np.int64)
    place[used] = np.arange(len(used))
    log_posterior = order_of_trees(post, credible_set)
    return {
        "features": [_feature(post, int(k)) for k in used],
        "start": _typical_row(post, used),
        "splits": [_split(post, int(place[trees.feature[i]]), int(i)) for i in inner[first]],
        "leaves": leaf_table,
        "trees": [
            {
                "number": t,
                "nodes": number[slice(*offset[t : t + 2])].tolist(),
                "weight": _rounded(w, 6),
                "fraction": _rounded(post.weight_of_tree[t], 6),
                "log_posterior": round(float(log_posterior[t]), 3),
                "level": None if credible_set is None else _rounded(credible_set.level_at(float(log_posterior[t])), 4),
                "mode": int(mode_of_tree[t]),
                "paths": _paths_of_tree(post, paths, t),
            }
            for t, w in zip(chosen.tolist(), weight.tolist(), strict=True)
        ],
        "description": description,
    }


def order_of_trees(post: SampledPosterior, credible_set: CredibleSet | None) -> np.ndarray:
    """Return the log posterior (n_distinct_trees,) that orders trees, or its mean over draws without an order."""
    return post.log_prior_of_tree + post.log_score_of_tree if credible_set is None else post.log_posterior_of_tree


def _distinct_splits(post: SampledPosterior, inner: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the place in ``inner`` of each distinct split, and the number of the split of each inner node."""
    trees = post.distinct_trees
    columns = [trees.feature[inner], trees.categories[inner], trees.default_left[inner], trees.threshold[inner]]
    if post.node_between is not None:
        # the text of a threshold depends on the values next to it
        columns += [*post.node_between[inner].T]
    # NaN is not equal to itself
    key = np.nan_to_num(np.column_stack(columns).astype(np.float64), nan=np.inf, posinf=np.inf, neginf=-np.inf)
    _, first, of_inner = np.unique(key, axis=0, return_index=True, return_inverse=True)
    return first, of_inner.reshape(-1)


def _leaf_table(post: SampledPosterior, leaves: np.ndarray) -> tuple[dict[str, Any], np.ndarray]:
    """Return the predictions of the distinct leaves, and the number of each of ``leaves`` (m,) among these."""
    model, m = post.model, len(leaves)
    values = post.node_values[leaves] if has_values_by_leaf(model) else np.empty((m, 0))
    distributions, kind, parameters = _distributions(post), None, np.empty((m, 0))
    if distributions is not None:
        parameters = np.column_stack([np.broadcast_to(x, len(post.node_stats))[leaves] for x in distributions])
        kind = "student" if isinstance(distributions, StudentT) else "negative binomial"
    texts = words_of_cells(model, post.node_stats[leaves])
    distinct_texts, of_text = np.unique([""] * m if texts is None else texts, return_inverse=True)
    table = np.column_stack([post.node_rows[leaves], values, parameters, of_text])
    distinct, of_leaf = np.unique(table, axis=0, return_inverse=True)
    d, is_classes = values.shape[1], model.classes_ is not None
    shown_digits = max([digits_of_range(column) for column in values.T], default=5)
    digits = 5 if is_classes else shown_digits + 3
    # the last probability is what the others leave
    shown = distinct[:, 1 : d if is_classes else 1 + d]
    return {
        "rows": [_rounded(x, 6) for x in distinct[:, 0]],
        "values": [[_rounded(x, digits) for x in line] for line in shown] if d else None,
        "digits": shown_digits,
        "words": None if texts is None else [cut(distinct_texts[int(k)], LONGEST) for k in distinct[:, -1]],
        "kind": kind,
        "distributions": [[_rounded(x, digits) for x in line] for line in distinct[:, 1 + d : -1]] if kind else None,
    }, of_leaf.reshape(-1)


def _distributions(post: SampledPosterior) -> StudentT | NegativeBinomial | None:
    """Return the distributions of a new y by node, or None if the page cannot draw them."""
    model = post.model
    if model.classes_ is not None or not has_values_by_leaf(model) or not model.leaf.has_likelihood:
        return None
    try:
        distributions = post._leaf_distributions()
    except ValueError:
        # of several outputs, or a leaf of the caller's own without distributions
        return None
    return distributions if isinstance(distributions, StudentT | NegativeBinomial) else None


def _paths_of_tree(post: SampledPosterior, paths: Paths, t: int) -> list[int]:
    trees = post.coded_trees
    base, end = int(trees.offset[t]), int(trees.offset[t + 1])
    listed = np.zeros(end - base, dtype=np.bool_)
    listed[0] = True
    for i in range(end - base):
        if trees.feature[base + i] != LEAF and listed[i] and paths.of_node[base + i] >= 0:
            listed[i + 1] = listed[trees.right[base + i]] = True
    return paths.of_node[base:end][listed].tolist()


def _feature(post: SampledPosterior, k: int) -> dict[str, Any]:
    """Return the name of a feature, its kind, and the values that a row can have."""
    columns = post.model.columns
    kind, categories = columns.kind(k), columns.categories[k]
    feature: dict[str, Any] = {
        "name": cut(columns.names[k], LONGEST_NAME),
        "kind": kind.name,
        "levels": [cut(level, LONGEST_NAME) for level in kind.levels],
        "missing": columns.branches,
        "twin": k in columns.twins,
    }
    if categories is not None:
        labels = [cut(label_words(label), LONGEST_NAME) for label in categories.tolist()]
        feature |= {"kind": "nominal", "categories": labels}
    return feature


def _split(post: SampledPosterior, feature: int, node: int) -> list[Any]:
    """Return a split: place of the feature, threshold or categories going left, default side, text of the threshold.

    The threshold is None in a split of missing from known values.
    """
    trees = post.distinct_trees
    mask, default = int(trees.categories[node]), int(trees.default_left[node])
    if mask >= 0:
        return [feature, [j for j in range(mask.bit_length()) if mask >> j & 1], default]
    threshold = float(trees.threshold[node])
    if np.isnan(threshold):
        return [feature, None, default]
    low, high = (np.nan, np.nan) if post.node_between is None else post.node_between[node].tolist()
    text = threshold_text(threshold, low, high, post.model.columns.kind(int(trees.feature[node])))
    # JSON has no infinity; JavaScript reads the word
    number = threshold if np.isfinite(threshold) else f"{threshold}".replace("inf", "Infinity")
    return [feature, number, default, text]


def _typical_row(post: SampledPosterior, used: np.ndarray) -> list[Any]:
    """Return the medians of ordered features and the most frequent categories, None if all values are missing."""
    model = post.model
    units = rows_looked_at(model)[0]
    rows, numbers = row_counts(model, units), model.unit_numbers(units)
    out: list[Any] = []
    for k in used.tolist():
        column = numbers[:, k]
        if model.columns.categories[k] is not None:
            known = column >= 0.0
            out.append(int(np.bincount(column[known].astype(np.int64), weights=rows[known]).argmax()))
            continue
        order = np.argsort(column, kind="stable")
        order = order[np.isfinite(column[order])]
        if len(order) == 0:
            out.append(None)
            continue
        cumulative = np.cumsum(rows[order])
        median = float(column[order[np.searchsorted(cumulative, cumulative[-1] / 2.0)]])
        out.append(float(figure(median, 5)) if model.columns.kind(k) == NUMBER else median)
    return out


def _rounded(x: float, digits: int) -> float | int | None:
    """Return a number to so many significant digits, None if it is not finite."""
    rounded = float(f"{float(x):.{digits}g}")
    if not np.isfinite(rounded):
        return None
    return int(rounded) if rounded == int(rounded) and abs(rounded) < 1e15 else rounded
