"""The parts of an estimator's model: the tree prior, the split prior and the leaf that its parameters state."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from ...core.checks import as_number, check_count, check_type, in_words, is_integer, read_numbers
from ...model import BranchingProcess, ChipmanPrior, LeafPenalty, LocalCuts, NormalSharedVariance
from ...model.leaf.base import Leaf

TREE_PRIOR = ChipmanPrior(0.95, 0.5)
"""Default tree prior. Its trees are larger than with the customary ``beta = 2``, since they are averaged."""
MANY_ROWS, MANY_CUTS = 20_000, 254
"""Number of rows above which features have, by default, at most this many cuts."""


def stated_tree_prior(tree_prior: Any, max_depth: Any) -> Any:
    """Return the tree prior, or the default one for None, with the depth that the estimator allows."""
    prior = TREE_PRIOR if tree_prior is None else tree_prior
    if max_depth is None:
        return prior
    depth = check_count("max_depth", max_depth, 0)
    kinds = BranchingProcess | ChipmanPrior | LeafPenalty
    check_type("tree_prior", prior, kinds, "BranchingProcess, ChipmanPrior or LeafPenalty")
    if prior.max_depth is not None:
        raise ValueError(f"max_depth={depth} and tree_prior={prior!r} both bound the depth; give it once.")
    return replace(prior, max_depth=depth)


def stated_split_prior(split_prior: Any, min_samples_leaf: Any, n_rows: int) -> Any:
    """Return the split prior, or the default one for None, with the smallest number of rows in a leaf."""
    if split_prior is None:
        split_prior = LocalCuts() if n_rows <= MANY_ROWS else LocalCuts(max_cuts=MANY_CUTS)
    least = _rows_in_leaf(min_samples_leaf, n_rows)
    if least == 1:
        return split_prior
    if not isinstance(split_prior, LocalCuts) or split_prior.min_leaf != 1:
        raise ValueError(
            f"min_samples_leaf={min_samples_leaf} and split_prior={split_prior!r} cannot be combined; give "
            "LocalCuts(min_leaf=...) or min_samples_leaf, not both, and no other split prior."
        )
    return replace(split_prior, min_leaf=least)


def _rows_in_leaf(min_samples_leaf: Any, n_rows: int) -> int:
    """Return the smallest number of rows in a leaf, from this number or from a fraction of all rows."""
    if is_integer(min_samples_leaf):
        return check_count("min_samples_leaf", min_samples_leaf)
    fraction = as_number(min_samples_leaf)
    if fraction is None or not 0.0 < fraction < 1.0:
        raise ValueError(
            f"min_samples_leaf={in_words(min_samples_leaf)}; give an integer >= 1, or a fraction of the rows in (0, 1)."
        )
    return math.ceil(fraction * n_rows)


def thin_split_prior(split_prior: Any, fraction: float) -> Any:
    """Return the split prior for a sample of the rows, with proportionally fewer rows in a leaf."""
    least = getattr(split_prior, "min_leaf", 1)
    return split_prior if least == 1 or fraction == 1.0 else split_prior.with_min_leaf(math.ceil(fraction * least))


def check_leaf(leaf: Any, power: Any, *, for_classes: bool) -> None:
    """Raise a ValueError for a leaf of the other estimator, or without the density that a choice of the power needs."""
    if not isinstance(leaf, Leaf):
        return
    name = type(leaf).__name__
    if leaf.is_classifier and not for_classes:
        raise ValueError(
            f"leaf={in_words(leaf)} predicts classes; give a leaf of numbers, such as NormalInverseGamma(), or take "
            "BayesianTreeClassifier."
        )
    if for_classes and not leaf.is_classifier:
        raise ValueError(
            f"leaf={in_words(leaf)} predicts numbers; give DirichletMultinomial(...), or take BayesianTreeRegressor."
        )
    if power == "auto" and (isinstance(leaf, NormalSharedVariance) or not leaf.has_likelihood):
        why = "is a loss, not a likelihood" if not leaf.has_likelihood else "has one variance for all leaves"
        raise ValueError(f"power='auto' needs the density of rows left out, and {name} {why}; give a number > 0.")


def leaf_of_rows(leaf: Any, row_index: np.ndarray, n_rows: int) -> Any:
    """Return the leaf for the rows ``row_index`` of ``n_rows`` rows, with the exposures of these rows, if any."""
    if getattr(leaf, "exposure", None) is None:
        return leaf
    exposure = read_numbers("exposure", leaf.exposure)
    if exposure.shape != (n_rows,):
        raise ValueError(f"exposure has shape {exposure.shape}; y has {n_rows} rows: one each.")
    return replace(leaf, exposure=exposure[row_index])
