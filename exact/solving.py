"""Implementation of `exact.solve` and `exact.visited`: posteriors over all trees, or those of a part of the graph."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pactree_mcmc.core.checks import check_count, check_flag, check_type
from pactree_mcmc.model import TreeModel
from pactree_mcmc.posterior.evidence import prior_mass
from pactree_mcmc.posterior.sampled import SampledPosterior

from .answers import log_sum, log_sums, occurrences
from .graph.build import ADD, expand_some
from .graph.building import Building, build_graph, refuse_shared_leaves, store_interrupted
from .graph.cells import CellGraph, is_flat, with_slots
from .graph.visited import build_visited
from .limits.ceilings import Ceiling, ceiling_of, sum_points
from .limits.intractable import Limit, check_cells
from .posterior import ExactPosterior
from .recursion.new_rows import is_fixed_design
from .recursion.terms import by_slot, with_terms


class VisitedPosterior(ExactPosterior):
    """The posterior over the trees in a part of the graph of cells, returned by `visited`, and by `solve` with a
    budget.

    All methods of `ExactPosterior` are exact for the trees that consist of cells and splits of ``graph``. So
    ``log_evidence`` is a lower bound, and any probability differs from that under the whole posterior by at most
    ``1 - coverage``.

    Attributes
    ----------
    model, graph, log_inside
        As of `ExactPosterior`.
    log_evidence_of_all : float or None
        Log evidence of all trees, nats, as estimated by the run; None if there is no estimate.
    log_evidence_bound : float
        Upper bound of the log evidence of all trees, nats; infinite if none is known.
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
        log_of_all = self.log_evidence_bound if self.log_evidence_of_all is None else self.log_evidence_of_all
        return None if log_of_all == math.inf else math.exp(min(0.0, self.log_evidence - log_of_all))

    def _log_prior_mass(self) -> float:
        """Return the log mass of the prior over all trees, also those outside the graph, without the constant."""
        log_mass = prior_mass(self.model).log_mass
        if log_mass is None:
            raise ValueError(f"the mass of {self.model.tree_prior!r} requires the sum over all trees; use exact.solve.")
        return log_mass - self.model.prior_tables.log_constant

    def __repr__(self) -> str:
        fraction = "" if self.coverage is None else f", {self.coverage:.3f} of the posterior"
        return (
            f"VisitedPosterior(log_evidence>={self.log_evidence:.6f}{fraction}, {self.graph.n_cells} cells, "
            f"{self.graph.n_edges} splits)"
        )


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
        return as_visited(model, build_graph(model, max_cells))
    trees = post.coded_trees.take(np.unique(post.tree_of_draw))
    return VisitedPosterior(model, build_visited(model, trees, grow, limit), post.log_evidence)


def as_visited(model: TreeModel, graph: CellGraph) -> VisitedPosterior:
    """Return the posterior over the trees of a complete graph as a `VisitedPosterior` with coverage 1."""
    post = VisitedPosterior(model, graph)
    post.log_evidence_of_all = post.log_evidence_bound = post.log_evidence
    return post


ROUND_GROWTH = 0.5
"""Number of cells expanded (whose splits are listed) in a round, divided by the number expanded before."""
GAIN_POWER, LARGEST_GAIN = 0.3, 50.0
"""Power of the largest possible gain of a cell in `Frontier.expected_gain`, and the largest exponent there."""
ROUNDS_PER_BOUND = 5
"""Period, in rounds, of the rounds that expand the cells that contribute most to the upper bound."""


