"""Checks of the trees and chains of a file. Compiled code relies on the shapes and ranges of these arrays."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from ..core.checks import MOST
from ..mcmc.chain.snapshot import ARRAYS, GENERATORS, Snapshot, generator_from
from ..mcmc.chain.start import Dispersed
from ..mcmc.kernel import STEPS, Kernel
from ..mcmc.moves.base import AbsentMove
from ..mcmc.run.task import Length
from ..mcmc.state.records import (
    CELL,
    N_CELL_TERMS,
    N_DENSITY_ROWS,
    N_FREE,
    N_GROWABLE,
    N_INTERNAL,
    N_NODES,
    N_PRUNABLE,
    N_WAY_TERMS,
    NODE,
    ROWS,
)
from ..model import TreeModel
from ..model.data import Units
from ..table.groups import MAX_CATEGORIES
from ..tree.arrays import LEAF, find_disorder
from ..tree.coded import CodedTrees
from .require import array_of, between, require
from .validate_calls import check_calls
from .validate_learned import check_evidences, check_graph, check_guides

SHIFT_LIMIT = 1 << MAX_CATEGORIES
ROUNDING = 1e-6
"""Largest rounding error of the sum over some rows, relative to the sum over all."""


def check_draws(draws: Any, model: TreeModel) -> None:
    """Refuse trees that would lead out of their arrays, and values that are not numbers."""
    trees = draws.trees
    check_calls(draws.calls)
    require(isinstance(trees, CodedTrees), "the trees are none")
    n_nodes, n_trees = len(trees.feature), len(trees.offset) - 1
    _check_trees(trees, model)
    array_of(draws.stats, "f", (n_nodes, int(model.leaf.n_stats(model.target))), "stats")
    require(np.isfinite(draws.stats) & (draws.stats[:, :1] >= 0.0), "a statistic is not finite")
    require(not model.leaf.is_classifier or (draws.stats >= 0.0).all(), "a count is negative")
    most = np.abs(_unit_stats(model.units, draws.stats.shape[1])).sum(axis=0)
    require(np.abs(draws.stats) <= most * (1.0 + ROUNDING), "a statistic is larger than that of all rows")
    array_of(draws.tree_of_draw, "i", (-1, -1), "tree_of_draw")
    require(draws.tree_of_draw.size > 0, "there are no draws")
    between(draws.tree_of_draw, 0, n_trees, "a draw")
    for name in ("log_prior", "log_score"):
        array_of(getattr(draws, name), "f", (n_trees,), name)
        require(np.isfinite(getattr(draws, name)), f"{name} is not finite")
    _check_counts(draws, model)


def _check_trees(trees: CodedTrees, model: TreeModel) -> None:
    """The invariants of `docs/tree_format.md`."""
    n_nodes, n_trees, q = len(trees.feature), len(trees.offset) - 1, len(model.scales)
    none = f"its trees are not trees over {model.n_features} features"
    array_of(trees.offset, "i", (-1,), "offset")
    require(n_trees >= 1 and trees.offset[0] == 0 and trees.offset[-1] == n_nodes, "the trees have no ends")
    require(np.diff(trees.offset) >= 1, "a tree is empty")
    kinds = {"feature": "i", "cut": "i", "upper": "i", "right": "i", "categories": "i", "default_left": "b"}
    for name, kind in kinds.items():
        array_of(getattr(trees, name), kind, (n_nodes,), name)
    inner, left = trees.feature != LEAF, trees.left
    require((trees.feature >= LEAF) & (trees.feature < q), none)
    for start, stop in pairwise(trees.offset.tolist()):
        found, _ = find_disorder(trees.feature[start:stop], left[start:stop], trees.right[start:stop])
        require(found == 0, none)
    nominal = np.append(model.columns.is_nominal[model.columns.source], False)[trees.feature]
    require(~inner | (nominal == (trees.categories >= 0)), "a split is of another kind than its column")
    n_codes = np.append(model.n_codes, 1)[trees.feature]
    ordered = inner & ~nominal
    require(~ordered | ((trees.cut >= -1) & (trees.cut < n_codes)), "a cut is out of range")
    require(~ordered | ((trees.upper > trees.cut) & (trees.upper <= n_codes)), "a cut is out of range")
    require(ordered | ((trees.cut == 0) & (trees.upper == 0)), "a cut is of no ordered split")
    require((trees.categories >= -1) & (trees.categories < SHIFT_LIMIT), "a set of categories")
    unused = (trees.right == 0) & (trees.categories == -1)
    require(inner | (unused & ~trees.default_left), "a leaf has a split")


def _check_weights(weights: Any, shape: tuple[int, ...], model: TreeModel) -> None:
    """Refuse draws of feature weights under a prior without them, and values that are not numbers."""
    drawn = model.split_prior.drawn_weights is not None
    require((weights is not None) == drawn, "the feature weights are of another prior")
    if weights is not None:
        array_of(weights, "f", (*shape, model.lowered.n_weights), "the feature weights")
        require(np.isfinite(weights), "a feature weight is not finite")
        require((weights[..., :-2] >= 0.0).all() and (weights[..., -2] > 0.0).all(), "a feature weight is negative")


def _check_counts(draws: Any, model: TreeModel) -> None:
    chains, length = draws.tree_of_draw.shape
    require(
        isinstance(draws.moves, tuple) and all(type(name) is str for name in draws.moves), "the moves have no names"
    )
    for name in ("proposed", "accepted"):
        array_of(getattr(draws, name), "i", (chains, length, len(draws.moves)), name)
        require(getattr(draws, name) >= 0, f"{name} is negative")
    require(draws.accepted <= draws.proposed, "more was accepted than proposed")
    require(type(draws.seconds) is float and np.isfinite(draws.seconds), "the time is none")
    array_of(draws.noise_variance, "f", (chains, length), "noise_variance")
    _check_weights(draws.weights_of_draw, (chains, length), model)
    found = draws.tempering
    if found is not None:
        levels = found.betas.shape[-1]
        shapes = {"betas": (chains, levels), "scores": (chains, length, levels), "round_trips": (chains,)}
        for name, shape in (shapes | {"swap_rates": (chains, levels - 1), "is_stump": (chains, length)}).items():
            array_of(getattr(found, name), "fib", shape, name)
            require(np.isfinite(getattr(found, name)), f"{name} is not finite")
        for value in (found.log_evidence, found.log_evidence_se):
            require(value is None or (isinstance(value, float) and np.isfinite(value)), "the evidence is none")


def check_state(state: dict[str, np.ndarray], model: TreeModel) -> None:
    """Refuse the arrays of a chain that compiled code could leave, or run round in: see `ChainState`."""
    node, order, count = state["node"], state["order"], state["count"]
    cap, n_units, p = len(node), model.units.n_units, len(model.scales)
    array_of(order, "i", (n_units,), "the order of the units")
    require(np.sort(order) == np.arange(n_units), "the units are not there once each")
    require(node["left"][0] >= LEAF and node["parent"][0] == LEAF, "the root has a parent")
    used = _reached(node)
    n_leaves = (len(used) + 1) // 2
    require(count[N_NODES] == len(used) and count[N_FREE] == cap - len(used), "nodes were lost")
    free = node["free"][: count[N_FREE]]
    require(np.sort(np.concatenate([used, free])) == np.arange(cap), "nodes were lost")
    here = node[used]
    leaf = here["left"] == LEAF
    between(here["start"], 0, n_units + 1, "a range of units")
    between(here["stop"], here["start"], n_units + 1, "a range of units")
    between(here["depth"], 0, len(used) + 1, "a depth")
    between(here["feature"][~leaf], 0, p, "a feature")
    between(here["rows"], 0, model.n_rows + 1, "a number of rows")
    between(here["categories"], -1, SHIFT_LIMIT, "a set of categories")
    codes = np.append(model.n_codes, 1)[here["feature"]]
    between(here["cut"][~leaf], -1, codes[~leaf], "a cut")
    between(here["upper"][~leaf], -1, codes[~leaf] + 1, "a cut")
    design = 1 if model.shape is None else len(model.shape.depth)
    between(here["design"], 0, design, "a node of the fixed tree")
    for name in ("log_rule", "score", "guess"):
        require(np.isfinite(here[name]), f"{name} is not finite")
    bare = {N_GROWABLE: ("growable", n_leaves), N_PRUNABLE: ("prunable", n_leaves), N_INTERNAL: ("internal", n_leaves)}
    for length, (name, most) in bare.items():
        between(count[length], 0, most + 1, f"the list of {name} nodes")
        listed = node[name][: count[length]]
        require(np.isin(listed, used), f"the list of {name} nodes")
        require(node[f"{name}_at"][listed] == np.arange(len(listed)), f"the list of {name} nodes")
        require(np.sum(here[f"{name}_at"] >= 0) == len(listed), f"the list of {name} nodes")
    require(np.isfinite(state["stats"][used]), "a statistic is not finite")
    _check_cells(state, used, model)
    require(np.isfinite(state["beta"]) & (state["beta"] >= 0.0) & (state["beta"] <= 1.0), "a power is out of range")


def _check_cells(state: dict[str, np.ndarray], used: np.ndarray, model: TreeModel) -> None:
    """Refuse nodes that do not hold the units their splits send there, the sums of these, or a cell of the box."""
    node, order, units = state["node"], state["order"], model.units
    require(node["start"][0] == 0 and node["stop"][0] == units.n_units, "a range of units")
    for i in used[node["left"][used] != LEAF].tolist():
        here, middle = node[i], node["stop"][node["left"][i]]
        codes = units.codes[here["feature"], order[here["start"] : here["stop"]]].astype(np.int64)
        left = (here["categories"] >> codes) & 1 == 1 if here["categories"] >= 0 else codes <= here["cut"]
        n_left = middle - here["start"]
        require(left[:n_left].all() and not left[n_left:].any(), "a unit is in another cell")
    start, stop = node["start"][used], node["stop"][used]
    rows = np.cumsum(np.append(0, np.broadcast_to(units.rows, units.n_units)[order]))
    require(node["rows"][used] == rows[stop] - rows[start], "a number of rows")
    own = _unit_stats(units, state["stats"].shape[1])[order]
    sums = np.concatenate([np.zeros((1, own.shape[1])), np.cumsum(own, axis=0)])
    gap = np.abs(state["stats"][used] - (sums[stop] - sums[start]))
    require(gap <= ROUNDING * np.abs(own).sum(axis=0), "the statistics are of other rows")
    if state["box"].shape[1]:
        box, nominal = state["box"][used], model.columns.is_nominal[model.columns.source]
        most = [(1 << n) - 1 if bits else n for n, bits in zip(model.n_codes.tolist(), nominal, strict=True)]
        require((box[..., 0] >= 0) & (box[..., 0] <= most), "a box is out of range")
        require((box[..., 1] >= 0) & (box[..., 1] <= model.n_codes), "a box is out of range")


def _unit_stats(units: Units, n_stats: int) -> np.ndarray:
    """Statistics (U, n_stats) of each unit."""
    weight = np.broadcast_to(units.weight, units.n_units)
    if not units.counts:
        return np.column_stack([weight, *units.moments])
    out = np.zeros((units.n_units, n_stats))
    out[np.arange(units.n_units), units.label] = weight
    return out


def _reached(node: np.ndarray) -> np.ndarray:
    """Nodes of a chain's tree, each once."""
    out: list[int] = []
    todo, cap = [0], len(node)
    left, right, parent = node["left"].tolist(), node["right"].tolist(), node["parent"].tolist()
    start, stop = node["start"].tolist(), node["stop"].tolist()
    while todo and len(out) <= cap:
        i = todo.pop()
        out.append(i)
        if left[i] == LEAF:
            continue
        a, b = left[i], right[i]
        require(0 < a < cap and 0 < b < cap and a != b, "a node has no children")
        require(
            parent[a] == parent[b] == i and start[a] == start[i] and stop[b] == stop[i], "a child is of another node"
        )
        require(stop[a] == start[b], "a child is of another node")
        todo += [b, a]
    require(len(out) <= cap and len(set(out)) == len(out), "a node is reached twice")
    return np.array(out, dtype=np.int64)


