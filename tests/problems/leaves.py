"""Leaves: named, random, and of the library; a new one enters here as ``{"kind": ..., parameter: value, ...}``."""

import math

import numpy as np
from scipy import stats

import pactree_mcmc as pt
from pactree_mcmc.core import portable

KINDS = ("dirichlet", "laplace", "nig", "known", "poisson", "loss", "own")
"""Kinds in random problems, in the order in which they are drawn."""
CLASS_KINDS = ("dirichlet", "laplace", "loss")
"""Those of labels."""
DIRICHLET = {"kind": "dirichlet", "alpha": 0.7}
LAPLACE = {"kind": "laplace", "pseudocount": 1.0}
LOSS = {"kind": "loss", "lambda1": 0.8, "lambda2": 0.3}
NORMAL = {"kind": "nig", "m0": 0.4, "k0": 0.5, "a0": 2.0, "b0": 0.3}
KNOWN = {"kind": "known", "sigma2": 0.4, "m0": 0.4, "k0": 0.5}
POISSON = {"kind": "poisson", "shape": 1.5, "rate": 1.2}
OWN = {"kind": "own", "shape": 1.5, "rate": 1.2}
"""A leaf of one's own, the same as POISSON."""
LEAVES = {"dirichlet": DIRICHLET, "laplace": LAPLACE, "loss": LOSS, "nig": NORMAL, "known": KNOWN, "poisson": POISSON}
"""Leaves that the transition matrices go through in turn."""
NAMED = {**LEAVES, "own": OWN}


def library_leaf(package, leaf):
    kind, rest = leaf["kind"], {name: value for name, value in leaf.items() if name != "kind"}
    if kind == "own":
        return own_poisson(**rest, package=package)
    names = {
        "dirichlet": "DirichletMultinomial",
        "laplace": "FrozenLaplace",
        "nig": "NormalInverseGamma",
        "known": "NormalKnownVariance",
        "shared": "NormalSharedVariance",
        "poisson": "PoissonGamma",
        "loss": "PacBayesLoss",
    }
    return getattr(package, names[kind])(**rest)


def random_leaf(rng, kind, n):
    """A leaf of that kind for n rows."""
    names = {
        "dirichlet": ("alpha",),
        "laplace": ("pseudocount",),
        "nig": ("m0", "k0", "a0", "b0"),
        "known": ("sigma2", "m0", "k0"),
        "poisson": ("shape", "rate"),
        "loss": ("lambda1", "lambda2"),
        "own": ("shape", "rate"),
    }
    leaf = {"kind": kind, **{name: float(rng.uniform(0.2, 3.0)) for name in names[kind]}}
    if kind == "poisson" and rng.random() < 0.5:
        leaf["exposure"] = rng.uniform(0.5, 2.0, n).tolist()
    if kind == "loss" and rng.random() < 0.3:
        leaf["lambda2"] = 0.0
    return leaf


def random_y(rng, leaf, n):
    """Return a random y of n rows for a leaf of that kind."""
    if leaf in CLASS_KINDS:
        labels = [[0, 1, 2], ["no", "yes", "maybe"], [False, True], [-3, 10, 7]][int(rng.integers(4))]
        return [labels[i] for i in rng.integers(int(rng.integers(1, len(labels) + 1)), size=n)]
    if leaf in ("poisson", "own"):
        return rng.poisson(float(rng.choice([0.5, 4.0])), n).tolist()
    return (float(rng.choice([0.0, 30.0])) + rng.normal(size=n).round(int(rng.integers(4)))).tolist()


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
        stats=lambda y: np.column_stack([y, -portable.log_gamma(y + 1.0), np.ones_like(y)]),
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
    return pt.CustomLeaf(classes_score, classes=True, **more)
