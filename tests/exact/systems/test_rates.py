"""Proposition 2 and Corollary 1: the terms, Theorem 1 as a case, simulated votes below the bound, and the rate."""

import math

import numpy as np
import pytest

import exact


def test_terms_of_corollary_one():
    rate = exact.adaptive_rate(10_000, smoothness=0.5, holder=2.0, n_features=2, n_classes=3, lam=0.5)
    leaves = max((2 * math.sqrt(2)) ** 2 * rate.radius**-2, 1.0)
    assert rate.n_leaves == pytest.approx(leaves)
    assert rate.approximation == pytest.approx(4.0 * rate.radius**0.5)
    assert rate.labels == pytest.approx(2 * math.sqrt(leaves * math.log(6) / 1e4) + leaves / (math.e * 1e4))
    assert rate.prior == pytest.approx(3 * 28 * leaves / (0.5 * 1e4))
    least = (2 + math.log(2)) * 28 + math.log(1e4)
    sharp = math.sqrt(8 * leaves * (1 + leaves * least / 1e4) * math.log(2e4 * 1e4) / 1e4)
    assert rate.deviation == pytest.approx(sharp)
    # Cauchy-Schwarz: no smaller than Delta of Theorem 1 for leaves of equal mass
    m = 50
    theorem = exact.oracle_bound(
        0.0, np.full(m, 1 / m), n=10_000, n_nodes=20_000, depth=28, n_features=2, n_classes=3, delta=1e-4
    ).terms["Delta(T)"]
    assert theorem <= math.sqrt(8 * m * (1 + m * least / 1e4) * math.log(2e4 * 1e4) / 1e4) + 1e-12


@pytest.mark.parametrize(("alpha", "d"), [(1.0, 1), (0.5, 2), (1.0, 3)])
def test_the_rate(alpha, d):
    """log(bound) over log(log(n)/n) has the exponent as its slope, for n so large that the constants do not matter."""
    sizes = [10**30, 10**34]
    values = [exact.adaptive_rate(n, smoothness=alpha, holder=1.0, n_features=d).value for n in sizes]
    scale = [math.log(math.log(n) / n) for n in sizes]
    slope = (math.log(values[1]) - math.log(values[0])) / (scale[1] - scale[0])
    assert slope == pytest.approx(alpha / (2 * alpha + d), abs=0.01)


def excess_by_hand(n=5000, delta=0.05):
    """Proposition 2 written out for one classifier with excess .02, deviation .1 and P = 1/2."""
    confidence = (math.log(2 * math.sqrt(n) / delta) + math.sqrt(2 * n * math.log(1 / delta))) / n
    return 3 / (1 - 0.5) * (0.02 + 0.1 + math.log(2) / n + confidence)


def test_proposition_two_by_hand():
    assert exact.vote_excess_bound([0.02], [0.1], [-math.log(2)], n=5000, n_classes=3).raw == pytest.approx(
        excess_by_hand()
    )


def test_bad_input():
    with pytest.raises(ValueError, match="different lengths"):
        exact.vote_excess_bound([0.0, 0.1], [0.0], [0.0], n=10, n_classes=2)
    with pytest.raises(ValueError, match="excess holds"):
        exact.vote_excess_bound([2.0], [0.0], [0.0], n=10, n_classes=2)
    with pytest.raises(ValueError, match="log_prior holds"):
        exact.vote_excess_bound([0.0], [0.0], [1.0], n=10, n_classes=2)
    with pytest.raises(ValueError, match="packing"):
        exact.adaptive_rate(100, smoothness=1.0, holder=1.0, n_features=3, dimension=1.0)
    with pytest.raises(ValueError, match="smoothness"):
        exact.adaptive_rate(100, smoothness=2.0, holder=1.0, n_features=3)
