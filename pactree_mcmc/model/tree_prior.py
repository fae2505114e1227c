"""Tree priors, by the log factors log_split and log_stop of a node (formulas, section 1)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..core import portable
from ..core.checks import LARGEST_BELOW_ONE, check_count, check_flag, check_number, read_numbers, set_field
from ..core.compile.jit import jit
from ..core.texts import fields_repr
from ..files.encoding import register_class

DEPTH_CEILING = 4_095  # depth limit of trees without ``max_depth``, which no tree reaches in practice

# record of the log prior factors of a node
FACTORS = np.dtype(
    [
        ("log_split", np.float64),  # of an inner node; -inf at the depth limit
        ("log_stop", np.float64),  # of a leaf whose cell could be split
        ("log_forced", np.float64),  # of a leaf whose cell cannot be split, or at the depth limit
    ]
)


class PriorTables(NamedTuple):
    """A tree prior as tables of log factors, for compiled code."""

    table: np.recarray  # (m,) records of dtype FACTORS, by depth, or by node of the fixed tree if ``by_node``
    by_node: bool  # True if the factors are by node of the fixed tree, False if by depth
    depth_limit: int  # depth at which every node is a leaf
    empty_bonus: float  # term added to the log stop factor of a cell without rows
    log_constant: float  # term added to the log prior of every tree: minus the log of the normalising sum


class FixedShape(NamedTuple):
    """Shape of a fixed tree, for priors whose factors differ from node to node."""

    # a *joint* node is part of the split of its parent, which has more than two children: it is split whenever it is
    # reached, is never a leaf, and adds no depth
    depth: np.ndarray  # (m,) int64: number of ancestors that are not joint
    left: np.ndarray  # (m,) int32: index of the left child
    right: np.ndarray  # (m,) int32: index of the right child
    is_leaf: np.ndarray  # (m,) bool: True for the leaves of the fixed tree
    is_joint: np.ndarray  # (m,) bool: True for joint nodes

    def inner(self, limit: int) -> np.ndarray:
        """Return a mask (m,) of nodes that can be split if no tree is deeper than ``limit``, joint ones included."""
        return ~self.is_leaf & (self.is_joint | (self.depth < limit))


class TreePrior:
    """Base class of tree priors: log factors of nodes by their `depth`, or by their `node` of the fixed tree."""

    # `node` is -1 if there is no fixed tree. The prior of a tree is the product of the factors of its nodes, the
    # exponential of `log_constant`, and R of its splits
    max_depth: int | None
    # True if the prior is a branching process, whose trees can be drawn from the root down
    is_process: ClassVar[bool] = True

    def __repr__(self) -> str:
        return fields_repr(self)

    def __post_init__(self) -> None:
        if self.max_depth is not None:
            check_count("max_depth", self.max_depth, 0, DEPTH_CEILING, or_none=True)

    def log_split(self, depth: Any, node: Any) -> Any:
        """Return the log prior factor, in nats, of a node that can be split, and is; R of the split is not in it."""
        # ``node`` is the index in the fixed tree, or -1 without one. It and ``depth`` may be arrays
        raise NotImplementedError

    def log_stop(self, depth: Any, node: Any, *, forced: bool, empty: bool) -> Any:
        """Return the log prior factor, in nats, of leaves at ``depth``, or with indices ``node`` in the fixed tree."""
        # ``forced`` is True if its cell cannot be split or lies at ``max_depth``, ``empty`` if the cell has no rows
        raise NotImplementedError

    def log_constant(self, shape: FixedShape | None) -> float:
        """Return minus the log of the sum that normalises the prior; 0 if it is normalised, or left unnormalised."""
        # ``shape`` is that of the fixed tree, or None, here and below
        return 0.0

    def log_mass(self, n_splits: int, shape: FixedShape | None) -> float | None:
        """Return the log of the sum of the prior over all trees, or None if it depends on the cells."""
        # ``n_splits`` is a lower bound on the number of splits above a cell that has no splits
        return 0.0

    def check(self, shape: FixedShape | None) -> None:
        """Raise a ValueError if array parameters do not fit the fixed tree, or the depth limit if there is none."""


def tabulate_prior(prior: TreePrior, natural_depth: int, shape: FixedShape | None) -> PriorTables:
    """Return ``prior`` as tables of log factors by depth, or by node of the fixed tree with this ``shape``."""
    limit = min(natural_depth, DEPTH_CEILING if prior.max_depth is None else prior.max_depth)
    is_joint: np.ndarray | bool
    if shape is None:
        depth, may_split, is_joint = np.arange(limit + 1), np.arange(limit + 1) < limit, False
        node = np.full(limit + 1, -1)
    else:
        depth, may_split, is_joint = shape.depth, shape.inner(limit), shape.is_joint
        node = np.arange(len(depth))
    table = np.empty(len(depth), dtype=FACTORS).view(np.recarray)
    table.log_split = np.where(is_joint, 0.0, np.where(may_split, prior.log_split(depth, node), -np.inf))
    table.log_forced = np.where(is_joint, -np.inf, prior.log_stop(depth, node, forced=True, empty=False))
    free = prior.log_stop(depth, node, forced=False, empty=False)
    table.log_stop = np.where(may_split & ~np.asarray(is_joint), free, table.log_forced)
    empty_bonus = prior.log_stop(0, 0, forced=True, empty=True) - prior.log_stop(0, 0, forced=True, empty=False)
    return PriorTables(table, shape is not None, limit, float(empty_bonus), prior.log_constant(shape))


@register_class
@dataclass(frozen=True, eq=False, repr=False)
class BranchingProcess(TreePrior):
    """A branching process: a node splits with probability rho (Blanchard 1999, sections 4 and 6).

    Stopped (the default): a node at ``max_depth``, or in a cell without admissible split, is a leaf with
    probability one. Conditioned: the unstopped process given that no node is deeper than ``max_depth``; every leaf
    has the factor ``1 - rho``, and the prior is divided by ``z``: ``z_0 = 1 - rho``, ``z_{j+1} = (1 - rho) + rho
    z_j^2``. If a cell may have no admissible split the conditioned prior has mass below one: the evidence is the sum
    over trees of this prior times the score, in both engines, and is not divided by that mass.

    Parameters
    ----------
    rho : float or array-like, default 0.5
        Probability of a split, in [0, 1). An array is by depth: entry j for depth j, at least ``max_depth`` entries
        (one more when conditioned, whose deepest leaves have a factor too). With a ``FixedTree`` it is by node, in
        preorder; entries of joint nodes are not used.
    max_depth : int or None, default 10
        Largest depth of a leaf. None: limited only by the splits; a conditioned process then needs rho <= 1/2.
    conditioned : bool, default False

    Examples
    --------
    >>> BranchingProcess(rho=0.4, max_depth=3)
    BranchingProcess(rho=0.4, max_depth=3, conditioned=False)
    """

    rho: Any = 0.5
    max_depth: int | None = 10
    conditioned: bool = False

    def __post_init__(self) -> None:
        rho = read_numbers("rho", self.rho)
        if rho.ndim > 1 or rho.size == 0:
            raise ValueError(f"rho has shape {rho.shape}; give a number or a one-dimensional array.")
        bad = ~((rho >= 0.0) & (rho < 1.0))
        if bad.any():
            raise ValueError(f"rho={np.atleast_1d(rho)[np.atleast_1d(bad)][0]} is out of range; give 0 <= rho < 1.")
        super().__post_init__()
        check_flag("conditioned", self.conditioned)
        if self.conditioned and self.max_depth is None and (rho.ndim or rho > 0.5):
            raise ValueError("a conditioned process without max_depth needs one rho <= 1/2; give max_depth.")

    def check(self, shape: FixedShape | None) -> None:
        rho = np.asarray(self.rho)
        if rho.ndim == 0:
            return
        if shape is not None and len(rho) != len(shape.depth):
            raise ValueError(f"rho has {len(rho)} entries; the fixed tree has {len(shape.depth)} nodes: one a node.")
        if shape is not None:
            return
        if self.max_depth is None:
            raise ValueError("rho by depth needs a max_depth: give max_depth, or one rho.")
        if len(rho) < self.max_depth + self.conditioned:
            raise ValueError(
                f"rho has {len(rho)} entries; max_depth={self.max_depth} needs {self.max_depth + self.conditioned}."
            )

    def _rho(self, depth: Any, node: Any) -> Any:
        """Return the split probabilities of nodes at these depths, or with these indices in the fixed tree if >= 0."""
        # 0 beyond the end of an array
        rho = np.asarray(self.rho, dtype=np.float64)
        if rho.ndim == 0:
            return np.broadcast_to(rho, np.shape(depth))
        index = np.where(np.asarray(node) >= 0, node, depth)
        return np.where(index < len(rho), rho[np.minimum(index, len(rho) - 1)], 0.0)

    def log_split(self, depth: Any, node: Any) -> Any:
        with np.errstate(divide="ignore"):
            return portable.log(self._rho(depth, node))

    def log_stop(self, depth: Any, node: Any, *, forced: bool, empty: bool) -> Any:
        return np.zeros(np.shape(depth)) if forced and not self.conditioned else portable.log1p(-self._rho(depth, node))

    def log_constant(self, shape: FixedShape | None) -> float:
        if not self.conditioned or self.max_depth is None:
            return 0.0
        if shape is None or (np.ndim(self.rho) == 0 and not shape.is_joint.any()):
            z = 1.0 - float(self._rho(self.max_depth, -1))
            for depth in range(self.max_depth - 1, -1, -1):
                rho = float(self._rho(depth, -1))
                z = (1.0 - rho) + rho * z * z
            return -math.log(z)
        return -math.log(self._mass_by_node(shape))

    def log_mass(self, n_splits: int, shape: FixedShape | None) -> float | None:
        if not self.conditioned or (self.max_depth is not None and n_splits >= self.max_depth):
            return 0.0
        return None if shape is None else math.log(self._mass_by_node(shape)) + self.log_constant(shape)

    def _mass_by_node(self, shape: FixedShape) -> float:
        """Return the probability that the unstopped process yields a pruning of the fixed tree within ``max_depth``."""
        rho = self._rho(shape.depth, np.arange(len(shape.depth)))
        inner = shape.inner(DEPTH_CEILING if self.max_depth is None else self.max_depth)
        return float(pruning_mass(np.array(rho), shape.is_joint, inner, shape.left, shape.right))


@jit
def pruning_mass(
    rho: np.ndarray, is_joint: np.ndarray, may_split: np.ndarray, left: np.ndarray, right: np.ndarray
) -> float:
    """Return the probability that an unstopped process yields a pruning of the fixed tree, nodes in preorder."""
    # z = (1 - rho) + rho z_left z_right, with a product 0 unless the node `may_split`; z = z_left z_right if joint
    z = np.empty(len(rho))
    for i in range(len(rho) - 1, -1, -1):
        children_mass = z[left[i]] * z[right[i]] if may_split[i] else 0.0
        z[i] = children_mass if is_joint[i] else (1.0 - rho[i]) + rho[i] * children_mass
    return z[0]


@register_class
@dataclass(frozen=True, repr=False)
class ChipmanPrior(TreePrior):
    """Split probability ``alpha (1 + depth)^(-beta)`` (Chipman, George and McCulloch 1998).

    A node at ``max_depth``, or in a cell without admissible split, is a leaf with probability one.

    Parameters
    ----------
    alpha : float, default 0.95
        Split probability of the root, in [0, 1).
    beta : float, default 2.0
        How fast the split probability decreases with depth, >= 0.
    max_depth : int or None, default None
        Largest depth of a leaf; None: limited only by the splits.

    Examples
    --------
    >>> ChipmanPrior(alpha=0.95, beta=1.0)
    ChipmanPrior(alpha=0.95, beta=1.0, max_depth=None)
    """

    alpha: float = 0.95
    beta: float = 2.0
    max_depth: int | None = None

    def __post_init__(self) -> None:
        set_field(self, "alpha", check_number("alpha", self.alpha, "0 <= alpha < 1", 0.0, LARGEST_BELOW_ONE))
        set_field(self, "beta", check_number("beta", self.beta, "a finite beta >= 0", 0.0))
        super().__post_init__()

    def log_split(self, depth: Any, node: Any) -> Any:
        return (math.log(self.alpha) if self.alpha > 0.0 else -math.inf) - self.beta * portable.log1p(depth)

    def log_stop(self, depth: Any, node: Any, *, forced: bool, empty: bool) -> Any:
        chance = self.alpha * portable.power(1.0 + depth, -self.beta)
        return np.zeros(np.shape(depth)) if forced else portable.log1p(-chance)


@register_class
@dataclass(frozen=True, repr=False)
class LeafPenalty(TreePrior):
    """Prior weight ``exp(-cost * n_leaves)`` of a tree (Nguyen and Kpotufe 2018); not normalised.

    Parameters
    ----------
    cost : float, default 1.0
        Penalty per leaf in nats, >= 0. The paper's theory takes three times the depth of the fixed tree.
    max_depth : int or None, default None
        Largest depth of a leaf; None: limited only by the splits.
    empty_cost : float or None, default None
        Penalty of a leaf whose cell has no rows; None: ``cost``. The paper uses 0 in practice.

    Examples
    --------
    >>> LeafPenalty(cost=2.0)
    LeafPenalty(cost=2.0, max_depth=None, empty_cost=None)
    """

    is_process: ClassVar[bool] = False
    cost: float = 1.0
    max_depth: int | None = None
    empty_cost: float | None = None

    def __post_init__(self) -> None:
        for name in ("cost", "empty_cost"):
            value = getattr(self, name)
            if value is not None or name == "cost":
                set_field(self, name, check_number(name, value, "a finite number >= 0", 0.0))
        super().__post_init__()

    def log_split(self, depth: Any, node: Any) -> Any:
        return np.zeros(np.shape(depth))

    def log_stop(self, depth: Any, node: Any, *, forced: bool, empty: bool) -> Any:
        cost = self.empty_cost if empty and self.empty_cost is not None else self.cost
        return np.full(np.shape(depth), -float(cost))

    def log_mass(self, n_splits: int, shape: FixedShape | None) -> float | None:
        return None
