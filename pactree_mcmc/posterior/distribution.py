"""The interface of both engines: what they know of a distribution over trees. All answers are functions of it."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..core.checks import Seed, check_count, read_generator
from ..core.texts import fill_docstring
from ..model import TreeModel
from ..tree.coded import RootKey
from .draws import Course, Draws
from .laws import CellLaw, RowLaw, without_cached


def _shared_by_answers() -> None:
    """Describe what several docstrings have in common, by placeholder.

    [X]
    X : table of shape (n, p)
        Rows with the columns of the model.
    [coverage]
    coverage : float, default 0.9
        Probability of each interval, in (0, 1); equal tails.
    [exposure]
    exposure : float, or array of shape (n,), optional
        Exposure of each row, > 0, for counts and times; default 1. It multiplies the mean count, or the hazard. A leaf
        without exposures refuses it.
    [new_draws]
    draws : int, default 1000
        Number of draws, >= 1.
    rng : int, SeedSequence, Generator or None
        Source of randomness.
    [draws_1000]
    draws : int, default 1000
        Number of trees drawn from a posterior that does not consist of draws.
    rng : int, SeedSequence, Generator or None, default 0
        Source of randomness for those draws.
    [draws_4000]
    draws : int, default 4000
        Number of trees drawn from a posterior that does not consist of draws.
    rng : int, SeedSequence, Generator or None, default 0
        Source of randomness for those draws.
    [raises]

    Raises
    ------
    ValueError
        If an argument is out of range.
    """


documented = fill_docstring(_shared_by_answers)
"""Decorator that replaces placeholders such as {draws_1000} in a docstring by these descriptions."""

OTHER_LEAVES = (
    "the predictive distribution of a cell differs between stages, and the mean over stages keeps only the means: use "
    "pt.progressive_mixture(model), whose draws keep the distribution of their stage, or exact.solve(model)."
)
"""Message for answers that need leaf values that a mean over stages does not have."""


class MostProbable(NamedTuple):
    """The most probable trees of a distribution, best first."""

    draws: Draws
    """The trees."""
    number: np.ndarray
    """(k,) int64: number of each among the distinct trees of ``draws``."""
    probability: np.ndarray | None
    """(k,) their probabilities; None if these are not known."""


class TreeDistribution(metaclass=ABCMeta):
    """A distribution over the trees of a model: what an engine must know. `Posterior` has the answers that follow."""

    model: TreeModel
    _rows: RowLaw
    """The places in which rows end."""
    _odds_by_model: bool = True
    """True if ``model.log_posterior`` gives the odds of any two trees."""
    _has_leaf_values: bool = True
    """True if the leaves of drawn trees have the parameters of the distribution; False for some means over stages."""

    @property
    def draws(self) -> Draws | None:
        """The draws that the distribution consists of; None if it has exact sums instead."""
        return None

    @property
    def _cells(self) -> CellLaw | None:
        """Exact probabilities of cells; None if the draws estimate them."""
        return None

    @property
    @abstractmethod
    def log_evidence(self) -> float | None:
        """Log of the sum over all trees of prior times likelihood, in nats; None if it was not estimated."""

    @abstractmethod
    def n_leaves_pmf(self) -> np.ndarray:
        """Return the distribution of the number of leaves, up to the largest one; entry m is P(m leaves)."""

    @abstractmethod
    def depth_pmf(self) -> np.ndarray:
        """Return the distribution of the depth, up to the largest one; entry d is P(the deepest leaf has depth d)."""

    @abstractmethod
    def kl_to_prior(self) -> float:
        """Return the Kullback-Leibler divergence from the prior over trees, nats.

        That of draws is the divergence of their empirical distribution: each tree has as its probability the fraction
        of the draws that have it, and trees with the same splits are one tree, whatever their leaf values. The prior is
        divided by its mass, the sum of the prior over all trees, which is not one under LeafPenalty, nor under a
        conditioned process if cells may lack admissible splits.

        Raises
        ------
        ValueError
            If the mass of the prior is unknown, as of draws under these priors (draws of `exact.solve` know it), or the
            posterior is a progressive mixture.
        """

    @abstractmethod
    def _feature_inclusion(self) -> np.ndarray:
        """Return the probability (p,) that a tree splits on each feature at least once."""

    @abstractmethod
    def _root_split_pmf(self) -> dict[RootKey, float]:
        """Return the distribution of the root split as a dictionary of probabilities, with the keys of `root_key`."""

    @abstractmethod
    def _best(self, k: int) -> MostProbable:
        """Return the ``k`` most probable trees, or all that are known if these are fewer."""

    @abstractmethod
    def _sampled(self, draws: int, rng: Seed) -> HasDraws:
        """Return the distribution itself if it has draws, otherwise ``draws`` independent ones."""

    def __getstate__(self) -> dict[str, Any]:
        return without_cached(self)


class HasDraws(Protocol):
    """A sampled posterior, as the functions about draws and their chains use it."""

    model: TreeModel
    course: Course | None

    @property
    def draws(self) -> Draws:
        """The draws."""

    @property
    def n_chains(self) -> int:
        """Number of chains."""

    @property
    def n_draws(self) -> int:
        """Number of draws per chain."""


def draws_of(post: TreeDistribution, draws: int, rng: Seed) -> Draws:
    """Check both arguments, and return the draws of a distribution, or ``draws`` independent ones."""
    return post._sampled(check_count("draws", draws), read_generator(rng)).draws


def random_draws(post: TreeDistribution, n: int, rng: np.random.Generator) -> tuple[Draws, np.ndarray]:
    """Return draws, and the numbers (n,) of the trees of ``n`` random ones: with replacement, or newly drawn."""
    if post.draws is not None:
        return post.draws, rng.choice(post.draws.tree_of_draw.ravel(), size=n)
    sampled = post._sampled(n, rng).draws
    return sampled, sampled.tree_of_draw[0]


def refuse_other_leaves(post: TreeDistribution) -> None:
    """Raise a ValueError if drawn trees do not have the leaf values of the distribution."""
    if not post._has_leaf_values:
        raise ValueError(OTHER_LEAVES)
