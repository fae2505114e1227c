"""The steps a kernel is mixed from, and the kernels with a name."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..core.checks import as_number, in_words
from ..files.encoding import kept
from .moves import (
    blanchard,
    change,
    collapsed,
    grow_prune,
    learned,
    redraw,
    regrow,
    regrow_line,
    reshape,
    restructure,
    rotate,
    subgraph,
    swap,
)
from .state.arrays import MOVES

PROPOSALS_PER_DRAW = 100
STEP_ROWS = 50.0
"""What a proposal costs beside the rows it visits, in rows."""
FEWEST_PROPOSALS = 10
"""Between two draws, where a run finds the number itself."""


class Step(NamedTuple):
    """One way of making proposals."""

    run: Any
    moves: tuple[str, ...]
    """What it counts."""
    scans: bool = True
    """Whether it keeps tables of scores."""
    replaces: bool = True
    """Whether it replaces subtrees."""
    lines: bool = False
    """Whether it sums over lines."""
    guided: bool = False
    """Whether it draws from a learned density."""


STEPS = {
    "grow-prune": Step(grow_prune.run, ("grow", "prune"), False, False),
    "blanchard": Step(blanchard.run, ("grow", "prune"), False, False),
    "collapsed": Step(collapsed.run, ("collapsed grow", "collapsed prune"), True, False),
    "redraw": Step(redraw.run, ("redraw",)),
    "change": Step(change.run_change, ("change",), False),
    "shift": Step(change.run_shift, ("shift",), False),
    "swap": Step(swap.run, ("swap",), False),
    "rotate": Step(rotate.run, ("rotate",), False),
    "regrow-1": Step(regrow.run_1, ("regrow-1",)),
    "regrow-2": Step(regrow.run_2, ("regrow-2",)),
    "restructure": Step(restructure.run, ("restructure",), False),
    "reshape": Step(reshape.run, ("reshape",), False),
    "regrow-line": Step(regrow_line.run, ("regrow-line",), lines=True),
    "learned": Step(learned.run, ("learned",), guided=True),
    "subgraph": Step(subgraph.run, ("subgraph",), guided=True),
}
LOCAL = {
    "collapsed": 0.45,
    "redraw": 0.08,
    "change": 0.06,
    "shift": 0.06,
    "rotate": 0.27,
    "reshape": 0.05,
    "regrow-1": 0.01,
    "restructure": 0.02,
}
WHOLE = {
    "learned": 0.05,
    "subgraph": 0.002,
    "collapsed": 0.54,
    "rotate": 0.225,
    "change": 0.083,
    "reshape": 0.03,
    "swap": 0.07,
}
WEIGHTS = {
    "local": LOCAL,
    "whole": WHOLE,
    "cgm": {"grow-prune": 0.5, "change": 0.4, "swap": 0.1},
    "grow-prune": {"grow-prune": 1.0},
    "blanchard": {"blanchard": 1.0},
}
"""Named kernels; the weights of "local" are those that did best in benchmarks/mixing."""
LINE_WEIGHTS = {"regrow-line": 0.5, "collapsed": 0.3, "redraw": 0.05, "rotate": 0.15}
"""Those of "default" and "local" where one ordered feature is asked about."""
WORK_SHARES = {"learned": 0.6, "subgraph": 0.1}
"""Parts of the work that go to moves whose weights are learned; the rest goes to the others by their weights."""
MOST_LEARNED = 1.5
"""Proposals of the first of them between two draws, at most."""


@kept
class Kernel(NamedTuple):
    """A mixture of steps, each a share of every block of proposals."""

    names: tuple[str, ...]
    weights: tuple[float, ...]
    block: int = PROPOSALS_PER_DRAW
    """Proposals a block."""
    adapts: bool = False
    """Whether weights and block may be set by what the proposals cost."""

    @property
    def runs(self) -> list[Any]:
        """The compiled loop of each step."""
        return [STEPS[name].run for name in self.names]

    @property
    def is_single(self) -> bool:
        """Whether there is but one step."""
        return len(self.names) == 1

    @property
    def scans(self) -> bool:
        """Whether some step keeps tables of scores."""
        return any(STEPS[name].scans for name in self.names)

    @property
    def replaces(self) -> bool:
        """Whether some step replaces subtrees."""
        return any(STEPS[name].replaces for name in self.names)

    @property
    def lines(self) -> bool:
        """Whether some step sums over lines."""
        return any(STEPS[name].lines for name in self.names)

    @property
    def guided(self) -> bool:
        """Whether some step draws from a learned density."""
        return any(STEPS[name].guided for name in self.names)

    @property
    def moves(self) -> tuple[str, ...]:
        """What the steps count, in the order of MOVES."""
        counted = {move for name in self.names for move in STEPS[name].moves}
        return tuple(move for move in MOVES if move in counted)

    def by_cost(self, cost: np.ndarray, rows: float) -> Kernel:
        """The weights and proposals a block that share out the work: ``rows`` visited a block.

        ``cost`` (2, steps): proposals of each step, and rows they visited.
        """
        each = _rows_each(cost)
        given = np.array([WHOLE[name] for name in self.names])
        others = np.array([name not in WORK_SHARES for name in self.names])
        weights = np.array([WORK_SHARES.get(name, 0.0) for name in self.names]) / each
        rest = 1.0 - sum(WORK_SHARES.values())
        weights[others] = rest * given[others] / (given[others] * each[others]).sum()
        weights /= weights.sum()
        most = MOST_LEARNED / weights[self.names.index("learned")]
        block = int(min(max(rows / (weights * each).sum(), FEWEST_PROPOSALS), most))
        return Kernel(self.names, tuple(weights.tolist()), block, True)

    def rows_per_block(self, cost: np.ndarray) -> float:
        """What a block costs, in rows."""
        each = _rows_each(cost)
        return float((np.array(self.weights) * each).sum() * self.block)

    def shares(self, block: int) -> list[int]:
        """Proposals of each step in the block with the given number; over many blocks they follow the weights."""
        return _shares(self.weights, block * self.block, self.block)

    def shares_of(self, done: int, n: int) -> list[int]:
        """Proposals of each step among the next ``n``, ``done`` having been made."""
        return _shares(self.weights, done, n)


def _rows_each(cost: np.ndarray) -> np.ndarray:
    """Rows a proposal of each step costs; as the dearest, of a step that made none."""
    each = cost[1] / np.where(cost[0] > 0.0, cost[0], 1.0)
    return np.where(cost[0] > 0.0, each, each.max()) + STEP_ROWS


def _shares(weights: tuple[float, ...], done: int, n: int) -> list[int]:
    return (_made(weights, done + n) - _made(weights, done)).tolist()


@lru_cache(maxsize=4096)
def _made(weights: tuple[float, ...], n: int) -> np.ndarray:
    """(steps,) proposals of each step among the first ``n``: each comes when its next one is due (Webster 1832)."""
    given = np.array(weights)
    # what is due so long before is made by then: with every step rounded, n are made between n -+ steps / 2
    made = np.floor(np.maximum(given * (n - len(given)), 0.0) + 0.5).astype(int)
    left = n - int(made.sum())
    due = (made[:, None] + np.arange(left) + 0.5) / given[:, None]
    return made + np.bincount(np.argsort(due, axis=None, kind="stable")[:left] // max(left, 1), minlength=len(given))


def read_kernel(kernel: Any, block: int = PROPOSALS_PER_DRAW, *, is_line: bool = False, adapts: bool = False) -> Kernel:
    """Check a kernel: a name, or weights of steps by name; ``block`` proposals are a draw.

    ``is_line``: the model is of one ordered feature, whose table is made once. ``adapts``: weights and block may be set
    by cost.
    """
    if isinstance(kernel, str):
        if kernel != "default" and kernel not in WEIGHTS:
            raise ValueError(
                f"kernel={kernel!r} is unknown; give one of {['default', *sorted(WEIGHTS)]}, or {{move: weight}}."
            )
        kernel = LINE_WEIGHTS if is_line and kernel in ("default", "local") else WEIGHTS.get(kernel, LOCAL)
    if not isinstance(kernel, Mapping):
        raise ValueError(
            f"kernel={in_words(kernel)} is unknown; give one of {['default', *sorted(WEIGHTS)]}, or {{move: weight}}."
        )
    for name, weight in kernel.items():
        if not isinstance(name, str) or name not in STEPS:
            raise ValueError(_unknown(name))
        number = as_number(weight)
        if number is None or not 0.0 <= number < np.inf:
            raise ValueError(f"the weight of {name!r} is {in_words(weight)}; give a finite number >= 0.")
    total = math.fsum(float(weight) for weight in kernel.values())
    if not 0.0 < total < np.inf:
        raise ValueError(f"the weights of the kernel add up to {total}; give at least one positive weight.")
    used = {name: float(weight) / total for name, weight in kernel.items() if weight > 0.0}
    return Kernel(tuple(used), tuple(used.values()), block, adapts)


def _unknown(name: Any) -> str:
    lookahead = re.fullmatch(r"regrow-(-?\d+)", name) if isinstance(name, str) else None
    if lookahead:
        return f"{name!r} looks {lookahead[1]} levels ahead; the lookahead of regrow is 1 or 2."
    return f"the move {in_words(name)} is unknown; the moves are {', '.join(STEPS)}."
