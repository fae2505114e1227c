"""Each semiring, the hull and paths on each kind of graph equal enumeration on random small problems."""

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from exact.recursion.inside_outside import likely_part
from exact.recursion.rows import mean_leaf_values
from exact.recursion.trees import grow_chosen_trees
from exact.sums import hull_by_size, log_sums, most_leaves
from tests.problems.drawn import GRAPHS, solved
from tests.problems.refusals import refuses
from tests.reference.context_trees import derivations, log_sum
from tests.reference.enumeration import LEAF, count_leaves, leaf_of
from tests.reference.leaf_scores import predictive

SEEDS = range(3)
TOLERANCE = {"rel": 1e-9, "abs": 1e-9}
each_graph = pytest.mark.parametrize("kind", GRAPHS)
each_seed = pytest.mark.parametrize("seed", SEEDS)
DESIGNS = {
    "kd": lambda X: pt.kd_tree(X, 3),
    "kd of other rows": lambda X: pt.kd_tree(X[:5] * 2.0 - 1.0, 3, coordinate="widest"),
    "cyclic": lambda X: pt.DyadicCuts(2, cyclic=True),
}


def mean_and_variance(reference, statistic):
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
        assert tree.n_leaves == m and model.log_posterior(tree) == pytest.approx(best[m], **TOLERANCE)
    refuses(f"n_leaves={max(best) + 1} leaves", lambda: truth.best_tree_of_size(max(best) + 1))


def check_best_trees(reference, model, truth):
    for k in (1, 7, reference.n_trees + 5):
        trees, log_joint = truth.best_trees(k)
        expected = sorted(reference.log_joints, reverse=True)[:k]
        assert len(trees) == len(expected) == len(set(trees)) and log_joint == pytest.approx(expected, **TOLERANCE)
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
        assert 1.0 - loss - 1e-12 <= mass <= 1.0 + 1e-12 and np.all(log_sums(part) <= truth.log_inside[slots] + 1e-9)


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
    assert len(set(trees)) == 300 and np.all(np.diff(log_joint) <= 1e-12)
    assert log_joint[0] == pytest.approx(truth.map_log_joint)
    assert [model.log_posterior(t) for t in trees[::60]] == pytest.approx(log_joint[::60].tolist())
    # every likely tree drawn is among them
    draws = truth.sample(2000, rng=1)
    likely = np.flatnonzero(draws.draws.log_posterior_of_tree > log_joint[-1] + 1e-9)
    assert len(likely) > 10 and {draws.draws.distinct_tree(int(t)) for t in likely} <= set(trees)
    by_size = truth.best_log_joint_by_size(12)
    for tree, value in zip(trees, log_joint, strict=True):
        assert value <= by_size[tree.n_leaves] + 1e-9
    assert max(by_size) == pytest.approx(log_joint[0])


def test_bad_input():
    truth = exact.solve(steps(20))
    graph = truth.graph
    refuses("k=0 is out of range", lambda: truth.best_trees(0))
    refuses("max_leaves=-1", lambda: truth.best_log_joint_by_size(-1))
    refuses("neither", lambda: truth.mean_and_variance())
    refuses(r"of_leaf has shape \(3,\)", lambda: truth.mean_and_variance(np.ones(3)))
    refuses("finite", lambda: truth.mean_and_variance(np.full(graph.n_cells, np.nan)))
    refuses("columns", lambda: truth.mean_and_variance(np.ones((graph.n_cells, 2)), np.ones((graph.n_edges, 3))))
    refuses(r"log_stop has shape \(2,\)", lambda: graph.with_terms(log_stop=np.zeros(2)))
    refuses(r"log_rule holds NaN or \+inf", lambda: graph.with_terms(log_rule=np.inf))
    counts, gain = np.full((graph.n_slots, 1), 1 << 24), np.zeros((graph.n_slots, 1))
    refuses("max_leaves", lambda: exact.best_by_size(graph, 20, counts=counts, gain=gain), exact.Intractable)


def upper_hull(best):
    """Corners from the fewest leaves to the largest weight, by trying every line; ``best`` maps leaves to weight."""
    points = sorted(best.items())
    vertices = [points[0]]
    while vertices[-1][1] < max(w for _, w in points):
        m, weight = vertices[-1]
        slope = max((w - weight) / (k - m) for k, w in points if k > m)
        reached = [(k, w) for k, w in points if k > m and (w - weight) / (k - m) >= slope - 1e-12]
        vertices.append(reached[-1])
    return vertices


def best_by_leaves(graph):
    best = {}
    for weight, leaves, _ in derivations(graph):
        best[len(leaves)] = max(best.get(len(leaves), -np.inf), weight)
    return best


