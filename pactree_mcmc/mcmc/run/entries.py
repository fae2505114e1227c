"""The compiled functions that a run calls, made ready as one before its chains move."""

from __future__ import annotations

from typing import Any

import numba
from numba.core import types

from ...core.compile.jit import FASTER
from ...core.compile.pack import pack
from ...core.compile.together import Member, compile_together
from ..chain.chain import Chain, plant_root
from ..chain.draw_store import save_draw
from ..chain.start import grow_from, root_sums_into, split_root
from ..chain.strata import draw_weights, root_fractions_into, visit
from ..edits.grow import grow_as_given
from ..kernel import WEIGHTS, Kernel
from ..learned.decisions import new_decisions, note_decisions
from ..learned.graph import guess_all, join, value_all
from ..moves.learned import add_saved, draw_freely

INT, NUMBERS, PLACES = types.int64, types.float64[::1], types.int64[::1]


def make_ready(chain: Chain, grown: bool) -> None:
    """Compile what the chain will call, or load it, if its kernel is a named one; other kernels' moves one by one."""
    if FASTER and any(set(chain.kernel.names) == set(names) for names in WEIGHTS.values()):
        compile_together(members(chain, grown))


def entries(kernel: Kernel, grown: bool) -> list[Any]:
    """The functions called in a run of chains, in the order of their first calls; ``grown``: from grown trees."""
    starts = [root_sums_into, split_root, grow_from] if grown or kernel.guided else [grow_as_given]
    learning = [note_decisions, root_fractions_into, draw_weights, visit, draw_freely, join, value_all, guess_all]
    steps, learning = [step.run for step in kernel.steps], [*learning, add_saved] if kernel.guided else []
    return [plant_root, *starts, *steps, *learning, save_draw]


def members(chain: Chain, grown: bool) -> list[Member]:
    """All but the first, which makes the chain, with the types of their arguments."""
    walk = numba.typeof(chain.walk)
    model, state = walk.kind_of("model"), walk.kind_of("state")
    graph, decisions = state.kind_of("graph"), numba.typeof(pack(new_decisions(1)))
    args = {
        root_sums_into: (NUMBERS, walk),
        split_root: (walk, INT),
        grow_from: (walk, INT),
        grow_as_given: (model, state, INT, INT, INT, INT),
        note_decisions: (walk, decisions),
        root_fractions_into: (NUMBERS, walk),
        draw_weights: (walk, INT, NUMBERS, INT),
        visit: (walk, INT, INT),
        draw_freely: (walk, NUMBERS, INT),
        join: (graph, graph),
        value_all: (graph, PLACES),
        guess_all: (graph,),
        add_saved: (walk, numba.typeof(chain.saved.node), PLACES, PLACES, INT),
        save_draw: (model, state, numba.typeof(chain.packed_saved)),
    }
    return [Member(entry, args.get(entry, (walk, INT, INT))) for entry in entries(chain.kernel, grown)[1:]]
