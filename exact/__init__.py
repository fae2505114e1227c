"""The exact engine: sums over all trees by dynamic programming.

Posterior: solve, ExactPosterior, visited, VisitedPosterior, BestTrees, CellProbabilities, MeanAndVariance, TreesWithin,
Intractable.
Comparison: compare, Comparison.
For other programs: to_timbertrek.
Progressive mixture: progressive_mixture, ProgressiveMixture, kl_bound, KLBound.
Context trees: context_tree_weighting, ContextTreeWeighting, TreeSource.
Streams: DesignCounts.
Graph: build_graph, CellGraph; with other terms: with_terms, by_slot.
Dyadic trees: minimise_risk, PenalisedTree; penalties SpatiallyAdaptive, SquareRoot, AdditivePenalty, SizePenalty.
Neyman-Pearson: neyman_pearson_tree, NeymanPearsonTree, Guarantee.
Pruning: Prunings, PruningFamily.
Global splitting prior: solve_global_splitting, count_global_splittings.
Sums over a graph: log_sum, best_log_weight, count_trees, best_by_size, hull_by_size, occurrences.
Learning theory: oracle_bound; trees that minimise a bound: forward_tree, ForwardTree, minimise_root_fragment,
RootFragmentTree.
Scikit-learn estimators: PACBayesTreeClassifier, PACBayesTheoryClassifier, DyadicTreeClassifier,
NeymanPearsonTreeClassifier, RootFragmentClassifier, ProgressiveMixtureClassifier.
"""

from typing import TYPE_CHECKING, Any

from .answers import MeanAndVariance, best_by_size, best_log_weight, count_trees, hull_by_size, log_sum, occurrences
from .compare import Comparison, compare
from .design_counts import DesignCounts
from .exploring import TreesWithin
from .graph.cells import CellGraph, Intractable, build_graph
from .posterior import BestTrees, CellProbabilities, ExactPosterior
from .recursion.terms import by_slot, with_terms
from .solving import solve
from .systems.blanchard.global_splitting import count_global_splittings, solve_global_splitting
from .systems.blanchard.kullback import KLBound, kl_bound
from .systems.blanchard.progressive import ProgressiveMixture, progressive_mixture
from .systems.context_trees.weighting import ContextTreeWeighting, TreeSource, context_tree_weighting
from .systems.mansour_mcallester.root_fragments import RootFragmentTree, minimise_root_fragment
from .systems.pac_bayes.subtrees import oracle_bound
from .systems.scott.neyman_pearson import Guarantee, NeymanPearsonTree, neyman_pearson_tree
from .systems.scott.penalties import AdditivePenalty, SizePenalty, SpatiallyAdaptive, SquareRoot
from .systems.scott.pruning import PruningFamily, Prunings
from .systems.scott.risk_minimisation import PenalisedTree, minimise_risk
from .systems.shah.forward import ForwardTree, forward_tree
from .timbertrek import to_timbertrek
from .visited import VisitedPosterior, visited

if TYPE_CHECKING:
    from .estimators.dyadic_trees import DyadicTreeClassifier, NeymanPearsonTreeClassifier
    from .estimators.progressive import ProgressiveMixtureClassifier
    from .estimators.root_fragments import RootFragmentClassifier
    from .estimators.voting_trees import PACBayesTheoryClassifier, PACBayesTreeClassifier

__all__ = [
    "AdditivePenalty",
    "BestTrees",
    "CellGraph",
    "CellProbabilities",
    "Comparison",
    "ContextTreeWeighting",
    "DesignCounts",
    "DyadicTreeClassifier",
    "ExactPosterior",
    "ForwardTree",
    "Guarantee",
    "Intractable",
    "KLBound",
    "MeanAndVariance",
    "NeymanPearsonTree",
    "NeymanPearsonTreeClassifier",
    "PACBayesTheoryClassifier",
    "PACBayesTreeClassifier",
    "PenalisedTree",
    "ProgressiveMixture",
    "ProgressiveMixtureClassifier",
    "PruningFamily",
    "Prunings",
    "RootFragmentClassifier",
    "RootFragmentTree",
    "SizePenalty",
    "SpatiallyAdaptive",
    "SquareRoot",
    "TreeSource",
    "TreesWithin",
    "VisitedPosterior",
    "best_by_size",
    "best_log_weight",
    "build_graph",
    "by_slot",
    "compare",
    "context_tree_weighting",
    "count_global_splittings",
    "count_trees",
    "forward_tree",
    "hull_by_size",
    "kl_bound",
    "log_sum",
    "minimise_risk",
    "minimise_root_fragment",
    "neyman_pearson_tree",
    "occurrences",
    "oracle_bound",
    "progressive_mixture",
    "solve",
    "solve_global_splitting",
    "to_timbertrek",
    "visited",
    "with_terms",
]

_ESTIMATORS = dict.fromkeys(("PACBayesTreeClassifier", "PACBayesTheoryClassifier"), "voting_trees")
_ESTIMATORS |= dict.fromkeys(("DyadicTreeClassifier", "NeymanPearsonTreeClassifier"), "dyadic_trees")
_ESTIMATORS |= {"RootFragmentClassifier": "root_fragments", "ProgressiveMixtureClassifier": "progressive"}
"""Their modules need scikit-learn, which takes a second to import: they are loaded when asked for."""


if not TYPE_CHECKING:  # or a misspelt name would be Any to type checkers

    def __getattr__(name: str) -> Any:
        if name not in _ESTIMATORS:
            raise AttributeError(f"module 'exact' has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(f".estimators.{_ESTIMATORS[name]}", __name__), name)


def __dir__() -> list[str]:
    return [*globals(), *_ESTIMATORS]
