"""First steps of chains without a density, whose cost sets the number of proposals a step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..chain.draw_store import new_saved, trimmed
from ..chain.snapshot import Snapshot
from ..chain.start import may_grow
from ..kernel import STEP_ROWS
from .pool import map_chains, start_clock, with_pool
from .progress import Progress
from .stop import LEARNING, Signal, is_set
from .task import LENGTHS, PILOT_STEPS, Plan, Result, Run
from .workers import Work, nothing_left

FRACTION = 0.5
"""Largest part of the work for tuning and the first draws."""


class Begun(NamedTuple):
    """State of a chain after its first steps of tuning."""

    end: Snapshot
    rows: float
    """Number of rows that a step visits."""


def begin(plan: Plan, stopped: Signal = None) -> Begun:
    """Run the first steps of a chain."""
    run = Run(plan._replace(tune=min(PILOT_STEPS, plan.tune), draws=0))
    run.begin()
    while run.tuned < run.plan.tune and not (run.tuned > 0 and is_set(stopped)):
        run.advance(1)
    proposals, rows = run.chain.cost.sum(axis=1)
    return Begun(run.snapshot, float(rows + STEP_ROWS * proposals) / max(run.tuned, 1))


def fitted(work: Work) -> Work:
    """Run the first steps of all chains, and set fewer proposals a step if the usual number would exceed the work.

    And with the steps they may make, where nothing is said of them. Chains that an executor loses begin anew.
    """
    first, chains = work.plans[0], len(work.plans)
    steps = chains * min(PILOT_STEPS, first.tune)
    try:
        with Progress(0, work.progress, first.kernel, may_grow(first.start), tune=steps):
            start_clock(work)
            tasks = dict(enumerate(work.plans))
            found = with_pool(work, lambda submit: map_chains(work, submit, begin, tasks, {}), work.stop.part(LEARNING))
    except KeyboardInterrupt:
        raise KeyboardInterrupt(nothing_left("the chains had begun", work)) from None
    if not found:
        return work
    rows, length, kernel = chains * np.mean([begun.rows for begun in found.values()]), first.length, first.kernel
    part = min(1.0, FRACTION * length.work / (rows * (first.tune + length.draws)))
    block = max(int(part * kernel.block), 1)
    steps = length.work / (rows * block / kernel.block) - first.tune
    steps = int(min(max(steps, length.draws), LENGTHS * length.draws))
    length = length._replace(steps=length.steps or steps)
    plans = [plan._replace(kernel=kernel._replace(block=block), length=length) for plan in work.plans]
    saved = trimmed(new_saved(0, len(kernel.moves), first.model.lowered.leaf.n_stats, first.model.lowered.n_weights))
    before = [Result(saved, None, found[c].end) if c in found else None for c in range(chains)]
    return work._replace(plans=plans, before=before)