def check_course(course: Any, draws: Any, model: TreeModel) -> None:
    """Refuse what chains cannot go on from."""
    chains = len(draws.tree_of_draw)
    check_kernel(course.kernel)
    require(type(course.thin) is int and 1 <= course.thin <= MOST, "thin is out of range")
    require(type(course.steps) is int and 1 <= course.steps <= MOST, "steps is out of range")
    require(isinstance(course.ends, tuple) and len(course.ends) == chains, "a chain has no end")
    require(course.kernel.moves == draws.moves, "the moves are not those of the kernel")
    for end in course.ends:
        check_end(end, model, len(course.kernel.moves))
    check_evidences(course.evidences, len(course.teams))


def check_kernel(kernel: Any) -> None:
    """Refuse a kernel that is not a mixture of known moves."""
    require(isinstance(kernel, Kernel) and isinstance(kernel.names, tuple), "the kernel is none")
    require(isinstance(kernel.own, tuple), "the kernel is none")
    for move in kernel.own:
        require(isinstance(move, AbsentMove) and isinstance(move.counts, tuple), "the kernel has a move that is none")
        words = (move.name, move.key, *move.counts)
        require(len(move.counts) in (1, 2) and all(type(word) is str for word in words), "a move has no name")
        flags = (move.replaces, move.scans, move.lines, move.guided)
        require(all(type(flag) is bool for flag in flags), "a move is none")
    own = [move.name for move in kernel.own]
    require(len({*own, *STEPS}) == len(own) + len(STEPS), "a move has the name of another")
    require([name in STEPS or name in own for name in kernel.names], "the kernel has a move that is unknown")
    require(len(set(kernel.names)) == len(kernel.names), "the kernel has a move twice")
    given = np.array(kernel.given, dtype=np.float64)
    require(given.shape == (len(kernel.names),), "the kernel has no weights")
    require((given > 0.0) & np.isfinite(given), "the kernel has no weights")
    weights = np.array(kernel.weights, dtype=np.float64)
    require(weights.shape == (len(kernel.names),) and len(weights) > 0, "the kernel has no weights")
    require((weights > 0.0) & (weights <= 1.0) & (abs(weights.sum() - 1.0) < 1e-9), "the kernel has no weights")
    require(type(kernel.block) is int and 1 <= kernel.block <= MOST, "the kernel has no block")
    require(type(kernel.adapts) is bool, "the kernel is none")


