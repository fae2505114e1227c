"""The PAC-Bayes certificate of a posterior, and the conditions for it.

The counted rows are those of S. The prior over classifiers - tree prior, splits, leaf values - must be a function of
the rows of E alone; the posterior may depend on S in any way, also through parameters such as ``lambda1`` chosen on S.

The loss of a tree at a row is one minus the probability its leaf gives to the row's label: 0 or 1 under PacBayesLoss,
the chance of a wrong label drawn from the leaf under FrozenLaplace. Its posterior mean is one minus ``predict_proba``,
so the risk of a drawn tree and the tandem loss are exact from the predictions. ``predict`` errs only where that mean is
at least 1/2, hence all bounds on the vote hold for ``predict``.

The side to which a tree sends a category that no row has depends on the rows of S. The certificate holds nevertheless:
it bounds the loss that counts every such row as an error, which is no smaller, and is the same on the rows of S.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...certificates.bound import Bound, check_delta
from ...certificates.holdout import holdout, holdout_gibbs
from ...certificates.pac_bayes_bounds import pac_bayes_kl, pac_bayes_lambda, vote_cantelli, vote_factor_two, vote_tandem
from ...core.checks import differ, read_labels

if TYPE_CHECKING:
    from ...model import TreeModel
    from ..base import Posterior


@dataclass(frozen=True)
class Certificate:
    """PAC-Bayes bounds on the risks of a posterior, which hold simultaneously with probability 1 - delta.

    Attributes
    ----------
    n : int
        Counted rows.
    delta : float
    risk : float
        Empirical risk of a tree drawn from the posterior.
    tandem_loss : float
        Empirical tandem loss of two independent trees.
    kl : float
        Divergence from the prior, nats.
    gibbs, relaxed : Bound
        Risk of a drawn tree, by the inverse of the divergence and relaxed.
    factor_two, tandem, cantelli : Bound
        Risk of ``predict``.
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
        """The smallest bound on the risk of ``predict``, which is valid since all hold simultaneously."""
        return min((self.factor_two, self.tandem, self.cantelli), key=lambda bound: bound.raw)

    def __str__(self) -> str:
        head = f"{self.n} counted rows, risk {self.risk:.4f}, tandem loss {self.tandem_loss:.4f}, KL {self.kl:.3f} nats"
        bounds = (self.gibbs, self.relaxed, self.factor_two, self.tandem, self.cantelli)
        lines = [f"    {bound.name}: {bound.value:.4f}" for bound in bounds]
        return "\n".join([head, f"all with probability {1.0 - self.delta:g}:", *lines])


class Counted(NamedTuple):
    """The rows of S, merged."""

    X: np.ndarray
    """(u, p) rows as numbers."""
    label: np.ndarray
    """(u,) int64: their classes."""
    rows: np.ndarray
    """(u,) int64: how many rows each stands for."""


class Losses(NamedTuple):
    """Empirical losses of a posterior on the counted rows."""

    n: int
    risk: float
    tandem: float


def certify(post: Posterior, delta: float) -> Certificate:
    """Certificate of a posterior; see `Posterior.certificate`."""
    delta = check_delta(delta)
    refuse_if_seen(post.model)
    n, risk, tandem = losses(post)
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


def losses(post: Posterior) -> Losses:
    """Empirical risk of a drawn tree and tandem loss on the rows of S, exact for the posterior given."""
    counted = counted_rows(post.model)
    given = np.take_along_axis(post._values(counted.X), counted.label[:, None], axis=1)[:, 0]
    loss, n = np.clip(1.0 - given, 0.0, 1.0), int(counted.rows.sum())
    return Losses(n, float(counted.rows @ loss / n), float(counted.rows @ loss**2 / n))


def counted_rows(model: TreeModel) -> Counted:
    """The rows of S, with values that all splits of a box prior answer as those of the rows."""
    units, k = model.units, model.target.n_classes
    chosen = np.flatnonzero(units.label >= k)
    rows = units.rows[chosen & units.rows_all].astype(np.int64)
    return Counted(model.unit_numbers(chosen), units.label[chosen].astype(np.int64) - k, rows)


def refuse_if_seen(model: TreeModel) -> None:
    """Refuse a model whose prior over classifiers may depend on the rows that would be counted.

    Raises
    ------
    ValueError
        With the reason and what to give instead.
    """
    reason = model.certificate_obstacle()
    if reason is not None:
        raise ValueError(f"no certificate: {reason}, or use holdout_certificate on fresh rows.")


@dataclass(frozen=True)
class HoldoutCertificate:
    """Bounds on the risks of a posterior from held-out rows, which hold simultaneously with probability 1 - delta.

    Attributes
    ----------
    n, errors : int
        Rows, and errors of ``predict`` on them.
    delta : float
    gibbs : Bound
        Risk of a tree drawn from the posterior.
    vote : Bound
        Risk of ``predict``.
    """

    n: int
    errors: int
    delta: float
    gibbs: Bound
    vote: Bound

    def __str__(self) -> str:
        return f"{self.n} fresh rows, {self.errors} errors of the vote\n{self.vote}\n{self.gibbs}"


def refuse_regression(post: Posterior) -> np.ndarray:
    """The classes of a classification; a regression is refused."""
    classes = post.model.classes_
    if classes is None:
        raise ValueError(
            f"{type(post.model.leaf).__name__} is a regression; certificates are for losses in [0, 1]: "
            "give a classification model."
        )
    return classes


def certify_holdout(post: Posterior, X: Any, y: Any, delta: float) -> HoldoutCertificate:
    """Certificate of any posterior over classification trees from held-out rows; see
    `Posterior.holdout_certificate`.
    """
    delta, classes = check_delta(delta), refuse_regression(post)
    labels = read_labels(y, X)
    probability = post.predict_proba(X)
    n = len(probability)
    if labels.shape != (n,) or n == 0:
        raise ValueError(f"X has {n} rows and y has shape {labels.shape}; give one label a row, at least one.")
    errors = int(np.sum(differ(classes[np.argmax(probability, axis=1)], labels)))
    given = (probability * ~differ(labels[:, None], classes[None, :])).sum(axis=1)
    risk = float(np.clip(1.0 - given, 0.0, 1.0).mean())
    return HoldoutCertificate(n, errors, delta, holdout_gibbs(risk, n, delta / 2.0), holdout(errors, n, delta / 2.0))
