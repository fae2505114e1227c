"""Coverage of two standard errors to both sides of a tempered log evidence: .92 to .98 is asked.

Run: python benchmarks/evidence_coverage.py [runs] [chipman]. Synthetic ladders: independent chains of draws at four
powers of a score that is normal at power 0, from draw to draw an autoregression with a given integrated autocorrelation
time. Real ladders: short runs of `pt.sample(model, betas=6)` and `pt.progressive_mixture(model)` on small models
that the exact engine answers. With `chipman`, in their place: runs of a second or so on the 800 rows of Chipman et al.
1998, the problem `chipman_1998` of benchmarks/mixing. Runs that state no error are counted apart.
"""

import math
import sys
import warnings
from pathlib import Path

import numpy as np
from scipy.signal import lfilter

import exact
import pactree_mcmc as pt
from pactree_mcmc.mcmc.chain.tempering import LadderReport
from pactree_mcmc.posterior.evidence import PriorMass, gather

RUNS, MORE = 200, 5
"""Runs of a real ladder, and factor for a synthetic one, which costs little."""
ASKED = 0.92, 0.98
BETAS = np.array([1.0, 0.5, 0.2, 0.0])
TRUTH = 0.5
"""Log of the mean of exp(score), a standard normal one."""
TIMES = (1, 2, 5, 10, 20, 40)
SHAPES = ((1, 2000), (2, 1000), (4, 500))
"""Chains, and draws of each."""
TEMPERED = {"tune": 200, "betas": 6, "progress": False}
REAL = {
    "Chipman, default": ("chipman", 2, 200, {"proposals": 25}),
    "Chipman, default, few proposals": ("chipman", 1, 600, {"proposals": 5}),
    "Chipman, grow-prune, one proposal": ("chipman", 1, 3000, {"proposals": 1, "kernel": "grow-prune"}),
    "conditioned, its mass unknown": ("conditioned", 2, 300, {"proposals": 10, "kernel": "grow-prune"}),
    "penalty, its mass unknown": ("penalty", 4, 300, {"proposals": 10, "kernel": "grow-prune"}),
}
"""Tree prior, chains, draws, more."""
CHIPMAN_1998 = {
    "Chipman 1998, 8 levels, 2 x 600": (8, 2, 600),
    "Chipman 1998, 12 levels, 1 x 1000": (12, 1, 1000),
}
"""Temperatures, chains, draws of 25 proposals each."""
PRIORS = {
    "chipman": pt.ChipmanPrior(0.95, 1.0, max_depth=4),
    "conditioned": pt.BranchingProcess(0.45, 4, conditioned=True),
    "penalty": pt.LeafPenalty(1.0, max_depth=4),
}


def synthetic(rng, n, time):
    """Report of one chain."""
    phi = (time - 1.0) / (time + 1.0)
    noise = rng.standard_normal((n, len(BETAS)))
    noise[1:] *= math.sqrt(1.0 - phi**2)
    scores = lfilter([1.0], [1.0, -phi], noise, axis=0) + BETAS
    return LadderReport(BETAS, scores, np.zeros(n, dtype=bool), np.ones(len(BETAS) - 1), 0)


def model_of(prior):
    """Forty rows, two features, a regression."""
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.integers(0, 5, size=40), rng.integers(0, 3, size=40)]).astype(float)
    y = (X[:, 0] > 1.5) + 0.5 * (X[:, 1] > 0.5) + rng.normal(size=40)
    leaf = pt.NormalInverseGamma(m0=0.5, k0=0.4, a0=3.0, b0=1.5)
    return pt.TreeModel(X, y, tree_prior=PRIORS[prior], split_prior=pt.LocalCuts(min_leaf=4), leaf=leaf)


def show(what, estimates, truth):
    """Print a row of the table; estimates: pairs of a log evidence and its error."""
    stated = np.array([pair for pair in estimates if pair[1] is not None], dtype=float).reshape(-1, 2)
    gaps, errors = stated[:, 0] - truth, stated[:, 1]
    fraction = float(np.mean(abs(gaps) < 2.0 * errors)) if len(gaps) else math.nan
    word = "" if ASKED[0] <= fraction <= ASKED[1] else "  <- missed"
    figures = f"{np.mean(gaps):+.4f}  {np.std(gaps):.4f}  {np.median(errors):.4f}" if len(gaps) else "-"
    print(
        f"{what:42} {fraction:.3f}  stated {len(gaps)} of {len(estimates)}  gap, its sd, error: {figures}{word}",
        flush=True,
    )


def synthetic_ladders(runs):
    for i, time in enumerate(TIMES):
        for j, (chains, draws) in enumerate(SHAPES):
            rng, found = np.random.default_rng([i, j]), []
            for _ in range(MORE * runs):
                post = gather([synthetic(rng, draws, time) for _ in range(chains)], PriorMass(0.0, -1.0))
                found.append((post.log_evidence, post.log_evidence_se))
            show(f"synthetic, time {time}, {chains} x {draws}", found, TRUTH)


def sampled(model, runs, seed, chains, draws, **how):
    """Log evidence and its error of independent runs."""
    found = []
    for source in np.random.SeedSequence(seed).spawn(runs):
        post = pt.sample(model, draws, chains=chains, rng=source, **{**TEMPERED, **how})
        found.append((post.log_evidence, post.log_evidence_se))
    return found


def real_ladders(runs):
    for i, (what, (prior, chains, draws, how)) in enumerate(REAL.items()):
        model = model_of(prior)
        show(what, sampled(model, runs, 100 + i, chains, draws, **how), exact.solve(model).log_evidence)


def progressive_mixtures(runs):
    for chains in (2, 8):
        model = model_of("chipman")
        truth, found = exact.solve(model).log_evidence, []
        for source in np.random.SeedSequence(200 + chains).spawn(runs):
            how = {"particles": 100, "draws": 4, "steps": 20, "kernel": "grow-prune"}
            post = pt.progressive_mixture(model, chains=chains, rng=source, **how)
            found.append((post.log_evidence, post.log_evidence_se))
        show(f"progressive mixture, {chains} repetitions", found, truth)


def chipman_1998(runs):
    sys.path.append(str(Path(__file__).resolve().parent / "mixing"))
    import problems

    model, truth = problems.model_of("chipman_1998"), problems.truth_of("chipman_1998").log_evidence
    for i, (what, (betas, chains, draws)) in enumerate(CHIPMAN_1998.items()):
        show(what, sampled(model, runs, 300 + i, chains, draws, betas=betas, proposals=25), truth)


def main(runs=RUNS, chipman=False):
    """Print the table."""
    warnings.simplefilter("ignore", pt.ConvergenceWarning)
    for part in (chipman_1998,) if chipman else (synthetic_ladders, real_ladders, progressive_mixtures):
        part(runs)


if __name__ == "__main__":
    words = sys.argv[1:]
    main(*[int(word) for word in words if word != "chipman"], chipman="chipman" in words)
