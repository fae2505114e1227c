"""Check of the content of a file: its draws, its model, and what `resume` continues.

Compiled code relies on dtypes, shapes and indices, so that all of them are checked, even if the digest fits. The model
has columns, scales, merged rows (units), priors, and the outline of a custom leaf; a run has kernels, what was asked
and tuned, and the states of chains.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, get_args, get_type_hints

import numpy as np

from ..core.checks import is_integer
from ..files.calls import Call
from ..mcmc.chain.rest import ARRAYS, Replica, Rest, Rungs
from ..mcmc.kernel import LIBRARY_MOVES, Kernel
from ..mcmc.run.records import Request, Stretch, Tuned
from ..mcmc.state.records import (
    IS_GROWING,
    N_FREE,
    N_GROWABLE,
    N_INTERNAL,
    N_LINKS,
    N_NODES,
    N_PIECES,
    N_PRUNABLE,
    NONE,
    ChainState,
    Graph,
    axis_sizes,
)
from ..model import FixedTree, GridCuts, LocalCuts, Lowered, TreeModel
from ..model.leaf.base import Leaf, Target
from ..model.leaf.custom import LeafOutline
from ..model.model import ModelParts
from ..model.rows import Units, number_target, sum_units
from ..model.split_prior.base import MAX_LEVELS, SplitPrior, SplitsOutline
from ..posterior.draws import Course
from ..table.coding import DyadicScale, Scale
from ..table.columns import MAX_CATEGORIES, Columns, labels_of
from ..table.words import is_kind
from ..tree.arrays import LEAF, find_disorder
from ..tree.coded import CodedTrees

RECORDED_FUNCTIONS = ("sample", "resume")
"""Functions whose calls a file may contain."""
SHIFT_LIMIT = 1 << MAX_CATEGORIES
"""Smallest integer that is not a set of categories."""
SUM_TOLERANCE = 1e-6
"""Largest rounding error of the sum of a statistic over some rows, relative to its sum over all rows."""


class InvalidFile(ValueError):
    """Error for content of a file that this library cannot have written."""


def require(holds: Any, what: str) -> None:
    """Raise an InvalidFile error with the message ``what`` unless ``holds`` is true, in all entries if an array."""
    if not np.all(holds):
        raise InvalidFile(what)


def check_kind_and_shape(array: Any, kind: str, shape: tuple, what: str) -> None:
    """Raise an error about ``what`` unless an array has one of NumPy's dtype kinds, such as "fi", and the shape."""
    # -1 in the shape is any length
    good = isinstance(array, np.ndarray) and array.dtype.kind in kind and array.ndim == len(shape)
    require(good and all(m in (-1, n) for m, n in zip(shape, array.shape, strict=True)), f"{what} has another shape")


def check_range(values: np.ndarray, low: Any, high: Any, what: str) -> None:
    """Raise an error about ``what`` unless all values lie in [low, high)."""
    require((values >= low) & (values < high), f"{what} is out of range")


def check_recorded_calls(calls: Any) -> None:
    """Raise an error unless ``calls`` are records of calls of `sample` and `resume`."""
    require(type(calls) is tuple and all(type(call) is Call for call in calls), "the calls are missing")
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
    bound = np.abs(merged_row_stats(model.units, draws.stats.shape[1])).sum(axis=0)
    require(np.abs(draws.stats) <= bound * (1.0 + SUM_TOLERANCE), "a statistic is larger than that of all rows")
    check_kind_and_shape(draws.tree_of_draw, "i", (-1, -1), "tree_of_draw")
    require(draws.tree_of_draw.size > 0, "there are no draws")
    check_range(draws.tree_of_draw, 0, n_trees, "a draw")
    for name in ("log_prior", "log_score"):
        check_kind_and_shape(getattr(draws, name), "f", (n_trees,), name)
        require(np.isfinite(getattr(draws, name)), f"{name} is not finite")
    _check_counts(draws)


