"""Implementation of `exact.solve`: the posterior over all trees of a model."""

from __future__ import annotations

from pactree_mcmc.core.checks import check_flag
from pactree_mcmc.model import TreeModel

from .graph.build import build_graph, refuse_shared_leaves, store_interrupted
from .limits import check_cells, stage
from .posterior import ExactPosterior
from .sums import log_sums


def solve(model: TreeModel, *, max_cells: int = 20_000_000, progress: bool = True) -> ExactPosterior:
    """Return the posterior over all trees of the model, by dynamic programming.

    Parameters
    ----------
    model : TreeModel
        Model with any tree prior and split prior, and a leaf model whose tree score is a sum over leaves.
    max_cells : int, default 20,000,000
        Largest number of cells; a cell takes some hundred bytes, each of its splits 28.
    progress : bool, default True
        If True, show a bar on the standard error once a stage takes more than a second.

    Returns
    -------
    ExactPosterior

    Raises
    ------
    Intractable
        If the sum needs more cells, or more memory than is available. Problems that are far too large are refused
        before anything is built. The message names two settings to lower.
    ValueError
        If the tree score is not a sum over leaves, ``max_cells`` is not positive, or the score of a cell is not finite.
    TypeError
        If the model is not a TreeModel.

    Notes
    -----
    Cells are row sets (LocalCuts), boxes (GridCuts, DyadicCuts) or nodes (FixedTree). Time and memory are
    proportional to the number of (cell, split) pairs, times the number of depths at which a cell can occur if the tree
    prior depends on depth (formulas, section 6; Goodman 1999 for the semirings).

    Ctrl-C stops within a second. The next call goes on with the cells built so far if it has the same model.

    Examples
    --------
    >>> from pactree_mcmc import ChipmanPrior, TreeModel
    >>> truth = solve(TreeModel([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1], tree_prior=ChipmanPrior(0.5, 1.0)))
    >>> round(truth.log_evidence, 6)
    -3.024796
    >>> truth.n_leaves_pmf().round(3).tolist()
    [0.0, 0.343, 0.429, 0.197, 0.031]
    """
    if not isinstance(model, TreeModel):
        raise TypeError(f"model is a {type(model).__name__}; give a TreeModel.")
    check_cells(max_cells)
    refuse_shared_leaves(model)
    check_flag("progress", progress)
    graph = build_graph(model, max_cells, progress=progress)
    try:
        with stage(progress, "summing", graph.n_cells, "cells") as bar:
            return ExactPosterior(model, graph, log_sums(graph, bar))
    except KeyboardInterrupt:
        store_interrupted(model, graph)
        raise
