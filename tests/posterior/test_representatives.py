"""Trees that represent a posterior: planted clusters, the typical tree, and the choice for a paper."""

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.posterior.trees.representatives import cluster

from .spaces import MODELS, independent
from .test_tree_ess import stuck_in_two_modes


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


KINDS = ("cells", "partitions", "predictions")


def test_stuck_chains_are_modes():
    post = stuck_in_two_modes()
    found = post.modes()
    assert len(found.modes) == 2 and found.silhouette > 0.25
    assert sorted(mode.by_chain.round(1).tolist() for mode in found.modes) == [[0, 0, 1, 1], [1, 1, 0, 0]]
    for number, mode in enumerate(found.modes):
        assert mode.mass == pytest.approx(0.5, abs=0.01)
        k = mode.tree.feature[0]
        assert mode.differs[0].startswith((f"root feature 'x{k}': in 0.99 of", f"root feature 'x{k}': in 1.00 of"))
        assert any(line.startswith("all rows: ") for line in mode.differs)
        drawn = post.tree_of_draw[found.of_draw == number]
        assert set(drawn) <= set(mode.trees.tolist())
        assert (post.root_feature_of_tree[drawn] == k).mean() > 0.95
    text = str(found)
    assert text.splitlines()[0].startswith("mode 0: 0.50")
    assert "  x0 <= 1.5 (120 rows)" in text


@pytest.mark.parametrize("kind", KINDS)
def test_masses_add_up(kind):
    post = independent(exact.solve(MODELS["dyadic"]), draws=200)
    found = post.modes(kind)
    assert sum(mode.mass for mode in found.modes) == pytest.approx(1.0)
    assert np.sum([mode.by_chain for mode in found.modes], axis=0) == pytest.approx(np.ones(4))
    masses = [mode.mass for mode in found.modes]
    assert masses == sorted(masses, reverse=True) and found.kind == kind
    assert [(found.of_draw == i).mean() for i in range(len(masses))] == pytest.approx(masses)


def test_one_cluster_is_one_mode():
    points = np.random.default_rng(0).normal(size=(200, 40))
    distance = np.sqrt(((points[:, None] - points) ** 2).sum(axis=2))
    centres, silhouette = cluster(distance, 8)
    assert len(centres) == 1 and silhouette == 0.0
    x = np.arange(10.0)
    same = pt.posterior_from_trees(pt.TreeModel(x[:, None], x > 4), [pt.Tree([-1], [0], [0], [0])], [[0] * 50] * 2)
    assert [mode.mass for mode in same.modes().modes] == [1.0]
    assert same.modes().modes[0].differs == []


@pytest.mark.parametrize("k", [2, 3, 5])
def test_planted_clusters_are_found(k):
    rng = np.random.default_rng(k)
    label = rng.integers(0, k, 150)
    points = 6.0 * np.eye(k)[label] + rng.normal(size=(150, k))
    distance = np.sqrt(((points[:, None] - points) ** 2).sum(axis=2))
    centres, _ = cluster(distance, 8)
    assert len(centres) == k and len(set(label[centres])) == k
    nearest = np.argmin(distance[:, centres], axis=1)
    assert (label[centres][nearest] == label).mean() > 0.97


@pytest.mark.parametrize("kind", ["cells", "partitions"])
def test_the_typical_tree_is_in_the_middle(kind):
    post = independent(exact.solve(MODELS["grid, nominal"]), draws=80)
    found = post.tree_distances(np.arange(320), kind=kind)
    mean = found.matrix.mean(axis=1)
    tree = pt.typical_tree(post, distance=kind)
    drawn = [t for t in range(post.n_distinct_trees) if post.distinct_tree(t) == tree]
    assert mean[found.tree == drawn[0]][0] == pytest.approx(mean.min())


def test_typical_trees_of_other_posteriors():
    truth = exact.solve(MODELS["dyadic"])
    for kind in KINDS:
        assert isinstance(pt.typical_tree(truth, 100, 1, distance=kind), pt.Tree)
    with pytest.raises(ValueError, match="distance"):
        pt.typical_tree(truth, distance="leaves")
