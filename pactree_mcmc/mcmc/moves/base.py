"""Definition of a move, and the loop that makes its steps: it decides about proposals, makes the changes and counts.

A proposal to go from the tree T to T' is accepted with probability ``min(1, exp(log_ratio))`` (Metropolis-Hastings),

    log_ratio = log[prior(T') / prior(T)] + beta log[score(T') / score(T)] + log[q(T | T') / q(T' | T)]

where q is the probability of the proposal. The step of a move computes the three terms of its `Proposal`. In this
file, ``state`` contains the arrays of one chain, and ``state.moves`` counts the proposals (row PROPOSED) and the
accepted ones (row ACCEPTED), with one or two columns for each move.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any, NamedTuple

import numba
import numpy as np

from ...core.checks import check_choice, check_flag, check_type, repr_of
from ...core.compile.address import to_bytes
from ...core.compile.cache import CodeCache, is_of_library
from ...core.compile.jit import jit
from ...files.encoding import register_class
from ...model import Lowered
from ..edits.grow import accept_growth, prune, remove_children
from ..edits.proposal import GROW, NOTHING, PRUNE, REFUSED, REPLACE, TAKE, WITHDRAW, Proposal
from ..edits.replace_subtree import drop_subtree, has_room, insert_subtree
from ..edits.rotate_in_place import rotate_in_place, update_lists_of_rotation
from ..state.random import flip_log
from ..state.records import ACCEPTED, N_FREE, PROPOSED, SCRATCH_NAMES, ChainState

N_COUNTS = 0
"""Number of counts of a user's move, in its loop (`compile_loop`). 0 turns the check of ``which`` off."""


SCRATCH_BY_FLAG = {"replaces": "replace", "scans": "scan", "guided": "density"}
"""Group of scratch arrays that a move needs by each of its flags."""


@jit
def accept(rng: np.random.Generator, model: Lowered, state: ChainState, proposal: Proposal) -> bool:
    """Return True if the Metropolis-Hastings rule accepts a proposal, drawing one random number."""
    # if a first stage has accepted the proposal already, only the rest of the ratio decides here
    log_ratio = proposal.log_prior_ratio + proposal.log_score_ratio + proposal.log_proposal_ratio
    # two stages: min(1, e^h) min(1, e^(r - h)) = e^r min(1, e^-h) min(1, e^(h - r)), h = log_decided, r = log_ratio
    return flip_log(rng, log_ratio - proposal.log_decided)


@jit
def decide_growth(
    rng: np.random.Generator, model: Lowered, state: ChainState, first_count: int, proposal: Proposal
) -> None:
    """Accept or refuse a growth or pruning, keep or undo its change, and count it (`decide_proposal`)."""
    if proposal.edit == NOTHING:
        return
    column = first_count + proposal.which
    state.moves[PROPOSED, column] += 1
    if proposal.edit == REFUSED:
        return
    accepted = accept(rng, model, state, proposal)
    state.moves[ACCEPTED, column] += accepted
    if proposal.edit == GROW:
        if accepted:
            accept_growth(model, state, proposal.node)
        else:
            remove_children(state, proposal.node)
    elif accepted:
        prune(state, proposal.node)


@jit
def decide_proposal(
    rng: np.random.Generator, model: Lowered, state: ChainState, first_count: int, proposal: Proposal
) -> None:
    """Accept or refuse a proposal of any kind, and keep or undo its change of the tree."""
    # count the proposal in column ``first_count + which`` of ``state.moves``
    edit, node, top = proposal.edit, proposal.node, proposal.top
    if edit == NOTHING or edit == REFUSED or edit == GROW or edit == PRUNE:
        decide_growth(rng, model, state, first_count, proposal)
        return
    column = first_count + proposal.which
    state.moves[PROPOSED, column] += 1
    if edit == WITHDRAW:
        drop_subtree(state, node, top)
        return
    accepted = edit == TAKE or accept(rng, model, state, proposal)
    state.moves[ACCEPTED, column] += accepted
    if edit == REPLACE or edit == TAKE:
        if accepted:
            insert_subtree(model, state, node, top)
        else:
            drop_subtree(state, node, top)
    elif accepted:
        update_lists_of_rotation(state, node)
    else:
        rotate_in_place(model, state, node)


