"""Trees grouped by shape. Two trees have the same shape if they split on the same features, whatever the cuts."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...core.checks import Seed, central_fractions, check_count
from ...core.texts import limited_lines, with_short_repr
from ...model.model import TreeModel, class_index, words_of_cells
from ...table.words import categories_text, count_text, rounded_texts, shortened
from ...tree.arrays import LEAF, iterate_nodes, node_depths
from ...tree.tree import Tree
from ..convergence import caveat_of
from ..distribution import TreeDistribution, documented, draws_of, refuse_other_leaves
from ..draws import Draws
from ..rows.predictions import credible_interval_of_nodes
from .distances import weighted_quantile
from .paths import Condition, beside_all_rows, condition_of, cut_words, interval_of_cut, stats_of_units, units_on_side

if TYPE_CHECKING:
    import pandas as pd


MAX_CLASSES, MAX_CLASS_LETTERS = 8, 32
"""Largest number of classes in a leaf of a shape, and of letters of the name of one."""
CERTAIN = 0.995
"""Probability above which trees of a shape are said to agree. It is 1.00 in two digits."""
CHILD_LINES = ("`-- no:  ", "    "), ("|-- yes: ", "|   ")
"""Beginnings of the line of a child of a split, and of the lines below that child."""


@with_short_repr
class Shape(NamedTuple):
    """All trees that split on the same features at the same places."""

    probability: float
    """Posterior probability of the shape."""
    by_chain: np.ndarray
    """(chains,) the probability estimated from each chain."""
    n_trees: int
    """Number of distinct trees drawn that have the shape."""
    tree: Tree
    """The most probable tree of the shape."""
    splits: pd.DataFrame
    """One line for each split in preorder; the index is the node, counted in preorder.

    ``depth``; ``feature``, its name; ``cut``, the median of the thresholds, with the interval ``lower`` to ``upper``
    (NaN for a split of categories or of missing values); ``missing_left``, the probability given the shape that missing
    values go left (NaN if the feature has none); ``words``, the condition of the left side, with this probability if
    trees differ; ``agreement``, the probability of the most probable set of categories given the shape (1 for a
    threshold).
    """
    leaves: pd.DataFrame
    """One line for each leaf, of a classification for each leaf and ``class``: ``node``, ``rows`` (number of training
    rows that the splits in ``words`` of ``splits`` send there, counted with their weights), ``mean``, the prediction of
    a leaf with these rows, and the credible interval ``lower`` to ``upper``, over the trees of the shape, of the
    expectation of y, or of the class probability. If the prediction of a leaf depends on columns of X, the only other
    column is ``words``: the prediction of a leaf with these rows as text, such as ``y = 1.2 + 3.4 x0``. There are no
    other columns either if leaves predict nothing.
    """

    def format(self, label: Any = None) -> str:
        """Return the shape as indented text, with an interval for each cut and each leaf.

        Parameters
        ----------
        label : optional
            Class whose probability each leaf shows. Default: of two classes the more probable one, else all.

        Raises
        ------
        ValueError
            If ``label`` is not a class.
        """
        column = _column_of_label(self, label)
        lines: list[str] = []
        leaves = dict(iter(self.leaves.groupby("node", sort=False)))
        is_binary = self.tree.classes is not None and len(self.tree.classes) == 2
        todo = [("", "")]
        for node in range(2 * len(self.splits) + 1):
            prefix, child_prefix = todo.pop()
            if node in leaves:
                lines.append(prefix + _leaf_text(leaves[node], is_binary, column))
                continue
            lines.append(prefix + str(self.splits.loc[node, "words"]))
            todo += [(child_prefix + branch, child_prefix + bar) for branch, bar in CHILD_LINES]
        return "\n".join(lines)

    def __str__(self) -> str:
        return limited_lines(self.format())


@with_short_repr
class Shapes(NamedTuple):
    """The most probable shapes of the trees of a posterior, the most probable first."""

    shapes: list[Shape]
    """The shapes that are described, the most probable first."""
    of_draw: np.ndarray
    """(chains, draws) int64: index in ``shapes`` of the shape of each draw, -1 if it is not among them."""
    n_shapes: int
    """Number of different shapes among all draws."""
    coverage: float
    """Posterior probability of each interval of a cut or of a leaf."""
    caveat: str = ""
    """Line with which the text begins: what can be used of draws that have not converged. Empty if they have."""
    remark: str = ""
    """Text that says that intervals of leaves are over trees alone, if the leaf has no draws of E(y); else empty."""

    def table(self) -> pd.DataFrame:
        """Return the probabilities as a DataFrame.

        Returns
        -------
        DataFrame
            Columns probability, trees (distinct ones drawn), leaves, features, and "chain 0" and so on.
        """
        import pandas as pd

        columns = {
            "probability": [shape.probability for shape in self.shapes],
            "trees": [shape.n_trees for shape in self.shapes],
            "leaves": [shape.tree.n_leaves for shape in self.shapes],
            "features": [", ".join(dict.fromkeys(shape.splits["feature"])) for shape in self.shapes],
        }
        by_chain = np.array([shape.by_chain for shape in self.shapes])
        return pd.DataFrame(columns | {f"chain {c}": column for c, column in enumerate(by_chain.T)})

    def format(self, label: Any = None) -> str:
        """Return the most probable shape as text, ``label`` as of `Shape.format`, and the others' probabilities."""
        first, next_shapes = self.shapes[0], self.shapes[1:6]
        intervals = f"{100.0 * self.coverage:g} % intervals in brackets{self.remark}"
        lines = [self.caveat] * bool(self.caveat)
        lines += [f"most probable shape: probability {first.probability:.3f}, {intervals}"]
        lines += [first.format(label)]
        if next_shapes:
            others = ", ".join(f"{shape.probability:.3f}" for shape in next_shapes)
            lines.append(f"next shapes: {others}; {self.n_shapes} shapes in all")
        return "\n".join(lines)

    def __str__(self) -> str:
        return limited_lines(self.format())


