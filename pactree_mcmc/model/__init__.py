"""The four parts of a model: data, tree prior, question prior, leaf score."""

from ._fixed_tree import FixedTree
from ._leaves import DirichletMultinomial, FrozenLaplace, Leaf, PacBayesLoss
from ._lowered import Lowered, pack_model
from ._model import TreeModel
from ._number_leaves import NormalInverseGamma, NormalKnownVariance, PoissonGamma
from ._questions import DyadicCuts, GridCuts, LocalCuts, Questions
from ._shared_variance import NormalSharedVariance
from ._tree_priors import BranchingProcess, ChipmanPrior, LeafPenalty
