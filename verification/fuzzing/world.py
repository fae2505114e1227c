"""Small valid values of every kind of argument that a public function takes, made once per process from fixed seeds."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl

import exact
import pactree_mcmc as pt
from pactree_mcmc import moves

N, P = 12, 3


def own_score(s: Any, n: int) -> float:
    """Return the score of a user's leaf."""
    return -0.1 * s[0] * s[0]


def own_sums(y: np.ndarray) -> np.ndarray:
    """Return the contribution of each row to the sums."""
    return y.reshape(len(y), -1)


def own_weight(cut: pt.Cut) -> float:
    """Return the weight of a split of a user's split prior."""
    return 1.0 + cut.number


OWN_SPLITS = pt.CustomSplits(own_weight)
OWN_LEAF = pt.CustomLeaf(own_score, stats=own_sums, predict=lambda sums: sums[:, 0])


def own_rule(splits: dict[str, int], leaf: str) -> list[float]:
    """Return the probabilities of two splits by a user's local rule."""
    return [0.5, 0.5] if len(splits) < 2 else [0.25, 0.75]


class World:
    """Tables, models, posteriors and trees from which valid arguments are chosen."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        rng = np.random.default_rng(7)
        self.X = np.column_stack([rng.integers(0, 6, N), rng.integers(0, 4, N), rng.integers(0, 3, N)]).astype(float)
        self.labels = np.where(self.X[:, 0] + rng.integers(0, 2, N) > 3, "yes", "no")
        self.y = self.X[:, 0] / 3.0 + rng.standard_normal(N)
        self.counts = rng.poisson(2.0, N).astype(float)
        self.mask = np.arange(N) % 2 == 0

    @cached_property
    def tables(self) -> list[Any]:
        """Return the table in the forms in which users have it."""
        frame = pd.DataFrame(self.X, columns=["a", "b", "c"])
        gaps = self.X.copy()
        gaps[2, 0] = np.nan
        kinds = pd.Categorical(np.array(list("uvw"))[self.X[:, 2].astype(int)])
        return [self.X, self.X.tolist(), frame, pl.from_pandas(frame), gaps, frame.assign(c=kinds), self.X.astype(int)]

    @cached_property
    def models(self) -> dict[str, pt.TreeModel]:
        """Return models of every split prior and of several leaves."""
        X, E, prior = self.X, self.mask, pt.BranchingProcess(0.5, max_depth=3)
        cuts = pt.GridCuts([[0.5, 2.5], [1.5], [0.5]])
        return {
            "local": pt.TreeModel(X, self.labels, tree_prior=prior),
            "nominal": pt.TreeModel(X, self.labels, nominal=[2], tree_prior=pt.ChipmanPrior(0.9, 1.0, max_depth=3)),
            "grid": pt.TreeModel(X, self.y, split_prior=cuts, tree_prior=prior),
            "dyadic": pt.TreeModel(X, self.labels, split_prior=pt.DyadicCuts(2), tree_prior=prior),
            "fixed": pt.TreeModel(X, self.labels, split_prior=pt.kd_tree(X, 3), tree_prior=prior),
            "shared": pt.TreeModel(X, self.y, leaf=pt.NormalSharedVariance(), tree_prior=prior),
            "loss": pt.TreeModel(
                X, self.labels, leaf=pt.PacBayesLoss(3.0), split_prior=cuts, tree_prior=prior, estimation=E
            ),
            "missing": pt.TreeModel(self.tables[4], self.labels, missing="branch", tree_prior=prior),
        }

    @cached_property
    def sampled(self) -> dict[str, pt.SampledPosterior]:
        """Return posteriors of short runs."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pt.ConvergenceWarning)
            settings = {"tune": 5, "chains": 2, "rng": 3, "progress": False}
            out = {name: pt.sample(self.models[name], 6, **settings) for name in ("local", "grid", "nominal", "loss")}
            out["tempered"] = pt.sample(self.models["local"], 6, betas=3, **settings)
            return out

    @cached_property
    def truths(self) -> dict[str, exact.ExactPosterior]:
        """Return exact posteriors."""
        names = ("local", "grid", "nominal", "dyadic", "fixed", "loss", "missing")
        return {name: exact.solve(self.models[name]) for name in names}

    @cached_property
    def mixtures(self) -> list[Any]:
        """Return progressive mixtures, exact and sampled."""
        sampled = pt.progressive_mixture(self.models["fixed"], chains=2, draws=5, particles=10, rng=1)
        return [exact.progressive_mixture(self.models["fixed"], orders=2, rng=1), sampled]

    @cached_property
    def graphs(self) -> list[exact.CellGraph]:
        """Return graphs of cells."""
        return [self.truths[name].graph for name in ("local", "grid", "fixed")]

    @cached_property
    def trees(self) -> list[pt.Tree]:
        """Return trees with values, one without, and a stump."""
        stump, bare = pt.Tree([-1], [0], [0], [0]), pt.Tree([0, -1, -1], [2.5, 0, 0], [1, 0, 0], [2, 0, 0])
        return [stump, bare, *(truth.map_tree() for truth in self.truths.values())]

    @cached_property
    def fitted(self) -> list[Any]:
        """Return fitted estimators of scikit-learn."""
        from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

        return [
            DecisionTreeClassifier(max_depth=3, random_state=0).fit(self.X, self.labels),
            DecisionTreeRegressor(max_depth=2, random_state=0).fit(self.X, self.y),
        ]

    @cached_property
    def prunings(self) -> list[exact.Prunings]:
        """Return the prunings of a fitted tree and of a fixed one."""
        return [
            exact.Prunings(self.fitted[0], self.X, self.labels),
            exact.Prunings(pt.kd_tree(self.X, 3), self.X, self.y),
        ]

    @cached_property
    def files(self) -> list[Path]:
        """Return the paths of a saved posterior and a saved model."""
        paths = [self.folder / "posterior.nc", self.folder / "model.nc"]
        self.sampled["local"].save(paths[0])
        self.models["local"].save(paths[1])
        return paths

    def digest(self) -> str:
        """Return a hash of the arrays that calls could change."""
        import hashlib

        out = hashlib.sha256()
        for array in (self.X, self.labels, self.y, self.counts, self.mask):
            out.update(array.tobytes())
        for model in self.models.values():
            units = model.units
            for array in (units.codes, units.label, units.weight, units.moments, units.rows):
                out.update(array.tobytes())
        for post in self.sampled.values():
            for array in (
                *post.draws.coded_trees,
                post.draws.place_stats,
                post.draws.tree_of_draw,
                post.draws.log_prior_of_tree,
                post.draws.log_score_of_tree,
            ):
                out.update(array.tobytes())
        for graph in self.graphs:
            for array in (a for a in graph if isinstance(a, np.ndarray)):
                out.update(array.tobytes())
        for tree in self.trees:
            out.update(b"".join(a.tobytes() for a in tree.arrays))
        return out.hexdigest()


