"""The base class of leaf models, the checked y, and the codes of scores by which compiled code finds them.

A leaf model is a declaration of four things:

- the *statistics*: the numbers that each row adds to the sums of its cell (`Leaf.statistics`);
- the *score*, a function of these sums, in plain Python (`Leaf.plain_score`) and compiled (`Leaf.compiled_score`);
- the *distribution* of a new y given the sums (`Leaf.predictive`), and its mean (`Leaf.value`);
- *draws*: of the parameters given the sums (`Leaf.draw_parameters`), and of y given the parameters
  (`Leaf.draw_given`).

This class derives everything else from them. `positive.py` contains leaves to copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.random import Generator

from ...core.checks import MAX_EXACT_INTEGER, check_number, read_numbers, set_field
from ...core.compile.address import address_of, call_at, call_at_with_params
from ...core.compile.jit import jit
from ...core.texts import fields_repr
from ...files.encoding import register_class
from .distributions import Distributions

# size of a difference, as a fraction of its terms, up to which the difference is rounding error
ROUNDING_FRACTION = 2.0**-48
# codes of leaf scores: class counts, Laplace on E, mean and variance unknown, variance known, counts, loss, variance
# shared by the leaves, and a function called by its address
DIRICHLET, LAPLACE, NORMAL, KNOWN_NORMAL, POISSON, LOSS, SHARED_NORMAL, BY_ADDRESS = range(8)


class LeafRule(NamedTuple):
    """Parameters of a leaf model in the form that compiled code uses."""

    kind: int  # one of the codes of this module
    params: np.ndarray  # float64, in the layout of the score function of the kind
    n_stats: int  # number of statistics of a cell
    # (r, m) float64: r functions of 0, ..., m - 1, tables for a score with integer weights; (1, 1) if unused
    lookup: np.ndarray

    @property
    def is_fixed(self) -> bool:
        """True if the parameters do not change during a run; False if the shared variance is drawn with the trees."""
        return self.kind != SHARED_NORMAL


@jit
def addressed_score(params: np.ndarray, stats: np.ndarray, row: int) -> float:
    """Return the score in nats of the cell `stats[row]` by the function at an address; 0 if the cell has no weight."""
    # `params`: the address, the index of the first statistic that the function reads (1 after the weight of the cell, 0
    # if all statistics are weights), 1 if it has parameters, the parameters
    first, weight = np.int64(params[1]), stats[row, 0]
    if first == 0:
        for j in range(1, stats.shape[1]):
            weight += stats[row, j]
    if weight <= 0.0:
        return 0.0
    address, n = np.int64(params[0]), stats.shape[1] - first
    if params[2] > 0.0:
        return call_at_with_params(address, stats, row, first, n, params, np.int64(3))
    return call_at(address, stats, row, first, n)


@jit
def add_addressed_scores_into(out: np.ndarray, params: np.ndarray, stats: np.ndarray, n: int) -> None:
    """Add the score by the function whose address is ``params[0]`` of the first ``n`` cells to `out` (at least n,)."""
    for row in range(n):
        out[row] += addressed_score(params, stats, row)


MAX_TABLE_ENTRIES = 4_000_000  # largest number of entries of a table of functions of the weight of a cell
MIN_VARIANCE = 1e-290  # smallest variance of y whose fractions float64 represents accurately


def check_variance(variance: float) -> float:
    """Return the variance of y. Raise a ValueError if it is so small that a prior set from it would be inaccurate."""
    if variance < MIN_VARIANCE:
        raise ValueError(f"y is too small: its variance is {variance:.1g}; rescale y.")
    return variance


@register_class
class Target(NamedTuple):
    """Checked y, weights and other data of the rows, as leaf models use them."""

    values: np.ndarray  # (n,) int32: class indices, or (n,) or (n, d) float64: y of a regression
    classes: np.ndarray | None  # (K,) sorted labels; None for a regression
    weight: np.ndarray | None  # (n,) float64 sample weights; None: all one
    estimation: np.ndarray | None  # (n,) bool, True for the rows of E; None if ``estimation=`` is not given
    center: float  # weighted mean of y, which `moments` of normal leaves subtract; 0 for classes, and if y has columns
    variance: float  # weighted variance of y; 1 for classes, and if y is constant or has columns
    regressors: np.ndarray | None = None  # (n, c) float64: the columns of X that the leaf uses, or None
    names: tuple[str, ...] = ()  # names of the columns of y in the order of ``values``; () if y has no names

    @property
    def prior_variance(self) -> float:
        """`variance`, for priors whose parameters are set from it; a ValueError if it is too small for this."""
        return check_variance(self.variance)

    @property
    def n_classes(self) -> int:
        return 0 if self.classes is None else len(self.classes)

    def integer_weights(self, n_functions: int) -> np.ndarray | None:
        """Return 0, 1, ..., up to the sum of the weights, as floats: all weights that a cell can have."""
        # None if weights are not integers, or a table of `n_functions` functions of them would be too large
        weight = self.weights
        if np.any(weight != np.floor(weight)) or (weight.sum() + 1.0) * n_functions > MAX_TABLE_ENTRIES:
            return None
        return np.arange(weight.sum() + 1.0)

    @property
    def weights(self) -> np.ndarray:
        return np.ones(len(self.values)) if self.weight is None else self.weight


# drawn parameters, such as a mean and a standard deviation: arrays with one entry (or row) for each leaf, or for each y
# to be drawn
Theta = Sequence[np.ndarray]


class Leaf:
    """Base class of leaf models."""

    # The statistics of a cell are its weight and then the sums of `statistics` over its rows, each multiplied by the
    # weight of the row. Leaves of classes have the weight of each class instead. The compiled score is called by its
    # address, so that a new leaf model needs no recompilation. Its argument is the sums without the weight. Scores with
    # a code of their own read all statistics instead.
    kind: Any = BY_ADDRESS
    positive_parameters: ClassVar[tuple[str, ...]] = ()  # parameters that must be positive and finite
    finite_parameters: ClassVar[tuple[str, ...]] = ()  # parameters that must be finite
    is_classifier: Any = False
    uses_estimation: ClassVar[bool] = False
    # True if the prediction of a cell depends on the number of classes, including those that none of its rows has
    depends_on_n_classes: ClassVar[bool] = True
    # True if the score of a tree is the sum over its leaves. The exact engine needs this.
    has_additive_score: ClassVar[bool] = True
    has_likelihood: ClassVar[bool] = True
    # True if `expectation` is implemented; False if E(y) can only be drawn
    has_closed_expectation: ClassVar[bool] = True
    # True if `draw_survival` can be called: y is a time to an event
    has_survival: Any = False
    # False if the statistics and defaults contain no squares of y, so that the variance of y may overflow
    needs_variance: ClassVar[bool] = True
    y_columns: Any = 1  # number of columns of y, which has shape (n,) if there is one
    y_names: tuple[str, ...] = ()  # names of the columns of y, by which the columns of a data frame are found
    x_columns: Any = None  # names or indices of the columns of X that the leaf uses, or None
    predicts: Any = True  # True if the leaf has a `value`
    # True if `weight` returns the weight of the rows of a cell, False if each row also counts by its exposure
    weighs_rows: Any = True
    # function to compile, ``(s, n)`` or ``(s, n, params)``: the score in nats of a cell with ``n`` sums ``s``
    compiled_score: Any = None
    score_parameters: ClassVar[tuple[str, ...]] = ()  # parameters that the compiled score reads as ``params[0], ...``

    def __repr__(self) -> str:
        return fields_repr(self)

    def __post_init__(self) -> None:
        for name in self.finite_parameters:
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), "a finite number")
        for name in self.positive_parameters:
            # None is the default of parameters that are set from the data
            if getattr(self, name) is not None or getattr(type(self), name) is not None:
                check_positive(name, getattr(self, name))
                set_field(self, name, float(getattr(self, name)))

    # what a leaf model declares

    def resolve(self, target: Target) -> Self:
        """Return the leaf model with every parameter set. Parameters that are None are set from the data."""
        return self

    def statistics(self, y: np.ndarray, target: Target) -> Sequence[np.ndarray]:
        """Return k statistics of rows with ``y`` (n,) or (n, d), which cells sum: k arrays (n,)."""
        # ``target`` contains other data of the rows, such as regressors
        raise NotImplementedError

    def plain_score(self, sums: np.ndarray, target: Target) -> float:
        """Return the score, the log marginal likelihood in nats, of a cell of positive weight with ``sums`` (k,)."""
        raise NotImplementedError

    def predictive(self, stats: np.ndarray, tree: np.ndarray, target: Target) -> Any:
        """Return the `Distributions` of a new y of weight and exposure 1 in nodes with ``stats`` (m, n_stats)."""
        # the parameters of the leaf are integrated out. ``tree`` (m,) is the index of the tree of which a node is a
        # leaf, -1 for an inner node. Leaves of classes implement `value` instead
        raise NotImplementedError

    def value(self, stats: np.ndarray, target: Target, *regressors: np.ndarray) -> np.ndarray:
        """Return the predictions of cells with ``stats`` (m, n_stats): class probabilities (m, K) or means (m, 1)."""
        # A leaf with ``x_columns`` also takes the regressors (m, c) of the row that each cell predicts
        raise NotImplementedError

    def draw_parameters(self, rng: Generator, stats: np.ndarray, target: Target) -> Theta:
        """Draw the parameters of the m leaves of one tree given their rows, from their posterior: arrays (m, ...)."""
        # these are, for example, a mean and a standard deviation for each leaf. ``stats`` (m, n_stats) are the sums
        # over the rows of each leaf, its weight first, or the weight of each class
        raise ValueError(f"{type(self).__name__} is not a model of y; there is nothing to draw.")

    def draw_given(self, rng: Generator, parameters: Theta, target: Target, rows: Any, *regressors: Any) -> np.ndarray:
        """Draw y (n,), each given the ``parameters`` of its leaf, arrays (n, ...) as `draw_parameters` returns them."""
        # ``rows`` (n,) are the indices of training rows, None for new rows. ``regressors`` is one array (n, c), the
        # columns of X of new rows that the leaf uses, if it uses any
        raise NotImplementedError

    def expectation(self, stats: np.ndarray, tree: np.ndarray, target: Target) -> list[Distributions]:
        """Return the posterior, of k distributions, of E(y) or of each class probability in k nodes."""
        # given the tree, this has a closed form. ``stats`` (k, n_stats) are the statistics of the nodes, ``tree`` (k,)
        # is the index of the tree of which a node is a leaf, -1 for an inner node
        raise ValueError(f"{type(self).__name__} is not a model of y, so E(y) has no posterior.")

    def expectation_given(self, parameters: Theta, *regressors: Any) -> np.ndarray:
        """Return E(y) (n, 1), or class probabilities (n, K), given ``parameters``: here the first of them."""
        return parameters[0].reshape(len(parameters[0]), -1)

    @property
    def has_expectation(self) -> bool:
        """True if `draw_expectation` can be called."""
        return self.has_likelihood

    # statistics

    def n_stats(self, target: Target) -> int:
        """Return the number of statistics of a cell: one for each class, or 1 + k if `statistics` returns k arrays."""
        if self.is_classifier:
            return target.n_classes
        one_row = None if target.regressors is None else target.regressors[:1]
        return 1 + len(self.statistics(target.values[:1], target._replace(regressors=one_row)))

    def labels(self, target: Target) -> np.ndarray:
        """Return the index (n,) of the statistic to which each training row adds its weight, for leaves of classes."""
        return target.values

    def moments(self, target: Target) -> tuple[np.ndarray | None, np.ndarray]:
        """Return the weight (n,) of each row, None if all are 1, and its `statistics` times the weight (k, n)."""
        # the first result is the weight times the exposure if `weighs_rows` is False
        sums = np.array(self.statistics(target.values, target), dtype=np.float64, order="C")
        if target.weight is not None:
            sums *= target.weight
        return target.weight, sums

    def row_stats(self, target: Target) -> np.ndarray:
        """Return the statistics (n, n_stats) that each training row adds to those of its cell, times its weight."""
        if not self.is_classifier:
            weight, moments = self.moments(target)
            return np.column_stack([np.ones(len(target.values)) if weight is None else weight, *moments])
        out = np.zeros((len(target.values), self.n_stats(target)))
        out[np.arange(len(out)), self.labels(target)] = target.weights
        return out

    def stats_of_y(self, y: np.ndarray, target: Target, weight: Any = 1.0) -> np.ndarray:
        """Return the statistics (n, n_stats) that rows with ``y`` add to a cell, each ``weight`` times."""
        weight = np.broadcast_to(np.asarray(weight, dtype=np.float64), len(y))
        if self.is_classifier:
            return weight[:, None] * np.eye(target.n_classes)[y]
        return weight[:, None] * np.column_stack([np.ones(len(y)), *self.statistics(y, target)])

    def weight(self, stats: np.ndarray) -> np.ndarray:
        """Return the weight (m,) of rows, times exposure unless `weighs_rows`, of cells with ``stats`` (m, n_stats)."""
        return stats.sum(axis=1) if self.is_classifier else stats[:, 0]

    def sums_of(self, stats: np.ndarray) -> np.ndarray:
        """Return those of the statistics of cells, ``stats`` (..., n_stats), that `plain_score` takes, (..., k)."""
        # these leave out the first one, the weight, if the score is called by its address and y is not a class
        return stats[..., 1:] if self.kind == BY_ADDRESS and not self.is_classifier else stats

    # scores

    def score_params(self, target: Target) -> np.ndarray:
        """Return the parameters (m,) that the compiled score reads: here the attributes named in `score_parameters`."""
        # if there are none, the score is called as ``(s, n)``, else as ``(s, n, params)``. ``s`` are the n sums of a
        # cell, see `sums_of`
        return np.array([getattr(self, name) for name in self.score_parameters])

    def params(self, target: Target) -> np.ndarray:
        """Return the parameters (m,) as the score function of the leaf's ``kind`` reads them."""
        # here this is `addressed_score`, which reads the address of the compiled score, the index of the first
        # statistic to pass to it, 1 if there are `score_params`, else 0, and these
        values = np.asarray(self.score_params(target), dtype=np.float64)
        address = address_of(self.compiled_score, len(values) > 0)
        if not 0 < address < MAX_EXACT_INTEGER:
            raise RuntimeError(f"the compiled score lies at address {address}, which a float64 does not hold exactly.")
        return np.array([address, 0.0 if self.is_classifier else 1.0, len(values) > 0, *values], dtype=np.float64)

    def lookup(self, target: Target) -> np.ndarray:
        """Return a table (r, m) of r functions of the weights 0, ..., m - 1 of a cell, which the score reads."""
        # it is used if all weights of rows are integers; otherwise it has the shape (1, 1)
        return np.zeros((1, 1))

    def rule(self, target: Target) -> LeafRule:
        """Return the leaf model in the form that compiled code uses."""
        return LeafRule(self.kind, self.params(target), self.n_stats(target), self.lookup(target))

    def scores(self, stats: np.ndarray, target: Target) -> np.ndarray:
        """Return the compiled scores (m,) of cells with ``stats`` (m, n_stats); an error unless called by address."""
        if self.kind != BY_ADDRESS:
            # the first parameter of other scores is not the address of a function
            raise NotImplementedError(f"the score of {type(self).__name__} is not called by its address.")
        out = np.zeros(len(stats))
        add_addressed_scores_into(out, self.params(target), np.ascontiguousarray(stats, dtype=np.float64), len(out))
        return out

    def log_score(self, stats: np.ndarray, target: Target) -> float:
        """Return the score in nats of one cell with ``stats`` (n_stats,), without compiled code; 0 without weight."""
        return 0.0 if not self.weight(stats[None])[0] > 0.0 else float(self.plain_score(self.sums_of(stats), target))

    def log_tree_score(self, stats: np.ndarray, target: Target) -> float:
        """Return the score in nats of a tree whose nonempty leaves have ``stats`` (m, n_stats)."""
        return float(sum(self.log_score(cell, target) for cell in stats))

    # densities of rows

    def log_density(self, stats: np.ndarray, y: np.ndarray, target: Target, weight: Any = 1.0) -> np.ndarray:
        """Return the log predictive density (m,) of ``y``, one in each cell, by which a row changes the score."""
        return self.scores(stats + self.stats_of_y(y, target, weight), target) - self.scores(stats, target)

    def log_density_left_out(self, others: np.ndarray, node: np.ndarray, target: Target) -> np.ndarray:
        """Return the log density (n,) of every training row given all other rows and the tree."""
        # this is the difference that the row makes to the score of the tree. ``others`` (n, n_stats) are the statistics
        # of a row's leaf without the row, ``node`` (n,) is the index of the leaf
        return self.log_density(others, target.values, target, target.weights)

    def log_influence(self, others: np.ndarray, node: np.ndarray, target: Target) -> np.ndarray:
        """Return the log density (n,) of every row given all rows and the tree, minus that given all other rows."""
        # this is the log of the mean of the row's likelihood times the mean of its reciprocal, both over the posterior
        # of the leaf parameters given the tree. ``others`` and ``node`` are as in `log_density_left_out`
        given_all = self.log_density(others + self.row_stats(target), target.values, target, target.weights)
        return given_all - self.log_density_left_out(others, node, target)

    # draws

    def draw(
        self,
        rng: Generator,
        stats: np.ndarray,
        leaf: np.ndarray,
        target: Target,
        rows: np.ndarray | None = None,
        *regressors: np.ndarray,
    ) -> np.ndarray:
        """Draw y (n,) in leaves of one tree: the parameters of each leaf given its rows, then y given these."""
        # ``stats`` (m, n_stats) are those of the leaves, ``leaf`` (n,) the leaf of each y, ``rows`` (n,) its training
        # row, None for new rows, which have ``regressors`` (n, c) if the leaf uses columns of X
        parameters = self.draw_parameters(rng, stats, target)
        return self.draw_given(rng, [part[leaf] for part in parameters], target, rows, *regressors)

    def draw_expectation(
        self, rng: Generator, stats: np.ndarray, leaf: np.ndarray, target: Target, *regressors: np.ndarray
    ) -> np.ndarray:
        """Draw the parameters of the leaves of one tree given their rows, and return E(y) in them, (n, 1) or (n, K)."""
        # ``stats`` (m, n_stats) are those of the leaves, ``leaf`` (n,) is the leaf of each E(y). ``regressors`` is one
        # array (n, c), the columns of X that the leaf uses, if it uses any
        parameters = self.draw_parameters(rng, stats, target)
        return self.expectation_given([part[leaf] for part in parameters], *regressors)

    def draw_survival(
        self, rng: Generator, stats: np.ndarray, leaf: np.ndarray, times: np.ndarray, target: Target
    ) -> np.ndarray:
        """Draw the parameters of the leaves of one tree given their rows, and return P(y > t) (n, k) in them."""
        # ``stats`` (m, n_stats) are those of the leaves, ``leaf`` (n,) is the leaf of each row of the result, and
        # ``times`` (k,) are the times t
        raise NotImplementedError

    def times_and_events(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the time (n,) of each row of y, and True (n,) if the event was seen, or raise a ValueError."""
        raise NotImplementedError

    def draw_y(self, rng: Generator, stats: np.ndarray, leaf: np.ndarray, target: Target, rows: Any) -> np.ndarray:
        """Draw y for training ``rows``, with the columns of the model's y: (n,), or (n, d) if it has d columns."""
        # ``stats`` (m, n_stats) are those of the leaves, ``leaf`` (n,) is the leaf of each of the ``rows``, see `draw`
        return self.draw(rng, stats, leaf, target, rows)

    def for_one_tree(self, rng: Generator) -> Leaf:
        """Return the leaf model given a draw of the parameters common to all leaves of a tree from their prior."""
        # return the leaf model itself if there are no such parameters
        return self

    # input and output

    def with_defaults(self, **defaults: Any) -> Self:
        """Return the leaf model with ``defaults`` for parameters that are None."""
        # A default may be a function of the leaf model in which the parameters before it are set
        out = self
        for name, default in defaults.items():
            if getattr(out, name) is None:
                out = replace(out, **{name: default(out) if callable(default) else default})  # type: ignore[type-var]
        return out

    def order_of_y(self, names: list[str], columns: list[Any]) -> list[int]:
        """Return the indices of the columns of y in a data frame: by `y_names` if it has them, else all in order."""
        # ``names`` and ``columns`` are the names and values of the columns of the data frame
        lower = [name.lower() for name in names]
        if self.y_names and set(self.y_names) <= set(lower):
            return [lower.index(name) for name in self.y_names]
        return list(range(len(names)))

    def words(self, stats: np.ndarray, target: Target) -> list[str] | None:
        """Return predictions of m cells with ``stats`` (m, n_stats) as text for printed trees."""
        # return None if `value` is enough
        return None

    def in_file(self, target: Target) -> Any:
        """Return the object that a file stores for the leaf model: itself, or a description if it has functions."""
        return self


def refuse_rows(is_bad: np.ndarray, name: str, values: np.ndarray, advice: str) -> None:
    """Raise a ValueError if ``is_bad`` (n,) is True for a row."""
    if np.any(is_bad):
        row = int(np.argmax(is_bad))
        raise ValueError(f"{name} is {values[row].tolist()} in row {row}; {advice}")


def check_positive(name: str, value: Any, *, entries: bool = False) -> None:
    """Raise a ValueError unless parameter ``name`` is positive and finite. ``entries``: it may be an array (m,)."""
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
