"""Properties of the geometry of a split prior, by its code, for compiled code: what a cell is, and its splits.

No other compiled code knows the codes of `base`: a geometry of another code says here what it can do, and gives the
operations on cells their case, those of the sampler in `mcmc/state/splits.py`, those of the exact engine in
`exact/graph/build.py`.
"""

from collections.abc import Callable
from typing import Any

from ...core.compile.jit import jit
from .base import CYCLIC, DYADIC, FIXED, GRID, LOCAL, LOCAL_TRIVIAL, SplitRule


def told(ability: Callable[..., Any], rule: Any) -> Any:
    """Returns what one of the functions below returns for a rule, or for a split prior, without compiling it."""
    return getattr(ability, "py_func", ability)(rule)


@jit
def parts_rows(rule: SplitRule) -> bool:
    """Whether a cell is a set of rows: splits that part these alike are one, and their ends are its neighbours."""
    return rule.kind == LOCAL or rule.kind == LOCAL_TRIVIAL


@jit
def parts_box(rule: SplitRule) -> bool:
    """Whether a cell is a box whose splits are all the cuts inside it, or subsets of its categories."""
    return rule.kind == GRID


@jit
def halves_box(rule: SplitRule) -> bool:
    """Whether a cell is a box whose splits are at the middle of a side."""
    return rule.kind == DYADIC or rule.kind == CYCLIC


@jit
def has_box(rule: SplitRule) -> bool:
    """Whether a cell is a box, with or without rows."""
    return rule.kind == GRID or rule.kind == DYADIC or rule.kind == CYCLIC


@jit
def follows_design(rule: SplitRule) -> bool:
    """Whether a cell is a node of a fixed tree, which has one split."""
    return rule.kind == FIXED


@jit
def has_one_way(rule: SplitRule) -> bool:
    """Whether a cell has at most one split on each feature."""
    return rule.kind == DYADIC or rule.kind == CYCLIC or rule.kind == FIXED


@jit
def has_empty_sides(rule: SplitRule) -> bool:
    """Whether splits that leave all rows on one side are among those of a cell, whatever its rows."""
    return rule.kind == LOCAL_TRIVIAL


@jit
def takes_turns(rule: SplitRule) -> bool:
    """Whether the depth of a cell determines the feature of its splits."""
    return rule.kind == CYCLIC


@jit
def has_free_cuts(rule: SplitRule) -> bool:
    """Whether a cell has any of several cuts of a feature, both sides of which may be parted by further ones."""
    return rule.kind == LOCAL or rule.kind == GRID


@jit
def is_weighted(rule: SplitRule) -> bool:
    """Whether the splits on a feature are weighted by a function; otherwise they are equally likely."""
    return rule.weigh != 0


@jit
def least_rows(rule: SplitRule) -> int:
    """Smallest number of rows on each side."""
    return rule.min_leaf if rule.kind == LOCAL else 0
