"""The sampled posterior: draws of chains, or independent ones."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..core.checks import Seed, check_count, read_generator
from ..files.store import AnyPath, check_target
from ..files.write import write_parts
from ..model.leaf.distributions import Mixture
from ..model.leaf_words import words_of_cells
from ..model.obstacles import unknown_constant
from ..model.plain import log_marginal_prior
from ..tree.arrays import LEAF, add_predictions_into, leaf_values, leaves_reached
from ..tree.drawn import RootKey, root_key
from ..tree.tree import Tree
from .base import Posterior
from .divergence import as_divergence, same_trees
from .draws import DrawnTrees, draws_of
from .evidence import combined_evidence
from .inference_data import as_datasets, summary, to_arviz
from .predictive import BLOCK, has_values_by_leaf, refuse_by_row, spread, spread_by_row
from .summaries.exploring import ExploresDraws

if TYPE_CHECKING:
    import pandas as pd

    from ..model.leaf.distributions import NegativeBinomial, StudentT


class SampledPosterior(DrawnTrees, ExploresDraws, Posterior):
    """Draws of trees: from chains, or independent ones from the exact engine.

    Attributes
    ----------
    model : TreeModel
    coded_trees : CodedTrees
        Each tree that was drawn, once, end to end, in codes; names that end in ``_of_tree`` follow their order.
        ``distinct_trees`` has them with thresholds in the units of X.
    tree_of_draw : ndarray of shape (chains, draws), int64
        Which distinct tree each draw is.
    log_prior_of_tree, log_score_of_tree : ndarray of shape (n_distinct_trees,)
        Of each distinct tree, nats; ``log_prior`` and ``log_score`` have them by draw. Where feature weights are drawn
        ``log_prior`` is given those of the draw, and ``log_prior_of_tree`` its mean over the draws of the tree.
    node_stats : ndarray of shape (nodes of all distinct trees, statistics)
        Additive statistics of the rows in each node.
    proposed, accepted : ndarray of shape (chains, draws, moves), int64
        Proposals since the draw before, and those accepted.
    moves : tuple of str
    seconds : float
        Wall time of the run.
    noise_variance : ndarray of shape (chains, draws)
        The variance common to all leaves, under NormalSharedVariance; NaN under other leaves.
    weights_of_draw : ndarray of shape (chains, draws, p + 2), or None
        What ``feature_weights``, ``concentration`` and ``log_prior`` have, where feature weights are drawn.
    tempering : Tempering or None
        Ladders, swap rates, round trips and scores by level of a tempered run.
    course : Course or None
        What `resume` needs; None for independent draws and interrupted runs.
    calls : tuple of Call
        The calls of `sample` and `resume` that made the draws, with seed and versions: ``post.calls[0].line`` makes
        them again. Empty of independent draws, and of files of earlier releases.
    """

    @property
    def log_evidence(self) -> float | None:
        """Log evidence in nats: of a tempered run by its ladder, of one that learned whole trees by bridge sampling.

        None otherwise, and of runs without a ladder if feature weights are drawn: the learned density is one of trees,
        not of weights. Of a run whose chains tuned in two teams it is the mean of the evidences by either team,
        ``post.course.evidences``: see `docs/default.md`.
        """
        if self.tempering is not None:
            return self.tempering.log_evidence
        found = None if self.course is None else self.course.evidences
        return None if found is None else combined_evidence(found)[0]

    @property
    def log_evidence_se(self) -> float | None:
        """Standard error of the log evidence; None if it was not estimated, or the draws are too few to estimate it.

        Plus or minus two of it cover 95 %: it is multiplied by half the quantile of Student's t for the blocks of
        draws, or chains, that it comes from. It covers the difference between the evidences of two teams.
        """
        if self.tempering is not None:
            return self.tempering.log_evidence_se
        found = None if self.course is None else self.course.evidences
        return None if found is None else combined_evidence(found)[1]

    @cached_property
    def log_posterior_of_tree(self) -> np.ndarray:
        """Log posterior (n_distinct_trees,) of each distinct tree, nats, unnormalised: by it trees have their odds.

        Feature weights that are drawn are integrated out; NaN where a cell of the tree admits some features and not
        others, since the integral then has no closed form. Cost there: plain Python, the nodes of the trees.
        """
        if self.weights_of_draw is None:
            return self.log_prior_of_tree + self.log_score_of_tree
        trees = range(self.n_distinct_trees)
        return self.log_score_of_tree + [log_marginal_prior(self.model, self.distinct_tree(t)) for t in trees]

    @cached_property
    def node_values(self) -> np.ndarray:
        """What each node of each distinct tree predicts, (n_nodes, d)."""
        refuse_by_row(self.model)
        return np.ascontiguousarray(self.model.leaf.value(self.node_stats, self.model.target))

    @property
    def _stats_by_place(self) -> np.ndarray:  # type: ignore[override]
        return self.node_stats

    def _values(self, X: np.ndarray) -> np.ndarray:
        if self.model.leaf.x_columns is not None:
            return self._values_by_row(X)[0]
        return self._averages(X, self.node_values)

    def _averages(self, X: np.ndarray, by_node: np.ndarray) -> np.ndarray:
        """Means over the draws (n, d) of the values by node (n_nodes, d) that rows of numbers reach."""
        out = np.zeros((len(X), by_node.shape[1]))
        add_predictions_into(out, self.distinct_trees, self.weight_of_tree, by_node, X)
        return out

    def _leaf_distributions(self) -> StudentT | NegativeBinomial:
        trees = self.distinct_trees
        tree = np.repeat(np.arange(self.n_distinct_trees), np.diff(trees.offset))
        in_tree = np.where(trees.feature == LEAF, tree, -1)
        return self.model.leaf.predictive(self.node_stats, in_tree, self.model.target)

    def _mixtures(self, X: np.ndarray) -> Iterator[tuple[slice, Mixture]]:
        drawn = np.flatnonzero(self.weight_of_tree)
        weight, step = self.weight_of_tree[drawn], max(BLOCK // len(drawn), 1)
        for start in range(0, len(X), step):
            node = leaves_reached(self.distinct_trees, X[start : start + step])[:, drawn]
            first = np.arange(len(node) + 1) * len(drawn)
            yield slice(start, start + step), Mixture(node.ravel(), np.tile(weight, len(node)), first)

    def _drawn_trees(self, n: int, rng: np.random.Generator) -> tuple[SampledPosterior, np.ndarray]:
        return self, rng.choice(self.tree_of_draw.ravel(), size=n)

    def predict_std_over_trees(self, X: Any) -> np.ndarray:
        """Standard deviation, over the trees drawn, of what the tree predicts: how far trees disagree.

        No spread of a new y, which is `predict_std_new_y`: neither the noise nor what a leaf does not know of its own
        mean is in it.

        Parameters
        ----------
        X : table of shape (n, p)
            As the model's.

        Returns
        -------
        ndarray of shape (n,), or (n, K) for class probabilities
            Of the leaf's predictive mean, or of its class probabilities; accurate to about 1e-8 of their range.

        Raises
        ------
        ValueError
            If X does not fit the model's columns.
        """
        return self._std_over_trees(self.model.columns.numbers(X))

    def _std_over_trees(self, X: np.ndarray) -> np.ndarray:
        """As `predict_std_over_trees`, for rows of numbers."""
        if self.model.leaf.x_columns is not None:
            return spread_by_row(*self._values_by_row(X))
        return spread(self.model, partial(self._averages, X), self.node_values)

    def _values_se(self, X: np.ndarray) -> np.ndarray:
        """Monte-Carlo standard error (n, d) of the mean leaf values, from the spread of the chains."""
        by_chain = np.zeros((self.n_chains, len(X), self.node_values.shape[1]))
        for out, trees in zip(by_chain, self.tree_of_draw, strict=True):
            weight = np.bincount(trees, minlength=self.n_distinct_trees) / self.n_draws
            add_predictions_into(out, self.distinct_trees, weight, self.node_values, X)
        return by_chain.std(axis=0, ddof=1) / np.sqrt(self.n_chains)

    def kl_to_prior(self) -> float:
        """Divergence from the prior of the distribution of the draws: each tree with its fraction of them.

        Trees that have the same splits are one tree, with whatever leaf values they were drawn.

        Raises
        ------
        ValueError
            Under LeafPenalty, whose constant draws do not determine.
        """
        reason = unknown_constant(self.model)
        if reason is not None:
            raise ValueError(f"no divergence from the prior: {reason}.")
        same = same_trees(self.model, self.coded_trees)
        first, which = np.unique(same, return_index=True, return_inverse=True)[1:]
        weight = np.bincount(which, weights=self.weight_of_tree)
        drawn = weight > 0.0
        weight, log_prior = weight[drawn], self.log_prior_of_tree[first[drawn]]
        return as_divergence(float(weight @ (np.log(weight) - log_prior)), float(weight @ np.abs(log_prior)))

    def values_by_draw(self, X: Any) -> np.ndarray:
        """Leaf values (chains, draws, n, d) that rows of ``X`` reach, draw by draw; for few rows."""
        return self._values_by_draw(self.model.columns.numbers(X))

    def _values_by_draw(self, X: np.ndarray) -> np.ndarray:
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
        """Distribution of the depth; entry d is P(the deepest leaf has depth d)."""
        return np.bincount(self.depth_of_tree, weights=self.weight_of_tree)

    def feature_inclusion(self) -> np.ndarray:
        return self.weight_of_tree @ (self.split_counts_of_tree > 0)

    def root_split_pmf(self) -> dict[RootKey, float]:
        roots = self.distinct_trees.offset[:-1]
        out: dict[RootKey, float] = {}
        for t, i in enumerate(roots):
            key = root_key(self.model, self.distinct_trees, int(i))
            out[key] = out.get(key, 0.0) + float(self.weight_of_tree[t])
        return out

    def map_tree(self) -> Tree:
        """The drawn tree with the largest posterior, not only the most frequent one.

        Where feature weights are drawn the log prior is its mean over the draws of the tree, each given its weights.
        """
        return self.distinct_tree(int(np.argmax(self.log_prior_of_tree + self.log_score_of_tree)))

    def distinct_tree(self, t: int) -> Tree:
        """Distinct tree number ``t``, from 0; that of a draw is number ``tree_of_draw[chain, draw]``."""
        t = check_count("t", t, 0, self.n_distinct_trees - 1)
        nodes = slice(int(self.distinct_trees.offset[t]), int(self.distinct_trees.offset[t + 1]))
        feature, threshold, left, right, categories, default_left = (a[nodes] for a in self.distinct_trees[1:])
        return Tree(
            feature,
            threshold,
            left,
            right,
            categories,
            default_left,
            value=self.node_values[nodes] if has_values_by_leaf(self.model) else None,
            columns=self.model.columns,
            classes=self.model.classes_,
            rows=self.node_rows[nodes],
            between=None if self.node_between is None else self.node_between[nodes],
            words=words_of_cells(self.model, self.node_stats[nodes]),
        )

    def draw_trees(self, n: int, rng: Seed = None) -> list[Tree]:
        chosen = read_generator(rng).choice(self.tree_of_draw.ravel(), size=check_count("n", n, 0))
        made = {int(t): self.distinct_tree(int(t)) for t in np.unique(chosen)}
        return [made[int(t)] for t in chosen]

    def to_arviz(
        self,
        *,
        log_likelihood: bool | Literal["exact"] = False,
        posterior_predictive: bool = False,
        rng: Seed = 0,
    ) -> Any:
        """The draws for ArviZ: InferenceData (ArviZ 0.x) or a DataTree (1.x).

        Groups: ``posterior`` (n_leaves, depth, log_prior, log_score, split_counts by feature, support by cell,
        tree_distance by focal tree; feature_weights and concentration where they are drawn), ``sample_stats``
        (lp, and by move acceptance_rate and proposals), ``observed_data``, ``constant_data``, and when asked for
        ``log_likelihood`` and ``posterior_predictive`` (chain, draw, row).

        Parameters
        ----------
        log_likelihood : bool or "exact", default False
            Add the log density of each row given all other rows, for leave-one-out; chains * draws * n numbers. If True
            they are smoothed so that ``arviz.loo`` judges them rightly; if "exact" they are not.
        posterior_predictive : bool, default False
            Add a new y of each training row by each draw, for ``arviz.plot_ppc``; as many numbers.
        rng : int, SeedSequence, Generator or None, default 0
            Source of randomness of the new y.

        Raises
        ------
        ValueError
            If either is asked for and the leaf is a loss, or ``log_likelihood`` of a progressive mixture.
        """
        return to_arviz(self, log_likelihood=log_likelihood, posterior_predictive=posterior_predictive, rng=rng)

    def save(self, path: AnyPath, *, log_likelihood: bool = False) -> None:
        """Write the posterior to one file: netCDF (.nc, .nc4, .netcdf), or a Zarr store (.zarr).

        The file holds the groups of `to_arviz`, for ArviZ and xarray, and in a group ``pactree_mcmc`` the model with
        its coded data, the trees, and where each chain stopped, so that `load` gives a posterior that predicts the same
        to the last bit and that `resume` can continue. It is written beside ``path`` first and put in its place when it
        is safely on the disk. No pickle: JSON text and arrays of numbers.

        Parameters
        ----------
        path : path-like
            A file is replaced.
        log_likelihood : bool, default False
            Add the log density of each row given all other rows to the groups for ArviZ.

        Raises
        ------
        ValueError
            If the suffix is unknown, the folder does not exist, or the posterior holds what no file can hold, such as a
            leaf that is neither one of the library nor a CustomLeaf. Of a leaf, a split prior or a move of your own the
            file holds a name and some values and no code: `load` asks for it.
        OSError
            If it cannot be written, such as on a full disk; what was at ``path`` is still there.

        Notes
        -----
        Size: the coded data, 29 bytes and the statistics a node of the distinct trees, and the chains: 4 bytes a unit,
        and with fractional statistics up to 16 MB of scores a chain and level. Zarr needs the package ``zarr``; a
        folder is replaced by renaming twice, so a crash in between leaves the old one as ``.NAME.old``.

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
        path = check_target(path)
        parts = {"model": self.model.parts_in_file, "draws": draws_of(self), "course": self.course}
        write_parts(parts, path, as_datasets(to_arviz(self, log_likelihood=log_likelihood)))

    def summary(self) -> pd.DataFrame:
        """Table (a DataFrame) of scalars, features at the root and in the tree, and trees: mean, sd, ESS, R-hat.

        ``attrs["verdict"]`` says which criteria the draws fail; see `inference_data.summary`.
        """
        return summary(self)

    def __repr__(self) -> str:
        fraction = self.accepted.sum() / max(self.proposed.sum(), 1)
        return (
            f"SampledPosterior({self.n_chains} chains x {self.n_draws} draws, {self.n_distinct_trees} distinct trees, "
            f"{self.n_leaves.mean():.1f} leaves, acceptance {fraction:.3f})"
        )


def fractions(amount: np.ndarray) -> np.ndarray:
    """Amounts >= 0 over their sum; zeros if there are no others."""
    return amount / max(amount.sum(), np.finfo(np.float64).tiny)
