"""The class `ExactPosterior`: the posterior over all trees, with the same answers as a sampled posterior."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pactree_mcmc.core.checks import Seed, check_count, check_number, read_generator, read_labels, read_numbers
from pactree_mcmc.core.texts import with_short_repr
from pactree_mcmc.model import TreeModel
from pactree_mcmc.model.model import log_prior_mass
from pactree_mcmc.posterior.distribution import MostProbable
from pactree_mcmc.posterior.draws import Draws
from pactree_mcmc.posterior.posterior import Posterior
from pactree_mcmc.posterior.sampled import SampledPosterior
from pactree_mcmc.posterior.trees.cells import checked_divergence
from pactree_mcmc.tree.arrays import LEAF, Routes
from pactree_mcmc.tree.coded import RootKey, ordered_key
from pactree_mcmc.tree.tree import Tree

from . import sums
from .graph.boxes import unpack_cuts
from .graph.cells import CellGraph, with_feature_numbers
from .recursion.inside_outside import Occurrences
from .recursion.semirings import Best, BestBySize, LogSum
from .recursion.trees import as_draws, grow_chosen_trees, rank_trees
from .rows import CellProbabilities, GraphCells, GraphRows

if TYPE_CHECKING:
    import pandas as pd


@with_short_repr
class BestTrees(NamedTuple):
    """Distinct trees, the most probable first."""

    trees: list[Tree]
    """The trees, best first."""
    log_joint: np.ndarray
    """(k,): log prior plus log score of each, nats."""


@with_short_repr
class TreesWithin(NamedTuple):
    """All trees whose log posterior is near that of the most probable one."""

    trees: list[Tree]
    """The most probable first."""
    log_joint: np.ndarray
    """(k,): log prior plus log score of each, nats."""
    complete: bool
    """True if all such trees are listed, False if there are more than ``most``."""

    def ambiguity(self, X: Any) -> float:
        """Return the fraction of rows for which some tree predicts another class than the best tree.

        Parameters
        ----------
        X : table of shape (n, p)
            New rows, or those of training.

        Notes
        -----
        Marx, Calmon and Ustun, *Predictive multiplicity in classification*, ICML (2020). O(trees * rows * depth).

        Examples
        --------
        >>> import exact, pactree_mcmc as pt
        >>> model = pt.TreeModel([[float(x)] for x in range(30)], [x >= 15 for x in range(30)])
        >>> near = exact.solve(model).trees_within(3.5)
        >>> round(near.ambiguity([[float(x)] for x in range(30)]), 3)
        0.067
        """
        x = self._numbers(X)
        labels = np.array([label[routes.leaves(x)] for _, routes, label in self._routed()])
        return float((labels != labels[0]).any(axis=0).mean())

    def importance(self, X: Any, y: Any, *, rng: Seed = 0) -> np.ndarray:
        """Return the smallest and the largest importance of each feature in the trees, (p, 2).

        The importance of a feature in a tree is the increase of the error rate if its column is permuted. A feature
        with a smallest importance above 0 is needed by all trees, one with a largest importance of 0 by none.

        Parameters
        ----------
        X : table of shape (n, p)
            Rows.
        y : array-like of shape (n,)
            Classes of the rows.
        rng : int, SeedSequence, Generator or None, default 0
            Source of randomness for one permutation of each column, the same for all trees.

        Raises
        ------
        ValueError
            If the trees do not predict classes, or ``y`` has another length than ``X``.

        Notes
        -----
        Model class reliance (Fisher, Rudin and Dominici, JMLR 2019). O(trees * splits * rows * depth).
        """
        x, classes = self._numbers(X), self.trees[0].classes
        assert classes is not None
        y = read_labels(y, X)
        if y.shape != (len(x),):
            raise ValueError(f"y has shape {y.shape}; X has {len(x)} rows: give one class a row, ({len(x)},).")
        label_of_row = np.full(len(y), -1)
        for number, label in enumerate(classes):
            label_of_row[y == label] = number
        generator = read_generator(rng)
        permuted = np.column_stack([generator.permutation(column) for column in x.T])
        out = np.zeros((len(self.trees), x.shape[1]))
        for j, (tree, routes, label) in enumerate(self._routed()):
            errors = np.mean(label[routes.leaves(x)] != label_of_row)
            for k in np.unique(tree.feature[tree.feature != LEAF]):
                changed = x.copy()
                changed[:, k] = permuted[:, k]
                out[j, k] = np.mean(label[routes.leaves(changed)] != label_of_row) - errors
        return np.column_stack([out.min(axis=0), out.max(axis=0)])

    def _numbers(self, X: Any) -> np.ndarray:
        """Return the table ``X`` as an array of numbers (n, p). Raise ValueError if the trees predict no classes."""
        columns, classes = self.trees[0].columns, self.trees[0].classes
        if classes is None or columns is None:
            raise ValueError("the trees do not predict classes, which these answers compare; give a model of classes.")
        return columns.numbers(X)

    def _routed(self) -> Iterator[tuple[Tree, Routes, np.ndarray]]:
        """Yield each tree, its routes (a form that sends many rows to leaves), and the predicted class of each node."""
        for tree in self.trees:
            assert tree.value is not None
            yield tree, tree.routes(), np.argmax(tree.value, axis=1)


class ExactPosterior(Posterior):
    """The posterior over all trees of a model, returned by `solve`.

    Attributes
    ----------
    model : TreeModel
    graph : CellGraph
        Cells and splits.
    log_inside : ndarray of shape (n_slots,), float64
        Log of the sum over all trees below each slot (a cell at a depth) of prior times score, without the constant of
        the prior. Entry 0 is that of the root.
    """

    def __init__(self, model: TreeModel, graph: CellGraph, log_inside: np.ndarray | None = None) -> None:
        self.model, self.graph = model, graph
        self.log_inside = sums.log_sums(graph) if log_inside is None else log_inside
        self._rows: GraphRows = GraphRows(model, graph, self.log_inside)

    @cached_property
    def _cells(self) -> GraphCells:
        return GraphCells(self._rows)

    @property
    def _occurrences(self) -> Occurrences:
        return self._rows.occurrences

    @property
    def log_evidence(self) -> float:
        """Log of the sum over all trees of prior times likelihood, nats; the prior of LeafPenalty is unnormalised."""
        return float(self.log_inside[0] + self.model.prior_tables.log_constant)

    @cached_property
    def n_trees(self) -> int:
        """Number of trees of positive probability, as an exact integer of any size."""
        return sums.count_trees(self.graph)

    @cached_property
    def _best_inside(self) -> np.ndarray:
        """(n_slots,): log weight of the best tree below each slot, a cell at a depth."""
        return sums.best_sums(self.graph)

    @cached_property
    def _map(self) -> Draws:
        """The most probable tree, as one draw."""
        return self._draws_of_chosen_trees(Best(self._best_inside), [0])

    @property
    def map_log_joint(self) -> float:
        """Log prior plus log score of the most probable tree, nats."""
        return float(self._map.log_posterior_of_tree[0])

    def _best(self, k: int) -> MostProbable:
        if k == 1:
            # one pass, without the lists of trees of each slot
            probability = np.exp(self._best_inside[:1] - self.log_inside[0])
            return MostProbable(self._map, np.zeros(1, dtype=np.int64), probability)
        values, ranked = rank_trees(self.graph, self._best_inside, k)
        sampled = self._draws_of_chosen_trees(ranked, np.arange(len(values)))
        return MostProbable(sampled, sampled.tree_of_draw[0], np.exp(values - self.log_inside[0]))

    def best_trees(self, k: int) -> BestTrees:
        """Return the ``k`` >= 1 most probable trees, best first, or fewer if there are not as many.

        Notes
        -----
        One pass of the (max, +) recursion, then time O(k leaves log k), with memory only for the cells of these trees
        (Huang and Chiang 2005, algorithm 3).
        """
        return _trees_in_order(self._best(check_count("k", k)).draws)

    def trees_within(self, epsilon: float, *, most: int = 10_000) -> TreesWithin:
        """Return all trees whose log posterior is at most ``epsilon`` below the largest: the Rashomon set.

        Parameters
        ----------
        epsilon : float
            Largest difference from the best log posterior, >= 0, nats.
        most : int, default 10,000
            Largest number of trees listed, the most probable ones.

        Notes
        -----
        The most probable trees are found one by one, until one is outside. Time and memory are those of `best_trees`.

        Examples
        --------
        >>> import exact, pactree_mcmc as pt
        >>> truth = exact.solve(pt.TreeModel([[float(x)] for x in range(30)], [x >= 15 for x in range(30)]))
        >>> near = truth.trees_within(3.5)
        >>> [tree.n_leaves for tree in near.trees], near.complete
        ([2, 2, 2], True)
        """
        epsilon = check_number("epsilon", epsilon, "a number >= 0, nats", 0.0)
        most = check_count("most", most)
        values, ranked = rank_trees(self.graph, self._best_inside, most + 1, epsilon)
        sampled = self._draws_of_chosen_trees(ranked, np.arange(min(len(values), most)))
        return TreesWithin(*_trees_in_order(sampled), len(values) <= most)

    def best_log_joint_by_size(self, max_leaves: int) -> np.ndarray:
        """Return the log joint probability of the best tree of each size, nats.

        Returns
        -------
        ndarray of shape (max_leaves + 1,)
            Entry m is for m leaves; -inf if no tree has m leaves.

        Raises
        ------
        Intractable
            If more than 2^28 numbers would be needed: one for each cell and each size that it can have.

        Notes
        -----
        Max-plus convolution: O(leaves * max_leaves) on a fixed design (Scott 2004, figure 4.1), and O(max_leaves^2) for
        each split of each cell on other graphs.
        """
        check_count("max_leaves", max_leaves)
        sizes = self._sizes(int(max_leaves))
        out = np.full(int(max_leaves) + 1, -np.inf)
        n = min(int(max_leaves), int(sizes.n_sizes[0]))
        out[1 : n + 1] = sizes.value[:n] + self.model.prior_tables.log_constant
        return out

    def best_tree_of_size(self, n_leaves: int) -> Tree:
        """Return the most probable tree with ``n_leaves`` leaves.

        Raises
        ------
        ValueError
            If no tree has that many leaves.
        Intractable
            As `best_log_joint_by_size`.
        """
        check_count("n_leaves", n_leaves)
        m = int(n_leaves)
        sizes = self._sizes(m)
        if m > sizes.n_sizes[0] or sizes.value[m - 1] == -np.inf:
            raise ValueError(f"no tree of this model has n_leaves={m} leaves.")
        return self._draws_of_chosen_trees(sizes, [m - 1]).distinct_tree(0)

    _largest_sizes: BestBySize | None = None
    """The largest table that `_sizes` has computed, or None."""
    _size_limit: int
    """Number of leaves for which this table was computed."""

    def _sizes(self, max_leaves: int) -> BestBySize:
        """Return the log weights of the best trees of each size up to ``max_leaves`` or more, or of all sizes."""
        sizes = self._largest_sizes
        if sizes is None or (self._size_limit < max_leaves and self._size_limit == sizes.n_sizes[0]):
            self._largest_sizes, self._size_limit = sums.best_by_size(self.graph, max_leaves), max_leaves
        assert self._largest_sizes is not None
        return self._largest_sizes

    def n_leaves_pmf(self) -> np.ndarray:
        return self._n_leaves_pmf.copy()

    @cached_property
    def _n_leaves_pmf(self) -> np.ndarray:
        """Distribution of the number of leaves, entry m for m leaves, computed once; users get a copy."""
        return sums.size_distribution(self.graph, self.log_inside, self._occurrences)

    def depth_pmf(self) -> np.ndarray:
        return sums.depth_distribution(self.graph, self.log_inside, int(self.model.prior_tables.depth_limit))

    def _feature_inclusion(self) -> np.ndarray:
        p = self.model.n_features
        graph = with_feature_numbers(self.model, self.graph)
        never = sums.mean_products(graph, self.log_inside, self._occurrences, np.ones(p), np.arange(p), p)
        return 1.0 - never.clip(0.0, 1.0)

    def prior_inclusion(self, *, draws: int | None = None, rng: Seed = 0) -> pd.Series:
        if draws is not None:
            check_count("draws", draws, or_none=True)
        prior = ExactPosterior(self.model, self.prior_graph)
        return prior.feature_inclusion().reindex(self.feature_inclusion().index)

    @property
    def prior_graph(self) -> CellGraph:
        """The graph with scores of zero. Its sum is the mass of the prior, the sum of the prior over all trees."""
        return self.graph.with_terms(log_stop=self.graph.log_stop - self.graph.by_slot(self.graph.score))

    def expected_splits(self) -> np.ndarray:
        """Return the posterior mean (p,) of the number of splits of a tree on each feature."""
        feature = with_feature_numbers(self.model, self.graph).feature
        return np.bincount(feature, weights=self._occurrences.split, minlength=self.model.n_features)

    def mean_and_variance(self, of_leaf: Any = None, of_split: Any = None) -> sums.MeanAndVariance:
        """Return posterior mean and variance of functions that are sums over the leaves and the splits of a tree.

        Parameters
        ----------
        of_leaf : array of shape (n_cells,) or (n_cells, m), optional
            Value that each cell of ``graph`` adds as a leaf. Default: 0.
        of_split : array of shape (n_edges,) or (n_edges, m), optional
            Value that each split of ``graph`` adds. Default: 0.

        Raises
        ------
        ValueError
            If a shape does not fit, a value is not finite, or both are omitted.

        Notes
        -----
        One upward pass, O(m) times that of the evidence (`exact.recursion.semirings.Moments`).

        Examples
        --------
        The number of leaves; the mean depth at which a training row ends, since a row passes as many splits:

        >>> import exact
        >>> from pactree_mcmc import ChipmanPrior
        >>> model = TreeModel([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1], tree_prior=ChipmanPrior(0.5, 1.0))
        >>> truth = exact.solve(model)
        >>> [round(v, 3) for v in truth.mean_and_variance(np.ones(truth.graph.n_cells))]
        [1.916, 0.658]
        >>> fraction = truth.graph.rows / truth.graph.rows[0]
        >>> by_split = np.repeat(fraction, np.diff(truth.graph.first_edge))
        >>> round(truth.mean_and_variance(of_split=by_split).mean, 3)
        0.813
        """
        leaf = _columns("of_leaf", of_leaf, self.graph.n_cells)
        split = _columns("of_split", of_split, self.graph.n_edges)
        if leaf is None and split is None:
            raise ValueError("neither of_leaf nor of_split is given; give one of them.")
        m = max(a.shape[1] for a in (leaf, split) if a is not None)
        leaf = np.zeros((self.graph.n_cells, m)) if leaf is None else leaf
        split = np.empty((0, m)) if split is None else split
        if leaf.shape[1] != split.shape[1]:
            raise ValueError(f"of_leaf has {leaf.shape[1]} columns and of_split {split.shape[1]}; give as many.")
        moments = sums.mean_and_variance(self.graph, self.log_inside, leaf, split)
        if np.ndim(of_leaf) == 2 or np.ndim(of_split) == 2:
            return moments
        return sums.MeanAndVariance(*(float(np.asarray(moment)[0]) for moment in moments))

    def _root_split_pmf(self) -> dict[RootKey, float]:
        graph = self.graph
        edges = slice(int(graph.first_edge[0]), int(graph.first_edge[1]))
        stop = float(np.exp(graph.log_stop[0] - self.log_inside[0]))
        if graph.log_split[0] == -np.inf:
            return {None: stop}
        left, right = (graph.slots_at(c[edges], 1) for c in (graph.left, graph.right))
        log_fraction = graph.log_split[0] + graph.log_rule[edges] + self.log_inside[left] + self.log_inside[right]
        return named_root_pmf(self.model, graph, stop, np.exp(log_fraction - self.log_inside[0]))

    def cell_probabilities(self) -> CellProbabilities:
        """Return the probabilities that each cell of ``graph`` is a leaf, and that it is split, in a tree."""
        return CellProbabilities(*(values.copy() for values in self._rows.cell_probabilities))

    def kl_to_prior(self) -> float:
        gain = float(self.cell_probabilities().leaf @ self.graph.score)
        log_ratio = float(self.log_inside[0]) - self._log_prior_mass()
        return checked_divergence(gain - log_ratio, abs(gain) + abs(log_ratio))

    def _log_prior_mass(self) -> float:
        """Return the log of the sum of the prior over the trees of the graph, without the prior's constant."""
        return sums.log_sum(self.prior_graph)

    @cached_property
    def _log_mass_of_draws(self) -> float | None:
        """Log of the sum of the prior over all trees, nats, which draws keep; None if the model gives it."""
        if self._odds_by_model and log_prior_mass(self.model) is not None:
            return None
        return self._log_prior_mass() + self.model.prior_tables.log_constant

    def split_probabilities(self) -> np.ndarray:
        """Return the expected number of times (n_edges,) that each split of ``graph`` occurs in a tree."""
        return self._occurrences.split.copy()

    def sample(self, draws: int = 1000, rng: Seed = None) -> SampledPosterior:
        """Return ``draws`` >= 1 independent draws as a SampledPosterior of one chain."""
        tree_numbers = np.zeros(check_count("draws", draws), dtype=np.int64)
        sampled = self._draws_of_chosen_trees(LogSum(self.log_inside, np.empty(0)), tree_numbers, rng)
        return SampledPosterior(sampled.replace(log_prior_mass=self._log_mass_of_draws))

    def _draws_of_chosen_trees(self, semiring: Any, tree_numbers: Any, rng: Seed = None) -> Draws:
        """Return trees grown as the semiring chooses, one for each entry of ``tree_numbers``, as draws of one chain."""
        trees = grow_chosen_trees(self.model, self.graph, semiring, tree_numbers, rng)
        return as_draws(self.model, self.graph, trees, has_model_prior=self._odds_by_model)

    def _sampled(self, draws: int, rng: Seed) -> SampledPosterior:
        return self.sample(draws, rng)

    def summary(self) -> pd.DataFrame:
        """Return a DataFrame of log_evidence, n_leaves, leaves and log joint of the best tree, cells and splits."""
        return exact_summary(self, self.graph, {"best tree: log joint": self.map_log_joint})

    def __repr__(self) -> str:
        sizes = f"{self.graph.n_cells} cells, {self.graph.n_edges} splits"
        return f"ExactPosterior(log_evidence={self.log_evidence:.6f}, {sizes})"


