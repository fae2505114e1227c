"""The trees drawn, as the page needs them: their common decision paths, and some trees in compact form.

The icicle shows the paths. The script of the page sends rows down the trees.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...model.leaf.distributions import NegativeBinomial, StudentT
from ...model.model import words_of_cells
from ...table.words import NUMBER, digits_of_range, label_words, rounded_text, threshold_text, told_apart
from ...tree.arrays import LEAF
from ..draws import Draws
from ..ess import rhat_and_ess_by_tree
from ..laws import has_values_by_leaf
from ..trees.cells import MAX_ROWS
from ..trees.credible_set import CredibleSet
from ..trees.distances import evenly_spaced_integers, typical_values
from ..trees.shapes import weighted_quantiles
from .words import MAX_NAME_LENGTH, truncate, unit_words

MAX_TREES, MIN_TREES = 400, 10
"""Largest number of trees in a page beside the best ones, and the number that a page has even if trees are large."""
N_BEST_TREES = 40
"""Number of the most probable trees that a page always has, unless trees are large."""
MAX_TREES_BYTES = 220_000
"""Size of the trees in a page above which it gets fewer."""
MAX_PREDICTION_LENGTH = 240
"""Largest number of characters of the prediction of a leaf."""
MIN_PATH_WIDTH, MAX_PATH_DEPTH, MAX_PATHS = 0.004, 8, 300
"""Smallest probability that a training row takes a path that is shown, its largest depth, and their largest number."""
SMALLEST_FLOAT = np.finfo(np.float64).tiny
EXPECTATION_FAMILIES: dict[str, tuple[str, Callable[..., tuple[np.ndarray, ...]]]] = {
    "constant": ("beta", lambda value: (np.full(len(value), np.inf),)),
    "beta": ("beta", lambda a, b: (a + b,)),
    "t": ("student", lambda df, location, scale: (df, scale)),
    "gamma": ("gamma", lambda shape, location, scale: (shape, 1.0 / scale)),
    "gengamma": ("power of gamma", lambda shape, c, location, scale: (shape, scale, -1.0 / c)),
}
"""For each family of SciPy that `Leaf.expectation` returns: its name in page.js, and the parameters needed there."""


class CommonPaths(NamedTuple):
    """The most frequent decision paths: splits from the root, with their sides; parents before children."""

    parent: np.ndarray
    """(m,) int64: number of the path without its last split; -1 for path 0."""
    depth: np.ndarray
    """(m,) int64: number of splits."""
    cell: np.ndarray
    """(m,) int64: number in ``draws.cells`` of the last node's set of rows; of joined paths that in the best tree."""
    node: np.ndarray
    """(m,) int64: node at the end of the path in the most probable tree that has it, numbered over all trees."""
    above: np.ndarray
    """(m,) int64: node of that tree whose split leads there; -1 for path 0."""
    cut: np.ndarray
    """(m, 3) median of the thresholds of the last split of joined paths and the ends of their 90 % interval, or NaN."""
    probability: np.ndarray
    """(m,) probability that a tree has the path."""
    mcse: np.ndarray
    """(m,) Monte-Carlo standard error of ``probability``; NaN with fewer than 4 draws a chain."""
    stops: np.ndarray
    """(m,) probability that a tree has the path and ends there in a leaf."""
    rows: np.ndarray
    """(m,) fraction of the training rows that take the path, the mean over the trees that have it."""
    of_node: np.ndarray
    """(n_nodes,) int64: path to each node of the distinct trees; -1 if it is not among the ``m``."""

    @property
    def width(self) -> np.ndarray:
        """(m,) probability that a training row drawn at random takes the path in a tree drawn at random."""
        return self.probability * self.rows


