"""Check of the saved draws of a file. Compiled code that answers questions relies on these shapes and ranges."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from ..files.calls import Call
from ..model import TreeModel
from ..model.data import Units
from ..table.labels import MAX_CATEGORIES
from ..tree.arrays import LEAF, find_disorder
from ..tree.coded import CodedTrees
from .require import array_of, between, check_declared, require

FUNCTIONS = ("sample", "resume")
"""Functions whose calls a file may contain."""
SHIFT_LIMIT = 1 << MAX_CATEGORIES
"""Smallest integer that is not a set of categories."""
ROUNDING = 1e-6
"""Largest rounding error of the sum over some rows, relative to the sum over all."""


def check_recorded_calls(calls: Any) -> None:
    """Refuse calls that `sample` and `resume` do not write."""
    check_declared(calls, tuple[Call, ...], "the calls")
    require([call.function in FUNCTIONS for call in calls], "a call is of an unknown function")


def check_draws(draws: Any, model: TreeModel) -> None:
    """Refuse trees that would lead out of their arrays, and values that are not numbers."""
    trees = draws.trees
    check_recorded_calls(draws.calls)
    require(isinstance(trees, CodedTrees), "the trees are missing")
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
    """Refuse trees that do not have the invariants of `docs/tree_format.md`."""
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
        disorder, _ = find_disorder(trees.feature[start:stop], left[start:stop], trees.right[start:stop])
        require(disorder == 0, none)
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
    """Refuse counts of moves and diagnostics of ladders that do not fit the draws."""
    chains, length = draws.tree_of_draw.shape
    require(
        isinstance(draws.moves, tuple) and all(type(name) is str for name in draws.moves), "the moves have no names"
    )
    for name in ("proposed", "accepted"):
        array_of(getattr(draws, name), "i", (chains, length, len(draws.moves)), name)
        require(getattr(draws, name) >= 0, f"{name} is negative")
    require(draws.accepted <= draws.proposed, "more was accepted than proposed")
    require(type(draws.seconds) is float and np.isfinite(draws.seconds), "the time is not a number")
    array_of(draws.noise_variance, "f", (chains, length), "noise_variance")
    _check_weights(draws.weights_of_draw, (chains, length), model)
    tempering = draws.tempering
    if tempering is not None:
        levels = tempering.betas.shape[-1]
        shapes = {"betas": (chains, levels), "scores": (chains, length, levels), "round_trips": (chains,)}
        for name, shape in (shapes | {"swap_rates": (chains, levels - 1), "is_stump": (chains, length)}).items():
            array_of(getattr(tempering, name), "fib", shape, name)
            require(np.isfinite(getattr(tempering, name)), f"{name} is not finite")
        for value in (tempering.log_evidence, tempering.log_evidence_se):
            require(value is None or (isinstance(value, float) and np.isfinite(value)), "the evidence is not a number")


def _unit_stats(units: Units, n_stats: int) -> np.ndarray:
    """Return the statistics (U, n_stats) of each unit."""
    weight = np.broadcast_to(units.weight, units.n_units)
    if not units.counts:
        return np.column_stack([weight, *units.moments])
    out = np.zeros((units.n_units, n_stats))
    out[np.arange(units.n_units), units.label] = weight
    return out
