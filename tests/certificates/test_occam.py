"""Bounds for one tree: code lengths, messages that decode to it, the best root fragment, Scott's penalty."""

import itertools
import math

import numpy as np
import pytest

from pactree_mcmc import certificates as pc
from pactree_mcmc.certificates import compression_bounds as coded_trees
from pactree_mcmc.certificates.compression_bounds import compression_nats
from pactree_mcmc.tree.arrays import LEAF
from pactree_mcmc.tree.tree import Tree
from tests.problems.refusals import refuses

X, Y = np.arange(10.0)[:, None], np.arange(10) % 2
UNLABELLED = Tree([LEAF], [0.0], [0], [0])
EMPTY = Tree([0, -1, -1], [50.0, 0, 0], [1, 0, 0], [2, 0, 0], value=np.eye(2)[[0, 0, 1]], classes=np.array([0, 1]))
EXAMPLE_OF_SECTION_THREE = [
    (0.3, 0.3446, 1.138, 0.550),
    (0.1, 0.1058, 1.058, 0.316),
    (0.03, 0.03076, 1.025, 0.173),
    (0.01, 0.01028, 1.028, 0.1),
]
REFUSED = [
    (lambda: pc.naive_occam(UNLABELLED, X, Y, split_bits=1.0), "the tree predicts no classes"),
    (lambda: pc.naive_occam(stump(), X, Y[:4], split_bits=1.0), r"X has 10 rows and y has shape \(4,\)"),
    (lambda: pc.naive_occam(EMPTY, X, Y, split_bits=-1.0), "split_bits has a negative"),
    (lambda: pc.root_fragment(EMPTY, X, Y, split_bits=1.0), "node 2 holds no row"),
    (lambda: pc.compute_R(EMPTY, [10, 5, 4], split_bits=1.0), "adding up"),
]
REFUSED_TREES = [
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
]


def stump():
    return Tree([LEAF], [0.0], [0], [0], value=[[1.0, 0.0]], classes=np.array([0, 1]))


def random_tree(rng, max_depth=4, n_classes=2):
    """A random tree over thresholds of three features, a label at every node."""
    nodes = []

    def add(depth):
        here = len(nodes)
        nodes.append([LEAF, 0.0, 0, 0])
        if depth < max_depth and rng.random() < 0.75:
            left = add(depth + 1)
            right = add(depth + 1)
            nodes[here] = [int(rng.integers(3)), float(rng.random()), left, right]
        return here

    add(0)
    value = np.eye(n_classes)[rng.integers(n_classes, size=len(nodes))]
    return Tree(*zip(*nodes), value=value, classes=np.arange(n_classes))


def random_rows(rng, tree):
    """Rows by node, at least one each."""
    rows = np.where(tree.feature == LEAF, rng.integers(1, 10 ** rng.integers(1, 5), tree.n_nodes), 0)
    for i in range(tree.n_nodes - 1, -1, -1):
        if tree.feature[i] != LEAF:
            rows[i] = rows[tree.left[i]] + rows[tree.right[i]]
    return rows


def random_bits(rng, tree):
    """Splits of very different lengths: it pays to code a long subtree with few rows apart."""
    return 10.0 ** rng.uniform(0.0, 1.0 + 4.0 * (tree.node_depth > 0))


def fragments(tree, node=0):
    """The leaves of every root fragment of the subtree at ``node``."""
    yield [node]
    if tree.feature[node] != LEAF:
        for left in fragments(tree, int(tree.left[node])):
            for right in fragments(tree, int(tree.right[node])):
                yield left + right


def subtree(tree, node):
    if tree.feature[node] == LEAF:
        return [node]
    return [node, *subtree(tree, tree.left[node]), *subtree(tree, tree.right[node])]


def path(tree, node):
    parents = [i for i in range(tree.n_nodes) if tree.feature[i] != LEAF and node in (tree.left[i], tree.right[i])]
    return [*path(tree, parents[0]), parents[0]] if parents else []


def penalty(tree, rows, bits, leaves, delta):
    """The paper's f(T, S, R, delta), term by term."""
    total = 0.0
    for v in leaves:
        inner = [i for i in subtree(tree, v) if tree.feature[i] != LEAF]
        below = 2 + 3 * len(inner) + sum(bits[i] for i in inner)
        path_bits = 1 + 2 * len(path(tree, v)) + sum(bits[i] for i in path(tree, v))
        n, level = rows[v], math.log(2 / delta)
        term = math.sqrt(math.log(2) * below / (2 * n))
        term += 2 * (math.sqrt(path_bits / n) + path_bits / n) + 2 * (math.sqrt(level / n) + level / n)
        total += n / rows[0] * term
    return total


