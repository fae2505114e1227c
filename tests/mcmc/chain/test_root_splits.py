"""Splits of the root weighed side by side: without bias, whichever is chosen, and known to the graph from then on."""

import numpy as np
import pytest

import exact
from pactree_mcmc.core.compile.pack import pack
from pactree_mcmc.core.logsum import log_mean
from pactree_mcmc.mcmc.chain.root_splits import BY_DENSITY, BY_VALUE, EVENLY, SURE, weigh_root_split
from pactree_mcmc.mcmc.learned.density import asked
from pactree_mcmc.mcmc.learned.graph import joined_graph, value_all
from pactree_mcmc.mcmc.run.survey import root_values, weigh_root_splits
from pactree_mcmc.mcmc.state.records import N_LINKS, N_PIECES
from pactree_mcmc.mcmc.state.terms import prior_index
from tests.mcmc.chain.test_strata import ERRORS, MODELS, any_density, assert_stays, chain_of, growing_chain, strata_of

NONE_KNOWN = np.empty(0), np.empty(0)
REPEATS, POINTS, SUBTREES = 15, 12, 20
"""Times all splits are weighed, splits looked at each time, which is a multiple of their number, and subtrees."""


def weighed(chain, feature, how, point, known=NONE_KNOWN, n=SUBTREES):
    """Log weights of subtrees of a split of the root."""
    out = np.empty((n, 2))
    while not weigh_root_split(chain.walk, feature, how, point, *known, out):
        chain.enlarge()
    return out


def log_sum_of_root(chain, feature, out):
    """What weights of a feature's splits, taken at even steps, say of the evidence of its stratum."""
    lowered, place = chain.lowered, asked(chain.model, chain.packed, 0)
    log_split = lowered.prior.table[prior_index(chain.model, 0, 0)].log_split
    rule = np.log(lowered.split_prior.feature[feature].weight / chain.state.guide[place].weight)
    return log_mean(np.array([log_mean(w, axis=0).sum() for w in out])) + rule + log_split


@pytest.mark.parametrize("feature", range(3))
@pytest.mark.parametrize("name", list(MODELS))
def test_splits_taken_evenly_have_the_evidence_of_their_stratum(name, feature):
    """The mean weights of both sides, multiplied, whatever the density and whatever the graph has learned."""
    model = MODELS[name]()
    truth, chain = strata_of(model)[0][feature], growing_chain(model, any_density(3))
    found = np.array(
        [
            np.exp(
                log_sum_of_root(
                    chain, feature, [weighed(chain, feature, EVENLY, (i + 0.5) / POINTS) for i in range(POINTS)]
                )
                - truth
            )
            for _ in range(REPEATS)
        ]
    )
    error = found.std(ddof=1) / np.sqrt(REPEATS)
    assert 1e-5 < error < 0.15
    assert abs(found.mean() - 1.0) < ERRORS * error, (found.mean(), error)


def test_splits_lie_where_known_values_say():
    """Lines between them, to the power of one over three: 1, 2, 4 and 8 here."""
    chain = growing_chain(MODELS["classes"](), any_density(3))
    known = np.array([0.0, 3.0]), np.array([5.0, 5.0 + 9.0 * np.log(2.0)])
    for cut, (first, last) in enumerate([(0, 1), (1, 3), (3, 7), (7, 15)]):
        for point in ((first + 0.01) / 15, (last - 0.01) / 15):
            fresh = growing_chain(MODELS["classes"](), any_density(3))
            weighed(fresh, 0, BY_VALUE, point, known)
            assert root_values(fresh.state.graph, 0)[0].tolist() == [cut]
    beyond = np.array([1.0, 2.0]), np.array([0.0, 3.0 * np.log(3.0)])
    weighed(chain, 0, BY_VALUE, 0.99, beyond)
    assert root_values(chain.state.graph, 0)[0].tolist() == [3]


def exact_values(model, feature):
    """Log of the sums over the trees with each split of the root on an ordered feature, less R."""
    truth, chain = exact.solve(model), chain_of(model, any_density(3))
    ways = sorted((key, p) for key, p in truth.root_split_pmf().items() if key is not None and key[0] == feature)
    weight = chain.lowered.split_prior.feature[feature].weight
    log_rule = np.log(weight / len(ways) / chain.state.guide[asked(chain.model, chain.packed, 0)].weight)
    return truth.log_evidence - model.prior_tables.log_constant + np.log([p for _, p in ways]) - log_rule


def test_the_graph_knows_the_sums_of_what_was_weighed():
    """But for half a nat on either side by which a mean weight may exceed them, and what is guessed of the unseen."""
    model = MODELS["classes"]()
    chain = growing_chain(model, any_density(3))
    weigh_root_splits(chain, 0, EVENLY, 4, 400)
    cuts, values = root_values(chain.state.graph, 0)
    assert cuts.tolist() == [0, 1, 2, 3]
    assert (values > exact_values(model, 0) - 2.0 * SURE - 0.1).all()
    assert np.abs(values - exact_values(model, 0)).max() < 1.1


def test_a_mean_weight_raises_what_the_graph_knows_of_a_side():
    """It knows less of the side by the trees alone that it has seen, as where the mean is forgotten."""
    raised = []
    for seed in range(6):
        chain = growing_chain(MODELS["grid"](), any_density(3, seed))
        out = weighed(chain, 0, EVENLY, 0.5, n=4)
        graph = chain.state.graph
        pieces = graph.piece[: graph.used[N_PIECES]]
        (root,) = np.flatnonzero(pieces.depth == 0)
        link = graph.link[pieces.first[root]]
        for side, at in enumerate((link.left, link.right)):
            if at >= 0 and pieces.seen[at] < 1.0 - 1e-6:
                least, value = log_mean(out[:, side]) - SURE, pieces.value[at]
                assert value >= least - 1e-9
                pieces.floor[at] = -np.inf
                value_all(pack(graph), np.array([at]))
                raised.append(pieces.value[at] < least)
    assert any(raised) and not all(raised)


def test_graphs_joined_keep_the_larger_bound():
    graphs = []
    for seed in range(2):
        chain = growing_chain(MODELS["grid"](), any_density(3))
        weighed(chain, 0, EVENLY, 0.5, n=4)
        chain.state.graph.piece.floor[seed:5:2] += 1.0
        graphs.append(chain.state.graph)
    bounds = [{(p.hash, p.depth): p.floor for p in g.piece[: g.used[N_PIECES]]} for g in graphs]
    joined = joined_graph(graphs)
    for piece in joined.piece[: joined.used[N_PIECES]]:
        key = (piece.hash, piece.depth)
        assert piece.floor == max(bound[key] for bound in bounds if key in bound)
    shared = bounds[0].keys() & bounds[1].keys()
    assert len({np.sign(bounds[0][key] - bounds[1][key]) for key in shared} - {0.0}) == 2


@pytest.mark.parametrize("how", [EVENLY, BY_DENSITY, BY_VALUE])
def test_weighing_leaves_the_chain_where_it_was(how):
    chain = growing_chain(MODELS["grid"](), any_density(3))
    assert_stays(chain, lambda: [weigh_root_splits(chain, feature, how, 6, 5) for feature in range(3)])


def test_without_a_graph_nothing_is_kept():
    chain = chain_of(MODELS["grid"](), any_density(3))
    assert np.isfinite(weighed(chain, 0, EVENLY, 0.5)).all()
    assert chain.state.graph.used[N_PIECES] == 0 and chain.state.graph.used[N_LINKS] == 0
