"""Check of the draws and chains of a file.

Compiled code relies on the shapes and ranges of draws, so that both are checked. States of chains, which only `resume`
uses, are checked by type, dtype and shape. The digest of the content, which `files.store.read_content` compares before,
ensures that their values are those that the library has written.
"""

from __future__ import annotations

from itertools import pairwise
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from ..files.calls import Call
from ..mcmc.chain.snapshot import ARRAYS, Replica, Snapshot
from ..mcmc.kernel import LIBRARY_MOVES, Kernel
from ..mcmc.run.checkpoint import Unfinished
from ..mcmc.state.scratch import SCRATCH_NAMES
from ..mcmc.state.tree import ChainState, axis_sizes
from ..model import TreeModel
from ..model.units import Units
from ..posterior.draws import draws_of
from ..posterior.joining import join_chains
from ..table.labels import MAX_CATEGORIES
from ..tree.arrays import LEAF, find_disorder
from ..tree.coded import CODED_NODE, CodedTrees
from ..tree.drawn import Course, Saved

RECORDED_FUNCTIONS = ("sample", "resume")
"""Functions whose calls a file may contain."""
SHIFT_LIMIT = 1 << MAX_CATEGORIES
"""Smallest integer that is not a set of categories."""
SUM_TOLERANCE = 1e-6
"""Largest rounding error of the sum of a statistic over some rows, relative to its sum over all rows."""
STATE_TYPES = get_type_hints(ChainState, include_extras=True)
"""Declared types of the arrays of a chain, with their dtypes and the names of their axes."""
EVIDENCES_TYPE = Annotated[np.ndarray, np.float64, "teams", 2] | None
"""Declared type of `Course.evidences`."""


class InvalidFile(ValueError):
    """Error for content of a file that this library cannot have written."""


def require(holds: Any, what: str) -> None:
    """Raise an InvalidFile error with the message ``what`` unless ``holds`` is true, in all entries if an array."""
    if not np.all(holds):
        raise InvalidFile(what)


def check_kind_and_shape(array: Any, kind: str, shape: tuple, what: str) -> None:
    """Raise an error about ``what`` unless an array has one of NumPy's dtype kinds, such as "fi", and the shape.

    -1 in the shape is any length.
    """
    good = isinstance(array, np.ndarray) and array.dtype.kind in kind and array.ndim == len(shape)
    require(good and all(m in (-1, n) for m, n in zip(shape, array.shape, strict=True)), f"{what} has another shape")


def check_range(values: np.ndarray, low: Any, high: Any, what: str) -> None:
    """Raise an error about ``what`` unless all values lie in [low, high)."""
    require((values >= low) & (values < high), f"{what} is out of range")


AxisLengths = dict[str, int]
"""Lengths of axes by the names that declarations give them."""


def check_declared(value: Any, hint: Any, what: str, sizes: AxisLengths | None = None) -> None:
    """Raise an error unless a value, and every part of it, has the type that the declaration ``hint`` gives.

    A NamedTuple is checked field by field, objects of other classes only for their class. ``what`` is the name of the
    value in messages. ``sizes`` are the known lengths of named axes. An axis whose name is not among them must have the
    same length in all arrays of a NamedTuple, and is added to ``sizes`` if ``value`` is an array.
    """
    sizes = {} if sizes is None else sizes
    if get_origin(hint) in (Union, UnionType):
        hint = next((part for part in get_args(hint) if _has_class(value, part)), hint)
    require(_has_class(value, hint), f"{what} is a {type(value).__name__}")
    kind, parts = get_origin(hint), get_args(hint)
    if kind is Annotated:
        _check_declared_array(value, parts[1], parts[2:], what, sizes)
    elif kind is dict:
        for key, entry in value.items():
            check_declared(key, parts[0], f"a key of {what}", sizes)
            check_declared(entry, parts[1], f"{what}[{key!r}]", sizes)
    elif kind in (tuple, list):
        of_each = parts[:1] * len(value) if kind is list or parts[-1] is Ellipsis else parts
        require(len(of_each) == len(value), f"{what} has {len(value)} entries")
        for i, (entry, part) in enumerate(zip(value, of_each, strict=True)):
            check_declared(entry, part, f"{what}[{i}]", sizes)
    elif hasattr(hint, "_fields"):
        field_sizes = dict(sizes)
        for name, field in get_type_hints(hint, include_extras=True).items():
            check_declared(getattr(value, name), field, f"{what}.{name}", field_sizes)


