"""Functions and methods that are called, and the kinds of their arguments.

The kind of an argument, a key of `world.VALID`, follows from its name. Exceptions are given beside the function. An
argument with a default may be left out, and so may one whose kind begins with "?".
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import exact
import pactree_mcmc as pt
from pactree_mcmc import certificates as c

from . import answers as a
from .world import OWN_LEAF, OWN_SPLITS

SAME_NAME = (
    "bounds contexts coordinate criterion engine executor fitted graph kernel leaf loss method missing model "
    "mus nominal over parents penalty posterior prunings ranges rule split_prior symbols truth"
)
NAMES_OF_KIND = {
    "X": "X X_new design probability",
    "bits": "split_bits",
    "by cell": "by_cell of_leaf of_split tree_of_draw",
    "cells": "max_cells",
    "count": "cells n_cells chains draws max_features max_leaves max_trees min_leaf min_rows most n n0 n1 n_bins"
    " n_classes n_draws n_features n_leaves n_nodes n_rows n_splits n_symbols n_thresholds n_trees n_walks"
    " orders particles proposals thin verbose y_columns",
    "count0": "errors grow individual max_rounds n_frozen node patience t tune vc_dimension",
    "count?": "block levels max_cuts max_depth n_estimators n_jobs steps",
    "delta": "coverage delta delta0 delta1",
    "depth": "depth lengths",
    "flag": "by_depth conditioned cyclic global_splitting log_likelihood posterior_predictive replaces"
    " resplit scans shared shuffle together trivial whole",
    "labels": "y",
    "log delta": "log_delta",
    "mask": "estimation",
    "nodes": "left right",
    "number?": "log_prior lower m0",
    "p weights": "feature_weights",
    "paid": "splits splitting",
    "positive": "dispersion eps0 eps1 every pseudocount smoothness strength work",
    "positive?": "a0 b0 dimension k0 k1 nu0 packing rate shape sigma2",
    "price": "complexity holder kl",
    "price?": "empty_cost log_rule log_split log_stop",
    "rng": "rng random_state",
    "sampled": "post run sampled",
    "share": "deviation epsilon excess high low mass min_probability min_support p prior0 risk tandem",
    "size penalty": "first second",
    "sizes": "params",
    "target": "path",
    "text": "command name title",
    "tree": "structure tree",
    "tree prior": "tree_prior",
    "weights": "exposure sample_weight",
    "x columns": "x_columns",
}
KINDS = {name: name for name in SAME_NAME.split()}
KINDS |= {name: kind for kind, names in NAMES_OF_KIND.items() for name in names.split()}
"""Kind of an argument by its name. Other arguments that have a default keep it."""


class Target(NamedTuple):
    """Function or method, the kinds of its arguments, a check of its answer, and the weight with which it is chosen."""

    name: str
    call: Callable[..., Any]
    kinds: dict[str, str]
    valid: Callable[[Any, dict[str, Any]], None]
    """Function that raises an AssertionError if the answer is not what the documentation promises."""
    weight: float


def target(
    call: Callable[..., Any],
    valid: Callable | None = None,
    weight: float = 1.0,
    /,
    name_: str = "",
    like_: Callable[..., Any] | None = None,
    **kinds: str,
) -> Target:
    """Return a target of ``call``, whose answers are checked by ``valid``.

    ``name_`` is its name (default: that of the function), ``like_`` a function whose arguments the call takes as well,
    and ``kinds`` are exceptions; "-" leaves an argument out.
    """
    parameters = dict(inspect.signature(call).parameters)
    if like_ is not None:
        parameters |= inspect.signature(like_).parameters
    found = {}
    for name, parameter in parameters.items():
        is_optional = parameter.default is not parameter.empty
        if name in kinds:
            found[name] = kinds[name]
        elif name in KINDS:
            found[name] = "?" * is_optional + KINDS[name]
        elif not is_optional and parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            raise ValueError(
                f"{name_ or call.__qualname__}: the argument {name!r} has no kind; add it to NAMES_OF_KIND"
            )
    found = {name: kind for name, kind in (found | kinds).items() if kind != "-"}
    return Target(name_ or call.__qualname__, call, found, valid or a.anything, weight)


def methods(cls: type, self: str, /, **asked: Any) -> list[Target]:
    """Return targets for methods of a class; ``self`` is the kind of the object."""
    found = []
    for name, valid in asked.items():
        valid, kinds = valid if isinstance(valid, tuple) else (valid, {})
        found.append(target(_by_name(getattr(cls, name)), valid, name_=f"{cls.__name__}.{name}", self=self, **kinds))
    return found


def _by_name(method: Callable) -> Callable[..., Any]:
    """Return a call of the method of this name of its first argument, whichever subclass that is of."""

    @functools.wraps(method)
    def call(self: Any, **arguments: Any) -> Any:
        return getattr(self, method.__name__)(**arguments)

    return call


def fitted(cls: type, valid: Callable | None = None, then: str | None = None, **kinds: str) -> Target:
    """Return a target that fits an estimator, and then calls its method ``then`` on the rows, or on other rows."""

    def call(X: Any, y: Any, sample_weight: Any = None, rows: Any = None, **arguments: Any) -> Any:
        asked = {name: arguments.pop(name) for name in ("q", "coverage") if name in arguments}
        estimator = cls(**arguments)
        made = estimator.fit(X, y) if sample_weight is None else estimator.fit(X, y, sample_weight)
        if then is None:
            return made
        return getattr(made, then)(*([] if then == "guarantee" else [X if rows is None else rows]), **asked)

    name = cls.__name__ + ("" if then in (None, "guarantee") else f".{then}")
    return target(call, valid, name_=name, like_=cls, **{"rows": "?X", **kinds})


def drawn(plot: Callable[..., Any], **kinds: str) -> Target:
    """Return a target that calls a plot on axes of its own."""

    @functools.wraps(plot)
    def call(**arguments: Any) -> Any:
        from matplotlib.figure import Figure

        return plot(ax=Figure().subplots(), **arguments)

    return target(call, **kinds)


def split_probabilities(design: Any, X: Any, rho: Any = 0.5) -> Any:
    """Return the split probabilities of a KD tree of ``design`` at X."""
    return pt.kd_tree(design, 2).split_probabilities(X, rho)


def context_tree_weighting(depth: Any, n_symbols: Any, symbols: Any, contexts: Any, **rest: Any) -> Any:
    """Return predictions of a context tree after symbols and contexts are added."""
    made = exact.ContextTreeWeighting(depth, n_symbols, **rest)
    made.update(symbols)
    if isinstance(contexts, list) or (hasattr(contexts, "ndim") and contexts.ndim > 0):
        made.add(contexts, [0] * len(contexts))
    return made.predict_proba(contexts)


def design_counts(split_prior: Any, X: Any, y: Any, sample_weight: Any = None, estimation: Any = None) -> Any:
    """Return the posterior of a design, from counts of its rows."""
    return exact.DesignCounts(split_prior).update(X, y, sample_weight, estimation).solve()


def posterior_from_trees(tree: Any, **arguments: Any) -> Any:
    """Return the posterior of one tree."""
    return pt.posterior_from_trees(trees=[tree], **arguments)


def family_at(prunings: Any, penalty: Any, alpha: Any) -> Any:
    """Return the pruning of a family at the penalty ``alpha``."""
    return prunings.family(penalty).at(alpha)


SAMPLING = {"chains": "count", "base": "?none", "leaf": "-", "split_prior": "-", "tree_prior": "-", "nominal": "-"}
VOTE = {"base": "?base", "penalty": "?none", "coordinate": "?coordinate"}
GAMMA = {"k": "?positive"}
ON_ROWS = {"n": "rows"}
PARTS = [
    target(pt.BranchingProcess, rho="?rho"),
    target(pt.ChipmanPrior, alpha="?rho", beta="?price"),
    target(pt.LeafPenalty, cost="?price"),
    target(pt.LocalCuts),
    target(pt.GridCuts, cuts="cuts"),
    target(pt.GridCuts.from_table, cuts="count"),
    target(pt.DyadicCuts, levels="count"),
    target(pt.FixedTree, joint="?none"),
    target(pt.FixedTree.from_sklearn),
    target(split_probabilities, rho="?share"),
    target(pt.kd_tree, a.design, rule="?none"),
    target(pt.dyadic_tree, a.design),
    target(pt.context_tree, a.design),
    target(pt.contexts),
    target(pt.DirichletMultinomial, alpha="?positive"),
    *map(target, (pt.FrozenLaplace, pt.NormalInverseGamma, pt.NormalKnownVariance, pt.NormalSharedVariance)),
    *map(target, (pt.PoissonGamma, pt.ExponentialGamma)),
    target(pt.PacBayesLoss, lambda1="price", lambda2="?price"),
    target(pt.WeibullGamma, **GAMMA),
    target(pt.PiecewiseExponential),
    target(pt.NormalLinear, columns="x columns"),
    target(pt.CustomLeaf, score="score", stats="sums", predict="-"),
    target(pt.CustomSplits, weight="weight", of="?weighed"),
    target(OWN_SPLITS.check),
    target(OWN_LEAF.check, y="numbers"),
    target(exact.SpatiallyAdaptive, delta="?delta?"),
    target(exact.SquareRoot, delta="?delta?"),
    target(exact.RootFragments, delta="?delta?"),
    target(exact.AdditivePenalty, cost="prices"),
]
MODELS = [
    target(pt.TreeModel, a.model, 4.0, y="y"),
    *methods(pt.TreeModel, "model", log_posterior=a.number, log_prior=a.number, log_score=a.number, save=a.anything),
    target(pt.simulate, a.simulated),
    target(pt.Tree, feature="nodes", threshold="nodes", **dict.fromkeys(("value", "columns", "classes"), "?none")),
    target(pt.check_tree, n_features="?count?"),
    *methods(pt.Tree, "tree", apply=a.rows, predict=a.rows, split=a.anything, to_dot=a.anything, to_sklearn=a.anything),
    *methods(pt.Tree, "tree", format=a.anything),
    target(pt.Tree.from_sklearn),
]
POSTERIORS = [
    *methods(
        pt.Posterior,
        "posterior",
        predict=a.rows,
        predict_proba=a.probabilities,
        survival=(a.anything, {"times": "delta"}),
        median_survival=a.anything,
        certificate=a.certificate,
        holdout_certificate=a.certificate,
        draw_trees=(a.trees, {"n": "count"}),
        predict_quantiles=(a.rows, {"q": "delta"}),
        predict_interval=a.rows,
        credible_interval=a.anything,
        draw_expectations=(a.anything, {"draws": "count"}),
        interactions=a.anything,
        predict_std_new_y=a.rows,
        sample_predictive=(a.anything, {"draws": "count"}),
        save=a.anything,
        report=(a.anything, {"path": "page", "truth": "?no truth"}),
        support=a.support,
        consensus_tree=a.anything,
        credible_set=a.anything,
    ),
    target(lambda self, tree: self.credible_set().level(tree), a.number, name_="CredibleSet.level", self="posterior"),
    target(lambda self: self.support().table(), a.scratch, name_="Support.table", self="posterior"),
    *methods(
        pt.SampledPosterior,
        "sampled",
        predict_std_over_trees=a.rows,
        values_by_draw=a.anything,
        asdsf=a.anything,
        tree_ess=a.anything,
        to_arviz=a.anything,
        tree_distances=(a.anything, {"draws": "?by cell"}),
    ),
    *methods(
        exact.ExactPosterior,
        "truth",
        predict_std_over_trees=a.rows,
        sample=(a.sampled, {"draws": "count"}),
        to_arviz=(a.anything, {"draws": "count"}),
        best_trees=(a.anything, {"k": "count"}),
        trees_within=a.anything,
        best_tree_of_size=a.tree,
        best_log_joint_by_size=a.anything,
        mean_and_variance=a.anything,
    ),
    target(pt.load, path="source", leaf="-", split_prior="-"),
    target(posterior_from_trees, a.sampled, like_=pt.posterior_from_trees, trees="-"),
]
PLOTS = [
    drawn(pt.plots.plot_consensus, tree="posterior"),
    drawn(pt.plots.plot_forest, alpha="?share"),
    drawn(pt.plots.plot_leaves),
    drawn(pt.plots.plot_partial_dependence, feature="count0"),
    drawn(pt.plots.plot_split_frequencies, posterior="sampled"),
]
SHORT = {"draws": "count", "tune": "count0", "chains": "count", "steps": "-", "work": "-", "seconds": "-"}
SHORT |= {"checkpoint": "?target?"}
ENGINES = [
    target(
        functools.wraps(pt.sample)(functools.partial(pt.sample, progress=False)),
        a.sampled,
        4.0,
        **SHORT,
        start="?start",
        betas="?betas",
    ),
    target(
        functools.wraps(pt.resume)(functools.partial(pt.resume, progress=False)),
        a.sampled,
        **SHORT,
        moves="?moves",
        leaf="-",
        split_prior="-",
    ),
    target(pt.Move, step="step", counts="?counts"),
    target(pt.testing.check_balance, move="move", model="small model", beta="?share", tolerance="?positive"),
    target(pt.testing.check_leaf, y="-", X="-", sample_weight="-"),
    target(pt.testing.check_split_prior, X="-", max_depth="?depth"),
    target(
        pt.progressive_mixture,
        a.sampled,
        chains="count",
        draws="count",
        particles="count",
        threshold="?share",
        steps="?count?",
    ),
    target(exact.solve, a.truth, 2.0),
    target(exact.visited, a.truth),
    target(exact.compare, a.comparison),
    target(exact.progressive_mixture, a.truth),
    target(exact.kl_bound),
    target(exact.kl_infimum, truth="X"),
    target(exact.vc_kl_bound),
    target(exact.minimax_lower_bound, alpha="?share", beta="?share"),
    target(exact.data_dependent_mixture),
    target(exact.check_local_rule, max_depth="depth", tolerance="?positive"),
    target(exact.local_rule_log_probability, splits="made"),
    target(exact.local_rule),
    target(exact.context_tree_weighting, depth="count0", alpha="?positive", rho="?share"),
    target(
        context_tree_weighting,
        a.probabilities,
        name_="ContextTreeWeighting",
        like_=exact.ContextTreeWeighting,
        depth="count0",
        alpha="?positive",
        rho="?rho",
    ),
    target(design_counts, a.truth, split_prior="design", y="y"),
    target(exact.solve_global_splitting, a.truth),
    target(exact.count_global_splittings),
]
GRAPHS = [
    target(exact.build_graph),
    *(target(answer, a.number) for answer in (exact.log_sum, exact.best_log_weight, exact.count_trees)),
    *methods(exact.CellGraph, "graph", with_terms=None, by_slot=None),
    target(exact.hull_by_size, a.scratch),
    target(exact.occurrences, log_inside="?none"),
    target(exact.best_by_size, counts="?none", gain="?none", max_count="?none"),
]
RISKS = [
    target(exact.minimise_risk),
    target(exact.forward_tree, thresholds="?rows or lists"),
    target(exact.minimise_root_fragment, split_prior="fixed splits", split_bits="?price"),
    target(exact.neyman_pearson_tree, alpha="share", max_leaves="?count?", tolerance="?price"),
    target(exact.Prunings, tree="pruned", y="y"),
    *methods(
        exact.Prunings,
        "prunings",
        best=(a.anything, {"penalty": "size penalty"}),
        family=(a.anything, {"penalty": "size penalty"}),
        of_size=a.tree,
    ),
    target(family_at, name_="PruningFamily.at", penalty="size penalty", alpha="price"),
    target(exact.vote_excess_bound, a.bound, lam="?positive"),
    target(exact.adaptive_rate, lam="?positive"),
    target(exact.dyadic_fragment_bound, a.bound),
    target(exact.dyadic_oracle, levels="depth"),
    target(exact.vc_tolerance, k="?count0"),
    target(exact.vc_failure, a.number),
    target(exact.vc_failure_iid, a.number),
    target(exact.dominates),
    target(exact.oracle_bound, a.bound, depth="count", lam="?positive"),
]
ESTIMATORS = [
    fitted(pt.BayesianTreeClassifier, sample_weight="-", rows="-", chains="count"),
    fitted(pt.BayesianTreeClassifier, a.probabilities, "predict_proba", **SAMPLING),
    fitted(pt.BayesianTreeRegressor, y="numbers", sample_weight="-", rows="-", chains="count"),
    fitted(pt.BayesianTreeRegressor, a.rows, "predict", y="numbers", **SAMPLING),
    fitted(pt.BayesianTreeRegressor, None, "predict_quantiles", y="numbers", q="delta", **SAMPLING),
    fitted(pt.BayesianTreeRegressor, None, "predict_interval", y="numbers", coverage="delta", **SAMPLING),
    fitted(
        exact.PACBayesTreeClassifier, a.probabilities, "predict_proba", lambda1="?price?", lambda2="?price?", **VOTE
    ),
    fitted(exact.DyadicTreeClassifier, a.probabilities, "predict_proba"),
]
BOUNDS = [
    target(c.binary_kl, q="share"),
    target(c.kl_inverse, upper="?flag"),
    target(c.binomial_tail_inversion, **ON_ROWS),
    target(c.compute_R, rows="by cell"),
    target(c.dyadic_bits),
    target(c.dyadic_length, upper="number?"),
    target(c.dyadic_penalty, rows="count0", **ON_ROWS),
    target(c.dyadic_tree_bound, a.bound, name_="certificates.dyadic_tree_bound"),
    target(c.compression_tree_bound, a.bound),
    target(c.occam_tree_bound, a.bound, thresholds="?lists", halvings="?halvings"),
    target(c.occam_continuous, a.bound, halvings="?count0", **ON_ROWS),
    *(target(bound, a.bound, **ON_ROWS) for bound in (c.compression, c.compression_tail, c.holdout, c.holdout_gibbs)),
    *(target(bound, a.bound, **ON_ROWS) for bound in (c.occam_discrete, c.pac_bayes_kl)),
    *(target(bound, a.bound, **ON_ROWS) for bound in (c.vote_factor_two, c.vote_tandem)),
    *(target(bound, a.bound) for bound in (c.naive_occam, c.root_fragment)),
    target(c.optimal_lambda, a.number, **ON_ROWS),
    target(c.pac_bayes_lambda, a.bound, lam="?positive?", **ON_ROWS),
    target(c.tree_bits),
]
TARGETS = [*PARTS, *MODELS, *POSTERIORS, *PLOTS, *ENGINES, *GRAPHS, *RISKS, *ESTIMATORS, *BOUNDS]
