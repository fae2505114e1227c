"""Tasks of one chain in the default run, as functions that threads or any executor can call."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...core.compile.jit import pack
from ...tree.coded import Saved
from ..chain.chain import Chain
from ..chain.snapshot import ARRAYS, Snapshot, generator_from
from ..moves.learned import add_saved_trees, sample_trees
from ..run.stop import Signal, is_set
from ..run.task import Plan, Run
from ..state.records import IS_GROWING, N_LINKS, N_PIECES, N_VISITED_ROWS, NONE, Graph, new_graph
from .density.fit import Decisions, join_decisions, new_decisions, record_decisions
from .density.graph import with_capacity

MAX_RECORDED_CELLS = 1500
"""Largest number of cells whose decisions a chain records in a round."""
N_RECORDED_TREES = 100
"""Number of trees whose decisions are recorded, at even steps over the last three quarters of a round."""
MAX_ADDED_DRAWS = 500
"""Largest number of draws of one chain added to the graph between two stretches (series) of draws, at even steps."""
TREES_PER_CALL = 8
"""Number of trees drawn between two checks of the signal to stop. One tree takes up to 50 ms."""


class RoundResult(NamedTuple):
    """State of a chain at the end of a round, with the decisions or the graph to which its team fits the density."""

    end: Snapshot
    rows: int
    """Number of rows visited."""
    cost: np.ndarray
    """(2, moves): proposals of each move, and the rows they visited."""
    decisions: Decisions
    graph: Graph | None
    """Graph with the trees of the round, or None in a round without a growing graph."""


def run_round(
    plan: Plan,
    end: Snapshot | None,
    density: np.ndarray,
    beta: float,
    graph: Graph | None = None,
    n_free: int = 0,
    n_trees: int = 0,
    signal: Signal = None,
) -> RoundResult:
    """Run one chain from ``end``, or from its start, up to the steps of tuning of the plan, or until it is stopped.

    The chain draws from the density at inverse temperature ``beta``. With a graph, its trees and about ``n_trees``
    independent ones are added to a copy of the graph with ``n_free`` more pieces and links. Without one, its decisions
    are recorded.
    """
    run = Run(plan, end)
    rows_before = int(run.chain.state.count[N_VISITED_ROWS])
    run.begin()
    set_density(run.chain, density, beta)
    if graph is not None:
        graph = set_growing(run.chain, graph, n_free)
    decisions = new_decisions(MAX_RECORDED_CELLS)
    packed, first, last = pack(decisions), run.tuned, plan.tune
    interval = max(3 * (last - first) // (4 * N_RECORDED_TREES), 1)
    while run.tuned < last and not is_set(signal):
        next_record = min(run.tuned + interval, last)
        while run.tuned < next_record and not is_set(signal):
            run.advance(min(run.block, next_record - run.tuned))
        if graph is not None:
            sample_independent(run.chain, round(n_trees * interval / (last - first)), signal)
        elif 4 * (run.tuned - first) > last - first:
            record_decisions(run.chain.packed_chain, packed)
    set_density(run.chain, None, 1.0)
    run.chain.use_graph(new_graph())
    rows = int(run.chain.state.count[N_VISITED_ROWS]) - rows_before
    return RoundResult(run.snapshot, rows, run.chain.cost, join_decisions([decisions]), graph)


def add_draws(
    plan: Plan, end: Snapshot, n_free: int, n_trees: int, draws: tuple[Saved, ...], signal: Signal = None
) -> Graph:
    """Return a copy of a chain's graph to which up to `MAX_ADDED_DRAWS` of each of the ``draws``, one entry a chain,
    and ``n_trees`` independent trees were added.

    The copy has room for ``n_free`` more pieces and links. The chain keeps its present tree.
    """
    # a generator of its own, so that the chain goes on with the numbers it would have had
    seed = generator_from(end.generator).integers(1 << 62)
    chain = Chain(plan.model.lowered, plan.kernel, np.random.default_rng(seed))
    set_density(chain, density_of(end), 1.0)
    graph = set_growing(chain, end.replicas[0].graph, n_free)
    for saved in draws:
        n = len(saved.tree_of_draw)
        indices = np.unique(np.linspace(0, n - 1, min(MAX_ADDED_DRAWS, n)).astype(np.int64))
        trees, start = np.unique(saved.tree_of_draw[indices]), np.asarray(saved.tree)["start"]
        for i in range(0, len(trees), TREES_PER_CALL):
            trees_of_call = trees[i : i + TREES_PER_CALL]
            first, last, n_added = start[trees_of_call], start[trees_of_call + 1], 0
            while n_added < len(trees_of_call) and not is_set(signal):
                n_added = int(add_saved_trees(chain.packed_chain, saved.node, first, last, n_added))
                if n_added < len(trees_of_call):
                    chain.enlarge()
    sample_independent(chain, n_trees, signal)
    graph.used[IS_GROWING] = 0
    return graph


def sample_independent(chain: Chain, n: int, signal: Signal = None) -> np.ndarray:
    """Draw ``n`` trees from the learned density g and return their log weights ``log pi(T) - log g(T)``, (n,), with pi
    = prior times likelihood.

    A growing graph gets the trees. Trees that are too large, or that a signal leaves undrawn, have log weight ``-inf``.
    """
    out = np.full(n, -np.inf)
    for i in range(0, n, TREES_PER_CALL):
        if is_set(signal):
            break
        call_out, n_drawn = out[i : i + TREES_PER_CALL], 0
        while (n_drawn := int(sample_trees(chain.packed_chain, call_out, n_drawn))) < len(call_out):
            chain.enlarge()
    return out


def set_density(chain: Chain, density: np.ndarray | None, beta: float) -> None:
    """Set the density parameters and the inverse temperature of a chain, and remove its graph. If ``density`` is None,
    set the inverse temperature alone. The stored values of cells become invalid in either case.
    """
    state = chain.state
    if density is not None:
        state.density[...] = density
        chain.use_graph(new_graph())
    state.beta[0] = beta
    # the stored values of cells depend on the power and on the density
    state.stored.guide.hash[:] = NONE
    state.stored.cell.scan[:] = NONE


def set_growing(chain: Chain, graph: Graph, n_free: int) -> Graph:
    """Let the chain add its trees to a copy of ``graph`` with ``n_free`` more pieces and links. Return the copy."""
    n_pieces, n_links = (int(graph.used[i]) + n_free for i in (N_PIECES, N_LINKS))
    copy = with_capacity(graph, n_pieces, n_links)
    copy.used[IS_GROWING] = 1
    chain.use_graph(copy)
    return copy


def density_of(end: Snapshot) -> np.ndarray:
    """Return the density parameters of a chain in the state ``end`` (`ChainState.density`)."""
    return end.replicas[0].state[ARRAYS.index("density")]
