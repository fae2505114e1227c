"""Parallel tempering of the weight: replicas of a chain between the learned density and the posterior.

With g the density and ``w = pi / g``, the replica at the power s has the distribution proportional to ``g w^s``: the
posterior at 1, the density at 0, from which whole trees are drawn afresh. Neighbours exchange with probability
``min(1, (w_j / w_i)^(s_i - s_j))``; so a mode that the density reaches comes to the posterior's replica, and a tree
that the density seldom draws does not hold it (Surjanovic et al. 2022, *Parallel tempering with a variational
reference*). A subtree is redrawn from g and accepted by the ratio of weights to the power s (`moves.learned`); any move
that leaves the posterior as it is, n times, by ``min(1, (w / w')^(1 - s))``, once for all n.
"""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np

from ...model import Lowered
from ..edits.grow import cut_down
from ..kernel import Kernel
from ..moves.learned import weigh
from ..state.random import flip_log, pick_weighted
from ..state.records import CHANGED, N_FREE, ROWS
from .chain import Chain
from .tempering import Ladder

REDRAWN = 1
"""Subtrees redrawn from the density at each level but the first between two exchanges: more do not pay."""
LOCAL_MOVES = 10
"""Proposals of one other move there, decided together."""
TREE = ("order", "node", "stats", "box", "count")
"""What a tree is, of a chain's state."""


class WeightLadder(Ladder):
    """Replicas of a chain, one a level, that share what is kept of cells; what it saves is the tree of the first."""

    def __init__(
        self, model: Lowered, kernel: Kernel, rng: np.random.Generator, powers: np.ndarray, may_grow: bool = False
    ) -> None:
        self.betas, self.adapts, self.rng = powers, False, rng
        first = Chain(model, kernel, rng, may_grow)
        self.replicas = [first, *(Chain(model, kernel, rng, may_grow, beside=first) for _ in powers[1:])]
        self.generation, self.odd = 0, False
        self.local = [i for i, step in enumerate(kernel.steps) if not step.guided]
        self.weights = np.array([kernel.weights[i] for i in self.local])
        self._number_levels()
        self._reset_counts()
        self.reserve(0)

    def reserve(self, n_draws: int) -> None:
        """Make room for ``n_draws`` draws, dropping those made before."""
        self.replicas[0].reserve(n_draws)
        self.saved, self.packed_saved = self.replicas[0].saved, self.replicas[0].packed_saved

    def proceed(self, n_blocks: int) -> None:
        """Make blocks of proposals at the first level, what lies between exchanges at the others, and exchanges."""
        for _ in range(n_blocks):
            self.replicas[0].proceed(1)
            for chain, power in zip(self.replicas[1:], self.betas[1:], strict=True):
                chain.make(chain.kernel.names.index("learned"), REDRAWN)
                if self.local and power > 0.0:
                    self._move_locally(chain, float(power))
            self._exchange()

    def save(self) -> None:
        """Save the tree of the first level as the next draw."""
        cold = self.replicas[0]
        cold.saved, cold.packed_saved = self.saved, self.packed_saved
        cold.save()
        self.saved, self.packed_saved = cold.saved, cold.packed_saved

    def settle(self) -> None:
        """Count exchanges and proposals from here."""
        self._reset_counts()
        for chain in self.replicas:
            chain.state.moves[:] = 0

    @property
    def report(self) -> Any:
        """There is no ladder of scores to report on."""
        return None

    def _move_locally(self, chain: Chain, power: float) -> None:
        before, kept = weigh(chain.walk), [getattr(chain.state, name).copy() for name in TREE]
        chain.state.count[CHANGED] = 0
        chain.make(self.local[pick_weighted(self.rng, self.weights, self.weights.sum())], LOCAL_MOVES)
        if chain.state.count[CHANGED] == 0:
            return
        if not flip_log(self.rng, (1.0 - power) * (before - weigh(chain.walk))):
            _put_back(chain, kept)

    def _scores(self) -> np.ndarray:
        out = np.array([weigh(chain.walk) for chain in self.replicas])
        for i in np.flatnonzero(out[1:] == inf) + 1:
            # only the first level has trees that the density has not: one that a chain began with
            cut_down(self.replicas[i].packed)
            out[i] = weigh(self.replicas[i].walk)
        return out

    def _put_level(self, i: int) -> None:
        state = self.replicas[i].state
        state.power[0] = self.betas[i]
        # the last tree saved is that of another replica
        state.count[CHANGED] = 1


def _put_back(chain: Chain, kept: list[np.ndarray]) -> None:
    """Give a chain a tree that it had; nodes made since are free, the rows visited since count."""
    state, n, rows = chain.state, len(kept[TREE.index("node")]), int(chain.state.count[ROWS])
    for name, array in zip(TREE, kept, strict=True):
        getattr(state, name)[: len(array)] = array
    state.count[ROWS] = rows
    free, more = int(state.count[N_FREE]), len(state.node) - n
    state.node.free[free : free + more] = np.arange(len(state.node) - 1, n - 1, -1)
    state.count[N_FREE] += more
