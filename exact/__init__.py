"""The exact engine: sums over all trees by dynamic programming.

Posterior: solve, ExactPosterior, Intractable.
Comparison: compare, Comparison.
Progressive mixture: progressive_mixture, ProgressiveMixture, kullback_bound, KullbackBound.
Context trees: ContextTreeWeighting, context_tree_weighting, TreeSource.
Graph: build_graph, CellGraph.
"""

from .compare import Comparison, compare
from .context_weighting import ContextTreeWeighting, TreeSource, context_tree_weighting
from .graph import CellGraph, Intractable, build_graph
from .kullback import KullbackBound, kullback_bound
from .posterior import CellProbabilities, ExactPosterior, solve
from .progressive import ProgressiveMixture, progressive_mixture
