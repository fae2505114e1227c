"""Methods of exact posteriors about cells, splits and the most probable trees, which need no random draws."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pactree_mcmc.core.checks import Seed, check_count, check_number, read_generator, read_labels
from pactree_mcmc.core.texts import short_repr
from pactree_mcmc.posterior.trees.answers import AnswersAboutTrees
from pactree_mcmc.posterior.trees.credible_set import (
    CredibleSet,
    check_mass,
    credible_set_of,
    refuse_other_odds,
)
from pactree_mcmc.posterior.trees.paths import Condition, conditions_in_words
from pactree_mcmc.posterior.trees.support import CELL, SPLIT, Support, indices_by_probability, split_keys, split_text
from pactree_mcmc.tree.arrays import LEAF, Routes
from pactree_mcmc.tree.tree import Tree

from .graph.boxes import unpack_cuts
from .graph.cells import CellGraph
from .recursion.rows import CellPaths, RowSets, distinct_row_sets, path_probabilities, weights_of_cells
from .recursion.trees import rank_trees

if TYPE_CHECKING:
    from pactree_mcmc.posterior.draws import DrawnTrees
    from pactree_mcmc.posterior.sampled import SampledPosterior

    from .recursion.inside_outside import Occurrences


class TreesWithin(NamedTuple):
    """All trees whose log posterior is near that of the most probable one."""

    trees: list[Tree]
    """The most probable first."""
    log_joint: np.ndarray
    """(k,): log prior plus log score of each, nats."""
    complete: bool
    """True if all such trees are listed, False if there are more than ``most``."""

    def __repr__(self) -> str:
        return short_repr(self)

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


class RowSetProbabilities(NamedTuple):
    """Posterior probabilities that a tree has a node with a given set of rows, or one split into two given sets."""

    of_cell: np.ndarray  # (n_sets,): probability that some node of the tree has this set of rows
    of_split: np.ndarray  # (n_splits,): probability that some node is split into these two sets
    sides: np.ndarray  # (n_splits, 2): numbers of the two sets of each split, the lower number first
    edge: np.ndarray  # (n_splits,): most probable edge of the graph that makes this partition


class ExploresGraph(AnswersAboutTrees):
    """Base of `ExactPosterior`: methods about cells, splits and probable trees, computed from the graph of cells."""

    graph: CellGraph
    log_inside: np.ndarray

    if TYPE_CHECKING:

        @cached_property
        def _occurrences(self) -> Occurrences: ...

        @cached_property
        def _cell_paths(self) -> CellPaths: ...

        @cached_property
        def _best_inside(self) -> np.ndarray: ...

        @abstractmethod
        def _draws_of_chosen_trees(self, semiring: Any, tree_numbers: Any, rng: Seed = None) -> SampledPosterior: ...

    def support(self, min_probability: float = 0.05, *, draws: int = 1000, rng: Seed = 0) -> Support:
        """Return the cells and splits of exact probability at least ``min_probability``.

        Same as `Posterior.support`, without Monte-Carlo errors. ``draws`` and ``rng`` are not used. To compare draws
        with these probabilities: ``draws.support().table(beside=truth.support(0.0))``.

        Notes
        -----
        Nodes of a tree with the same rows are on one path, so the probability of a set of rows is that of its topmost
        node. It is a sum over the splits that lead to the set from another one (formulas, sections 6 and 12.5). A cell
        is described by the most probable path to it. Time: that of the evidence, and once the rows of all cells.

        Examples
        --------
        >>> import exact, pactree_mcmc as pt
        >>> truth = exact.solve(pt.TreeModel([[float(x)] for x in range(30)], [x >= 15 for x in range(30)]))
        >>> truth.support(0.5).words
        ['x0 <= 14.5', 'x0 > 14.5', 'all rows: x0 <= 14.5']
        """
        min_probability = check_number("min_probability", min_probability, "a number 0..1", 0.0, 1.0)
        sets, parts, model = self._row_sets, self._row_set_probabilities, self.model
        cells = indices_by_probability(parts.of_cell, min_probability, 1)
        splits = indices_by_probability(parts.of_split, min_probability, 0)
        parent = self._parent_of_edge[parts.edge[splits]]
        words = [
            conditions_in_words(model.columns, self._conditions_above(int(cell))) for cell in sets.first[cells].tolist()
        ]
        for cell, edge in zip(parent.tolist(), parts.edge[splits].tolist(), strict=True):
            above = self._conditions_above(cell)
            split = conditions_in_words(model.columns, [self._condition(edge, True)], above)
            words.append(split_text(conditions_in_words(model.columns, above), split))
        probability = np.concatenate([parts.of_cell[cells], parts.of_split[splits]])
        m = len(probability)
        return Support(
            np.repeat([CELL, SPLIT], [len(cells), len(splits)]),
            words,
            probability,
            np.empty((m, 0)),
            np.ones(m),
            np.full(m, np.inf),
            np.zeros(m),
            self._weight_of_cell[np.concatenate([sets.first[cells], parent])],
            [tuple(key) for key in sets.key[cells].tolist()] + split_keys(sets.key[parts.sides[splits]]),
            np.empty((m, 0), dtype=np.bool_),
            sets.n_rows,
            sets.n_rows_of_model,
        )

    def credible_set(self, mass: float = 0.95, *, draws: int = 1000, rng: Seed = 0) -> CredibleSet:
        """Return a set of trees with posterior probability ``mass``, as `Posterior.credible_set`.

        If the ``draws`` most probable trees have this probability, the set consists of the most probable ones and is
        exact. Otherwise it comes from ``draws`` independent draws.
        """
        check_count("draws", draws)
        mass = check_mass(mass)
        refuse_other_odds(self)
        values, ranked = rank_trees(self.graph, self._best_inside, draws)
        if np.exp(values - self.log_inside[0]).sum() < mass:
            return super().credible_set(mass, draws=draws, rng=rng)
        post = self._draws_of_chosen_trees(ranked, np.arange(len(values)))
        weight = np.zeros(post.n_distinct_trees)
        np.add.at(weight, post.tree_of_draw[0], np.exp(values - self.log_inside[0]))
        return credible_set_of(post, weight, mass, exact=True)

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
        post = self._draws_of_chosen_trees(ranked, np.arange(min(len(values), most)))
        log_joint = post.log_prior_of_tree + post.log_score_of_tree
        trees = [post.distinct_tree(t) for t in range(post.n_distinct_trees)]
        return TreesWithin(trees, log_joint, len(values) <= most)

    def path_probabilities(self, post: SampledPosterior, cell: np.ndarray, parent: np.ndarray) -> np.ndarray:
        """Return the exact probabilities (m,) of decision paths of draws.

        A path is a sequence of cells from the root on. ``cell`` (m,) is the number in ``post.cells`` of the last cell
        of each path. ``parent`` (m,) is the number of the path without this cell, which precedes it in the order; -1
        for the first path, which is the root alone.
        """
        place = {tuple(key): i for i, key in enumerate(self._row_sets.key.tolist())}
        last = np.array([place.get(tuple(key), -1) for key in post.cells.key[cell].tolist()], dtype=np.int64)
        return path_probabilities(self.graph, self.log_inside, self._row_sets.of_cell, parent, last)

    def _cell_probability(self, post: DrawnTrees) -> np.ndarray:
        """Return the exact probability that a tree has a node with the rows of each cell of ``post.cells``, (m,)."""
        of_key = dict(
            zip(map(tuple, self._row_sets.key.tolist()), self._row_set_probabilities.of_cell.tolist(), strict=True)
        )
        return np.array([of_key[tuple(key)] for key in post.cells.key.tolist()])

    @cached_property
    def _parent_of_edge(self) -> np.ndarray:
        """(n_edges,): number of the cell of each split."""
        return np.repeat(np.arange(self.graph.n_cells), np.diff(self.graph.first_edge))

    @cached_property
    def _row_sets(self) -> RowSets:
        """The distinct sets of training rows of the cells.

        Cells with the same rows have one set.
        """
        return distinct_row_sets(self.model, self.graph, self._cell_paths)

    @cached_property
    def _row_set_probabilities(self) -> RowSetProbabilities:
        """Posterior probabilities of the sets of rows, and of their partitions by splits."""
        sets, split_occurrences, graph = self._row_sets, self._occurrences.split, self.graph
        parent_set, left, right = (sets.of_cell[cells] for cells in (self._parent_of_edge, graph.left, graph.right))
        of_cell = np.zeros(len(sets.key))
        of_cell[0] = 1.0
        for child_set in (left, right):
            enters = (child_set >= 0) & (child_set != parent_set)
            of_cell += np.bincount(child_set[enters], weights=split_occurrences[enters], minlength=len(of_cell))
        edges = np.flatnonzero((left >= 0) & (right >= 0) & (split_occurrences > 0.0))
        low, high = np.minimum(left, right)[edges], np.maximum(left, right)[edges]
        pairs, first, pair_of_edge = np.unique(low * len(of_cell) + high, return_index=True, return_inverse=True)
        most_probable = edges[first]
        order = np.argsort(split_occurrences[edges], kind="stable")
        most_probable[pair_of_edge[order]] = edges[order]
        of_split = np.bincount(pair_of_edge, weights=split_occurrences[edges], minlength=len(pairs))
        sides = np.column_stack([pairs // len(of_cell), pairs % len(of_cell)])
        return RowSetProbabilities(of_cell.clip(0.0, 1.0), of_split.clip(0.0, 1.0), sides, most_probable)

    @cached_property
    def _weight_of_cell(self) -> np.ndarray:
        """Total weight (n_cells,) of the training rows in each cell."""
        if self.model.leaf.weighs_rows:
            return self.model.leaf.weight(self.graph.stats)
        return weights_of_cells(self.model, self.graph, self._cell_paths)

    def _conditions_above(self, cell: int) -> list[Condition]:
        """Return the conditions on the most probable path to a cell, from the root on."""
        paths, conditions = self._cell_paths, []
        while paths.edge[cell] >= 0:
            edge = int(paths.edge[cell])
            conditions.append(self._condition(edge, int(paths.side[cell]) == 0))
            cell = int(self._parent_of_edge[edge])
        return conditions[::-1]

    def _condition(self, edge: int, left: bool) -> Condition:
        """Return the condition on a row that the split ``edge`` sends left, or right if ``left`` is False."""
        graph, columns = self.graph, self.model.columns
        c, split = int(graph.feature[edge]), int(graph.split[edge])
        k = int(columns.source[c])
        if columns.categories[k] is not None:
            return Condition(k, 0.0, split, False, left)
        scale, codes = self.model.scales[c], unpack_cuts(split)
        low, high = scale.between(*codes)[0].tolist()
        return Condition(k, float(scale.threshold(*codes)[0]), -1, c < columns.n_features, left, low, high)
