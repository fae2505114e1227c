"""The base of tree priors: the factors log_split and log_stop of a node (formula sheet, section 1)."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from ...core.checks import check_count

DEPTH_CEILING = 4_095
"""Depth at which a tree without ``max_depth`` stops; no tree reaches it."""


FACTORS = np.dtype(
    [
        ("log_split", np.float64),  # of splitting a cell that can be split; -inf at the depth limit
        ("log_stop", np.float64),  # of stopping there
        ("log_forced", np.float64),  # of stopping in a cell that cannot be split, or at the depth limit
    ]
)


class PriorTables(NamedTuple):
    """A tree prior as compiled code takes it; entry ``i`` is a depth, or a node of the fixed tree when ``by_node``."""

    table: np.recarray
    """Records of dtype FACTORS."""
    by_node: bool
    depth_limit: int
    """Depth at which every node stops."""
    empty_bonus: float
    """Added to the stop factor of a cell without rows."""
    log_constant: float
    """Added once a tree: minus the log normaliser."""


class FixedShape(NamedTuple):
    """Shape of a fixed tree, for priors whose factors differ from node to node.

    A *joint* node is part of the split of its parent, which has more than two children: it is split whenever it is
    reached, is never a leaf, and adds no depth.
    """

    depth: np.ndarray
    """(m,) int64: ancestors that are not joint."""
    left: np.ndarray
    right: np.ndarray
    is_leaf: np.ndarray
    joint: np.ndarray
    """(m,) bool."""

    def inner(self, limit: int) -> np.ndarray:
        """Which nodes (m,) of a tree no deeper than ``limit`` can be split."""
        return ~self.is_leaf & (self.joint | (self.depth < limit))


class TreePrior(Protocol):
    """What the tree priors of `known` offer: factors of nodes, one or many, by depth and number in the fixed tree."""

    @property
    def max_depth(self) -> int | None: ...
    def log_split(self, depth: Any, node: Any) -> Any: ...
    def log_stop(self, depth: Any, node: Any, *, forced: bool, empty: bool) -> Any: ...
    def log_constant(self, shape: FixedShape | None) -> float: ...
    def log_mass(self, n_splits: int, shape: FixedShape | None) -> float | None: ...


def tables(prior: TreePrior, natural_depth: int, shape: FixedShape | None) -> PriorTables:
    """Lower ``prior`` to tables, for trees no deeper than ``natural_depth``, the depth the splits allow."""
    limit = min(natural_depth, DEPTH_CEILING if prior.max_depth is None else prior.max_depth)
    joint: np.ndarray | bool
    if shape is None:
        depth, inner, joint = np.arange(limit + 1), np.arange(limit + 1) < limit, False
        node = np.full(limit + 1, -1)
    else:
        depth, inner, joint = shape.depth, shape.inner(limit), shape.joint
        node = np.arange(len(depth))
    table = np.empty(len(depth), dtype=FACTORS).view(np.recarray)
    table.log_split = np.where(joint, 0.0, np.where(inner, prior.log_split(depth, node), -np.inf))
    table.log_forced = np.where(joint, -np.inf, prior.log_stop(depth, node, forced=True, empty=False))
    free = prior.log_stop(depth, node, forced=False, empty=False)
    table.log_stop = np.where(inner & ~np.asarray(joint), free, table.log_forced)
    empty_bonus = prior.log_stop(0, 0, forced=True, empty=True) - prior.log_stop(0, 0, forced=True, empty=False)
    return PriorTables(table, shape is not None, limit, float(empty_bonus), prior.log_constant(shape))


def check_depth(max_depth: int | None) -> None:
    """Refuse a ``max_depth`` that is not None or an integer >= 0."""
    if max_depth is None:
        return
    check_count("max_depth", max_depth, 0, DEPTH_CEILING, or_none=True)