def _check_declared_array(
    array: np.ndarray, dtype: Any, axes: tuple[int | str, ...], what: str, sizes: AxisLengths
) -> None:
    """Raise an error unless an array has the dtype and the axes, each a length or a name.

    A name that ``sizes`` does not contain is added to it.
    """
    require(array.dtype == dtype, f"{what} has dtype {array.dtype}")
    require(array.ndim == len(axes), f"{what} has shape {array.shape}")
    named = zip(axes, array.shape, strict=True)
    shape = tuple(sizes.setdefault(axis, n) if isinstance(axis, str) else axis for axis, n in named)
    require(array.shape == shape, f"{what} has shape {array.shape}, not {shape}")


def _has_class(value: Any, hint: Any) -> bool:
    """Return True if a value has exactly the class that a declaration, ``hint``, gives, or is an array for an array.

    Any value has the class Any. Parts of the value are not checked.
    """
    kind = get_origin(hint) or hint
    if kind is Annotated or kind is np.ndarray:
        return isinstance(value, np.ndarray)
    return kind is Any or type(value) is (NoneType if kind is None else kind)


def check_recorded_calls(calls: Any) -> None:
    """Raise an error unless ``calls`` are records of calls of `sample` and `resume`."""
    check_declared(calls, tuple[Call, ...], "the calls")
    require([call.function in RECORDED_FUNCTIONS for call in calls], "a call is of an unknown function")


def check_draws(draws: Any, model: TreeModel) -> None:
    """Raise an error if draws have trees that compiled code cannot follow safely, or values that are out of range."""
    trees = draws.trees
    check_recorded_calls(draws.calls)
    require(isinstance(trees, CodedTrees), "the trees are missing")
    n_nodes, n_trees = len(trees.feature), len(trees.offset) - 1
    _check_trees(trees, model)
    check_kind_and_shape(draws.stats, "f", (n_nodes, int(model.leaf.n_stats(model.target))), "stats")
    require(np.isfinite(draws.stats) & (draws.stats[:, :1] >= 0.0), "a statistic is not finite")
    require(not model.leaf.is_classifier or (draws.stats >= 0.0).all(), "a count is negative")
    bound = np.abs(_merged_row_stats(model.units, draws.stats.shape[1])).sum(axis=0)
    require(np.abs(draws.stats) <= bound * (1.0 + SUM_TOLERANCE), "a statistic is larger than that of all rows")
    check_kind_and_shape(draws.tree_of_draw, "i", (-1, -1), "tree_of_draw")
    require(draws.tree_of_draw.size > 0, "there are no draws")
    check_range(draws.tree_of_draw, 0, n_trees, "a draw")
    for name in ("log_prior", "log_score"):
        check_kind_and_shape(getattr(draws, name), "f", (n_trees,), name)
        require(np.isfinite(getattr(draws, name)), f"{name} is not finite")
    _check_counts(draws, model)


