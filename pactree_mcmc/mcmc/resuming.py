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
from ..loading.load import load, load_unfinished
from ..model import CustomLeaf, CustomSplits
from ..posterior.sampled import SampledPosterior
from ..tree.coded import SAVED_TREE, Saved
from .chain.tempering import LadderReport
from .kernel import restore_own_moves
from .moves.base import Move
from .run.checkpoint import Checkpoint, Unfinished, read_checkpoint_path, read_interval
from .run.task import Length, Plan, Result
from .run.workers import RunState
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
    Costs as much as `sample` without tuning. At first only some of the stored values of cells are available.

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
    unfinished = load_unfinished(run, leaf, split_prior) if is_path else None
    if unfinished is not None:
        plans, seconds = _remaining_plans(run, unfinished, draws, moves), unfinished.seconds
        results = [*unfinished.results]
    else:
        post = load(run, leaf=leaf, split_prior=split_prior) if isinstance(run, str | os.PathLike) else run
        if not isinstance(post, SampledPosterior) and is_path:
            raise ValueError(f"{run} holds a {type(post).__name__}; sample it: pt.sample(pt.load(path)).")
        if not isinstance(post, SampledPosterior):
            raise TypeError(f"run is a {type(run).__name__}; give a SampledPosterior, or the path of a file.")
        if draws is None and is_path:
            return post
        plans, seconds = _further_plans(post, draws, moves), post.seconds
        results = [_result_of_chain(post, c) for c in range(post.n_chains)]
    file = None
    if checkpoint is not None:
        file = Checkpoint(read_checkpoint_path(checkpoint), every, plans, seconds)
        file.write(results)
    elif unfinished is not None:
        file = Checkpoint(check_output_path(run), unfinished.every, plans, seconds)
    return run_plans(RunState(plans, results, executor, progress, file), seconds)


def _remaining_plans(path: Any, run: Unfinished, draws: int | None, moves: Sequence[Move]) -> list[Plan]:
    """Return the plans of the checkpoint at ``path``, whose content is ``run``, with the code of the user's moves in
    their kernels. Raise ValueError unless ``draws`` is None.
    """
    if draws is not None:
        raise ValueError(
            f"{path} is a checkpoint of a run on its way to {run.plans[0].draws} draws; leave draws out, and resume "
            "what is returned for more."
        )
    return [plan._replace(kernel=restore_own_moves(plan.kernel, moves)) for plan in run.plans]


def _further_plans(post: SampledPosterior, draws: int | None, moves: Sequence[Move]) -> list[Plan]:
    """Return the plans of a posterior's chains to make ``draws`` further draws each, with the code of the user's moves.

    The plans count all draws, those from before included. Raise ValueError if the posterior does not come from chains.
    """
    if draws is None:
        raise ValueError("draws=None is out of range; give how many further draws a chain, an integer >= 1.")
    check_count("draws", draws)
    course = post.course
    if course is None:
        raise ValueError(
            "the posterior holds independent draws, or those of chains interrupted at different draws; there is "
            "nothing to go on from. Give a run that was finished, or the path of its checkpoint."
        )
    total, kernel = post.n_draws + int(draws), restore_own_moves(course.kernel, moves)
    # an adaptive run ends with the requested draws
    length = Length(total, total * course.thin) if course.kernel.adapts else None
    # a call is recorded only if those before are
    calls = (*post.calls, call_record(resume, {"draws": draws})) if post.calls else ()
    return [
        Plan(post.model, total, end.tuned, course.thin, kernel, end.generator, None, None, length, calls)
        for end in course.ends
    ]


def _result_of_chain(post: SampledPosterior, c: int) -> Result:
    """Return the result of chain ``c`` of a posterior: its draws, and its state after them."""
    numbers, first, tree_number = np.unique(post.tree_of_draw[c], return_index=True, return_inverse=True)
    # trees are numbered by first occurrence, as chains do
    order = np.argsort(first)
    numbers, rank = numbers[order], np.argsort(order)
    assert post.course is not None
    trees = post.coded_trees.take(numbers)
    tree = np.zeros(len(numbers) + 1, dtype=SAVED_TREE).view(np.recarray)
    tree.start = trees.offset
    tree.log_prior[:-1], tree.log_score[:-1] = post.log_prior_of_tree[numbers], post.log_score_of_tree[numbers]
    moves = np.stack([post.proposed[c], post.accepted[c]], axis=1)
    n_entries = np.array([post.n_draws, len(numbers), len(trees.feature)], dtype=np.int64)
    stats = post.node_stats[post.coded_trees.nodes_of(numbers)]
    saved = Saved(rank[tree_number], post.noise_variance[c], moves, tree, trees.records(), stats, n_entries)
    ladder, tempering = None, post.tempering
    if tempering is not None:
        ladder = LadderReport(*(getattr(tempering, name)[c] for name in LadderReport._fields))
    return Result(saved, ladder, post.course.ends[c])
