"""Kullback-Leibler bounds of the progressive mixture (Blanchard 1999, theorems 3 and 4, both corollaries).

The infimum over trees in the corollaries is computed by one (min, +) pass over the graph of cells.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from pactree_mcmc.core.checks import (
    LARGEST_BELOW_ONE,
    check_choice,
    check_count,
    check_number,
    check_type,
    read_numbers,
)
from pactree_mcmc.model import FrozenLaplace, LeafPenalty, TreeModel
from pactree_mcmc.model.split_prior.base import call_uncompiled, parts_rows
from pactree_mcmc.tree.arrays import LEAF
from pactree_mcmc.tree.tree import Tree, match_columns

from ...graph.build import build_graph
from ...graph.cells import CellGraph, pack_graph
from ...limits import check_cells
from ...recursion.inside_outside import CELL, FEATURE
from ...recursion.semirings import Best
from ...recursion.trees import as_draws, grow_chosen_trees
from ...sums import best_sums
from .global_splitting import check_global, count_splittings, splitting_graph
from .stages import list_cell_examples

SPLITS = ("corollary", "counted", "global")  # values of ``splits`` in `kl_bound`
PROBABILITIES = np.linspace(0.02, 0.98, 25).tolist()  # success probabilities tried for the largest minimax bound


class KLBound(NamedTuple):
    """Bound on the excess Kullback-Leibler risk over the best leaf probabilities of one tree, in nats, by term."""

    prior: float
    """``log(1 / pi(tree)) / L``, with the prior pi; under local cuts pi is that of the shape and the features alone."""
    leaves: float
    """``(K - 1) n_leaves / (N - L + 1)``, the cost of estimating the leaves. Without this term the bound is that of
    theorems 1 and 3, relative to the tree with the leaves that E determines."""
    splits: float
    """Term for thresholds that depend on the rows, by the argument ``splits`` of `kl_bound`. By default it is
    ``n_leaves log(N + 1) / L`` under local cuts (corollary 2) and 0 under other splits (corollary 1). For a tree with a
    nominal split under local cuts it is the sum over splits of ``log(n) / L``, with n the number of splits of the cell
    on the feature."""

    @property
    def total(self) -> float:
        """Sum of the three terms, nats."""
        return self.prior + self.leaves + self.splits

    @property
    def classification(self) -> float:
        """Bound ``sqrt(2 total)`` on the excess error rate, if the tree's best leaf probabilities are the truth."""
        return math.sqrt(2.0 * self.total)


