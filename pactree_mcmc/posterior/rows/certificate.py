"""Certificates of a posterior: PAC-Bayes bounds from training rows, bounds from held-out rows, and the best of these.

The counted rows are those of S. The prior over classifiers - tree prior, splits, leaf values - must be a function of
the rows of E alone; the posterior may depend on S in any way, also through parameters such as ``lambda1`` chosen on S.

The loss of a tree at a row is one minus the probability its leaf gives to the row's label: 0 or 1 under PacBayesLoss,
the probability of a wrong label drawn from the leaf under FrozenLaplace. Its posterior mean is one minus
``predict_proba``, so the risk of a drawn tree and the tandem loss are exact from the predictions. ``predict`` errs only
if that mean is at least 1/2, hence all bounds on the vote hold for ``predict``.

The side to which a tree sends a category that no row has depends on the rows of S. The certificate holds nevertheless:
it bounds the loss that counts every such row as an error, which is no smaller, and is the same on the rows of S.

The certificate of choice is the smallest of several bounds. There the posterior was fitted to rows E and is the prior.
The rows S, which the caller gives, choose among classifiers and are counted. Each alternative is a bound that holds,
with its part of delta, simultaneously for all choices that S may make within it. So all hold simultaneously, and the
smallest one is valid. The parts are fixed: they are the cost of the choice.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...certificates import vote_bounds
from ...certificates.bound import Bound, binomial_tail_inversion, check_delta, holdout, holdout_gibbs
from ...certificates.pac_bayes_bounds import pac_bayes_kl, pac_bayes_lambda, vote_cantelli, vote_factor_two, vote_tandem
from ...certificates.vote_bounds import WeightedTrees, descend_weights, evaluate_weights, gibbs_weights
from ...core.checks import Seed, check_count, labels_differ, read_labels
from ...tree.tree import Tree
from .new_rows import predicted_labels

if TYPE_CHECKING:
    from ...model import TreeModel
    from ..protocol import AnyPosterior

AS_FITTED, ONE_TREE, FACTOR_TWO = "as fitted", "one tree", "factor two"
TANDEM, CANTELLI, SPLIT_KL, COIN_BETTING = "tandem", "Chebyshev-Cantelli", "split kl", "coin betting"
DELTA_FRACTIONS = {AS_FITTED: 1 / 2} | dict.fromkeys(
    (ONE_TREE, FACTOR_TWO, TANDEM, CANTELLI, SPLIT_KL, COIN_BETTING), 1 / 12
)
"""Fraction of delta that the bound of each alternative may use."""


@dataclass(frozen=True)
class Certificate:
    """PAC-Bayes bounds on the risks of a posterior, which hold simultaneously with probability 1 - delta.

    Attributes
    ----------
    n : int
        Number of counted rows, on which the empirical risk is measured.
    delta : float
        Probability that one of the bounds fails.
    risk : float
        Empirical risk of a tree drawn from the posterior.
    tandem_loss : float
        Empirical tandem loss, the probability that two trees drawn independently both err.
    kl : float
        Kullback-Leibler divergence of the posterior from the prior, nats.
    gibbs, relaxed : Bound
        Bounds on the risk of a drawn tree, by inverting the binary divergence, and by a relaxation of it.
    factor_two, tandem, cantelli : Bound
        Bounds on the risk of ``predict``.
    """

    n: int
    delta: float
    risk: float
    tandem_loss: float
    kl: float
    gibbs: Bound
    relaxed: Bound
    factor_two: Bound
    tandem: Bound
    cantelli: Bound

    @property
    def vote(self) -> Bound:
        """The smallest of the bounds on the risk of ``predict``; it is valid because all bounds hold simultaneously."""
        return min((self.factor_two, self.tandem, self.cantelli), key=lambda bound: bound.raw)

    def __repr__(self) -> str:
        return f"Certificate({self.n} rows, vote at most {self.vote.value:.4f}, delta={self.delta:g})"

    def __str__(self) -> str:
        head = f"{self.n} counted rows, risk {self.risk:.4f}, tandem loss {self.tandem_loss:.4f}, KL {self.kl:.3f} nats"
        bounds = (self.gibbs, self.relaxed, self.factor_two, self.tandem, self.cantelli)
        lines = [f"    {bound.name}: {bound.value:.4f}" for bound in bounds]
        return "\n".join([head, f"all with probability {1.0 - self.delta:g}:", *lines])


class Losses(NamedTuple):
    """Empirical losses of a posterior on the counted rows."""

    n: int
    """Number of counted rows."""
    risk: float
    """Mean over rows of the probability that a drawn tree errs."""
    tandem: float
    """Mean over rows of the probability that two trees drawn independently both err."""


def certify(post: AnyPosterior, delta: float) -> Certificate:
    """Return PAC-Bayes bounds on the risks of a drawn tree and of ``predict``, from the training rows.

    Only rows that enter the marginal likelihood of a tree count. All bounds hold with probability 1 - ``delta``.
    Implementation of `Posterior.certificate`.
    """
    delta = check_delta(delta)
    check_prior_of_certificate(post.model)
    n, risk, tandem = empirical_losses(post)
    kl = post.kl_to_prior()
    half = delta / 2.0
    return Certificate(
        n,
        delta,
        risk,
        tandem,
        kl,
        pac_bayes_kl(risk, kl, n, half),
        pac_bayes_lambda(risk, kl, n, half),
        vote_factor_two(risk, kl, n, half),
        vote_tandem(tandem, kl, n, half),
        vote_cantelli(risk, tandem, kl, n, delta),
    )


def empirical_losses(post: AnyPosterior) -> Losses:
    """Return the empirical risk of a drawn tree and the tandem loss on the rows that enter the marginal likelihood."""
    merged, n_classes = post.model.units, post.model.target.n_classes
    # merged rows of S, by their codes; the values of a code go to the side of the row in every split on boxes
    counted = np.flatnonzero(merged.label >= n_classes)
    label = merged.label[counted].astype(np.int64) - n_classes
    rows = merged.rows[counted & merged.rows_all].astype(np.int64)
    probability = np.take_along_axis(post._values(post.model.unit_numbers(counted)), label[:, None], axis=1)[:, 0]
    loss, n = np.clip(1.0 - probability, 0.0, 1.0), int(rows.sum())
    return Losses(n, float(rows @ loss / n), float(rows @ loss**2 / n))


def check_prior_of_certificate(model: TreeModel) -> None:
    """Raise an error if the model's prior over classifiers may depend on the rows that would be counted.

    Raises
    ------
    ValueError
        With the reason and what to give instead.
    """
    reason = model.certificate_obstacle()
    if reason is not None:
        raise ValueError(f"no certificate: {reason}, or use holdout_certificate on held-out rows.")


@dataclass(frozen=True)
class HoldoutCertificate:
    """Bounds on the risks of a posterior from held-out rows, which hold simultaneously with probability 1 - delta.

    Attributes
    ----------
    n, errors : int
        Number of held-out rows, and of errors of ``predict`` on them.
    delta : float
        Probability that one of the bounds fails.
    gibbs : Bound
        Bound on the risk of a tree drawn from the posterior.
    vote : Bound
        Bound on the risk of ``predict``.
    """

    n: int
    errors: int
    delta: float
    gibbs: Bound
    vote: Bound

    def __repr__(self) -> str:
        return f"HoldoutCertificate({self.n} rows, vote at most {self.vote.value:.4f}, delta={self.delta:g})"

    def __str__(self) -> str:
        return f"{self.n} held-out rows, {self.errors} errors of the vote\n{self.vote}\n{self.gibbs}"


def refuse_regression(post: AnyPosterior) -> np.ndarray:
    """Return the classes (K,) of a classification model, or raise a ValueError for a regression."""
    classes = post.model.classes_
    if classes is None:
        raise ValueError(
            f"{type(post.model.leaf).__name__} is a regression; certificates are for losses in [0, 1]: "
            "give a classification model."
        )
    return classes


def certify_holdout(post: AnyPosterior, X: Any, y: Any, delta: float) -> HoldoutCertificate:
    """Return bounds on the risk of a drawn tree and of ``predict`` from the held-out rows ``X`` and ``y``.

    Each of the two may fail with probability ``delta`` / 2.
    """
    delta, classes = check_delta(delta), refuse_regression(post)
    numbers, labels = _read_held_out_rows(post, X, y)
    probability, n = post._values(numbers), len(numbers)
    errors = int(np.sum(labels_differ(predicted_labels(post.model, probability), labels)))
    of_label = (probability * ~labels_differ(labels[:, None], classes[None, :])).sum(axis=1)
    risk = float(np.clip(1.0 - of_label, 0.0, 1.0).mean())
    return HoldoutCertificate(n, errors, delta, holdout_gibbs(risk, n, delta / 2.0), holdout(errors, n, delta / 2.0))


def _read_held_out_rows(post: AnyPosterior, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Check the arguments ``X`` and ``y``, and return the rows as floats (n, p), and the labels (n,) as given.

    A category becomes its number.
    """
    labels, numbers = read_labels(y, X), post.model.columns.numbers(X)
    n = len(numbers)
    if labels.shape != (n,) or n == 0:
        raise ValueError(f"X has {n} rows and y has shape {labels.shape}; give one label a row, at least one.")
    return numbers, labels