def check_end(end: Any, model: TreeModel, n_moves: int) -> None:
    """Refuse where a chain, or a ladder, is said to have stopped."""
    require(isinstance(end, Snapshot) and type(end.tuned) is int and 0 <= end.tuned <= MOST, "a chain has no end")
    require(type(end.team) is int and 0 <= end.team < MOST, "a chain has no team")
    check_generator(end.generator)
    levels = 1
    if end.rungs is not None:
        betas = end.rungs.betas
        levels = len(betas)
        array_of(betas, "f", (levels,), "a ladder")
        require((betas >= 0.0) & (betas <= 1.0) & (betas[0] == 1.0), "a ladder is none")
        require(betas[1:] < betas[:-1], "a ladder is none")
        for name in ("tried", "acceptance"):
            array_of(getattr(end.rungs, name), "fi", (levels - 1,), name)
            require(np.isfinite(getattr(end.rungs, name)), f"{name} is not finite")
        require(len(end.rungs.journey) == levels, "a ladder is of other levels")
        words = [*end.rungs.journey, end.rungs.odd, end.rungs.adapts]
        require(all(type(word) is bool for word in words), "a ladder is of other levels")
        counts = (end.rungs.generation, end.rungs.trips)
        require(all(type(n) is int and 0 <= n < 1 << 62 for n in counts), "a ladder has no age")
    require(len(end.replicas) == levels, "a ladder is of other levels")
    for replica in end.replicas:
        _check_replica(replica, model, n_moves)


