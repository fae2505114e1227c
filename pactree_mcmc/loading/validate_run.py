"""Check of what `resume` continues: kernels, what was asked and tuned, and states of chains, all indices included."""

from __future__ import annotations

from typing import Any, get_args, get_type_hints

import numpy as np

from ..core.checks import is_integer
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
    Graph,
)
from ..mcmc.state.tree import ChainState, axis_sizes
from ..model import Lowered, TreeModel
from ..posterior.draws import Course
from .validate import SUM_TOLERANCE, check_kind_and_shape, check_range, check_recorded_calls, merged_row_stats, require

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
    require(
        type(course.draws_by_chain) is tuple and len(course.draws_by_chain) in (0, n), "a chain has no number of draws"
    )
    require(
        [is_integer(n_draws) and 0 <= n_draws <= longest for n_draws in course.draws_by_chain],
        "a number of draws is out of range",
    )
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
        length = sizes.setdefault(axis, n) if isinstance(axis, str) else axis
        require(n == length, f"{what} has shape {array.shape}")


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
    require(
        error <= SUM_TOLERANCE * np.abs(all_stats).sum(axis=0), f"the statistics of {what} are not those of its rows"
    )
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
