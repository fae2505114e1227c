"""The posterior mean projected on one small tree, and how much of it the tree explains.

After Woody, Carvalho, Murray, *Model interpretation through lower-dimensional posterior summarization*, Journal of
Computational and Graphical Statistics 30 (2021).
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...core.checks import central_fractions, check_count
from ...core.names import limited_lines
from ...model.split_prior.base import LOCAL, LOCAL_TRIVIAL
from ...model.words import names_of_outputs
from ...tree.arrays import LEAF
from ...tree.coded import CODED_NODE, from_records, weight_of_nodes
from ...tree.drawn import in_data_units, values_between
from ...tree.export import value_lines
from ...tree.tree import Tree
from .cells import identifying_rows
from .distances import merged_row_sizes, predictions_at
from .paths import conditions_in_words, path_to

if TYPE_CHECKING:
    import pandas as pd

    from ...model import TreeModel
    from ..draws import DrawnTrees

MAX_PREDICTIONS_IN_MEMORY = 1 << 22
"""Largest number of predictions in memory at a time."""
MAX_ROOT_SPLITS = 8
"""Largest number of features whose best split is tried at the root."""
MIN_RELATIVE_GAIN = 1e-12
"""Smallest reduction of the sum of squares for which a split is added, relative to the total sum of squares."""


class Projection(NamedTuple):
    """A small tree that summarises the posterior."""

    tree: Tree
    """Tree whose nodes predict the mean, over up to 2,000 distinct training rows, of the posterior mean.

    The rows of a node are all training rows in it.
    """
    r2: float
    """Fraction of the variance of the posterior mean, over training rows, that the tree explains."""
    r2_draws: np.ndarray
    """(chains, draws): fraction of the variance of each draw's predictions that means over the same leaves explain."""
    leaf: np.ndarray
    """(L,) int64: numbers of the nodes of ``tree`` that are leaves."""
    leaf_draws: np.ndarray
    """(chains, draws, L, d): mean of each draw's predictions over the rows of each leaf."""
    words: list[str]
    """(L,) the conditions that lead to each leaf."""
    outputs: list
    """(d,) names of the predicted numbers: the classes, or the outputs of a regression."""

    def table(self, coverage: float = 0.9) -> pd.DataFrame:
        """Return the leaves with their values and intervals of posterior probability ``coverage``, as a DataFrame.

        Parameters
        ----------
        coverage : float, default 0.9
            Posterior probability of the intervals, in (0, 1); equal tails.

        Returns
        -------
        DataFrame
            Columns words, rows, output (the class, or the name of the output), value, lower, upper.

        Raises
        ------
        ValueError
            If ``coverage`` is out of range.
        """
        import pandas as pd

        fractions = central_fractions(coverage)
        flat = self.leaf_draws.reshape(-1, *self.leaf_draws.shape[2:])
        lower, upper = np.quantile(flat, fractions, axis=0)
        assert self.tree.value is not None
        assert self.tree.rows is not None
        n, d = lower.shape
        return pd.DataFrame(
            {
                "words": np.repeat(np.array(self.words, dtype=object), d),
                "rows": np.repeat(self.tree.rows[self.leaf], d),
                "output": self.outputs * n,
                "value": self.tree.value[self.leaf].ravel(),
                "lower": lower.ravel(),
                "upper": upper.ravel(),
            }
        )

    def __repr__(self) -> str:
        return limited_lines(f"Projection({self.tree.n_leaves} leaves, R2 {self.r2:.3f})\n{self.tree.format()}")


