"""Methods of a sampled posterior that need the chains: their diagnostics."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from .convergence import diagnosis_of
from .draws import DrawnTrees
from .trees.distances import TreeEss, tree_ess_of
from .trees.support import SplitFrequencies, split_frequencies

if TYPE_CHECKING:
    import pandas as pd


class AnswersAboutChains(DrawnTrees):
    """Methods of `SampledPosterior` that compare and diagnose its chains."""

    def asdsf(self, min_probability: float = 0.1) -> SplitFrequencies:
        """Return the average standard deviation, between chains, of the frequencies of cells, and its expected value.

        Parameters
        ----------
        min_probability : float, default 0.1
            Smallest frequency, in at least one chain, of the cells that are used, in [0, 1].

        Returns
        -------
        SplitFrequencies
            ``asdsf``, ``expected``, ``n_cells``. The first two are similar if the chains agree; ``asdsf`` is many times
            ``expected`` if the chains are in different modes. Zeros if there are no such cells; ``expected`` is NaN
            with fewer than 4 draws a chain.

        Raises
        ------
        ValueError
            If ``min_probability`` is out of range.

        Notes
        -----
        As in MrBayes, in which values below .01 are good whatever the number of draws (Ronquist et al. 2012).
        ``expected`` is the mean standard deviation of frequencies that differ by their Monte-Carlo errors alone, given
        the autocorrelation of each cell's indicator. For a single chain its two halves are compared.

        Examples
        --------
        >>> import pactree_mcmc as pt
        >>> stumps = [pt.Tree([0, -1, -1], [t, 0, 0], [1, 0, 0], [2, 0, 0]) for t in (4.5, 5.5)]
        >>> model = pt.TreeModel([[float(x)] for x in range(10)], [x > 5 for x in range(10)])
        >>> stuck = pt.posterior_from_trees(model, stumps, [[0] * 100, [1] * 100]).asdsf()
        >>> round(stuck.asdsf, 3), round(stuck.expected, 3), stuck.n_cells
        (0.707, 0.04, 4)
        """
        return split_frequencies(self, min_probability)

    def tree_ess(self) -> TreeEss:
        """Return the effective sample size of the draws as trees, from the distances between them.

        Returns
        -------
        TreeEss
            ``pseudo_min`` and ``pseudo_median``, the smallest and the median effective sample size of the distances
            from 100 focal trees, draws evenly spaced; ``frechet``, from the autocorrelation of the trees in the space
            of cells; ``rhat``, the largest R-hat of those distances; ``mean_distance``. NaN with fewer than 4 draws a
            chain.

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
        return tree_ess_of(self)

    @cached_property
    def diagnosis(self) -> pd.DataFrame:
        """Convergence diagnostics of all quantities checked, the worst first.

        One row per quantity, by name: the log posterior, the number of leaves, the depth, root features, features in
        the tree, distances from some trees drawn, and predictions at training rows.
        Columns ``kind``, ``rhat``, ``ess`` and ``fails``. ``attrs["warning"]`` is the text of the warning, empty if
        nothing fails. There are no rows if there are too few draws. It takes about a second, and is stored.

        Examples
        --------
        >>> import numpy as np, pactree_mcmc as pt
        >>> x = np.arange(40.0)
        >>> post = pt.sample(pt.TreeModel(x[:, None], x > 19), 200, tune=50, chains=2, rng=1, kernel="grow-prune")
        >>> post.diagnosis.columns.tolist()
        ['kind', 'rhat', 'ess', 'fails']
        """
        return diagnosis_of(self)
