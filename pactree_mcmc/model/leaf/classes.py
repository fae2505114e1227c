"""Leaf models: the score of a cell and what it predicts, from additive statistics (formula sheet, section 3).

Those of classes stand here, those of numbers in `numbers`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from ...core.checks import check_number, read_numbers, settle
from ...files.encoding import kept
from . import compiled as codes
from .compiled import LeafRule
from .gamma import log_gamma_ratio, log_shares, stirling_rest

MOST_LOOKED_UP = 4_000_000
"""Entries a table of functions of the weight may have."""


@kept
class Target(NamedTuple):
    """The checked y, as leaf models take it."""

    values: np.ndarray
    """(n,): class numbers int32, or y float64."""
    classes: np.ndarray | None
    """(K,) sorted labels; None for a regression."""
    weight: np.ndarray | None
    """(n,) float64 sample weights; None: all one."""
    estimation: np.ndarray | None
    """(n,) bool, True for the rows of E; None: no such split."""
    center: float
    """Weighted mean of y, subtracted before moments are summed; 0 for classes."""
    variance: float
    """Weighted variance of y; 1 where it is zero or y is a class."""

    @property
    def n_classes(self) -> int:
        """Number of classes; 0 for a regression."""
        return 0 if self.classes is None else len(self.classes)

    def whole_weights(self, n_functions: int) -> np.ndarray | None:
        """0, 1, ... up to the sum of the weights; None if they are no whole numbers, or too many to tabulate."""
        weight = self.weights
        if np.any(weight != np.floor(weight)) or (weight.sum() + 1.0) * n_functions > MOST_LOOKED_UP:
            return None
        return np.arange(weight.sum() + 1.0)

    @property
    def weights(self) -> np.ndarray:
        """Sample weights (n,), ones when none were given."""
        return np.ones(len(self.values)) if self.weight is None else self.weight


class Leaf:
    """A leaf model: subclass it, give it a score code, and list it in `known` and in the tests' table of leaves."""

    kind: ClassVar[int]
    is_classifier: ClassVar[bool]
    uses_estimation: ClassVar[bool] = False
    depends_on_n_classes: ClassVar[bool] = True
    """Whether a class that no row of a cell has changes what the cell predicts."""
    separates: ClassVar[bool] = True
    """Whether the score of a tree is the sum over its leaves; the exact engine needs it."""
    has_likelihood: ClassVar[bool] = True

    def resolve(self, target: Target) -> Self:
        """The model with every parameter set, those left out from the data."""
        return self

    def n_stats(self, target: Target) -> int:
        """How many numbers describe a cell."""
        return 3

    def labels(self, target: Target) -> np.ndarray:
        """Which statistic each row adds its weight to, (n,) int32, when the statistics are counts."""
        raise NotImplementedError

    def moments(self, target: Target) -> tuple[np.ndarray | None, np.ndarray]:
        """Weight (n,) of each row, None when all are 1, and its two moments (2, n), when they are not counts."""
        raise NotImplementedError

    def params(self, target: Target) -> np.ndarray:
        """Parameters in the layout of the compiled score."""
        raise NotImplementedError

    def log_score(self, stats: np.ndarray, target: Target) -> float:
        """Score in nats of one cell, plainly."""
        raise NotImplementedError

    def log_tree_score(self, stats: np.ndarray, target: Target) -> float:
        """Score in nats of a tree whose leaves that hold rows have ``stats`` (m, n_stats), plainly."""
        return float(sum(self.log_score(cell, target) for cell in stats))

    def for_one_tree(self, rng: np.random.Generator) -> Leaf:
        """The model with what all leaves of a tree share drawn from its prior."""
        return self

    def weight(self, stats: np.ndarray) -> np.ndarray:
        """Weight (m,) of the rows of cells with ``stats`` (m, n_stats); their number where none has a weight."""
        return stats[:, 0]

    def value(self, stats: np.ndarray, target: Target) -> np.ndarray:
        """What cells with ``stats`` (m, n_stats) predict: class probabilities (m, K), or means (m, 1)."""
        raise NotImplementedError

    def log_density(self, stats: np.ndarray, y: np.ndarray, target: Target, weight: Any = 1.0) -> np.ndarray:
        """Log predictive density (m,) of ``y`` (m,), observed ``weight`` times, in cells with ``stats`` (m, n_stats).

        That is, what the score of a cell gains by a row of this weight.
        """
        raise NotImplementedError

    def row_stats(self, target: Target) -> np.ndarray:
        """What each row adds to the statistics of its cell, (n, n_stats)."""
        if not self.is_classifier:
            weight, moments = self.moments(target)
            return np.column_stack([np.ones(len(target.values)) if weight is None else weight, *moments])
        out = np.zeros((len(target.values), self.n_stats(target)))
        out[np.arange(len(out)), self.labels(target)] = target.weights
        return out

    def log_density_left_out(self, others: np.ndarray, node: np.ndarray, target: Target) -> np.ndarray:
        """Log density (n,) of every row given all other rows and the tree: what the score of the tree gains by it.

        ``others`` (n, n_stats) the statistics of a row's leaf without the row, ``node`` (n,) the number of the leaf.
        """
        return self.log_density(others, target.values, target, target.weights)

    def predictive(self, stats: np.ndarray, tree: np.ndarray, target: Target) -> Any:
        """Laws of a new y of weight and exposure 1 in the nodes ``stats`` (m, n_stats), parameters integrated out.

        ``tree`` (m,) is the number of the tree that a node is a leaf of, -1 inside. Class leaves have `value`.
        """
        raise NotImplementedError

    def draw(
        self,
        rng: np.random.Generator,
        stats: np.ndarray,
        leaf: np.ndarray,
        target: Target,
        rows: np.ndarray | None = None,
    ) -> np.ndarray:
        """New y (n,) in leaves of one tree: the parameters of each given its rows, then the data given these.

        ``stats`` (m, n_stats) the statistics of the leaves, of zeros where they know nothing but their prior; ``leaf``
        (n,) the leaf that each y falls in; ``rows`` (n,) the training row whose y it is, None for new rows.
        """
        raise ValueError(f"{type(self).__name__} is not a model of y; there is nothing to draw.")

    def rule(self, target: Target) -> LeafRule:
        """The model as compiled code takes it."""
        return LeafRule(self.kind, self.params(target), self.n_stats(target), self.lookup(target))

    def lookup(self, target: Target) -> np.ndarray:
        """Functions (r, m) of the weights 0, ..., m - 1 that the score needs; (1, 1) where none are tabulated."""
        return np.zeros((1, 1))


