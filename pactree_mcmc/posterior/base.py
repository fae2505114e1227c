"""The public base class of all posteriors over trees, sampled or exact, with the methods that they have in common."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ..core.checks import Seed
from .reweighting import Restriction, restriction_of
from .rows.answers import AnswersAboutRows
from .trees.answers import AnswersAboutTrees

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pandas as pd

    from ..files.store import AnyPath
    from ..model import TreeModel

NEW_MODEL_ADVICE = "compute the posterior of the new model, by pt.sample, exact.solve or a progressive mixture."
"""Advice in the errors of posteriors that cannot be updated or reweighted."""


class Posterior(AnswersAboutRows, AnswersAboutTrees):
    """A posterior over trees, sampled or exact. Both have the same methods.

    If the posterior does not consist of draws and an answer needs some, ``draws`` trees are drawn with ``rng``.
    """

    _write_report: ClassVar[Callable[..., Path]]
    """Function of a higher layer that writes a posterior as an HTML page; `pactree_mcmc.__init__` sets it."""
    _small_html: ClassVar[Callable[..., str]]
    """Function that returns a few lines of HTML for notebooks; `pactree_mcmc.__init__` sets it."""

    def restrict(
        self,
        monotone: Any = None,
        interactions: Any = None,
        *,
        min_ess: float = 100.0,
        draws: int = 4000,
        rng: Seed = 0,
    ) -> Restriction:
        """Return the posterior given a constraint on the trees: monotone predictions, or features that interact.

        Parameters
        ----------
        monotone : dict of column to 1 or -1, optional
            Columns of numbers in which the predictions of a tree never decrease (1) or never increase (-1) if all
            others stay: the posterior mean of y in a leaf, or the probability of the second class. For one output, or
            two classes.
        interactions : list of lists of columns, optional
            Groups of columns that may be split on together: the features on each path from the root to a leaf are all
            in one of the groups. A column may be in several groups. All columns in no group are one more group.
        min_ess : float, default 100
            Smallest effective number of draws that must satisfy the constraint, >= 1.
        draws : int, default 4000
            Number of trees drawn from a posterior that does not consist of draws.
        rng : int, SeedSequence, Generator or None, default 0
            Source of randomness for those draws.

        Returns
        -------
        Restriction
            ``.posterior`` has the draws that satisfy the constraint, as one chain, with all methods of draws;
            ``.probability`` is the posterior probability of the constraint.

        Raises
        ------
        ValueError
            If an argument is not as described, no constraint is given, there are no draws, fewer than ``min_ess``
            effective draws satisfy the constraint, or the trees are those of a progressive mixture.

        Notes
        -----
        The draws that satisfy a constraint are draws of the posterior under the prior restricted to such trees. So the
        result is exact up to Monte-Carlo error; the probability says how much the data and the prior favour the
        constraint. The effective number is the number of draws kept, times the smaller of the efficiencies of all draws
        for the constraint and for the log posterior. The log priors of the result are those without the constraint.
        Missing values of a column have no order, and are not constrained. O(leaves² * features of a tree) a distinct
        tree.

        Examples
        --------
        >>> import exact, numpy as np, pactree_mcmc as pt
        >>> x = np.arange(30.0)
        >>> truth = exact.solve(pt.TreeModel(x[:, None], (x > 14) | (x % 6 == 1)))
        >>> given = truth.restrict(monotone={"x0": 1})
        >>> bool(0.0 < given.probability < 1.0)
        True
        >>> bool(np.all(np.diff(given.posterior.predict_proba(x[:, None])[:, 1]) >= 0.0))
        True
        """
        if not self.sees_all_rows:
            raise ValueError(
                f"the trees of a {type(self).__name__} are of many stages, and have no common posterior to restrict; "
                "use exact.solve or sample."
            )
        post = self._draws_that_predict(draws, rng)
        return restriction_of(post, monotone, interactions, min_ess, independent=post is not self)

    def update(self, X: Any, y: Any, *, sample_weight: Any = None, rng: Seed = None, **options: Any) -> Posterior:
        """Return the posterior given the rows of the model and further ones, ``X`` and ``y``.

        For draws this is a new run that starts at the trees drawn, see `SampledPosterior.update`, with ``rng`` and
        further arguments of `sample`. A posterior of `exact.solve` is solved again, with arguments of `exact.solve`.

        Raises
        ------
        ValueError
            If the rows do not fit the model, or the posterior is one of stages or of visited trees alone.
        """
        raise ValueError(f"a {type(self).__name__} cannot be updated: {NEW_MODEL_ADVICE}")

    def reweight(self, model: TreeModel, *, least_ess: float = 100.0, rng: Seed = 0) -> Posterior:
        """Return the posterior of the same rows under ``model``, with another prior or leaf.

        Draws are reweighted by importance weights, see `SampledPosterior.reweight`. A posterior of `exact.solve` is
        solved again under the new model.

        Raises
        ------
        ValueError
            If the model has other rows, y or columns, fewer than ``least_ess`` effective draws remain, or the posterior
            is one of stages or of visited trees alone.
        """
        raise ValueError(f"a {type(self).__name__} cannot be reweighted: {NEW_MODEL_ADVICE}")

    @abstractmethod
    def summary(self) -> pd.DataFrame:
        """Return a table of the main quantities; for draws with effective sample sizes and R-hat."""

    @abstractmethod
    def to_arviz(
        self,
        *,
        log_likelihood: bool | Literal["exact"] = False,
        posterior_predictive: bool = False,
        expectation: Any = False,
        rng: Seed = 0,
    ) -> Any:
        """Return draws for ArviZ: InferenceData (ArviZ 0.x) or a DataTree (1.x)."""

    def save(self, path: AnyPath, *, log_likelihood: bool = False) -> None:
        """Write a sampled posterior to one file. For other posteriors raise a ValueError that says what to save."""
        kind = type(self).__name__
        article = "an" if kind[0] in "AEIOU" else "a"
        raise ValueError(
            f"{article} {kind} cannot be saved: save its model, post.model.save(path), and compute the posterior of "
            "pt.load(path) again; or, for an exact posterior, save draws: post.sample(1000, rng=1).save(path)."
        )

    def report(self, path: AnyPath, *, truth: Posterior | None = None, title: str | None = None) -> Path:
        """Write the posterior as one HTML page, to look at in any browser.

        The page shows the verdict in words, the consensus tree with its support, all decision paths laid over each
        other, the most probable trees, predictions for a row that the reader types in, a map of the trees, the
        diagnostics of the chains, the model and the run. It loads nothing and is readable without JavaScript.

        Parameters
        ----------
        path : path-like
            File to write, whose name ends in .html. An existing file is replaced.
        truth : Posterior, optional
            An exact posterior of the same model, such as ``exact.solve(model)``: its values are ticked beside those of
            the draws. An exact posterior is its own truth, and its paths and trees are of 1,000 independent draws.
        title : str, optional
            Heading of the page.

        Returns
        -------
        Path
            Path of the file.

        Raises
        ------
        TypeError
            If ``truth`` is not an exact posterior, or ``title`` not a text.
        ValueError
            If the path cannot be written to, ``truth`` is of another model, or there are no draws.

        Notes
        -----
        The same posterior makes the same bytes. A page of 4,000 draws takes some seconds and at most about 500 kB; if
        the trees are very large it has fewer of them, and says how many.

        Examples
        --------
        >>> import pathlib, tempfile, pactree_mcmc as pt
        >>> model = pt.TreeModel([[float(x)] for x in range(10)], [x > 5 for x in range(10)])
        >>> post = pt.posterior_from_trees(model, [pt.Tree([0, -1, -1], [4.5, 0, 0], [1, 0, 0], [2, 0, 0])])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     post.report(pathlib.Path(folder) / "page.html").stat().st_size < 100_000
        True
        """
        return self._write_report(path, truth, title)

    def _repr_html_(self) -> str:
        """Return the verdict, a few numbers and the consensus tree as HTML for notebooks."""
        return self._small_html()