@pytest.mark.parametrize("seed", range(150))
def test_compute_R_is_the_minimum_over_all_fragments(seed):
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, max_depth=3)
    rows, bits, delta = random_rows(rng, tree), random_bits(rng, tree), float(rng.choice([0.5, 0.05, 1e-4]))
    best = pc.compute_R(tree, rows, split_bits=bits, delta=delta)
    everything = {tuple(leaves): penalty(tree, rows, bits, leaves, delta) for leaves in fragments(tree)}
    assert best.penalty == pytest.approx(min(everything.values()), rel=1e-12)
    assert everything[tuple(best.leaves)] == pytest.approx(best.penalty, rel=1e-12)
    assert best.penalty == pytest.approx(best.subtrees + best.paths + best.confidence)


def test_the_bound_of_a_tree():
    rng = np.random.default_rng(3)
    X = rng.random((5_000, 3))
    tree = next(
        t for t in (random_tree(rng) for _ in range(100)) if t.n_leaves > 4 and len(set(t.apply(X))) == t.n_leaves
    )
    y = rng.integers(2, size=len(X))
    leaf = tree.apply(X)
    rows = np.array([np.isin(leaf, subtree(tree, i)).sum() for i in range(tree.n_nodes)])
    errors = np.mean(tree.predict(X) != y)
    bits = np.full(tree.n_nodes, 7.5)
    least = min(penalty(tree, rows, bits, leaves, 0.1) for leaves in fragments(tree))
    bound = pc.root_fragment(tree, X, y, split_bits=7.5, delta=0.1)
    assert bound.raw == pytest.approx(errors + least) and bound.value == min(bound.raw, 1.0)
    assert bound.terms["empirical risk"] == pytest.approx(errors)
    length = 2 + (3 + 7.5) * (tree.n_leaves - 1)
    naive = pc.naive_occam(tree, X, y, split_bits=7.5, delta=0.1)
    assert naive.raw == pytest.approx(errors + math.sqrt((math.log(2) * length + math.log(10)) / 10_000))
    assert pc.tree_bits(tree, 7.5)[0] == pytest.approx(length)


@pytest.mark.parametrize(("eps", "penalty", "ratio", "naive"), EXAMPLE_OF_SECTION_THREE)
def test_the_example_of_section_three(eps, penalty, ratio, naive):
    """Two subtrees, each in the form of one long split, below a split of 4 bits; the table of docs/reproduced.md."""
    n, ln2 = 2 * 10**9, math.log(2.0)
    tree = Tree([0, 0, -1, -1, 0, -1, -1], [0.5, 0.2, 0, 0, 0.7, 0, 0], [1, 2, 0, 0, 5, 0, 0], [4, 3, 0, 0, 6, 0, 0])
    bits = np.array([2.0 / ln2 * eps * n, eps**4 * n])
    rows = [n, round(eps * n), round(eps * n) - 1, 1, n - round(eps * n), n - round(eps * n) - 1, 1]
    result = pc.compute_R(tree, rows, split_bits=np.array([4.0, bits[0] - 5.0, 0, 0, bits[1] - 5.0, 0, 0]))
    assert result.leaves.tolist() == [1, 4] and result.penalty == pytest.approx(penalty, rel=1e-3)
    assert result.penalty / (ln2 * bits.sum() / (2 * n)) == pytest.approx(ratio, abs=6e-4)
    assert math.sqrt(ln2 * bits.sum() / (2 * n)) == pytest.approx(naive, abs=6e-4)


def test_code_lengths_satisfy_kraft():
    """Trees over two splits, three classes, at most three internal nodes: 2^-bits sums to less than one."""

    def mass(m, n_classes):
        shapes = math.comb(2 * m, m) // (m + 1)
        bits = 2 * m + 1 + (m + 1) * math.log2(n_classes) + m
        return shapes * 2**m * n_classes ** (m + 1) * 2.0**-bits

    left = Tree([0, 0, -1, -1, -1], [0.5, 0.2, 0, 0, 0], [1, 2, 0, 0, 0], [4, 3, 0, 0, 0])
    assert pc.tree_bits(left, 1.0, 3)[0] == pytest.approx(5 + 3 * math.log2(3) + 2)
    for n_classes in (2, 3):
        assert 0.7 < sum(mass(m, n_classes) for m in range(200)) < 1.0