def kl_bound(model: TreeModel, tree: Tree, *, splits: str = "corollary", max_cells: int = 1_000_000) -> KLBound:
    """Bound how much worse the progressive mixture is, on average, than a tree with its best leaf probabilities.

    For exchangeable data, in expectation over the sample and a new row, the divergence of the mixture from the true
    distribution is at most that of ``tree`` with any fixed leaf probabilities plus ``total``. Here ``L - 1`` rows are
    in S, the test examples that enter one by one, and ``N - L`` in E, which determines the leaves.

    Parameters
    ----------
    model : TreeModel
        Model with ``FrozenLaplace(1)`` leaves, no sample weights, and a tree prior that is normalised.
    tree : Tree
        A tree of positive prior.
    splits : {"corollary", "counted", "global"}, default "corollary"
        The term for thresholds that depend on the rows. "corollary": that of Corollary 2. "counted": the smaller
        ``-log omega / L`` that its proof bounds, with omega the probability of this tree's splits given their features,
        also for `CustomSplits`. "global": ``log |Delta| / L`` of Theorem 3, with the number of splittings of the tree's
        structure (``LocalCuts(trivial=True)``).
    max_cells : int, default 1,000,000
        As for `count_global_splittings`, for "global".

    Raises
    ------
    ValueError
        If the leaf, the weights, the prior or ``splits`` are not those of the theorem, or the tree cannot occur.
    Intractable
        If the splittings are too many to count.

    Notes
    -----
    Grids, dyadic and fixed designs must not depend on the rows of S. With local cuts, the corollary holds for splits
    that count the new row among the points. It is stated for ordered features, which have at most N + 1 splits in a
    cell; for a tree with a nominal split the term is that of "counted". Time O(n p) per level of the tree.
    Blanchard (1999), The "progressive mixture" estimator for regression trees, Annales de l'I.H.P. 35(6).

    Examples
    --------
    >>> import numpy as np, pactree_mcmc as pt
    >>> x = np.arange(8.0)[:, None]
    >>> model = pt.TreeModel(x, [0, 0, 0, 0, 1, 1, 1, 1], estimation=0.5, leaf=pt.FrozenLaplace(),
    ...                      tree_prior=pt.BranchingProcess(0.5, 2), split_prior=pt.DyadicCuts(2))
    >>> bound = kl_bound(model, pt.Tree([-1], [0], [0], [0]))
    >>> round(bound.prior, 4), round(bound.leaves, 4), round(bound.total, 4)
    (0.1386, 0.2, 0.3386)
    """
    check_type("tree", tree, Tree, "a Tree")
    n_stages, n_frozen = check_mixture(model, splits)
    tree = match_columns(tree, model.columns)
    check_cells(max_cells)
    log_prior = model.log_prior(tree)
    if log_prior == -math.inf:
        raise ValueError("the tree cannot occur under the model: its prior is 0.")
    n_leaves = int((tree.feature == LEAF).sum())
    split_cost = 0.0
    if not model.split_prior.has_equal_weights:
        inner = ((cell, split) for _, cell, split in model.visit(tree) if split is not None)
        split_cost = -sum(model.rules.log_probability(cell, split) for cell, split in inner)
        log_prior += split_cost
    elif call_uncompiled(parts_rows, model.split_prior):
        split_cost = log_n_splits(model, tree)
        log_prior += split_cost
        # log(N + 1) bounds the splits of an ordered feature only: m categories have 2^(m - 1) - 1
        if splits == "global":
            split_cost = math.log(count_splittings(model, tree, int(max_cells)))
        elif splits == "corollary" and not any(tree.categories[tree.feature != LEAF] >= 0):
            split_cost = n_leaves * math.log(model.n_rows + 2)
    leaves = (model.target.n_classes - 1) * n_leaves / (n_frozen + 1)
    return KLBound((0.0 - log_prior) / n_stages, leaves, split_cost / n_stages)


def check_mixture(model: Any, splits: str) -> tuple[int, int]:
    """Raise ValueError if the theorems do not apply. Return the number of stages L and of rows of E."""
    # S are the test examples that enter one by one, L - 1 of them; E are the rows that determine the leaves
    check_type("model", model, TreeModel, "a TreeModel")
    check_choice("splits", splits, SPLITS)
    if not isinstance(model.leaf, FrozenLaplace) or model.leaf.pseudocount != 1.0:
        raise ValueError(f"leaf is {model.leaf!r}; the bound is that of FrozenLaplace(1.0).")
    if model.target.weight is not None and any(model.target.weight != 1.0):
        raise ValueError("the model has sample weights; the bound counts rows: leave sample_weight out.")
    if splits == "global":
        check_global(model)
    elif splits == "corollary" and not model.split_prior.has_equal_weights:
        raise ValueError(f"{model.split_prior!r} weighs splits, which Corollary 2 does not; give splits='counted'.")
    if isinstance(model.tree_prior, LeafPenalty):
        raise ValueError("LeafPenalty is not normalised; give BranchingProcess or ChipmanPrior.")
    assert model.target.estimation is not None  # FrozenLaplace has an E
    n_frozen = int(model.target.estimation.sum())
    return model.n_rows - n_frozen + 1, n_frozen


def log_n_splits(model: TreeModel, tree: Tree) -> float:
    """Return the sum, over the splits of a tree, of the log number of splits of the same cell on the same feature."""
    inner = ((cell, split.feature) for _, cell, split in model.visit(tree) if split is not None)
    counts = [model.rules.count_splits(cell, feature) for cell, feature in inner]
    return sum(math.log(count) for count in counts)