def _check_trees(trees: CodedTrees, model: TreeModel) -> None:
    """Raise an error unless trees satisfy the invariants of `docs/tree_format.md`.

    Nodes are in preorder, each split is of the kind of its column, and its cut or categories are in range.
    """
    n_nodes, n_trees, q = len(trees.feature), len(trees.offset) - 1, len(model.scales)
    none = f"its trees are not trees over {model.n_features} features"
    check_kind_and_shape(trees.offset, "i", (-1,), "offset")
    require(n_trees >= 1 and trees.offset[0] == 0 and trees.offset[-1] == n_nodes, "the trees have no ends")
    require(np.diff(trees.offset) >= 1, "a tree is empty")
    kinds = {"feature": "i", "cut": "i", "upper": "i", "right": "i", "categories": "i", "default_left": "b"}
    for name, kind in kinds.items():
        check_kind_and_shape(getattr(trees, name), kind, (n_nodes,), name)
    inner, left_child = trees.feature != LEAF, trees.left
    require((trees.feature >= LEAF) & (trees.feature < q), none)
    for start, stop in pairwise(trees.offset.tolist()):
        disorder, _ = find_disorder(trees.feature[start:stop], left_child[start:stop], trees.right[start:stop])
        require(disorder == 0, none)
    nominal = np.append(model.columns.is_nominal[model.columns.source], False)[trees.feature]
    require(~inner | (nominal == (trees.categories >= 0)), "a split is of another kind than its column")
    n_codes = np.append(model.n_codes, 1)[trees.feature]
    ordered = inner & ~nominal
    require(~ordered | ((trees.cut >= -1) & (trees.cut < n_codes)), "a cut is out of range")
    require(~ordered | ((trees.upper > trees.cut) & (trees.upper <= n_codes)), "a cut is out of range")
    require(ordered | ((trees.cut == 0) & (trees.upper == 0)), "a cut is of no ordered split")
    require((trees.categories >= -1) & (trees.categories < SHIFT_LIMIT), "a set of categories")
    has_no_split = (trees.right == 0) & (trees.categories == -1)
    require(inner | (has_no_split & ~trees.default_left), "a leaf has a split")


def _check_counts(draws: Any, model: TreeModel) -> None:
    """Raise an error if counts of moves, variances, weights or diagnostics of tempering do not fit the draws."""
    chains, length = draws.tree_of_draw.shape
    require(
        isinstance(draws.moves, tuple) and all(type(name) is str for name in draws.moves), "the moves have no names"
    )
    for name in ("proposed", "accepted"):
        check_kind_and_shape(getattr(draws, name), "i", (chains, length, len(draws.moves)), name)
        require(getattr(draws, name) >= 0, f"{name} is negative")
    require(draws.accepted <= draws.proposed, "more was accepted than proposed")
    require(type(draws.seconds) is float and np.isfinite(draws.seconds), "the time is not a number")
    check_kind_and_shape(draws.noise_variance, "f", (chains, length), "noise_variance")
    tempering = draws.tempering
    if tempering is not None:
        levels = tempering.betas.shape[-1]
        shapes = {"betas": (chains, levels), "scores": (chains, length, levels), "round_trips": (chains,)}
        for name, shape in (shapes | {"swap_rates": (chains, levels - 1), "is_stump": (chains, length)}).items():
            check_kind_and_shape(getattr(tempering, name), "fib", shape, name)
            require(np.isfinite(getattr(tempering, name)), f"{name} is not finite")
        for value in (tempering.log_evidence, tempering.log_evidence_se):
            require(value is None or (isinstance(value, float) and np.isfinite(value)), "the evidence is not a number")


def _merged_row_stats(merged: Units, n_stats: int) -> np.ndarray:
    """Return the statistics (U, n_stats) of each merged row: rows with equal codes, whose statistics are added.

    They are its weight and moments, or with classes its weight in the column of its class and zeros elsewhere.
    """
    weight = np.broadcast_to(merged.weight, merged.n_units)
    if not merged.counts:
        return np.column_stack([weight, *merged.moments])
    out = np.zeros((merged.n_units, n_stats))
    out[np.arange(merged.n_units), merged.label] = weight
    return out


def check_course(course: Any, draws: Any, model: TreeModel) -> None:
    """Raise an error unless a course, the state from which `resume` continues, fits the draws and the model."""
    require(isinstance(course, Course), "the course is missing")
    check_kernel(course.kernel)
    require(course.kernel.count_names == draws.moves, "the moves are not those of the kernel")
    for name in ("thin", "steps"):
        require(type(getattr(course, name)) is int and getattr(course, name) >= 1, f"{name} is out of range")
    check_declared(course.ends, tuple[Snapshot, ...], "the states of the chains")
    require(len(course.ends) == len(draws.tree_of_draw), "a chain has no state")
    for end in course.ends:
        check_snapshot(end, model, course.kernel)
    check_declared(course.evidences, EVIDENCES_TYPE, "the evidences", {"teams": len(course.teams)})
    if course.evidences is not None:
        require(np.isfinite(course.evidences[:, 0]), "an evidence is not finite")
        require(~(course.evidences[:, 1] < 0.0), "the error of an evidence is negative")


