"""Implementation of `exact.best_trees` and `exact.trees_within`: a search, then the graph of the trees near the best.

A cell is a set of points, stored as W words of bits. The number of its rows, the weights of its classes and the errors
that no tree can avoid are sums over points of whole numbers. For each binary digit of these numbers there is a *plane*,
the set of the points whose number has this digit. So a sum is a weighted sum of numbers of common bits of two sets,
which processors count in one instruction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from pactree_mcmc.core.checks import check_count, check_number, check_type
from pactree_mcmc.core.compile.pack import pack
from pactree_mcmc.model import DirichletMultinomial, PacBayesLoss, TreeModel
from pactree_mcmc.model.split_prior.geometry import call_uncompiled, has_empty_sides, is_weighted, parts_rows
from pactree_mcmc.tree.tree import Tree

from ..answers import best_sums
from ..exploring import TreesWithin
from ..graph.arrays import distinct_points
from ..graph.building import build_graph, refuse_drawn_weights, refuse_shared_leaves
from ..graph.cells import CellGraph
from ..graph.designs import cell_scores
from ..limits.intractable import check_cells
from ..posterior import BestTrees
from ..recursion.terms import by_slot, with_terms
from ..recursion.trees import as_draws, grow_chosen_trees, rank_trees
from .search import (
    EVALUATED,
    MAX_EVALUATED,
    N_SUMS,
    ROWS,
    Memo,
    Problem,
    SearchPath,
    best_value,
    list_splits,
    scores_into,
)

MAX_PATH_BYTES = 1 << 28
"""Largest memory, in bytes, of the sets of points by code, and of the splits of the cells on a path."""
MAX_LISTED_CATEGORIES = 12
"""Largest number of categories of a feature: the partitions of more are too many to be listed in every cell."""
MAX_TOTAL_WEIGHT = 1 << 20
"""Largest sum of the weights. Scores are tabulated for all whole numbers up to this sum."""


@dataclass
class Cell:
    """A cell at one depth, with the splits that trees near the best one have."""

    bits: np.ndarray  # (W,) uint64: its points
    stats: np.ndarray  # (n_stats,) float64: sufficient statistics
    sums: np.ndarray  # (N_SUMS,) int64: number of rows, and of errors that no tree avoids
    need: float = -np.inf  # Smallest value of a tree below the cell that is part of a tree near the best one
    depth: int = 0
    can_split: bool = False  # True if the cell has a split, near the best tree or not
    edges: tuple[np.ndarray, ...] = ()  # Left and right child, coordinate, split and log R of each split


def has_bounds(model: TreeModel) -> bool:
    """Return True if class counts bound scores: local cuts, neither trivial nor weighted, few categories."""
    rule = model.lowered.split_prior
    is_listed = ~rule.feature.nominal | (rule.feature.n_codes <= MAX_LISTED_CATEGORIES) | (rule.feature.weight <= 0.0)
    return bool(
        call_uncompiled(parts_rows, rule)
        and not call_uncompiled(has_empty_sides, rule)
        and not call_uncompiled(is_weighted, rule)
        and rule.n_open == 1
        and type(model.leaf) in (DirichletMultinomial, PacBayesLoss)
        and is_listed.all()
    )


def new_problem(model: TreeModel, penalty: float | None) -> tuple[Problem, Cell] | None:
    """Return the problem of the search and its root cell; None if not `has_bounds`, or if memory is short.

    Also None if weights are not whole, or large. With a ``penalty`` the objective is errors plus penalty per leaf.
    """
    if not has_bounds(model):
        return None
    points, rule, limit = distinct_points(model), model.lowered.split_prior, int(model.prior_tables.depth_limit)
    counted = points.stats[:, -model.target.n_classes :]
    columns = np.column_stack([points.stats, points.rows, counted.sum(axis=1) - counted.max(axis=1)])
    n_codes = np.where(rule.feature.weight > 0.0, rule.feature.n_codes, 0).astype(np.int64)
    n_splits = np.where(rule.feature.nominal, 1 << np.minimum(n_codes, MAX_LISTED_CATEGORIES), n_codes)
    n_words, max_splits = -(-len(points.rows) // 64), max(int(n_splits.sum()), 1)
    n_bytes = 8 * max(n_words * int(n_codes.sum()), (limit + 2) * max_splits * (2 * columns.shape[1] + n_words + 6))
    if n_bytes > MAX_PATH_BYTES or np.any(columns != np.rint(columns)) or columns.sum() > MAX_TOTAL_WEIGHT:
        return None
    sets = [
        points.codes[c] == code if rule.feature.nominal[c] else points.codes[c] <= code
        for c in range(len(n_codes))
        for code in range(n_codes[c])
    ]
    numbers = columns.astype(np.int64)
    digits = [[(column >> b) & 1 == 1 for b in range(int(column.max()).bit_length())] for column in numbers.T]
    with np.errstate(divide="ignore"):
        log_weight = np.log(rule.feature.weight)
    problem = Problem(
        points_by_code=_as_bit_words(sets, len(points.rows)),
        first_code=np.concatenate([[0], np.cumsum(n_codes)]),
        nominal=np.array(rule.feature.nominal),
        log_weight=log_weight,
        planes=_as_bit_words([plane for planes_of_column in digits for plane in planes_of_column], len(points.rows)),
        first_plane=np.cumsum([0, *(len(planes_of_column) for planes_of_column in digits)]),
        min_leaf=int(rule.min_leaf),
        max_splits=max_splits,
        with_rule=penalty is None,
        **_score_fields(model, penalty, limit, int(counted.sum())),
    )
    total = columns.sum(axis=0)
    everything = _as_bit_words([np.ones(len(points.rows), dtype=np.bool_)], len(points.rows))[0]
    return problem, Cell(everything, total[:-N_SUMS], total[-N_SUMS:].astype(np.int64))


def _score_fields(model: TreeModel, penalty: float | None, limit: int, n: int) -> dict[str, Any]:
    """Return the factors and scores of `Problem`, by name, for depths up to ``limit`` and a total weight of ``n``.

    They are those of the log posterior, or if ``penalty`` is not None of minus errors minus ``penalty`` per leaf.
    """
    pure_scores = np.zeros((0, 0))
    if penalty is not None:
        stop, split = np.full(limit + 1, -penalty), np.zeros(limit + 1)
        leaf = PacBayesLoss(1.0).rule(model.target)
        factors = {"log_stop": stop, "log_forced": stop, "log_split": split}
        return factors | {"pure_scores": pure_scores, "leaf": leaf, "error_loss": 1.0}
    names, error_loss = ("log_stop", "log_forced", "log_split"), 0.0
    factors = {name: np.array(model.prior_tables.table[name][: limit + 1], dtype=np.float64) for name in names}
    if isinstance(model.leaf, PacBayesLoss):
        error_loss = float(model.leaf.lambda1)
    else:
        pure_scores = np.empty((model.target.n_classes, n + 1))
        for c in range(len(pure_scores)):
            stats = np.zeros(pure_scores.T.shape)
            stats[:, c] = np.arange(n + 1)
            pure_scores[c] = cell_scores(pack(model.lowered), stats)
    return factors | {"pure_scores": pure_scores, "leaf": model.lowered.leaf, "error_loss": error_loss}


def _as_bit_words(sets: list[np.ndarray], n: int) -> np.ndarray:
    """Return m sets of ``n`` points, given as masks (n,) bool, as bits (m, W) uint64, 64 points a word."""
    padded = np.zeros((len(sets), 64 * -(-n // 64)), dtype=np.bool_)
    if sets:
        padded[:, :n] = sets
    return np.packbits(padded, axis=1, bitorder="little").view(np.uint64)


FIRST_STEP = 1 << 18
"""Number of cells after which the search first checks for Ctrl-C, about a second."""
MAX_GRAPH_CELLS = 1 << 20
"""Largest number of cells of the graph, a kilobyte each."""
MAX_MEMO_CELLS = 1 << 22
"""Largest number of cells whose values are kept, 32 bytes each."""
ROUNDING_MARGIN = 1e-9
"""Difference of values, relative to the largest, that may be due to rounding."""


class NearGraph(NamedTuple):
    """A graph that contains the trees within some distance of the best one."""

    graph: CellGraph
    best: np.ndarray  # (n_slots,) float64: value of the best tree below each slot, a cell at a depth
    has_all: bool  # True if it contains all trees of the model
    is_complete: bool  # True if it contains all trees within the distance


class Search:
    """Search for the trees of a problem that are near the best one, starting with the cell ``root`` of all rows."""

    def __init__(self, problem: Problem, root: Cell, max_cells: int) -> None:
        self.problem, self.root = problem, root
        self.max_cells = self.max_evaluated = max_cells
        self.depth = len(problem.log_stop) - 1
        n_stats, n_rows = len(root.stats), (self.depth + 1) * problem.max_splits
        self.path = SearchPath(
            bits=np.zeros((self.depth + 1, len(root.bits)), dtype=np.uint64),
            stats=np.zeros((self.depth + 1, n_stats)),
            sums=np.zeros((self.depth + 1, N_SUMS), dtype=np.int64),
            feature=np.zeros(n_rows, dtype=np.int64),
            split=np.zeros(n_rows, dtype=np.int64),
            left=np.zeros((n_rows + 1, len(root.bits)), dtype=np.uint64),
            log_rule=np.zeros(n_rows),
            side_stats=np.zeros((2 * n_rows, n_stats)),
            side_sums=np.zeros((2 * n_rows, N_SUMS), dtype=np.int64),
            n_splits=np.zeros(self.depth + 1, dtype=np.int64),
            side_value=np.zeros(2 * n_rows),
            log_max_factor=np.zeros(self.depth + 1),
        )
        size = max(4, min(1 << (max_cells - 1).bit_length(), MAX_MEMO_CELLS))
        self.memo = Memo(np.zeros((size, 2), dtype=np.uint64), np.zeros(size), np.zeros(size), np.zeros(2, np.int64))
        self._packed = pack(problem), pack(self.memo), pack(self.path)
        score = np.empty(1)
        scores_into(score, self._packed[0], root.stats[None])
        self.margin = ROUNDING_MARGIN * (1.0 + abs(float(score[0])))

    @property
    def is_exhausted(self) -> bool:
        """True if the search was cut off because it had evaluated too many cells."""
        return bool(self.memo.count[EVALUATED] >= self.max_evaluated)

    def graph_near_best(self, epsilon: float) -> NearGraph:
        """Return the graph of the trees at most ``epsilon`` worse than the best one."""
        limit, best = self._optimum()
        # the values of most cells are in the table by now
        self.max_evaluated = int(self.memo.count[EVALUATED]) + self.max_cells
        graph, has_all, is_whole = self._graph(limit, best - epsilon - self.margin)
        is_complete = is_whole and limit == self.depth
        return NearGraph(graph, best_sums(graph), has_all and is_complete, is_complete)

    def _optimum(self) -> tuple[int, float]:
        """Return the largest depth limit under which the value of the best tree was found, and this value.

        The best tree under one limit gives the value that the search under the next needs. 0 and -inf if none was.
        """
        self.max_evaluated = int(self.memo.count[EVALUATED]) + self.max_cells
        solved_limit, best, limit = 0, -np.inf, min(1, self.depth)
        while True:
            self._start(limit)
            value = self._evaluate(0, limit, best - self.margin, True)
            if self.is_exhausted:
                return solved_limit, best
            solved_limit, best = limit, value
            if limit == self.depth:
                return solved_limit, best
            limit = min(2 * limit, self.depth)

    def _start(self, limit: int) -> None:
        """Compute the largest log prior factor of a subtree with a split at each depth, under a depth limit.

        ``log_max_factor[d] = log_split[d] + 2 max(leaf factor at d + 1, log_max_factor[d + 1])``: both subtrees have
        the largest factor. It is -inf from ``limit`` on. Then start the path of the search with the root.
        """
        problem, log_max_factor = self.problem, self.path.log_max_factor
        stop = np.maximum(problem.log_stop, problem.log_forced)
        log_max_factor[limit:] = -np.inf
        for depth in range(limit - 1, -1, -1):
            log_max_factor[depth] = problem.log_split[depth] + 2.0 * max(stop[depth + 1], log_max_factor[depth + 1])
        self._set_cell(self.root)

    def _set_cell(self, cell: Cell) -> None:
        """Write a cell into the path of the search, the cells from the root to the current one, at its depth."""
        path, depth = self.path, cell.depth
        path.bits[depth], path.stats[depth], path.sums[depth] = cell.bits, cell.stats, cell.sums

    def _evaluate(self, depth: int, limit: int, need: float, only_best: bool) -> float:
        """Return `best_value` of the cell at ``depth`` of the path, calling it until all cells it needs are evaluated.

        Values below ``need`` do not matter, ``limit`` is the largest depth, and ``only_best`` skips worse splits.
        Ctrl-C takes effect between calls. Too many cells end the search with a bound.
        """
        count, step = self.memo.count, FIRST_STEP
        while True:
            count[MAX_EVALUATED] = min(count[EVALUATED] + step, self.max_evaluated)
            value = best_value(*self._packed, depth, limit, need, self.margin, only_best)
            if count[EVALUATED] < count[MAX_EVALUATED] or self.is_exhausted:
                return value
            # cells whose values were overwritten are evaluated again, so that steps of one size might never suffice
            step *= 2

    def _graph(self, limit: int, need: float) -> tuple[CellGraph, bool, bool]:
        """Return the graph of the trees with values of at least ``need`` and depth up to ``limit``, and two booleans.

        The first is True if the graph has all trees of the problem, the second if the search was not cut off. A split
        belongs to such a tree if the best values of its sides add up to what its cell needs, and a side needs what the
        cell needs without the split and the best value of the other side. Cells come in order of depth.
        """
        self._start(limit)
        cells, has_all = [replace(self.root, need=need)], limit == self.depth
        number_of: dict[tuple[int, bytes], int] = {}
        is_whole = True
        for cell in cells:
            is_whole = is_whole and not self.is_exhausted and len(cells) < MAX_GRAPH_CELLS
            rows, are_all = self._near_splits(cell, limit if is_whole else cell.depth)
            has_all = has_all and are_all
            sides = (2 * rows[:, None] + [0, 1]).reshape(-1)
            others = (2 * rows[:, None] + [1, 0]).reshape(-1)
            path, children = self.path, np.empty(len(sides), dtype=np.int32)
            bits = np.stack([path.left[rows], cell.bits & ~path.left[rows]], axis=1).reshape(-1, len(cell.bits))
            needs = cell.need - np.repeat(self._terms(cell.depth, rows), 2) - path.side_value[others]
            for j, side in enumerate(sides):
                child = number_of.setdefault((cell.depth + 1, bits[j].tobytes()), len(cells))
                if child == len(cells):
                    side_sums = path.side_stats[side].copy(), path.side_sums[side].copy()
                    cells.append(Cell(bits[j], *side_sums, float(needs[j]), cell.depth + 1))
                cells[child].need = min(cells[child].need, float(needs[j]))
                children[j] = child
            columns = path.feature[rows].astype(np.int32), path.split[rows], path.log_rule[rows]
            cell.edges = children[0::2], children[1::2], *columns
        return self._as_graph(cells), has_all, is_whole

    def _near_splits(self, cell: Cell, limit: int) -> tuple[np.ndarray, bool]:
        """Return the rows in ``path``, until the next search, of those splits of a cell that trees near the best have.

        The boolean is True if these are all splits of positive probability. At depth ``limit`` there are no splits.
        """
        self._set_cell(cell)
        if cell.depth == limit:
            # whether the cell can be split determines the prior factor of the leaf, unless the prior ends here
            cell.can_split = cell.depth < self.depth and list_splits(self._packed[0], self._packed[2], cell.depth) > 0
            return np.zeros(0, dtype=np.int64), True
        self._evaluate(cell.depth, limit, cell.need, False)
        n_splits = int(self.path.n_splits[cell.depth])
        cell.can_split = n_splits > 0
        rows = cell.depth * self.problem.max_splits + np.arange(n_splits)
        value = self._terms(cell.depth, rows) + self.path.side_value[2 * rows] + self.path.side_value[2 * rows + 1]
        is_possible = value > -np.inf
        is_near = is_possible & (value >= cell.need)
        return rows[is_near], bool(np.all(is_near == is_possible))

    def _terms(self, depth: int, rows: np.ndarray) -> np.ndarray:
        """Return the log prior factors of splitting at ``depth`` by each of the splits in ``rows`` of the path."""
        return self.problem.log_split[depth] + self.path.log_rule[rows]

    def _as_graph(self, cells: list[Cell]) -> CellGraph:
        """Return cells and their splits as a graph with one slot a cell, which occurs at one depth."""
        problem, depth = self.problem, np.array([cell.depth for cell in cells])
        stats, score = np.array([cell.stats for cell in cells]), np.empty(len(cells))
        scores_into(score, self._packed[0], stats)
        can_split = np.array([cell.can_split for cell in cells])
        left, right, feature, split, log_rule = (
            np.concatenate(column) for column in zip(*(cell.edges for cell in cells), strict=True)
        )
        return CellGraph(
            first_edge=np.cumsum([0, *(len(cell.edges[0]) for cell in cells)]),
            left=left,
            right=right,
            feature=feature,
            split=split,
            log_rule=log_rule,
            rows=np.array([cell.sums[ROWS] for cell in cells]),
            stats=stats,
            score=score,
            design=np.zeros(len(cells), dtype=np.int32),
            depth=depth,
            first_slot=np.arange(len(cells) + 1),
            log_stop=np.where(can_split, problem.log_stop[depth], problem.log_forced[depth]) + score,
            log_split=np.where(can_split, problem.log_split[depth], -np.inf),
            layered=False,
        )


FIRST_EPSILON = 1.0
"""First difference from the best tree within which `best_trees` searches. It is doubled until ``k`` trees are found."""


def best_trees(model: TreeModel, k: int, *, penalty: float | None = None, max_cells: int = 20_000_000) -> BestTrees:
    """Return the ``k`` most probable trees of a model, best first, without the sum over all trees.

    The trees are those of ``exact.solve(model).best_trees(k)``. See `trees_within` for the bounds and their limits.

    Parameters
    ----------
    model : TreeModel
        The model.
    k : int
        Number of trees, >= 1.
    penalty : float, optional
        As for `trees_within`.
    max_cells : int, default 20,000,000
        As for `trees_within`.

    Returns
    -------
    BestTrees
        Fewer than ``k`` trees if there are not as many. With ``penalty`` its ``log_joint`` is minus the objective.

    Examples
    --------
    >>> import exact, pactree_mcmc as pt
    >>> model = pt.TreeModel([[float(x)] for x in range(30)], [x >= 15 for x in range(30)])
    >>> [tree.n_leaves for tree in exact.best_trees(model, 3).trees]
    [2, 2, 2]
    """
    k, penalty = check_count("k", k), _check_model_and_penalty(model, penalty)
    near_graph_within, epsilon = _near_graph_function(model, penalty, max_cells), FIRST_EPSILON
    while True:
        near_graph = near_graph_within(epsilon)
        is_last = near_graph.has_all or not near_graph.is_complete
        values, ranked = rank_trees(near_graph.graph, near_graph.best, k, np.inf if is_last else epsilon)
        if is_last or len(values) == k:
            return BestTrees(*_ranked_trees(model, near_graph.graph, values, ranked, penalty))
        epsilon *= 2.0


def trees_within(
    model: TreeModel,
    epsilon: float,
    *,
    most: int = 10_000,
    penalty: float | None = None,
    max_cells: int = 20_000_000,
) -> TreesWithin:
    """Return all trees whose log posterior is at most ``epsilon`` below the largest, without the sum over all trees.

    This is the Rashomon set of Xin et al. (2022). With ``penalty`` it is that of the number of errors and leaves.

    Parameters
    ----------
    model : TreeModel
        The model; its tree prior limits the depth.
    epsilon : float
        Largest distance from the best tree, >= 0: nats, or units of the objective with ``penalty``.
    most : int, default 10,000
        Largest number of trees listed; if there are more, the best ones.
    penalty : float, optional
        Penalty per leaf, >= 0. If given, the objective is the weight of the misclassified rows plus the penalty times
        the number of leaves, to be minimised, in place of the log posterior. Splits that divide the rows of a cell
        alike, on different features, make different trees.
    max_cells : int, default 20,000,000
        Largest number of cells that are evaluated for the best tree, and again for the others. If more are needed, the
        result has trees that were found with a smaller depth limit, and ``complete`` is False.

    Returns
    -------
    TreesWithin
        Best tree first. ``complete`` is True if all trees are listed. With ``penalty``, ``log_joint`` is minus the
        objective.

    Raises
    ------
    Intractable
        If there is no bound and the sum over all trees needs too many cells or too much memory.

    Notes
    -----
    A depth-first search evaluates cells for the value that is needed, and gives up splits by upper bounds (Lin et al.
    2020, TreeFARMS of Xin et al. 2022). There are bounds for `DirichletMultinomial` and `PacBayesLoss` leaves and for
    ``penalty``, under `LocalCuts` without a weight function, with whole weights and at most 12 categories a feature.
    Otherwise the result comes from the graph of all cells, as in `ExactPosterior.trees_within`. Time: cells evaluated,
    times splits, times rows / 64.

    Examples
    --------
    >>> import exact, pactree_mcmc as pt
    >>> model = pt.TreeModel([[float(x)] for x in range(30)], [x >= 15 for x in range(30)])
    >>> near = exact.trees_within(model, 3.5)
    >>> [tree.n_leaves for tree in near.trees], near.complete
    ([2, 2, 2], True)
    >>> exact.trees_within(model, 1.0, penalty=2.0).log_joint.tolist()
    [-4.0, -5.0, -5.0]
    """
    epsilon = check_number("epsilon", epsilon, "a number >= 0", 0.0)
    most, penalty = check_count("most", most), _check_model_and_penalty(model, penalty)
    near_graph = _near_graph_function(model, penalty, max_cells)(epsilon)
    values, ranked = rank_trees(near_graph.graph, near_graph.best, most + 1, epsilon)
    trees, log_joint = _ranked_trees(model, near_graph.graph, values[:most], ranked, penalty)
    return TreesWithin(trees, log_joint, len(values) <= most and near_graph.is_complete)


def _check_model_and_penalty(model: TreeModel, penalty: float | None) -> float | None:
    """Check that the model and the penalty can be used, and return the penalty as a float, or None."""
    check_type("model", model, TreeModel, "a TreeModel")
    refuse_drawn_weights(model)
    refuse_shared_leaves(model)
    if penalty is None:
        return None
    if model.classes_ is None:
        raise ValueError("penalty counts misclassified rows, and y has no classes; leave it out.")
    return check_number("penalty", penalty, "a number >= 0, errors per leaf", 0.0)


def _near_graph_function(model: TreeModel, penalty: float | None, max_cells: int) -> Callable[[float], NearGraph]:
    """Return a function of epsilon that returns a graph with all trees at most epsilon worse than the best one.

    If the model has no bounds, this is the whole graph of cells. With ``penalty`` trees are worse by their number of
    errors and leaves. ``max_cells`` limits the cells of the graph or of the search.
    """
    check_cells(max_cells)
    prepared = new_problem(model, penalty)
    if prepared is not None:
        return Search(*prepared, max_cells).graph_near_best
    graph = build_graph(model, max_cells)
    if penalty is not None:
        counted = graph.stats[:, -model.target.n_classes :]
        errors = counted.sum(axis=1) - counted.max(axis=1)
        graph = with_terms(
            graph._replace(score=-errors), log_stop=by_slot(graph, -errors - penalty), log_split=0.0, log_rule=0.0
        )
    near_graph = NearGraph(graph, best_sums(graph), True, True)
    return lambda epsilon: near_graph


def _ranked_trees(
    model: TreeModel, graph: CellGraph, values: np.ndarray, ranked: Any, penalty: float | None
) -> tuple[list[Tree], np.ndarray]:
    """Return the trees of ``ranked`` (`Ranked`), best first, and their log joint (with ``penalty``, minus objective).

    ``values`` are the log weights of the trees in the graph.
    """
    draws = as_draws(model, graph, grow_chosen_trees(model, graph, ranked, np.arange(len(values))))
    trees = [draws.distinct_tree(int(t)) for t in draws.tree_of_draw[0]]
    return trees, values + (model.prior_tables.log_constant if penalty is None else 0.0)
