"""Works of one chain in the default run (`run.run_chain`): a round of tuning, and adding draws to graphs."""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple

import numpy as np

from ...core.compile.jit import pack
from ...model import Lowered
from ...tree.coded import Saved
from ..chain.chain import Chain, set_density
from ..chain.rest import Rest, generator_from
from ..moves.learned import add_saved_trees, sample_trees
from ..run.records import Tuned
from ..run.run_chain import RunChain
from ..state.records import IS_GROWING, N_LINKS, N_PIECES, N_VISITED_ROWS, Graph, new_graph
from .density.fit import Decisions, join_decisions, new_decisions, record_decisions
from .density.graph import with_capacity
from .density.scouts import scout_roots

MAX_RECORDED_CELLS = 1500
"""Largest number of cells whose decisions a chain records in a round."""
N_RECORDED_TREES = 100
"""Number of trees whose decisions are recorded, at even steps over the last three quarters of a round."""
MAX_ADDED_DRAWS = 1000
"""Largest number of draws of one chain added to the graph between two stretches (series) of draws, at even steps. Steps
between many draws are short, and a tree takes longer to be added than to be drawn."""
TREES_PER_CALL = 8
"""Number of trees drawn in a piece of a work. One tree takes up to 50 ms."""


class RoundResult(NamedTuple):
    """Values of a round, to which the team of the chain fits the density."""

    rows: int  # number of rows visited
    cost: np.ndarray  # (2, moves): proposals of each move, and the rows they visited
    decisions: Decisions
    graph: Graph | None  # graph with the trees of the round, or None in a round without a growing graph


def tuning_round(
    chain: RunChain, tuned: Tuned, beta: float, until: int, n_free: int, n_trees: int, scouted: np.ndarray
) -> Generator[None, bool | None, RoundResult]:
    """Make tuning steps up to number ``until`` at inverse temperature ``beta``, then rest."""
    # if ``n_free`` > 0, the trees and about ``n_trees`` independent ones are added to a copy of the team's graph with
    # so many more pieces and links, after plausible ones with the features ``scouted`` at the root. Otherwise the
    # decisions of trees are recorded.
    chain.use(tuned)
    trees, rows_before = chain.sampler, chain.n_visited_rows
    trees.use_kernel(tuned.kernel)
    set_density(trees, tuned.density[chain.team], beta)
    graph = set_growing(trees, tuned.graphs[chain.team], n_free) if n_free > 0 else None
    decisions = new_decisions(MAX_RECORDED_CELLS)
    packed, first = pack(decisions), chain.tuned
    interval, is_over, scout_rows = max(3 * (until - first) // (4 * N_RECORDED_TREES), 1), None, 0
    if graph is not None and len(scouted) > 0:
        scout = replica_of_team(trees.lowered, tuned, chain.team, chain.rest)
        scout.use_graph(graph)
        is_over = yield from scout_roots(scout, scouted)
        scout_rows = int(scout.state.count[N_VISITED_ROWS])
    while chain.tuned < until and not is_over:
        next_record = min(chain.tuned + interval, until)
        while chain.tuned < next_record and not is_over:
            chain.tuned += 1
            trees.tune(chain.tuned, until)
            is_over = yield
        if graph is not None and not is_over:
            is_over = yield from sample_into_graph(trees, round(n_trees * interval / (until - first)))
        elif graph is None and 4 * (chain.tuned - first) > until - first:
            record_decisions(trees.packed_chain, packed)
    rows = chain.n_visited_rows - rows_before + scout_rows
    result = RoundResult(rows, trees.cost, join_decisions([decisions]), graph)
    set_density(trees, None, 1.0)
    trees.use_graph(new_graph())
    chain.take_rest()
    return result


def add_draws(
    chain: RunChain, tuned: Tuned, n_free: int, n_trees: int, draws: tuple[Saved, ...]
) -> Generator[None, bool | None, Graph]:
    """Return a copy of a chain's graph to which trees of ``draws`` and ``n_trees`` independent trees were added."""
    # up to `MAX_ADDED_DRAWS` of each entry of ``draws``, one a chain. The copy has room for ``n_free`` more pieces and
    # links. Another chain adds the trees, so that this one goes on with the tree and the numbers it would have had
    trees, is_over = replica_of_team(chain.sampler.lowered, tuned, chain.team, chain.rest), None
    graph = set_growing(trees, tuned.graphs[chain.team], n_free)
    for saved in draws:
        n = len(saved.tree_of_draw)
        indices = np.unique(np.linspace(0, n - 1, min(MAX_ADDED_DRAWS, n)).astype(np.int64))
        numbers, start = np.unique(saved.tree_of_draw[indices]), np.asarray(saved.tree)["start"]
        for i in range(0, len(numbers), TREES_PER_CALL):
            first, last, n_added = start[numbers[i : i + TREES_PER_CALL]], start[numbers[i : i + TREES_PER_CALL] + 1], 0
            while n_added < len(first) and not is_over:
                n_added = int(add_saved_trees(trees.packed_chain, saved.node, first, last, n_added))
                if n_added < len(first):
                    trees.enlarge()
            is_over = is_over or (yield)
    if not is_over:
        yield from sample_into_graph(trees, n_trees)
    graph.used[IS_GROWING] = 0
    return graph


def replica_of_team(model: Lowered, tuned: Tuned, team: int, rest: Rest) -> Chain:
    """Return a chain at the stump with the density and graph of a team, and a generator that ``rest`` seeds."""
    chain = Chain(model, tuned.kernel, np.random.default_rng(generator_from(rest.generator).integers(1 << 62)))
    set_density(chain, tuned.density[team], 1.0)
    chain.use_graph(tuned.graphs[team])
    return chain


def sample_into_graph(chain: Chain, n: int) -> Generator[None, bool | None, bool | None]:
    """Draw ``n`` trees from the learned density into the growing graph. Return True if it got a signal to end."""
    for i in range(0, n, TREES_PER_CALL):
        sample_independent(chain, min(TREES_PER_CALL, n - i))
        if (yield):
            return True
    return None


def sample_independent(chain: Chain, n: int) -> np.ndarray:
    """Draw ``n`` trees from the learned density g and return log pi(T) - log g(T) (n,), pi = prior times likelihood."""
    # a growing graph gets the trees. Trees that are too large have log weight -inf
    out, n_drawn = np.full(n, -np.inf), 0
    while n_drawn < n and (n_drawn := int(sample_trees(chain.packed_chain, out, n_drawn))) < n:
        chain.enlarge()
    return out


def set_growing(chain: Chain, graph: Graph, n_free: int) -> Graph:
    """Let the chain add its trees to a copy of ``graph`` with ``n_free`` more pieces and links. Return the copy."""
    n_pieces, n_links = (int(graph.used[i]) + n_free for i in (N_PIECES, N_LINKS))
    copy = with_capacity(graph, n_pieces, n_links)
    copy.used[IS_GROWING] = 1
    chain.use_graph(copy)
    return copy
