"""The tree priors, split priors and leaf models that both engines have, and what of them a subclass may change.

Each part exists in two forms: plainly, as methods of its class, and compiled, selected by the code of its class. If a
part has only the plain form, or a plain form that differs from the compiled one, compiled code computes something else.
"""

from __future__ import annotations

from typing import Any

from .leaf.base import Leaf
from .leaf.beta_binomial import BetaBinomial
from .leaf.classes import DirichletMultinomial, FrozenLaplace, PacBayesLoss
from .leaf.custom import CustomLeaf
from .leaf.gamma_rate import GammaGamma
from .leaf.independent_normals import IndependentNormals
from .leaf.multivariate_normal import MultivariateNormal
from .leaf.negative_binomial import NegativeBinomialBeta
from .leaf.normal import NormalInverseGamma, NormalKnownVariance, NormalSharedVariance
from .leaf.normal_linear import NormalLinear
from .leaf.ordered_classes import OrderedClasses
from .leaf.poisson import PoissonGamma
from .leaf.survival import ExponentialGamma, WeibullGamma
from .leaf_count_prior import CatalanExponential, LeafCountPrior
from .split_prior.base import SplitPrior
from .split_prior.custom_splits import CustomSplits
from .split_prior.dyadic_cuts import DyadicCuts
from .split_prior.fixed_tree import FixedTree
from .split_prior.grid_cuts import GridCuts
from .split_prior.local_cuts import LocalCuts
from .tree_prior import BranchingProcess, ChipmanPrior, LeafPenalty

TREE_PRIORS = (BranchingProcess, ChipmanPrior, LeafPenalty, LeafCountPrior, CatalanExponential)
SPLIT_PRIORS = (LocalCuts, GridCuts, DyadicCuts, FixedTree, CustomSplits)
LEAVES = (
    *(DirichletMultinomial, FrozenLaplace, PacBayesLoss),
    *(NormalInverseGamma, NormalKnownVariance, NormalSharedVariance, PoissonGamma),
    *(ExponentialGamma, WeibullGamma, GammaGamma, NegativeBinomialBeta, BetaBinomial, MultivariateNormal, NormalLinear),
    *(IndependentNormals, OrderedClasses),
    CustomLeaf,
)
FREE = frozenset(
    {"resolve", "value", "predictive", "log_density", "log_density_left_out", "draw", "draw_parameters", "draw_given"}
)
"""Methods of a leaf that have no compiled form."""


def check_known(tree_prior: Any, split_prior: SplitPrior, leaf: Leaf | None) -> None:
    """Refuse, with a TypeError, parts of a model that compiled code would mistake for something else."""
    _check(tree_prior, TREE_PRIORS, "tree_prior")
    _check(split_prior, SPLIT_PRIORS, "split_prior")
    if leaf is not None:
        _check(leaf, LEAVES, "leaf")


def _check(part: Any, classes: tuple[type, ...], name: str) -> None:
    lineage = type(part).__mro__
    base = next((cls for cls in lineage if cls in classes), None)
    if base is None:
        *most, last = (cls.__name__ for cls in classes)
        raise TypeError(
            f"{name} is a {type(part).__name__}, which has no compiled form; give {', '.join(most)} or {last}."
        )
    free = FREE | set(getattr(base, "__dataclass_fields__", {}))
    for cls in lineage[: lineage.index(base)]:
        for changed in vars(cls):
            if hasattr(base, changed) and not changed.startswith("__") and changed not in free:
                raise TypeError(
                    f"{name} is a {type(part).__name__}, which changes {changed} of {base.__name__}; compiled code "
                    f"would go on with that of {base.__name__}, so the two would disagree: give a {base.__name__}."
                )
