"""The exact engine: posteriors over all trees by dynamic programming, for problems that are small enough.

Posterior: solve, ExactPosterior, visited, Intractable.
Comparison: compare.
Progressive mixture: progressive_mixture, data_dependent_mixture; bounds kl_bound, kl_infimum, vc_kl_bound,
minimax_lower_bound.
Local rules: check_local_rule, local_rule, local_rule_log_probability.
Context trees: context_tree_weighting, ContextTreeWeighting.
Streams: DesignCounts.
Graph: build_graph, CellGraph (with_terms: other weights).
Dyadic trees: minimise_risk; penalties SpatiallyAdaptive, SquareRoot, AdditivePenalty, SizePenalty, RootFragments;
dyadic_oracle, dyadic_fragment_bound.
Neyman-Pearson: neyman_pearson_tree; vc_tolerance, vc_failure, vc_failure_iid.
Pruning: Prunings, dominates.
Global splitting prior: solve_global_splitting, count_global_splittings.
Sums over a graph: log_sum, best_log_weight, count_trees, best_by_size, hull_by_size, occurrences.
Learning theory: oracle_bound, vote_excess_bound, adaptive_rate.
Trees that minimise a bound: forward_tree, minimise_root_fragment.
Scikit-learn estimators: PACBayesTreeClassifier, DyadicTreeClassifier.
"""

from typing import TYPE_CHECKING, Any

import pactree_mcmc.core.texts as _extras

from .compare import compare
from .design_counts import DesignCounts
from .graph.build import build_graph
from .graph.cells import CellGraph
from .limits import Intractable
from .posterior import ExactPosterior
from .solving import solve, visited
from .sums import best_by_size, best_log_weight, count_trees, hull_by_size, log_sum, occurrences
from .systems.bound_minimisers import forward_tree, minimise_root_fragment
from .systems.context_trees import ContextTreeWeighting, context_tree_weighting
from .systems.dyadic_trees import (
    AdditivePenalty,
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
from .systems.neyman_pearson import neyman_pearson_tree
from .systems.pac_bayes import adaptive_rate, oracle_bound, vote_excess_bound
from .systems.progressive.global_splitting import count_global_splittings, solve_global_splitting
from .systems.progressive.kl_bounds import kl_bound, kl_infimum, minimax_lower_bound, vc_kl_bound
from .systems.progressive.local_rules import check_local_rule, local_rule, local_rule_log_probability
from .systems.progressive.mixture import progressive_mixture
from .systems.pruning import Prunings, dominates

if TYPE_CHECKING:
    from pactree_mcmc.faces.data_dependent import data_dependent_mixture

    from .estimators import DyadicTreeClassifier, PACBayesTreeClassifier

__all__ = [
    "AdditivePenalty", "CellGraph", "ContextTreeWeighting", "DesignCounts", "DyadicTreeClassifier", "ExactPosterior",
    "Intractable", "PACBayesTreeClassifier", "Prunings", "RootFragments", "SizePenalty", "SpatiallyAdaptive",
    "SquareRoot", "adaptive_rate", "best_by_size", "best_log_weight", "build_graph", "check_local_rule", "compare",
    "context_tree_weighting", "count_global_splittings", "count_trees", "data_dependent_mixture", "dominates",
    "dyadic_fragment_bound", "dyadic_oracle", "forward_tree", "hull_by_size", "kl_bound", "kl_infimum", "local_rule",
    "local_rule_log_probability", "log_sum", "minimax_lower_bound", "minimise_risk", "minimise_root_fragment",
    "neyman_pearson_tree", "occurrences", "oracle_bound", "progressive_mixture", "solve", "solve_global_splitting",
    "vc_failure", "vc_failure_iid", "vc_kl_bound", "vc_tolerance", "visited", "vote_excess_bound",
]  # fmt: skip

_LATE = {"PACBayesTreeClassifier": "exact.estimators", "DyadicTreeClassifier": "exact.estimators"}
_LATE |= {"data_dependent_mixture": "pactree_mcmc.faces.data_dependent"}
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
