"""One tree for many: the consensus tree of the cells that most trees have, the typical tree, and a choice of both."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...core.bits import codes_go_left
from ...core.checks import Seed, check_choice, check_count, check_flag, check_number, check_type
from ...core.names import short_repr
from ...model.words import lines_of_cells
from ...table.words import count_text
from ...tree.arrays import leaf_values
from ...tree.export import MOST_CLASSES
from ...tree.tree import Tree, stack_trees
from ..draws import DrawnTrees, has_values_by_leaf
from ..protocol import AnyPosterior
from .cells import rows_looked_at, training_points
from .distances import KINDS, distances_between
from .joined import ancestors_of_groups, exact_groups, join_cells
from .paths import ALL_ROWS, Condition, conditions_in_words, path_to
from .projection import Projection, projection_of
from .shapes import Shape, cut_text, shapes_of, weighted_quantiles
from .support import check_drawn

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...table.columns import Columns

    Cuts = dict[tuple[int, bool], tuple[float, float]]

MAJORITY = 0.5
"""Probability from which the most probable shape is recommended: then no other shape is as probable."""
CERTAIN = 1e-9
"""Largest rounding error of a probability of 1."""
N_ROWS = 200
"""Largest number of training rows at which predictions are compared."""
AT_ONCE = 256
"""Number of trees whose predictions are in memory at a time."""


class ConsensusTree(NamedTuple):
    """The cells that more than half of the trees have, each below the smallest one that contains it.

    Nodes are in preorder, node 0 has all rows. A node has one child if its other rows are in no majority cell, and more
    than two if most trees divide it further but not by the same split.
    """

    words: list[str]
    """(m,) the conditions that lead from the parent to the node."""
    support: np.ndarray
    """(m,) probability that a tree has the cell."""
    rows: np.ndarray
    """(m,) training rows in the cell; a row counts as often as its weight says. Of joined cells it is the mean over the
    trees that also have the parent."""
    rest: np.ndarray
    """(m,) rows of the node outside all its children; 0 for a node without children."""
    parent: np.ndarray
    """(m,) int64; -1 for node 0."""
    depth: np.ndarray
    """(m,) int64."""
    value: np.ndarray | None
    """(m, d) prediction of a leaf with these rows: class probabilities, or the mean; None if it depends on the row or
    the leaf predicts nothing."""
    classes: np.ndarray | None
    """(K,) class labels; None for regression."""
    key: list[tuple[int, ...]]
    """(m,) equal for the same cell in every posterior of the model, as in `Support`."""
    said: list[list[str]]
    """(m,) the prediction of a leaf with these rows as lines of text; no lines if the leaf predicts nothing."""

    def children(self, node: int) -> list[int]:
        """Return the children of ``node``."""
        return np.flatnonzero(self.parent == node).tolist()

    def format(self) -> str:
        """Return the tree as indented text, one line for each node: conditions, rows, support, and prediction.

        Examples
        --------
        >>> import exact, pactree_mcmc as pt
        >>> truth = exact.solve(pt.TreeModel([[float(x)] for x in range(30)], [x >= 15 for x in range(30)]))
        >>> print(truth.consensus_tree().format())
        all rows (30 rows) False: 0.500, True: 0.500
        |-- x0 <= 14.5 [11.5, 16.5] (15 rows, support 1.00) False: 0.941, True: 0.059
        `-- x0 > 14.5 [11.5, 16.5] (15 rows, support 1.00) False: 0.059, True: 0.941
        """
        lines: list[str] = []
        todo = [(0, "", "")]
        while todo:
            node, here, below = todo.pop()
            lines.append(here + self._line(node))
            for child in reversed(self.children(node)):
                last = child == self.children(node)[-1]
                todo.append((child, below + ("`-- " if last else "|-- "), below + ("    " if last else "|   ")))
        return "\n".join(lines)

    def _line(self, node: int) -> str:
        facts = [count_text(float(self.rows[node]))]
        if node > 0:
            facts.append(f"support {self.support[node]:.2f}")
        if self.rest[node] > 0.0:
            facts.append(f"{count_text(float(self.rest[node]))} in no child")
        return f"{self.words[node]} ({', '.join(facts)}) {', '.join(self.said[node])}".rstrip()

    def __str__(self) -> str:
        return self.format()


