"""The abstract base class of posteriors over trees: the methods on which all other answers are built.

The functions of `rows` and `trees` take an `AnyPosterior`, or the `DrawnTrees` that its method ``_as_draws`` returns.
`Posterior` has one method for each of these functions, in `rows.answers` or `trees.answers`. So a new answer is a
function in a small file, and a method that calls it. `SampledPosterior`, `exact.ExactPosterior` and
`exact.ProgressiveMixture` are the posteriors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ..core.checks import Seed, check_count, read_generator
from ..core.texts import fill_docstring
from ..model.leaf.distributions import Mixture
from .draws import DrawnTrees

if TYPE_CHECKING:
    from ..model import TreeModel
    from ..tree.coded import RootKey
    from ..tree.tree import Tree

_DRAWS = """\
draws : int, default {}
    Number of trees drawn from a posterior that does not consist of draws.
rng : int, SeedSequence, Generator or None, default 0
    Source of randomness for those draws."""

documented = fill_docstring(
    {
        "X": "X : table of shape (n, p)\n    Rows with the columns of the model.",
        "coverage": "coverage : float, default 0.9\n    Probability of each interval, in (0, 1); equal tails.",
        "exposure": """\
exposure : float, or array of shape (n,), optional
    Exposure of each row, > 0, for counts and times; default 1. It multiplies the mean count, or the hazard. A leaf
    without exposures refuses it.""",
        "new_draws": """\
draws : int, default 1000
    Number of draws, >= 1.
rng : int, SeedSequence, Generator or None
    Source of randomness.""",
        "draws_1000": _DRAWS.format(1000),
        "draws_4000": _DRAWS.format(4000),
        "raises": "Raises\n------\nValueError\n    If an argument is out of range.",
    }
)
"""Decorator that replaces placeholders such as {draws_1000} in a method's docstring by these descriptions."""


class AnyPosterior(ABC):
    """Base class of all posteriors, with the methods that each kind of posterior implements in its own way.

    A *place* is a node of a drawn tree, or a cell of the exact engine: where a row can end. ``X`` (n, p) are rows of
    numbers, as ``model.columns.numbers`` returns them.
    """

    model: TreeModel
    sees_all_rows: bool = True
    """True if all trees are from the posterior given all rows; False for a mixture of posteriors given fewer rows."""
    has_model_prior: bool = True
    """True if the prior of the trees is that of ``model.log_prior``; False for the global splitting prior."""

    @property
    @abstractmethod
    def log_evidence(self) -> float | None:
        """Log of the sum over all trees of prior times likelihood, in nats; None if it was not estimated."""

    @abstractmethod
    def n_leaves_pmf(self) -> np.ndarray:
        """Return the distribution of the number of leaves; entry m is P(m leaves)."""

    @abstractmethod
    def depth_pmf(self) -> np.ndarray:
        """Return the distribution of the depth; entry d is P(the deepest leaf has depth d)."""

    @abstractmethod
    def _feature_inclusion(self) -> np.ndarray:
        """Return the probability (p,) that a tree splits on each feature at least once."""

    @abstractmethod
    def _root_split_pmf(self) -> dict[RootKey, float]:
        """Return the distribution of the root split, as a dictionary of probabilities.

        Keys are None (no split), (feature, threshold), or (feature, frozenset of the categories going left). A feature
        with missing values adds their side, "missing left" or "missing right"; the threshold is None if the split
        separates missing from known values.
        """

    @abstractmethod
    def map_tree(self) -> Tree:
        """Return the most probable tree."""

    @abstractmethod
    def draw_trees(self, n: int, rng: Seed = None) -> list[Tree]:
        """Draw ``n`` trees from the posterior."""

    @abstractmethod
    def kl_to_prior(self) -> float:
        """Return the Kullback-Leibler divergence of the posterior from the prior over trees, nats.

        Raises
        ------
        ValueError
            If it cannot be computed; the message says why.
        """

    @abstractmethod
    def _values(self, X: np.ndarray) -> np.ndarray:
        """Return the posterior mean (n, d) of the predictions at rows of numbers X, class probabilities or means."""

    @abstractmethod
    def _std_over_trees(self, X: np.ndarray) -> np.ndarray:
        """Return the standard deviation of predictions over trees at rows of numbers X, (n, d); (n,) for one mean."""

    @property
    @abstractmethod
    def _stats_by_place(self) -> np.ndarray:
        """Leaf model's statistics (m, n_stats) of the training rows at each of the m places, nodes or cells."""

    @property
    @abstractmethod
    def _tree_of_place(self) -> np.ndarray:
        """Number (m,) of the tree of which each place, a node or cell, is a leaf; -1 for an internal node."""

    @abstractmethod
    def _mixtures(self, X: np.ndarray) -> Iterator[tuple[slice | np.ndarray, Mixture]]:
        """Yield blocks of rows: the numbers of the rows, and the places that they reach with their probabilities.

        X (n, p) are rows as numbers. A place is a leaf of a distinct tree, or a cell. Each row is in one block, and a
        block has about ``predictive.MAX_LEAVES_PER_BLOCK`` places.
        """

    @abstractmethod
    def _averages(self, X: np.ndarray, by_place: np.ndarray) -> np.ndarray:
        """Return for rows of numbers X the posterior mean (n, d) of ``by_place`` (m, d) at the places they reach."""

    @abstractmethod
    def _drawn_trees(self, n: int, rng: np.random.Generator) -> tuple[DrawnTrees, np.ndarray]:
        """Return the posterior as draws whose leaves have their own statistics, and ``n`` random trees of them.

        The array (n,) has the number of the distinct tree of each of the ``n`` draws.
        """

    def _as_draws(self, draws: int, rng: Seed) -> DrawnTrees:
        """Return the draws of the posterior, or ``draws`` independent ones if it does not consist of draws."""
        return self._drawn_trees(check_count("draws", draws), read_generator(rng))[0]

    def _draws_that_predict(self, draws: int, rng: Seed) -> DrawnTrees:
        """Return `_as_draws`, or raise an error if the draws do not have the leaf values of the posterior.

        The draws of `exact.ProgressiveMixture` lack them if leaves differ between its stages.
        """
        return self._as_draws(draws, rng)

    def _cell_probability(self, post: DrawnTrees) -> np.ndarray:
        """Return the probability (n_cells,) of each cell of ``post``: exact if known, else its fraction of draws."""
        return post.cells.frequencies(post.weight_of_tree)
