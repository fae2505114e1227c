"""Transition matrices of moves, and rows of them by plain code; checks of their balance."""

import math
from typing import NamedTuple

import numpy as np

from pactree_mcmc.testing.spaces import (
    ReachedTrees,
    StateSnapshot,
    Stepper,
    imbalance,
    new_chain,
    plain_package,
    posterior_of,
    row_as_array,
    saved_trees,
    tree_key,
)
from tests.problems.models import build_model
from tests.problems.trees import nested_tree
from tests.reference.enumeration import LEAF, Reference, admissible_splits, child_cells, root_cell
from tests.reference.leaf_scores import score

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
}
"""Those of the steps that need grow and prune beside them."""
STEPS = KERNELS | MOVES
TOLERANCE = 1e-12


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
    """The trees that ``walker``, by default the kernel, reaches from the stump (with ``chain``), and their matrix."""
    walker = walker or (kernel if kernel in KERNELS else "grow-prune")
    chain = chain or new_chain(model, beta)
    reached = ReachedTrees(model, Stepper(walker), chain)
    rows = reached.rows
    if kernel != walker:
        rows = [transition_row(chain, snapshot, kernel, reached.number.__getitem__) for snapshot in reached.snapshots]
    transition = np.array([row_as_array(row, reached.number) for row in rows])
    return Space(reached.keys, reached.trees, transition, reached.after_pruning)


def nodes(problem, tree):
    """Every (path, subtree, cell); a path is a string of L and R from the root."""
    todo = [("", tree, root_cell(problem))]
    while todo:
        path, subtree, cell = todo.pop()
        yield path, subtree, cell
        if subtree != LEAF:
            left, right = child_cells(problem, cell, subtree[1], subtree[2])
            todo += [(path + "L", subtree[3], left), (path + "R", subtree[4], right)]


def with_subtree(tree, path, new):
    """The tree with another subtree at the end of the path."""
    if not path:
        return new
    _, k, rule, left, right = tree
    if path[0] == "L":
        return ("split", k, rule, with_subtree(left, path[1:], new), right)
    return ("split", k, rule, left, with_subtree(right, path[1:], new))


def growable(problem, tree):
    """Leaves that some split can split: (path, cell, splits)."""
    leaves = [(path, cell) for path, subtree, cell in nodes(problem, tree) if subtree == LEAF]
    asked = [(path, cell, admissible_splits(problem, cell)) for path, cell in leaves]
    return [entry for entry in asked if entry[2]]


def prunable(problem, tree):
    """Nodes whose children are both leaves: (path, subtree, cell)."""
    return [entry for entry in nodes(problem, tree) if entry[1] != LEAF and entry[1][3:] == (LEAF, LEAF)]


def grow_prune_row(problem, tree, posterior):
    """Distribution of the next tree under the uniform grow and prune kernel; ``posterior``: {tree: probability}."""

    def grow_probability(of):
        return 0.5 if prunable(problem, of) else 1.0

    def propose_growth(of, R):
        return grow_probability(of) / len(growable(problem, of)) * R

    def propose_pruning(of):
        return (1.0 - grow_probability(of)) / len(prunable(problem, of))

    row = {}
    for path, _, split_prior in growable(problem, tree):
        for k, rule, R in split_prior:
            larger = with_subtree(tree, path, ("split", k, rule, LEAF, LEAF))
            there = propose_growth(tree, R)
            back = propose_pruning(larger)
            row[larger] = there * min(1.0, posterior.get(larger, 0.0) * back / (posterior[tree] * there))
    for path, subtree, cell in prunable(problem, tree):
        R = {(k, rule): R for k, rule, R in admissible_splits(problem, cell)}[subtree[1], subtree[2]]
        smaller = with_subtree(tree, path, LEAF)
        there, back = propose_pruning(tree), propose_growth(smaller, R)
        row[smaller] = row.get(smaller, 0.0) + there * min(1.0, posterior[smaller] * back / (posterior[tree] * there))
    return {**row, tree: 1.0 - math.fsum(row.values())}


