"""Parallel tempering of the score: replicas of a chain at ``prior * exp(beta * score)`` that exchange their betas.

Two neighbours exchange with probability ``min(1, exp((beta_i - beta_j) (score_j - score_i)))``, even and odd pairs in
turn. Tuning adapts the ladder so that all pairs exchange equally often, and then freezes it (Syed et al. 2022). The log
evidence is that of the prior plus the log ratios of the normalising constants of neighbouring levels (`evidence`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...core.checks import read_numbers, repr_of
from ...core.portable import power
from ...model import Lowered
from ..kernel import Kernel
from ..state.records import N_NODES, STORED_VERSION
from ..state.terms import SIGMA2, log_score_given_noise, set_noise_guess
from .chain import Chain
from .draw_store import DRAW_COUNT

LADDER_EXPONENT = 3.0
"""Exponent of the first ladder, whose steps of the third root of beta are equal, since small betas matter most."""
N_ADAPTATIONS = 8
"""Number of adaptations of the ladder during tuning."""
MIN_LADDER_LEVELS, MAX_LADDER_LEVELS = 2, 10_000
"""Bounds on the number of levels."""


class LadderReport(NamedTuple):
    """Exchange rates and scores of a tempered chain after tuning, for its n levels."""

    betas: np.ndarray  # (n,) inverse temperatures of the levels, decreasing from 1
    scores: np.ndarray  # (draws, n) log scores, not tempered, of the trees at each level
    is_stump: np.ndarray  # (draws,) bool, True if the tree at the last level has one leaf
    swap_rates: np.ndarray  # (n - 1,) mean acceptance probability of the exchanges between neighbours, after tuning
    round_trips: int  # number of times that a replica came from the last level to the first, after tuning


def read_ladder(betas: Any) -> tuple[np.ndarray, bool]:
    """Check the argument ``betas`` of `sample`."""
    # return the first ladder, and True if tuning may adapt it. A ladder that is given is used as it is. A number of
    # levels means a ladder from 1 to 0, to be adapted.
    if isinstance(betas, int | np.integer) and not isinstance(betas, bool):
        if not MIN_LADDER_LEVELS <= int(betas) <= MAX_LADDER_LEVELS:
            limits = f"{MIN_LADDER_LEVELS} to {MAX_LADDER_LEVELS:,} levels, or a ladder"
            raise ValueError(f"betas={repr_of(betas)} is too few or too many; give {limits}.")
        return power(np.linspace(1.0, 0.0, int(betas)), LADDER_EXPONENT), True
    try:
        ladder = read_numbers("betas", betas)
    except ValueError as error:
        raise TypeError(f"betas is {repr_of(betas)}; give how many, or a ladder decreasing from 1.") from error
    if ladder.ndim != 1 or len(ladder) < MIN_LADDER_LEVELS:
        raise ValueError(f"betas={repr_of(betas)}; give how many, or a ladder of at least {MIN_LADDER_LEVELS}.")
    if not np.isfinite(ladder).all() or ladder[0] != 1.0 or ladder[-1] < 0.0 or np.any(ladder[1:] >= ladder[:-1]):
        raise ValueError(f"betas={repr_of(ladder.tolist())} is not a ladder; give powers that decrease from 1.")
    return ladder, False


class Ladder:
    """Replicas of a chain at decreasing inverse temperatures (levels). The draws are trees of the first level."""

    def __init__(
        self,
        model: Lowered,
        kernel: Kernel,
        rng: np.random.Generator,
        ladder: tuple[np.ndarray, bool],
        has_grown_start: bool = False,
        prepare: Callable[[Chain], None] = lambda chain: None,
    ) -> None:
        self.betas, self.adapts = ladder
        self.rng, self.kernel = rng, kernel
        self.replicas = [Chain(model, kernel, rng, has_grown_start, prepare) for _ in self.betas]
        self.generation = 0
        self.next_is_odd = False
        self._set_levels()
        self._reset_exchange_counts()
        self.reserve(0)

    @property
    def all_chains(self) -> list[Chain]:
        """Replicas, first level first."""
        return self.replicas

    @property
    def state(self) -> Any:
        """State of the first level's replica."""
        return self.replicas[0].state

    @property
    def n_saved(self) -> int:
        """Number of draws saved so far."""
        return int(self.saved.used[DRAW_COUNT])

    def reserve(self, n_draws: int) -> None:
        """Make room for ``n_draws`` draws. Drop the draws saved before."""
        self.replicas[0].reserve(n_draws, len(self.betas))
        self.saved, self.packed_saved = self.replicas[0].saved, self.replicas[0].packed_saved

    def use_kernel(self, kernel: Kernel) -> None:
        """Let all replicas make proposals by ``kernel``, which has the moves of the former one."""
        self.kernel = kernel
        for chain in self.replicas:
            chain.use_kernel(kernel)

    @property
    def cost(self) -> np.ndarray:
        """Sum (2, moves) of `Chain.cost` over all levels."""
        return np.sum([chain.cost for chain in self.replicas], axis=0)

    def tune(self, n_done: int, n_planned: int) -> None:
        """Make a block of tuning, after which ``n_done`` of the ``n_planned`` blocks are made."""
        # adapt the ladder whenever another eighth of the planned blocks is made
        self._set_tuning(True)
        self.run_blocks(1)
        if self.adapts and n_done * N_ADAPTATIONS // n_planned > (n_done - 1) * N_ADAPTATIONS // n_planned:
            self._adapt_betas()
            self._reset_exchange_counts()
        self._set_tuning(False)
        if n_done == n_planned:
            self._reset_exchange_counts()
        for chain in self.replicas:
            chain.state.moves[:] = 0

    def _set_tuning(self, tuning: bool) -> None:
        """Set the flag ``tuning`` of all replicas."""
        for chain in self.replicas:
            chain.tuning = tuning

    def run_blocks(self, n_blocks: int) -> None:
        """Make ``n_blocks`` blocks of proposals at every level, with exchanges after each block."""
        for _ in range(n_blocks):
            for chain in self.replicas:
                chain.run_blocks(1)
            self._exchange()

    def save(self) -> None:
        """Save the tree of the first level as the next draw, and the scores of all levels."""
        first_replica = self.replicas[0]
        first_replica.saved, first_replica.packed_saved = self.saved, self.packed_saved
        draw = self.n_saved
        self.saved.levels[draw] = self._log_scores()
        self.saved.is_stump[draw] = self.replicas[-1].state.count[N_NODES] == 1
        first_replica.save(as_new=True)
        self.saved, self.packed_saved = first_replica.saved, first_replica.packed_saved

    def _log_scores(self) -> np.ndarray:
        """Return the log score of the tree at each level, not tempered, (n,)."""
        return np.array([log_score_given_noise(chain.packed_state) for chain in self.replicas])

    def _exchange(self) -> None:
        """Propose to exchange each pair (i, i + 1) with i even, or odd the next time."""
        scores = self._log_scores()
        for i in range(int(self.next_is_odd), len(self.betas) - 1, 2):
            chance = math.exp(min((self.betas[i] - self.betas[i + 1]) * (scores[i + 1] - scores[i]), 0.0))
            self.n_proposed[i] += 1
            self.acceptance[i] += chance
            if self.rng.random() < chance:
                self._swap(i)
        self.next_is_odd = not self.next_is_odd

    def _swap(self, i: int) -> None:
        """Exchange the replicas at levels i and i + 1, and count round trips."""
        replicas, has_been_last = self.replicas, self.has_been_last
        replicas[i], replicas[i + 1] = replicas[i + 1], replicas[i]
        if not replicas[i].lowered.leaf.is_fixed:
            exchange_guesses(replicas[i], replicas[i + 1])
        has_been_last[i], has_been_last[i + 1] = has_been_last[i + 1], has_been_last[i]
        self._set_level(i)
        self._set_level(i + 1)
        if i == 0:
            replicas[0].state.moves[:] = 0
            self.n_round_trips += has_been_last[0]
            has_been_last[0] = False
        if i + 2 == len(replicas):
            has_been_last[-1] = True

    def _set_level(self, i: int) -> None:
        """Give the replica at level i its inverse temperature, and the number by which its stored values are valid."""
        state = self.replicas[i].state
        state.beta[0] = self.betas[i]
        if self.replicas[i].lowered.leaf.is_fixed:
            # stored sums of this level of this ladder remain valid
            state.count[STORED_VERSION] = self.generation * len(self.betas) + i
        else:
            state.count[STORED_VERSION] += 1

    def _set_levels(self) -> None:
        """Give all replicas the inverse temperatures of their levels."""
        for i in range(len(self.betas)):
            self._set_level(i)

    def _reset_exchange_counts(self) -> None:
        """Start the counts of exchanges and round trips again from 0."""
        n = len(self.betas)
        self.n_proposed, self.acceptance = np.zeros(n - 1, dtype=np.int64), np.zeros(n - 1)
        self.n_round_trips = 0
        self.has_been_last = [False] * (n - 1) + [True]

    def _adapt_betas(self) -> None:
        """Place the betas at equal steps of the barrier, the sum of the rejection rates from the last level up."""
        rejection = np.maximum(1.0 - self.acceptance / np.maximum(self.n_proposed, 1), 1e-3)
        barrier = np.concatenate([[0.0], np.cumsum(rejection[::-1])])
        inner = np.linspace(0.0, barrier[-1], len(self.betas))[1:-1]
        self.betas[1:-1] = np.interp(inner, barrier, self.betas[::-1])[::-1]
        self.generation += 1
        self._set_levels()


def exchange_guesses(a: Chain, b: Chain) -> None:
    """Exchange the guesses of the noise variance of two chains that exchanged levels, so that levels keep theirs."""
    variances = [float(chain.lowered.proposal_leaf.params[SIGMA2]) for chain in (b, a)]
    for chain, variance in zip((a, b), variances, strict=True):
        set_noise_guess(chain.model, chain.packed_state, variance)
