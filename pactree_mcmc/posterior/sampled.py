"""The sampled posterior: draws of chains, or independent ones."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.checks import Seed, check_type, read_array, repr_of
from ..model import TreeModel
from ..model.model import log_prior_mass, unknown_constant
from ..tree.arrays import add_predictions_into
from ..tree.coded import RootKey, root_key
from ..tree.tree import Tree
from .convergence import diagnosis_of
from .distribution import MostProbable
from .draws import Course, Draws, code_trees
from .evidence import combined_evidence
from .inference_data import summary
from .posterior import Posterior
from .trees.cells import checked_divergence, label_equal_trees
from .trees.distances import tree_distances, tree_ess
from .trees.support import asdsf

if TYPE_CHECKING:
    import pandas as pd


class SampledPosterior(Posterior):
    """Draws of trees: from chains, or independent ones from the exact engine.

    Arrays of draws have the shape (chains, draws). ``draws`` has the trees themselves, the counts of moves, and what
    the run was.

    Attributes
    ----------
    model : TreeModel
        The model whose trees are drawn.
    draws : Draws
        The distinct trees drawn, as arrays, and the number of the tree of each draw.
    course : Course or None
        State of the chains at the end of the run, from which `resume` continues. None for independent draws and
        interrupted runs.
    """

    def __init__(self, draws: Draws, course: Course | None = None) -> None:
        self.model, self._rows, self._draws, self.course = draws.model, draws, draws, course

    asdsf = asdsf
    tree_ess = tree_ess
    tree_distances = tree_distances
    summary = summary

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

    @property
    def draws(self) -> Draws:
        """The distinct trees drawn, as arrays, and the number of the tree of each draw."""
        return self._draws

    @property
    def n_chains(self) -> int:
        """Number of chains."""
        return self.draws.n_chains

    @property
    def n_draws(self) -> int:
        """Number of draws per chain."""
        return self.draws.n_draws

    @property
    def log_prior(self) -> np.ndarray:
        """Log prior of the tree of each draw, nats, (chains, draws)."""
        return self.draws.log_prior_of_tree[self.draws.tree_of_draw]

    @property
    def log_score(self) -> np.ndarray:
        """Log score, the log marginal likelihood, of the tree of each draw, nats, (chains, draws)."""
        return self.draws.log_score_of_tree[self.draws.tree_of_draw]

    @property
    def n_leaves(self) -> np.ndarray:
        """Number of leaves of the tree of each draw, (chains, draws) int64."""
        return self.draws.n_leaves_of_tree[self.draws.tree_of_draw]

    @property
    def depth(self) -> np.ndarray:
        """Depth of the tree of each draw, (chains, draws) int64."""
        return self.draws.depth_of_tree[self.draws.tree_of_draw]

    @property
    def root_feature(self) -> np.ndarray:
        """Feature that the root of each draw splits on, (chains, draws) int64; -1 if the tree has no split."""
        return self.draws.root_feature_of_tree[self.draws.tree_of_draw]

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
        if self.draws.tempering is not None:
            return self.draws.tempering.log_evidence, self.draws.tempering.log_evidence_se
        if self.course is None or self.course.evidences is None:
            return None, None
        return combined_evidence(self.course.evidences)

    @property
    def _odds_by_model(self) -> bool:  # type: ignore[override]
        return self.draws.sees_all_rows and self.draws.has_model_prior

    def n_leaves_pmf(self) -> np.ndarray:
        return np.bincount(self.draws.n_leaves_of_tree, weights=self.draws.weight_of_tree)

    def depth_pmf(self) -> np.ndarray:
        return np.bincount(self.draws.depth_of_tree, weights=self.draws.weight_of_tree)

    def kl_to_prior(self) -> float:
        sampled, model = self.draws, self.model
        log_mass = sampled.log_prior_mass
        if log_mass is None:
            reason = unknown_constant(model)
            if reason is not None:
                raise ValueError(f"the divergence from the prior is unknown: {reason}.")
            log_mass = log_prior_mass(model)
            assert log_mass is not None
        # sum_t w_t log(w_t / prior(t)) over the trees t with different splits, w_t the fraction of draws with them
        number = label_equal_trees(model, sampled.coded_trees)
        first_tree, tree_of_label = np.unique(number, return_index=True, return_inverse=True)[1:]
        weight = np.bincount(tree_of_label, weights=sampled.weight_of_tree)
        log_prior = sampled.log_prior_of_tree[first_tree] - log_mass
        return checked_divergence(float(weight @ (np.log(weight) - log_prior)), float(weight @ np.abs(log_prior)))

    def values_by_draw(self, X: Any) -> np.ndarray:
        """Return predictions (chains, draws, n, d) of the draws at few rows; d is 1, or K for class probabilities."""
        return self.draws.values_of_trees(self.model.columns.numbers(X))[self.draws.tree_of_draw]

    def _feature_inclusion(self) -> np.ndarray:
        return self.draws.weight_of_tree @ (self.draws.split_counts_of_tree > 0)

    def _root_split_pmf(self) -> dict[RootKey, float]:
        out: dict[RootKey, float] = {}
        for t, i in enumerate(self.draws.distinct_trees.offset[:-1].tolist()):
            key = root_key(self.model, self.draws.distinct_trees, i)
            out[key] = out.get(key, 0.0) + float(self.draws.weight_of_tree[t])
        return out

    def _best(self, k: int) -> MostProbable:
        return MostProbable(self.draws, np.argsort(-self.draws.order_key_of_tree, kind="stable")[:k], None)

    def _sampled(self, draws: int, rng: Seed) -> SampledPosterior:
        return self

    def __repr__(self) -> str:
        draws, fraction = self.draws, self.draws.accepted.sum() / max(self.draws.proposed.sum(), 1)
        return (
            f"SampledPosterior({self.n_chains} chains x {self.n_draws} draws, {draws.n_distinct_trees} distinct trees, "
            f"{self.n_leaves.mean():.1f} leaves, acceptance {fraction:.3f})"
        )


def values_se(draws: Draws, X: np.ndarray) -> np.ndarray:
    """Return the standard error (n, d) of predictions at rows of numbers X, by the spread of chains; NaN for one."""
    by_chain = np.zeros((draws.n_chains, len(X), draws.place_values.shape[1]))
    for out, trees in zip(by_chain, draws.tree_of_draw, strict=True):
        weight = np.bincount(trees, minlength=draws.n_distinct_trees) / draws.n_draws
        add_predictions_into(out, draws.distinct_trees, weight, draws.place_values, X)
    return by_chain.std(axis=0, ddof=1) / np.sqrt(draws.n_chains)


def posterior_from_trees(model: TreeModel, trees: Sequence[Tree], tree_of_draw: Any = None) -> SampledPosterior:
    """Return a posterior of trees drawn elsewhere, such as by another program, with all methods of draws.

    Parameters
    ----------
    model : TreeModel
        The model whose rows give the trees their statistics, priors and scores.
    trees : sequence of Tree
        Distinct or equal trees, with thresholds and categories at which the model can split.
    tree_of_draw : array-like of shape (chains, draws), optional
        Index in ``trees`` of the tree of each draw, at least one. By default each tree is one draw of a single chain.
        Trees that no draw has are left out, and equal trees are stored once.

    Returns
    -------
    SampledPosterior

    Raises
    ------
    TypeError
        If an entry of ``trees`` is not a Tree.
    ValueError
        If there are no trees or draws, a tree splits at a value without a cut in the coding or has prior mass 0, or an
        entry of ``tree_of_draw`` is out of range.

    Notes
    -----
    Plain Python: the nodes of the trees times the rows in them. Under a drawn variance the scores are those at the
    variance in the model.

    Examples
    --------
    >>> import numpy as np, pactree_mcmc as pt
    >>> x = np.arange(20.0)
    >>> model = pt.TreeModel(x[:, None], x > 9)
    >>> stump = pt.Tree([0, -1, -1], [9.5, 0, 0], [1, 0, 0], [2, 0, 0])
    >>> pt.posterior_from_trees(model, [stump]).n_leaves.tolist()
    [[2]]
    """
    check_type("model", model, TreeModel, "a TreeModel")
    if not isinstance(trees, Sequence) or not trees:
        raise ValueError(f"trees is {repr_of(trees)}; give a list of at least one Tree.")
    for tree in trees:
        check_type("an entry of trees", tree, Tree, "a pt.Tree")
    draws = np.arange(len(trees))[None] if tree_of_draw is None else read_array("tree_of_draw", tree_of_draw)
    if draws.ndim != 2 or draws.dtype.kind not in "iu":
        raise ValueError(f"tree_of_draw is {repr_of(tree_of_draw)}; give numbers of trees, shape (chains, draws).")
    if draws.size == 0:
        raise ValueError(f"tree_of_draw has shape {draws.shape}, without draws; give at least one a chain.")
    if draws.min() < 0 or draws.max() >= len(trees):
        invalid, n = draws[(draws < 0) | (draws >= len(trees))][0], len(trees)
        raise ValueError(f"tree_of_draw has {invalid}, but there are {n} trees; give indices from 0 to {n - 1}.")
    coded, stats = code_trees(model, trees)
    logs = np.array([(model.log_prior(tree), model.log_score(tree)) for tree in trees])
    if not np.isfinite(logs).all():
        t = int(np.argmin(np.isfinite(logs).all(axis=1)))
        raise ValueError(f"tree {t} has log prior {logs[t, 0]} and log score {logs[t, 1]}; give trees the prior draws")
    sampled = Draws(model, coded, stats, draws.astype(np.int64), logs[:, 0], logs[:, 1])
    return SampledPosterior(sampled.without_undrawn_trees())