def _check_trees(trees: CodedTrees, model: TreeModel) -> None:
    """Raise an error unless trees satisfy the invariants of `docs/tree_format.md`."""
    # nodes are in preorder, each split is of the kind of its column, and its cut or categories are in range
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
    in_range = (trees.cut >= -1) & (trees.cut < trees.upper) & (trees.upper <= n_codes)
    require(~ordered | in_range, "a cut is out of range")
    require(ordered | ((trees.cut == 0) & (trees.upper == 0)), "a cut is of no ordered split")
    require((trees.categories >= -1) & (trees.categories < SHIFT_LIMIT), "a set of categories")
    require(inner | ((trees.right == 0) & (trees.categories == -1) & ~trees.default_left), "a leaf has a split")


def _check_counts(draws: Any) -> None:
    """Raise an error if counts of moves, variances, weights or diagnostics of tempering do not fit the draws."""
    chains, length = draws.tree_of_draw.shape
    require(isinstance(draws.moves, tuple) and all(type(x) is str for x in draws.moves), "the moves have no names")
    for name in ("proposed", "accepted"):
        check_kind_and_shape(getattr(draws, name), "i", (chains, length, len(draws.moves)), name)
        require(getattr(draws, name) >= 0, f"{name} is negative")
    require(draws.accepted <= draws.proposed, "more was accepted than proposed")
    require(type(draws.sees_all_rows) is bool and type(draws.has_model_prior) is bool, "the draws are of unknown trees")
    mass = draws.log_prior_mass
    require(mass is None or (type(mass) is float and np.isfinite(mass)), "the mass of the prior is not a number")
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


def merged_row_stats(merged: Units, n_stats: int) -> np.ndarray:
    """Return the statistics (U, n_stats) of each merged row: rows with equal codes, whose statistics are added."""
    # they are its weight and moments, or with classes its weight in the column of its class and zeros elsewhere
    weight = np.broadcast_to(merged.weight, merged.n_units)
    if not merged.counts:
        return np.column_stack([weight, *merged.moments])
    out = np.zeros((merged.n_units, n_stats))
    out[np.arange(merged.n_units), merged.label] = weight
    return out


WRONG_MERGED_ROWS = "the units are not those of the rows"
"""Message about merged rows (units) whose statistics are not the sums over their rows."""


def check_parts(parts: ModelParts) -> None:
    """Raise an error if no model can be made of the parts, because one is missing, malformed or contradicts another."""
    n, p = parts.n_rows, parts.n_features
    kinds: tuple[tuple[Any, type], ...]
    kinds = ((parts, ModelParts), (parts.columns, Columns), (parts.target, Target), (parts.units, Units))
    kinds += ((parts.split_prior, SplitPrior), (parts.leaf, Leaf), (n, int), (p, int), (parts.scales, list))
    require([isinstance(value, kind) for value, kind in kinds], "a part of the model is missing")
    require(hasattr(parts.tree_prior, "log_stop"), "the tree prior is missing")
    columns, target = parts.columns, parts.target
    require(len(columns.names) == len(columns.categories) == p >= 1, "the columns are not those of the table")
    require([type(name) is str for name in columns.names], "a column has no name")
    require([type(k) is int and 0 <= k < p for k in columns.twins], "a feature with two coordinates is not a column")
    require(len(set(columns.twins)) == len(columns.twins), "a column has two twins")
    require(type(columns.kinds) is tuple and len(columns.kinds) in (0, p), "the columns have no kinds")
    require([is_kind(kind) for kind in columns.kinds], "a column is of an unknown kind")
    require(isinstance(columns.branches, bool) and isinstance(columns.named, bool), "the columns lack a word")
    for categories in columns.categories:
        require(categories is None or 0 < len(categories) <= MAX_CATEGORIES, "a column has no categories")
        for category in () if categories is None else categories.tolist():
            require(type(labels_of(category)) is tuple and len(labels_of(category)) > 0, "a group has no categories")
    classifier = target.classes is not None
    require(classifier == parts.leaf.is_classifier, "the leaf is for another y")
    columns_of_y = parts.leaf.y_columns
    shape = (n, columns_of_y) if columns_of_y > 1 else (n,)
    check_kind_and_shape(target.values, "i" if classifier else "f", shape, "y")
    regressors, x_columns = target.regressors, parts.leaf.x_columns  # there may be none
    require((regressors is None) == (x_columns is None), "the leaf looks at other columns")
    if regressors is not None:
        check_kind_and_shape(regressors, "f", (parts.n_rows, len(x_columns)), "regressors")
        require(np.isfinite(regressors), "a regressor is not finite")
        parts.columns.ordered_indices("x_columns", x_columns)
    if target.classes is not None:
        require(target.classes.ndim == 1, "classes has another shape")
        check_range(target.values, 0, len(target.classes), "y")
    numbers = [target.center, target.variance]
    require(np.isfinite(target.values).all() & np.isfinite(numbers).all() & (target.variance > 0.0), "y is not finite")
    require(type(target.names) is tuple and all(type(name) is str for name in target.names), "y has no names")
    if target.weight is not None:
        check_kind_and_shape(target.weight, "f", (n,), "sample_weight")
        require(np.isfinite(target.weight) & (target.weight >= 0.0), "sample_weight is out of range")
    if target.estimation is not None:
        check_kind_and_shape(target.estimation, "b", (n,), "estimation")
    q = p + len(columns.twins)
    require(len(parts.scales) == q, "there is a coordinate too many or too few")
    for k, scale in enumerate(parts.scales):
        _check_scale(scale, columns.categories[columns.source[k]])
    _check_merged_rows(parts, q)
    _check_agreement(parts)


