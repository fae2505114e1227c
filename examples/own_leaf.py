"""Your own leaf: inverse Gaussian y of known shape, in both engines, checked and compared.

Times until a drifting walk first reaches a line are inverse Gaussian. With the shape known and a normal prior on the
inverse of the mean, cut off at zero, the score has a closed form in three sums: it is not among the library's leaves.
Run: python examples/own_leaf.py
"""

import math

import numpy as np
from scipy import integrate

import exact
import pactree_mcmc as pt

SHAPE, CENTRE, PRECISION = 4.0, 0.5, 1.0
"""Shape of y; mean, and precision in units of the shape, of the normal prior of 1 / mean, which is positive."""


def inverse_gaussian(s, n, p):
    """Return the log score of ``s``, the sums of rows, y, 1 / y and log y; ``p`` are shape, centre and precision.

    The exponent is a parabola in v = 1 / mean, so v is integrated out.
    """
    shape, centre, precision = p[0], p[1], p[2]
    a, b = precision + s[1], precision * centre + s[0]
    half = 0.5 * math.erfc(-b / a * math.sqrt(shape * a / 2.0))
    whole = 0.5 * math.erfc(-centre * math.sqrt(shape * precision / 2.0))
    score = 0.5 * s[0] * math.log(shape / (2.0 * math.pi)) - 1.5 * s[3] - 0.5 * shape * s[2]
    score += 0.5 * shape * (b * b / a - precision * centre * centre)
    return score + 0.5 * math.log(precision / a) + math.log(half / whole)


def posterior_of_v(sums):
    """Return the mean and the standard deviation of v, before the cut-off at zero, for each leaf's sums (m, 4)."""
    a = PRECISION + sums[:, 1]
    return (PRECISION * CENTRE + sums[:, 0]) / a, 1.0 / np.sqrt(SHAPE * a)


def draw_v(rng, mean, sd):
    """Draw positive normal numbers by rejection."""
    v = rng.normal(mean, sd)
    while np.any(v <= 0.0):
        v = np.where(v <= 0.0, rng.normal(mean, sd), v)
    return v


def draw(rng, sums, leaf):
    """Draw new y: first v of each leaf given its sums (m, 4), then a time for each entry of ``leaf``, an index."""
    return rng.wald(1.0 / draw_v(rng, *posterior_of_v(sums))[leaf], SHAPE)


def sums_of(y):
    """Return the statistics (n, 4) of each row: 1, y, 1 / y, log y."""
    return np.column_stack([np.ones_like(y), y, 1.0 / y, np.log(y)])


def score_by_quadrature(y):
    """Return the log score of a leaf with y (n,), as an integral over v."""

    def density(v):
        log_rows = 0.5 * np.log(SHAPE / (2.0 * np.pi * y**3)) - SHAPE * (y * v - 1.0) ** 2 / (2.0 * y)
        return np.exp(log_rows.sum() - 0.5 * SHAPE * PRECISION * (v - CENTRE) ** 2)

    prior = integrate.quad(lambda v: np.exp(-0.5 * SHAPE * PRECISION * (v - CENTRE) ** 2), 0.0, 20.0)[0]
    return math.log(integrate.quad(density, 0.0, 20.0, limit=200)[0] / prior)


def main():
    """Check the leaf, sample, and compare with the exact answer."""
    leaf = pt.CustomLeaf(inverse_gaussian, params=[SHAPE, CENTRE, PRECISION], stats=sums_of, draw=draw)
    rng = np.random.default_rng(1)
    X = rng.integers(8, size=(120, 2)).astype(float)
    y = rng.wald(np.where(X[:, 0] > 3, 4.0, 1.5), SHAPE)
    leaf.check(y)
    few = y[:3]
    found, wanted = leaf.plain_score(sums_of(few).sum(axis=0), None), score_by_quadrature(few)
    print(f"score of three rows {found:.8f}, by quadrature {wanted:.8f}")

    model = pt.TreeModel(X, y, leaf=leaf)
    truth = exact.solve(model)
    post = pt.sample(model, draws=2000, chains=4, rng=1, kernel="local", progress=False)
    print(f"log evidence {truth.log_evidence:.3f}")
    print("leaves, exact  ", truth.n_leaves_pmf()[1:5].round(3))
    print("leaves, sampled", post.n_leaves_pmf()[1:5].round(3))
    new = post.sample_predictive([[0.0, 0.0], [7.0, 0.0]], 4000, rng=1)
    print("80% of new times lie within", np.quantile(new, [0.1, 0.9], axis=0).T.round(2).tolist())


if __name__ == "__main__":
    main()
