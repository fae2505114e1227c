"""Short runs of models of many kinds; prints for each a digest of the trees and draws, without scores.

The arguments are seeds. With ``--other-digits`` functions of NumPy and SciPy that have variants for each kind of
processor give other last digits, as they do on processors that are not at hand.
"""

import hashlib
import sys
import warnings

import numpy as np
import scipy.special

import exact
import pactree_mcmc as pt
from pactree_mcmc.mcmc.whole import evidence, rounds

rng = np.random.default_rng(2026)
N = 110
FIXED = {"draws": 20, "tune": 20, "chains": 2, "progress": False}
WHOLE = {"draws": 10, "tune": 36, "chains": 2, "kernel": "whole", "progress": False}
DEFAULT = {"draws": 15, "steps": 15, "work": 5e6, "progress": False}
GRID, COARSE = pt.GridCuts(8), pt.LocalCuts(max_cuts=20, min_leaf=5)
VARIED = {
    np: "exp log log1p expm1 log2 logaddexp power dot einsum matmul tensordot",
    np.linalg: "solve inv cholesky slogdet eigh svd lstsq",
    scipy.special: "expit gammaln loggamma logsumexp ndtri stdtrit xlogy betaincinv gammaincc",
}
"""Functions that have variants for kinds of processors, or call BLAS."""


def digest(post):
    """Return a digest of the trees drawn and of the order of the draws."""
    out = hashlib.sha256()
    for array in (*post.draws.distinct_trees, post.draws.tree_of_draw):
        out.update(np.ascontiguousarray(array).tobytes())
    return out.hexdigest()[:16]


def text_digest(*parts):
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def nodes(tree):
    return tree.feature.tolist(), tree.threshold.tolist()


NUMBERS = np.round(rng.standard_normal((N, 5)), 3)
NUMBERS[:, 3] = np.round(NUMBERS[:, 0] + 0.1 * NUMBERS[:, 3], 3)
SMALL = np.column_stack([rng.integers(0, 10, N), rng.integers(0, 6, N), rng.integers(0, 4, N)]).astype(float)
SIGNAL = 1.7 * (NUMBERS[:, 0] > 0.3) + (NUMBERS[:, 1] > -0.2) * (NUMBERS[:, 2] > 0)
NOISE = rng.standard_normal(N)
LABEL = (SIGNAL + 0.6 * NOISE > 1.2).astype(int)
THREE = np.array(["a", "b", "c"])[(SIGNAL + 0.5 * NOISE > 0.8).astype(int) + (SIGNAL + 0.5 * NOISE > 1.9)]
Y = np.round(SIGNAL + 0.5 * NOISE, 2)
COUNT = rng.poisson(0.5 + 2.0 * SIGNAL)
TIME = np.round(rng.exponential(1.0 / (0.2 + SIGNAL)) + 0.01, 3)
SEEN = rng.random(N) < 0.8
WEIGHT = np.round(rng.gamma(2.0, 0.5, N), 2) + 0.01
EXPOSURE = np.round(rng.uniform(0.5, 3.0, N), 2)
HOLES = np.where(rng.random((N, 5)) < 0.1, np.nan, NUMBERS)
SURVIVAL = np.column_stack([TIME, SEEN])
ESTIMATION = rng.random(N) < 0.6
SEED = 7


def model(X, y, split_prior=None, leaf=None, tree_prior=None, **more):
    return pt.TreeModel(X, y, split_prior=split_prior, leaf=leaf, tree_prior=tree_prior, **more)


def sampled(settings, *args, start="dispersed", kernel=None, betas=None, **more):
    chosen = settings | {"start": start} | ({} if kernel is None else {"kernel": kernel})
    return lambda: digest(pt.sample(model(*args, **more), rng=SEED, betas=betas, **chosen))