@jit
def has_room_to_grow(state: ChainState) -> bool:
    """Return True if two nodes are free, which is enough for a move that only grows and prunes."""
    return state.count[N_FREE] >= 2


def step(rng: np.random.Generator, model: Lowered, state: ChainState) -> Proposal:
    """Stand in for the step of a move in `make_steps`; `compile_loop` makes a copy that calls the real step."""
    raise NotImplementedError


def has_room_for_step(state: ChainState) -> bool:
    """Stand in for the check of the free nodes, `has_room` or `has_room_to_grow`, in `make_steps`."""
    raise NotImplementedError


def make_steps(chain: Any, n: int, first_count: int) -> int:
    """Make ``n`` steps of a move, or fewer if free nodes run out, and return their number."""
    # ``chain`` has the random generator, model and state of one chain. Proposals are counted in the columns of
    # ``state.moves`` from ``first_count`` on
    rng, model, state = chain.rng, chain.model, chain.state
    for i in range(n):
        if not has_room_for_step(state):
            return i
        proposal = step(rng, model, state)
        # a user's step may return any number, and compiled code does not check the bounds of the counts
        if N_COUNTS > 0 and (proposal.which < 0 or proposal.which >= N_COUNTS):
            raise ValueError(
                "a move of your own returned a proposal whose which is not the number of one of its counts: 0, or 1 "
                "for the second; give pt.Move(..., counts=(first, second)) if it counts two"
            )
        decide_proposal(rng, model, state, first_count, proposal)
    return n


def compile_loop(move: Move) -> Any:
    """Return a copy of `make_steps` that calls the step of this move. It compiles at its first call."""
    step = move.step
    # a move that only grows and prunes needs less code
    checks = (has_room, decide_proposal) if "replace" in move.scratch else (has_room_to_grow, decide_growth)
    n_counts = 0 if is_of_library(step) else len(move.counts)
    names = {"step": step, "has_room_for_step": checks[0], "decide_proposal": checks[1], "N_COUNTS": n_counts}
    loop = FunctionType(make_steps.__code__, {**globals(), **names}, make_steps.__name__)
    # the module says if the loop is cached on disk
    loop.__module__, loop.__doc__ = step.__module__, make_steps.__doc__
    loop.__qualname__ = f"steps_of_{re.sub(r'[^a-z0-9]+', '_', move.name.lower())}"
    return jit(loop)


