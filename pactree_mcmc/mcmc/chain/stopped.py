"""Error messages about the cell whose score is not finite, which stopped a chain."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...model import TreeModel
from ...model.leaf.compiled import leaf_score
from ...model.model import NotFinite, PathSplit, not_finite
from ..state.records import NONE
from ..state.tree import ChainState


@contextmanager
def name_cell_in_errors(model: TreeModel, chains: Iterable[Any]) -> Iterator[None]:
    """Run the ``with`` block. If the score of a cell of a chain is not finite, raise an error that names the cell."""
    try:
        yield
    except FloatingPointError as error:
        existing = list(chains)
        for chain in existing:
            cell_error = _error_of_chain(model, chain)
            if cell_error is not None:
                raise cell_error from error
        root = model.root_cell()
        stats = root.stats(model.leaf.n_stats(model.target))
        what, score = "a cell", float(leaf_score(model.lowered.leaf, stats[None], 0))
        if existing or np.isfinite(score):
            # the score is not a sum over cells
            what, score = "a tree, whose cells are all finite,", model.leaf.log_tree_score(stats[None], model.target)
        raise not_finite(model, [], what, root.n_rows, stats, score) from error


def _error_of_chain(model: TreeModel, chain: Any) -> NotFinite | None:
    """Return the error about the cell that stopped this chain, or None if no cell did."""
    state = chain.state
    node, is_side = int(state.scratch.failed_node[0]), bool(state.scratch.failed_node[1])
    if not 0 <= node < len(state.node):
        return None
    here = state.node[node]
    if not np.isfinite(here.score + here.guess):
        return not_finite(model, _splits_above(state, node), "a cell", here.rows, state.stats[node], here.score)
    scan, informed = state.scratch.scan, state.scratch.informed
    if is_side and not np.isfinite(informed.score).all():
        i, what = int(np.argmin(np.isfinite(informed.score))), "a leaf below another split of a node"
        rows, stats, score = int(informed.failed_rows[0]), informed.sums[i], float(informed.score[i])
        return not_finite(model, _splits_above(state, node), what, rows, stats, score)
    if is_side and np.isnan(scan.gain).any():
        split = int(np.argmax(np.isnan(scan.gain)))
        scores = [float(leaf_score(chain.lowered.proposal_leaf, side, split)) for side in (scan.left, scan.right)]
        rows = int(scan.rows_left[split])
        path = _splits_above(state, node)
        if not np.isfinite(scores[0]):
            return not_finite(model, path, "the left side of a possible split", rows, scan.left[split], scores[0])
        rows = int(here.rows) - rows
        return not_finite(model, path, "the right side of a possible split", rows, scan.right[split], scores[1])
    return None


def _splits_above(state: ChainState, node: int) -> list[PathSplit]:
    """Return the splits on the path from the root to a node, each with the side of the path."""
    out: list[PathSplit] = []
    while (number := int(state.node[node].parent)) != NONE:
        parent = state.node[number]
        is_left = int(parent.left) == node
        out.append(PathSplit(int(parent.feature), int(parent.cut), int(parent.upper), int(parent.categories), is_left))
        node = number
    return out[::-1]
