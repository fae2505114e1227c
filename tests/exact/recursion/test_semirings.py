"""Each semiring on each kind of graph equals enumeration on random small problems."""

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from exact.recursion.inside_outside import likely_part
from exact.sums import log_sums
from tests.problems.drawn import GRAPHS, solved
from tests.reference.derivations import derivations, log_sum
from tests.reference.enumeration import LEAF, count_leaves, leaf_of
from tests.reference.leaf_scores import predictive

SEEDS = range(3)
TOLERANCE = {"rel": 1e-9, "abs": 1e-9}
each_graph = pytest.mark.parametrize("kind", GRAPHS)
each_seed = pytest.mark.parametrize("seed", SEEDS)


def mean_and_variance(reference, statistic):
    """Return mean and variance of a statistic by enumeration."""
    values = np.array([statistic(tree) for tree, _ in reference.posterior()], dtype=float)
    weights = np.array([probability for _, probability in reference.posterior()])
    mean = weights @ values
    return mean, weights @ (values - mean) ** 2


def n_splits(tree, k):
    return 0 if tree == LEAF else (tree[1] == k) + n_splits(tree[3], k) + n_splits(tree[4], k)


def levels(tree):
    return 0 if tree == LEAF else 1 + max(levels(tree[3]), levels(tree[4]))


def check_count(reference, model, truth):
    assert truth.n_trees == reference.n_trees


def check_depth_distribution(reference, model, truth):
    expected = {}
    for tree, probability in reference.posterior():
        expected[levels(tree)] = expected.get(levels(tree), 0.0) + probability
    distribution = truth.depth_pmf()
    assert len(distribution) == max(d for d, probability in expected.items() if probability > 1e-13) + 1
    assert distribution == pytest.approx([expected.get(d, 0.0) for d in range(len(distribution))], abs=1e-12)


def check_best_by_size(reference, model, truth):
    best = {}
    for (tree, _, _), log_joint in zip(reference.entries, reference.log_joints, strict=True):
        best[count_leaves(tree)] = max(best.get(count_leaves(tree), -np.inf), log_joint)
    log_joints = truth.best_log_joint_by_size(max(best) + 2)
    assert log_joints == pytest.approx([best.get(m, -np.inf) for m in range(max(best) + 3)], **TOLERANCE)
    assert truth.best_log_joint_by_size(2) == pytest.approx(log_joints[:3], **TOLERANCE)
    for m in best:
        tree = truth.best_tree_of_size(m)
        assert tree.n_leaves == m
        assert model.log_posterior(tree) == pytest.approx(best[m], **TOLERANCE)
    with pytest.raises(ValueError, match=f"n_leaves={max(best) + 1} leaves"):
        truth.best_tree_of_size(max(best) + 1)


def check_best_trees(reference, model, truth):
    for k in (1, 7, reference.n_trees + 5):
        trees, log_joint = truth.best_trees(k)
        expected = sorted(reference.log_joints, reverse=True)[:k]
        assert len(trees) == len(expected) == len(set(trees))
        assert log_joint == pytest.approx(expected, **TOLERANCE)
        assert [model.log_posterior(tree) for tree in trees[:20]] == pytest.approx(expected[:20], **TOLERANCE)


def check_moments(reference, model, truth):
    graph = truth.graph
    leaves = mean_and_variance(reference, count_leaves)
    assert truth.mean_and_variance(np.ones(graph.n_cells)) == pytest.approx(leaves, **TOLERANCE)
    uses = (graph.feature[:, None] == np.arange(model.n_features)).astype(float)
    mean, variance = truth.mean_and_variance(of_split=uses)
    expected = [mean_and_variance(reference, lambda tree, k=k: n_splits(tree, k)) for k in range(model.n_features)]
    assert mean == pytest.approx([m for m, _ in expected], **TOLERANCE)
    assert variance == pytest.approx([v for _, v in expected], **TOLERANCE)
    assert truth.expected_splits() == pytest.approx(mean, **TOLERANCE)


