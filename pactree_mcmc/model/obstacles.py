"""Reasons why compiled code cannot use a part of a model, and why posteriors of a model have no certificate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.checks import repr_of
from ..table.labels import MAX_CATEGORIES, is_grouped
from .leaf.base import Leaf
from .leaf.classes import DirichletMultinomial, FrozenLaplace, PacBayesLoss
from .leaf.counts import PoissonGamma
from .leaf.custom import CustomLeaf
from .leaf.normal import NormalInverseGamma, NormalKnownVariance, NormalSharedVariance
from .leaf.normal_linear import NormalLinear
from .leaf.positive import ExponentialGamma, WeibullGamma
from .split_prior.base import SplitPrior
from .split_prior.custom_splits import CustomSplits
from .split_prior.cuts import DyadicCuts, GridCuts, LocalCuts
from .split_prior.fixed_tree import FixedTree
from .tree_prior import (
    BranchingProcess,
    ChipmanPrior,
    LeafPenalty,
    TreePrior,
)

if TYPE_CHECKING:
    from .model import TreeModel

COMPILED_TREE_PRIORS = (BranchingProcess, ChipmanPrior, LeafPenalty)
# classes of tree priors, split priors and leaf models that compiled code implements
COMPILED_SPLIT_PRIORS = (LocalCuts, GridCuts, DyadicCuts, FixedTree, CustomSplits)
COMPILED_LEAVES = (
    *(DirichletMultinomial, FrozenLaplace, PacBayesLoss),
    *(NormalInverseGamma, NormalKnownVariance, NormalSharedVariance, PoissonGamma),
    *(ExponentialGamma, WeibullGamma, NormalLinear),
    CustomLeaf,
)
# methods of a leaf without a compiled form, which a subclass may therefore change
UNCOMPILED_METHODS = frozenset(
    {"resolve", "value", "predictive", "log_density", "log_density_left_out", "draw", "draw_parameters", "draw_given"}
)


def check_known(tree_prior: Any, split_prior: SplitPrior, leaf: Leaf | None) -> None:
    """Raise a TypeError if a part of a model is of an unknown class, or of a subclass that compiled code ignores."""
    _check_class(tree_prior, COMPILED_TREE_PRIORS, "tree_prior")
    _check_class(split_prior, COMPILED_SPLIT_PRIORS, "split_prior")
    if leaf is not None:
        _check_class(leaf, COMPILED_LEAVES, "leaf")


def _check_class(part: Any, classes: tuple[type, ...], name: str) -> None:
    """Raise a TypeError if argument ``name`` has none of the ``classes``, or a subclass with other compiled methods."""
    lineage = type(part).__mro__
    base = next((cls for cls in lineage if cls in classes), None)
    if base is None:
        *names, last = (cls.__name__ for cls in classes)
        is_part = isinstance(part, TreePrior | SplitPrior | Leaf)
        what = f"a {type(part).__name__}, which has no compiled form" if is_part else repr_of(part)
        raise TypeError(f"{name} is {what}; give {', '.join(names)} or {last}.")
    changeable = UNCOMPILED_METHODS | set(getattr(base, "__dataclass_fields__", {}))
    for cls in lineage[: lineage.index(base)]:
        for changed in vars(cls):
            if hasattr(base, changed) and not changed.startswith("__") and changed not in changeable:
                raise TypeError(
                    f"{name} is a {type(part).__name__}, which changes {changed} of {base.__name__}; compiled code "
                    f"would go on with that of {base.__name__}, so the two would disagree: give a {base.__name__}."
                )


def obstacle_to_certificate(model: TreeModel, sampled: bool) -> str | None:
    """Return the first reason why posteriors of the model have no certificate, and what to give instead, or None."""
    reason = (
        _obstacle_in_leaf(model)
        or model.split_prior.use_of_rows
        or _obstacle_in_prior(model)
        or _obstacle_in_classes(model)
    )
    return reason or _obstacle_in_columns(model) or (unknown_constant(model) if sampled else None)


def unknown_constant(model: TreeModel) -> str | None:
    """Return a text that says why draws do not determine the divergence of the posterior from the prior, or None."""
    if log_prior_mass(model) is not None:
        return None
    if isinstance(model.tree_prior, LeafPenalty):
        return (
            "LeafPenalty is not normalised, and draws do not determine its constant; use ChipmanPrior or "
            "BranchingProcess, or exact.solve"
        )
    return (
        f"{model.tree_prior!r} has a mass below one if some cells lack splits, and draws do not determine it; use a "
        "process that is not conditioned, or exact.solve"
    )


def log_prior_mass(model: TreeModel) -> float | None:
    """Return the log of the sum of the prior over all trees, or None if it depends on the splits of each cell."""
    return model.tree_prior.log_mass(model.split_prior.fewest_splits(model.columns), model.shape)


def _obstacle_in_leaf(model: TreeModel) -> str | None:
    """Return the reason against a certificate, a PAC bound, in the leaf model, rows of E or weights, or None."""
    leaf, target = model.leaf, model.target
    if not leaf.is_classifier:
        return (
            f"{type(leaf).__name__} is a regression, and the bounds are for losses in [0, 1]; "
            "give a classification model with PacBayesLoss and estimation="
        )
    if not leaf.uses_estimation or target.estimation is None:
        return (
            f"{type(leaf).__name__} learns leaf values from every row, counted ones too; give PacBayesLoss or "
            "FrozenLaplace with estimation=, so that E fixes them and the rest is counted"
        )
    if target.estimation.all():
        return "the estimation mask holds every row, so none is left to count; leave some out"
    if np.ptp(target.weights[~target.estimation]) > 0.0:
        return "sample_weight differs between counted rows, and a bound counts each of them once; drop it"
    return None


def _obstacle_in_prior(model: TreeModel) -> str | None:
    """Return the reason against a certificate, a PAC bound, in the cost of empty leaves, or None."""
    if model.prior_tables.empty_bonus != 0.0:
        return "the cost of an empty leaf depends on which cells hold rows; give LeafPenalty one cost"
    return None


def _obstacle_in_classes(model: TreeModel) -> str | None:
    """Return the reason against a certificate in classes that no row of E, the rows that fix leaves, has, or None."""
    in_e = np.zeros(model.target.n_classes, dtype=np.bool_)
    in_e[model.target.values[model.target.estimation]] = True
    assert model.classes_ is not None
    classes = model.classes_.tolist()
    if not in_e[0]:
        return (
            f"class {classes[0]!r}, the label of a cell without rows of E, occurs only in counted rows; "
            "choose E so that it holds the smallest class"
        )
    if model.leaf.depends_on_n_classes and not in_e.all():
        return (
            f"class {classes[int(np.argmin(in_e))]!r} occurs only in counted rows, and the number of classes sets the "
            f"probabilities of every {type(model.leaf).__name__} leaf; choose E so that it holds all classes, leave "
            "the rows of that class out, or give PacBayesLoss"
        )
    return None


def _obstacle_in_columns(model: TreeModel) -> str | None:
    """Return the reason against a certificate in categories or missing values that only counted rows have, or None."""
    # counted rows are those outside E, whose errors a bound counts
    merged_rows, columns = model.units, model.columns
    in_e = merged_rows.label < model.target.n_classes
    for j in np.flatnonzero(columns.is_nominal).tolist():
        if is_grouped(columns.categories[j]):
            return (
                f"column {columns.names[j]!r} has more than {MAX_CATEGORIES} categories, and the rows of each, counted "
                f"ones too, decide which are grouped; give at most {MAX_CATEGORIES} groups of your own"
            )
        missing = np.setdiff1d(np.arange(model.n_codes[j]), merged_rows.codes[j, in_e])
        if len(missing):
            categories = columns.categories[j]
            assert categories is not None
            name, category = columns.names[j], categories.tolist()[missing[0]]
            return (
                f"category {category!r} of column {name!r} occurs only in counted rows, so the prior over splits of "
                "the categories depends on them; merge it with another, or choose E so that it holds all"
            )
    lacks = np.isnan(model.unit_numbers(np.flatnonzero(in_e)))
    for j in columns.twins:
        if model.n_codes[j] > 1 and not lacks[:, j].any():
            return (
                f"column {columns.names[j]!r} lacks values only in counted rows, so the prior over where missing "
                "values go depends on them; fill them in, or choose E so that it lacks some too"
            )
    return None
