"""Some of the trees drawn in compact form, for a page that sends rows down them by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...model.leaf.distributions import NegativeBinomial, StudentT
from ...model.leaf_words import words_of_cells
from ...posterior.draws import has_values_by_leaf
from ...posterior.trees.cells import rows_looked_at
from ...posterior.trees.credible_set import CredibleSet
from ...posterior.trees.distances import row_counts, spaced
from ...table.kinds import NUMBER
from ...table.words import digits_of_range, figure, threshold_text
from ...tree.arrays import LEAF
from ...tree.words import label_words
from .text import LONGEST_NAME, as_json, cut

if TYPE_CHECKING:
    from ...posterior.sampled import SampledPosterior
    from .paths import Paths

MOST_TREES = 400
"""Trees in a page, beside the best ones."""
BEST = 40
"""The most probable trees that a page always has, unless trees are large."""
MOST_BYTES, FEWEST_TREES = 250_000, 10
"""Of the trees in a page: fewer are taken where they are large."""
LONGEST = 240
"""Characters of what a leaf predicts."""
ENOUGH = 0.9
"""Where the most frequent trees hold such a fraction of the draws they are taken; else those of draws evenly spaced."""


def chosen_trees(post: SampledPosterior, likely: CredibleSet | None, most: int) -> tuple[np.ndarray, np.ndarray, str]:
    """Distinct trees for a page, at most ``most`` and the best, the weight of each, and in words which they are."""
    fraction = post.weight_of_tree
    common = np.argsort(-fraction, kind="stable")[:most]
    total = post.tree_of_draw.size
    if (fraction > 0.0).sum() <= most:
        common = common[fraction[common] > 0.0]
        weight, said = fraction, f"all {len(common)} distinct trees drawn"
    elif fraction[common].sum() >= ENOUGH:
        weight = np.zeros_like(fraction)
        weight[common] = fraction[common] / fraction[common].sum()
        said = f"the {len(common)} most frequent trees, {fraction[common].sum():.1%} of the draws"
    else:
        draws = post.tree_of_draw.ravel()[spaced(total, most)]
        weight = np.bincount(draws, minlength=len(fraction)) / len(draws)
        common = np.flatnonzero(weight)
        said = f"the trees of {len(draws)} of {total} draws, evenly spaced"
    log_posterior = post.log_prior_of_tree + post.log_score_of_tree
    best = np.argsort(np.where(fraction > 0.0, -log_posterior, np.inf), kind="stable")[
        : min(BEST, most // 4) if likely else 0
    ]
    chosen = np.union1d(common, best[fraction[best] > 0.0])
    order = np.lexsort((-fraction[chosen], -log_posterior[chosen]))
    return chosen[order], weight[chosen[order]], said


def trees_for_page(
    post: SampledPosterior, likely: CredibleSet | None, paths: Paths, mode_of_tree: np.ndarray
) -> dict[str, Any]:
    """So many trees as a page can hold, as `packed_trees` tells them."""
    most = MOST_TREES
    while True:
        told = packed_trees(post, likely, paths, mode_of_tree, most)
        size = len(as_json(told))
        if size <= MOST_BYTES or most <= FEWEST_TREES:
            return told
        most = max(min(int(0.9 * most * MOST_BYTES / size), most - 1), FEWEST_TREES)


def packed_trees(
    post: SampledPosterior, likely: CredibleSet | None, paths: Paths, mode_of_tree: np.ndarray, most: int
) -> dict[str, Any]:
    """The trees with their splits, their leaf values and the features they split on, each told once.

    A tree is its nodes in preorder: the number of a split, or below zero ``-1 - `` that of a leaf. ``paths`` of a tree
    are those of its nodes, told as long as the node above has one.
    """
    chosen, weight, said = chosen_trees(post, likely, most)
    nodes = post.coded_trees.nodes_of(chosen)
    trees = post.distinct_trees
    inner = nodes[trees.feature[nodes] != LEAF]
    used = np.unique(trees.feature[inner])
    table = np.column_stack([trees.feature[inner], trees.categories[inner], trees.default_left[inner]])
    # NaN is not equal to itself; the text of a threshold depends on the values next to it
    numbers = [trees.threshold[inner], *([] if post.node_between is None else post.node_between[inner].T)]
    key = np.column_stack([table.astype(np.float64), *(np.where(np.isnan(x), np.inf, x) for x in numbers)])
    _, first, of_inner = np.unique(key, axis=0, return_index=True, return_inverse=True)
    number = np.zeros(len(trees.feature), dtype=np.int64)
    number[inner] = of_inner.reshape(-1)
    leaves = nodes[trees.feature[nodes] == LEAF]
    told, of_leaf = _leaf_table(post, leaves)
    number[leaves] = -1 - of_leaf
    place = np.zeros(post.model.n_features, dtype=np.int64)
    place[used] = np.arange(len(used))
    log_posterior = order_of_trees(post, likely)
    return {
        "features": [_feature(post, int(k)) for k in used],
        "start": _typical_row(post, used),
        "splits": [_split(post, int(place[trees.feature[i]]), int(i)) for i in inner[first]],
        "leaves": told,
        "trees": [
            {
                "number": t,
                "nodes": number[slice(*post.coded_trees.offset[t : t + 2])].tolist(),
                "weight": _figures(w, 6),
                "fraction": _figures(post.weight_of_tree[t], 6),
                "log_posterior": round(float(log_posterior[t]), 3),
                "level": None if likely is None else _figures(likely.level_at(float(log_posterior[t])), 4),
                "mode": int(mode_of_tree[t]),
                "paths": _told_paths(post, paths, int(t)),
            }
            for t, w in zip(chosen.tolist(), weight.tolist(), strict=True)
        ],
        "said": said,
    }


def order_of_trees(post: SampledPosterior, likely: CredibleSet | None) -> np.ndarray:
    """Log posterior (n_distinct_trees,) by which trees are ordered; its mean over draws if there is no order."""
    return post.log_prior_of_tree + post.log_score_of_tree if likely is None else post.log_posterior_of_tree


def _leaf_table(post: SampledPosterior, leaves: np.ndarray) -> tuple[dict[str, Any], np.ndarray]:
    """What the distinct leaves say, and which of them each of ``leaves`` (m,) is."""
    model = post.model
    rows = post.node_rows[leaves][:, None]
    values = post.node_values[leaves] if has_values_by_leaf(model) else np.empty((len(leaves), 0))
    distribution, kind = np.empty((len(leaves), 0)), None
    distributions = _distributions(post)
    if distributions is not None:
        distribution = np.column_stack([np.broadcast_to(part, len(post.node_stats))[leaves] for part in distributions])
        kind = "student" if isinstance(distributions, StudentT) else "negative binomial"
    texts = words_of_cells(model, post.node_stats[leaves])
    said, of_text = np.unique([""] * len(leaves) if texts is None else texts, return_inverse=True)
    every = np.column_stack([rows, values, distribution, of_text])
    found, of_leaf = np.unique(every, axis=0, return_inverse=True)
    d = values.shape[1]
    shown_digits = max([digits_of_range(column) for column in values.T], default=5)
    digits = 5 if model.classes_ is not None else shown_digits + 3
    # the last probability is what the others leave
    shown = d - 1 if model.classes_ is not None else d
    told = {
        "rows": [_figures(x, 6) for x in found[:, 0]],
        "values": [[_figures(x, digits) for x in line] for line in found[:, 1 : 1 + shown]] if d else None,
        "digits": shown_digits,
        "words": None if texts is None else [cut(str(said[int(k)]), LONGEST) for k in found[:, -1]],
        "kind": kind,
        "distributions": [[_figures(x, digits) for x in line] for line in found[:, 1 + d : -1]] if kind else None,
    }
    return told, of_leaf.reshape(-1)


def _distributions(post: SampledPosterior) -> StudentT | NegativeBinomial | None:
    """Distributions of a new y by node, where they are such as the page can draw."""
    model = post.model
    if model.classes_ is not None or not has_values_by_leaf(model) or not model.leaf.has_likelihood:
        return None
    try:
        distributions = model.leaf.predictive(post.node_stats, post._tree_of_place, model.target)
    except ValueError:
        # of several outputs, or a leaf of the caller's own that tells none
        return None
    return distributions if isinstance(distributions, StudentT | NegativeBinomial) else None


def _told_paths(post: SampledPosterior, paths: Paths, t: int) -> list[int]:
    """Paths of the nodes of tree ``t`` in preorder, left out below a node without one."""
    trees = post.coded_trees
    base, end = int(trees.offset[t]), int(trees.offset[t + 1])
    listed = np.zeros(end - base, dtype=np.bool_)
    listed[0] = True
    for i in range(end - base):
        if trees.feature[base + i] != LEAF and listed[i] and paths.of_node[base + i] >= 0:
            listed[i + 1] = listed[trees.right[base + i]] = True
    return paths.of_node[base:end][listed].tolist()


def _feature(post: SampledPosterior, k: int) -> dict[str, Any]:
    """What is asked of a row, and how."""
    columns = post.model.columns
    categories = columns.categories[k]
    told: dict[str, Any] = {
        "name": cut(str(columns.names[k]), LONGEST_NAME),
        "kind": columns.kind(k).name,
        "levels": [cut(str(level), LONGEST_NAME) for level in columns.kind(k).levels],
        "missing": columns.branches,
        "twin": k in columns.twins,
    }
    if categories is not None:
        labels = [cut(label_words(label), LONGEST_NAME) for label in categories.tolist()]
        told |= {"kind": "nominal", "categories": labels}
    return told


def _split(post: SampledPosterior, feature: int, node: int) -> list[Any]:
    """Return a split: the feature by its place in the page, the threshold or the categories going left, the default.

    The text of a threshold comes last. The threshold is None in a split of missing from known values.
    """
    trees = post.distinct_trees
    mask, default = int(trees.categories[node]), int(trees.default_left[node])
    if mask < 0:
        threshold = float(trees.threshold[node])
        if np.isnan(threshold):
            return [feature, None, default]
        low, high = (np.nan, np.nan) if post.node_between is None else post.node_between[node].tolist()
        text = threshold_text(threshold, low, high, post.model.columns.kind(int(trees.feature[node])))
        # JSON has no infinity; JavaScript reads the word
        number = threshold if np.isfinite(threshold) else f"{threshold}".replace("inf", "Infinity")
        return [feature, number, default, text]
    return [feature, [j for j in range(mask.bit_length()) if mask >> j & 1], default]


def _typical_row(post: SampledPosterior, used: np.ndarray) -> list[Any]:
    """Medians of ordered features and commonest categories; None where most rows lack the value."""
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
        upto = np.cumsum(rows[order])
        middle = float(column[order[np.searchsorted(upto, upto[-1] / 2.0)]])
        out.append(float(figure(middle, 5)) if model.columns.kind(k) == NUMBER else middle)
    return out


def _figures(x: float, digits: int) -> float | int | None:
    """The number to so many digits; None of what is not finite."""
    rounded = float(f"{float(x):.{digits}g}")
    if not np.isfinite(rounded):
        return None
    return int(rounded) if rounded == int(rounded) and abs(rounded) < 1e15 else rounded