def check_outline(outline: LeafOutline, target: Target) -> None:
    """Raise an error if the outline of a custom leaf, its description in a file, is malformed or does not fit y."""
    require(isinstance(target, Target), "a part of the model is missing")
    require(type(outline.name) is str and type(outline.classes) is bool, "the leaf has no name")
    require(type(outline.y_columns) is int and isinstance(outline.x_columns, tuple), "the leaf has no columns")
    for what in ("params", "stats", "scores"):
        check_kind_and_shape(getattr(outline, what), "f", (-1, -1) if what == "stats" else (-1,), what)
    check_kind_and_shape(target.values, "i" if outline.classes else "f", (-1,) * (1 + (outline.y_columns > 1)), "y")
    require(np.isfinite(target.values).all() and len(target.values) >= 1, "y is not finite")
    if target.regressors is not None:
        check_kind_and_shape(target.regressors, "f", (len(target.values), len(outline.x_columns)), "regressors")
    if target.classes is not None:
        check_range(target.values, 0, len(target.classes), "y")


def check_splits_outline(outline: SplitsOutline, scales: Any, columns: Any) -> None:
    """Raise an error if the outline of a custom split prior, its description in a file, or its scales are malformed."""
    require(type(outline.name) is str and type(outline.by_depth) is bool, "the split prior has no name")
    require(outline.over in ("feature", "cell"), "the split prior has an unknown argument over")
    require(isinstance(outline.of, LocalCuts | GridCuts), "the split prior weighs an unknown split prior")
    for what in ("params", "weights"):
        check_kind_and_shape(getattr(outline, what), "f", (-1,), what)
    require(isinstance(columns, Columns) and isinstance(scales, list), "a part of the model is missing")
    require(len(scales) == len(columns.source), "there is a coordinate too many or too few")
    for scale, feature in zip(scales, columns.source, strict=True):
        require(isinstance(scale, Scale), "a scale is missing")
        _check_scale(scale, columns.categories[feature])


