"""Unknown feature weights: a Dirichlet prior that prefers few features (Linero 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.checks import check_number, in_words
from ...files.encoding import kept

N_CONCENTRATIONS = 200
"""Number of values that an unknown concentration can have."""
LEAST, MOST = 1e-6, 1e6
"""Range of a concentration, and of its scale rho."""


@kept
@dataclass(frozen=True)
class DirichletWeights:
    """Unknown feature weights, ``s ~ Dirichlet(a/p, ..., a/p)``: trees that split on few of many features.

    Give it as ``feature_weights=`` of a split prior. The feature of a split is drawn with probabilities s among the
    features on which the cell can be split. The smaller the concentration ``a``, the fewer features have splits: if p
    is large, K splits are on about ``a log(1 + K/a)`` different features. s, and ``a`` if it is not given, are drawn by
    Gibbs steps between the proposals.

    Parameters
    ----------
    concentration : float, optional
        ``a``, 1e-6 to 1e6. By default it is unknown, with the prior ``a / (a + rho) ~ Beta(1/2, 1)`` on the midpoints
        of 200 intervals of equal probability.
    rho : float, optional
        Scale of an unknown ``a``, 1e-6 to 1e6; default p, the number of features. Smaller values are sparser.

    Raises
    ------
    ValueError
        If a number is out of range, or both rho and a concentration are given.

    Notes
    -----
    Each of the two coordinates of a feature with missing values has half of its weight. In every cell the weights are
    renormalised over the features on which it can be split, so that Dirichlet(a/p + counts) is not the distribution of
    s given the tree; ``mcmc/state/weights.py`` says how it is drawn. "dirichlet" means ``DirichletWeights()``.

    If the tree prior does not sum to one (LeafPenalty, conditioned processes), it weights the pairs of s and tree; the
    marginal distribution of s is then the Dirichlet distribution times the sum over trees given s.

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
            raise ValueError("rho is the scale of an unknown concentration; give concentration or rho, not both.")

    def numbers(self, p: int) -> np.ndarray:
        """Return numbers (2,) for compiled code: the concentration, 0 if it is unknown, and rho."""
        rho = float(p) if self.rho is None else float(self.rho)
        return np.array([0.0 if self.concentration is None else float(self.concentration), rho])

    def concentrations(self, p: int) -> np.ndarray:
        """Return the values that the concentration can have, all of the same prior probability."""
        a, rho = self.numbers(p)
        if a > 0.0:
            return np.array([a])
        below = ((np.arange(N_CONCENTRATIONS) + 0.5) / N_CONCENTRATIONS) ** 2
        return rho * below / (1.0 - below)

    def draw(self, rng: np.random.Generator, p: int) -> np.ndarray:
        """Return log weights (p,) drawn from the prior."""
        values = self.concentrations(p)
        a = float(values[rng.integers(len(values)) if len(values) > 1 else 0])
        # Gamma(a/p) as Gamma(a/p + 1) times a power of a uniform number: it may lie below all floats
        log_weight = np.log(rng.gamma(a / p + 1.0, size=p)) - rng.standard_exponential(p) / (a / p)
        return log_weight - np.logaddexp.reduce(log_weight)


def read_dirichlet(feature_weights: Any) -> DirichletWeights | None:
    """Return the prior of unknown weights that ``feature_weights`` names, or None if weights are given or equal."""
    if isinstance(feature_weights, DirichletWeights):
        return feature_weights
    if not isinstance(feature_weights, str):
        return None
    if feature_weights != "dirichlet":
        raise ValueError(
            f"feature_weights={in_words(feature_weights)}; give weights (p,), 'dirichlet' or a DirichletWeights."
        )
    return DirichletWeights()
