"""The sampled posterior: draws of chains, or independent ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..core.checks import Seed, check_count, read_generator
from ..files.store import AnyPath, check_output_path, write_parts
from ..model.leaf.distributions import Mixture
from ..tree.arrays import add_predictions_into, leaf_values, leaves_reached
from ..tree.coded import RootKey, root_key
from ..tree.tree import Tree
from . import inference_data
from .base import Posterior
from .chains import AnswersAboutChains
from .draws import draws_of
from .evidence import combined_evidence
from .rows.predictive import MAX_LEAVES_PER_BLOCK, mean_and_square_by_row, std_over_trees
from .trees.cells import kl_of_draws
from .trees.distances import TreeDistances, distances_between

if TYPE_CHECKING:
    import pandas as pd


class SampledPosterior(AnswersAboutChains, Posterior):
    """Draws of trees: from chains, or independent ones from the exact engine.

    Attributes
    ----------
    model : TreeModel
        The model whose trees are drawn.
    coded_trees : CodedTrees
        The distinct trees that were drawn, one after the other, with splits in codes. Arrays whose names end in
        ``_of_tree`` have the same order. ``distinct_trees`` has these trees with thresholds in the units of X.
    tree_of_draw : ndarray of shape (chains, draws), int64
        Number of the distinct tree of each draw.
    log_prior_of_tree, log_score_of_tree : ndarray of shape (n_distinct_trees,)
        Log prior and log score of each distinct tree, nats; ``log_prior`` and ``log_score`` are those of each draw.
    node_stats : ndarray of shape (nodes of all distinct trees, statistics)
        Additive statistics of the rows in each node.
    proposed, accepted : ndarray of shape (chains, draws, moves), int64
        Numbers of proposals of each move since the previous draw, and of accepted ones.
    moves : tuple of str
        Names of the moves.
    seconds : float
        Wall time of the run.
    noise_variance : ndarray of shape (chains, draws)
        The variance common to all leaves, under NormalSharedVariance; NaN under other leaves.
    tempering : Tempering or None
        Ladders, swap rates, round trips and scores by level of a tempered run.
    course : Course or None
        State of the chains at the end of the run, from which `resume` continues. None for independent draws and
        interrupted runs.
    calls : tuple of Call
        The calls of `sample` and `resume` that made the draws, with seed and versions: ``post.calls[0].line`` makes
        them again. Empty for independent draws, and for files of earlier releases.
    caveat : str or None
        First line of the warning of a run that has not converged, with which texts about trees begin; "" if the run
        passed, None for draws that no run has judged.
    """

    @property
    def log_evidence(self) -> float | None:
        """Log evidence in nats, from the ladder of a tempered run or the bridge sampling of kernel "whole"; else None.

        If the chains tuned in two teams, the log evidence is the mean of those of the teams, ``post.course.evidences``:
        see `docs/default.md`. The run has estimated it, so reading it is fast.
        """
        return self._evidence[0]

    @property
    def log_evidence_se(self) -> float | None:
        """Standard error of the log evidence; None if it was not estimated, or the draws are too few to estimate it.

        Plus or minus two standard errors cover 95 %, because a quantile of Student's t is included. If the chains tuned
        in two teams, the difference between the evidences of the teams is included, too.
        """
        return self._evidence[1]

    @property
    def _evidence(self) -> tuple[float | None, float | None]:
        """Log evidence and its standard error, from tempering or the teams of the default run, or None."""
        if self.tempering is not None:
            return self.tempering.log_evidence, self.tempering.log_evidence_se
        if self.course is None or self.course.evidences is None:
            return None, None
        return combined_evidence(self.course.evidences)

    @property
    def _stats_by_place(self) -> np.ndarray:
        """Statistics (n_nodes, n_stats) of the training rows in each node of the distinct trees."""
        return self.node_stats

    def _values(self, X: np.ndarray) -> np.ndarray:
        """Return the mean (n, d), over draws, of the predictions at rows of numbers X (n, p)."""
        if self.model.leaf.x_columns is not None:
            return mean_and_square_by_row(self, X)[0]
        return self._averages(X, self.node_values)

    def _averages(self, X: np.ndarray, by_place: np.ndarray) -> np.ndarray:
        """Return the mean (n, d), over draws, of ``by_place`` (n_nodes, d) at the leaf that each row reaches."""
        out = np.zeros((len(X), by_place.shape[1]))
        add_predictions_into(out, self.distinct_trees, self.weight_of_tree, by_place, X)
        return out

    def _mixtures(self, X: np.ndarray) -> Iterator[tuple[slice, Mixture]]:
        """Yield blocks of rows as slices, and the leaves that they reach, weighted by the trees' fractions of draws."""
        step = max(MAX_LEAVES_PER_BLOCK // self.n_distinct_trees, 1)
        for start in range(0, len(X), step):
            node = leaves_reached(self.distinct_trees, X[start : start + step])
            first = np.arange(len(node) + 1) * self.n_distinct_trees
            yield slice(start, start + step), Mixture(node.ravel(), np.tile(self.weight_of_tree, len(node)), first)

    def _drawn_trees(self, n: int, rng: np.random.Generator) -> tuple[SampledPosterior, np.ndarray]:
        """Return the posterior itself, and the tree numbers (n,) of ``n`` of its draws, random with replacement."""
        return self, rng.choice(self.tree_of_draw.ravel(), size=n)

    def _as_draws(self, draws: int, rng: Seed) -> SampledPosterior:
        """Return the posterior itself, if it has draws; the arguments are only checked."""
        check_count("draws", draws)
        read_generator(rng)
        return self

    def _std_over_trees(self, X: np.ndarray) -> np.ndarray:
        """Return the standard deviation over draws of the predictions at rows X: (n, d), or (n,) for a single mean."""
        return std_over_trees(self, X, lambda: self.node_values)

    def _values_se(self, X: np.ndarray) -> np.ndarray:
        """Return the Monte-Carlo standard error (n, d) of the mean prediction at rows X, from the spread of chains.

        NaN for a single chain.
        """
        by_chain = np.zeros((self.n_chains, len(X), self.node_values.shape[1]))
        for out, trees in zip(by_chain, self.tree_of_draw, strict=True):
            weight = np.bincount(trees, minlength=self.n_distinct_trees) / self.n_draws
            add_predictions_into(out, self.distinct_trees, weight, self.node_values, X)
        return by_chain.std(axis=0, ddof=1) / np.sqrt(self.n_chains)

    def _values_by_draw(self, X: np.ndarray) -> np.ndarray:
        """Return the prediction (chains, draws, n, d) of the tree of each draw at rows of numbers X (n, p)."""
        model = self.model
        if model.leaf.x_columns is None:
            return leaf_values(self.distinct_trees, self.node_values, X)[self.tree_of_draw]
        reached, regressors = leaves_reached(self.distinct_trees, X).T, model.regressors(X)
        assert regressors is not None
        by_tree = [model.leaf.value(self.node_stats[nodes], model.target, regressors) for nodes in reached]
        return np.array(by_tree)[self.tree_of_draw]

    def n_leaves_pmf(self) -> np.ndarray:
        return np.bincount(self.n_leaves_of_tree, weights=self.weight_of_tree)

    def depth_pmf(self) -> np.ndarray:
        return np.bincount(self.depth_of_tree, weights=self.weight_of_tree)

    def _feature_inclusion(self) -> np.ndarray:
        """Return the fraction (p,) of the draws whose tree splits on each feature at least once."""
        return self.weight_of_tree @ (self.split_counts_of_tree > 0)

    def _root_split_pmf(self) -> dict[RootKey, float]:
        """Return the fraction of draws by root split: `root_key`, such as (feature, threshold), None for no split."""
        roots = self.distinct_trees.offset[:-1]
        out: dict[RootKey, float] = {}
        for t, i in enumerate(roots):
            key = root_key(self.model, self.distinct_trees, int(i))
            out[key] = out.get(key, 0.0) + float(self.weight_of_tree[t])
        return out

    def map_tree(self) -> Tree:
        """Return the drawn tree with the largest log prior plus log score, which may not be the most frequent tree."""
        return self.distinct_tree(int(np.argmax(self.order_key_of_tree)))

    def draw_trees(self, n: int, rng: Seed = None) -> list[Tree]:
        numbers = read_generator(rng).choice(self.tree_of_draw.ravel(), size=check_count("n", n, 0))
        tree_of_number = {int(t): self.distinct_tree(int(t)) for t in np.unique(numbers)}
        return [tree_of_number[int(t)] for t in numbers]

    def kl_to_prior(self) -> float:
        """Return the Kullback-Leibler divergence, in nats, from the prior of the empirical distribution of the draws.

        Each tree has as its probability the fraction of the draws that have it. Trees with the same splits are one
        tree, whatever their leaf values.

        Raises
        ------
        ValueError
            If the mass of the prior, its sum over all trees, is unknown: under LeafPenalty, and under a conditioned
            process if cells may lack splits. Draws of `exact.solve` know the mass.
        """
        return kl_of_draws(self)

    def values_by_draw(self, X: Any) -> np.ndarray:
        """Return the prediction (chains, draws, n, d) of the tree of each draw at the rows of ``X``; for few rows."""
        return self._values_by_draw(self.model.columns.numbers(X))

    def tree_distances(self, draws: Any = None, *, kind: str = "cells") -> TreeDistances:
        """Return the distances between the trees of some draws.

        Parameters
        ----------
        draws : array-like of shape (m,), optional
            Numbers of draws, chain * n_draws + draw. Default: 400 draws, evenly spaced.
        kind : {"cells", "partitions", "predictions"}, default "cells"
            "cells": the number of cells that only one of the two trees has; its square root is a Euclidean distance.
            "partitions": variation of information of the partitions of the training rows into leaves, nats.
            "predictions": root mean square difference of the predictions over the training rows, for classification
            with the squares summed over the classes.

        Returns
        -------
        TreeDistances
            ``matrix`` (m, m) has the distances; ``chain``, ``draw`` and ``tree`` (m,) say where each tree comes from.

        Raises
        ------
        ValueError
            If an argument is not one of these, or the leaf predicts nothing and ``kind`` is
            "predictions".

        Notes
        -----
        O(m²) times the leaves of a tree for cells, times the rows for partitions and predictions. If there are more
        than 2,000 distinct rows, 2,000 of them are used, evenly spaced. Rows count with their weights.

        Examples
        --------
        >>> import pactree_mcmc as pt
        >>> stumps = [pt.Tree([0, -1, -1], [t, 0, 0], [1, 0, 0], [2, 0, 0]) for t in (4.5, 5.5)]
        >>> model = pt.TreeModel([[float(x)] for x in range(10)], [x > 5 for x in range(10)])
        >>> post = pt.posterior_from_trees(model, stumps)
        >>> [float(post.tree_distances(kind=kind).matrix[0, 1].round(3)) for kind in ("cells", "partitions")]
        [4.0, 0.521]
        """
        return distances_between(self, draws, kind)

    def to_arviz(
        self,
        *,
        log_likelihood: bool | Literal["exact"] = False,
        posterior_predictive: bool = False,
        expectation: Any = False,
        rng: Seed = 0,
    ) -> Any:
        """Return the draws for ArviZ: InferenceData (ArviZ 0.x) or a DataTree (1.x).

        Parameters
        ----------
        log_likelihood : bool or "exact", default False
            Add the log density of each row given all other rows, for leave-one-out cross-validation; chains * draws * n
            numbers. If True they are smoothed for ``arviz.loo``, see the notes; if "exact" they are not.
        posterior_predictive : bool, default False
            Add a new y of each training row from each draw, for ``arviz.plot_ppc``; chains * draws * n numbers.
        expectation : bool or table of shape (n, p), default False
            Add E(y | x), or P(y | x), given the tree of each draw and leaf parameters drawn: of every training row if
            True, or of these rows; chains * draws * n numbers, times K for classes.
        rng : int, SeedSequence, Generator or None, default 0
            Source of randomness of the new y and of the leaf parameters.

        Returns
        -------
        InferenceData (ArviZ 0.x) or DataTree (ArviZ 1.x)
            ``posterior``, by chain and draw: n_leaves, depth, log_prior, log_score; split_counts (feature);
            noise_variance under NormalSharedVariance; support (cell), 0 or 1, of up to 20 cells whose probability is
            nearest to one half; tree_distance (focal), the number of cells in which the tree differs from each of up to
            12 trees drawn;
            expectation (row, or new_row for rows that were given; class).
            ``sample_stats``: lp, the unnormalised log posterior in nats; of chains also acceptance_rate, in [0, 1], and
            proposals (move), since the previous draw. ``observed_data``: y (row); of times also event (row), False if
            censored. ``constant_data``: sample_weight and estimation (row), if given. ``log_likelihood``: y (row) of
            the rows that enter the score: not those of weight zero, nor under FrozenLaplace those of E.
            ``posterior_predictive``: y (row), of weight 1 and the row's exposure; if times are censored uncensored_y
            instead, which has no observed y beside it. Labels that are not numbers appear here, and beside y in
            ``observed_data``, as class_number, their position among the sorted classes.

        Raises
        ------
        ValueError
            If one of these is asked for and the leaf is a loss, ``expectation`` does not fit the model's columns, or
            ``log_likelihood`` of a progressive mixture.

        Notes
        -----
        The log likelihood is ``log p(y_i | y_-i, T)`` for the tree T of the draw, with parameters integrated out given
        the other rows. So ``1 / p(y_i | y_-i)`` is the mean over draws of ``1 / p(y_i | y_-i, T)``, which ``arviz.loo``
        estimates. These densities take few values, to which ``arviz.loo`` cannot fit a tail. With True they are
        therefore multiplied by log-normal noise that leaves that mean as it is. The noise is large if the weights of
        the draws are uneven or the row determines its leaf, so that ArviZ warns of these rows and not of others. It
        makes ArviZ's ``p_loo`` too large. With fewer than 400 draws only ties are broken. Cost O(distinct trees *
        (units * depth + n * statistics)).

        Examples
        --------
        >>> import numpy as np, pactree_mcmc as pt
        >>> x = np.arange(40.0)
        >>> post = pt.sample(pt.TreeModel(x[:, None], x > 19), 200, tune=50, chains=2, rng=1, kernel="grow-prune")
        >>> post.to_arviz()["posterior"]["split_counts"].shape
        (2, 200, 1)
        """
        return inference_data.to_arviz(
            self,
            log_likelihood=log_likelihood,
            posterior_predictive=posterior_predictive,
            expectation=expectation,
            rng=rng,
        )

    def save(self, path: AnyPath, *, log_likelihood: bool = False) -> None:
        """Write the posterior to one netCDF file (.nc, .nc4 or .netcdf).

        The file has the groups of `to_arviz`, for ArviZ and xarray, and in a group ``pactree_mcmc`` the model with its
        coded data, the trees, and the end of each chain, so that `load` gives a posterior that predicts the same to the
        last bit and that `resume` can continue. No pickle: JSON text and arrays of numbers.

        Parameters
        ----------
        path : path-like
            A file is replaced, after the new one is safely on the disk. Its permissions stay, and so does a symbolic
            link.
        log_likelihood : bool, default False
            Add the log density of each row given all other rows to the groups for ArviZ.

        Raises
        ------
        ValueError
            If the suffix is unknown, the folder does not exist, or the posterior holds what no file can hold, such as a
            leaf that is neither one of the library nor a CustomLeaf. Of a leaf, a split prior or a move of your own the
            file holds a name and some values and no code: `load` asks for it.
        OSError
            If it cannot be written, such as on a full disk; a file that was at ``path`` is unchanged.

        Notes
        -----
        Size: the coded data, 29 bytes and the statistics a node of the distinct trees, and the chains: 4 bytes a unit,
        and in kernel "whole" up to 40 MB of graphs.

        Examples
        --------
        >>> import numpy as np, pathlib, tempfile, pactree_mcmc as pt
        >>> x = np.arange(40.0)
        >>> post = pt.sample(pt.TreeModel(x[:, None], x > 19), 200, tune=50, chains=2, rng=1, kernel="grow-prune")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     post.save(pathlib.Path(folder) / "run.nc")
        ...     again = pt.load(pathlib.Path(folder) / "run.nc")
        >>> bool((again.predict_proba([[3.0]]) == post.predict_proba([[3.0]])).all())
        True
        """
        if type(self) is not SampledPosterior:
            super().save(path, log_likelihood=log_likelihood)
        path = check_output_path(path)
        parts = {"model": self.model.parts_in_file, "draws": draws_of(self), "course": self.course}
        write_parts(parts, path, inference_data.datasets(self, log_likelihood=log_likelihood))

    def summary(self) -> pd.DataFrame:
        """Return a table of the scalars, features and trees of the draws, with effective sample size and R-hat.

        Returns
        -------
        DataFrame
            Rows n_leaves, depth, log_prior, log_score, lp (the sum of the last two, nats); "root feature 'x'" and
            "inclusion of feature 'x'", as indicators, of the features whose probability lies between 0.02 and 0.98;
            "tree distance", the number of
            cells in which two draws differ, with ``tree_ess().frechet`` and the largest R-hat of the distances from
            focal trees. Columns mean, sd, ess_bulk, and rhat, which is infinite if each chain is constant and not all
            are equal, and NaN for one chain. ``attrs`` has "acceptance", the accepted fraction of the proposals of each
            move; "verdict", the text of the convergence criteria that fail, or that none fails, which proves nothing;
            "asdsf" and "tree_ess", the results of these methods as dicts.
        """
        return inference_data.summary_table(self)

    def __repr__(self) -> str:
        fraction = self.accepted.sum() / max(self.proposed.sum(), 1)
        return (
            f"SampledPosterior({self.n_chains} chains x {self.n_draws} draws, {self.n_distinct_trees} distinct trees, "
            f"{self.n_leaves.mean():.1f} leaves, acceptance {fraction:.3f})"
        )


def draws_from(posterior: Posterior, draws: int, rng: Seed, *, that_predict: bool = False) -> SampledPosterior:
    """Return ``posterior`` itself if it is sampled, otherwise ``draws`` independent draws from it.

    With ``that_predict``, raise an error for a posterior whose draws do not have its leaf values.
    """
    sampled = posterior._draws_that_predict(draws, rng) if that_predict else posterior._as_draws(draws, rng)
    assert isinstance(sampled, SampledPosterior)
    return sampled


def fractions(amount: np.ndarray) -> np.ndarray:
    """Return the entries of ``amount``, all >= 0, divided by their sum; zeros if all are zero."""
    return amount / max(amount.sum(), np.finfo(np.float64).tiny)