def vc_kl_bound(
    n_leaves: int, *, n_rows: int, n_frozen: int, vc_dimension: int = 1, log_prior: float = 0.0, n_classes: int = 2
) -> KLBound:
    """Return the bound of the remark after Theorem 3 for a tree with splits from classes of finite VC dimension.

    Such a class divides N points in at most ``S = sum over i <= D of C(N, i)`` different forms (Sauer), so that ``log
    |Delta| <= (n_leaves - 1) log S``; the constants are worked out here. Cuts of one feature: D = 1, ``S = N + 1``.

    Parameters
    ----------
    n_leaves : int
        Number of leaves of the tree, >= 1.
    n_rows, n_frozen : int
        Number of rows of the sample, without the new row, and number of these in E. N is ``n_rows + 1``.
    vc_dimension : int, default 1
        VC dimension D >= 0 of the class of splits of every node.
    log_prior : float, default 0.0
        Log prior of the tree's shape and of the class of each split, <= 0.
    n_classes : int, default 2
        K >= 2.

    Examples
    --------
    A tree of 4 leaves, half of 1,000 rows in E: cuts of a feature, and half-planes.

    >>> cuts = vc_kl_bound(4, n_rows=1000, n_frozen=500)
    >>> planes = vc_kl_bound(4, n_rows=1000, n_frozen=500, vc_dimension=3)
    >>> round(cuts.splits, 4), round(planes.splits, 4), round(planes.leaves, 4)
    (0.0414, 0.1134, 0.008)
    """
    check_count("n_leaves", n_leaves)
    check_count("n_rows", n_rows)
    check_count("n_frozen", n_frozen, 0, n_rows)
    check_count("vc_dimension", vc_dimension, 0)
    check_count("n_classes", n_classes, 2)
    log_prior = check_number("log_prior", log_prior, "the log of a probability, <= 0", -1e300, 0.0)
    points, stages = n_rows + 1, n_rows - n_frozen + 1
    n_divisions = sum(math.comb(points, i) for i in range(min(vc_dimension, points) + 1))
    leaves = (n_classes - 1) * n_leaves / (n_frozen + 1)
    return KLBound((0.0 - log_prior) / stages, leaves, (n_leaves - 1) * math.log(n_divisions) / stages)


class MinimaxBound(NamedTuple):
    """A lower bound on the Kullback-Leibler risk of every estimator (Blanchard 1999, theorem 4)."""

    value: float
    """The bound, nats. For each estimator there is a tree of three leaves on [0, 1] at which its expected risk is no
    smaller."""
    constant: float
    """Constant C of the bound ``C log(N) / N`` for large N."""
    n_intervals: int
    """Number of intervals that gives the largest ``value``. The success probability differs in one interval."""
    alpha: float
    """Success probability outside the interval."""
    beta: float
    """Success probability inside it."""


def minimax_lower_bound(n: int, *, alpha: float | None = None, beta: float | None = None) -> MinimaxBound:
    """Return the lower bound of Theorem 4 at a sample size: no estimator is better for all trees on [0, 1].

    Truths with probability ``beta`` of class 1 in one of J intervals of length 1/J and ``alpha`` elsewhere cannot be
    distinguished from few rows. By Fano's lemma the risk is at least ``(1 - (n S / J + log 2) / log(J - 1)) h^2 /
    (2 J)``, with S the symmetrised divergence and ``h^2`` the squared Hellinger distance, at the best J.

    Parameters
    ----------
    n : int
        Rows.
    alpha, beta : float, optional
        Different probabilities in (0, 1). Default: the best pair of a grid.

    Notes
    -----
    The ``value`` is 0 for an n at which the lemma gives no positive bound. The paper's Hellinger distance lacks the
    part of class 0, which is added here. ``constant = h^2 / (16 S)``, at most 1/64.

    Examples
    --------
    >>> bound = minimax_lower_bound(10_000, alpha=0.2, beta=0.8)
    >>> round(bound.value, 6), round(bound.constant, 4), bound.n_intervals
    (2.1e-05, 0.015, 4603)
    """
    check_count("n", n)
    if (alpha is None) != (beta is None):
        raise ValueError("of alpha and beta only one is given; give both or neither.")
    pairs = [(a, b) for a in PROBABILITIES for b in PROBABILITIES if a < b]
    if alpha is not None and beta is not None:
        for name, value in (("alpha", alpha), ("beta", beta)):
            check_number(name, value, "a probability in (0, 1)", 1e-12, LARGEST_BELOW_ONE)
        if alpha == beta:
            raise ValueError(f"alpha and beta are both {alpha}; give different probabilities.")
        pairs = [(float(alpha), float(beta))]
    return max((_fano(int(n), a, b) for a, b in pairs), key=lambda bound: bound.value)


