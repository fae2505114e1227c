"""The branching process (formula sheet, section 1)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.checks import check_flag, read_numbers
from ...core.compile.jit import jit
from ...files.encoding import kept
from .base import DEPTH_CEILING, FixedShape, check_depth


@kept
@dataclass(frozen=True, eq=False)
class BranchingProcess:
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

    Raises
    ------
    ValueError
        If an argument is out of range.

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
        check_depth(self.max_depth)
        check_flag("conditioned", self.conditioned)
        if self.conditioned and self.max_depth is None and (rho.ndim or rho > 0.5):
            raise ValueError("a conditioned process without max_depth needs one rho <= 1/2; give max_depth.")

    def check(self, shape: FixedShape | None) -> None:
        """Refuse an array ``rho`` whose length does not fit the splits."""
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
        rho = np.asarray(self.rho, dtype=np.float64)
        if rho.ndim == 0:
            return np.broadcast_to(rho, np.shape(depth))
        index = np.where(np.asarray(node) >= 0, node, depth)
        return np.where(index < len(rho), rho[np.minimum(index, len(rho) - 1)], 0.0)

    def log_split(self, depth: Any, node: Any) -> Any:
        """Log probability that a node that can be split is split."""
        with np.errstate(divide="ignore"):
            return np.log(self._rho(depth, node))

    def log_stop(self, depth: Any, node: Any, *, forced: bool, empty: bool) -> Any:
        """Log factor of a leaf; ``forced`` when it cannot be split or lies at ``max_depth``."""
        return np.zeros(np.shape(depth)) if forced and not self.conditioned else np.log1p(-self._rho(depth, node))

    def log_constant(self, shape: FixedShape | None) -> float:
        """Minus the log of ``z``, the mass of the trees no deeper than ``max_depth``."""
        if not self.conditioned or self.max_depth is None:
            return 0.0
        if shape is None or (np.ndim(self.rho) == 0 and not shape.joint.any()):
            z = 1.0 - float(self._rho(self.max_depth, -1))
            for depth in range(self.max_depth - 1, -1, -1):
                rho = float(self._rho(depth, -1))
                z = (1.0 - rho) + rho * z * z
            return -math.log(z)
        return -math.log(self._mass_by_node(shape))

    def log_mass(self, n_splits: int, shape: FixedShape | None) -> float | None:
        """Returns the log of the sum of the prior over all trees; None where it depends on the cells.

        ``n_splits``: as of `SplitPrior.fewest_splits`.
        """
        if not self.conditioned or (self.max_depth is not None and n_splits >= self.max_depth):
            return 0.0
        return None if shape is None else math.log(self._mass_by_node(shape)) + self.log_constant(shape)

    def _mass_by_node(self, shape: FixedShape) -> float:
        """``z`` by node of the fixed tree: a joint node multiplies the masses of its children."""
        rho = self._rho(shape.depth, np.arange(len(shape.depth)))
        inner = shape.inner(DEPTH_CEILING if self.max_depth is None else self.max_depth)
        return float(mass_of_root(np.array(rho), shape.joint, inner, shape.left, shape.right))


@jit
def mass_of_root(rho: np.ndarray, joint: np.ndarray, inner: np.ndarray, left: np.ndarray, right: np.ndarray) -> float:
    """Mass of the prunings of a fixed tree under an unstopped process: ``z = (1 - rho) + rho z_left z_right``."""
    z = np.empty(len(rho))
    for i in range(len(rho) - 1, -1, -1):
        below = z[left[i]] * z[right[i]] if inner[i] else 0.0
        z[i] = below if joint[i] else (1.0 - rho[i]) + rho[i] * below
    return z[0]