@pytest.mark.more(everyday=["1-local, trivial", "2-grid", "4-cyclic"])
@each_graph
@pytest.mark.parametrize("seed", range(6))
def test_corners_of_all_trees(kind, seed):
    _, model, truth = solved(kind, seed % 3)
    graph = random_terms(truth.graph, np.random.default_rng([seed, 5]))
    best = best_by_leaves(graph)
    hull = hull_by_size(graph)
    vertices = slice(int(hull.start[0]), int(hull.start[0] + hull.length[0]))
    expected = upper_hull(best)
    assert hull.leaves[vertices].tolist() == [k for k, _ in expected]
    assert hull.weight[vertices] == pytest.approx([w for _, w in expected], abs=1e-9)
    trees = grow_chosen_trees(model, graph, hull, np.arange(hull.length[0]))
    assert ((np.diff(trees.offset) + 1) // 2).tolist() == [k for k, _ in expected]
    assert trees.log_prior + trees.log_score == pytest.approx([w for _, w in expected], abs=1e-9)
    assert most_leaves(graph)[0] >= max(best) and most_leaves(truth.graph)[0] == max(best_by_leaves(truth.graph))


def _by_flow(truth, X):
    codes = np.zeros(X.shape, dtype=np.int64)
    for k, scale in enumerate(truth.model.scales):
        if truth.model.columns.categories[k] is None:
            of = scale.encode if hasattr(scale, "encode") else lambda x, s=scale: np.searchsorted(s.cuts, x)
            codes[:, k] = of(X[:, k])
    return mean_leaf_values(truth.graph, truth.log_inside, truth._rows._router, X, codes, truth._rows.place_values)


def _problem(seed, kind):
    rng = np.random.default_rng(seed)
    X, y = rng.random((60, 3)) ** 3, rng.integers(0, 3, 60)
    limit = int(rng.integers(1, 9))
    if kind == "kd":
        design = pt.kd_tree(X[:30] if seed % 2 else rng.random((40, 3)), 5, coordinate="widest")
    else:
        design = pt.DyadicCuts(3, cyclic=True)
    prior = pt.LeafPenalty(0.5, limit, empty_cost=0.0) if seed % 3 == 0 else pt.BranchingProcess(0.6, limit)
    model = pt.TreeModel(X, y, split_prior=design, tree_prior=prior)
    return exact.solve(model), rng.random((200, 3)) * 1.2 - 0.1


@pytest.mark.more(everyday=["kd-0"])
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", ["kd", "cyclic"])
def test_paths_equal_the_flow(kind, seed):
    truth, new = _problem(seed, kind)
    predictions = truth.predict_proba(new)
    assert predictions == pytest.approx(_by_flow(truth, new), rel=1e-12, abs=1e-14)
    assert predictions.sum(axis=1) == pytest.approx(1.0)


def test_unseen_categories_follow_the_larger_branch():
    tree = pt.Tree([0, 1, -1, -1, -1], [0, 0.5, 0, 0, 0], [1, 2, 0, 0, 0], [4, 3, 0, 0, 0], [1, -1, -1, -1, -1])
    X = np.array([["a", 0.0], ["a", 1.0], ["a", 1.0], ["b", 0.0]], dtype=object)
    model = pt.TreeModel(X, [0, 1, 1, 0], split_prior=pt.FixedTree(tree), nominal=0)
    truth = exact.solve(model)
    new = np.array([["z", 1.0], ["a", 1.0]], dtype=object)
    predictions = truth.predict_proba(new)
    assert predictions[0] == pytest.approx(predictions[1])
    assert predictions == pytest.approx(_by_flow(truth, model.columns.numbers(new)), rel=1e-12)


@pytest.mark.parametrize("kind", ["numbers", "classes"])
@pytest.mark.parametrize("design", DESIGNS)
def test_the_first_missing_values_follow_the_larger_branch(design, kind):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = rng.integers(0, 4, (12, 2)).astype(float)
        y = rng.normal(size=12) if kind == "numbers" else rng.integers(0, 3, 12)
        leaf = pt.NormalInverseGamma(0.0, 1.0, 2.0, 1.0) if kind == "numbers" else None
        how = {"split_prior": DESIGNS[design](X), "tree_prior": pt.BranchingProcess(0.5, 3), "missing": "branch"}
        truth = exact.solve(pt.TreeModel(X, y, leaf=leaf, **how))
        new = np.array([[np.nan, np.nan], [np.nan, 0.0], [np.nan, 3.0], [0.0, np.nan], [7.0, np.nan], [1.0, 2.0]])
        predictions = truth.predict_proba(new) if kind == "classes" else truth.predict(new).reshape(len(new), -1)
        best = truth.best_trees(truth.n_trees)
        weight = np.exp(best.log_joint - truth.log_evidence)
        values = np.array([tree.value[tree.apply(new)] for tree in best.trees]).reshape(len(weight), *predictions.shape)
        mean = np.einsum("t,tnd->nd", weight, values)
        assert predictions == pytest.approx(mean, abs=1e-12)
        std = np.sqrt(np.einsum("t,tnd->nd", weight, (values - mean) ** 2))
        if kind != "classes":
            assert truth.predict_std_over_trees(new).reshape(std.shape) == pytest.approx(std, abs=1e-6)
