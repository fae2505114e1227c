"""Prunings equal the best of all prunings; trees grown forward those of a plain greedy search."""

import math

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import exact
import pactree_mcmc as pt
from exact.systems import bound_minimisers as forward
from exact.systems.pruning import Prunings, follow_hull, is_concave
from pactree_mcmc import certificates as pc
from tests.problems.refusals import refuses


def all_prunings(tree, node=0):
    """Every pruning below a node, as the set of nodes it ends in."""
    out = [frozenset([node])]
    if tree.feature[node] >= 0:
        left, right = (all_prunings(tree, int(child)) for child in (tree.left[node], tree.right[node]))
        out += [one | other for one in left for other in right]
    return out


def random_tree(rng, regression):
    """A random binary tree over two features, a few rows, and the cost of each node counted naively."""
    n, n_leaves = int(rng.integers(6, 40)), int(rng.integers(2, 9))
    X = rng.random((n, 2))
    y = rng.normal(size=n) if regression else rng.integers(0, 3, size=n)
    kind = DecisionTreeRegressor if regression else DecisionTreeClassifier
    fitted = kind(max_leaf_nodes=n_leaves, splitter="random", random_state=int(rng.integers(1000))).fit(X, y)
    weight = rng.integers(0, 3, size=n).astype(float) if rng.random() < 0.3 else None
    if weight is not None and weight.sum() == 0.0:
        weight[0] = 1.0
    return fitted, X, y, weight


def costs_by_hand(tree, X, y, weight, regression):
    w = np.ones(len(y)) if weight is None else weight
    cost = np.zeros(tree.n_nodes)
    X = X.astype(np.float32)
    for node in range(tree.n_nodes):
        in_node = passes(tree, X, node)
        if regression and w[in_node].sum() > 0:
            mean = np.average(y[in_node], weights=w[in_node])
            cost[node] = np.sum(w[in_node] * (y[in_node] - mean) ** 2)
        elif not regression:
            totals = [np.sum(w[in_node & (y == c)]) for c in range(3)]
            cost[node] = sum(totals) - max(totals)
    return cost / w.sum()


def passes(tree, X, node):
    in_node = np.ones(len(X), dtype=bool)
    while node > 0:
        parent = int(np.flatnonzero((tree.left == node) | (tree.right == node))[-1])
        left = X[:, tree.feature[parent]] <= tree.threshold[parent]
        in_node &= left if tree.left[parent] == node else ~left
        node = parent
    return in_node


def penalties(rng, n_leaves):
    """Increasing penalties: powers, random concave, random."""
    k = np.arange(1, n_leaves + 1)
    yield k**0.5
    yield k.astype(float)
    yield k ** rng.uniform(0.1, 2.5)
    yield np.cumsum(np.sort(rng.random(n_leaves))[::-1] + 1e-3)
    yield np.cumsum(rng.random(n_leaves) + 1e-3)


def family_by_hand(cost, penalty):
    """Sizes best at some price, the smallest of several: all crossings of the lines, and points between them."""
    k = np.arange(1, len(cost) + 1)
    crossings = {0.0}
    for i in range(len(k)):
        for j in range(i):
            crossings.add((cost[j] - cost[i]) / (penalty[i] - penalty[j]))
    alphas = sorted(c for c in crossings if c >= 0)
    between = [(a + b) / 2 for a, b in zip(alphas, alphas[1:]) if b - a > 1e-9] + [alphas[-1] + 1]
    return sorted({int(k[np.argmin(np.round(cost + a * penalty, 11))]) for a in between}, reverse=True)


@pytest.mark.more(everyday=["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"])
@pytest.mark.parametrize("seed", range(100))
def test_prunings_against_all_of_them(seed):
    rng = np.random.default_rng([seed, 18])
    regression = bool(seed % 2)
    fitted, X, y, weight = random_tree(rng, regression)
    prunings = Prunings(fitted, X, y, sample_weight=weight)
    tree = prunings.tree
    cost = costs_by_hand(tree, X, y, weight, regression)
    assert prunings.node_cost == pytest.approx(cost, abs=1e-12)
    listed = all_prunings(tree)
    least = np.full(tree.n_leaves + 1, np.inf)
    for nodes in listed:
        least[len(nodes)] = min(least[len(nodes)], sum(cost[list(nodes)]))
    assert prunings.minimum_cost == pytest.approx(least, abs=1e-12)
    for k in range(1, tree.n_leaves + 1):
        check_cost(prunings.of_size(k), k, least[k], X, y, weight, regression)
    for penalty in penalties(rng, tree.n_leaves):
        alpha = float(rng.choice([0.01, 0.1, 1.0]))
        best = prunings.best(alpha * penalty)
        assert best.cost + best.penalty == pytest.approx(np.min(least[1:] + alpha * penalty), abs=1e-12)
        check_cost(best.tree, best.tree.n_leaves, best.cost, X, y, weight, regression)
        family = prunings.family(penalty)
        assert family.n_leaves.tolist() == family_by_hand(least[1:], penalty)
        assert np.all(np.diff(family.threshold) > -1e-12)
        assert family.cost == pytest.approx(least[family.n_leaves], abs=1e-12)
        for member in range(len(family)):
            assert family.tree(member).n_leaves == family.n_leaves[member]
        if is_concave(penalty):
            assert set(family.n_leaves) <= set(prunings.weakest_link().n_leaves)  # Theorem 18


