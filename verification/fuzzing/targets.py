"""The public functions and methods, with the kind of each of their arguments and what a valid answer looks like.

A kind is a key of `world.VALID`; a leading ``?`` marks an argument that may be left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import exact
import pactree_mcmc as pt
from pactree_mcmc import certificates as c

from . import answers as a


class Target(NamedTuple):
    """A callable and what it takes."""

    name: str
    call: Callable[..., Any]
    kinds: dict[str, str]
    valid: Callable[[Any, dict[str, Any]], None]
    """Raises AssertionError where the answer is not what the documentation promises."""
    weight: float


def _method(name: str) -> Callable[..., Any]:
    return lambda self, **rest: getattr(self, name)(**rest)


def _fit(cls: type, *, then: str | None = None) -> Callable[..., Any]:
    """Make an estimator, fit it, and ask it; the names of what ``fit`` takes are fixed."""

    def call(X: Any, y: Any, sample_weight: Any = None, rows: Any = None, **settings: Any) -> Any:
        made = cls(**settings)
        fitted = made.fit(X, y) if sample_weight is None else made.fit(X, y, sample_weight)
        return fitted if then is None else getattr(fitted, then)(X if rows is None else rows)

    return call


def _ctw(depth: Any, n_symbols: Any, symbols: Any, contexts: Any, **rest: Any) -> Any:
    made = exact.ContextTreeWeighting(depth, n_symbols, **rest)
    made.update(symbols)
    made.add(contexts, [0] * len(contexts))
    return made.predict_proba(contexts)


def _counts(questions: Any, X: Any, y: Any, **rest: Any) -> Any:
    made = exact.DesignCounts(questions).update(X, y, **rest)
    return made.solve()


def _family(prunings: Any, penalty: Any, price: Any) -> Any:
    family = prunings.family(penalty)
    return family.at(price)


def _guarantee(X: Any, y: Any, **settings: Any) -> Any:
    return exact.NeymanPearsonTreeClassifier(**settings).fit(X, y).guarantee()


def _target(name: str, call: Callable, valid: Callable | None = None, weight: float = 1.0, /, **kinds: str) -> Target:
    return Target(name, call, kinds, valid or a.anything, weight)


def _methods(cls: str, self: str, /, **methods: tuple) -> list[Target]:
    return [
        _target(f"{cls}.{name}", _method(name), valid, 1.0, self=self, **kinds)
        for name, (valid, kinds) in methods.items()
    ]


MODEL_PARTS = {
    "tree_prior": "?tree prior",
    "questions": "?questions",
    "leaf": "?leaf",
    "nominal": "?nominal",
}
SAMPLING = {"chains": "count", "draws": "count", "tune": "count0", "kernel": "?kernel"}
ESTIMATOR = {**MODEL_PARTS, **SAMPLING, "n_jobs": "?count?", "random_state": "?rng"}
PATH = {"path": "target", "log_likelihood": "?flag"}
VOTE = {"base": "?base", "max_depth": "?count?", "bounds": "?bounds", "coordinate": "?coordinate"}

PARTS = [
    _target("BranchingProcess", pt.BranchingProcess, rho="?rho", max_depth="?count?", conditioned="?flag"),
    _target("ChipmanPrior", pt.ChipmanPrior, alpha="?rho", beta="?price", max_depth="?count?"),
    _target("LeafPenalty", pt.LeafPenalty, cost="?price", max_depth="?count?", empty_cost="?price?"),
    _target(
        *("LocalCuts", pt.LocalCuts),
        trivial="?flag",
        min_leaf="?count",
        max_cuts="?count?",
        feature_weights="?p weights",
    ),
    _target("GridCuts", pt.GridCuts, cuts="cuts", feature_weights="?p weights"),
    _target(
        *("GridCuts.from_table", pt.GridCuts.from_table),
        X="X",
        cuts="count",
        nominal="?nominal",
        feature_weights="?p weights",
    ),
    _target(
        *("DyadicCuts", pt.DyadicCuts),
        levels="count",
        cyclic="?flag",
        bounds="?bounds",
        feature_weights="?p weights",
    ),
    _target("FixedTree", pt.FixedTree, tree="tree", joint="?none"),
    _target("FixedTree.from_sklearn", pt.FixedTree.from_sklearn, fitted="fitted"),
    _target(
        *("FixedTree.split_probabilities", lambda design, **k: pt.kd_tree(design, 2).split_probabilities(**k)),
        design="X",
        X="X",
        rho="?share",
    ),
    _target(
        *("kd_tree", pt.kd_tree, a.design),
        X="X",
        depth="depth",
        y="?labels",
        rule="?none",
        coordinate="?coordinate",
    ),
    _target("dyadic_tree", pt.dyadic_tree, a.design, X="X", depth="depth", y="?labels", bounds="?bounds"),
    _target("context_tree", pt.context_tree, a.design, depth="depth", n_symbols="count"),
    _target("contexts", pt.contexts, symbols="symbols", depth="depth", n_symbols="count"),
    _target("DirichletMultinomial", pt.DirichletMultinomial, alpha="?positive"),
    _target("FrozenLaplace", pt.FrozenLaplace, pseudocount="?positive"),
    _target(
        "NormalInverseGamma", pt.NormalInverseGamma, m0="?number?", k0="?positive?", a0="?positive?", b0="?positive?"
    ),
    _target("NormalKnownVariance", pt.NormalKnownVariance, sigma2="?positive?", m0="?number?", k0="?positive?"),
    _target(
        *("NormalSharedVariance", pt.NormalSharedVariance),
        m0="?number?",
        k0="?positive?",
        a0="?positive?",
        b0="?positive?",
    ),
    _target("PoissonGamma", pt.PoissonGamma, shape="?positive?", rate="?positive?", exposure="?weights"),
    _target("PacBayesLoss", pt.PacBayesLoss, lambda1="price", lambda2="?price"),
    _target("SpatiallyAdaptive", exact.SpatiallyAdaptive, delta="?delta?"),
    _target("SquareRoot", exact.SquareRoot, delta="?delta?"),
    _target("AdditivePenalty", exact.AdditivePenalty, cost="prices"),
]
MODELS = [
    _target(
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
    *_methods(
        *("TreeModel", "model"),
        log_posterior=(a.number, {"tree": "tree"}),
        log_prior=(a.number, {"tree": "tree"}),
        log_score=(a.number, {"tree": "tree"}),
        save=(a.anything, {"path": "target"}),
    ),
    _target("simulate", pt.simulate, a.simulated, model="model", rng="?rng"),
    _target(
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
    _target("check_tree", pt.check_tree, tree="tree", n_features="?count?"),
    *_methods(
        *("Tree", "tree"),
        apply=(a.rows, {"X": "X"}),
        predict=(a.rows, {"X": "X"}),
        question=(a.anything, {"node": "count0"}),
        to_dot=(a.anything, {"name": "?text"}),
        to_sklearn=(a.anything, {}),
        format=(a.anything, {}),
    ),
    _target("Tree.from_sklearn", pt.Tree.from_sklearn, fitted="fitted"),
    _target("typical_tree", pt.typical_tree, a.tree, posterior="posterior", n_draws="?count", rng="?rng"),
]
POSTERIORS = [
    *_methods(
        *("Posterior", "posterior"),
        predict=(a.rows, {"X": "X"}),
        predict_proba=(a.probabilities, {"X": "X"}),
        certificate=(a.certificate, {"delta": "?delta"}),
        holdout_certificate=(a.certificate, {"X": "X", "y": "labels", "delta": "?delta"}),
        draw_trees=(a.trees, {"n": "count", "rng": "?rng"}),
        save=(a.anything, PATH),
        to_arviz=(a.anything, {"log_likelihood": "?flag"}),
    ),
    *_methods(
        *("SampledPosterior", "sampled"),
        predict_std=(a.rows, {"X": "X"}),
        values_by_draw=(a.anything, {"X": "X"}),
        tree=(a.tree, {"t": "count0"}),
    ),
    *_methods(
        *("ExactPosterior", "truth"),
        predict_std=(a.rows, {"X": "X"}),
        sample=(a.sampled, {"draws": "count", "rng": "?rng"}),
        to_arviz=(a.anything, {"draws": "count", "rng": "?rng", "log_likelihood": "?flag"}),
        best_trees=(a.anything, {"k": "count"}),
        best_tree_of_size=(a.tree, {"n_leaves": "count"}),
        best_log_joint_by_size=(a.anything, {"max_leaves": "count"}),
        mean_and_variance=(a.anything, {"of_leaf": "?by cell", "of_split": "?by cell"}),
    ),
    _target("load", pt.load, path="source"),
]
ENGINES = [
    _target(
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
        temperatures="?temperatures",
        executor="?executor",
        checkpoint="?target?",
        every="?positive",
    ),
    _target(
        *("resume", lambda **k: pt.resume(progress=False, **k), a.sampled),
        run="sampled",
        draws="count",
        executor="?executor",
        checkpoint="?target?",
        every="?positive",
    ),
    _target(
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
    _target("exact.solve", exact.solve, a.truth, 2.0, model="model", max_cells="?cells"),
    _target("exact.compare", exact.compare, a.comparison, truth="truth", sampled="sampled", X="?X"),
    _target(
        *("exact.progressive_mixture", exact.progressive_mixture, a.truth),
        model="model",
        orders="?count",
        resplit="?flag",
        rng="?rng",
        max_cells="?cells",
    ),
    _target("exact.kullback_bound", exact.kullback_bound, model="model", tree="tree"),
    _target(
        *("exact.context_tree_weighting", exact.context_tree_weighting),
        symbols="symbols",
        depth="count0",
        n_symbols="count",
        alpha="?positive",
        rho="?share",
    ),
    _target(
        *("exact.ContextTreeWeighting", _ctw, a.probabilities),
        depth="count0",
        n_symbols="count",
        symbols="symbols",
        contexts="contexts",
        alpha="?positive",
        rho="?rho",
    ),
    _target(
        *("exact.DesignCounts", _counts, a.truth),
        questions="design",
        X="X",
        y="y",
        sample_weight="?weights",
        estimation="?mask",
    ),
    _target("exact.solve_global_splitting", exact.solve_global_splitting, a.truth, model="model", max_cells="?cells"),
    _target(
        "exact.count_global_splittings", exact.count_global_splittings, X="X", structure="tree", max_cells="?cells"
    ),
]
GRAPHS = [
    _target("exact.build_graph", exact.build_graph, model="model", max_cells="?cells"),
    _target(
        *("exact.with_terms", exact.with_terms),
        graph="graph",
        log_stop="?price?",
        log_split="?price?",
        log_rule="?price?",
    ),
    _target("exact.by_slot", exact.by_slot, graph="graph", by_cell="by cell"),
    _target("exact.log_sum", exact.log_sum, a.number, graph="graph"),
    _target("exact.best_log_weight", exact.best_log_weight, a.number, graph="graph"),
    _target("exact.count_trees", exact.count_trees, a.number, graph="graph"),
    _target("exact.hull_by_size", exact.hull_by_size, graph="graph"),
    _target("exact.occurrences", exact.occurrences, graph="graph", log_inside="?none"),
    _target(
        *("exact.best_by_size", exact.best_by_size),
        graph="graph",
        max_leaves="count",
        tally="?none",
        gain="?none",
        max_tally="?none",
    ),
]
RISKS = [
    _target(
        *("exact.minimise_risk", exact.minimise_risk),
        X="X",
        y="labels",
        penalty="?penalty",
        strength="?positive",
        levels="?count?",
        cyclic="?flag",
        bounds="?bounds",
        max_cells="?cells",
    ),
    _target(
        *("exact.minimise_misses", exact.minimise_misses),
        X="X",
        y="labels",
        alpha="share",
        method="?method",
        max_leaves="?count?",
        tolerance="?price",
        strength="?positive",
        delta0="?delta",
        delta1="?delta",
        levels="?count?",
        cyclic="?flag",
        bounds="?bounds",
        max_cells="?cells",
    ),
    _target(
        *("exact.Prunings", exact.Prunings),
        tree="pruned",
        X="X",
        y="y",
        loss="?loss",
        sample_weight="?weights",
    ),
    *_methods(
        *("Prunings", "prunings"),
        best=(a.anything, {"penalty": "size penalty"}),
        family=(a.anything, {"penalty": "size penalty"}),
        of_size=(a.tree, {"n_leaves": "count"}),
    ),
    _target("PruningFamily.at", _family, prunings="prunings", penalty="size penalty", price="price"),
    _target(
        *("exact.oracle_bound", exact.oracle_bound, a.bound),
        excess="share",
        mass="share",
        n="count",
        n_nodes="count",
        depth="count",
        n_features="count",
        n_classes="count",
        lam="?positive",
        delta="?delta",
    ),
]
ESTIMATORS = [
    _target("BayesianTreeClassifier", _fit(pt.BayesianTreeClassifier), X="X", y="labels", **ESTIMATOR),
    _target(
        *(
            "BayesianTreeClassifier.predict_proba",
            _fit(pt.BayesianTreeClassifier, then="predict_proba"),
            a.probabilities,
        ),
        **{"X": "X", "y": "labels", "sample_weight": "?weights", "rows": "?X", **SAMPLING},
    ),
    _target("BayesianTreeRegressor", _fit(pt.BayesianTreeRegressor), X="X", y="numbers", **ESTIMATOR),
    _target(
        *("BayesianTreeRegressor.predict", _fit(pt.BayesianTreeRegressor, then="predict"), a.rows),
        **{"X": "X", "y": "numbers", "sample_weight": "?weights", "rows": "?X", **SAMPLING},
    ),
    _target(
        "BayesianTreeRegressor.predict_quantiles",
        lambda X, q, **k: pt.BayesianTreeRegressor(**k).fit(X, range(len(X))).predict_quantiles(X, q),
        **{"X": "X", "q": "delta", **SAMPLING},
    ),
    _target(
        "BayesianTreeRegressor.predict_interval",
        lambda X, coverage, **k: pt.BayesianTreeRegressor(**k).fit(X, range(len(X))).predict_interval(X, coverage),
        **{"X": "X", "coverage": "delta", **SAMPLING},
    ),
    _target(
        *("PACBayesTreeClassifier", _fit(exact.PACBayesTreeClassifier, then="predict_proba"), a.probabilities),
        X="X",
        y="labels",
        rows="?X",
        posterior="?none",
        penalty="?none",
        lambda1="?price?",
        **{"lambda2": "?price?", "lam": "?positive", "delta": "?delta", "prior_depth": "?count?", **VOTE},
        random_state="?rng",
    ),
    _target(
        *("PrunedTreeClassifier", _fit(exact.PrunedTreeClassifier, then="predict"), a.rows),
        **{
            "X": "X",
            "y": "labels",
            "rows": "?X",
            "penalty": "?none",
            "price": "?price?",
            **VOTE,
            "random_state": "?rng",
        },
    ),
    _target(
        *("HSVoteClassifier", _fit(exact.HSVoteClassifier, then="predict_proba"), a.probabilities),
        **{"X": "X", "y": "labels", "rows": "?X", "eta": "?positive?", **VOTE, "random_state": "?rng"},
    ),
    _target(
        *("DyadicTreeClassifier", _fit(exact.DyadicTreeClassifier, then="predict_proba"), a.probabilities),
        X="X",
        y="labels",
        rows="?X",
        penalty="?penalty",
        strength="?positive",
        levels="?count?",
        cyclic="?flag",
        bounds="?bounds",
        max_cells="?cells",
    ),
    _target(
        *("NeymanPearsonTreeClassifier", _guarantee),
        X="X",
        y="labels",
        alpha="?share",
        method="?method",
        max_leaves="?count?",
        tolerance="?price",
        strength="?positive",
        delta0="?delta",
        levels="?count?",
        cyclic="?flag",
        bounds="?bounds",
        max_cells="?cells",
    ),
    _target(
        *(
            "ProgressiveMixtureClassifier",
            _fit(exact.ProgressiveMixtureClassifier, then="predict_proba"),
            a.probabilities,
        ),
        X="X",
        y="labels",
        rows="?X",
        base="?none",
        rho="?share",
        pseudocount="?positive",
        orders="?count",
        max_depth="?count?",
        random_state="?rng",
    ),
]
RISK = {"n": "rows", "delta": "?delta"}
COMPRESSED = {"n_nodes": "count", "n_features": "count", "n": "rows", "errors": "count0", "delta": "?delta"}
ON_ROWS = {"tree": "tree", "X": "X", "y": "labels", "question_bits": "bits", "delta": "?delta"}
BOUNDS = [
    _target("binary_kl", c.binary_kl, p="share", q="share"),
    _target("kl_inverse", c.kl_inverse, p="share", complexity="price", upper="?flag"),
    _target("binomial_tail_inversion", c.binomial_tail_inversion, errors="count0", n="rows", log_delta="log delta"),
    _target("c_bound", c.c_bound, risk="share", tandem="share"),
    _target("compression", c.compression, a.bound, **COMPRESSED),
    _target("compression_tail", c.compression_tail, a.bound, **COMPRESSED),
    _target(
        "compute_R", c.compute_R, tree="tree", rows="by cell", question_bits="bits", n_classes="?count", delta="?delta"
    ),
    _target("dyadic_bits", c.dyadic_bits, depth="depth", n_features="count", cyclic="?flag"),
    _target("dyadic_length", c.dyadic_length, low="share", high="share", lower="number?", upper="number?"),
    _target(
        *("dyadic_penalty", c.dyadic_penalty),
        rows="count0",
        depth="depth",
        n="rows",
        n_features="count",
        delta="delta",
        n_classes="?count",
        cyclic="?flag",
    ),
    _target(
        "certificates.dyadic_tree",
        c.dyadic_tree,
        a.bound,
        tree="tree",
        X="X",
        y="labels",
        delta="?delta",
        cyclic="?flag",
    ),
    _target("holdout", c.holdout, a.bound, errors="count0", n="rows", delta="?delta"),
    _target("holdout_gibbs", c.holdout_gibbs, a.bound, risk="share", **RISK),
    _target("naive_occam", c.naive_occam, a.bound, **ON_ROWS),
    _target("root_fragment", c.root_fragment, a.bound, **ON_ROWS),
    _target(
        *("occam_continuous", c.occam_continuous, a.bound),
        n_nodes="count",
        n_features="count",
        lengths="depth",
        n="rows",
        errors="count0",
        delta="?delta",
        halvings="?count0",
    ),
    _target(
        *("occam_discrete", c.occam_discrete, a.bound),
        n_nodes="count",
        n_features="count",
        n_thresholds="count",
        n="rows",
        errors="count0",
        delta="?delta",
    ),
    _target("optimal_lambda", c.optimal_lambda, a.number, risk="share", kl="price", **RISK),
    _target("pac_bayes_kl", c.pac_bayes_kl, a.bound, risk="share", kl="price", **RISK),
    _target("pac_bayes_lambda", c.pac_bayes_lambda, a.bound, risk="share", kl="price", lam="?positive?", **RISK),
    _target("tree_bits", c.tree_bits, tree="tree", question_bits="bits", n_classes="?count"),
    _target("vote_cantelli", c.vote_cantelli, a.bound, risk="share", tandem="share", kl="price", **RISK),
    _target(
        *("vote_disagreement", c.vote_disagreement, a.bound),
        **{"risk": "share", "disagreement": "share", "kl": "price", "n_unlabelled": "?count?", **RISK},
    ),
    _target("vote_factor_two", c.vote_factor_two, a.bound, risk="share", kl="price", **RISK),
    _target("vote_tandem", c.vote_tandem, a.bound, tandem="share", kl="price", **RISK),
    _target("certify", c.certify, a.certificate, post="posterior", delta="delta"),
    _target("certify_holdout", c.certify_holdout, a.certificate, post="posterior", X="X", y="labels", delta="delta"),
]
TARGETS = [*PARTS, *MODELS, *POSTERIORS, *ENGINES, *GRAPHS, *RISKS, *ESTIMATORS, *BOUNDS]
