"""The length of a run: draws are judged, and the run ends, goes on, or begins a new stretch of draws.

A run of given length has one stretch. A run that finds its own length moves between these states:

    JUDGE    nothing is left: END
             the draws satisfy the criterion of `convergence`, and need no confirmation, or there is no room: END
             they satisfy it: CONFIRM
             they do not, their stretch is not the last, and there is room for another one: RENEW
             otherwise: EXTEND
    CONFIRM  drop the draws, and make as many with the same graphs: JUDGE
    RENEW    add the draws to the graphs of both teams, drop them, and make a new stretch: JUDGE
    EXTEND   make further draws of the same stretch, then keep every second one of twice as many: JUDGE

There are six stretches at most, of 1, 1, 2, 2, 4 and 4 times the steps of the first one, beside those that confirm. Of
several stretches, one that satisfies the criterion lacks the rare excursions of chains more often than others, so that
its errors are understated. Therefore the next one must satisfy it too, and takes its place. The first stretch, a
confirming one and draws that were extended need no confirmation. The run ends after a given number of steps, whose cost
in rows visited was measured in tuning. So the same seed ends at the same draw on any machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import Enum
from math import inf

import numpy as np

from ..core.warn import warn
from ..posterior.convergence import agrees, converged
from ..posterior.evidence import evidences_differ
from ..posterior.joining import join_chains
from ..tree.drawn import Course, Saved
from .run.task import Length, Plan, Result
from .run.workers import Done, Work, do
from .whole.evidence import team_evidences
from .whole.rounds import can_add_draws, with_draws, without_draws

FEWEST = 1000
"""Smallest number of draws in all for which a run waits until the criterion holds."""
STRETCHES = 6
"""Largest number of stretches. Later the graphs gain little (benchmarks/README.md, More time)."""
MANY_NODES = 1_000_000
"""Number of nodes of saved trees above which the log posterior is judged before all trees are joined, which takes
seconds."""


class State(Enum):
    """States of a run that finds its own length."""

    JUDGE = "judge"
    CONFIRM = "confirm"
    RENEW = "renew"
    EXTEND = "extend"
    END = "end"


class Schedule:
    """State of a run, and the transitions between its states.

    Parameters
    ----------
    work : Work
        Plans of the chains, and their results so far.
    done : Done
        First draws of the chains.
    began : float
        Time of ``time.perf_counter`` at which the run began.
    """

    def __init__(self, work: Work, done: Done, began: float) -> None:
        self.work, self.done, self.began = work, done, began
        self.stretch_began = began
        self.evidences: np.ndarray | None = None
        """`Course.evidences` of the draws judged last, or None if they were not computed."""
        self.next_thin = 0
        """Number of steps between two draws of the next stretch, 0 if there is none."""

    @property
    def plan(self) -> Plan:
        """Plan of the first chain. Those of the others differ in generator and start."""
        return self.work.plans[0]

    @property
    def n_draws(self) -> int:
        """Number of draws of a chain in the present stretch."""
        return self.done.results[0].n_draws

    @property
    def steps(self) -> int:
        """Number of steps of a chain since tuning."""
        return self.plan.length.before + self.n_draws * self.plan.thin

    def run(self) -> Schedule:
        """Run to the end, and keep as many draws as were asked for, at even steps."""
        actions: dict[State, Callable[[], State]] = {
            State.JUDGE: self._judge,
            State.CONFIRM: self._confirm,
            State.RENEW: self._renew,
            State.EXTEND: self._extend,
        }
        state = State.JUDGE
        try:
            while state is not State.END:
                state = actions[state]()
        except KeyboardInterrupt:
            self.done = self.done._replace(complete=False)
            warn(f"interrupted: the {self.n_draws} draws a chain made so far are returned.")
        return self

    def chosen(self) -> Done:
        """Return the draws to be returned: all, or as many as were asked for, at even steps."""
        n, draws = self.n_draws, self.plan.length.draws
        if n <= draws:
            return self.done
        return self.done._replace(results=[result.chosen(evenly(n, draws)) for result in self.done.results])

    def _judge(self) -> State:
        """Judge the draws, if there are as many as were asked for, and choose what to do next."""
        self._keep_every_second()
        self.evidences = None
        is_cut = self.work.stop.is_timed and self.n_draws < self.plan.draws
        if not self.done.complete or is_cut or self._further() < 1:
            return State.END
        if self.n_draws < self.plan.length.draws:
            return State.EXTEND
        is_good, self.evidences = judged(self.plan, self.done.results)
        if is_good:
            self.next_thin = self._next_thin(True) if self._needs_confirmation else 0
            return State.END if self.next_thin == 0 else State.CONFIRM
        self.next_thin = self._next_thin(False) if can_add_draws(self.work, self.done.results) else 0
        return State.EXTEND if self.next_thin == 0 else State.RENEW

    @property
    def _needs_confirmation(self) -> bool:
        """True if draws that satisfy the criterion are one of several stretches, and were not extended."""
        length, is_extended = self.plan.length, self.plan.thin > thin_of(self.plan.length.stretch)
        return length.before > 0 and not length.confirms and not is_extended

    def _extend(self) -> State:
        """Make further draws of the present stretch, up to twice as many as are kept."""
        n = self.n_draws + self._further()
        if n == self.n_draws:
            return State.END
        self.work = _with(self.work, self.done.results, n)
        self.done = self._draw(self.work)
        return State.JUDGE

    def _confirm(self) -> State:
        """Make a stretch of equal length with the same graphs."""
        length = self.plan.length._replace(before=self.steps, confirms=True)
        return self._stretch(without_draws, length)

    def _renew(self) -> State:
        """Make the next stretch, with graphs to which the present draws are added."""
        length = self.plan.length._replace(before=self.steps, confirms=False, stretch=self.plan.length.stretch + 1)
        return self._stretch(with_draws, length)

    def _stretch(self, begun: Callable[[Work, list[Result]], list[Result]], length: Length) -> State:
        """Make a new stretch from the chains that ``begun`` returns; keep the present one if it is cut short."""
        thin, n, now = self.next_thin, self.plan.length.draws, time.perf_counter()
        is_whole = False
        try:
            results = begun(self.work, self.done.results)
            work = _with(self.work, results, n, thin=thin, length=length)
            done = self._draw(work)
            is_whole = done.complete and done.results[0].n_draws == n
            is_interrupted = not done.complete
        except KeyboardInterrupt:
            is_interrupted = True
        if is_whole:
            self.work, self.done, self.stretch_began = work, done, now
            return State.JUDGE
        if is_interrupted:
            self.done = self.done._replace(complete=False)
            warn(f"interrupted: instead of a new stretch the {self.n_draws} draws a chain before it are returned.")
        return State.END

    def _draw(self, work: Work) -> Done:
        """Make the draws of the plans, and let a checkpoint follow."""
        if work.checkpoint is not None:
            work.checkpoint.follow(work.plans)
        return do(work)

    def _keep_every_second(self) -> None:
        """Keep every second draw if there are twice as many as were asked for."""
        n = self.n_draws
        if n >= 2 * self.plan.length.draws:
            results = [result.chosen(evenly(n, n // 2)) for result in self.done.results]
            self.work = _with(self.work, results, n // 2, thin=2 * self.plan.thin)
            self.done = Done(results, self.done.complete)

    def _further(self) -> int:
        """Return the number of draws to be made before the next look, 0 at the end."""
        length, n = self.plan.length, self.n_draws
        if n >= length.draws and self.work.stop.is_set():
            return 0
        wanted = (length.draws if n < length.draws else 2 * length.draws) - n
        return min(wanted, (length.steps - length.before) // self.plan.thin - n)

    def _next_thin(self, confirms: bool) -> int:
        """Return the number of steps between two draws of the next stretch, 0 if there is none or no room for one.

        If there is no room for a longer stretch, there may be for an equal one. If the time alone is too short for a
        stretch, the run gets fewer steps than this one has, so that ``steps=`` repeats the run.
        """
        draws, thin, number = self.plan.length.draws, self.plan.thin, self.plan.length.stretch + 1
        if number == STRETCHES and not confirms:
            return 0
        for next_thin in (thin,) if confirms else dict.fromkeys((thin_of(number), thin)):
            steps = next_thin * draws
            if steps > self.plan.length.steps - self.steps:
                continue
            if self._has_time(next_thin / thin):
                return next_thin
            self._limit_steps(self.steps + steps - 1)
        return 0

    def _has_time(self, longer: float) -> bool:
        """Return True if there is time for a stretch that takes ``longer`` times the seconds of the present one."""
        seconds, now = self.plan.length.seconds, time.perf_counter()
        return seconds is None or now - self.began + longer * (now - self.stretch_began) <= seconds

    def _limit_steps(self, most: int) -> None:
        """Let the run have at most ``most`` steps."""
        length = self.plan.length._replace(steps=min(self.plan.length.steps, most))
        self.work = self.work._replace(plans=[plan._replace(length=length) for plan in self.work.plans])


def judged(plan: Plan, results: list[Result]) -> tuple[bool, np.ndarray | None]:
    """Return True if the draws satisfy the criterion, and the evidences of the teams if they were needed to know it."""
    saved, ends = [result.saved for result in results], tuple(result.end for result in results)
    are_large = sum(len(one.node) for one in saved) > MANY_NODES
    # the log posterior is not stored by tree if feature weights are drawn
    if are_large and plan.model.split_prior.drawn_weights is None and not agrees(_log_posterior(saved)):
        return False, None
    course = Course(plan.kernel, plan.thin, ends, results[0].n_draws * plan.thin)
    post = join_chains(plan.model, saved, plan.kernel.moves, 0.0, course=course)
    if not converged(post):
        return False, None
    evidences = team_evidences(post, inf if plan.length.seconds is None else plan.length.seconds)
    return not evidences_differ(evidences), evidences


def thin_of(stretch: int) -> int:
    """Return the number of steps between two draws of a stretch, counted from 0, if there is room for it."""
    return 2 ** (stretch // 2)


def evenly(n: int, m: int) -> np.ndarray:
    """Return the indices (m,) of ``m`` of ``n`` draws at even steps, the last one among them."""
    return (np.arange(1, m + 1) * n) // m - 1


def _with(
    work: Work, results: list[Result], draws: int, *, thin: int | None = None, length: Length | None = None
) -> Work:
    """Return the work that goes on from ``results`` to ``draws`` draws a chain."""
    plan = work.plans[0]
    thin, length = plan.thin if thin is None else thin, plan.length if length is None else length
    plans = [plan._replace(draws=draws, thin=thin, length=length) for plan in work.plans]
    return work._replace(plans=plans, before=list(results))


def _log_posterior(saved: list[Saved]) -> np.ndarray:
    """Return the unnormalised log posterior (chains, draws) of the draws."""
    return np.array([(one.tree.log_prior + one.tree.log_score)[one.tree_of_draw] for one in saved])