class ValueStrip(NamedTuple):
    """The mean of a leaf of a shape, or the probability of a class in it, and its interval."""

    name: str
    """Class; empty for a regression."""
    texts: list[str]
    """Mean, lower end and upper end of the interval as text."""
    place: list[float]
    """The same three as fractions of the axis, which all leaves share; probabilities go from 0 to 1."""


def _column_of_label(shape: Shape, label: Any) -> int | None:
    """Return the index of the class ``label`` of a shape, None for None; raise a ValueError if it is not a class."""
    return None if label is None else class_index(shape.tree.classes, label)


def value_strips(shape: Shape, label: Any = None) -> dict[int, list[ValueStrip]]:
    """Return the strips of each leaf of a shape, by node; empty lists if leaves have no values."""
    # of the class ``label`` alone; by default of the last of two classes, or of all
    table, column = shape.leaves, _column_of_label(shape, label)
    out: dict[int, list[ValueStrip]] = {int(node): [] for node in table["node"]}
    if "mean" not in table:
        return out
    if "class" not in table:
        low, span = table["lower"].min(), (table["upper"].max() - table["lower"].min()) or 1.0
        for node, *ends in table[["node", "mean", "lower", "upper"]].itertuples(index=False):
            out[int(node)].append(ValueStrip("", rounded_texts(ends, 2), [(end - low) / span for end in ends]))
        return out
    classes = list(dict.fromkeys(table["class"]))
    listed: Any = set(table.groupby("class", sort=False)["mean"].max().nlargest(MAX_CLASSES).index)
    if column is not None:
        classes = listed = [classes[column]]
    for label in classes[1:] if len(classes) == 2 else classes:
        lines = table[table["class"] == label] if label in listed else table[:0]
        for node, *ends in lines[["node", "mean", "lower", "upper"]].itertuples(index=False):
            name = shortened(str(label), MAX_CLASS_LETTERS)
            out[int(node)].append(ValueStrip(name, [f"{p:.2f}" for p in ends], ends))
    return out


class ShapeNumbers(NamedTuple):
    """Shapes of the distinct trees of a posterior, numbered by first occurrence."""

    of_tree: np.ndarray
    """(n_distinct_trees,) int64: the number of the shape of each tree."""
    nodes: list[np.ndarray]
    """For each distinct tree its nodes, numbered over all trees, in preorder, nominal splits in a standard order."""
    left_categories: dict[int, int]
    """Bits of the categories on the left of each nominal split, by node, among those that the splits above admit."""


