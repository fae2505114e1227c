"""Chains start apart: at other roots, by other powers of the likelihood, the same whatever runs them."""

import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import pactree_mcmc as pt
from pactree_mcmc.mcmc.chain.start import Dispersed, feature_at
from pactree_mcmc.mcmc.kernel import read_kernel
from pactree_mcmc.mcmc.state.records import NONE
from pactree_mcmc.posterior.draws import Draws
from tests.problems.runs import chain_at, request_of

rng = np.random.default_rng(0)
X = rng.integers(0, 8, (80, 6)).astype(float)
Y = (X[:, 0] > 3) ^ (rng.random(80) < 0.1)
MODELS = {
    "local": lambda: pt.TreeModel(X, Y),
    "grid, numbers": lambda: pt.TreeModel(X, X[:, 0] + X[:, 1], split_prior=pt.GridCuts(4)),
    "shared variance": lambda: pt.TreeModel(X, X[:, 0] + X[:, 1], leaf=pt.NormalSharedVariance()),
    "dyadic": lambda: pt.TreeModel(X, Y, split_prior=pt.DyadicCuts(3)),
    "trivial": lambda: pt.TreeModel(
        X, Y, tree_prior=pt.ChipmanPrior(max_depth=4), split_prior=pt.LocalCuts(trivial=True)
    ),
    "nominal": lambda: pt.TreeModel(X, Y, nominal=[0, 1, 2, 3]),
    "missing": lambda: pt.TreeModel(np.where(X == 2, np.nan, X), Y, missing="branch"),
    "leaf penalty": lambda: pt.TreeModel(X, Y, tree_prior=pt.LeafPenalty(1.0)),
}


def started(model, chains=4, betas=None):
    """The chains at their starts, before any proposal."""
    out = []
    for c in range(chains):
        request = request_of(model, read_kernel("grow-prune"), Dispersed(c), betas)
        out.append(chain_at(request, c)[0].sampler)
    return out


def tree_of(model, chain):
    chain.reserve(1)
    chain.save()
    return Draws.join(model, [chain.saved]).distinct_tree(0)


@pytest.mark.more(everyday=["local"])
@pytest.mark.parametrize("name", MODELS)
def test_the_first_four_chains_have_four_features_at_the_root(name):
    model = MODELS[name]()
    chains = started(model)
    trees = [tree_of(model, chain) for chain in chains]
    assert len({int(tree.feature[0]) for tree in trees}) == 4 - (
        name == "missing" and len({int(t.feature[0]) for t in trees}) == 3
    )
    for tree, chain in zip(trees, chains):
        assert tree.n_leaves >= 2 and model.log_prior(tree) > -np.inf
        # nothing of how it was grown is left behind
        assert chain.state.beta[0] == 1.0 and chain.state.count[-1] != -2
        assert (chain.state.stored.cell.scan == NONE).all()


def test_replicas_of_a_ladder_start_at_their_own_powers():
    model = MODELS["local"]()
    ladder = started(model, 1, 3)[0]
    assert [float(chain.state.beta[0]) for chain in ladder.all_chains] == ladder.betas.tolist()


def test_places_and_features():
    places = [Dispersed(c).place for c in range(8)]
    assert sorted(np.floor(4 * np.array(places[:4]))) == [0, 1, 2, 3]
    assert sorted(np.floor(8 * np.array(places))) == list(range(8))
    flat, steep = np.zeros(5), -300.0 * np.arange(5.0)
    assert [feature_at(flat, place) for place in (0.0, 0.3, 0.99)] == [0, 1, 4]
    assert len({feature_at(steep, place) for place in places[:4]}) == 4
    assert feature_at(np.array([-np.inf, 2.0, -np.inf]), 0.9) == 1
    assert {feature_at(np.array([0.0, -1e6]), place) for place in places[:4]} == {0, 1}


def test_a_stump_where_nothing_can_be_asked():
    model = pt.TreeModel([[1.0], [1.0]], [0, 1])
    assert [tree_of(model, chain).n_leaves for chain in started(model)] == [1] * 4
    never = pt.TreeModel(X, Y, tree_prior=pt.ChipmanPrior(0.0))
    assert [tree_of(never, chain).n_leaves for chain in started(never)] == [1] * 4


def test_starts_do_not_depend_on_who_runs_the_chains():
    options = {"draws": 3, "tune": 0, "chains": 4, "rng": 1, "kernel": "grow-prune", "progress": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pt.ConvergenceWarning)
        alone = pt.sample(MODELS["local"](), **options)
        with ThreadPoolExecutor(1) as executor:
            one = pt.sample(MODELS["local"](), executor=executor, **options)
        more = pt.sample(MODELS["local"](), **options | {"chains": 3, "rng": np.random.SeedSequence(1).spawn(3)})
    assert (alone.log_score == one.log_score).all()
    assert (alone.log_score[:3] == more.log_score).all()
