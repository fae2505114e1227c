"""Kernels: mixtures of moves, by name or given by the user."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..core.checks import as_number, repr_of
from ..files.encoding import register_class
from .moves import blanchard, change, collapsed, grow_prune, informed_change, learned, rotate, swap
from .moves.base import AbsentMove, Move

PROPOSALS_PER_DRAW = 100
"""Default number of proposals between two draws."""
PROPOSAL_ROWS = 50.0
"""Cost of a proposal in rows, beside the rows that it visits."""
MIN_PROPOSALS = 10
"""Smallest number of proposals between two draws if the run sets this number by cost."""
LIBRARY_MOVES = {
    move.name: move
    for move in (
        grow_prune.MOVE,
        blanchard.MOVE,
        collapsed.MOVE,
        change.MOVE,
        change.SHIFT,
        swap.MOVE,
        rotate.MOVE,
        learned.MOVE,
        informed_change.MOVE,
    )
}
"""Moves of the library by name."""
REMOVED_MOVES = ("redraw", "regrow-1", "regrow-2", "regrow-line", "reshape", "restructure", "subgraph")
"""Names of moves of earlier versions."""
LOCAL_WEIGHTS = {
    "collapsed": 0.55,
    "rotate": 0.3,
    "change": 0.07,
    "shift": 0.07,
    "informed-change": 0.01,
}
WHOLE_WEIGHTS = {
    "learned": 0.05,
    "informed-change": 0.02,
    "collapsed": 0.54,
    "rotate": 0.23,
    "change": 0.085,
    "swap": 0.075,
}
KERNEL_WEIGHTS = {
    "local": LOCAL_WEIGHTS,
    "whole": WHOLE_WEIGHTS,
    "cgm": {"grow-prune": 0.5, "change": 0.4, "swap": 0.1},
    "grow-prune": {"grow-prune": 1.0},
    "blanchard": {"blanchard": 1.0},
}
"""Named kernels. The weights of "local" and "whole" are those that did best (benchmarks/README.md)."""
WORK_FRACTIONS = {"learned": 0.45, "informed-change": 0.15}
"""Fractions of the work that these two moves get if weights are set by cost. The others share the rest by weight."""
MAX_LEARNED_PROPOSALS = 1.5
"""Largest expected number of proposals of "learned" between two draws."""


@register_class
class Kernel(NamedTuple):
    """Mixture of moves. In every block of proposals each move makes its fraction of them."""

    names: tuple[str, ...]
    """Names of the moves."""
    weights: tuple[float, ...]
    """Fraction of the proposals that each move makes."""
    block: int = PROPOSALS_PER_DRAW
    """Number of proposals of a block."""
    adapts: bool = False
    """True if weights and block may be set by the cost of the proposals."""
    own: tuple[Move | AbsentMove, ...] = ()
    """Moves that the user wrote."""
    given: tuple[float, ...] = ()
    """Weight of each move by the argument ``kernel``, not normalised, before weights were set by cost."""

    @property
    def move_objects(self) -> list[Move | AbsentMove]:
        """Moves of the kernel, in the order of ``names``."""
        own = {move.name: move for move in self.own}
        return [LIBRARY_MOVES[name] if name in LIBRARY_MOVES else own[name] for name in self.names]

    @property
    def scratch(self) -> frozenset[str]:
        """Names of the scratch arrays that the moves need."""
        return frozenset(name for step in self.move_objects for name in step.scratch)

    @property
    def is_guided(self) -> bool:
        """True if a move draws from the learned density."""
        return "density" in self.scratch

    @property
    def count_names(self) -> tuple[str, ...]:
        """Names of the proposal counts of all moves, those of the library first, in the order of `LIBRARY_MOVES`."""
        ordered = [LIBRARY_MOVES[name] for name in LIBRARY_MOVES if name in self.names]
        return tuple(dict.fromkeys(count for step in (*ordered, *self.own) for count in step.counts))

    @property
    def first_counts(self) -> list[int]:
        """Index in ``count_names`` of the first count of each move."""
        return [self.count_names.index(step.counts[0]) for step in self.move_objects]

    def for_file(self) -> Kernel:
        """Return the kernel as a file holds it, without code."""
        return self._replace(own=tuple(move.record for move in self.own))

    def with_weights_by_cost(self, cost: np.ndarray, rows: float) -> Kernel:
        """Return the kernel with weights by the cost of proposals, and a block that visits about ``rows`` rows."""
        # ``cost`` (2, moves) contains the number of proposals of each move, and of the rows they visited. "learned",
        # which the kernel must have, and "informed-change" get the fractions of the work in `WORK_FRACTIONS`, the other
        # moves the rest by their given weights. A block has at most `MAX_LEARNED_PROPOSALS` proposals of "learned" on
        # average
        rows_each = _rows_per_proposal(cost)
        given_weights = np.array(self.given)
        by_weight = np.array([name not in WORK_FRACTIONS for name in self.names])
        # a step of weight w_k and cost c_k does the fraction w_k c_k / sum_j w_j c_j of the work. Steps with a fraction
        # f_k of their own get w_k = f_k / c_k, the others w_k = r g_k / sum_j g_j c_j: given weights g, work r in all
        weights = np.array([WORK_FRACTIONS.get(name, 0.0) for name in self.names]) / rows_each
        rest = 1.0 - sum(WORK_FRACTIONS.get(name, 0.0) for name in self.names)
        weights[by_weight] = rest * given_weights[by_weight] / (given_weights[by_weight] * rows_each[by_weight]).sum()
        weights /= weights.sum()
        # proposals of a block that visit so many rows, with a limit on its expected proposals of "learned"
        max_block = MAX_LEARNED_PROPOSALS / weights[self.names.index("learned")]
        block = int(min(max(rows / (weights * rows_each).sum(), MIN_PROPOSALS), max_block))
        return self._replace(weights=tuple(weights.tolist()), block=block, adapts=True)

    def rows_per_block(self, cost: np.ndarray) -> float:
        """Return the cost of a block of proposals in rows, given the ``cost`` (2, moves) of earlier proposals."""
        rows_each = _rows_per_proposal(cost)
        return float((np.array(self.weights) * rows_each).sum() * self.block)

    def proposals_of_block(self, block: int) -> list[int]:
        """Return the number of proposals of each move in block number ``block``, from 0."""
        return self.next_proposals(block * self.block, self.block)

    def next_proposals(self, n_done: int, n: int) -> list[int]:
        """Return the number of proposals of each move among the next ``n``, after the first ``n_done``."""
        return (_first_proposals(self.weights, n_done + n) - _first_proposals(self.weights, n_done)).tolist()


def _rows_per_proposal(cost: np.ndarray) -> np.ndarray:
    """Return the cost of a proposal of each move (moves,): the mean number of rows visited plus `PROPOSAL_ROWS`."""
    # a move without proposals gets the largest cost
    rows = cost[1] / np.where(cost[0] > 0.0, cost[0], 1.0)
    return np.where(cost[0] > 0.0, rows, rows.max()) + PROPOSAL_ROWS


@lru_cache(maxsize=4096)
def _first_proposals(weights: tuple[float, ...], n: int) -> np.ndarray:
    """Return the number of proposals (moves,) of each move among the first ``n``."""
    # the k-th proposal of a move of weight w is due at (k - 1/2) / w, and the ``n`` due first count (Webster 1832)
    weight = np.array(weights)
    # proposals due before n - moves are among the first n: rounding changes the number of each move by at most 1/2
    count = np.floor(np.maximum(weight * (n - len(weight)), 0.0) + 0.5).astype(int)
    n_missing = n - int(count.sum())
    due = (count[:, None] + np.arange(n_missing) + 0.5) / weight[:, None]
    next_moves = np.argsort(due, axis=None, kind="stable")[:n_missing] // max(n_missing, 1)
    return count + np.bincount(next_moves, minlength=len(weight))


def read_kernel(
    kernel: Any, block: int = PROPOSALS_PER_DRAW, *, adapts: bool = False, default: str = "local"
) -> Kernel:
    """Check the argument ``kernel`` of `sample`, a name or weights of moves and kernels, and return the `Kernel`."""
    # ``block`` is the number of proposals in a block. ``adapts`` is True if weights and block may be set by cost.
    # ``default`` is the name of the kernel that "default" means
    if isinstance(kernel, str) and (kernel == "default" or kernel in KERNEL_WEIGHTS):
        kernel = {kernel: 1.0}
    if not isinstance(kernel, Mapping):
        names = ["default", *sorted(KERNEL_WEIGHTS)]
        raise ValueError(f"kernel={repr_of(kernel)} is unknown; give one of {names}, or {{move: weight}}.")
    weights: dict[str, float] = {}
    own_moves: list[Move] = []
    for key, weight in kernel.items():
        number = as_number(weight)
        parts = _move_weights(key, default)
        if number is None or not 0.0 <= number < np.inf:
            name = key.name if isinstance(key, Move) else key
            raise ValueError(f"the weight of {name!r} is {repr_of(weight)}; give a finite number >= 0.")
        if isinstance(key, Move) and number > 0.0:
            _check_names(key, weights, own_moves)
            own_moves.append(key)
        for name, part in parts.items():
            weights[name] = weights.get(name, 0.0) + float(number) * part
    total = math.fsum(weights.values())
    if not 0.0 < total < np.inf:
        raise ValueError(f"the weights of the kernel add up to {total}; give at least one positive weight.")
    positive = {name: weight for name, weight in weights.items() if weight > 0.0}
    fractions = tuple(weight / total for weight in positive.values())
    return Kernel(tuple(positive), fractions, block, adapts, tuple(own_moves), tuple(positive.values()))


def check_even_splits(kernel: Kernel, split_prior: Any) -> None:
    """Raise ValueError if a move draws from the learned density and the splits of a feature are not equally likely."""
    names = [move.name for move in kernel.move_objects if "density" in move.scratch]
    if names and not split_prior.has_equal_weights:
        raise ValueError(
            f"the move {names[0]!r} needs splits of a feature that are equally likely, and cells whose splits do not "
            f"depend on those above; {split_prior!r} has others. "
            'Give kernel="local", or a mixture without "learned".'
        )


def _move_weights(key: Any, default: str) -> dict[str, float]:
    """Return the weights of moves by name that a key of the argument ``kernel``, a move or named kernel, means."""
    if isinstance(key, Move):
        return {key.name: 1.0}
    if isinstance(key, str):
        if key in LIBRARY_MOVES:
            return {key: 1.0}
        if key == "default" or key in KERNEL_WEIGHTS:
            return KERNEL_WEIGHTS[default if key == "default" else key]
    moves = f"the moves are {', '.join(LIBRARY_MOVES)}, and pt.Move of your own"
    if isinstance(key, str) and key in REMOVED_MOVES:
        raise ValueError(f"the move {key!r} was removed, since kernels mix as well without it; {moves}.")
    raise ValueError(f"the move {repr_of(key)} is unknown; {moves}.")


def _check_names(move: Move, weights: Mapping[str, float], own: Iterable[Move]) -> None:
    """Raise ValueError if a user's move has the name of a move or kernel read before, or a count of another move."""
    counted = {count for other in (*LIBRARY_MOVES.values(), *own) for count in other.counts}
    twice = [move.name] if move.name in {*LIBRARY_MOVES, *KERNEL_WEIGHTS, "default", *weights} else []
    twice += [count for count in move.counts if count in counted]
    if twice:
        raise ValueError(f"{move!r} has the name {twice[0]!r}, which another move of the library or kernel has.")


def restore_own_moves(kernel: Kernel, moves: Iterable[Move]) -> Kernel:
    """Return the kernel of a file with the code of the user's moves, taken from ``moves`` by name and compared."""
    # the code itself cannot be compared
    by_name = {move.name: move for move in moves}
    own = []
    for file_move in kernel.own:
        move = by_name.get(file_move.name, file_move)
        if isinstance(move, AbsentMove):
            raise ValueError(
                f"the kernel of this run has a move {move.name!r} that is not the library's, and files hold no code; "
                "give it: pt.resume(run, draws, moves=[...])."
            )
        old, new = tuple(file_move.record), tuple(move.record)
        if old != new:
            raise ValueError(f"{move!r} is not the move of that name in this run: {new}, and it was {old}.")
        own.append(move)
    return kernel._replace(own=tuple(own))
