"""Trees taken from a graph from the root down, and as draws like those of a chain."""

from __future__ import annotations

from typing import Any

import numpy as np

from pactree_mcmc.core.checks import read_generator
from pactree_mcmc.core.compile.structs import pack
from pactree_mcmc.model import TreeModel
from pactree_mcmc.posterior.joining import join_independent
from pactree_mcmc.posterior.sampled import SampledPosterior
from pactree_mcmc.tree.arrays import LEAF
from pactree_mcmc.tree.coded import CodedTrees

from ..graph.boxes import UPPER_BITS
from ..graph.cells import CellGraph
from ..graph.packed import pack_graph
from .inside_outside import CELL, FEATURE, RIGHT, SPLIT, Grown, grow_trees


def grow(model: TreeModel, graph: CellGraph, semiring: Any, wanted: Any, rng: Any = None) -> Grown:
    """Trees that the semiring chooses, one for each entry of ``wanted``, in the semiring's terms."""
    which = np.asarray(wanted, dtype=np.int64)
    return grow_trees(read_generator(rng), pack_graph(graph), semiring, which, pack(model.lowered))


def as_draws(model: TreeModel, graph: CellGraph, grown: Grown) -> SampledPosterior:
    """Trees grown from the root down as draws of one chain."""
    nodes, offset = grown.nodes, grown.offset
    cell, feature, split = nodes[:, CELL], nodes[:, FEATURE], nodes[:, SPLIT]
    nominal = (feature != LEAF) & model.columns.is_nominal[model.columns.source[feature]]
    ordered = (feature != LEAF) & ~nominal
    cut, upper = np.where(ordered, [split >> UPPER_BITS, split & 0xFFFFFFFF], 0)
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
