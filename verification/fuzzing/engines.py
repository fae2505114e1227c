"""Models, posteriors, engines and graphs."""

from __future__ import annotations

from typing import Any

import numpy as np

import exact
import pactree_mcmc as pt

from . import answers as a
from . import world
from .target import methods, target


def _ctw(depth: Any, n_symbols: Any, symbols: Any, contexts: Any, **rest: Any) -> Any:
    made = exact.ContextTreeWeighting(depth, n_symbols, **rest)
    made.update(symbols)
    if isinstance(contexts, list | np.ndarray) and np.ndim(contexts) > 0:
        made.add(contexts, [0] * len(contexts))
    return made.predict_proba(contexts)


def _counts(split_prior: Any, X: Any, y: Any, **rest: Any) -> Any:
    made = exact.DesignCounts(split_prior).update(X, y, **rest)
    return made.solve()


MODEL_PARTS = {
    "tree_prior": "?tree prior",
    "split_prior": "?split_prior",
    "leaf": "?leaf",
    "nominal": "?nominal",
}
PATH = {"path": "target", "log_likelihood": "?flag"}

PARTS = [
    target("BranchingProcess", pt.BranchingProcess, rho="?rho", max_depth="?count?", conditioned="?flag"),
    target("ChipmanPrior", pt.ChipmanPrior, alpha="?rho", beta="?price", max_depth="?count?"),
    target("LeafPenalty", pt.LeafPenalty, cost="?price", max_depth="?count?", empty_cost="?price?"),
    target(
        *("LocalCuts", pt.LocalCuts),
        trivial="?flag",
        min_leaf="?count",
        max_cuts="?count?",
        feature_weights="?p weights",
    ),
    target("DirichletWeights", pt.DirichletWeights, concentration="?price", rho="?none"),
    target("GridCuts", pt.GridCuts, cuts="cuts", feature_weights="?p weights"),
    target(
        *("GridCuts.from_table", pt.GridCuts.from_table),
        X="X",
        cuts="count",
        nominal="?nominal",
        missing="?missing",
        feature_weights="?p weights",
    ),
    target(
        *("DyadicCuts", pt.DyadicCuts),
        levels="count",
        cyclic="?flag",
        bounds="?bounds",
        feature_weights="?p weights",
    ),
    target("FixedTree", pt.FixedTree, tree="tree", joint="?none"),
    target("FixedTree.from_sklearn", pt.FixedTree.from_sklearn, fitted="fitted"),
    target(
        *("FixedTree.split_probabilities", lambda design, **k: pt.kd_tree(design, 2).split_probabilities(**k)),
        design="X",
        X="X",
        rho="?share",
    ),
    target(
        *("kd_tree", pt.kd_tree, a.design),
        X="X",
        depth="depth",
        y="?labels",
        rule="?none",
        coordinate="?coordinate",
    ),
    target("dyadic_tree", pt.dyadic_tree, a.design, X="X", depth="depth", y="?labels", bounds="?bounds"),
    target("context_tree", pt.context_tree, a.design, depth="depth", n_symbols="count"),
    target("contexts", pt.contexts, symbols="symbols", depth="depth", n_symbols="count"),
    target("DirichletMultinomial", pt.DirichletMultinomial, alpha="?positive"),
    target("FrozenLaplace", pt.FrozenLaplace, pseudocount="?positive"),
    target(
        "NormalInverseGamma", pt.NormalInverseGamma, m0="?number?", k0="?positive?", a0="?positive?", b0="?positive?"
    ),
    target("NormalKnownVariance", pt.NormalKnownVariance, sigma2="?positive?", m0="?number?", k0="?positive?"),
    target(
        *("NormalSharedVariance", pt.NormalSharedVariance),
        m0="?number?",
        k0="?positive?",
        a0="?positive?",
        b0="?positive?",
    ),
    target("PoissonGamma", pt.PoissonGamma, shape="?positive?", rate="?positive?", exposure="?weights"),
    target("PacBayesLoss", pt.PacBayesLoss, lambda1="price", lambda2="?price"),
    target("ExponentialGamma", pt.ExponentialGamma, shape="?positive?", rate="?positive?"),
    target("WeibullGamma", pt.WeibullGamma, k="?positive", shape="?positive?", rate="?positive?"),
    target("GammaGamma", pt.GammaGamma, k="?positive", shape="?positive?", rate="?positive?"),
    target("NegativeBinomialBeta", pt.NegativeBinomialBeta, dispersion="?positive", a="?positive?", b="?positive?"),
    target("BetaBinomial", pt.BetaBinomial, a="?positive", b="?positive"),
    target("MultivariateNormal", pt.MultivariateNormal, outputs="count", k0="?positive?", nu0="?positive?"),
    target(
        *("NormalLinear", pt.NormalLinear),
        columns="x columns",
        m0="?number?",
        k0="?positive?",
        k1="?positive?",
        a0="?positive?",
        b0="?positive?",
    ),
    target(
        *("CustomLeaf", pt.CustomLeaf),
        score="score",
        stats="sums",
        params="?sizes",
        y_columns="?count",
        x_columns="?x columns",
        whole="?flag",
    ),
    target(
        *("CustomSplits", pt.CustomSplits),
        weight="weight",
        of="?weighed",
        params="?sizes",
        over="?over",
        by_depth="?flag",
    ),
    target("CustomSplits.check", lambda **k: world.OWN_SPLITS.check(**k), X="X", cells="?count"),
    target("CustomLeaf.check", lambda **k: world.OWN_LEAF.check(**k), y="numbers", cells="?count"),
    target("SpatiallyAdaptive", exact.SpatiallyAdaptive, delta="?delta?"),
    target("SquareRoot", exact.SquareRoot, delta="?delta?"),
    target("AdditivePenalty", exact.AdditivePenalty, cost="prices"),
]
MODELS = [
    target(
        *("TreeModel", pt.TreeModel, a.model, 4.0),
        **{
            "X": "X",
            "y": "y",
            "missing": "?missing",
            "sample_weight": "?weights",
            "estimation": "?mask",
            **MODEL_PARTS,
        },
    ),
    *methods(
        *("TreeModel", "model"),
        log_posterior=(a.number, {"tree": "tree"}),
        log_prior=(a.number, {"tree": "tree"}),
        log_score=(a.number, {"tree": "tree"}),
        save=(a.anything, {"path": "target"}),
    ),
    target("simulate", pt.simulate, a.simulated, model="model", rng="?rng"),
    target(
        *("Tree", pt.Tree),
        feature="nodes",
        threshold="nodes",
        left="nodes",
        right="nodes",
        categories="?none",
        default_left="?none",
        value="?none",
        columns="?none",
        classes="?none",
    ),
    target("check_tree", pt.check_tree, tree="tree", n_features="?count?"),
    *methods(
        *("Tree", "tree"),
        apply=(a.rows, {"X": "X"}),
        predict=(a.rows, {"X": "X"}),
        split=(a.anything, {"node": "count0"}),
        to_dot=(a.anything, {"name": "?text"}),
        to_sklearn=(a.anything, {"X": "X"}),
        format=(a.anything, {}),
    ),
    target("Tree.from_sklearn", pt.Tree.from_sklearn, fitted="fitted"),
    target("typical_tree", pt.typical_tree, a.tree, posterior="posterior", n_draws="?count", rng="?rng"),
]
POSTERIORS = [
    *methods(
        *("Posterior", "posterior"),
        predict=(a.rows, {"X": "X"}),
        predict_proba=(a.probabilities, {"X": "X"}),
        certificate=(a.certificate, {"delta": "?delta"}),
        holdout_certificate=(
            a.certificate,
            {"X": "X", "y": "labels", "delta": "?delta", "choose": "?flag", "n_trees": "?count", "rng": "?rng"},
        ),
        draw_trees=(a.trees, {"n": "count", "rng": "?rng"}),
        predict_quantiles=(a.rows, {"X": "X", "q": "delta"}),
        predict_interval=(a.rows, {"X": "X", "coverage": "?delta"}),
        predict_std_new_y=(a.rows, {"X": "X"}),
        sample_predictive=(a.anything, {"X": "X", "draws": "count", "rng": "?rng"}),
        save=(a.anything, PATH),
        report=(a.anything, {"path": "page", "truth": "?no truth", "title": "?text", "command": "?text"}),
        to_arviz=(a.anything, {"log_likelihood": "?flag", "posterior_predictive": "?flag", "rng": "?rng"}),
        support=(a.support, {"min_probability": "?share", "draws": "?count", "rng": "?rng"}),
        consensus_tree=(a.anything, {"min_support": "?share", "draws": "?count", "rng": "?rng"}),
        credible_set=(a.anything, {"mass": "?share", "draws": "?count", "rng": "?rng"}),
        modes=(a.anything, {"most": "?count", "draws": "?count", "rng": "?rng"}),
        shap=(a.anything, {"X": "X", "coverage": "?delta", "draws": "?count", "rng": "?rng"}),
        project=(a.anything, {"max_leaves": "?count", "draws": "?count", "rng": "?rng"}),
    ),
    target(
        "CredibleSet.level", lambda self, **k: self.credible_set().level(**k), a.number, self="posterior", tree="tree"
    ),
    target("Support.table", lambda self: self.support().table(), a.scratch, self="posterior"),
    *methods(
        *("SampledPosterior", "sampled"),
        predict_std_over_trees=(a.rows, {"X": "X"}),
        values_by_draw=(a.anything, {"X": "X"}),
        shap_by_draw=(a.anything, {"X": "X"}),
        distinct_tree=(a.tree, {"t": "count0"}),
        asdsf=(a.anything, {"min_probability": "?share"}),
        tree_ess=(a.anything, {}),
        tree_distances=(a.anything, {"draws": "?by cell"}),
    ),
    *methods(
        *("ExactPosterior", "truth"),
        predict_std_over_trees=(a.rows, {"X": "X"}),
        sample=(a.sampled, {"draws": "count", "rng": "?rng"}),
        to_arviz=(
            a.anything,
            {"draws": "count", "rng": "?rng", "log_likelihood": "?flag", "posterior_predictive": "?flag"},
        ),
        best_trees=(a.anything, {"k": "count"}),
        trees_within=(a.anything, {"epsilon": "share", "most": "?count"}),
        best_tree_of_size=(a.tree, {"n_leaves": "count"}),
        best_log_joint_by_size=(a.anything, {"max_leaves": "count"}),
        mean_and_variance=(a.anything, {"of_leaf": "?by cell", "of_split": "?by cell"}),
    ),
    target("to_timbertrek", lambda model, tree: exact.to_timbertrek(model, [tree]), model="model", tree="tree"),
    target("load", pt.load, path="source"),
    target(
        *("posterior_from_trees", lambda tree, **k: pt.posterior_from_trees(trees=[tree], **k), a.sampled),
        model="model",
        tree="tree",
        tree_of_draw="?by cell",
    ),
]