@documented
def shapes(
    post: TreeDistribution, most: int = 10, coverage: float = 0.9, *, draws: int = 4000, rng: Seed = 0
) -> Shapes:
    """Return the trees grouped by the features of their splits alone, with intervals of their cuts and leaves.

    Parameters
    ----------
    most : int, default 10
        Largest number of shapes that are described, the most probable ones.
    {coverage}
    {draws_4000}

    Returns
    -------
    Shapes
        ``.shapes[0]`` is the most probable shape, which ``print`` shows; ``.table()`` has all probabilities.

    {raises}

    Notes
    -----
    Two trees have the same shape if the same features are split at the same places, whatever the thresholds and
    the sets of categories. So the posterior of a thousand distinct trees is often that of a few shapes. Intervals
    of cuts are over the trees of the shape, those of leaves, as of `credible_interval`, over these trees and the
    leaf parameters, or over these trees alone, as the text says, if the leaf model has no draws of E(y). O(nodes of
    the distinct trees), in plain Python.

    Examples
    --------
    >>> import numpy as np, pactree_mcmc as pt
    >>> x = np.arange(30.0)
    >>> post = pt.sample(pt.TreeModel(x[:, None], x > 14), 500, tune=50, chains=2, rng=1, kernel="grow-prune")
    >>> post.shapes().shapes[0].splits["feature"].tolist()
    ['x0']
    """
    refuse_other_leaves(post)
    sampled = draws_of(post, draws, rng)
    max_shapes = check_count("most", most)
    central_fractions(coverage)
    numbers = number_shapes(sampled)
    probability = np.bincount(numbers.of_tree, weights=sampled.weight_of_tree)
    order = np.argsort(-probability, kind="stable")[:max_shapes]
    rank = np.full(len(probability), -1)
    rank[order] = np.arange(len(order))
    of_draw = rank[numbers.of_tree][sampled.tree_of_draw]
    described = []
    for i, number in enumerate(order.tolist()):
        trees = np.flatnonzero(numbers.of_tree == number)
        by_chain = (of_draw == i).mean(axis=1)
        described.append(_describe_shape(sampled, numbers, trees, float(probability[number]), by_chain, coverage))
    remark = interval_remark(sampled.model)
    return Shapes(described, of_draw, len(probability), float(coverage), caveat_of(post), remark)


def interval_remark(model: TreeModel) -> str:
    """Return what follows the words "intervals in brackets" if those of leaves are over trees alone, else ""."""
    has_intervals = model.leaf.predicts and model.leaf.x_columns is None
    return ", those of leaves over trees alone" if has_intervals and not model.leaf.has_expectation else ""


def number_shapes(draws: Draws) -> ShapeNumbers:
    """Number the shapes of the distinct trees: which features they split on, and where in the tree."""
    # a split of missing from known values is not the same as one at a threshold. Its left side is taken to be that
    # of the missing values, and the left side of a split of categories the one with the first category of the cell,
    # so that a split with its sides exchanged has the same shape. Nodes are numbered over all trees.
    trees, columns = draws.distinct_trees, draws.model.columns
    feature, categories, default_left = trees.feature.tolist(), trees.categories.tolist(), trees.default_left.tolist()
    splits_missing = (np.isnan(trees.threshold) & (trees.categories < 0) & (trees.feature != LEAF)).tolist()
    all_categories = {k: (1 << len(labels)) - 1 for k, labels in enumerate(columns.categories) if labels is not None}
    left_categories: dict[int, int] = {}

    def children_in_order(node: int, admitted: dict[int, int], left: int, right: int) -> list[tuple[int, dict]]:
        """Return both children in their standard order, with the bits of the categories that each cell admits."""
        k = feature[node]
        if categories[node] < 0:
            is_exchanged = splits_missing[node] and not default_left[node]
            return [(child, admitted) for child in ((right, left) if is_exchanged else (left, right))]
        sides = [(left, admitted[k] & categories[node]), (right, admitted[k] & ~categories[node])]
        # the lowest bit of a side is its first category; a side without any comes last
        sides.sort(key=lambda side: side[1] & -side[1] or math.inf)
        left_categories[node] = sides[0][1]
        return [(child, admitted | {k: bits}) for child, bits in sides]

    number_of_shape: dict[tuple, int] = {}
    number, nodes = [], []
    for t in range(draws.n_distinct_trees):
        order = [(node, k) for node, k, _ in iterate_nodes(trees, t, all_categories, children_in_order)]
        key = tuple((k, splits_missing[node]) for node, k in order)
        number.append(number_of_shape.setdefault(key, len(number_of_shape)))
        nodes.append(np.array([node for node, _ in order]))
    return ShapeNumbers(np.array(number), nodes, left_categories)


