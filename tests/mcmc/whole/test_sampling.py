"""Trees drawn from the density weigh what they should, and exploring trees are of rare strata and rare splits too."""

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.mcmc.chain.chain import Chain
from pactree_mcmc.mcmc.kernel import read_kernel
from pactree_mcmc.mcmc.state.arrays import first_density
from pactree_mcmc.mcmc.state.pieces import new_graph
from pactree_mcmc.mcmc.state.records import (
    EXPLORING,
    GROWING,
    N_CELL_TERMS,
    N_PIECES,
    N_WAY_TERMS,
    NONE,
)
from pactree_mcmc.mcmc.whole.density.graph import EXPLORED, frozen
from pactree_mcmc.mcmc.whole.sampling import (
    exploration_weights,
    root_evidences,
    sample_and_grow,
    sample_independent,
    set_density,
    set_growing,
    systematic_indices,
)

N, ERRORS = 3000, 4.5
"""Number of trees drawn of a stratum, and the standard errors by which a mean may be off."""
COLUMN = N_CELL_TERMS + N_WAY_TERMS
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


def any_density(p, seed=7, scale=0.4):
    """Parameters far from those that are fitted, a stratum for each feature, few anchors."""
    out = first_density(p) + np.random.default_rng(seed).normal(0.0, scale, first_density(p).shape)
    out[-1, :4], out[-1, COLUMN:] = (4, 2, 1, 1), 1 + np.arange(p)
    return out


def chain_of(model, density):
    chain = Chain(model.lowered, read_kernel({"learned": 1.0}), np.random.default_rng(11))
    set_density(chain, density, 1.0)
    return chain


def growing_chain(model, density):
    """A chain whose graph grows and is empty."""
    chain = chain_of(model, density)
    set_growing(chain, new_graph(), 50_000)
    return chain


def strata_of(model):
    """Log evidence of the trees of each root feature, and of all trees, by the exact engine."""
    truth = exact.solve(model)
    distribution = truth.root_split_pmf()
    fraction = [sum(p for key, p in distribution.items() if key is not None and key[0] == k) for k in range(3)]
    log_evidence = truth.log_evidence - model.prior_tables.log_constant
    return log_evidence + np.log(fraction), log_evidence


def assert_mean_weight(log_weights, log_evidence):
    """The mean of the weights is the evidence within its errors."""
    relative = np.exp(log_weights - log_evidence)
    error = relative.std(ddof=1) / np.sqrt(len(relative))
    assert 1e-4 < error < 0.3
    assert abs(relative.mean() - 1.0) < ERRORS * error, (relative.mean(), error)


@pytest.mark.parametrize("name", list(MODELS))
def test_the_mean_weight_is_the_evidence(name):
    """Of all trees, and of those with a given feature at the root, whatever the density."""
    model = MODELS[name]()
    strata, whole = strata_of(model)
    assert_mean_weight(sample_independent(chain_of(model, any_density(3, scale=0.1)), N), whole)
    chain = chain_of(model, any_density(3))
    for k in range(3):
        assert_mean_weight(sample_independent(chain, N, feature=k), strata[k])


@pytest.mark.parametrize("name", list(MODELS))
def test_the_mean_weight_by_a_graph_is_the_evidence(name):
    """The graph contains some of the trees, among them exploring ones."""
    model = MODELS[name]()
    chain = growing_chain(model, any_density(3))
    sample_and_grow(chain, 20)
    chain.state.graph.used[GROWING] = 0
    chain.take(frozen(chain.state.graph))
    assert_mean_weight(sample_independent(chain, N), strata_of(model)[1])


@pytest.mark.planted
@pytest.mark.parametrize("error", [0.5, 2.0])
def test_weights_off_by_a_factor_are_noticed(error):
    """As those of a probability of the root's feature that is forgotten."""
    model = MODELS["classes"]()
    weights = sample_independent(chain_of(model, any_density(3)), N, feature=0)
    with pytest.raises(AssertionError):
        assert_mean_weight(weights + np.log(error), strata_of(model)[0][0])


def test_drawing_leaves_the_chain_where_it_was():
    """Its tree, its rows and its counts; and there is room again."""
    chain = chain_of(MODELS["grid"](), any_density(3))
    chain.proceed(3)
    chain.reserve(2)
    chain.save()
    before = {name: getattr(chain.state, name).copy() for name in ("order", "moves", "beta", "density")}
    free, tree = int(chain.state.count[3]), chain.saved.node.copy()
    sample_independent(chain, 50)
    sample_independent(chain, 50, feature=1)
    chain.save(anew=True)
    for name, array in before.items():
        assert np.array_equal(getattr(chain.state, name), array), name
    assert chain.state.count[3] >= free
    first, last = (int(start) for start in chain.saved.tree["start"][:2])
    assert np.array_equal(chain.saved.node[last : 2 * last - first], tree[first:last])


