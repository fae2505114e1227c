"""Check of the draws of a file.

Compiled code relies on dtypes, shapes and indices, so that all of them are checked, even if the digest fits.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from ..files.calls import Call
from ..model import TreeModel
from ..model.rows import Units
from ..table.values import MAX_CATEGORIES
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
    _check_counts(draws, model)


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
