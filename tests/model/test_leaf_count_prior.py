"""Priors on the number of leaves: their probabilities by hand, both engines against all trees listed, refusals."""

import math

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.mcmc.kernel import LIBRARY_MOVES
from pactree_mcmc.mcmc.moves.base import log_leaf_count_ratio
from pactree_mcmc.testing.plain import plain_package
from tests.posterior.spaces import MODELS, all_trees, probabilities_of_cells_and_splits

PMF = [0.0, 0.3, 0.1, 0.4, 0.15, 0.05]


def with_prior(model, prior):
    return pt.TreeModel.from_parts(model.parts._replace(tree_prior=prior))


def small_model(prior, n=4):
    x = np.arange(float(n))
    return pt.TreeModel(np.column_stack([x, x > 1]), [0.1, 1.2, -0.3, 0.5, 0.8][:n], tree_prior=prior)


def test_the_prior_is_p_over_catalan_times_the_splits():
    model = pt.TreeModel(np.arange(5.0)[:, None], np.arange(5) > 2, tree_prior=pt.LeafCountPrior([0, 2, 1, 4, 3]))
    chain = pt.Tree(
        [0, -1, 0, -1, 0, -1, -1], [0.5, 0, 1.5, 0, 2.5, 0, 0], [1, 0, 3, 0, 5, 0, 0], [2, 0, 4, 0, 6, 0, 0]
    )
    assert chain.n_leaves == 4
    # 5 shapes of 4 leaves; cuts are drawn among 4, 3 and 2
    assert math.exp(model.log_prior(chain)) == pytest.approx(0.3 / 5 / (4 * 3 * 2))
    features, cuts = [0, -1, 0, -1, 0, -1, 0, -1, -1], [0.5, 0, 1.5, 0, 2.5, 0, 3.5, 0, 0]
    longer = pt.Tree(features, cuts, [1, 0, 3, 0, 5, 0, 7, 0, 0], [2, 0, 4, 0, 6, 0, 8, 0, 0])
    assert longer.n_leaves == 5 and model.log_prior(longer) == -math.inf


def test_shapes_that_cannot_occur_take_their_mass_with_them():
    model = pt.TreeModel(np.arange(4.0)[:, None], np.arange(4) > 1, tree_prior=pt.LeafCountPrior([0, 0.5, 0.3, 0.2]))
    listed = exact.solve(model).best_trees(100).trees
    mass = sum(math.exp(model.log_prior(tree)) for tree in listed)
    # of three leaves: the side that is split again holds one value with probability one third
    assert mass == pytest.approx(0.5 + 0.3 + 0.2 * 2 / 3)


def test_the_exponential_is_the_general_prior():
    prior = pt.CatalanExponential(0.7, max_leaves=6, max_depth=3)
    general = pt.LeafCountPrior([0.0, *np.exp(-0.7 * np.arange(1, 7))], max_depth=3)
    assert np.allclose(prior.log_by_leaves(), general.log_by_leaves())
    catalan = [1, 1, 2, 5, 14, 42]
    expected = np.exp(-0.7 * np.arange(1, 7)) / np.exp(-0.7 * np.arange(1, 7)).sum() / catalan
    assert np.allclose(np.exp(prior.log_by_leaves()[1:]), expected)


@pytest.mark.tenth_a_day
@pytest.mark.parametrize("name", sorted(MODELS))
def test_the_exact_engine_sums_over_all_trees(name):
    base = MODELS[name]
    model = with_prior(base, pt.LeafCountPrior(PMF, max_depth=base.tree_prior.max_depth))
    truth = exact.solve(model, progress=False)
    trees = [tree for tree in all_trees(base)[1] if tree.n_leaves < len(PMF)]
    log_joint = np.array([model.log_posterior(tree) for tree in trees])
    assert truth.log_evidence == pytest.approx(np.logaddexp.reduce(log_joint), abs=1e-9)
    assert truth.map_log_joint == pytest.approx(log_joint.max(), abs=1e-9)
    probability = np.exp(log_joint - truth.log_evidence)
    leaves = np.array([tree.n_leaves for tree in trees])
    pmf = truth.n_leaves_pmf()
    assert np.allclose(pmf, np.bincount(leaves, probability, minlength=len(pmf)), atol=1e-12)
    is_split_on = np.array([[np.any(tree.feature == k) for k in range(model.n_features)] for tree in trees])
    assert np.allclose(truth._feature_inclusion(), probability @ is_split_on, atol=1e-12)
    post = pt.posterior_from_trees(model, trees, [np.arange(len(trees))])
    rows = base.unit_numbers(np.arange(base.units.n_units))
    by_tree = np.array([post._values_by_draw(rows)[0, t] for t in range(len(trees))])
    assert np.allclose(truth._values(rows), np.einsum("t,tnd->nd", probability, by_tree), atol=1e-9)
    stump = next(iter(truth._root_split_pmf().values()))
    assert stump == pytest.approx(probability[leaves == 1].sum())
    draws = truth.sample(50, rng=1)
    log_priors = [model.log_prior(draws.distinct_tree(t)) for t in range(draws.n_distinct_trees)]
    assert np.allclose(draws.log_prior_of_tree, log_priors)


