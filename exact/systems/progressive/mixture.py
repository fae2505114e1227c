"""The exact progressive mixture: the mean of the posteriors after 0, 1, ..., all test examples (the stages)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from pactree_mcmc.core.checks import Seed, check_count, check_flag, check_type, read_generator
from pactree_mcmc.core.compile.jit import pack
from pactree_mcmc.model import TreeModel
from pactree_mcmc.model.leaf.base import Target
from pactree_mcmc.model.rows import UnitStats
from pactree_mcmc.posterior.distribution import OTHER_LEAVES, MostProbable
from pactree_mcmc.posterior.laws import RowLaw
from pactree_mcmc.posterior.posterior import Posterior
from pactree_mcmc.posterior.sampled import SampledPosterior
from pactree_mcmc.tree.coded import RootKey

from ...graph.boxes import unpack_cuts
from ...graph.build import build_graph, refuse_shared_leaves
from ...graph.cells import CellGraph, pack_graph, refuse_not_finite, with_feature_numbers
from ...limits import Intractable, check_cells
from ...posterior import ExactPosterior, exact_summary, named_root_pmf
from ...recursion.inside_outside import CELL, PARENT, RIGHT, GrownTrees, Occurrences, grow_trees
from ...recursion.rows import Router, is_fixed_design, mean_leaf_values
from ...recursion.semirings import LogSum
from ...recursion.trees import as_draws
from ...rows import CellProbabilities, GraphRows, NewRows
from ...sums import depth_distribution, log_sums, mean_products, occurrences, size_distribution
from .global_splitting import check_global, splitting_graph
from .stages import Examples, UnrolledGraph, list_cell_examples, log_sums_over_stages, mean_root_pmf, unroll_graph

if TYPE_CHECKING:
    import pandas as pd

MAX_COPIES_PER_PASS = 1 << 20
"""Number of copies of cells whose leaf values are computed together, which limits the memory."""


class Order(NamedTuple):
    """One division of the rows into E, which determines the leaves, and S, the test examples, with the order of S."""

    estimation: np.ndarray | None  # (n,) bool: the rows of E; None if leaves are not frozen
    staged: np.ndarray  # int64: rows of S in the order in which they enter


def progressive_mixture(
    model: TreeModel,
    *,
    orders: int = 1,
    resplit: bool = False,
    global_splitting: bool = False,
    rng: Seed = None,
    max_cells: int = 20_000_000,
) -> ProgressiveMixture:
    """Return the mean of the posteriors after 0, 1, ..., all test examples (Catoni; Blanchard 1999, sections 2 to 4).

    With a frozen leaf model the rows of E (``estimation=`` of the model) determine the leaves, and those of S enter one
    by one; rows of weight zero add no stage. Other leaf models have no E: all rows enter in turn, and a stage predicts
    with leaves estimated from the examples so far.

    Parameters
    ----------
    model : TreeModel
        Model with any tree prior and split prior, and a leaf model whose tree score is a sum over leaves.
    orders : int, default 1
        Number of orders of S to average over, >= 1. A single order is that of the data, several are random.
    resplit : bool, default False
        If True, divide the sample randomly into E and S for each order, of the same sizes as in the model.
    global_splitting : bool, default False
        If True, replace the split prior of the model, which must be ``LocalCuts(trivial=True)``, by the global
        splitting prior (`solve_global_splitting`). This is the estimator of equation 9, with the rows of the model as
        the points that are divided. `data_dependent_mixture` counts the new row among these points.
    rng : int, SeedSequence, Generator or None
        Source of randomness for the orders.
    max_cells : int, default 20,000,000
        Largest number of cells, and of copies of cells: the sum over cells of 1 + the number of their test examples.

    Raises
    ------
    Intractable
        If more cells or copies are needed.
    ValueError
        If the tree score is not a sum over leaves, no row is left in S, or ``resplit`` or ``global_splitting`` does not
        fit the model.

    Notes
    -----
    Time and memory O(N d) for N rows on a fixed design of depth d: a cell's posterior changes only when one of its own
    examples enters. On other graphs: the sum over cells of splits times examples.
    Blanchard (1999), The "progressive mixture" estimator for regression trees, Annales de l'I.H.P. 35(6).

    Examples
    --------
    >>> import numpy as np, pactree_mcmc as pt
    >>> x = np.arange(8.0)[:, None]
    >>> model = pt.TreeModel(x, [0, 0, 0, 0, 1, 1, 1, 1], estimation=[True, False] * 4, leaf=pt.FrozenLaplace(),
    ...                      tree_prior=pt.BranchingProcess(0.5, 2), split_prior=pt.DyadicCuts(2))
    >>> progressive_mixture(model).predict_proba([[0.0], [7.0]]).round(4).tolist()
    [[0.6398, 0.3602], [0.3615, 0.6385]]
    """
    check_type("model", model, TreeModel, "a TreeModel")
    check_count("orders", orders)
    check_cells(max_cells)
    check_flag("resplit", resplit)
    if check_flag("global_splitting", global_splitting):
        check_global(model)
    if model.leaf.x_columns is not None or not model.leaf.predicts:
        raise ValueError(
            f"{model.leaf!r} {'looks at columns of X' if model.leaf.predicts else 'has no predict='}, and the mean "
            "over stages stores a prediction for each cell: use pt.progressive_mixture(model)."
        )
    refuse_shared_leaves(model)
    drawn_orders = _draw_orders(model.target, model.leaf.uses_estimation, int(orders), resplit, rng)
    build = splitting_graph if global_splitting else build_graph
    return ProgressiveMixture(model, build(model, int(max_cells)), drawn_orders, int(max_cells), not global_splitting)


def _draw_orders(target: Target, uses_estimation: bool, orders: int, resplit: bool, rng: Any) -> list[Order]:
    """Return the orders (``orders`` of them) in which test examples enter."""
    # ``target`` has the labels and the mask of E.
    # a single order is that of the data, unless ``resplit`` is True. Several orders are random. With ``resplit``
    # each order divides the sample anew into E, which determines the leaves, and the test examples S. Without
    # ``uses_estimation`` E is empty. Rows of weight 0 are in no S.
    estimation = target.estimation if uses_estimation else None
    if resplit and estimation is None:
        raise ValueError("resplit=True divides the sample anew, and the model has no E; give estimation=, or drop it")
    counted, generator, out = target.weights > 0.0, read_generator(rng), []
    for _ in range(orders):
        mask = estimation
        if resplit and estimation is not None:
            mask = estimation.copy()
            mask[counted] = generator.permutation(estimation[counted])
        staged = np.flatnonzero(counted if mask is None else counted & ~mask)
        if len(staged) == 0:
            raise ValueError("S is empty: every row is in E or of weight zero; leave some rows to weigh the trees.")
        out.append(Order(mask, staged if orders == 1 and not resplit else generator.permutation(staged)))
    return out


class StageSums:
    """Sums over all stages of each order. Stage t is the posterior after t test examples; the last result is stored."""

    def __init__(self, model: TreeModel, graph: CellGraph, orders: list[Order], max_cells: int) -> None:
        self.model, self.graph, self.orders, self.max_cells = model, graph, orders, max_cells
        self._last: tuple[int, Any] = (-1, None)

    def of_order(self, number: int) -> tuple[UnrolledGraph, np.ndarray, Occurrences]:
        """Return the graph unrolled over the stages of order ``number``, its log sums, and its expected occurrences."""
        if self._last[0] == number:
            return self._last[1]
        examples = _examples_in_order(self.model, self.orders[number])
        columns = self.model.columns
        nominal = columns.is_nominal[columns.source]
        cell_examples = list_cell_examples(pack_graph(self.graph), examples.codes, nominal, examples.n_before)
        n_copies = int(cell_examples.n_staged.sum()) + self.graph.n_cells
        if n_copies > self.max_cells:
            raise Intractable(n_copies, self.max_cells, "copies of cells, one for each of their examples")
        stages = unroll_graph(self.graph, pack(self.model.lowered), cell_examples, examples)
        refuse_not_finite(self.model, stages.graph._asdict())
        log_inside = log_sums_over_stages(stages)
        self._last = number, (stages, log_inside, occurrences(stages.graph, log_inside))
        return self._last[1]

    def mean_over_orders(self, answer: Callable[[CellGraph, np.ndarray, Occurrences], np.ndarray]) -> np.ndarray:
        """Return the mean over orders of what ``answer`` computes; shorter arrays are extended by zeros."""
        arrays = []
        for number in range(len(self.orders)):
            stages, log_inside, occurs = self.of_order(number)
            arrays.append(answer(stages.graph, log_inside, occurs))
        longest = max(len(array) for array in arrays)
        return np.mean([np.pad(array, (0, longest - len(array))) for array in arrays], axis=0)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_last": (-1, None)}


class StageRows(RowLaw):
    """Mean predictions over the stages. Distributions of places differ between stages, so that they are refused."""

    def __init__(self, sums: StageSums, mean: GraphRows) -> None:
        self.model, self.graph, self._sums, self._mean = sums.model, sums.graph, sums, mean

    def values(self, X: np.ndarray) -> np.ndarray:
        if is_fixed_design(self.model):
            return self._mean.values(X)
        by_stage = ~self._mean._code_rows(X).has_certain_cells
        out = np.empty((len(X), self._mean.place_values.shape[1]))
        out[~by_stage] = self._mean.values(X[~by_stage])
        if by_stage.any():
            out[by_stage] = self._values_by_stage(X[by_stage])
        return out

    def _values_by_stage(self, X: np.ndarray) -> np.ndarray:
        """Return the mean values (n, d) of the leaves that rows of numbers reach, from the stages of each order."""
        coded = self._mean._code_rows(X)
        intervals = _interval_numbers(self.model, self.graph, self._mean._router, coded)
        # rows that all splits send the same way are computed once
        _, first, of_row = np.unique(intervals, axis=0, return_index=True, return_inverse=True)
        # the stage is a split on an additional last feature, which sends every row to the left
        x, codes = (np.column_stack([table[first], np.zeros(len(first), table.dtype)]) for table in coded[:2])
        router, out = _router_with_stage(self._mean._router), np.zeros((len(first), self._mean.place_values.shape[1]))
        for number in range(len(self._sums.orders)):
            stages, log_inside, _ = self._sums.of_order(number)
            value = np.ascontiguousarray(self.model.leaf.value(stages.graph.stats, self.model.target))
            out += mean_leaf_values(stages.graph, log_inside, router, x, codes, value)
        return out[of_row.reshape(-1)] / len(self._sums.orders)

    def _refuse(self, *_: Any) -> NoReturn:
        raise ValueError(OTHER_LEAVES)

    reach = average = means_by_row = _refuse  # type: ignore[assignment]
    place_tree = place_stats = place_values = property(_refuse)


class MeanRows(GraphRows):
    """Places of a graph whose cells have given values."""

    def __init__(self, model: TreeModel, graph: CellGraph, log_inside: np.ndarray, values: np.ndarray) -> None:
        super().__init__(model, graph, log_inside)
        self._values = values

    @property
    def place_values(self) -> np.ndarray:
        return self._values


class ProgressiveMixture(Posterior):
    """The mean over stages of exact posteriors, returned by `progressive_mixture`.

    All results are exact means over stages and orders, except `map_tree` and `log_evidence`, which are those of the
    last stage. `n_leaves_pmf`, `feature_inclusion` and draws are computed from the stages again, order by order. So are
    predictions of rows whose cells depend on the path. Under local cuts on several features these are the rows that are
    not equal to a training row, otherwise those with an unknown category or a missing value.

    Attributes
    ----------
    model : TreeModel
    graph : CellGraph
        Cells and splits.
    stage_log_evidence : ndarray of shape (orders, stages), float64
        Log evidence of the examples seen at each stage, nats; its increments are the log predictive probabilities of
        the examples.
    """

    _odds_by_model = False

    def __init__(
        self, model: TreeModel, graph: CellGraph, orders: list[Order], max_cells: int, has_model_prior: bool = True
    ) -> None:
        self.model, self.graph, self._has_model_prior = model, graph, has_model_prior
        self._sums = StageSums(model, graph, orders, max_cells)
        leaf, by_edge, value = np.zeros(graph.n_cells), np.zeros(graph.n_edges), None
        evidence, roots = [], []
        for number in range(len(orders)):
            stages, log_inside, occurs = self._sums.of_order(number)
            evidence.append(log_inside[stages.roots] + model.prior_tables.log_constant)
            roots.append(mean_root_pmf(stages, log_inside))
            fraction = occurs.slot * np.exp(stages.graph.log_stop - np.maximum(log_inside, -1e300))
            by_copy = np.add.reduceat(fraction, stages.graph.first_slot[:-1])[1:-1]
            starts = np.searchsorted(stages.cell[1:-1], np.arange(graph.n_cells))
            leaf += np.add.reduceat(by_copy, starts)
            edges_of_cells = slice(stages.n_stages, None)  # all but those of the cell that chooses a stage
            by_edge += np.bincount(stages.edge[edges_of_cells], occurs.split[edges_of_cells], minlength=graph.n_edges)
            mean = self._mean_values(stages, by_copy, starts)
            value = mean if value is None else value + mean
        self.stage_log_evidence = np.array(evidence)
        self._root_pmf = np.mean([stop for stop, _ in roots]), np.mean([fraction for _, fraction in roots], axis=0)
        n = len(orders)
        assert value is not None
        self._mean = _mean_rows(model, graph, leaf / n, by_edge / n, value / n)
        self._rows = StageRows(self._sums, self._mean)
        estimation = model.target.estimation
        differs = any(np.any(order.estimation != estimation) for order in orders)
        self._has_leaf_values = model.leaf.uses_estimation and not differs

    def _mean_values(self, stages: UnrolledGraph, fraction: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """Return the sum (n_cells, d), over the copies of each cell, of P(the copy is a leaf) times its prediction."""
        out, stats = [], stages.graph.stats[1:-1]
        ends, begin = np.append(starts[1:], len(fraction)), 0
        while begin < len(starts):
            end = max(begin + 1, int(np.searchsorted(ends, starts[begin] + MAX_COPIES_PER_PASS, side="right")))
            span = slice(starts[begin], ends[end - 1])
            value = self.model.leaf.value(stats[span], self.model.target) * fraction[span, None]
            out.append(np.add.reduceat(value, starts[begin:end] - starts[begin], axis=0))
            begin = end
        return np.concatenate(out)

    @property
    def log_evidence(self) -> float | None:
        """Log evidence of all test examples S, that of the last stage, nats; None if each order has its own S."""
        estimations: list[Any] = [order.estimation for order in self._sums.orders]
        if not all(np.array_equal(one, estimations[0]) for one in estimations[1:]):
            return None
        return float(self.stage_log_evidence[0, -1])

    def kl_to_prior(self) -> float:
        raise ValueError("the mean over stages has no divergence from the prior that is known: use exact.solve(model).")

    def _root_split_pmf(self) -> dict[RootKey, float]:
        stop, fraction = self._root_pmf
        return named_root_pmf(self.model, self.graph, float(stop), fraction)

    def cell_probabilities(self) -> CellProbabilities:
        """Return the leaf and split probabilities of every cell of ``graph``, means over the stages."""
        return CellProbabilities(*(values.copy() for values in self._mean.cell_probabilities))

    def n_leaves_pmf(self) -> np.ndarray:
        # the empty leaf beside the stage counts as one more
        return self._sums.mean_over_orders(lambda *sums: size_distribution(*sums)[1:])

    def depth_pmf(self) -> np.ndarray:
        # the split that chooses the stage counts as one more level
        deepest = int(self.model.prior_tables.depth_limit) + 1
        return self._sums.mean_over_orders(lambda graph, sums, _: depth_distribution(graph, sums, deepest)[1:])

    def _feature_inclusion(self) -> np.ndarray:
        p = self.model.n_features

        def never(graph: CellGraph, log_inside: np.ndarray, occurs: Occurrences) -> np.ndarray:
            by_feature = with_feature_numbers(self.model, graph)
            return mean_products(by_feature, log_inside, occurs, np.ones(p), np.arange(p), p + 1)

        return 1.0 - self._sums.mean_over_orders(never).clip(0.0, 1.0)

    def _best(self, k: int) -> MostProbable:
        return ExactPosterior(self.model, self.graph)._best(k)  # that of the last stage

    def _sampled(self, draws: int, rng: Seed) -> SampledPosterior:
        return self.sample(draws, rng)

    def sample(self, draws: int = 1000, rng: Seed = None) -> SampledPosterior:
        """Return independent draws, each from a stage drawn uniformly, as a SampledPosterior of one chain.

        Scores and leaf values of the draws are those of the whole data; with frozen leaves values are the stage's too.
        """
        check_count("draws", draws)
        generator = read_generator(rng)
        counts = generator.multinomial(int(draws), np.full(len(self._sums.orders), 1.0 / len(self._sums.orders)))
        parts = [self._grow_from_order(number, int(n), generator) for number, n in enumerate(counts) if n > 0]
        ends = np.cumsum([0] + [len(g.nodes) for g in parts])
        offset = [g.offset[:-1] + end for g, end in zip(parts, ends[:-1], strict=True)]
        joined = GrownTrees(
            np.concatenate([g.nodes for g in parts]),
            np.concatenate([*offset, ends[-1:]]),
            np.concatenate([g.log_prior for g in parts]),
            np.concatenate([g.log_score for g in parts]),
        )
        facts = {"sees_all_rows": False, "has_model_prior": self._has_model_prior}
        return SampledPosterior(as_draws(self.model, self.graph, joined, **facts))

    def _grow_from_order(self, number: int, draws: int, rng: np.random.Generator) -> GrownTrees:
        """Draw trees from the unrolled graph of order ``number``, and return them as trees of the model's graph."""
        # the unrolled graph has a copy of each cell after each of its test examples. The root that chooses a stage
        # and the empty leaf beside it are removed.
        stages, log_inside, _ = self._sums.of_order(number)
        semiring = LogSum(log_inside, np.empty(0))
        tree_numbers, model = np.zeros(draws, dtype=np.int64), pack(self.model.lowered)
        trees = grow_trees(rng, pack_graph(stages.graph), semiring, tree_numbers, model)
        starts, ends = trees.offset[:-1], trees.offset[1:]
        keep = np.ones(len(trees.nodes), dtype=bool)
        keep[starts] = keep[ends - 1] = False
        nodes = trees.nodes[keep].copy()
        stage_of_draw = nodes[starts - 2 * np.arange(draws), CELL] - 1
        nodes[:, CELL] = stages.cell[nodes[:, CELL]]
        nodes[:, RIGHT] -= nodes[:, RIGHT] > 0
        nodes[:, PARENT] -= 1
        offset = trees.offset - 2 * np.arange(draws + 1)
        score = np.add.reduceat(np.where(nodes[:, RIGHT] == 0, self.graph.score[nodes[:, CELL]], 0.0), offset[:-1])
        return GrownTrees(nodes, offset, trees.log_prior - stages.graph.log_rule[stage_of_draw], score)

    def summary(self) -> pd.DataFrame:
        """Return a DataFrame of log_evidence, n_leaves, leaves of the most probable tree, cells and splits."""
        return exact_summary(self, self.graph)

    def __repr__(self) -> str:
        return (
            f"ProgressiveMixture({self.stage_log_evidence.shape[1]} stages, {len(self._sums.orders)} orders, "
            f"{self.graph.n_cells} cells, {self.graph.n_edges} splits)"
        )


