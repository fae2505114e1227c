"""Successes among trials, with their probability integrated out (formulas, section 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import lgamma
from typing import Any, Self

import numpy as np
from numpy.random import Generator

from ...core.compile.address import by_address
from ...core.special import gammaln
from ...files.encoding import kept
from .base import Draws, Leaf, refuse_rows
from .distributions import Distributions
from .gamma import log_gamma_ratio
from .target import Target


@by_address
def beta_binomial_score(s: Any, n: int, params: Any) -> float:
    """Return the score. ``s``: successes, failures, sum of the log binomial coefficients; ``params``: a, b."""
    a, b = params[0], params[1]
    each = lgamma(a + s[0]) - lgamma(a) + lgamma(b + s[1]) - lgamma(b)
    return s[2] + each - (lgamma(a + b + s[0] + s[1]) - lgamma(a + b))


@kept
@dataclass(frozen=True, eq=False)
class BetaBinomial(Leaf):
    """Successes among trials, with their probability ``p ~ Beta(a, b)`` integrated out.

    y has two columns, (n, 2): successes, and trials. With S successes and F failures in a cell, and ``c`` the sum of
    the logs of the binomial coefficients (Gelman et al. 2013, section 2.4)

    ``score = c + log B(a + S, b + F) - log B(a, b)``, B the beta function.

    Predicts the probability of a success. `sample_predictive` draws single trials, 0 or 1.

    Parameters
    ----------
    a, b : float, default 1.0
        Parameters of the beta prior, > 0: prior counts of successes and failures.

    Raises
    ------
    ValueError
        If a parameter is out of range, or y does not consist of counts with at most as many successes as trials.

    Examples
    --------
    >>> import pactree_mcmc as pt
    >>> leaf = pt.BetaBinomial(a=1.0, b=1.0)
    >>> model = pt.TreeModel([[0.0], [1.0]], [[3, 10], [9, 10]], leaf=leaf)
    >>> round(model.log_score(pt.Tree([-1], [0], [0], [0])), 4)
    -7.6982
    """

    a: float = 1.0
    b: float = 1.0
    y_columns = 2
    y_names = ("successes", "trials")
    positive = score_parameters = ("a", "b")
    compiled_score = staticmethod(beta_binomial_score)

    def resolve(self, target: Target) -> Self:
        successes, trials = target.values.T
        bad = (successes < 0) | (successes > trials) | np.any(target.values != np.floor(target.values), axis=1)
        refuse_rows(bad, "y", target.values, "give counts: successes, and at least as many trials.")
        return self

    def statistics(self, y: np.ndarray, target: Target) -> Sequence[np.ndarray]:
        successes, trials = y.T
        failures = trials - successes
        return successes, failures, gammaln(trials + 1.0) - gammaln(successes + 1.0) - gammaln(failures + 1.0)

    def plain_score(self, sums: np.ndarray, target: Target) -> float:
        each = log_gamma_ratio(np.array([self.a, self.b]), sums[:2])
        return float(sums[2] + each.sum() - log_gamma_ratio(np.float64(self.a + self.b), sums[:2].sum()))

    def value(self, stats: np.ndarray, target: Target) -> np.ndarray:
        successes, failures = self.a + stats[:, 1], self.b + stats[:, 2]
        return (successes / (successes + failures))[:, None]

    def predictive(self, stats: np.ndarray, tree: np.ndarray, target: Target) -> Distributions:
        return Distributions("bernoulli", self.value(stats, target)[:, 0], is_whole=True)

    def expectation(self, stats: np.ndarray, tree: np.ndarray, target: Target) -> list[Distributions]:
        return [Distributions("beta", self.a + stats[:, 1], self.b + stats[:, 2])]

    def draw_parameters(self, rng: Generator, stats: np.ndarray, target: Target) -> Draws:
        return (rng.beta(self.a + stats[:, 1], self.b + stats[:, 2]),)

    def draw_given(self, rng: Generator, parameters: Draws, target: Target, rows: Any, *regressors: Any) -> np.ndarray:
        trials = np.ones(len(parameters[0])) if rows is None else target.values[rows, 1]
        return rng.binomial(trials.astype(np.int64), parameters[0]).astype(np.float64)

    def draw_y(self, rng: Generator, stats: np.ndarray, leaf: np.ndarray, target: Target, rows: Any) -> np.ndarray:
        return np.column_stack([self.draw(rng, stats, leaf, target, rows), target.values[rows, 1]])
