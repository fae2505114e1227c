"""exact.best_trees and exact.trees_within: the trees near the best one, in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pactree_mcmc.core.checks import check_count, check_number, check_type
from pactree_mcmc.model import TreeModel
from pactree_mcmc.tree.tree import Tree

from ..answers import best_sums
from ..exploring import TreesWithin
from ..graph.building import build_graph, refuse_drawn_weights, refuse_leaf_counts, refuse_shared_leaves
from ..graph.cells import CellGraph
from ..limits.intractable import check_cells
from ..posterior import BestTrees
from ..recursion.terms import by_slot, with_terms
from ..recursion.trees import as_draws, grow, rank_trees
from .near_graph import NearGraph, Search, new_problem

FIRST_EPSILON = 1.0
"""First distance from the best tree within which the ``k`` best are sought; then twice as far, and so on."""


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
    k, penalty = check_count("k", k), _check(model, penalty)
    near, epsilon = _search(model, penalty, max_cells), FIRST_EPSILON
    while True:
        found = near(epsilon)
        is_last = found.has_all or not found.is_complete
        values, ranked = rank_trees(found.graph, found.best, k, np.inf if is_last else epsilon)
        if is_last or len(values) == k:
            return BestTrees(*_grow(model, found.graph, values, ranked, penalty))
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
    most, penalty = check_count("most", most), _check(model, penalty)
    found = _search(model, penalty, max_cells)(epsilon)
    values, ranked = rank_trees(found.graph, found.best, most + 1, epsilon)
    trees, log_joint = _grow(model, found.graph, values[:most], ranked, penalty)
    return TreesWithin(trees, log_joint, len(values) <= most and found.is_complete)


def _check(model: TreeModel, penalty: float | None) -> float | None:
    check_type("model", model, TreeModel, "a TreeModel")
    refuse_drawn_weights(model)
    refuse_leaf_counts(model)
    refuse_shared_leaves(model)
    if penalty is None:
        return None
    if model.classes_ is None:
        raise ValueError("penalty counts misclassified rows, and y has no classes; leave it out.")
    return check_number("penalty", penalty, "a number >= 0, errors per leaf", 0.0)


def _search(model: TreeModel, penalty: float | None, max_cells: int) -> Callable[[float], NearGraph]:
    """Return a function of epsilon that returns a graph of the trees near the best one."""
    check_cells(max_cells)
    prepared = new_problem(model, penalty)
    if prepared is not None:
        return Search(*prepared, max_cells).near
    graph = build_graph(model, max_cells)
    if penalty is not None:
        counted = graph.stats[:, -model.target.n_classes :]
        errors = counted.sum(axis=1) - counted.max(axis=1)
        graph = with_terms(
            graph._replace(score=-errors), log_stop=by_slot(graph, -errors - penalty), log_split=0.0, log_rule=0.0
        )
    whole = NearGraph(graph, best_sums(graph), True, True)
    return lambda epsilon: whole


def _grow(
    model: TreeModel, graph: CellGraph, values: np.ndarray, ranked: Any, penalty: float | None
) -> tuple[list[Tree], np.ndarray]:
    """Return the trees of these values, and their log joint, or minus the objective."""
    draws = as_draws(model, graph, grow(model, graph, ranked, np.arange(len(values))))
    trees = [draws.distinct_tree(int(t)) for t in draws.tree_of_draw[0]]
    return trees, values + (model.prior_tables.log_constant if penalty is None else 0.0)
