"""The steps a kernel is mixed from, and the kernels with a name."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..core.checks import as_number, in_words
from ..core.warn import warn
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
from .moves.base import AbsentMove, Move

PROPOSALS_PER_DRAW = 100
STEP_ROWS = 50.0
"""What a proposal costs beside the rows it visits, in rows."""
FEWEST_PROPOSALS = 10
"""Between two draws, where a run finds the number itself."""


STEPS = {
    move.name: move
    for move in (
        grow_prune.MOVE,
        blanchard.MOVE,
        collapsed.MOVE,
        redraw.MOVE,
        change.MOVE,
        change.SHIFT,
        swap.MOVE,
        rotate.MOVE,
        regrow.MOVE,
        regrow.FURTHER,
        restructure.MOVE,
        reshape.MOVE,
        regrow_line.MOVE,
        learned.MOVE,
        subgraph.MOVE,
    )
}
"""The library's own moves by name."""
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
"""Those of "default" and "local" where one ordered feature is split on."""
WORK_FRACTIONS = {"learned": 0.6, "subgraph": 0.1}
"""Parts of the work that go to moves whose weights are learned; the rest goes to the others by their weights."""
MOST_LEARNED = 1.5
"""Proposals of the first of them between two draws, at most."""


@kept
class Kernel(NamedTuple):
    """A mixture of steps, each a fraction of every block of proposals."""

    names: tuple[str, ...]
    weights: tuple[float, ...]
    block: int = PROPOSALS_PER_DRAW
    """Proposals a block."""
    adapts: bool = False
    """Whether weights and block may be set by what the proposals cost."""
    own: tuple[Move | AbsentMove, ...] = ()
    """The steps that are not the library's."""
    given: tuple[float, ...] = ()
    """Weights as they were given, before any were set by cost."""

    @property
    def steps(self) -> list[Move | AbsentMove]:
        """Moves of the kernel."""
        own = {move.name: move for move in self.own}
        return [STEPS[name] if name in STEPS else own[name] for name in self.names]

    @property
    def is_single(self) -> bool:
        """True if there is one move only."""
        return len(self.names) == 1

    @property
    def scratch(self) -> frozenset[str]:
        """Names of the scratch arrays that the moves need."""
        return frozenset(name for step in self.steps for name in step.scratch)

    @property
    def is_guided(self) -> bool:
        """True if a move draws from the learned density."""
        return "density" in self.scratch

    @property
    def moves(self) -> tuple[str, ...]:
        """Names of counts, those of the library's moves first, in the order of STEPS."""
        ordered = [STEPS[name] for name in STEPS if name in self.names]
        return tuple(dict.fromkeys(count for step in (*ordered, *self.own) for count in step.counts))

    @property
    def firsts(self) -> list[int]:
        """Place in ``moves`` of the first count of each move."""
        return [self.moves.index(step.counts[0]) for step in self.steps]

    def for_file(self) -> Kernel:
        """Return the kernel as a file holds it, without code."""
        return self._replace(own=tuple(move.record for move in self.own))

    def by_cost(self, cost: np.ndarray, rows: float) -> Kernel:
        """Return a kernel whose weights and block distribute the work of visiting ``rows`` rows per block.

        ``cost`` (2, steps) contains the proposals of each step, and the rows they visited.
        """
        each = _rows_each(cost)
        given = np.array(self.given)
        others = np.array([name not in WORK_FRACTIONS for name in self.names])
        weights = np.array([WORK_FRACTIONS.get(name, 0.0) for name in self.names]) / each
        rest = 1.0 - sum(WORK_FRACTIONS.values())
        weights[others] = rest * given[others] / (given[others] * each[others]).sum()
        weights /= weights.sum()
        most = MOST_LEARNED / weights[self.names.index("learned")]
        block = int(min(max(rows / (weights * each).sum(), FEWEST_PROPOSALS), most))
        return self._replace(weights=tuple(weights.tolist()), block=block, adapts=True)

    def rows_per_block(self, cost: np.ndarray) -> float:
        """Return the cost of a block in rows."""
        each = _rows_each(cost)
        return float((np.array(self.weights) * each).sum() * self.block)

    def proposals_of_block(self, block: int) -> list[int]:
        """Return the proposals of each step in the block with the given number.

        Over many blocks they follow the weights.
        """
        return _proposals_of_each(self.weights, block * self.block, self.block)

    def next_proposals(self, done: int, n: int) -> list[int]:
        """Return the proposals of each step among the next ``n``, after ``done`` ones."""
        return _proposals_of_each(self.weights, done, n)


def _rows_each(cost: np.ndarray) -> np.ndarray:
    """Return the rows that a proposal of each step costs. A step that made none gets the largest of the others."""
    each = cost[1] / np.where(cost[0] > 0.0, cost[0], 1.0)
    return np.where(cost[0] > 0.0, each, each.max()) + STEP_ROWS


def _proposals_of_each(weights: tuple[float, ...], done: int, n: int) -> list[int]:
    return (_made(weights, done + n) - _made(weights, done)).tolist()


