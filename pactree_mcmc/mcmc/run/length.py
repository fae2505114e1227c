"""How long a run is: as its arguments say, or until the criterion of `convergence` holds or its work is used up.

A run that finds its own length makes ``draws`` draws, looks at them, and as long as they do not do makes as many more
steps, of which with those before every second draw is kept. Where chains learn, a stretch that was doubled so and still
does not do teaches them (`relearn`), and another one begins, of as many steps; its draws alone are returned. Draws that
do, but not at the first look, were selected for it: another stretch of as many steps, without learning, is to confirm
them, and takes their place, if it ends within the first half of the work; if it does not do it is gone on with. Where a
run must end is counted in steps, whose cost in rows visited tuning has measured, so that the same seed ends at the same
draw on any machine.
"""

from __future__ import annotations

import time
import warnings
from typing import NamedTuple

import numpy as np

from ...posterior.convergence import agrees, converged
from ...posterior.evidence import evidences_differ
from ...posterior.joining import join_chains
from ...tree.drawn import Course, Saved
from ..whole.evidence import team_evidences
from ..whole.rounds import can_add_draws, restarted, with_draws
from .task import Length, Plan, Result
from .workers import Done, Work, do

FEWEST = 1000
"""Draws in all below which the criterion is not waited for."""
CONFIRMED_WITHIN = 0.5
"""Part of the steps that the work pays for, within which a stretch that confirms must end."""
MANY_NODES = 1_000_000
"""Nodes of saved trees beyond which the log posterior is looked at before all trees are joined, which takes seconds."""
PIECES = 8
"""Parts of a stretch between which a run with a time limit looks at the clock."""


class Lengthened(NamedTuple):
    """A run that has found its length."""

    work: Work
    done: Done
    steps: int
    """Steps each chain made."""
    selected: bool
    """Whether the criterion held only at a later look, and no further stretch has confirmed it."""
    evidences: np.ndarray | None
    """`Course.evidences` of the draws, if they were judged last."""


def lengthen(work: Work, done: Done, began: float) -> Lengthened:
    """Go on after the first draws until the criterion holds, the steps are made or the seconds over."""
    draws, stretch_began, selected = work.plans[0].length.draws, began, False
    evidences = None
    try:
        while done.complete and not _is_cut(work, done):
            work, done = _halved(work, done)
            plan, n = work.plans[0], done.results[0].n_draws
            more = _more(plan, n, began)
            is_later = not (plan.length.confirms or _is_first(plan))
            is_good, evidences = False, None
            if n == draws and (more > 0 or is_later):
                is_good, evidences = judged(plan, done.results)
            selected = is_good and is_later
            if more < 1 or (is_good and not selected):
                break
            if is_good and not (_may_confirm(plan) and _has_room(plan, began, stretch_began)):
                break
            if is_good or (n == draws and _is_doubled(plan) and can_add_draws(work, done.results)):
                if is_good or _has_room(plan, began, stretch_began):
                    stretch_began = time.perf_counter()
                    work, done, is_whole = _stretched(work, done, began, is_good)
                    if is_whole:
                        selected = False
                        continue
                    break
                work = _without_another(work)
                more = min(more, _left(work.plans[0], n))
                if more < 1:
                    break
            work = _replaced(work, done.results, n + more, length=_gone_on(work.plans[0], n))
            done = _done(work)
    except KeyboardInterrupt:
        # between two stretches, or while draws were judged
        done = done._replace(complete=False)
        made = done.results[0].n_draws
        warnings.warn(f"interrupted: the {made} draws a chain made so far are returned.", stacklevel=4)
    n, plan = done.results[0].n_draws, work.plans[0]
    steps = plan.length.before + n * plan.thin
    if n > draws:
        done = done._replace(results=[result.chosen(evenly(n, draws)) for result in done.results])
    return Lengthened(work, done, steps, selected or plan.length.selected, evidences if n == draws else None)


def _is_cut(work: Work, done: Done) -> bool:
    """Return True if the clock ended the run before the draws that were to be made next."""
    return work.stop.is_timed and done.results[0].n_draws < work.plans[0].draws


