"""The four parts of a model: data, tree prior, split prior, leaf score."""

from .compiled import Lowered, pack_model
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
from .model import TreeModel
from .split_prior.base import SplitPrior
from .split_prior.custom_splits import CustomSplits
from .split_prior.dirichlet_weights import DirichletWeights
from .split_prior.dyadic_cuts import DyadicCuts
from .split_prior.fixed_tree import FixedTree
from .split_prior.grid_cuts import GridCuts
from .split_prior.local_cuts import LocalCuts
from .split_prior.weights import Cut
from .tree_prior.branching_process import BranchingProcess
from .tree_prior.chipman import ChipmanPrior
from .tree_prior.leaf_penalty import LeafPenalty
