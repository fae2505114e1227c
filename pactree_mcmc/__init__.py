"""Posteriors over decision trees that can be trusted.

Models: TreeModel, simulate.
Tree priors: BranchingProcess, ChipmanPrior, LeafPenalty.
Questions: LocalCuts, GridCuts, DyadicCuts, FixedTree.
Fixed designs: kd_tree, dyadic_tree, context_tree, contexts, Contexts.
Leaves: DirichletMultinomial, FrozenLaplace, NormalInverseGamma, NormalKnownVariance, NormalSharedVariance,
PoissonGamma, PacBayesLoss.
Trees: Tree, check_tree, typical_tree.
Sampling: sample, resume, SampledPosterior, ConvergenceWarning.
Files: load, and the method save of posteriors and models.
Certificates: certificates, a module of risk bounds.
Progressive mixture: progressive_mixture, ProgressiveSample.
Scikit-learn estimators: BayesianTreeClassifier, BayesianTreeRegressor.
"""

from importlib import import_module
from typing import Any

from .convergence import ConvergenceWarning
from .designs import Contexts, context_tree, contexts, dyadic_tree, kd_tree
from .files import load
from .mcmc import resume, sample
from .model import (
    BranchingProcess,
    ChipmanPrior,
    DirichletMultinomial,
    DyadicCuts,
    FixedTree,
    FrozenLaplace,
    GridCuts,
    LeafPenalty,
    LocalCuts,
    NormalInverseGamma,
    NormalKnownVariance,
    NormalSharedVariance,
    PacBayesLoss,
    PoissonGamma,
    TreeModel,
)
from .posterior import Posterior, SampledPosterior
from .progressive import ProgressiveSample, progressive_mixture
from .simulation import simulate
from .trees import Tree, check_tree
from .typical import typical_tree

_LATE = {"BayesianTreeClassifier": "estimators", "BayesianTreeRegressor": "estimators", "certificates": ""}
"""Names whose modules take long to import, scikit-learn most of all: they are loaded when asked for."""


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module 'pactree_mcmc' has no attribute {name!r}")
    module = import_module(f".{_LATE[name] or name}", __name__)
    return getattr(module, name) if _LATE[name] else module


def __dir__() -> list[str]:
    return [*globals(), *_LATE]