@dataclass(frozen=True, eq=False)
class ChosenCertificate:
    """The smallest of several bounds on the risk of a classifier, which hold simultaneously with probability 1 - delta.

    Attributes
    ----------
    n : int
        Number of counted rows.
    delta : float
        Probability that one of the bounds fails.
    bounds : dict of str to Bound
        Bound on the risk of each alternative classifier, each with its part of delta. The alternatives are the
        posterior "as fitted", whose predictions do not depend on the counted rows; "one tree" of those drawn; and votes
        of these trees, with weights chosen to make one bound small: "factor two", "tandem", "Chebyshev-Cantelli",
        "split kl", "coin betting".
    paid : dict of str to float
        Cost in nats of the choice, for each alternative: minus the log of its part of delta.
    gibbs : Bound
        Bound on the risk of a tree drawn with the weights of "factor two", with the same part of delta.
    chosen : str
        The alternative with the smallest bound, which `predict` follows.
    trees : list of Tree
        The distinct trees that were drawn from the posterior.
    weights : dict of str to ndarray of shape (n_trees,)
        Weights of the trees in each alternative. Those of "as fitted" are the fractions of the draws with each tree.
    """

    n: int
    delta: float
    bounds: dict[str, Bound]
    paid: dict[str, float]
    gibbs: Bound
    chosen: str
    trees: list[Tree] = field(repr=False)
    weights: dict[str, np.ndarray] = field(repr=False)
    _posterior: AnyPosterior = field(repr=False)

    @property
    def vote(self) -> Bound:
        """The smallest bound, which is on the risk of `predict`."""
        return self.bounds[self.chosen]

    def predict(self, X: Any) -> np.ndarray:
        """Return the labels (n,) that the certified classifier, the alternative ``chosen``, predicts for rows."""
        return self.predict_as(self.chosen, X)

    def predict_as(self, alternative: str, X: Any) -> np.ndarray:
        """Return the labels (n,) that one of the alternatives predicts for rows.

        Raises
        ------
        ValueError
            If the alternative is unknown, or X does not fit the model's columns.
        """
        if alternative not in self.bounds:
            raise ValueError(f"alternative={alternative!r} is unknown; give one of {list(self.bounds)}.")
        classes, numbers = refuse_regression(self._posterior), self._posterior.model.columns.numbers(X)
        if alternative == AS_FITTED:
            return predicted_labels(self._posterior.model, self._posterior._values(numbers))
        weight = self.weights[alternative]
        votes = np.zeros((len(numbers), len(classes)))
        for t in np.flatnonzero(weight):
            votes[np.arange(len(numbers)), _predicted_classes(self.trees[t], numbers)] += weight[t]
        return classes[np.argmax(votes, axis=1)]

    def __repr__(self) -> str:
        return f"ChosenCertificate({self.n} rows, {self.chosen!r}, {self.vote.value:.4f}, delta={self.delta:g})"

    def __str__(self) -> str:
        head = f"{self.n} counted rows, {len(self.trees)} trees; all with probability {1.0 - self.delta:g}:"
        lines = [
            f"  {'*' if name == self.chosen else ' '} {name}: {bound.value:.4f} "
            f"with {DELTA_FRACTIONS[name]:.3g} of delta"
            for name, bound in self.bounds.items()
        ]
        return "\n".join([head, *lines])