def _const(*values: Any) -> list[Callable[[World], Any]]:
    return [lambda w, value=value: value for value in values]


def propose_nothing(rng: Any, model: Any, state: Any) -> Any:
    """Return the proposal of a move that does nothing."""
    return moves.nothing()


def _each(name: str) -> list[Callable[[World], Any]]:
    """Return functions that each choose one element of a collection of the world, by index modulo its length."""
    return [lambda w, i=i: (lambda kept: kept[i % len(kept)])(_values(getattr(w, name))) for i in range(16)]


def _values(kept: Any) -> list[Any]:
    return list(kept.values()) if isinstance(kept, dict) else list(kept)


VALID: dict[str, list[Callable[[World], Any]]] = {
    "X": [lambda w: w.X, *_each("tables")],
    "y": [lambda w: w.labels, lambda w: w.y, lambda w: w.labels.tolist(), lambda w: w.counts.astype(int)],
    "labels": [lambda w: w.labels, lambda w: w.mask, lambda w: (w.labels == "yes").astype(int)],
    "numbers": [lambda w: w.y, lambda w: w.counts],
    "weights": [lambda w: np.ones(N), lambda w: w.counts, lambda w: [0.5] * N],
    "mask": [lambda w: w.mask, *_const(0.5, None)],
    "p weights": _const([1.0, 2.0, 0.0], None, np.ones(P)),
    "nominal": _const(None, [2], 2, ["c"]),
    "missing": _const("error", "branch"),
    "count": _const(1, 2, 3, np.int64(2)),
    "count0": _const(0, 1, 2),
    "count?": _const(None, 1, 3),
    "depth": _const(1, 2, 3),
    "positive": _const(0.5, 1.0, 2, np.float64(1.5)),
    "positive?": _const(None, 0.5, 1.0, 2),
    "price": _const(0.0, 0.5, 1, 3.0),
    "price?": _const(None, 0.0, 0.5),
    "number?": _const(None, 0.0, -1.5, 2),
    "share": _const(0.0, 0.25, 0.5, 1.0),
    "delta": _const(0.05, 0.5, 0.01),
    "delta?": _const(None, 0.05, 0.5),
    "rho": _const(0.0, 0.4, 0.5, [0.5, 0.4, 0.3, 0.2]),
    "flag": _const(True, False),
    "rng": [*_const(None, 0, 3), lambda w: np.random.default_rng(1), lambda w: np.random.SeedSequence(1)],
    "bounds": [*_const(None, [[0.0, 6.0]] * P), lambda w: np.array([[0.0, 6.0]] * P)],
    "cuts": _const(3, [[0.5, 2.5], [1.5], [0.5]], [[], [1.0], [0.5]]),
    "model": [lambda w: w.models["local"], *_each("models")],
    "posterior": [*_each("sampled"), *_each("truths"), *_each("mixtures")],
    "sampled": _each("sampled"),
    "truth": _each("truths"),
    "mixture": _each("mixtures"),
    "tree": _each("trees"),
    "fitted": _each("fitted"),
    "pruned": [*_each("fitted"), lambda w: pt.kd_tree(w.X, 3)],
    "prunings": _each("prunings"),
    "graph": _each("graphs"),
    "design": [
        *_const(pt.DyadicCuts(2, bounds=[[0.0, 6.0]] * P), pt.GridCuts([[0.5], [1.5], []])),
        lambda w: pt.kd_tree(w.X, 2),
    ],
    "tree prior": _const(
        None, pt.ChipmanPrior(0.9, 1.0, max_depth=2), pt.BranchingProcess(0.5, 2), pt.LeafPenalty(1.0)
    ),
    "split_prior": [
        *_const(None, pt.LocalCuts(min_leaf=2), pt.GridCuts(3), pt.DyadicCuts(2), pt.LocalCuts(max_cuts=2)),
        *_const(OWN_SPLITS, pt.CustomSplits(own_weight, pt.GridCuts(3), over="cell", by_depth=True)),
        lambda w: pt.kd_tree(w.X, 2),
    ],
    "leaf": _const(
        *(None, pt.DirichletMultinomial(), pt.NormalInverseGamma(), pt.NormalKnownVariance(), pt.PoissonGamma()),
        *(pt.NormalSharedVariance(), pt.FrozenLaplace(), pt.PacBayesLoss(2.0)),
        *(pt.NormalLinear([0]), OWN_LEAF),
    ),
    "score": _const(own_score),
    "weight": _const(own_weight),
    "weighed": _const(None, pt.LocalCuts(min_leaf=2), pt.GridCuts(3)),
    "over": _const("feature", "cell"),
    "paid": _const("corollary", "counted", "global", "local"),
    "rule": _const(own_rule),
    "made": _const({}, {"": 1}, {"": 0, "1": 1}),
    "sizes": _const((), [0.5], [1, 2.0]),
    "sums": _const(own_sums),
    "x columns": _const([0], [0, 1]),
    "kernel": _const("default", "cgm", "grow-prune", "blanchard", {"grow-prune": 1.0, "change": 2}),
    "start": [*_const("dispersed", "grown", "prior", "stump"), lambda w: w.trees[0]],
    "betas": _const(None, None, 3, [1.0, 0.5, 0.0]),
    "executor": _const(None),
    "target": [lambda w: w.folder / "out.nc"],
    "target?": _const(None),
    "page": [lambda w: w.folder / "out.html"],
    "no truth": _const(None),
    "source": _each("files"),
    "base": _const("dyadic", "kd"),
    "coordinate": _const("cycling", "widest"),
    "symbols": [*_const([0, 1, 1, 0, 1, 0, 0], range(2)), lambda w: np.arange(20) % 2],
    "contexts": [*_const([[0, 1], [1, 1]]), lambda w: np.zeros((3, 2), dtype=int)],
    "columns": _const(None),
    "none": _const(None),
}
VALID |= {
    "prices": [*_const(0.0, 0.5, 1), lambda w: lambda rows, depth: 0.01 * rows],
    "penalty": [*_const("adaptive", "square-root", 0.1), lambda w: exact.SizePenalty(lambda leaves: 0.1 * leaves)],
    "size penalty": [lambda w: lambda leaves: 0.1 * leaves, lambda w: np.sqrt(np.arange(1.0, 20.0))],
    "step": _const(propose_nothing),
    "move": _const("swap", "grow-prune", pt.Move("idle", propose_nothing)),
    "moves": [lambda w: [], lambda w: [pt.Move("idle", propose_nothing)]],
    "counts": _const(None, ("a", "b"), ["a"]),
    "small model": _const(pt.TreeModel([[0.0], [1.0], [2.0]], [0, 1, 0])),
    "method": _const("srm", "erm", "adaptive"),
    "loss": _const(None, "errors", "squares"),
    "engine": _const("smc", "mcmc"),
    "cells": _const(20_000_000, 1, 100),
    "nodes": [*_const([-1], [0], [0, -1, -1], [2.5, 0.0, 0.0], [1, 0, 0], [2, 0, 0])],
    "text": _const("tree", "a b", ""),
    "rows": _const(12, 100, 10**6),
    "log delta": _const(-3.0, -0.5, -1e-9),
    "bits": [*_const(0.0, 3.0, 5), lambda w: 2.0],
    "ranges": [*_const(None, [[-9.0, 9.0]] * P), lambda w: np.array([[0.0, 6.0]] * P)],
    "lists": [*_const(None, [[0.5, 2.5], [1.5], [0.5]]), lambda w: [np.arange(0.5, 6.0)] * P],
    "rows or lists": [*_const("rows", [[0.5, 2.5], [1.5], [0.5]]), lambda w: [np.arange(0.5, 6.0)] * P],
    "fixed splits": [
        *_const(pt.DyadicCuts(2, bounds=[[0.0, 6.0]] * P), pt.GridCuts([[0.5], [1.5], []])),
        *_const(pt.GridCuts(3), pt.LocalCuts(), pt.DyadicCuts(2, cyclic=True)),
        lambda w: pt.kd_tree(w.X, 2),
    ],
    "mus": _const([0.0], (-0.5, 0.1), np.array([0.2, 0.4])),
    "parents": _const("string", "number"),
    "halvings": _const("rows", "cheapest"),
    "criterion": _const("entropy", "bound"),
    "by cell": [lambda w: np.arange(7.0), lambda w: np.ones(w.graphs[0].n_cells), lambda w: 1.0],
}
