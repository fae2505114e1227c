"""Trees by risk, estimators, certificates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import exact
import pactree_mcmc as pt
from pactree_mcmc import certificates as c

from . import answers as a
from .engines import MODEL_PARTS
from .target import methods, target


def _fit(cls: type, *, then: str | None = None) -> Callable[..., Any]:
    """Make an estimator, fit it, and ask it; the names of what ``fit`` takes are fixed."""

    def call(X: Any, y: Any, sample_weight: Any = None, rows: Any = None, **settings: Any) -> Any:
        made = cls(**settings)
        fitted = made.fit(X, y) if sample_weight is None else made.fit(X, y, sample_weight)
        return fitted if then is None else getattr(fitted, then)(X if rows is None else rows)

    return call


def _family(prunings: Any, penalty: Any, alpha: Any) -> Any:
    family = prunings.family(penalty)
    return family.at(alpha)


def _quantiles(X: Any, y: Any, q: Any, **settings: Any) -> Any:
    return pt.BayesianTreeRegressor(**settings).fit(X, y).predict_quantiles(X, q)


def _interval(X: Any, y: Any, coverage: Any, **settings: Any) -> Any:
    return pt.BayesianTreeRegressor(**settings).fit(X, y).predict_interval(X, coverage)


def _guarantee(X: Any, y: Any, sample_weight: Any = None, **settings: Any) -> Any:
    return exact.NeymanPearsonTreeClassifier(**settings).fit(X, y, sample_weight).guarantee()


SAMPLING = {"chains": "count", "n_estimators": "?count?", "work": "?positive", "max_depth": "?count?"}
ESTIMATOR = {**MODEL_PARTS, **SAMPLING, "n_jobs": "?count?", "random_state": "?rng", "verbose": "?count"}
VOTE = {"base": "?base", "max_depth": "?count?", "bounds": "?bounds", "coordinate": "?coordinate"}

RISKS = [
    target(
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
    target(
        *("exact.forward_tree", exact.forward_tree),
        X="X",
        y="labels",
        thresholds="?rows or lists",
        ranges="?ranges",
        criterion="?criterion",
        patience="?count0",
        max_rounds="?count0",
        min_rows="?count",
        parents="?parents",
        n_classes="?count",
        delta="?delta",
    ),
    target(
        *("exact.minimise_root_fragment", exact.minimise_root_fragment),
        X="X",
        y="labels",
        split_prior="fixed splits",
        split_bits="?price",
        max_depth="?count?",
        n_classes="?count",
        strength="?positive",
        delta="?delta",
        max_cells="?cells",
    ),
    target(
        *("exact.neyman_pearson_tree", exact.neyman_pearson_tree),
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
    target(
        *("exact.Prunings", exact.Prunings),
        tree="pruned",
        X="X",
        y="y",
        loss="?loss",
        sample_weight="?weights",
    ),
    *methods(
        *("Prunings", "prunings"),
        best=(a.anything, {"penalty": "size penalty"}),
        family=(a.anything, {"penalty": "size penalty"}),
        of_size=(a.tree, {"n_leaves": "count"}),
    ),
    target("PruningFamily.at", _family, prunings="prunings", penalty="size penalty", alpha="price"),
    target(
        *("exact.vote_excess_bound", exact.vote_excess_bound, a.bound),
        excess="share",
        deviation="share",
        log_prior="number?",
        n="count",
        n_classes="count",
        lam="?positive",
        delta="?delta",
    ),
    target(
        *("exact.adaptive_rate", exact.adaptive_rate),
        n="count",
        smoothness="positive",
        holder="price",
        n_features="count",
        dimension="?positive?",
        packing="?positive?",
        n_classes="?count",
        lam="?positive",
    ),
    target("exact.RootFragments", exact.RootFragments, delta="?delta?"),
    target(
        *("exact.dyadic_fragment_bound", exact.dyadic_fragment_bound, a.bound),
        tree="tree",
        X="X",
        y="labels",
        n_classes="?count",
        delta="?delta",
        cyclic="?flag",
    ),
    target(
        *("exact.dyadic_oracle", exact.dyadic_oracle),
        X="X",
        probability="X",
        n="count",
        levels="depth",
        bounds="bounds",
        cyclic="?flag",
        max_cells="?cells",
    ),
    target("exact.vc_tolerance", exact.vc_tolerance, n="count", delta="delta", vc_dimension="count0", k="?count0"),
    target(
        *("exact.vc_failure", exact.vc_failure, a.number),
        n0="count",
        n1="count",
        eps0="positive",
        eps1="positive",
        vc_dimension="count0",
    ),
    target(
        *("exact.vc_failure_iid", exact.vc_failure_iid, a.number),
        n="count",
        prior0="share",
        eps0="positive",
        eps1="positive",
        vc_dimension="count0",
    ),
    target(
        *("exact.dominates", exact.dominates),
        first="size penalty",
        second="size penalty",
        max_leaves="count",
    ),
    target(
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
    target("BayesianTreeClassifier", _fit(pt.BayesianTreeClassifier), X="X", y="labels", **ESTIMATOR),
    target(
        *(
            "BayesianTreeClassifier.predict_proba",
            _fit(pt.BayesianTreeClassifier, then="predict_proba"),
            a.probabilities,
        ),
        **{"X": "X", "y": "labels", "sample_weight": "?weights", "rows": "?X", **SAMPLING},
    ),
    target("BayesianTreeRegressor", _fit(pt.BayesianTreeRegressor), X="X", y="numbers", **ESTIMATOR),
    target(
        *("BayesianTreeRegressor.predict", _fit(pt.BayesianTreeRegressor, then="predict"), a.rows),
        **{"X": "X", "y": "numbers", "sample_weight": "?weights", "rows": "?X", **SAMPLING},
    ),
    target(
        "BayesianTreeRegressor.predict_quantiles",
        _quantiles,
        **{"X": "X", "y": "numbers", "q": "delta", **SAMPLING},
    ),
    target(
        "BayesianTreeRegressor.predict_interval",
        _interval,
        **{"X": "X", "y": "numbers", "coverage": "delta", **SAMPLING},
    ),
    target(
        *("PACBayesTreeClassifier", _fit(exact.PACBayesTreeClassifier, then="predict_proba"), a.probabilities),
        X="X",
        y="labels",
        sample_weight="?weights",
        rows="?X",
        penalty="?none",
        lambda1="?price?",
        **{"lambda2": "?price?", **VOTE},
        random_state="?rng",
    ),
    target(
        *("PACBayesTheoryClassifier", _fit(exact.PACBayesTheoryClassifier, then="predict_proba"), a.probabilities),
        X="X",
        y="labels",
        sample_weight="?weights",
        rows="?X",
        **{"lam": "?positive", "delta": "?delta", "prior_depth": "?count?", **VOTE},
        random_state="?rng",
    ),
    target(
        *("RootFragmentClassifier", _fit(exact.RootFragmentClassifier, then="predict_proba"), a.probabilities),
        X="X",
        y="labels",
        sample_weight="?weights",
        rows="?X",
        split_prior="?fixed splits",
        levels="?count?",
        cyclic="?flag",
        bounds="?bounds",
        strength="?positive",
        max_depth="?count?",
        n_classes="?count?",
        delta="?delta",
        max_cells="?cells",
    ),
    target(
        *("DyadicTreeClassifier", _fit(exact.DyadicTreeClassifier, then="predict_proba"), a.probabilities),
        X="X",
        y="labels",
        sample_weight="?weights",
        rows="?X",
        penalty="?penalty",
        strength="?positive",
        levels="?count?",
        cyclic="?flag",
        bounds="?bounds",
        max_cells="?cells",
    ),
    target(
        *("NeymanPearsonTreeClassifier", _guarantee),
        X="X",
        y="labels",
        sample_weight="?weights",
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
    target(
        *(
            "ProgressiveMixtureClassifier",
            _fit(exact.ProgressiveMixtureClassifier, then="predict_proba"),
            a.probabilities,
        ),
        X="X",
        y="labels",
        sample_weight="?weights",
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
ON_ROWS = {
    "tree": "tree",
    "X": "X",
    "y": "labels",
    "split_bits": "bits",
    "n_classes": "?count",
    "delta": "?delta",
}
BOUNDS = [
    target("binary_kl", c.binary_kl, p="share", q="share"),
    target("kl_inverse", c.kl_inverse, p="share", complexity="price", upper="?flag"),
    target("binomial_tail_inversion", c.binomial_tail_inversion, errors="count0", n="rows", log_delta="log delta"),
    target("c_bound", c.c_bound, risk="share", tandem="share"),
    target("compression", c.compression, a.bound, **COMPRESSED),
    target("compression_tail", c.compression_tail, a.bound, **COMPRESSED),
    target(
        "compute_R", c.compute_R, tree="tree", rows="by cell", split_bits="bits", n_classes="?count", delta="?delta"
    ),
    target("dyadic_bits", c.dyadic_bits, depth="depth", n_features="count", cyclic="?flag"),
    target("dyadic_length", c.dyadic_length, low="share", high="share", lower="number?", upper="number?"),
    target(
        *("dyadic_penalty", c.dyadic_penalty),
        rows="count0",
        depth="depth",
        n="rows",
        n_features="count",
        delta="delta",
        n_classes="?count",
        cyclic="?flag",
    ),
    target(
        "certificates.dyadic_tree_bound",
        c.dyadic_tree_bound,
        a.bound,
        tree="tree",
        X="X",
        y="labels",
        n_classes="?count",
        delta="?delta",
        cyclic="?flag",
    ),
    target(
        *("compression_tree_bound", c.compression_tree_bound, a.bound),
        tree="tree",
        X="X",
        y="labels",
        parents="?parents",
        n_classes="?count",
        delta="?delta",
    ),
    target(
        *("occam_tree_bound", c.occam_tree_bound, a.bound),
        tree="tree",
        X="X",
        y="labels",
        thresholds="?lists",
        ranges="?ranges",
        halvings="?halvings",
        shared="?flag",
        parents="?parents",
        n_classes="?count",
        delta="?delta",
    ),
    target("holdout", c.holdout, a.bound, errors="count0", n="rows", delta="?delta"),
    target("holdout_gibbs", c.holdout_gibbs, a.bound, risk="share", **RISK),
    target("naive_occam", c.naive_occam, a.bound, **ON_ROWS),
    target("root_fragment", c.root_fragment, a.bound, **ON_ROWS),
    target(
        *("occam_continuous", c.occam_continuous, a.bound),
        n_nodes="count",
        n_features="count",
        lengths="depth",
        n="rows",
        errors="count0",
        delta="?delta",
        halvings="?count0",
    ),
    target(
        *("occam_discrete", c.occam_discrete, a.bound),
        n_nodes="count",
        n_features="count",
        n_thresholds="count",
        n="rows",
        errors="count0",
        delta="?delta",
    ),
    target("optimal_lambda", c.optimal_lambda, a.number, risk="share", kl="price", **RISK),
    target("pac_bayes_kl", c.pac_bayes_kl, a.bound, risk="share", kl="price", **RISK),
    target("pac_bayes_lambda", c.pac_bayes_lambda, a.bound, risk="share", kl="price", lam="?positive?", **RISK),
    target("tree_bits", c.tree_bits, tree="tree", split_bits="bits", n_classes="?count"),
    target("vote_cantelli", c.vote_cantelli, a.bound, risk="share", tandem="share", kl="price", **RISK),
    target(
        *("vote_disagreement", c.vote_disagreement, a.bound),
        **{"risk": "share", "disagreement": "share", "kl": "price", "n_unlabelled": "?count?", **RISK},
    ),
    target("vote_split_kl", c.vote_split_kl, a.bound, risk="share", tandem="share", kl="price", **RISK),
    target(
        *("vote_coin_betting", c.vote_coin_betting, a.bound),
        **{"risk": "share", "tandem": "share", "kl": "price", "mus": "?mus", **RISK},
    ),
    target("vote_factor_two", c.vote_factor_two, a.bound, risk="share", kl="price", **RISK),
    target("vote_tandem", c.vote_tandem, a.bound, tandem="share", kl="price", **RISK),
]
