"""Implementation of `pt.resume`: chains go on where they stopped."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import Executor
from typing import Any

import numpy as np

from ..core.checks import check_count, in_words
from ..files.calls import call_of
from ..files.store import AnyPath, check_target
from ..loading.load import load, load_unfinished
from ..model import CustomLeaf, CustomSplits
from ..posterior.sampled import SampledPosterior
from ..tree.drawn import SAVED_TREE, Saved
from .chain.tempering import LadderReport
from .kernel import complete
from .moves.base import Move
from .run.checkpoint import Checkpoint, read_checkpoint_path, read_interval
from .run.task import Length, Plan, Result
from .run.workers import Work
from .sampling import check_executor, run_plans


def resume(
    run: SampledPosterior | AnyPath,
    draws: int | None = None,
    *,
    executor: Executor | None = None,
    progress: bool = True,
    checkpoint: AnyPath | None = None,
    every: float = 60.0,
    moves: Sequence[Move] = (),
    leaf: CustomLeaf | None = None,
    split_prior: CustomSplits | None = None,
) -> SampledPosterior:
    """Let the chains of a run go on, to the last bit as if they had never stopped.

    ``resume(sample(model, 500, tune=100, rng=1), 500)`` has the draws of ``sample(model, 1000, tune=100, rng=1)``, in a
    fresh process too. Draws added to a run that found its own length lie as far apart as its own, or, where steps or
    time ended it, up to twice as close.

    Parameters
    ----------
    run : SampledPosterior or path-like
        From `sample`, `resume` or `load`; or the path of a file of one, or of a checkpoint, whose plan is finished.
    draws : int, optional
        Further draws a chain, >= 1, thinned as before. Left out for a checkpoint, which knows what is missing.
    executor, progress
        As for `sample`.
    checkpoint, every
        As for `sample`. A run that is resumed from a checkpoint goes on writing to it, as often as before.
    moves : list of Move, optional
        The moves of your own that the run's kernel has, where ``run`` comes from a file, which holds their names and
        none of their code. Others are not looked at.
    leaf, split_prior : CustomLeaf, CustomSplits, optional
        As for `load`, if ``run`` is the path of a file that was written with a leaf, or splits, of your own.

    Returns
    -------
    SampledPosterior
        With the draws from before and the further ones. A finished run is returned as it is when ``draws`` is left
        out for its path, so that a script may resume whatever it finds.

    Raises
    ------
    ValueError
        If draws is out of range or missing, the posterior holds independent draws or those of an interrupted run, a
        file cannot be used, or a move of the kernel is missing or counts other than it did.
    TypeError
        If ``run`` is neither a SampledPosterior nor a path, or ``moves`` holds what is no Move.

    Warns
    -----
    UserWarning
        If a move given for one of the same name has other code, as far as the file shows: the draws from before
        were made by the other.

    Notes
    -----
    Cost that of `sample` without tuning; what chains keep of cells is at hand only in part at first.

    Examples
    --------
    >>> import numpy as np, pactree_mcmc as pt
    >>> x = np.arange(40.0)
    >>> post = pt.sample(pt.TreeModel(x[:, None], x > 19), 200, tune=50, chains=2, rng=1)
    >>> resume(post, 100).n_draws
    300
    """
    check_executor(executor)
    found = _read_moves(moves)
    if isinstance(run, str | os.PathLike):
        rest = _rest_of_file(run, draws, executor, progress, checkpoint, every, found, leaf, split_prior)
        return rest if isinstance(rest, SampledPosterior) else run_plans(*rest)
    for name, part in {"leaf": leaf, "split_prior": split_prior}.items():
        if part is not None:
            raise ValueError(f"{name}= is for the path of a file; a posterior has its {name}.")
    if not isinstance(run, SampledPosterior):
        raise TypeError(f"run is a {type(run).__name__}; give a SampledPosterior, or the path of a file.")
    return run_plans(*_rest_of_posterior(run, draws, executor, progress, checkpoint, every, found))


def _rest_of_file(
    path: Any,
    draws: int | None,
    executor: Executor | None,
    progress: bool,
    checkpoint: Any,
    every: float,
    moves: list[Move],
    leaf: CustomLeaf | None,
    split_prior: CustomSplits | None,
) -> SampledPosterior | tuple[Work, float]:
    """Return the rest of the run of a file with its seconds so far, or the posterior if the run is finished."""
    found = load_unfinished(path, leaf, split_prior)
    if found is None:
        post = load(path, leaf=leaf, split_prior=split_prior)
        if not isinstance(post, SampledPosterior):
            raise ValueError(f"{path} holds a {type(post).__name__}; sample it: pt.sample(pt.load(path)).")
        return post if draws is None else _rest_of_posterior(post, draws, executor, progress, checkpoint, every, moves)
    plans, before = [_with_moves(plan, moves) for plan in found.plans], list(found.results)
    if draws is not None:
        raise ValueError(
            f"{path} is a checkpoint of a run on its way to {plans[0].draws} draws; leave draws out, and resume what "
            "is returned for more."
        )
    if checkpoint is None:
        target, every = check_target(path, only="netCDF"), found.every
    else:
        target, every = read_checkpoint_path(checkpoint), read_interval(every)
    written = Checkpoint(target, every, plans, found.seconds)
    return Work(plans, before, executor, progress, written), found.seconds


def _rest_of_posterior(
    post: SampledPosterior,
    draws: int | None,
    executor: Executor | None,
    progress: bool,
    checkpoint: Any,
    every: float,
    moves: list[Move],
) -> tuple[Work, float]:
    """Return the task of making further draws, with the seconds so far."""
    if draws is None:
        raise ValueError("draws=None is out of range; give how many further draws a chain, an integer >= 1.")
    check_count("draws", draws)
    course = post.course
    if course is None:
        raise ValueError(
            "the posterior holds independent draws, or those of chains interrupted at different draws; there is "
            "nothing to go on from. Give a run that was finished, or the path of its checkpoint."
        )
    total, kernel = post.n_draws + int(draws), complete(course.kernel, moves)
    # the run ends with the draws asked for
    length = None
    if course.kernel.adapts:
        length = Length(total, total * course.thin)
    # a call is recorded only if those before are
    calls = (*post.calls, call_of(resume, {"draws": draws})) if post.calls else ()
    plans = [
        Plan(post.model, total, end.tuned, course.thin, kernel, end.generator, None, None, length, calls)
        for end in course.ends
    ]
    before: list[Result | None] = [_result(post, c) for c in range(post.n_chains)]
    written, every = None, read_interval(every)
    if checkpoint is not None:
        written = Checkpoint(read_checkpoint_path(checkpoint), every, plans, post.seconds)
        written.write(before)
    return Work(plans, before, executor, progress, written), post.seconds


def _read_moves(moves: Any) -> list[Move]:
    """Return the given moves as a list, checked."""
    if not isinstance(moves, list | tuple) or not all(isinstance(move, Move) for move in moves):
        raise TypeError(f"moves is {in_words(moves)}; give a list of pt.Move.")
    return list(moves)


def _with_moves(plan: Plan, moves: list[Move]) -> Plan:
    """Return a plan whose kernel has a user's moves."""
    return plan._replace(kernel=complete(plan.kernel, moves))