def _check_scale(scale: Any, categories: np.ndarray | None) -> None:
    """Raise an error unless a scale has cuts that do not fall, or, for a nominal feature, a code for each category."""
    # A scale maps the values of a feature to integer codes. ``categories`` is None for an ordered feature
    if isinstance(scale, DyadicScale):
        finite = np.isfinite([scale.lower, scale.upper]).all()
        require(finite and scale.lower < scale.upper and 1 <= scale.levels <= MAX_LEVELS, "a scale has no range")
        require(type(scale.levels) is int and categories is None, "a scale has no range")
        return
    require(isinstance(scale, Scale) and type(scale.n_codes) is int, "a scale is missing")
    for ends in (scale.cuts, scale.low, scale.high):
        check_kind_and_shape(ends, "f", (-1,), "a scale")
        require(~np.isnan(ends), "a scale holds NaN")
        require(ends[1:] >= ends[:-1], "a scale does not rise")
    if categories is not None:
        require(scale.n_codes == len(categories) and len(scale.cuts) == 0, "a scale is of other categories")
        return
    require(scale.n_codes == len(scale.cuts) + 1, "a scale has other cuts")
    require(len(scale.low) == len(scale.high) and len(scale.low) in (0, scale.n_codes), "a scale has other ends")


def _check_merged_rows(parts: ModelParts, q: int) -> None:
    """Raise an error unless the statistics of the merged rows (units) are the sums over their rows."""
    # the check is needed, since the weights of units determine the length of score tables. A unit is a group of equal
    # rows. ``q`` is the number of coordinates: features, and copies of those with missing values
    merged, merged_row_of_row, target = parts.units, parts.unit_of_row, parts.target
    check_kind_and_shape(merged.codes, "u", (q, -1), "codes")
    m = merged.n_units
    require(m >= 1 and merged.codes.flags.c_contiguous, "there are no units")
    for codes, scale in zip(merged.codes, parts.scales, strict=True):
        check_range(codes, 0, scale.n_codes, "a code")
    if merged_row_of_row is None:
        require(m == parts.n_rows, WRONG_MERGED_ROWS)
    else:
        check_kind_and_shape(merged_row_of_row, "i", (parts.n_rows,), "unit_of_row")
        check_range(merged_row_of_row, 0, m, "a unit")
        present, first = np.unique(merged_row_of_row, return_index=True)
        require(len(present) == m and np.all(first[1:] > first[:-1]), "the units are numbered otherwise")
    recomputed = sum_units(merged.codes, merged_row_of_row, parts.leaf, target)
    for name in Units._fields:
        stored, computed = getattr(merged, name), getattr(recomputed, name)
        require(type(stored) is type(computed) and np.shape(stored) == np.shape(computed), WRONG_MERGED_ROWS)
        require(np.asarray(stored).dtype == np.asarray(computed).dtype, WRONG_MERGED_ROWS)
        # sums of moments depend on the order of the rows
        require(name == "moments" or np.array_equal(stored, computed), WRONG_MERGED_ROWS)
    scale = 1e-6 * np.abs(recomputed.moments).max(axis=1, keepdims=True)
    require(np.abs(merged.moments - recomputed.moments) <= scale, WRONG_MERGED_ROWS)
    if merged.counts:
        check_range(merged.label, 0, int(parts.leaf.n_stats(target)), "a label")
    else:
        own_target = number_target(target.values, target.weight, target.estimation, parts.leaf.needs_variance)
        values, computed = (target.center, target.variance), (own_target.center, own_target.variance)
        require(np.allclose(values, computed, rtol=1e-6, atol=1e-6 * own_target.variance**0.5), "y has another mean")


def _check_agreement(parts: ModelParts) -> None:
    """Raise an error if parts of the model contradict each other. Most cases fail when the model is made."""
    model = TreeModel.from_parts(parts)
    parts.split_prior.weights(parts.n_features)
    if model.shape is not None:
        assert isinstance(parts.split_prior, FixedTree)
        tree = parts.split_prior.tree
        require(tree.feature < parts.n_features, "the fixed tree has other features")
        nominal = np.append(parts.columns.is_nominal, False)[tree.feature]
        require((tree.feature == LEAF) | (nominal == (tree.categories >= 0)), "the fixed tree has other splits")
    lowered = model.lowered
    for table in ("log_split", "log_stop", "log_forced"):
        require(~np.isnan(lowered.prior.table[table]), "the tree prior is not finite")
    require(np.isfinite(lowered.leaf.params), "a parameter of the leaf is not finite")


