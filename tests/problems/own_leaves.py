"""Leaves of a user's own, in the words of a user: the same as some of the library, so that answers can be compared."""

import math

import numpy as np
from scipy import special, stats

import pactree_mcmc as pt


def poisson_score(s, n, params):
    """Sums: count, minus log factorials, how many; parameters: shape, rate, and what both add."""
    shape = params[0] + s[0]
    return params[2] + s[1] + math.lgamma(shape) - shape * math.log(params[1] + s[2])


def own_poisson(shape=1.3, rate=0.6, package=pt):
    """`PoissonGamma`, but for counts close to each other, whose scores that computes otherwise."""

    def posterior(sums):
        return shape + sums[:, 0], rate + sums[:, 2]

    def draw(rng, sums, leaf):
        a, b = posterior(sums)
        return rng.poisson((rng.gamma(a) / b)[leaf]).astype(float)

    return package.CustomLeaf(
        poisson_score,
        params=[shape, rate, shape * math.log(rate) - math.lgamma(shape)],
        stats=lambda y: np.column_stack([y, -special.gammaln(y + 1.0), np.ones_like(y)]),
        predict=lambda sums: posterior(sums)[0] / posterior(sums)[1],
        variance=lambda sums: posterior(sums)[0] / posterior(sums)[1] * (1.0 + 1.0 / posterior(sums)[1]),
        cdf=lambda sums, y: stats.nbinom.cdf(y, posterior(sums)[0], posterior(sums)[1] / (1.0 + posterior(sums)[1])),
        draw=draw,
        whole=True,
    )


def classes_score(s, n):
    """Dirichlet-multinomial with counts 1 for each class."""
    total, score = 0.0, math.lgamma(float(n))
    for i in range(n):
        total += s[i]
        score += math.lgamma(1.0 + s[i])
    return score - math.lgamma(n + total)


def own_classes(**more):
    """`DirichletMultinomial(1.0)`."""
    return pt.CustomLeaf(classes_score, classes=True, **more)