def common_paths(sampled: Draws, join_cuts: bool = False) -> CommonPaths:
    """Return the paths that training rows take most often. Cost: O(nodes of all distinct trees)."""
    # these are up to 300 paths of up to 8 splits that a random training row takes in a random tree with probability
    # .004 or more. Without ``join_cuts``, splits that lead to different cells of training rows are different; with
    # it, cuts of an ordered feature are joined, whatever their thresholds.
    of_node, parents, splits, children = _all_paths(sampled, join_cuts)
    weight, m = sampled.weight_of_tree[sampled.cells.tree_of_node], len(parents)
    path, ends = np.repeat(np.arange(m), [len(nodes) for nodes in children]), np.concatenate(children).astype(np.int64)
    probability = np.bincount(path, weights=weight[ends], minlength=m)
    all_rows = max(float(sampled.node_rows[0]), SMALLEST_FLOAT)
    widths = np.bincount(path, weights=(weight * sampled.node_rows)[ends], minlength=m) / all_rows
    leaves = np.flatnonzero((of_node >= 0) & (sampled.distinct_trees.feature == LEAF))
    stops = np.bincount(of_node[leaves], weights=weight[leaves], minlength=m)
    parent = np.array(parents)
    depth = np.zeros(m, dtype=np.int64)
    for i in range(1, m):
        depth[i] = depth[parent[i]] + 1
    widths = np.where(depth <= MAX_PATH_DEPTH, widths, 0.0)
    widths[0] = np.inf
    frequent = np.argsort(-widths, kind="stable")[:MAX_PATHS]
    # a child is never wider than its parent, and of equal width comes later, so parents are among the frequent ones
    listed = np.sort(frequent[widths[frequent] >= MIN_PATH_WIDTH])
    key = sampled.order_key_of_tree[sampled.cells.tree_of_node]
    best = [(path, int(np.argmax(key[children[path]]))) for path in listed.tolist()]
    node, above = (np.array([nodes[path][i] for path, i in best]) for nodes in (children, splits))
    feature = np.full(m, LEAF)
    feature[listed] = sampled.distinct_trees.feature[above]
    order = _sort_paths(listed, parent, probability, feature)
    at = np.searchsorted(listed, order)
    place = np.full(m + 1, -1)
    place[order] = np.arange(len(order))
    path_probability = np.maximum(probability[order], SMALLEST_FLOAT)
    return CommonPaths(
        place[parent[order]],
        depth[order],
        sampled.cells.of_node[node[at]],
        node[at],
        above[at],
        np.array([_cut_interval(sampled, splits[path] if join_cuts else [-1]) for path in order.tolist()]),
        probability[order],
        _path_errors(sampled, place[of_node], len(order), probability[order]),
        stops[order],
        np.where(order == 0, 1.0, widths[order] / path_probability),
        place[of_node],
    )


def _all_paths(sampled: Draws, join_cuts: bool) -> tuple[np.ndarray, list[int], list[list[int]], list[list[int]]]:
    """Return all decision paths of the distinct trees: the path of each node (n_nodes,), and three lists by path."""
    # children of nodes on one path share a path if they have the same training rows or, with ``join_cuts``, are on
    # the same side of cuts of the same ordered feature, whatever the thresholds. A child with all rows of its
    # parent stays on the parent's path. A node without training rows has path -1. The lists are the parent of each
    # path, its last splits (nodes; -1 for path 0) in the trees that have it, and the nodes to which these splits
    # lead. Parents come first.
    trees, cells = sampled.coded_trees, sampled.cells
    feature, right, of_cell, ends = (a.tolist() for a in (trees.feature, trees.right, cells.of_node, trees.offset))
    joins = (join_cuts & (trees.categories < 0) & ~np.isnan(sampled.distinct_trees.threshold)).tolist()
    of_node, number = [-1] * len(feature), dict[tuple[int, int, int], int]()
    parents, splits, children = [-1], [[-1] * sampled.n_distinct_trees], [ends[:-1]]
    for t in range(sampled.n_distinct_trees):
        base = ends[t]
        of_node[base] = 0
        for i in range(base, ends[t + 1]):
            path = of_node[i]
            if path < 0 or feature[i] == LEAF:
                continue
            for child in (i + 1, base + right[i]):
                c = of_cell[child]
                if c < 0 or c == of_cell[i]:
                    # a split that does not divide the training rows does not make a longer path
                    of_node[child] = path if c >= 0 else -1
                    continue
                key = (path, feature[i], child == i + 1) if joins[i] else (path, -1, c)
                new = number.setdefault(key, len(parents))
                if new == len(parents):
                    parents.append(path)
                    splits.append([])
                    children.append([])
                of_node[child] = new
                splits[new].append(i)
                children[new].append(child)
    return np.array(of_node), parents, splits, children


def _cut_interval(sampled: Draws, splits: list[int]) -> tuple[float, float, float]:
    """Return the median of the thresholds of the nodes ``splits``, and the ends of their 90 % interval, over draws."""
    nodes = np.array(splits)
    if nodes[0] < 0 or sampled.distinct_trees.categories[nodes[0]] >= 0:
        return np.nan, np.nan, np.nan
    weight = sampled.weight_of_tree[sampled.cells.tree_of_node[nodes]]
    weight = weight if weight.any() else np.ones(len(nodes))
    lower, middle, upper = weighted_quantiles(sampled.distinct_trees.threshold[nodes], weight, 0.9)
    return middle, lower, upper