def consensus_of(
    post: DrawnTrees, probability: np.ndarray, min_support: float, join_cuts: bool = True
) -> ConsensusTree:
    """Return the majority tree, given the ``probability`` (n_cells,) of exact cells; see `Posterior.consensus_tree`.

    Two groups of cells that each have a probability above one half are both in some tree, so they are nested or
    disjoint there.
    """
    min_support = check_number("min_support", min_support, "a number 0.5..1", 0.5, 1.0)
    check_flag("join_cuts", join_cuts)
    needed = min(min_support, 1.0 - CERTAIN)
    groups = join_cells(post, probability, needed) if join_cuts else exact_groups(post, probability)
    chosen = np.union1d([0], np.flatnonzero(groups.probability > needed)).astype(np.int64)
    nodes = _most_probable_nodes(post, groups.of_node, chosen)
    units = rows_looked_at(post.model)[0]
    inside = np.array([rows_of_node(post, node, units) for node in nodes.tolist()])
    parent = _parents(ancestors_of_groups(post, groups.of_node, chosen))
    pairs = [_nodes_of_both(post, groups.of_node, *chosen[[parent[i], i]].tolist()) for i in range(1, len(chosen))]
    paths = [_path(post, some, int(nodes[i])) for i, some in enumerate(pairs, 1)]
    above = _conditions_above(parent, paths)
    joined = groups.is_joined[chosen]
    cuts = [_cut_intervals(post, some) if joined[[parent[i], i]].any() else {} for i, some in enumerate(pairs, 1)]
    columns = post.model.columns
    words = [ALL_ROWS, *(_words(columns, paths[i], above[i + 1], cuts[i]) for i in range(len(paths)))]
    order = _preorder(parent, _places(parent, [[], *paths], inside, post.model.units.codes[:, units]))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    model, stats = post.model, post.node_stats[nodes[order]]
    rows = post.node_rows[nodes]
    for i, some in enumerate(pairs, 1):
        rows[i] = _mean_rows(post, some) if joined[i] and some else rows[i]
    rows = rows[order]
    up = np.where(parent[order] < 0, -1, rank[parent[order]])
    depth, below = np.zeros(len(order), dtype=np.int64), np.zeros(len(order))
    for i in range(1, len(order)):
        depth[i] = depth[up[i]] + 1
        below[up[i]] += rows[i]
    return ConsensusTree(
        [words[i] for i in order],
        np.concatenate([[1.0], groups.probability[chosen[order[1:]]]]),
        rows,
        np.where(below > 0.0, np.maximum(rows - below, 0.0), 0.0),
        up,
        depth,
        np.asarray(model.leaf.value(stats, model.target)) if has_values_by_leaf(model) else None,
        model.classes_,
        [tuple(word) for word in post.cells.key[post.cells.of_node[nodes[order]]].tolist()],
        lines_of_cells(model, stats, MOST_CLASSES),
    )


def _mean_rows(post: DrawnTrees, pairs: list[tuple[int, int]]) -> float:
    """Return the mean number of training rows in the lower nodes of pairs, rounded; each tree has its weight."""
    node = np.array(pairs)[:, 1]
    weight = post.weight_of_tree[post.cells.tree_of_node[node]]
    return float(np.rint(np.average(post.node_rows[node], weights=weight if weight.any() else None)))


