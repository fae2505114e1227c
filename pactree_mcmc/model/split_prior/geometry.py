"""Properties of the geometries of split priors, as functions for compiled code.

No other compiled code depends on the codes (LOCAL, GRID, ...) of `base`. A new geometry needs its properties here, and
a case in the operations on cells: those of the sampler are in `mcmc/state/splits.py`, those of the exact engine in
`exact/graph/build.py`.
"""

from collections.abc import Callable
from typing import Any

from ...core.compile.jit import jit
from .base import CYCLIC, DYADIC, FIXED, GRID, LOCAL, LOCAL_TRIVIAL, SplitRule


def call_uncompiled(function: Callable[..., Any], rule: Any) -> Any:
    """Return ``function(rule)`` in Python, for a compiled function of this file; ``rule`` may be a split prior too."""
    return getattr(function, "py_func", function)(rule)


@jit
def parts_rows(rule: SplitRule) -> bool:
    """Return True if cells of a split prior are sets of rows, so that splits that separate them alike are the same."""
    return rule.kind == LOCAL or rule.kind == LOCAL_TRIVIAL


@jit
def parts_box(rule: SplitRule) -> bool:
    """Return True if cells of a split prior are boxes whose splits are all cuts inside, or subsets of categories."""
    # so it is for `GridCuts`, whose cuts need no rows on either side, not for cuts between rows (`LocalCuts`)
    return rule.kind == GRID


@jit
def halves_box(rule: SplitRule) -> bool:
    """Return True if cells of a split prior are boxes whose splits are at the middle of a side."""
    return rule.kind == DYADIC or rule.kind == CYCLIC


@jit
def has_box(rule: SplitRule) -> bool:
    """Return True if cells of a split prior are boxes, with or without rows; False for sets of rows and fixed trees."""
    return rule.kind == GRID or rule.kind == DYADIC or rule.kind == CYCLIC


@jit
def follows_design(rule: SplitRule) -> bool:
    """Return True if cells of a split prior are the nodes of a fixed tree, with one split each."""
    return rule.kind == FIXED


@jit
def has_one_split_per_feature(rule: SplitRule) -> bool:
    """Return True if under a split prior a cell has at most one split on each feature."""
    return rule.kind == DYADIC or rule.kind == CYCLIC or rule.kind == FIXED


@jit
def has_empty_sides(rule: SplitRule) -> bool:
    """Return True if under a split prior a cell also has the splits that send all rows to one side."""
    return rule.kind == LOCAL_TRIVIAL


@jit
def takes_turns(rule: SplitRule) -> bool:
    """Return True if under a split prior the depth of a cell determines the feature of its splits, in turn."""
    return rule.kind == CYCLIC


@jit
def has_free_cuts(rule: SplitRule) -> bool:
    """Return True if cells can have several cuts on a feature, and children keep those on their side."""
    return rule.kind == LOCAL or rule.kind == GRID


@jit
def is_weighted(rule: SplitRule) -> bool:
    """Return True if in a split prior a function weights the splits on a feature, False if they are equally likely."""
    return rule.weight_address != 0


@jit
def least_rows(rule: SplitRule) -> int:
    """Return the smallest number of rows that a split prior needs on each side of a split; 0 if there is none."""
    return rule.min_leaf if rule.kind == LOCAL else 0