def _sort_paths(listed: np.ndarray, parent: np.ndarray, probability: np.ndarray, feature: np.ndarray) -> np.ndarray:
    """Return the paths ``listed`` with parents first, and the children of a path by feature, then by split."""
    below: dict[int, list[int]] = {}
    for i in listed[1:].tolist():
        below.setdefault(int(parent[i]), []).append(i)
    order = [0]
    for path in order:
        # the sides of a split have neighbouring numbers, the left one first
        children = below.get(path, [])
        of_feature: dict[int, float] = {}
        for i in children:
            of_feature[feature[i]] = of_feature.get(feature[i], 0.0) + probability[i]
        keys = {i: (-round(of_feature[feature[i]], 9), feature[i], -round(probability[i], 9), i) for i in children}
        order += sorted(children, key=keys.__getitem__)
    return np.array(order)


def _path_errors(sampled: Draws, of_node: np.ndarray, m: int, probability: np.ndarray) -> np.ndarray:
    """Return the Monte-Carlo standard errors (m,) of the ``probability`` (m,) of paths."""
    in_tree = np.zeros((m, sampled.n_distinct_trees), dtype=np.bool_)
    listed = of_node >= 0
    in_tree[of_node[listed], sampled.cells.tree_of_node[listed]] = True
    ess = rhat_and_ess_by_tree(in_tree, sampled.tree_of_draw)[1]
    return np.sqrt(np.maximum(probability * (1.0 - probability), 0.0) / ess)


def trees_for_page(sampled: Draws, credible_set: CredibleSet | None, paths: CommonPaths) -> dict[str, Any]:
    """Return up to MAX_TREES trees, fewer if they exceed MAX_TREES_BYTES, down to MIN_TREES, as `pack_trees` does."""
    most = MAX_TREES
    while True:
        packed = pack_trees(sampled, credible_set, paths, most)
        size = len(json.dumps(packed, separators=(",", ":")))
        if size <= MAX_TREES_BYTES or most <= MIN_TREES:
            return packed
        most = max(min(int(0.9 * most * MAX_TREES_BYTES / size), most - 1), MIN_TREES)


