"""Compare the evidence by tempering with the exact one."""

import numpy as np
from answers import PROBLEMS, log_evidence_of
from pictures import intervals
from report import Control, Part, picture, table
from scipy import stats

import pactree_mcmc as pt

FALSE_ALARM = 1e-3
RUNS = 16
DRAWS = {True: 60, False: 250}
TUNE, LEVELS, PROPOSALS = 100, 6, 40
KERNELS = ("default", "cgm")
WRONG_WEIGHT = 1.05


def estimates(model, kernel, draws, seed):
    """Return log evidences (runs,) of independent tempered chains, and the standard error (runs,) that each states."""
    found = []
    for source in np.random.SeedSequence(seed).spawn(RUNS):
        how = {"chains": 1, "betas": LEVELS, "proposals": PROPOSALS, "start": "stump", "progress": False}
        post = pt.sample(model, draws, tune=TUNE, rng=source, kernel=kernel, **how)
        error = post.log_evidence_se
        found.append((post.log_evidence, np.nan if error is None else error))
    return np.array(found).T


def t_of(values, truth):
    """Return Student's t of independent estimates against ``truth``, and the standard error of their mean."""
    error = values.std(ddof=1) / np.sqrt(len(values))
    return float((values.mean() - truth) / error), float(error)


def verify(quick, folder):
    """Estimate the evidence of all problems, draw a picture into ``folder``, and return the `Part`."""
    rows, shown, failures = {name: [name] for name in PROBLEMS}, [], []
    cases = [(name, kernel) for name in PROBLEMS for kernel in KERNELS]
    limit = float(stats.t.isf(FALSE_ALARM / (2 * len(cases)), df=RUNS - 1))
    for number, (name, kernel) in enumerate(cases):
        model = PROBLEMS[name]()
        truth = log_evidence_of(model)
        values, errors = estimates(model, kernel, DRAWS[quick], (5, number))
        t, error = t_of(values, truth)
        if abs(t) > limit:
            failures.append(f"{name}, {kernel}: t = {t:.2f}")
        calibrated = float(np.nanmean(((values - truth) / errors) ** 2)) if np.isfinite(errors).any() else np.nan
        if len(rows[name]) == 1:
            rows[name].append(f"{truth:.4f}")
        rows[name].append(f"{values.mean():.4f} ({error:.4f}), {t:.2f}, {calibrated:.2f}")
        shown.append((f"{name}, {kernel}", values.mean() - truth, limit * error, False))
    controls = planted_errors(limit, quick, shown)
    intervals(shown, folder / "evidence.png", "estimated less exact log evidence, nats; interval: what a check allows")
    header = ("problem", "exact", *(f"estimated, kernel {kernel}" for kernel in KERNELS))
    text = TEXT.format(
        runs=RUNS,
        draws=DRAWS[quick],
        betas=LEVELS,
        limit=limit,
        table=table(header, rows.values()),
        picture=picture("evidence.png", "Estimated less exact log evidence by problem and kernel", folder),
    )
    return Part("Evidence by tempering", text, len(cases), FALSE_ALARM, tuple(failures), controls)


def planted_errors(limit, quick, shown):
    """Return controls: chains of a model whose rows weigh too much, or with another alpha, against the exact evidence.

    Their lines of the picture are appended to ``shown``.
    """
    found = []
    for what, name, changes in (
        (f"rows weigh {WRONG_WEIGHT} in the chain", "nominal", {"weight": WRONG_WEIGHT}),
        ("alpha .8 instead of .95 in the chain", "grid", {"alpha": 0.8}),
    ):
        truth = log_evidence_of(PROBLEMS[name]())
        values, _ = estimates(PROBLEMS[name](**changes), "default", DRAWS[quick], (6, len(found)))
        t, error = t_of(values, truth)
        shown.append((f"planted: {what}", values.mean() - truth, limit * error, True))
        found.append(Control(f"{what} ({name})", bool(abs(t) > limit), f"t = {t:.1f}, limit {limit:.2f}"))
    return tuple(found)


TEXT = """
The log evidence by {runs} independent tempered chains (`pt.sample(model, betas={betas})`, {draws} draws
each) against `exact.solve(model).log_evidence`; under a shared variance the exact one is the integral, over the
variance, of the evidence given it. A t test over the chains: a check fails beyond |t| = {limit:.2f}. Cells have the
mean of the chains, its standard error, t, and the mean square of the gap over the standard error that a chain itself
states (`log_evidence_se`): about 1, or less, as that is widened so that two of them cover 95 %.

{table}

{picture}
"""