STATE_TYPES = get_type_hints(ChainState, include_extras=True)
"""Declared types of the arrays of a chain, with their dtypes and the names of their axes."""
LISTS = {"growable": N_GROWABLE, "prunable": N_PRUNABLE, "internal": N_INTERNAL}
"""Lists of nodes, and the entry of `ChainState.count` with the length of each."""
POSITIONS = {"pos": 624, "buffer_pos": 4}
"""Largest position of a bit generator in its buffer, by the name that its state has."""


def check_course(course: Any, draws: Any, model: TreeModel) -> None:
    """Raise an error unless a course, from which `resume` continues, fits the model and the draws, None for none."""
    require(isinstance(course, Course), "the course is missing")
    require(type(course.request) is Request and type(course.tuned) is Tuned, "what was asked or tuned is missing")
    request, tuned, stretch, lowered = course.request, course.tuned, course.stretch, model.lowered
    check_kernel(request.kernel)
    check_kernel(tuned.kernel)
    check_recorded_calls(request.calls)
    require(request.kernel.count_names == tuned.kernel.count_names, "the moves are not those of the kernel")
    counts = [request.draws, request.tune, request.thin, request.steps, tuned.tune + 1, tuned.steps]
    require(type(stretch) is Stretch, "the stretch is missing")
    counts += [stretch.number, stretch.before, stretch.goal, stretch.limit, course.steps]
    require([is_integer(count) and count >= 0 for count in counts], "a number of draws or steps is out of range")
    for thin in (request.thin, stretch.thin):
        require(is_integer(thin) and thin >= 1, "thin is out of range")
    require(type(request.starts) is type(course.rests) is tuple, "a chain has no state")
    n = len(course.rests)
    require(len(request.starts) == n >= 1, "a chain has no state")
    numbers = (request.work, request.seconds or 0.0, course.every)
    require([isinstance(number, int | float) and np.isfinite(number) for number in numbers], "the time is not finite")
    _check_teams(tuned, lowered)
    for rest in course.rests:
        check_rest(rest, model, tuned.kernel, max(len(tuned.graphs), request.n_teams, 1))
    if draws is not None:
        require(tuned.kernel.count_names == draws.moves, "the moves are not those of the kernel")
        require(len(draws.tree_of_draw) == n, "a chain has no state")
    longest = 0 if draws is None else draws.tree_of_draw.shape[1]
    has_numbers = type(course.draws_by_chain) is tuple and len(course.draws_by_chain) in (0, n)
    require(has_numbers, "a chain has no number of draws")
    in_range = [is_integer(n_draws) and 0 <= n_draws <= longest for n_draws in course.draws_by_chain]
    require(in_range, "a number of draws is out of range")
    require(draws is not None or len(course.draws_by_chain) == n, "the draws are missing")
    if course.evidences is not None:
        check_kind_and_shape(course.evidences, "f", (len(course.teams), 2), "the evidences")
        require(np.isfinite(course.evidences[:, 0]), "an evidence is not finite")
        require(~(course.evidences[:, 1] < 0.0), "the error of an evidence is negative")
    if course.visited is not None:
        check_kind_and_shape(course.visited, "f", (2, model.n_features), "the probabilities of visited features")
        require((course.visited >= 0.0) & (course.visited <= 1.0), "a probability of a feature is not in [0, 1]")


def _check_teams(tuned: Tuned, lowered: Lowered) -> None:
    """Raise an error unless each team has a density and a graph that compiled code can follow."""
    require(type(tuned.graphs) is tuple, "the graphs are missing")
    require((tuned.density is None) == (len(tuned.graphs) == 0), "a team has no density")
    if tuned.density is not None:
        _, _, *axes = get_args(STATE_TYPES["density"])
        require(isinstance(tuned.density, np.ndarray), "a team has no density")
        require(tuned.density.dtype == np.float64, "the density has another dtype")
        require(tuned.density.shape == (len(tuned.graphs), *axes), f"the density has shape {tuned.density.shape}")
        has_depths = tuned.density[:, -1, 0] >= 1.0
        require(np.isfinite(tuned.density).all() and has_depths.all(), "the density is out of range")
    for graph in tuned.graphs:
        _check_graph(graph, lowered)


