"""`TreeModel`: data, tree prior, split prior and leaf model, and the log posterior of a tree without compiled code.

Before the class: reasons why compiled code cannot use a part of a model, or why its posteriors have no certificate, and
texts about cells. After it: its trees in plain Python, that is visits of nodes with their cells, and draws from the
prior.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from ..core.checks import Seed, check_flag, is_integer, names_rows, read_generator, refuse_other_rows, repr_of
from ..files.encoding import register_class
from ..files.store import AnyPath, write_parts
from ..table.coding import AnyScale, Scale, encode
from ..table.columns import MAX_CATEGORIES, CategoryGroup, Columns, describe_columns
from ..table.reader import Table
from ..table.words import (
    DATES,
    SHORT_DIGITS,
    categories_text,
    rounded_text,
    shortened,
    side_words,
    threshold_text,
    value_text,
)
from ..tree.arrays import LEAF
from ..tree.coded import CODED_NODE
from ..tree.tree import Tree, check_tree, match_columns, value_lines
from .leaf.base import Leaf, LeafRule, Target
from .leaf.classes import DirichletMultinomial, FrozenLaplace, PacBayesLoss
from .leaf.counts import PoissonGamma
from .leaf.custom import CustomLeaf
from .leaf.normal import NormalInverseGamma, NormalKnownVariance, NormalLinear, NormalSharedVariance
from .leaf.positive import ExponentialGamma, PiecewiseExponential, WeibullGamma
from .rows import MergedRows, PlainCell, PlainSplit, Units, first_rows, merge_rows, read_target, root_cell
from .split_prior.base import SplitPrior, SplitRule, call_uncompiled, has_empty_sides, parts_box, parts_rows
from .split_prior.custom_splits import BoundSplits, CustomSplits
from .split_prior.cuts import DyadicCuts, GridCuts, LocalCuts, default_cuts
from .split_prior.fixed_tree import FixedTree
from .tree_prior import BranchingProcess, ChipmanPrior, LeafPenalty, PriorTables, TreePrior, tabulate_prior

COMPILED_TREE_PRIORS = (BranchingProcess, ChipmanPrior, LeafPenalty)
# classes of tree priors, split priors and leaf models that compiled code implements
COMPILED_SPLIT_PRIORS = (LocalCuts, GridCuts, DyadicCuts, FixedTree, CustomSplits)
COMPILED_LEAVES = (
    *(DirichletMultinomial, FrozenLaplace, PacBayesLoss),
    *(NormalInverseGamma, NormalKnownVariance, NormalSharedVariance, PoissonGamma),
    *(ExponentialGamma, WeibullGamma, PiecewiseExponential, NormalLinear),
    CustomLeaf,
)
# methods of a leaf without a compiled form, which a subclass may therefore change
UNCOMPILED_METHODS = frozenset(
    {"resolve", "value", "predictive", "log_density", "log_density_left_out", "draw", "draw_parameters", "draw_given"}
)


def check_known(tree_prior: Any, split_prior: SplitPrior, leaf: Leaf | None) -> None:
    """Raise a TypeError if a part of a model is of an unknown class, or of a subclass that compiled code ignores."""
    _check_class(tree_prior, COMPILED_TREE_PRIORS, "tree_prior")
    _check_class(split_prior, COMPILED_SPLIT_PRIORS, "split_prior")
    if leaf is not None:
        _check_class(leaf, COMPILED_LEAVES, "leaf")


def _check_class(part: Any, classes: tuple[type, ...], name: str) -> None:
    """Raise a TypeError if argument ``name`` has none of the ``classes``, or a subclass with other compiled methods."""
    lineage = type(part).__mro__
    base = next((cls for cls in lineage if cls in classes), None)
    if base is None:
        *names, last = (cls.__name__ for cls in classes)
        is_part = isinstance(part, TreePrior | SplitPrior | Leaf)
        what = f"a {type(part).__name__}, which has no compiled form" if is_part else repr_of(part)
        raise TypeError(f"{name} is {what}; give {', '.join(names)} or {last}.")
    changeable = UNCOMPILED_METHODS | set(getattr(base, "__dataclass_fields__", {}))
    for cls in lineage[: lineage.index(base)]:
        for changed in vars(cls):
            if hasattr(base, changed) and not changed.startswith("__") and changed not in changeable:
                raise TypeError(
                    f"{name} is a {type(part).__name__}, which changes {changed} of {base.__name__}; compiled code "
                    f"would go on with that of {base.__name__}, so the two would disagree: give a {base.__name__}."
                )


def unknown_constant(model: TreeModel) -> str | None:
    """Return a text that says why draws do not determine the divergence of the posterior from the prior, or None."""
    if log_prior_mass(model) is not None:
        return None
    if isinstance(model.tree_prior, LeafPenalty):
        return (
            "LeafPenalty is not normalised, and draws do not determine its constant; use ChipmanPrior or "
            "BranchingProcess, or exact.solve"
        )
    return (
        f"{model.tree_prior!r} has a mass below one if some cells lack splits, and draws do not determine it; use a "
        "process that is not conditioned, or exact.solve"
    )


def log_prior_mass(model: TreeModel) -> float | None:
    """Return the log of the sum of the prior over all trees, or None if it depends on the splits of each cell."""
    return model.tree_prior.log_mass(model.split_prior.fewest_splits(model.columns), model.shape)


def _obstacle_in_leaf(model: TreeModel) -> str | None:
    """Return the reason against a certificate, a PAC bound, in the leaf model, rows of E or weights, or None."""
    leaf, target = model.leaf, model.target
    if not leaf.is_classifier:
        return (
            f"{type(leaf).__name__} is a regression, and the bounds are for losses in [0, 1]; "
            "give a classification model with PacBayesLoss and estimation="
        )
    if not leaf.uses_estimation or target.estimation is None:
        return (
            f"{type(leaf).__name__} learns leaf values from every row, counted ones too; give PacBayesLoss or "
            "FrozenLaplace with estimation=, so that E fixes them and the rest is counted"
        )
    if target.estimation.all():
        return "the estimation mask holds every row, so none is left to count; leave some out"
    if np.ptp(target.weights[~target.estimation]) > 0.0:
        return "sample_weight differs between counted rows, and a bound counts each of them once; drop it"
    return None


def _obstacle_in_prior(model: TreeModel) -> str | None:
    """Return the reason against a certificate, a PAC bound, in the cost of empty leaves, or None."""
    if model.prior_tables.empty_bonus != 0.0:
        return "the cost of an empty leaf depends on which cells hold rows; give LeafPenalty one cost"
    return None


def _obstacle_in_classes(model: TreeModel) -> str | None:
    """Return the reason against a certificate in classes that no row of E, the rows that fix leaves, has, or None."""
    in_e = np.zeros(model.target.n_classes, dtype=np.bool_)
    in_e[model.target.values[model.target.estimation]] = True
    assert model.classes_ is not None
    classes = model.classes_.tolist()
    if not in_e[0]:
        return (
            f"class {classes[0]!r}, the label of a cell without rows of E, occurs only in counted rows; "
            "choose E so that it holds the smallest class"
        )
    if model.leaf.depends_on_n_classes and not in_e.all():
        return (
            f"class {classes[int(np.argmin(in_e))]!r} occurs only in counted rows, and the number of classes sets the "
            f"probabilities of every {type(model.leaf).__name__} leaf; choose E so that it holds all classes, leave "
            "the rows of that class out, or give PacBayesLoss"
        )
    return None


def _obstacle_in_columns(model: TreeModel) -> str | None:
    """Return the reason against a certificate in categories or missing values that only counted rows have, or None."""
    # counted rows are those outside E, whose errors a bound counts
    merged_rows, columns = model.units, model.columns
    in_e = merged_rows.label < model.target.n_classes
    for j in np.flatnonzero(columns.is_nominal).tolist():
        categories = columns.categories[j]
        assert categories is not None
        if any(isinstance(category, CategoryGroup) for category in categories.tolist()):
            return (
                f"column {columns.names[j]!r} has more than {MAX_CATEGORIES} categories, and the rows of each, counted "
                f"ones too, decide which are grouped; give at most {MAX_CATEGORIES} groups of your own"
            )
        missing = np.setdiff1d(np.arange(model.n_codes[j]), merged_rows.codes[j, in_e])
        if len(missing):
            name, category = columns.names[j], categories.tolist()[missing[0]]
            return (
                f"category {category!r} of column {name!r} occurs only in counted rows, so the prior over splits of "
                "the categories depends on them; merge it with another, or choose E so that it holds all"
            )
    lacks = np.isnan(model.unit_numbers(np.flatnonzero(in_e)))
    for j in columns.twins:
        if model.n_codes[j] > 1 and not lacks[:, j].any():
            return (
                f"column {columns.names[j]!r} lacks values only in counted rows, so the prior over where missing "
                "values go depends on them; fill them in, or choose E so that it lacks some too"
            )
    return None


# ratio of mean to standard deviation of a column beyond which a text subtracts a value near the mean
MAX_MEAN_BY_DEVIATION = 100.0
# largest error of a prediction that rounded coefficients cause, as a fraction of the standard deviation of y
MAX_ROUNDING_ERROR = 1e-3
# largest relative deviation from a straight line of predictions that are shown as a regression
LINEARITY_TOLERANCE = 1e-6


class Regressor(NamedTuple):
    """Text for a column of X in a regression."""

    name: str  # name of the column, or the text of its difference from the origin
    origin: float  # value of the column that the text subtracts; 0 if it subtracts none
    reach: float  # largest absolute value of the column less the origin in the training table; 1 if this is 0


def words_of_cells(model: TreeModel, stats: np.ndarray) -> list[str] | None:
    """Return the predictions of m cells with the statistics ``stats`` (m, n_stats) in words."""
    # None if `Leaf.value` describes them completely. A prediction that is linear in columns of X is shown as "y = 1.2 +
    # 3.4 x0"; for another dependence the text names the columns
    leaf = model.leaf
    if leaf.x_columns is None or not leaf.predicts:
        return leaf.words(stats, model.target)
    regressors = model.target.regressors
    assert regressors is not None
    indices = model.columns.ordered_indices("columns", leaf.x_columns)
    names = [model.columns.names[k] for k in indices]
    center, scale = regressors.mean(axis=0), regressors.std(axis=0)
    scale = np.where(scale > 0.0, scale, 1.0)
    at_center, slope, is_linear = _fit_linear(model, stats, center, scale)
    if not is_linear:
        return [f"depends on {', '.join(names)}"] * len(stats)
    descriptions = [_describe_regressor(model.columns, k, regressors[:, j]) for j, k in enumerate(indices)]
    at_origin = at_center - slope @ (center - [one.origin for one in descriptions])
    # y of several columns has its first one here, such as the time of times and events
    spread = float(model.target.values.reshape(model.n_rows, -1)[:, 0].std())
    name = prediction_names(model)[0]
    return [f"{name} = {_regression_text(at_origin[i], slope[i], descriptions, spread)}" for i in range(len(stats))]


def prediction_names(model: TreeModel) -> list:
    """Return the classes, or a list with the name of y, that of its first column if it has several, "y" without one."""
    return [*model.target.names[:1]] or ["y"] if model.classes_ is None else model.classes_.tolist()


def value_column(model: TreeModel, label: Any) -> int:
    """Return the column, in predictions, of the class ``label``, the last one if None; 0 for a regression."""
    if label is None:
        return 0 if model.classes_ is None else len(model.classes_) - 1
    return class_index(model.classes_, label)


def value_label(model: TreeModel, column: int) -> str:
    """Return the text of an axis for a column of predictions: "mean", "mean of weight" or "P(yes)"."""
    name = shortened(str(prediction_names(model)[column]), 32 if model.classes_ is None else 24)
    if model.classes_ is not None:
        return f"P({name})"
    return "mean" if name == "y" else f"mean of {name}"


def lines_of_cells(model: TreeModel, stats: np.ndarray, max_classes: int | None = None) -> list[list[str]]:
    """Return the predictions of m cells with the statistics ``stats`` (m, n_stats), each as a list of lines of text."""
    texts = words_of_cells(model, stats)
    if texts is not None:
        return [[text] for text in texts]
    if not model.leaf.predicts:
        return [[] for _ in stats]
    return value_lines(np.asarray(model.leaf.value(stats, model.target)), model.classes_, max_classes)


def _fit_linear(
    model: TreeModel, stats: np.ndarray, center: np.ndarray, scale: np.ndarray
) -> tuple[np.ndarray, np.ndarray, bool]:
    """Return predictions (m,) of m cells at ``center`` (c,), their slopes (m, c) in c columns, and a test result."""

    # the test is with steps of one `scale` up and down each column, and of one to two in all columns at a time
    def at(offset: np.ndarray) -> np.ndarray:
        return model.leaf.value(stats, model.target, np.tile(center + offset * scale, (len(stats), 1)))[:, 0]

    steps = np.eye(len(center))
    up, down, middle = [at(step) for step in steps], [at(-step) for step in steps], at(0.0 * center)
    slope = (np.stack(up, axis=1) - np.stack(down, axis=1)) / 2.0
    bend = np.stack(up, axis=1) + np.stack(down, axis=1) - 2.0 * middle[:, None]
    oblique_bend = at(np.linspace(1.0, 2.0, len(center))) - middle - slope @ np.linspace(1.0, 2.0, len(center))
    limit = LINEARITY_TOLERANCE * (np.abs(middle) + np.abs(slope).sum(axis=1))
    is_linear = np.all(np.abs(bend) <= limit[:, None]) and np.all(np.abs(oblique_bend) <= limit)
    return middle, slope / scale, bool(is_linear)


def _describe_regressor(columns: Columns, k: int, x: np.ndarray) -> Regressor:
    """Return the text by which a regression names column ``k``, which has the values `x` (n,) in the training table."""
    # the difference from a value near the mean, if the column consists of dates or the mean is far from 0
    name, kind, mean, spread = columns.names[k], columns.kind(k), float(x.mean()), float(x.std())
    if kind not in DATES and not 0.0 < MAX_MEAN_BY_DEVIATION * spread < abs(mean):
        return Regressor(name, 0.0, float(np.abs(x).max()) or 1.0)
    origin = float(math.floor(mean))
    if kind not in DATES:
        text = threshold_text(mean, mean - spread / 2.0, mean + spread / 2.0)
        origin = float(text)
    else:
        text = value_text(origin, kind)
    return Regressor(f"({name} - {text})", float(origin), float(np.abs(x - origin).max()) or 1.0)


def _regression_text(constant: float, slope: np.ndarray, regressors: list[Regressor], spread: float) -> str:
    """Return a regression as text, such as ``1.2 + 3.4 x0``, by its constant and the ``slope`` (c,) of c regressors."""
    # rounding changes predictions by less than MAX_ROUNDING_ERROR times `spread`, the standard deviation of y
    max_error = MAX_ROUNDING_ERROR * (spread or abs(constant) or 1.0) / (len(regressors) + 1)
    parts = [_text_within_error(constant, max_error)]
    for coefficient, regressor in zip(slope.tolist(), regressors, strict=True):
        text = _text_within_error(coefficient, max_error / regressor.reach)
        parts.append(f"- {text[1:]} {regressor.name}" if text.startswith("-") else f"+ {text} {regressor.name}")
    return " ".join(parts)


def _text_within_error(x: float, error: float) -> str:
    """Return a number as text, with two significant digits, or more to keep the change by rounding below ``error``."""
    if x == 0.0 or not math.isfinite(x):
        return rounded_text(x)
    digits = math.floor(math.log10(abs(x))) - math.floor(math.log10(max(2.0 * error, 1e-300))) + 1
    return rounded_text(x, min(max(digits, 2), SHORT_DIGITS + 9))


MAX_LISTED_STATS = 12  # largest number of statistics that an error lists


class NotFinite(ValueError):
    """Error for a leaf score that is NaN or infinite."""


class PathSplit(NamedTuple):
    """A split on the path to a cell, in codes, and True as ``left`` if the cell is on the left side."""

    # `cut` is the largest code on the left, `upper` the smallest on the right
    coordinate: int
    cut: int
    upper: int
    categories: int
    left: bool


def class_index(classes: np.ndarray | None, label: Any) -> int:
    """Return the index of ``label`` among the classes of a model, or raise a ValueError."""
    if classes is None:
        raise ValueError(f"label={repr_of(label)} is given, but the model is a regression; leave it out.")
    labels = classes.tolist()
    if label not in labels:
        raise ValueError(f"label={repr_of(label)} is not a class; give one of {labels[:10]}.")
    return labels.index(label)


def not_finite(model: TreeModel, path: Iterable[PathSplit], what: str, rows: int, stats: Any, score: Any) -> NotFinite:
    """Return the error about a score that is not finite, that of the cell which the text ``what`` names."""
    conditions = " and ".join(split_words(model, split) for split in path)
    numbers = [f"{v:.6g}" for v in np.asarray(stats)[:MAX_LISTED_STATS].tolist()]
    numbers += ["..."] * (len(stats) > MAX_LISTED_STATS)
    cell = f"{conditions}{'; ' if conditions else ''}{int(rows)} rows, statistics [{', '.join(numbers)}]"
    return NotFinite(
        f"the score of {what} is {float(score)}: {cell}, {model.leaf!r}. Give less extreme leaf parameters, y or "
        "sample_weight."
    )


def split_words(model: TreeModel, split: PathSplit) -> str:
    """Return the condition for the side of a split on which a cell lies, as text such as ``x0 > 2.5``."""
    columns, c = model.columns, split.coordinate
    k = int(columns.source[c])
    name = columns.names[k]
    if columns.categories[k] is not None:
        categories = categories_text(columns.label_set(k, split.categories))
        return name + (categories if split.left else " not" + categories)
    scale, cut, upper = model.scales[c], np.array([split.cut]), np.array([split.upper])
    threshold, (low, high) = float(scale.threshold(cut, upper)[0]), scale.between(cut, upper)[0].tolist()
    missing = k in columns.twins and split.left == (c < columns.n_features)
    if np.isnan(threshold):
        return f"{name} is {'missing' if missing else 'known'}"
    return f"{name} {side_words(threshold, split.left, columns.kind(k), low, high)}{' or missing' if missing else ''}"


class Lowered(NamedTuple):
    """A model in the form that compiled code uses: arrays and integer codes."""

    units: Units  # merged rows
    prior: PriorTables  # log factors of the tree prior
    split_prior: SplitRule  # parameters of the split prior
    leaf: LeafRule  # parameters of the leaf model
    # leaf model of stored sums over splits, from which proposals are drawn. Equals `leaf`, but if leaves share a
    # variance that is drawn, it changes rarely, so that stored sums stay valid.
    proposal_leaf: LeafRule


@register_class
class ModelParts(NamedTuple):
    """Parts of a model from which it is built again, as in a file: checked arguments and coded data."""

    tree_prior: Any
    split_prior: SplitPrior
    leaf: Leaf
    columns: Columns
    n_rows: int
    n_features: int
    target: Target
    scales: list[AnyScale]  # conversion of values to codes, for each coordinate
    units: Units  # merged rows
    unit_of_row: np.ndarray | None  # (n,) int32: the merged row that contains each row; None if row i is merged row i


class TreeModel:
    """A Bayesian model of a table: it defines the posterior over trees that both engines compute.

    ``log post(T) = sum over internal nodes [log_split + log R(split | cell)]
    + sum over leaves [log_stop + score] - log Z`` (formulas, section 0).

    Parameters
    ----------
    X : table of shape (n, p)
        Array, list of rows, dict of columns, pandas or polars frame; at least two rows. Columns of text and
        categoricals are nominal. Ordered are numbers, truth values, dates and times (days since 1970), durations
        (days), periods, and ordered categoricals (pandas ``ordered=True``, polars Enum), whose splits are cuts in the
        order of the levels. Integers that float64 would round are refused.
    y : array-like of shape (n,), or (n, d) for a leaf with d columns of y, such as time and event
        Integers, booleans or strings are class labels; floats make a regression, unless ``leaf`` says otherwise. More
        than 10 distinct integers are treated as classes with a warning.
    tree_prior : BranchingProcess, ChipmanPrior or LeafPenalty, optional
        Default ``ChipmanPrior()``.
    split_prior : LocalCuts, GridCuts, DyadicCuts, FixedTree or CustomSplits, optional
        Default ``LocalCuts(max_cuts=100, min_leaf=5)``, and ``LocalCuts()`` if X has fewer than 100 rows.
    leaf : leaf model, optional
        Default ``DirichletMultinomial()`` for classes, ``NormalInverseGamma()`` for a regression.
    nominal : column names or indices, optional
        Further nominal columns. If a column has more than 63 categories, splits part groups of neighbouring ones
        (`docs/howto_prior.md`).
    missing : {"error", "branch"}, default "error"
        "branch" allows missing values: each split also says where they go, to either side with probability one half.
        Under local cuts a split can separate them from all other values, as if they were -inf or +inf. In a nominal
        column they are an additional category, in new rows too. A missing value in a column that had none in X
        follows the branch with more training rows, of two equal ones the left (``x <= threshold``). So does a category
        that is not in X.
    sample_weight : array-like of shape (n,), optional
        Weights >= 0, not all 0, that multiply the leaf statistics: a row of weight 2 has the score of two such rows.
        The prior does not depend on them: if splits count rows (``min_leaf``, quantiles) each row counts once, whatever
        its weight.
    estimation : bool array of shape (n,), or float, optional
        Rows of E, which determine the leaf parameters; the other rows are S. For FrozenLaplace and PacBayesLoss. A
        float is the fraction of the rows in E, which are the last ones: shuffle a sorted table first.

    Attributes
    ----------
    classes_ : ndarray of shape (K,) or None
        Sorted class labels.
    columns : Columns
        Names and categories of the features.
    leaf : leaf model
        With the parameters that were not given set from the data.

    Raises
    ------
    ValueError
        If an input is invalid; the message says what was received and what is allowed, and names all invalid columns.
    TypeError
        If a part of the model has the wrong type.

    Warns
    -----
    UserWarning
        If y has more than 10 distinct integers and no ``leaf`` is given, or if a column has more than 63 categories.

    Notes
    -----
    Values of a row belong together by position. If X, y, sample_weight, estimation and the exposure of the leaf are
    pandas objects, their indices must be equal, in the same order; any other index is refused.

    Building costs O(n p log n). The codes take one to four bytes a value. `LocalCuts` without ``max_cuts`` stores the
    thresholds too, so that a value of a column without ties takes some 30 bytes. Tree prior, split prior and leaf are
    checked before the table is coded.

    Examples
    --------
    >>> import numpy as np
    >>> model = TreeModel([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1], tree_prior=ChipmanPrior(0.5, 1.0))
    >>> stump = Tree([-1], [0], [0], [0])
    >>> round(model.log_posterior(stump), 4)
    -4.0943
    """

    @names_rows
    def __init__(
        self,
        X: Any,
        y: Any,
        *,
        tree_prior: BranchingProcess | ChipmanPrior | LeafPenalty | None = None,
        split_prior: SplitPrior | None = None,
        leaf: Leaf | None = None,
        nominal: Any = None,
        missing: str = "error",
        sample_weight: Any = None,
        estimation: Any = None,
    ) -> None:
        self.tree_prior = ChipmanPrior() if tree_prior is None else tree_prior
        self.split_prior = default_cuts(1) if split_prior is None else split_prior
        check_known(self.tree_prior, self.split_prior, leaf if isinstance(leaf, Leaf) else None)
        if self.split_prior.needs_depth and self.tree_prior.max_depth is None:
            raise ValueError("LocalCuts(trivial=True) never runs out of splits; give the tree prior a max_depth.")
        exposure = getattr(leaf, "exposure", None)
        refuse_other_rows(X=X, y=y, sample_weight=sample_weight, estimation=estimation, exposure=exposure)
        table = Table(X)
        self.columns = describe_columns(table, nominal, missing)
        self.n_rows, self.n_features = table.n_rows, table.n_features
        self.split_prior = default_cuts(self.n_rows) if split_prior is None else split_prior.match_columns(self.columns)
        self.target, leaf = read_target(y, self.n_rows, leaf, sample_weight, estimation)
        self.target = self.target._replace(regressors=self._regressors_of(table, leaf))
        self.leaf = leaf.resolve(self.target)
        self.split_prior.weights(self.n_features)
        self.shape = self.split_prior.shape()
        self.tree_prior.check(self.shape)
        if self.columns.twins and call_uncompiled(has_empty_sides, self.split_prior):
            raise ValueError(
                f"column {self.columns.names[self.columns.twins[0]]!r} has missing values, which trivial splits cannot "
                "send either side; fill them in, or give LocalCuts() without trivial=True."
            )
        self.scales = self.split_prior.scales(table, self.columns)
        self.units, self.unit_of_row = self._merge(table)
        self.rules = self.split_prior.bind(self.scales)
        if isinstance(self.rules, BoundSplits):
            self.rules.warn_of_root(self.root_cell())

    def _regressors_of(self, table: Table, leaf: Leaf) -> np.ndarray | None:
        """Return the columns (n, c) of the training table that the leaf uses, or None if it uses no columns."""
        if leaf.x_columns is None:
            return None
        return np.column_stack([self.columns.ordered_values(table.column(k), k) for k in self._x_indices(leaf)])

    def _x_indices(self, leaf: Leaf) -> list[int]:
        """Return the indices of the columns of X that the leaf uses, in its order; it must use some."""
        return self.columns.ordered_indices("x_columns", leaf.x_columns)

    def regressors(self, numbers: np.ndarray) -> np.ndarray | None:
        """Return the columns (n, c) of feature values ``numbers`` (n, p) that the leaf uses, None if it uses none."""
        # A value that is missing there raises a ValueError
        if self.leaf.x_columns is None:
            return None
        columns = numbers[:, self._x_indices(self.leaf)]
        if not np.isfinite(columns).all():
            row = int(np.argmax(~np.isfinite(columns).all(axis=1)))
            raise ValueError(f"row {row} lacks a value of {self.leaf.x_columns}, which the leaf needs; fill it in.")
        return np.ascontiguousarray(columns)

    def __getstate__(self) -> dict[str, Any]:
        # `lowered` contains addresses of compiled functions, which are not valid in another process
        return {name: value for name, value in vars(self).items() if name not in ("lowered", "_inclusion_by_seed")}

    @property
    def parts(self) -> ModelParts:
        """Parts of the model, for `from_parts`."""
        return ModelParts(*(getattr(self, name) for name in ModelParts._fields))

    @property
    def parts_in_file(self) -> ModelParts:
        """`parts` with leaf model and split prior in the form that a file stores."""
        return self.parts._replace(
            leaf=self.leaf.in_file(self.target), split_prior=self.split_prior.in_file(self.scales)
        )

    @classmethod
    def from_parts(cls, parts: ModelParts) -> Self:
        """Return the model with these ``parts``, which are not checked again."""
        model = cls.__new__(cls)
        for name, part in parts._asdict().items():
            setattr(model, name, part)
        model.shape = parts.split_prior.shape()
        model.rules = parts.split_prior.bind(parts.scales)
        return model

    def save(self, path: AnyPath) -> None:
        """Write the model to a netCDF file, for `load`; errors as of `SampledPosterior.save`."""
        write_parts({"model": self.parts_in_file}, path)

    def _merge(self, table: Table) -> MergedRows:
        """Merge rows of the training table that no split can separate, and return the merged rows."""
        # rows with equal codes and, for classes, labels; under a fixed tree those in the same leaf
        finest_cells = self.split_prior.finest_cells(table, self.columns)
        if finest_cells is None:
            return merge_rows(encode(table, self.columns, self.scales), self.leaf, self.target)
        merged_rows = merge_rows(finest_cells[None], self.leaf, self.target)
        of_row = merged_rows.unit_of_row
        representatives = table if of_row is None else Table(table.take(first_rows(of_row, merged_rows.rows.n_units)))
        return MergedRows(merged_rows.rows._replace(codes=encode(representatives, self.columns, self.scales)), of_row)

    @property
    def classes_(self) -> np.ndarray | None:
        """Sorted class labels (K,); None for a regression."""
        return self.target.classes

    @cached_property
    def counted_rows(self) -> np.ndarray:
        """Indices (m,) of the rows that a score counts: those of positive weight, and not in E if E fixes leaves."""
        counted = self.target.weights > 0.0
        if self.leaf.uses_estimation and self.target.estimation is not None:
            counted = counted & ~self.target.estimation
        return np.flatnonzero(counted)

    @cached_property
    def n_codes(self) -> np.ndarray:
        """Number of codes of each coordinate, (q,) int64."""
        return np.array([scale.n_codes for scale in self.scales], dtype=np.int64)

    @cached_property
    def natural_depth(self) -> int:
        """Upper bound on the depth of a tree that follows from the splits alone, without ``max_depth``."""
        return self.rules.natural_depth(self.units.n_units, self.n_codes[: self.n_features])

    @cached_property
    def prior_tables(self) -> PriorTables:
        """Tree prior as tables of log factors by depth, or by node of the fixed tree."""
        return tabulate_prior(self.tree_prior, self.natural_depth, self.shape)

    @cached_property
    def lowered(self) -> Lowered:
        """The model in the form that compiled code uses."""
        check_known(self.tree_prior, self.split_prior, self.leaf)
        rule = self.rules.rule(self.n_codes, self.columns)
        leaf = self.leaf.rule(self.target)
        return Lowered(self.units, self.prior_tables, rule, leaf, leaf)

    def unit_numbers(self, unit_indices: np.ndarray) -> np.ndarray:
        """Return feature values (m, p) that have the codes of the merged rows ``unit_indices`` (m,); NaN if missing."""
        # they are values from the interval of each code, and for nominal features the codes themselves. A leaf that
        # uses columns of the row needs `row_numbers`
        out = np.empty((len(unit_indices), self.n_features))
        for k in range(self.n_features):
            out[:, k] = self.unit_column(k, unit_indices)
        return out

    def unit_column(self, k: int, unit_indices: Any = slice(None)) -> np.ndarray:
        """Return the column (m,) of feature ``k`` in `unit_numbers`, by default of all merged rows."""
        codes = self.units.codes[k, unit_indices].astype(np.int64)
        if self.columns.is_nominal[k]:
            return codes.astype(np.float64)
        out = self.scales[k].numbers(codes)
        if k in self.columns.twins:
            # one coordinate has missing values lowest, the other highest
            c = self.n_features + self.columns.twins.index(k)
            second_code, scale = self.units.codes[c, unit_indices].astype(np.int64), self.scales[c]
            has_own_code = isinstance(scale, Scale) and len(scale.low)
            is_missing = np.isinf(scale.low[second_code]) if has_own_code else second_code != codes  # type: ignore[union-attr]
            out = np.where(is_missing, np.nan, out)
        return out

    def row_numbers(self, rows: np.ndarray) -> np.ndarray:
        """Return feature values (m, p) of the training rows with these indices (m,), as trees and leaves see them."""
        # columns that the leaf uses are the row's own. The others are values with the row's code, as in `unit_numbers`
        out = self.unit_numbers(rows if self.unit_of_row is None else self.unit_of_row[rows])
        if self.target.regressors is not None:
            out[:, self._x_indices(self.leaf)] = self.target.regressors[rows]
        return out

    @cached_property
    def weight_of_unit(self) -> np.ndarray:
        """Total weight (n_units,) of the training rows in each merged row, whatever their exposures."""
        if self.unit_of_row is None:
            return self.target.weights
        return np.bincount(self.unit_of_row, weights=self.target.weights, minlength=self.units.n_units)

    @cached_property
    def first_row_of_unit(self) -> np.ndarray:
        """Index (n_units,) of the first training row in each merged row."""
        if self.unit_of_row is None:
            return np.arange(self.n_rows)
        return first_rows(self.unit_of_row, self.units.n_units).astype(np.int64)

    def certificate_obstacle(self, *, sampled: bool = False) -> str | None:
        """Return the first reason why posteriors of this model have no certificate, and what to give instead, or None.

        `Posterior.certificate` refuses with this reason: something in the prior may depend on the counted rows, such as
        leaves, splits, classes, categories, missing values or weights. A FixedTree, given cuts, bounds and parameters
        are assumed not to depend on them. ``sampled`` is True for a certificate of draws, which do not determine the
        normalising constant of LeafPenalty. Cost O(n p) at most.

        Examples
        --------
        >>> model = TreeModel([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
        >>> model.certificate_obstacle().partition(";")[0]
        'DirichletMultinomial learns leaf values from every row, counted ones too'
        """
        check_flag("sampled", sampled)
        reason = _obstacle_in_leaf(self) or self.split_prior.use_of_rows or _obstacle_in_prior(self)
        reason = reason or _obstacle_in_classes(self) or _obstacle_in_columns(self)
        return reason or (unknown_constant(self) if sampled else None)

    def root_cell(self) -> PlainCell:
        """Return the cell that contains all rows."""
        return root_cell(self.units, self.columns, self.n_codes)

    def log_posterior(self, tree: Tree) -> float:
        """Return the unnormalised log posterior of ``tree`` in nats: ``log_prior + log_score``.

        Raises
        ------
        ValueError
            If the tree splits on a feature X lacks.
        """
        prior = self.log_prior(tree)
        return prior + self.log_score(tree) if prior > -math.inf else prior

    def log_prior(self, tree: Tree) -> float:
        """Return the log prior of ``tree`` in nats, ``-inf`` if it cannot occur; unnormalised under LeafPenalty.

        Under LocalCuts all thresholds that separate the rows of a cell in the same way are the same split.

        Parameters
        ----------
        tree : Tree
            A tree that splits on features of X, found by name if both the tree and X have names.

        Raises
        ------
        ValueError
            If the tree splits on a feature X lacks.

        Notes
        -----
        Plain NumPy, independent of both engines; O(n p) per level of the tree.
        """
        total = self.prior_tables.log_constant
        for number, cell, split in self.visit(tree):
            if tree.feature[number] == LEAF:
                total += self._log_stop(cell)
            elif split is None or self.is_forced(cell):
                return -math.inf
            else:
                total += self.log_split(cell)
                total += self.rules.log_probability(cell, split)
            if total == -math.inf:
                return total
        return float(total)

    def log_score(self, tree: Tree) -> float:
        """Return the score of ``tree`` in nats, for most leaf models the sum of its leaf scores.

        Raises
        ------
        ValueError
            If the tree splits on a feature that X lacks, if its thresholds separate rows that the model's splits
            cannot, or if the score of a leaf is not finite.
        """
        stats, leaves = [], []
        for number, cell, split in self.visit(tree):
            if tree.feature[number] == LEAF:
                if len(cell.index):
                    stats.append(cell.stats(self.leaf.n_stats(self.target)))
                    leaves.append((number, cell.n_rows))
            elif split is None:
                raise ValueError(f"node {number}, {tree.split(number)}: the model has no cut there to part its rows.")
        score = self.leaf.log_tree_score(np.array(stats), self.target)
        if not math.isfinite(score):
            leaf_scores = [self.leaf.log_tree_score(leaf_stats[None], self.target) for leaf_stats in stats]
            i = int(np.argmin(np.isfinite(leaf_scores)))
            raise not_finite(self, [], f"leaf {leaves[i][0]} of the tree", leaves[i][1], stats[i], leaf_scores[i])
        return score

    def is_forced(self, cell: PlainCell) -> bool:
        """Return True if a cell must be a leaf: at the depth limit, or without admissible split."""
        # A joint node of a fixed tree never must
        if self._is_joint(cell):
            return False
        return cell.depth >= self.prior_tables.depth_limit or not self.rules.has_split(cell)

    def log_split(self, cell: PlainCell) -> float:
        """Return the log prior factor of splitting a cell, in nats, without the probability R of the split."""
        # it is 0 for a joint node of a fixed tree
        return 0.0 if self._is_joint(cell) else self.tree_prior.log_split(cell.depth, self._node(cell))

    def categories_in(self, cell: PlainCell, feature: int) -> int:
        """Return the bit set of the categories of ``feature`` that a split of the cell divides."""
        # they are those in its box under `GridCuts`, otherwise those of its rows. It is 0 under a `FixedTree`
        if call_uncompiled(parts_box, self.split_prior):
            return int(cell.low[feature])
        return 0 if self.shape is not None else sum(1 << int(c) for c in np.unique(cell.codes(feature)))

    def _log_stop(self, cell: PlainCell) -> float:
        """Return the log prior factor of a leaf, in nats, by its cell; -inf for a joint node of a fixed tree."""
        if self._is_joint(cell):
            return -math.inf
        forced = self.is_forced(cell)
        return self.tree_prior.log_stop(cell.depth, self._node(cell), forced=forced, empty=len(cell.index) == 0)

    def _is_joint(self, cell: PlainCell) -> bool:
        """Return True if the cell is a joint node of a fixed tree, which is always split."""
        return self.shape is not None and bool(self.shape.is_joint[cell.node])

    def _node(self, cell: PlainCell) -> int:
        """Return the index of the node of the fixed tree that the cell is, or -1 under other split priors."""
        return -1 if self.shape is None else cell.node

    def visit(self, tree: Tree) -> Iterator[Visit]:
        """Yield the nodes of ``tree`` in preorder, with their cells and splits in codes."""
        # no node below one whose split the codes of the model cannot express, which has the split None, is visited
        tree = match_columns(tree, self.columns)
        check_tree(tree, self.n_features)
        todo = [(0, self.root_cell())]
        while todo:
            number, cell = todo.pop()
            split = None if tree.feature[number] == LEAF else coded_split(self, tree, number, cell)
            yield Visit(number, cell, split)
            if split is not None:
                left, right = self.rules.children(cell, split)
                todo += [(int(tree.right[number]), right), (int(tree.left[number]), left)]

    def __repr__(self) -> str:
        kind = "regression" if self.classes_ is None else f"{len(self.classes_)} classes"
        parts = f"tree_prior={self.tree_prior!r}, split_prior={self.split_prior!r}, leaf={self.leaf!r}"
        return f"TreeModel(n={self.n_rows}, p={self.n_features}, {kind}, {parts})"


MAX_TRIES = 100_000  # largest number of trees that rejection draws for one tree of a conditioned prior
INCLUSION_DRAWS = 100, 1000  # smallest and largest number of trees drawn from the prior for inclusion probabilities
MAX_INCLUSION_NODES = 10_000  # number of nodes in these trees beyond which no more than the smallest number are drawn


class Visit(NamedTuple):
    """A node of a tree with its cell, and its split in the codes of the model."""

    number: int  # index of the node in the tree
    cell: PlainCell
    # split of an inner node, None for a leaf or if the codes of the model cannot express the split
    split: PlainSplit | None


def coded_split(model: TreeModel, tree: Tree, node: int, cell: PlainCell) -> PlainSplit | None:
    """Return the split of an inner ``node`` of `tree` in the codes of the model, or None if they cannot express it."""
    # under local cuts a threshold may lie anywhere between two values in the cell
    k, categories = int(tree.feature[node]), int(tree.categories[node])
    if (categories >= 0) != model.columns.is_nominal[k]:
        return None
    if categories >= 0:
        return PlainSplit(k, -1, categories & ((1 << int(model.n_codes[k])) - 1))
    threshold, c = float(tree.threshold[node]), int(model.columns.coordinate(k, tree.default_left[node]))
    scale = model.scales[c]
    if np.isnan(threshold) and k not in model.columns.twins:
        # no training row lacks the value: all of them go to the side of known values
        threshold = -np.inf if tree.default_left[node] else np.inf
    cut = scale.cut_of(threshold)
    if cut is None and isinstance(scale, Scale) and call_uncompiled(parts_rows, model.split_prior):
        # a threshold among the values of one code parts nothing in a cell that lacks the code
        code = int(np.searchsorted(scale.low, threshold, side="right")) - 1
        cut = None if code in cell.codes(c) else code
    return None if cut is None else PlainSplit(c, cut, -1)


class GrownTree(NamedTuple):
    """A tree and the cells of its leaves, from left to right."""

    tree: Tree
    leaves: list[PlainCell]


def grow_plain_tree(model: TreeModel, decide: Callable[[PlainCell], PlainSplit | None]) -> GrownTree:
    """Return a tree grown in preorder, with its leaf cells. ``decide`` returns the split of a cell, None for a leaf."""
    nodes: list[list] = []
    leaves = []
    todo: list[tuple[PlainCell, int]] = [(model.root_cell(), -1)]
    while todo:
        cell, right_of = todo.pop()
        index = len(nodes)
        if right_of >= 0:
            nodes[right_of][3] = index
        split = decide(cell)
        if split is None:
            nodes.append([LEAF, 0.0, 0, 0, -1, False, (np.nan, np.nan)])
            leaves.append(cell)
            continue
        left, right = model.rules.children(cell, split)
        default_left, c, columns = 2 * left.n_rows >= cell.n_rows, split.feature, model.columns
        threshold, categories, between = _in_data_units(model, cell, split, default_left)
        if columns.other_coordinate[c] != c:
            default_left = c < columns.n_features
        nodes.append([columns.source[c], threshold, index + 1, 0, categories, default_left, between])
        todo += [(right, index), (left, -1)]
    features, thresholds, lefts, rights, masks, defaults, between = zip(*nodes, strict=True)
    arrays = (features, thresholds, lefts, rights, masks, defaults)
    ends = between if call_uncompiled(parts_rows, model.split_prior) else None
    return GrownTree(Tree(*arrays, columns=model.columns, classes=model.classes_, between=ends), leaves)


def _in_data_units(
    model: TreeModel, cell: PlainCell, split: PlainSplit, default_left: bool
) -> tuple[float, int, tuple[float, float]]:
    """Return threshold, categories that go left, and the values next to the threshold of a split, for a `Tree`."""
    unknown = np.nan, np.nan
    k = split.feature
    has_local_cuts = call_uncompiled(parts_rows, model.split_prior)
    if split.categories >= 0:
        present = sum(1 << int(c) for c in np.unique(cell.codes(k)))
        if not has_local_cuts:
            cut_to_box = model.shape is None and cell.low[k]
            return 0.0, split.categories & int(cell.low[k]) if cut_to_box else split.categories, unknown
        absent = ((1 << int(model.n_codes[k])) - 1) & ~present
        return 0.0, (split.categories & present) | (absent if default_left else 0), unknown
    cut, upper = split.cut, split.cut + 1
    if has_local_cuts:
        codes = cell.codes(k)
        n_codes, cut = int(model.n_codes[k]), int(codes[codes <= cut].max(initial=-1))
        upper = int(codes[codes > cut].min(initial=n_codes))
        cut = n_codes - 1 if upper == n_codes else cut
    arguments, scale = (np.array([cut]), np.array([upper])), model.scales[k]
    low, high = scale.between(*arguments)[0].tolist()
    return float(scale.threshold(*arguments)[0]), -1, (low, high)


def draw_prior(model: TreeModel, rng: np.random.Generator) -> GrownTree | None:
    """Draw a tree, with its leaf cells, from the prior; None if it is not a process, or rejection finds no tree."""
    # a conditioned process is drawn by rejecting trees, up to `MAX_TRIES`, that would split a cell at the depth limit
    # or without admissible split
    prior = model.tree_prior
    if not prior.is_process:
        return None
    conditioned = isinstance(prior, BranchingProcess) and prior.conditioned

    class TooDeep(Exception):
        pass

    def decide(cell: PlainCell) -> PlainSplit | None:
        forced = model.is_forced(cell)
        if forced and not conditioned:
            return None
        if rng.random() >= math.exp(model.log_split(cell)):
            return None
        if forced:
            raise TooDeep
        return model.rules.draw(rng, cell)

    for _ in range(MAX_TRIES if conditioned else 1):
        try:
            return grow_plain_tree(model, decide)
        except TooDeep:
            continue
    return None


def simulated_inclusion(model: TreeModel, draws: int | None, rng: Seed) -> np.ndarray:
    """Return the fraction (p,) of ``draws`` trees from the prior that split on each feature."""
    # by default as many as have `MAX_INCLUSION_NODES` nodes, within bounds. The stored array is returned later if `rng`
    # is an integer: do not write to it
    stored = model.__dict__.setdefault("_inclusion_by_seed", {})
    key = (draws, int(rng)) if is_integer(rng) else None  # type: ignore[arg-type]
    if key is not None and key in stored:
        return stored[key]
    generator, count, n, n_nodes = read_generator(rng), np.zeros(model.n_features), 0, 0
    while n < (INCLUSION_DRAWS[1] if draws is None else draws):
        if draws is None and n >= INCLUSION_DRAWS[0] and n_nodes > MAX_INCLUSION_NODES:
            break
        sampled_tree = draw_prior(model, generator)
        if sampled_tree is None:
            raise ValueError(
                f"prior_inclusion cannot draw trees of {model.tree_prior!r} split by split. Give exact.solve(model)."
                "prior_inclusion(), or draw trees by pt.simulate(model, rng)[0], each "
                "from a chain of 20,000 proposals, and count those that split on each feature."
            )
        feature = sampled_tree.tree.feature
        count[np.unique(feature[feature != LEAF])] += 1.0
        n, n_nodes = n + 1, n_nodes + len(feature)
    if key is not None:
        stored[key] = count / n
    return count / n


def coded_tree(model: TreeModel, tree: Tree, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the nodes (m,) of a tree in codes, of dtype CODED_NODE, and the statistics (m, n_stats) of their cells."""
    node = np.zeros(tree.n_nodes, dtype=CODED_NODE)
    stats = np.zeros((tree.n_nodes, int(model.leaf.n_stats(model.target))))
    node["feature"], node["categories"], node["right"] = LEAF, -1, tree.right
    inner = tree.feature != LEAF
    node["default_left"] = inner & tree.default_left
    is_valid = np.zeros(tree.n_nodes, dtype=bool)
    for visit in model.visit(tree):
        i, split = visit.number, visit.split
        is_valid[i] = split is not None or not inner[i]
        stats[i] = visit.cell.stats(stats.shape[1])
        if split is not None:
            node["feature"][i], node["categories"][i] = split.feature, split.categories
            if split.categories < 0:
                node["cut"][i], node["upper"][i] = _codes_beside_cut(model, visit)
    if not is_valid.all():
        raise ValueError(
            f"tree {number} splits at node {int(np.argmin(is_valid))} at a value without a cut in the model's coding; "
            "give trees of this model, or cuts among its thresholds."
        )
    return node, stats


def _codes_beside_cut(model: TreeModel, visit: Visit) -> tuple[int, int]:
    """Return the largest code left of the cut of a visited node, and the smallest right of it."""
    assert visit.split is not None
    cut = visit.split.cut
    if not call_uncompiled(parts_rows, model.split_prior):
        return cut, cut + 1
    codes = visit.cell.codes(visit.split.feature)
    codes_left, codes_right = codes[codes <= cut], codes[codes > cut]
    if not len(codes_left) or not len(codes_right):
        return cut, cut + 1
    return int(codes_left.max()), int(codes_right.min())
