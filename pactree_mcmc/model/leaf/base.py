"""The base class of leaf models: additive statistics of a cell, a score, predictions."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from ...core.checks import check_number, read_numbers, settle
from .codes import LeafRule
from .target import Target


class Leaf:
    """Base class of leaf models. A subclass needs a score code and an entry in `known` and in the tests' table of
    leaves.
    """

    kind: ClassVar[int]
    is_classifier: ClassVar[bool]
    uses_estimation: ClassVar[bool] = False
    depends_on_n_classes: ClassVar[bool] = True
    """Whether the prediction of a cell depends on the number of classes, including those that none of its rows has."""
    separates: ClassVar[bool] = True
    """Whether the score of a tree is the sum over its leaves; the exact engine needs it."""
    has_likelihood: ClassVar[bool] = True
    needs_variance: ClassVar[bool] = True
    """False if the statistics and defaults hold no squares of y, so that the variance of y may overflow."""
    y_columns: int = 1
    y_names: tuple[str, ...] = ()
    """Names of the columns of y, by which a frame is read."""
    """Number of columns of y, which has shape (n,) if there is one."""
    x_columns: Any = None
    """Names or indices of the columns of X that the leaf uses; None: none."""
    predicts: bool = True
    """Whether it has a `value`."""
    weighs_rows: bool = True
    """True if the `weight` of a cell is the weight of its rows, False if it is that of their exposures."""

    def resolve(self, target: Target) -> Self:
        """Returns the leaf model with every parameter set, from the data where it was not given."""
        return self

    def n_stats(self, target: Target) -> int:
        """Returns the number of statistics of a cell."""
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
        """Returns the score of one cell, nats, without compiled code."""
        raise NotImplementedError

    def log_tree_score(self, stats: np.ndarray, target: Target) -> float:
        """Returns the score, nats, of a tree whose nonempty leaves have ``stats`` (m, n_stats), without compiled
        code.
        """
        return float(sum(self.log_score(cell, target) for cell in stats))

    def order_of_y(self, names: list[str], columns: list[Any]) -> list[int]:
        """Return the places of the columns of y in a frame, found by their names, or all of them as they are."""
        lower = [name.lower() for name in names]
        if self.y_names and set(self.y_names) <= set(lower):
            return [lower.index(name) for name in self.y_names]
        return list(range(len(names)))

    def for_one_tree(self, rng: np.random.Generator) -> Leaf:
        """Returns the leaf model with the parameters common to all leaves of a tree drawn from their prior."""
        return self

    def weight(self, stats: np.ndarray) -> np.ndarray:
        """Weight (m,) of the rows of cells with ``stats`` (m, n_stats); their number where none has a weight."""
        return stats[:, 0]

    def words(self, stats: np.ndarray, target: Target) -> list[str] | None:
        """Return the predictions of cells with ``stats`` (m, n_stats) as text; None if `value` says all of them."""
        return None

    def value(self, stats: np.ndarray, target: Target, *regressors: np.ndarray) -> np.ndarray:
        """Returns the predictions of cells with ``stats`` (m, n_stats): class probabilities (m, K) or means (m, d).

        A leaf with ``x_columns`` also takes the regressors (m, c) of the row that each cell predicts.
        """
        raise NotImplementedError

    def log_density(self, stats: np.ndarray, y: np.ndarray, target: Target, weight: Any = 1.0) -> np.ndarray:
        """Log predictive density (m,) of ``y`` (m,), observed ``weight`` times, in cells with ``stats`` (m, n_stats).

        This is the difference that a row of this weight makes to the score of the cell.
        """
        raise NotImplementedError

    def row_stats(self, target: Target) -> np.ndarray:
        """Returns what each row adds to the statistics of its cell, (n, n_stats)."""
        if not self.is_classifier:
            weight, moments = self.moments(target)
            return np.column_stack([np.ones(len(target.values)) if weight is None else weight, *moments])
        out = np.zeros((len(target.values), self.n_stats(target)))
        out[np.arange(len(out)), self.labels(target)] = target.weights
        return out

    def log_density_left_out(self, others: np.ndarray, node: np.ndarray, target: Target) -> np.ndarray:
        """Returns the log density (n,) of every row given all other rows and the tree.

        This is the difference that the row makes to the score of the tree. ``others`` (n, n_stats) are the statistics
        of a row's leaf without the row, ``node`` (n,) is the number of the leaf.
        """
        return self.log_density(others, target.values, target, target.weights)

    def log_influence(self, others: np.ndarray, node: np.ndarray, target: Target) -> np.ndarray:
        """Return by how much more probable every row (n,) is given all rows and the tree than given all others, nats.

        This is the log of the mean of the row's likelihood times the mean of its reciprocal, both over the posterior of
        the leaf parameters given the tree. ``others`` and ``node`` are as in `log_density_left_out`.
        """
        every = self.log_density(others + self.row_stats(target), target.values, target, target.weights)
        return every - self.log_density_left_out(others, node, target)

    def predictive(self, stats: np.ndarray, tree: np.ndarray, target: Target) -> Any:
        """Distributions of a new y of weight and exposure 1 in the nodes ``stats`` (m, n_stats), parameters integrated
        out.

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

        ``stats`` (m, n_stats) are the statistics of the leaves, zeros for leaves without rows; ``leaf`` (n,) is the
        leaf of each y; ``rows`` (n,) is the training row to which each y belongs, None for new rows.
        """
        raise ValueError(f"{type(self).__name__} is not a model of y; there is nothing to draw.")

    def draw_y(
        self, rng: np.random.Generator, stats: np.ndarray, leaf: np.ndarray, target: Target, rows: np.ndarray
    ) -> np.ndarray:
        """`draw` for training rows, in the columns in which y is given."""
        return self.draw(rng, stats, leaf, target, rows)

    def in_file(self, target: Target) -> Any:
        """Returns the contents of a file about the leaf model."""
        return self

    def rule(self, target: Target) -> LeafRule:
        """The model as compiled code takes it."""
        return LeafRule(self.kind, self.params(target), self.n_stats(target), self.lookup(target))

    def lookup(self, target: Target) -> np.ndarray:
        """Functions (r, m) of the weights 0, ..., m - 1 that the score needs; (1, 1) where none are tabulated."""
        return np.zeros((1, 1))


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