def check_cost(tree, n_leaves, cost, X, y, weight, regression):
    """Check the cost of a pruning by its predictions."""
    w = np.ones(len(y)) if weight is None else weight
    called = tree.predict(X.astype(np.float32))
    loss = (called - y) ** 2 if regression else called != y
    assert tree.n_leaves == n_leaves and np.average(loss, weights=w) == pytest.approx(cost, abs=1e-12)


@pytest.mark.parametrize("regression", [False, True])
def test_weakest_link_is_that_of_scikit_learn(regression):
    rng = np.random.default_rng(3)
    X = rng.random((300, 3))
    y = X[:, 0] + rng.normal(size=300) if regression else rng.random(300) < X[:, 0]
    if regression:
        estimator = DecisionTreeRegressor(min_samples_leaf=5, random_state=0)
    else:
        estimator = DecisionTreeClassifier(min_samples_leaf=5, random_state=0)
    family = Prunings(estimator.fit(X, y), X, y).weakest_link()
    nested = [set(zip(t.feature.tolist(), t.threshold.tolist())) for t in map(family.tree, range(len(family)))]
    assert all(small <= large for large, small in zip(nested, nested[1:]))
    assert [family.at(alpha).n_leaves for alpha in family.threshold] == family.n_leaves.tolist()
    if regression:
        path = estimator.cost_complexity_pruning_path(X, y)
        assert family.threshold[1:] == pytest.approx(path.ccp_alphas[1:])
        assert family.cost == pytest.approx(path.impurities)
        middle = len(family) // 2
        alpha = (family.threshold[middle] + family.threshold[middle + 1]) / 2
        theirs = DecisionTreeRegressor(min_samples_leaf=5, random_state=0, ccp_alpha=alpha).fit(X, y)
        assert pt.Tree.from_sklearn(theirs) == family.at(alpha)


def test_theorem_18_for_any_pair_of_penalties():
    """The family of a dominated penalty is part of that of the dominating one (powers: Corollary 4)."""
    for seed in range(100):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(2, 40))
        cost = np.sort(rng.random(n))[::-1]  # falling costs are all the proof needs
        low, high = np.sort(rng.uniform(0.05, 3.0, size=2))
        k = np.arange(1.0, n + 1.0)
        inner, outer = (set(follow_hull(cost, k**power)[0].tolist()) for power in (low, high))
        assert inner <= outer


def test_of_several_prunings_at_one_price_the_smallest_is_next():
    """Every split saves one error. From three leaves on, prunings to two and to one leaf rise at the same price."""
    chain = pt.Tree(
        [0, -1, 0, -1, 0, -1, -1], [0.5, 0, 1.5, 0, 2.5, 0, 0], [1, 0, 3, 0, 5, 0, 0], [2, 0, 4, 0, 6, 0, 0]
    )
    family = Prunings(chain, np.arange(4.0)[:, None], np.arange(4)).family(np.array([1.0, 2.0, 3.0, 5.0]))
    assert family.n_leaves.tolist() == [4, 3, 1] and family.threshold == pytest.approx([0.0, 0.125, 0.25])


def test_bad_input():
    X, y = np.arange(8.0)[:, None], np.array([0, 0, 1, 1, 0, 1, 1, 1])
    prunings = Prunings(DecisionTreeClassifier().fit(X, y), X, y)
    refuses(r"the penalty falls from .* give one that increases", lambda: prunings.best(lambda k: -k))
    refuses(r"the penalty falls from 3 for 2 leaves to 1 for 3", lambda: prunings.family([1.0, 3.0, 1.0, 4.0]))
    refuses(r"penalty of 2 leaves is not above that of 1", lambda: prunings.family(np.ones_like))
    refuses(r"penalty has shape \(2,\); give values for 1 to 4 leaves", lambda: prunings.best([1.0, 2.0]))
    refuses(r"n_leaves=9 is out of range", lambda: prunings.of_size(9))
    refuses(r"alpha=-1 is out of range", lambda: prunings.weakest_link().at(-1))
    refuses("loss='gini' is unknown", lambda: Prunings(pt.Tree([-1], [0], [0], [0]), X, y, loss="gini"))
    refuses("sample_weight is 0", lambda: Prunings(pt.Tree([-1], [0], [0], [0]), X, y, sample_weight=np.zeros(8)))
    refuses("does not dominate", lambda: prunings.family(np.square, dominated_by=lambda k: k))
    design_with_joint_nodes = pt.context_tree(1, 3)
    refuses("joint", lambda: Prunings(design_with_joint_nodes, np.array([[0], [1], [2]]), [0, 1, 1]))