class Frontier:
    """The cells of a graph that are not expanded (their splits are not listed), with bounds of the sums below them.

    ``is_open`` (n_cells,) is True for these cells. ``sums`` (n_cells, r) are those from which ``ceiling`` (a `Ceiling`)
    computes bounds. ``ceiling`` may also be the reason, as text, why there are no bounds.
    """

    def __init__(self, model: TreeModel, graph: CellGraph, is_open: np.ndarray, ceiling: Any, sums: np.ndarray) -> None:
        self.graph, self.is_open = graph, by_slot(graph, is_open) & (graph.log_split > -np.inf)
        self.is_bounded = isinstance(ceiling, Ceiling)
        # without a bound the value of the cell as a leaf takes its place
        self.log_bound = np.where(self.is_open, graph.log_split + by_slot(graph, graph.score), -np.inf)
        if isinstance(ceiling, Ceiling):
            slots = np.flatnonzero(self.is_open)
            cell = np.repeat(np.arange(graph.n_cells), np.diff(graph.first_slot))[slots]
            depth = np.zeros(graph.n_slots, dtype=np.int64) if is_flat(model) else graph.slot_depth()
            self.log_bound[slots] = ceiling.log_upper_bound(sums[cell], depth[slots])

    def upper_graph(self) -> CellGraph:
        """Return the graph with an upper bound of the sum over trees below as the weight of each unexpanded leaf.

        The splits of an unexpanded cell are not in the graph yet.
        """
        return with_terms(self.graph, log_stop=np.logaddexp(self.graph.log_stop, self.log_bound))

    def log_upper(self) -> float:
        """Return the log of an upper bound of the sum over all trees, without the constant of the prior.

        Return inf if there are unexpanded cells (their splits are not in the graph yet) without bounds.
        """
        if not self.is_open.any():
            return log_sum(self.graph)
        return log_sum(self.upper_graph()) if self.is_bounded else np.inf

    def expected_gain(self) -> np.ndarray:
        """Return the likely gain, arbitrarily scaled, of expanding each cell (adding its splits), (n_cells,).

        This is the probability of the cell as a leaf in the graph so far, times a power of (bound / weight as a leaf).
        It is 0 for expanded cells. The bound itself is too loose for this: by it alone the engine would expand only the
        largest cells and never reach a probable tree.
        """
        graph, log_inside = self.graph, log_sums(self.graph)
        log_leaf = graph.log_stop - log_inside
        gain = np.where(self.is_open, np.minimum(GAIN_POWER * (self.log_bound - graph.log_stop), LARGEST_GAIN), 0.0)
        leaf = np.where(self.is_open, occurrences(graph, log_inside).slot * np.exp(log_leaf), 0.0)
        return np.add.reduceat(leaf * np.exp(np.maximum(gain, 0.0)), graph.first_slot[:-1])

    def excess(self) -> np.ndarray:
        """Return the fraction (n_cells,) of the upper bound on the sum that is due to the bound below each cell."""
        graph = self.upper_graph()
        log_inside = log_sums(graph)
        part = np.where(self.is_open, occurrences(graph, log_inside).slot * np.exp(self.log_bound - log_inside), 0.0)
        return np.add.reduceat(part, graph.first_slot[:-1])


