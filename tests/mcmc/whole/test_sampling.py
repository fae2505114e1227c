"""Trees drawn of each root feature weigh what the stratum does; a density balanced by them has its probabilities."""

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.mcmc.chain.chain import Chain
from pactree_mcmc.mcmc.chain.strata import FLATTENED, balanced, log_evidences, root_fractions_into
from pactree_mcmc.mcmc.kernel import read_kernel
from pactree_mcmc.mcmc.whole.density.density import known
from pactree_mcmc.mcmc.run.learn import growing
from pactree_mcmc.mcmc.run.survey import (
    draw_afresh,
    flattened,
    root_evidences,
    root_links,
    set_density,
    spread,
    visited,
    weights_of,
)
from pactree_mcmc.mcmc.state.arrays import first_density
from pactree_mcmc.mcmc.state.pieces import new_graph
from pactree_mcmc.mcmc.state.records import GROWING, N_CELL_TERMS, N_PIECES, N_WAY_TERMS, NONE

N, ERRORS = 3000, 4.5
"""Trees drawn of a stratum, and the standard errors a mean may be off."""
COLUMN = N_CELL_TERMS + N_WAY_TERMS


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


def any_density(p, seed=7):
    """Parameters far from those that are learned, a stratum for each feature, few anchors."""
    out = first_density(p) + np.random.default_rng(seed).normal(0.0, 0.4, first_density(p).shape)
    out[-1, :4], out[-1, COLUMN:] = (4, 2, 1, 1), 1 + np.arange(p)
    return out


def chain_of(model, density):
    chain = Chain(model.lowered, read_kernel({"learned": 1.0}), np.random.default_rng(11))
    set_density(chain, density, 1.0)
    return chain


def strata_of(model):
    """Log evidence of the trees of each root feature, and of all but the stump, by the exact engine."""
    truth = exact.solve(model)
    distribution = truth.root_split_pmf()
    fraction = [sum(p for key, p in distribution.items() if key is not None and key[0] == k) for k in range(3)]
    constant = model.prior_tables.log_constant
    return truth.log_evidence - constant + np.log(fraction), truth.log_evidence - constant + np.log1p(
        -distribution[None]
    )


def root_fractions(chain):
    out = np.zeros(3)
    assert root_fractions_into(out, chain.walk)
    return out


@pytest.mark.parametrize("name", list(MODELS))
def test_weights_have_the_evidence_of_their_stratum_for_a_mean(name):
    """Whatever the density; all strata and the stump make up the evidence."""
    model = MODELS[name]()
    strata, whole = strata_of(model)
    chain, variance = chain_of(model, any_density(3)), 0.0
    weights = {k: weights_of(chain, k, N) for k in range(3)}
    for k, w in weights.items():
        relative = np.exp(w - strata[k])
        error = relative.std(ddof=1) / np.sqrt(N)
        assert 1e-4 < error < 0.2
        assert abs(relative.mean() - 1.0) < ERRORS * error, (k, relative.mean(), error)
        variance += (error * np.exp(strata[k] - whole)) ** 2
    found = np.exp(np.logaddexp.reduce(list(log_evidences(weights).values())) - whole)
    assert abs(found - 1.0) < ERRORS * np.sqrt(variance)


@pytest.mark.planted
@pytest.mark.parametrize("error", [0.5, 2.0])
def test_weights_off_by_a_factor_are_noticed(error):
    """As those of a fraction of the root that is forgotten."""
    model = MODELS["classes"]()
    strata, _ = strata_of(model)
    w = weights_of(chain_of(model, any_density(3)), 0, N) + np.log(error)
    relative = np.exp(w - strata[0])
    assert abs(relative.mean() - 1.0) > ERRORS * relative.std(ddof=1) / np.sqrt(N)


def assert_stays(chain, act):
    """What is done leaves the tree, its rows and the lists of a chain; and there is room again."""
    chain.proceed(3)
    chain.reserve(2)
    chain.save()
    before = {name: getattr(chain.state, name).copy() for name in ("order", "moves", "beta", "density")}
    free, score = int(chain.state.count[3]), chain.saved.used.copy()
    act()
    chain.save(anew=True)
    for name, array in before.items():
        assert np.array_equal(getattr(chain.state, name), array), name
    assert chain.state.count[3] >= free
    assert not np.array_equal(chain.saved.used, score)


def test_drawing_leaves_the_chain_where_it_was():
    chain = chain_of(MODELS["grid"](), any_density(3))
    assert_stays(chain, lambda: weights_of(chain, 1, 50))


