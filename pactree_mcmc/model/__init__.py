"""Models: data, tree prior, split prior, leaf model.

A *unit* is a set of merged rows, and a *code* the index of a value among the sorted values, bins or categories of its
feature. A *coordinate* is one ordering of a feature: a feature with missing values has two, called *twins*, one with
the missing values below and one with them above all others. *E* are the rows that determine leaf parameters, *S* the
others. R is the prior probability of a split among those of its cell. A *joint* node is part of the split of its
parent.
"""

from .leaf.base import Leaf
from .leaf.classes import DirichletMultinomial, FrozenLaplace, PacBayesLoss
from .leaf.counts import PoissonGamma
from .leaf.custom import CustomLeaf
from .leaf.normal import NormalInverseGamma, NormalKnownVariance, NormalLinear, NormalSharedVariance
from .leaf.positive import ExponentialGamma, PiecewiseExponential, WeibullGamma
from .model import Lowered, TreeModel
from .split_prior.base import Cut, SplitPrior
from .split_prior.custom_splits import CustomSplits
from .split_prior.cuts import DyadicCuts, GridCuts, LocalCuts
from .split_prior.fixed_tree import FixedTree
from .tree_prior import BranchingProcess, ChipmanPrior, LeafPenalty
