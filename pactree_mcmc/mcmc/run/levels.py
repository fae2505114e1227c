"""Levels of a ladder of weights: whether a run needs one, how many, and where they lie."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event
from typing import NamedTuple

import numpy as np

from ..chain.snapshot import Rungs, Snapshot
from ..chain.tempering import equal_steps
from ..chain.weight_ladder import LOCAL_MOVES, REDRAWN
from ..kernel import STEP_ROWS
from ..state.arrays import MOST_VALUES
from ..state.records import ROWS
from .task import Plan, Run
from .workers import Work

FIRST_POWERS = (1.0, 0.9, 0.75, 0.55, 0.35, 0.2, 0.08, 0.0)
"""Of the levels by which others are found."""
CLIMBS = 40
"""Exchanges by which they are found, and as many by the levels found."""
FEWEST_LEVELS, MOST_LEVELS = 3, 24
LEAST_BARRIER = 0.3
"""Sum of the fractions of exchanges refused below which trees drawn from the density do without."""


class Climb(NamedTuple):
    """A chain that is to run on a ladder."""

    plan: Plan
    end: Snapshot
    steps: int


class Climbed(NamedTuple):
    """What it found."""

    end: Snapshot
    refused: np.ndarray
    """(levels - 1,) fraction of the exchanges refused."""
    rows: int
    """Rows visited."""


def climb(given: Climb, stopped: Event | None = None) -> Climbed:
    """Run a chain on its ladder."""
    run = Run(given.plan._replace(draws=0), given.end)
    chain = run.chain
    before = sum(int(one.state.count[ROWS]) for one in chain.all_chains)
    for _ in range(given.steps):
        if stopped is not None and stopped.is_set():
            break
        chain.proceed(1)
    refused = chain.refused
    chain.settle()
    return Climbed(run.snapshot, refused, sum(int(one.state.count[ROWS]) for one in chain.all_chains) - before)


def laddered(end: Snapshot, powers: np.ndarray) -> Snapshot:
    """A chain on a ladder: at each level the tree that was at the next power."""
    n = len(powers)
    before = np.ones(1) if end.rungs is None else end.rungs.betas
    replicas = [end.replicas[int(np.abs(before - power).argmin())] for power in powers]
    none = [replica._replace(cells=replica.cells.without()) for replica in replicas[1:]]
    rungs = Rungs(powers.copy(), False, 0, False, np.zeros(n - 1, dtype=np.int64), np.zeros(n - 1), 0, [], True)
    return end._replace(replicas=(replicas[0], *none), rungs=rungs._replace(journey=[False] * (n - 1) + [True]))


def climbed(work: Work, do: Callable[[dict[int, Climb]], dict[int, Climbed]]) -> tuple[Work, float, float]:
    """Chains on a ladder, if one is needed; the rows visited to find it, and those of a step on it, 0 without.

    ``do`` runs tasks by chain.
    """
    ends = {c: result.end for c, result in enumerate(work.before) if result is not None}
    powers, kernel, spent, each = np.array(FIRST_POWERS), work.plans[0].kernel, 0.0, 0.0
    for n in (0, 1):
        tasks = {c: Climb(work.plans[c], laddered(end, powers), CLIMBS) for c, end in ends.items()}
        found = do(tasks)
        if not found:
            return work, spent, 0.0
        refused = np.mean([one.refused for one in found.values()], axis=0)
        rows = float(sum(one.rows for one in found.values()))
        spent += rows
        if n == 0 and refused.sum() < LEAST_BARRIER:
            return work, spent, 0.0
        proposals = kernel.block + (len(powers) - 1) * (REDRAWN + LOCAL_MOVES)
        each = rows / (CLIMBS * len(found)) + STEP_ROWS * proposals
        levels = len(powers) if n else int(np.clip(np.ceil(2.0 * refused.sum()) + 2, FEWEST_LEVELS, MOST_LEVELS))
        powers = equal_steps(powers, refused, levels)
        ends = {c: one.end for c, one in found.items()}
    before = [
        None if result is None or c not in ends else result._replace(end=laddered(ends[c], powers))
        for c, result in enumerate(work.before)
    ]
    return work._replace(before=before), spent, each


def may_climb(plan: Plan) -> bool:
    """Whether whole trees can be drawn from the density, and weigh the same at all times."""
    model = plan.model
    size = model.units.n_units * len(model.lowered.split_prior.feature)
    return "learned" in plan.kernel.names and model.lowered.is_fixed and size <= MOST_VALUES