def test_a_posterior_kl_and_support_of_the_exact_engine():
    model = small_model(pt.CatalanExponential(0.5, max_leaves=4))
    truth = exact.solve(model)
    trees = truth.best_trees(10_000).trees
    log_prior = np.array([model.log_prior(tree) for tree in trees])
    p = np.exp([model.log_posterior(tree) for tree in trees] - np.array(truth.log_evidence))
    assert p.sum() == pytest.approx(1.0)
    assert len(trees) == truth.n_trees
    divergence = p @ (np.log(p) - log_prior) + np.logaddexp.reduce(log_prior)
    assert truth.kl_to_prior() == pytest.approx(divergence)
    cells, splits = probabilities_of_cells_and_splits(model, trees, p)
    support = truth.support(0.0)
    listed = [list(cells.values()), list(splits.values())]
    for kind, expected in zip(("cell", "split"), listed, strict=True):
        # the root is listed among the cells of trees alone
        result = np.sort(support.probability[support.table()["kind"].to_numpy() == kind])
        assert np.allclose(result, np.sort(expected)[: len(result)])
    assert exact.compare(truth, truth.sample(2000, rng=3)).max_abs_z < 5.0


@pytest.mark.tenth_a_day
@pytest.mark.parametrize("move", sorted(LIBRARY_MOVES))
def test_every_move_is_in_balance(move):
    model = small_model(pt.LeafCountPrior([0, 0.2, 0.5, 0.3]))
    assert pt.testing.check_balance(move, model).imbalance < 1e-10


def test_a_wrong_ratio_is_seen(monkeypatch):
    """planted: the factor of the old number of leaves is left out, or the whole ratio."""
    model = small_model(pt.LeafCountPrior([0, 0.2, 0.4, 0.3, 0.1]))
    base = plain_package().module("mcmc.moves.base")
    assert base.log_leaf_count_ratio is not log_leaf_count_ratio
    for wrong in (lambda *args: 0.0, lambda model, state, proposal: float(model.prior.by_leaves[1])):
        monkeypatch.setattr(base, "log_leaf_count_ratio", wrong)
        with pytest.raises(pt.testing.BalanceError, match="not in balance"):
            pt.testing.check_balance("grow-prune", model)


@pytest.mark.tenth_a_day
@pytest.mark.parametrize("start", ["dispersed", "prior"])
def test_chains_draw_from_the_exact_posterior(start):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    prior = pt.LeafCountPrior([0, 0.1, 0.1, 0.3, 0.5], max_depth=2)
    model = pt.TreeModel(X, X[:, 0] > 0.3, split_prior=pt.GridCuts(5), tree_prior=prior)
    post = pt.sample(model, 600, tune=100, chains=2, start=start, rng=2, kernel="local", progress=False)
    assert exact.compare(exact.solve(model), post).max_abs_z < 4.5
    assert post.n_leaves.max() <= 4 and post.log_evidence is None
    t = int(post.tree_of_draw[0, -1])
    assert post.log_prior_of_tree[t] == pytest.approx(model.log_prior(post.distinct_tree(t)))
    with pytest.raises(ValueError, match="not normalised"):
        post.kl_to_prior()


@pytest.mark.parametrize(
    "make",
    [
        lambda: pt.LeafCountPrior([0.0, 1.0]),
        lambda: pt.LeafCountPrior([0.5, 0.3, 0.2]),
        lambda: pt.LeafCountPrior([0.0, 0.5, 0.0, 0.5]),
        lambda: pt.LeafCountPrior([0.0, 0.5, np.nan]),
        lambda: pt.LeafCountPrior("many"),
        lambda: pt.CatalanExponential(-1.0),
        lambda: pt.CatalanExponential(1.0, max_leaves=1),
        lambda: pt.CatalanExponential(1.0, max_depth=-1),
    ],
)
def test_bad_parameters_are_refused(make):
    with pytest.raises(ValueError, match=r"pmf|rate|max_leaves|max_depth"):
        make()


def test_what_needs_a_product_over_nodes_is_refused():
    model = small_model(pt.CatalanExponential(1.0, max_leaves=3))
    with pytest.raises(ValueError, match="a product over the nodes"):
        exact.solve(model, budget=10)
    with pytest.raises(ValueError, match="a product over the nodes"):
        exact.visited(exact.solve(model).sample(5, rng=1))
    with pytest.raises(ValueError, match="a product over the nodes"):
        exact.progressive_mixture(model)
    with pytest.raises(ValueError, match="a product over the nodes"):
        exact.best_trees(model, 3)
    with pytest.raises(exact.Intractable, match="max_leaves"):
        exact.solve(small_model(pt.CatalanExponential(1.0, max_leaves=4)), max_cells=10)
