"""The smallest set of trees with a given posterior probability, and the level of a tree.

The level of a tree is the posterior probability of all trees that are more probable.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.checks import check_number
from ...tree.tree import Tree

if TYPE_CHECKING:
    from ..draws import DrawnTrees
    from ..protocol import AnyPosterior

LOG_POSTERIOR_TOLERANCE = 1e-9
"""Largest difference of log posteriors that counts as rounding, relative to their size or to 1 nat if that is more."""


@dataclass(frozen=True, eq=False)
class CredibleSet:
    """The most probable trees with posterior probability ``mass`` in all.

    Trees are ordered by their log posterior, which the model gives for any tree up to one constant, so their odds are
    exact. The draws estimate the posterior probability of all trees above a given one, by the fraction of the draws
    whose tree is more probable. So a tree has a level whether or not it was drawn.

    Attributes
    ----------
    mass : float
        Posterior probability of the set, in (0, 1).
    log_posterior : ndarray of shape (m,)
        Log prior plus log score of the trees in the set, nats, the most probable first.
    log_odds : ndarray of shape (m,)
        Log odds of each tree against the first, nats.
    weight : ndarray of shape (m,)
        Fraction of the draws with each tree; its posterior probability if ``exact``.
    exact : bool
        True if weights are probabilities and all trees of the set are listed; otherwise only those drawn are.
    """

    mass: float
    log_posterior: np.ndarray
    weight: np.ndarray
    exact: bool
    _post: DrawnTrees
    _number: np.ndarray
    _ranked: tuple[np.ndarray, np.ndarray]

    @property
    def log_odds(self) -> np.ndarray:
        """Log odds (m,) of each tree against the most probable one drawn, nats."""
        return self.log_posterior - self.log_posterior[0]

    def tree(self, i: int) -> Tree:
        """Return tree number ``i``, from 0, the most probable first.

        Raises
        ------
        ValueError
            If the set lists no such tree.
        """
        if not 0 <= int(i) < len(self):
            raise ValueError(f"the set lists {len(self)} trees; i={i}; give 0..{len(self) - 1}.")
        return self._post.distinct_tree(int(self._number[int(i)]))

    def level(self, tree: Any) -> float:
        """Return the posterior probability of all trees more probable than ``tree``: 0 for the best, 1 for the
        impossible.

        Parameters
        ----------
        tree : Tree, or a fitted scikit-learn tree
            Over the model's columns; it need not have been drawn. Of a scikit-learn tree only the splits count.

        Returns
        -------
        float
            In [0, 1]. The tree is in a credible set if its level is below the mass of the set. A tree of prior mass
            zero has level 1: one that splits at a threshold outside the cuts of a grid, that puts fewer than
            ``min_leaf`` rows in a leaf, is too deep, or has a threshold on a nominal column. A lower bound if ``exact``
            and the tree is less probable than all that are listed.

        Raises
        ------
        ValueError
            If it is not a tree, or splits on a column that X lacks.

        Examples
        --------
        >>> import exact, pactree_mcmc as pt
        >>> truth = exact.solve(pt.TreeModel([[float(x)] for x in range(30)], [x >= 15 for x in range(30)]))
        >>> likely = truth.credible_set(0.9)
        >>> stump, single = truth.map_tree(), pt.Tree([-1], [0], [0], [0])
        >>> likely.level(stump), stump in likely, single in likely
        (0.0, True, False)
        """
        tree = tree if isinstance(tree, Tree) else Tree.from_sklearn(tree)
        model = self._post.model
        log_prior = model.log_prior(tree)
        return 1.0 if log_prior == -np.inf else self.level_at(log_prior + model.log_score(tree))

    def level_at(self, log_posterior: float) -> float:
        """Return the posterior probability of all trees with a larger log prior plus log score than ``log_posterior``.

        In nats, as the model computes it, without the constant of the evidence.
        """
        return fraction_above(*self._ranked, log_posterior)

    def __contains__(self, tree: Any) -> bool:
        return self.level(tree) < self.mass

    def __len__(self) -> int:
        return len(self._number)

    def __iter__(self) -> Iterator[Tree]:
        return (self.tree(i) for i in range(len(self)))

    def __repr__(self) -> str:
        listed = "all its trees" if self.exact else "trees drawn"
        return f"CredibleSet(mass={self.mass}, {len(self)} {listed}, log odds 0 to {self.log_odds[-1]:.2f})"


def credible_set_of(post: DrawnTrees, weight: np.ndarray, mass: float, *, exact: bool = False) -> CredibleSet:
    """Return the credible set with probability ``mass``, given the ``weight`` (n_distinct_trees,) of each tree.

    ``exact`` says if the weights are probabilities, otherwise fractions of draws. See `Posterior.credible_set`.
    """
    log_posterior = post.log_posterior_of_tree
    order = np.argsort(-log_posterior, kind="stable")
    ranked = log_posterior[order], np.concatenate([[0.0], np.cumsum(weight[order])])
    is_member = np.array([fraction_above(*ranked, value) < mass for value in ranked[0].tolist()])
    members = order[is_member]
    return CredibleSet(mass, log_posterior[members], weight[members], exact, post, members, ranked)


def has_model_odds(post: AnyPosterior | DrawnTrees) -> bool:
    """Return True if ``model.log_posterior`` gives the odds of any two trees in a posterior."""
    return post.sees_all_rows and post.has_model_prior


def refuse_other_odds(post: AnyPosterior) -> None:
    """Raise a ValueError unless ``model.log_posterior`` gives the odds of any two trees in a posterior."""
    if not post.sees_all_rows:
        raise ValueError(
            f"the trees of this {type(post).__name__} are of many stages, each with odds of its own, and have no "
            "common credible set; use exact.solve or sample."
        )
    if not post.has_model_prior:
        raise ValueError(
            "these trees have the global splitting prior, and model.log_prior is the local one, by which a credible "
            "set would place a tree; best_trees(k) of the exact posterior lists the most probable trees."
        )


def check_mass(mass: Any) -> float:
    """Return ``mass`` as a float, or raise an error if it is not strictly between 0 and 1."""
    return check_number("mass", mass, "a number between 0 and 1", np.nextafter(0.0, 1.0), np.nextafter(1.0, 0.0))


def fraction_above(descending: np.ndarray, weight_above: np.ndarray, log_posterior: float) -> float:
    """Return the total weight of the trees whose log posterior exceeds ``log_posterior`` by more than rounding.

    ``descending`` (m,) has the log posteriors of the trees in descending order, nats, and ``weight_above`` (m + 1,) the
    sums of the weights of the first 0, 1, ..., m of them.
    """
    bound = log_posterior + LOG_POSTERIOR_TOLERANCE * max(1.0, abs(log_posterior))
    return float(min(weight_above[np.searchsorted(-descending, -bound, side="left")], 1.0))
