"""The length of an adaptive run: draws are judged, and the run ends, goes on, or begins a new stretch of draws.

A *stretch* is a series of draws that are judged together. A new stretch drops the draws before it.

A run of fixed length has one stretch. An adaptive run moves between these states:

    JUDGE    there is no time or work for further draws: END
             the draws satisfy the criterion, and need no confirmation, or there is no room for one: END
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

from ..core.texts import warn
from ..posterior.convergence import has_converged, log_posterior_converged, loss_lines
from ..posterior.joining import join_chains
from ..tree.coded import Course
from .run.task import Length, Plan, Result
from .run.workers import RunState, make_draws
from .whole.evidence import team_evidences, with_evidences
from .whole.rounds import add_draws_to_graphs, can_add_draws, drop_draws

MAX_STRETCHES = 6
"""Largest number of stretches. Later the graphs gain little (benchmarks/README.md, More time)."""


class State(Enum):
    """States of an adaptive run."""

    JUDGE = "judge"
    CONFIRM = "confirm"
    RENEW = "renew"
    EXTEND = "extend"
    END = "end"


class Schedule:
    """Progress of an adaptive run, and the transitions between its states.

    ``run_state`` has the plans of the chains and their first draws. ``start_time`` is by ``time.perf_counter``.
    """

    def __init__(self, run_state: RunState, start_time: float) -> None:
        self.run_state, self.start_time, self.stretch_start = run_state, start_time, start_time
        self.evidences: np.ndarray | None = None
        """`Course.evidences` of the draws judged last, or None if they were not computed."""
        self.has_passed = False
        """True if the draws satisfied the criterion when they were judged last."""
        self.next_thin = 0
        """Number of steps between two draws of the next stretch, 0 if there is none."""

    @property
    def plan(self) -> Plan:
        """Plan of the first chain. Those of the others differ in generator and start."""
        return self.run_state.plans[0]

    @property
    def length(self) -> Length:
        """Limits of the run, and its present stretch."""
        assert self.plan.length is not None
        return self.plan.length

    @property
    def n_draws(self) -> int:
        """Number of draws that each chain has made so far in the present stretch, after thinning."""
        return self.run_state.present_results[0].n_draws

    @property
    def steps(self) -> int:
        """Number of steps that each chain has made since tuning."""
        return self.length.before + self.n_draws * self.plan.thin

    def run(self) -> tuple[RunState, int, np.ndarray | None]:
        """Run to the end. Return the state of the run with the requested number of draws, the number of steps that each
        chain has made since tuning, and the evidences of the last draws, or None if they were not computed.
        """
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
            self.run_state = self.run_state._replace(is_complete=False)
            warn(f"interrupted: the {self.n_draws} draws a chain made so far are returned.")
        steps = self.steps
        self.has_passed &= self.n_draws <= self.length.draws
        self._thin_out(self.length.draws)
        return self.run_state, steps, self.evidences

    def _judge(self) -> State:
        """Check if the draws satisfy the criterion, if there are as many as requested, and choose the next state.

        With twice as many draws as requested, first keep every second one.
        """
        if self.n_draws >= 2 * self.length.draws:
            self._thin_out(self.n_draws // 2)
            self.run_state = _change_plans(self.run_state, draws=self.n_draws, thin=2 * self.plan.thin)
        self.evidences, self.has_passed = None, False
        is_cut = self.run_state.stop.is_timed and self.n_draws < self.plan.draws
        if not self.run_state.is_complete or is_cut or self._n_further() < 1:
            return State.END
        if self.n_draws < self.length.draws:
            return State.EXTEND
        self.has_passed, self.evidences = judge_draws(self.plan, self.run_state.present_results)
        if self.has_passed:
            self.next_thin = self._next_thin(confirms=True) if self._needs_confirmation else 0
            return State.END if self.next_thin == 0 else State.CONFIRM
        self.next_thin = self._next_thin(confirms=False) if can_add_draws(self.run_state) else 0
        return State.EXTEND if self.next_thin == 0 else State.RENEW

    @property
    def _needs_confirmation(self) -> bool:
        """True if the present stretch (series of draws that are judged together) is not the first, confirms no other
        one, and was not extended: then another stretch must confirm draws that satisfy the criterion.
        """
        is_extended = self.plan.thin > thin_of_stretch(self.length.stretch)
        return self.length.before > 0 and not self.length.confirms and not is_extended

    def _extend(self) -> State:
        """Make further draws in the present stretch, up to twice the requested number."""
        n = self._n_further()
        if n == 0:
            return State.END
        self.run_state = _draw_with_checkpoint(_change_plans(self.run_state, draws=self.n_draws + n))
        return State.JUDGE

    def _confirm(self) -> State:
        """Make a new stretch of equal length with the same graphs, which confirms the present one or not."""
        return self._begin_stretch(drop_draws, self.length._replace(before=self.steps, confirms=True))

    def _renew(self) -> State:
        """Add the present draws to the graphs, begin a new stretch of draws, and return the next state of the run."""
        length = self.length._replace(before=self.steps, confirms=False, stretch=self.length.stretch + 1)
        return self._begin_stretch(add_draws_to_graphs, length)

    def _begin_stretch(self, begin: Callable[[RunState], list[Result]], length: Length) -> State:
        """Make a new stretch with the limits ``length``, from the chains without draws that ``begin`` returns, and
        return the next state. Keep the present stretch, and end the run, if the new one is cut short.
        """
        start_time, n = time.perf_counter(), length.draws
        try:
            run_state = self.run_state._replace(results=list(begin(self.run_state)))
            run_state = _draw_with_checkpoint(_change_plans(run_state, draws=n, thin=self.next_thin, length=length))
            is_interrupted = not run_state.is_complete
        except KeyboardInterrupt:
            run_state, is_interrupted = self.run_state, True
        if not is_interrupted and run_state.present_results[0].n_draws == n:
            self.run_state, self.stretch_start = run_state, start_time
            return State.JUDGE
        if is_interrupted:
            self.run_state = self.run_state._replace(is_complete=False)
            warn(f"interrupted: instead of a new stretch the {self.n_draws} draws a chain before it are returned.")
        return State.END

    def _thin_out(self, n: int) -> None:
        """Keep ``n`` evenly spaced draws of each chain if there are more."""
        if self.n_draws > n:
            indices = even_indices(self.n_draws, n)
            results = [result.select(indices) for result in self.run_state.present_results]
            self.run_state = self.run_state._replace(results=results)

    def _n_further(self) -> int:
        """Return the number of draws to be made in this stretch before the next judgement, 0 or less at the end."""
        length, n = self.length, self.n_draws
        if n >= length.draws and self.run_state.stop.is_set():
            return 0
        missing = (length.draws if n < length.draws else 2 * length.draws) - n
        return min(missing, (length.steps - length.before) // self.plan.thin - n)

    def _next_thin(self, confirms: bool) -> int:
        """Return the number of steps between two draws of the next stretch, 0 if there is none or no room for one.

        If ``confirms`` is True, the next stretch only confirms good draws, and has the thinning of the present one.
        Otherwise it replaces bad draws, and has that of `thin_of_stretch`, or the present one if there is no room.
        After 0 the present stretch is extended. If only the time is too short for a stretch, reduce the largest number
        of steps so that it excludes the stretch. Then ``steps=`` repeats the run.
        """
        thin, number = self.plan.thin, self.length.stretch + 1
        if number == MAX_STRETCHES and not confirms:
            return 0
        for next_thin in (thin,) if confirms else dict.fromkeys((thin_of_stretch(number), thin)):
            end = self.steps + next_thin * self.length.draws
            if end > self.length.steps:
                continue
            if self._has_time(next_thin / thin):
                return next_thin
            length = self.length._replace(steps=min(self.length.steps, end - 1))
            self.run_state = _change_plans(self.run_state, length=length)
        return 0

    def _has_time(self, longer: float) -> bool:
        """Return True if the time limit leaves room for a stretch ``longer`` times as long as the present one took."""
        seconds, now = self.length.seconds, time.perf_counter()
        return seconds is None or now - self.start_time + longer * (now - self.stretch_start) <= seconds


def judge_draws(plan: Plan, results: list[Result]) -> tuple[bool, np.ndarray | None]:
    """Return True if the draws satisfy the criterion, and the evidences of the teams, or None if not computed.

    The criterion is that of `check_convergence`, with all that follows from the evidences.
    """
    saved = [result.saved for result in results]
    # the log posterior is judged first, since large trees take seconds to be joined
    log_posterior = [(one.tree.log_prior + one.tree.log_score)[one.tree_of_draw] for one in saved]
    if not log_posterior_converged(np.array(log_posterior)):
        return False, None
    course = Course(plan.kernel, plan.thin, tuple(result.end for result in results), results[0].n_draws * plan.thin)
    post = join_chains(plan.model, saved, plan.kernel.count_names, 0.0, course=course)
    if not has_converged(post):
        return False, None
    limit = inf if plan.length is None or plan.length.seconds is None else plan.length.seconds
    evidences = team_evidences(post, limit)
    post.course = with_evidences(post, evidences)
    return not loss_lines(post), evidences


def thin_of_stretch(stretch: int) -> int:
    """Return the number of steps between two draws in stretch (series of draws that are judged together) number
    ``stretch``, from 0, if there is room for it: 1, 1, 2, 2, 4, 4.
    """
    return 2 ** (stretch // 2)


def even_indices(n: int, m: int) -> np.ndarray:
    """Return the indices (m,) of ``m`` evenly spaced draws of ``n``, the last draw included."""
    return (np.arange(1, m + 1) * n) // m - 1


def _change_plans(run_state: RunState, **changes: object) -> RunState:
    """Return the run with these fields of the plans of all chains changed."""
    return run_state._replace(plans=[plan._replace(**changes) for plan in run_state.plans])


def _draw_with_checkpoint(run_state: RunState) -> RunState:
    """Give the plans to the checkpoint, if any, make their draws, and return the state of the run after them."""
    if run_state.checkpoint is not None:
        run_state.checkpoint.update_plans(run_state.plans)
    return make_draws(run_state)
