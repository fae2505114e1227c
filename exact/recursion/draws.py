"""Trees taken from a graph from the root down, and as draws like those of a chain."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Literal

import numpy as np

from pactree_mcmc.core.checks import Seed, check_count, read_generator
from pactree_mcmc.core.compile.pack import pack
from pactree_mcmc.model import TreeModel
from pactree_mcmc.posterior.base import Posterior
from pactree_mcmc.posterior.joining import join_independent
from pactree_mcmc.posterior.sampled import SampledPosterior
from pactree_mcmc.tree.arrays import LEAF
from pactree_mcmc.tree.coded import CodedTrees
from pactree_mcmc.tree.tree import Tree

from ..graph.boxes import unpack_cuts
from ..graph.cells import CellGraph, pack_graph
from .inside_outside import CELL, FEATURE, RIGHT, SPLIT, Grown, grow_trees


def grow(model: TreeModel, graph: CellGraph, semiring: Any, wanted: Any, rng: Any = None) -> Grown:
    """Return the trees that the semiring chooses, one for each entry of ``wanted``, which the semiring explains."""
    which = np.asarray(wanted, dtype=np.int64)
    return grow_trees(read_generator(rng), pack_graph(graph), semiring, which, pack(model.lowered))


def as_draws(model: TreeModel, graph: CellGraph, grown: Grown) -> SampledPosterior:
    """Return trees grown from the root down as draws of one chain."""
    nodes, offset = grown.nodes, grown.offset
    cell, feature, split = nodes[:, CELL], nodes[:, FEATURE], nodes[:, SPLIT]
    nominal = (feature != LEAF) & model.columns.is_nominal[model.columns.source[feature]]
    ordered = (feature != LEAF) & ~nominal
    cut, upper = np.where(ordered, unpack_cuts(split), 0)
    rows = graph.rows[cell]
    rows_left = np.append(rows[1:], 0)
    trees = CodedTrees(
        offset.astype(np.int64),
        feature.astype(np.int32),
        cut,
        upper,
        nodes[:, RIGHT].astype(np.int32),
        np.where(nominal, split, -1),
        (feature != LEAF) & (2 * rows_left >= rows),
    )
    log_prior = grown.log_prior + model.prior_tables.log_constant
    return join_independent(model, trees, graph.stats[cell], log_prior, grown.log_score)


class DrawsIndependently(Posterior):
    """Base of the exact posteriors: what follows from independent draws, which `sample` makes."""

    @abstractmethod
    def sample(self, draws: int = 1000, rng: Seed = None) -> SampledPosterior:
        """Return independent draws as a SampledPosterior of one chain."""

    def draw_trees(self, n: int, rng: Seed = None) -> list[Tree]:
        """Return ``n`` independent trees from the posterior."""
        if check_count("n", n, 0) == 0:
            return []
        draws = self.sample(n, rng)
        trees = [draws.distinct_tree(t) for t in range(draws.n_distinct_trees)]
        return [trees[int(t)] for t in draws.tree_of_draw[0]]

    def to_arviz(
        self,
        *,
        draws: int = 1000,
        rng: Seed = 0,
        log_likelihood: bool | Literal["exact"] = False,
        posterior_predictive: bool = False,
        expectation: Any = False,
    ) -> Any:
        """Return ``draws`` independent draws for ArviZ, in the format of `SampledPosterior.to_arviz`."""
        rng = read_generator(rng)
        return self.sample(draws, rng).to_arviz(
            rng=rng, log_likelihood=log_likelihood, posterior_predictive=posterior_predictive, expectation=expectation
        )
