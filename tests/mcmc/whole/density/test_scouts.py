"""Scouts find root features that no single split shows, and add trees with them to a graph."""

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.mcmc.chain.chain import Chain
from pactree_mcmc.mcmc.kernel import read_kernel
from pactree_mcmc.mcmc.state.records import NONE, new_graph
from pactree_mcmc.mcmc.whole.density import scouts
from pactree_mcmc.mcmc.whole.density.graph import merge_graphs
from pactree_mcmc.mcmc.whole.evidence import visited_probabilities
from pactree_mcmc.mcmc.whole.tasks import set_growing
from pactree_mcmc.posterior.evidence import evidence_constant
from tests.mcmc.whole.test_lost_modes import two_modes
from tests.problems.runs import MODELS


def hidden():
    """Features 0 and 1 together determine y, and neither does alone. Feature 2 gains a little by itself."""
    rng = np.random.default_rng(2)
    X = rng.integers(0, 4, (200, 3)).astype(float)
    y = (X[:, 0] > 1) ^ (X[:, 1] > 1) ^ (rng.random(200) < 0.02)
    return pt.TreeModel(X, y, tree_prior=pt.ChipmanPrior(0.95, 1.0, max_depth=3))


def exact_root_law(truth):
    law = np.zeros(truth.model.n_features)
    for key, probability in truth._root_split_pmf().items():
        if key is not None:
            law[key[0]] += probability
    return law


def scout(model, features=None, seed=1):
    """The graph to which scouts have added their trees, and whether they were told to end."""
    chain = Chain(model.lowered, read_kernel("whole"), np.random.default_rng(seed))
    graph = set_growing(chain, new_graph(), 20_000)
    features = np.arange(len(model.lowered.split_prior.feature)) if features is None else features
    for _ in scouts.scout_roots(chain, features):
        pass
    return merge_graphs([graph])


def root_features(graph):
    at, features = int(graph.piece.first[np.argmin(graph.piece.depth)]) if graph.used[0] else NONE, set()
    while at != NONE:
        features.add(int(graph.link.feature[at]))
        at = int(graph.link.next[at])
    return features


@pytest.mark.parametrize("model", [two_modes(), hidden()], ids=["two modes", "hidden"])
def test_estimates_are_the_sums_over_all_trees_with_the_feature_at_the_root(model, monkeypatch):
    """Without a bias if every cell with a split is split, as then the draws have the weights whose sum is known."""
    truth = exact.solve(model)
    log_sums = truth.log_evidence - evidence_constant(model) + np.log(exact_root_law(truth))
    chain = Chain(model.lowered, read_kernel("whole"), np.random.default_rng(1))
    chain.enlarge(1024)
    chain.use_graph(new_graph())
    estimates = [scouts.roll_out(chain.packed_chain, k, 20_000, np.array([-np.inf])) for k in range(3)]
    assert abs(np.array(estimates) - log_sums).max() < 0.15, (estimates, log_sums)


@pytest.mark.planted
def test_the_graph_has_most_of_the_posterior_of_features_that_no_single_split_shows():
    truth = exact.solve(hidden())
    law, graph = exact_root_law(truth), scout(hidden())
    assert law[0] > 0.05 and law[1] > 0.05
    bounds = visited_probabilities(hidden(), [graph], np.array([[truth.log_evidence, 0.0]]))[0]
    assert (bounds <= law + 1e-9).all() and (bounds > 0.3 * law)[:2].all(), (bounds, law)


@pytest.mark.parametrize("name", MODELS)
def test_scouts_visit_only_their_features_on_all_kinds_of_models(name):
    model = MODELS[name]
    p = len(model.lowered.split_prior.feature)
    assert root_features(scout(model, np.arange(0, p, 2))) <= set(range(0, p, 2))


def test_too_many_features_are_left_out(monkeypatch):
    monkeypatch.setattr(scouts, "MAX_ROLLOUTS", 2)
    assert root_features(scout(two_modes())) == set()


def test_scouts_end_at_a_signal():
    chain = Chain(two_modes().lowered, read_kernel("whole"), np.random.default_rng(1))
    set_growing(chain, new_graph(), 20_000)
    work = scouts.scout_roots(chain, np.arange(3))
    next(work)
    with pytest.raises(StopIteration) as end:
        work.send(True)
    assert end.value.value is True


def test_both_teams_of_a_run_have_the_features():
    model = hidden()
    post = pt.sample(model, 250, rng=1, progress=False)
    law = exact_root_law(exact.solve(model))
    assert post.course.teams == [[0, 2], [1, 3]]
    assert all({0, 1} <= root_features(graph) for graph in post.course.tuned.graphs)
    assert abs(np.array([(post.root_feature == k).mean() for k in range(3)]) - law).max() < 0.1