def grow_best_first(model: TreeModel, budget: int, limit: Limit) -> VisitedPosterior:
    """Return the posterior over a part of the graph, built best first, with a bound for the rest.

    The cells that are expected to add most to the sum are expanded (their splits added), until none is left or there
    are ``budget`` cells. Raise Intractable beyond ``limit``.
    """
    building, is_expanded, n_rounds = Building(model, limit), np.zeros(0, dtype=bool), 0
    ceiling = ceiling_of(model, building.points)
    values = ceiling.values if isinstance(ceiling, Ceiling) else np.zeros((building.points.codes.shape[1], 0))
    sums, cells_to_expand = np.zeros((0, values.shape[1])), np.zeros(1, dtype=np.int64)
    while True:
        building.start_round()
        building.run(expand_some, cells_to_expand, budget, ADD)
        n_rounds, n_summed = n_rounds + 1, len(sums)
        sums = np.concatenate([sums, np.zeros((building.n_cells - n_summed, values.shape[1]))])
        is_expanded = np.concatenate([is_expanded, np.zeros(building.n_cells - n_summed, dtype=bool)])
        is_expanded[cells_to_expand[: building.n_expanded]] = True
        building.apply(sum_points, n_summed, values, sums)
        columns, number_in_arrays = building.graph_columns()
        graph = with_slots(model, columns)
        frontier = Frontier(model, graph, ~is_expanded[number_in_arrays], ceiling, sums[number_in_arrays])
        if not frontier.is_open.any() or building.n_cells >= budget:
            upper = frontier.log_upper() + model.prior_tables.log_constant
            no_bound = ceiling if isinstance(ceiling, str) and upper == np.inf else None
            return VisitedPosterior(model, graph, None, upper, no_bound)
        lowers_bound = frontier.is_bounded and n_rounds % ROUNDS_PER_BOUND == 0
        gain = frontier.excess() if lowers_bound else frontier.expected_gain()
        n_to_expand = max(1, int(ROUND_GROWTH * is_expanded.sum()))
        best = np.argsort(-gain, kind="stable")[:n_to_expand]
        cells_to_expand = number_in_arrays[best[gain[best] > 0.0]]
        if not len(cells_to_expand):
            no_split = ~is_expanded[number_in_arrays] & (np.diff(graph.first_edge) == 0)
            cells_to_expand = number_in_arrays[np.flatnonzero(no_split)[:n_to_expand]]


def solve(
    model: TreeModel, *, max_cells: int = 20_000_000, budget: int | None = None, progress: bool = True
) -> ExactPosterior:
    """Return the posterior over all trees of the model, by dynamic programming.

    Parameters
    ----------
    model : TreeModel
        Model with any tree prior and split prior, and a leaf model whose tree score is a sum over leaves.
    max_cells : int, default 20,000,000
        Largest number of cells; a cell takes some hundred bytes, each of its splits 28.
    budget : int, optional
        Number of cells after which to stop, >= 1. The most promising cells come first. The trees that are left out
        enter the upper bound.
    progress : bool, default True
        If True, show a bar on the standard error once a stage takes more than a second. Under local cuts it shows the
        estimated cells, memory and processor time.

    Returns
    -------
    ExactPosterior
        With ``budget`` a `VisitedPosterior`. Its ``log_evidence`` is a lower bound, exact if all cells fit. Its
        ``log_evidence_bound`` is an upper bound, far too large until nearly all cells are expanded. It is infinite if
        no bound is known (``no_bound`` gives the reason).

    Raises
    ------
    Intractable
        If the sum needs more cells, or more memory than is available; most intractable problems are refused before
        anything is built. The message, and ``fits`` of the error, name settings that would be tractable.
    ValueError
        If the tree score is not a sum over leaves, ``max_cells`` is not positive, or the score of a cell is not finite.
    TypeError
        If the model is not a TreeModel.

    Notes
    -----
    Cells are row sets (LocalCuts), boxes (GridCuts, DyadicCuts) or nodes (FixedTree). Time and memory are
    proportional to the number of (cell, split) pairs, times the number of depths at which a cell can occur if the tree
    prior depends on depth (formulas, section 6; Goodman 1999 for the semirings).

    Under local cuts the size of a large graph is estimated from 400 random boxes. A problem is refused if it is too
    large even three standard errors below the estimate. The estimated time may be off by a factor of two or three.

    The upper bound with ``budget`` is described in `exact.limits.ceilings`. It exists for the leaves of labels, counts
    and times, `NormalInverseGamma` and `NormalKnownVariance`, under a prior whose mass is known.

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
    if budget is None:
        graph = build_graph(model, max_cells, progress=progress)
        try:
            return ExactPosterior(model, graph, progress=progress)
        except KeyboardInterrupt:
            store_interrupted(model, graph)
            raise
    if is_fixed_design(model):
        return as_visited(model, build_graph(model, max_cells))
    return grow_best_first(model, check_count("budget", budget), Limit(max_cells))
