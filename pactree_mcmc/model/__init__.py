"""Models: data, tree prior, split prior, leaf model."""

from .leaf.base import Leaf
from .leaf.classes import DirichletMultinomial, FrozenLaplace, PacBayesLoss
from .leaf.counts import PoissonGamma
from .leaf.custom import CustomLeaf
from .leaf.normal import NormalInverseGamma, NormalKnownVariance, NormalSharedVariance
from .leaf.normal_linear import NormalLinear
from .leaf.positive import ExponentialGamma, WeibullGamma
from .model import Lowered, TreeModel
from .split_prior.base import SplitPrior
from .split_prior.custom_splits import CustomSplits
from .split_prior.cuts import DyadicCuts, GridCuts, LocalCuts
from .split_prior.fixed_tree import FixedTree
from .split_prior.weights import Cut
from .tree_prior import BranchingProcess, ChipmanPrior, LeafPenalty
