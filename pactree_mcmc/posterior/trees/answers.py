"""Methods of every posterior that describe its trees. Each calls a function of another file of this folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...core.checks import Seed, check_count
from ...model.model import simulated_inclusion
from ...tree.coded import key_words
from ..protocol import AnyPosterior, documented
from .consensus import ConsensusTree, consensus_of
from .credible_set import CredibleSet, check_mass, credible_set_of, refuse_other_odds
from .interactions import interactions_of
from .shapes import Shapes, shapes_of
from .support import Support, support_of_draws

if TYPE_CHECKING:
    import pandas as pd


class AnswersAboutTrees(AnyPosterior):
    """Methods that describe the trees; one half of `Posterior`.

    If the posterior does not consist of draws and an answer needs some, ``draws`` trees are drawn with ``rng``.
    """

    def feature_inclusion(self) -> pd.Series:
        """Return the probability that a tree splits on each feature at least once.

        Returns
        -------
        Series
            Probabilities by name of the feature, the largest first; compare them with `prior_inclusion`.

        Examples
        --------
        >>> import exact, pactree_mcmc as pt
        >>> truth = exact.solve(pt.TreeModel({"size": [0.0, 1.0, 2.0, 3.0], "same": [1.0] * 4}, [0, 0, 1, 1]))
        >>> truth.feature_inclusion().round(2).to_dict()
        {'size': 0.97, 'same': 0.0}
        """
        return _sorted_series(list(self.model.columns.names), self._feature_inclusion())

    def prior_inclusion(self, *, draws: int = 1000, rng: Seed = 0) -> pd.Series:
        """Return the prior probability that a tree splits on each feature at least once.

        Parameters
        ----------
        draws : int, default 1000
            Number of trees drawn from the prior, if the posterior is not exact.
        rng : int, SeedSequence, Generator or None, default 0
            Source of randomness for those draws.

        Returns
        -------
        Series
            Probabilities by name of the feature, in the order of `feature_inclusion`. Exact for a posterior of
            `exact.solve`; otherwise with a standard error of at most .016 for 1000 draws.

        Raises
        ------
        ValueError
            If ``draws`` is out of range, or if the posterior is not exact and the prior a LeafPenalty.

        Notes
        -----
        The draws are made once for a model and a seed, and stored with the model: some milliseconds a tree.

        Examples
        --------
        >>> import exact, pactree_mcmc as pt
        >>> model = pt.TreeModel({"size": [0.0, 1.0, 2.0, 3.0], "same": [1.0] * 4}, [0, 0, 1, 1])
        >>> exact.solve(model).prior_inclusion().round(2).to_dict()
        {'size': 0.95, 'same': 0.0}
        """
        prior = self._prior_inclusion(check_count("draws", draws), rng)
        return _sorted_series(list(self.model.columns.names), prior).reindex(self.feature_inclusion().index)

    def _prior_inclusion(self, draws: int, rng: Seed) -> np.ndarray:
        """Return the prior probability (p,) that a tree splits on each feature at least once, by simulation.

        ``draws`` trees are drawn from the prior with ``rng``. A posterior of `exact.solve` computes it without draws.
        """
        return simulated_inclusion(self.model, draws, rng)

    def root_split_pmf(self) -> pd.Series:
        """Return the distribution of the split at the root.

        Returns
        -------
        Series
            Probabilities by the words of the split, such as "age <= 41.5", the largest first; "none" if the tree is a
            single leaf.

        Examples
        --------
        >>> import exact, pactree_mcmc as pt
        >>> truth = exact.solve(pt.TreeModel({"size": [0.0, 1.0, 2.0, 3.0]}, [0, 0, 1, 1]))
        >>> truth.root_split_pmf().round(2).to_dict()
        {'size <= 1.5': 0.5, 'size <= 0.5': 0.24, 'size <= 2.5': 0.24, 'none': 0.03}
        """
        pmf = self._root_split_pmf()
        return _sorted_series([key_words(self.model, key) for key in pmf], np.array([*pmf.values()]))

    @documented
    def support(self, min_probability: float = 0.05, *, draws: int = 1000, rng: Seed = 0) -> Support:
        """Return the cells and splits of the trees, with their probabilities and Monte-Carlo errors.

        A cell is the set of training rows of a node, a split the unordered partition of a cell in two: a nominal split
        with its sides exchanged, or another threshold between the same rows, is the same split. Cells are to decision
        trees what clades are to phylogenies.

        Parameters
        ----------
        min_probability : float, default 0.05
            Smallest probability that is listed, in [0, 1]. With 0 all that occur in draws are listed.
        {draws_1000}

        Returns
        -------
        Support
            Arrays by cell and split; ``.table()`` is a DataFrame, ``.series()`` the probabilities by name. Exact for an
            exact posterior; with fewer than 4 draws a chain R-hat, effective sample size and error are NaN.

        {raises}

        Notes
        -----
        R-hat, effective sample size and error are those of the indicator of the cell (formulas, section 12.5). The
        words are those of the path in the most probable tree with the cell, or for an exact posterior of the most
        probable splits that lead to it. Of more than 2,000 distinct rows 2,000 are used, evenly spaced: cells that
        differ only in other rows count as one. O(rows * depth) a distinct tree, O(draws * log(draws)) a cell.

        Examples
        --------
        >>> import numpy as np, pactree_mcmc as pt
        >>> x = np.repeat([0.0, 1.0], 15)
        >>> post = pt.sample(pt.TreeModel(x[:, None], x > 0), 500, tune=50, chains=2, rng=1, kernel="grow-prune")
        >>> print(post.support(0.5).table()[["kind", "words", "rows"]].to_string(index=False))
         kind               words  rows
         cell           x0 <= 0.5  15.0
         cell            x0 > 0.5  15.0
        split all rows: x0 <= 0.5  30.0
        """
        return support_of_draws(self._as_draws(draws, rng), min_probability)

    @documented
    def interactions(
        self, min_probability: float = 0.05, *, most: int = 20, draws: int = 1000, rng: Seed = 0
    ) -> pd.DataFrame:
        """Return the pairs of features on one path of a tree, with the probability of each pair.

        Parameters
        ----------
        min_probability : float, default 0.05
            Pairs with at least this probability are listed, in [0, 1]. Pairs of probability 0 are not.
        most : int, default 20
            Largest number of pairs that are listed, the most probable ones.
        {draws_1000}

        Returns
        -------
        DataFrame
            One line for each pair, the most probable first: ``feature`` and ``other``, their names, and the
            ``probability`` that a tree splits on one of them below the other.

        {raises}

        Notes
        -----
        A probability above 0 does not show an interaction: a single tree adds two effects by splits below one another,
        so it has such a pair for additive data too. Compare with a posterior for additive data, and look at the
        partial dependence on both features, ``pt.plots.plot_partial_dependence(post, (one, other))``. O(nodes * depth).

        Examples
        --------
        >>> import numpy as np, pactree_mcmc as pt
        >>> X = np.random.default_rng(0).integers(0, 4, size=(200, 3)).astype(float)
        >>> model = pt.TreeModel(X, ((X[:, 0] > 1) & (X[:, 1] > 1)) * 1.0 + 0.1 * np.sin(np.arange(200)))
        >>> post = pt.sample(model, 200, tune=200, chains=2, rng=1, kernel="grow-prune", progress=False)
        >>> post.interactions()[["feature", "other"]].iloc[0].tolist()
        ['x0', 'x1']
        """
        return interactions_of(self._as_draws(draws, rng), min_probability, most)

    @documented
    def consensus_tree(
        self, min_support: float = 0.5, *, join_cuts: bool = True, draws: int = 1000, rng: Seed = 0
    ) -> ConsensusTree:
        """Return the tree of the majority cells: those that more than half of all trees have, nested in one another.

        Parameters
        ----------
        min_support : float, default 0.5
            Cells with a larger probability than this are shown, in [0.5, 1]. At 1 cells that all trees have are shown.
        join_cuts : bool, default True
            Join cells that trees reach by the same sides of the same features, whatever the cuts, and give each cut
            that varies an interval, with probability 0.9 among these trees. With False only cells with exactly the same
            training rows are the same.
        {draws_1000}

        Returns
        -------
        ConsensusTree
            ``print`` shows it. The support is exact for an exact posterior and cells that are not joined.

        {raises}

        Notes
        -----
        Two cells that are each in more than half of the trees are both in some tree, so they are nested or disjoint.
        Conditions and predictions of joined cells are those of the most probable tree that has the cell, and rows are
        the mean. The cost is that of `support`.

        Examples
        --------
        >>> import numpy as np, pactree_mcmc as pt
        >>> x = np.repeat([0.0, 1.0], 15)
        >>> post = pt.sample(pt.TreeModel(x[:, None], x > 0), 500, tune=50, chains=2, rng=1, kernel="grow-prune")
        >>> post.consensus_tree().words
        ['all rows', 'x0 <= 0.5', 'x0 > 0.5']
        """
        post = self._as_draws(draws, rng)
        return consensus_of(post, self._cell_probability(post), min_support, join_cuts)

    def credible_set(self, mass: float = 0.95, *, draws: int = 1000, rng: Seed = 0) -> CredibleSet:
        """Return the set of the most probable trees with posterior probability ``mass`` in all.

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
            If an argument is out of range, or the draws are from a progressive mixture.

        Notes
        -----
        Trees are ordered by their log posteriors, which are exact for any tree, under `LeafPenalty` up to a constant.
        Only the posterior probability of all trees above a given one is estimated from draws, with the Monte-Carlo
        error of a fraction.

        Examples
        --------
        >>> import numpy as np, pactree_mcmc as pt
        >>> x = np.arange(30.0)
        >>> post = pt.sample(pt.TreeModel(x[:, None], x > 14), 500, tune=50, chains=2, rng=1, kernel="grow-prune")
        >>> likely = post.credible_set(0.9)
        >>> post.map_tree() in likely, pt.Tree([-1], [0], [0], [0]) in likely
        (True, False)
        """
        mass = check_mass(mass)
        refuse_other_odds(self)
        post = self._as_draws(draws, rng)
        return credible_set_of(post, post.weight_of_tree, mass)

    @documented
    def shapes(self, most: int = 10, coverage: float = 0.9, *, draws: int = 4000, rng: Seed = 0) -> Shapes:
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
        leaf parameters. O(nodes of the distinct trees), in plain Python.

        Examples
        --------
        >>> import numpy as np, pactree_mcmc as pt
        >>> x = np.arange(30.0)
        >>> post = pt.sample(pt.TreeModel(x[:, None], x > 14), 500, tune=50, chains=2, rng=1, kernel="grow-prune")
        >>> post.shapes().shapes[0].splits["feature"].tolist()
        ['x0']
        """
        return shapes_of(self._draws_that_predict(draws, rng), most, coverage)


def _sorted_series(names: list[str], probability: np.ndarray) -> pd.Series:
    """Return a Series of the probabilities (n,), indexed by ``names``, the largest first."""
    import pandas as pd

    series = pd.Series(probability, index=names, name="probability")
    return series.sort_values(ascending=False, kind="stable")
