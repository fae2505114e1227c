"""The four parts of a model: data, tree prior, question prior, leaf score."""

from ._leaves import (
    DirichletMultinomial,
    FrozenLaplace,
    Leaf,
    NormalInverseGamma,
    NormalKnownVariance,
    PacBayesLoss,
    PoissonGamma,
)
from ._lowered import Lowered, pack_model
from ._model import TreeModel
from ._questions import DyadicCuts, FixedTree, GridCuts, LocalCuts, Questions
from ._tree_priors import BranchingProcess, ChipmanPrior, LeafPenalty
