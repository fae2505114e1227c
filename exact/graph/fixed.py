"""Graph of a fixed tree: its nodes are the cells, in preorder, so that no cell is searched for."""

from __future__ import annotations

from typing import Any

import numpy as np

from pactree_mcmc.core.bits import goes_left
from pactree_mcmc.core.compile.jit import jit
from pactree_mcmc.core.compile.pack import pack
from pactree_mcmc.model import TreeModel
from pactree_mcmc.model.data import add_unit
from pactree_mcmc.model.leaf.compiled import add_scores_into
from pactree_mcmc.tree.arrays import LEAF

from .boxes import pack_cuts


def build_fixed(model: TreeModel) -> dict[str, np.ndarray]:
    """Return cells and edges of a model with a fixed tree as columns of a graph. Time O(nodes + units times depth)."""
    packed = pack(model.lowered)
    design, shape = model.lowered.split_prior.design, model.shape
    stats, rows = np.zeros((len(design), model.lowered.leaf.n_stats)), np.zeros(len(design), dtype=np.int64)
    sum_down_paths_into(stats, rows, packed)
    kept = np.flatnonzero(shape.depth <= model.prior_tables.depth_limit)
    number = np.zeros(len(design), dtype=np.int32)
    number[kept] = np.arange(len(kept), dtype=np.int32)
    split = np.flatnonzero(shape.inner(model.prior_tables.depth_limit))
    has_edge = np.zeros(len(kept), dtype=np.int64)
    has_edge[number[split]] = 1
    feature, cut = design.feature[split], design.cut[split]
    return {
        "first_edge": np.concatenate([[0], np.cumsum(has_edge)]),
        "left": number[split + 1],
        "right": number[design.right[split]],
        "feature": feature.astype(np.int32),
        "split": np.where(model.columns.is_nominal[feature], design.categories[split], pack_cuts(cut, cut + 1)),
        "log_rule": np.zeros(len(split)),
        "rows": rows[kept],
        "stats": stats[kept],
        "score": cell_scores(packed, stats[kept]),
        "design": kept.astype(np.int32),
        "depth": shape.depth[kept].astype(np.int64),
    }


@jit
def sum_down_paths_into(stats: np.ndarray, rows: np.ndarray, model: Any) -> None:
    """Add every unit to each node on its path."""
    design, units = model.split_prior.design, model.units
    codes = units.codes
    for i in range(codes.shape[1]):
        node = 0
        while True:
            rows[node] += units.rows[i & units.rows_all]
            add_unit(stats, np.int64(node), units, np.int64(i))
            k = design[node].feature
            if k == LEAF:
                break
            left = goes_left(np.int64(codes[k, i]), design[node].cut, design[node].categories)
            node = node + 1 if left else design[node].right


@jit
def cell_scores(model: Any, stats: np.ndarray) -> np.ndarray:
    """Return the log scores (n_cells,) of cells with ``stats``, nats."""
    out = np.zeros(len(stats))
    add_scores_into(out, model.leaf, stats, len(stats))
    return out