def check_kernel(kernel: Any) -> None:
    """Raise an error unless a kernel is a mixture of moves of this library, or of moves that it contains itself."""
    require(type(kernel) is Kernel, "the kernel is missing")
    names = [*LIBRARY_MOVES, *(move.name for move in kernel.own)]
    require(len(set(names)) == len(names), "a move has the name of another")
    require([name in names for name in kernel.names], "the kernel has a move that is unknown")
    require(len(kernel.names) == len(kernel.weights) == len(kernel.given) > 0, "the kernel has no weights")
    require(np.isfinite(np.array(kernel.weights, dtype=np.float64)), "a weight of the kernel is not a number")


def check_rest(end: Any, model: TreeModel, kernel: Kernel, n_teams: int) -> None:
    """Raise an error unless ``end``, the last rest of a chain, fits the model, the kernel and the teams."""
    # A chain with tempering has a replica, the state of one chain, for each temperature
    require(type(end) is Rest and type(end.replicas) is tuple, "the state of a chain is missing")
    numbers = (end.tuned, end.steps, end.team)
    require([is_integer(number) and number >= 0 for number in numbers], "a chain has no number of tuning steps")
    require(end.team < n_teams, "a chain is of no team")
    require(type(end.generator) is dict, "a chain has no generator")
    for part in (end.generator, end.generator.get("state")):
        positions = {name: part[name] for name in POSITIONS if name in part} if type(part) is dict else {}
        for name, position in positions.items():
            require(is_integer(position) and 0 <= position <= POSITIONS[name], "a generator has no position")
    n_levels, rungs = 1, end.rungs
    if rungs is not None:
        require(type(rungs) is Rungs, "a ladder is missing")
        n_levels = len(rungs.betas)
        for name, shape in {"betas": n_levels, "acceptance": n_levels - 1}.items():
            check_kind_and_shape(getattr(rungs, name), "f", (shape,), name)
        check_kind_and_shape(rungs.tried, "i", (n_levels - 1,), "tried")
        require(len(rungs.journey) == n_levels, "a ladder has other levels")
    if not end.replicas:
        # the chain has not begun
        return
    require(len(end.replicas) == n_levels, "a ladder has other levels")
    for replica in end.replicas:
        _check_replica(replica, model.lowered, kernel)


def _check_replica(replica: Any, lowered: Lowered, kernel: Kernel) -> None:
    """Raise an error unless the state of a replica, a chain at one temperature, fits the model and the kernel."""
    require(type(replica) is Replica, "the state of a chain is missing")
    require(type(replica.state) is tuple and len(replica.state) == len(ARRAYS), "the state of a chain is incomplete")
    require(is_integer(replica.blocks), "a chain has no number of blocks")
    arrays, scratch = dict(zip(ARRAYS, replica.state, strict=True)), kernel.scratch
    require(isinstance(arrays["node"], np.ndarray) and len(arrays["node"]) > 0, "a chain has no nodes")
    sizes = axis_sizes(lowered, len(arrays["node"]), len(kernel.count_names), scratch)
    for name, array in arrays.items():
        _check_array(array, STATE_TYPES[name], sizes, f"{name} of a chain")
    require((replica.noise is None) == lowered.leaf.is_fixed, "a chain is of another model")
    if replica.noise is not None:
        require(type(replica.noise) is tuple and len(replica.noise) == 2, "a chain has no variance")
        for params in replica.noise:
            check_kind_and_shape(params, "f", (len(lowered.leaf.params),), "the variance of a chain")
    _check_nodes(arrays, lowered)


