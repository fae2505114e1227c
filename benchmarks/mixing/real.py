"""Run real tables, and two generated ones, with the defaults, and judge if the chains agree in time.

The criteria are those of `check_convergence`: R-hat at most 1.01, of predictions up to 1.03 if chance explains it, and
at least 400 effective draws.
"""

import statistics
import warnings
from typing import Any, NamedTuple

import numpy as np
import settings
import tables
from clock import timed
from measures import Check
from timing import cores

import pactree_mcmc as pt
from pactree_mcmc.posterior.convergence import RARE_PROBABILITY, SCALARS, Diagnostics, _compute_diagnostics

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


def compile_for(model, kernel="default"):
    """Compile everything that a run of the model calls."""
    how = {} if kernel == "default" else {"kernel": kernel, "tune": 2}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pt.ConvergenceWarning)
        _compute_diagnostics(pt.sample(model, 2, rng=0, progress=False, **how), 1)


def sampled(model, seed, kernel="default"):
    """Sample a model with the defaults, or with another kernel for GIVEN_LENGTH, and return it as a `Run`."""
    how = {} if kernel == "default" else {"kernel": kernel, **settings.GIVEN_LENGTH}
    with cores(settings.REAL_CORES), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        post, seconds, cpu = timed(lambda: pt.sample(model, rng=seed, progress=False, **how), repeats=1)
    warned = False
    for warning in caught:
        if issubclass(warning.category, pt.ConvergenceWarning):
            warned = True
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    return Run(post, seconds, cpu, _compute_diagnostics(post), warned)


def real(options):
    """Yield a line for each table and seed, then a row for each table."""
    rows = []
    for name in options.tables or settings.REAL_SECONDS:
        try:
            model = model_of_table(name)
        except tables.MissingTable as missing:
            yield f"{name} skipped: {missing}"
            continue
        limit = settings.REAL_SECONDS[name] if options.seconds is None else options.seconds
        compile_for(model, options.kernel)
        runs = []
        for seed in range(options.seeds):
            run = sampled(model, seed, options.kernel)
            yield f"{name}, seed {seed}: {_told(run, limit)}"
            runs.append((run.seconds, run.cpu_seconds, run.asked, not run.missed(limit)))
        passed = sum(good for *_, good in runs)
        yield Check(f"{name}: seeds that pass", passed, len(runs), at_least=True)
        rows.append(_row(name, model, limit, runs))
    if rows:
        yield from (f"| {' | '.join(HEADER)} |", "|" + " --- |" * len(HEADER), *rows)


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
    distribution = np.bincount(post.root_feature_of_tree + 1, post.weight_of_tree)
    names = ["no split", *post.model.columns.names]
    return {names[k]: float(distribution[k]) for k in np.flatnonzero(distribution > RARE_PROBABILITY)}
