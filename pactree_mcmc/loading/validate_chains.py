"""Check of what a file says of its chains: facts that a posterior shows, and states from which only `resume` goes on.

States are checked by type, dtype and shape. That their values are those that the library has written is ensured by the
digest of the content alone, which `files.store.read` compares before.
"""

from __future__ import annotations

from typing import Annotated, Any, get_args, get_type_hints

import numpy as np

from ..mcmc.chain.snapshot import ARRAYS, Replica, Snapshot
from ..mcmc.kernel import STEPS, Kernel
from ..mcmc.run.checkpoint import Unfinished
from ..mcmc.state.scratch import NAMES
from ..mcmc.state.tree import ChainState, sizes_of
from ..model import TreeModel
from ..posterior.draws import draws_of
from ..posterior.joining import join_chains
from ..tree.coded import CODED_NODE
from ..tree.drawn import Course, Saved
from .require import check_declared, require
from .validate import check_draws, check_recorded_calls

DECLARED = get_type_hints(ChainState, include_extras=True)
"""Dtypes and axes of the arrays of a chain."""
EVIDENCES = Annotated[np.ndarray, np.float64, "teams", 2] | None


def check_course(course: Any, draws: Any, model: TreeModel) -> None:
    """Refuse a course that does not belong to the draws."""
    require(isinstance(course, Course), "the course is missing")
    check_kernel(course.kernel)
    require(course.kernel.moves == draws.moves, "the moves are not those of the kernel")
    for name in ("thin", "steps"):
        require(type(getattr(course, name)) is int and getattr(course, name) >= 1, f"{name} is out of range")
    check_declared(course.ends, tuple[Snapshot, ...], "the states of the chains")
    require(len(course.ends) == len(draws.tree_of_draw), "a chain has no state")
    for end in course.ends:
        check_end(end, model, course.kernel)
    check_declared(course.evidences, EVIDENCES, "the evidences", {"teams": len(course.teams)})
    if course.evidences is not None:
        require(np.isfinite(course.evidences[:, 0]), "an evidence is not finite")
        require(~(course.evidences[:, 1] < 0.0), "the error of an evidence is negative")


def check_kernel(kernel: Any) -> None:
    """Refuse a kernel that is not a mixture of moves whose names are known."""
    check_declared(kernel, Kernel, "the kernel")
    names = [*STEPS, *(move.name for move in kernel.own)]
    require(len(set(names)) == len(names), "a move has the name of another")
    require([name in names for name in kernel.names], "the kernel has a move that is unknown")
    require(len(kernel.names) == len(kernel.weights) == len(kernel.given) > 0, "the kernel has no weights")


def check_end(end: Snapshot, model: TreeModel, kernel: Kernel) -> None:
    """Refuse the state of a chain, or of a ladder, that has other shapes or dtypes than this model and kernel give."""
    levels, rungs = 1, end.rungs
    if rungs is not None:
        levels = len(rungs.betas)
        require(len(rungs.tried) == levels - 1 and len(rungs.journey) == levels, "a ladder has other levels")
    require(len(end.replicas) == levels, "a ladder has other levels")
    for replica in end.replicas:
        _check_replica(replica, model, kernel)


def _check_replica(replica: Replica, model: TreeModel, kernel: Kernel) -> None:
    """Refuse the state of one chain that has other shapes or dtypes."""
    require(len(replica.state) == len(ARRAYS), "the state of a chain is incomplete")
    lowered, scratch = model.lowered, kernel.scratch
    n_nodes = len(replica.state[ARRAYS.index("node")])
    sizes = sizes_of(lowered, n_nodes, len(kernel.moves), scratch) | {"params": len(lowered.leaf.params)}
    own = {name: sizes[name] for name in ("features", "weights", "params")}
    check_declared(replica, Replica, "the state of a chain", own)
    for name, array in zip(ARRAYS, replica.state, strict=True):
        hint = DECLARED[name]
        if name in NAMES and name not in scratch:
            # an array that no move of the kernel needs has one entry, see `records.new_group`
            kind, dtype, *axes = get_args(hint)
            hint = Annotated[(kind, dtype, *[1] * len(axes))]
        check_declared(array, hint, f"{name} of a chain", sizes)
    is_fixed = (replica.noise is None, replica.weights is None)
    require(
        is_fixed == (lowered.leaf.is_fixed, lowered.split_prior.is_fixed), "the state of a chain is of another model"
    )


def check_run(run: Any, model: TreeModel) -> Unfinished:
    """Return an unfinished run with its model.

    Refuse states of chains that have other shapes or dtypes, and draws that `check_draws` refuses.
    """
    require(isinstance(run, Unfinished), "the run is missing")
    # a file contains the model once, and the plans without it
    run = run._replace(plans=tuple(plan._replace(model=model) for plan in run.plans))
    check_declared(run, Unfinished, "the run")
    require(len(run.plans) == len(run.results) >= 1, "a chain has no plan")
    require(np.isfinite([run.every, run.seconds]), "the time is not finite")
    for plan, result in zip(run.plans, run.results, strict=True):
        check_kernel(plan.kernel)
        check_recorded_calls(plan.calls)
        if result is not None:
            _check_saved(result.saved, model, plan.kernel.moves)
            if result.end is not None:
                check_end(result.end, model, plan.kernel)
    return run


def _check_saved(saved: Saved, model: TreeModel, moves: tuple[str, ...]) -> None:
    """Refuse draws of a chain that `check_draws` refuses, and trees and nodes that are in no draw."""
    start = np.asarray(saved.tree)["start"]
    require(saved.node.dtype == CODED_NODE and start[0] == 0 and start[-1] == len(saved.node), "the trees have no ends")
    used = np.unique(saved.tree_of_draw)
    require(np.array_equal(used, np.arange(len(start) - 1)), "a tree is in no draw")
    if len(used) > 0:
        check_draws(draws_of(join_chains(model, [saved], moves, 0.0)), model)
