"""Neyman-Pearson trees equal the best of all labelled dyadic trees within their false-alarm limits."""

import math

import numpy as np
import pytest

import exact
import exact.systems.neyman_pearson as module
from tests.exact.systems.test_risk_minimisation import random_problem
from tests.reference.dyadic_trees import erm_tolerance, labelled, srm_tolerance


def brute_force(codes, y, levels, trees, limit, penalty):
    """Least of misses plus penalty over all labellings of all trees, with those that reach it."""
    n0, n1 = np.sum(y == 0), np.sum(y == 1)
    best, reached = math.inf, []
    for leaves in {len(tree) for tree in trees}:
        pairs = set().union(*(labelled(codes.tolist(), y, levels, tree) for tree in trees if len(tree) == leaves))
        for alarms, misses in pairs:
            if alarms / n0 <= limit(leaves) + 1e-12:
                value = misses / n1 + penalty(leaves)
                if value < best - 1e-12:
                    best, reached = value, []
                if value <= best + 1e-12:
                    reached.append((leaves, alarms))
    return best, min(reached)


@pytest.mark.more(
    everyday=[
        "0-srm",
        "1-erm",
        "2-srm",
        "3-erm",
        "4-srm",
        "5-erm",
        "6-srm",
        "7-erm",
        "8-srm",
        "9-erm",
        "10-srm",
        "11-erm",
        "12-srm",
        "13-erm",
        "14-srm",
        "15-erm",
        "16-srm",
        "17-erm",
        "18-srm",
        "19-erm",
        "20-srm",
        "21-erm",
    ]
)
@pytest.mark.parametrize("method", ["srm", "erm"])
@pytest.mark.parametrize("seed", range(100))
def test_the_best_within_the_limit(seed, method, monkeypatch):
    codes, y, _, levels, cyclic, trees = random_problem(seed, n_classes=2)
    rng = np.random.default_rng(seed)
    monkeypatch.setattr(module, "FIRST_SIZES", int(rng.integers(1, 4)))
    n0, n1, p = int(np.sum(y == 0)), int(np.sum(y == 1)), codes.shape[1]
    alpha, d0, d1 = rng.uniform(0.01, 0.6), rng.uniform(0.01, 0.5), rng.uniform(0.01, 0.5)
    tolerance, strength = rng.choice([0.0, 0.1, 1.0]), rng.choice([0.0, 0.01, 0.1, 1.0])
    most = None if method == "srm" and rng.random() < 0.5 else int(rng.integers(1, 6))

    def eps(leaves, n, delta):
        if method == "srm":
            return srm_tolerance(leaves, p, n, delta, cyclic)
        return erm_tolerance(most, p, n, delta, cyclic)

    best, (leaves, alarms) = brute_force(
        codes,
        y,
        levels,
        [tree for tree in trees if most is None or len(tree) <= most],
        lambda k: alpha + tolerance * eps(k, n0, d0) / 2,
        lambda k: strength * eps(k, n1, d1) / 2,
    )
    how = {"alpha": alpha, "method": method, "max_leaves": most, "tolerance": tolerance, "strength": strength}
    how |= {"delta0": d0, "delta1": d1, "levels": levels, "cyclic": cyclic, "bounds": np.array([[0.0, 1.0]] * p)}
    X = (codes + 0.5) / (1 << levels)
    result = exact.neyman_pearson_tree(X, y, **how)
    assert result.objective == pytest.approx(best, abs=1e-12)
    assert (result.n_leaves, round(result.false_alarm * n0)) == (leaves, alarms)
    called = result.tree.predict(X)
    assert np.mean(called[y == 0] == 1) == pytest.approx(result.false_alarm)
    assert np.mean(called[y == 1] == 0) == pytest.approx(result.miss)
    assert result.tree.n_leaves == result.n_leaves
    e0, e1 = eps(leaves, n0, d0), eps(leaves, n1, d1)
    assert result.guarantee.false_alarm.raw == pytest.approx(result.false_alarm + e0 / 2)
    assert result.guarantee.false_alarm.terms["alpha + tolerance"] == pytest.approx(alpha + e0)
    assert result.guarantee.miss.raw == pytest.approx(result.miss + e1 / 2)
    assert result.guarantee.excess[leaves - 1] == pytest.approx(e1)


@pytest.mark.more
def test_the_guarantee_holds():
    """Both halves, over samples from a distribution whose error probabilities are known."""
    broken = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        n = 120
        x, noise = rng.random(n), rng.random(n) < 0.1
        y = (x > 0.5) ^ noise
        best = exact.neyman_pearson_tree(
            x[:, None], y, alpha=0.05, tolerance=0.2, strength=0.02, levels=3, delta0=0.3, delta1=0.3, bounds=[[0, 1]]
        )
        called = best.tree.predict((np.arange(8)[:, None] + 0.5) / 8) == 1
        high = np.arange(8) >= 4
        alarm = np.mean(called[~high]) * 0.9 + np.mean(called[high]) * 0.1
        miss = np.mean(~called[high]) * 0.9 + np.mean(~called[~high]) * 0.1
        broken += alarm > best.guarantee.false_alarm.value or miss > best.guarantee.miss.value
    assert broken <= 0.6 * 200


def test_bad_input():
    X, y = np.arange(6.0)[:, None], [0, 0, 0, 1, 1, 1]
    for alpha in (0.0, 1.0, -0.1, float("nan")):
        with pytest.raises(ValueError, match="give a false-alarm level in"):
            exact.neyman_pearson_tree(X, y, alpha=alpha)
    for name in ("delta0", "delta1"):
        with pytest.raises(ValueError, match="give 1e-300 <= delta < 1"):
            exact.neyman_pearson_tree(X, y, alpha=0.1, **{name: 1.0})
    with pytest.raises(ValueError, match=r"3 class\(es\)"):
        exact.neyman_pearson_tree(X, [0, 1, 2, 0, 1, 2], alpha=0.1)
    with pytest.raises(ValueError, match=r"1 class\(es\)"):
        exact.neyman_pearson_tree(X, [0] * 6, alpha=0.1)
    with pytest.raises(ValueError, match="method='erm' needs"):
        exact.neyman_pearson_tree(X, y, alpha=0.1, method="erm")
    with pytest.raises(ValueError, match="method='np' is unknown"):
        exact.neyman_pearson_tree(X, y, alpha=0.1, method="np")
    with pytest.raises(ValueError, match="max_leaves=0"):
        exact.neyman_pearson_tree(X, y, alpha=0.1, max_leaves=0)
    with pytest.raises(ValueError, match="tolerance=-1"):
        exact.neyman_pearson_tree(X, y, alpha=0.1, tolerance=-1)
    with pytest.raises(ValueError, match=r"levels=40: codes would overflow"):
        exact.neyman_pearson_tree(X, y, alpha=0.1, levels=40)
