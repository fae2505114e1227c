"""What chains draw from a learned density: trees of a stratum, or of all, and their weights."""

from __future__ import annotations

from threading import Event
from typing import NamedTuple

import numpy as np

from ..chain.chain import Chain
from ..chain.snapshot import Snapshot, generator_from
from ..chain.strata import draw_weights, root_fractions_into
from ..moves.learned import draw_freely
from ..state.pieces import new_graph
from ..state.records import EXPLORING, GROWING, NONE, ROWS
from .task import Plan, Run

FITTED = 30
"""Trees drawn from a density fitted to half of the chains, for each chain there is."""


def draw_afresh(chain: Chain, n: int) -> np.ndarray:
    """Draw ``n`` trees into the graph, and ``n`` more to see more; the log weights of the former."""
    weights, used = drawn_freely(chain, n), chain.state.graph.used
    used[GROWING] = EXPLORING
    drawn_freely(chain, n)
    used[GROWING] = 1
    return weights


def drawn_freely(chain: Chain, n: int) -> np.ndarray:
    """Log weights of ``n`` trees drawn from the density."""
    out, done = np.empty(n), 0
    while (done := int(draw_freely(chain.walk, out, done))) < n:
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


def survey(given: Survey, stopped: Event | None = None) -> Surveyed:
    """Draw trees of each stratum from the density, and weigh them."""
    run = Run(given.plan, given.end)
    set_density(run.chain, given.density, 1.0)
    fractions, found = np.zeros(len(given.plan.model.lowered.split_prior.feature)), {}
    if root_fractions_into(fractions, run.chain.walk):
        for feature in given.features:
            if fractions[feature] > 0.0 and not (stopped is not None and stopped.is_set()):
                found[int(feature)] = weights_of(run.chain, int(feature), given.n)
    set_density(run.chain, None, 1.0)
    return Surveyed(run.snapshot, found, fractions)


class Fitted(NamedTuple):
    """A density fitted to some chains, to be drawn from."""

    plan: Plan
    source: dict
    """State of the generator of one of them."""
    density: np.ndarray
    n: int
    """Times that `FITTED` trees are drawn."""


def draw_fitted(given: Fitted, stopped: Event | None = None) -> tuple[np.ndarray, int]:
    """Log weights of trees drawn from a density, and the rows visited; no chain moves."""
    # drawn from another source than what the chain goes on with
    seed = generator_from(given.source).integers(1 << 62)
    chain = Chain(given.plan.model.lowered, given.plan.kernel, np.random.default_rng(seed))
    set_density(chain, given.density, 1.0)
    before, weights = int(chain.state.count[ROWS]), [np.empty(0)]
    for _ in range(given.n):
        if not (stopped is not None and stopped.is_set()):
            weights.append(drawn_freely(chain, FITTED))
    return np.concatenate(weights), int(chain.state.count[ROWS]) - before


def weights_of(chain: Chain, feature: int, n: int) -> np.ndarray:
    """Log weights of ``n`` trees drawn from one stratum."""
    out, done = np.empty(n), 0
    while (done := int(draw_weights(chain.walk, feature, out, done))) < n:
        chain.enlarge()
    return out


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