def _check_replica(replica: Any, model: TreeModel, n_moves: int) -> None:
    state = dict(zip(ARRAYS, replica.state, strict=True))
    node = state["node"]
    require(node.dtype == NODE and node.ndim == 1 and len(node) >= 1, "the nodes are none")
    cap, p = len(node), len(model.scales)
    array_of(state["stats"], "f", (cap, int(model.leaf.n_stats(model.target))), "stats")
    array_of(state["box"], "i", (cap, state["box"].shape[1], 2), "box")
    require(state["box"].shape[1] in (0, p), "box has another shape")
    array_of(state["count"], "i", (ROWS + 1,), "count")
    array_of(state["beta"], "f", (1,), "beta")
    array_of(state["moves"], "i", (2, n_moves), "moves")
    learned = (N_DENSITY_ROWS, N_CELL_TERMS + N_WAY_TERMS)
    array_of(state["density"], "f", (1, 1) if state["density"].shape == (1, 1) else learned, "density")
    require(np.isfinite(state["density"]), "the density is not finite")
    require(type(replica.blocks) is int and 0 <= replica.blocks < 1 << 62, "a chain has no age")
    check_state({name: np.asarray(array) for name, array in state.items()}, model)
    cells = replica.cells
    m = len(cells.place)
    array_of(cells.place, "i", (m,), "cells")
    between(cells.place, 0, cells.n_cells, "a cell")
    require(cells.cell.dtype == CELL and cells.cell.shape == (m,), "cells has another shape")
    for name in ("ways", "table"):
        array_of(getattr(cells, name), "f", (m, p), name)
        require(~np.isnan(getattr(cells, name)) & ~np.isposinf(getattr(cells, name)), f"{name} is not finite")
    for name in ("weight", "log_w", "log_z2"):
        require(~np.isnan(cells.cell[name]), f"{name} is NaN")
    check_guides(cells, model, state["density"].shape != (1, 1))
    check_graph(replica.graph, model)
    require((replica.weights is None) == model.lowered.split_prior.is_fixed, "the weights are of another prior")
    if replica.weights is not None:
        array_of(replica.weights, "f", (model.n_features + 1,), "the feature weights")
        require(np.isfinite(replica.weights) & (replica.weights[-1] > 0.0), "a feature weight is not finite")
    require((replica.noise is None) == model.lowered.leaf.is_fixed, "the variance is of another leaf")
    if replica.noise is not None:
        require(isinstance(replica.noise, tuple) and len(replica.noise) == 2, "the variance is none")
        for params in replica.noise:
            array_of(params, "f", model.lowered.leaf.params.shape, "a parameter of the leaf")
            require(np.isfinite(params), "a parameter of the leaf is not finite")


