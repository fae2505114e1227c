"""Run real tables, and two generated ones, with the defaults, and judge if the chains agree in time.

Run: python benchmarks/mixing/real.py [--tables iris wine ...] [--seeds 3] [--seconds S]

The criteria are those of `check_convergence`: R-hat at most 1.01, of predictions up to 1.03 if chance explains it, and
at least 400 effective draws. A run ends itself: its limit is judged, not set. Compilation is excluded. Tables in files
are looked for beside the checkout, in shared/data, or in the folder PACTREE_DATA.
"""

import argparse
import os
import statistics
import warnings
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import tables
from clock import timed

import pactree_mcmc as pt
from pactree_mcmc.posterior.convergence import RARE_PROBABILITY, SCALARS, Diagnostics, _compute_diagnostics

LIMITS = dict.fromkeys(
    (
        *("breast_cancer", "breast_cancer_example", "heart_statlog", "pima_diabetes", "breast_w", "vote", "iris"),
        *("wine", "credit_a", "ionosphere", "diabetes"),
    ),
    30.0,
) | dict.fromkeys(("kr_vs_kp", "sick", "low_noise", "friedman_1000"), 180.0)
"""Seconds within which the runs of a table should end."""
CORES = 2
ASKED = (*SCALARS, "root features", "predictions")
HEADER = ("table", "n x p", "limit, s", "median s", "median CPU s", "worst R-hat", "least effective draws", "passed")


class Run(NamedTuple):
    """A run and its diagnostics."""

    post: Any
    seconds: float
    """Wall time of the call, its convergence check included."""
    cpu_seconds: float
    figures: Diagnostics
    warned: bool
    """True if the run gave a ConvergenceWarning."""

    @property
    def worst(self):
        """Return the largest R-hat and the smallest number of effective draws of each kind of quantity."""
        return {
            what: (float(self.figures.rhat[self.kind == what].max()), float(self.figures.ess[self.kind == what].min()))
            for what in dict.fromkeys(self.kind.tolist())
        }

    @property
    def kind(self):
        """Return the kind of each quantity: its name if it is a scalar, else its group."""
        return np.where(self.figures.group == "scalars", self.figures.names, self.figures.group)

    @property
    def asked(self):
        """Return the part of `worst` that is judged."""
        return {what: found for what, found in self.worst.items() if what in ASKED}

    def missed(self, limit):
        """Return the kinds of quantities that fail, and "seconds" if the run took longer than ``limit`` seconds."""
        out = [what for what in self.asked if self.figures.failed[self.kind == what].any()]
        return out if self.seconds <= limit else [*out, "seconds"]


def model_of_table(name):
    """Return the default model of a table; for ``breast_cancer_example`` one of fewer cuts."""
    if name == "breast_cancer_example":
        X, y = tables.breast_cancer_example()
        return pt.TreeModel(X, y, split_prior=pt.LocalCuts(max_cuts=32, min_leaf=5))
    X, y, nominal = tables.real(name)
    missing = "branch" if X.isna().any(axis=None) else "error"
    return pt.TreeModel(X, y, nominal=nominal, missing=missing)


@contextmanager
def cores(n):
    """Restrict this thread and those it starts to ``n`` cores, if the system allows it."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:n])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def compile_for(model):
    """Compile everything that a run of the model calls."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pt.ConvergenceWarning)
        _compute_diagnostics(pt.sample(model, 2, rng=0, progress=False), 1)


def sampled(model, seed):
    """Sample a model with the defaults, and return it as a `Run`."""
    with cores(CORES), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        post, seconds, cpu = timed(lambda: pt.sample(model, rng=seed, progress=False), repeats=1)
    warned = False
    for warning in caught:
        if issubclass(warning.category, pt.ConvergenceWarning):
            warned = True
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    return Run(post, seconds, cpu, _compute_diagnostics(post), warned)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=list(LIMITS), choices=LIMITS, help="default: all")
    parser.add_argument("--seeds", type=int, default=3, help="runs of each table, from seed 0 on")
    parser.add_argument("--seconds", type=float, help="limit of every run")
    options = parser.parse_args()
    rows = []
    for name in options.tables:
        try:
            model = model_of_table(name)
        except tables.MissingTable as missing:
            print(f"{name} skipped: {missing}", flush=True)
            continue
        limit = LIMITS[name] if options.seconds is None else options.seconds
        compile_for(model)
        runs = []
        for seed in range(options.seeds):
            run = sampled(model, seed)
            print(f"{name}, seed {seed}: {_told(run, limit)}", flush=True)
            runs.append((run.seconds, run.cpu_seconds, run.asked, not run.missed(limit)))
        rows.append(_row(name, model, limit, runs))
    print(f"| {' | '.join(HEADER)} |", "|" + " --- |" * len(HEADER), *rows, sep="\n")


def _told(run, limit):
    missed, steps = run.missed(limit), run.post.course.steps
    figures = [f"{what} {rhat:.4f} / {ess:,.0f}" for what, (rhat, ess) in run.worst.items()]
    roots = [f"{name} {p:.3f}" for name, p in sorted(root_pmf(run.post).items(), key=lambda item: -item[1])]
    return "; ".join(
        [
            f"{run.seconds:.1f} s, {run.cpu_seconds:.1f} CPU s, {steps:,} steps",
            "R-hat / effective draws: " + ", ".join(figures),
            f"MISS: {', '.join(missed)}" if missed else "PASS",
            "warned" if run.warned else "no warning",
            f"root: {', '.join(roots)}",
        ]
    )


def _row(name, model, limit, runs):
    """Return the row of a table in Markdown. ``runs`` are tuples: seconds, CPU seconds, `Run.asked`, passed."""
    seconds, cpu, asked, good = zip(*runs, strict=True)
    worst = np.array([figure for each in asked for figure in each.values()])
    cells = [name, f"{model.n_rows:,} x {model.n_features}", f"{limit:g}"]
    cells += [f"{statistics.median(seconds):.1f}", f"{statistics.median(cpu):.1f}"]
    cells += [f"{worst[:, 0].max():.4f}", f"{worst[:, 1].min():,.0f}", f"{sum(good)} of {len(good)}"]
    return f"| {' | '.join(cells)} |"


def root_pmf(post):
    """Return the probability of each feature at the root, by name, unless it is rare there."""
    distribution = np.bincount(post.draws.root_feature_of_tree + 1, post.draws.weight_of_tree)
    names = ["no split", *post.model.columns.names]
    return {names[k]: float(distribution[k]) for k in np.flatnonzero(distribution > RARE_PROBABILITY)}


if __name__ == "__main__":
    main()
