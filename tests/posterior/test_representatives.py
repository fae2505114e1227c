"""Trees that represent a posterior: planted clusters, the typical tree, and the choice for a paper."""

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.posterior.trees.representatives import choose_medoids

from .spaces import MODELS, independent_draws
from .test_tree_ess import stuck_in_two_modes


def test_a_shape_with_most_of_the_probability_is_recommended():
    truth = exact.solve(pt.TreeModel([[float(x)] for x in range(30)], [x >= 15 for x in range(30)]))
    choice = truth.representatives()
    assert choice.recommended == "shape" and choice.shape.tree.n_leaves == 2
    assert choice.best_probability == pytest.approx(np.exp(truth.map_log_joint - truth.log_evidence))
    assert "most probable shape" in str(choice) and "x0 <= 14.5" in str(choice)


def test_the_consensus_if_no_shape_has_half():
    x = np.arange(40)
    X = np.column_stack([x, (x + (x == 19) - (x == 20)) % 40]).astype(float)
    stumps = [pt.Tree([k, -1, -1], [19.5, 0, 0], [1, 0, 0], [2, 0, 0]) for k in (0, 1)]
    root = pt.Tree([-1], [0], [0], [0])
    choice = pt.posterior_from_trees(pt.TreeModel(X, x > 19), [*stumps, root]).representatives()
    assert choice.recommended == "consensus"
    assert choice.best_probability == pytest.approx(1 / 3) and choice.shape.probability == pytest.approx(1 / 3)


@pytest.mark.parametrize("name", ["local, nominal", "local, missing", "local, regression", "dyadic"])
def test_every_kind_of_model(name):
    choice = exact.solve(MODELS[name]).representatives(draws=300)
    assert 0.0 < choice.best_probability <= choice.shape.probability + 0.1
    assert len(str(choice).splitlines()) >= 6


def test_leaves_that_depend_on_the_row_have_no_projection():
    X = np.random.default_rng(0).normal(size=(30, 2))
    post = pt.posterior_from_trees(pt.TreeModel(X, X[:, 0], leaf=pt.NormalLinear([0])), [pt.Tree([-1], [0], [0], [0])])
    assert post.representatives().projection is None and "projection" not in str(post.representatives())


KINDS = ("cells", "partitions", "predictions")


def test_stuck_chains_are_modes():
    post = stuck_in_two_modes()
    clusters = post.modes()
    assert len(clusters.modes) == 2 and clusters.silhouette > 0.25
    assert sorted(mode.by_chain.round(1).tolist() for mode in clusters.modes) == [[0, 0, 1, 1], [1, 1, 0, 0]]
    for number, mode in enumerate(clusters.modes):
        assert mode.mass == pytest.approx(0.5, abs=0.01)
        k = mode.tree.feature[0]
        assert mode.differs[0].startswith((f"root feature 'x{k}': in 0.99 of", f"root feature 'x{k}': in 1.00 of"))
        assert any(line.startswith("all rows: ") for line in mode.differs)
        tree_numbers = post.tree_of_draw[clusters.of_draw == number]
        assert set(tree_numbers) <= set(mode.trees.tolist())
        assert (post.root_feature_of_tree[tree_numbers] == k).mean() > 0.95
    text = str(clusters)
    assert text.splitlines()[0].startswith("mode 0: 0.50")
    assert "  x0 <= 1.5 (120 rows)" in text


@pytest.mark.parametrize("kind", KINDS)
def test_masses_add_up(kind):
    post = independent_draws(exact.solve(MODELS["dyadic"]), draws=200)
    clusters = post.modes(kind)
    assert sum(mode.mass for mode in clusters.modes) == pytest.approx(1.0)
    assert np.sum([mode.by_chain for mode in clusters.modes], axis=0) == pytest.approx(np.ones(4))
    masses = [mode.mass for mode in clusters.modes]
    assert masses == sorted(masses, reverse=True) and clusters.kind == kind
    assert [(clusters.of_draw == i).mean() for i in range(len(masses))] == pytest.approx(masses)


def test_one_cluster_is_one_mode():
    points = np.random.default_rng(0).normal(size=(200, 40))
    distance = np.sqrt(((points[:, None] - points) ** 2).sum(axis=2))
    centres, silhouette = choose_medoids(distance, 8)
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
    centres, _ = choose_medoids(distance, 8)
    assert len(centres) == k and len(set(label[centres])) == k
    cluster_of_point = np.argmin(distance[:, centres], axis=1)
    assert (label[centres][cluster_of_point] == label).mean() > 0.97


@pytest.mark.parametrize("kind", ["cells", "partitions"])
def test_the_typical_tree_is_in_the_middle(kind):
    post = independent_draws(exact.solve(MODELS["grid, nominal"]), draws=80)
    distances = post.tree_distances(np.arange(320), kind=kind)
    mean = distances.matrix.mean(axis=1)
    tree = pt.typical_tree(post, distance=kind)
    numbers = [t for t in range(post.n_distinct_trees) if post.distinct_tree(t) == tree]
    assert mean[distances.tree == numbers[0]][0] == pytest.approx(mean.min())


def test_typical_trees_of_other_posteriors():
    truth = exact.solve(MODELS["dyadic"])
    for kind in KINDS:
        assert isinstance(pt.typical_tree(truth, 100, 1, distance=kind), pt.Tree)
    with pytest.raises(ValueError, match="distance"):
        pt.typical_tree(truth, distance="leaves")
