"""Shah's bounds of a tree on its rows: messages decode to the tree, are the shortest, and the bounds cover."""

import itertools
import math

import numpy as np
import pytest

from pactree_mcmc import certificates as pc
from pactree_mcmc.certificates import compression_bounds as coded_trees
from pactree_mcmc.certificates.compression_bounds import compression_nats
from pactree_mcmc.tree.arrays import LEAF
from pactree_mcmc.tree.tree import Tree


def fitted(seed, n=60, p=3, n_inner=6, whole=4):
    """A random tree whose splits send rows both ways, its rows and labels; few values, so thresholds share rows."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, whole, size=(n, p)).astype(float)
    y = rng.integers(0, 2, size=n)
    nodes, value = [], []

    def add(rows, left_over):
        here = len(nodes)
        nodes.append([LEAF, 0.0, 0, 0])
        value.append(np.bincount(y[rows], minlength=2) / len(rows))
        splits = [(k, v) for k in range(p) for v in np.unique(X[rows, k])[:-1]]
        if left_over > 0 and splits:
            k, v = splits[rng.integers(len(splits))]
            goes = X[rows, k] <= v
            left = add(rows[goes], (left_over - 1) // 2)
            right = add(rows[~goes], left_over - 1 - (left_over - 1) // 2)
            nodes[here] = [k, v + 0.5, left, right]
        return here

    add(np.arange(n), n_inner)
    tree = Tree(*zip(*nodes), value=np.array(value), classes=np.array([0, 1]))
    return tree, X, y


def zeta(a):
    return 6 / math.pi**2 / (a + 1) ** 2


def encode(tree, X, rows):
    """The message: nodes in the order of their rows, then leaves; parent, side, feature or label; nodes of each row."""
    holder = [
        next(j for j, i in enumerate(rows) if X[i, tree.feature[v]] == tree.threshold[v])
        for v in np.flatnonzero(tree.feature != LEAF)
    ]
    inner = [v for _, v in sorted(zip(holder, np.flatnonzero(tree.feature != LEAF)))]
    order = [*inner, *np.flatnonzero(tree.feature == LEAF)]
    place = {int(v): i for i, v in enumerate(order)}
    above = {int(c): (place[int(v)], s) for v in inner for s, c in enumerate((tree.left[v], tree.right[v]))}
    letters = [int(tree.feature[v]) if v in inner else int(np.argmax(tree.value[v])) for v in order]
    return [above.get(int(v)) for v in order], letters, np.bincount(holder, minlength=len(rows)).tolist()


def decode(message, kept):
    """The tree, from its message and the rows kept alone: nested tuples, or a label."""
    above, letters, rows_per_threshold = message
    row_of = np.repeat(np.arange(len(rows_per_threshold)), rows_per_threshold)
    children = {(parent, side): i for i, (parent, side) in ((i, a) for i, a in enumerate(above) if a is not None)}

    def at(i):
        if i >= len(row_of):
            return letters[i]
        return letters[i], kept[row_of[i], letters[i]], at(children[i, 0]), at(children[i, 1])

    return at(above.index(None))


def as_nested(tree, node=0):
    if tree.feature[node] == LEAF:
        return int(np.argmax(tree.value[node]))
    below = (as_nested(tree, int(tree.left[node])), as_nested(tree, int(tree.right[node])))
    return (int(tree.feature[node]), float(tree.threshold[node]), *below)


@pytest.mark.parametrize("seed", range(30))
def test_the_message_and_the_rows_are_the_tree(seed):
    tree, X, y = fitted(seed)
    bound = pc.compression_tree_bound(tree, X, y)
    assert decode(encode(bound.tree, X, bound.rows), X[bound.rows]) == as_nested(bound.tree)
    assert np.array_equal(bound.tree.predict(X), tree.predict(X))
    counted = np.setdiff1d(np.arange(len(y)), bound.rows)
    assert (bound.n, bound.errors) == (len(counted), np.sum(tree.predict(X)[counted] != y[counted]))
    k, m, d, n = tree.n_nodes, tree.n_leaves - 1, len(bound.rows), len(y)
    prior = 3.0**-k * (k + 1.0) ** -k * 2.0**-k / math.comb(n, d) * zeta(d) * zeta(m - d)
    prior /= math.comb(m - 1, d - 1) if m else 1
    expected = pc.binomial_tail_inversion(bound.errors, n - d, math.log(prior * 0.05))
    assert bound.raw == pytest.approx(expected)
    number = pc.compression_tree_bound(tree, X, y, parents="number")
    gained = bound.terms["structure, nats"] - number.terms["structure, nats"]
    assert gained == pytest.approx(k * math.log((k + 1) / k))


def test_priors_sum_to_at_most_one():
    """Over the trees of all sizes without a compression set; over the thresholds of given rows."""

    def shapes(m):
        return math.comb(2 * m, m) // (m + 1)

    for named in (lambda k: k + 1, lambda k: k):
        total = sum(shapes(m) * (2.0 * named(2 * m + 1)) ** -(2 * m + 1) for m in range(60))
        assert total <= 0.6
    for d in (1, 2, 5):
        places = sum(
            math.comb(m - 1, d - 1) * math.exp(-compression_nats(m, d, 50)["rows of the thresholds"])
            for m in range(d, 3000)
        )
        assert 0.99 < places <= 1.0


def cheapest(low, high, ends, most=6):
    """The shortest code of a threshold in [low, high): every kappa, kappa' and l, cost and value of each."""
    middle, half = sum(ends) / 2, (ends[1] - ends[0]) / 2
    costs = {}
    for pair in itertools.product(range(most), repeat=2):
        A, B = middle - half * 2.0 ** -pair[0], middle + half * 2.0 ** -pair[1]
        for bits in range(12):
            points = A + (2 * np.arange(1, 2**bits + 1) - 1) / 2 ** (bits + 1) * (B - A)
            if np.any((low <= points) & (points < high)):
                costs[pair] = -math.log(zeta(pair[0]) * zeta(pair[1]) * zeta(bits) * 2.0**-bits)
                break
    return costs


