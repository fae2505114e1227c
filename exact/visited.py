"""exact.visited: the posterior over all trees that can be put together from the pieces of draws."""

from __future__ import annotations

import math

import numpy as np

from pactree_mcmc.core.checks import check_count, check_type
from pactree_mcmc.model import TreeModel
from pactree_mcmc.posterior.divergence import as_divergence
from pactree_mcmc.posterior.evidence import prior_mass
from pactree_mcmc.posterior.sampled import SampledPosterior

from .graph.cells import CellGraph, build_graph
from .graph.limits import Limit, check_cells
from .graph.visited import build_visited
from .posterior import ExactPosterior
from .recursion.paths import is_fixed_design


class VisitedPosterior(ExactPosterior):
    """The posterior over the trees whose pieces were drawn; made by `visited`, and by `solve` within a budget.

    Everything an `ExactPosterior` answers is exact for the trees in ``graph``: those put together from cells and splits
    that draws passed through. Its ``log_evidence`` is their part of the evidence, so a lower bound of it, and what it
    says of the whole posterior is wrong by no more than ``1 - coverage`` in any probability.

    Attributes
    ----------
    model, graph, log_inside
        As of `ExactPosterior`.
    log_evidence_of_all : float or None
        Log evidence of all trees, nats, as the draws estimated it; None where they did not.
    log_evidence_bound : float
        Upper bound of it, nats; infinite where there is none.
    """

    def __init__(
        self,
        model: TreeModel,
        graph: CellGraph,
        log_evidence_of_all: float | None = None,
        log_evidence_bound: float = math.inf,
    ) -> None:
        super().__init__(model, graph)
        self.log_evidence_of_all, self.log_evidence_bound = log_evidence_of_all, log_evidence_bound

    @property
    def coverage(self) -> float | None:
        """Probability of the graph's trees under the whole posterior: as draws estimated its evidence, or at least.

        At least where only an upper bound of the evidence is known; None where neither is.
        """
        whole = self.log_evidence_bound if self.log_evidence_of_all is None else self.log_evidence_of_all
        return None if whole == math.inf else math.exp(min(0.0, self.log_evidence - whole))

    def kl_to_prior(self) -> float:
        """Divergence from the prior over all trees, nats.

        Raises
        ------
        ValueError
            If the mass of the prior is not known, as under LeafPenalty: only the sum over all trees tells it.
        """
        log_mass = prior_mass(self.model).log_mass
        if log_mass is None:
            raise ValueError(f"only the sum over all trees tells the mass of {self.model.tree_prior!r}: exact.solve.")
        gain, log_ratio = float(self.cell_probabilities().leaf @ self.graph.score), self.log_evidence - log_mass
        return as_divergence(gain - log_ratio, abs(gain) + abs(log_ratio))

    def __repr__(self) -> str:
        fraction = "" if self.coverage is None else f", {self.coverage:.3f} of the posterior"
        return (
            f"VisitedPosterior(log_evidence>={self.log_evidence:.6f}{fraction}, {self.graph.n_cells} cells, "
            f"{self.graph.n_edges} splits)"
        )


def visited(post: SampledPosterior, grow: int = 0, *, max_cells: int = 20_000_000) -> VisitedPosterior:
    """Sum over all trees that can be put together from the pieces of draws: a lower bound of the evidence, and more.

    A thousand draws are a thousand different trees, but they pass through the same cells again and again. The trees
    made of the same pieces are very many more, and the recursions of the exact engine sum over them.

    Parameters
    ----------
    post : SampledPosterior
        Draws of chains, or trees from `posterior_from_trees`.
    grow : {0, 1, 2}, default 0
        0: the cells and splits that drawn trees have. 1: every split of these cells that leads to two of them as well.
        2: every split of theirs, with children that were not drawn as leaves.
    max_cells : int, default 20,000,000
        As of `solve`; matters for ``grow=2``.

    Returns
    -------
    VisitedPosterior
        With the best tree, the k best, odds between trees, root and inclusion probabilities, predictions, draws and all
        else that an `ExactPosterior` answers, of these trees. ``log_evidence`` never exceeds that of all trees.

    Raises
    ------
    TypeError
        If ``post`` is no SampledPosterior.
    ValueError
        If ``grow`` is none of these, or the leaf score does not separate over leaves.
    Intractable
        If there are more than ``max_cells``, or they do not fit the memory.

    Notes
    -----
    Formula sheet, section 12.4. The splits of every visited cell are counted once, as R(split | cell) needs it: time
    O(cells times p times their rows), and for ``grow=2`` memory for all their splits. Of a fixed design, `solve` sums
    over all trees as fast, and this does.

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
        raise ValueError(f"the score of {type(model.leaf).__name__} is not a sum over leaves; pieces have no sum.")
    if is_fixed_design(model):
        return whole(model, build_graph(model, max_cells))
    drawn = post.coded_trees.take(np.unique(post.tree_of_draw))
    return VisitedPosterior(model, build_visited(model, drawn, grow, limit), post.log_evidence)


def whole(model: TreeModel, graph: CellGraph) -> VisitedPosterior:
    """The posterior over all trees as one over trees that are known, with nothing left out."""
    log_evidence = VisitedPosterior(model, graph).log_evidence
    return VisitedPosterior(model, graph, log_evidence, log_evidence)