class _ClassLeaf(Leaf):
    is_classifier = True

    def n_stats(self, target: Target) -> int:
        return target.n_classes * (2 if self.splits_sample(target) else 1)

    def weight(self, stats: np.ndarray) -> np.ndarray:
        return stats.sum(axis=1)

    def splits_sample(self, target: Target) -> bool:
        """Whether the statistics keep E and S apart."""
        return self.uses_estimation and target.estimation is not None

    def labels(self, target: Target) -> np.ndarray:
        if not self.splits_sample(target):
            return target.values
        return target.values + target.n_classes * ~target.estimation

    def log_density(self, stats: np.ndarray, y: np.ndarray, target: Target, weight: Any = 1.0) -> np.ndarray:
        return weight * np.log(np.take_along_axis(self.value(stats, target), y[:, None], axis=1)[:, 0])

    @staticmethod
    def labelled(rng: np.random.Generator, probability: np.ndarray, leaf: np.ndarray) -> np.ndarray:
        """Class numbers (n,) drawn with the probabilities (m, K) of their ``leaf`` (n,)."""
        at_most = probability.cumsum(axis=1)
        at_most, chance = (at_most / at_most[:, -1:])[:, :-1], rng.random(len(leaf))
        out = np.zeros(len(leaf), dtype=np.int64)
        for of_class in at_most.T:
            out += chance >= of_class[leaf]
        return out


