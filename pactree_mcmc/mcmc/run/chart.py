"""A chart of the root: splits on each feature, weighed before a graph grows from them.

The trees that chains met say little of a split of the root where they never were, and trees drawn from a density fitted
on them weigh too little there. So some splits on each feature that may matter are weighed, first at even steps, and
then where those that were weighed best lie.
"""

from __future__ import annotations

from threading import Event
from typing import NamedTuple

import numpy as np

from ..chain.root_splits import BY_DENSITY, BY_VALUE, EVENLY
from ..chain.snapshot import Snapshot
from ..learned.graph import roomy
from ..state.pieces import Graph, new_graph
from ..state.records import GROWING
from .survey import SUBTREES, set_density, weigh_root_splits
from .task import Plan, Run

STAGES = ((EVENLY, 8, 3), (BY_DENSITY, 4, 3), (BY_VALUE, 8, SUBTREES))
"""How splits of a feature are chosen, how many, and how many subtrees are drawn for each side of one."""


class Chart(NamedTuple):
    """Features whose splits of the root one chain weighs."""

    plan: Plan
    end: Snapshot
    density: np.ndarray
    features: np.ndarray
    room: int
    """Pieces and links, each, that the graph may have."""


class Charted(NamedTuple):
    """What a chain found."""

    end: Snapshot
    graph: Graph


def chart(given: Chart, stopped: Event | None = None) -> Charted:
    """Weigh splits of the root on some features, in a graph of their own; no chain moves."""
    run = Run(given.plan, given.end)
    set_density(run.chain, given.density, 1.0)
    graph = roomy(new_graph(), given.room, given.room)
    graph.used[GROWING] = 1
    run.chain.take(graph)
    for feature in given.features:
        for how, n, n_subtrees in STAGES:
            if not (stopped is not None and stopped.is_set()):
                weigh_root_splits(run.chain, int(feature), how, n, n_subtrees)
    set_density(run.chain, None, 1.0)
    return Charted(run.snapshot, graph)
