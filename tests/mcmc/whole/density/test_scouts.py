"""The density is the one that made the decisions it was fitted to; scouts find what no single split shows."""

from math import lgamma, log

import h5py
import numpy as np
import pytest
from scipy.special import expit

import exact
import pactree_mcmc as pt
from pactree_mcmc.mcmc.chain.chain import Chain
from pactree_mcmc.mcmc.kernel import read_kernel
from pactree_mcmc.mcmc.state.records import (
    MIN_TOP_DEPTHS,
    N_CELL_TERMS,
    N_DEPTH_CLASSES,
    N_INTERNAL,
    N_PIECES,
    N_SPLIT_TERMS,
    NONE,
    initial_density,
    new_graph,
)
from pactree_mcmc.mcmc.whole.density import scouts
from pactree_mcmc.mcmc.whole.density.fit import (
    Decisions,
    conditional_logit_loss,
    fit_density,
    join_decisions,
    mean_depth,
)
from pactree_mcmc.mcmc.whole.density.graph import merge_graphs
from pactree_mcmc.mcmc.whole.density.terms import ROWS_TERM
from pactree_mcmc.mcmc.whole.evidence import visited_probabilities
from pactree_mcmc.mcmc.whole.tasks import set_growing
from pactree_mcmc.posterior.evidence import evidence_constant
from pactree_mcmc.testing.spaces import plain_package
from tests.mcmc.transitions import check_balance, load
from tests.mcmc.whole.density.test_graph import ROOM, freeze, grown, module, prune_all, with_room
from tests.mcmc.whole.test_rounds import two_modes
from tests.problems.models import build_model
from tests.problems.runs import MODELS, draw
from tests.problems.spaces import case_problem

TRUE = np.array([1.5, -0.7, 0.4, 0.0, -1.0, 0.6])
TRUE_SPLIT = np.array([0.3, 0.8, -0.5, 0.2, 0.0, -0.4, 0.5, -0.2])
SPACE = ("ties", "chipman", "dirichlet")
ALPHA, BETA, CONCENTRATION = 0.95, 0.5, 0.5
ROWS, WRONG = 40, 4
"""Number of rows of each of eight cells, and of rows in it whose class is not the parity of its features."""
N_TREES = 600
GOOD, POOR = 0, 1
"""Features at the root of the two trees that the graph contains."""
FAR = 60.0
"""Nats by which the poor tree is worse at least."""
CLOSE = 0.5
"""Nats by which the value of the branch may be off after trees were drawn."""


def simulated(n=4000, n_splits=20, expected=None, level=0, seed=0):
    rng = np.random.default_rng(seed)
    cells = rng.normal(size=(n, N_CELL_TERMS))
    cells[:, 0] = 1.0
    split = rng.random(n) < expit(cells @ TRUE_SPLIT)
    terms, offset, first, chosen = [], [], [0], []
    for i in range(n):
        if split[i]:
            f, log_rule = rng.normal(size=(n_splits, N_SPLIT_TERMS)), rng.normal(size=n_splits)
            z = log_rule + f @ TRUE
            q = rng.choice(n_splits, p=np.exp(z - np.logaddexp.reduce(z)))
            # a sample by other terms than the distribution's, given that it holds the split taken
            include = np.ones(n_splits) if expected is None else np.clip(expected * expit(f[:, 0]) / 10.0, 0.05, 1.0)
            kept = (rng.random(n_splits) < include) | (np.arange(n_splits) == q)
            chosen.append(first[-1] + int(kept[:q].sum()))
            terms.append(f[kept])
            offset.append(log_rule[kept] - np.log(include[kept]))
        else:
            chosen.append(-1)
        first.append(first[-1] + (int(kept.sum()) if split[i] else 0))
    return Decisions(
        np.full(n, level),
        split.astype(float),
        cells,
        np.array(first),
        np.array(chosen),
        np.concatenate([np.empty((0, N_SPLIT_TERMS)), *terms]),
        np.concatenate([np.empty(0), *offset]),
        np.array([n, first[-1]]),
    )


def fitted(decisions):
    """The parameters of the root: of splitting, and of splits."""
    density = fit_density(decisions)
    assert np.array_equal(density[1:-1], initial_density()[1:-1])
    return density[0, :N_CELL_TERMS], density[0, N_CELL_TERMS:]