def _describe_shape(
    draws: Draws, numbers: ShapeNumbers, trees: np.ndarray, probability: float, by_chain: np.ndarray, coverage: float
) -> Shape:
    """Return the description of one shape, which the distinct ``trees`` (m,), given by number, have."""
    # ``numbers`` are those of the shapes of all trees. ``probability`` and ``by_chain`` (chains,) are the fractions
    # of draws that have it, in all and by chain, and ``coverage`` is that of the intervals of cuts and leaf values.
    nodes = np.array([numbers.nodes[t] for t in trees.tolist()])
    weight = draws.weight_of_tree[trees] / draws.weight_of_tree[trees].sum()
    best = int(trees[np.argmax(draws.order_key_of_tree[trees])])
    splits = _table_of_splits(draws, numbers, nodes, weight, coverage)
    leaves = _table_of_leaves(draws, nodes, weight, coverage, _units_of_leaves(draws, numbers, splits, nodes, weight))
    return Shape(probability, by_chain, len(trees), draws.distinct_tree(best), splits, leaves)


def _table_of_splits(
    draws: Draws, numbers: ShapeNumbers, nodes: np.ndarray, weight: np.ndarray, coverage: float
) -> pd.DataFrame:
    """Return the table ``Shape.splits``, cut and interval of each split, of m trees of a shape with ``weight`` (m,)."""
    import pandas as pd

    trees, between, columns = draws.distinct_trees, draws.node_between, draws.model.columns
    feature = trees.feature[nodes[0]]
    depth = node_depths(trees)[nodes[0]].tolist()
    lines = []
    for j in np.flatnonzero(feature != LEAF).tolist():
        k = int(feature[j])
        line = {"node": j, "depth": depth[j], "feature": columns.names[k], "cut": np.nan, "lower": np.nan}
        line |= {"upper": np.nan, "missing_left": np.nan, "words": f"{columns.names[k]} is missing", "agreement": 1.0}
        if columns.categories[k] is not None:
            best, mass = _most_probable_categories(numbers, nodes[:, j], weight)
            agreed = "" if mass > CERTAIN else f" ({mass:.2f})"
            text = columns.names[k] + categories_text(columns.label_set(k, best)) + agreed
            line |= {"words": text, "agreement": mass}
        elif not np.isnan(trees.threshold[nodes[0, j]]):
            thresholds = trees.threshold[nodes[:, j]]
            lower, cut, upper = weighted_quantiles(thresholds, weight, coverage)
            # the text of a threshold depends on the values next to it, here those of the most frequent tree with it
            node = int(nodes[np.argmax(np.where(thresholds == cut, weight, -1.0)), j])
            condition, ends = condition_of(trees, between, node), interval_of_cut(draws.model, k, lower, upper)
            if len(weight) > 1:
                condition = beside_all_rows(draws.model, condition)
            text = f"{columns.names[k]} {cut_words(columns, condition, ends)}"
            if k in columns.twins:
                line["missing_left"] = probability = float(weight @ trees.default_left[nodes[:, j]])
                text += or_missing(probability)
            line |= {"cut": cut, "lower": lower, "upper": upper, "words": text}
        elif columns.categories[k] is None:
            line["missing_left"] = 1.0
        lines.append(line)
    names = ["node", "depth", "feature", "cut", "lower", "upper", "missing_left", "words", "agreement"]
    return pd.DataFrame(lines, columns=names).set_index("node")


def _units_of_leaves(
    draws: Draws, numbers: ShapeNumbers, splits: pd.DataFrame, nodes: np.ndarray, weight: np.ndarray
) -> list[np.ndarray]:
    """Return for each leaf of a shape the units (merged rows) that the printed splits send there, (n_units,) bool."""
    model, trees = draws.model, draws.distinct_trees
    is_leaf = trees.feature[nodes[0]] == LEAF
    is_inside, masks = [], [np.ones(model.units.n_units, dtype=np.bool_)]
    for j in range(len(is_leaf)):
        here = masks.pop()
        if is_leaf[j]:
            is_inside.append(here)
            continue
        k = int(trees.feature[nodes[0, j]])
        line, categories = splits.loc[j], -1
        if model.columns.categories[k] is not None:
            categories = _most_probable_categories(numbers, nodes[:, j], weight)[0]
        missing_left = k in model.columns.twins and line["missing_left"] >= 0.5
        left = units_on_side(model, Condition(k, float(line["cut"]), categories, bool(missing_left), True))
        masks += [here & ~left, here & left]
    return is_inside


