"""Tuning in rounds: chains draw trees, a density is fitted on what all of them decided, and they go on with it.

A round is a task a chain, which any executor runs; between two rounds the decisions of all chains are fitted as one
(`_fit`). After the last the density is frozen. The first rounds temper the score, so that chains move between modes
that the posterior parts, and the density knows them all.
"""

from __future__ import annotations

from concurrent.futures import Executor, ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from ._chain import Chain
from ._decisions import Decisions, new_decisions, note_decisions, pack_decisions, trimmed_decisions
from ._fit import fit_density, joined_decisions
from ._run import Plan, Result, Run
from ._saving import new_saved, trimmed
from ._snapshot import ARRAYS, Snapshot
from ._state import NONE, first_density
from ._workers import n_cores

BETAS = (0.3, 0.5, 0.7, 0.85, 1.0, 1.0, 1.0)
"""Powers of the score, round by round."""
REMEMBERED = 3
"""Rounds, the last ones, on whose decisions the density is fitted."""
CELLS_NOTED = 1500
"""Cells whose decisions a chain notes in a round, at most."""
NOTES = 100
"""Trees looked at for that, evenly spaced over the last three quarters of the round."""


class Lesson(NamedTuple):
    """A round of one chain."""

    plan: Plan
    end: Snapshot | None
    density: np.ndarray
    beta: float
    tuned: int
    """Draws of tuning done when the round is over."""


def study(lesson: Lesson) -> tuple[Snapshot, Decisions]:
    """Run one chain through a round; where it stopped, and what its trees decided."""
    run = Run(lesson.plan, lesson.end)
    run.begin()
    set_density(run.chain, lesson.density, lesson.beta)
    noted = new_decisions(CELLS_NOTED)
    packed, first, last = pack_decisions(noted), run.tuned, lesson.tuned
    every = max(3 * (last - first) // (4 * NOTES), 1)
    while run.tuned < last:
        run.advance(min(every, last - run.tuned))
        if 4 * (run.tuned - first) > last - first:
            note_decisions(run.chain.walk, packed)
    set_density(run.chain, None, 1.0)
    return run.snapshot, trimmed_decisions(noted)


def set_density(chain: Chain, density: np.ndarray | None, beta: float) -> None:
    """Let a chain draw from a density, its score to the power ``beta``."""
    state = chain.state
    if density is not None:
        state.density[...] = density
    state.beta[0] = beta
    # what is kept of cells is by the power and the density
    state.guide.hash[:] = NONE
    state.cell.scan[:] = NONE
    state.cell.ahead[:] = NONE


def learn(plans: list[Plan], executor: Executor | None) -> list[Result]:
    """Tune chains together; what each has done: no draw yet, the density frozen in it."""
    ends: list[Snapshot | None] = [None] * len(plans)
    density, rounds = first_density(len(plans[0].model.lowered.questions.feature)), []
    pool = executor or ThreadPoolExecutor(min(len(plans), n_cores()))
    try:
        for number, beta in enumerate(BETAS):
            tuned = [plan.tune * (number + 1) // len(BETAS) for plan in plans]
            lessons = [
                Lesson(plan, end, density, beta, done) for plan, end, done in zip(plans, ends, tuned, strict=True)
            ]
            found = [future.result() for future in [pool.submit(study, lesson) for lesson in lessons]]
            ends = [end for end, _ in found]
            rounds.append(joined_decisions([decisions for _, decisions in found]))
            density = fit_density(joined_decisions(rounds[-REMEMBERED:]), density)
    finally:
        if executor is None:
            pool.shutdown(cancel_futures=True)
    return [_frozen(plan, end, density) for plan, end in zip(plans, ends, strict=True)]


def _frozen(plan: Plan, end: Snapshot, density: np.ndarray) -> Result:
    """A chain at the end of its tuning."""
    at, (replica,) = ARRAYS.index("density"), end.replicas
    state = (*replica.state[:at], density, *replica.state[at + 1 :])
    saved = trimmed(new_saved(0, len(plan.kernel.moves), plan.model.lowered.leaf.n_stats))
    return Result(saved, None, end._replace(replicas=(replica._replace(state=state),)))
