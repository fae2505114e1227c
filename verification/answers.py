"""Small problems with an exact answer, of all split priors and leaves, and the answers."""

import numpy as np
from designs import GAPS, NOMINAL, ORDERED
from scipy import stats
from scipy.special import logsumexp

import exact
import pactree_mcmc as pt

COPIES = 2
NODES = 64
"""Number of values of a shared variance at which the exact engine computes."""


def rows_of(table, seed):
    """Return the table COPIES times as numbers; y as numbers and as labels, little dependent on it; and weights."""
    rng = np.random.default_rng(seed)
    X = np.tile(table["X"], (COPIES, 1))
    first, second = np.nan_to_num(X[:, 0], nan=7.0), X[:, 1]
    mean = 0.5 * (first > 2.5) + 0.5 * (second == 1.0) * (first < 4.5)
    y = mean + rng.standard_normal(len(X))
    return X, y, (rng.random(len(X)) < 0.2 + 0.6 * mean).astype(int), rng.random(len(X)) + 0.5


def problem(table, seed, split_prior, leaf, **rest):
    """Return a function that makes the model; its arguments change alpha of the tree prior and the weight of all rows.

    ``rest`` may have ``weighted`` (random weights) and ``tree_prior``.
    """

    def make(alpha=0.95, weight=None):
        X, y, label, fractions = rows_of(table, seed)
        weights = fractions if rest.get("weighted") else None
        if weight is not None:
            weights = np.full(len(X), weight)
        return pt.TreeModel(
            X,
            label if leaf.is_classifier else np.round(np.exp(y)) if isinstance(leaf, pt.PoissonGamma) else y,
            tree_prior=rest.get("tree_prior", pt.ChipmanPrior(alpha, 1.0, max_depth=4)),
            split_prior=split_prior,
            leaf=leaf,
            sample_weight=weights,
            estimation=np.arange(len(X)) % 3 == 0 if leaf.uses_estimation else None,
            **{name: value for name, value in table.items() if name != "X"},
        )

    return make


CUTS = [np.array([0.5, 1.5, 2.5, 4.5]), None]
NUMBERS = pt.NormalInverseGamma(m0=0.5, k0=0.4, a0=3.0, b0=1.5)
PROBLEMS = {
    "nominal": problem(NOMINAL, 1, pt.LocalCuts(), NUMBERS),
    "weighted": problem(
        ORDERED, 2, pt.LocalCuts(feature_weights=[1.0, 3.0]), pt.DirichletMultinomial(0.6), weighted=True
    ),
    "missing": problem(GAPS, 3, pt.LocalCuts(), pt.DirichletMultinomial([0.8, 1.2])),
    "min_leaf 3": problem(NOMINAL, 4, pt.LocalCuts(min_leaf=3), pt.PoissonGamma(1.2, 0.6)),
    "trivial": problem(
        NOMINAL, 5, pt.LocalCuts(trivial=True), pt.DirichletMultinomial(), tree_prior=pt.BranchingProcess(0.5, 3)
    ),
    "local, conditioned": problem(
        ORDERED,
        11,
        pt.LocalCuts(min_leaf=2),
        pt.DirichletMultinomial(0.8),
        tree_prior=pt.BranchingProcess(0.45, 4, conditioned=True),
    ),
    "grid": problem(NOMINAL, 16, pt.GridCuts(CUTS), NUMBERS),
    "dyadic": problem(
        ORDERED,
        7,
        pt.DyadicCuts(2, bounds=[(0.0, 8.0), (0.0, 3.0)]),
        pt.FrozenLaplace(),
        tree_prior=pt.BranchingProcess(0.45, 4, conditioned=True),
    ),
    "cyclic, penalty": problem(
        ORDERED,
        8,
        pt.DyadicCuts(2, cyclic=True, bounds=[(0.0, 8.0), (0.0, 3.0)]),
        pt.NormalKnownVariance(0.7, 0.5, 0.3),
        tree_prior=pt.LeafPenalty(0.7, max_depth=4),
    ),
    "fixed, loss": problem(ORDERED, 9, pt.FixedTree(pt.kd_tree(ORDERED["X"], 3).tree), pt.PacBayesLoss(0.6, 0.2)),
    "shared variance": problem(NOMINAL, 10, pt.LocalCuts(), pt.NormalSharedVariance(m0=0.5, k0=0.4, a0=3.0, b0=1.5)),
}


class Distributions:
    """Exact log evidence of a model, and distributions, {value: probability}, of number of leaves and root split."""

    def __init__(self, log_evidence, leaves, root):
        self.log_evidence, self.leaves, self.root = log_evidence, leaves, root


def distributions_of(model):
    """Return the exact `Distributions` of a model. A shared variance is integrated numerically."""
    if model.leaf.has_additive_score:
        truth = exact.solve(model)
        return Distributions(truth.log_evidence, dict(enumerate(truth.n_leaves_pmf())), truth._root_split_pmf())
    leaf, parts = model.leaf, model.parts
    prior = stats.invgamma(leaf.a0, scale=leaf.b0)
    at, width = np.polynomial.legendre.leggauss(NODES)
    low, high = np.log(prior.ppf([1e-9, 1.0 - 1e-9]))
    log_sigma2 = low + (high - low) * (at + 1.0) / 2.0
    leaves = [leaf.with_variance(s) for s in np.exp(log_sigma2)]
    given = [exact.solve(pt.TreeModel.from_parts(parts._replace(leaf=known))) for known in leaves]
    log_weight = prior.logpdf(np.exp(log_sigma2)) + log_sigma2 + np.log(width * (high - low) / 2.0)
    log_joint = log_weight + [truth.log_evidence for truth in given]
    fraction, leaves, root = np.exp(log_joint - logsumexp(log_joint)), {}, {}
    for weight, truth in zip(fraction.tolist(), given, strict=True):
        for distribution, found in ((leaves, dict(enumerate(truth.n_leaves_pmf()))), (root, truth._root_split_pmf())):
            for value, probability in found.items():
                distribution[value] = distribution.get(value, 0.0) + weight * float(probability)
    return Distributions(float(logsumexp(log_joint)), leaves, root)


def log_evidence_of(model):
    """Return the exact log evidence, nats."""
    return distributions_of(model).log_evidence
