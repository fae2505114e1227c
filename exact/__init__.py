"""The exact engine: sums over all trees by dynamic programming.

Posterior: solve, ExactPosterior, Intractable.
Graph: build_graph, CellGraph.
"""

from .graph import CellGraph, Intractable, build_graph
from .posterior import CellProbabilities, ExactPosterior, solve