@pytest.mark.more(everyday=["0"])
@pytest.mark.parametrize("seed", range(6))
def test_coded_thresholds_are_the_cheapest(seed):
    tree, X, y = fitted(seed, n_inner=3)
    ranges = np.array([[-9.0, 8.0], [0.0, 3.0], [-1.0, 20.0]])
    low, high = coded_trees._threshold_intervals(tree.feature, tree.threshold, tree.left, tree.right, X)
    each = [cheapest(low[v], high[v], ranges[tree.feature[v]]) for v in np.flatnonzero(tree.feature != LEAF)]
    own = pc.occam_tree_bound(tree, X, y, ranges=ranges, halvings="cheapest")
    paid = own.terms["thresholds, nats"] + own.terms["halvings, nats"]
    assert paid == pytest.approx(sum(min(costs.values()) for costs in each))
    shared = pc.occam_tree_bound(tree, X, y, ranges=ranges, halvings="cheapest", shared=True)
    pairs = set.intersection(*(set(costs) for costs in each)) if each else set()
    halving = {pair: -math.log(zeta(pair[0]) * zeta(pair[1])) for pair in pairs}
    least = min(sum(costs[pair] - halving[pair] for costs in each) + halving[pair] for pair in pairs)
    assert shared.terms["thresholds, nats"] + shared.terms["halvings, nats"] == pytest.approx(least)
    for halvings, is_shared in itertools.product(("rows", "cheapest"), (False, True)):
        bound = pc.occam_tree_bound(tree, X, y, ranges=ranges, halvings=halvings, shared=is_shared)
        assert np.array_equal(bound.tree.predict(X), tree.predict(X))
        assert bound.raw >= (shared.raw if is_shared else own.raw) - 1e-12


def best_stumps(samples, n=40, seed=1):
    """Two uniform features, labels that are noise, and the tree of one split with the fewest errors."""
    rng = np.random.default_rng(seed)
    for _ in range(samples):
        X, y = rng.random((n, 2)), rng.integers(0, 2, n)
        errors = [
            (np.sum((X[:, k] <= v) == (y == one)), k, v, one)
            for k in range(2)
            for v in X[:, k]
            for one in (0, 1)
            if v < X[:, k].max()
        ]
        _, k, v, one = min(errors)
        value = np.eye(2)[[0, 1 - one, one]]
        yield Tree([k, LEAF, LEAF], [v, 0, 0], [1, 0, 0], [2, 0, 0], value=value, classes=np.array([0, 1])), X, y


def failures(samples, delta):
    """Return the fraction of samples in which a bound on the risk of the best stump, which is 1/2, fails."""
    failed = np.zeros(2)
    for tree, X, y in best_stumps(samples):
        failed[0] += pc.compression_tree_bound(tree, X, y, delta=delta).raw < 0.5
        failed[1] += pc.occam_tree_bound(tree, X, y, ranges=[[0, 1]] * 2, delta=delta).raw < 0.5
    return failed / samples


def test_the_bounds_cover():
    assert np.all(failures(100, 0.3) <= 0.3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda tree, X, y: pc.compression_tree_bound(tree, X, y, parents="bits"), "parents='bits' is unknown"),
        (lambda tree, X, y: pc.compression_tree_bound(tree, X[:1], y[:1]), "sends rows to one side only"),
        (lambda tree, X, y: pc.compression_tree_bound(tree, np.where(X == 1, np.nan, X), y), "missing or infinite"),
        (lambda tree, X, y: pc.occam_tree_bound(tree, X, y), "give either thresholds"),
        (lambda tree, X, y: pc.occam_tree_bound(tree, X, y, thresholds=[[9.0]] * 3), "no threshold of feature"),
        (lambda tree, X, y: pc.occam_tree_bound(tree, X, y, ranges=[[0.0, 2.0]] * 3), "outside its range"),
        (
            lambda tree, X, y: pc.occam_tree_bound(tree, X, y, ranges=[[0.0, 3.0]] * 3, halvings="all"),
            "halvings='all' is unknown",
        ),
    ],
)
def test_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call(*fitted(0))
