"""The global splitting prior against brute force, also over stages; condition (*) and Theorem 5."""

import math
from itertools import permutations

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from exact.systems.progressive.global_splitting import SplittingCounts
from tests.problems.drawn import random_problem
from tests.problems.refusals import refuses
from tests.reference.context_trees import log_sum
from tests.reference.enumeration import (
    LEAF,
    Problem,
    Reference,
    child_cells,
    count_leaves,
    leaf_of,
    log_normaliser,
    log_split,
    log_stop,
    root_cell,
)
from tests.reference.enumeration import predictive as predictive_of_leaf
from tests.reference.leaf_scores import predictive

TREE = {"": 1, "0": 2, "1": 0, "00": 1, "11": 2}
X = np.array([[0.1, 0.5], [0.4, 0.2], [0.6, 0.9], [0.9, 0.3]])
PRIOR = pt.BranchingProcess(0.45, max_depth=2)
RULES_OF_MODELS = [
    pt.LocalCuts(),
    pt.GridCuts([[0.25, 0.5], [0.4]]),
    pt.DyadicCuts(2, bounds=[[0, 1]] * 2),
    pt.CustomSplits(lambda cut: math.exp(-cut.depth) + cut.left * cut.at, by_depth=True),
    pt.CustomSplits(lambda cut: 1.0 + cut.at, of=pt.GridCuts([[0.25, 0.5], [0.4]]), over="cell"),
]
BAD_STAGES = [
    ({"splitting": "both"}, "splitting='both' is unknown"),
    ({"engine": "mcmc"}, "engine='mcmc' is unknown"),
    ({"X_new": [[1.0]]}, "X has 1 columns"),
    ({"X_new": [[1.0, np.nan]]}, "contains NaN"),
    ({"X_new": np.empty((0, 2))}, "at least one"),
    ({"X": [[1.0, np.nan]] * 4}, "missing or infinite"),
    ({"y": [0, 1]}, "give one label a row"),
]


def labelled(tree):
    return LEAF if tree == LEAF else (tree[1], labelled(tree[3]), labelled(tree[4]))


def shape_prior(problem, tree, cell):
    """Log prior of a tree's shape and labels, its splits apart."""
    if tree == LEAF:
        return log_stop(problem, cell, cell.depth < problem.max_depth)
    _, k, rule, left, right = tree
    weights = problem.split_prior.get("weights") or [1.0] * problem.n_features
    total = log_split(problem, cell) + math.log(weights[k] / sum(weights))
    for side, child in zip((left, right), child_cells(problem, cell, k, rule), strict=True):
        total += shape_prior(problem, side, child)
    return total


def splitting(problem, tree):
    """Which leaf each row reaches, leaves numbered by their path."""

    def leaf(rows, tree, cell, path):
        if tree == LEAF:
            return [(i, path) for i in cell.rows]
        left, right = child_cells(problem, cell, tree[1], tree[2])
        return leaf(rows, tree[3], left, path + "l") + leaf(rows, tree[4], right, path + "r")

    return tuple(sorted(leaf(None, tree, root_cell(problem), "")))


def brute_force(problem):
    """(tree, log joint) under the global prior, over all trees with trivial ways."""
    reference = Reference(problem)
    splittings = {}
    for tree, _, _ in reference.entries:
        splittings.setdefault(labelled(tree), []).append(splitting(problem, tree))
    # distinct as maps from rows to leaves, and none missing or double
    assert all(len(set(partitions)) == len(partitions) for partitions in splittings.values())
    root = root_cell(problem)
    out = []
    for tree, _, score in reference.entries:
        prior = shape_prior(problem, tree, root) - math.log(len(splittings[labelled(tree)]))
        out.append((tree, prior - log_normaliser(problem) + score))
    return out


@pytest.mark.more(everyday=["0"])
@pytest.mark.parametrize("seed", range(8))
def test_equals_brute_force(seed):
    rng = np.random.default_rng([seed, 5])
    while True:
        problem, model = random_problem(rng, split_prior="local", max_trees=1500)
        if problem.split_prior["trivial"] and problem.max_depth >= 2:
            break
    trees = brute_force(problem)
    truth = exact.solve_global_splitting(model)
    log_joints = [log_joint for _, log_joint in trees]
    total = log_sum(log_joints)
    assert truth.log_evidence == pytest.approx(total, abs=1e-9)
    assert truth.map_log_joint == pytest.approx(max(log_joints), abs=1e-9) and truth.n_trees == len(trees)
    assert truth.best_trees(5).log_joint == pytest.approx(sorted(log_joints, reverse=True)[:5], abs=1e-9)
    fraction = np.exp(np.array(log_joints) - total)
    sizes = np.bincount([count_leaves(tree) for tree, _ in trees], weights=fraction)
    assert truth.n_leaves_pmf() == pytest.approx(sizes[: len(truth.n_leaves_pmf())], abs=1e-9)
    if not problem.nominal:
        row = problem.X[0]
        expected = fraction @ np.array([predictive(problem, leaf_of(problem, tree, row)) for tree, _ in trees])
        table = np.array([row], dtype=float)
        if model.columns.named:
            import pandas as pd

            table = pd.DataFrame(table, columns=list(model.columns.names))
        predictions = truth.predict_proba(table)[0] if model.classes_ is not None else truth.predict(table)
        assert predictions == pytest.approx(expected, abs=1e-9)


