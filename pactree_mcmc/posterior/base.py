"""The methods common to all posteriors, sampled or exact."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Literal, overload

import numpy as np

from ..core.checks import check_flag
from ..tree.tree import Tree
from .certified.certificate import certify, certify_holdout, refuse_regression
from .certified.chosen import certify_chosen
from .predictive import PredictsNewY
from .summaries.exploring import ExploresTrees

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ..core.checks import Seed
    from ..files.store import AnyPath
    from ..model import TreeModel
    from ..tree.drawn import RootKey
    from .certified.certificate import Certificate, HoldoutCertificate
    from .certified.chosen import ChosenCertificate


class Posterior(ExploresTrees, PredictsNewY):
    """A posterior over trees, sampled or exact. Both have the same methods."""

    model: TreeModel
    _write_report: ClassVar[Callable[..., Path]]
    """Function that writes a posterior as an HTML page. It is of a higher layer, and set by `pactree_mcmc.__init__`."""
    _small_html: ClassVar[Callable[..., str]]
    """Function that returns a few lines of HTML for notebooks, set likewise."""

    @property
    @abstractmethod
    def log_evidence(self) -> float | None:
        """Log of the sum over all trees of prior times likelihood, in nats; None where it was not estimated."""

    @abstractmethod
    def n_leaves_pmf(self) -> np.ndarray:
        """Distribution of the number of leaves; entry m is P(m leaves)."""

    @abstractmethod
    def feature_inclusion(self) -> np.ndarray:
        """Probability (p,) that a tree splits on each feature at least once."""

    @abstractmethod
    def root_split_pmf(self) -> dict[RootKey, float]:
        """Distribution of the root split, as a dictionary of probabilities.

        Keys are None (no split), (feature, threshold), or (feature, frozenset of the categories going left). A feature
        with missing values adds their side, "missing left" or "missing right"; the threshold is None if the split
        separates missing from known values.
        """

    @abstractmethod
    def map_tree(self) -> Tree:
        """The most probable tree."""

    @abstractmethod
    def draw_trees(self, n: int, rng: Seed = None) -> list[Tree]:
        """``n`` trees drawn from the posterior."""

    def save(self, path: AnyPath, *, log_likelihood: bool = False) -> None:
        """Write a sampled posterior to one file; for other posteriors save the model, or draws."""
        raise ValueError(
            f"a {type(self).__name__} cannot be saved: save its model, post.model.save(path), and compute the "
            "posterior of pt.load(path) again; or, for an exact posterior, save draws: "
            "post.sample(1000, rng=1).save(path)."
        )

    def report(
        self,
        path: AnyPath,
        *,
        truth: Posterior | None = None,
        title: str | None = None,
        command: str | None = None,
    ) -> Path:
        """Write the posterior as one HTML page, to look at in any browser.

        The verdict in words, the consensus tree with its support, all decision paths laid over each other, the most
        probable trees to leaf through, a row to type in and its prediction, a map of the trees, what the chains say,
        the model and the run. One file that loads nothing and is readable without JavaScript.

        Parameters
        ----------
        path : path-like
            Ends in .html; a file is replaced.
        truth : Posterior, optional
            An exact posterior of the same model, such as ``exact.solve(model)``: its values are ticked beside those of
            the draws. An exact posterior is its own truth, and its paths and trees are of 1,000 independent draws.
        title : str, optional
            Heading of the page.
        command : str, optional
            The line that makes the page again, to be shown in it.

        Returns
        -------
        Path
            That of the file.

        Raises
        ------
        TypeError
            If ``truth`` is no exact posterior, or ``title`` or ``command`` no text.
        ValueError
            If the path cannot be written to, ``truth`` is of another model, or there are no draws.

        Notes
        -----
        The same posterior makes the same bytes. A page of 4,000 draws takes some seconds and at most about 500 kB: of
        very large trees fewer go into it, and it says how many.

        Examples
        --------
        >>> import pathlib, tempfile, pactree_mcmc as pt
        >>> stumps = [pt.Tree([0, -1, -1], [t, 0, 0], [1, 0, 0], [2, 0, 0]) for t in (4.5, 5.5)]
        >>> model = pt.TreeModel([[float(x)] for x in range(10)], [x > 5 for x in range(10)])
        >>> post = pt.posterior_from_trees(model, stumps)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     post.report(pathlib.Path(folder) / "page.html").stat().st_size < 100_000
        True
        """
        return self._write_report(path, truth, title, command)

    def _repr_html_(self) -> str:
        """Return the verdict, a few numbers and the consensus tree as HTML for notebooks."""
        return self._small_html()

    @abstractmethod
    def _values(self, X: np.ndarray) -> np.ndarray:
        """Returns the posterior mean (n, d) of the leaf values that rows of numbers reach."""

    def kl_to_prior(self) -> float:
        """Returns the Kullback-Leibler divergence of the posterior from the prior over trees, nats.

        Raises
        ------
        ValueError
            If it cannot be computed; the message says why.
        """
        raise ValueError(f"{type(self).__name__} does not know its divergence from the prior over trees.")

    def certificate(self, delta: float = 0.05) -> Certificate:
        """PAC-Bayes bounds on the risk of a tree drawn from the posterior and on that of ``predict``.

        The counted rows are those not selected by ``estimation=`` (S). The posterior may depend on them, but not the
        prior: splits, leaf values and tree prior must be determined by the other rows (E) or by none. What the caller
        gave (cuts, bounds, a fixed tree, parameters of the prior, the choice of E) is assumed to satisfy this.

        Parameters
        ----------
        delta : float, default 0.05
            Probability, over the counted rows, that one of the bounds fails; in (0, 1).

        Returns
        -------
        Certificate

        Raises
        ------
        ValueError
            If delta is out of range, or the prior may depend on counted rows: the message says how, and what to give.
            `TreeModel.certificate_obstacle` returns the same reason before anything is sampled.

        Notes
        -----
        Risk, divergence and tandem loss are exact: for an exact posterior over all its trees, for draws over the
        distinct trees drawn, weighted by their frequencies; so the bounds hold whether or not the chains converged.

        A constant ``sample_weight`` of the counted rows is a power of their likelihood, or a factor of lambda: it
        changes the posterior, which is closer to the prior below 1, but each row still counts once.

        Cost: that of predicting the counted rows. Formula sheet, section 9.

        Examples
        --------
        >>> import numpy as np, pactree_mcmc as pt
        >>> x, E = np.arange(400.0), np.arange(400) % 2 == 0
        >>> leaf, cuts = pt.PacBayesLoss(5.0), pt.GridCuts([np.arange(50.0, 400.0, 50.0)])
        >>> model = pt.TreeModel(x[:, None], x > 150, leaf=leaf, split_prior=cuts, estimation=E)
        >>> post = pt.sample(model, 200, tune=50, chains=2, rng=1, kernel="grow-prune")
        >>> bool(post.certificate(0.05).vote.value < 0.2)
        True
        """
        return certify(self, delta)

    @overload
    def holdout_certificate(self, X: Any, y: Any, delta: float = 0.05) -> HoldoutCertificate: ...

    @overload
    def holdout_certificate(
        self, X: Any, y: Any, delta: float = 0.05, *, choose: Literal[False], n_trees: int = 200, rng: Seed = 0
    ) -> HoldoutCertificate: ...

    @overload
    def holdout_certificate(
        self, X: Any, y: Any, delta: float = 0.05, *, choose: Literal[True], n_trees: int = 200, rng: Seed = 0
    ) -> ChosenCertificate: ...

    def holdout_certificate(
        self, X: Any, y: Any, delta: float = 0.05, *, choose: bool = False, n_trees: int = 200, rng: Seed = 0
    ) -> HoldoutCertificate | ChosenCertificate:
        """Bounds on the risk of a drawn tree and of ``predict`` from held-out rows; or the best bound they allow.

        For any classification model. The posterior must not depend on these rows, which cannot be checked. With
        ``choose`` the rows are counted and choose as well: among the posterior as fitted, each tree of a sample of it,
        and votes of these trees with weights that make a bound small. The posterior is the prior of the PAC-Bayes
        bounds, so the better it was fitted to other rows, the less is paid.

        Parameters
        ----------
        X : table of shape (n, p)
            Held-out rows.
        y : array-like of shape (n,)
            Labels; one that the model does not know counts as an error.
        delta : float, default 0.05
            Probability, over these rows, that one of the bounds fails; in (0, 1).
        choose : bool, default False
            Whether to return the certificate of choice.
        n_trees : int, default 200
            With ``choose``: trees drawn from the posterior.
        rng : None, int, SeedSequence or Generator, default 0
            With ``choose``: source of randomness of the draw.

        Returns
        -------
        HoldoutCertificate, or ChosenCertificate if ``choose``

        Raises
        ------
        ValueError
            If an argument is out of range, the model is a regression, or X and y do not fit.

        Notes
        -----
        Cost: that of ``predict_proba``; with ``choose`` some hundred passes over trees times rows. Binomial tail
        inversion for ``predict`` (Langford 2005), Chernoff's bound for a drawn tree; half of delta each. With
        ``choose`` half of delta is for ``predict`` and a twelfth for each of six alternatives.

        Examples
        --------
        >>> import numpy as np, pactree_mcmc as pt
        >>> x = np.arange(400.0)
        >>> model = pt.TreeModel(x[:200, None] * 2, x[:200] > 75)
        >>> post = pt.sample(model, 200, tune=50, chains=2, rng=1, kernel="grow-prune")
        >>> bool(post.holdout_certificate(x[1::2, None], x[1::2] > 150).vote.value < 0.1)
        True
        >>> post.holdout_certificate(x[1::2, None], x[1::2] > 150, choose=True).chosen
        'as fitted'
        """
        check_flag("choose", choose)
        if not choose:
            return certify_holdout(self, X, y, delta)
        refuse_regression(self)
        return certify_chosen(self, X, y, delta, n_trees, rng)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Predictive class probabilities.

        Parameters
        ----------
        X : table of shape (n, p)
            With the columns of the model; columns of a frame are taken by name. A category not seen in training follows
            the branch of the majority of the training rows.

        Returns
        -------
        ndarray of shape (n, K)
            Columns follow ``model.classes_``.

        Raises
        ------
        ValueError
            If the model is a regression, or X does not have the model's columns.
        """
        if self.model.classes_ is None:
            raise ValueError(f"{type(self.model.leaf).__name__} is a regression; use predict.")
        return self._values(self.model.columns.numbers(X))

    def predict(self, X: Any) -> np.ndarray:
        """Most probable labels (n,), or predictive means (n,) of a regression; (n, d) where y has several outputs.

        Raises
        ------
        ValueError
            If X does not fit the model's columns.
        """
        values = self._values(self.model.columns.numbers(X))
        if self.model.classes_ is None:
            return values[:, 0] if values.shape[1] == 1 else values
        return self.model.classes_[np.argmax(values, axis=1)]
