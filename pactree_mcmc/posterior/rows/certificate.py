"""Certificates of a posterior: PAC-Bayes bounds from training rows, and bounds from held-out rows.

The counted rows are those of S. The prior over classifiers - tree prior, splits, leaf values - must be a function of
the rows of E alone; the posterior may depend on S in any way, also through parameters such as ``lambda1`` chosen on S.

The loss of a tree at a row is one minus the probability its leaf gives to the row's label: 0 or 1 under PacBayesLoss,
the probability of a wrong label drawn from the leaf under FrozenLaplace. Its posterior mean is one minus
``predict_proba``, so the risk of a drawn tree and the tandem loss are exact from the predictions. ``predict`` errs only
if that mean is at least 1/2, hence all bounds on the vote hold for ``predict``.

The side to which a tree sends a category that no row has depends on the rows of S. The certificate holds nevertheless:
it bounds the loss that counts every such row as an error, which is no smaller, and is the same on the rows of S.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...certificates.bound import (
    Bound,
    check_delta,
    holdout,
    holdout_gibbs,
    pac_bayes_kl,
    pac_bayes_lambda,
    vote_factor_two,
    vote_tandem,
)
from ...core.checks import labels_differ, read_labels
from ...model import TreeModel
from ..distribution import TreeDistribution
from .predictions import predicted_labels


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
    factor_two, tandem : Bound
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

    @property
    def vote(self) -> Bound:
        """The smaller of the bounds on the risk of ``predict``; it is valid because all bounds hold simultaneously."""
        return min(self.factor_two, self.tandem, key=lambda bound: bound.raw)

    def __repr__(self) -> str:
        return f"Certificate({self.n} rows, vote at most {self.vote.value:.4f}, delta={self.delta:g})"

    def __str__(self) -> str:
        head = f"{self.n} counted rows, risk {self.risk:.4f}, tandem loss {self.tandem_loss:.4f}, KL {self.kl:.3f} nats"
        bounds = (self.gibbs, self.relaxed, self.factor_two, self.tandem)
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


def certificate(post: TreeDistribution, delta: float = 0.05) -> Certificate:
    """Return PAC-Bayes bounds on the risk of a tree drawn from the posterior and on that of ``predict``.

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
    Risk, divergence and tandem loss are exact, for draws of the distinct trees weighted by their frequencies. So
    the bounds hold whether or not the chains converged. A constant ``sample_weight`` of the counted rows is a power
    of their likelihood: it changes the posterior, but each row still counts once. Cost: that of predicting the
    counted rows. Formulas, section 9.

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
    )


def empirical_losses(post: TreeDistribution) -> Losses:
    """Return the empirical risk of a drawn tree and the tandem loss on the rows that enter the marginal likelihood."""
    merged, n_classes = post.model.units, post.model.target.n_classes
    # merged rows of S, by their codes; the values of a code go to the side of the row in every split on boxes
    counted = np.flatnonzero(merged.label >= n_classes)
    label = merged.label[counted].astype(np.int64) - n_classes
    rows = merged.rows[counted & merged.rows_all].astype(np.int64)
    probability = np.take_along_axis(post._rows.values(post.model.unit_numbers(counted)), label[:, None], axis=1)[:, 0]
    loss, n = np.clip(1.0 - probability, 0.0, 1.0), int(rows.sum())
    return Losses(n, float(rows @ loss / n), float(rows @ loss**2 / n))


def check_prior_of_certificate(model: TreeModel) -> None:
    """Raise an error if the model's prior over classifiers may depend on the rows that would be counted."""
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


def refuse_regression(post: TreeDistribution) -> np.ndarray:
    """Return the classes (K,) of a classification model, or raise a ValueError for a regression."""
    classes = post.model.classes_
    if classes is None:
        raise ValueError(f"{type(post.model.leaf).__name__} is a regression; certificates are for losses in [0, 1].")
    return classes


def holdout_certificate(post: TreeDistribution, X: Any, y: Any, delta: float = 0.05) -> HoldoutCertificate:
    """Return bounds on the risk of a drawn tree and of ``predict`` from held-out rows.

    For any classification model. The posterior must not depend on these rows, which cannot be checked.

    Parameters
    ----------
    X : table of shape (n, p)
        Held-out rows.
    y : array-like of shape (n,)
        Labels; one that the model does not know counts as an error.
    delta : float, default 0.05
        Probability, over these rows, that one of the bounds fails; in (0, 1).

    Returns
    -------
    HoldoutCertificate

    Raises
    ------
    ValueError
        If an argument is out of range, the model is a regression, or X and y do not fit.

    Notes
    -----
    Binomial tail inversion for ``predict`` (Langford 2005), Chernoff's bound for a drawn tree; half of delta each.
    Cost: that of ``predict_proba``.

    Examples
    --------
    >>> import numpy as np, pactree_mcmc as pt
    >>> x = np.arange(400.0)
    >>> model = pt.TreeModel(x[:200, None] * 2, x[:200] > 75)
    >>> post = pt.sample(model, 200, tune=50, chains=2, rng=1, kernel="grow-prune")
    >>> bool(post.holdout_certificate(x[1::2, None], x[1::2] > 150).vote.value < 0.1)
    True
    """
    delta, classes = check_delta(delta), refuse_regression(post)
    numbers, labels = _read_held_out_rows(post, X, y)
    probability, n = post._rows.values(numbers), len(numbers)
    errors = int(np.sum(labels_differ(predicted_labels(post.model, probability), labels)))
    of_label = (probability * ~labels_differ(labels[:, None], classes[None, :])).sum(axis=1)
    risk = float(np.clip(1.0 - of_label, 0.0, 1.0).mean())
    return HoldoutCertificate(n, errors, delta, holdout_gibbs(risk, n, delta / 2.0), holdout(errors, n, delta / 2.0))


def _read_held_out_rows(post: TreeDistribution, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Check the arguments ``X`` and ``y``, and return the rows as floats (n, p), and the labels (n,) as given."""
    labels, numbers = read_labels(y, X), post.model.columns.numbers(X)
    n = len(numbers)
    if labels.shape != (n,) or n == 0:
        raise ValueError(f"X has {n} rows and y has shape {labels.shape}; give one label a row, at least one.")
    return numbers, labels