def blanchard_row(problem, tree):
    """Distribution of the next tree under the paper's kernel, for a conditioned process with constant rho.

    The walk reaches a leaf at depth j with probability 2^-j; then a growth is proposed with probability
    rho (1 - rho) / 2, a deletion, if the sibling is a leaf, with 1/2, and only the scores decide.
    """
    rho = problem.tree_prior["rho"]
    row = {}
    for path, cell, split_prior in growable(problem, tree):
        for k, rule, R in split_prior:
            larger = with_subtree(tree, path, ("split", k, rule, LEAF, LEAF))
            K = fit_ratio(problem, cell, k, rule)
            row[larger] = 2.0 ** -len(path) * rho * (1.0 - rho) / 2.0 * R * min(1.0, 1.0 / K)
    for path, subtree, cell in prunable(problem, tree):
        smaller = with_subtree(tree, path, LEAF)
        either = 2 * 2.0 ** -(len(path) + 1)
        K = fit_ratio(problem, cell, subtree[1], subtree[2])
        row[smaller] = row.get(smaller, 0.0) + either / 2.0 * min(1.0, K)
    return {**row, tree: 1.0 - math.fsum(row.values())}


def fit_ratio(problem, cell, k, rule):
    """K: how much likelier the data are in the cell than in its two parts."""
    return math.exp(score(problem, cell) - sum(score(problem, child) for child in child_cells(problem, cell, k, rule)))


def tempered_distribution(naive, beta):
    """Probabilities in proportion to prior times score to the power beta, by the naive enumerator."""
    entries = Reference(naive).entries
    log_joints = [log_prior + beta * log_score for _, log_prior, log_score in entries]
    weights = [math.exp(v - max(log_joints)) for v in log_joints]
    total = math.fsum(weights)
    return {tree: weight / total for (tree, _, _), weight in zip(entries, weights, strict=True)}


def check_balance(naive, kernel, beta=1.0, walker=None, chain=None):
    """The chain reaches exactly the trees of positive prior and is reversible with respect to the posterior."""
    model = build_model(plain_package().package, naive)
    space = explore(model, kernel, beta, walker, chain)
    distribution = posterior_of(model, space.trees, beta)
    expected = tempered_distribution(naive, beta)
    nested = [nested_tree(naive, tree) for tree in space.trees]
    assert len(nested) == len(expected) and set(nested) == set(expected)
    assert np.abs(distribution - [expected[tree] for tree in nested]).max() < TOLERANCE
    check_reversible(space.transition, distribution)
    return space


def check_reversible(transition, distribution):
    """Rows sum to 1, the distribution is stationary, and the flow both ways between any two trees is the same."""
    assert (transition >= 0.0).all() and np.abs(transition.sum(axis=1) - 1.0).max() < TOLERANCE
    assert np.abs(distribution @ transition - distribution).max() < TOLERANCE
    flow = distribution[:, None] * transition
    assert np.abs(flow - flow.T).max() < TOLERANCE and imbalance(transition, distribution) < TOLERANCE


def moving(space):
    return 1.0 - np.diag(space.transition)


def check_row_ignores_history(naive, step):
    """A tree that was loaded, or reached by pruning, has the same row of the matrix as one that was grown."""
    model = build_model(plain_package().package, naive)
    space = explore(model, step)
    chain, number, loaded = new_chain(model), {}, []
    stump = StateSnapshot(chain.state)
    for i, tree in enumerate(space.trees):
        stump.restore(chain.state)
        load(model, chain, tree)
        number[tree_key(chain.state)] = i
        loaded.append(StateSnapshot(chain.state))
    assert len(number) == len(space.trees) and 0 in space.after_pruning
    for i, snapshot in list(space.after_pruning.items())[::3] + list(enumerate(loaded))[::4]:
        row = transition_row(chain, snapshot, step, number.__getitem__)
        assert np.abs(row_as_array(row, number) - space.transition[i]).max() < TOLERANCE