def select_trees(sampled: Draws, credible_set: CredibleSet | None, most: int) -> tuple[np.ndarray, np.ndarray, str]:
    """Return distinct trees to be shown, the best first."""
    fraction, key = sampled.weight_of_tree, sampled.order_key_of_tree
    trees = np.arange(sampled.n_distinct_trees)
    if len(trees) <= most:
        weight, description = fraction, f"all {len(trees)} distinct trees drawn"
    else:
        best = trees[np.argsort(-key[trees], kind="stable")]
        n_draws = sampled.tree_of_draw.size
        draws = sampled.tree_of_draw.ravel()[evenly_spaced_integers(n_draws, most)]
        weight = np.bincount(draws, minlength=len(fraction)) / len(draws)
        trees = np.union1d(draws, best[: min(N_BEST_TREES, most // 4) if credible_set else 0])
        description = f"the trees of {len(draws)} of {n_draws} draws, evenly spaced"
    trees = trees[np.lexsort((-fraction[trees], -key[trees]))]
    return trees, weight[trees], description


def pack_trees(sampled: Draws, credible_set: CredibleSet | None, paths: CommonPaths, most: int) -> dict[str, Any]:
    """Return about ``most`` trees as a dictionary for page.js, with tables of features, splits and leaves."""
    chosen_trees, weight, description = select_trees(sampled, credible_set, most)
    trees, coded = sampled.distinct_trees, sampled.coded_trees
    nodes, offset = coded.nodes_of(chosen_trees), coded.offset
    inner, leaves = nodes[trees.feature[nodes] != LEAF], nodes[trees.feature[nodes] == LEAF]
    features = np.unique(trees.feature[inner])
    number = np.zeros(len(trees.feature), dtype=np.int64)
    first, number[inner] = _distinct_splits(sampled, inner)
    leaf_table, of_leaf = _leaf_table(sampled, leaves)
    number[leaves] = -1 - of_leaf
    place = np.zeros(sampled.model.n_features, dtype=np.int64)
    place[features] = np.arange(len(features))
    log_posterior, start = ordering_log_posterior(sampled, credible_set), _typical_row(sampled, features)
    return {
        "features": [_feature_content(sampled, int(k), value) for k, value in zip(features, start, strict=True)],
        "start": start,
        "splits": [_split_content(sampled, int(place[trees.feature[i]]), int(i)) for i in inner[first]],
        "leaves": leaf_table,
        "trees": [
            {
                "nodes": number[slice(*offset[t : t + 2])].tolist(),
                "weight": _round_for_json(w, 6),
                "fraction": _round_for_json(sampled.weight_of_tree[t], 6),
                "log_posterior": None if log_posterior is None else round(float(log_posterior[t]), 3),
                "level": None
                if credible_set is None or log_posterior is None
                else _round_for_json(credible_set.level_at(float(log_posterior[t])), 4),
                "paths": _paths_of_tree(sampled, paths, t),
            }
            for t, w in zip(chosen_trees.tolist(), weight.tolist(), strict=True)
        ],
        "description": description,
    }


def ordering_log_posterior(sampled: Draws, credible_set: CredibleSet | None) -> np.ndarray | None:
    """Return the log posterior (n_distinct_trees,) by which trees are ordered, nats, unnormalised."""
    if not sampled.sees_all_rows:
        return None
    if credible_set is not None:
        return sampled.log_posterior_of_tree
    return sampled.log_prior_of_tree + sampled.log_score_of_tree


def _distinct_splits(sampled: Draws, inner: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the index in ``inner`` at which each distinct split first occurs, and the split of each entry."""
    trees = sampled.distinct_trees
    columns = [trees.feature[inner], trees.categories[inner], trees.default_left[inner], trees.threshold[inner]]
    if sampled.node_between is not None:
        # the text of a threshold depends on the values next to it
        columns += [*sampled.node_between[inner].T]
    # NaN is not equal to itself
    key = np.nan_to_num(np.column_stack(columns).astype(np.float64), nan=np.inf, posinf=np.inf, neginf=-np.inf)
    _, first, of_inner = np.unique(key, axis=0, return_index=True, return_inverse=True)
    return first, of_inner.reshape(-1)


def _leaf_table(sampled: Draws, leaves: np.ndarray) -> tuple[dict[str, Any], np.ndarray]:
    """Return a table of the distinct leaves among ``leaves`` (m,), and the line (m,) of each of these nodes."""
    model, m = sampled.model, len(leaves)
    values = sampled.place_values[leaves] if has_values_by_leaf(model) else np.empty((m, 0))
    distributions, kind, parameters = _distributions(sampled), None, np.empty((m, 0))
    if distributions is not None:
        parameters = np.column_stack([np.broadcast_to(x, len(sampled.place_stats))[leaves] for x in distributions])
        kind = "student" if isinstance(distributions, StudentT) else "negative binomial"
    texts = words_of_cells(model, sampled.place_stats[leaves])
    distinct_texts, of_text = np.unique([""] * m if texts is None else texts, return_inverse=True)
    expectation_kind, of_expectation = _expectations(sampled)
    table = np.column_stack([sampled.node_rows[leaves], values, parameters, of_expectation[leaves], of_text])
    distinct, of_leaf = np.unique(table, axis=0, return_inverse=True)
    d, is_classes = values.shape[1], model.classes_ is not None
    shown_digits = max([digits_of_range(column) for column in values.T], default=5)
    digits = 5 if is_classes else shown_digits + 3
    end = 1 + d + parameters.shape[1]
    # the last probability is what the others leave
    stored_values = distinct[:, 1 : d if is_classes else 1 + d]
    return {
        "rows": [_round_for_json(x, 6) for x in distinct[:, 0]],
        "values": [[_round_for_json(x, digits) for x in line] for line in stored_values] if d else None,
        "digits": shown_digits,
        "words": None
        if texts is None
        else [truncate(distinct_texts[int(k)], MAX_PREDICTION_LENGTH) for k in distinct[:, -1]],
        "kind": kind,
        "distributions": [[_round_for_json(x, digits) for x in line] for line in distinct[:, 1 + d : end]]
        if kind
        else None,
        "expectation_kind": expectation_kind,
        "expectations": [[_round_for_json(x, digits) for x in line] for line in distinct[:, end:-1]]
        if expectation_kind
        else None,
    }, of_leaf.reshape(-1)


def _expectations(sampled: Draws) -> tuple[str | None, np.ndarray]:
    """Return the family of the posterior of E(y), or of class probabilities, given the tree, and its parameters."""
    model, nothing = sampled.model, np.empty((len(sampled.place_stats), 0))
    if not (has_values_by_leaf(model) and model.leaf.has_expectation):
        return None, nothing
    try:
        first = model.leaf.expectation(sampled.place_stats, sampled.place_tree, model.target)[0]
    except ValueError:
        # a leaf of the caller's own can only draw E(y)
        return None, nothing
    if first.family not in EXPECTATION_FAMILIES:
        return None, nothing
    name, select = EXPECTATION_FAMILIES[first.family]
    return name, np.column_stack(select(*first.parameters))


def _distributions(sampled: Draws) -> StudentT | NegativeBinomial | None:
    """Return the predictive distribution of a new y in each node (n_nodes,), or None if page.js cannot evaluate it."""
    model = sampled.model
    if model.classes_ is not None or not has_values_by_leaf(model) or not model.leaf.has_likelihood:
        return None
    try:
        distributions = model.leaf.predictive(sampled.place_stats, sampled.place_tree, model.target)
    except ValueError:
        # a leaf of the caller's own without distributions
        return None
    return distributions if isinstance(distributions, StudentT | NegativeBinomial) else None


def _paths_of_tree(sampled: Draws, paths: CommonPaths, t: int) -> list[int]:
    """Return the path of each node of distinct tree ``t`` in preorder, -1 if it has none, without nodes below such."""
    trees = sampled.coded_trees
    base, end = int(trees.offset[t]), int(trees.offset[t + 1])
    listed = np.zeros(end - base, dtype=np.bool_)
    listed[0] = True
    for i in range(end - base):
        if trees.feature[base + i] != LEAF and listed[i] and paths.of_node[base + i] >= 0:
            listed[i + 1] = listed[trees.right[base + i]] = True
    return paths.of_node[base:end][listed].tolist()


def _feature_content(sampled: Draws, k: int, value: Any) -> dict[str, Any]:
    """Return feature ``k`` for page.js: its ``name``, ``kind``, ``levels``, ``missing``, ``twin`` and ``unit``."""
    columns = sampled.model.columns
    kind, categories = columns.kind(k), columns.categories[k]
    feature: dict[str, Any] = {
        "name": truncate(columns.names[k], MAX_NAME_LENGTH),
        "kind": kind.name,
        "levels": [truncate(level, MAX_NAME_LENGTH) for level in kind.levels],
        "missing": columns.branches,
        "twin": k in columns.twins,
        "unit": unit_words(kind, value or 0.0),
    }
    if categories is not None:
        labels = [truncate(label_words(label), MAX_NAME_LENGTH) for label in told_apart(categories.tolist())]
        feature |= {"kind": "nominal", "categories": labels}
    return feature


def _split_content(sampled: Draws, feature: int, node: int) -> list[Any]:
    """Return the split of a node for page.js: feature, threshold or categories, default side, text of the threshold."""
    trees = sampled.distinct_trees
    mask, default = int(trees.categories[node]), int(trees.default_left[node])
    if mask >= 0:
        return [feature, [j for j in range(mask.bit_length()) if mask >> j & 1], default]
    threshold = float(trees.threshold[node])
    if np.isnan(threshold):
        return [feature, None, default]
    low, high = (np.nan, np.nan) if sampled.node_between is None else sampled.node_between[node].tolist()
    text = threshold_text(threshold, low, high, sampled.model.columns.kind(int(trees.feature[node])))
    # JSON has no infinity; JavaScript reads the word
    number = threshold if np.isfinite(threshold) else f"{threshold}".replace("inf", "Infinity")
    return [feature, number, default, text]


def _typical_row(sampled: Draws, features: np.ndarray) -> list[Any]:
    """Return a typical row as values of these ``features``, with which the form of the page starts."""
    model = sampled.model
    values = typical_values(model, MAX_ROWS)
    out: list[Any] = []
    for k, median in zip(features.tolist(), values[features].tolist(), strict=True):
        if np.isnan(median):
            out.append(None)
        elif model.columns.categories[k] is not None:
            out.append(int(median))
        else:
            if np.isinf(median):
                # the model knows of such rows only that they are above the last cut
                cuts = np.append(model.scales[k].cuts, 0.0)
                median = float(cuts[-2] + max(np.ptp(cuts[:-1]), 1.0)) if len(cuts) > 1 else 0.0
            out.append(float(rounded_text(median, 5)) if model.columns.kind(k) == NUMBER else median)
    return out


def _round_for_json(x: float, digits: int) -> float | int | None:
    """Return a number to so many significant digits, None if it is not finite."""
    rounded = float(f"{float(x):.{digits}g}")
    if not np.isfinite(rounded):
        return None
    return int(rounded) if rounded == int(rounded) and abs(rounded) < 1e15 else rounded
