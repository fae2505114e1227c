"""The trees that can stand for a posterior: what each stands for, and which is recommended."""

import numpy as np
import pytest

import exact
import pactree_mcmc as pt

from .spaces import MODELS


def test_a_shape_with_most_of_the_probability_is_recommended():
    truth = exact.solve(pt.TreeModel([[float(x)] for x in range(30)], [x >= 15 for x in range(30)]))
    found = truth.representatives()
    assert found.recommended == "shape" and found.shape.tree.n_leaves == 2
    assert found.best_probability == pytest.approx(np.exp(truth.map_log_joint - truth.log_evidence))
    assert "most probable shape" in str(found) and "x0 <= 14.5" in str(found)


def test_the_consensus_if_no_shape_has_half():
    x = np.arange(40)
    X = np.column_stack([x, (x + (x == 19) - (x == 20)) % 40]).astype(float)
    stumps = [pt.Tree([k, -1, -1], [19.5, 0, 0], [1, 0, 0], [2, 0, 0]) for k in (0, 1)]
    root = pt.Tree([-1], [0], [0], [0])
    found = pt.posterior_from_trees(pt.TreeModel(X, x > 19), [*stumps, root]).representatives()
    assert found.recommended == "consensus"
    assert found.best_probability == pytest.approx(1 / 3) and found.shape.probability == pytest.approx(1 / 3)


@pytest.mark.parametrize("name", ["local, nominal", "local, missing", "local, regression", "dyadic"])
def test_every_kind_of_model(name):
    found = exact.solve(MODELS[name]).representatives(draws=300)
    assert 0.0 < found.best_probability <= found.shape.probability + 0.1
    assert len(str(found).splitlines()) >= 6


def test_leaves_that_depend_on_the_row_have_no_projection():
    X = np.random.default_rng(0).normal(size=(30, 2))
    post = pt.posterior_from_trees(pt.TreeModel(X, X[:, 0], leaf=pt.NormalLinear([0])), [pt.Tree([-1], [0], [0], [0])])
    assert post.representatives().projection is None and "projection" not in str(post.representatives())
