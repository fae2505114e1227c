"""Checks of a whole transition matrix."""

import math

import numpy as np

from pactree_mcmc.testing.spaces import plain_package
from tests.mcmc.transitions import (
    StateSnapshot,
    explore,
    imbalance,
    load,
    new_chain,
    posterior_of,
    row_as_array,
    transition_row,
    tree_key,
)
from tests.problems.models import build_model
from tests.problems.trees import nested_tree
from tests.reference.enumeration import Reference

TOLERANCE = 1e-12


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
    assert len(nested) == len(expected)
    assert set(nested) == set(expected)
    assert np.abs(distribution - [expected[tree] for tree in nested]).max() < TOLERANCE
    check_reversible(space.transition, distribution)
    return space


def check_reversible(transition, distribution):
    """Rows sum to 1, the distribution is stationary, and the flow both ways between any two trees is the same."""
    assert (transition >= 0.0).all()
    assert np.abs(transition.sum(axis=1) - 1.0).max() < TOLERANCE
    assert np.abs(distribution @ transition - distribution).max() < TOLERANCE
    flow = distribution[:, None] * transition
    assert np.abs(flow - flow.T).max() < TOLERANCE
    assert imbalance(transition, distribution) < TOLERANCE


def moving(space):
    """Probability that a step from a tree leads to another one, (m,)."""
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
    assert len(number) == len(space.trees)
    assert 0 in space.after_pruning
    for i, snapshot in list(space.after_pruning.items())[::3] + list(enumerate(loaded))[::4]:
        row = transition_row(chain, snapshot, step, number.__getitem__)
        assert np.abs(row_as_array(row, number) - space.transition[i]).max() < TOLERANCE
