"""Chains of one Bayesian tree by one program, in a process of its own; run by `single_tree_ess.py`, not by hand.

Run: python single_tree_programs.py PROGRAM GIVEN FOUND. Each program has a function that runs all chains for a number
of iterations, and says what it took and what was drawn.
"""

import csv
import importlib
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
from elsewhere import read_given

KEPT = 2000
"""Draws a chain that are kept, at most."""
BURN = 4
"""One iteration in so many is dropped, at the beginning, its time counted."""


class Drawn(NamedTuple):
    """What chains drew, by chain and draw."""

    predictions: np.ndarray
    """(chains, draws, rows)."""
    leaves: np.ndarray | None
    scale: np.ndarray
    """Noise standard deviation or variance; of a model that has one in each leaf a log score."""
    cpu: float
    wall: float


class Clock:
    """Processor and wall seconds since it was made."""

    def __init__(self):
        self.began = time.process_time(), time.perf_counter()

    def read(self):
        return time.process_time() - self.began[0], time.perf_counter() - self.began[1]


def plan(iterations):
    """Iterations dropped, draws kept and iterations from one to the next, of so many iterations of a chain."""
    burn = iterations // BURN
    every = max(-(-(iterations - burn) // KEPT), 1)
    return burn, max((iterations - burn) // every, 4), every


def joined(chains, cpu, wall):
    """One chain after the other, each as predictions, leaves and scale."""
    predictions, leaves, scale = zip(*chains, strict=True)
    return Drawn(np.stack(predictions), None if leaves[0] is None else np.stack(leaves), np.stack(scale), cpu, wall)


def ours(leaf, kernel):
    def chains(given, options, iterations):
        import pactree_mcmc as pt

        model = pt.TreeModel(
            given["X"], given["y"], tree_prior=pt.ChipmanPrior(*options["prior"]), leaf=getattr(pt, leaf)()
        )
        burn, kept, every = plan(iterations)
        how = {"draws": kept, "tune": burn, "thin": every, "kernel": kernel}
        if kernel == "default":  # draws from the start, after tuning of its own
            how = {"draws": iterations, "steps": iterations}
        clock = Clock()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pt.ConvergenceWarning)
            post = pt.sample(model, chains=options["chains"], rng=0, progress=False, **how)
        spent = clock.read()
        every = slice(None, None, -(-post.n_draws // KEPT))
        scale = post.log_score if np.isnan(post.noise_variance).any() else post.noise_variance
        predictions = post.values_by_draw(given["X"][given["probe"]])[:, every, :, 0]
        return Drawn(predictions, post.n_leaves[:, every], scale[:, every], *spent)

    return chains


def stochtree(given, options, iterations):
    from stochtree import BARTModel

    burn, kept, every = plan(iterations)
    tree = {"num_trees": 1, "alpha": options["prior"][0], "beta": options["prior"][1], "max_depth": -1}
    tree |= {"min_samples_leaf": 1, "sample_sigma2_leaf": False}
    drawn, clock = [], Clock()
    for seed in range(options["chains"]):
        general = {"random_seed": seed, "keep_every": every, "num_threads": 1}
        model = BARTModel()
        how = {"num_gfr": 0, "num_burnin": burn, "num_mcmc": kept}
        how |= {"general_params": general, "mean_forest_params": tree}
        model.sample(X_train=given["X"], y_train=given["y"], X_test=given["X"][given["probe"]], **how)
        leaves = np.array([model.forest_container_mean.num_forest_leaves(i) for i in range(kept)])
        drawn.append((model.y_hat_test.T, leaves, model.global_var_samples))
    return joined(drawn, *clock.read())


def bartz(given, options, iterations):
    from bartz.BART import gbart

    burn, kept, every = plan(iterations)
    X = given["X"].astype(np.float32)
    how = {"ntree": 1, "base": options["prior"][0], "power": options["prior"][1], "usequants": True, "numcut": 255}
    how |= {"nskip": burn, "ndpost": kept, "keepevery": every, "printevery": None, "bart_kwargs": {"maxdepth": 11}}
    drawn, cpu, wall = [], 0.0, 0.0
    for seed in range(-1, options["chains"]):
        clock = Clock()
        fitted = gbart(X, given["y"].astype(np.float32), x_test=X[given["probe"]], seed=max(seed, 0), **how)
        predictions, scale = np.asarray(fitted.yhat_test), np.asarray(fitted.sigma_)
        if seed < 0:  # compiles: shapes are those of the run
            continue
        spent = clock.read()
        cpu, wall = cpu + spent[0], wall + spent[1]
        leaves = 1 + np.count_nonzero(np.asarray(fitted._main_trace.split_tree), axis=(-2, -1)).reshape(-1)
        drawn.append((predictions, leaves, scale))
    return joined(drawn, cpu, wall)


def pymc_bart(given, options, iterations):
    import pymc as pm
    import pymc_bart as pmb

    burn, kept, every = plan(iterations)
    alpha, beta = options["prior"]
    drawn, cpu, wall = [], 0.0, 0.0
    for seed in range(options["chains"]):
        with pm.Model():
            mean = pmb.BART("mean", given["X"], given["y"], m=1, alpha=alpha, beta=beta)
            sigma = pm.HalfNormal("sigma", given["y"].std())
            pm.Normal("y", mean, sigma, observed=given["y"])
            ticks = []

            def tick(trace, draw, ticks=ticks):
                ticks.append((time.process_time(), time.perf_counter()))

            trace = pm.sample(
                kept * every,
                tune=burn,
                chains=1,
                cores=1,
                random_seed=seed,
                progressbar=False,
                compute_convergence_checks=False,
                return_inferencedata=False,
                callback=tick,
            )
        # the first iteration ends at the first tick
        spent = np.subtract(ticks[-1], ticks[0]) * len(ticks) / max(len(ticks) - 1, 1)
        cpu, wall = cpu + spent[0], wall + spent[1]
        predictions = trace.get_values("mean")[::every][:, given["probe"]]
        drawn.append((predictions, None, trace.get_values("sigma")[::every]))
    return joined(drawn, cpu, wall)


def tgp(given, options, iterations):
    burn, kept, every = plan(iterations)
    drawn, cpu, wall = [], 0.0, 0.0
    with tempfile.TemporaryDirectory() as folder:
        np.savetxt(Path(folder) / "X.csv", given["X"], delimiter=",")
        np.savetxt(Path(folder) / "y.csv", given["y"], delimiter=",")
        np.savetxt(Path(folder) / "XX.csv", given["X"][given["probe"]], delimiter=",")
        for seed in range(options["chains"]):
            length = [str(v) for v in (burn, burn + kept * every, every, *options["prior"], seed)]
            script = Path(__file__).with_name("tgp.R")
            subprocess.run(["Rscript", str(script), *length], cwd=folder, check=True, stdout=subprocess.DEVNULL)
            with open(Path(folder) / "seconds.csv") as file:
                spent = [float(v) for v in next(csv.reader(file))]
            cpu, wall = cpu + spent[0], wall + spent[1]
            read = {
                name: np.loadtxt(Path(folder) / f"{name}.csv", delimiter=",") for name in ("mean", "leaves", "scale")
            }
            drawn.append((read["mean"], read["leaves"], read["scale"]))
    return joined(drawn, cpu, wall)


PROGRAMS = {
    "ours, default, shared variance": ours("NormalSharedVariance", "default"),
    "ours, local, shared variance": ours("NormalSharedVariance", "local"),
    "ours, default, variance a leaf": ours("NormalInverseGamma", "default"),
    "ours, local, variance a leaf": ours("NormalInverseGamma", "local"),
    "stochtree": stochtree,
    "bartz": bartz,
    "tgp": tgp,
    "pymc-bart": pymc_bart,
}
FIRST = {"stochtree": 4000, "bartz": 4000, "tgp": 4000, "pymc-bart": 200, "ours, local": 200, "ours, default": 1000}
"""Iterations of the pilot."""
MODULE = {"stochtree": "stochtree", "bartz": "bartz", "pymc-bart": "pymc_bart"}
"""What must be importable."""
WARM = 8
"""Iterations of the run that compiles."""


def main():
    program, (given, options) = sys.argv[1], read_given(sys.argv[2])
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
    chains = PROGRAMS[program]
    if program in MODULE:
        importlib.import_module(MODULE[program])
    chains(given, options, WARM)
    iterations = next(first for name, first in FIRST.items() if program.startswith(name))
    iterations = min(iterations, options["most"])
    asked = options["seconds"] * options["chains"]
    drawn = chains(given, options, iterations)
    if 2.0 * drawn.cpu < asked:
        iterations = min(int(iterations * asked / max(drawn.cpu, 1e-3)), options["most"])
        drawn = chains(given, options, iterations)
    found = {name: value for name, value in drawn._asdict().items() if value is not None}
    np.savez(sys.argv[3], iterations=iterations, **found)


if __name__ == "__main__":
    main()
