"""Implementation of `exact.solve` and `exact.visited`: the posterior over all trees, or those made of drawn pieces."""

from __future__ import annotations

import math

import numpy as np

from pactree_mcmc.core.checks import check_count, check_flag, check_type
from pactree_mcmc.model import TreeModel
from pactree_mcmc.posterior.evidence import prior_mass
from pactree_mcmc.posterior.sampled import SampledPosterior
from pactree_mcmc.posterior.trees.features import prior_inclusion

from .graph.build import build_graph, build_visited, refuse_shared_leaves, store_interrupted
from .graph.cells import CellGraph
from .limits import Limit, check_cells, stage
from .posterior import ExactPosterior
from .recursion.rows import is_fixed_design
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
        with stage(progress, "summing", graph.n_cells) as bar:
            return ExactPosterior(model, graph, log_sums(graph, bar))
    except KeyboardInterrupt:
        store_interrupted(model, graph)
        raise


class VisitedPosterior(ExactPosterior):
    """The posterior over the trees in a part of the graph of cells, returned by `visited`.

    All methods of `ExactPosterior` are exact for the trees that consist of cells and splits of ``graph``. So
    ``log_evidence`` is a lower bound, and any probability differs from that under the whole posterior by at most
    ``1 - coverage``.

    Attributes
    ----------
    model, graph, log_inside
        As of `ExactPosterior`.
    log_evidence_of_all : float or None
        Log evidence of all trees, nats, as estimated by the run; None if there is no estimate.
    """

    def __init__(self, model: TreeModel, graph: CellGraph, log_evidence_of_all: float | None = None) -> None:
        super().__init__(model, graph)
        self.log_evidence_of_all = log_evidence_of_all

    @property
    def coverage(self) -> float | None:
        """Posterior probability of the trees in ``graph``; None if the log evidence of all trees is unknown."""
        if self.log_evidence_of_all is None:
            return None
        return math.exp(min(0.0, self.log_evidence - self.log_evidence_of_all))

    def _log_prior_mass(self) -> float:
        """Return the log mass of the prior over all trees, also those outside the graph, without the constant."""
        log_mass = prior_mass(self.model).log_mass
        if log_mass is None:
            raise ValueError(f"the mass of {self.model.tree_prior!r} requires the sum over all trees; use exact.solve.")
        return log_mass - self.model.prior_tables.log_constant

    @property
    def _log_mass_of_draws(self) -> float | None:
        return None

    # the graph lacks trees of the prior
    prior_inclusion = prior_inclusion

    def __repr__(self) -> str:
        fraction = "" if self.coverage is None else f", {self.coverage:.3f} of the posterior"
        sizes = f"{self.graph.n_cells} cells, {self.graph.n_edges} splits"
        return f"VisitedPosterior(log_evidence>={self.log_evidence:.6f}{fraction}, {sizes})"


def visited(post: SampledPosterior, grow: int = 0, *, max_cells: int = 20_000_000) -> VisitedPosterior:
    """Return the posterior over all trees that consist of cells and splits of drawn trees.

    A thousand draws may be a thousand different trees, but most of their cells recur. Far more trees consist of the
    same cells and splits, and the exact engine sums over all of them.

    Parameters
    ----------
    post : SampledPosterior
        Draws of chains, or trees from `posterior_from_trees`.
    grow : {0, 1, 2}, default 0
        0: the cells and splits of drawn trees. 1: also every split of these cells whose children are both among them.
        2: every split of these cells, with the children that were not drawn as leaves.
    max_cells : int, default 20,000,000
        As for `solve`; of importance for ``grow=2``.

    Returns
    -------
    VisitedPosterior
        Posterior with all methods of `ExactPosterior`, for these trees. ``log_evidence`` never exceeds that of all.

    Raises
    ------
    TypeError
        If ``post`` is not a SampledPosterior.
    ValueError
        If ``grow`` is not one of these, or the score is not a sum over leaves.
    Intractable
        If there are more than ``max_cells`` cells, or they do not fit into memory.

    Notes
    -----
    Formulas, section 12.4. The splits of every visited cell are counted once, for R(split | cell): time O(cells p
    rows), and for ``grow=2`` memory for all their splits. For a fixed design the sum is over all trees.

    Examples
    --------
    >>> import numpy as np, exact, pactree_mcmc as pt
    >>> x = np.arange(12.0)
    >>> model = pt.TreeModel(x[:, None], x > 5)
    >>> truth = exact.solve(model)
    >>> pieces = exact.visited(truth.sample(100, rng=1))
    >>> 100 < pieces.n_trees < truth.n_trees, pieces.log_evidence < truth.log_evidence
    (True, True)
    """
    check_type("post", post, SampledPosterior, "draws of trees")
    check_count("grow", grow, 0, 2)
    limit, model = Limit(check_cells(max_cells)), post.model
    refuse_shared_leaves(model)
    if is_fixed_design(model):
        complete = VisitedPosterior(model, build_graph(model, max_cells))
        complete.log_evidence_of_all = complete.log_evidence
        return complete
    trees = post.draws.coded_trees.take(np.unique(post.draws.tree_of_draw))
    return VisitedPosterior(model, build_visited(model, trees, grow, limit), post.log_evidence)