def test_a_signal_ends_drawing():
    class AtOnce:
        def is_set(self):
            return True

    chain = chain_of(MODELS["grid"](), any_density(3))
    assert (sample_independent(chain, 20, AtOnce()) == -np.inf).all()


def test_evidences_of_roots_in_a_graph_are_those_of_its_trees():
    """A graph of many trees contains each stratum; an empty one contains none."""
    model = MODELS["classes"]()
    chain = growing_chain(model, any_density(3))
    assert (root_evidences(chain.state.graph, 3) == -np.inf).all()
    for k in range(3):
        sample_independent(chain, 400, feature=k)
    assert np.allclose(root_evidences(chain.state.graph, 3), strata_of(model)[0], atol=0.1)


def links_below(graph, feature):
    """The number of splits in a graph at roots with a feature and below them."""
    root = int(np.flatnonzero(graph.piece.depth[: graph.used[N_PIECES]] == 0)[0])
    roots = [link for link in links_of(graph, root) if link.feature == feature]
    todo, seen = [int(child) for link in roots for child in (link.left, link.right)], set()
    n = len(roots)
    while todo:
        at = todo.pop()
        if at >= 0 and at not in seen:
            seen.add(at)
            links = links_of(graph, at)
            n += len(links)
            todo += [int(child) for link in links for child in (link.left, link.right)]
    return n


def links_of(graph, at):
    """The splits of a piece."""
    e, out = int(graph.piece[at].first), []
    while e >= 0:
        out.append(graph.link[e])
        e = int(graph.link[e].next)
    return out


def test_exploring_trees_are_of_rare_strata_too():
    """The density seldom splits the root on feature 1, the graph contains its stratum."""
    n_splits = []
    for explores in (False, True):
        chain = growing_chain(MODELS["grid"](), any_density(3))
        sample_independent(chain, 2, feature=1)
        chain.state.density[0, COLUMN + 1] -= 30.0
        chain.state.guide.hash[:] = NONE
        before = links_below(chain.state.graph, 1)
        if explores:
            sample_and_grow(chain, 40)
        else:
            sample_independent(chain, 80)
        assert chain.state.graph.used[GROWING] == 1
        n_splits.append(links_below(chain.state.graph, 1) - before)
    assert n_splits[1] > n_splits[0], n_splits


def fraction_by_density(state):
    """The fraction of trees whose root is drawn by the density, though the graph contains nearly all trees.

    The density splits hardly any root, so that such trees are the stump, of a density near 1.
    """
    model = MODELS["classes"]()
    chain = growing_chain(model, any_density(3))
    for k in range(3):
        sample_independent(chain, 400, feature=k)
    chain.state.density[0, 0] -= 60.0
    chain.state.guide.hash[:] = NONE
    chain.state.graph.used[GROWING] = state
    log_prior, log_score = model.log_prior(STUMP), model.log_score(STUMP)
    stump = log_prior + log_score - model.prior_tables.log_constant
    return np.isclose(sample_independent(chain, 400), stump, atol=0.2).mean()


def test_exploring_trees_are_drawn_by_the_density_even_if_the_graph_has_the_split():
    assert fraction_by_density(1) == 0.0
    assert abs(fraction_by_density(EXPLORING) - EXPLORED) < 0.15


def test_strata_are_explored_by_flattened_evidence():
    weights = exploration_weights(np.array([0.0, -4.0, -8.0, -30.0, -np.inf]))
    assert np.allclose(weights, [1.0, np.exp(-1.0), np.exp(-2.0), 0.0, 0.0])
    assert exploration_weights(np.full(3, -np.inf)).tolist() == [0.0, 0.0, 0.0]
    assert systematic_indices(np.array([0.0, 1.0, 0.0, 3.0]), 8, 0.5) == [1, 1, 3, 3, 3, 3, 3, 3]
    counts = [np.bincount(systematic_indices(weights, 10, start), minlength=5) for start in (0.0, 0.3, 0.999)]
    assert all(np.abs(count - 10 * weights / weights.sum()).max() < 1.0 for count in counts)
    assert systematic_indices(weights, 0, 0.5) == []