def _examples_in_order(model: TreeModel, order: Order) -> Examples:
    """Return the rows of the model in the order in which they enter. Rows of E and of weight zero come first."""
    target, merged_rows = model.target._replace(estimation=order.estimation), model.units
    is_before = np.ones(len(target.values), dtype=bool)
    is_before[order.staged] = False
    rows = np.concatenate([np.flatnonzero(is_before), order.staged])
    weight, label, moments = target.weight, np.zeros(1, dtype=np.uint16), np.zeros((2, 1))
    if merged_rows.counts:
        label = model.leaf.labels(target)[rows].astype(np.uint16)
    else:
        weight, moments = model.leaf.moments(target)
        moments = np.ascontiguousarray(moments[:, rows])
    weight = np.ones(len(rows)) if weight is None else weight[rows]
    row_stats = UnitStats(merged_rows.counts, label, weight, -1, moments)
    unit_of_row = rows if model.unit_of_row is None else model.unit_of_row[rows]
    return Examples(np.ascontiguousarray(merged_rows.codes[:, unit_of_row]), row_stats, len(rows) - len(order.staged))


def _interval_numbers(model: TreeModel, graph: CellGraph, router: Router, rows: NewRows) -> np.ndarray:
    """Return numbers (n, q) that two rows share only if all splits of the graph send them the same way."""
    out = np.zeros(rows.x.shape, dtype=np.int64)
    for c in np.unique(graph.feature):
        x = rows.x[:, c]
        if router.nominal[c]:
            out[:, c] = x
        elif router.local:
            cuts = np.unique(model.scales[c].threshold(*unpack_cuts(np.unique(graph.split[graph.feature == c]))))
            out[:, c] = np.where(np.isnan(x), -1, np.searchsorted(cuts, x))
        else:
            out[:, c] = np.where(np.isnan(x), -1, rows.codes[:, c])
    return out


