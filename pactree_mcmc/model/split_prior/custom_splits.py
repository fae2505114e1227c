"""Split priors that weight the splits of another prior by a function of the caller."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numba import cloudpickle
from numba.core.errors import NumbaError

from ...core.checks import check_choice, check_count, check_flag, check_type, read_generator, read_numbers, repr_of
from ...core.compile.address import address_of
from ...core.texts import warn
from ...files.encoding import CODEC
from ...table.coding import AnyScale, encode
from ...table.columns import Columns, describe_columns
from ...table.reader import Table
from ..rows import PlainCell, PlainSplit, set_bits
from .base import (
    GRID,
    LARGEST_WEIGHT,
    Cut,
    SplitPrior,
    SplitRule,
    SplitsOutline,
    ends_of_codes,
    plain_weight,
    weight_at,
    weight_of_fields,
)
from .cuts import GridCuts, LocalCuts

WEIGHT_TOLERANCE = 1e-9  # relative difference allowed between the plain and the compiled weight
# largest numbers of cuts of a cell, and of rows of a table, that a check uses
MAX_CHECKED_CUTS, MAX_CHECKED_ROWS = 200, 1000
N_STORED_CUTS = 8  # largest number of cuts of a feature whose weights a file stores


class CustomSplits(SplitPrior):
    """Splits of another prior, weighted by a function of yours, for both engines.

    ``weight(cut)`` takes a `Cut`, which says where a cell is split: ``cut.feature``, the threshold ``cut.at``, the ends
    of the cell ``cut.low`` and ``cut.high``, the rows on either side, and more. It returns a number >= 0, and the
    probability R of the split is proportional to it; a split of weight 0 is excluded. It is compiled by numba, so it
    uses numbers and ``math``. Everything the engines need follows from it: which cells can be split, the normalising
    sums, draws, R of a given split. Nothing of the library is compiled again.

    Parameters
    ----------
    weight : function
        ``weight(cut)``, or ``weight(cut, params)`` if ``params`` are given; at most 1e100. An exception in it counts as
        NaN, and NaN stops the run. It must depend on its arguments alone.
    of : LocalCuts or GridCuts, optional
        The prior whose splits are weighted, with its ``min_leaf``, ``max_cuts``, ``cuts`` and ``feature_weights``. Not
        ``LocalCuts(trivial=True)``. Default ``LocalCuts()``.
    params : sequence of float, default ()
        Numbers for the weight, which reads them as ``params[0], ...``. Priors that differ in these alone use the same
        compiled weight.
    over : {"feature", "cell"}, default "feature"
        "feature": a feature is drawn by its feature weight among those with a split of positive weight, then one of
        its splits with probability proportional to ``weight``. "cell": a split is drawn from all splits of the cell,
        with probability proportional to the weight of its feature times ``weight``.
    by_depth : bool, default False
        If True, the weight may depend on ``cut.depth``, 0 at the root; otherwise that is always 0. Cells with equal
        rows, or boxes, are then distinguished by their depth. So the exact engine has more cells, by a factor of at
        most the number of depths.
    name : str, optional
        Name that identifies the prior in files. Default: that of ``weight``.

    Raises
    ------
    ValueError
        If an argument is out of range, a column has missing values, or, when a model is built,
        the compiled weight differs from the plain one or a weight is negative, above 1e100 or NaN.
    TypeError
        If ``weight`` is not a function.

    See Also
    --------
    load : Takes the split prior that a file needs as ``split_prior=``.
    testing.check_split_prior : Checks the whole prior, plain and compiled, on random cells.

    Notes
    -----
    The splits on a nominal feature are equally likely; with ``over="cell"`` the weight is computed once for all of
    them, with ``cut.nominal`` set, and each has this weight. The weights of all cuts on a feature in a cell are
    computed together, in time linear in their number. Kernel "default" is "local": the move *learned*, which
    fits a density of splits, needs splits that are equally likely.

    Files contain no code: `load` needs the prior. The weight is sent to the workers of an
    executor as a Python function. Two priors are equal (==) if they have the same weight function and equal other
    arguments.

    Examples
    --------
    Thresholds near 0.5, in units of the feature, are more probable:

    >>> import math, pactree_mcmc as pt
    >>> def near(cut, params):
    ...     return math.exp(-0.5 * ((cut.at - params[0]) / params[1]) ** 2)
    >>> splits = pt.CustomSplits(near, params=[0.5, 0.2])
    >>> splits.check([[0.1], [0.4], [0.6], [0.9]])
    """

    def __init__(
        self,
        weight: Callable[..., float],
        of: LocalCuts | GridCuts | None = None,
        *,
        params: Sequence[float] = (),
        over: str = "feature",
        by_depth: bool = False,
        name: str | None = None,
    ) -> None:
        weight = getattr(weight, "py_func", weight)
        if not callable(weight) or not hasattr(weight, "__code__"):
            raise TypeError(f"weight is {repr_of(weight)}; give a Python function of a cut.")
        self.weight = weight
        self.of = LocalCuts() if of is None else of
        check_type("of", self.of, LocalCuts | GridCuts, "LocalCuts or GridCuts, whose splits are weighted")
        if type(self.of) not in (LocalCuts, GridCuts) or getattr(self.of, "trivial", False):
            raise ValueError(f"of={repr_of(self.of)}; give GridCuts, or LocalCuts without trivial=True.")
        self.over = check_choice("over", over, ("feature", "cell"))
        self.by_depth = check_flag("by_depth", by_depth)
        self.params = read_numbers("params", params)
        if self.params.ndim != 1 or not np.isfinite(self.params).all():
            raise ValueError(f"params is {repr_of(params)}; give a sequence of finite numbers.")
        self.name = getattr(weight, "__name__", "weight") if name is None else name
        if not isinstance(self.name, str):
            raise TypeError(f"name is {repr_of(name)}; give a string.")
        self.feature_weights = self.of.feature_weights

    has_equal_weights = False

    @property
    def kind(self) -> int:  # type: ignore[override]
        return self.of.kind

    @property
    def min_leaf(self) -> int:  # type: ignore[override]
        return self.of.min_leaf

    @property
    def use_of_rows(self) -> str | None:
        return self.of.use_of_rows

    def scales(self, table: Table, columns: Columns) -> list[AnyScale]:
        if columns.twins:
            name = columns.names[columns.twins[0]]
            raise ValueError(f"column {name!r} has missing values, which weights of splits cannot see; fill them in.")
        return self.of.scales(table, columns)

    def natural_depth(self, n_units: int, n_codes: np.ndarray) -> int:
        return self.of.natural_depth(n_units, n_codes)

    def with_min_leaf(self, rows: int) -> CustomSplits:
        return CustomSplits(**self._arguments | {"of": self.of.with_min_leaf(rows)})

    def bind(self, scales: list[AnyScale]) -> BoundSplits:
        bound = BoundSplits(self, scales)
        for k in range(len(scales)):
            bound.check_weights_of(bound.cuts_of_all_codes(k))
        return bound

    def check(self, X: Any, *, nominal: Any = None, cells: int = 50, rng: Any = 0) -> None:
        """Compare the compiled weight with the plain one on random cells of some data, and check its values.

        Parameters
        ----------
        X : table of shape (n, p)
            Data as the prior is meant for. The first thousand rows are used.
        nominal : column names or indices, optional
            As for `TreeModel`.
        cells : int, default 50
            Number of random cells.
        rng : int, SeedSequence, Generator or None
            Source of randomness.

        Raises
        ------
        ValueError
            If the compiled weight of a cut differs from the plain one, is negative, above 1e100 or NaN, depends on the
            depth although ``by_depth`` is not set, or changes when it is computed again.

        Notes
        -----
        Computes the plain weights of the cuts of a cell ``cells`` times p times. `pt.testing.check_split_prior` checks
        that R sums to one over the splits of a cell, and that both engines agree.
        """
        table = Table(Table(X).take(np.arange(min(Table(X).n_rows, MAX_CHECKED_ROWS))))
        columns = describe_columns(table, nominal)
        scales = self.scales(table, columns)
        bound, generator = self.bind(scales), read_generator(rng)
        codes = encode(table, columns, scales).astype(np.int64)
        n = codes.shape[1]
        for _ in range(check_count("cells", cells)):
            rows = generator.choice(n, int(generator.integers(1, n + 1)), replace=False)
            depth = int(generator.integers(0, 8))
            for k in range(len(scales)):
                present, count = np.unique(codes[k, rows], return_counts=True)
                bound.check_weights_of(bound.cuts_of_codes(k, present, count, depth))

    def in_file(self, scales: list[AnyScale]) -> SplitsOutline:
        """Return the description that a file stores, with the weights of some cuts on ``scales``, as a fingerprint."""
        bound, weights = self.bind(scales), []
        for k in range(len(scales)):
            cuts = list(bound.cuts_of_all_codes(k))
            if cuts:
                places = np.unique(np.linspace(0, len(cuts) - 1, N_STORED_CUTS).astype(int))
                weights += [bound.weight_of_cut(cuts[i]) for i in places]
        return SplitsOutline(self.name, self.of, self.over, self.by_depth, self.params, np.array(weights))

    def mismatch(self, outline: SplitsOutline, scales: list[AnyScale]) -> str | None:
        """Return a text on the first difference from the prior that ``outline``, part of a file, describes, or None."""
        for name in ("name", "over", "by_depth"):
            if getattr(self, name) != getattr(outline, name):
                return f"its {name} is {getattr(self, name)!r}, that of the file {getattr(outline, name)!r}"
        if _stored_form(self.of) != _stored_form(outline.of):
            return f"its splits are those of {self.of!r}, in the file those of {outline.of!r}"
        if not np.array_equal(self.params, outline.params):
            return f"its params are {self.params.tolist()}, those of the file {outline.params.tolist()}"
        weights = self.in_file(scales).weights
        stored = outline.weights
        if weights.shape != stored.shape or not np.allclose(weights, stored, rtol=WEIGHT_TOLERANCE, atol=0.0):
            return "its weights differ from those that the file has for some cuts"
        return None

    @property
    def _arguments(self) -> dict[str, Any]:
        """Arguments by name from which an equal prior is built."""
        own = {"weight": self.weight, "of": self.of, "params": self.params.tolist(), "over": self.over}
        return own | {"by_depth": self.by_depth, "name": self.name}

    def __eq__(self, other: object) -> bool:
        return self._comparison_key() == other._comparison_key() if isinstance(other, CustomSplits) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._comparison_key())

    def _comparison_key(self) -> tuple:
        """Return a tuple that is the same for equal priors."""
        of, params = repr(_stored_form(self.of)), tuple(self.params.tolist())
        return self.weight, of, params, self.over, self.by_depth, self.name

    def __reduce__(self) -> tuple:
        return _unpickle_splits, (cloudpickle.dumps(self._arguments),)

    def __deepcopy__(self, memo: dict) -> CustomSplits:
        return self

    def __repr__(self) -> str:
        more = f", params={self.params.tolist()}" if len(self.params) else ""
        more += f", over={self.over!r}" if self.over != "feature" else ""
        more += ", by_depth=True" if self.by_depth else ""
        return f"CustomSplits({self.name}, of={self.of!r}{more})"


class BoundSplits(SplitPrior):
    """Weighted splits of a model: `CustomSplits` with the scales of the coordinates, which give values to cuts."""

    has_equal_weights = False

    def __init__(self, splits: CustomSplits, scales: list[AnyScale]) -> None:
        self.splits, self.of, self.values = splits, splits.of, scales
        self.kind, self.min_leaf, self.feature_weights = splits.kind, splits.min_leaf, splits.feature_weights
        self.ends = [ends_of_codes(scale) for scale in scales]

    def natural_depth(self, n_units: int, n_codes: np.ndarray) -> int:
        return self.of.natural_depth(n_units, n_codes)

    def rule(self, n_codes: np.ndarray, columns: Columns) -> SplitRule:
        plain = super().rule(n_codes, columns)
        plain.feature.ends = np.concatenate([[0], np.cumsum(n_codes)[:-1]])
        return plain._replace(
            weight_address=self._address,
            over_cell=self.splits.over == "cell",
            by_depth=self.splits.by_depth,
            params=self._params,
            ends=np.ascontiguousarray(np.concatenate(self.ends, axis=1)),
        )

    @property
    def _address(self) -> int:
        """Address of the compiled weight; a TypeError if the weight cannot be compiled."""
        try:
            has_params = len(self.splits.params) > 0
            return address_of(weight_of_fields(self.splits.weight, has_params), has_params)
        except NumbaError as error:
            raise TypeError(
                f"the weight of {self.splits!r} cannot be compiled; use numbers, the fields of the cut and math. The "
                f"error of numba: {str(error).strip()}"
            ) from error

    @property
    def _params(self) -> np.ndarray:
        """A zero and the parameters of the weight, as `SplitRule.params`."""
        return np.concatenate([[0.0], self.splits.params])

    def cuts_of_codes(self, k: int, present: np.ndarray, rows: np.ndarray, depth: int = 0) -> Iterator[Cut]:
        """Yield the cuts on coordinate ``k`` of a cell at this depth in which code `present[i]` has `rows[i]` rows."""
        # each side has `min_leaf` rows or more; under GridCuts all codes from the first to the last are in the cell,
        # and `rows` is ignored; two or more categories yield one `Cut` for all their splits
        ends, depth = self.ends[k], depth if self.splits.by_depth else 0
        if np.isnan(ends).any():
            n_splits = float((1 << (len(present) - 1)) - 1) if len(present) else 0.0
            if n_splits > 0.0:
                yield Cut(k, True, *(math.nan,) * 7, 0, n_splits, depth)
            return
        if len(present) == 0:
            return
        is_grid = self.kind == GRID
        codes = np.arange(present[0], present[-1] + 1) if is_grid else present
        rows = np.ones(len(codes)) if is_grid else rows
        below, places = np.cumsum(rows), self._cut_places(rows)
        for number, j in enumerate(places):
            a, b = float(ends[1, codes[j]]), float(ends[0, codes[j + 1]])
            middle = a / 2.0 + b / 2.0
            sides = (math.nan, math.nan) if is_grid else (float(below[j]), float(below[-1] - below[j]))
            low, high = float(ends[0, codes[0]]), float(ends[1, codes[-1]])
            threshold = middle if a <= middle < b else a
            yield Cut(k, False, threshold, a, b, low, high, *sides, number, float(len(places)), depth)

    def cuts_of_all_codes(self, k: int) -> Iterator[Cut]:
        """Yield the cuts on coordinate ``k`` of a cell with all codes, each in ``min_leaf`` rows, to check weights."""
        # the depth is 0, then also 1 if the weight depends on the depth
        n = self.values[k].n_codes
        for depth in range(2 if self.splits.by_depth else 1):
            yield from self.cuts_of_codes(k, np.arange(n), np.full(n, float(self.min_leaf)), depth)

    def _codes(self, cell: PlainCell, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the codes of coordinate ``k`` that splits of a cell can separate, and the number of rows of each."""
        if self.kind != GRID:
            return cell.rows_by_code(k)
        codes = np.array(set_bits(cell.low[k])) if cell.high[k] < 0 else np.arange(*cell.span(k))
        return codes, np.ones(len(codes))

    def _cut_places(self, rows: np.ndarray) -> np.ndarray:
        """Return all i such that a cut after the i-th code, that of ``rows[i]`` rows, leaves each side ``min_leaf``."""
        below = np.cumsum(rows)
        return np.flatnonzero((below[:-1] >= self.min_leaf) & (below[-1] - below[:-1] >= self.min_leaf))

    def _weights(self, cell: PlainCell, k: int) -> np.ndarray:
        """Return the weights of the cuts on coordinate ``k`` in a cell, by ascending cut; one if it is nominal."""
        return np.array([self.weight_of_cut(cut) for cut in self.cuts_of_codes(k, *self._codes(cell, k), cell.depth)])

    def weight_of_cut(self, cut: Cut) -> float:
        """Return the weight of a cut, computed in Python, or raise a ValueError if it lies outside 0 to 1e100."""
        # a nominal feature that is drawn before its split has weight 1, since the weight cancels
        if cut.nominal and self.splits.over == "feature":
            return 1.0
        weight = plain_weight(self.splits.weight, cut, self.splits.params)
        if not 0.0 <= weight <= LARGEST_WEIGHT:
            raise ValueError(f"{self.splits!r} weighs {cut} with {weight}; a weight lies between 0 and 1e100.")
        return weight

    def check_weights_of(self, cuts: Iterator[Cut]) -> None:
        """Raise a ValueError if the compiled and the Python weight of a cut differ, or if a weight is not allowed."""
        address, cut_list = self._address, list(cuts)
        places = np.unique(np.linspace(0, len(cut_list) - 1, MAX_CHECKED_CUTS).astype(int))
        for cut in [cut_list[i] for i in places] if cut_list else []:
            if cut.nominal and self.splits.over == "feature":
                continue
            plain = self.weight_of_cut(cut)
            compiled = float(weight_at(address, np.array([cut], dtype=np.float64), self._params))
            if not abs(plain - compiled) <= WEIGHT_TOLERANCE * max(plain, compiled):
                raise ValueError(
                    f"{self.splits!r} weighs {cut} with {compiled}, and plainly with {plain}: both must be the same "
                    "function, of the cut and the params alone."
                )
            if not self.splits.by_depth:
                deeper = plain_weight(self.splits.weight, cut._replace(depth=3), self.splits.params)
                if not abs(deeper - plain) <= WEIGHT_TOLERANCE * plain:
                    raise ValueError(f"{self.splits!r} depends on the depth of the cell; give by_depth=True.")

    def warn_of_root(self, root: PlainCell) -> None:
        """Warn if the weight function gives weight 0 to all splits of the cell ``root``, if it has any."""
        weight, has_cuts = self.coordinate_weights(root.columns), False
        for k in np.flatnonzero(weight > 0.0).tolist():
            for cut in self.cuts_of_codes(k, *self._codes(root, k), root.depth):
                if self.weight_of_cut(cut) > 0.0:
                    return
                has_cuts = True
        if has_cuts:
            warn(
                f"under {self.splits!r} every split of the root weighs 0, so that the only tree is a single leaf; "
                "check what the weight reads: under GridCuts cut.below and cut.above are the threshold."
            )

    def count_splits(self, cell: PlainCell, feature: int) -> int:
        weight = self._weights(cell, feature)
        if cell.high[feature] < 0:
            return self.of.count_splits(cell, feature) if len(weight) and weight[0] > 0.0 else 0
        return int((weight > 0.0).sum())

    def mass(self, cell: PlainCell, feature: int) -> float:
        weight = self._weights(cell, feature)
        if cell.high[feature] < 0:
            return float(self.of.count_splits(cell, feature) * weight.sum())
        return math.fsum(weight)

    def admits(self, cell: PlainCell, split: PlainSplit) -> bool:
        return self.of.admits(cell, split) and self._weight_of_split(cell, split) > 0.0

    def _weight_of_split(self, cell: PlainCell, split: PlainSplit) -> float:
        """Return the weight of a split of the cell that the prior ``of`` admits."""
        k = split.feature
        weight = self._weights(cell, k)
        if cell.high[k] < 0:
            return float(weight.sum())
        codes, rows = self._codes(cell, k)
        return float(weight[self._cut_places(rows) == int((codes <= split.cut).sum()) - 1].sum())

    def admissible(self, cell: PlainCell) -> np.ndarray:
        weight = self.coordinate_weights(cell.columns)
        mass = np.array([self.mass(cell, k) if w > 0.0 else 0.0 for k, w in enumerate(weight)])
        return np.where(mass > 0.0, weight * (mass if self.splits.over == "cell" else 1.0), 0.0)

    def has_split(self, cell: PlainCell) -> bool:
        return bool(self.admissible(cell).any())

    def log_probability(self, cell: PlainCell, split: PlainSplit) -> float:
        log_r = super().log_probability(cell, split)
        return log_r + math.log(self._weight_of_split(cell, split)) if log_r > -math.inf else log_r

    def draw_split_of(self, rng: np.random.Generator, cell: PlainCell, feature: int) -> PlainSplit:
        if cell.high[feature] < 0:
            return self.of.draw_split_of(rng, cell, feature)
        weight = self._weights(cell, feature)
        codes, rows = self._codes(cell, feature)
        return PlainSplit(feature, int(rng.choice(codes[self._cut_places(rows)], p=weight / weight.sum())), -1)


def _stored_form(of: Any) -> tuple[str, list]:
    """Return the text and the arrays that a file stores for the split prior ``of``, to compare two priors by them."""
    encoded = CODEC.encode(of)
    return encoded.text, [(name, array.tolist()) for name, array in sorted(encoded.arrays.items())]


@functools.lru_cache(maxsize=64)
def _unpickle_splits(parts: bytes) -> CustomSplits:
    """Return the prior of pickled keyword arguments. Equal bytes give the same object, so that it is compiled once."""
    return CustomSplits(**cloudpickle.loads(parts))
