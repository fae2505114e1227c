"""Snapshot of a chain between two draws: arrays and numbers that determine all further steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import numpy as np

from ...files.encoding import register_class, register_records
from ...model import Lowered
from ..kernel import Kernel
from ..state.records import CELL, CHAIN_NODE, GRAPH_LINK, GRAPH_PIECE, GUIDE, NONE, Graph
from .chain import Chain
from .tempering import Ladder

ARRAYS = ("order", "node", "stats", "box", "count", "beta", "moves", "density")
"""Names of the arrays of `ChainState` that a snapshot stores, without scratch and without the stored values
of cells.
"""
BIT_GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")
"""Names of the bit generators whose state can be stored."""


register_records(NODE=CHAIN_NODE, CELL=CELL, GUIDE=GUIDE, PIECE=GRAPH_PIECE, LINK=GRAPH_LINK)


@register_class
class StoredCells(NamedTuple):
    """Entries of the hash tables of a chain's `Stored`. Empty if statistics are whole numbers.

    Sums of fractions depend on the order of the rows, so that a chain could not compute the same values again.
    """

    n_cells: int
    """Length of the table `Stored.cell`."""
    place: Annotated[np.ndarray, np.int64, "stored"]
    """Indices of the stored entries of that table."""
    cell: Annotated[np.recarray, CELL, "stored"]
    """Entries of `Stored.cell` at these indices."""
    ways: Annotated[np.ndarray, np.float64, "stored", "features"]
    """Entries of `Stored.mass` at these indices."""
    table: Annotated[np.ndarray, np.float64, "stored", "features"]
    """Entries of `Stored.log_part` at these indices."""
    guided: Annotated[np.ndarray, np.int64, "guided"]
    """Indices of the entries of `Stored.guide` that are in use."""
    guide: Annotated[np.recarray, GUIDE, "guided"]
    """Entries of `Stored.guide` at these indices."""
    fractions: Annotated[np.ndarray, np.float64, "guided", "features"]
    """Entries of `Stored.fraction` at these indices."""
    own: Annotated[np.ndarray, np.float64, "guided", "features"]
    """Entries of `Stored.log_learned` at these indices."""


Params = Annotated[np.ndarray, np.float64, "params"]
"""Parameters of a leaf."""


@register_class
class Replica(NamedTuple):
    """State of one chain of trees between two draws. A temperature ladder has a replica at each level."""

    state: tuple[np.ndarray, ...]
    """Arrays of the state, in the order of ARRAYS."""
    cells: StoredCells
    noise: tuple[Params, Params] | None
    """Parameters of the leaf and of its guess, or None if no variance is drawn."""
    blocks: int
    """Number of blocks of proposals made."""
    graph: Graph
    """Graph of visited cells. It is frozen, and therefore shared and not copied."""


@register_class
class Rungs(NamedTuple):
    """State of a ladder of inverse temperatures (`Ladder`) without its replicas."""

    betas: Annotated[np.ndarray, np.float64, "levels"]
    """Inverse temperatures of the levels, decreasing from 1."""
    adapts: bool
    """True if tuning adapts the ladder."""
    generation: int
    """Number of adaptations made."""
    odd: bool
    """True if the next exchange is between pairs (i, i + 1) with odd i."""
    tried: Annotated[np.ndarray, np.int64, "pairs"]
    """Number of exchanges proposed between levels i and i + 1."""
    acceptance: Annotated[np.ndarray, np.float64, "pairs"]
    """Sum of their acceptance probabilities."""
    trips: int
    """Number of round trips made."""
    journey: list[bool]
    """True for each replica that has been at the last level since it was at the first, by level."""


@register_class
class Snapshot(NamedTuple):
    """State of a chain, or of a ladder, between two draws."""

    generator: dict[str, Any]
    """State of the random generator."""
    replicas: tuple[Replica, ...]
    rungs: Rungs | None
    """State of the ladder, or None if the chain is not tempered."""
    tuned: int
    """Number of tuning steps made."""
    team: int = 0
    """Number of the team, a group of chains that tune together, to which the chain belongs, 0 without teams."""


def generator_state(rng: np.random.Generator) -> dict:
    """Return the state of a generator as a dict of numbers and arrays."""
    return rng.bit_generator.state


def generator_from(source: Any) -> np.random.Generator:
    """Return a NumPy generator, from a state that `generator_state` returned or from any seed of NumPy."""
    if not isinstance(source, dict):
        return np.random.default_rng(source)
    if source["bit_generator"] not in BIT_GENERATORS:
        raise ValueError(
            f"a chain that draws from {source['bit_generator']} cannot be continued; use {', '.join(BIT_GENERATORS)}."
        )
    bits = getattr(np.random, source["bit_generator"])()
    bits.state = source
    return np.random.Generator(bits)


def snapshot_of(chain: Any, tuned: int) -> Snapshot:
    """Return a snapshot of a chain or ladder that has made ``tuned`` tuning steps. Only the graph is not copied."""
    rungs = None
    if isinstance(chain, Ladder):
        rungs = Rungs(
            chain.betas.copy(),
            chain.adapts,
            chain.generation,
            chain.next_is_odd,
            chain.n_proposed.copy(),
            chain.acceptance.copy(),
            int(chain.n_round_trips),
            [bool(step) for step in chain.has_been_last],
        )
    return Snapshot(
        generator_state(chain.rng), tuple(_replica_of_chain(replica) for replica in chain.all_chains), rungs, tuned
    )


def restore_chain(
    snapshot: Snapshot, model: Lowered, kernel: Kernel, prepare: Callable[[Chain], None] = lambda chain: None
) -> Any:
    """Return the chain or ladder of a snapshot, with a generator of its own. ``prepare`` is that of `Chain`."""
    rng = generator_from(snapshot.generator)
    has_grown_start = snapshot.replicas[0].cells.n_cells > 1
    if snapshot.rungs is None:
        chain: Any = Chain(model, kernel, rng, has_grown_start, prepare)
    else:
        rungs = snapshot.rungs
        chain = Ladder(model, kernel, rng, (rungs.betas.copy(), rungs.adapts), has_grown_start, prepare)
        chain.generation, chain.next_is_odd, chain.n_round_trips = rungs.generation, rungs.odd, rungs.trips
        chain.n_proposed, chain.acceptance = rungs.tried.copy(), rungs.acceptance.copy()
        chain.has_been_last = list(rungs.journey)
    try:
        for replica_chain, replica in zip(chain.all_chains, snapshot.replicas, strict=True):
            _restore(replica_chain, replica)
    except (IndexError, TypeError) as error:
        raise ValueError(f"the chain is not one of this model and release: {error}.") from error
    return chain


def has_exact_sums(model: Lowered) -> bool:
    """Return True if statistics are whole numbers, so that they do not depend on the order of rows."""
    weight = model.units.weight
    return bool(model.units.counts and np.all(weight == np.floor(weight)))


def _replica_of_chain(chain: Chain) -> Replica:
    """Return a copy of the state of a chain."""
    state, stored = chain.state, chain.state.stored
    place = guided = np.empty(0, dtype=np.int64)
    if not has_exact_sums(chain.lowered):
        place, guided = np.flatnonzero(stored.cell.scan != NONE), np.flatnonzero(stored.guide.hash != NONE)
    cells = (array[place] for array in (stored.cell, stored.mass, stored.log_part))
    guides = (array[guided] for array in (stored.guide, stored.fraction, stored.log_learned))
    cells = StoredCells(len(stored.cell), place, *cells, guided, *guides)
    noise = None
    if not chain.lowered.leaf.is_fixed:
        noise = chain.lowered.leaf.params.copy(), chain.lowered.proposal_leaf.params.copy()
    arrays = tuple(getattr(state, name).copy() for name in ARRAYS)
    return Replica(arrays, cells, noise, chain.blocks, state.graph)


def _restore(chain: Chain, replica: Replica) -> None:
    """Give a new chain the state of a replica. Raise ValueError if its arrays have other shapes."""
    arrays = dict(zip(ARRAYS, replica.state, strict=True))
    if len(chain.state.node) < len(arrays["node"]):
        chain.enlarge(len(arrays["node"]))
    for name, array in arrays.items():
        present = getattr(chain.state, name)
        if name != "node" and present.shape[1:] != array.shape[1:]:
            raise ValueError(f"the chain's {name} has shape {array.shape}, this model's and kernel's {present.shape}.")
        present[...] = array
    cells, state = replica.cells, chain.state
    if cells.n_cells != len(state.stored.cell):
        raise ValueError(f"the chain stores {cells.n_cells} cells, and this release {len(state.stored.cell)}.")
    state.stored.cell[cells.place], state.stored.mass[cells.place] = cells.cell, cells.ways
    state.stored.log_part[cells.place] = cells.table
    state.stored.guide[cells.guided], state.stored.fraction[cells.guided] = cells.guide, cells.fractions
    state.stored.log_learned[cells.guided] = cells.own
    if replica.noise is not None:
        chain.lowered.leaf.params[:], chain.lowered.proposal_leaf.params[:] = replica.noise
    chain.blocks = replica.blocks
    chain.use_graph(replica.graph)
