"""Ordered classes: a probability to stop at each class, given that it is reached (formula sheet, section 3)."""

from __future__ import annotations

from dataclasses import dataclass
from math import lgamma
from typing import Any, Self

import numpy as np
from numpy.random import Generator

from ...core.checks import in_words, read_array, settle
from ...core.compile.address import by_address
from ...files.encoding import kept
from . import codes
from .base import Draws, Leaf
from .classes import ClassLeaf
from .gamma import log_gamma_ratio
from .target import Target


@by_address
def ordered_score(s: Any, n: int, params: Any) -> float:
    """Return the score. ``s``: weights by class; ``params``: strength, then the classes in order, by number."""
    strength, rest, score = params[0], 0.0, 0.0
    for j in range(n):
        rest += s[j]
    for j in range(n - 1):
        stopped = s[int(params[1 + j])]
        rest -= stopped
        if rest < 0.0:
            rest = 0.0
        a = strength / (n - j)
        b = strength - a
        score += lgamma(a + stopped) - lgamma(a) + lgamma(b + rest) - lgamma(b)
        score -= lgamma(strength + stopped + rest) - lgamma(strength)
    return score


@kept
@dataclass(frozen=True, eq=False)
class OrderedClasses(ClassLeaf):
    """Ordered classes, such as grades: continuation ratios with beta priors, integrated out.

    In each leaf a row goes through the classes in their order and stops at class j, given that it comes so far, with
    probability ``v_j ~ Beta(s / (K - j), s - s / (K - j))`` for j = 0, ..., K - 2. The prior mean of each class is
    1 / K. With ``n_j`` rows in class j and ``m_j`` in later ones, the posterior of ``v_j`` is beta again, and

    ``score = sum over j < K - 1 of log B(a_j + n_j, b_j + m_j) - log B(a_j, b_j)``.

    The class probabilities have the generalised Dirichlet distribution of Connor and Mosimann (Wong 1998), of which the
    Dirichlet distribution is the case ``b_j = a_(j+1) + b_(j+1)``. So two neighbouring classes may be mixed in a leaf
    while the others are certain, which a Dirichlet distribution cannot say.

    Posteriors predict the median class: the first one in order at or below which y is with probability 1/2 or more.

    Parameters
    ----------
    order : sequence of labels, optional
        All classes of y, the lowest first. Default: sorted, which for text is the order of the alphabet.
    strength : float, default 2.0
        Prior counts s of each step, > 0; 2 is a uniform prior if there are two classes.

    Raises
    ------
    ValueError
        If ``strength`` is not positive, or ``order`` does not have each class of y exactly once.

    Notes
    -----
    Class probabilities are products of beta variables, so their credible intervals are those of 2,000 draws. The
    columns of `predict_proba` are sorted as in ``model.classes_``, whatever the order.

    References
    ----------
    Connor and Mosimann (1969), Concepts of independence for proportions with a generalization of the Dirichlet
    distribution, JASA 64. Wong (1998), Generalized Dirichlet distribution in Bayesian analysis, Applied Mathematics and
    Computation 97. Agresti (2010), Analysis of Ordinal Categorical Data, section 4.2.

    Examples
    --------
    >>> import numpy as np, pactree_mcmc as pt
    >>> y = np.array(["low", "mid", "high"])[np.arange(30) // 10]
    >>> model = pt.TreeModel(np.arange(30.0)[:, None], y, leaf=pt.OrderedClasses(["low", "mid", "high"]))
    >>> post = pt.sample(model, 200, tune=100, chains=2, rng=1, kernel="grow-prune")
    >>> post.predict([[3.0], [15.0], [27.0]]).tolist()
    ['low', 'mid', 'high']
    """

    order: Any = None
    strength: float = 2.0
    kind = codes.BY_ADDRESS
    positive = ("strength",)
    has_closed_expectation = False
    compiled_score = staticmethod(ordered_score)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.order is not None:
            labels = read_array("order", self.order).tolist()
            if not isinstance(labels, list) or len(set(labels)) < len(labels):
                raise ValueError(f"order={in_words(self.order)}; give all classes in their order, each once.")
            settle(self, "order", tuple(labels))

    def resolve(self, target: Target) -> Self:
        known = target.classes.tolist() if target.classes is not None else []
        if self.order is not None and (len(self.order) != len(known) or set(self.order) != set(known)):
            raise ValueError(f"order={in_words(self.order)}, but y has the classes {in_words(known)}; give each once.")
        return self.with_defaults(order=tuple(known))

    def places(self, target: Target) -> np.ndarray:
        """Return the numbers (K,) of the classes in their order."""
        place = {label: j for j, label in enumerate(target.classes.tolist())}
        return np.array([place[label] for label in self.order], dtype=np.int64)

    def _steps(self, stats: np.ndarray, target: Target) -> tuple[np.ndarray, np.ndarray]:
        """Return the two parameters (m, K - 1) of the beta posterior of each step."""
        counts = stats[:, self.places(target)]
        n = counts.shape[1]
        a = self.strength / (n - np.arange(n - 1))
        later = np.cumsum(counts[:, ::-1], axis=1)[:, ::-1][:, 1:]
        return a + counts[:, :-1], self.strength - a + later

    def _probabilities(self, steps: np.ndarray, target: Target) -> np.ndarray:
        """Return class probabilities (m, K), sorted as the classes, given probabilities (m, K - 1) to stop."""
        ones = np.ones((len(steps), 1))
        in_order = np.hstack([steps, ones]) * np.hstack([ones, np.cumprod(1.0 - steps, axis=1)])
        out = np.empty_like(in_order)
        out[:, self.places(target)] = in_order
        return out

    def score_params(self, target: Target) -> np.ndarray:
        return np.array([self.strength, *self.places(target)])

    def plain_score(self, sums: np.ndarray, target: Target) -> float:
        a, b = (part[0] for part in self._steps(sums[None], target))
        a0, b0 = (part[0] for part in self._steps(np.zeros((1, len(sums))), target))
        each = log_gamma_ratio(a0, a - a0) + log_gamma_ratio(b0, b - b0) - log_gamma_ratio(a0 + b0, a + b - a0 - b0)
        return float(each.sum())

    def value(self, stats: np.ndarray, target: Target) -> np.ndarray:
        a, b = self._steps(stats, target)
        return self._probabilities(a / (a + b), target)

    def log_density(self, stats: np.ndarray, y: np.ndarray, target: Target, weight: Any = 1.0) -> np.ndarray:
        return Leaf.log_density(self, stats, y, target, weight)

    def draw_parameters(self, rng: Generator, stats: np.ndarray, target: Target) -> Draws:
        return (self._probabilities(rng.beta(*self._steps(stats, target)), target),)

    def choose(self, probabilities: np.ndarray, target: Target) -> np.ndarray:
        # rounding leaves a sum of one half below it
        places = self.places(target)
        at_most = np.cumsum(probabilities[:, places], axis=1)
        return places[np.argmax(at_most >= 0.5 - 1e-12, axis=1)]