def _most_probable_nodes(post: DrawnTrees, of_node: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Return the node (m,), counted over all trees, of each group in the most probable tree that has it."""
    log_posterior = (post.log_prior_of_tree + post.log_score_of_tree)[post.cells.tree_of_node]
    order = np.argsort(-log_posterior, kind="stable")
    present, first = np.unique(of_node[order], return_index=True)
    return order[first[np.searchsorted(present, chosen)]]


def rows_of_node(post: DrawnTrees, node: int, units: np.ndarray) -> np.ndarray:
    """Return which of the distinct rows ``units`` (m,) pass a node, counted over all trees: (m,) bool."""
    trees, codes = post.coded_trees, post.model.units.codes
    inside = np.ones(len(units), dtype=np.bool_)
    for above, condition in path_to(post.distinct_trees, None, int(post.cells.tree_of_node[node]), node):
        values, cut, categories = codes[trees.feature[above], units], trees.cut[above], int(trees.categories[above])
        inside &= codes_go_left(values, cut, categories) == condition.left
    return inside


def _parents(is_above: np.ndarray) -> np.ndarray:
    """Return the lowest group above each group, given which (m, m) are above; -1 for that of all rows."""
    n_above, parent = is_above.sum(axis=1), np.full(len(is_above), -1)
    for i in range(1, len(is_above)):
        # a group above i has fewer groups above it than i, so that no circle can arise
        candidates = [j for j in np.flatnonzero(is_above[i]).tolist() if n_above[j] < n_above[i]]
        parent[i] = max(candidates, key=lambda j: n_above[j], default=0)
    return parent


def _conditions_above(parent: np.ndarray, paths: list[list[Condition]]) -> list[list[Condition]]:
    """Return the conditions from the root to the parent of each node; ``paths`` lead from the parent to the node."""
    out: list[list[Condition]] = []
    for i in range(len(parent)):
        out.append([])
        node = int(parent[i])
        while node > 0:
            out[-1] += paths[node - 1]
            node = int(parent[node])
    return out


def _path(post: DrawnTrees, pairs: list[tuple[int, int]], alone: int) -> list[Condition]:
    """Return the conditions between the two nodes of a pair, in the most probable tree of the ``pairs``.

    If no tree drawn has both groups, return the conditions from the root to the node ``alone``.
    """
    tree_of_node, above, node = post.cells.tree_of_node, -1, alone
    if pairs:
        log_posterior = post.log_prior_of_tree + post.log_score_of_tree
        above, node = max(pairs, key=lambda pair: log_posterior[tree_of_node[pair[1]]])
    path = path_to(post.distinct_trees, post.node_between, int(tree_of_node[node]), node)
    return [condition for at, condition in path if at >= above]


def _nodes_of_both(post: DrawnTrees, of_node: np.ndarray, parent: int, child: int) -> list[tuple[int, int]]:
    """Return the nodes of two groups in each tree that has both, the first above the second."""
    tree_of_node = post.cells.tree_of_node
    # a split that separates no rows repeats the cell: the path begins below the last one
    last = {int(tree_of_node[node]): node for node in np.flatnonzero(of_node == parent).tolist()}
    first = {int(tree_of_node[node]): node for node in np.flatnonzero(of_node == child).tolist()[::-1]}
    return [(last[t], first[t]) for t in sorted(last.keys() & first.keys()) if last[t] < first[t]]


def _cut_intervals(post: DrawnTrees, pairs: list[tuple[int, int]]) -> Cuts:
    """Return the 90 % interval of each cut between the nodes of ``pairs``, by feature and side, if the trees differ."""
    values: dict[tuple[int, bool], list[tuple[float, float]]] = {}
    for above, node in pairs:
        tree = int(post.cells.tree_of_node[node])
        tightest: dict[tuple[int, bool], float] = {}
        for at, condition in path_to(post.distinct_trees, None, tree, node):
            if at >= above and condition.categories < 0 and np.isfinite(condition.threshold):
                side, pick = (condition.feature, condition.left), min if condition.left else max
                tightest[side] = pick(condition.threshold, tightest.get(side, condition.threshold))
        for side, threshold in tightest.items():
            values.setdefault(side, []).append((threshold, float(post.weight_of_tree[tree])))
    out = {}
    for side, cuts in values.items():
        thresholds, weight = np.array(cuts).T
        lower, _, upper = weighted_quantiles(thresholds, weight, 0.9)
        if lower < upper:
            out[side] = (lower, upper)
    return out


def _words(columns: Columns, path: list[Condition], above: list[Condition], cuts: Cuts) -> str:
    """Return the conditions of a path as text, each cut with its interval."""
    texts = []
    for k in dict.fromkeys(condition.feature for condition in path):
        of_feature = [condition for condition in path if condition.feature == k]
        if (k, False) in cuts or (k, True) in cuts:
            texts += _cuts_in_words(columns, k, of_feature, cuts)
        else:
            texts.append(conditions_in_words(columns, of_feature, above))
    return ", ".join(texts)


def _cuts_in_words(columns: Columns, k: int, conditions: list[Condition], cuts: Cuts) -> list[str]:
    """Return the lower and the upper bound of feature ``k`` as texts, with the intervals that they have."""
    missing = " or missing" if k in columns.twins and all(c.missing_left == c.left for c in conditions) else ""
    texts = []
    for left, tightest in ((False, max), (True, min)):
        thresholds = [c.threshold for c in conditions if c.left == left and np.isfinite(c.threshold)]
        if not thresholds:
            continue
        text = f"{columns.names[k]} {'<=' if left else '>'} {cut_text(columns, k, tightest(thresholds))}"
        if (k, left) in cuts:
            text += f" [{', '.join(cut_text(columns, k, end) for end in cuts[k, left])}]"
        texts.append(text + missing)
    return texts


def _places(parent: np.ndarray, paths: list[list[Condition]], inside: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return sort keys (m,) of the children of a node: those whose first condition holds come before the others.

    Three or more are ordered by the mean code (p, rows) of their rows along one feature: the feature with thresholds in
    the conditions of most of them, if two have one in common.
    """
    place = np.array([0.0, *(float(not path[0].left) for path in paths[1:])])
    for node in range(len(parent)):
        children = np.flatnonzero(parent == node)
        features = [k for i in children for k in {c.feature for c in paths[i] if c.categories < 0}]
        if len(children) < 3 or not features:
            continue
        count = np.bincount(features)
        if count.max() >= 2:
            place[children] = [codes[count.argmax(), inside[i]].mean() for i in children]
    return place


def _preorder(parent: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Return the nodes in preorder, children by their ``place`` (m,)."""
    order, todo = [], [0]
    while todo:
        node = todo.pop()
        order.append(node)
        children = np.flatnonzero(parent == node)
        todo += children[np.argsort(-place[children], kind="stable")].tolist()
    return np.array(order)


def typical_tree(posterior: AnyPosterior, n_draws: int = 1000, rng: Seed = 0, *, distance: str = "predictions") -> Tree:
    """Return the tree of the posterior that is closest to all others.

    A central tree, whereas the most probable tree is the mode. By predictions it is the tree whose predictions are
    closest to those of the posterior, in mean square over up to 200 training rows; among the trees drawn it is also the
    one with the smallest mean squared distance to all draws. By cells it is the tree that differs from a draw in the
    fewest cells on average, by partitions the one whose leaves divide the training rows most nearly as those of a draw
    do.

    Parameters
    ----------
    posterior : Posterior
        For a sampled one, all trees drawn are candidates.
    n_draws : int, default 1000
        Number of candidates drawn from an exact posterior.
    rng : int, SeedSequence, Generator or None
        Source of randomness for those draws.
    distance : {"predictions", "cells", "partitions"}, default "predictions"
        As of `SampledPosterior.tree_distances`.

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
    if check_choice("distance", distance, KINDS) != "predictions":
        return middle_tree(posterior._as_draws(n_draws, rng), distance)
    tree: Callable[[int], Tree]
    if isinstance(posterior, DrawnTrees):
        check_drawn(posterior)
        stacked, value, tree = posterior.distinct_trees, posterior.node_values, posterior.distinct_tree
    else:
        drawn = posterior.draw_trees(check_count("n_draws", n_draws), rng)
        stacked, value, tree = stack_trees(drawn), np.concatenate([t.value for t in drawn]), drawn.__getitem__
    X = training_points(posterior.model, N_ROWS)[1]
    mean, distances = posterior._values(X), []
    for first in range(0, len(stacked.offset) - 1, AT_ONCE):
        some = stacked._replace(offset=stacked.offset[first : first + AT_ONCE + 1])
        distances.append(((leaf_values(some, value, X) - mean) ** 2).sum(axis=(1, 2)))
    return tree(int(np.argmin(np.concatenate(distances))))


def middle_tree(post: DrawnTrees, distance: str) -> Tree:
    """Return the tree whose mean distance from all draws, by "cells" or "partitions", is least."""
    check_drawn(post)
    if distance == "cells":
        # of the sum over cells only those that the tree has depend on it
        cells, p = post.cells, post.cells.frequencies(post.weight_of_tree)
        summed = np.concatenate([[0.0], np.cumsum(1.0 - 2.0 * p[cells.member])])
        from_all = summed[cells.offset[1:]] - summed[cells.offset[:-1]]
        return post.distinct_tree(int(np.argmin(np.where(post.weight_of_tree > 0.0, from_all, np.inf))))
    distances = distances_between(post, None, distance)
    return post.distinct_tree(int(distances.tree[np.argmin(distances.matrix.sum(axis=1))]))


class Representatives(NamedTuple):
    """Four trees that can represent a posterior in a paper."""

    def __repr__(self) -> str:
        return short_repr(self)

    shape: Shape
    """The most probable shape: the features of its splits, with intervals of cuts and leaves."""
    consensus: ConsensusTree
    """The cells that more than half of the trees have."""
    best: Tree
    """The most probable tree."""
    best_probability: float
    """Posterior probability of the most probable tree; for draws, the fraction of them that have it."""
    projection: Projection | None
    """The tree of as many leaves as the shape whose predictions are closest to the posterior mean, or None if the
    prediction of a leaf depends on the row."""

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
        chosen = self.shape if self.recommended == "shape" else self.consensus
        return "\n".join([*lines, f"{reason}:", chosen.format()])

    def __str__(self) -> str:
        return self.format()


def representatives_of(post: AnyPosterior, draws: int, rng: Seed) -> Representatives:
    """Return trees that represent a posterior; see `Posterior.representatives`."""
    drawn = post._draws_that_predict(draws, rng)
    shape = shapes_of(drawn, 1, 0.9).shapes[0]
    best = post.map_tree()
    log_joint, log_evidence = getattr(post, "map_log_joint", None), post.log_evidence
    if drawn is post or log_joint is None or log_evidence is None:
        t = int(np.argmax(drawn.log_prior_of_tree + drawn.log_score_of_tree))
        probability = float(drawn.weight_of_tree[t])
    else:
        probability = float(np.exp(log_joint - log_evidence))
    projection = None
    if has_values_by_leaf(post.model):
        projection = projection_of(drawn, max(shape.tree.n_leaves, 2), post._mean_at)
    consensus = consensus_of(drawn, post._cell_probability(drawn), MAJORITY)
    return Representatives(shape, consensus, best, probability, projection)