def check_generator(state: Any) -> None:
    """Refuse the state of a generator that would read behind its own numbers."""
    require(isinstance(state, dict) and state.get("bit_generator") in GENERATORS, "the generator is none")
    generator_from(state)
    for where, name, most in (("state", "pos", 624), (None, "buffer_pos", 4)):
        inner = state if where is None else state.get(where, {})
        if name in inner:
            require(0 <= int(inner[name]) <= most, "the generator is none")


def _check_length(length: Any, model: TreeModel) -> None:
    if length is not None:
        require(isinstance(length, Length), "a plan has no length")
        counts = length.draws, length.steps, length.before
        require([type(n) is int and 0 <= n <= MOST for n in counts], "a plan has no length")
        require(length.draws >= 1, "a plan has no length")
        finite = type(length.seconds) is float and 0.0 < length.seconds < np.inf
        require(length.seconds is None or finite, "a plan has no length")
        require(type(length.work) is float and 1.0 <= length.work < np.inf, "a plan has no length")


def check_run(run: Any, model: TreeModel) -> None:
    """Refuse a run on its way that cannot go on."""
    require(len(run.plans) == len(run.results) >= 1, "a chain has no plan")
    require(all(type(x) is float and np.isfinite(x) for x in (run.every, run.seconds)), "the time is none")
    for plan, result in zip(run.plans, run.results, strict=True):
        check_kernel(plan.kernel)
        check_calls(plan.calls)
        require([type(n) is int and 0 <= n <= MOST for n in (plan.draws, plan.tune, plan.thin)], "a plan has no length")
        require(plan.draws >= 1 and plan.thin >= 1, "a plan has no length")
        _check_length(plan.length, model)
        if isinstance(plan.start, Dispersed):
            require(type(plan.start.chain) is int and 0 <= plan.start.chain <= MOST, "a plan has no start")
        if isinstance(plan.seed, dict):
            check_generator(plan.seed)
        if result is not None and result.end is not None:
            check_end(result.end, model, len(plan.kernel.moves))
