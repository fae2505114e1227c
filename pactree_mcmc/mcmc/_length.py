"""How long a run is: as its arguments say, or until the criterion of `convergence` holds or its work is used up.

A run that finds its own length makes ``draws`` draws, looks at them, and as long as they do not do keeps every second
and makes as many steps again: the draws returned are of all the steps, evenly spaced. Where it must end is counted in
steps, whose cost in rows visited tuning has measured, so that the same seed ends at the same draw on any machine.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np

from ..convergence import check_convergence
from ..posterior import SampledPosterior
from ._run import Length, Plan, Result
from ._workers import Done, Work, do

FEWEST = 1000
"""Draws in all below which the criterion is not waited for."""
PIECES = 8
"""Parts of a stretch between which a run with a time limit looks at the clock."""


class Lengthened(NamedTuple):
    """A run that has found its length."""

    work: Work
    done: Done
    steps: int
    """Steps each chain made."""


def lengthen(work: Work, done: Done, began: float) -> Lengthened:
    """Go on after the first draws until the criterion holds, the steps are made or the seconds over."""
    length = work.plans[0].length
    while done.complete:
        results, thin, n = done.results, work.plans[0].thin, done.results[0].n_draws
        if n == 2 * length.draws:
            n, thin = length.draws, 2 * thin
            results = [result.chosen(evenly(2 * n, n)) for result in results]
            done = Done(results, True)
            work = _replaced(work, results, n, thin)
        more = _more(length, n, thin, began)
        if more < 1 or (n == length.draws and holds(work.plans[0], results)):
            break
        work = _replaced(work, results, n + more, thin)
        if work.checkpoint is not None:
            work.checkpoint.follow(work.plans)
        done = do(work)
    n, thin = done.results[0].n_draws, work.plans[0].thin
    steps = n * thin
    if n > length.draws:
        done = done._replace(results=[result.chosen(evenly(n, length.draws)) for result in done.results])
    return Lengthened(work, done, steps)


def _more(length: Length, n: int, thin: int, began: float) -> int:
    """Draws that a stretch from ``n`` of them on makes; 0 at the end."""
    left = 2 * length.draws - n
    if length.seconds is not None:
        if time.perf_counter() - began >= length.seconds:
            return 0
        left = min(left, -(-length.draws // PIECES))
    return min(left, length.steps // thin - n)


def _replaced(work: Work, results: list[Result], draws: int, thin: int) -> Work:
    plans = [plan._replace(draws=draws, thin=thin) for plan in work.plans]
    return work._replace(plans=plans, before=list(results))


def evenly(n: int, m: int) -> np.ndarray:
    """Which ``m`` of ``n`` draws to keep, evenly spaced, the last one among them."""
    return (np.arange(1, m + 1) * n) // m - 1


def holds(plan: Plan, results: list[Result]) -> bool:
    """Whether nothing speaks against the draws."""
    saved, ends = [result.saved for result in results], tuple(result.end for result in results)
    course = plan.kernel, plan.thin, ends, results[0].n_draws * plan.thin, plan.length.strata
    return not check_convergence(SampledPosterior.from_chains(plan.model, saved, plan.kernel.moves, 0.0, course=course))