@pytest.mark.parametrize("cyclic", [False, True])
def test_dyadic_tree(cyclic):
    tree = Tree(
        [0, 1, -1, -1, -1], [0.5, 0.5, 0, 0, 0], [1, 2, 0, 0, 0], [4, 3, 0, 0, 0],
        value=np.eye(2)[[0, 0, 0, 1, 1]], classes=np.array(["a", "b"]),
    )  # fmt: skip
    X = np.random.default_rng(0).random((3_000, 2)) ** 2
    y = np.where(X[:, 0] > 0.4, "b", "a")
    n, small = len(X), 0.04 / 2.0
    expected = np.mean(tree.predict(X) != y)
    left, low = X[:, 0] <= 0.5, X[:, 1] <= 0.5
    for is_in_cell, depth in [(left & low, 2), (left & ~low, 2), (~left, 1)]:
        nats = (2 * (depth + 1) + (0 if cyclic else depth)) * math.log(2.0)
        fraction = 4.0 * max(is_in_cell.mean(), (nats + math.log(1 / small)) / n)
        expected += math.sqrt(2.0 * fraction * (nats + math.log(2 / small)) / n)
    assert pc.dyadic_tree_bound(tree, X, y, delta=0.04, cyclic=cyclic).raw == pytest.approx(expected)


def slack(level, path, below, n):
    """Terms of Theorem 3 for one leaf of the fragment minus those its proof arrives at, times the root of its rows."""
    nats = path * math.log(2.0)
    proof = math.sqrt(2.0 * (nats + level)) + 2.0 * (nats + level) / math.sqrt(n)
    proof += math.sqrt((nats + below * math.log(2.0) + level) / 2.0)
    stated = math.sqrt(below * math.log(2.0) / 2.0) + 2.0 * (math.sqrt(path) + path / math.sqrt(n))
    return stated + 2.0 * (math.sqrt(level) + level / math.sqrt(n)) - proof


def test_the_root_fragment_stands_up_to_500():
    """The last line of the paper's proof is false, its theorem true where the text and the code say."""
    levels = np.concatenate([np.linspace(0.0, 500.0, 501), [math.log(2.0)]])
    for path, below, n in itertools.product([1, 2, 3, 10, 100], [2, 3, 5, 50, 1000], [1, 100, 10**6, 10**18]):
        assert min(slack(level, path, below, n) for level in levels) > 0.0
    assert slack(524.0, 1, 2, 10**18) > 0.0 > slack(526.0, 1, 2, 10**18)
    assert slack(540.0, 1, 2, 10**9) < 0.0  # what the text once said
    assert "ln(2/delta) <= 500" in pc.root_fragment.__doc__
    allowed, refused = 2.0 * math.exp(-499.9), 2.0 * math.exp(-500.1)
    assert pc.root_fragment(stump(), X, Y, split_bits=1.0, delta=allowed).raw > 1.0
    with pytest.raises(
        ValueError, match=r"delta=\S+ is too small: .*up to ln\(2/delta\) = 500; give delta >= 1.4e-217"
    ):
        pc.root_fragment(stump(), X, Y, split_bits=1.0, delta=refused)


@pytest.mark.parametrize("name", ["naive_occam", "root_fragment", "dyadic_tree_bound"])
def test_labels_are_told_and_not_taken_from_the_rows(name):
    """The number of labels is part of the code, so it is not that of the classes that counted rows happen to have."""
    x, more = (np.arange(400) + 0.5) / 400, {} if name == "dyadic_tree_bound" else {"split_bits": 3.0}

    def bound(y, **n_classes):
        classes = np.unique(y)
        tree = Tree(
            [0, -1, -1], [0.5, 0, 0], [1, 0, 0], [2, 0, 0], value=np.eye(len(classes))[[0, 0, 1]], classes=classes
        )
        return getattr(pc, name)(tree, x[:, None], y, **more, **n_classes)

    y = np.where(x > 0.5, "b", "a")
    raws = [bound(y, n_classes=k).raw for k in (2, 3, 10)]
    assert raws == sorted(set(raws)) and bound(y).raw == raws[0]
    y[0] = "c"
    refuses("the tree has 3 classes and n_classes=2; give how many labels there can be", lambda: bound(y))
    assert bound(y, n_classes=3).raw - 1 / 400 == pytest.approx(raws[1])
    refuses("n_classes=1 is out of range", lambda: bound(y, n_classes=1))


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_refused(call, message):
    refuses(message, call)


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


@pytest.mark.parametrize(("call", "message"), REFUSED_TREES)
def test_refused_trees(call, message):
    refuses(message, lambda: call(*fitted(0)))
