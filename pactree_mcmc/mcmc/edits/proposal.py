"""Proposals of moves: a change of the tree, and the three terms of its log acceptance ratio."""

from typing import NamedTuple

import numpy as np

from ...core.compile.jit import jit

# kinds of changes of the tree, explained at `Proposal.edit`
NOTHING, REFUSED, GROW, PRUNE, REPLACE, TAKE, WITHDRAW, ROTATE = range(8)


class Proposal(NamedTuple):
    """Change of the tree that may be accepted, with the terms of its log acceptance ratio."""

    edit: int
    """NOTHING: no proposal, which is not counted. REFUSED: an impossible proposal, with nothing to undo. GROW: keep the
    children attached to ``node``. PRUNE: make ``node`` a leaf. REPLACE: put the subtree built at ``top`` in the place
    of ``node``. TAKE: the same for a subtree drawn from its conditional distribution. WITHDRAW: an impossible proposal,
    of which the part built at ``top`` is dropped. ROTATE: keep the rotation of the edge above ``node``.
    """
    which: int
    """Index, 0 or 1, in `Move.counts` of the name under which the proposal is counted."""
    node: int
    """Leaf to grow, parent of the leaves to prune, or top of the subtree to replace, else -1."""
    top: int
    """Top of the subtree built beside the tree, or -1."""
    log_prior_ratio: float
    """Log prior of the new tree minus that of the old, split prior included."""
    log_score_ratio: float
    """Log score of the new tree minus that of the old, times the inverse temperature."""
    log_proposal_ratio: float
    """Log probability of proposing the old tree from the new one, minus that of proposing the new one."""
    log_decided: float
    """Log ratio by which an earlier stage of the move has accepted the proposal (delayed acceptance), else 0."""


@jit
def _without_ratios(edit: int, which: int, node: int, top: int) -> Proposal:
    """Return a proposal with these fields, explained in `Proposal`, whose log ratios are all 0."""
    return Proposal(edit, which, node, top, 0.0, 0.0, 0.0, 0.0)


@jit
def nothing() -> Proposal:
    """Return the proposal to change nothing, for a step that has no node to choose from. The loop does not count it."""
    return _without_ratios(np.int64(NOTHING), np.int64(0), np.int64(-1), np.int64(-1))


@jit
def refused(which: int) -> Proposal:
    """Return an impossible proposal, of which nothing was built. The loop counts it, and draws no random number.

    ``which`` is the index, 0 or 1, of the name in `Move.counts` under which the loop counts the proposal.
    """
    return _without_ratios(np.int64(REFUSED), which, np.int64(-1), np.int64(-1))


@jit
def withdrawn(which: int, node: int, top: int) -> Proposal:
    """Return an impossible proposal. The loop drops the part built at ``top`` beside ``node``. See `refused`."""
    return _without_ratios(np.int64(WITHDRAW), which, node, top)


@jit
def taken(which: int, node: int, top: int) -> Proposal:
    """Return the proposal of a Gibbs step to put the subtree at ``top`` in place of ``node``. See `refused`.

    It is accepted without a decision.
    """
    return _without_ratios(np.int64(TAKE), which, node, top)
