"""Trees of a posterior: the most probable one, random ones, and the smallest set with a given probability.

The level of a tree is the posterior probability of all trees that are more probable.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.checks import Seed, check_count, check_number, read_generator
from ...tree.tree import Tree
from ..distribution import TreeDistribution, draws_of, random_draws
from ..draws import Draws

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
    _post: Draws
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


def credible_set(post: TreeDistribution, mass: float = 0.95, *, draws: int = 1000, rng: Seed = 0) -> CredibleSet:
    """Return the set of the most probable trees with posterior probability ``mass`` in all.

    Parameters
    ----------
    mass : float, default 0.95
        Posterior probability of the set, in (0, 1).
    draws : int, default 1000
        For an exact posterior, the largest number of trees that are listed: if this many of the most probable trees
        have the mass, the set is exact; otherwise it is estimated from this many draws.
    rng : int, SeedSequence, Generator or None, default 0
        Source of randomness for those draws.

    Returns
    -------
    CredibleSet
        Has ``tree in set``, ``set.level(tree)`` and ``set.tree(i)``; a tree can also be a fitted scikit-learn tree.

    Raises
    ------
    ValueError
        If an argument is out of range, or the draws are from a progressive mixture.

    Notes
    -----
    Trees are ordered by their log posteriors, which are exact for any tree, under `LeafPenalty` up to a constant.
    Only the posterior probability of all trees above a given one is estimated from draws, with the Monte-Carlo
    error of a fraction.

    Examples
    --------
    >>> import numpy as np, pactree_mcmc as pt
    >>> x = np.arange(30.0)
    >>> post = pt.sample(pt.TreeModel(x[:, None], x > 14), 500, tune=50, chains=2, rng=1, kernel="grow-prune")
    >>> likely = post.credible_set(0.9)
    >>> post.map_tree() in likely, pt.Tree([-1], [0], [0], [0]) in likely
    (True, False)
    """
    mass = check_number("mass", mass, "a number between 0 and 1", np.nextafter(0.0, 1.0), np.nextafter(1.0, 0.0))
    n = check_count("draws", draws)
    if not post._odds_by_model:
        raise ValueError(
            f"model.log_posterior does not give the odds of the trees of this {type(post).__name__}: they are of many "
            "stages, each with odds of its own, or have the global splitting prior. So a credible set could not place "
            "a tree; use exact.solve or sample, or best_trees(k), which lists the most probable trees."
        )
    best = post._best(n)
    if best.probability is not None and best.probability.sum() >= mass:
        weight = np.bincount(best.number, best.probability, best.draws.n_distinct_trees)
        return _set_of(best.draws, weight, mass, exact=True)
    sampled = draws_of(post, n, rng)
    return _set_of(sampled, sampled.weight_of_tree, mass, exact=False)


def _set_of(draws: Draws, weight: np.ndarray, mass: float, *, exact: bool) -> CredibleSet:
    """Return the set with probability ``mass``, given the ``weight`` (n_distinct_trees,) of each tree."""
    log_posterior = draws.log_posterior_of_tree
    order = np.argsort(-log_posterior, kind="stable")
    ranked = log_posterior[order], np.concatenate([[0.0], np.cumsum(weight[order])])
    members = order[np.array([fraction_above(*ranked, value) < mass for value in ranked[0].tolist()])]
    return CredibleSet(mass, log_posterior[members], weight[members], exact, draws, members, ranked)


def map_tree(post: TreeDistribution) -> Tree:
    """Return the most probable tree.

    Of draws it is the drawn tree with the largest log prior plus log score, which may not be the most frequent one, and
    of a progressive mixture the most probable tree of the last stage.

    Raises
    ------
    ValueError
        If a progressive mixture was interrupted before the last stage.
    """
    best = post._best(1)
    return best.draws.distinct_tree(int(best.number[0]))


def draw_trees(post: TreeDistribution, n: int, rng: Seed = None) -> list[Tree]:
    """Draw ``n`` trees: draws with replacement, or independent trees from a posterior that has exact sums."""
    n, generator = check_count("n", n, 0), read_generator(rng)
    if n == 0:
        return []
    sampled, numbers = random_draws(post, n, generator)
    tree_of_number = {t: sampled.distinct_tree(t) for t in np.unique(numbers).tolist()}
    return [tree_of_number[t] for t in numbers.tolist()]


def fraction_above(descending: np.ndarray, weight_above: np.ndarray, log_posterior: float) -> float:
    """Return the total weight of the trees whose log posterior exceeds ``log_posterior`` by more than rounding."""
    # ``descending`` (m,) has the log posteriors of the trees in descending order, nats, and ``weight_above`` (m +
    # 1,) the sums of the weights of the first 0, 1, ..., m of them.
    bound = log_posterior + LOG_POSTERIOR_TOLERANCE * max(1.0, abs(log_posterior))
    return float(min(weight_above[np.searchsorted(-descending, -bound, side="left")], 1.0))
