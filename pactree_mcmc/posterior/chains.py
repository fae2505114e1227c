"""Methods of a sampled posterior that need the chains: diagnostics, reweighting, and a new run on more rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from ..core.checks import Seed, check_count
from ..model.plain import can_start
from ..tree.tree import Tree
from .convergence import diagnosis_of
from .draws import DrawnTrees
from .reweighting import Reweighting, refuse_restricted, reweight_draws
from .trees.distances import TreeEss, tree_ess_of
from .trees.support import SplitFrequencies, check_drawn, split_frequencies

if TYPE_CHECKING:
    import pandas as pd

    from ..model import TreeModel


MAX_START_CANDIDATES = 10
"""Number of the last draws of a chain among which `update` searches for a tree to start at."""


class AnswersAboutChains(DrawnTrees):
    """Methods of `SampledPosterior` that compare, diagnose and reweight its draws."""

    _sample: ClassVar[Callable[..., Any]]
    """The function `pactree_mcmc.sample`, which this layer may not import; `pactree_mcmc.__init__` sets it."""
    reweighting: Reweighting | None = None
    """Effective size and ratio of evidences, if `reweight` made the draws; else None."""

    @property
    @abstractmethod
    def _evidence(self) -> tuple[float | None, float | None]:
        """Log evidence and its standard error, None if they were not estimated."""

    def reweight(self, model: TreeModel, *, least_ess: float = 100.0, rng: Seed = 0) -> Self:
        """Return the posterior of the same rows under another prior or leaf, from the same draws by importance.

        Parameters
        ----------
        model : TreeModel
            Model of the same X and y, with another tree prior, split prior or leaf.
        least_ess : float, default 100.0
            Smallest effective number of draws that is accepted, >= 1.
        rng : int, SeedSequence, Generator or None, default 0
            Source of randomness of the resampling.

        Returns
        -------
        SampledPosterior
            As many draws, resampled in proportion to their weights, as one chain. ``reweighting`` has the effective
            size ``ess`` before resampling, and ``log_evidence_ratio``, the log evidence of the new model minus that of
            the old one, with its standard error. If the old evidence is known, so is ``log_evidence``.

        Raises
        ------
        TypeError
            If ``model`` is not a TreeModel.
        ValueError
            If the effective size is below ``least_ess``, the model has other rows, y or columns, its parameters allow
            trees that the old prior excludes, feature weights are unknown, the leaves have a common drawn variance and
            differ, or a number is out of range.

        Notes
        -----
        The weight of a draw is the ratio of prior times score under both models; their mean estimates the ratio of
        evidences, under LeafPenalty of its unnormalised prior. The effective size is that of Kish, (sum of weights)^2 /
        sum of squared weights. It cannot show trees that are probable under the new prior and were never drawn:
        reweight from the vaguer prior to the narrower one.
        Plain Python: some thousands of distinct trees take some seconds.

        Examples
        --------
        >>> import numpy as np, pactree_mcmc as pt
        >>> x = np.arange(40.0)
        >>> post = pt.sample(pt.TreeModel(x[:, None], x > 19), 200, tune=50, chains=2, rng=1, kernel="grow-prune")
        >>> strict = pt.TreeModel(x[:, None], x > 19, tree_prior=pt.ChipmanPrior(0.95, 3.0))
        >>> bool(post.reweight(strict).n_leaves.mean() <= post.n_leaves.mean())
        True
        """
        return reweight_draws(self, model, least_ess, rng)

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
            If ``min_probability`` is out of range or there are no draws.

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
        return tree_ess_of(self)

    @cached_property
    def diagnosis(self) -> pd.DataFrame:
        """Convergence diagnostics of all quantities checked, the worst first.

        One row per quantity, by name: the log posterior, the number of leaves, the depth, root features, features in
        the tree, distances from some trees drawn, predictions at training rows, and feature weights if they are drawn.
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

    def update(self, X: Any, y: Any, *, sample_weight: Any = None, rng: Seed = None, **options: Any) -> Self:
        """Return the posterior given the rows of the model and further ones, by a run that starts at the trees drawn.

        Parameters
        ----------
        X : table of shape (m, p)
            Further rows, with the columns of the model.
        y : array-like of shape (m,) or (m, d)
            Values of y of the further rows.
        sample_weight : array-like of shape (m,), optional
            Weights of the further rows.
        rng : int, SeedSequence, Generator or None
            Source of randomness.
        **options
            Further arguments of `sample`. By default ``draws`` and ``chains`` are those of this posterior, and each
            chain starts at the last tree of one of its chains.

        Returns
        -------
        SampledPosterior
            Draws from the posterior of ``post.model.with_rows(X, y)``.

        Raises
        ------
        ValueError
            If the rows do not fit the model, as for `TreeModel.with_rows`, there are no draws, or the draws are those
            of `restrict`, whose constraint a new run would not keep.

        Notes
        -----
        It is a run of `sample` on all rows, exact in the limit whatever the start, and costs about as much as a first
        run; the start saves the part of tuning that finds probable trees. Densities of whole trees are fitted anew,
        since their cells are sets of rows. The chains start as far apart as the posterior is wide: if the new rows
        change much, compare with ``start="dispersed"``.

        Examples
        --------
        >>> import numpy as np, pactree_mcmc as pt
        >>> x, options = np.arange(40.0), {"tune": 50, "kernel": "grow-prune", "progress": False}
        >>> post = pt.sample(pt.TreeModel(x[:, None], x > 19), 200, chains=2, rng=1, **options)
        >>> post.update([[45.0], [50.0]], [True, True], rng=2, **options).model.n_rows
        42
        """
        check_drawn(self)
        refuse_restricted(self, "update the posterior before, and restrict the result")
        model = self.model.with_rows(X, y, sample_weight=sample_weight)
        chains = check_count("chains", options.get("chains", self.n_chains))
        defaults = {"draws": self.n_draws, "chains": chains, "rng": rng, "start": self._start_trees(model, chains)}
        return self._sample(model, **(defaults | options))

    def _start_trees(self, model: TreeModel, n_chains: int) -> Any:
        """Return a list of trees at which ``n_chains`` chains of a run on ``model`` can start, for `update`.

        They are the last drawn trees of the chains of this posterior that the model allows, in turn. Return the option
        "dispersed" of `sample` if it allows none of the last 10 trees of any chain, or feature weights are drawn.
        """
        last_trees = self.tree_of_draw[:, ::-1][:, :MAX_START_CANDIDATES]
        start_of_tree: dict[int, Tree | None] = {}
        for t in np.unique(last_trees).tolist():
            tree = self.distinct_tree(t)
            is_allowed = self.model.split_prior.drawn_weights is None and can_start(model, tree)
            start_of_tree[t] = tree if is_allowed else None
        usable = [[start_of_tree[t] for t in row if start_of_tree[t] is not None] for row in last_trees.tolist()]
        starts = [trees[0] for trees in usable if trees]
        return [starts[c % len(starts)] for c in range(n_chains)] if starts else "dispersed"
