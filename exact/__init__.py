"""The exact engine: posteriors over all trees by dynamic programming, for problems that are small enough.

Posterior: solve, ExactPosterior, visited, VisitedPosterior, BestTrees, CellProbabilities, MeanAndVariance, TreesWithin,
Intractable.
Comparison: compare, Comparison.
Progressive mixture: progressive_mixture, ProgressiveMixture, data_dependent_mixture, DataDependentMixture; bounds
kl_bound, KLBound, kl_infimum, KLInfimum, vc_kl_bound, minimax_lower_bound, MinimaxBound.
Local rules: check_local_rule, LocalRuleReport, local_rule, ModelRule, local_rule_log_probability.
Context trees: context_tree_weighting, ContextTreeWeighting, TreeSource.
Streams: DesignCounts.
Graph: build_graph, CellGraph; with other weights: with_terms, by_slot.
Dyadic trees: minimise_risk, PenalisedTree; penalties SpatiallyAdaptive, SquareRoot, AdditivePenalty, SizePenalty,
RootFragments; dyadic_oracle, OracleInequality, dyadic_fragment_bound.
Neyman-Pearson: neyman_pearson_tree, NeymanPearsonTree, Guarantee; vc_tolerance, vc_failure, vc_failure_iid.
Pruning: Prunings, PruningFamily, dominates.
Global splitting prior: solve_global_splitting, count_global_splittings.
Sums over a graph: log_sum, best_log_weight, count_trees, best_by_size, hull_by_size, occurrences.
Learning theory: oracle_bound, vote_excess_bound, adaptive_rate, AdaptiveRate.
Trees that minimise a bound: forward_tree, ForwardTree, minimise_root_fragment, RootFragmentTree.
Scikit-learn estimators: PACBayesTreeClassifier, DyadicTreeClassifier.
"""

from typing import TYPE_CHECKING, Any

import pactree_mcmc.core.texts as _extras

from .compare import Comparison, compare
from .design_counts import DesignCounts
from .graph.build import build_graph
from .graph.cells import CellGraph
from .limits import Intractable
from .posterior import BestTrees, ExactPosterior, TreesWithin
from .recursion.inside_outside import by_slot, with_terms
from .rows import CellProbabilities
from .solving import solve
from .sums import MeanAndVariance, best_by_size, best_log_weight, count_trees, hull_by_size, log_sum, occurrences
from .systems.bound_minimisers import ForwardTree, RootFragmentTree, forward_tree, minimise_root_fragment
from .systems.context_trees import ContextTreeWeighting, TreeSource, context_tree_weighting
from .systems.dyadic_trees import (
    AdditivePenalty,
    OracleInequality,
    PenalisedTree,
    RootFragments,
    SizePenalty,
    SpatiallyAdaptive,
    SquareRoot,
    dyadic_fragment_bound,
    dyadic_oracle,
    minimise_risk,
    vc_failure,
    vc_failure_iid,
    vc_tolerance,
)
from .systems.neyman_pearson import Guarantee, NeymanPearsonTree, neyman_pearson_tree
from .systems.pac_bayes import AdaptiveRate, adaptive_rate, oracle_bound, vote_excess_bound
from .systems.progressive.global_splitting import count_global_splittings, solve_global_splitting
from .systems.progressive.kl_bounds import (
    KLBound,
    KLInfimum,
    MinimaxBound,
    kl_bound,
    kl_infimum,
    minimax_lower_bound,
    vc_kl_bound,
)
from .systems.progressive.local_rules import (
    LocalRuleReport,
    ModelRule,
    check_local_rule,
    local_rule,
    local_rule_log_probability,
)
from .systems.progressive.mixture import ProgressiveMixture, progressive_mixture
from .systems.pruning import PruningFamily, Prunings, dominates
from .visited import VisitedPosterior, visited

if TYPE_CHECKING:
    from pactree_mcmc.faces.data_dependent import DataDependentMixture, data_dependent_mixture

    from .estimators import DyadicTreeClassifier, PACBayesTreeClassifier

__all__ = [
    "AdaptiveRate",
    "AdditivePenalty",
    "BestTrees",
    "CellGraph",
    "CellProbabilities",
    "Comparison",
    "ContextTreeWeighting",
    "DataDependentMixture",
    "DesignCounts",
    "DyadicTreeClassifier",
    "ExactPosterior",
    "ForwardTree",
    "Guarantee",
    "Intractable",
    "KLBound",
    "KLInfimum",
    "LocalRuleReport",
    "MeanAndVariance",
    "MinimaxBound",
    "ModelRule",
    "NeymanPearsonTree",
    "OracleInequality",
    "PACBayesTreeClassifier",
    "PenalisedTree",
    "ProgressiveMixture",
    "PruningFamily",
    "Prunings",
    "RootFragmentTree",
    "RootFragments",
    "SizePenalty",
    "SpatiallyAdaptive",
    "SquareRoot",
    "TreeSource",
    "TreesWithin",
    "VisitedPosterior",
    "adaptive_rate",
    "best_by_size",
    "best_log_weight",
    "build_graph",
    "by_slot",
    "check_local_rule",
    "compare",
    "context_tree_weighting",
    "count_global_splittings",
    "count_trees",
    "data_dependent_mixture",
    "dominates",
    "dyadic_fragment_bound",
    "dyadic_oracle",
    "forward_tree",
    "hull_by_size",
    "kl_bound",
    "kl_infimum",
    "local_rule",
    "local_rule_log_probability",
    "log_sum",
    "minimax_lower_bound",
    "minimise_risk",
    "minimise_root_fragment",
    "neyman_pearson_tree",
    "occurrences",
    "oracle_bound",
    "progressive_mixture",
    "solve",
    "solve_global_splitting",
    "vc_failure",
    "vc_failure_iid",
    "vc_kl_bound",
    "vc_tolerance",
    "visited",
    "vote_excess_bound",
    "with_terms",
]

_LATE = {"PACBayesTreeClassifier": "exact.estimators", "DyadicTreeClassifier": "exact.estimators"}
_LATE |= dict.fromkeys(("data_dependent_mixture", "DataDependentMixture"), "pactree_mcmc.faces.data_dependent")
"""Modules that are imported on first use. The estimators need scikit-learn, which takes a second to import; the last
one uses the sampler as well as this package."""
_PACKAGES = {name: "sklearn" for name, module in _LATE.items() if module.startswith("exact.estimators")}
"""Package that each public name needs, by name, for names that need an optional package."""


if not TYPE_CHECKING:  # or a misspelt name would be Any to type checkers

    def __getattr__(name: str) -> Any:
        if name not in _LATE:
            raise AttributeError(f"module 'exact' has no attribute {name!r}")
        from importlib import import_module

        if name in _PACKAGES:
            _extras.require_package(_PACKAGES[name], f"exact.{name}")
        return getattr(import_module(_LATE[name]), name)
