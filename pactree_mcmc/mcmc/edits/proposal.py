"""What a move proposes, as a value: what is to be done to the tree, and the three terms of its log ratio."""

from typing import NamedTuple

import numpy as np

from ...core.compile.jit import jit

NOTHING, REFUSED, GROW, PRUNE, REPLACE, TAKE, WITHDRAW, TURN, MADE = range(9)
"""What is to be done: see `Proposal.edit`."""


class Proposal(NamedTuple):
    """A change of the tree that may be made, and the terms of its log acceptance ratio."""

    edit: int
    """NOTHING: nothing was proposed, nothing is counted. REFUSED: a proposal that cannot be made, and nothing to undo.
    GROW: the children attached to ``node``. PRUNE: ``node`` becomes a leaf. REPLACE: what was built at ``top`` takes
    the place of ``node``. TAKE: so it does without a decision, drawn from its conditional distribution. WITHDRAW: it
    cannot; what was built is dropped. TURN: the edge above ``node`` was turned. MADE: a change drawn from its
    conditional distribution is made already."""
    which: int
    """Which of the numbers the move counts: 0, or 1 for the second."""
    node: int
    """The leaf to grow, the parent of the leaves to prune, the top of the subtree to replace; -1: none."""
    top: int
    """The top of what was built beside; -1: nothing."""
    log_prior_ratio: float
    """Log prior of the new tree minus that of the old, split prior included."""
    log_score_ratio: float
    log_proposal_ratio: float
    """Log probability of proposing the way back minus that of proposing the way there."""
    log_decided: float
    """Log ratio by which an earlier stage of the move has decided already (delayed acceptance); 0: none has."""


@jit
def _bare(edit: int, which: int, node: int, top: int) -> Proposal:
    return Proposal(edit, which, node, top, 0.0, 0.0, 0.0, 0.0)


@jit
def nothing() -> Proposal:
    """Return no proposal, if there is nothing to choose from. It is not counted."""
    return _bare(np.int64(NOTHING), np.int64(0), np.int64(-1), np.int64(-1))


@jit
def refused(which: int) -> Proposal:
    """Return a proposal that cannot be made, before anything was built. It is counted, without a random number."""
    return _bare(np.int64(REFUSED), which, np.int64(-1), np.int64(-1))


@jit
def withdrawn(which: int, node: int, top: int) -> Proposal:
    """Return a proposal that cannot be made, after part of it was built at ``top`` beside ``node``."""
    return _bare(np.int64(WITHDRAW), which, node, top)


@jit
def taken(which: int, node: int, top: int) -> Proposal:
    """Return the proposal of a Gibbs step, without a decision, to put the subtree at ``top`` in place of ``node``."""
    return _bare(np.int64(TAKE), which, node, top)


@jit
def made(which: int) -> Proposal:
    """Return the proposal of a Gibbs step that has changed the tree already.

    It is an error if feature weights are drawn.
    """
    return _bare(np.int64(MADE), which, np.int64(-1), np.int64(-1))


@jit
def made_at(which: int, node: int) -> Proposal:
    """Return the same for a change at and below ``node``, made by the feature weights if these are drawn."""
    return _bare(np.int64(MADE), which, node, np.int64(-1))
