"""The library's steps by name, and the chains and spaces that its tests follow them on."""

from typing import NamedTuple

import numpy as np

from pactree_mcmc.testing.spaces import (
    ReachedTrees,
    StateSnapshot,
    Stepper,
    all_outcomes,
    imbalance,
    new_chain,
    plain_package,
    posterior_of,
    row_as_array,
    saved_trees,
    tree_key,
)

__all__ = [
    "KERNELS",
    "STEPS",
    "StateSnapshot",
    "Stepper",
    "all_outcomes",
    "explore",
    "grow_at_random",
    "imbalance",
    "load",
    "new_chain",
    "new_ladder",
    "posterior_of",
    "present_tree",
    "row_as_array",
    "transition_row",
    "tree_key",
]

KERNELS = {
    "grow-prune": "mcmc.moves.grow_prune",
    "blanchard": "mcmc.moves.blanchard",
    "collapsed": "mcmc.moves.collapsed",
    "learned": "mcmc.moves.learned",
}
"""Modules of the steps that reach every tree by themselves."""
MOVES = {
    "change": "mcmc.moves.change",
    "informed-change": "mcmc.moves.informed_change",
    "shift": "mcmc.moves.change",
    "swap": "mcmc.moves.swap",
    "rotate": "mcmc.moves.rotate",
    "reshape": "mcmc.moves.reshape",
}
"""Those of the steps that need grow and prune beside them."""
STEPS = KERNELS | MOVES


class Space(NamedTuple):
    """All trees that a kernel reaches from the stump, and its transition matrix."""

    keys: list
    trees: list
    transition: np.ndarray
    """(m, m) probability of being at tree j after a step from tree i."""
    after_pruning: dict
    """Snapshot of the chain by tree number, when it last came there from a larger tree."""


def new_ladder(model, betas, adapts=False):
    """A plain ladder of such chains, first level first."""
    plain = plain_package()
    kernel, rng = plain.module("mcmc.kernel").read_kernel("default"), np.random.default_rng(0)
    with np.errstate(over="ignore"):
        ladder = plain.module("mcmc.chain.tempering").Ladder(model.lowered, kernel, rng, (np.array(betas), adapts))
    ladder.replicas = [new_chain(model) for _ in betas]
    ladder._set_levels()
    return ladder


def load(model, chain, tree):
    """Grow a plain chain, a stump, into a tree."""
    with np.errstate(over="ignore"):  # hashes wrap around
        plain_package().module("mcmc.chain.start").load_tree(model, chain, tree)


def grow_at_random(chain, rng, most):
    """Grow a plain chain by splits from the split prior, without lists, and return its nodes, about ``most``."""
    grow, splits = (plain_package().module(f"mcmc.{name}") for name in ("edits.grow", "state.splits"))
    leaves, nodes = [0], [0]
    with np.errstate(over="ignore"):
        while leaves:
            node = leaves.pop()
            here = chain.state.node[node]
            if here.splittable and len(nodes) < most:
                split = splits.draw_split(rng, chain.model, chain.packed_state, node)
                grow.attach_children(chain.model, chain.packed_state, node, split)
                below = [int(here.left), int(here.right)]
                leaves, nodes = leaves + below, nodes + below
    return nodes


def present_tree(model, chain):
    """The chain's tree as it would be saved."""
    chain.reserve(1)
    chain.save()
    return saved_trees(model, chain)[0]


def transition_row(chain, snapshot, kernel, seen):
    """Distribution of the next tree, {key: probability}; ``seen(key)`` is called at each outcome."""
    return Stepper(kernel).transition_row(chain, snapshot, seen)


def explore(model, kernel, beta=1.0, walker=None, chain=None):
    """The space of trees reached from the stump and the transition matrix.

    ``walker`` explores it: the kernel itself if it reaches every tree, else grow-prune. A ``chain`` given is at the
    stump, and keeps its beta.
    """
    walker = walker or (kernel if kernel in KERNELS else "grow-prune")
    chain = chain or new_chain(model, beta)
    reached = ReachedTrees(model, Stepper(walker), chain)
    rows = reached.rows
    if kernel != walker:
        rows = [transition_row(chain, snapshot, kernel, reached.number.__getitem__) for snapshot in reached.snapshots]
    transition = np.array([row_as_array(row, reached.number) for row in rows])
    return Space(reached.keys, reached.trees, transition, reached.after_pruning)