def _router_with_stage(router: Router) -> Router:
    """Return the router with one more feature, the stage (number of test examples), whose splits send all rows left."""
    offset, n_codes = np.append(router.offset, 0), np.append(router.n_codes, 0)
    return router._replace(offset=offset, n_codes=n_codes, nominal=np.append(router.nominal, False))


def _mean_rows(
    model: TreeModel, graph: CellGraph, leaf: np.ndarray, by_edge: np.ndarray, value: np.ndarray
) -> MeanRows:
    """Return places of a graph whose cells have given mean probabilities of leaves and splits, and mean values."""
    # ``leaf`` (n_cells,) and ``by_edge`` (n_edges,) are these probabilities. ``value`` (n_cells, d) is the mean
    # over stages (numbers of test examples seen) of P(the cell is a leaf) times its value. In this graph the split
    # of each cell is drawn independently with its mean probability. So the probability that a cell occurs is right,
    # and so are the predictions of a row whose cells do not depend on the path. Whole trees and paths from the root
    # have another distribution than in the mixture, in which splits of different cells are dependent through the
    # stage.
    first, owner = graph.first_edge, np.repeat(np.arange(graph.n_cells), np.diff(graph.first_edge))
    by_edge = np.where((graph.left == owner) | (graph.right == owner), 0.0, by_edge)
    split = np.bincount(owner, weights=by_edge, minlength=graph.n_cells)
    total = leaf + split
    with np.errstate(divide="ignore", invalid="ignore"):
        log_stop = np.where(total > 0.0, np.log(leaf) - np.log(total), 0.0)
        log_rule = np.where(by_edge > 0.0, np.log(by_edge) - np.log(total[owner]), -np.inf)
        values = np.where(leaf[:, None] > 0.0, value / leaf[:, None], 0.0)
    values[graph.rows == 0] = model.leaf.value(np.zeros((1, graph.stats.shape[1])), model.target)
    mean = graph._replace(
        log_rule=log_rule,
        first_slot=np.arange(graph.n_cells + 1, dtype=first.dtype),
        log_stop=log_stop,
        log_split=np.where(split > 0.0, 0.0, -np.inf),
        layered=False,
    )
    return MeanRows(model, mean, log_sums(mean), np.ascontiguousarray(values))