def certify_chosen(post: AnyPosterior, X: Any, y: Any, delta: float, n_trees: int, rng: Seed) -> ChosenCertificate:
    """Return bounds on the risks of several classifiers, from rows that the posterior was not fitted to.

    The rows also choose the classifier with the smallest bound. The classifiers are the posterior as fitted, each of
    ``n_trees`` trees drawn from it with ``rng``, and votes of these trees. See `Posterior.holdout_certificate`.
    """
    classes, delta, n_trees = refuse_regression(post), check_delta(delta), check_count("n_trees", n_trees)
    numbers, labels = _read_held_out_rows(post, X, y)
    n = len(numbers)
    trees, prior = _distinct_trees(post.draw_trees(n_trees, rng))
    predicted = [classes[_predicted_classes(tree, numbers)] for tree in trees]
    is_error = np.array([labels_differ(of_tree, labels) for of_tree in predicted], dtype=np.uint8)
    delta_of = {name: delta * fraction for name, fraction in DELTA_FRACTIONS.items()}
    errors = int(np.sum(labels_differ(predicted_labels(post.model, post._values(numbers)), labels)))
    bounds = {AS_FITTED: holdout(errors, n, delta_of[AS_FITTED])}
    bounds[ONE_TREE], best_tree = _bound_of_best_tree(is_error, prior, delta_of[ONE_TREE])
    weights = {AS_FITTED: prior, ONE_TREE: np.eye(len(trees))[best_tree]}
    votes = _bounds_on_votes(is_error, prior, delta_of)
    for name, (bound, vote) in votes.items():
        bounds[name], weights[name] = bound, vote.weight
    gibbs_vote = votes[FACTOR_TWO][1]
    gibbs = pac_bayes_kl(gibbs_vote.risk, gibbs_vote.kl, n, delta_of[FACTOR_TWO])
    best_name = min(bounds, key=lambda name: bounds[name].raw)
    costs = {name: -math.log(fraction) for name, fraction in DELTA_FRACTIONS.items()}
    return ChosenCertificate(n, delta, bounds, costs, gibbs, best_name, trees, weights, post)