def _check_array(array: Any, hint: Any, sizes: dict[str, int], what: str) -> None:
    """Raise an error unless an array has the dtype and the axes of its declaration ``hint``."""
    # A name of an axis that ``sizes`` lacks gets the length that it has here
    _, dtype, *axes = get_args(hint)
    require(isinstance(array, np.ndarray), f"{what} is a {type(array).__name__}")
    require(array.dtype == dtype, f"{what} has dtype {array.dtype}")
    require(array.ndim == len(axes), f"{what} has shape {array.shape}")
    for axis, n in zip(axes, array.shape, strict=True):
        require(n == (sizes.setdefault(axis, n) if isinstance(axis, str) else axis), f"{what} has shape {array.shape}")


def _check_arrays(value: Any, kind: type, sizes: dict[str, int], what: str) -> None:
    """Raise an error unless ``value`` is of the class ``kind``, and its arrays have the declared dtypes and axes."""
    require(type(value) is kind, f"{what} is a {type(value).__name__}")
    for name, hint in get_type_hints(kind, include_extras=True).items():
        if get_args(hint):
            _check_array(getattr(value, name), hint, sizes, f"{what}.{name}")


def _check_splits(records: np.ndarray, lowered: Lowered, what: str) -> None:
    """Raise an error unless the splits of records, of nodes or links, are on coordinates and codes that exist."""
    check_range(records["feature"], 0, len(lowered.split_prior.feature), f"a feature of {what}")
    feature = lowered.split_prior.feature[records["feature"]]
    n_codes, cut, upper, categories = feature.n_codes, records["cut"], records["upper"], records["categories"]
    bits = np.left_shift(1, np.minimum(n_codes, 62))
    fits = np.where(
        feature.nominal,
        (categories >= 0) & (categories < bits),
        (categories == NONE) & (cut >= -1) & (cut < upper) & (upper <= n_codes),
    )
    require(fits, f"a split of {what} is out of range")


def _check_nodes(arrays: dict[str, np.ndarray], lowered: Lowered) -> None:
    """Raise an error unless the nodes of a chain are a tree over all units, with lists of its own nodes."""
    node, order, stats, box, count = (arrays[name] for name in ("node", "order", "stats", "box", "count"))
    merged, rule, what = lowered.units, lowered.split_prior, "a chain"
    fits = np.array_equal(np.sort(order), np.arange(merged.n_units))
    require(fits, "the units of a chain are not those of the model")
    nodes, level = [0], [0]
    while level:
        inner = [i for i in level if node["left"][i] != NONE]
        level = [int(child) for i in inner for child in (node["left"][i], node["right"][i])]
        check_range(np.array(level, dtype=np.int64), 1, len(node), f"a child of {what}")
        nodes += level
        require(len(nodes) <= len(node), f"the nodes of {what} are not a tree")
    of_tree = np.array(nodes)
    require(len(np.unique(of_tree)) == len(nodes) == count[N_NODES], f"the nodes of {what} are not a tree")
    tree = node[of_tree]
    inner = tree["left"] != NONE
    require((tree["right"] != NONE) == inner, f"the nodes of {what} are not a tree")
    require((tree["feature"] != NONE) == inner, f"the nodes of {what} are not a tree")
    above, left, right = tree[inner], node[tree["left"][inner]], node[tree["right"][inner]]
    for child in (left, right):
        require(child["parent"] == of_tree[inner], f"the nodes of {what} are not a tree")
        require(child["depth"] == above["depth"] + 1, f"a depth of {what} is out of range")
    require((node["parent"][0], node["depth"][0], node["start"][0]) == (NONE, 0, 0), f"the root of {what} is wrong")
    require(node["stop"][0] == merged.n_units, f"the root of {what} is wrong")
    ends = (left["start"] == above["start"], left["stop"] == right["start"], right["stop"] == above["stop"])
    require(np.all(ends) and (tree["start"] <= tree["stop"]).all(), f"the units of {what} are not in its leaves")
    require(tree["depth"] <= lowered.prior.depth_limit, f"a depth of {what} is out of range")
    check_range(tree["design"], 0, max(len(rule.design), 1), f"a node of the fixed tree of {what}")
    _check_splits(above, lowered, what)
    _check_lists(node, of_tree, count, what)
    n_rows = np.concatenate([[0], np.cumsum(merged.rows[order & merged.rows_all])])
    require(tree["rows"] == n_rows[tree["stop"]] - n_rows[tree["start"]], f"the rows of {what} are not in its leaves")
    all_stats = merged_row_stats(merged, stats.shape[1])[order]
    sums = np.concatenate([np.zeros((1, stats.shape[1])), np.cumsum(all_stats, axis=0)])
    error = np.abs(stats[of_tree] - (sums[tree["stop"]] - sums[tree["start"]]))
    tolerance = SUM_TOLERANCE * np.abs(all_stats).sum(axis=0)
    require(error <= tolerance, f"the statistics of {what} are not those of its rows")
    for k in range(box.shape[1]):
        low, high, n_codes = box[of_tree, k, 0], box[of_tree, k, 1], int(rule.feature.n_codes[k])
        if rule.feature.nominal[k]:
            check_range(low, 0, 1 << n_codes, f"a box of {what}")
        else:
            require((low >= 0) & (low <= high) & (high <= n_codes), f"a box of {what} is out of range")


