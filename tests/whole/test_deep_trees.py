"""A regularly nested tree of depth 1,000, deeper than Python's own stack, in every method that takes or makes one."""

import pickle

import numpy as np
import pytest

import exact
import pactree_mcmc as pt

DEPTH = 1_000
X = np.arange(DEPTH + 1.0)[:, None]
Y = np.arange(DEPTH + 1) % 2


def nested(on_the_right):
    """Each split sends one row to one side, the others on."""
    n = 2 * DEPTH + 1
    feature, threshold = np.full(n, -1), np.zeros(n)
    left, right = np.zeros(n, dtype=int), np.zeros(n, dtype=int)
    inner = np.arange(0, n - 1, 2) if on_the_right else np.arange(DEPTH)
    feature[inner] = 0
    threshold[inner] = np.arange(DEPTH) + 0.5 if on_the_right else DEPTH - 0.5 - np.arange(DEPTH)
    left[inner] = inner + 1
    right[inner] = inner + 2 if on_the_right else n - 1 - np.arange(DEPTH)
    return pt.Tree(feature, threshold, left, right)


MODEL = pt.TreeModel(X, Y, split_prior=pt.LocalCuts())


@pytest.fixture(scope="module", params=[True, False], ids=["right", "left"])
def post(request):
    return pt.posterior_from_trees(MODEL, [nested(request.param)])


@pytest.mark.more(everyday=["right"])
def test_the_tree_itself(post, tmp_path):
    tree = post.draws.distinct_tree(0)
    assert tree.depth == DEPTH
    assert len(np.unique(tree.apply(X))) == DEPTH + 1
    assert len(tree.to_dot()) > DEPTH
    assert len(tree.format()) > DEPTH
    assert tree.to_sklearn()
    assert np.isfinite(MODEL.log_posterior(tree))
    again = pickle.loads(pickle.dumps(tree))
    assert np.array_equal(again.threshold, tree.threshold)
    post.save(tmp_path / "deep.nc")
    assert pt.load(tmp_path / "deep.nc").draws.distinct_tree(0).depth == DEPTH


def test_posteriors(post):
    assert post.predict_proba(X).shape == (DEPTH + 1, 2)
    assert post.map_tree().depth == DEPTH
    assert post.credible_set(0.9) is not None


@pytest.mark.more(everyday=["right"])
def test_exact_answers(post):
    tree = post.draws.distinct_tree(0)
    pieces = exact.visited(post)
    assert pieces.map_tree().depth <= DEPTH
    assert pieces.n_trees >= 1
    fixed = pt.TreeModel(X, Y, split_prior=pt.FixedTree(tree), tree_prior=pt.BranchingProcess(0.5, DEPTH))
    assert exact.solve(fixed).predict_proba(X).shape == (DEPTH + 1, 2)
    assert exact.Prunings(tree, X, Y).weakest_link().at(0.0).depth <= DEPTH
    assert pt.certificates.naive_occam(tree, X, Y, split_bits=4.0).value <= 1.0