def projection_of(post: DrawnTrees, max_leaves: int, mean: Any) -> Projection:
    """Return the projection of the posterior mean on a tree of at most ``max_leaves`` leaves; see `Posterior.project`.

    ``mean`` is a function from numbers (m,) of merged rows, groups of equal training rows, to the posterior mean (m, d)
    of the predictions, or None to use the mean of the draws.
    """
    max_leaves = check_count("max_leaves", max_leaves, 1)
    model = post.model
    if not model.leaf.predicts:
        raise ValueError(f"{type(model.leaf).__name__} predicts nothing; a projection needs predictions.")
    merged_rows = identifying_rows(model)[0]
    weight = merged_row_sizes(model, merged_rows)
    response = _mean_of_draws(post, merged_rows) if mean is None else mean(merged_rows)
    nodes, leaf_of_row = grow_summary(model, merged_rows, response, weight, max_leaves)
    leaf = np.flatnonzero(nodes["feature"] == LEAF)
    leaf_weight = np.eye(len(nodes))[leaf_of_row][:, leaf] * weight[:, None]
    r2, values = np.empty(post.n_distinct_trees), np.empty((post.n_distinct_trees, len(leaf), response.shape[1]))
    step = max(MAX_PREDICTIONS_IN_MEMORY // max(response.size, 1), 1)
    for start in range(0, post.n_distinct_trees, step):
        trees = np.arange(start, min(start + step, post.n_distinct_trees))
        r2[trees], values[trees] = explained_by(predictions_at(post, trees, merged_rows), leaf_weight, weight)
    tree = _as_tree(model, nodes, leaf_of_row, response, weight)
    draws = post.tree_of_draw
    paths = [[c for _, c in path_to(tree.arrays, tree.between, 0, int(i))] for i in leaf]
    words = [conditions_in_words(model.columns, path) for path in paths]
    explained = float(explained_by(response[None], leaf_weight, weight)[0][0])
    names = names_of_outputs(model, response.shape[1])
    return Projection(tree, explained, r2[draws], leaf, values[draws], words, names)


def _mean_of_draws(post: DrawnTrees, merged_rows: np.ndarray) -> np.ndarray:
    """Return the mean over the draws of their predictions, (m, d), at the ``merged_rows`` (m,), given by number."""
    drawn_trees = np.flatnonzero(post.weight_of_tree)
    step = max(MAX_PREDICTIONS_IN_MEMORY // max(len(merged_rows), 1), 1)
    chunks = [drawn_trees[start : start + step] for start in range(0, len(drawn_trees), step)]
    return np.sum(
        [np.tensordot(post.weight_of_tree[c], predictions_at(post, c, merged_rows), 1) for c in chunks], axis=0
    )


def explained_by(values: np.ndarray, leaf_weight: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Approximate functions by their means in leaves; return the R² (k,) and the means (k, L, d) of each function.

    ``values`` (k, m, d) are k functions at m rows with ``weight`` (m,), and ``leaf_weight`` (m, L) is the weight of
    each row in its leaf, 0 in all others. The R² is of squares summed over the d outputs; 1 for a constant function.
    """
    # R2 = sum over leaves of w_leaf mean_leaf^2 / sum over rows of w f^2, for f less its mean
    total_weight = leaf_weight.sum(axis=0)
    centred = values - np.tensordot(values, weight, (1, 0))[:, None] / weight.sum()
    means = np.einsum("kmd,ml->kld", centred, leaf_weight, optimize=True) / total_weight[:, None]
    total = np.einsum("kmd,m->k", centred**2, weight)
    explained = np.einsum("kld,l->k", means**2, total_weight)
    square = np.einsum("kmd,m->k", values**2, weight)
    is_constant = total <= 1e-20 * square
    fraction = np.where(is_constant, 1.0, explained / np.where(is_constant, 1.0, total)).clip(0.0, 1.0)
    return fraction, means + np.tensordot(values, weight, (1, 0))[:, None] / weight.sum()


def grow_summary(
    model: TreeModel, merged_rows: np.ndarray, response: np.ndarray, weight: np.ndarray, max_leaves: int
) -> tuple[np.ndarray, np.ndarray]:
    """Grow a least-squares tree for a function ``response`` (m, d) of the ``merged_rows`` (m,) with ``weight`` (m,).

    One tree is grown from each of the 8 best splits of the root, each on another feature. The split that lowers the sum
    of squares most is added until there are ``max_leaves`` leaves, or no split lowers it. Returns the best of these
    trees, as records of its nodes in preorder, dtype CODED_NODE, and the node number (m,) of the leaf of each row.
    Merged rows, groups of equal training rows, are given by number.
    """
    min_gain = MIN_RELATIVE_GAIN * float(
        (weight[:, None] * (response - np.average(response, axis=0, weights=weight)) ** 2).sum()
    )
    roots = sorted(_best_splits(model, merged_rows, response, weight), key=lambda split: -split.gain)[:MAX_ROOT_SPLITS]
    roots = [root for root in roots if root.gain > min_gain]
    if not roots or max_leaves == 1:
        return _as_records([np.arange(len(merged_rows))], {}, weight)
    candidates = [_grow_from_root(model, merged_rows, response, weight, max_leaves, root, min_gain) for root in roots]
    return _as_records(*max(candidates, key=lambda tree: tree[0])[1:], weight)


def _grow_from_root(
    model: TreeModel,
    merged_rows: np.ndarray,
    response: np.ndarray,
    weight: np.ndarray,
    max_leaves: int,
    root: _SummarySplit,
    min_gain: float,
) -> tuple[float, list[np.ndarray], dict[int, tuple[_SummarySplit, int, int]]]:
    """Grow a least-squares tree as `grow_summary`, from the split ``root``, best split first.

    Splits that lower the sum of squares by at most ``min_gain`` are not made. Returns the total reduction of the sum of
    squares, the indices in ``merged_rows`` of the rows of each node, nodes in the order of creation, and for each inner
    node its split and the numbers of its left and right child in that order.
    """
    rows_of_node, total_gain = [np.arange(len(merged_rows))], 0.0
    split_of_node: dict[int, tuple[_SummarySplit, int, int]] = {}
    heap = [(-root.gain, 0, root)]
    while heap and len(split_of_node) + 1 < max_leaves:
        _, number, split = heappop(heap)
        total_gain += split.gain
        split_of_node[number] = (split, len(rows_of_node), len(rows_of_node) + 1)
        rows_of_node += [rows_of_node[number][split.left], rows_of_node[number][~split.left]]
        for child in split_of_node[number][1:]:
            rows = rows_of_node[child]
            best = max(
                _best_splits(model, merged_rows[rows], response[rows], weight[rows]), key=lambda s: s.gain, default=None
            )
            if best is not None and best.gain > min_gain:
                heappush(heap, (-best.gain, child, best))
    return total_gain, rows_of_node, split_of_node


def _as_records(
    rows_of_node: list[np.ndarray], split_of_node: dict[int, tuple[_SummarySplit, int, int]], weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the nodes in preorder, dtype CODED_NODE, and the preorder number (m,) of the leaf of each row.

    ``rows_of_node`` are the indices of the rows in each node, nodes in the order of creation, and ``split_of_node`` the
    split and the two children of each inner node, both as `_grow_from_root` returns. ``weight`` (m,) is that of rows;
    missing values go to the side of a split with more of it.
    """
    order, todo = [], [0]
    while todo:
        number = todo.pop()
        order.append(number)
        todo += split_of_node[number][:0:-1] if number in split_of_node else ()
    nodes, leaf_of_row = np.zeros(len(order), dtype=CODED_NODE), np.empty(len(weight), dtype=np.int64)
    nodes["feature"], nodes["categories"] = LEAF, -1
    for place, number in enumerate(order):
        if number not in split_of_node:
            leaf_of_row[rows_of_node[number]] = place
            continue
        split = split_of_node[number][0]
        nodes["feature"][place], nodes["cut"][place], nodes["upper"][place] = split.coordinate, split.cut, split.upper
        nodes["categories"][place], nodes["right"][place] = split.categories, order.index(split_of_node[number][2])
        nodes["default_left"][place] = (
            2.0 * weight[rows_of_node[number]][split.left].sum() >= weight[rows_of_node[number]].sum()
        )
    return nodes, leaf_of_row


class _SummarySplit(NamedTuple):
    """A split of m rows by the integer codes of their values."""

    gain: float
    """Reduction of the weighted sum of squares."""
    coordinate: int
    """Number of the feature, or of one of two copies of a feature with missing values: a row of ``units.codes``."""
    cut: int
    """Largest code that goes left; 0 for a nominal feature."""
    upper: int
    """Smallest code right of the cut; 0 for a nominal feature."""
    categories: int
    """Bits of the categories going left, -1 for an ordered feature."""
    left: np.ndarray
    """(m,) bool: True for rows that go left."""


def _best_splits(
    model: TreeModel, merged_rows: np.ndarray, response: np.ndarray, weight: np.ndarray
) -> Iterator[_SummarySplit]:
    """Yield for each coordinate the split that lowers the sum of squares of ``response`` (m, d) most.

    The m rows are ``merged_rows`` (m,), given by number, with ``weight`` (m,). A coordinate is a feature, or one of two
    copies of a feature with missing values. A coordinate that is constant on these rows yields no split.
    """
    nominal = model.columns.is_nominal[model.columns.source]
    centred = (response - np.average(response, axis=0, weights=weight)) * weight[:, None]
    for c in range(len(nominal)):
        code = model.units.codes[c, merged_rows].astype(np.int64)
        codes, position = np.unique(code, return_inverse=True)
        if len(codes) < 2:
            continue
        size = np.bincount(position, weights=weight)
        sums = np.column_stack([np.bincount(position, weights=column) for column in centred.T])
        order = np.arange(len(codes))
        if nominal[c]:
            # in the order of the means of f, along the direction in which they vary most
            order = np.argsort(_along_main_axis(sums / size[:, None], size), kind="stable")
        # the sums s of both sides are opposite, so the sum of squares falls by |s|^2 / w_left + |s|^2 / w_right
        left_size, left_sum = np.cumsum(size[order])[:-1], np.cumsum(sums[order], axis=0)[:-1]
        gain = (left_sum**2).sum(axis=1) * (1.0 / left_size + 1.0 / (size.sum() - left_size))
        i = int(np.argmax(gain))
        left = np.isin(position, order[: i + 1])
        if not nominal[c]:
            yield _SummarySplit(float(gain[i]), c, int(codes[i]), _next_code(model, codes, i), -1, left)
            continue
        mask = int(np.bitwise_or.reduce(np.int64(1) << codes[order[: i + 1]]))
        if 2.0 * left_size[i] >= size.sum():
            all_categories = (1 << int(model.n_codes[c])) - 1
            mask |= all_categories & ~int(np.bitwise_or.reduce(np.int64(1) << codes))
        yield _SummarySplit(float(gain[i]), c, 0, 0, mask, left)


def _next_code(model: TreeModel, codes: np.ndarray, i: int) -> int:
    """Return the smallest code that goes right of a cut after ``codes[i]``.

    Under local cuts, which depend on the cell, it is ``codes[i + 1]``, otherwise ``codes[i] + 1``. ``codes`` are the
    distinct ones in the cell, ascending; a code is the integer by which a value is stored.
    """
    return int(codes[i + 1]) if model.split_prior.kind in (LOCAL, LOCAL_TRIVIAL) else int(codes[i]) + 1


def _along_main_axis(means: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Return the coordinates (k,) of ``means`` (k, d) along their main axis, the first right singular vector.

    Categories are ordered by them. Rows are weighted by ``size`` (k,), and not centred here. The sign of the axis is
    such that its largest entry is positive. With d = 1 the coordinates are ``means`` itself.
    """
    if means.shape[1] == 1:
        return means[:, 0]
    axis = np.linalg.svd(means * np.sqrt(size)[:, None], full_matrices=False)[2][0]
    return means @ axis * np.sign(axis[np.argmax(np.abs(axis))])


def _as_tree(
    model: TreeModel, nodes: np.ndarray, leaf_of_row: np.ndarray, response: np.ndarray, weight: np.ndarray
) -> Tree:
    """Return the Tree of the records ``nodes``, with thresholds in the units of X, and means of ``response`` as values.

    ``leaf_of_row`` (m,) is the leaf of each row, ``weight`` (m,) its weight in the means. The outputs of a regression
    with several have their names in the text of the tree.
    """
    rows = np.bincount(leaf_of_row, weights=weight, minlength=len(nodes))
    sums = np.column_stack(
        [np.bincount(leaf_of_row, weights=weight * column, minlength=len(nodes)) for column in response.T]
    )
    for i in range(len(nodes) - 1, -1, -1):
        if nodes["feature"][i] != LEAF:
            rows[i] = rows[i + 1] + rows[nodes["right"][i]]
            sums[i] = sums[i + 1] + sums[nodes["right"][i]]
    coded = from_records(nodes, np.array([0, len(nodes)]))
    _, feature, threshold, left, right, categories, default_left = in_data_units(model, coded)
    value, words = sums / rows[:, None], None
    if model.classes_ is None and response.shape[1] > 1:
        lines = value_lines(value, None, None, coded.feature == LEAF, names=names_of_outputs(model, response.shape[1]))
        words = [", ".join(line) for line in lines]
    return Tree(
        feature,
        threshold,
        left,
        right,
        categories,
        default_left,
        value=value,
        columns=model.columns,
        classes=model.classes_,
        rows=weight_of_nodes(coded, model.units.codes, merged_row_sizes(model, np.arange(model.units.n_units))),
        between=values_between(model, coded),
        words=words,
    )
