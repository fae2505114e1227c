"""Trees grown forward equal those of a plain greedy search that tries every split, and their bounds cover."""

import math

import numpy as np
import pytest

import exact
from exact.systems import bound_minimisers as forward
from pactree_mcmc import certificates as pc


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
    assert result.path[: len(plain)] == pytest.approx(plain)
    assert result.tree.n_leaves == 1 + int(np.argmin(result.path))
    bound = pc.compression_tree_bound(result.tree, X, y)
    assert bound.raw == result.bound.raw
    assert result.bound.raw <= result.path.min() + 1e-12


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
    with pytest.raises(ValueError, match=message):
        call()
