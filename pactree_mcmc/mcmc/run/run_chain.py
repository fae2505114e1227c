"""One chain of a run, and its works: functions that bring it further.

A work is a generator ``work(chain, tuned, *arguments)``. It yields between short pieces and returns a value. If it
gets True from ``yield``, time is over or the run was interrupted, and it returns after a rest, or at once. It knows no
clock, thread or executor.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from ...tree.coded import Saved
from ..chain.chain import Chain, set_density
from ..chain.draw_store import trim_draws
from ..chain.rest import Rest, Rungs, generator_from, generator_state, restore, rungs_of, take_rest
from ..chain.start import is_grown_start, move_to_start
from ..chain.tempering import Ladder, read_ladder
from ..kernel import PROPOSAL_ROWS
from ..state.records import ACCEPTED, N_NODES, N_VISITED_ROWS, PROPOSED, TREE_CHANGED
from .compiled import compile_for_chain
from .records import Request, Tuned

REST_ROWS = 5e8
"""Number of rows visited after which a chain rests, some five seconds. Steps since a rest are made again when a chain
is restored, and a rest costs about 1e7 rows, whose stored values are computed again."""


class RunChain:
    """A chain of a run: its place in the run, its last rest, and unless it is at rest its trees and draws."""

    def __init__(self, number: int, rest: Rest, steps: int = 0) -> None:
        self.number, self.rest = number, rest
        self.team, self.tuned, self.steps = rest.team, rest.tuned, steps
        self.sampler: Any = None  # `Chain` or `Ladder`, which makes the steps, None at rest
        self.current: Tuned | None = None  # results of tuning that the chain uses
        self.saved: Saved | None = None  # draws of a chain that has come from an executor
        self.last_rungs = rest.rungs

    @classmethod
    def new(cls, number: int, source: Any, n_teams: int) -> RunChain:
        """Return a chain that has not begun, with a copy of the state of its generator."""
        return cls(number, Rest(generator_state(generator_from(source)), team=number % max(n_teams, 1)))

    def at_rest(self) -> RunChain:
        """Return the chain at its last rest, with its draws, as it is sent and stored."""
        out = RunChain(self.number, self.rest._replace(team=self.team), self.steps)
        out.tuned, out.saved, out.last_rungs = self.tuned, self.take_draws(), self.rungs
        return out

    @property
    def rungs(self) -> Rungs | None:
        """State of the ladder at the present place, which may be behind the last rest, None without a ladder."""
        return self.last_rungs if self.sampler is None else rungs_of(self.sampler)

    @property
    def replicas(self) -> Iterator[Chain]:
        """Chains of all levels, none at rest."""
        yield from () if self.sampler is None else self.sampler.all_chains

    @property
    def n_visited_rows(self) -> int:
        """Number of rows visited at all levels."""
        return sum([int(chain.state.count[N_VISITED_ROWS]) for chain in self.sampler.all_chains])

    @property
    def n_leaves(self) -> int:
        """Number of leaves of the present tree."""
        return (int(self.sampler.state.count[N_NODES]) + 1) // 2

    @property
    def n_saved(self) -> int:
        """Number of draws that were not taken yet."""
        if self.sampler is not None:
            return self.sampler.n_saved
        return 0 if self.saved is None else len(self.saved.tree_of_draw)

    @property
    def acceptance(self) -> tuple[int, int]:
        """Number of accepted proposals, and of all proposals, of draws not taken yet."""
        saved, now = self.sampler.saved.moves[: self.n_saved].sum(axis=(0, 2)), self.sampler.state.moves.sum(axis=1)
        return int(saved[ACCEPTED] + now[ACCEPTED]), int(saved[PROPOSED] + now[PROPOSED])

    def take_draws(self) -> Saved | None:
        """Return the draws that were not taken yet, None if there are none, and drop them."""
        if self.sampler is not None and self.sampler.n_saved > 0:
            self.saved = trim_draws(self.sampler.saved)
            self.sampler.reserve(0)
        saved, self.saved = self.saved, None
        return saved

    def build(self, request: Request, kernel: Any) -> None:
        """Make the arrays of the chain, whose tree is a stump, and load its compiled code, unless it has them."""
        if self.sampler is not None:
            return
        model, start = request.model.lowered, request.starts[self.number]
        is_grown = is_grown_start(start)
        prepare = functools.partial(compile_for_chain, has_grown_start=is_grown)
        arguments = model, kernel, generator_from(self.rest.generator)
        if request.betas is None:
            self.sampler = Chain(*arguments, is_grown, prepare)
        else:
            self.sampler = Ladder(*arguments, read_ladder(request.betas), is_grown, prepare)

    def wake(self, request: Request, tuned: Tuned) -> None:
        """Bring the chain to its place: from its start or its last rest, then by making the steps since then again."""
        if self.current is not None:
            return
        self.build(request, tuned.kernel)
        if self.rest.replicas:
            restore(self.sampler, self.rest)
        else:
            move_to_start(request.model, self.sampler, request.starts[self.number], self.sampler.rng)
        self.use(tuned)
        if self.steps > self.rest.steps:
            self.sampler.run_blocks(self.steps - self.rest.steps)
            # as after a draw
            self.sampler.state.moves[:], self.sampler.state.count[TREE_CHANGED] = 0, 0

    def use(self, tuned: Tuned) -> None:
        """Use the kernel, density and graph of ``tuned``. Rest if they differ from those before."""
        before, self.current = self.current, tuned
        if before is not None and all(getattr(before, name) is getattr(tuned, name) for name in SHARED):
            return
        if self.sampler.kernel is not tuned.kernel:
            self.sampler.use_kernel(tuned.kernel)
        if tuned.density is not None:
            set_density(self.sampler, tuned.density[self.team], 1.0)
            self.sampler.use_graph(tuned.graphs[self.team])
        if before is not None:
            self.take_rest()

    def take_rest(self) -> None:
        """Rest at the present place."""
        self.rest = take_rest(self.sampler, self.tuned, self.steps, self.team)


SHARED = ("kernel", "density", "graphs")
"""Fields of `Tuned` whose change is a rest."""


def tune(chain: RunChain, tuned: Tuned, until: int, n_planned: int) -> Iterator[None]:
    """Make tuning steps up to number ``until`` of ``n_planned``, then rest."""
    chain.use(tuned)
    while chain.tuned < until:
        chain.tuned += 1
        chain.sampler.tune(chain.tuned, n_planned)
        if (yield):
            break
    chain.take_rest()


def measure(chain: RunChain, tuned: Tuned, steps: int) -> Any:
    """Make the first tuning steps, rest, and return their mean cost, in rows visited and `PROPOSAL_ROWS` a proposal."""
    yield from tune(chain, tuned, steps, steps)
    proposals, rows = chain.sampler.cost.sum(axis=1)
    return float(rows + PROPOSAL_ROWS * proposals) / max(chain.tuned, 1)


def draw(chain: RunChain, tuned: Tuned, n: int, thin: int, rests: bool) -> Iterator[None]:
    """Make ``n`` draws, ``thin`` steps apart. Rest when it is due, and with ``rests`` after the last draw."""
    chain.use(tuned)
    sampler, rows_at_rest = chain.sampler, chain.rest.n_visited_rows
    sampler.reserve(n)
    for _ in range(n):
        sampler.run_blocks(thin)
        sampler.save()
        chain.steps += thin
        if chain.n_visited_rows - rows_at_rest >= REST_ROWS:
            chain.take_rest()
            rows_at_rest = chain.n_visited_rows
        if (yield):
            return
    if rests:
        chain.take_rest()
