"""The parts of an estimator's model from its parameters, and parameters of these parts by ``part__name``."""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator

from ...core.checks import as_number, check_count, check_type, in_words, is_integer, read_numbers
from ...model import BranchingProcess, ChipmanPrior, LeafPenalty, LocalCuts, NormalSharedVariance
from ...model.leaf.base import Leaf

TREE_PRIOR = ChipmanPrior(0.95, 0.5)
"""Larger trees than the customary ``beta = 2``, since they are averaged."""
MANY_ROWS, MANY_CUTS = 20_000, 254
"""More rows than so many have so many cuts of a feature, where nothing is said."""
DEFAULTS = {"tree_prior": TREE_PRIOR, "split_prior": LocalCuts()}
"""Parts that None stands for, except the leaf, which depends on the estimator."""
PARTS = (*DEFAULTS, "leaf")
"""Parameters of an estimator that have parameters of their own."""


class WithParts(BaseEstimator):
    """Base class for parameters of a tree prior, a split prior and a leaf: ``tree_prior__beta``, ``leaf__alpha``."""

    _leaf_class: type[Leaf]
    """Class of the leaf that ``leaf=None`` stands for."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; with ``deep`` also those of given parts, as ``tree_prior__beta``.

        A part that is None has no parameters here, although `set_params` takes them.
        """
        out = super().get_params(deep=False)
        for name in PARTS if deep else ():
            part = out[name]
            if is_dataclass(part) and not isinstance(part, type):
                out |= {f"{name}__{field.name}": getattr(part, field.name) for field in fields(part) if field.init}
        return out

    def set_params(self, **params: Any) -> Self:
        """Set parameters, those of parts by ``part__name``.

        A part that is None starts from the default, and is then given: ``prior="auto"`` no longer chooses it.
        """
        inner: dict[str, dict[str, Any]] = {}
        for key in [key for key in params if key.partition("__")[0] in PARTS and "__" in key]:
            name, _, field = key.partition("__")
            inner.setdefault(name, {})[field] = params.pop(key)
        super().set_params(**params)
        for name, values in inner.items():
            part, is_default = getattr(self, name), ""
            if part is None:
                part, is_default = DEFAULTS[name] if name in DEFAULTS else self._leaf_class(), "by default "
            allowed = [field.name for field in fields(part) if field.init] if is_dataclass(part) else []
            unknown = sorted(set(values) - set(allowed))
            if unknown:
                what = f"which has {', '.join(allowed)}; give one of these, or" if allowed else "so"
                raise ValueError(
                    f"Invalid parameter {name}__{unknown[0]}: {name} is {is_default}{in_words(part)}, {what} give "
                    f"{name}= whole."
                )
            setattr(self, name, replace(part, **values))
        return self


def stated_tree_prior(given: Any, max_depth: Any) -> Any:
    """The tree prior with the depth that the estimator allows."""
    prior = TREE_PRIOR if given is None else given
    if max_depth is None:
        return prior
    depth = check_count("max_depth", max_depth, 0)
    kinds = BranchingProcess | ChipmanPrior | LeafPenalty
    check_type("tree_prior", prior, kinds, "BranchingProcess, ChipmanPrior or LeafPenalty")
    if prior.max_depth is not None:
        raise ValueError(f"max_depth={depth} and tree_prior={prior!r} both bound the depth; give it once.")
    return replace(prior, max_depth=depth)


def stated_split_prior(given: Any, min_samples_leaf: Any, n_rows: int) -> Any:
    """Returns the split prior with the smallest number of rows in a leaf that the estimator asks for."""
    split_prior = (LocalCuts() if n_rows <= MANY_ROWS else LocalCuts(max_cuts=MANY_CUTS)) if given is None else given
    least = _rows_of(min_samples_leaf, n_rows)
    if least == 1:
        return split_prior
    if not isinstance(split_prior, LocalCuts) or split_prior.min_leaf != 1:
        raise ValueError(
            f"min_samples_leaf={min_samples_leaf} and split_prior={split_prior!r} cannot be combined; give "
            "LocalCuts(min_leaf=...) or min_samples_leaf, not both, and no other split prior."
        )
    return replace(split_prior, min_leaf=least)


def thinned(split_prior: Any, part: float) -> Any:
    """Returns the split prior for a sample of the rows, with proportionally fewer rows in a leaf."""
    least = getattr(split_prior, "min_leaf", 1)
    return split_prior if least == 1 or part == 1.0 else split_prior.with_min_leaf(math.ceil(part * least))


def check_leaf(leaf: Any, power: Any, *, for_classes: bool) -> None:
    """Refuse a leaf of the other estimator, or one without leave-one-out density if that is to choose the power."""
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


def leaf_of_rows(leaf: Any, place: np.ndarray, n_rows: int) -> Any:
    """The leaf for the rows at ``place`` of the ``n_rows`` that it was given for: exposures are theirs."""
    if getattr(leaf, "exposure", None) is None:
        return leaf
    exposure = read_numbers("exposure", leaf.exposure)
    if exposure.shape != (n_rows,):
        raise ValueError(f"exposure has shape {exposure.shape}; y has {n_rows} rows: one each.")
    return replace(leaf, exposure=exposure[place])


def _rows_of(min_samples_leaf: Any, n_rows: int) -> int:
    """Rows of a leaf at least, given as their number or as a part of all."""
    if is_integer(min_samples_leaf):
        return check_count("min_samples_leaf", min_samples_leaf)
    part = as_number(min_samples_leaf)
    if part is None or not 0.0 < part < 1.0:
        raise ValueError(
            f"min_samples_leaf={in_words(min_samples_leaf)}; give an integer >= 1, or a part of the rows in (0, 1)."
        )
    return math.ceil(part * n_rows)
