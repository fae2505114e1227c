"""Which tree priors, splits and leaves both engines know, and what of them may be changed by a subclass.

Each part exists in two forms: plainly, as methods of its class, and compiled, selected by the code of its class. For a
part that has only the plain form, or a plain form that differs from the compiled one, compiled code would silently
compute something else.
"""

from __future__ import annotations

from typing import Any

from .leaf.base import Leaf
from .leaf.beta_binomial import BetaBinomial
from .leaf.custom import CustomLeaf
from .leaf.dirichlet import DirichletMultinomial
from .leaf.exponential import ExponentialGamma
from .leaf.frozen_laplace import FrozenLaplace
from .leaf.gamma_rate import GammaGamma
from .leaf.known_variance import NormalKnownVariance
from .leaf.multivariate_normal import MultivariateNormal
from .leaf.negative_binomial import NegativeBinomialBeta
from .leaf.normal import NormalInverseGamma
from .leaf.normal_linear import NormalLinear
from .leaf.pac_bayes_loss import PacBayesLoss
from .leaf.poisson import PoissonGamma
from .leaf.shared_variance import NormalSharedVariance
from .leaf.weibull import WeibullGamma
from .split_prior.base import SplitPrior
from .split_prior.custom_splits import CustomSplits
from .split_prior.dyadic_cuts import DyadicCuts
from .split_prior.fixed_tree import FixedTree
from .split_prior.grid_cuts import GridCuts
from .split_prior.local_cuts import LocalCuts
from .tree_prior.branching_process import BranchingProcess
from .tree_prior.chipman import ChipmanPrior
from .tree_prior.leaf_penalty import LeafPenalty

TREE_PRIORS = (BranchingProcess, ChipmanPrior, LeafPenalty)
SPLIT_PRIORS = (LocalCuts, GridCuts, DyadicCuts, FixedTree, CustomSplits)
LEAVES = (
    *(DirichletMultinomial, FrozenLaplace, PacBayesLoss),
    *(NormalInverseGamma, NormalKnownVariance, NormalSharedVariance, PoissonGamma),
    *(ExponentialGamma, WeibullGamma, GammaGamma, NegativeBinomialBeta, BetaBinomial, MultivariateNormal, NormalLinear),
    CustomLeaf,
)
FREE = frozenset({"resolve", "value", "predictive", "log_density", "log_density_left_out", "draw"})
"""Methods of a leaf that have no compiled form."""


def check_known(tree_prior: Any, split_prior: SplitPrior, leaf: Leaf | None) -> None:
    """Refuse, with a TypeError, parts of a model that compiled code would mistake for something else."""
    _check(tree_prior, TREE_PRIORS, "tree_prior")
    _check(split_prior, SPLIT_PRIORS, "split_prior")
    if leaf is not None:
        _check(leaf, LEAVES, "leaf")


def _check(part: Any, known: tuple[type, ...], name: str) -> None:
    lineage = type(part).__mro__
    base = next((cls for cls in lineage if cls in known), None)
    if base is None:
        *most, last = (cls.__name__ for cls in known)
        raise TypeError(
            f"{name} is a {type(part).__name__}, which has no compiled form; give {', '.join(most)} or {last}."
        )
    fields = getattr(base, "__dataclass_fields__", {})
    for cls in lineage[: lineage.index(base)]:
        for changed in vars(cls):
            if (
                hasattr(base, changed)
                and not changed.startswith("__")
                and changed not in FREE
                and changed not in fields
            ):
                raise TypeError(
                    f"{name} is a {type(part).__name__}, which changes {changed} of {base.__name__}; compiled code "
                    f"would go on with that of {base.__name__}, so the two would disagree: give a {base.__name__}."
                )