def _drawn(plot: Any) -> Any:
    """A plot on axes of its own, which are closed."""

    def call(**given: Any) -> Any:
        from matplotlib.figure import Figure

        return plot(ax=Figure().subplots(), **given)

    return call


PLOTS = [
    target("plot_consensus", _drawn(pt.plots.plot_consensus), tree="posterior", min_support="?share"),
    target("plot_cumulative_support", _drawn(pt.plots.plot_cumulative_support), posterior="sampled", n_splits="?count"),
    target(
        *("plot_forest", _drawn(pt.plots.plot_forest)),
        posterior="posterior",
        n_trees="?count",
        alpha="?share",
        rng="?rng",
    ),
    target(
        *("plot_leaves", _drawn(pt.plots.plot_leaves)),
        posterior="posterior",
        tree="?tree",
        n_bins="?count",
        output="?count0",
    ),
    target(
        *("plot_partial_dependence", _drawn(pt.plots.plot_partial_dependence)),
        posterior="posterior",
        feature="count0",
        X="?X",
        individual="?count0",
        coverage="?delta",
        n_trees="?count",
        rng="?rng",
    ),
    target(
        *("plot_shap", _drawn(pt.plots.plot_shap)),
        posterior="posterior",
        X="?X",
        coverage="?delta",
        max_features="?count",
        draws="?count",
        rng="?rng",
    ),
    target(
        *("plot_split_frequencies", _drawn(pt.plots.plot_split_frequencies)),
        posterior="sampled",
        truth="?truth",
        min_probability="?share",
    ),
    target(*("plot_tree_space", _drawn(pt.plots.plot_tree_space)), posterior="posterior", draws="?count", rng="?rng"),
]
ENGINES = [
    target(
        *("sample", lambda **k: pt.sample(progress=False, **k), a.sampled, 4.0),
        model="model",
        draws="count",
        tune="count0",
        chains="count",
        rng="?rng",
        kernel="?kernel",
        thin="?count",
        proposals="?count",
        start="?start",
        betas="?betas",
        executor="?executor",
        checkpoint="?target?",
        every="?positive",
    ),
    target(
        *("resume", lambda **k: pt.resume(progress=False, **k), a.sampled),
        run="sampled",
        draws="count",
        moves="?moves",
        executor="?executor",
        checkpoint="?target?",
        every="?positive",
    ),
    target("Move", pt.Move, name="text", step="step", counts="?counts", replaces="?flag", scans="?flag"),
    target(
        *("testing.check_balance", pt.testing.check_balance),
        move="move",
        model="small model",
        beta="?share",
        tolerance="?positive",
    ),
    target("testing.check_leaf", pt.testing.check_leaf, leaf="leaf", n_cells="?count", rng="?rng"),
    target(
        *("testing.check_split_prior", pt.testing.check_split_prior),
        split_prior="split_prior",
        max_depth="?depth",
        n_walks="?count",
        rng="?rng",
    ),
    target(
        *("progressive_mixture", pt.progressive_mixture, a.sampled),
        model="model",
        engine="?engine",
        chains="count",
        draws="count",
        steps="?count?",
        particles="count",
        threshold="?share",
        block="?count?",
        shuffle="?flag",
        kernel="?kernel",
        rng="?rng",
        executor="?executor",
    ),
    target("exact.solve", exact.solve, a.truth, 2.0, model="model", max_cells="?cells", budget="?count?"),
    target("exact.best_trees", exact.best_trees, model="model", k="count", penalty="?share", max_cells="?cells"),
    target(
        *("exact.trees_within", exact.trees_within),
        model="model",
        epsilon="share",
        most="?count",
        penalty="?share",
        max_cells="?cells",
    ),
    target("exact.visited", exact.visited, a.truth, post="sampled", grow="?count0", max_cells="?cells"),
    target("exact.compare", exact.compare, a.comparison, truth="truth", sampled="sampled", X="?X"),
    target(
        *("exact.progressive_mixture", exact.progressive_mixture, a.truth),
        model="model",
        orders="?count",
        resplit="?flag",
        global_splitting="?flag",
        rng="?rng",
        max_cells="?cells",
    ),
    target("exact.kl_bound", exact.kl_bound, model="model", tree="tree", splits="?paid", max_cells="?cells"),
    target("exact.kl_infimum", exact.kl_infimum, model="model", truth="X", splits="?paid", max_cells="?cells"),
    target(
        *("exact.vc_kl_bound", exact.vc_kl_bound),
        n_leaves="count",
        n_rows="count",
        n_frozen="count0",
        vc_dimension="?count0",
        log_prior="?number?",
        n_classes="?count",
    ),
    target("exact.minimax_lower_bound", exact.minimax_lower_bound, n="count", alpha="?share", beta="?share"),
    target(
        *("exact.data_dependent_mixture", exact.data_dependent_mixture),
        X="X",
        y="labels",
        X_new="X",
        estimation="mask",
        tree_prior="tree prior",
        splitting="?paid",
        feature_weights="?p weights",
        together="?flag",
        engine="?engine",
        chains="?count",
        draws="?count",
        particles="?count",
        rng="?rng",
        max_cells="?cells",
    ),
    target(
        *("exact.check_local_rule", exact.check_local_rule),
        rule="rule",
        n_splits="count",
        max_depth="depth",
        tolerance="?positive",
        max_trees="?count",
    ),
    target("exact.local_rule_log_probability", exact.local_rule_log_probability, rule="rule", splits="made"),
    target("exact.local_rule", exact.local_rule, model="model"),
    target(
        *("exact.context_tree_weighting", exact.context_tree_weighting),
        symbols="symbols",
        depth="count0",
        n_symbols="count",
        alpha="?positive",
        rho="?share",
    ),
    target(
        *("exact.ContextTreeWeighting", _ctw, a.probabilities),
        depth="count0",
        n_symbols="count",
        symbols="symbols",
        contexts="contexts",
        alpha="?positive",
        rho="?rho",
    ),
    target(
        *("exact.DesignCounts", _counts, a.truth),
        split_prior="design",
        X="X",
        y="y",
        sample_weight="?weights",
        estimation="?mask",
    ),
    target("exact.solve_global_splitting", exact.solve_global_splitting, a.truth, model="model", max_cells="?cells"),
    target("exact.count_global_splittings", exact.count_global_splittings, X="X", structure="tree", max_cells="?cells"),
]
GRAPHS = [
    target("exact.build_graph", exact.build_graph, model="model", max_cells="?cells"),
    target(
        *("exact.with_terms", exact.with_terms),
        graph="graph",
        log_stop="?price?",
        log_split="?price?",
        log_rule="?price?",
    ),
    target("exact.by_slot", exact.by_slot, graph="graph", by_cell="by cell"),
    target("exact.log_sum", exact.log_sum, a.number, graph="graph"),
    target("exact.best_log_weight", exact.best_log_weight, a.number, graph="graph"),
    target("exact.count_trees", exact.count_trees, a.number, graph="graph"),
    target("exact.hull_by_size", exact.hull_by_size, a.scratch, graph="graph"),
    target("exact.occurrences", exact.occurrences, graph="graph", log_inside="?none"),
    target(
        *("exact.best_by_size", exact.best_by_size),
        graph="graph",
        max_leaves="count",
        counts="?none",
        gain="?none",
        max_count="?none",
    ),
]
