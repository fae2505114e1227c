"""What chains draw from a learned density: trees of a stratum or of all, subtrees of a split, and their weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from threading import Event
from typing import NamedTuple

import numpy as np

from ..chain.chain import Chain
from ..chain.root_splits import BY_DENSITY, BY_VALUE, EVENLY, weigh_root_split
from ..chain.snapshot import Snapshot, generator_from
from ..chain.strata import draw_weights, root_fractions_into, visit
from ..learned.graph import roomy
from ..moves.learned import draw_freely
from ..state.pieces import Graph, new_graph
from ..state.records import EXPLORING, GROWING, N_PIECES, NONE, ROWS
from .stop import Stop
from .task import Plan, Run

Signal = Stop | Event | None
"""Signal that a task is to end; None if nothing ends it."""
PIECE = 8
"""Trees drawn between two looks at the signal; one takes up to some 50 ms."""
FLATTENING, NEGLIGIBLE = 4.0, -18.0
"""What log evidences of strata are divided by where rare ones are to be seen too, and below which none is, in nats."""
SUBTREES, WEIGHED_AGAIN = 6, 0.3
"""Subtrees drawn for each side of a split of the root that is weighed, and how often one is, beside trees drawn."""
STAGES = ((EVENLY, 8, 3), (BY_DENSITY, 4, 3), (BY_VALUE, 8, SUBTREES))
"""How splits of the root on a feature are chosen before a graph grows, how many, and subtrees for each side of one."""
FITTED = 30
"""Trees drawn from a density fitted to half of the chains, for each chain there is."""


def is_set(stopped: Signal) -> bool:
    """Return True if there is a signal to end and it was given."""
    return stopped is not None and stopped.is_set()


def draw_afresh(chain: Chain, n: int, *, by_stratum: bool, stopped: Signal = None) -> np.ndarray:
    """Draw ``n`` trees into the graph, and ``n`` more to see more; the log weights of the former.

    ``by_stratum``: of the latter rare strata have more than their part, where trees can be drawn of a stratum.
    """
    weights, graph = drawn_freely(chain, n, stopped), chain.state.graph
    graph.used[GROWING] = EXPLORING
    looks = flattened(root_evidences(graph, len(chain.lowered.split_prior.feature)))
    if by_stratum and looks.any():
        for feature, times in Counter(spread(looks, n, chain.rng.random())).items():
            weights_of(chain, feature, times, stopped)
        if not is_set(stopped) and chain.rng.random() < WEIGHED_AGAIN:
            graph.used[GROWING] = 1
            (feature,) = spread(looks, 1, chain.rng.random())
            weigh_root_splits(chain, feature, BY_VALUE, 1, SUBTREES)
    else:
        drawn_freely(chain, n, stopped)
    graph.used[GROWING] = 1
    return weights


def weigh_root_splits(chain: Chain, feature: int, how: int, n: int, n_subtrees: int, stopped: Signal = None) -> None:
    """Weigh ``n`` splits of the root, at even steps, by ``n_subtrees`` for each side, for the graph of the chain.

    By the density, where values are asked for and too few are known, or where cuts have no order.
    """
    cuts, values = root_values(chain.state.graph, feature)
    if how != BY_DENSITY and (
        chain.lowered.split_prior.feature[feature].nominal or (how == BY_VALUE and len(cuts) < 2)
    ):
        how = BY_DENSITY
    start, out = chain.rng.random(), np.empty((n_subtrees, 2))
    for i in range(n):
        if is_set(stopped):
            return
        while not weigh_root_split(chain.walk, feature, how, (i + start) / n, cuts, values, out):
            chain.enlarge()


def root_values(graph: Graph, feature: int) -> tuple[np.ndarray, np.ndarray]:
    """Cuts at the root on a feature that the graph knows, ascending, and log of the sums over their trees less R."""
    links = graph.link[root_links(graph)]
    links = links[(links.feature == feature) & (links.weight > -np.inf)]
    cuts, first = np.unique(links.cut.astype(np.float64), return_index=True)
    return cuts, (links.weight - links.log_rule)[first]


def root_links(graph: Graph) -> np.ndarray:
    """The links of the whole table's piece."""
    out, root = list[int](), np.flatnonzero(graph.piece.depth[: graph.used[N_PIECES]] == 0)
    at = int(graph.piece.first[root[0]]) if len(root) else NONE
    while at >= 0:
        out.append(at)
        at = int(graph.link.next[at])
    return np.array(out, dtype=np.int64)


def root_evidences(graph: Graph, p: int) -> np.ndarray:
    """(p,) log of what the graph knows of the sums over the trees with each feature at the root."""
    out, links = np.full(p, -np.inf), graph.link[root_links(graph)]
    np.logaddexp.at(out, links.feature, links.weight)
    return out


def flattened(log_z: np.ndarray) -> np.ndarray:
    """How often each stratum is looked at, by its log evidence: rare ones more often than by it."""
    if not log_z.max() > -np.inf:
        return np.zeros(len(log_z))
    above = log_z - log_z.max()
    return np.where(above > NEGLIGIBLE, np.exp(above / FLATTENING), 0.0)


