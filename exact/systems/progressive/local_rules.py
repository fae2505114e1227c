"""Local rules that say how a leaf is split, and the condition under which they are a prior (Blanchard 1999, theorem 5).

A tree under construction is a dict from the paths of its splits to their numbers. A path is a string of "0" (left) and
"1" (right); "" is the root. A local rule returns the probabilities of the splits of one leaf, given all earlier splits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from pactree_mcmc.core.checks import check_count, check_number, check_type, read_numbers, repr_of
from pactree_mcmc.model import TreeModel
from pactree_mcmc.model.rows import PlainCell, PlainSplit
from pactree_mcmc.model.split_prior.base import call_uncompiled, parts_rows

from ...limits import Intractable

# function of a tree under construction and the path of one of its leaves: probabilities (n_splits,)
LocalRule = Callable[[dict[str, int], str], Any]

MAX_LABELLED_TREES = 100_000  # default of ``max_trees`` in `check_local_rule`


class LocalRuleReport(NamedTuple):
    """Result of `check_local_rule`."""

    holds: bool
    """True if the rule satisfies condition (*) on all trees compared."""
    max_difference: float
    """Largest difference between the probabilities of two splits made in one order and in the other, relative to the
    larger one."""
    worst: tuple[dict[str, int], str, str, int, int] | None
    """The tree, the two leaves and their splits with this difference; None if no tree has two leaves to split."""
    n_checked: int
    """Number of comparisons, one for each tree, pair of leaves and pair of splits."""


def check_local_rule(
    rule: LocalRule, n_splits: int, max_depth: int, *, tolerance: float = 1e-9, max_trees: int = MAX_LABELLED_TREES
) -> LocalRuleReport:
    """Check condition (*) of Theorem 5: two splits are as probable in one order as in the other.

    ``R(f2 | T and f1 at s1) R(f1 | T at s1) = R(f1 | T and f2 at s2) R(f2 | T at s2)`` for all trees T of positive
    probability, leaves s1 and s2 and splits. If it holds, the rule defines a prior over labelled trees, whatever the
    order of construction. A rule that depends on the ancestors of a leaf alone satisfies it.

    Parameters
    ----------
    rule : function
        ``rule(splits, leaf)`` returns probabilities of shape (n_splits,) that sum to 1, or all 0 for a leaf that cannot
        be split. ``splits`` maps paths ("", "0", "01", ...) to numbers of splits.
    n_splits : int
        Number of splits among which a node chooses, >= 1.
    max_depth : int
        Largest depth of the trees compared, >= 1; condition (*) is about two leaves, so 2 is the least of interest.
    tolerance : float, default 1e-9
        Largest relative difference that counts as none, >= 0.
    max_trees : int, default 100,000
        Largest number of trees.

    Raises
    ------
    ValueError
        If the rule fails or does not return probabilities.
    Intractable
        If there are more trees.

    Notes
    -----
    By enumeration of all ``1 + q (1 + q ...)^2`` labelled trees for q splits.

    Examples
    --------
    A rule that avoids the split of the sibling, which depends on the order of construction:

    >>> def avoid(splits, leaf):
    ...     beside = splits.get(leaf[:-1] + "10"[int(leaf[-1])]) if leaf else None
    ...     return [0.5, 0.5] if beside is None else [0.9, 0.1] if beside == 1 else [0.1, 0.9]
    >>> check_local_rule(avoid, 2, 2).holds
    True
    >>> def avoid_first(splits, leaf):
    ...     return [0.7, 0.3] if 0 not in splits.values() else [0.2, 0.8]
    >>> check_local_rule(avoid_first, 2, 2).worst
    ({'': 1}, '0', '1', 0, 1)
    """
    check_type("rule", rule, Callable, "a function of (splits, leaf)")
    check_count("n_splits", n_splits)
    check_count("max_depth", max_depth)
    check_count("max_trees", max_trees)
    tolerance = check_number("tolerance", tolerance, "a number >= 0", 0.0)
    worst, largest, n_checked = None, 0.0, 0
    for tree in _labelled_trees(rule, int(n_splits), int(max_depth), int(max_trees)):
        leaves = [leaf for leaf in _leaf_paths(tree) if len(leaf) < max_depth]
        for leaf1, leaf2 in combinations(leaves, 2):
            first, second = _probabilities_in_both_orders(rule, tree, leaf1, leaf2, int(n_splits))
            larger = np.maximum(first, second)
            difference = np.abs(first - second) / np.where(larger > 0.0, larger, 1.0)
            n_checked += difference.size
            if worst is None or difference.max() > largest:
                f1, f2 = np.unravel_index(int(np.argmax(difference)), difference.shape)
                largest, worst = float(difference.max()), (dict(tree), leaf1, leaf2, int(f1), int(f2))
    return LocalRuleReport(largest <= tolerance, largest, worst, n_checked)


def local_rule_log_probability(rule: LocalRule, splits: dict[str, int]) -> float:
    """Return the log probability of the splits of a tree: the product of Theorem 5, built from the root down.

    Parameters
    ----------
    rule : function
        As for `check_local_rule`, which shows whether the order of construction matters.
    splits : dict of str to int
        Number of the split at each path. The path above each path must be a key too.

    Returns
    -------
    float
        Nats; -inf if the rule excludes a split.

    Examples
    --------
    >>> round(local_rule_log_probability(lambda splits, leaf: [0.25, 0.75], {"": 0, "1": 1}), 4)
    -1.674
    """
    check_type("rule", rule, Callable, "a function of (splits, leaf)")
    check_type("splits", splits, dict, "a dict from paths to numbers of splits")
    earlier: dict[str, int] = {}
    total = 0.0
    for path in splits:
        check_type("a path", path, str, "a string of '0' and '1'")
    for path in sorted(splits, key=lambda path: (len(path), path)):
        if (path and path[:-1] not in earlier) or set(path) - set("01"):
            raise ValueError(f"splits has the path {path!r} but not its parent; give paths of '0' and '1'.")
        p = _call_rule(rule, earlier, path, None)
        split = check_count(f"splits[{path!r}]", splits[path], 0, len(p) - 1)
        total += math.log(p[split]) if p[split] > 0.0 else -math.inf
        earlier[path] = split
    return total


class ModelRule(NamedTuple):
    """The split prior of a model as a local rule, with the numbered splits to which its probabilities refer."""

    rule: LocalRule
    """Function as `check_local_rule` takes it."""
    splits: list[PlainSplit]
    """Splits by their numbers: feature, largest code to the left, categories."""


def local_rule(model: TreeModel) -> ModelRule:
    """Return the split prior of a model as a local rule over all splits that the model has.

    Parameters
    ----------
    model : TreeModel
        With `LocalCuts` without ``trivial``, `GridCuts`, `DyadicCuts`, or `CustomSplits` over the first two, and
        ordered columns without missing values.

    Notes
    -----
    R of a cell depends on the ancestors alone, so condition (*) holds. O(n p) for each split of a leaf: for small
    tables.

    Examples
    --------
    >>> import pactree_mcmc as pt
    >>> uneven = pt.CustomSplits(lambda cut: 1.0 / (1.0 + cut.left))
    >>> model = pt.TreeModel([[0.0], [1.0], [2.0]], [0, 0, 1], split_prior=uneven)
    >>> rule, splits = local_rule(model)
    >>> rule({}, "").round(3).tolist(), check_local_rule(rule, len(splits), 2).holds
    ([0.6, 0.4], True)
    """
    check_type("model", model, TreeModel, "a TreeModel")
    if model.columns.is_nominal.any() or model.columns.twins:
        raise ValueError("a column is nominal or has missing values; give ordered columns of numbers.")
    if model.shape is not None or getattr(model.split_prior, "trivial", False):
        raise ValueError(f"{model.split_prior!r} has splits that are no cuts of X; give LocalCuts, grids or DyadicCuts")
    splits = [PlainSplit(k, cut, -1) for k in range(model.n_features) for cut in range(int(model.n_codes[k]) - 1)]

    def rule(earlier: dict[str, int], leaf: str) -> np.ndarray:
        cell: PlainCell = model.root_cell()
        for j, side in enumerate(leaf):
            cell = model.rules.children(cell, splits[earlier[leaf[:j]]])[int(side)]
        if model.is_forced(cell):
            return np.zeros(len(splits))
        # cuts between two values of a cell are one split there, named by the lower value
        is_named = [not call_uncompiled(parts_rows, model.split_prior) or cut in cell.codes(k) for k, cut, _ in splits]
        pairs = zip(splits, is_named, strict=True)
        return np.exp([model.rules.log_probability(cell, split) if named else -np.inf for split, named in pairs])

    return ModelRule(rule, splits)


def _call_rule(rule: LocalRule, earlier: dict[str, int], leaf: str, n: int | None) -> np.ndarray:
    """Call the rule for one leaf, and return the probabilities of its splits, which sum to 1 or are all 0."""
    try:
        returned = rule(dict(earlier), leaf)
    except Exception as error:
        raise ValueError(f"rule fails at {leaf!r} of a tree of {len(earlier)} splits: {repr_of(error)}") from error
    p = read_numbers("what rule returns", returned)
    if p.ndim != 1 or (n is not None and len(p) != n) or not np.all(p >= 0.0):
        raise ValueError(f"rule returns shape {p.shape} at {leaf!r}; return probabilities >= 0 of each of the splits.")
    if p.any() and abs(p.sum() - 1.0) > 1e-6:
        raise ValueError(f"rule returns probabilities that sum to {p.sum():.6g} at {leaf!r}; return a sum of 1, or 0.")
    return p


def _leaf_paths(tree: dict[str, int]) -> list[str]:
    """Return the paths of the leaves of a tree, as strings of "0" and "1"; keys of ``tree`` are those of its splits."""
    return [side for path in tree for side in (path + "0", path + "1") if side not in tree] if tree else [""]


def _labelled_trees(rule: LocalRule, n: int, max_depth: int, max_trees: int) -> Iterator[dict[str, int]]:
    """Yield all labelled trees that some order of construction reaches with positive probability, each once."""
    # a labelled tree maps the paths of its inner nodes ("", "0", "01", ...) to numbers of splits
    reached: set[tuple] = {()}
    stack: list[dict[str, int]] = [{}]
    while stack:
        tree = stack.pop()
        yield tree
        for leaf in _leaf_paths(tree):
            if len(leaf) >= max_depth:
                continue
            for split in np.flatnonzero(_call_rule(rule, tree, leaf, n) > 0.0):
                larger = {**tree, leaf: int(split)}
                key = tuple(sorted(larger.items()))
                if key not in reached:
                    reached.add(key)
                    stack.append(larger)
                    if len(reached) > max_trees:
                        advice = "Give fewer splits or a smaller max_depth, or raise max_trees."
                        raise Intractable(len(reached), max_trees, "labelled trees", advice=advice)


def _probabilities_in_both_orders(
    rule: LocalRule, tree: dict[str, int], leaf1: str, leaf2: str, n: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the probabilities (n, n) of the splits of two leaves if `leaf1` is split first, or `leaf2`."""
    # equal under condition (*)
    first, second = np.zeros((n, n)), np.zeros((n, n))
    p1, p2 = _call_rule(rule, tree, leaf1, n), _call_rule(rule, tree, leaf2, n)
    for f in range(n):
        if p1[f] > 0.0:
            first[f] = p1[f] * _call_rule(rule, {**tree, leaf1: f}, leaf2, n)
        if p2[f] > 0.0:
            second[:, f] = p2[f] * _call_rule(rule, {**tree, leaf2: f}, leaf1, n)
    return first, second
