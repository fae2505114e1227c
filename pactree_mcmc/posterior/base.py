"""The public base class of all posteriors over trees, sampled or exact, with the methods that they have in common."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ..core.checks import Seed
from .rows.answers import AnswersAboutRows
from .trees.answers import AnswersAboutTrees

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pandas as pd

    from ..files.store import AnyPath


class Posterior(AnswersAboutRows, AnswersAboutTrees):
    """A posterior over trees, sampled or exact. Both have the same methods.

    If the posterior does not consist of draws and an answer needs some, ``draws`` trees are drawn with ``rng``.
    """

    _write_report: ClassVar[Callable[..., Path]]
    """Function of a higher layer that writes a posterior as an HTML page; `pactree_mcmc.__init__` sets it."""
    _small_html: ClassVar[Callable[..., str]]
    """Function that returns a few lines of HTML for notebooks; `pactree_mcmc.__init__` sets it."""

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
        other, the most probable trees, predictions for a row that the reader types in, the
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
            If the path cannot be written to, or ``truth`` is of another model.

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
