"""The splits on trees as trees that every posterior answers, and those that draws alone do."""

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
from .consensus import ConsensusTree, consensus_of
from .credible_set import CredibleSet, check_mass, credible_set_of
from .modes import Modes, modes_of
from .projection import Projection, projection_of

if TYPE_CHECKING:
    from ...model import TreeModel
    from ..sampled import SampledPosterior


class ExploresTrees:
    """What can be asked of any posterior over trees.

    Of a posterior that is not draws, ``draws`` trees are drawn with ``rng`` where the answer takes draws.
    """

    model: TreeModel
    sees_all_rows: ClassVar[bool] = True
    """Whether every tree is of the posterior given all rows."""

    if TYPE_CHECKING:

        @abstractmethod
        def _drawn_trees(self, n: int, rng: np.random.Generator) -> tuple[SampledPosterior, np.ndarray]: ...

    def _as_draws(self, draws: int, rng: Seed) -> SampledPosterior:
        """The posterior as draws."""
        return self._drawn_trees(check_count("draws", draws), read_generator(rng))[0]

    def _draws_that_predict(self, draws: int, rng: Seed) -> SampledPosterior:
        """As `_as_draws`, where each draw predicts what its statistics say."""
        return self._as_draws(draws, rng)

    def support(self, min_probability: float = 0.05, *, draws: int = 1000, rng: Seed = 0) -> Support:
        """The cells and splits that trees have, how probable each is, and how well that is known.

        A cell is the set of training rows of a node, a split the unordered partition of a cell in two: a nominal split
        turned round and another threshold between the same rows are the same split. What clades are to phylogenies,
        cells are to decision trees.

        Parameters
        ----------
        min_probability : float, default 0.05
            Less probable ones are left out; in [0, 1]. With 0, of draws, all that occur.
        draws : int, default 1000
            Drawn from a posterior that neither is draws nor knows its cells, such as an exact progressive mixture.
        rng : int, SeedSequence, Generator or None, default 0
            For those draws.

        Returns
        -------
        Support
            Arrays by cell and split; ``.table()`` is the DataFrame. Of an exact posterior the probabilities are exact;
            with fewer than 4 draws a chain R-hat, effective sample size and error are NaN.

        Raises
        ------
        ValueError
            If an argument is out of range or there are no draws.

        Notes
        -----
        R-hat, effective sample size and Monte-Carlo error are those of the trace of 0 and 1 (formula sheet, section
        12.5). The words are those of the path in the most probable tree that has the cell; an exact posterior takes the
        most probable of the splits that lead to each cell on the way.
        Of more than 2,000 distinct rows so many are looked at, evenly spaced: cells that differ in other rows only
        count as one, and one without such rows is none; ``Support.n_rows`` and ``table().attrs["rows"]`` say so.
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
        """The tree of the majority cells: those that more than half of all trees have, each in the smallest around it.

        Parameters
        ----------
        min_support : float, default 0.5
            A cell must be more probable than this; in [0.5, 1]. At 1 those remain that all trees have.
        draws : int, default 1000
            Drawn from a posterior that is not draws. The support of an exact one is exact; its draws give the words.
        rng : int, SeedSequence, Generator or None, default 0
            For those draws.

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
        """Probability of each cell of the draws ``post``."""
        return post.cells.frequencies(post.weight_of_tree)

    def credible_set(self, mass: float = 0.95, *, draws: int = 1000, rng: Seed = 0) -> CredibleSet:
        """The most probable trees that together hold ``mass`` of the posterior, and whether any given tree is in it.

        Parameters
        ----------
        mass : float, default 0.95
            In (0, 1).
        draws : int, default 1000
            Of an exact posterior, the most trees that are listed: if the best so many hold the mass, the set is exact,
            else it is made from so many draws.
        rng : int, SeedSequence, Generator or None, default 0
            For those draws.

        Returns
        -------
        CredibleSet
            ``tree in set``, ``set.level(tree)``, ``set.tree(i)``; fitted scikit-learn trees are taken too.

        Raises
        ------
        ValueError
            If an argument is out of range, there are no draws, or they are of a progressive mixture.

        Notes
        -----
        The order of the trees is that of their log posteriors, exact for any tree; only the fraction of the posterior
        above a tree comes from draws, with the Monte-Carlo error of a fraction. Under `LeafPenalty` a constant that all
        trees share is left out, which changes nothing.

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
                f"the trees of a {type(self).__name__} are of many stages, each with odds of its own: there is no one "
                "set; ask exact.solve or sample."
            )
        post = self._as_draws(draws, rng)
        return credible_set_of(post, post.weight_of_tree, mass)

    def modes(self, distance: str = "cells", *, most: int = 8, draws: int = 1000, rng: Seed = 0) -> Modes:
        """Clusters of the trees: their mass, in all and by chain, a typical tree of each, and what they differ in.

        Parameters
        ----------
        distance : {"cells", "partitions", "predictions"}, default "cells"
            As of `SampledPosterior.tree_distances`.
        most : int, default 8
            Clusters at most, 1 to 50.
        draws : int, default 1000
            Drawn from a posterior that is not draws.
        rng : int, SeedSequence, Generator or None, default 0
            For those draws.

        Returns
        -------
        Modes
            The largest first; one where the trees fall into no clusters. ``.format()`` prints them.

        Raises
        ------
        ValueError
            If an argument is out of range, there are no draws, or the leaf predicts nothing and ``distance`` is
            "predictions".

        Notes
        -----
        Medoids of 400 draws, evenly spaced. More clusters are taken where their mean silhouette (Kaufman and Rousseeuw
        1990) is at least 0.25 and larger by 0.05 than with fewer, and each holds 5 % of the draws; every draw then
        belongs to the nearest medoid. They are clusters, not local maxima: a large one may hold several of these.

        Examples
        --------
        Two columns that tell y alike, and trees that ask the one or the other:

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
        """One small tree that predicts most nearly what the posterior does on average, and how much of it that keeps.

        Parameters
        ----------
        max_leaves : int, default 4
            Leaves of the small tree at most, >= 1.
        draws : int, default 1000
            Drawn from a posterior that is not draws, for the posterior of R² and of the leaves.
        rng : int, SeedSequence, Generator or None, default 0
            For those draws.

        Returns
        -------
        Projection
            The tree, the R² that it keeps, the posterior of that R² and of the values of the leaves; ``.table()`` has
            the leaves with their intervals.

        Raises
        ------
        ValueError
            If an argument is out of range, there are no draws, or the leaf predicts nothing.

        Notes
        -----
        The tree is grown by least squares on the posterior mean at the training rows, best split first, with the
        model's own cuts; it needs no prior mass. At the root the best split of each of up to 8 features is tried. Each
        draw's predictions are then projected on its leaves, so that the spread of R² and of the leaves is that of the
        posterior (Woody, Carvalho, Murray 2021, sections 2 and 3). For classes all class probabilities are projected at
        once. Of more than 2,000 distinct rows so many are looked at, evenly spaced. O(rows * distinct trees * (depth +
        leaves)).

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

    @property
    def _mean_at(self) -> Any:
        """The posterior mean (m, d) as a function of distinct rows, where it is known without draws; else None."""
        return None


class ExploresDraws(ExploresTrees):
    """What can be asked of draws alone."""

    @cached_property
    def cells(self) -> Cells:
        """The cells and splits of the distinct trees, by number."""
        return number_cells(self)  # type: ignore[arg-type]

    def _as_draws(self, draws: int, rng: Seed) -> SampledPosterior:
        check_count("draws", draws)
        read_generator(rng)
        check_drawn(self)  # type: ignore[arg-type]
        return self  # type: ignore[return-value]

    def asdsf(self, min_probability: float = 0.1) -> SplitFrequencies:
        """Average standard deviation between chains of how often they have each cell, and what to expect of it.

        Parameters
        ----------
        min_probability : float, default 0.1
            Cells that no chain has so often are left out; in [0, 1].

        Returns
        -------
        SplitFrequencies
            ``asdsf``, ``expected``, ``n_cells``. The two are alike where chains agree; ``asdsf`` is many times the
            other where they sit in different places. Zeros without cells; NaN expected with fewer than 4 draws a chain.

        Raises
        ------
        ValueError
            If ``min_probability`` is out of range or there are no draws.

        Notes
        -----
        After MrBayes, where .01 is taken for good whatever the number of draws (Ronquist et al. 2012). Expected is the
        mean standard deviation of frequencies that differ by their Monte-Carlo errors alone, at the autocorrelation
        that each cell's trace has within chains. One chain is compared half with half.

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
        """Effective sample size of the trees as such, from the distances between them.

        Returns
        -------
        TreeEss
            ``pseudo_min`` and ``pseudo_median``, the least and the median effective sample size of the distance from
            one of 100 focal trees, draws evenly spaced; ``frechet``, by the autocorrelation of the trees in the space
            of cells; ``rhat``, the largest of those distances; ``mean_distance``. NaN with fewer than 4 draws a chain.

        Raises
        ------
        ValueError
            If there are no draws.

        Notes
        -----
        Magee, Karcher, Matsen, Minin (2024), with the number of cells that only one of two trees has as the square of
        their distance. Both take the halves of all chains with the variance between them (Vehtari et al. 2021), so
        chains that sit in different places have few effective draws, though the log posterior be the same. Independent
        draws have about as many as they are; the least of 100 numbers is a little below. O(draws * leaves) a lag, as
        many lags as trees remain correlated.

        Examples
        --------
        >>> import exact, pactree_mcmc as pt
        >>> truth = exact.solve(pt.TreeModel([[float(x)] for x in range(30)], [x % 7 > 2 for x in range(30)]))
        >>> bool(900 < truth.sample(1000, rng=1).tree_ess().frechet < 1100)
        True
        """
        return tree_ess_of(self)  # type: ignore[arg-type]

    def tree_distances(self, draws: Any = None, *, kind: str = "cells") -> TreeDistances:
        """Distances between the trees of some draws.

        Parameters
        ----------
        draws : array-like of shape (m,), optional
            Numbers of draws, those of the first chain first: chain * n_draws + draw. Default: 400 of all, evenly
            spaced.
        kind : {"cells", "partitions", "predictions"}, default "cells"
            "cells": the number of cells that only one of the two has; its root is a Euclidean distance.
            "partitions": variation of information of the leaves as partitions of the training rows, nats.
            "predictions": root mean square, over training rows, of the difference of what they predict, of class
            probabilities summed over the classes.

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
        O(m²) times the leaves of a tree for cells, times the rows for partitions and predictions. Of more than 2,000
        distinct rows so many are looked at, evenly spaced.

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