def check_prediction(reference, model, truth):
    problem = reference.problem
    rows = [problem.X[0], problem.X[-1]]
    table = np.empty((len(rows), model.n_features), dtype=object)
    for i, row in enumerate(rows):
        table[i] = row
    if model.columns.named:
        import pandas as pd

        table = pd.DataFrame({name: [row[k] for row in rows] for k, name in enumerate(model.columns.names)})
    std = truth.predict_std_over_trees(table).reshape(len(rows), -1)
    for i, row in enumerate(rows):
        values = np.array([predictive(problem, leaf_of(problem, tree, row)) for tree, _ in reference.posterior()])
        weights = np.array([probability for _, probability in reference.posterior()])
        variance = weights @ (values - weights @ values) ** 2
        assert std[i] == pytest.approx(np.sqrt(variance), rel=1e-6, abs=1e-6)


CHECKS = {name.removeprefix("check_"): check for name, check in globals().items() if name.startswith("check_")}


@pytest.mark.more(
    everyday=[
        "count-local-0",
        "count-cyclic-0",
        "count-own local-0",
        "depth_distribution-local, trivial-1",
        "depth_distribution-fixed-1",
        "depth_distribution-own grid-1",
        "best_by_size-local-2",
        "best_by_size-grid-2",
        "best_by_size-own local-2",
        "best_trees-local, trivial-0",
        "best_trees-dyadic-0",
        "best_trees-own grid-0",
        "moments-grid-1",
        "moments-cyclic-1",
        "prediction-dyadic-2",
        "prediction-fixed-2",
    ]
)
@each_seed
@each_graph
@pytest.mark.parametrize("answer", CHECKS)
def test_equals_enumeration(answer, kind, seed):
    CHECKS[answer](*solved(kind, seed))


def random_terms(graph, rng):
    """The graph with random terms, some of them -inf."""
    stop = rng.normal(size=graph.n_slots) - np.where(rng.random(graph.n_slots) < 0.1, np.inf, 0.0)
    rule = rng.normal(size=graph.n_edges) - np.where(rng.random(graph.n_edges) < 0.1, np.inf, 0.0)
    stop[0] = 0.0
    return graph.with_terms(log_stop=stop, log_split=rng.normal(size=graph.n_slots), log_rule=rule)


@each_seed
@each_graph
def test_other_terms_on_the_same_graph(kind, seed):
    rng = np.random.default_rng(seed)
    graph = random_terms(solved(kind, seed)[2].graph, rng)
    trees = derivations(graph)
    weights = np.array([tree[0] for tree in trees])
    assert exact.log_sum(graph) == pytest.approx(log_sum(weights), **TOLERANCE)
    assert exact.best_log_weight(graph) == pytest.approx(max(weights), **TOLERANCE)
    assert exact.count_trees(graph) == len(trees)
    of_leaf, of_split = rng.normal(size=graph.n_cells), rng.normal(size=graph.n_edges)
    value = np.array([sum(of_leaf[c] for c, _ in leaves) + sum(of_split[e] for e, _ in qs) for _, leaves, qs in trees])
    fraction = np.exp(weights - log_sum(weights))
    posterior = exact.ExactPosterior(solved(kind, seed)[1], graph)
    mean, variance = posterior.mean_and_variance(of_leaf, of_split)
    assert mean == pytest.approx(fraction @ value, **TOLERANCE)
    assert variance == pytest.approx(fraction @ (value - fraction @ value) ** 2, **TOLERANCE)


@each_graph
def test_outside_is_the_derivative_of_the_log_sum(kind):
    graph, h = solved(kind, 1)[2].graph, 1e-4
    slot_occurrences, split_occurrences = exact.occurrences(graph)
    inner = log_sums(graph)
    leaf = slot_occurrences * np.exp(graph.log_stop - inner)

    def slope(**term):
        name, (values, i) = next(iter(term.items()))
        up, down = values.copy(), values.copy()
        up[i] += h
        down[i] -= h
        return (exact.log_sum(graph._replace(**{name: up})) - exact.log_sum(graph._replace(**{name: down}))) / (2 * h)

    for slot in range(min(graph.n_slots, 150)):
        assert slope(log_stop=(graph.log_stop, slot)) == pytest.approx(leaf[slot], abs=1e-7)
    for e in range(min(graph.n_edges, 150)):
        assert slope(log_rule=(graph.log_rule, e)) == pytest.approx(split_occurrences[e], abs=1e-7)


def steps(n):
    """One feature, two levels of P(y = 1)."""
    rng = np.random.default_rng(n)
    x = rng.random(n)
    y = rng.random(n) < np.where(x < 0.4, 0.9, 0.2)
    return pt.TreeModel(x[:, None], y, tree_prior=pt.ChipmanPrior(0.95, 1.0, max_depth=8))


