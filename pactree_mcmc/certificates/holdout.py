"""Bounds from rows that had no part in the posterior: nothing is chosen by them, so nothing but their number counts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.checks import check_count, check_type, differ, read_labels
from ..posterior.sampled import Posterior
from .bound import Bound, check_delta, check_share
from .inversions import binomial_tail_inversion, kl_inverse


@dataclass(frozen=True)
class HoldoutCertificate:
    """Bounds on the risks of a posterior from rows it never saw; both hold at once with probability 1 - delta.

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


def holdout(errors: int, n: int, delta: float = 0.05) -> Bound:
    """Risk of a fixed classifier from its errors on ``n`` fresh rows, by the binomial tail inversion.

    Raises
    ------
    ValueError
        Unless ``0 <= errors <= n`` are integers and ``0 < delta < 1``.

    Notes
    -----
    Langford (2005); the upper end of Clopper and Pearson's interval.

    Examples
    --------
    >>> round(holdout(5, 200).value, 4)
    0.0518
    """
    delta = check_delta(delta)
    raw = binomial_tail_inversion(errors, n, math.log(delta))
    return Bound("hold-out, binomial tail", raw, delta, {"empirical risk": errors / n, "errors": errors, "n": n})


def holdout_gibbs(risk: float, n: int, delta: float = 0.05) -> Bound:
    """Mean of losses in [0, 1] from that of ``n`` fresh rows: ``kl(risk || R) <= ln(1/delta) / n``.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Notes
    -----
    Chernoff's bound in Hoeffding's form (1963).

    Examples
    --------
    >>> round(holdout_gibbs(0.025, 200).value, 4)
    0.0619
    """
    delta, risk, n = check_delta(delta), check_share("risk", risk), check_count("n", n, 1)
    complexity = math.log(1.0 / delta) / n
    return Bound(
        "hold-out, Chernoff",
        kl_inverse(risk, complexity),
        delta,
        {"empirical risk": risk, "ln(1/delta) / n": complexity},
    )


def certify_holdout(post: Posterior, X: Any, y: Any, delta: float) -> HoldoutCertificate:
    """Certificate of any posterior over classification trees from fresh rows; see `Posterior.holdout_certificate`."""
    check_type("post", post, Posterior, "a posterior over trees")
    delta = check_delta(delta)
    classes = post.model.classes_
    if classes is None:
        raise ValueError(
            f"{type(post.model.leaf).__name__} is a regression; certificates are for losses in [0, 1]: "
            "give a classification model."
        )
    labels = read_labels(y)
    probability = post.predict_proba(X)
    n = len(probability)
    if labels.shape != (n,) or n == 0:
        raise ValueError(f"X has {n} rows and y has shape {labels.shape}; give one label a row, at least one.")
    errors = int(np.sum(differ(classes[np.argmax(probability, axis=1)], labels)))
    given = (probability * ~differ(labels[:, None], classes[None, :])).sum(axis=1)
    risk = float(np.clip(1.0 - given, 0.0, 1.0).mean())
    return HoldoutCertificate(n, errors, delta, holdout_gibbs(risk, n, delta / 2.0), holdout(errors, n, delta / 2.0))
