"""Real tables: four chains from the prior must agree, by R-hat, on size, log posterior and predictions."""

import numpy as np
import tables
from measures import Check, log_posterior
from settings import LIMITS, REAL_DRAWS, REAL_LADDER, REAL_PROPOSALS, REAL_ROWS
from timing import run_within

import pactree_mcmc as pt
from pactree_mcmc.inference_data import rhat

NAMES = ("heart_statlog", "pima_diabetes", "breast_w", "vote")


def real(options):
    """R-hat below 1.01 within the time limit."""
    for name in NAMES:
        try:
            yield from _agree(name, options)
        except tables.MissingTable as missing:
            yield f"{name} skipped: {missing}"


def _agree(name, options):
    limit = LIMITS["real"].within(options.seconds)
    X, y, nominal = tables.real(name)
    model = pt.TreeModel(X, y, nominal=nominal)
    rows = np.random.default_rng(0).choice(len(X), REAL_ROWS, replace=False)
    how = {"most_draws": REAL_DRAWS, "rng": 0, "kernel": options.kernel, "start": "prior"}
    alone = _rhats(run_within(model, limit, **how), X[rows])
    run = run_within(model, limit, betas=REAL_LADDER, proposals=REAL_PROPOSALS, **how)
    yield (
        f"{name}: n={len(X)}, p={X.shape[1]}, {run.draws} draws a chain, {run.thin * REAL_PROPOSALS} proposals each; "
        f"without a ladder in the same time: {', '.join(f'{value:.3f} {what}' for what, value in alone.items())}"
    )
    for what, value in _rhats(run, X[rows]).items():
        yield Check(f"{name}: R-hat of {what}", value, 1.01)
    yield Check(f"{name}: seconds", run.seconds, limit.seconds)


def _rhats(run, X):
    """R-hat of what chains must agree on, predictions at rows X by the worst."""
    post = run.post
    predictions = post.values_by_draw(X)[..., 1]
    return {
        "the number of leaves": rhat(post.n_leaves),
        "the log posterior": rhat(log_posterior(post)),
        f"P(class 1), the largest at {len(X)} rows": max(rhat(predictions[:, :, i]) for i in range(len(X))),
    }