def chain(features, to_left):
    """A structure that goes down one way or the other, as a Tree."""
    nodes = [[features[0], 0.0, 0, 0]]

    def add(j):
        here = len(nodes) - 1
        if j == len(features):
            nodes[here] = [-1, 0.0, 0, 0]
            return
        nodes[here] = [features[j], 0.0, here + 1, 0]
        for side in (True, False):
            nodes.append([-1, 0.0, 0, 0])
            if not side:
                nodes[here][3] = len(nodes) - 1
            if side == to_left[j]:
                add(j + 1)

    add(0)
    return pt.Tree(*zip(*nodes, strict=True))


@pytest.mark.more(everyday=["1-1", "2-2"])
@pytest.mark.parametrize("n", [1, 2, 5, 9])
@pytest.mark.parametrize("m", [1, 2, 3, 4])
def test_one_dimension_in_closed_form(n, m):
    """C(I + m, m), whatever the shape."""
    X = np.random.default_rng(n).permutation(n)[:, None].astype(float)
    X = np.vstack([X, X[:1]])
    rng = np.random.default_rng(m)
    for _ in range(2):
        structure = chain([0] * m, (rng.random(m) < 0.5).tolist())
        assert exact.count_global_splittings(X, structure) == math.comb(n + m, m)


def test_too_much_is_refused():
    X = np.random.default_rng(0).random((12, 3))
    model = pt.TreeModel(
        X, np.arange(12) % 2, tree_prior=pt.BranchingProcess(0.5, 6), split_prior=pt.LocalCuts(trivial=True)
    )
    refuses("structures", lambda: exact.solve_global_splitting(model), exact.Intractable)
    local = pt.TreeModel(X, np.arange(12) % 2)
    refuses("LocalCuts", lambda: exact.solve_global_splitting(local))
    refuses("feature 3", lambda: exact.count_global_splittings(X, chain([3], [True])))


def by_ancestors(splits, leaf):
    """Depends on the splits above alone."""
    above = sum(splits[leaf[:j]] + j for j in range(len(leaf)))
    weight = np.array([1.0 + above, 2.0, 1.0])
    return weight / weight.sum()


def avoid_used(splits, leaf):
    """Prefers splits not made yet anywhere: the first of two leaves to be split decides."""
    weight = np.where(np.isin(np.arange(3), list(splits.values())), 0.5, 1.0)
    weight[0] *= 3.0
    return weight / weight.sum()


def unlike_the_sibling(splits, leaf):
    """Two siblings are split by a table that is symmetric, so that neither comes first."""
    joint_probability = np.array([[1.0, 4.0, 5.0], [4.0, 2.0, 4.0], [5.0, 4.0, 1.0]]) / 30.0
    joint_probability[0, 0] = 1.0 / 30.0
    beside = splits.get(leaf[:-1] + "10"[int(leaf[-1])]) if leaf else None
    return (
        joint_probability.sum(axis=0) if beside is None else joint_probability[beside] / joint_probability[beside].sum()
    )


@pytest.mark.parametrize("rule", [by_ancestors, unlike_the_sibling])
def test_coherent_rules(rule):
    report = exact.check_local_rule(rule, 3, 2)
    assert report.holds and report.max_difference < 1e-12
    assert report.n_checked == 3 * 9  # the roots split in three ways, two leaves and nine pairs each


def test_an_incoherent_rule_is_found_with_its_place():
    report = exact.check_local_rule(avoid_used, 3, 2)
    assert not report.holds
    tree, one, other, f1, f2 = report.worst
    first = avoid_used(tree, one)[f1] * avoid_used({**tree, one: f1}, other)[f2]
    second = avoid_used(tree, other)[f2] * avoid_used({**tree, other: f2}, one)[f1]
    assert abs(first - second) / max(first, second) == pytest.approx(report.max_difference)