def test_the_likely_part_loses_no_more_than_it_may():
    truth = exact.solve(steps(60))
    for loss in (1e-14, 1e-9, 1e-3, 0.1):
        part, slots = likely_part(truth.graph, truth._occurrences, loss)
        assert part.n_edges < truth.graph.n_edges or loss < 1e-6
        assert slots.sum() == part.n_slots
        mass = np.exp(exact.log_sum(part) - truth.log_inside[0])
        assert 1.0 - loss - 1e-12 <= mass <= 1.0 + 1e-12
        assert np.all(log_sums(part) <= truth.log_inside[slots] + 1e-9)


@pytest.mark.more(everyday=["1"])
@pytest.mark.parametrize("levels", [1, 2, 5, 8])
def test_trees_of_complete_designs(levels):
    """One design: a(0) = 1, a(j + 1) = 1 + a(j)^2, 46 digits at 8 levels; two free coordinates likewise."""
    x = (np.arange(1 << levels) + 0.5) / (1 << levels)
    prior = pt.LeafPenalty(1.0)
    one = exact.solve(
        pt.TreeModel(
            x[:, None], np.arange(len(x)) % 2, tree_prior=prior, split_prior=pt.DyadicCuts(levels, bounds=[[0, 1]])
        )
    )
    count = 1
    for _ in range(levels):
        count = 1 + count**2
    assert one.n_trees == count
    if levels <= 2:
        X = np.array([(a, b) for a in x for b in x])
        split_prior = pt.DyadicCuts(levels, bounds=[[0, 1]] * 2)
        two = exact.solve(pt.TreeModel(X, np.arange(len(X)) % 2, tree_prior=prior, split_prior=split_prior))
        table = {}
        for i in range(levels + 1):
            for j in range(levels + 1):
                table[i, j] = 1 + sum(table[a, b] ** 2 for a, b in ((i - 1, j), (i, j - 1)) if min(a, b) >= 0)
        assert two.n_trees == table[levels, levels]


def test_best_trees_of_many():
    """Far beyond enumeration: distinct, ordered, the distribution of sizes and the draws agree with them."""
    model = steps(60)
    truth = exact.solve(model)
    trees, log_joint = truth.best_trees(300)
    assert len(set(trees)) == 300
    assert np.all(np.diff(log_joint) <= 1e-12)
    assert log_joint[0] == pytest.approx(truth.map_log_joint)
    assert [model.log_posterior(t) for t in trees[::60]] == pytest.approx(log_joint[::60].tolist())
    # every likely tree drawn is among them
    draws = truth.sample(2000, rng=1)
    likely = np.flatnonzero(draws.draws.log_posterior_of_tree > log_joint[-1] + 1e-9)
    assert len(likely) > 10
    assert {draws.draws.distinct_tree(int(t)) for t in likely} <= set(trees)
    by_size = truth.best_log_joint_by_size(12)
    for tree, value in zip(trees, log_joint, strict=True):
        assert value <= by_size[tree.n_leaves] + 1e-9
    assert max(by_size) == pytest.approx(log_joint[0])


def test_bad_input():
    truth = exact.solve(steps(20))
    graph = truth.graph
    with pytest.raises(ValueError, match="k=0 is out of range"):
        truth.best_trees(0)
    with pytest.raises(ValueError, match="max_leaves=-1"):
        truth.best_log_joint_by_size(-1)
    with pytest.raises(ValueError, match="neither"):
        truth.mean_and_variance()
    with pytest.raises(ValueError, match=r"of_leaf has shape \(3,\)"):
        truth.mean_and_variance(np.ones(3))
    with pytest.raises(ValueError, match="finite"):
        truth.mean_and_variance(np.full(graph.n_cells, np.nan))
    with pytest.raises(ValueError, match="columns"):
        truth.mean_and_variance(np.ones((graph.n_cells, 2)), np.ones((graph.n_edges, 3)))
    with pytest.raises(ValueError, match=r"log_stop has shape \(2,\)"):
        graph.with_terms(log_stop=np.zeros(2))
    with pytest.raises(ValueError, match=r"log_rule holds NaN or \+inf"):
        graph.with_terms(log_rule=np.inf)
    counts, gain = np.full((graph.n_slots, 1), 1 << 24), np.zeros((graph.n_slots, 1))
    with pytest.raises(exact.Intractable, match="max_leaves"):
        exact.best_by_size(graph, 20, counts=counts, gain=gain)