def spread(fractions: np.ndarray, n: int, start: float) -> list[int]:
    """The places of ``n`` numbers that follow the fractions, at even steps from ``start``, in [0, 1), on."""
    ends = np.cumsum(fractions)
    points = (np.arange(n) + start) / n * ends[-1]
    return np.minimum(np.searchsorted(ends, points, side="right"), len(ends) - 1).tolist()


def drawn_freely(chain: Chain, n: int, stopped: Signal = None) -> np.ndarray:
    """Log weights of ``n`` trees drawn from the density."""
    return _weights(chain, n, lambda part, done: draw_freely(chain.walk, part, done), stopped)


def _weights(chain: Chain, n: int, draw: Callable[[np.ndarray, int], int], stopped: Signal) -> np.ndarray:
    """Return the log weights of ``n`` trees; ``-inf`` for those that a signal leaves undrawn."""
    out = np.full(n, -np.inf)
    for i in range(0, n, PIECE):
        if is_set(stopped):
            break
        part, done = out[i : i + PIECE], 0
        while (done := int(draw(part, done))) < len(part):
            chain.enlarge()
    return out


class Survey(NamedTuple):
    """Strata that one chain looks at."""

    plan: Plan
    end: Snapshot
    density: np.ndarray
    features: np.ndarray
    n: int
    """Trees to be drawn of each."""


class Surveyed(NamedTuple):
    """What a survey found."""

    end: Snapshot
    weights: dict[int, np.ndarray]
    """Log weights of the trees drawn, by feature at the root."""
    fractions: np.ndarray
    """(p,) probability of each feature at the root, given a split, by the learned part of the density alone."""


def survey(given: Survey, stopped: Signal = None) -> Surveyed:
    """Draw trees of each stratum from the density, and weigh them."""
    run = Run(given.plan, given.end)
    set_density(run.chain, given.density, 1.0)
    fractions, found = np.zeros(len(given.plan.model.lowered.split_prior.feature)), {}
    if root_fractions_into(fractions, run.chain.walk):
        for feature in given.features:
            if fractions[feature] > 0.0 and not is_set(stopped):
                found[int(feature)] = weights_of(run.chain, int(feature), given.n, stopped)
    set_density(run.chain, None, 1.0)
    return Surveyed(run.snapshot, found, fractions)


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


def chart(given: Chart, stopped: Signal = None) -> Charted:
    """Weigh splits of the root on some features, in a graph of their own; no chain moves."""
    run = Run(given.plan, given.end)
    set_density(run.chain, given.density, 1.0)
    graph = roomy(new_graph(), given.room, given.room)
    graph.used[GROWING] = 1
    run.chain.take(graph)
    for feature in given.features:
        for how, n, n_subtrees in STAGES:
            weigh_root_splits(run.chain, int(feature), how, n, n_subtrees, stopped)
    set_density(run.chain, None, 1.0)
    return Charted(run.snapshot, graph)


class Fitted(NamedTuple):
    """A density fitted to some chains, to be drawn from."""

    plan: Plan
    source: dict
    """State of the generator of one of them."""
    density: np.ndarray
    n: int
    """Times that `FITTED` trees are drawn."""


def draw_fitted(given: Fitted, stopped: Signal = None) -> tuple[np.ndarray, int]:
    """Log weights of trees drawn from a density, and the rows visited; no chain moves."""
    # drawn from another source than what the chain goes on with
    seed = generator_from(given.source).integers(1 << 62)
    chain = Chain(given.plan.model.lowered, given.plan.kernel, np.random.default_rng(seed))
    set_density(chain, given.density, 1.0)
    before, weights = int(chain.state.count[ROWS]), [np.empty(0)]
    for _ in range(given.n):
        if not is_set(stopped):
            weights.append(drawn_freely(chain, FITTED, stopped))
    return np.concatenate(weights), int(chain.state.count[ROWS]) - before


def visited(chain: Chain, feature: int, n: int) -> None:
    """Bring a chain to one of ``n`` trees drawn from one stratum."""
    weights, done = np.empty(n), 0
    while (done := int(visit(chain.walk, feature, weights, done))) < n:
        chain.enlarge()


def weights_of(chain: Chain, feature: int, n: int, stopped: Signal = None) -> np.ndarray:
    """Log weights of ``n`` trees drawn from one stratum."""
    return _weights(chain, n, lambda part, done: draw_weights(chain.walk, feature, part, done), stopped)


def set_density(chain: Chain, density: np.ndarray | None, beta: float) -> None:
    """Let a chain draw from a density, its score to the power ``beta``."""
    state = chain.state
    if density is not None:
        state.density[...] = density
        chain.take(new_graph())
    state.beta[0] = beta
    # what is kept of cells is by the power and the density
    state.guide.hash[:] = NONE
    state.cell.scan[:] = NONE
    state.cell.ahead[:] = NONE
