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
    how = {"temperatures": REAL_LADDER, "proposals": REAL_PROPOSALS, "start": "prior"}
    run = run_within(model, limit, most_draws=REAL_DRAWS, rng=0, kernel=options.kernel, **how)
    post = run.post
    rows = np.random.default_rng(0).choice(len(X), REAL_ROWS, replace=False)
    predictions = post.values_by_draw(X[rows])[..., 1]
    yield (
        f"{name}: n={len(X)}, p={X.shape[1]}, {run.draws} draws a chain, {run.thin * REAL_PROPOSALS} proposals each, "
        f"leaves by chain {' '.join(f'{m:.2f}' for m in post.n_leaves[post.tree_of_draw].mean(axis=1))}"
    )
    yield Check(f"{name}: R-hat of the number of leaves", rhat(post.n_leaves[post.tree_of_draw]), 1.01)
    yield Check(f"{name}: R-hat of the log posterior", rhat(log_posterior(post)), 1.01)
    worst = max(rhat(predictions[:, :, i]) for i in range(REAL_ROWS))
    yield Check(f"{name}: largest R-hat of P(class 1) at {REAL_ROWS} rows", worst, 1.01)
    yield Check(f"{name}: seconds", run.seconds, limit.seconds)
