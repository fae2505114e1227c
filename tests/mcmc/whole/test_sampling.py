"""Independent trees weigh what they should, and those that grow a graph leave what it contains."""

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.mcmc.chain.chain import Chain, set_density
from pactree_mcmc.mcmc.kernel import read_kernel
from pactree_mcmc.mcmc.state.records import IS_GROWING, NONE, initial_density, new_graph
from pactree_mcmc.mcmc.whole.density.graph import merge_graphs
from pactree_mcmc.mcmc.whole.tasks import sample_independent, set_growing

N, ERRORS = 3000, 4.5
"""Number of trees drawn, and the standard errors by which a mean may be off."""
STUMP = pt.Tree([-1], [0], [0], [0])


def rows(seed=2, n=16):
    """Two ordered features with ties and a nominal one; y that hangs on the first and the last."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.integers(0, 5, n), rng.integers(0, 4, n), rng.integers(0, 3, n)]).astype(float)
    return X, X[:, 0] / 2.0 + (X[:, 2] == 1.0) + 0.3 * rng.standard_normal(n), rng.random(n) + 0.5


X, Y, WEIGHT = rows()
MODELS = {
    "classes": lambda: pt.TreeModel(X, Y > 1.0, nominal=[2], tree_prior=pt.ChipmanPrior(0.9, 1.0, max_depth=3)),
    "grid": lambda: pt.TreeModel(
        X,
        Y,
        nominal=[2],
        sample_weight=WEIGHT,
        leaf=pt.NormalInverseGamma(0.5, 0.5, 2.0, 0.5),
        split_prior=pt.GridCuts([[0.5, 1.5, 3.5], [1.5, 2.5], None]),
        tree_prior=pt.LeafPenalty(0.7, max_depth=3),
    ),
    "two rows": lambda: pt.TreeModel(
        X,
        Y,
        leaf=pt.NormalKnownVariance(0.4, 0.5, 0.5),
        split_prior=pt.LocalCuts(min_leaf=2, feature_weights=[1.0, 3.0, 2.0]),
        tree_prior=pt.BranchingProcess(0.45, max_depth=3, conditioned=True),
    ),
}


def any_density():
    """Parameters that were not fitted."""
    out = initial_density()
    out[:-1] += np.random.default_rng(7).normal(0.0, 0.1, out[:-1].shape)
    return out


def chain_of(model):
    chain = Chain(model.lowered, read_kernel({"learned": 1.0}), np.random.default_rng(11))
    set_density(chain, any_density(), 1.0)
    return chain


def growing_chain(model):
    """A chain whose graph grows and is empty."""
    chain = chain_of(model)
    set_growing(chain, new_graph(), 50_000)
    return chain


def assert_mean_weight(model, log_weights):
    """The mean of the weights is the exact evidence within its errors."""
    relative = np.exp(log_weights + model.prior_tables.log_constant - exact.solve(model).log_evidence)
    error = relative.std(ddof=1) / np.sqrt(len(relative))
    assert 1e-4 < error < 0.3
    assert abs(relative.mean() - 1.0) < ERRORS * error, (relative.mean(), error)


@pytest.mark.parametrize("name", list(MODELS))
def test_the_mean_weight_is_the_evidence(name):
    """Of trees by the density alone, and by a graph that contains some trees."""
    model = MODELS[name]()
    assert_mean_weight(model, sample_independent(chain_of(model), N))
    chain = growing_chain(model)
    sample_independent(chain, 20)
    chain.state.graph.used[IS_GROWING] = 0
    chain.use_graph(merge_graphs([chain.state.graph]))
    assert_mean_weight(model, sample_independent(chain, N))


@pytest.mark.planted
@pytest.mark.parametrize("error", [0.5, 2.0])
def test_weights_off_by_a_factor_are_noticed(error):
    """As those of a probability of the root's feature that is forgotten."""
    model = MODELS["classes"]()
    weights = sample_independent(chain_of(model), N)
    with pytest.raises(AssertionError):
        assert_mean_weight(model, weights + np.log(error))


def test_drawing_leaves_the_chain_where_it_was():
    """Its tree, its rows and its counts; and there is room again."""
    chain = chain_of(MODELS["grid"]())
    chain.run_blocks(3)
    chain.reserve(2)
    chain.save()
    before = {name: getattr(chain.state, name).copy() for name in ("order", "moves", "beta", "density")}
    free, tree = int(chain.state.count[3]), chain.saved.node.copy()
    sample_independent(chain, 50)
    chain.save(as_new=True)
    for name, array in before.items():
        assert np.array_equal(getattr(chain.state, name), array), name
    assert chain.state.count[3] >= free
    first, last = (int(start) for start in chain.saved.tree["start"][:2])
    assert np.array_equal(chain.saved.node[last : 2 * last - first], tree[first:last])


def test_no_decision_has_probability_0():
    """Though the log odds of splitting exceed 1,400 nats: a chain could not leave a stump otherwise."""
    X = np.random.default_rng(0).integers(0, 4, size=(6000, 2))
    chain = chain_of(pt.TreeModel(X, X[:, 0] > 1))
    sample_independent(chain, 1)
    guide = chain.state.stored.guide
    used = guide.hash != NONE
    assert guide.odds[used].max() > 1400.0
    assert np.isfinite(guide.log_stop[used]).all() and np.isfinite(guide.log_split[used]).all()