def _most_probable_categories(numbers: ShapeNumbers, nodes: np.ndarray, weight: np.ndarray) -> tuple[int, float]:
    """Return the most probable set of categories on the left of nominal splits, as bits, and its weight."""
    mass: dict[int, float] = defaultdict(float)
    for node, w in zip(nodes.tolist(), weight.tolist(), strict=True):
        mass[numbers.left_categories[node]] += w
    best = max(mass, key=lambda mask: mass[mask])
    return best, mass[best]


def or_missing(probability: float) -> str:
    """Return what follows the condition of the left side of a split, given P(missing values go left)."""
    # the printed rule, whose rows are counted, sends them to the more probable side
    return "" if probability < 0.5 else " or missing" + ("" if probability > CERTAIN else f" ({probability:.2f})")


def _table_of_leaves(
    draws: Draws, nodes: np.ndarray, weight: np.ndarray, coverage: float, is_inside_leaf: list[np.ndarray]
) -> pd.DataFrame:
    """Return the table ``Shape.leaves`` of m trees with ``weight`` (m,); ``is_inside_leaf`` are the units of each."""
    import pandas as pd

    model, leaves = draws.model, np.flatnonzero(draws.distinct_trees.feature[nodes[0]] == LEAF)
    rows = np.array([model.weight_of_unit[is_inside].sum() for is_inside in is_inside_leaf])
    stats = np.array([stats_of_units(model, is_inside, draws.place_stats.shape[1]) for is_inside in is_inside_leaf])
    if not model.leaf.predicts or model.leaf.x_columns is not None:
        texts = words_of_cells(model, stats) if model.leaf.predicts else None
        return pd.DataFrame({"node": leaves, "rows": rows} | ({} if texts is None else {"words": texts}))
    mean = np.asarray(model.leaf.value(stats, model.target))
    if model.leaf.has_expectation:
        ends = credible_interval_of_nodes(draws, nodes[:, leaves], weight, coverage)
    else:
        ends = _interval_over_trees(draws.place_values[nodes[:, leaves]], weight, coverage)
    d = mean.shape[1]
    return pd.DataFrame(
        {"node": np.repeat(leaves, d), "rows": np.repeat(rows, d)}
        | ({} if model.classes_ is None else {"class": model.classes_.tolist() * len(leaves)})
        | {"mean": mean.ravel(), "lower": ends[..., 0].ravel(), "upper": ends[..., 1].ravel()}
    )


def _interval_over_trees(values: np.ndarray, weight: np.ndarray, coverage: float) -> np.ndarray:
    """Return the central intervals (l, d, 2), over m trees, of the predictions ``values`` (m, l, d) of l leaves."""
    m, n_leaves, d = values.shape
    ends = [weighted_quantiles(column, weight, coverage)[::2] for column in values.reshape(m, -1).T]
    return np.array(ends).reshape(n_leaves, d, 2)


def weighted_quantiles(values: np.ndarray, weight: np.ndarray, coverage: float) -> tuple[float, float, float]:
    """Return lower end, median and upper end of the central interval of ``values`` (m,)."""
    # each value has ``weight`` (m,); the interval has weight ``coverage`` of the total. All three are among
    # ``values``.
    lower, middle, upper = weighted_quantile(values, weight, np.insert(central_fractions(coverage), 1, 0.5)).tolist()
    return lower, middle, upper


def _leaf_text(leaf: pd.DataFrame, is_binary: bool, column: int | None) -> str:
    """Return ``leaf``, the lines of ``Shape.leaves`` on one leaf, as text, those of class ``column`` or of all."""
    rows = f"({count_text(float(leaf['rows'].iloc[0]))})"
    if "mean" not in leaf:
        return f"leaf {leaf['words'].iloc[0]} {rows}" if "words" in leaf else f"leaf {rows}"
    reported = leaf.loc[[leaf["mean"].idxmax()]] if is_binary else leaf
    reported = reported if column is None else leaf.iloc[[column]]
    texts = []
    for line in reported.to_dict("records"):
        ends = rounded_texts((line["mean"], line["lower"], line["upper"]), 3)
        name = f"{line['class']}: " if "class" in line else ""
        texts.append(f"{name}{ends[0]} [{ends[1]}, {ends[2]}]")
    return f"{', '.join(texts)} {rows}"