def two_and_eight_threads():
    """Return the digest of a run of eight chains, in two threads and in eight: it must be one digest."""
    from concurrent.futures import ThreadPoolExecutor

    both = []
    for n in (2, 8):
        with ThreadPoolExecutor(n) as pool:
            settings = WHOLE | {"draws": 2, "tune": 9, "chains": 8, "rng": SEED, "executor": pool}
            both.append(digest(pt.sample(model(NUMBERS, LABEL, pt.LocalCuts(min_leaf=3)), **settings)))
    return both[0] if both[0] == both[1] else f"{both[0]} in two threads, {both[1]} in eight"


def simulated(*args, **more):
    def run():
        one = model(*args, **more)
        drawn = [pt.simulate(one, SEED + k) for k in range(3)]
        return text_digest([(nodes(tree), y.tolist()) for tree, y in drawn])

    return run


def exactly_drawn(*args, **more):
    return lambda: digest(exact.solve(model(*args, **more), progress=False).sample(60, rng=SEED))


def progressive(settings):
    frozen = model(NUMBERS, LABEL, None, pt.FrozenLaplace(), estimation=ESTIMATION)
    return lambda: digest(pt.progressive_mixture(frozen, rng=SEED, **settings))


def estimated(kind, X, y):
    return lambda: text_digest(nodes(getattr(pt, kind)(random_state=SEED, work=1e6).fit(X, y).posterior_.map_tree()))


