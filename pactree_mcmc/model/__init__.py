"""The four parts of a model: data, tree prior, question prior, leaf score."""

from .compiled import Lowered, pack_model
from .leaf.classes import DirichletMultinomial, FrozenLaplace, Leaf, PacBayesLoss
from .leaf.numbers import NormalInverseGamma, NormalKnownVariance, PoissonGamma
from .leaf.shared_variance import NormalSharedVariance
from .model import TreeModel
from .split_prior.cuts import DyadicCuts, GridCuts, LocalCuts, Questions
from .split_prior.fixed_tree import FixedTree
from .tree_prior.priors import BranchingProcess, ChipmanPrior, LeafPenalty
