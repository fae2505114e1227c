"""exact.visited: the posterior over all trees that consist of cells and splits of drawn trees."""

from __future__ import annotations

import math

import numpy as np

from pactree_mcmc.core.checks import check_count, check_type
from pactree_mcmc.model import TreeModel
from pactree_mcmc.posterior.evidence import prior_mass
from pactree_mcmc.posterior.sampled import SampledPosterior
from pactree_mcmc.posterior.trees.cells import as_divergence

from .graph.building import build_graph
from .graph.cells import CellGraph
from .graph.visited import build_visited
from .limits.intractable import Limit, check_cells
from .posterior import ExactPosterior
from .recursion.paths import is_fixed_design


class VisitedPosterior(ExactPosterior):
    """The posterior over the trees in a part of the graph of cells, returned by `visited`, and by `solve` with a
    budget.

    All methods of `ExactPosterior` are exact for the trees in ``graph``: those that consist of its cells and
    splits. ``log_evidence`` is the log of their part of the evidence, and hence a lower bound of the log evidence;
    any probability differs from that under the whole posterior by at most ``1 - coverage``.

    Attributes
    ----------
    model, graph, log_inside
        As of `ExactPosterior`.
    log_evidence_of_all : float or None
        Log evidence of all trees, nats, as estimated by the run; None if it was not.
    log_evidence_bound : float
        Upper bound of it, nats; infinite if none is known.
    no_bound : str or None
        Reason why `solve` with a budget has no upper bound; None if it has one, or without a budget.
    """

    def __init__(
        self,
        model: TreeModel,
        graph: CellGraph,
        log_evidence_of_all: float | None = None,
        log_evidence_bound: float = math.inf,
        no_bound: str | None = None,
    ) -> None:
        super().__init__(model, graph)
        self.log_evidence_of_all, self.log_evidence_bound = log_evidence_of_all, log_evidence_bound
        self.no_bound = no_bound

    @property
    def coverage(self) -> float | None:
        """Posterior probability of the trees in ``graph``, by the estimated log evidence of all trees.

        A lower bound if only an upper bound of the evidence is known; None if neither is.
        """
        whole = self.log_evidence_bound if self.log_evidence_of_all is None else self.log_evidence_of_all
        return None if whole == math.inf else math.exp(min(0.0, self.log_evidence - whole))

    def kl_to_prior(self) -> float:
        """Return the divergence from the prior over all trees, nats.

        Raises
        ------
        ValueError
            If the mass of the prior is unknown, as under LeafPenalty: it requires the sum over all trees.
        """
        log_mass = prior_mass(self.model).log_mass
        if log_mass is None:
            raise ValueError(f"the mass of {self.model.tree_prior!r} requires the sum over all trees; use exact.solve.")
        gain, log_ratio = float(self.cell_probabilities().leaf @ self.graph.score), self.log_evidence - log_mass
        return as_divergence(gain - log_ratio, abs(gain) + abs(log_ratio))

    def __repr__(self) -> str:
        fraction = "" if self.coverage is None else f", {self.coverage:.3f} of the posterior"
        return (
            f"VisitedPosterior(log_evidence>={self.log_evidence:.6f}{fraction}, {self.graph.n_cells} cells, "
            f"{self.graph.n_edges} splits)"
        )


def visited(post: SampledPosterior, grow: int = 0, *, max_cells: int = 20_000_000) -> VisitedPosterior:
    """Return the posterior over all trees that consist of cells and splits of drawn trees.

    A thousand draws may be a thousand different trees, but most of their cells recur. Far more trees consist of the
    same cells and splits, and the recursions of the exact engine sum over all of them. This gives a lower bound of the
    evidence, among others.

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
        Posterior with all methods of `ExactPosterior`, for these trees: the most probable trees, odds between trees,
        root and inclusion probabilities, predictions, draws and so on. ``log_evidence`` never exceeds that of all
        trees.

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
    Formula sheet, section 12.4. The splits of every visited cell are counted once, for R(split | cell): time O(cells
    times p times their rows), and for ``grow=2`` memory for all their splits. For a fixed design the sum is over all
    trees, as in `solve`.

    Examples
    --------
    >>> import numpy as np, exact, pactree_mcmc as pt
    >>> x = np.arange(12.0)
    >>> model = pt.TreeModel(x[:, None], x > 5)
    >>> truth = exact.solve(model)
    >>> pieces = exact.visited(truth.sample(100, rng=1))
    >>> pieces.n_trees
    171
    >>> round(truth.log_evidence - pieces.log_evidence, 3)
    0.232
    """
    check_type("post", post, SampledPosterior, "draws of trees")
    check_count("grow", grow, 0, 2)
    limit, model = Limit(check_cells(max_cells)), post.model
    if not model.leaf.separates:
        raise ValueError(f"the score of {type(model.leaf).__name__} is not a sum over leaves, as the recursion needs.")
    if is_fixed_design(model):
        return whole(model, build_graph(model, max_cells))
    drawn = post.coded_trees.take(np.unique(post.tree_of_draw))
    return VisitedPosterior(model, build_visited(model, drawn, grow, limit), post.log_evidence)


def whole(model: TreeModel, graph: CellGraph) -> VisitedPosterior:
    """Return the posterior over all trees as a `VisitedPosterior`."""
    post = VisitedPosterior(model, graph)
    post.log_evidence_of_all = post.log_evidence_bound = post.log_evidence
    return post
