"""What compiled code asks of a split prior's geometry, by its code: what a cell is, and what may part it.

No other compiled code knows the codes of `base`: a geometry of another code says here what it can do, and gives the
operations on cells their case, those of the sampler in `mcmc/state/splits.py`, those of the exact engine in
`exact/graph/build.py`.
"""

from collections.abc import Callable
from typing import Any

from ...core.compile.jit import jit
from .base import CYCLIC, DYADIC, FIXED, GRID, LOCAL, LOCAL_TRIVIAL, SplitRule


def told(ability: Callable[..., Any], rule: Any) -> Any:
    """What one of the functions below says of a rule, or of a split prior, without compiling it."""
    return getattr(ability, "py_func", ability)(rule)


@jit
def parts_rows(rule: SplitRule) -> bool:
    """Whether a cell is a set of rows: splits that part these alike are one, and their ends are its neighbours."""
    return rule.kind == LOCAL or rule.kind == LOCAL_TRIVIAL


@jit
def parts_box(rule: SplitRule) -> bool:
    """Whether a cell is a box, and any of the cuts inside, or parts of its categories, may part it."""
    return rule.kind == GRID


@jit
def halves_box(rule: SplitRule) -> bool:
    """Whether a cell is a box, and only the middle of a side may part it."""
    return rule.kind == DYADIC or rule.kind == CYCLIC


@jit
def has_box(rule: SplitRule) -> bool:
    """Whether a cell is a box, data or no data."""
    return rule.kind == GRID or rule.kind == DYADIC or rule.kind == CYCLIC


@jit
def follows_design(rule: SplitRule) -> bool:
    """Whether a cell is a node of a fixed tree, which has one split."""
    return rule.kind == FIXED


@jit
def has_one_way(rule: SplitRule) -> bool:
    """Whether a feature parts a cell in one way at most."""
    return rule.kind == DYADIC or rule.kind == CYCLIC or rule.kind == FIXED


@jit
def has_empty_sides(rule: SplitRule) -> bool:
    """Whether splits that leave all rows on one side are among those of a cell, whatever its rows."""
    return rule.kind == LOCAL_TRIVIAL


@jit
def takes_turns(rule: SplitRule) -> bool:
    """Whether the depth says which feature parts a cell."""
    return rule.kind == CYCLIC


@jit
def has_free_cuts(rule: SplitRule) -> bool:
    """Whether a cell has any of several cuts of a feature, both sides of which may be parted by further ones."""
    return rule.kind == LOCAL or rule.kind == GRID


@jit
def is_weighted(rule: SplitRule) -> bool:
    """Whether the ways of a feature are weighed by a function; else they are equally likely."""
    return rule.weigh != 0


@jit
def least_rows(rule: SplitRule) -> int:
    """Rows that each side needs."""
    return rule.min_leaf if rule.kind == LOCAL else 0