def problem(seed, n=40, p=2, noise=0.2):
    rng = np.random.default_rng(seed)
    X = np.round(rng.random((n, p)), 2)
    y = ((X[:, 0] > 0.4) & (X[:, 1] > 0.3)) ^ (rng.random(n) < noise)
    return X, y.astype(int)


def errors_of(y):
    return len(y) - np.bincount(y, minlength=2).max()


def entropy(y):
    counts = np.bincount(y, minlength=2)
    counts = counts[counts > 0]
    return -float((counts * np.log(counts / len(y))).sum())


def plain_path(X, y, criterion, delta=0.05, steps=4):
    """Bounds of the trees of 1, 2, ... leaves of a greedy search over all splits of all leaves."""

    def bound(m, errors):
        n, k, p = len(y), 2 * m + 1, X.shape[1]
        nats = k * math.log(2 * p * (k + 1)) + math.lgamma(n + 1) - math.lgamma(m + 1) - math.lgamma(n - m + 1)
        nats += 2 * math.log(math.pi**2 / 6) + 2 * math.log(m + 1)
        return pc.binomial_tail_inversion(min(errors, n - m), n - m, math.log(delta) - nats)

    leaves, out = [np.arange(len(y))], [bound(0, errors_of(y))]
    while len(out) <= steps:
        candidates = []
        for rows in leaves:
            for k in range(X.shape[1]):
                for v in np.unique(X[rows, k])[:-1]:
                    goes = X[rows, k] <= v
                    a, b = rows[goes], rows[~goes]
                    gain = entropy(y[rows]) - entropy(y[a]) - entropy(y[b])
                    errors = sum(errors_of(y[r]) for r in leaves if r is not rows) + errors_of(y[a]) + errors_of(y[b])
                    key = (-gain,) if criterion == "entropy" else (bound(len(leaves), errors), -gain)
                    if errors_of(y[rows]):
                        candidates.append((key, len(candidates), rows, a, b, errors))
        if not candidates:
            break
        _, _, rows, a, b, errors = min(candidates, key=lambda f: f[:2])
        leaves = [r for r in leaves if r is not rows] + [a, b]
        out.append(bound(len(leaves) - 1, errors))
    return out


@pytest.mark.more(everyday=["1-bound"])
@pytest.mark.parametrize("criterion", ["entropy", "bound"])
@pytest.mark.parametrize("seed", range(8))
def test_the_path_is_that_of_a_plain_search(criterion, seed):
    X, y = problem(seed)
    result = exact.forward_tree(X, y, criterion=criterion, patience=100)
    plain = plain_path(X, y, criterion)
    assert result.path[: len(plain)] == pytest.approx(plain) and result.tree.n_leaves == 1 + int(np.argmin(result.path))
    bound = pc.compression_tree_bound(result.tree, X, y)
    assert bound.raw == result.bound.raw and result.bound.raw <= result.path.min() + 1e-12


def failures(samples, delta, **how):
    rng, failed = np.random.default_rng(2), 0
    for _ in range(samples):
        X, y = rng.random((40, 2)), rng.integers(0, 2, 40)
        failed += exact.forward_tree(X, y, delta=delta, criterion="bound", patience=2, **how).bound.raw < 0.5
    return failed / samples


@pytest.mark.more(everyday=["{}"])
@pytest.mark.parametrize("how", [{}, {"ranges": [[0, 1]] * 2}, {"thresholds": [np.linspace(0.1, 0.9, 9)] * 2}], ids=str)
def test_the_bound_covers_labels_that_are_noise(how):
    assert failures(60, 0.3, **how) <= 0.3


@pytest.mark.planted
def test_a_message_that_costs_nothing_is_caught(monkeypatch):
    from pactree_mcmc.certificates import compression_bounds as coded_trees

    real = forward.tail_bound
    for module in (forward, coded_trees):
        monkeypatch.setattr(module, "tail_bound", lambda name, nats, *rest: real(name, dict.fromkeys(nats, 0.0), *rest))
    assert failures(20, 0.3) > 0.5


X, Y = problem(0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: exact.forward_tree(X, Y, criterion="gini"), "criterion='gini' is unknown"),
        (lambda: exact.forward_tree(X, Y, patience=-1), "patience=-1 is out of range"),
        (lambda: exact.forward_tree(X, Y, max_rounds=30), "max_rounds=30 is out of range"),
        (lambda: exact.forward_tree(X, Y, thresholds="all"), "thresholds='all' is unknown"),
        (lambda: exact.forward_tree(X, Y, thresholds=[[0.5]] * 2, ranges=[[0, 1]] * 2), "give either thresholds"),
        (lambda: exact.forward_tree(X, Y[:-1]), "give a table"),
        (lambda: exact.forward_tree(X, np.arange(len(Y))), "classes and n_classes=2"),
    ],
)
def test_refused(call, message):
    refuses(message, call)
