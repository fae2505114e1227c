"""Successes among trials, with their probability integrated out (formula sheet, section 3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import lgamma
from typing import Any, NamedTuple, Self

import numpy as np

from ...core.compile.address import by_address
from ...core.special import gammaln
from ...files.encoding import kept
from .base import settle_parameters
from .by_address import AddressedLeaf
from .gamma import log_gamma_ratio
from .target import Target


@kept
@dataclass(frozen=True, eq=False)
class BetaBinomial(AddressedLeaf):
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

    def __post_init__(self) -> None:
        settle_parameters(self, "a", "b")

    def resolve(self, target: Target) -> Self:
        successes, trials = target.values.T
        bad = (successes < 0) | (successes > trials) | np.any(target.values != np.floor(target.values), axis=1)
        if np.any(bad):
            row = int(np.argmax(bad))
            raise ValueError(
                f"y is {target.values[row].tolist()} in row {row}; give counts: successes, and at least as many trials."
            )
        return self

    @property
    def score_function(self) -> Callable[..., float]:
        return beta_binomial_score

    def score_params(self, target: Target) -> np.ndarray:
        return np.array([self.a, self.b])

    def statistics(self, y: np.ndarray, regressors: np.ndarray | None) -> np.ndarray:
        successes, trials = y.T
        failures = trials - successes
        return np.column_stack(
            [successes, failures, gammaln(trials + 1.0) - gammaln(successes + 1.0) - gammaln(failures + 1.0)]
        )

    def plain_score(self, sums: np.ndarray, target: Target) -> float:
        each = log_gamma_ratio(np.array([self.a, self.b]), sums[:2])
        return float(sums[2] + each.sum() - log_gamma_ratio(np.float64(self.a + self.b), sums[:2].sum()))

    def predictive(self, stats: np.ndarray, tree: np.ndarray, target: Target) -> Trial:
        successes, failures = self.a + stats[:, 1], self.b + stats[:, 2]
        return Trial(successes / (successes + failures))

    def value(self, stats: np.ndarray, target: Target, *regressors: np.ndarray) -> np.ndarray:
        return self.predictive(stats, np.empty(0), target).chance[:, None]

    def draw(
        self,
        rng: np.random.Generator,
        stats: np.ndarray,
        leaf: np.ndarray,
        target: Target,
        rows: np.ndarray | None = None,
        *regressors: np.ndarray,
    ) -> np.ndarray:
        chance = rng.beta(self.a + stats[:, 1], self.b + stats[:, 2])
        trials = np.ones(len(leaf)) if rows is None else target.values[rows, 1]
        return rng.binomial(trials.astype(np.int64), chance[leaf]).astype(np.float64)

    def draw_y(
        self, rng: np.random.Generator, stats: np.ndarray, leaf: np.ndarray, target: Target, rows: np.ndarray
    ) -> np.ndarray:
        return np.column_stack([self.draw(rng, stats, leaf, target, rows), target.values[rows, 1]])


@by_address
def beta_binomial_score(s: Any, n: int, params: Any) -> float:
    """Compiled score. ``s``: successes, failures, sum of the log binomial coefficients; ``params``: a, b."""
    a, b = params[0], params[1]
    each = lgamma(a + s[0]) - lgamma(a) + lgamma(b + s[1]) - lgamma(b)
    return s[2] + each - (lgamma(a + b + s[0] + s[1]) - lgamma(a + b))


class Trial(NamedTuple):
    """Single trials, one distribution for each place."""

    chance: np.ndarray
    is_whole = True

    def take(self, place: np.ndarray) -> Self:
        """Return the distributions of some places."""
        return type(self)(self.chance[place])

    def mean_and_variance(self) -> tuple[np.ndarray, np.ndarray]:
        """Return means and variances."""
        return self.chance, self.chance * (1.0 - self.chance)

    def below(self, y: np.ndarray) -> np.ndarray:
        """Return the probability of at most y."""
        return 1.0 - self.above(y)

    def above(self, y: np.ndarray) -> np.ndarray:
        """Return the probability of more than y."""
        return np.where(y < 0.0, 1.0, np.where(y < 1.0, self.chance, 0.0))

    def bracket(self, q: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the two values that y takes."""
        return np.zeros_like(self.chance), np.ones_like(self.chance)