def orders(splits):
    """All orders of construction of a tree."""
    for order in permutations(splits):
        if all(not path or path[:-1] in order[:i] for i, path in enumerate(order)):
            yield order


def log_product(rule, splits, order):
    tree, total = {}, 0.0
    for path in order:
        total += math.log(rule(tree, path)[splits[path]])
        tree[path] = splits[path]
    return total


@pytest.mark.parametrize(("rule", "agree"), [(by_ancestors, True), (unlike_the_sibling, True), (avoid_used, False)])
def test_theorem_five_all_orders_have_one_product(rule, agree):
    products = [log_product(rule, TREE, order) for order in orders(TREE)]
    assert len(products) == 6 and bool(np.ptp(products) < 1e-12) is agree
    log_probability = exact.local_rule_log_probability(rule, TREE)
    assert log_probability == pytest.approx(log_product(rule, TREE, sorted(TREE, key=lambda p: (len(p), p))))


def has_box(splits):
    return not isinstance(getattr(splits, "of", splits), pt.LocalCuts)


@pytest.mark.more(everyday=["local"])
@pytest.mark.parametrize("splits", RULES_OF_MODELS, ids=["local", "grid", "dyadic", "own, by depth", "own grid"])
def test_the_rule_of_a_model(splits):
    """Through the door of `CustomSplits`: coherent, and its product is the prior of both engines."""
    model = pt.TreeModel(
        X, [0, 1, 0, 1], split_prior=splits, tree_prior=pt.BranchingProcess(0.5, 2), leaf=pt.DirichletMultinomial()
    )
    rule, numbered_splits = exact.local_rule(model)
    report = exact.check_local_rule(rule, len(numbered_splits), 2)
    assert report.holds and report.n_checked > 0
    for tree in exact.solve(model).draw_trees(20, 1):
        numbers, shape, paths = {}, 0.0, {0: ""}
        for number, cell, split in model.visit(tree):
            if split is None:
                shape += 0.0 if model.is_forced(cell) else math.log(0.5)
                continue
            shape += math.log(0.5)
            codes = cell.codes(split.feature)
            same = split if has_box(splits) else split._replace(cut=int(codes[codes <= split.cut].max()))
            numbers[paths[number]] = numbered_splits.index(same)
            paths[int(tree.left[number])] = paths[number] + "0"
            paths[int(tree.right[number])] = paths[number] + "1"
        assert exact.local_rule_log_probability(rule, numbers) + shape == pytest.approx(model.log_prior(tree))


def test_bad_rules():
    refuses("function", lambda: exact.check_local_rule("rule", 2, 2), TypeError)
    refuses("rule fails at ''", lambda: exact.check_local_rule(lambda splits, leaf: splits["0"], 2, 2))
    refuses("sum to 2", lambda: exact.check_local_rule(lambda splits, leaf: [1.0, 1.0], 2, 2))
    refuses("shape", lambda: exact.check_local_rule(lambda splits, leaf: [1.0], 2, 2))
    with pytest.raises(exact.Intractable, match=r"labelled trees allowed\. Give fewer splits .* or raise max_trees"):
        exact.check_local_rule(lambda splits, leaf: np.full(5, 0.2), 5, 4, max_trees=1000)
    refuses("path", lambda: exact.local_rule_log_probability(by_ancestors, {"0": 1}))
    with pytest.raises(ValueError, match="trivial"):
        exact.local_rule(
            pt.TreeModel(
                X, [0, 1, 0, 1], split_prior=pt.LocalCuts(trivial=True), tree_prior=pt.BranchingProcess(0.5, 2)
            )
        )
    refuses("nominal", lambda: exact.local_rule(pt.TreeModel([[0], [1]], [0, 1], nominal=[0])))


def table(seed, n, p=2, most=4):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, most, (n, p)).astype(float)
    y = rng.integers(0, 2, n)
    y[:2] = [0, 1]
    return X, y


def model_of(X, y, estimation, weight=None):
    return pt.TreeModel(
        X, y, tree_prior=PRIOR, split_prior=pt.LocalCuts(trivial=True), leaf=pt.FrozenLaplace(),
        estimation=estimation, sample_weight=weight,
    )  # fmt: skip