class Move:
    """Move of a kernel, which proposes trees: one of the library's, or your own.

    Parameters
    ----------
    name : str
        Name by which proposals are counted, and by which errors and saved runs refer to the move.
    step : function
        ``step(rng, model, state) -> Proposal``, plain Python in the part of the language that numba compiles; the
        library compiles it. It calls functions of `pactree_mcmc.moves`, and functions of yours decorated with
        ``moves.jit``. All random choices are made by ``moves.pick``, ``moves.flip`` and similar functions. The step
        must return a Proposal in every case and never change the tree, since the loop decides.
    counts : tuple of one or two str, optional
        Names under which proposals are counted, at the index ``which`` of the proposal. Default ``(name,)``.
    replaces : bool, default True
        True if the step builds subtrees beside the old ones, or plans them (``moves.begin``, ``moves.replace_split``,
        and functions of a plan). False, for a step that only grows and prunes, saves memory and code. A wrong False
        lets the step write outside its arrays, which `check_balance` finds.
    scans : bool, default True
        True if the step evaluates all splits of a cell (``moves.draw_scanned``). False saves up to 16 MB per chain.
    guided : bool, default False
        True if the step needs the learned density, as the move "learned" does.
    scratch : tuple of str, optional
        Names of the scratch arrays that the step needs, instead of the three flags, for moves of the library.

    Raises
    ------
    TypeError, ValueError
        If the name is empty or not a text, if ``step`` is not a function of three arguments, or if the counts are not
        one or two names.

    Notes
    -----
    Nothing checks in a run that the step is correct. `pactree_mcmc.testing.check_balance` builds the whole transition
    matrix of a move on a small model, and names the first pair of trees whose flows differ. Each process
    compiles the step, which takes some seconds.

    Examples
    --------
    >>> import pactree_mcmc as pt
    >>> from pactree_mcmc import moves
    >>> def idle(rng, model, state):
    ...     return moves.nothing()
    >>> pt.Move("idle", idle)
    Move('idle')
    """

    def __init__(
        self,
        name: str,
        step: Callable[..., Any],
        *,
        counts: tuple[str, ...] | None = None,
        replaces: bool = True,
        scans: bool = True,
        guided: bool = False,
        scratch: tuple[str, ...] | None = None,
    ) -> None:
        if not isinstance(name, str) or not name.strip():
            raise ValueError(f"name={repr_of(name)}; give the move a name, by which its proposals are counted.")
        counts = (name,) if counts is None else counts
        is_list = isinstance(counts, tuple | list) and len(counts) in (1, 2)
        if not is_list or not all(isinstance(word, str) and word for word in counts) or len({*counts}) < len(counts):
            raise ValueError(f"counts={repr_of(counts)}; give one or two different names.")
        self.name, self.counts = name, tuple(counts)
        flags = tuple(map(check_flag, SCRATCH_BY_FLAG, (replaces, scans, guided)))
        check_type("scratch", scratch, tuple | None, f"a tuple of names, of {SCRATCH_NAMES}")
        scratch = _scratch_names(flags) if scratch is None else scratch
        self.scratch = tuple(check_choice("scratch", each, SCRATCH_NAMES) for each in scratch)
        self.step = _compile_step(name, step)
        self.loop = compile_loop(self)

    @property
    def record(self) -> AbsentMove:
        """Description of the move for a file, without its code."""
        return AbsentMove(self.name, self.counts, *(name in self.scratch for name in SCRATCH_BY_FLAG.values()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def __reduce__(self) -> tuple[Any, tuple[bytes]]:
        state = {key: value for key, value in self.__dict__.items() if key != "loop"}
        return _unpacked, (to_bytes((type(self), state)),)


def _scratch_names(flags: Iterable[bool]) -> tuple[str, ...]:
    """Return the names of the groups of scratch arrays that a step needs, by the three flags of `Move` in order."""
    return tuple(name for name, flag in zip(SCRATCH_BY_FLAG.values(), flags, strict=True) if flag)


def _unpacked(data: bytes) -> Move:
    """Return the move that `Move.__reduce__` packed."""
    cls, state = pickle.loads(data)
    move = cls.__new__(cls)
    move.__dict__.update(state)
    move.loop = compile_loop(move)
    return move


def _compile_step(name: str, step: Any) -> Any:
    """Return the compiled step of the move ``name``. Raise TypeError or ValueError if the step is not valid."""
    step = getattr(step, "__func__", step)
    plain = getattr(step, "py_func", step)
    if isinstance(step, numba.core.dispatcher.Dispatcher) and isinstance(step._cache, CodeCache):
        return step
    if not isinstance(plain, FunctionType):
        raise TypeError(f"step of the move {name!r} is {repr_of(step)}; give a function of rng, model and state.")
    if plain.__code__.co_argcount != 3:
        words = f"takes {plain.__code__.co_argcount} arguments; it is called with rng, model and state"
        raise TypeError(f"step of the move {name!r} {words}.")
    return jit(plain)


@register_class
class AbsentMove(NamedTuple):
    """Description of a user's move in a file, without code. It takes the place of the move in a loaded kernel."""

    name: str
    counts: tuple[str, ...]
    replaces: bool
    scans: bool
    guided: bool

    @property
    def scratch(self) -> tuple[str, ...]:
        """Names of the groups of scratch arrays that the step needs."""
        return _scratch_names(self[2:5])

    @property
    def record(self) -> AbsentMove:
        """Description of the move for a file."""
        return self

    @property
    def run(self) -> Any:
        """Raise ValueError, since a file contains no code of the move."""
        raise ValueError(
            f"the move {self.name!r} of this run is not the library's, and files contain no code; give the move: "
            "pt.resume(run, draws, moves=[move])."
        )