def _fano(n: int, alpha: float, beta: float) -> MinimaxBound:
    """Return the minimax bound for n rows and success probabilities, at the best number of intervals."""
    # a truth has the probability beta in one of these intervals and alpha in the others
    divergence = (beta - alpha) * (math.log(beta / alpha) - math.log((1.0 - beta) / (1.0 - alpha)))
    hellinger = (math.sqrt(beta) - math.sqrt(alpha)) ** 2 + (math.sqrt(1.0 - beta) - math.sqrt(1.0 - alpha)) ** 2
    intervals = np.unique(np.round(np.geomspace(4.0, max(8.0, 4.0 * n * divergence), 4000)))
    gamma = 1.0 - (n * divergence / intervals + math.log(2.0)) / np.log(intervals - 1.0)
    value = np.maximum(gamma, 0.0) * hellinger / (2.0 * intervals)
    i = int(np.argmax(value))
    return MinimaxBound(float(value[i]), hellinger / (16.0 * divergence), int(intervals[i]), alpha, beta)


class KLInfimum(NamedTuple):
    """The tree with the smallest sum of divergence and bound, with both terms."""

    tree: Tree
    """The tree, with the leaf values that E determines."""
    divergence: float
    """Mean over the rows of the divergence of the truth from the tree with its best leaf probabilities, nats."""
    bound: KLBound
    """Bound of the corollary for this tree."""

    @property
    def total(self) -> float:
        """The right-hand side of the corollary: no tree has a smaller one."""
        return self.divergence + self.bound.total


def kl_infimum(model: TreeModel, truth: Any, *, splits: str = "corollary", max_cells: int = 20_000_000) -> KLInfimum:
    """Return the infimum on the right of Corollaries 1 and 2, over all trees and leaf probabilities, and its tree.

    ``min over m of { min over theta of H(P, M_(m, theta)) + kl_bound(model, m).total }``, with the divergence from the
    true probabilities averaged over the rows of the model.

    Parameters
    ----------
    model : TreeModel
        As for `kl_bound`.
    truth : array-like of shape (n, K)
        Probabilities of the classes at each row of X, as in a simulation. With the labels themselves (one 1 in each
        row) the divergence is the mean log loss of the best tree on these rows, a plug-in and no bound.
    splits : {"corollary", "counted", "global"}, default "corollary"
        As for `kl_bound`; "global" sums over structures, for small problems.
    max_cells : int, default 20,000,000
        Cells allowed, and pairs of a structure and a set of rows for "global".

    Raises
    ------
    ValueError
        As for `kl_bound`; if ``truth`` does not hold probabilities of each row; or if a feature is nominal under local
        cuts with "corollary".
    Intractable
        If there are more cells.

    Notes
    -----
    The divergence of a leaf with its best probabilities, those of its mean row, adds over leaves, and so does every
    term of the bound: one pass of `best_log_weight`, time and memory as for `solve`, plus the rows of all cells.

    Examples
    --------
    >>> import numpy as np, pactree_mcmc as pt
    >>> x = np.arange(200.0)[:, None]
    >>> p = np.where(x < 99.5, 0.9, 0.2)
    >>> model = pt.TreeModel(x, np.arange(200) % 2, estimation=0.5, leaf=pt.FrozenLaplace(),
    ...                      tree_prior=pt.BranchingProcess(0.5, 3), split_prior=pt.DyadicCuts(3))
    >>> best = kl_infimum(model, np.hstack([p, 1.0 - p]))
    >>> best.tree.n_leaves, round(best.divergence, 4), round(best.total, 4)
    (2, 0.0, 0.0404)
    """
    n_stages, n_frozen = check_mixture(model, splits)
    probability = _read_truth(truth, model)
    check_cells(max_cells)
    graph = splitting_graph(model, int(max_cells)) if splits == "global" else build_graph(model, int(max_cells))
    if splits == "corollary" and call_uncompiled(parts_rows, model.split_prior):
        graph = _with_corollary_terms(model, graph)
    cost = _divergences(model, graph, probability)
    best = graph.with_terms(
        log_stop=(graph.log_stop - graph.by_slot(graph.score)) / n_stages
        - graph.by_slot(cost + (model.target.n_classes - 1) / (n_frozen + 1)),
        log_split=graph.log_split / n_stages,
        log_rule=graph.log_rule / n_stages,
    )
    trees = grow_chosen_trees(model, best, Best(best_sums(best)), [0])
    leaves = trees.nodes[trees.nodes[:, FEATURE] == LEAF, CELL]
    tree = as_draws(model, graph, trees).distinct_tree(0)
    divergence = max(float(cost[leaves].sum()), 0.0)
    return KLInfimum(tree, divergence, kl_bound(model, tree, splits=splits, max_cells=int(max_cells)))


