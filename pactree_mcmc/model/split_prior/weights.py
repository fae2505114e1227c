"""Weights of splits: a function of the caller, compiled in a form that compiled code calls by its address."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np

from ...core.compile import COMPILES
from ...core.compile.address import address_of, call_at, call_at_with_params
from ...core.compile.jit import jit
from ...files.encoding import register_class
from ...table.coding import AnyScale, Scale
from .base import LARGEST_WEIGHT, SplitRule


class Cut(NamedTuple):
    """A split of a cell as the weight of `CustomSplits` sees it: between two neighbouring values of one feature."""

    feature: int
    """Column of X."""
    nominal: bool
    """True for a nominal feature. One weight is for all its splits, and the fields on values and rows are NaN."""
    at: float
    """The threshold: rows of at most this value go left."""
    below: float
    """Under LocalCuts the largest value in the cell that goes left, under GridCuts the threshold."""
    above: float
    """Under LocalCuts the smallest value in the cell that goes right, under GridCuts the threshold."""
    low: float
    """Under LocalCuts the smallest value in the cell, under GridCuts the lower end of its box, -inf if it is open."""
    high: float
    """Under LocalCuts the largest value in the cell, under GridCuts the upper end of its box, inf if it is open."""
    left: float
    """Number of rows of X that go left; NaN under GridCuts, whose splits do not depend on rows."""
    right: float
    """Number of rows of X that go right; NaN under GridCuts."""
    number: int
    """Index of the split among those on the feature, 0 for the lowest threshold."""
    n_splits: float
    """Number of splits of the cell on the feature. On a nominal one, those that leave too few rows count too."""
    depth: int
    """Depth of the cell if ``by_depth`` is set, else 0."""


# positions of the fields of a `Cut` in an array of ``N_FIELDS`` numbers
FEATURE, NOMINAL, AT, BELOW, ABOVE, LOW, HIGH, ROWS_LEFT, ROWS_RIGHT, NUMBER, N_SPLITS, DEPTH = range(12)
N_FIELDS = len(Cut._fields)


def compile_weight(function: Callable[..., float], with_params: bool) -> int:
    """Compile a weight ``function``, of a cut and, if ``with_params``, parameters. Return its memory address."""
    return address_of(_weight_of_fields(function, with_params), with_params)


@functools.lru_cache(maxsize=256)
def _weight_of_fields(function: Callable[..., float], with_params: bool) -> Callable[..., float]:
    """Return a weight ``function`` of a `Cut` as one of the array of its fields, its length and, if any, parameters."""
    if not COMPILES:
        if with_params:
            return lambda s, n, params: plain_weight(function, cut_from_fields(s), params)
        return lambda s, n: plain_weight(function, cut_from_fields(s), np.empty(0))
    inner = numba.njit(error_model="numpy")(function)

    @numba.njit(error_model="numpy")
    def cut_at(s):
        return Cut(int(s[0]), s[1] > 0.0, s[2], s[3], s[4], s[5], s[6], s[7], s[8], int(s[9]), s[10], int(s[11]))

    def without(s, n):
        return 1.0 * inner(cut_at(s))

    def with_them(s, n, params):
        return 1.0 * inner(cut_at(s), params)

    return with_them if with_params else without


def cut_from_fields(s: np.ndarray) -> Cut:
    """Return the `Cut` whose fields are the numbers ``s`` (N_FIELDS,), in the order of `Cut`."""
    at, below, above, low, high, left, right = (float(x) for x in s[2:9])
    ends = (at, below, above, low, high, left, right)
    return Cut(int(s[0]), bool(s[1] > 0.0), *ends, int(s[9]), float(s[10]), int(s[11]))


def plain_weight(function: Callable[..., float], cut: Cut, params: np.ndarray) -> float:
    """Return the weight of a cut by the user's ``function``, in Python; NaN after a ValueError or ArithmeticError."""
    # without parameters the function is called with the cut alone
    try:
        with np.errstate(all="ignore"):
            return float(function(cut, np.array(params)) if len(params) else function(cut))
    except (ValueError, ArithmeticError):
        # as in compiled code, where math.log(-1.0) is NaN
        return math.nan


