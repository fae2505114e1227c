"""The exact engine: sums over all trees by dynamic programming.

Posterior: solve, ExactPosterior, Intractable.
Comparison: compare, Comparison.
Streams: DesignCounts.
Graph: build_graph, CellGraph.
"""

from .compare import Comparison, compare
from .counts import DesignCounts
from .graph import CellGraph, Intractable, build_graph
from .posterior import CellProbabilities, ExactPosterior, solve