def _read_truth(truth: Any, model: TreeModel) -> np.ndarray:
    """Check the class probabilities of the rows, and return them as an array (n, K)."""
    p = read_numbers("truth", truth)
    shape = (model.n_rows, model.target.n_classes)
    if p.shape != shape:
        raise ValueError(f"truth has shape {p.shape}; give a probability for each row and class: {shape}.")
    if not (p >= 0.0).all() or not np.allclose(p.sum(axis=1), 1.0, atol=1e-9):
        raise ValueError("truth holds rows that are not probabilities; give numbers >= 0 that sum to 1 in each row.")
    return p


def _with_corollary_terms(model: TreeModel, graph: CellGraph) -> CellGraph:
    """Return the graph of cuts between values, with a cost log(N + 1) for each leaf in place of those of splits."""
    # N is the number of rows plus one; the cost left out is the log of the number of splits of a cell on a feature
    if model.columns.is_nominal.any():
        raise ValueError("a feature is nominal, and Corollary 2 counts cuts of ordered ones; give splits='counted'.")
    owner = np.repeat(np.arange(graph.n_cells), np.diff(graph.first_edge))
    _, place, count = np.unique(owner * model.n_features + graph.feature, return_inverse=True, return_counts=True)
    log_rule = graph.log_rule + np.log(count)[place.reshape(-1)]
    return graph._replace(log_rule=log_rule, log_stop=graph.log_stop - np.log(model.n_rows + 2))


def _divergences(model: TreeModel, graph: CellGraph, probability: np.ndarray) -> np.ndarray:
    """Return, by cell, the sum over its rows of the divergence of the truth from its mean, divided by n."""
    # of a row: sum p log p minus sum p log(mean)
    columns = model.columns
    unit = np.arange(model.n_rows) if model.unit_of_row is None else model.unit_of_row
    codes = np.ascontiguousarray(model.units.codes[:, unit])
    cell_examples = list_cell_examples(pack_graph(graph), codes, columns.is_nominal[columns.source], model.n_rows)
    with np.errstate(divide="ignore", invalid="ignore"):
        minus_entropy = np.where(probability > 0.0, probability * np.log(probability), 0.0).sum(axis=1)
    value = np.column_stack([probability, minus_entropy])[cell_examples.example]
    ends = np.concatenate([np.zeros((1, value.shape[1])), np.cumsum(value, axis=0)])
    total = ends[cell_examples.first[1:]] - ends[cell_examples.first[:-1]]
    mass = np.maximum(total[:, :-1], 0.0)
    rows = np.maximum(np.diff(cell_examples.first), 1)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(mass > 0.0, mass * np.log(mass / rows), 0.0).sum(axis=1)
    return (total[:, -1] - mean) / model.n_rows