def check_kernel(kernel: Any) -> None:
    """Raise an error unless a kernel is a mixture of moves of this library, or of moves that it contains itself."""
    check_declared(kernel, Kernel, "the kernel")
    names = [*LIBRARY_MOVES, *(move.name for move in kernel.own)]
    require(len(set(names)) == len(names), "a move has the name of another")
    require([name in names for name in kernel.names], "the kernel has a move that is unknown")
    require(len(kernel.names) == len(kernel.weights) == len(kernel.given) > 0, "the kernel has no weights")


def check_snapshot(end: Snapshot, model: TreeModel, kernel: Kernel) -> None:
    """Raise an error unless ``end``, a chain's final state, has the shapes and dtypes that this model and kernel give.

    A chain with tempering has a replica, the state of one chain, for each temperature.
    """
    n_levels, rungs = 1, end.rungs
    if rungs is not None:
        n_levels = len(rungs.betas)
        require(len(rungs.tried) == n_levels - 1 and len(rungs.journey) == n_levels, "a ladder has other levels")
    require(len(end.replicas) == n_levels, "a ladder has other levels")
    for replica in end.replicas:
        _check_replica(replica, model, kernel)


def _check_replica(replica: Replica, model: TreeModel, kernel: Kernel) -> None:
    """Raise an error unless the state of a replica has the shapes and dtypes that this model and kernel give.

    A replica is a chain at one temperature.
    """
    require(len(replica.state) == len(ARRAYS), "the state of a chain is incomplete")
    lowered, scratch = model.lowered, kernel.scratch
    n_nodes = len(replica.state[ARRAYS.index("node")])
    sizes = axis_sizes(lowered, n_nodes, len(kernel.count_names), scratch) | {"params": len(lowered.leaf.params)}
    model_sizes = {name: sizes[name] for name in ("features", "params")}
    check_declared(replica, Replica, "the state of a chain", model_sizes)
    for name, array in zip(ARRAYS, replica.state, strict=True):
        hint = STATE_TYPES[name]
        if name in SCRATCH_NAMES and name not in scratch:
            # an array that no move of the kernel needs has one entry, see `records.allocate_group`
            kind, dtype, *axes = get_args(hint)
            hint = Annotated[(kind, dtype, *[1] * len(axes))]
        check_declared(array, hint, f"{name} of a chain", sizes)
    require((replica.noise is None) == lowered.leaf.is_fixed, "the state of a chain is of another model")


def check_run(run: Any, model: TreeModel) -> Unfinished:
    """Return an unfinished run after a check, with ``model`` in its plans, which a file stores without it.

    Raise an error if it lacks a plan, has an unknown kernel or states of chains of wrong shapes or dtypes, or if
    `check_draws` finds a fault in its draws.
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
            _check_saved(result.saved, model, plan.kernel.count_names)
            if result.end is not None:
                check_snapshot(result.end, model, plan.kernel)
    return run


def _check_saved(saved: Saved, model: TreeModel, moves: tuple[str, ...]) -> None:
    """Raise an error if `check_draws` finds a fault in the draws of a chain, or a tree or node is in no draw.

    ``moves`` are the names of the moves whose proposals the draws count.
    """
    start = np.asarray(saved.tree)["start"]
    require(saved.node.dtype == CODED_NODE and start[0] == 0 and start[-1] == len(saved.node), "the trees have no ends")
    tree_numbers = np.unique(saved.tree_of_draw)
    require(np.array_equal(tree_numbers, np.arange(len(start) - 1)), "a tree is in no draw")
    if len(tree_numbers) > 0:
        check_draws(draws_of(join_chains(model, [saved], moves, 0.0)), model)
