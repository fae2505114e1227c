"""exact.solve: the posterior by dynamic programming, with the reading interface of a sampled one."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from pactree_mcmc.model import TreeModel, pack_model
from pactree_mcmc.model._coding import DyadicScale, Scale
from pactree_mcmc.model._questions import CYCLIC, LOCAL, LOCAL_TRIVIAL
from pactree_mcmc.posterior import SAVED_TREE, Posterior, SampledPosterior, Saved
from pactree_mcmc.trees import CODED_NODE, LEAF, Tree

from ._builder import UPPER_BITS
from ._paths import DyadicPaths, TreePaths, is_fixed_design, sum_paths
from .graph import CellGraph, build_graph
from .recursion import (
    CELL,
    FEATURE,
    QUESTION,
    RIGHT,
    Router,
    average_rows,
    expect,
    grow_trees,
    inside,
    outside,
    pack_graph,
)
from .semirings import LOG, MAX

TAIL = 1e-14
COLUMN_BYTES = 1 << 28


class CellProbabilities(NamedTuple):
    """How often each cell of the graph occurs in a tree of the posterior; a probability where the cell holds rows."""

    leaf: np.ndarray
    """(n_cells,): as a leaf."""
    split: np.ndarray
    """(n_cells,): split."""


def solve(model: TreeModel, *, max_cells: int = 20_000_000) -> ExactPosterior:
    """Sum over all trees of the model by dynamic programming.

    Parameters
    ----------
    model : TreeModel
        Any tree prior and question prior; a leaf whose score separates over the leaves.
    max_cells : int, default 20,000,000
        Cells allowed; a cell takes some hundred bytes, each of its questions 28.

    Returns
    -------
    ExactPosterior

    Raises
    ------
    Intractable
        If the sum needs more cells; most hopeless problems are refused before anything is built.
    ValueError
        If the leaf score does not separate, or ``max_cells`` is not positive.
    TypeError
        If the model is not a TreeModel.

    Notes
    -----
    Cells are row sets (LocalCuts), boxes (GridCuts, DyadicCuts) or nodes (FixedTree). Time and memory are
    proportional to the number of (cell, question) pairs, times the depths a cell can lie at when the prior tells
    them apart (formula sheet, section 6; Goodman 1999 for the semirings).

    Examples
    --------
    >>> from pactree_mcmc import ChipmanPrior
    >>> truth = solve(TreeModel([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1], tree_prior=ChipmanPrior(0.5, 1.0)))
    >>> round(truth.log_evidence, 6)
    -3.024796
    >>> truth.n_leaves_pmf().round(3).tolist()
    [0.0, 0.343, 0.429, 0.197, 0.031]
    """
    if not isinstance(model, TreeModel):
        raise TypeError(f"model is a {type(model).__name__}; give a TreeModel.")
    if not isinstance(max_cells, int | np.integer) or isinstance(max_cells, bool) or max_cells < 1:
        raise ValueError(f"max_cells={max_cells!r} is out of range; give an integer >= 1.")
    if not model.leaf.separates:
        raise ValueError(
            f"the score of {type(model.leaf).__name__} is not a sum over leaves; the exact engine cannot use it: "
            "give what the leaves share (NormalKnownVariance(sigma2, m0, k0)), or sample."
        )
    return ExactPosterior(model, build_graph(model, int(max_cells)))


class ExactPosterior(Posterior):
    """The posterior over all trees of a model; made by `solve`.

    Attributes
    ----------
    model : TreeModel
    graph : CellGraph
        Cells and questions.
    log_inside : ndarray of shape (n_slots,), float64
        Log sum over the trees below each slot, relative to the prior's constant; entry 0 is the root's.
    """

    def __init__(self, model: TreeModel, graph: CellGraph) -> None:
        self.model, self.graph = model, graph
        self._packed = pack_graph(graph)
        self.log_inside = inside(self._packed, LOG)

    @property
    def log_evidence(self) -> float:
        """Log of the sum over all trees of prior times likelihood, nats; relative to ``C_P`` under LeafPenalty."""
        return float(self.log_inside[0] + self.model.prior_tables.log_constant)

    @cached_property
    def _best(self) -> SampledPosterior:
        grown = grow_trees(
            np.random.default_rng(0), self._packed, inside(self._packed, MAX), 1, MAX, pack_model(self.model.lowered)
        )
        return self._as_draws(grown)

    @property
    def map_log_joint(self) -> float:
        """Log prior plus log score of the most probable tree, nats."""
        return float(self._best.log_prior[0] + self._best.log_score[0])

    def map_tree(self) -> Tree:
        """The most probable tree."""
        return self._best.tree(0)

    def n_leaves_pmf(self) -> np.ndarray:
        """Law of the number of leaves; entry m is P(m leaves), exact to about 1e-13.

        The generating function at roots of unity, inverted by FFT; enough of them that the mass they cannot tell
        apart is below 1e-14 by Chernoff's bound.
        """
        size = 32
        while not self._tail_is_negligible(size):
            size *= 2
        points = np.exp(-2j * np.pi * np.arange(size // 2 + 1) / size)
        pmf = np.fft.irfft(self._expect(points, np.full(len(points), -1)), size)
        pmf = np.where(pmf < 1e-15, 0.0, pmf)
        return pmf[: np.flatnonzero(pmf)[-1] + 1]

    def _tail_is_negligible(self, size: int) -> bool:
        if self.model.questions.kind == LOCAL and size > self.model.units.n_units:
            return True
        log_bound = np.log(self._tilted) - size * np.log(self._tilts)
        return bool(np.min(log_bound) < np.log(TAIL))

    _tilts = np.array([1.02, 1.1, 1.5, 3.0, 10.0, 1e3])

    @cached_property
    def _tilted(self) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):
            values = self._expect(self._tilts.astype(np.complex128), np.full(len(self._tilts), -1)).real
        return np.where(np.isfinite(values), values, np.inf)

    def feature_inclusion(self) -> np.ndarray:
        """Probability (p,) that a feature is asked about at least once."""
        p = self.model.n_features
        return 1.0 - self._expect(np.ones(p, dtype=np.complex128), np.arange(p)).real.clip(0.0, 1.0)

    def _expect(self, leaf: np.ndarray, banned: np.ndarray) -> np.ndarray:
        """`expect`, a few columns at a time when memory asks for it."""
        at_once = max(1, COLUMN_BYTES // (16 * self.graph.n_slots))
        parts = [
            expect(self._packed, self.log_inside, leaf[j : j + at_once], banned[j : j + at_once].astype(np.int64))
            for j in range(0, len(leaf), at_once)
        ]
        return np.concatenate(parts)

    def root_split_pmf(self) -> dict:
        """Law of the root: None (no split), (feature, threshold), or (feature, frozenset going left) -> probability."""
        graph, model = self.graph, self.model
        edges = slice(int(graph.first_edge[0]), int(graph.first_edge[1]))
        out: dict = {None: float(np.exp(graph.log_stop[0] - self.log_inside[0]))}
        if graph.log_split[0] == -np.inf:
            return out
        left, right = (self._slots_below_root(c[edges]) for c in (graph.left, graph.right))
        log_share = graph.log_split[0] + graph.log_rule[edges] + self.log_inside[left] + self.log_inside[right]
        share = np.exp(log_share - self.log_inside[0])
        for e, probability in zip(range(edges.start, edges.stop), share.tolist(), strict=True):
            k, question = int(graph.feature[e]), int(graph.question[e])
            if model.columns.categories[k] is not None:
                key: tuple = (k, model.columns.label_set(k, question))
            else:
                cut, upper = np.array([question >> UPPER_BITS]), np.array([question & 0xFFFFFFFF])
                key = (k, float(model.scales[k].threshold(cut, upper)[0]))
            out[key] = out.get(key, 0.0) + probability
        return out

    def _slots_below_root(self, cells: np.ndarray) -> np.ndarray:
        graph = self.graph
        return graph.first_slot[cells] + 1 - graph.depth[cells] if graph.layered else cells

    def cell_probabilities(self) -> CellProbabilities:
        """Leaf and split probabilities of every cell of ``graph``."""
        occurs = outside(self._packed, self.log_inside)
        leaf = occurs * np.exp(self.graph.log_stop - self.log_inside)
        first = self.graph.first_slot[:-1]
        return CellProbabilities(np.add.reduceat(leaf, first), np.add.reduceat(occurs - leaf, first))

    def draw_trees(self, n: int, rng: Any = None) -> list[Tree]:
        """``n`` independent trees from the posterior."""
        draws = self.sample(n, rng)
        made = {int(t): draws.tree(int(t)) for t in range(draws.n_trees)}
        return [made[int(t)] for t in draws.tree_of_draw[0]]

    def sample(self, draws: int = 1000, rng: Any = None) -> SampledPosterior:
        """Independent draws as a SampledPosterior of one chain.

        Parameters
        ----------
        draws : int, default 1000
            Number of draws, >= 1.
        rng : int, SeedSequence, Generator or None
            Source of randomness.

        Raises
        ------
        ValueError
            If ``draws`` is not positive.
        """
        if not isinstance(draws, int | np.integer) or isinstance(draws, bool) or draws < 1:
            raise ValueError(f"draws={draws!r} is out of range; give an integer >= 1.")
        model = pack_model(self.model.lowered)
        generator = np.random.default_rng(rng)
        return self._as_draws(grow_trees(generator, self._packed, self.log_inside, int(draws), LOG, model))

    def _as_draws(self, grown: Any) -> SampledPosterior:
        nodes, offset = grown.nodes, grown.offset
        cell, feature, question = nodes[:, CELL], nodes[:, FEATURE], nodes[:, QUESTION]
        nominal = (feature != LEAF) & self.model.columns.is_nominal[feature]
        ordered = (feature != LEAF) & ~nominal
        node = np.zeros(len(nodes), dtype=CODED_NODE)
        node["feature"], node["right"] = feature, nodes[:, RIGHT]
        node["cut"], node["upper"] = np.where(ordered, [question >> UPPER_BITS, question & 0xFFFFFFFF], 0)
        node["categories"] = np.where(nominal, question, -1)
        rows = self.graph.rows[cell]
        rows_left = np.append(rows[1:], 0)
        node["default_left"] = (feature != LEAF) & (2 * rows_left >= rows)
        tree = np.zeros(len(offset), dtype=SAVED_TREE).view(np.recarray)
        tree.start = offset
        tree.log_prior[:-1] = grown.log_prior + self.model.prior_tables.log_constant
        tree.log_score[:-1] = grown.log_score
        n = len(offset) - 1
        saved = Saved(
            np.arange(n),
            np.full(n, np.nan),
            np.zeros((n, 2, 0), dtype=np.int64),
            tree,
            node,
            self.graph.stats[cell],
            np.zeros(3),
        )
        return SampledPosterior.from_chains(self.model, [saved], (), 0.0)

    @cached_property
    def cell_values(self) -> np.ndarray:
        """What each cell predicts as a leaf, (n_cells, d)."""
        return np.ascontiguousarray(self.model.leaf.value(self.graph.stats, self.model.target))

    @cached_property
    def _router(self) -> Router:
        model = self.model
        local = model.questions.kind in (LOCAL, LOCAL_TRIVIAL)
        lows = [s.low if local and isinstance(s, Scale) else np.empty(0) for s in model.scales]
        highs = [s.high if local and isinstance(s, Scale) else np.empty(0) for s in model.scales]
        offset = np.concatenate([[0], np.cumsum([len(a) for a in lows])[:-1]]).astype(np.int64)
        low, high = np.concatenate([*lows, [0.0]]), np.concatenate([*highs, [0.0]])
        return Router(local, low, high, offset, model.n_codes, model.columns.is_nominal)

    @cached_property
    def _paths(self) -> DyadicPaths | TreePaths:
        """Prediction on a fixed design."""
        kind = DyadicPaths if self.model.questions.kind == CYCLIC else TreePaths
        leaf, split = self.cell_probabilities()
        return kind(self.model, self.graph, sum_paths(self.graph, leaf, split, self.cell_values))

    def _values(self, X: np.ndarray) -> np.ndarray:
        if is_fixed_design(self.model):
            return self._paths(X)
        codes = np.zeros(X.shape, dtype=np.int64)
        if not self._router.local:
            for k, scale in enumerate(self.model.scales):
                if self.model.columns.categories[k] is None:
                    x = X[:, k]
                    codes[:, k] = scale.encode(x) if isinstance(scale, DyadicScale) else np.searchsorted(scale.cuts, x)
        return average_rows(self._packed, self.log_inside, self._router, X, codes, self.cell_values)

    def to_arviz(self, *, draws: int = 1000, rng: Any = 0, log_likelihood: bool = False) -> Any:
        """``draws`` independent draws for ArviZ, as `SampledPosterior.to_arviz` lays them out."""
        return self.sample(draws, rng).to_arviz(log_likelihood=log_likelihood)

    def summary(self) -> Any:
        """Table (a DataFrame) of log_evidence, n_leaves, and the most probable tree's leaves and log joint."""
        import pandas as pd

        pmf = self.n_leaves_pmf()
        mean = pmf @ np.arange(len(pmf))
        rows = {
            "log_evidence": self.log_evidence,
            "n_leaves (mean)": mean,
            "n_leaves (sd)": float(np.sqrt(max(pmf @ np.arange(len(pmf)) ** 2 - mean**2, 0.0))),
            "best tree: leaves": self.map_tree().n_leaves,
            "best tree: log joint": self.map_log_joint,
            "cells": self.graph.n_cells,
            "questions": self.graph.n_edges,
        }
        return pd.DataFrame({"value": rows})

    def __repr__(self) -> str:
        return (
            f"ExactPosterior(log_evidence={self.log_evidence:.6f}, {self.graph.n_cells} cells, "
            f"{self.graph.n_edges} questions)"
        )
