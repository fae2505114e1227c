"""Four leaves of your own: positive amounts, spread counts, successes among trials, ordered classes.

Each is a score of sums over the rows of a cell, and the predictions that follow from it. Copy the one that you need.
Run: python examples/leaves.py
"""

import math

import numpy as np
from scipy import special, stats

import exact
import pactree_mcmc as pt


def amount_score(s, n, p):
    """Return the log score of amounts Gamma(k, v), v ~ Gamma(shape, rate); ``s``: rows, sums of y and log y."""
    k, shape, rate = p[0], p[1], p[2]
    score = (k - 1.0) * s[2] - s[0] * math.lgamma(k) + math.lgamma(shape + k * s[0]) - math.lgamma(shape)
    return score + shape * math.log(rate) - (shape + k * s[0]) * math.log(rate + s[1])


def amounts(k, shape, rate):
    """Return the leaf of amounts with standard deviation mean / sqrt(k). Prior mean: k rate / (shape - 1)."""

    def draw_mean(rng, s, leaf):
        return (k * (rate + s[:, 1]) / rng.gamma(shape + k * s[:, 0]))[leaf]

    return pt.CustomLeaf(
        amount_score,
        params=[k, shape, rate],
        stats=lambda y: np.column_stack([np.ones_like(y), y, np.log(y)]),
        predict=lambda s: k * (rate + s[:, 1]) / (shape + k * s[:, 0] - 1.0),
        cdf=lambda s, y: stats.betaprime.cdf(y, k, shape + k * s[:, 0], scale=rate + s[:, 1]),
        draw=lambda rng, s, leaf: rng.gamma(k, size=len(leaf)) * draw_mean(rng, s, leaf) / k,
        expectation=draw_mean,
    )


def count_score(s, n, p):
    """Return the log score of negative binomial counts, p ~ Beta(a, b); ``s``: rows, sum of y, of log C(y+r-1, y)."""
    r, a, b = p[0], p[1], p[2]
    gain = math.lgamma(a + r * s[0]) + math.lgamma(b + s[1]) - math.lgamma(a + b + r * s[0] + s[1])
    return s[2] + gain - math.lgamma(a) - math.lgamma(b) + math.lgamma(a + b)


def spread_counts(r, a, b):
    """Return the leaf of counts with variance m + m^2 / r at mean m. Prior mean: r b / (a - 1)."""

    def draw_mean(rng, s, leaf):
        return (r * rng.gamma(b + s[:, 1]) / rng.gamma(a + r * s[:, 0]))[leaf]

    return pt.CustomLeaf(
        count_score,
        params=[r, a, b],
        stats=lambda y: (
            np.column_stack([np.ones_like(y), y, special.gammaln(y + r) - special.gammaln(r)])
            - np.outer(special.gammaln(y + 1.0), [0.0, 0.0, 1.0])
        ),
        predict=lambda s: r * (b + s[:, 1]) / (a + r * s[:, 0] - 1.0),
        draw=lambda rng, s, leaf: rng.poisson(rng.gamma(r, size=len(leaf)) * draw_mean(rng, s, leaf) / r),
        expectation=draw_mean,
        whole=True,
    )


def success_score(s, n, p):
    """Return the log score of successes, p ~ Beta(a, b); ``s``: successes, failures, sum of log binomials."""
    a, b = p[0], p[1]
    gain = math.lgamma(a + s[0]) + math.lgamma(b + s[1]) - math.lgamma(a + b + s[0] + s[1])
    return s[2] + gain - math.lgamma(a) - math.lgamma(b) + math.lgamma(a + b)