@jit
def new_cut(rule: SplitRule, k: int, n_splits: float, depth: int) -> np.ndarray:
    """Return the fields (1, N_FIELDS) of a `Cut` that all cuts, or nominal splits, on coordinate ``k`` share."""
    # `depth` is stored as 0 unless the weight depends on it
    out = np.full((1, N_FIELDS), math.nan)
    out[0, FEATURE], out[0, NOMINAL] = rule.feature[k].turn, rule.feature[k].nominal
    out[0, NUMBER], out[0, N_SPLITS], out[0, DEPTH] = 0.0, n_splits, depth if rule.by_depth else 0
    return out


@jit
def set_cell_ends(rule: SplitRule, out: np.ndarray, k: int, first: int, last: int) -> None:
    """Write the ends LOW and HIGH of a cell, in units of the feature, to ``out``, the fields (1, N_FIELDS) of a cut."""
    first_column = rule.feature[k].ends
    out[0, LOW], out[0, HIGH] = rule.ends[0, first_column + first], rule.ends[1, first_column + last]


@jit
def weight_between_codes(rule: SplitRule, out: np.ndarray, k: int, cut: int, upper: int, number: int) -> float:
    """Return the weight of the cut with index ``number`` on coordinate ``k``, between the codes ``cut`` and `upper`."""
    first_column = rule.feature[k].ends
    below, above = rule.ends[1, first_column + cut], rule.ends[0, first_column + upper]
    middle = below / 2.0 + above / 2.0
    out[0, AT] = middle if below <= middle and middle < above else below
    out[0, BELOW], out[0, ABOVE], out[0, NUMBER] = below, above, number
    return checked_weight(rule, out)


@jit
def checked_weight(rule: SplitRule, cut: np.ndarray) -> float:
    """Return the weight of a cut, its fields (1, N_FIELDS), by the function in the split prior ``rule``."""
    weight = weight_at(rule.weight_address, cut, rule.params)
    if not (weight >= 0.0 and weight <= LARGEST_WEIGHT):
        raise ValueError(
            "CustomSplits: the weight of a split is negative, above 1e100 or not a number; check(X) says of which one."
        )
    return weight


@jit
def weight_at(address: int, cut: np.ndarray, params: np.ndarray) -> float:
    """Return the weight of a cut with fields (1, N_FIELDS), from the function at ``address``, without a check."""
    zero, one, n = np.int64(0), np.int64(1), np.int64(N_FIELDS)
    if len(params) > 1:
        return call_at_with_params(address, cut, zero, zero, n, params, one)
    return call_at(address, cut, zero, zero, n)


@jit
def nominal_split_weight(rule: SplitRule, k: int, n_splits: float, depth: int) -> float:
    """Return the weight of each split on a nominal coordinate ``k``; 1 if the feature is drawn first, as it cancels."""
    # 1 if the feature is drawn first, as the weight cancels
    return checked_weight(rule, new_cut(rule, k, n_splits, depth)) if rule.over_cell and n_splits > 0.0 else 1.0


@register_class
class SplitsOutline(NamedTuple):
    """Description of a `CustomSplits` prior in a file, which does not contain a weight function of the user."""

    name: str
    of: Any  # split prior whose splits are weighted
    over: str
    by_depth: bool
    params: np.ndarray
    weights: np.ndarray  # (m,): the weights of some cuts in the range of the data


def ends_of_codes(scale: AnyScale) -> np.ndarray:
    """Return the smallest and the largest value of each code of a scale, (2, n_codes); NaN for a nominal feature."""
    # values of the data under LocalCuts, cuts under GridCuts, with infinite outer ends, as for one category
    assert isinstance(scale, Scale)
    if len(scale.low):
        return np.array([scale.low, scale.high])
    if len(scale.cuts) + 1 != scale.n_codes:
        return np.full((2, scale.n_codes), np.nan)
    return np.array([np.append(-np.inf, scale.cuts), np.append(scale.cuts, np.inf)])
