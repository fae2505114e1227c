"""Feature weights that are unknown: a Dirichlet prior that prefers few features (Linero 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.checks import check_number, in_words
from ...files.encoding import kept

N_CONCENTRATIONS = 200
"""Values that a concentration drawn may have."""
LEAST, MOST = 1e-6, 1e6
"""Of a concentration, and of its scale rho."""


@kept
@dataclass(frozen=True)
class DirichletWeights:
    """Unknown feature weights, ``s ~ Dirichlet(a/p, ..., a/p)``: trees that split on few of many features.

    Given ``feature_weights=`` of a split prior. The feature of a split is drawn by s among those that can part the
    cell. The smaller the concentration ``a``, the fewer features share the splits: of K splits about ``a log(1 + K/a)``
    different ones where p is large. s, and ``a`` if it is not given, are drawn by Gibbs between the proposals.

    Parameters
    ----------
    concentration : float, optional
        ``a``, 1e-6 to 1e6. Left out it is drawn: ``a / (a + rho) ~ Beta(1/2, 1)``, at the middles of 200 intervals of
        equal probability.
    rho : float, optional
        Scale of an ``a`` that is drawn, 1e-6 to 1e6; default p, the number of features. Smaller is sparser.

    Raises
    ------
    ValueError
        If a number is out of range, or rho is given beside a concentration.

    Notes
    -----
    The two coordinates of a feature with missing values have half of its weight each. A split's weights are
    renormalised over the features that can part its cell, so that Dirichlet(a/p + counts) is not the distribution of s
    given the tree; ``mcmc/state/weights.py`` says how it is drawn. "dirichlet" is short for ``DirichletWeights()``.

    Priors of trees that do not sum to one, LeafPenalty and conditioned processes, weigh the pairs of s and tree; s
    alone is then a Dirichlet distribution tilted towards weights with more trees.

    References
    ----------
    .. [1] Linero (2018), Bayesian regression trees for high-dimensional prediction and variable selection, Journal of
       the American Statistical Association 113(522), 626-636.

    Examples
    --------
    >>> import numpy as np, pactree_mcmc as pt
    >>> X = np.random.default_rng(1).random((60, 8))
    >>> sparse = pt.LocalCuts(feature_weights=pt.DirichletWeights(concentration=1.0))
    >>> model = pt.TreeModel(X, X[:, 2] > 0.5, split_prior=sparse)
    >>> post = pt.sample(model, 200, tune=100, chains=2, rng=1, progress=False)
    >>> post.feature_weights.shape, int(post.feature_weights.mean(axis=(0, 1)).argmax())
    ((2, 200, 8), 2)
    """

    concentration: float | None = None
    rho: float | None = None

    def __post_init__(self) -> None:
        for name in ("concentration", "rho"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), f"a number from {LEAST:g} to {MOST:g}", LEAST, MOST)
        if self.concentration is not None and self.rho is not None:
            raise ValueError("rho is the scale of a concentration that is drawn; leave out one of the two.")

    def numbers(self, p: int) -> np.ndarray:
        """What compiled code takes, (2,): the concentration, 0 if it is drawn, and rho."""
        rho = float(p) if self.rho is None else float(self.rho)
        return np.array([0.0 if self.concentration is None else float(self.concentration), rho])

    def draw(self, rng: np.random.Generator, p: int) -> np.ndarray:
        """Logs of weights (p,) from the prior."""
        a, rho = self.numbers(p)
        if a == 0.0:
            below = ((rng.integers(N_CONCENTRATIONS) + 0.5) / N_CONCENTRATIONS) ** 2
            a = rho * below / (1.0 - below)
        # Gamma(a/p) as Gamma(a/p + 1) times a power of a uniform number: it may lie below all floats
        log_weight = np.log(rng.gamma(a / p + 1.0, size=p)) - rng.standard_exponential(p) / (a / p)
        return log_weight - np.logaddexp.reduce(log_weight)


def read_dirichlet(feature_weights: Any) -> DirichletWeights | None:
    """The prior of unknown weights that ``feature_weights`` names; None where weights are given or equal."""
    if isinstance(feature_weights, DirichletWeights):
        return feature_weights
    if not isinstance(feature_weights, str):
        return None
    if feature_weights != "dirichlet":
        raise ValueError(
            f"feature_weights={in_words(feature_weights)}; give weights (p,), 'dirichlet' or a DirichletWeights."
        )
    return DirichletWeights()