def successes(a=1.0, b=1.0):
    """Return the leaf of y (n, 2): successes and trials. It predicts the probability of a success."""

    def draw_probability(rng, s, leaf):
        return rng.beta(a + s[:, 0], b + s[:, 1])[leaf]

    def sums(y):
        won, lost = y[:, 0], y[:, 1] - y[:, 0]
        return np.column_stack([won, lost, -special.betaln(won + 1.0, lost + 1.0) - np.log(y[:, 1] + 1.0)])

    return pt.CustomLeaf(
        success_score,
        params=[a, b],
        y_columns=2,
        stats=sums,
        predict=lambda s: (a + s[:, 0]) / (a + b + s[:, 0] + s[:, 1]),
        draw=lambda rng, s, leaf: np.column_stack(
            [rng.random(len(leaf)) < draw_probability(rng, s, leaf), np.ones(len(leaf))]
        ),
        expectation=draw_probability,
    )


def ordered_score(s, n, p):
    """Return the log score of continuation ratios; ``s``: weights of sorted classes, ``p``: strength, then the order.

    A row stops at class j, given that it comes so far, with probability Beta(strength / (n - j), rest of strength).
    """
    strength, later, score = p[0], 0.0, 0.0
    for j in range(n - 1, -1, -1):
        here, a = s[int(p[1 + j])], strength / (n - j)
        if j < n - 1:
            score += math.lgamma(a + here) - math.lgamma(a) - math.lgamma(strength + here + later)
            score += math.lgamma(strength - a + later) - math.lgamma(strength - a) + math.lgamma(strength)
        later += here
    return score


def ordered_classes(order, strength=2.0):
    """Return the leaf of classes with an ``order``, the lowest first: as many labels as y has."""
    place = np.argsort(np.argsort(order))  # the place of each label of the order among the sorted ones

    def steps(s):
        a, counts = strength / np.arange(len(place), 1.0, -1.0), s[:, place]
        return a + counts[:, :-1], strength - a + np.cumsum(counts[:, ::-1], axis=1)[:, -2::-1]

    def probabilities(stop):
        ones, out = np.ones((len(stop), 1)), np.empty((len(stop), len(place)))
        out[:, place] = np.hstack([stop, ones]) * np.hstack([ones, np.cumprod(1.0 - stop, axis=1)])
        return out

    def draw_probabilities(rng, s, leaf):
        return probabilities(rng.beta(*steps(s)))[leaf]

    return pt.CustomLeaf(
        ordered_score,
        params=[strength, *place],
        classes=True,
        predict=lambda s: probabilities(steps(s)[0] / sum(steps(s))),
        draw=lambda rng, s, leaf: (
            rng.random((len(leaf), 1)) > np.cumsum(draw_probabilities(rng, s, leaf), axis=1)[:, :-1]
        ).sum(axis=1),
        expectation=draw_probabilities,
    )


def main():
    """Check each leaf on data, and sum over all trees."""
    rng = np.random.default_rng(1)
    X = rng.integers(6, size=(80, 2)).astype(float)
    high = X[:, 0] > 2
    grade = np.clip(high + rng.integers(0, 3, 80), 0, 3)
    data = {
        "amounts": (amounts(2.0, 3.0, 4.0), rng.gamma(2.0, np.where(high, 3.0, 1.0))),
        "spread counts": (spread_counts(2.0, 3.0, 4.0), rng.negative_binomial(2.0, np.where(high, 0.2, 0.5))),
        "successes": (successes(), np.column_stack([rng.binomial(9, np.where(high, 0.8, 0.4)), np.full(80, 9)])),
        "ordered classes": (
            ordered_classes(["low", "mid", "high", "top"]),
            np.array(["low", "mid", "high", "top"])[grade],
        ),
    }
    for name, (leaf, y) in data.items():
        report = pt.testing.check_leaf(leaf, y)
        truth = exact.solve(pt.TreeModel(X, y, leaf=leaf))
        print(f"{name}: log evidence {truth.log_evidence:.2f}, tested {', '.join(report.offered)}")
        print("  90 % credible interval of E(y)", truth.credible_interval([[0.0, 0.0], [5.0, 0.0]]).round(2).tolist())


if __name__ == "__main__":
    main()
