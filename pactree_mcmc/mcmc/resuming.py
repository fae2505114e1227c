"""Implementation of `pt.resume`: continue chains where they stopped."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import Executor
from typing import Any

import numpy as np

from ..core.checks import check_count, repr_of
from ..files.calls import call_record
from ..files.store import AnyPath, check_output_path
from ..loading.load import load_run
from ..model import CustomLeaf, CustomSplits
from ..posterior.draws import Course, Draws
from ..posterior.sampled import SampledPosterior
from ..tree.coded import SAVED_TREE, Saved
from .course import Run, run_to_end, save_if_due
from .kernel import restore_own_moves
from .moves.base import Move
from .run.records import Stretch
from .run.run_chain import RunChain
from .sampling import check_executor, read_checkpoint_path, read_interval


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
    """Continue the chains of a run, to the last bit as if they had never stopped.

    ``resume(sample(model, 500, tune=100, rng=1), 500)`` has the draws of ``sample(model, 1000, tune=100, rng=1)``, in a
    new process too. Draws added to an adaptive run lie as far apart as its own, or up to twice as close if steps or
    time ended it.

    Parameters
    ----------
    run : SampledPosterior or path-like
        From `sample`, `resume` or `load`, or the path of its file, or of a checkpoint, whose run is finished.
    draws : int, optional
        Number of further draws per chain, >= 1, thinned as before. Left out for a checkpoint, which determines it.
    executor, progress
        As for `sample`.
    checkpoint, every
        As for `sample`. A run that is resumed from a checkpoint continues to write to it, as often as before.
    moves : list of Move, optional
        Your own moves in the kernel of the run, if ``run`` is a path. Files contain their names, without code. Moves
        that the kernel does not have are ignored.
    leaf, split_prior : CustomLeaf, CustomSplits, optional
        As for `load`, if ``run`` is the path of a file that was written with your own leaf or splits.

    Returns
    -------
    SampledPosterior
        With the draws from before and the further ones. Without ``draws`` the path of a finished run returns this run,
        so that a script may resume any file.

    Raises
    ------
    ValueError
        If draws is out of range or missing, the posterior has independent draws or those of an interrupted run, a file
        cannot be used, or a move of the kernel is missing or counts other things than before.
    TypeError
        If ``run`` is neither a SampledPosterior nor a path, or ``moves`` contains other objects than moves.

    Warns
    -----
    UserWarning
        If a move has the name of one of the run and other code, as far as the file shows. The draws from before were
        made with that one.

    Notes
    -----
    Costs as much as `sample` without tuning. At first chains make some steps again, at most some five seconds of them.

    Examples
    --------
    >>> import numpy as np, pactree_mcmc as pt
    >>> x = np.arange(40.0)
    >>> post = pt.sample(pt.TreeModel(x[:, None], x > 19), 200, tune=50, chains=2, rng=1)
    >>> resume(post, 100).n_draws
    300
    """
    check_executor(executor)
    if not isinstance(moves, list | tuple) or not all(isinstance(move, Move) for move in moves):
        raise TypeError(f"moves is {repr_of(moves)}; give a list of pt.Move.")
    every, is_path = read_interval(every), isinstance(run, str | os.PathLike)
    for name, part in {"leaf": leaf, "split_prior": split_prior}.items():
        if part is not None and not is_path:
            raise ValueError(f"{name}= is for the path of a file; a posterior has its {name}.")
    path = None
    n_draws: tuple[int, ...] = ()
    post: Any
    course: Any
    if is_path:
        model, post, course = load_run(run, leaf, split_prior)
        n_draws = () if course is None else course.draws_by_chain
        if not n_draws and post is None:
            raise ValueError(f"{run} holds a TreeModel; sample it: pt.sample(pt.load(path)).")
        if not n_draws and draws is None:
            return post
        if n_draws and draws is not None:
            raise ValueError(f"{run} is a checkpoint on its way to {course.request.draws} draws; leave draws out.")
        if n_draws:
            path, every = check_output_path(run), course.every if checkpoint is None else every
    else:
        if not isinstance(run, SampledPosterior):
            raise TypeError(f"run is a {type(run).__name__}; give a SampledPosterior, or the path of a file.")
        model, post, course = run.model, run, run.course
    if not n_draws:
        course, n_draws = _course_to_further_draws(post, course, draws), (post.n_draws,) * post.n_chains
    if checkpoint is not None:
        path = read_checkpoint_path(checkpoint)
    tuned = course.tuned._replace(kernel=restore_own_moves(course.kernel, moves))
    request = course.request._replace(model=model, kernel=restore_own_moves(course.request.kernel, moves))
    stretch = course.stretch
    chains = [RunChain(c, rest, stretch.before + stretch.thin * n_draws[c]) for c, rest in enumerate(course.rests)]
    saved = [None if n == 0 or post is None else _draws_of_chain(post.draws, c, n) for c, n in enumerate(n_draws)]
    seconds = 0.0 if post is None else post.draws.seconds
    new = Run(request, tuned, stretch, chains, saved, executor, progress, path, every, seconds)
    save_if_due(new, now=checkpoint is not None)
    return run_to_end(new)


def _course_to_further_draws(post: SampledPosterior, course: Course | None, draws: int | None) -> Course:
    """Return the course of a run of fixed length that makes ``draws`` further draws of a posterior's chains."""
    # raise ValueError if the posterior does not come from chains
    if draws is None:
        raise ValueError("draws=None is out of range; give how many further draws a chain, an integer >= 1.")
    check_count("draws", draws)
    if course is None:
        raise ValueError(
            "the posterior holds independent draws, or those of chains interrupted at different draws; there is "
            "nothing to go on from. Give a run that was finished, or the path of its checkpoint."
        )
    total = post.n_draws + int(draws)
    # a call is recorded only if those before are
    calls = (*post.draws.calls, call_record(resume, {"draws": draws})) if post.draws.calls else ()
    request = course.request._replace(draws=total, is_adaptive=False, seconds=None, calls=calls)
    before = course.steps - post.n_draws * course.thin
    return course._replace(request=request, stretch=Stretch(0, False, before, course.thin, total))


def _draws_of_chain(draws: Draws, c: int, n_draws: int) -> Saved:
    """Return the first ``n_draws`` draws of chain ``c``."""
    numbers, first, tree_number = np.unique(draws.tree_of_draw[c, :n_draws], return_index=True, return_inverse=True)
    # trees are numbered by first occurrence, as chains do
    order = np.argsort(first)
    numbers, rank = numbers[order], np.argsort(order)
    trees = draws.coded_trees.take(numbers)
    tree = np.zeros(len(numbers) + 1, dtype=SAVED_TREE).view(np.recarray)
    tree.start = trees.offset
    tree.log_prior[:-1], tree.log_score[:-1] = draws.log_prior_of_tree[numbers], draws.log_score_of_tree[numbers]
    moves = np.stack([draws.proposed[c, :n_draws], draws.accepted[c, :n_draws]], axis=1)
    levels, is_stump = np.zeros((n_draws, 0)), np.zeros(n_draws, dtype=bool)
    if draws.tempering is not None:
        levels, is_stump = draws.tempering.scores[c, :n_draws], draws.tempering.is_stump[c, :n_draws]
    return Saved(
        rank[tree_number],
        draws.noise_variance[c, :n_draws],
        moves,
        levels,
        is_stump,
        tree,
        trees.records(),
        draws.place_stats[draws.coded_trees.nodes_of(numbers)],
        np.array([n_draws, len(numbers), len(trees.feature)], dtype=np.int64),
    )