def _halved(work: Work, done: Done) -> tuple[Work, Done]:
    """Every second draw, where there are twice as many as are wanted."""
    plan, n = work.plans[0], done.results[0].n_draws
    if n < 2 * plan.length.draws:
        return work, done
    results = [result.chosen(evenly(n, n // 2)) for result in done.results]
    return _replaced(work, results, n // 2, thin=2 * plan.thin), Done(results, True)


def _more(plan: Plan, n: int, began: float) -> int:
    """Draws that a stretch makes from ``n`` of them on, till the next look; 0 at the end."""
    length = plan.length
    # a run resumed within a stretch has fewer draws than it is to return
    left = (length.draws if n < length.draws else 2 * length.draws) - n
    if length.seconds is not None:
        if n >= length.draws and time.perf_counter() - began >= length.seconds:
            return 0
        left = min(left, -(-length.draws // PIECES))
    return min(left, _left(plan, n))


def _left(plan: Plan, n: int) -> int:
    """Draws that the steps there may be leave for."""
    return (plan.length.steps - plan.length.before) // plan.thin - n


def _gone_on(plan: Plan, n: int) -> Length:
    """The length of a run that goes on after ``n`` draws of a stretch: those that were enough to confirm did not."""
    return plan.length._replace(confirms=plan.length.confirms and n < plan.length.draws)


def _may_confirm(plan: Plan) -> bool:
    """Whether as many steps once more leave half of the work; how many a run may make does not matter."""
    steps = plan.length.before + 2 * plan.length.draws * plan.thin
    return steps <= CONFIRMED_WITHIN * plan.length.affordable


def _is_first(plan: Plan) -> bool:
    """Whether no draws were looked at before these."""
    return plan.length.before == 0 and plan.thin == 1


def _is_doubled(plan: Plan) -> bool:
    """Whether a stretch has been doubled since it began, as the first one need not be.

    Each begins with as many steps as the one before it ended with: draws, draws, twice, four times as many, ...
    """
    return 2 * plan.length.draws * plan.thin > plan.length.before + plan.length.draws


def _has_room(plan: Plan, began: float, stretch_began: float) -> bool:
    """Whether the steps of the stretch now over can be made once more before the end."""
    length, made = plan.length, plan.length.draws * plan.thin
    if length.steps - length.before - made < made:
        return False
    if length.seconds is None:
        return True
    now = time.perf_counter()
    return length.seconds - (now - began) >= now - stretch_began


def _without_another(work: Work) -> Work:
    """With fewer steps left than another stretch has, where the clock alone said that there is no room for it.

    So a run with the steps that this one will have made does not begin one either.
    """
    plan = work.plans[0]
    made, length = plan.length.draws * plan.thin, plan.length
    if length.seconds is None:
        return work
    length = length._replace(steps=min(length.steps, length.before + 2 * made - 1))
    return work._replace(plans=[plan._replace(length=length) for plan in work.plans])


def _stretched(work: Work, done: Done, began: float, confirms: bool) -> tuple[Work, Done, bool]:
    """Another stretch, and True; where that is cut short what was before it, and False.

    It goes by what the draws taught, or ``confirms`` them, with what was known before.
    """
    plan, n = work.plans[0], done.results[0].n_draws
    length = plan.length._replace(before=plan.length.before + n * plan.thin, confirms=confirms)
    piece = n if length.seconds is None else -(-n // PIECES)
    try:
        made = Done(restarted(work, done.results) if confirms else with_draws(work, done.results), True)
        anew = _replaced(work, made.results, 0, length=length)
        while made.complete and made.results[0].n_draws < n:
            if length.seconds is not None and time.perf_counter() - began >= length.seconds:
                return work, done, False
            anew = _replaced(anew, made.results, min(n, made.results[0].n_draws + piece))
            made = _done(anew)
        if made.results[0].n_draws == n:
            return anew, made, True
        if made.complete:
            # the clock ended the stretch
            return work, done, False
    except KeyboardInterrupt:
        pass
    warnings.warn(f"interrupted: instead of a new stretch the {n} draws a chain before it are returned.", stacklevel=5)
    return work, done._replace(complete=False), False


def _done(work: Work) -> Done:
    if work.checkpoint is not None:
        work.checkpoint.follow(work.plans)
    return do(work)


def _replaced(
    work: Work, results: list[Result], draws: int, *, thin: int | None = None, length: Length | None = None
) -> Work:
    """The same with other draws made, to be made, and steps between them."""
    plan = work.plans[0]
    thin, length = plan.thin if thin is None else thin, plan.length if length is None else length
    plans = [plan._replace(draws=draws, thin=thin, length=length) for plan in work.plans]
    return work._replace(plans=plans, before=list(results))


def evenly(n: int, m: int) -> np.ndarray:
    """Which ``m`` of ``n`` draws to keep, evenly spaced, the last one among them."""
    return (np.arange(1, m + 1) * n) // m - 1


def judged(plan: Plan, results: list[Result]) -> tuple[bool, np.ndarray | None]:
    """Return True if the draws satisfy the criterion, and the evidences of the teams if they were needed to know it."""
    saved, ends = [result.saved for result in results], tuple(result.end for result in results)
    are_large = sum(len(one.node) for one in saved) > MANY_NODES
    # of drawn feature weights the log posterior is not kept by tree
    if are_large and plan.model.split_prior.drawn_weights is None and not agrees(_log_posterior(saved)):
        return False, None
    course = Course(plan.kernel, plan.thin, ends, results[0].n_draws * plan.thin)
    post = join_chains(plan.model, saved, plan.kernel.moves, 0.0, course=course)
    if not converged(post):
        return False, None
    evidences = team_evidences(post)
    return not evidences_differ(evidences), evidences


def _log_posterior(saved: list[Saved]) -> np.ndarray:
    """(chains, draws) of the draws, unnormalised."""
    return np.array([(one.tree.log_prior + one.tree.log_score)[one.tree_of_draw] for one in saved])
