"""The infimum over trees in the corollaries of Blanchard (1999), by one (min, +) pass over the graph of cells."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pactree_mcmc.core.checks import read_numbers
from pactree_mcmc.model import TreeModel
from pactree_mcmc.model.split_prior.geometry import parts_rows, told
from pactree_mcmc.tree.arrays import LEAF
from pactree_mcmc.tree.tree import Tree

from ...answers import best_sums
from ...graph.building import build_graph
from ...graph.cells import CellGraph, pack_graph
from ...limits.intractable import check_cells
from ...recursion.draws import as_draws, grow
from ...recursion.inside_outside import CELL, FEATURE
from ...recursion.terms import by_slot, with_terms
from ...semirings.algebras import Best
from .global_splitting import splitting_graph
from .kullback import KLBound, check_mixture, kl_bound
from .stages import route


class KLInfimum(NamedTuple):
    """The tree with the smallest divergence plus bound, and both parts."""

    tree: Tree
    """Its leaf values are those that E determines."""
    divergence: float
    """Mean over the rows of the divergence of the truth from the tree with its best leaf probabilities, nats."""
    bound: KLBound
    """What the corollary adds for this tree."""

    @property
    def total(self) -> float:
        """The right-hand side of the corollary: no tree has a smaller one."""
        return self.divergence + self.bound.total


def kl_infimum(model: TreeModel, truth: Any, *, splits: str = "corollary", max_cells: int = 20_000_000) -> KLInfimum:
    """Returns the infimum over all trees and leaf probabilities on the right of Corollaries 1 and 2, and the tree that
    has it.

    ``min over m of { min over theta of H(P, M_(m, theta)) + kl_bound(model, m).total }``, with the divergence from the
    true probabilities averaged over the rows of the model.

    Parameters
    ----------
    model : TreeModel
        As for `kl_bound`.
    truth : array-like of shape (n, K)
        Probabilities of the classes at each row of X, as in a simulation. With the labels themselves (one 1 in each
        row) the divergence is the mean log loss of the best tree on these rows, a plug-in and no bound.
    splits : {"corollary", "counted", "global"}, default "corollary"
        As for `kl_bound`; "global" sums over structures, for small problems.
    max_cells : int, default 20,000,000
        Cells allowed, and pairs of a structure and a set of rows for "global".

    Returns
    -------
    KLInfimum

    Raises
    ------
    ValueError
        As for `kl_bound`; if ``truth`` does not hold probabilities for each row; or with "corollary" under local cuts
        if a feature is nominal, whose term is that of "counted".
    Intractable
        If there are more cells.

    Notes
    -----
    The divergence of a leaf with its best probabilities, those of its mean row, adds over leaves, and so does every
    term of the bound: one pass of `best_log_weight`, time and memory as for `solve`, plus the rows of all cells.

    References
    ----------
    .. [1] Blanchard (1999), The "progressive mixture" estimator for regression trees, Annales de l'I.H.P. 35(6).

    Examples
    --------
    >>> import numpy as np, pactree_mcmc as pt
    >>> x = np.arange(200.0)[:, None]
    >>> p = np.where(x < 99.5, 0.9, 0.2)
    >>> model = pt.TreeModel(x, np.arange(200) % 2, estimation=0.5, leaf=pt.FrozenLaplace(),
    ...                      tree_prior=pt.BranchingProcess(0.5, 3), split_prior=pt.DyadicCuts(3))
    >>> found = kl_infimum(model, np.hstack([p, 1.0 - p]))
    >>> found.tree.n_leaves, round(found.divergence, 4), round(found.total, 4)
    (2, 0.0, 0.0404)
    """
    stages = check_mixture(model, splits)
    probability = _read_truth(truth, model)
    check_cells(max_cells)
    graph = splitting_graph(model, int(max_cells)) if splits == "global" else build_graph(model, int(max_cells))
    if splits == "corollary" and told(parts_rows, model.split_prior):
        graph = _with_corollary(model, graph)
    cost = _divergences(model, graph, probability)
    best = with_terms(
        graph,
        log_stop=(graph.log_stop - by_slot(graph, graph.score)) / stages.number
        - by_slot(graph, cost + (model.target.n_classes - 1) / (stages.frozen + 1)),
        log_split=graph.log_split / stages.number,
        log_rule=graph.log_rule / stages.number,
    )
    grown = grow(model, best, Best(best_sums(best)), [0])
    leaves = grown.nodes[grown.nodes[:, FEATURE] == LEAF, CELL]
    tree = as_draws(model, graph, grown).distinct_tree(0)
    divergence = max(float(cost[leaves].sum()), 0.0)
    return KLInfimum(tree, divergence, kl_bound(model, tree, splits=splits, max_cells=int(max_cells)))


def _read_truth(truth: Any, model: TreeModel) -> np.ndarray:
    p = read_numbers("truth", truth)
    wanted = (model.n_rows, model.target.n_classes)
    if p.shape != wanted:
        raise ValueError(f"truth has shape {p.shape}; give a probability for each row and class: {wanted}.")
    if not (p >= 0.0).all() or not np.allclose(p.sum(axis=1), 1.0, atol=1e-9):
        raise ValueError("truth holds rows that are not probabilities; give numbers >= 0 that sum to 1 in each row.")
    return p


def _with_corollary(model: TreeModel, graph: CellGraph) -> CellGraph:
    """The graph of local cuts whose splits are not paid for one by one, but by ``log(N + 1)`` at each leaf."""
    if model.columns.is_nominal.any():
        raise ValueError(
            "a feature is nominal, and Corollary 2 counts the cuts of ordered ones; give splits='counted'."
        )
    owner = np.repeat(np.arange(graph.n_cells), np.diff(graph.first_edge))
    pair = owner * model.n_features + graph.feature
    _, place, count = np.unique(pair, return_inverse=True, return_counts=True)
    return graph._replace(
        log_rule=graph.log_rule + np.log(count)[place.reshape(-1)],
        log_stop=graph.log_stop - np.log(model.n_rows + 2),
    )


def _divergences(model: TreeModel, graph: CellGraph, probability: np.ndarray) -> np.ndarray:
    """Sum over the rows of each cell (n_cells,) of the divergence of their truth from its mean there, over n."""
    columns = model.columns
    unit = np.arange(model.n_rows) if model.unit_of_row is None else model.unit_of_row
    codes = np.ascontiguousarray(model.units.codes[:, unit])
    routed = route(pack_graph(graph), codes, columns.is_nominal[columns.source], model.n_rows)
    with np.errstate(divide="ignore", invalid="ignore"):
        own = np.where(probability > 0.0, probability * np.log(probability), 0.0).sum(axis=1)
    value = np.column_stack([probability, own])[routed.place]
    ends = np.concatenate([np.zeros((1, value.shape[1])), np.cumsum(value, axis=0)])
    total = ends[routed.first[1:]] - ends[routed.first[:-1]]
    mass = np.maximum(total[:, :-1], 0.0)
    rows = np.maximum(np.diff(routed.first), 1)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(mass > 0.0, mass * np.log(mass / rows), 0.0).sum(axis=1)
    return (total[:, -1] - mean) / model.n_rows
