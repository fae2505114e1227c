"""Posteriors over decision trees, sampled by MCMC or, together with the package `exact`, summed exactly.

Models: TreeModel, simulate, compare_models.
Tree priors: BranchingProcess, ChipmanPrior, LeafPenalty.
Split priors: LocalCuts, GridCuts, DyadicCuts, FixedTree, CustomSplits (with Cut, the argument of its weight).
Fixed designs: kd_tree, dyadic_tree, context_tree, contexts, Contexts.
Leaves: DirichletMultinomial, FrozenLaplace, NormalInverseGamma, NormalKnownVariance, NormalSharedVariance,
PoissonGamma, PacBayesLoss, ExponentialGamma, WeibullGamma, PiecewiseExponential, NormalLinear, CustomLeaf.
Trees: Tree, check_tree.
Sampling: sample, resume, load, posterior_from_trees, warm_up, Posterior, SampledPosterior, ConvergenceWarning;
progressive_mixture.
Your own moves: Move, and the module moves. Checks of your own moves, leaves and split priors: the module testing.
Risk bounds: the module certificates. Pictures: the module plots.
Scikit-learn estimators: BayesianTreeClassifier, BayesianTreeRegressor.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

import pactree_mcmc.core.texts as _extras

from .loading.load import load
from .mcmc.moves.base import Move
from .mcmc.resuming import resume
from .mcmc.sampling import sample
from .mcmc.simulation import simulate
from .model import (
    BranchingProcess,
    ChipmanPrior,
    CustomLeaf,
    CustomSplits,
    Cut,
    DirichletMultinomial,
    DyadicCuts,
    ExponentialGamma,
    FixedTree,
    FrozenLaplace,
    GridCuts,
    LeafPenalty,
    LocalCuts,
    NormalInverseGamma,
    NormalKnownVariance,
    NormalLinear,
    NormalSharedVariance,
    PacBayesLoss,
    PiecewiseExponential,
    PoissonGamma,
    TreeModel,
    WeibullGamma,
)
from .model.split_prior.fixed_tree import Contexts, context_tree, contexts, dyadic_tree, kd_tree
from .posterior.ess import ConvergenceWarning
from .posterior.posterior import Posterior
from .posterior.sampled import SampledPosterior, posterior_from_trees
from .smc import progressive_mixture
from .tree.tree import Tree, check_tree

if TYPE_CHECKING:
    from . import certificates, moves, testing
    from .faces import plots
    from .faces.model_choice import compare_models
    from .faces.sklearn.estimators import BayesianTreeClassifier, BayesianTreeRegressor
    from .faces.warm_up import warm_up

__version__ = "0.3.0.dev0"

__all__ = [
    "BayesianTreeClassifier", "BayesianTreeRegressor", "BranchingProcess", "ChipmanPrior", "Contexts",
    "ConvergenceWarning", "CustomLeaf", "CustomSplits", "Cut", "DirichletMultinomial", "DyadicCuts", "ExponentialGamma",
    "FixedTree", "FrozenLaplace", "GridCuts", "LeafPenalty", "LocalCuts", "Move", "NormalInverseGamma",
    "NormalKnownVariance", "NormalLinear", "NormalSharedVariance", "PacBayesLoss", "PiecewiseExponential",
    "PoissonGamma", "Posterior", "SampledPosterior", "Tree", "TreeModel", "WeibullGamma", "certificates", "check_tree",
    "compare_models", "context_tree", "contexts", "dyadic_tree", "kd_tree", "load", "moves", "plots",
    "posterior_from_trees", "progressive_mixture", "resume", "sample", "simulate", "testing", "warm_up",
]  # fmt: skip

_LATE_MODULES = {"certificates": "certificates", "moves": "moves", "plots": "faces.plots", "testing": "testing"}
_LATE = {
    "BayesianTreeClassifier": "faces.sklearn.estimators",
    "BayesianTreeRegressor": "faces.sklearn.estimators",
    "compare_models": "faces.model_choice",
    "warm_up": "faces.warm_up",
}
"""Modules that take long to import, scikit-learn most of all, by the name that loads them when it is first used."""
_PACKAGES = {"plots": "matplotlib", "BayesianTreeClassifier": "sklearn", "BayesianTreeRegressor": "sklearn"}
"""Packages of an extra that a public name needs."""


if not TYPE_CHECKING:  # or a misspelt name would be Any to type checkers

    def __getattr__(name: str) -> Any:
        if name not in _LATE_MODULES and name not in _LATE:
            raise AttributeError(f"module 'pactree_mcmc' has no attribute {name!r}")
        if name in _PACKAGES:
            _extras.require_package(_PACKAGES[name], f"pt.{name}")
        if name in _LATE_MODULES:
            return import_module(f".{_LATE_MODULES[name]}", __name__)
        return getattr(import_module(f".{_LATE[name]}", __name__), name)
