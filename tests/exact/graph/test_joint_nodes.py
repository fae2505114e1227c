"""Joint nodes, m-ary splits and context trees: the exact engine, the model and plain enumeration agree."""

from dataclasses import replace

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from tests.problems.drawn import random_problem
from tests.problems.models import build_model
from tests.reference.enumeration import LEAF, Reference

TOLERANCE = {"rel": 1e-9, "abs": 1e-9}


def _inner_nodes(tree, number=0):
    if tree == LEAF:
        return []
    left = _inner_nodes(tree[3], number + 1)
    n_left = 1 if tree[3] == LEAF else 2 * len(left) + 1
    return [number, *left, *_inner_nodes(tree[4], number + 1 + n_left)]


def _with_joint_nodes(rng, prior):
    """A random problem over a fixed tree some of whose inner nodes are joint, and its model."""
    while True:
        problem, _ = random_problem(rng, split_prior="fixed", tree_prior=prior, max_trees=400)
        inner = _inner_nodes(problem.split_prior["tree"])[1:]
        joint_nodes = {i for i in inner if rng.random() < 0.5}
        if joint_nodes:
            problem = replace(problem, split_prior={**problem.split_prior, "joint": joint_nodes})
            return problem, build_model(pt, problem, rng)


@pytest.mark.more(everyday=["stopped-0", "conditioned-1", "chipman-2"])
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("prior", ["stopped", "conditioned", "chipman", "penalty"])
def test_joint_nodes_equal_enumeration(prior, seed):
    rng = np.random.default_rng([seed, len(prior)])
    problem, model = _with_joint_nodes(rng, prior)
    reference, truth = Reference(problem), exact.solve(model)
    assert truth.log_evidence == pytest.approx(reference.log_evidence, **TOLERANCE)
    assert truth.map_log_joint == pytest.approx(reference.best_log_joint, **TOLERANCE)
    distribution, pmf = reference.n_leaves(), truth.n_leaves_pmf()
    for m in set(distribution) | set(range(len(pmf))):
        assert (pmf[m] if m < len(pmf) else 0.0) == pytest.approx(distribution.get(m, 0.0), **TOLERANCE)
    assert truth._feature_inclusion() == pytest.approx(np.array(reference.inclusion()), **TOLERANCE)
    draws = truth.sample(20, rng=seed)
    for t in range(draws.draws.n_distinct_trees):
        assert model.log_prior(draws.draws.distinct_tree(t)) == pytest.approx(
            draws.draws.log_prior_of_tree[t], **TOLERANCE
        )


def test_chains_refuse_joint_nodes():
    model = pt.TreeModel([[0], [1], [2]], [0, 1, 1], split_prior=pt.context_tree(1, 3))
    with pytest.raises(ValueError, match=r"joint nodes.*exact\.solve"):
        pt.sample(model, 10, progress=False)


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        ([True, False, False], "the root cannot be joint"),
        ([False, True, False], "node 1, a leaf of the tree, cannot be joint"),
        ([False, False], r"joint has dtype bool and shape \(2,\); give booleans of shape \(3,\)"),
        ([0, 0, 0], "joint has dtype int64"),
    ],
)
def test_bad_joint_masks(mask, message):
    with pytest.raises(ValueError, match=message):
        pt.FixedTree(pt.Tree([0, -1, -1], [0.5, 0, 0], [1, 0, 0], [2, 0, 0]), mask)
