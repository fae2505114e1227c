"""The certificate of choice: the smallest of several bounds, each on a classifier that makes it small.

The posterior was fitted to rows E and is the prior; rows S, given here, choose among classifiers and are counted. Each
alternative is a bound that holds, with its part of delta, simultaneously for all choices that S may make within it; so
all hold simultaneously, and the smallest may be taken. The parts are fixed: they are what is paid for the choice.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ...certificates.bound import Bound, check_delta
from ...certificates.holdout import holdout
from ...certificates.inversions import binomial_tail_inversion
from ...certificates.pac_bayes_bounds import pac_bayes_kl, vote_cantelli, vote_factor_two, vote_tandem
from ...certificates.vote_bounds import vote_coin_betting, vote_split_kl
from ...certificates.vote_weights import Weighed, descend_weights, gibbs_weights, weigh
from ...core.checks import check_count, differ, read_labels
from ...tree.tree import Tree

if TYPE_CHECKING:
    from ...core.checks import Seed
    from ..base import Posterior

AS_FITTED, ONE_TREE, FACTOR_TWO = "as fitted", "one tree", "factor two"
TANDEM, CANTELLI, SPLIT_KL, COIN_BETTING = "tandem", "Chebyshev-Cantelli", "split kl", "coin betting"
PARTS = {AS_FITTED: 1 / 2} | dict.fromkeys((ONE_TREE, FACTOR_TWO, TANDEM, CANTELLI, SPLIT_KL, COIN_BETTING), 1 / 12)
"""The part of delta of each alternative."""


@dataclass(frozen=True, eq=False)
class ChosenCertificate:
    """The smallest of several bounds on the risk of a classifier, which hold simultaneously with probability 1 - delta.

    Attributes
    ----------
    n : int
        Counted rows.
    delta : float
    bounds : dict of str to Bound
        Of each alternative, with its part of delta: the posterior "as fitted", whose predictions do not depend on the
        counted rows; "one tree" of those drawn; and votes of these trees, their weights chosen for the bound: "factor
        two", "tandem", "Chebyshev-Cantelli", "split kl", "coin betting".
    paid : dict of str to float
        Nats that each alternative pays for the choice among them: minus the log of its part of delta.
    gibbs : Bound
        Risk of a tree drawn with the weights of "factor two"; its part of delta is theirs.
    chosen : str
        The alternative with the smallest bound, which `predict` follows.
    trees : list of Tree
        The distinct trees that were drawn from the posterior.
    weights : dict of str to ndarray of shape (n_trees,)
        Weights of the trees in each alternative but "as fitted", in which they are the prior.
    """

    n: int
    delta: float
    bounds: dict[str, Bound]
    paid: dict[str, float]
    gibbs: Bound
    chosen: str
    trees: list[Tree] = field(repr=False)
    weights: dict[str, np.ndarray] = field(repr=False)
    _posterior: Posterior = field(repr=False)

    @property
    def vote(self) -> Bound:
        """The smallest bound: that on the risk of `predict`."""
        return self.bounds[self.chosen]

    def predict(self, X: Any) -> np.ndarray:
        """Labels (n,) of rows, by the alternative ``chosen``: the classifier that is certified."""
        return self.predict_as(self.chosen, X)

    def predict_as(self, alternative: str, X: Any) -> np.ndarray:
        """Labels (n,) of rows by any of the alternatives.

        Raises
        ------
        ValueError
            If there is no such alternative, or X does not fit the model's columns.
        """
        if alternative not in self.bounds:
            raise ValueError(f"alternative={alternative!r} is unknown; give one of {list(self.bounds)}.")
        if alternative == AS_FITTED:
            return self._posterior.predict(X)
        weight, classes = self.weights[alternative], self._posterior.model.classes_
        assert classes is not None
        numbers = self._posterior.model.columns.numbers(X)
        votes = np.zeros((len(numbers), len(classes)))
        for t in np.flatnonzero(weight):
            votes[np.arange(len(numbers)), _labels_of(self.trees[t], numbers)] += weight[t]
        return classes[np.argmax(votes, axis=1)]

    def __str__(self) -> str:
        head = f"{self.n} counted rows, {len(self.trees)} trees; all with probability {1.0 - self.delta:g}:"
        lines = [
            f"  {'*' if name == self.chosen else ' '} {name}: {bound.value:.4f} with {PARTS[name]:.3g} of delta"
            for name, bound in self.bounds.items()
        ]
        return "\n".join([head, *lines])


def certify_chosen(post: Posterior, X: Any, y: Any, delta: float, n_trees: int, rng: Seed) -> ChosenCertificate:
    """The certificate of choice from rows that the posterior was not fitted to; see `Posterior.holdout_certificate`."""
    delta, n_trees = check_delta(delta), check_count("n_trees", n_trees)
    classes = post.model.classes_
    assert classes is not None
    labels, numbers = read_labels(y, X), post.model.columns.numbers(X)
    n = len(numbers)
    if labels.shape != (n,) or n == 0:
        raise ValueError(f"X has {n} rows and y has shape {labels.shape}; give one label a row, at least one.")
    trees, prior = _distinct(post.draw_trees(n_trees, rng))
    wrong = np.array([differ(classes[_labels_of(tree, numbers)], labels) for tree in trees], dtype=np.uint8)
    part = {name: delta * fraction for name, fraction in PARTS.items()}
    errors = int(np.sum(differ(post.predict(X), labels)))
    bounds = {AS_FITTED: holdout(errors, n, part[AS_FITTED])}
    bounds[ONE_TREE], best = _one_tree(wrong, prior, part[ONE_TREE])
    weights = {AS_FITTED: prior, ONE_TREE: np.eye(len(trees))[best]}
    votes = _votes(wrong, prior, part)
    for name, (bound, weighed) in votes.items():
        bounds[name], weights[name] = bound, weighed.weight
    drawn = votes[FACTOR_TWO][1]
    gibbs = pac_bayes_kl(drawn.risk, drawn.kl, n, part[FACTOR_TWO])
    chosen = min(bounds, key=lambda name: bounds[name].raw)
    paid = {name: -math.log(fraction) for name, fraction in PARTS.items()}
    return ChosenCertificate(n, delta, bounds, paid, gibbs, chosen, trees, weights, post)


def _distinct(drawn: list[Tree]) -> tuple[list[Tree], np.ndarray]:
    """The distinct trees among those drawn, and how often each was, as fractions."""
    place: dict[Tree, int] = {}
    counts = np.bincount([place.setdefault(tree, len(place)) for tree in drawn])
    return list(place), counts / counts.sum()


def _labels_of(tree: Tree, numbers: np.ndarray) -> np.ndarray:
    """Numbers of the classes that a tree predicts for rows of numbers."""
    assert tree.value is not None
    return np.asarray(np.argmax(tree.value, axis=1)[tree.routes().leaves(numbers)])


def _one_tree(wrong: np.ndarray, prior: np.ndarray, delta: float) -> tuple[Bound, int]:
    """The smallest bound on the risk of a single tree, each with its prior's part of delta, and that tree."""
    errors, n = wrong.sum(axis=1).astype(np.int64), wrong.shape[1]
    # a tree is out of the race if another has no more errors and no less prior
    order = np.lexsort((-prior, errors))
    best, at, most = math.inf, 0, 0.0
    for t in order:
        if prior[t] > most:
            most = float(prior[t])
            raw = binomial_tail_inversion(int(errors[t]), n, math.log(delta) + math.log(prior[t]))
            if raw < best:
                best, at = raw, int(t)
    terms = {"empirical risk": errors[at] / n, "errors": float(errors[at]), "n": float(n)}
    return Bound("one tree, binomial tail", best, delta, terms | {"-log prior": -math.log(prior[at])}), at