def named_root_pmf(model: TreeModel, graph: CellGraph, stop: float, fraction: np.ndarray) -> dict[RootKey, float]:
    """Return the distribution of the root split by the keys of `root_key`, given P(leaf) and that of each split."""
    out: dict[RootKey, float] = {None: stop}
    for e, probability in enumerate(fraction.tolist()):
        c, split = int(graph.feature[e]), int(graph.split[e])
        k = int(model.columns.source[c])
        if model.columns.categories[k] is not None:
            key: RootKey = (k, model.columns.label_set(k, split))
        else:
            threshold = float(model.scales[c].threshold(*unpack_cuts(split))[0])
            key = ordered_key(model, k, threshold, c < model.n_features)
        out[key] = out.get(key, 0.0) + probability
    return out


def _trees_in_order(draws: Draws) -> BestTrees:
    """Return the distinct trees and their log joint probabilities."""
    return BestTrees([draws.distinct_tree(t) for t in range(draws.n_distinct_trees)], draws.log_posterior_of_tree)


def exact_summary(post: Posterior, graph: CellGraph, more: dict[str, float] | None = None) -> pd.DataFrame:
    """Return a table of evidence, sizes and best tree of an exact posterior, with further values ``more`` by name."""
    import pandas as pd

    pmf = post.n_leaves_pmf()
    mean = pmf @ np.arange(len(pmf))
    rows = {
        "log_evidence": post.log_evidence,
        "n_leaves (mean)": mean,
        "n_leaves (sd)": float(np.sqrt(max(float(pmf @ np.arange(len(pmf)) ** 2 - mean**2), 0.0))),
        "best tree: leaves": post.map_tree().n_leaves,
    }
    return pd.DataFrame({"value": rows | (more or {}) | {"cells": graph.n_cells, "splits": graph.n_edges}})


def _columns(name: str, values: Any, length: int) -> np.ndarray | None:
    """Check values of shape (length,) or (length, m), and return them as (length, m) float64; None for None."""
    if values is None:
        return None
    array = read_numbers(name, values)
    if array.ndim not in (1, 2) or len(array) != length:
        raise ValueError(f"{name} has shape {array.shape}; give ({length},) or ({length}, m).")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} holds NaN or an infinite value; give finite numbers.")
    return array if array.ndim == 2 else array[:, None]