def _distinct_trees(trees: list[Tree]) -> tuple[list[Tree], np.ndarray]:
    """Return the distinct ones among ``trees``, and the fraction (n_distinct,) of the trees that equal each of them."""
    number: dict[Tree, int] = {}
    counts = np.bincount([number.setdefault(tree, len(number)) for tree in trees])
    return list(number), counts / counts.sum()


def _predicted_classes(tree: Tree, numbers: np.ndarray) -> np.ndarray:
    """Return the number (n,) of the class that a tree predicts for each row of X as ``numbers`` (n, p)."""
    assert tree.value is not None
    return np.asarray(np.argmax(tree.value, axis=1)[tree.routes().leaves(numbers)])


def _bound_of_best_tree(is_error: np.ndarray, prior: np.ndarray, delta: float) -> tuple[Bound, int]:
    """Return the smallest bound on the risk of a single tree, by binomial tail inversion, and the number of that tree.

    ``is_error`` (n_trees, n) is 1 if a tree errs at a row. The bound of tree t may fail with probability ``prior[t] *
    delta``, with ``prior`` (n_trees,) of sum 1, so all bounds hold simultaneously.
    """
    errors, n = is_error.sum(axis=1).astype(np.int64), is_error.shape[1]
    # a tree cannot have the smallest bound if another has at most as many errors and at least its prior
    order = np.lexsort((-prior, errors))
    smallest, best_tree, largest_prior = math.inf, 0, 0.0
    for t in order:
        if prior[t] > largest_prior:
            largest_prior = float(prior[t])
            raw = binomial_tail_inversion(int(errors[t]), n, math.log(delta) + math.log(prior[t]))
            if raw < smallest:
                smallest, best_tree = raw, int(t)
    terms = {"empirical risk": errors[best_tree] / n, "errors": float(errors[best_tree]), "n": float(n)}
    return Bound(
        "one tree, binomial tail", smallest, delta, terms | {"-log prior": -math.log(prior[best_tree])}
    ), best_tree


def _bounds_on_votes(
    is_error: np.ndarray, prior: np.ndarray, delta_of: dict[str, float]
) -> dict[str, tuple[Bound, WeightedTrees]]:
    """Return each bound on a weighted vote of trees, and weights that make this bound small, by name: `FACTOR_TWO`,
    `TANDEM`, `CANTELLI`, `SPLIT_KL` and `COIN_BETTING`.

    ``is_error`` (n_trees, n) is 1 if a tree errs at a row, ``prior`` (n_trees,) are the weights before the rows were
    seen, and ``delta_of`` has the probability with which each bound may fail.
    """
    n = is_error.shape[1]
    bound_of_name: dict[str, Callable[[float, float, float], Bound]] = {
        FACTOR_TWO: lambda risk, tandem, kl: vote_factor_two(risk, kl, n, delta_of[FACTOR_TWO]),
        TANDEM: lambda risk, tandem, kl: vote_tandem(tandem, kl, n, delta_of[TANDEM]),
        CANTELLI: lambda risk, tandem, kl: vote_cantelli(risk, tandem, kl, n, delta_of[CANTELLI]),
        SPLIT_KL: lambda risk, tandem, kl: vote_bounds.vote_split_kl(risk, tandem, kl, n, delta_of[SPLIT_KL]),
        COIN_BETTING: lambda risk, tandem, kl: vote_bounds.vote_coin_betting(
            risk, tandem, kl, n, delta_of[COIN_BETTING]
        ),
    }
    starts, bounds = (
        [evaluate_weights(prior, prior, is_error), gibbs_weights(prior, is_error, delta_of[FACTOR_TWO])],
        {},
    )
    for name, bound in bound_of_name.items():
        vote = descend_weights(bound, prior, is_error, starts)
        bounds[name] = bound(vote.risk, vote.tandem, vote.kl), vote
        starts.append(vote)
    return bounds
