"""The best dyadic tree equals the best of all dyadic trees, for every kind of penalty."""

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from tests.reference.dyadic_trees import adaptive_penalty, count_trees, dyadic_trees, n_errors, square_root_penalty

MOST_TREES = 400


def random_problem(seed, n_classes=None):
    """Codes (n, p), labels, number of classes, levels, whether cyclic, and all trees: 5 to `MOST_TREES` of them."""
    rng = np.random.default_rng([seed, 51])
    while True:
        p, levels = [(1, 2), (1, 3), (1, 4), (2, 1), (2, 2), (3, 1)][rng.integers(6)]
        n, k, cyclic = int(rng.integers(4, 10)), n_classes or int(rng.integers(2, 4)), bool(rng.random() < 0.5)
        codes = rng.integers(0, 1 << levels, size=(n, p))
        y = rng.integers(0, k, size=n)
        y[:k] = range(k)
        if 5 <= count_trees(codes.tolist(), levels, cyclic) <= MOST_TREES:
            return codes, y, k, levels, cyclic, dyadic_trees(codes.tolist(), levels, cyclic)


def fitted(codes, y, levels, cyclic, **how):
    """Rows are given as numbers in the middle of their finest cells."""
    bounds = np.array([[0.0, 1.0]] * codes.shape[1])
    X = (codes + 0.5) / (1 << levels)
    return X, exact.minimise_risk(X, y, levels=levels, cyclic=cyclic, bounds=bounds, **how)


def penalties(rng, codes, y, k, levels, cyclic):
    """A penalty of the package, and what the tree (a list of boxes) pays in plain arithmetic."""
    n, p = codes.shape
    delta = float(rng.uniform(0.01, 0.9))
    yield (
        exact.SpatiallyAdaptive(delta),
        lambda tree: adaptive_penalty(codes.tolist(), y, k, levels, tree, delta, cyclic),
    )
    yield exact.SquareRoot(delta), lambda tree: square_root_penalty(n, p, k, len(tree), delta, cyclic)
    cost = float(rng.uniform(0, 0.2))
    yield cost, lambda tree: cost * len(tree)
    deep = exact.AdditivePenalty(lambda rows, depth: cost * (1 + depth))
    yield deep, lambda tree: sum(cost * (1 + sum(t for t, _ in box)) for box in tree)
    power = float(rng.uniform(0.3, 2.5))
    yield exact.SizePenalty(lambda leaves: cost * leaves**power), lambda tree: cost * len(tree) ** power
    steps = cost * np.cumsum(rng.random(100) * rng.integers(0, 2, 100))
    yield exact.SizePenalty(lambda leaves: steps[leaves.astype(int) - 1]), lambda tree: steps[len(tree) - 1]


@pytest.mark.more(everyday=["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"])
@pytest.mark.parametrize("seed", range(100))
def test_the_best_of_all_trees(seed):
    codes, y, k, levels, cyclic, trees = random_problem(seed)
    rng = np.random.default_rng(seed)
    risk = [n_errors(codes.tolist(), y, k, levels, tree) / len(y) for tree in trees]
    for penalty, pays in penalties(rng, codes, y, k, levels, cyclic):
        strength = float(rng.choice([0.02, 0.1, 1.0]))
        best = min(r + strength * pays(tree) for r, tree in zip(risk, trees))
        X, result = fitted(codes, y, levels, cyclic, penalty=penalty, strength=strength)
        assert result.objective == pytest.approx(best, abs=1e-12)
        assert np.mean(result.tree.predict(X) != y) == pytest.approx(result.risk, abs=1e-12)
        own = boxes(result.tree, codes.shape[1])
        assert strength * pays(own) == pytest.approx(result.penalty, abs=1e-12)
        assert n_errors(codes.tolist(), y, k, levels, own) / len(y) == pytest.approx(result.risk, abs=1e-12)


def boxes(tree, p):
    """Leaf boxes of a dyadic tree from its splits."""
    box, out = {0: ((0, 0),) * p}, []
    for node in range(tree.n_nodes):
        k = tree.feature[node]
        if k < 0:
            out.append(box[node])
            continue
        times, piece = box[node][k]
        for side, child in enumerate((tree.left[node], tree.right[node])):
            box[int(child)] = (*box[node][:k], (times + 1, 2 * piece + side), *box[node][k + 1 :])
    return out


