"""Trees taken from a graph from the root down, and as draws like those of a chain."""

from __future__ import annotations

from typing import Any

import numpy as np

from pactree_mcmc.core.checks import read_generator
from pactree_mcmc.model import TreeModel, pack_model
from pactree_mcmc.posterior.sampled import SampledPosterior
from pactree_mcmc.tree.arrays import CODED_NODE, LEAF
from pactree_mcmc.tree.drawn import SAVED_TREE, Saved

from ..graph.boxes import UPPER_BITS
from ..graph.cells import CellGraph
from ..graph.packed import pack_graph
from .inside_outside import CELL, FEATURE, QUESTION, RIGHT, Grown, grow_trees


def grow(model: TreeModel, graph: CellGraph, semiring: Any, wanted: Any, rng: Any = None) -> Grown:
    """Trees that the semiring chooses, one for each entry of ``wanted``, in the semiring's terms."""
    which = np.asarray(wanted, dtype=np.int64)
    return grow_trees(read_generator(rng), pack_graph(graph), semiring, which, pack_model(model.lowered))


def as_draws(model: TreeModel, graph: CellGraph, grown: Grown) -> SampledPosterior:
    """Trees grown from the root down as draws of one chain."""
    nodes, offset = grown.nodes, grown.offset
    cell, feature, question = nodes[:, CELL], nodes[:, FEATURE], nodes[:, QUESTION]
    nominal = (feature != LEAF) & model.columns.is_nominal[model.columns.source[feature]]
    ordered = (feature != LEAF) & ~nominal
    node = np.zeros(len(nodes), dtype=CODED_NODE)
    node["feature"], node["right"] = feature, nodes[:, RIGHT]
    node["cut"], node["upper"] = np.where(ordered, [question >> UPPER_BITS, question & 0xFFFFFFFF], 0)
    node["categories"] = np.where(nominal, question, -1)
    rows = graph.rows[cell]
    rows_left = np.append(rows[1:], 0)
    node["default_left"] = (feature != LEAF) & (2 * rows_left >= rows)
    tree = np.zeros(len(offset), dtype=SAVED_TREE).view(np.recarray)
    tree.start = offset
    tree.log_prior[:-1] = grown.log_prior + model.prior_tables.log_constant
    tree.log_score[:-1] = grown.log_score
    n = len(offset) - 1
    saved = Saved(
        np.arange(n),
        np.full(n, np.nan),
        np.zeros((n, 2, 0), dtype=np.int64),
        tree,
        node,
        graph.stats[cell],
        np.zeros(3),
    )
    return SampledPosterior.from_chains(model, [saved], (), 0.0)
