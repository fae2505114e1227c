"""Tasks of one chain in the default run: plain functions of plain data, for threads or any executor."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...core.compile.pack import pack
from ...tree.drawn import Saved
from ..chain.chain import Chain
from ..chain.snapshot import ARRAYS, Snapshot, generator_from
from ..moves.learned import add_saved
from ..run.stop import Signal, is_set
from ..run.task import Plan, Run
from ..state.pieces import Graph, new_graph
from ..state.records import GROWING, ROWS
from .density.decisions import Decisions, new_decisions, note_decisions, trimmed_decisions
from .sampling import TREES_PER_CALL, sample_independent, set_density, set_growing

MOST_CELLS = 1500
"""Largest number of cells whose decisions a chain records in a round."""
RECORDED = 100
"""Number of trees whose decisions are recorded, at even steps over the last three quarters of a round."""
ADDED_DRAWS = 500
"""Largest number of draws of one chain added to the graph between two stretches, at even steps."""


class Task(NamedTuple):
    """What one chain is to do, and with which density and graph. Each function below names the fields it reads."""

    plan: Plan
    end: Snapshot | None
    """State of the chain at the start, or None at the start of the run."""
    density: np.ndarray
    graph: Graph | None = None
    """Graph that grows, or None if none does."""
    room: int = 0
    """Number of pieces, and of links, by which the graph may grow."""
    beta: float = 1.0
    """Power of the score."""
    tuned: int = 0
    """Number of tuning steps done at the end of the round."""
    trees: int = 0
    """Number of independent trees to be added to the graph."""
    saved: tuple[Saved, ...] = ()
    """Draws to be added to the graph."""


class RoundResult(NamedTuple):
    """Result of a task. Fields that a task does not compute are empty."""

    end: Snapshot
    rows: int = 0
    """Number of rows visited."""
    cost: np.ndarray = np.zeros((2, 0))
    """(2, moves): proposals of each move, and the rows they visited."""
    decisions: Decisions | None = None
    graph: Graph | None = None


def run_round(task: Task, stopped: Signal = None) -> RoundResult:
    """Run one chain through a round of tuning, or until it is stopped.

    Without ``task.graph`` the decisions of its trees are recorded. With a graph the trees of the chain and independent
    trees are added to it.
    """
    run = Run(task.plan, task.end)
    before = int(run.chain.state.count[ROWS])
    run.begin()
    set_density(run.chain, task.density, task.beta)
    graph = None if task.graph is None else set_growing(run.chain, task.graph, task.room)
    recorded = new_decisions(MOST_CELLS)
    packed, first, last = pack(recorded), run.tuned, task.tuned
    every = max(3 * (last - first) // (4 * RECORDED), 1)
    while run.tuned < last and not is_set(stopped):
        look = min(run.tuned + every, last)
        while run.tuned < look and not is_set(stopped):
            run.advance(min(run.block, look - run.tuned))
        if graph is not None:
            n = round(task.trees * every / (last - first))
            sample_independent(run.chain, n, stopped)
        elif 4 * (run.tuned - first) > last - first:
            note_decisions(run.chain.walk, packed)
    set_density(run.chain, None, 1.0)
    run.chain.take(new_graph())
    rows = int(run.chain.state.count[ROWS]) - before
    found = trimmed_decisions(recorded)
    return RoundResult(run.snapshot, rows, run.chain.cost, found, graph)


def add_draws(task: Task, stopped: Signal = None) -> RoundResult:
    """Add the draws ``task.saved`` to a copy of the graph, with some independent trees. The chain does not move."""
    # a generator of its own, so that the chain goes on with the numbers it would have had
    seed = generator_from(task.end.generator).integers(1 << 62)
    chain = Chain(task.plan.model.lowered, task.plan.kernel, np.random.default_rng(seed))
    set_density(chain, task.density, 1.0)
    graph = set_growing(chain, task.graph, task.room)
    for saved in task.saved:
        n = len(saved.tree_of_draw)
        draws = np.unique(np.linspace(0, n - 1, min(ADDED_DRAWS, n)).astype(np.int64))
        trees, start = np.unique(saved.tree_of_draw[draws]), np.asarray(saved.tree)["start"]
        first, last = start[trees], start[trees + 1]
        for i in range(0, len(trees), TREES_PER_CALL):
            part, done = slice(i, i + TREES_PER_CALL), 0
            while not is_set(stopped) and (
                (done := int(add_saved(chain.walk, saved.node, first[part], last[part], done))) < len(first[part])
            ):
                chain.enlarge()
    sample_independent(chain, task.trees, stopped)
    graph.used[GROWING] = 0
    return RoundResult(task.end, graph=graph)


def density_of(end: Snapshot) -> np.ndarray:
    """Return the density of a chain."""
    return end.replicas[0].state[ARRAYS.index("density")]
