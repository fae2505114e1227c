"""Methods that explore the trees of a posterior: those of every posterior, and those of draws alone."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ...core.checks import Seed, check_count, read_generator
from ..space.cells import Cells, number_cells
from ..space.distances import TreeDistances, distances_between
from ..space.support import SplitFrequencies, Support, check_drawn, split_frequencies, support_of_draws
from ..space.tree_ess import TreeEss, tree_ess_of
from .attributions import Attributions, attributions_of, shapley_values
from .consensus import ConsensusTree, consensus_of
from .credible_set import CredibleSet, check_mass, credible_set_of
from .modes import Modes, modes_of
from .projection import Projection, projection_of

if TYPE_CHECKING:
    from ...model import TreeModel
    from ..sampled import SampledPosterior


class ExploresTrees:
    """Methods that explore the trees of any posterior.

    If the posterior does not consist of draws and the answer needs some, ``draws`` trees are drawn with ``rng``.
    """

    model: TreeModel
    sees_all_rows: ClassVar[bool] = True
    """Whether all trees are from the posterior given all rows."""

    if TYPE_CHECKING:

        @abstractmethod
        def _drawn_trees(self, n: int, rng: np.random.Generator) -> tuple[SampledPosterior, np.ndarray]: ...

    def _as_draws(self, draws: int, rng: Seed) -> SampledPosterior:
        """Returns the posterior as draws."""
        return self._drawn_trees(check_count("draws", draws), read_generator(rng))[0]

    def _draws_that_predict(self, draws: int, rng: Seed) -> SampledPosterior:
        """As `_as_draws`, with draws that predict by their own statistics."""
        return self._as_draws(draws, rng)

    def support(self, min_probability: float = 0.05, *, draws: int = 1000, rng: Seed = 0) -> Support:
        """Returns the cells and splits of the trees, with their probabilities and Monte-Carlo errors.

        A cell is the set of training rows of a node, a split the unordered partition of a cell in two: a nominal split
        with its sides exchanged, or another threshold between the same rows, is the same split. Cells are to decision
        trees what clades are to phylogenies.

        Parameters
        ----------
        min_probability : float, default 0.05
            Smallest probability that is listed, in [0, 1]. With 0 all that occur in draws are listed.
        draws : int, default 1000
            Number of trees drawn from a posterior without draws or exact probabilities of cells, such as an exact
            progressive mixture.
        rng : int, SeedSequence, Generator or None, default 0
            Source of randomness for those draws.

        Returns
        -------
        Support
            Arrays by cell and split; ``.table()`` is the DataFrame. For an exact posterior the probabilities are exact;
            with fewer than 4 draws a chain R-hat, effective sample size and error are NaN.

        Raises
        ------
        ValueError
            If an argument is out of range or there are no draws.

        Notes
        -----
        R-hat, effective sample size and Monte-Carlo error are those of the indicator of the cell (formula sheet,
        section 12.5). The words describe the path in the most probable tree that has the cell; for an exact posterior
        they are built from the most probable split that leads to each cell on the path.
        If there are more than 2,000 distinct rows, 2,000 of them are used, evenly spaced: cells that differ only in
        other rows count as one, and cells without any of these rows are not counted; ``Support.n_rows`` and
        ``table().attrs["rows"]`` have the number used.
        O(rows * depth) a distinct tree, and O(draws * log(draws)) a cell.

        Examples
        --------
        >>> import numpy as np, pactree_mcmc as pt
        >>> x = np.arange(30.0)
        >>> model = pt.TreeModel(x[:, None], x > 14)
        >>> post = pt.sample(model, 500, tune=50, chains=2, rng=1, kernel="grow-prune", progress=False)
        >>> print(post.support(0.5).table()[["kind", "words", "rows"]].to_string(index=False))
         kind                words  rows
         cell           x0 <= 14.5  15.0
         cell            x0 > 14.5  15.0
        split all rows: x0 <= 14.5  30.0
        """
        return support_of_draws(self._as_draws(draws, rng), min_probability)

    def consensus_tree(self, min_support: float = 0.5, *, draws: int = 1000, rng: Seed = 0) -> ConsensusTree:
        """Returns the tree of the majority cells: those that more than half of all trees have, nested in one another.

        Parameters
        ----------
        min_support : float, default 0.5
            Cells are kept whose probability exceeds this, in [0.5, 1]. At 1 only the cells that all trees have are
            kept.
        draws : int, default 1000
            Number of trees drawn from a posterior that does not consist of draws. The support of an exact posterior is
            exact; its draws give the words.
        rng : int, SeedSequence, Generator or None, default 0
            Source of randomness for those draws.

        Returns
        -------
        ConsensusTree
            ``.format()`` prints it.

        Raises
        ------
        ValueError
            If an argument is out of range or there are no draws.

        Notes
        -----
        Two cells that are each in more than half of the trees are both in some tree, so they are nested or disjoint.
        The cost is that of `support`.

        Examples
        --------
        >>> import numpy as np, pactree_mcmc as pt
        >>> x = np.arange(30.0)
        >>> model = pt.TreeModel(x[:, None], x > 14)
        >>> post = pt.sample(model, 500, tune=50, chains=2, rng=1, kernel="grow-prune", progress=False)
        >>> post.consensus_tree().words
        ['all rows', 'x0 <= 14.5', 'x0 > 14.5']
        """
        post = self._as_draws(draws, rng)
        return consensus_of(post, self._cell_probability(post), min_support)

    def _cell_probability(self, post: SampledPosterior) -> np.ndarray:
        """Returns the probability of each cell of the draws ``post``."""
        return post.cells.frequencies(post.weight_of_tree)

    def credible_set(self, mass: float = 0.95, *, draws: int = 1000, rng: Seed = 0) -> CredibleSet:
        """Returns the set of the most probable trees with posterior probability ``mass`` in all.

        Parameters
        ----------
        mass : float, default 0.95
            Posterior probability of the set, in (0, 1).
        draws : int, default 1000
            For an exact posterior, the largest number of trees that are listed: if this many of the most probable trees
            have the mass, the set is exact; otherwise it is estimated from this many draws.
        rng : int, SeedSequence, Generator or None, default 0
            Source of randomness for those draws.

        Returns
        -------
        CredibleSet
            Has ``tree in set``, ``set.level(tree)`` and ``set.tree(i)``; a tree can also be a fitted scikit-learn tree.

        Raises
        ------
        ValueError
            If an argument is out of range, there are no draws, they are from a progressive mixture, or feature weights
            are unknown and a tree drawn has a cell that admits some features and not others.

        Notes
        -----
        Where feature weights are unknown they are integrated out, in closed form (a Dirichlet-multinomial probability
        of the features split on) if every cell that is split admits all features, or only one.

        Trees are ordered by their log posteriors, which are exact for any tree; only the posterior probability of all
        trees above a given one is estimated from draws, with the Monte-Carlo error of a fraction. Under `LeafPenalty`
        log posteriors are known up to a constant, which does not change the order.

        Examples
        --------
        >>> import numpy as np, pactree_mcmc as pt
        >>> x = np.arange(30.0)
        >>> model = pt.TreeModel(x[:, None], x > 14)
        >>> post = pt.sample(model, 500, tune=50, chains=2, rng=1, kernel="grow-prune", progress=False)
        >>> likely = post.credible_set(0.9)
        >>> post.map_tree() in likely, pt.Tree([-1], [0], [0], [0]) in likely
        (True, False)
        """
        mass = check_mass(mass)
        if not self.sees_all_rows:
            raise ValueError(
                f"the trees of a {type(self).__name__} are of many stages, each with odds of its own, and have no "
                "common credible set; use exact.solve or sample."
            )
        post = self._as_draws(draws, rng)
        return credible_set_of(post, post.weight_of_tree, mass)

    def modes(self, distance: str = "cells", *, most: int = 8, draws: int = 1000, rng: Seed = 0) -> Modes:
        """Returns clusters of the trees: their probability, in all and by chain, a typical tree, and how they differ.

        Parameters
        ----------
        distance : {"cells", "partitions", "predictions"}, default "cells"
            As of `SampledPosterior.tree_distances`.
        most : int, default 8
            Largest number of clusters, 1 to 50.
        draws : int, default 1000
            Number of trees drawn from a posterior that does not consist of draws.
        rng : int, SeedSequence, Generator or None, default 0
            Source of randomness for those draws.

        Returns
        -------
        Modes
            The largest first; a single one if the trees do not form clusters. ``.format()`` prints them.

        Raises
        ------
        ValueError
            If an argument is out of range, there are no draws, or the leaf predicts nothing and ``distance`` is
            "predictions".

        Notes
        -----
        Clusters around medoids of 400 draws, evenly spaced. A larger number of clusters is chosen if their mean
        silhouette (Kaufman and Rousseeuw 1990) is at least 0.25 and exceeds that of fewer clusters by 0.05, and each
        has at least 5 % of the draws; every draw is then assigned to the nearest medoid. They are clusters, not local
        maxima: a large cluster may contain several of these.

        Examples
        --------
        Two columns that predict y equally well, and trees that split on the one or the other:

        >>> import numpy as np, pactree_mcmc as pt
        >>> x = np.arange(40)
        >>> X = np.column_stack([x, (x + (x == 19) - (x == 20)) % 40]).astype(float)
        >>> stumps = [pt.Tree([k, -1, -1], [19.5, 0, 0], [1, 0, 0], [2, 0, 0]) for k in (0, 1)]
        >>> post = pt.posterior_from_trees(pt.TreeModel(X, x > 19), stumps, [[0] * 50, [1] * 50])
        >>> [mode.by_chain.tolist() for mode in post.modes().modes]
        [[1.0, 0.0], [0.0, 1.0]]
        """
        given = self._draws_that_predict if distance == "predictions" else self._as_draws
        return modes_of(given(draws, rng), distance, most)

    def project(self, max_leaves: int = 4, *, draws: int = 1000, rng: Seed = 0) -> Projection:
        """Returns a small tree whose predictions are close to the posterior mean, and how much of it the tree explains.

        Parameters
        ----------
        max_leaves : int, default 4
            Largest number of leaves of the small tree, >= 1.
        draws : int, default 1000
            Number of trees drawn from a posterior that does not consist of draws, for the posterior of R² and of the
            leaves.
        rng : int, SeedSequence, Generator or None, default 0
            Source of randomness for those draws.

        Returns
        -------
        Projection
            The tree, its R², and the posteriors of R² and of the values of the leaves; ``.table()`` has the leaves with
            their intervals.

        Raises
        ------
        ValueError
            If an argument is out of range, there are no draws, or the leaf predicts nothing.

        Notes
        -----
        The tree is grown by least squares on the posterior mean at the training rows, best split first, with the
        model's own cuts; its prior probability may be zero. At the root the best splits on up to 8 features are tried.
        The predictions of each draw are then projected on its leaves, so that the variation of R² and of the leaves is
        that of the posterior (Woody, Carvalho, Murray 2021, sections 2 and 3). For classification all class
        probabilities are projected together. If there are more than 2,000 distinct rows, 2,000 of them are used, evenly
        spaced. O(rows * distinct trees * (depth + leaves)).

        Examples
        --------
        >>> import numpy as np, pactree_mcmc as pt
        >>> x = np.arange(60.0)
        >>> model = pt.TreeModel(x[:, None], np.where(x < 20, 0.0, np.where(x < 40, 3.0, 4.0)) + 0.1 * np.sin(x))
        >>> post = pt.sample(model, 500, tune=50, chains=2, rng=1, kernel="grow-prune", progress=False)
        >>> small = post.project(2)
        >>> print(small.tree.split(0), round(small.r2, 2))
        x0 <= 19.5 0.94
        """
        return projection_of(self._draws_that_predict(draws, rng), max_leaves, self._mean_at)

    def shap(self, X: Any, coverage: float = 0.9, *, draws: int = 1000, rng: Seed = 0) -> Attributions:
        """Shapley values: the contribution of each feature to the prediction for each row, and how uncertain it is.

        Parameters
        ----------
        X : table of shape (n, p)
            As the model's.
        coverage : float, default 0.9
            Of the intervals over the draws; in (0, 1).
        draws : int, default 1000
            Drawn from a posterior that is not draws.
        rng : int, SeedSequence, Generator or None, default 0
            For those draws.

        Returns
        -------
        Attributions
            ``mean``, ``lower``, ``upper`` (n, p, d), of class probabilities (d of them, in the order of
            ``model.classes_``) or of means of y; ``base`` (d,), to which the means of the features add up to the
            prediction; ``importance`` (p, d), the mean absolute contribution, with its interval.

        Raises
        ------
        ValueError
            If X does not fit the model's columns, ``coverage`` is out of range, there are no draws, or the predictions
            of a leaf depend on the row.

        Notes
        -----
        Exact Shapley values of every tree drawn, for the path-dependent value function of TreeSHAP (Lundberg et al.
        2020): a split on a feature that is left out sends a row both ways, in the proportions of the training rows
        (``Tree.rows``, with their weights) in the two children, one half each below an empty node. Intervals are those
        of the contributions in single trees, with equal tails; they do not include what a leaf does not know of its own
        mean. O(nodes * depth²) for a tree and a row, some 100,000 of these a second.

        Examples
        --------
        >>> import numpy as np, pactree_mcmc as pt
        >>> x = np.arange(40)
        >>> X = np.column_stack([x // 20, x % 2]).astype(float)
        >>> stump = pt.Tree([0, -1, -1], [0.5, 0, 0], [1, 0, 0], [2, 0, 0])
        >>> post = pt.posterior_from_trees(pt.TreeModel(X, X[:, 0] * 2.0 + 1.0), [stump])
        >>> found = post.shap(X[-1:])
        >>> found.base.round(2).tolist(), found.mean[0, :, 0].round(2).tolist(), post.predict(X[-1:]).round(2).tolist()
        ([2.0], [0.99, 0.0], [2.99])
        """
        post = self._draws_that_predict(draws, rng)
        return attributions_of(post, self.model.columns.numbers(X), coverage)

    @property
    def _mean_at(self) -> Any:
        """The posterior mean (m, d) as a function of distinct rows if it is known without draws, else None."""
        return None


class ExploresDraws(ExploresTrees):
    """Methods that explore draws of trees."""

    @cached_property
    def cells(self) -> Cells:
        """The cells and splits of the distinct trees, by number."""
        return number_cells(self)  # type: ignore[arg-type]

    def _as_draws(self, draws: int, rng: Seed) -> SampledPosterior:
        check_count("draws", draws)
        read_generator(rng)
        check_drawn(self)  # type: ignore[arg-type]
        return self  # type: ignore[return-value]

    def shap_by_draw(self, X: Any) -> np.ndarray:
        """Shapley values (chains, draws, n, p, d) of the predictions, draw by draw; for few rows.

        As in `shap`; with the mean of the tree's leaf values over the training rows they sum to what the draw predicts.

        Parameters
        ----------
        X : table of shape (n, p)
            As the model's.

        Returns
        -------
        ndarray of shape (chains, draws, n, p, d)

        Raises
        ------
        ValueError
            If X does not fit the model's columns, there are no draws, or the predictions of a leaf depend on the row.

        Examples
        --------
        >>> import numpy as np, pactree_mcmc as pt
        >>> stump = pt.Tree([0, -1, -1], [9.5, 0, 0], [1, 0, 0], [2, 0, 0])
        >>> post = pt.posterior_from_trees(pt.TreeModel(np.arange(20.0)[:, None], np.arange(20) > 9), [stump])
        >>> post.shap_by_draw([[3.0], [12.0]])[0, 0, :, 0, 1].round(3).tolist()
        [-0.417, 0.417]
        """
        check_drawn(self)  # type: ignore[arg-type]
        X = self.model.columns.numbers(X)
        return shapley_values(self, X)[self.tree_of_draw]  # type: ignore[arg-type,attr-defined]

    def asdsf(self, min_probability: float = 0.1) -> SplitFrequencies:
        """Returns the average standard deviation, between chains, of the frequencies of cells, and its expected value.

        Parameters
        ----------
        min_probability : float, default 0.1
            Cells are used whose frequency in some chain is at least this, in [0, 1].

        Returns
        -------
        SplitFrequencies
            ``asdsf``, ``expected``, ``n_cells``. The first two are similar if the chains agree; ``asdsf`` is many times
            ``expected`` if the chains are in different modes. Zeros if there are no such cells; ``expected`` is NaN
            with fewer than 4 draws a chain.

        Raises
        ------
        ValueError
            If ``min_probability`` is out of range or there are no draws.

        Notes
        -----
        As in MrBayes, where values below .01 count as good whatever the number of draws (Ronquist et al. 2012).
        ``expected`` is the mean standard deviation of frequencies that differ by their Monte-Carlo errors alone, given
        the autocorrelation of each cell's indicator within chains. For a single chain its two halves are compared.

        Examples
        --------
        >>> import pactree_mcmc as pt
        >>> stumps = [pt.Tree([0, -1, -1], [t, 0, 0], [1, 0, 0], [2, 0, 0]) for t in (4.5, 5.5)]
        >>> model = pt.TreeModel([[float(x)] for x in range(10)], [x > 5 for x in range(10)])
        >>> stuck = pt.posterior_from_trees(model, stumps, [[0] * 100, [1] * 100]).asdsf()
        >>> round(stuck.asdsf, 3), round(stuck.expected, 3), stuck.n_cells
        (0.707, 0.04, 4)
        """
        return split_frequencies(self, min_probability)  # type: ignore[arg-type]

    def tree_ess(self) -> TreeEss:
        """Returns the effective sample size of the draws as trees, from the distances between them.

        Returns
        -------
        TreeEss
            ``pseudo_min`` and ``pseudo_median``, the smallest and the median effective sample size of the distances
            from 100 focal trees, draws evenly spaced; ``frechet``, from the autocorrelation of the trees in the space
            of cells; ``rhat``, the largest R-hat of those distances; ``mean_distance``. NaN with fewer than 4 draws a
            chain.

        Raises
        ------
        ValueError
            If there are no draws.

        Notes
        -----
        Magee, Karcher, Matsen, Minin (2024), where the squared distance of two trees is the number of cells that only
        one of them has. Both estimates use the split chains and the variance between them (Vehtari et al. 2021), so
        that chains in different modes have few effective draws even if their log posteriors agree. For independent
        draws the effective sample size is about their number; the smallest of 100 is a little below it. O(draws *
        leaves) for each lag, for as many lags as trees remain correlated.

        Examples
        --------
        >>> import exact, pactree_mcmc as pt
        >>> truth = exact.solve(pt.TreeModel([[float(x)] for x in range(30)], [x % 7 > 2 for x in range(30)]))
        >>> bool(900 < truth.sample(1000, rng=1).tree_ess().frechet < 1100)
        True
        """
        return tree_ess_of(self)  # type: ignore[arg-type]

    def tree_distances(self, draws: Any = None, *, kind: str = "cells") -> TreeDistances:
        """Returns the distances between the trees of some draws.

        Parameters
        ----------
        draws : array-like of shape (m,), optional
            Numbers of draws, chain * n_draws + draw. Default: 400 draws, evenly spaced.
        kind : {"cells", "partitions", "predictions"}, default "cells"
            "cells": the number of cells that only one of the two has; its square root is a Euclidean distance.
            "partitions": variation of information of the leaves as partitions of the training rows, nats.
            "predictions": root mean square difference of their predictions over the training rows, for classification
            summed over the classes.

        Returns
        -------
        TreeDistances
            ``matrix`` (m, m) and the ``chain``, ``draw`` and ``tree`` of each.

        Raises
        ------
        ValueError
            If an argument is not one of these, there are no draws, or the leaf predicts nothing and ``kind`` is
            "predictions".

        Notes
        -----
        O(m²) times the leaves of a tree for cells, times the rows for partitions and predictions. If there are more
        than 2,000 distinct rows, 2,000 of them are used, evenly spaced.

        Examples
        --------
        >>> import pactree_mcmc as pt
        >>> stumps = [pt.Tree([0, -1, -1], [t, 0, 0], [1, 0, 0], [2, 0, 0]) for t in (4.5, 5.5)]
        >>> model = pt.TreeModel([[float(x)] for x in range(10)], [x > 5 for x in range(10)])
        >>> post = pt.posterior_from_trees(model, stumps)
        >>> [float(post.tree_distances(kind=kind).matrix[0, 1].round(3)) for kind in ("cells", "partitions")]
        [4.0, 0.521]
        """
        return distances_between(self, draws, kind)  # type: ignore[arg-type]
