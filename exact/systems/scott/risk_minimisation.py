"""Penalised empirical risk minimisation over all dyadic decision trees (Scott 2004, chapter 2)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from pactree_mcmc.core.checks import check_count, check_flag, check_number
from pactree_mcmc.model import DirichletMultinomial, DyadicCuts, LeafPenalty, TreeModel
from pactree_mcmc.model.split_prior.base import MAX_LEVELS
from pactree_mcmc.table.reader import Table
from pactree_mcmc.tree.arrays import LEAF
from pactree_mcmc.tree.tree import Tree

from ...answers import best_sums
from ...graph.building import build_graph
from ...graph.cells import CellGraph
from ...limits.intractable import Intractable
from ...recursion.draws import as_draws, grow
from ...recursion.inside_outside import CELL, FEATURE, IS_LEFT, PARENT, RIGHT, SPLIT, Grown
from ...recursion.terms import with_terms
from ...semirings.algebras import Best
from .penalties import LARGEST_PENALTY, AdditivePenalty, Sample, SpatiallyAdaptive, read_penalty, sizes_penalty
from .pruning import best_for_sizes
from .root_fragments import RootFragments, best_fragments

DEFAULT_CELLS = 4_000_000
"""The default number of levels keeps a bound on the number of cells below this,"""
MOST_SORTED = 40_000_000
"""and the number of times a row is put into a cell below this."""


class PenalisedTree(NamedTuple):
    """The dyadic tree with the smallest risk plus penalty."""

    tree: Tree
    """Its values are smoothed class probabilities; a cell without rows has those of its parent."""
    risk: float
    """Error rate on the training rows."""
    penalty: float
    """``strength`` times the penalty, as it was minimised."""
    levels: int
    """Number of splits of one coordinate allowed on the path to a leaf."""
    n_cells: int
    """Number of cells searched."""

    @property
    def objective(self) -> float:
        """Risk plus penalty, the smallest over all trees."""
        return self.risk + self.penalty


def minimise_risk(
    X: Any,
    y: Any,
    *,
    penalty: Any = "adaptive",
    strength: float = 1.0,
    levels: int | None = None,
    cyclic: bool = False,
    bounds: Any = None,
    max_cells: int = 20_000_000,
) -> PenalisedTree:
    """Returns the dyadic tree that minimises ``risk + strength * penalty``.

    Parameters
    ----------
    X : table of shape (n, p)
        Ordered columns.
    y : array-like of shape (n,)
        Labels of any number of classes. The penalties count at least two, also if only one occurs: the number of
        possible labels must not depend on y, and with one class the bounds would be too small.
    penalty : {"adaptive", "square-root"}, float, or penalty, default "adaptive"
        `SpatiallyAdaptive`, `SquareRoot`, a number as the cost of a leaf, or a penalty object: one of these classes,
        `AdditivePenalty`, `SizePenalty` or `RootFragments`.
    strength : float, default 1.0
        Multiplies the penalty, finite and >= 0. The constants of the theory (1) are large; a tenth predicts better.
    levels : int, optional
        Largest number of splits of one coordinate on the path to a leaf, 1 to 31. Default: `default_levels`.
    cyclic : bool, default False
        Whether to split coordinate ``depth mod p``, or any coordinate at each split.
    bounds : array of shape (p, 2), optional
        Ends of each feature's range. Default: the range of the data, with which Theorem 2 holds only approximately.
    max_cells : int, default 20,000,000
        Cells allowed.

    Returns
    -------
    PenalisedTree
        Among trees with the same objective, one that stops rather than splits. `certificates.dyadic_tree_bound` bounds
        its true risk.

    Raises
    ------
    ValueError
        If an argument is out of range, a size penalty decreases, or X and y do not match.
    Intractable
        If there are more cells than allowed: give fewer levels, or ``cyclic=True``.

    Notes
    -----
    Only cells that hold rows are split: with free coordinates at most ``n (levels + 1)^p`` of them, one pass over their
    splits for a penalty that adds over leaves; for a size penalty the hull of (leaves, errors), if it is concave,
    else a polynomial in the leaves at each cell. Scott (2004), sections 2.3 and 2.6; Blanchard et al. (2004).

    Examples
    --------
    >>> x = np.arange(100.0)[:, None]
    >>> found = minimise_risk(x, x[:, 0] > 49.5, penalty=0.01, levels=3)
    >>> found.tree.n_leaves, found.risk, round(found.penalty, 6)
    (2, 0.0, 0.02)
    """
    rule = penalty if isinstance(penalty, RootFragments) else read_penalty(penalty)
    check_factor("strength", strength)
    problem = dyadic_problem(X, y, levels, cyclic, bounds, max_cells)
    errors = problem.counts.sum(axis=1) - problem.counts.max(axis=1)
    if isinstance(rule, RootFragments):
        nodes, n_errors, paid = best_fragments(problem.graph, errors, rule, problem.sample, strength)
        return _report(problem, _tree_of(problem, nodes), n_errors, paid)
    if isinstance(rule, SpatiallyAdaptive | AdditivePenalty):
        return _minimise_over_cells(problem, errors, rule, strength)
    return _minimise_over_sizes(problem, errors, rule, strength)


class DyadicProblem(NamedTuple):
    """The cells of all dyadic trees over some rows."""

    model: TreeModel
    graph: CellGraph
    """Splits have prior factor 1; a cell without rows is not split."""
    counts: np.ndarray
    """(n_cells, K) float64: rows of each class."""
    sample: Sample

    @property
    def levels(self) -> int:
        """Splits of one coordinate on the way to a leaf."""
        cuts = self.model.split_prior
        assert isinstance(cuts, DyadicCuts)
        return int(cuts.levels)


def dyadic_problem(X: Any, y: Any, levels: int | None, cyclic: bool, bounds: Any, max_cells: int) -> DyadicProblem:
    """Check the input and build the cells."""
    check_flag("cyclic", cyclic)
    table = Table(X)
    n, p = table.n_rows, table.n_features
    depth = default_levels(max(n, 2), p, cyclic=cyclic) if levels is None else levels
    split_prior = DyadicCuts(depth, cyclic=cyclic, bounds=bounds)
    model = TreeModel(X, y, tree_prior=LeafPenalty(0.0), split_prior=split_prior, leaf=DirichletMultinomial())
    graph = dyadic_graph(model, max_cells, cyclic)
    classes = model.classes_
    assert classes is not None
    # a code that knows that there is one class would depend on the labels
    return DyadicProblem(model, graph, graph.stats, Sample(n, p, max(2, len(classes)), cyclic))


def dyadic_graph(model: TreeModel, max_cells: int, cyclic: bool) -> CellGraph:
    """The cells of a dyadic model; splits have prior factor 1, and a cell without rows is not split."""
    try:
        graph = build_graph(model, max_cells)
    except Intractable as refusal:
        names = {"DyadicCuts": "levels", "max_cells": "max_cells"}
        raise refusal.in_terms_of(names, "fewer columns" if cyclic else "cyclic=True") from None
    return with_terms(graph, log_split=np.where(graph.rows > 0, 0.0, -np.inf), log_rule=0.0)


def default_levels(n: int, p: int, *, cyclic: bool = False) -> int:
    """Levels for n rows and p features: ``log2(n / ln n)``, less if the cells might be more than four million.

    Cells of side ``ln n / n`` adapt to noise and dimension alike (Scott 2004, theorems 6 to 9).

    Examples
    --------
    >>> default_levels(2_000, 2), default_levels(2_000, 6), default_levels(2_000, 6, cyclic=True)
    (9, 3, 9)
    """
    levels = max(1, math.ceil(math.log2(n / max(1.0, math.log(n)))))
    while levels > 1 and not _is_quick(n, p, levels, cyclic):
        levels -= 1
    return levels


def needs_cyclic(n: int, p: int, levels: int | None = None) -> bool:
    """Whether any coordinate at each split might make more than four million cells, with ``levels`` or a single one.

    Examples
    --------
    >>> needs_cyclic(1_000, 10), needs_cyclic(1_000, 30)
    (False, True)
    """
    return not _is_quick(n, p, 1 if levels is None else check_count("levels", levels, 1, MAX_LEVELS), False)


def _is_quick(n: int, p: int, levels: int, cyclic: bool) -> bool:
    """Whether cells, counted by how often each coordinate is halved, and the rows to sort into them are few enough."""
    ways = np.ones(1)
    for _ in range(p):
        ways = np.convolve(ways, np.ones(levels + 1))
        if ways.max() > DEFAULT_CELLS:
            break
    ways = np.ones(p * levels + 1) if cyclic else ways
    at_depth = np.exp2(np.minimum(np.arange(len(ways)), 60.0))
    return bool(ways @ np.minimum(n, at_depth) <= DEFAULT_CELLS and n * ways.sum() <= MOST_SORTED)


def _minimise_over_cells(
    problem: DyadicProblem, errors: np.ndarray, rule: SpatiallyAdaptive | AdditivePenalty, strength: float
) -> PenalisedTree:
    graph, n = problem.graph, problem.sample.n
    penalty = strength * rule.of_cells(graph.rows, graph.depth, problem.sample)
    penalised = with_terms(graph, log_stop=-(errors + n * penalty))
    tree, cells = grown_tree(problem, penalised, Best(best_sums(penalised)), 0)
    return _report(problem, tree, errors[cells].sum(), float(penalty[cells].sum()))


def _minimise_over_sizes(problem: DyadicProblem, errors: np.ndarray, rule: Any, strength: float) -> PenalisedTree:
    n, sample = problem.sample.n, problem.sample
    graph = with_terms(problem.graph, log_stop=-errors)

    def penalty(leaves: np.ndarray) -> np.ndarray:
        return strength * sizes_penalty(lambda k: rule.of_sizes(k, sample), leaves)

    found = best_for_sizes(graph, lambda leaves: n * penalty(leaves))
    tree, _ = grown_tree(problem, graph, found.semiring, found.wanted)
    return _report(problem, tree, -found.log_weight, found.penalty / n)


def _report(problem: DyadicProblem, tree: Tree, n_errors: float, penalty: float) -> PenalisedTree:
    risk = float(n_errors) / problem.sample.n + 0.0
    return PenalisedTree(tree, risk, penalty, problem.levels, problem.graph.n_cells)


def grown_tree(problem: DyadicProblem, graph: CellGraph, semiring: Any, wanted: int) -> tuple[Tree, np.ndarray]:
    """The tree that a semiring chooses, and the cells of its leaves in the order of its nodes."""
    grown = grow(problem.model, graph, semiring, [wanted])
    return _named(problem, grown), grown.nodes[grown.nodes[:, FEATURE] == LEAF, CELL]


def _named(problem: DyadicProblem, grown: Grown) -> Tree:
    """The tree, its empty leaves with the values of their parents."""
    model, graph, nodes = problem.model, problem.graph, grown.nodes
    tree = as_draws(model, graph, grown).distinct_tree(0)
    value = inherited(np.array(tree.value), graph.rows[nodes[:, CELL]] == 0, nodes[:, PARENT])
    return replace(tree, value=value)


def _tree_of(problem: DyadicProblem, asked: list[tuple[int, int]]) -> Tree:
    """The tree of cells and their splits, in preorder; -1 for a leaf."""
    graph, nodes = problem.graph, np.zeros((len(asked), 7), dtype=np.int64)
    nodes[:, PARENT] = nodes[:, FEATURE] = -1
    waits: list[int] = []
    for i, (cell, e) in enumerate(asked):
        nodes[i, CELL] = cell
        if i > 0:
            parent = i - 1 if asked[i - 1][1] >= 0 else waits.pop()
            nodes[i, PARENT], nodes[i, IS_LEFT] = parent, parent == i - 1
            if parent != i - 1:
                nodes[parent, RIGHT] = i
        if e >= 0:
            nodes[i, FEATURE], nodes[i, SPLIT] = graph.feature[e], graph.split[e]
            waits.append(i)
    return _named(problem, Grown(nodes, np.array([0, len(nodes)]), np.zeros(1), np.zeros(1)))


def inherited(value: np.ndarray, is_empty: np.ndarray, parent: np.ndarray) -> np.ndarray:
    """Values of nodes in preorder, those of empty nodes replaced by their parents'."""
    for i in np.flatnonzero(is_empty):
        if parent[i] >= 0:
            value[i] = value[parent[i]]
    return value


def check_factor(name: str, value: Any) -> None:
    """Refuse a factor that is negative or not finite."""
    check_number(name, value, "a finite number >= 0", 0.0, LARGEST_PENALTY)
