"""Implementation of `check_leaf`, which compares the plain and the compiled form of a leaf model on random cells."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..core.checks import check_count, check_number, read_array, read_generator, repr_of
from ..model import CustomLeaf, TreeModel
from ..model.leaf.base import Leaf
from ..model.leaf.compiled import leaf_score
from ..model.split_prior.fixed_tree import kd_tree

MIN_ROWS, MAX_CELLS = 8, 100_000  # smallest number of rows of y, and largest number of cells


class LeafError(AssertionError):
    """Error for a leaf model that violates its definition."""


class LeafReport(NamedTuple):
    """The result of `check_leaf` for a leaf model."""

    leaf: Leaf
    """The leaf model with every parameter set."""
    n_cells: int
    """Number of cells tested."""
    max_difference: float
    """Largest difference of plain and compiled scores, relative to the larger of the score and 1."""
    offered: tuple[str, ...]
    """Which of the optional parts were tested: "value", "log_density", "draw"; of a CustomLeaf "cdf" and "variance"."""


def check_leaf(
    leaf: Leaf, y: Any = None, *, sample_weight: Any = None, n_cells: int = 60, tolerance: float = 1e-9, rng: Any = 0
) -> LeafReport:
    """Test a leaf model on random cells against its definition.

    Statistics must be sums over rows. The plain score must agree with the compiled one, be finite, and be 0 in a cell
    without rows. The score of a tree must be the sum over its leaves, unless ``has_additive_score`` is False.
    Probabilities must sum to 1, draws be finite, and the predictive density of a row be the difference it makes to the
    score. Of a `CustomLeaf` all that its method ``check`` tests is tested too. Not compared with the score are the
    means, the variances and the distribution of the draws.

    Parameters
    ----------
    leaf : Leaf
        Any leaf model, with parameters given or not.
    y : array of shape (n,) or as the leaf takes it, optional
        Data for the cells, n >= 8. Default: 40 labels of three classes, or small counts, among them 0, for leaves of
        numbers.
    sample_weight : array of shape (n,), optional
        Weights of the rows.
    n_cells : int, default 60
        Number of random cells, >= 1, from single rows to all rows; the empty cell is tested in addition.
    tolerance : float, default 1e-9
        Difference of two scores, relative to the larger of the score and 1, that is attributed to rounding, > 0.
    rng : int, Generator or None, default 0
        Source of randomness for the cells.

    Returns
    -------
    LeafReport

    Raises
    ------
    LeafError
        An AssertionError with the statistics of the cell, the value found and the value required.
    TypeError
        If ``leaf`` is not a Leaf, or is one that has no compiled form.
    ValueError
        If an argument is out of range, ``y`` does not suit the leaf, or all statistics are 0, so nothing was checked.

    Notes
    -----
    Compiling the score takes some seconds the first time.

    Examples
    --------
    >>> import pactree_mcmc as pt
    >>> pt.testing.check_leaf(pt.DirichletMultinomial(0.5)).offered
    ('value', 'log_density', 'draw')
    """
    if not isinstance(leaf, Leaf):
        raise TypeError(f"leaf is {repr_of(leaf)}; give a leaf, such as pt.DirichletMultinomial().")
    if leaf.x_columns is not None:
        raise ValueError(f"{leaf!r} predicts by columns of X; give a leaf that depends on rows by their sums alone.")
    check_count("n_cells", n_cells, 1, MAX_CELLS)
    check_number("tolerance", tolerance, "a relative difference, > 0", 5e-324)
    generator = read_generator(rng)
    is_default = y is None
    if is_default:
        y = np.arange(40) % 7 % 3 if leaf.is_classifier else generator.poisson(3.0, 40).astype(float)
    shape = read_array("y", y).shape
    if len(shape) == 0 or shape[0] < MIN_ROWS:
        raise ValueError(f"y has shape {shape}; give at least {MIN_ROWS} rows.")
    n = shape[0]
    parts: dict[str, Any] = {"leaf": leaf, "sample_weight": sample_weight}
    X = np.arange(float(n))[:, None]
    if leaf.uses_estimation:
        parts |= {"estimation": np.arange(n) % 2 == 0, "split_prior": kd_tree(X[::2], 2)}
    try:
        model = TreeModel(X, y, **parts)
    except ValueError as error:
        if not is_default:
            raise
        raise ValueError(f"{error} These are the default y of check_leaf, small counts or labels; pass y=.") from error
    if isinstance(leaf, CustomLeaf):
        try:
            leaf.check(y, cells=int(n_cells), rng=generator)
        except ValueError as error:
            raise LeafError(str(error)) from error
    return _LeafCheck(model, int(n_cells), float(tolerance), generator).report()


class _LeafCheck:
    """Checks of the leaf model of one model on random cells."""

    def __init__(self, model: TreeModel, n_cells: int, tolerance: float, rng: np.random.Generator) -> None:
        self.model, self.tolerance, self.rng = model, tolerance, rng
        self.leaf, self.target, self.rule = model.leaf, model.target, model.lowered.leaf
        # if all leaves share a variance, both scores are computed given the same value of it
        has_shared_variance = hasattr(self.leaf, "with_variance")
        self.plain = self.leaf.with_variance(float(self.rule.params[0])) if has_shared_variance else self.leaf
        self.rows = self.leaf.row_stats(self.target)
        self.cells = [self._random_rows() for _ in range(n_cells)]
        self.max_difference = 0.0

    def report(self) -> LeafReport:
        """Return the report, or raise a LeafError."""
        self._check_rows()
        stats = np.array([self.rows[rows].sum(axis=0) for rows in self.cells])
        if not stats.any():
            raise ValueError("the statistics of all cells are 0: nothing was checked; give other y or sample_weight.")
        for cell in stats:
            self._check_score(cell)
        empty = np.zeros(self.rows.shape[1])
        for name, score in zip(("plain", "compiled"), self._scores(empty), strict=True):
            if not abs(score) < 1e-12:
                raise LeafError(f"the {name} score of a cell without rows is {score!r}; it must be 0.")
        if self.leaf.has_additive_score:
            tree_score = self.leaf.log_tree_score(stats, self.target)
            leaf_scores = sum(self.leaf.log_score(cell, self.target) for cell in stats)
            if not np.isclose(tree_score, leaf_scores, rtol=self.tolerance, atol=self.tolerance):
                total = f"{leaf_scores!r} in all"
                raise LeafError(f"log_tree_score is {tree_score!r} for leaves whose log_score is {total}.")
        tested = [name for name in ("value", "log_density", "draw") if self._check_optional(name, stats)]
        tested += [name for name in ("cdf", "variance") if self._has_function(name)]
        return LeafReport(self.leaf, len(stats) + 1, self.max_difference, tuple(tested))

    def _random_rows(self) -> np.ndarray:
        """Return the indices of a random set of rows, of at most three rows half of the time."""
        n = len(self.rows)
        size = int(self.rng.integers(1, n + 1)) if self.rng.random() < 0.5 else int(self.rng.integers(1, 4))
        return np.sort(self.rng.choice(n, size, replace=False))

    def _check_rows(self) -> None:
        """Raise a LeafError if the statistics of the rows do not add up to those of the root."""
        shape = (self.model.n_rows, self.leaf.n_stats(self.target))
        if self.rows.shape != shape:
            raise LeafError(f"row_stats has shape {self.rows.shape}; (rows, n_stats) is {shape}.")
        if not np.isfinite(self.rows).all():
            raise LeafError("row_stats returns entries that are not finite; return finite statistics.")
        root = self.model.root_cell().stats(shape[1])
        if not np.allclose(root, self.rows.sum(axis=0), rtol=1e-12, atol=1e-12):
            raise LeafError(f"the statistics of all rows are {root}, and those of rows add up to {self.rows.sum(0)}")

    def _scores(self, cell: np.ndarray) -> tuple[float, float]:
        """Return the score of a cell with statistics ``cell`` (n_stats,), by Python and by compiled code, nats."""
        return float(self.plain.log_score(cell, self.target)), float(leaf_score(self.rule, cell[None].copy(), 0))

    def _check_score(self, cell: np.ndarray) -> None:
        """Raise a LeafError if the plain and the compiled score of a cell differ or are not finite."""
        plain, compiled = self._scores(cell)
        if not np.isfinite(plain) or not np.isfinite(compiled):
            raise LeafError(f"the score of a cell is {plain!r}, compiled {compiled!r}; its statistics: {cell.tolist()}")
        difference = abs(plain - compiled) / max(abs(plain), abs(compiled), 1.0)
        self.max_difference = max(self.max_difference, difference)
        if difference > self.tolerance:
            raise LeafError(
                f"log_score is {plain!r} and the compiled score {compiled!r}, {compiled - plain:.3g} more, of a cell "
                f"with statistics {cell.tolist()}."
            )

    def _check_optional(self, name: str, stats: np.ndarray) -> bool:
        """Check the leaf's method ``name`` on ``stats`` (cells, n_stats). Return False if the leaf lacks it."""
        try:
            getattr(self, f"_check_{name}")(stats)
        except (NotImplementedError, ValueError) as error:
            if isinstance(error, NotImplementedError) or not (name == "value" or self._has_function(name)):
                return False
            raise LeafError(str(error)) from error
        return True

    def _has_function(self, name: str) -> bool:
        return isinstance(self.leaf, CustomLeaf) and self.leaf.has_function(name)

    def _check_value(self, stats: np.ndarray) -> None:
        """Raise a LeafError if predictions of cells with `stats` (m, n_stats) have a wrong shape or are not finite."""
        if not self.leaf.predicts:
            raise NotImplementedError
        value = np.asarray(self.leaf.value(stats, self.target))
        if value.ndim != 2 or len(value) != len(stats) or not np.isfinite(value).all():
            raise LeafError(f"value has shape {value.shape} for {len(stats)} cells; it must be finite, (cells, ...).")
        if self.leaf.is_classifier:
            classes = len(self.model.classes_)
            if value.shape[1] != classes or (value < 0.0).any() or not np.allclose(value.sum(axis=1), 1.0):
                raise LeafError(f"value, {value[0].tolist()}, is not a distribution over {classes} classes.")

    def _check_log_density(self, stats: np.ndarray) -> None:
        """Raise a LeafError if the predictive density of a row is not the difference that it makes to the score."""
        if not self.leaf.has_likelihood:
            raise NotImplementedError
        rows = self.rng.integers(0, len(self.rows), len(stats))
        y, weights = self.target.values[rows], np.asarray(self.target.weights)[rows]
        density = np.asarray(self.leaf.log_density(stats, y, self.target, weights))
        if density.shape != (len(stats),) or np.isnan(density).any():
            raise LeafError(f"log_density has shape {density.shape} for {len(stats)} cells, or is NaN.")
        if self.leaf.uses_estimation or not self.leaf.has_additive_score:
            # only the shape was checked
            raise NotImplementedError
        for cell, row, log_density in zip(stats, rows, density, strict=True):
            gain = self._scores(cell + self.rows[row])[0] - self._scores(cell)[0]
            if not np.isclose(log_density, gain, rtol=1e-7, atol=1e-7):
                raise LeafError(
                    f"log_density is {log_density!r} of a row by which log_score gains {gain!r}, in a cell with "
                    f"statistics {cell.tolist()}; the row adds {self.rows[row].tolist()}."
                )

    def _check_draw(self, stats: np.ndarray) -> None:
        """Raise a LeafError if draws in random ones of the cells (rows of ``stats``) are too few or not finite."""
        draws = np.asarray(self.leaf.draw(self.rng, stats, self.rng.integers(0, len(stats), 50), self.target))
        if len(draws) != 50:
            raise LeafError(f"draw returns {len(draws)} values for 50 leaves.")
        if draws.dtype.kind == "f" and not np.isfinite(draws).all():
            raise LeafError("draw returns values that are not finite.")