def _votes(wrong: np.ndarray, prior: np.ndarray, part: dict[str, float]) -> dict[str, tuple[Bound, Weighed]]:
    """The bounds on weighted votes, each at the weights that make it small."""
    n = wrong.shape[1]
    formula: dict[str, Callable[[float, float, float], Bound]] = {
        FACTOR_TWO: lambda risk, tandem, kl: vote_factor_two(risk, kl, n, part[FACTOR_TWO]),
        TANDEM: lambda risk, tandem, kl: vote_tandem(tandem, kl, n, part[TANDEM]),
        CANTELLI: lambda risk, tandem, kl: vote_cantelli(risk, tandem, kl, n, part[CANTELLI]),
        SPLIT_KL: lambda risk, tandem, kl: vote_split_kl(risk, tandem, kl, n, part[SPLIT_KL]),
        COIN_BETTING: lambda risk, tandem, kl: vote_coin_betting(risk, tandem, kl, n, part[COIN_BETTING]),
    }
    starts, out = [weigh(prior, prior, wrong), gibbs_weights(prior, wrong, part[FACTOR_TWO])], {}
    for name, bound in formula.items():
        found = descend_weights(bound, prior, wrong, starts)
        out[name] = bound(found.risk, found.tandem, found.kl), found
        starts.append(found)
    return out
