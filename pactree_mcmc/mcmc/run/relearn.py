"""A run that goes on with what its draws taught: their trees taken into the graph, which is then frozen anew.

What was drawn before becomes tuning: the draws that come back are those of one stretch of a run, made with one density
and one graph, known before it began.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..chain.chain import Chain
from ..chain.snapshot import ARRAYS, generator_from
from ..learned.graph import frozen, joined_graph
from ..moves.learned import add_saved
from ..state.pieces import Graph
from ..state.records import GROWING, N_PIECES
from .learn import FRESH, begun_with, done_by, growing, on_pool
from .survey import PIECE, Signal, draw_afresh, is_set, set_density
from .task import Plan, Result
from .workers import Work

MOST_PIECES = 1 << 18
"""Pieces and links of the graph, each, at most."""
REVISITED = 500
"""Draws of a chain taken into the graph, at most, evenly spaced."""


class Revisit(NamedTuple):
    """Draws of one chain, to be taken into the graph."""

    plan: Plan
    result: Result
    room: int
    """Pieces and links, each, that the graph may grow by."""


def revisit(given: Revisit, stopped: Signal = None) -> Graph:
    """The graph of a chain with the trees of its draws, and of some drawn afresh; the chain stays where it is."""
    plan, (replica,) = given.plan, given.result.end.replicas
    # drawn from another source than what the chain goes on with
    seed = generator_from(given.result.end.generator).integers(1 << 62)
    chain = Chain(plan.model.lowered, plan.kernel, np.random.default_rng(seed))
    set_density(chain, replica.state[ARRAYS.index("density")], 1.0)
    graph = growing(chain, replica.graph, given.room)
    saved = given.result.saved
    draws = np.unique(np.linspace(0, given.result.n_draws - 1, min(REVISITED, given.result.n_draws)).astype(np.int64))
    trees, start = np.unique(saved.tree_of_draw[draws]), np.asarray(saved.tree)["start"]
    first, last = start[trees], start[trees + 1]
    for i in range(0, len(trees), PIECE):
        part, done = slice(i, i + PIECE), 0
        while not is_set(stopped) and (
            (done := int(add_saved(chain.walk, saved.node, first[part], last[part], done))) < len(first[part])
        ):
            chain.enlarge()
    by_stratum = plan.length is not None and plan.length.strata is not None
    draw_afresh(chain, FRESH, by_stratum=by_stratum, stopped=stopped)
    graph.used[GROWING] = 0
    return graph


def teaches(work: Work, results: list[Result]) -> bool:
    """Whether there is a graph that draws can be taken into."""
    ends = [result.end for result in results]
    if work.plans[0].betas is not None or any(end is None for end in ends):
        return False
    used = ends[0].replicas[0].graph.used
    return bool(used[N_PIECES] > 0 and used.max() + len(results) <= MOST_PIECES)


def restarted(work: Work, results: list[Result], graph: Graph | None = None) -> list[Result]:
    """Chains where they are, without draws, with the density they have and a graph; None: with that they have, too."""
    ends = [result.end for result in results]
    known = ends[0].replicas[0]
    density, graph = known.state[ARRAYS.index("density")], known.graph if graph is None else graph
    return [begun_with(plan, end, density, graph) for plan, end in zip(work.plans, ends, strict=True)]


def relearned(work: Work, results: list[Result]) -> list[Result]:
    """Chains where they are, without draws, with a graph that has taken in the trees of these.

    It stays as it is where an executor lost a chain's part.
    """
    graph = results[0].end.replicas[0].graph
    room = (MOST_PIECES - int(graph.used.max())) // len(results)
    tasks = {c: Revisit(plan, result, room) for c, (plan, result) in enumerate(zip(work.plans, results, strict=True))}
    grown = on_pool(work, lambda submit: done_by(work, submit, revisit, tasks, {}))
    if len(grown) == len(tasks):
        graph = frozen(joined_graph([grown[c] for c in tasks], learns=False))
    return restarted(work, results, graph)
