"""exact.solve: the sums over all trees of a model, and its posterior."""

from __future__ import annotations

from pactree_mcmc.core.checks import check_count, check_flag
from pactree_mcmc.model import TreeModel

from .graph.building import build_graph, keep_graph
from .limits.anytime import grow_best_first
from .limits.intractable import Limit, check_cells
from .posterior import ExactPosterior
from .recursion.leaf_counts import build_with_leaf_counts
from .recursion.paths import is_fixed_design
from .visited import whole


def solve(
    model: TreeModel, *, max_cells: int = 20_000_000, budget: int | None = None, progress: bool = True
) -> ExactPosterior:
    """Return the posterior over all trees of the model, by dynamic programming.

    Parameters
    ----------
    model : TreeModel
        With any tree prior and split prior, and a leaf model whose tree score is a sum over leaves.
    max_cells : int, default 20,000,000
        Largest number of cells; a cell takes some hundred bytes, each of its splits 28.

    budget : int, optional
        Cells after which to stop, >= 1: cells are looked at best first, and what is not reached by then becomes a bound
        in place of a refusal.
    progress : bool, default True
        If True, show a bar on the standard error once the cells, or the sums over them, take more than a second. Under
        local cuts it shows the estimated cells, memory and processor time.

    Returns
    -------
    ExactPosterior
        With ``budget`` a `VisitedPosterior`, whose ``log_evidence`` is a lower bound, equal to the sum where all cells
        fit, and ``log_evidence_bound`` an upper one, infinite where none is known: ``no_bound`` says why. It is far
        off until nearly all cells are seen.

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

    The upper bound takes for each cell that was not looked at the best partition of its rows into so many parts, times
    the prior mass of the trees with so many leaves, summed over their number. It exists for the leaves of labels,
    counts and times, and for `NormalInverseGamma` and `NormalKnownVariance` (by the n rows whose y are nearest to each
    other), under a prior whose mass is known.

    Under `LeafCountPrior` and `CatalanExponential` the sums are over cells with a number of leaves below (see there),
    and a call after Ctrl-C begins anew.

    Under local cuts the size of the graph is estimated from 400 random boxes, if it may have more than some thousands
    of cells. A problem is refused if even three standard errors below the estimate it is too large. The estimated
    processor time comes from the speed of one machine and may be off by a factor of two or three.

    Ctrl-C stops within a second. The cells built so far are kept until the next call, which goes on with them if it has
    the same model.

    Examples
    --------
    >>> from pactree_mcmc import ChipmanPrior
    >>> truth = solve(TreeModel([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1], tree_prior=ChipmanPrior(0.5, 1.0)))
    >>> round(truth.log_evidence, 6)
    -3.024796
    >>> truth.n_leaves_pmf().round(3).tolist()
    [0.0, 0.343, 0.429, 0.197, 0.031]
    """
    if not isinstance(model, TreeModel):
        raise TypeError(f"model is a {type(model).__name__}; give a TreeModel.")
    check_cells(max_cells)
    if not model.leaf.separates:
        raise ValueError(
            f"the score of {type(model.leaf).__name__} is not a sum over leaves; the exact engine cannot use it: "
            "give what the leaves share (NormalKnownVariance(sigma2, m0, k0)), or sample."
        )
    check_flag("progress", progress)
    if budget is None and len(model.prior_tables.by_leaves):
        return ExactPosterior(model, build_with_leaf_counts(model, max_cells, progress=progress), progress=progress)
    if budget is None:
        graph = build_graph(model, max_cells, progress=progress)
        try:
            return ExactPosterior(model, graph, progress=progress)
        except KeyboardInterrupt:
            keep_graph(model, graph)
            raise
    if is_fixed_design(model):
        return whole(model, build_graph(model, max_cells))
    return grow_best_first(model, check_count("budget", budget), Limit(max_cells))


ExactPosterior._solve = staticmethod(solve)