@kept
@dataclass(frozen=True, eq=False)
class DirichletMultinomial(_ClassLeaf):
    """Classes with a Dirichlet prior on their probabilities, integrated out (Chipman et al. 1998).

    Predicts ``(n_i + alpha) / (n + K alpha)``.

    Parameters
    ----------
    alpha : float or array of shape (K,), default 1.0
        Prior counts, > 0; an array follows the sorted classes.

    Raises
    ------
    ValueError
        If an entry is not positive and finite, or their number is not K.

    Examples
    --------
    >>> DirichletMultinomial(2.5)
    DirichletMultinomial(alpha=2.5)
    """

    alpha: Any = 1.0
    kind = codes.DIRICHLET

    def __post_init__(self) -> None:
        check_positive("alpha", self.alpha, entries=True)

    def resolve(self, target: Target) -> Self:
        if np.ndim(self.alpha) and np.shape(self.alpha) != (target.n_classes,):
            raise ValueError(
                f"alpha has shape {np.shape(self.alpha)}; y has {target.n_classes} classes: one entry each."
            )
        return self

    def _alpha(self, target: Target) -> np.ndarray:
        return np.broadcast_to(np.asarray(self.alpha, dtype=np.float64), target.n_classes)

    def params(self, target: Target) -> np.ndarray:
        alpha = self._alpha(target)
        return np.concatenate([[alpha.sum(), stirling_rest(alpha.sum())], alpha, stirling_rest(alpha)])

    def lookup(self, target: Target) -> np.ndarray:
        alpha = self._alpha(target)
        n = target.whole_weights(len(alpha) + 1)
        if n is None:
            return super().lookup(target)
        # what is linear in n cancels between classes and total; without it the entries are small, so their errors are
        x = np.append(alpha, alpha.sum())[:, None]
        rest = stirling_rest(x + n) - stirling_rest(x)
        return (x - 0.5) * np.log1p(n / x) + n * np.log((x + n) / (n[-1] + alpha.sum())) + rest

    def log_score(self, stats: np.ndarray, target: Target) -> float:
        alpha = self._alpha(target)
        total = alpha.sum()
        each = (alpha - 0.5) * np.log1p(stats / alpha) + stirling_rest(alpha + stats) - stirling_rest(alpha)
        rest = stirling_rest(total + stats.sum()) - stirling_rest(total)
        whole = (total - 0.5) * np.log1p(stats.sum() / total) + rest
        return float((stats * log_shares(alpha + stats) + each).sum() - whole)

    def value(self, stats: np.ndarray, target: Target) -> np.ndarray:
        counts = stats + self._alpha(target)
        return counts / counts.sum(axis=1, keepdims=True)

    def log_density(self, stats: np.ndarray, y: np.ndarray, target: Target, weight: Any = 1.0) -> np.ndarray:
        weight = np.broadcast_to(weight, len(y))
        once = super().log_density(stats, y, target)
        counts = stats + self._alpha(target)
        of_class = log_gamma_ratio(np.take_along_axis(counts, y[:, None], axis=1)[:, 0], weight)
        return np.where(weight == 1.0, once, of_class - log_gamma_ratio(counts.sum(axis=1), weight))

    def draw(
        self,
        rng: np.random.Generator,
        stats: np.ndarray,
        leaf: np.ndarray,
        target: Target,
        rows: np.ndarray | None = None,
    ) -> np.ndarray:
        alpha = self._alpha(target)
        return self.labelled(rng, np.array([rng.dirichlet(counts + alpha) for counts in stats]), leaf)


@kept
@dataclass(frozen=True, eq=False)
class FrozenLaplace(_ClassLeaf):
    """Class probabilities frozen on the estimation rows E, scored on the rest S (Blanchard 1999, section 3).

    Predicts ``(n_i + a) / (n + K a)`` with the counts of E. Needs ``estimation=`` in the model.

    Parameters
    ----------
    pseudocount : float, default 1.0
        The a above, > 0.

    Raises
    ------
    ValueError
        If the pseudocount is not positive and finite.

    Examples
    --------
    >>> FrozenLaplace()
    FrozenLaplace(pseudocount=1.0)
    """

    pseudocount: float = 1.0
    kind = codes.LAPLACE
    uses_estimation = True

    def __post_init__(self) -> None:
        check_positive("pseudocount", self.pseudocount)
        settle_parameters(self, "pseudocount")

    def resolve(self, target: Target) -> Self:
        if target.estimation is None:
            raise ValueError("FrozenLaplace needs estimation=: a boolean mask (n,) of the rows that freeze the leaves.")
        if not target.estimation.any():
            raise ValueError(
                "the estimation mask selects no row; FrozenLaplace would learn nothing: mark some as True."
            )
        return self

    def params(self, target: Target) -> np.ndarray:
        return np.array([float(self.pseudocount)])

    def log_score(self, stats: np.ndarray, target: Target) -> float:
        tested = stats[target.n_classes :]
        return float((tested * log_shares(stats[: target.n_classes] + self.pseudocount)).sum())

    def value(self, stats: np.ndarray, target: Target) -> np.ndarray:
        counts = stats[:, : target.n_classes] + self.pseudocount
        return counts / counts.sum(axis=1, keepdims=True)

    def draw(
        self,
        rng: np.random.Generator,
        stats: np.ndarray,
        leaf: np.ndarray,
        target: Target,
        rows: np.ndarray | None = None,
    ) -> np.ndarray:
        return self.labelled(rng, self.value(stats, target), leaf)


