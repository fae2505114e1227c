"""The small models that are verified: tables, tree priors, question priors, leaves, all fixed in advance of y."""

import numpy as np

import pactree_mcmc as pt

DEPTH = 3
STEPS = np.array([0, 0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 7], dtype=float)
KINDS = np.array([0, 1, 2, 0, 1, 2, 2, 1, 0, 0, 1, 2], dtype=float)
LEVELS = np.array([1, 0, 2, 0, 1, 2, 0, 1, 2, 1, 0, 2], dtype=float)
NOMINAL = {"X": np.column_stack([STEPS, KINDS]), "nominal": [1]}
"""Twelve rows of an ordered feature with ties and a nominal one of three categories."""
ORDERED = {"X": np.column_stack([STEPS, LEVELS])}
"""Two ordered features."""
WITH_GAPS = np.where(np.isin(np.arange(12), [3, 8, 10]), np.nan, STEPS)
GAPS = {"X": np.column_stack([WITH_GAPS, LEVELS]), "missing": "branch"}
"""Two ordered features, three values of the first missing."""
KD = pt.kd_tree(ORDERED["X"], DEPTH).tree
N_NODES = len(KD.feature)

QUESTIONS = {
    "local": (NOMINAL, pt.LocalCuts()),
    "local, missing": (GAPS, pt.LocalCuts()),
    "local, trivial": (NOMINAL, pt.LocalCuts(trivial=True)),
    "grid": (NOMINAL, pt.GridCuts([np.array([0.5, 2.5, 4.5]), None])),
    "dyadic": (ORDERED, pt.DyadicCuts(2, bounds=[(0.0, 8.0), (0.0, 3.0)])),
    "cyclic": (ORDERED, pt.DyadicCuts(2, cyclic=True, bounds=[(0.0, 8.0), (0.0, 3.0)])),
    "fixed": (ORDERED, pt.FixedTree(KD)),
}
"""Every question prior, each with the table it asks about."""
RHO = [0.8, 0.55, 0.35, 0.2]
PRIORS = {
    "stopped": lambda by_node: pt.BranchingProcess(rho_by_node() if by_node else 0.6, max_depth=DEPTH),
    "conditioned": lambda by_node: pt.BranchingProcess(0.45 if by_node else RHO, max_depth=DEPTH, conditioned=True),
    "chipman": lambda by_node: pt.ChipmanPrior(0.9, 0.8, max_depth=DEPTH),
    "penalty": lambda by_node: pt.LeafPenalty(1.5, max_depth=DEPTH),
}
"""Every tree prior; ``by_node``: the questions are those of a fixed tree, whose nodes may have a rho each."""
LEAVES = {
    "dirichlet": pt.DirichletMultinomial([0.7, 1.1]),
    "laplace": pt.FrozenLaplace(0.8),
    "inverse gamma": pt.NormalInverseGamma(m0=0.3, k0=0.4, a0=3.0, b0=2.0),
    "known variance": pt.NormalKnownVariance(sigma2=0.8, m0=0.3, k0=0.3),
    "shared variance": pt.NormalSharedVariance(m0=0.3, k0=0.3, a0=3.0, b0=2.0),
    "poisson": pt.PoissonGamma(shape=1.3, rate=0.7),
}
"""Every leaf that is a law of y; no parameter is set from the data."""
FROZEN = np.array([0, 1, 1, 0, 1], dtype=np.int64)
"""Labels of the rows of E, the last ones."""


def rho_by_node():
    """A probability of a split for each node of the fixed tree."""
    return np.linspace(0.85, 0.25, N_NODES)


def tree_prior(prior, questions):
    """The tree prior of that name for these questions."""
    return PRIORS[prior](questions == "fixed")


def placeholder(leaf, n):
    """Some y that a model with this leaf accepts, and the mask of E."""
    if leaf == "laplace":
        y = np.arange(n) % 2
        y[-len(FROZEN) :] = FROZEN
        return y, np.arange(n) >= n - len(FROZEN)
    return (np.arange(n) % 2 if leaf == "dirichlet" else np.arange(n) % 3 / 1.0), None


def model_of(questions, prior, leaf, y=None, *, extra_rows=(), sample_weight=None, tree_prior_given=None):
    """The model of three names; ``extra_rows``: rows of the table, by number, repeated before all others."""
    table, asked = QUESTIONS[questions]
    rest = {name: value for name, value in table.items() if name != "X"}
    X = np.concatenate([table["X"][list(extra_rows)], table["X"]]) if len(extra_rows) else table["X"]
    some, mask = placeholder(leaf, len(X))
    return pt.TreeModel(
        X,
        some if y is None else y,
        tree_prior=tree_prior(prior, questions) if tree_prior_given is None else tree_prior_given,
        questions=asked,
        leaf=LEAVES[leaf],
        estimation=mask,
        sample_weight=sample_weight,
        **rest,
    )


def combinations():
    """All (questions, prior, leaf)."""
    return [(questions, prior, leaf) for leaf in LEAVES for questions in QUESTIONS for prior in PRIORS]
