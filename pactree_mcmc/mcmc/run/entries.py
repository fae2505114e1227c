"""Compiled functions that a run calls, which are compiled or loaded together before its chains move."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numba
from numba.core import types

from ...core.compile.jit import FASTER
from ...core.compile.pack import pack
from ...core.compile.together import Member, compile_together, find_together
from ..chain.chain import Chain, plant_root
from ..chain.draw_store import save_draw
from ..chain.start import grow_from, root_sums_into, split_root
from ..edits.grow import grow_by_split
from ..kernel import LINE_WEIGHTS, STEPS, WEIGHTS, Kernel
from ..moves.learned import add_saved_trees, sample_trees, saved_log_weights_into
from ..whole.density.decisions import add_likelihood, new_decisions, record_decisions
from ..whole.density.graph import fill_slots, join, value_all

INT, NUMBERS, TABLE, PLACES = types.int64, types.float64[::1], types.float64[:, ::1], types.int64[::1]
GROWN, GIVEN = (root_sums_into, split_root, grow_from), (grow_by_split,)
OF_DENSITY = (
    record_decisions,
    add_likelihood,
    sample_trees,
    fill_slots,
    join,
    value_all,
    add_saved_trees,
    saved_log_weights_into,
)
ALL = (plant_root, *GROWN, *GIVEN, *(step.run for step in STEPS.values()), *OF_DENSITY, save_draw)
"""Compiled functions that chains of all kernels call."""


def make_ready(chain: Chain, grown: bool) -> None:
    """Compile or load the functions of a chain together, before it moves.

    If the moves of its kernel are not those of a named one, only load what is stored, and compile the rest when called.
    """
    if not FASTER:
        return
    everything = members(chain, ALL)
    if any(set(chain.kernel.names) == set(names) for names in (*WEIGHTS.values(), LINE_WEIGHTS)):
        compile_together(members(chain, entries(chain.kernel, grown)), everything)
    else:
        find_together(everything)


def make_all_ready(chain: Chain) -> None:
    """Compile or load together the functions that chains of all kernels call."""
    compile_together(members(chain, ALL))


def entries(kernel: Kernel, grown: bool) -> list[Any]:
    """Return the functions called in a run of chains, in the order of their first calls.

    ``grown`` is True if starts are grown trees.
    """
    starts = GROWN if grown or kernel.is_guided else GIVEN
    learning = OF_DENSITY if kernel.is_guided else ()
    return [plant_root, *starts, *(step.run for step in kernel.steps), *learning, save_draw]


def members(chain: Chain, functions: Iterable[Any]) -> list[Member]:
    """Return each function with the types of its arguments in this chain, for compilation."""
    walk = numba.typeof(chain.walk)
    model, state = walk.kind_of("model"), walk.kind_of("state")
    graph, decisions = state.kind_of("graph"), numba.typeof(pack(new_decisions(1)))
    args = {
        root_sums_into: (NUMBERS, walk),
        split_root: (walk, INT),
        grow_from: (walk, INT),
        grow_by_split: (model, state, INT, INT, INT, INT),
        plant_root: (model, state),
        record_decisions: (walk, decisions),
        add_likelihood: (NUMBERS, TABLE, NUMBERS, PLACES, PLACES, PLACES, NUMBERS, TABLE, NUMBERS, NUMBERS),
        fill_slots: (graph, INT),
        sample_trees: (walk, NUMBERS, INT),
        join: (graph, graph),
        value_all: (graph, PLACES),
        add_saved_trees: (walk, numba.typeof(chain.saved.node), PLACES, PLACES, INT),
        saved_log_weights_into: (walk, numba.typeof(chain.saved.node), PLACES, PLACES, NUMBERS, INT),
        save_draw: (model, state, numba.typeof(chain.packed_saved)),
    }
    return [Member(function, args.get(function, (walk, INT, INT))) for function in functions]