@kept
@dataclass(frozen=True, eq=False)
class PacBayesLoss(_ClassLeaf):
    """Gibbs score ``-lambda1 * errors - lambda2 * sqrt(n)`` of a fixed label (Nguyen and Kpotufe 2018).

    The label of a cell is the majority of its rows (of its rows in E when ``estimation=`` is given; errors and n are
    then those of S); ties and empty cells take the smallest class. Predicts the label, so averages are votes.

    Parameters
    ----------
    lambda1 : float
        Price of an error in nats, >= 0.
    lambda2 : float, default 0.0
        Price of the square root of a cell's size, >= 0.

    Raises
    ------
    ValueError
        If a price is negative or not finite.

    Examples
    --------
    >>> PacBayesLoss(1.0)
    PacBayesLoss(lambda1=1.0, lambda2=0.0)
    """

    lambda1: float
    lambda2: float = 0.0
    kind = codes.LOSS
    uses_estimation = True
    depends_on_n_classes = False
    has_likelihood = False

    def __post_init__(self) -> None:
        for name in ("lambda1", "lambda2"):
            settle(self, name, check_number(name, getattr(self, name), "a finite price >= 0", 0.0))

    def resolve(self, target: Target) -> Self:
        if target.estimation is not None and not target.estimation.any():
            raise ValueError(
                "the estimation mask selects no row; PacBayesLoss would have no labels: mark some as True."
            )
        return self

    def params(self, target: Target) -> np.ndarray:
        return np.array([self.lambda1, self.lambda2, target.n_classes], dtype=np.float64)

    def log_score(self, stats: np.ndarray, target: Target) -> float:
        label = int(np.argmax(stats[: target.n_classes]))
        counted = stats[-target.n_classes :]
        return float(-self.lambda1 * np.delete(counted, label).sum() - self.lambda2 * np.sqrt(counted.sum()))

    def value(self, stats: np.ndarray, target: Target) -> np.ndarray:
        return np.eye(target.n_classes)[np.argmax(stats[:, : target.n_classes], axis=1)]

    def log_density(self, stats: np.ndarray, y: np.ndarray, target: Target, weight: Any = 1.0) -> np.ndarray:
        raise ValueError("PacBayesLoss is a loss, not a likelihood; there is no log_likelihood.")


def check_positive(name: str, value: Any, *, entries: bool = False) -> None:
    """Refuse a parameter that is not positive and finite; it may be an array when it has ``entries``."""
    array = read_numbers(name, value)
    if array.ndim > entries:
        raise ValueError(f"{name} has shape {array.shape}; give one number{' or a row of them' * entries}.")
    if array.size == 0:
        raise ValueError(f"{name} is empty; give finite {name} > 0.")
    bad = ~((array > 0.0) & np.isfinite(array))
    if bad.any():
        raise ValueError(
            f"{name}={np.atleast_1d(array)[np.atleast_1d(bad)][0]} is out of range; give finite {name} > 0."
        )


def check_finite(name: str, value: float | None) -> None:
    """Refuse a parameter that is given but not finite."""
    if value is not None:
        check_number(name, value, "a finite number")


def settle_parameters(leaf: Leaf, *names: str) -> None:
    """Refuse those that are given and not positive; those given become floats."""
    for name in names:
        if getattr(leaf, name) is not None:
            check_positive(name, getattr(leaf, name))
            settle(leaf, name, float(getattr(leaf, name)))