@pytest.mark.parametrize("name", list(MODELS))
@pytest.mark.parametrize("lost", [None, 0, 2])
def test_a_balanced_root_has_the_probabilities_of_the_strata(name, lost):
    """But for the defensive parts; also where a feature was lost to the density, its mode with it."""
    model, density = MODELS[name](), any_density(3)
    if lost is not None:
        density[0, COLUMN + lost] = -10.0
    chain = chain_of(model, density)
    fractions = root_fractions(chain)
    distribution = strata_of(model)[0]
    distribution = np.exp(FLATTENED * (distribution - np.logaddexp.reduce(distribution)))
    distribution /= distribution.sum()
    assert lost is None or fractions[lost] < 0.1 * distribution[lost]
    weights = {k: weights_of(chain, k, N) for k in range(3)}
    again = balanced(density, fractions, weights, np.zeros(len(fractions)))
    changed = np.zeros(density.shape, dtype=bool)
    changed[0, COLUMN:] = True
    assert np.array_equal(again[~changed], density[~changed])
    set_density(chain, again, 1.0)
    mixture = chain.state.fractions[known(chain.model, chain.packed, 0)]
    assert np.abs(mixture - distribution).max() < 0.13, (mixture, distribution)
    assert np.abs(root_fractions(chain) - distribution).max() < 0.05


def growing_chain(model, density):
    """A chain whose graph grows, empty yet."""
    chain = chain_of(model, density)
    growing(chain, new_graph(), 50_000)
    return chain


def root_trees(model):
    """Posterior probability of each split of the root, given the root's feature, by the exact engine."""
    distribution = exact.solve(model).root_split_pmf()
    total = [sum(p for key, p in distribution.items() if key is not None and key[0] == k) for k in range(3)]
    return {key: p / total[key[0]] for key, p in distribution.items() if key is not None}


def roots_apart(model, many):
    """Total variation between the splits of roots on feature 0 that a chain is brought to, and the posterior's."""
    density, truth, cuts = any_density(3), root_trees(model), []
    density[0, N_CELL_TERMS] = -1.5
    chain = chain_of(model, density)
    for _ in range(400):
        visited(chain, 0, many)
        assert chain.state.node[0]["feature"] == 0
        cuts.append(int(chain.state.node[0]["cut"]))
    truth = [truth[key] for key in sorted(truth) if key[0] == 0]
    return 0.5 * np.abs(np.bincount(cuts, minlength=len(truth)) / len(cuts) - truth).sum()


def test_a_chain_is_brought_to_a_tree_of_the_stratum_by_its_weight():
    """Of many drawn it is nearly the posterior's, of one the density's."""
    model = MODELS["classes"]()
    by_density, by_weight = roots_apart(model, 1), roots_apart(model, 200)
    assert by_weight < 0.08 and by_density > 0.2, (by_weight, by_density)


def test_evidences_of_roots_in_a_graph_are_those_of_its_trees():
    """A graph of many trees knows each stratum; one of none knows none."""
    model = MODELS["classes"]()
    chain = growing_chain(model, any_density(3))
    assert (root_evidences(chain.state.graph, 3) == -np.inf).all()
    for k in range(3):
        weights_of(chain, k, 400)
    assert np.allclose(root_evidences(chain.state.graph, 3), strata_of(model)[0], atol=0.1)


def test_trees_drawn_to_see_more_are_of_rare_strata_too():
    """The density seldom splits the root on feature 1, the graph knows its stratum."""
    seen = []
    for by_stratum in (False, True):
        chain = growing_chain(MODELS["grid"](), any_density(3))
        weights_of(chain, 1, 2)
        chain.state.density[0, COLUMN + 1] -= 30.0
        chain.state.guide.hash[:] = NONE
        before = int(chain.state.graph.used[N_PIECES])
        draw_afresh(chain, 40, by_stratum=by_stratum)
        assert chain.state.graph.used[GROWING] == 1
        assert int(chain.state.graph.used[N_PIECES]) > before
        graph = chain.state.graph
        seen.append((graph.link.feature[root_links(graph)] == 1).sum())
    assert seen[1] > seen[0], seen


def test_strata_are_looked_at_by_flattened_evidence():
    looks = flattened(np.array([0.0, -4.0, -8.0, -30.0, -np.inf]))
    assert np.allclose(looks, [1.0, np.exp(-1.0), np.exp(-2.0), 0.0, 0.0])
    assert flattened(np.full(3, -np.inf)).tolist() == [0.0, 0.0, 0.0]
    assert spread(np.array([0.0, 1.0, 0.0, 3.0]), 8, 0.5) == [1, 1, 3, 3, 3, 3, 3, 3]
    counts = [np.bincount(spread(looks, 10, start), minlength=5) for start in (0.0, 0.3, 0.999)]
    assert all(np.abs(count - 10 * looks / looks.sum()).max() < 1.0 for count in counts)
    assert spread(looks, 0, 0.5) == []
