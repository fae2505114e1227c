"""Rest of a chain: a place between two steps at which all stored values of cells are removed.

A rest contains all that determines the further steps, beside the model, the kernel, the density and the graph. Only
rests are sent to executors and written to files. The stored values depend on the order in which a chain has visited
cells, by rounding errors of sums over their rows. Since both a chain that goes on and a restored one begin without
them, both make the same draws to the last bit.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from ...files.encoding import register_class, register_records
from ..state.records import CHAIN_NODE, GRAPH_LINK, GRAPH_PIECE, N_VISITED_ROWS, NONE
from .chain import Chain
from .tempering import Ladder

ARRAYS = ("order", "node", "stats", "box", "count", "beta")
"""Names of the arrays of `ChainState` that a rest stores."""
BIT_GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")
"""Names of the bit generators whose state can be stored."""


register_records(NODE=CHAIN_NODE, PIECE=GRAPH_PIECE, LINK=GRAPH_LINK)

Params = Annotated[np.ndarray, np.float64, "params"]
"""Parameters of a leaf."""


@register_class
class Replica(NamedTuple):
    """State of one chain of trees at a rest. A temperature ladder has a replica at each level."""

    state: tuple[np.ndarray, ...]  # arrays of the state, in the order of ARRAYS
    noise: tuple[Params, Params] | None  # parameters of the leaf and of its guess, or None if no variance is drawn
    blocks: int  # number of blocks of proposals made


@register_class
class Rungs(NamedTuple):
    """State of a ladder of inverse temperatures (`Ladder`) without its replicas."""

    betas: Annotated[np.ndarray, np.float64, "levels"]  # inverse temperatures of the levels, decreasing from 1
    adapts: bool  # True if tuning adapts the ladder
    generation: int  # number of adaptations made
    odd: bool  # True if the next exchange is between pairs (i, i + 1) with odd i
    tried: Annotated[np.ndarray, np.int64, "pairs"]  # number of exchanges proposed between levels i and i + 1
    acceptance: Annotated[np.ndarray, np.float64, "pairs"]  # sum of their acceptance probabilities
    trips: int  # number of round trips made
    journey: list[bool]  # true for each replica that has been at the last level since it was at the first, by level


@register_class
class Rest(NamedTuple):
    """State of a chain, or of a ladder, at a rest."""

    generator: dict[str, Any]  # state of the random generator
    replicas: tuple[Replica, ...] = ()  # state of the chain at each level. Empty if the chain has not begun.
    rungs: Rungs | None = None  # state of the ladder, or None if the chain is not tempered
    tuned: int = 0  # number of tuning steps made
    steps: int = 0  # number of steps made since tuning
    # number of the team, a group of chains that tune together, to which the chain belongs, 0 without teams
    team: int = 0

    @property
    def n_visited_rows(self) -> int:
        """Number of rows that the chain has visited at all levels."""
        return sum(int(replica.state[ARRAYS.index("count")][N_VISITED_ROWS]) for replica in self.replicas)


def generator_state(rng: np.random.Generator) -> dict:
    """Return the state of a generator as a dict of numbers and arrays."""
    return rng.bit_generator.state


def generator_from(source: Any) -> np.random.Generator:
    """Return a NumPy generator, from a state that `generator_state` returned or from any seed of NumPy."""
    if not isinstance(source, dict):
        return np.random.default_rng(source)
    if source["bit_generator"] not in BIT_GENERATORS:
        raise ValueError(f"a chain of {source['bit_generator']} cannot be continued; use {', '.join(BIT_GENERATORS)}.")
    bits = getattr(np.random, source["bit_generator"])()
    bits.state = source
    return np.random.Generator(bits)


def forget(chain: Chain) -> None:
    """Remove all stored values of cells, as in a new chain."""
    stored = chain.state.stored
    for stored_hash in (stored.cell.hash, stored.cell.scan, stored.guide.hash):
        stored_hash[:] = NONE


def rungs_of(chain: Any) -> Rungs | None:
    """Return the state of a ladder without its replicas, None for a chain that is not tempered."""
    if not isinstance(chain, Ladder):
        return None
    return Rungs(
        chain.betas.copy(),
        chain.adapts,
        chain.generation,
        chain.next_is_odd,
        chain.n_proposed.copy(),
        chain.acceptance.copy(),
        int(chain.n_round_trips),
        [bool(step) for step in chain.has_been_last],
    )


def take_rest(chain: Any, tuned: int, steps: int, team: int) -> Rest:
    """Remove the stored values of a chain or ladder, and return its rest after so many steps."""
    replicas = []
    for one in chain.all_chains:
        forget(one)
        noise = None
        if not one.lowered.leaf.is_fixed:
            noise = one.lowered.leaf.params.copy(), one.lowered.proposal_leaf.params.copy()
        replicas.append(Replica(tuple(getattr(one.state, name).copy() for name in ARRAYS), noise, one.blocks))
    return Rest(generator_state(chain.rng), tuple(replicas), rungs_of(chain), tuned, steps, team)


def restore(chain: Any, rest: Rest) -> None:
    """Give a new chain or ladder the state of a rest. Raise ValueError if its arrays have other shapes."""
    if rest.rungs is not None:
        rungs = rest.rungs
        chain.betas, chain.adapts = rungs.betas.copy(), rungs.adapts
        chain.generation, chain.next_is_odd, chain.n_round_trips = rungs.generation, rungs.odd, rungs.trips
        chain.n_proposed, chain.acceptance = rungs.tried.copy(), rungs.acceptance.copy()
        chain.has_been_last = list(rungs.journey)
    try:
        for one, replica in zip(chain.all_chains, rest.replicas, strict=True):
            _restore_replica(one, replica)
    except (IndexError, TypeError) as error:
        raise ValueError(f"the chain is not one of this model and release: {error}.") from error


def _restore_replica(chain: Chain, replica: Replica) -> None:
    """Give a new chain the state of a replica. Raise ValueError if its arrays have other shapes."""
    arrays = dict(zip(ARRAYS, replica.state, strict=True))
    if len(chain.state.node) < len(arrays["node"]):
        chain.enlarge(len(arrays["node"]))
    for name, array in arrays.items():
        present = getattr(chain.state, name)
        if name != "node" and present.shape[1:] != array.shape[1:]:
            raise ValueError(f"the chain's {name} has shape {array.shape}, this model's and kernel's {present.shape}.")
        present[...] = array
    if replica.noise is not None:
        chain.lowered.leaf.params[:], chain.lowered.proposal_leaf.params[:] = replica.noise
    chain.blocks = replica.blocks