def test_square_root_penalty_is_the_naive_occam_bound():
    codes, y, _, levels, _, _ = random_problem(5, n_classes=2)
    X, best = fitted(codes, y, levels, False, penalty=exact.SquareRoot(0.05))
    p = codes.shape[1]
    bound = pt.certificates.naive_occam(best.tree, X, y, split_bits=np.log2(p), delta=0.05)
    assert bound.raw == pytest.approx(best.objective)


def test_bad_input():
    X, y = [[0.0], [1.0]], [0, 1]
    with pytest.raises(ValueError, match=r"penalty='lasso' is unknown; give .*or RootFragments"):
        exact.minimise_risk(X, y, penalty="lasso")
    with pytest.raises(ValueError, match=r"strength=-1 is out of range"):
        exact.minimise_risk(X, y, strength=-1)
    with pytest.raises(ValueError, match=r"the penalty falls from -1 for 1 leaves to -2 for 2"):
        exact.minimise_risk(X, y, penalty=exact.SizePenalty(lambda leaves: -leaves))
    with pytest.raises(ValueError, match="finite number for each"):
        exact.minimise_risk(X, y, penalty=exact.SizePenalty(lambda leaves: np.nan * leaves))
    with pytest.raises(ValueError, match="give a number >= 0"):
        exact.minimise_risk(X, y, penalty=-0.1)
    with pytest.raises(ValueError, match="one value for each of the"):
        exact.minimise_risk(X, y, penalty=exact.AdditivePenalty(lambda rows, depth: np.zeros(2)))
    with pytest.raises(ValueError, match=r"levels=32: codes would overflow; give at most 31"):
        exact.minimise_risk(X, y, levels=32)
    with pytest.raises(ValueError, match=r"levels=0 is out of range"):
        exact.minimise_risk(X, y, levels=0)
    with pytest.raises(ValueError, match=r"delta=1.5 is out of range"):
        exact.SpatiallyAdaptive(1.5)
    with pytest.raises(ValueError, match=r"delta=0 is out of range"):
        exact.SquareRoot(0)
    wide = np.random.default_rng(0).random((50, 40))
    with pytest.raises(exact.Intractable, match="or cyclic=True"):
        exact.minimise_risk(wide, wide[:, 0] > 0.5)


def test_one_class_seen_is_charged_as_two():
    """Scott's bound at strength 1 with K = 2 and delta = 1/n: sqrt(2 p' ([A] ln 2 + ln(2n)) / n), one leaf, n = 2."""
    best = exact.minimise_risk([[0.25], [1.0]], [0, 0], levels=1)
    nats = 2.0 * np.log(2.0)
    mass = 4.0 * max(1.0, (nats + np.log(2.0)) / 2.0)
    assert best.risk == 0.0
    assert best.penalty == pytest.approx(np.sqrt(2.0 * mass * (nats + np.log(4.0)) / 2.0))
    delta = 0.05
    strict = exact.minimise_risk([[0.25], [1.0]], [0, 0], levels=1, penalty=exact.SpatiallyAdaptive(delta))
    bound = pt.certificates.dyadic_tree_bound(strict.tree, [[0.25], [1.0]], [0, 0], n_classes=2, delta=2 * delta)
    assert strict.risk + strict.penalty == pytest.approx(bound.raw)
    by_size = exact.minimise_risk([[0.25], [1.0]], [0, 0], levels=1, penalty="square-root").penalty
    assert by_size == pytest.approx(np.sqrt((2.0 * np.log(2.0) + np.log(2.0)) / 4.0))
    fragments = exact.minimise_risk([[0.25], [1.0]], [0, 0], levels=1, penalty=exact.RootFragments(delta))
    bound = exact.dyadic_fragment_bound(fragments.tree, [[0.25], [1.0]], [0, 0], n_classes=2, delta=2 * delta)
    assert fragments.penalty == pytest.approx(bound.raw)