RUNS = {
    "whole, two classes": sampled(WHOLE, NUMBERS, LABEL),
    "whole, three classes, coarse": sampled(WHOLE, NUMBERS, THREE, COARSE),
    "whole, weights": sampled(WHOLE, NUMBERS, LABEL, sample_weight=WEIGHT),
    "whole, numbers": sampled(WHOLE, NUMBERS, Y, COARSE),
    "whole, numbers, grid": sampled(WHOLE, NUMBERS, Y, GRID),
    "whole, missing values": sampled(WHOLE, HOLES, THREE, missing="branch"),
    "whole, nominal": sampled(WHOLE, SMALL, LABEL, nominal=[1, 2]),
    "whole, counts": sampled(WHOLE, NUMBERS, COUNT, COARSE, pt.PoissonGamma(exposure=EXPOSURE)),
    "whole, times": sampled(WHOLE, NUMBERS, SURVIVAL, COARSE, pt.ExponentialGamma()),
    "whole, Weibull": sampled(WHOLE, NUMBERS, SURVIVAL, COARSE, pt.WeibullGamma(1.5)),
    "whole, piecewise": sampled(WHOLE, NUMBERS, SURVIVAL, COARSE, pt.PiecewiseExponential()),
    "whole, known variance": sampled(WHOLE, NUMBERS, Y, COARSE, pt.NormalKnownVariance()),
    "whole, shared variance": sampled(WHOLE, NUMBERS, Y, COARSE, pt.NormalSharedVariance()),
    "whole, linear": sampled(WHOLE, NUMBERS[:, :2], Y, COARSE, pt.NormalLinear([0])),
    "whole, penalty": sampled(WHOLE, NUMBERS, LABEL, COARSE, tree_prior=pt.LeafPenalty(1.5)),
    "whole, branching": sampled(WHOLE, NUMBERS, Y, GRID, tree_prior=pt.BranchingProcess(0.4, 6)),
    "whole, dyadic": sampled(WHOLE, NUMBERS[:, :2], LABEL, pt.DyadicCuts(4), tree_prior=pt.BranchingProcess(0.5, 6)),
    "default, two classes": sampled(DEFAULT, NUMBERS, LABEL, COARSE),
    "default, numbers": sampled(DEFAULT, NUMBERS, Y, pt.LocalCuts(feature_weights=[1, 2, 1, 0.5, 1])),
    "default, one column": sampled(DEFAULT, NUMBERS[:, :1], Y),
    "default, votes": sampled(DEFAULT, NUMBERS, LABEL, COARSE, pt.PacBayesLoss(20.0)),
    "local, two classes": sampled(FIXED, NUMBERS, LABEL),
    "local, numbers": sampled(FIXED, NUMBERS, Y),
    "local, counts": sampled(FIXED, NUMBERS, COUNT),
    "local, times": sampled(FIXED, NUMBERS, SURVIVAL, None, pt.ExponentialGamma()),
    "local, shared variance": sampled(FIXED, NUMBERS, Y, None, pt.NormalSharedVariance()),
    "local, linear, tempered": sampled(FIXED, NUMBERS[:, :2], Y, None, pt.NormalLinear([0]), betas=3),
    "grow-prune, grown": sampled(FIXED, NUMBERS, THREE, start="grown", kernel="grow-prune"),
    "cgm, tempered": sampled(FIXED, NUMBERS, Y, GRID, kernel="cgm", betas=4),
    "blanchard, from the prior": sampled(FIXED, NUMBERS, LABEL, start="prior", kernel="blanchard"),
    "penalty, from the prior": sampled(FIXED, SMALL, LABEL, start="prior", tree_prior=pt.LeafPenalty(1.0)),
    "frozen, tempered": sampled(FIXED, NUMBERS, THREE, None, pt.FrozenLaplace(), estimation=ESTIMATION, betas=3),
    "fixed tree": sampled(FIXED, NUMBERS, LABEL, pt.kd_tree(NUMBERS, 4)),
    "threads": two_and_eight_threads,
    "exact, classes": exactly_drawn(SMALL[:, :2], LABEL, pt.GridCuts(5), tree_prior=pt.BranchingProcess(0.5, 4)),
    "exact, numbers": exactly_drawn(SMALL[:, :2], Y, pt.GridCuts(5), tree_prior=pt.ChipmanPrior(max_depth=4)),
    "exact, counts": exactly_drawn(SMALL[:, :2], COUNT, pt.GridCuts(5), tree_prior=pt.LeafPenalty(1.0, max_depth=4)),
    "exact, times": exactly_drawn(NUMBERS[:, :1], SURVIVAL, pt.GridCuts(9), pt.WeibullGamma(0.8)),
    "simulated, classes": simulated(NUMBERS, LABEL),
    "simulated, penalty": simulated(NUMBERS, Y, GRID, tree_prior=pt.LeafPenalty(1.0)),
    "progressive, chains": progressive({"engine": "mcmc", "chains": 2, "draws": 60}),
    "progressive, populations": progressive({"engine": "smc", "particles": 6}),
    "classifier": estimated("BayesianTreeClassifier", NUMBERS, THREE),
    "regressor": estimated("BayesianTreeRegressor", NUMBERS, Y),
}


class OtherDigits:
    """A function whose results are wrong by up to two units of the last digit."""

    noise = np.random.default_rng(1)

    def __init__(self, function):
        self.function = function

    def __getattr__(self, name):
        return getattr(self.function, name)

    def __call__(self, *args, **more):
        out = self.function(*args, **more)
        return out if more.get("out") is not None else self.changed(out)

    def changed(self, out):
        if isinstance(out, tuple):
            return type(out)(*map(self.changed, out)) if hasattr(out, "_fields") else tuple(map(self.changed, out))
        factor = 1.0 + self.noise.integers(-2, 3, np.shape(out)) * 2.0**-52
        return out * factor if np.asarray(out).dtype == np.float64 else out


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    rounds.ROUND_TREES, evidence.N_WEIGHTED_DRAWS = 60, 40  # of usual runs 1,600 and more, which take most of the time
    if "--other-digits" in sys.argv:
        for module, functions in VARIED.items():
            for function in functions.split():
                setattr(module, function, OtherDigits(getattr(module, function)))
    for seed in [int(word) for word in sys.argv[1:] if word.isdigit()] or [SEED]:
        SEED = seed
        for name, run in RUNS.items():
            print(f"{name}, seed {SEED}: {run()}", flush=True)
