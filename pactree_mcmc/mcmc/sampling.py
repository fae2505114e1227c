"""Implementation of `pt.sample`: check the arguments, run the chains, build the posterior."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

import numpy as np

from ..core.checks import MOST, Seed, check_count, check_number, in_words, is_integer
from ..core.sending import sending
from ..core.warn import warn
from ..files.calls import call_of, source_of
from ..files.store import AnyPath
from ..model import TreeModel
from ..posterior.convergence import warn_if_unconverged
from ..posterior.evidence import gather, prior_mass
from ..posterior.joining import join_chains
from ..posterior.sampled import SampledPosterior
from ..tree.drawn import Course
from ..tree.tree import Tree
from .chain.start import Dispersed
from .chain.tempering import read_ladder
from .kernel import PROPOSALS_PER_DRAW, check_even, read_kernel
from .run.checkpoint import Checkpoint, read_checkpoint_path, read_interval
from .run.pilot import fitted
from .run.stop import Stop
from .run.task import LENGTHS, WORK, Length, Plan
from .run.workers import Done, Work, do
from .schedule import FEWEST, Schedule
from .state.stored import line_sums
from .whole.evidence import team_evidences
from .whole.rounds import default_work, tune_teams, tunes_within

TUNE = 1000
"""Default number of tuning steps."""
PROPOSALS_OF_WHOLE = 30
"""Default number of proposals between two draws in kernel "whole" and in mixtures with it."""


def sample(
    model: TreeModel,
    draws: int = 1000,
    *,
    tune: int | None = None,
    chains: int = 4,
    rng: Seed | Sequence[Seed] = None,
    kernel: str | Mapping[Any, float] = "default",
    thin: int | None = None,
    proposals: int | None = None,
    steps: int | None = None,
    seconds: float | None = None,
    work: float | None = None,
    start: str | Tree | list[Tree] | tuple[Tree, ...] = "dispersed",
    betas: int | Sequence[float] | np.ndarray | None = None,
    executor: Executor | None = None,
    progress: bool = True,
    checkpoint: AnyPath | None = None,
    every: float = 60.0,
) -> SampledPosterior:
    """Draw trees from the posterior by Metropolis sampling.

    Parameters
    ----------
    model : TreeModel
        What is believed.
    draws : int, default 1000
        Draws kept per chain, >= 1.
    tune : int, optional
        Steps dropped first, >= 0. Giving it, ``thin`` or ``proposals`` makes a run of that length, with 1000 for
        ``tune`` where it is left out. Without any of the three the run finds its own length: see Notes.
    chains : int, default 4
        Independent chains, >= 1, each with a generator of its own.
    rng : int, SeedSequence, Generator, sequence of these, or None
        Source of randomness; chain c takes its c-th spawned child, so draws do not depend on how many workers run,
        nor, where chains neither learn together nor wait for each other, on how many chains. A sequence gives each
        chain its own source, taken as it is.
    kernel : {"default", "whole", "local", "cgm", "grow-prune", "blanchard"} or {move or kernel: weight}
        "default": "whole" in a run that finds its own length, unless on a ladder, with one ordered feature, or where
        learning would not pay (rows times features, and ten for each distinct value, are more than 200,000) or not
        fit into its ``work``; else "local". "whole":
        whole trees and subtrees from a density that the chains learn together in tuning, and a few local moves;
        "local": many local moves; "cgm": grow, prune, change, swap (Chipman et al. 1998); "grow-prune": uniform choice
        of leaf or prunable node; "blanchard": the walk from the root of Blanchard (1999), section 6.
        Moves: grow-prune, blanchard, collapsed, redraw, change, shift, swap, rotate, regrow-1, regrow-2 (by lookahead),
        regrow-line, restructure, reshape, learned, subgraph, and `Move` objects of your own, as in
        ``{"default": 0.9, MyMove(): 0.1}``; weights >= 0, not all 0, are fractions of the proposals. See
        docs/kernels.md and docs/extending.md.
    thin : int, optional
        Keep every thin-th step, >= 1; in a run of given length 1 where left out.
    proposals : int, optional
        Proposals a step, >= 1; in a run of given length 100 where left out, 30 for "whole". Fewer give more draws a
        second, less apart: for small problems, where a hundred proposals move further than to the next draw worth
        keeping.
    steps : int, optional
        Where a run that finds its own length ends at the latest: steps a chain after tuning, >= ``draws``. That of a
        run before, ``post.course.steps``, repeats it.
    seconds : float, optional
        Wall time after which such a run ends, > 0; less than 1 counts as 1. It includes tuning, but neither compiling
        nor the judgement of the draws at the end, which takes a second or so. Chains stop learning after .4 of the
        time and tuning after half of it. The rest is for draws: as many of every chain, at least one, and fewer than
        ``draws`` if there is no time for more. A warning says what was left out. On an executor the clock starts with
        the first task. A checkpoint that is resumed has all the time again.
    work : float, optional
        Rows that such a run visits at most, about, in all chains, tuning included, >= 1; default 1e10, one to six
        minutes of processor time, and up to 2e10 where chains learn from a table of more than 50,000 values,
        distinct rows times features (docs/default.md says what is counted). Less of it makes tuning shorter
        and, of many rows, steps of fewer proposals.
    start : {"dispersed", "grown", "prior", "stump"}, Tree, or sequence of Trees, one a chain; default "dispersed"
        Where chains start. "grown": from the root down, each cell is split or not, and by which split, as its
        lookahead sum says; chains differ by chance. "dispersed": so too, but with another feature at the root of each
        of the first four chains, where there are as many, and below it the likelihood to the power 1, 1/2 or 1/4 in
        turn: chains begin further apart than the posterior is wide, and have to find each other.
    betas : int >= 2, or decreasing sequence of powers from 1, optional
        Temper the score: run a replica of each chain at every power, neighbours exchanging places after each draw. A
        number means a ladder from 1 to 0, adapted in tuning to equal swap rates; a given ladder is kept. With a ladder
        down to 0 the result has a ``log_evidence``; ``tempering`` has the swap rates and round trips.
    executor : concurrent.futures.Executor, optional
        Runs the chains, each as one task: processes, Dask, MPI, Ray (docs/clusters.md). The model is sent with each
        task, on a Dask cluster once. Chains whose worker dies are named in a warning and left out. Default: threads, as
        many as there are cores.
    progress : bool, default True
        Show a bar on the standard error if it is a terminal, else a line every 30 seconds: first the steps of tuning
        of all chains, then their draws, acceptance and leaves (on an executor the draws of finished tasks). It also
        announces code that must be compiled first.
    checkpoint : path-like, optional
        A new netCDF file (.nc) to which the run is written at the start and ``every`` so often, each time whole or not
        at all: after a crash ``resume(checkpoint)`` finishes it, with the draws of a run that was not cut. At the end
        it is the file that ``save`` writes. On an executor a chain is then one task after another.
    every : float, default 60.0
        Seconds between checkpoints, > 0; writing takes longer the more draws there are.

    Returns
    -------
    SampledPosterior

    Raises
    ------
    ValueError
        If an argument is out of range, the kernel or a move is unknown, weights are negative or all zero, the ladder
        does not decrease from 1, a start tree cannot occur under the model, its fixed tree has joint nodes, the
        checkpoint exists, or the score of a cell is not finite: the message names the cell.
    TypeError
        If the model is not a TreeModel.
    KeyboardInterrupt
        If interrupted before every chain has a draw; later, the draws so far are returned with a warning. An executor
        returns the draws of tasks that are finished: with ``seconds`` or a checkpoint a chain is several tasks.

    Notes
    -----
    A run that finds its own length makes ``draws`` steps. As long as `check_convergence` finds something it goes on,
    until steps that visit ``work`` rows are made or ``seconds`` are over. In kernel "whole" the chains tune in two
    teams that exchange nothing, and each time the run goes on both teams get the draws of all chains and these are
    dropped; otherwise the number of draws doubles and every second one is kept. The end is counted in steps, so that
    the same seed gives the same draws on any machine. With fewer than 1000 draws in all the run does not wait for the
    criterion: ``draws`` steps are made, or what ``steps`` or ``seconds`` say. In kernel "whole" tuning also sets the
    weights, and the proposals a step, by what these cost.

    A proposal costs O(rows of the leaf concerned). Memory beside the model: 8 bytes a row and chain, the draws,
    each distinct successive tree once, and what is kept of cells: up to 16 MB a chain, in kernel "whole" 35 to 45 MB,
    and once for all chains the graph of what trees met, up to 40 MB, by which files grow too.

    Examples
    --------
    >>> import numpy as np, pactree_mcmc as pt
    >>> x = np.arange(40.0)
    >>> post = pt.sample(pt.TreeModel(x[:, None], x > 19), 200, tune=50, chains=2, rng=1)
    >>> bool(post.predict_proba([[0.0]])[0, 0] > 0.9)
    True
    """
    given = dict(locals())
    check_reachable(model)
    check_executor(executor)
    for name, value in {"draws": draws, "chains": chains}.items():
        check_count(name, value)
    length = _read_length(draws, tune, thin, proposals, steps, seconds, work)
    tune, thin = TUNE if tune is None else tune, 1 if thin is None else thin
    is_line = betas is None and line_sums(model.lowered) > 0
    best = "local"
    learns = length is not None and "default" in _named(kernel) and betas is None and not is_line
    if length is not None and learns and model.split_prior.is_even:
        most = default_work(model) if work is None else length.work
        best = "whole" if tunes_within(most, model, int(chains)) else "local"
    is_whole = "whole" in [best if name == "default" else name for name in _named(kernel)]
    if length is not None and is_whole and work is None:
        length = length._replace(work=default_work(model))
    if proposals is None:
        proposals = PROPOSALS_OF_WHOLE if is_whole else PROPOSALS_PER_DRAW
    adapts = length is not None and is_whole
    mixture = read_kernel(kernel, int(proposals), is_line=is_line, adapts=adapts, best=best)
    check_even(mixture, model.split_prior)
    if betas is not None:
        read_ladder(betas)
    if length is not None and length.steps == 0 and betas is not None:
        length = length._replace(steps=LENGTHS * int(draws))
    if length is not None and steps is None and seconds is None and int(draws) * int(chains) < FEWEST:
        length = length._replace(steps=int(draws))
    sources = chain_seeds(rng, int(chains))
    starts = _read_starts(model, start, int(chains))
    calls = (call_of(sample, given | {"rng": source_of(rng, sources)}),)
    plans = [
        Plan(model, int(draws), int(tune), int(thin), mixture, source, first, betas, length, calls)
        for source, first in zip(sources, starts, strict=True)
    ]
    written = None
    every = read_interval(every)
    if checkpoint is not None:
        written = Checkpoint(read_checkpoint_path(checkpoint), every, plans)
        written.write([None] * len(plans))
    return run_plans(Work(plans, [None] * len(plans), executor, progress, written), 0.0)


def run_plans(work: Work, seconds: float) -> SampledPosterior:
    """Run chains that took ``seconds`` before, join their draws, and replace the checkpoint by the posterior."""
    began, first = time.perf_counter(), work.plans[0]
    limit = None if first.length is None else first.length.seconds
    stop = Stop() if limit is None else Stop(limit)
    work = work._replace(executor=sending(work.executor, first.model), stop=stop)
    if first.betas is None and any(result is None for result in work.before):
        if first.kernel.is_guided:
            work = tune_teams(work)
        elif first.length is not None and all(result is None for result in work.before):
            work = fitted(work)
        if work.checkpoint is not None:
            work.checkpoint.follow(work.plans)
    done, steps, evidences = do(work), None, None
    if work.plans[0].length is not None:
        schedule = Schedule(work, done, stop.began if stop.is_timed else began).run()
        work, done, steps, evidences = schedule.work, schedule.chosen(), schedule.steps, schedule.evidences
    seconds += time.perf_counter() - began
    try:
        post = _posterior(work, done, seconds, steps)
    except KeyboardInterrupt:
        # takes a moment, and without it all draws would be lost
        post = _posterior(work, done, seconds, steps)
    if stop.cuts:
        warn(_ended_early(stop, post, work.plans[0]))
    try:
        if post.course is not None:
            evidences = team_evidences(post, stop.seconds) if evidences is None else evidences
            post.course = post.course._replace(evidences=evidences)
        if done.complete and work.checkpoint is not None:
            post.save(work.checkpoint.path)
        warn_if_unconverged(post, levels=1 if post.tempering is None else post.tempering.betas.shape[1])
    except KeyboardInterrupt:
        warn("interrupted: all draws are returned, but not judged; post.summary() does.")
    return post


def _posterior(work: Work, done: Done, seconds: float, steps: int | None) -> SampledPosterior:
    """Return the posterior of the draws of all chains, after ``steps`` steps each."""
    first, results, tempering, course = work.plans[0], done.results, None, None
    steps = results[0].n_draws * first.thin if steps is None else steps
    if results[0].ladder is not None:
        tempering = gather([result.ladder for result in results], prior_mass(first.model))
    if all(result.end is not None for result in results):
        course = Course(first.kernel, first.thin, tuple(result.end for result in results), steps)
    saved = [result.saved for result in results]
    post: SampledPosterior = join_chains(first.model, saved, first.kernel.moves, seconds, tempering, course)
    post.calls = tuple(call.ended(None if course is None else steps) for call in first.calls)
    return post


def _ended_early(stop: Stop, post: SampledPosterior, plan: Plan) -> str:
    """Return the warning about a run that the time limit has shortened."""
    missing = plan.length.draws - post.n_draws if plan.length is not None else 0
    advice = f" pt.resume(post, {missing}) makes the other draws." if missing > 0 else ""
    return (
        f"seconds={stop.seconds:g} ended the run early. Left out: {'; '.join(stop.cuts)}.{advice} "
        "Give more seconds= for a run that is tuned as usual."
    )


def _named(kernel: Any) -> list[str]:
    """Return the names in the argument ``kernel``, whatever its type."""
    names = [kernel] if isinstance(kernel, str) else list(kernel) if isinstance(kernel, Mapping) else []
    return [name for name in names if isinstance(name, str)]


def _read_length(
    draws: int, tune: Any, thin: Any, proposals: Any, steps: Any, seconds: Any, work: Any
) -> Length | None:
    """Return the limits of a run that finds its own length, or None if the length is given."""
    given = {"tune": tune, "thin": thin, "proposals": proposals}
    given = {name: value for name, value in given.items() if value is not None}
    for name, value in given.items():
        check_count(name, value, 0 if name == "tune" else 1)
    own = {"steps": steps, "seconds": seconds, "work": work}
    own = {name: value for name, value in own.items() if value is not None}
    if given and own:
        raise ValueError(
            f"{', '.join(own)} is for a run that finds its own length; leave out {', '.join(given)}, which give it."
        )
    if steps is not None:
        check_count("steps", steps)
        if steps < draws:
            raise ValueError(f"steps={steps} is less than draws={draws}; give as many or more.")
    if seconds is not None:
        check_number("seconds", seconds, "seconds, > 0", 5e-324)
    if work is not None:
        check_number("work", work, "rows, >= 1", 1.0)
    if given:
        return None
    most = 0 if steps is None else int(steps)
    if seconds is not None and steps is None and work is None:
        most = MOST
    limit = None if seconds is None else float(seconds)
    return Length(int(draws), most, limit, work=WORK if work is None else float(work))


def check_reachable(model: TreeModel) -> None:
    """Refuse an object that is no model, and a model whose trees chains cannot reach."""
    if not isinstance(model, TreeModel):
        raise TypeError(f"model is a {type(model).__name__}; give a TreeModel.")
    if model.shape is not None and model.shape.joint.any():
        raise ValueError(
            "the fixed tree has joint nodes, which chains cannot reach: they grow one node at a time. "
            "Use exact.solve(model), whose .sample(draws) are independent, or exact.progressive_mixture(model)."
        )


def check_executor(executor: Any) -> None:
    """Refuse an object that cannot run tasks."""
    if executor is not None and not callable(getattr(type(executor), "submit", None)):
        raise TypeError(f"executor is {in_words(executor)}; give a concurrent.futures.Executor, or None for threads.")


def chain_seeds(rng: Any, chains: int) -> list[Any]:
    """Return one source of randomness for each chain."""
    if isinstance(rng, list | tuple):
        if len(rng) != chains:
            raise ValueError(f"rng has {len(rng)} entries for {chains} chains; give one each.")
        for source in rng:
            _check_source(source)
        return [np.random.SeedSequence() if source is None else source for source in rng]
    if isinstance(rng, np.random.Generator):
        return list(rng.spawn(chains))
    if isinstance(rng, np.random.SeedSequence):
        return list(np.random.SeedSequence(rng.entropy, spawn_key=rng.spawn_key, pool_size=rng.pool_size).spawn(chains))
    _check_source(rng)
    return list(np.random.SeedSequence(None if rng is None else int(rng)).spawn(chains))


def _check_source(rng: Any) -> None:
    """Refuse an invalid seed. Other objects may be sources that a worker makes."""
    known = rng is None or isinstance(rng, np.random.SeedSequence | np.random.Generator | np.random.BitGenerator)
    if not known and not (is_integer(rng) and int(rng) >= 0):
        raise ValueError(
            f"rng={in_words(rng)}; give None, an integer >= 0, a SeedSequence, a Generator, or one of these a chain."
        )


def _read_starts(model: TreeModel, start: Any, chains: int) -> list[Any]:
    """Return the start of each chain, checked."""
    if isinstance(start, str):
        if start not in ("dispersed", "grown", "prior", "stump"):
            allowed = "'dispersed', 'grown', 'prior', 'stump', a Tree, or one a chain"
            raise ValueError(f"start={in_words(start)} is unknown; give {allowed}.")
        return [Dispersed(c) if start == "dispersed" else start for c in range(chains)]
    if not isinstance(start, Tree | list | tuple):
        allowed = "'dispersed', 'grown', 'prior', 'stump', a Tree, or one Tree a chain"
        raise TypeError(f"start is {in_words(start)}; give {allowed}.")
    trees = [start] * chains if isinstance(start, Tree) else list(start)
    if len(trees) != chains or not all(isinstance(t, Tree) for t in trees):
        raise ValueError(f"start gives {len(trees)} entries for {chains} chains; give one Tree, or one Tree each.")
    for c, tree in enumerate(trees):
        equal = None if model.split_prior.drawn_weights is None else np.ones(model.n_features)
        if model.log_prior(tree, feature_weights=equal) == -np.inf:
            raise ValueError(f"the start tree of chain {c} cannot occur under the model: its prior is 0.")
    return trees
