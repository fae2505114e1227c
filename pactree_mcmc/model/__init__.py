"""Models: data, tree prior, split prior, leaf model."""

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
from .model import Lowered, TreeModel
from .split_prior.base import SplitPrior
from .split_prior.custom_splits import CustomSplits
from .split_prior.dirichlet_weights import DirichletWeights
from .split_prior.dyadic_cuts import DyadicCuts
from .split_prior.fixed_tree import FixedTree
from .split_prior.grid_cuts import GridCuts
from .split_prior.local_cuts import LocalCuts
from .split_prior.weights import Cut
from .tree_prior import BranchingProcess, ChipmanPrior, LeafPenalty