def _result(post: SampledPosterior, c: int) -> Result:
    """Return the result of one chain of a posterior, with the draws of this chain alone."""
    chosen, first, number = np.unique(post.tree_of_draw[c], return_index=True, return_inverse=True)
    # trees are numbered by first occurrence, as chains do
    order = np.argsort(first)
    chosen, rank = chosen[order], np.argsort(order)
    assert post.course is not None
    trees = post.coded_trees.take(chosen)
    tree = np.zeros(len(chosen) + 1, dtype=SAVED_TREE).view(np.recarray)
    tree.start = trees.offset
    tree.log_prior[:-1], tree.log_score[:-1] = post.log_prior_of_tree[chosen], post.log_score_of_tree[chosen]
    moves = np.stack([post.proposed[c], post.accepted[c]], axis=1)
    used = np.array([post.n_draws, len(chosen), len(trees.feature)], dtype=np.int64)
    stats = post.node_stats[post.coded_trees.nodes_of(chosen)]
    saved = Saved(rank[number], post.noise_variance[c], moves, tree, trees.records(), stats, used)
    if post.weights_of_draw is not None:
        saved = saved._replace(weights=post.weights_of_draw[c])
    ladder, found = None, post.tempering
    if found is not None:
        ladder = LadderReport(*(getattr(found, name)[c] for name in LadderReport._fields))
    return Result(saved, ladder, post.course.ends[c])
