"""Priors on the number of leaves: a distribution of the number, and equally probable shapes of that number."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import gammaln

from ..core.checks import check_count, check_number, in_words, read_numbers, settle
from ..files.encoding import kept
from .tree_prior import FixedShape, TreePrior

MOST_LEAVES = 1 << 12
"""Largest number of leaves that a prior by the number of leaves may admit."""


def log_catalan(n: np.ndarray) -> np.ndarray:
    """Return the log of the Catalan numbers, those of the shapes of binary trees with ``n`` internal nodes."""
    return gammaln(2.0 * n + 1.0) - gammaln(n + 1.0) - gammaln(n + 2.0)


class CountsLeaves(TreePrior):
    """Base of the priors whose factor of a tree depends on its number of leaves; nodes have the factor 1."""

    is_process: ClassVar[bool] = False

    def log_split(self, depth: Any, node: Any) -> Any:
        return np.zeros(np.shape(depth))

    def log_stop(self, depth: Any, node: Any, *, forced: bool, empty: bool) -> Any:
        return np.zeros(np.shape(depth))

    def log_mass(self, n_splits: int, shape: FixedShape | None) -> float | None:
        return None

    def log_pmf(self) -> np.ndarray:
        """Return the log probability of each number of leaves, from 1."""
        raise NotImplementedError

    def log_by_leaves(self) -> np.ndarray:
        log_pmf = self.log_pmf()
        return np.concatenate([[-np.inf], log_pmf - log_catalan(np.arange(len(log_pmf)))])


@kept
@dataclass(frozen=True)
class LeafCountPrior(CountsLeaves):
    """A prior given by the distribution of the number of leaves.

    ``P(tree) = p(m) / Catalan(m - 1)`` times R(split | cell) of each of its splits, for a tree of m leaves: the number
    of leaves has the distribution p, the Catalan(m - 1) shapes of m leaves are equally probable, and the splits are
    drawn from the split prior, given the shape. Trees that cannot occur, because a cell has no admissible split or
    ``max_depth`` does not allow the shape, take their probability with them. So the mass of the prior may be below one,
    and the distribution of the number of leaves among the trees that can occur is then not exactly p. The evidence is
    the sum over trees of this prior times the score, in both engines, and is not divided by that mass.

    Parameters
    ----------
    pmf : array-like of shape (most leaves + 1,)
        Entry m is proportional to the probability of m leaves, as in ``n_leaves_pmf`` of a posterior. Entry 0 is 0, all
        others are positive, at least 2 of them. Trees of more leaves have probability 0.
    max_depth : int or None, default None
        Largest depth of a leaf; None: limited only by the splits.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    The exact engine sums over the pairs of a cell and a number of leaves below it: the cells cost up to the number of
    leaves m times as much, the splits up to m²/2 times. Chains take the factor of the number of leaves at each
    decision; their proposals do not use it.

    Examples
    --------
    >>> import exact, pactree_mcmc as pt
    >>> model = pt.TreeModel([[0.0], [1.0], [2.0]], [0.5, 1.0, 1.5], tree_prior=LeafCountPrior([0, 0.5, 0.3, 0.2]))
    >>> stump, split = pt.Tree([-1], [0], [0], [0]), pt.Tree([0, -1, -1], [0.5, 0, 0], [1, 0, 0], [2, 0, 0])
    >>> [round(float(np.exp(model.log_prior(tree))), 3) for tree in (stump, split)]
    [0.5, 0.15]
    """

    pmf: Any
    max_depth: int | None = None

    def __post_init__(self) -> None:
        pmf = read_numbers("pmf", self.pmf)
        if pmf.ndim != 1 or not 3 <= len(pmf) <= MOST_LEAVES + 1:
            raise ValueError(f"pmf has shape {pmf.shape}; give (most leaves + 1,), for 2 to {MOST_LEAVES} leaves.")
        if pmf[0] != 0.0 or not np.all(pmf[1:] > 0.0) or not np.isfinite(pmf.sum()):
            raise ValueError(f"pmf={in_words(pmf.tolist())}; give 0 for no leaves, and a number > 0 for all others.")
        settle(self, "pmf", tuple((pmf / pmf.sum()).tolist()))
        super().__post_init__()

    def log_pmf(self) -> np.ndarray:
        return np.log(np.array(self.pmf[1:]))


@kept
@dataclass(frozen=True)
class CatalanExponential(CountsLeaves):
    """A number of leaves m with probability proportional to ``exp(-rate m)``, and equally probable shapes.

    The `LeafCountPrior` with ``p(m) = exp(-rate m) / sum_k exp(-rate k)`` for 1 <= m <= ``max_leaves``: the
    Catalan-exponential prior (arXiv 2606.01340). A tree of m leaves has the prior ``p(m) / Catalan(m - 1)`` times
    R(split | cell) of each of its splits. As Catalan(m - 1) grows like 4^m, a tree of one more leaf is by a factor of
    about ``4 exp(rate)`` less probable than under equal probabilities of all trees.

    Parameters
    ----------
    rate : float, default 1.0
        Decrease of the log probability for each further leaf, >= 0.
    max_leaves : int, default 32
        Largest number of leaves, 2 to 4096.
    max_depth : int or None, default None
        Largest depth of a leaf; None: limited only by the splits.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> CatalanExponential(rate=0.5, max_leaves=10)
    CatalanExponential(rate=0.5, max_leaves=10, max_depth=None)
    """

    rate: float = 1.0
    max_leaves: int = 32
    max_depth: int | None = None

    def __post_init__(self) -> None:
        settle(self, "rate", check_number("rate", self.rate, "a finite rate >= 0", 0.0))
        settle(self, "max_leaves", check_count("max_leaves", self.max_leaves, 2, MOST_LEAVES))
        super().__post_init__()

    def log_pmf(self) -> np.ndarray:
        log_weight = -self.rate * np.arange(self.max_leaves)
        return log_weight - math.log(math.fsum(np.exp(log_weight).tolist()))