@lru_cache(maxsize=4096)
def _made(weights: tuple[float, ...], n: int) -> np.ndarray:
    """Return the proposals (steps,) of each step among the first ``n``, made when they are due (Webster 1832)."""
    given = np.array(weights)
    # what is due so long before is made by then: with every step rounded, n are made between n -+ steps / 2
    made = np.floor(np.maximum(given * (n - len(given)), 0.0) + 0.5).astype(int)
    left = n - int(made.sum())
    due = (made[:, None] + np.arange(left) + 0.5) / given[:, None]
    return made + np.bincount(np.argsort(due, axis=None, kind="stable")[:left] // max(left, 1), minlength=len(given))


def read_kernel(
    kernel: Any, block: int = PROPOSALS_PER_DRAW, *, is_line: bool = False, adapts: bool = False, best: str = "local"
) -> Kernel:
    """Check a kernel: a name, or weights of moves and of kernels by name; ``block`` proposals are a draw.

    ``is_line``: the model is of one ordered feature, whose table is made once. ``adapts``: weights and block may be set
    by cost. ``best``: what "default" stands for.
    """
    if isinstance(kernel, str) and (kernel == "default" or kernel in WEIGHTS):
        kernel = {kernel: 1.0}
    if not isinstance(kernel, Mapping):
        raise ValueError(
            f"kernel={in_words(kernel)} is unknown; give one of {['default', *sorted(WEIGHTS)]}, or {{move: weight}}."
        )
    weights: dict[str, float] = {}
    own: list[Move] = []
    for key, weight in kernel.items():
        number = as_number(weight)
        parts = _parts(key, is_line, best)
        if number is None or not 0.0 <= number < np.inf:
            raise ValueError(f"the weight of {_name(key)!r} is {in_words(weight)}; give a finite number >= 0.")
        if isinstance(key, Move) and number > 0.0:
            _check_names(key, weights, own)
            own.append(key)
        for name, part in parts.items():
            weights[name] = weights.get(name, 0.0) + float(number) * part
    total = math.fsum(weights.values())
    if not 0.0 < total < np.inf:
        raise ValueError(f"the weights of the kernel add up to {total}; give at least one positive weight.")
    given = {name: weight for name, weight in weights.items() if weight > 0.0}
    used = tuple(weight / total for weight in given.values())
    return Kernel(tuple(given), used, block, adapts, tuple(own), tuple(given.values()))


def check_even(kernel: Kernel, split_prior: Any) -> None:
    """Refuse moves that take the splits of a feature to be equally likely if the splits have weights."""
    wrong = [step.name for step in kernel.steps if "density" in step.scratch]
    if wrong and not split_prior.is_even:
        raise ValueError(
            f"the move {wrong[0]!r} needs splits of a feature that are equally likely, and {split_prior!r} weighs "
            'them; give kernel="local", or a mixture without "learned" and "subgraph".'
        )


def _name(key: Any) -> Any:
    return key.name if isinstance(key, Move) else key


def _parts(key: Any, is_line: bool, best: str) -> dict[str, float]:
    """Return the weights of moves by name that an entry of a kernel stands for."""
    if isinstance(key, Move):
        return {key.name: 1.0}
    if isinstance(key, str):
        if is_line and key in ("default", "local"):
            return LINE_WEIGHTS
        if key in STEPS:
            return {key: 1.0}
        if key == "default" or key in WEIGHTS:
            return WEIGHTS[best if key == "default" else key]
    raise ValueError(_unknown(key))


def _check_names(move: Move, weights: Mapping[str, float], own: Iterable[Move]) -> None:
    """Refuse a user's move that could be taken for another."""
    counted = {count for other in (*STEPS.values(), *own) for count in other.counts}
    taken = {*STEPS, *WEIGHTS, "default", *weights}
    twice = [word for word in (move.name,) if word in taken] + [count for count in move.counts if count in counted]
    if twice:
        raise ValueError(f"{move!r} has the name {twice[0]!r}, which another move of the library or kernel has.")


def complete(kernel: Kernel, moves: Iterable[Move]) -> Kernel:
    """Return the kernel of a file with a user's moves in the places of their names."""
    found = {move.name: move for move in moves}
    own = []
    for known in kernel.own:
        move = found.get(known.name, known)
        if isinstance(move, AbsentMove):
            raise ValueError(
                f"the kernel of this run has a move {move.name!r} that is not the library's, and files hold no code; "
                "give it: pt.resume(run, draws, moves=[...])."
            )
        old, new = known.record, move.record
        if old[:-1] != new[:-1]:
            raise ValueError(f"{move!r} is not the move of that name in this run: {new[:-1]}, and it was {old[:-1]}.")
        if old.key and new.key and old.key != new.key and old.key.split()[0] == new.key.split()[0]:
            warn(f"{move!r} has other code than the move of that name in this run; draws go on by the new one.")
        own.append(move)
    return kernel._replace(own=tuple(own))


def _unknown(name: Any) -> str:
    lookahead = re.fullmatch(r"regrow-(-?\d+)", name) if isinstance(name, str) else None
    if lookahead:
        return f"{name!r} looks {lookahead[1]} levels ahead; the lookahead of regrow is 1 or 2."
    moves = f"the moves are {', '.join(STEPS)}, and pt.Move of your own"
    return f"the move {in_words(name)} is unknown; {moves}."
