"""A posterior has the trees of its draws, each once: no tree without draws, no draws without a tree."""

import numpy as np
import pytest

import pactree_mcmc as pt
from pactree_mcmc.posterior.draws import Draws

X = np.arange(40.0)[:, None]
Y = (X[:, 0] > 19) * 4.0 + np.sin(X[:, 0])
STUMP = pt.Tree([-1], [0], [0], [0])
GOOD = pt.Tree([0, -1, -1], [19.5, 0, 0], [1, 0, 0], [2, 0, 0])
BAD = pt.Tree([0, -1, -1], [7.5, 0, 0], [1, 0, 0], [2, 0, 0])


@pytest.fixture(scope="module")
def model():
    return pt.TreeModel(X, Y)


@pytest.mark.parametrize("drawn", [[[1] * 10], [[1, 2], [2, 1]]])
def test_trees_that_no_draw_has_are_in_no_answer(model, drawn):
    # the tree without draws is by far the best
    post, chosen = pt.posterior_from_trees(model, [GOOD, BAD, STUMP], drawn), np.unique(drawn)
    expected = pt.posterior_from_trees(
        model, [[GOOD, BAD, STUMP][t] for t in chosen], np.searchsorted(chosen, np.array(drawn))
    )
    assert post.draws.n_distinct_trees == len(chosen)
    assert 19.5 not in post.map_tree().threshold
    names = "map_tree", "consensus_tree", "shapes", "support", "root_split_pmf", "credible_set", "feature_inclusion"
    for name in names:
        assert str(getattr(post, name)()) == str(getattr(expected, name)())
    assert np.array_equal(post.depth_pmf(), expected.depth_pmf())
    assert post.kl_to_prior() == expected.kl_to_prior()
    assert np.array_equal(post.credible_interval(X[:3]), expected.credible_interval(X[:3]))


def test_equal_trees_are_stored_and_listed_once(model):
    # thresholds that part the rows in the same way are one split
    twin = pt.Tree([0, -1, -1], [19.4, 0, 0], [1, 0, 0], [2, 0, 0])
    post = pt.posterior_from_trees(model, [GOOD, BAD, twin, GOOD], [[0, 1, 2], [3, 3, 1]])
    assert post.draws.tree_of_draw.tolist() == [[0, 1, 0], [0, 0, 1]]
    listed = post.credible_set(0.5)
    assert post.draws.n_distinct_trees == 2 and len(listed) == 1 and listed.weight == pytest.approx([4 / 6])
    assert post.shapes().shapes[0].n_trees == 2


@pytest.mark.parametrize("shape", [(1, 0), (2, 0), (0, 3)])
def test_a_posterior_without_draws_is_refused(model, shape):
    with pytest.raises(ValueError, match="without draws; give at least one"):
        pt.posterior_from_trees(model, [GOOD], np.zeros(shape, dtype=int))


def test_a_file_of_an_older_release_is_loaded_without_its_undrawn_trees(model, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(Draws, "without_undrawn_trees", lambda draws: draws)
        old = pt.posterior_from_trees(model, [GOOD, BAD, BAD, STUMP], [[1, 2, 3, 1]])
    assert old.draws.n_distinct_trees == 4
    old.save(tmp_path / "old.nc")
    post = pt.load(tmp_path / "old.nc")
    assert post.draws.tree_of_draw.tolist() == [[0, 0, 1, 0]]
    assert str(post.map_tree()) == str(old.draws.distinct_tree(1))
    assert np.array_equal(post.predict(X), old.predict(X))
