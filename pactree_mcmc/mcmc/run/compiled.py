"""Compiled functions that a run calls, which are compiled or loaded together before its chains move."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numba
from numba.core import types

from ...core.compile.jit import HAS_PRIVATE_PARTS, pack
from ...core.compile.together import Member, compile_together, load_together
from ..chain.chain import Chain, plant_root
from ..chain.draw_store import save_draw
from ..chain.start import grow_from, root_sums_into, split_root
from ..edits.grow import grow_by_split
from ..kernel import KERNEL_WEIGHTS, LIBRARY_MOVES, Kernel
from ..moves.learned import add_saved_trees, sample_trees, saved_log_weights_into
from ..whole.density.fit import conditional_logit_loss, logistic_loss, new_decisions, record_decisions, solve_in_place
from ..whole.density.graph import add_graph, copy_graph, evaluate_pieces
from ..whole.density.scouts import roll_out

INT, FLOATS, FLOAT_TABLE, INTS = types.int64, types.float64[::1], types.float64[:, ::1], types.int64[::1]
GROWN_STARTS, GIVEN_STARTS = (root_sums_into, split_root, grow_from), (grow_by_split,)
GUIDED = (record_decisions, logistic_loss, solve_in_place, conditional_logit_loss, sample_trees)
GUIDED += (copy_graph, add_graph, evaluate_pieces, roll_out, add_saved_trees, saved_log_weights_into)
LIBRARY_STEPS = tuple(move.loop for move in LIBRARY_MOVES.values())
ALL_FUNCTIONS = (plant_root, *GROWN_STARTS, *GIVEN_STARTS, *LIBRARY_STEPS, *GUIDED, save_draw)
"""Compiled functions that chains of all kernels call: those of starts, of moves, and of a density."""


def compile_for_chain(chain: Chain, has_grown_start: bool) -> None:
    """Compile or load the compiled functions of a chain together, before it makes its first proposal."""
    # ``has_grown_start`` is True if starts are grown trees. If the moves of its kernel are not those of a named one,
    # only load what is stored. The rest compiles when called. Do nothing if `HAS_PRIVATE_PARTS` is False.
    if not HAS_PRIVATE_PARTS:
        return
    all_members = typed_functions(chain, ALL_FUNCTIONS)
    if any(set(chain.kernel.names) == set(names) for names in KERNEL_WEIGHTS.values()):
        compile_together(typed_functions(chain, functions_of_run(chain.kernel, has_grown_start)), all_members)
    else:
        load_together(all_members)


def compile_all(chain: Chain) -> None:
    """Compile or load together the functions that chains of all kernels call."""
    compile_together(typed_functions(chain, ALL_FUNCTIONS))


def functions_of_run(kernel: Kernel, has_grown_start: bool) -> list[Any]:
    """Return the compiled functions that chains of this kernel call, in the order of their first calls."""
    # ``has_grown_start`` is True if starts are grown trees
    starts = GROWN_STARTS if has_grown_start or kernel.is_guided else GIVEN_STARTS
    guided = GUIDED if kernel.is_guided else ()
    return [plant_root, *starts, *(move.loop for move in kernel.move_objects), *guided, save_draw]


def typed_functions(chain: Chain, functions: Iterable[Any]) -> list[Member]:
    """Return each function with the types of its arguments in this chain, for compilation."""
    packed_chain = numba.typeof(chain.packed_chain)
    model, state = packed_chain.kind_of("model"), packed_chain.kind_of("state")
    graph, decisions = state.kind_of("graph"), numba.typeof(pack(new_decisions(1)))
    args = {
        root_sums_into: (FLOATS, packed_chain),
        split_root: (packed_chain, INT),
        grow_from: (packed_chain, INT),
        grow_by_split: (model, state, INT, INT, INT, INT),
        plant_root: (model, state),
        record_decisions: (packed_chain, decisions),
        logistic_loss: (FLOATS, FLOATS, FLOAT_TABLE, FLOAT_TABLE, FLOATS),
        solve_in_place: (FLOAT_TABLE, FLOATS),
        conditional_logit_loss: (FLOATS, FLOAT_TABLE, FLOATS, INTS, INTS, INTS, FLOATS, FLOAT_TABLE, FLOATS, FLOATS),
        copy_graph: (graph, graph),
        sample_trees: (packed_chain, FLOATS, INT),
        add_graph: (graph, graph),
        roll_out: (packed_chain, INT, INT, FLOATS),
        evaluate_pieces: (graph, INTS),
        add_saved_trees: (packed_chain, numba.typeof(chain.saved.node), INTS, INTS, INT),
        saved_log_weights_into: (packed_chain, numba.typeof(chain.saved.node), INTS, INTS, FLOATS, INT),
        save_draw: (model, state, numba.typeof(chain.packed_saved)),
    }
    return [Member(function, args.get(function, (packed_chain, INT, INT))) for function in functions]