def _check_lists(node: np.ndarray, of_tree: np.ndarray, count: np.ndarray, what: str) -> None:
    """Raise an error unless the lists of a chain have nodes of its tree, and the free nodes are all others."""
    in_tree = np.isin(np.arange(len(node)), of_tree)
    for name, entry in LISTS.items():
        n = int(count[entry])
        check_range(np.array([n]), 0, len(of_tree) + 1, f"a list of {what}")
        check_range(node[name][:n], 0, len(node), f"a list of {what}")
        place = np.full(len(node), NONE)
        place[node[name][:n]] = np.arange(n)
        # a node twice in the list has one place
        require((place != NONE).sum() == n, f"a list of {what} has a node twice")
        require(in_tree | (place == NONE), f"a list of {what} has a node that is free")
        require(node[f"{name}_at"][of_tree] == place[of_tree], f"a list of {what} has other nodes")
    free = node["free"][: int(count[N_FREE])]
    require(np.array_equal(np.sort(free), np.flatnonzero(~in_tree)), f"the free nodes of {what} are others")


def _check_graph(graph: Any, lowered: Lowered) -> None:
    """Raise an error unless a graph of visited cells leads to its own pieces only, always one level further down."""
    sizes: dict[str, int] = {}
    _check_arrays(graph, Graph, sizes, "graph")
    n_pieces, n_links = int(graph.used[N_PIECES]), int(graph.used[N_LINKS])
    n_slots, piece, link = sizes["slots"], graph.piece[:n_pieces], graph.link[:n_links]
    fits = 0 <= n_pieces <= sizes["pieces"] and 0 <= n_links <= sizes["links"] and graph.used[IS_GROWING] in (0, 1)
    require(fits and n_slots > n_pieces and n_slots & (n_slots - 1) == 0, "the graph has other lengths")
    check_range(graph.slot, NONE, n_pieces, "a slot of the graph")
    require((graph.slot == NONE).any(), "the graph has no free slot")
    check_range(piece["first"], NONE, n_links, "a link of the graph")
    check_range(link["next"], NONE, n_links, "a link of the graph")
    _check_splits(link, lowered, "the graph")
    depth, reached = np.full(n_links, NONE), piece["first"].astype(np.int64)
    of_piece = np.asarray(piece["depth"])
    require(of_piece >= 0, "a depth of the graph is out of range")
    while (reached != NONE).any():
        is_link = reached != NONE
        reached, of_piece = reached[is_link], of_piece[is_link]
        # so following the links of a piece ends, and no link is of two pieces
        is_new = len(np.unique(reached)) == len(reached) and (depth[reached] == NONE).all()
        require(is_new, "a link of the graph is reached twice")
        depth[reached] = of_piece
        reached = link["next"][reached].astype(np.int64)
    for side in ("left", "right"):
        child = link[side]
        check_range(child, NONE, n_pieces, "a piece of the graph")
        has_piece = (child != NONE) & (depth != NONE)
        require(piece["depth"][child[has_piece]] == depth[has_piece] + 1, "a depth of the graph is out of range")
