"""Properties of the geometry of a split prior by its code, for compiled code.

No other compiled code knows the codes of `base`: a geometry of another code gets its properties here, and a case in
the operations on cells, those of the sampler in `mcmc/state/splits.py`, those of the exact engine in
`exact/graph/build.py`.
"""

from collections.abc import Callable
from typing import Any

from ...core.compile.jit import jit
from .base import CYCLIC, DYADIC, FIXED, GRID, LOCAL, LOCAL_TRIVIAL, SplitRule


def told(ability: Callable[..., Any], rule: Any) -> Any:
    """Return the value of one of the functions below for a rule, or for a split prior, without compiling it."""
    return getattr(ability, "py_func", ability)(rule)


@jit
def parts_rows(rule: SplitRule) -> bool:
    """Return True if a cell is a set of rows, so that splits that separate them in the same way are one split."""
    return rule.kind == LOCAL or rule.kind == LOCAL_TRIVIAL


@jit
def parts_box(rule: SplitRule) -> bool:
    """Return True if a cell is a box whose splits are all the cuts inside it, or subsets of its categories."""
    return rule.kind == GRID


@jit
def halves_box(rule: SplitRule) -> bool:
    """Return True if a cell is a box whose splits are at the middle of a side."""
    return rule.kind == DYADIC or rule.kind == CYCLIC


@jit
def has_box(rule: SplitRule) -> bool:
    """Return True if a cell is a box, with or without rows."""
    return rule.kind == GRID or rule.kind == DYADIC or rule.kind == CYCLIC


@jit
def follows_design(rule: SplitRule) -> bool:
    """Return True if a cell is a node of a fixed tree, which has one split."""
    return rule.kind == FIXED


@jit
def has_one_way(rule: SplitRule) -> bool:
    """Return True if a cell has at most one split on each feature."""
    return rule.kind == DYADIC or rule.kind == CYCLIC or rule.kind == FIXED


@jit
def has_empty_sides(rule: SplitRule) -> bool:
    """Return True if a cell also has the splits that send all rows to one side."""
    return rule.kind == LOCAL_TRIVIAL


@jit
def takes_turns(rule: SplitRule) -> bool:
    """Return True if the depth of a cell determines the feature of its splits."""
    return rule.kind == CYCLIC


@jit
def has_free_cuts(rule: SplitRule) -> bool:
    """Return True if a cell can have several cuts of a feature, and its children the others of them."""
    return rule.kind == LOCAL or rule.kind == GRID


@jit
def is_weighted(rule: SplitRule) -> bool:
    """Return True if a function weights the splits on a feature, False if they are equally likely."""
    return rule.weigh != 0


@jit
def least_rows(rule: SplitRule) -> int:
    """Return the smallest number of rows on each side."""
    return rule.min_leaf if rule.kind == LOCAL else 0