@pytest.mark.parametrize("expected", [None, 4.0])
def test_the_density_that_made_the_decisions_is_found(expected):
    """Also from samples of the splits, whose probabilities are taken off."""
    split, ways = fitted(simulated(expected=expected))
    assert np.abs(split - TRUE_SPLIT).max() < 0.15 and np.abs(ways - TRUE).max() < 0.15
    x = np.random.default_rng(1).normal(size=(500, N_CELL_TERMS))
    assert np.abs(expit(x @ split) - expit(x @ TRUE_SPLIT)).mean() < 0.02
    f = np.random.default_rng(2).normal(size=(500, 8, N_SPLIT_TERMS))
    z, w = f @ ways, f @ TRUE
    found, true = (np.exp(v - np.logaddexp.reduce(v, axis=1, keepdims=True)) for v in (z, w))
    assert np.abs(found - true).mean() < 0.01


@pytest.mark.planted
def test_samples_taken_for_all_splits_are_noticed():
    decisions = simulated(expected=4.0)
    include = np.clip(4.0 * expit(decisions.split_terms[:, 0]) / 10.0, 0.05, 1.0)
    _, ways = fitted(decisions._replace(offset=decisions.offset + np.log(include)))
    assert np.abs(ways - TRUE).max() > 0.2


def test_derivatives_are_finite_differences():
    d = simulated(40, 7)
    split = np.flatnonzero(d.choice >= 0)
    theta = np.random.default_rng(3).normal(size=N_SPLIT_TERMS)

    def at(theta):
        gradient, hessian = np.zeros(len(theta)), np.zeros((len(theta), len(theta)))
        rest = (d.first[split], d.first[split + 1], d.choice[split], gradient, hessian)
        rest = (*rest, np.empty(len(d.offset)), np.empty(N_SPLIT_TERMS))
        return conditional_logit_loss(theta, d.split_terms, d.offset, *rest), gradient, hessian

    value, gradient, hessian = at(theta)
    distribution = 0.0
    for i in split:
        rows = slice(d.first[i], d.first[i + 1])
        z = d.offset[rows] + d.split_terms[rows] @ theta
        distribution -= z[d.choice[i] - d.first[i]] - np.logaddexp.reduce(z)
    assert value == pytest.approx(distribution, rel=1e-12)
    h = 1e-5 * np.eye(len(theta))
    slopes = [(at(theta + e)[0] - at(theta - e)[0]) / 2e-5 for e in h]
    bends = [(at(theta + e)[1] - at(theta - e)[1]) / 2e-5 for e in h]
    assert np.allclose(gradient, slopes, rtol=1e-6, atol=1e-6) and np.allclose(hessian, bends, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("constant", [0.0, 3.0, 1e8])
def test_constant_terms(constant):
    """What never changes tells nothing and stops nothing."""
    d = simulated(200, 5)
    d.cell_terms[:, 3] = constant
    d.split_terms[:, 2] = constant
    density = fit_density(d)
    assert np.isfinite(density).all() and abs(density[0, N_CELL_TERMS + 2] * constant) < 5.0


def test_few_decisions_change_little_and_none_change_nothing():
    none, one = (join_decisions([simulated(n, 4, level=level) for level in range(N_DEPTH_CLASSES)]) for n in (0, 1))
    assert np.array_equal(fit_density(none), initial_density())
    assert 0.0 < np.abs(fit_density(one) - initial_density())[:-1].max() < 3.0


@pytest.mark.parametrize("is_split", [0.0, 1.0])
def test_cells_that_all_decide_alike(is_split):
    d = simulated(100, 4)
    d.is_split[:] = is_split
    density = fit_density(d)
    assert np.isfinite(density).all() and np.mean(expit(d.cell_terms @ density[0, :N_CELL_TERMS]) > 0.5) == is_split


@pytest.mark.parametrize("size", [1e-15, 1e-9, 1e-5])
def test_terms_of_rounding_errors_have_no_parameter(size):
    """Otherwise the same split would have another probability if its terms are computed in another order."""
    d = simulated(400, 5)
    rng = np.random.default_rng(1)
    d.cell_terms[:, 1] = 2.0 + size * rng.normal(size=len(d.cell_terms))
    d.split_terms[:, 0] = size * rng.normal(size=len(d.split_terms))
    split, ways = fitted(d)
    assert abs(split[1]) < 10.0 and abs(ways[0]) < 10.0


def test_decisions_are_joined_as_they_are():
    parts = [simulated(30, 4, seed=s) for s in (1, 2, 3)]
    whole = join_decisions(parts)
    at = 0
    for part in parts:
        for i in range(len(part.level)):
            ours, theirs = slice(*whole.first[at + i : at + i + 2]), slice(*part.first[i : i + 2])
            assert np.array_equal(whole.split_terms[ours], part.split_terms[theirs])
            if part.choice[i] >= 0:
                taken = whole.split_terms[whole.choice[at + i]]
                assert np.array_equal(taken, part.split_terms[part.choice[i]])
        at += len(part.level)


def graph_of(post, c):
    return post.course.tuned.graphs[post.course.rests[c].team]


def test_chains_of_a_file_share_the_graphs_of_their_teams(tmp_path):
    post = draw("numbers", 5, kernel="whole", tune=50, chains=4)
    post.save(tmp_path / "run.nc")
    with h5py.File(tmp_path / "run.nc") as file:
        assert [name for name in file["pactree_mcmc"] if name.endswith(".piece")] == [
            f"course.tuned.graphs.{c}.piece" for c in (0, 1)
        ]
    again = pt.load(tmp_path / "run.nc")
    for c in range(4):
        assert graph_of(post, c).used[N_PIECES] > 10
        for mine, theirs in zip(graph_of(again, c), graph_of(post, c), strict=True):
            np.testing.assert_array_equal(mine, theirs)


def with_tops(tops):
    """The problem, and a chain whose density says that so many depths are drawn from."""
    naive = case_problem(*SPACE)
    chain = grown(build_model(plain_package().package, naive), 1)
    chain.state.density[-1, 0] = tops
    return naive, chain


@pytest.mark.more
@pytest.mark.parametrize("tops", [1.0, 4.0])
def test_balance_with_other_numbers_of_depths(tops):
    naive, chain = with_tops(tops)
    check_balance(naive, "learned", chain=chain)


def test_as_many_depths_as_the_leaf_of_a_row_is_deep_on_average():
    """A tree of 100 rows: 60 of them part again, and all of these once more and once more."""
    decisions, rows = simulated(6), np.array([100.0, 60.0, 40.0, 60.0, 60.0, 60.0])
    terms = decisions.cell_terms.copy()
    terms[:, ROWS_TERM] = np.log1p(rows)
    split = np.array([1.0, 1.0, 0.0, 1.0, 1.0, 1.0])
    deep = decisions._replace(level=np.array([0, 1, 1, 2, 3, 3]), is_split=split, cell_terms=terms)
    assert mean_depth(deep) == pytest.approx(3.4) and mean_depth(deep._replace(is_split=0.0 * split)) == 0.0
    assert fit_density(deep)[-1, 0] == MIN_TOP_DEPTHS == initial_density()[-1, 0]
    terms[:, ROWS_TERM] = np.log1p([100.0, 100.0, 0.0, 100.0, 100.0, 90.0])
    assert fit_density(deep)[-1, 0] == 5.0


@pytest.mark.more
@pytest.mark.planted
def test_depths_by_the_size_of_the_tree_are_noticed(monkeypatch):
    naive, chain = with_tops(2.0)
    learned = plain_package().module("mcmc.moves.learned")
    right = learned.pick_cell

    def by_size(rng, model, state):
        state.density[-1, 0] = 3.0 + state.count[N_INTERNAL]
        return right(rng, model, state)

    monkeypatch.setattr(learned, "pick_cell", by_size)
    with pytest.raises(AssertionError):
        check_balance(naive, "learned", chain=chain)


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


def parity_table():
    """Three binary features and their parity, which is wrong in one of ten rows. No single split tells anything."""
    X = np.repeat(np.array(list(np.ndindex(2, 2, 2)), dtype=float), ROWS, axis=0)
    is_wrong = np.arange(len(X)) % ROWS < WRONG
    return X, (X.sum(axis=1) % 2 == 1) ^ is_wrong


def model_of(package):
    X, y = parity_table()
    with np.errstate(over="ignore"):
        return package.TreeModel(
            X,
            y,
            tree_prior=package.ChipmanPrior(ALPHA, BETA),
            leaf=package.DirichletMultinomial(CONCENTRATION),
            split_prior=package.LocalCuts(),
        )


def log_score(y):
    """Return the log marginal likelihood of the classes in a leaf."""
    counts = [int((y == label).sum()) for label in (False, True)]
    total = lgamma(2.0 * CONCENTRATION) - lgamma(2.0 * CONCENTRATION + len(y))
    return total + sum(lgamma(CONCENTRATION + n) - lgamma(CONCENTRATION) for n in counts)


def log_sum_below(X, y, depth=0, feature=None):
    """Return the log of the sum of prior times score over the subtrees of a cell.

    With a ``feature`` only over those that split on it first.
    """
    open_features = [k for k in range(3) if len(np.unique(X[:, k])) > 1]
    if not open_features:
        return log_score(y)
    p_split = ALPHA * (1.0 + depth) ** -BETA
    terms = [] if feature is not None else [log(1.0 - p_split) + log_score(y)]
    for k in open_features if feature is None else [feature]:
        left = X[:, k] == 0.0
        below = log_sum_below(X[left], y[left], depth + 1) + log_sum_below(X[~left], y[~left], depth + 1)
        terms.append(log(p_split / len(open_features)) + below)
    return float(np.logaddexp.reduce(terms))


def parity_tree(package):
    """Return the tree that splits on the first, the second and the third feature everywhere."""
    feature = [0, 1, 2, -1, -1, 2, -1, -1, 1, 2, -1, -1, 2, -1, -1]
    left = [1, 2, 3, 0, 0, 6, 0, 0, 9, 10, 0, 0, 13, 0, 0]
    right = [8, 5, 4, 0, 0, 7, 0, 0, 12, 11, 0, 0, 14, 0, 0]
    return package.Tree(feature, np.where(np.array(feature) < 0, 0.0, 0.5), left, right)


def chain_with_two_trees():
    """Return a plain chain whose graph contains a good tree and, with another feature at the root, a poor one."""
    package = plain_package().package
    model = model_of(package)
    chain = with_room(model, room=1500, nodes=ROOM)
    chain.state.density[...] = module("state.records").initial_density()
    for tree in (parity_tree(package), package.Tree([POOR, -1, -1], [0.5, 0.0, 0.0], [1, 0, 0], [2, 0, 0])):
        load(model, chain, tree)
        with np.errstate(over="ignore"):
            module("whole.density.graph").add_tree(chain.model, chain.packed_state, 0)
        prune_all(chain)
    return chain


def value_of_branch(chain, feature):
    """Return the log sum that the graph estimates over the trees with a feature at the root."""
    graph, graphs = chain.state.graph, module("whole.density.graph")
    e = graphs.find_link(graph, graphs.piece_of_node(chain.packed_state, 0), feature, 0, -1)
    assert e >= 0
    return float(graph.link[e].weight)


def draw_trees(chain, n=N_TREES):
    """Add trees to the graph, and value its pieces from the bottom up."""
    walk = module("chain.chain").PackedChain(np.random.default_rng(3), chain.model, chain.packed_state)
    with np.errstate(over="ignore"):
        assert module("moves.learned").sample_trees(walk, np.empty(n), 0) == n
    freeze(chain)


def missing():
    """Return the nats that the value of the poor branch lacks before and after trees were drawn."""
    chain, truth = chain_with_two_trees(), log_sum_below(*parity_table(), feature=POOR)
    before = truth - value_of_branch(chain, POOR)
    assert value_of_branch(chain, GOOD) - value_of_branch(chain, POOR) > FAR
    draw_trees(chain)
    return before, truth - value_of_branch(chain, POOR)


def test_the_enumeration_has_the_evidence():
    """The sums that the values are compared with, and the graph of many trees, against another implementation."""
    import pactree_mcmc as pt

    evidence = exact.solve(model_of(pt)).log_evidence
    assert log_sum_below(*parity_table()) == pytest.approx(evidence, abs=1e-9)
    chain = chain_with_two_trees()
    draw_trees(chain, 2 * N_TREES)
    root = chain.state.graph.piece[module("whole.density.graph").piece_of_node(chain.packed_state, 0)]
    assert root.value == pytest.approx(evidence, abs=0.1)


def test_a_branch_with_a_poor_tree_alone_is_explored_again():
    before, after = missing()
    assert before > FAR and abs(after) < CLOSE


@pytest.mark.planted
def test_stored_splits_that_are_never_drawn_by_g_are_noticed(monkeypatch):
    """Then a stored split is drawn by its weight alone, and the branch stays as it is."""
    monkeypatch.setattr(module("whole.density.graph"), "KEEP_PROBABILITY_GROWING", 1e-300)
    before, after = missing()
    assert after == pytest.approx(before, abs=1e-6) and before > FAR