def by_definition(X, y, estimation, new):
    """The mean over M of the posterior predictive at ``new``, all trees written out, the new row a point."""
    staged = np.flatnonzero(~estimation)
    out = []
    for entered in range(len(staged) + 1):
        weights = np.append(np.where(estimation, 1.0, 0.0), 0.0)
        weights[staged[:entered]] = 1.0
        problem = Problem(
            X=[tuple(x) for x in np.vstack([X, new])],
            y=[*y.tolist(), int(y[0])],
            weights=weights.tolist(),
            estimation=[*estimation.tolist(), False],
            tree_prior={"kind": "stopped", "rho": 0.45, "max_depth": 2},
            split_prior={"kind": "local", "trivial": True},
            leaf={"kind": "laplace", "pseudocount": 1.0},
        )
        trees = brute_force(problem)
        log_joint = np.array([value for _, value in trees])
        fraction = np.exp(log_joint - log_sum(log_joint))
        out.append(
            fraction @ np.array([predictive_of_leaf(problem, leaf_of(problem, tree, tuple(new))) for tree, _ in trees])
        )
    return np.mean(out, axis=0)


@pytest.mark.parametrize("seed", range(2))
def test_the_stages_are_posteriors_under_the_global_prior(seed):
    X, y = table(seed, 7)
    estimation = np.arange(7) % 2 == 0
    mixture = exact.progressive_mixture(model_of(X, y, estimation), global_splitting=True)
    staged = np.flatnonzero(~estimation)
    proba, evidence = [], []
    for entered in range(len(staged) + 1):
        weight = np.ones(7)
        weight[staged[entered:]] = 0.0
        stage = exact.solve_global_splitting(model_of(X, y, estimation, weight))
        proba.append(stage.predict_proba(X))
        evidence.append(stage.log_evidence)
    assert mixture.predict_proba(X) == pytest.approx(np.mean(proba, axis=0), abs=1e-10)
    assert mixture.stage_log_evidence[0] == pytest.approx(evidence, abs=1e-10)
    local = exact.progressive_mixture(model_of(X, y, estimation)).predict_proba(X)
    assert np.abs(local - mixture.predict_proba(X)).max() > 1e-3


@pytest.mark.parametrize("p", [1, 2])
def test_equation_nine_by_definition(p):
    X, y = table(3, 4, p, 3)
    new, estimation = np.full(p, 0.5), np.array([True, False, True, False])
    mixture = exact.data_dependent_mixture(X, y, new[None], estimation=estimation, tree_prior=PRIOR)
    assert mixture.probability[0] == pytest.approx(by_definition(X, y, estimation, new), abs=1e-10)
    assert mixture.classes.tolist() == [0, 1] and np.all(mixture.standard_error == 0.0)


def populations(X, y, new, estimation):
    return exact.data_dependent_mixture(
        X, y, new, estimation=estimation, tree_prior=PRIOR, engine="smc", together=True, chains=4, draws=1000,
        particles=200, rng=3,
    )  # fmt: skip


@pytest.fixture(scope="module")
def case():
    rng = np.random.default_rng(8)
    X = rng.permutation(12)[:, None] + 0.0
    y = (X[:, 0] > 3).astype(int)
    return X, y, np.array([[0.5], [3.4], [9.5]]), np.arange(12) % 2 == 0


@pytest.mark.more
def test_populations_with_weights_agree_with_the_sum(case):
    truth = exact.data_dependent_mixture(
        *case[:3], estimation=case[3], tree_prior=PRIOR, together=True
    )  # fmt: skip
    estimates = populations(*case)
    assert np.abs(estimates.probability - truth.probability).max() < 4 * estimates.standard_error.max() + 1e-3
    assert estimates.standard_error.max() < 0.01 and 0.3 < estimates.ess < 1.0


STRUCTURES = [
    chain([0], [True]),
    chain([0, 1], [True, False]),
    chain([1, 0, 1], [False, True, True]),
    pt.Tree([0, 1, -1, -1, 0, -1, -1], [0.0] * 7, [1, 2, 0, 0, 5, 0, 0], [4, 3, 0, 0, 6, 0, 0]),
]


@pytest.mark.more(everyday=["2 leaves"])
@pytest.mark.parametrize("structure", STRUCTURES, ids=lambda tree: f"{tree.n_leaves} leaves")
def test_counts_of_splittings(structure):
    X, _ = table(9, 9, 2, 6)
    count = exact.count_global_splittings(X, structure)
    assert np.exp(SplittingCounts(X).log_count(structure)) == pytest.approx(count)


@pytest.mark.parametrize(("change", "message"), BAD_STAGES)
def test_bad_stages(change, message):
    X, y = table(0, 4)
    arguments = {"X": X, "y": y, "X_new": X, "estimation": 0.5, "tree_prior": PRIOR, **change}
    refuses(message, lambda: exact.data_dependent_mixture(**arguments))
