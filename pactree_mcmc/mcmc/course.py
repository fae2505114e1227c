"""The course of a run: tuning, stretches of draws, and the posterior at the end.

A *stretch* is a series of draws that are judged together. A run of fixed length has one. An adaptive run judges its
draws, and ends if they satisfy the criterion. Otherwise, if there is room, their trees are added to the graphs of both
teams, and a new stretch begins, which drops the draws before it. Without graphs, or room for a stretch, the stretch is
extended: it makes further draws, and keeps every second one of twice as many.

Stretches have 1, 1, 2, 2, 4, 4, 8, ... times the steps of the first one. Of several stretches, one that satisfies the
criterion lacks the rare excursions of chains more often than others, so that its errors are understated. Therefore such
a stretch gets a second half of the same length. If the second half satisfies the criterion, it is returned. If not, but
both halves together do, every second of all draws is returned. The first stretch, and draws that were extended, need no
confirmation. The run ends after a given number of steps, whose cost in rows visited was measured in tuning. So the same
seed ends at the same draw on any machine.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterable
from concurrent.futures import Executor
from typing import Any

import numpy as np

from ..core.texts import warn
from ..files.calls import Call
from ..files.store import write_parts
from ..posterior.convergence import LOSS_PHRASE, first_failure, log_posterior_failure, loss_lines, short_diagnosis
from ..posterior.draws import Course, Draws
from ..posterior.ess import ConvergenceWarning
from ..posterior.evidence import Tempering, join_ladder_reports, prior_mass
from ..posterior.sampled import SampledPosterior
from ..tree.coded import Saved
from .chain.draw_store import first_draws, join_draws, pad_draws, select_draws
from .chain.tempering import LadderReport, read_ladder
from .run.loop import TUNING_FRACTION, advance, errors_by_chain, name_cell_in_errors, slices, with_model_sent_once
from .run.records import MAX_RELATIVE_LENGTH, Request, Stretch, Tuned
from .run.run import Run, Verdict
from .run.run_chain import RunChain, draw, measure, tune
from .whole.evidence import team_evidences, with_evidences
from .whole.rounds import has_room_in_graphs, tune_in_teams, with_draws_in_graphs

PILOT_STEPS = 10
"""Number of first steps by which the cost of a step is measured in a run without a density."""
MAX_PILOT_FRACTION = 0.5
"""Largest fraction of the work for tuning and the first draws of a run without a density."""


def new_run(request: Request, sources: list[Any], executor: Executor | None, progress: bool, **rest: Any) -> Run:
    """Return a run that has not begun. ``sources`` has a source of randomness for each chain."""
    chains = [RunChain.new(c, source, request.n_teams) for c, source in enumerate(sources)]
    stretch = Stretch(0, False, 0, request.thin, request.draws)
    return Run(request, Tuned(request.kernel), stretch, chains, [None] * len(chains), executor, progress, **rest)


def run_to_end(run: Run) -> SampledPosterior:
    """Tune the chains if they are not tuned, make the draws, and return their posterior."""
    run.executor = with_model_sent_once(run.executor, run.request.model)
    try:
        with run.progress:
            if run.executor is None:
                # compile in the main thread, which an interruption ends at once: a pool would wait for its threads
                with name_cell_in_errors(run.request.model, ()):
                    run.chains[0].build(run.request, run.tuned.kernel)
            run.stop.start()
            run.stretch_start = time.perf_counter()
            tune_chains(run)
            make_stretches(run)
    except KeyboardInterrupt:
        run = interrupted(run)
    return finish(run)


def tune_chains(run: Run) -> None:
    """Tune the chains that are not tuned, and complete ``run.tuned``."""
    request = run.request
    if request.n_teams > 0:
        if run.tuned.tune < 0:
            tune_in_teams(run)
            save_if_due(run)
        return
    if run.tuned.tune < 0:
        run.tuned = (
            measured(run) if request.is_adaptive and request.betas is None else run.tuned._replace(steps=request.steps)
        )
    n = run.n_tune = request.tune if run.tuned.tune < 0 else run.tuned.tune
    missing = [c for c in run.up if run.chains[c].tuned < n]
    if missing:
        advance(run, tune, dict.fromkeys(missing, (n, request.tune)), TUNING_FRACTION)
        n = min(run.chains[c].tuned for c in run.up)
        if n < request.tune and run.tuned.tune < 0:
            run.omissions.append(f"the last {request.tune - n} of {request.tune} steps of tuning of each chain")
    if run.tuned.tune < 0:
        run.tuned = run.tuned._replace(tune=n)
        save_if_due(run)


def measured(run: Run) -> Tuned:
    """Run the first steps of an adaptive run without a density, and return its length and block by their cost."""
    # a step gets fewer proposals if the usual number would exceed the work. Chains that are lost begin anew.
    request, steps = run.request, min(PILOT_STEPS, run.request.tune)
    rows_of_chain = advance(run, measure, dict.fromkeys(run.up, (steps,)), TUNING_FRACTION)
    run.lost_chains = {}
    rows, kernel = request.n_chains * np.mean(list(rows_of_chain.values())), request.kernel
    # the first draws, tuning included, get at most a part of the work: otherwise a step has fewer proposals
    part = min(1.0, MAX_PILOT_FRACTION * request.work / (rows * (request.tune + request.draws)))
    block = max(int(part * kernel.block), 1)
    n_steps = request.work / (rows * block / kernel.block) - request.tune
    n_steps = int(min(max(n_steps, request.draws), MAX_RELATIVE_LENGTH * request.draws))
    return run.tuned._replace(kernel=kernel._replace(block=block), steps=request.steps or n_steps)


def make_stretches(run: Run) -> None:
    """Make the draws of one stretch after another, until the draws satisfy the criterion or the run is at its end."""
    while make_draws(run) and run.request.is_adaptive:
        if run.stretch.confirms:
            run.verdict = judge_halves(run)
            if run.verdict.passes:
                return
        else:
            halve(run)
            run.verdict = None
            if n_further(run) < 1:
                return
            run.verdict = judge(run)
        run.failure = run.verdict.failure
        stretch = next_stretch(run)
        if stretch is None:
            return
        if stretch.before > run.stretch.before or stretch.confirms:
            run.run_before, start_time = copy.copy(run), time.perf_counter()
            run.run_before.chains, run.run_before.run_before = [chain.at_rest() for chain in run.chains], None
            if not stretch.confirms:
                run.tuned, run.draws = with_draws_in_graphs(run), [None] * len(run.chains)
            run.verdict, run.stretch_start = None, start_time
        run.stretch = stretch
        save_if_due(run)


def judge_halves(run: Run) -> Verdict:
    """Judge the second half of the draws, and if it fails both halves. Keep only the draws that were judged last."""
    both, stretch, n = run.draws, run.stretch._replace(confirms=False), run.request.draws
    run.draws = [None if saved is None else select_draws(saved, np.arange(n, 2 * n)) for saved in both]
    run.stretch = stretch._replace(before=stretch.before + n * stretch.thin, goal=n)
    verdict = judge(run)
    if verdict.passes:
        return verdict
    run.draws, run.stretch = both, stretch
    halve(run)
    return judge(run)


def make_draws(run: Run) -> bool:
    """Make the draws of the present stretch. Return False if the clock or a lost chain leaves its goal unreached."""
    goal, thin = run.stretch.goal, run.stretch.thin
    n_made = run.n_draws
    for n in slices(run, goal - n_made):
        n_made += n
        missing = {c: n_made - run.n_draws_of(c) for c in run.up if run.n_draws_of(c) < n_made}
        rests = run.request.is_adaptive and n_made == goal
        try:
            advance(run, draw, {c: (k, thin, rests) for c, k in missing.items()})
        finally:
            for c, chain in enumerate(run.chains):
                new, old = chain.take_draws(), run.draws[c]
                run.draws[c] = new if old is None else old if new is None else join_draws(old, new)
        save_if_due(run)
    if run.n_draws < min(goal, run.request.draws) and run.stretch.before == 0:
        run.omissions.append(f"{run.request.draws - run.n_draws} of {run.request.draws} draws of each chain")
    return run.n_draws == goal and not run.lost_chains


def halve(run: Run) -> None:
    """Keep every second one of twice as many draws as requested."""
    if run.n_draws >= 2 * run.request.draws:
        thin_out(run, run.n_draws // 2)
        run.stretch = run.stretch._replace(thin=2 * run.stretch.thin, goal=run.n_draws)


def thin_out(run: Run, n: int) -> None:
    """Keep ``n`` evenly spaced draws of each chain if there are more."""
    if run.n_draws > n:
        indices = even_indices(run.n_draws, n)
        for c in run.up:
            run.draws[c] = select_draws(run.draws[c], indices)


def even_indices(n: int, m: int) -> np.ndarray:
    """Return the indices (m,) of ``m`` evenly spaced draws of ``n``, the last draw included."""
    return (np.arange(1, m + 1) * n) // m - 1


def n_further(run: Run) -> int:
    """Return the number of draws to be made in this stretch before the next judgement, 0 or less at the end."""
    n = run.n_draws
    missing = 2 * run.request.draws - n
    return 0 if run.stop.is_set() else min(missing, (run.limit - run.stretch.before) // run.stretch.thin - n)


def judge(run: Run) -> Verdict:
    """Judge the draws by `check_convergence`, and by all that follows from the evidences of the teams."""
    # the log posterior is judged first, since large trees take seconds to be joined
    saved = [run.draws[c] for c in run.up]
    log_posterior = [(one.tree.log_prior + one.tree.log_score)[one.tree_of_draw] for one in saved]
    failure = log_posterior_failure(np.array(log_posterior))
    if failure:
        return Verdict(failure, None)
    post = posterior_so_far(run)
    failure = first_failure(post)
    if failure:
        return Verdict(failure, None)
    evidences = team_evidences(post, run.stop.seconds)
    post.course = with_evidences(post, evidences)
    return Verdict(LOSS_PHRASE if loss_lines(post) else "", evidences)


def next_stretch(run: Run) -> Stretch | None:
    """Return the stretch after the verdict, the present one with a larger goal, or None at the end of the run."""
    now, draws = run.stretch, run.request.draws
    assert run.verdict is not None
    if run.verdict.passes:
        is_trusted = now.before == 0 or now.thin > thin_of_stretch(now.number)
        if is_trusted or not first_that_fits(run, now.thin):
            return None
        return run.stretch._replace(confirms=True, goal=2 * draws)
    if has_room_in_graphs(run):
        thin = first_that_fits(run, thin_of_stretch(now.number + 1), min(thin_of_stretch(now.number), now.thin))
        if thin > 0:
            return Stretch(now.number + 1, False, run.steps, thin, draws, run.stretch.limit)
    n = n_further(run)
    return run.stretch._replace(goal=run.n_draws + n) if n > 0 else None


def thin_of_stretch(number: int) -> int:
    """Return the number of steps between two draws in a stretch, if there is room for it: 1, 1, 2, 2, 4, 4, ..."""
    return 2 ** (number // 2)


def first_that_fits(run: Run, *thins: int) -> int:
    """Return the first of several numbers of steps between two draws for which the next stretch has room, else 0."""
    # if only the time is too short for a stretch, reduce the limit of the run to exclude it. Then ``steps=`` repeats
    # the run.
    for thin in dict.fromkeys(thins):
        end = run.steps + thin * run.request.draws
        if end > run.limit:
            continue
        now = time.perf_counter()
        if now + thin / run.stretch.thin * (now - run.stretch_start) <= run.stop.until:
            return thin
        run.stretch = run.stretch._replace(limit=min(run.limit, end - 1))
    return 0


def interrupted(run: Run) -> Run:
    """Return an interrupted run with the draws that are returned, or raise KeyboardInterrupt if there are none."""
    # in threads these are as many draws as every chain has, on an executor those of the chains that have all. If a new
    # stretch, or the second half of one, was cut short, they are those before it.
    run.is_interrupted, goal = True, run.stretch.goal
    if run.tuned.tune < 0:
        raise KeyboardInterrupt(_interruption_message(run)) from None
    if run.run_before is not None and is_cut_short(run):
        run.run_before.is_interrupted = True
        warn(
            f"interrupted: instead of a new stretch the {run.run_before.n_draws} draws a chain before it are returned."
        )
        return run.run_before
    n_finished = sum(run.n_draws_of(c) >= goal for c in run.up)
    if run.n_draws >= goal:
        warn(f"interrupted: the {run.n_draws} draws a chain made so far are returned.")
    elif n_finished > 0 and run.executor is not None:
        warn(f"interrupted: {n_finished} of {len(run.up)} chains had finished and are returned.")
        run.unfinished = {c for c in run.up if run.n_draws_of(c) < goal}
    elif run.n_draws == 0:
        raise KeyboardInterrupt(_interruption_message(run)) from None
    else:
        warn(f"interrupted: {run.n_draws} of {goal} draws a chain are returned.")
    return run


def _interruption_message(run: Run) -> str:
    """Return the message of the KeyboardInterrupt of a run that has no draws yet to return."""
    until = "every chain had a draw" if run.executor is None else "a chain had finished"
    rest = "nothing to return"
    if run.path is not None:
        rest = f"pt.resume({str(run.path)!r}) goes on from what is written there"
    return f"interrupted before {until}; {rest}"


def is_cut_short(run: Run) -> bool:
    """Return True if the present stretch, or its second half, lacks draws."""
    return run.n_draws < (2 if run.stretch.confirms else 1) * run.request.draws


def complete(run: Run) -> Run:
    """Return the run, or if its last stretch or the second half of it was cut short, the run before that."""
    return run.run_before if run.run_before is not None and is_cut_short(run) else run


def finish(run: Run) -> SampledPosterior:
    """Return the posterior of the draws, write it to the file of the run, and warn if they are not to be trusted."""
    run = complete(run)
    has_passed = run.verdict is not None and run.verdict.passes and run.n_draws <= run.request.draws
    if run.lost_chains:
        save_if_due(run, now=True)
        rest = "" if run.path is None else f", and pt.resume({str(run.path)!r}) finishes the lost"
        n, errors = len(run.chains), errors_by_chain(run.lost_chains)
        warn(f"{len(run.lost_chains)} of {n} chains were lost ({errors}); the others are returned{rest}.")
    steps = run.steps
    thin_out(run, min(run.request.draws, run.n_draws))
    try:
        post = posterior_so_far(run, steps)
    except KeyboardInterrupt:
        # joining the draws takes a moment, and without it all of them would be lost
        post = posterior_so_far(run, steps)
    if run.omissions:
        warn(_early_end_warning(run, post))
    lines: list[str] = []
    try:
        evidences = None if run.verdict is None else run.verdict.evidences
        if post.course is not None:
            evidences = team_evidences(post, run.stop.seconds) if evidences is None else evidences
            post.course = with_evidences(post, evidences)
        # draws that passed are not diagnosed once more, which would take a tenth of a short run
        if not has_passed or loss_lines(post):
            lines = short_diagnosis(post)
        post.draws.caveat = lines[0] if lines else ""
        if run.path is not None and not run.lost_chains and not run.is_interrupted:
            post.save(run.path)
    except KeyboardInterrupt:
        warn("interrupted: all draws are returned, but not checked; post.summary() checks them.")
    if lines:
        warn("\n  ".join(lines), ConvergenceWarning)
    return post


def posterior_so_far(run: Run, steps: int | None = None) -> SampledPosterior:
    """Return the posterior of the draws that all chains have."""
    # ``steps`` is the number of steps at the end of a run, to which the diagnostics of tempering belong
    n, course = run.n_draws, None
    rests = tuple(run.chains[c].rest._replace(team=run.chains[c].team) for c in run.up)
    # interrupted chains may stand behind the last draw that all have
    if all(run.n_draws_of(c) == n for c in run.up):
        request = run.request._replace(starts=tuple(run.request.starts[c] for c in run.up))
        course = Course(request, run.tuned, run.stretch, rests, run.steps if steps is None else steps)
    draws = [first_draws(saved, n) for c in run.up if (saved := run.draws[c]) is not None]
    model, tempering = run.request.model, None
    assert model is not None
    if run.request.betas is not None and steps is not None:
        tempering = join_ladder_reports(_ladders_of(run, run.up, draws), prior_mass(model))
    calls = tuple(call.with_outcome(None if course is None else steps) for call in run.request.calls)
    return SampledPosterior(_join_draws(run, draws, tempering, calls), course)


def _join_draws(run: Run, draws: list[Saved], tempering: Tempering | None, calls: tuple[Call, ...]) -> Draws:
    """Return equally many draws of some chains, joined."""
    assert run.request.model is not None
    seconds, moves = run.seconds + time.perf_counter() - run.start_time, run.tuned.kernel.count_names
    return Draws.join(run.request.model, draws, moves=moves, seconds=seconds, tempering=tempering, calls=calls)


def _ladders_of(run: Run, chains: Iterable[int], draws: list[Saved]) -> list[LadderReport]:
    """Return the rates of exchange of tempered chains, and the scores of their ``draws`` at all levels."""
    out = []
    for c, saved in zip(chains, draws, strict=True):
        rungs = run.chains[c].rungs
        if rungs is None:
            # the chain has not begun
            betas = read_ladder(run.request.betas)[0]
            out.append(LadderReport(betas, saved.levels, saved.is_stump, np.zeros(len(betas) - 1), 0))
        else:
            rates = rungs.acceptance / np.maximum(rungs.tried, 1)
            out.append(LadderReport(rungs.betas, saved.levels, saved.is_stump, rates, rungs.trips))
    return out


def save_if_due(run: Run, now: bool = False) -> None:
    """Write the posterior so far to the file of the run, if the interval is over or ``now``."""
    # a chain that has fewer draws than others, since it was lost, gets copies of its first tree, which readers leave
    # out
    if run.path is None or not (now or time.perf_counter() - run.time_written >= run.every):
        return
    n_made = tuple(run.n_draws_of(c) for c in range(len(run.chains)))
    rests = tuple(chain.rest._replace(team=chain.team) for chain in run.chains)
    steps = run.stretch.before + max(n_made) * run.stretch.thin
    course = Course(run.request, run.tuned, run.stretch, rests, steps, None, n_made, None, run.every)
    assert run.request.model is not None
    parts = {"model": run.request.model.parts_in_file, "course": course}
    if any(n_made):
        some = next(saved for saved in run.draws if saved is not None)
        draws = [pad_draws(first_draws(some, 1) if saved is None else saved, max(n_made)) for saved in run.draws]
        tempering = None
        if run.request.betas is not None:
            betas, scores, is_stump, rates, trips = map(
                np.array, zip(*_ladders_of(run, range(len(n_made)), draws), strict=True)
            )
            tempering = Tempering(betas, scores, rates, trips, None, None, is_stump)
        parts["draws"] = _join_draws(run, draws, tempering, run.request.calls).record()
    write_parts(parts, run.path)
    run.time_written = time.perf_counter()


def _early_end_warning(run: Run, post: SampledPosterior) -> str:
    """Return the warning about a run that its time limit has shortened: what was left out, and how to make it."""
    missing = run.request.draws - post.n_draws
    advice = f" pt.resume(post, {missing}) makes the other draws." if missing > 0 else ""
    return (
        f"seconds={run.stop.seconds:g} ended the run early. Left out: {'; '.join(run.omissions)}.{advice} "
        "Give more seconds= for a run that is tuned as usual."
    )
