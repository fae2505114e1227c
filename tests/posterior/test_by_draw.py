"""Numbers of a posterior are by draw; what is by distinct tree says so in its name."""

import re

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.mcmc import course

SCALARS = ("n_leaves", "depth", "log_prior", "log_score", "root_feature")
rng = np.random.default_rng(0)
X = rng.integers(0, 5, (60, 3)).astype(float)
Y = (X[:, 0] > 1) ^ (rng.random(60) < 0.15)
MODEL = pt.TreeModel(X, Y, tree_prior=pt.ChipmanPrior(0.8, 1.0, 4))


def posterior_of_chains():
    return pt.sample(
        MODEL, 97, tune=20, chains=3, rng=1, kernel="grow-prune", proposals=20, start="prior", progress=False
    )


def posterior_of_stages():
    return pt.progressive_mixture(MODEL, particles=10, draws=141, chains=3, kernel="grow-prune", rng=1)


def posterior_of_exact_draws():
    return exact.solve(MODEL).sample(89, rng=1)


POSTERIORS = {"chains": posterior_of_chains, "stages": posterior_of_stages, "independent": posterior_of_exact_draws}


@pytest.fixture(scope="module", params=POSTERIORS)
def post(request):
    with np.errstate(all="ignore"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(course, "short_diagnosis", lambda post: [])
        return POSTERIORS[request.param]()


def test_numbers_are_those_of_the_tree_of_each_draw(post):
    assert post.draws.n_distinct_trees < post.draws.tree_of_draw.size  # else the two have equal shapes
    for name in SCALARS:
        assert getattr(post, name).shape == (post.n_chains, post.n_draws)
    assert post.draws.split_counts_of_tree[post.draws.tree_of_draw].shape == (post.n_chains, post.n_draws, 3)
    for chain, draw in np.ndindex(post.n_chains, min(post.n_draws, 30)):
        number = int(post.draws.tree_of_draw[chain, draw])
        tree = post.draws.distinct_tree(number)
        features = tree.feature[tree.feature >= 0]
        assert (post.n_leaves[chain, draw], post.depth[chain, draw]) == (tree.n_leaves, tree.depth)
        assert post.root_feature[chain, draw] == tree.feature[0]
        assert (
            post.draws.split_counts_of_tree[post.draws.tree_of_draw[chain, draw]].tolist()
            == np.bincount(features, minlength=3).tolist()
        )
        assert post.log_prior[chain, draw] == post.draws.log_prior_of_tree[number]
        assert post.log_score[chain, draw] == post.draws.log_score_of_tree[number]


def test_means_are_those_of_the_posterior(post):
    """The mean of an array by distinct tree is another number, which a reader would not notice."""
    pmf = post.n_leaves_pmf()
    assert post.n_leaves.mean() == pytest.approx(pmf @ np.arange(len(pmf)))
    assert post.depth.mean() == pytest.approx(post.depth_pmf() @ np.arange(len(post.depth_pmf())))
    assert (post.draws.split_counts_of_tree[post.draws.tree_of_draw] > 0).mean(axis=(0, 1)) == pytest.approx(
        post._feature_inclusion()
    )
    assert abs(post.draws.n_leaves_of_tree.mean() - post.n_leaves.mean()) > 0.05
    assert post.draws.weight_of_tree @ post.draws.n_leaves_of_tree == pytest.approx(post.n_leaves.mean())


def test_every_public_array_by_distinct_tree_says_so(post):
    draws = post.draws
    lengths = {draws.n_distinct_trees: "of_tree", len(draws.distinct_trees.feature): "node|place"}
    assert not set(lengths) & {post.n_chains, post.n_draws}
    public = [name for name in dir(draws) if not name.startswith("_")]
    for name in public:
        value = getattr(draws, name)
        if isinstance(value, np.ndarray) and value.ndim:
            assert re.search(lengths.get(len(value), ""), name), name
    assert {"trees", "tree", "n_trees", "weight", "stats"}.isdisjoint(public)
