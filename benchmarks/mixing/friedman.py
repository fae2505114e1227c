"""Friedman's function, as a regression and as labels: the posterior mean against CART, same run, same rows."""

import time

import numpy as np
import settings
import tables
from measures import Check
from rivals import Cart
from timing import cores

import pactree_mcmc as pt

RATIO = 0.88
SECONDS_AT_1000 = 2.0


def friedman(options):
    """Each size as a regression, then as labels; a trial run, limited in seconds, takes the smallest size only."""
    every = tuple(settings.FRIEDMAN)
    for n in options.rows or (every if options.seconds is None else every[:1]):
        yield from _regression(n, options.kernel)
        yield from _labels(n, options.kernel)


def _regression(n, kernel):
    X, _, y = tables.friedman(n, seed=0)
    test, clean, _ = tables.friedman(settings.FRIEDMAN_TEST_ROWS, seed=1)
    ours, our_seconds = _fit(X, y, settings.FRIEDMAN_LEAF, kernel)
    rival, rival_seconds = _rival(X, y, regression=True)
    each, rival_off = [_rmse(post, test, clean) for post in ours], _rmse(rival, test, clean)
    ours_off = float(np.mean(each))
    yield f"n={n:,}: RMSE {ours_off:.3f} ({_range(each)}) in {our_seconds:.2f} s, {_of_tree(ours[0])}"
    yield f"n={n:,}: CART RMSE {rival_off:.3f} in {rival_seconds:.2f} s, {rival.n_leaves} leaves"
    yield Check(f"n={n:,}: RMSE over that of CART", ours_off / rival_off, RATIO)
    allowed = SECONDS_AT_1000 if n == 1000 else rival_seconds
    yield Check(f"n={n:,}: seconds, model and sampling", our_seconds, allowed)


def _labels(n, kernel):
    X, f, _ = tables.friedman(n, seed=0)
    test, f_test, _ = tables.friedman(settings.FRIEDMAN_TEST_ROWS, seed=1)
    flipped = np.random.default_rng(2).random(n) < settings.FRIEDMAN_FLIPS
    center = f.mean()
    y, clean = (f > center) ^ flipped, f_test > center
    ours, our_seconds = _fit(X, y, settings.FRIEDMAN_CLASS_LEAF, kernel)
    rival, rival_seconds = _rival(X, y, regression=False)
    each = [float(np.mean(post.predict(test) != clean)) for post in ours]
    ours_off = float(np.mean(each))
    rival_off = float(np.mean((rival.predict(test)[:, 1] > 0.5) != clean))
    yield f"n={n:,}, labels: error {ours_off:.4f} ({_range(each)}) in {our_seconds:.2f} s, {_of_tree(ours[0])}"
    yield f"n={n:,}, labels: CART error {rival_off:.4f} in {rival_seconds:.2f} s, {rival.n_leaves} leaves"
    yield Check(f"n={n:,}, labels: error against the clean label", ours_off, rival_off)


def _fit(X, y, leaf, kernel):
    """Posteriors, one a seed, and mean wall seconds of building the model and sampling; a short run before compiles."""
    plan = settings.FRIEDMAN.get(len(y)) or settings.FRIEDMAN[min(settings.FRIEDMAN, key=lambda n: abs(n - len(y)))]
    _sample(X, y, leaf, kernel, settings.Forest(tune=1, draws=1, thin=1)).predict(X[:5])
    seeds = range(settings.FRIEDMAN_SEEDS.get(len(y), 1))
    runs = [_clocked(_sample, X, y, leaf, kernel, plan, seed) for seed in seeds]
    return [post for post, _ in runs], float(np.mean([seconds for _, seconds in runs]))


def _rival(X, y, regression):
    """Tuned CART and its wall seconds, on one core; a small one before compiles."""
    Cart(regression).fit(X[:100], y[:100])
    return _clocked(lambda: Cart(regression).fit(X, y))


def _rmse(fitted, test, clean):
    return float(np.sqrt(np.mean((fitted.predict(test) - clean) ** 2)))


def _range(each):
    return f"{min(each):.3f} to {max(each):.3f} over {len(each)} seeds"


def _sample(X, y, leaf, kernel, plan, seed=0):
    split_prior = pt.GridCuts(settings.FRIEDMAN_CUTS)
    with cores(settings.FRIEDMAN_CORES):
        return pt.sample(
            pt.TreeModel(X, y, tree_prior=settings.FRIEDMAN_PRIOR, split_prior=split_prior, leaf=leaf),
            **plan._asdict(),
            chains=settings.FRIEDMAN_CHAINS,
            rng=seed,
            kernel=kernel,
            start="grown",
            progress=False,
        )


def _clocked(function, *arguments):
    began = time.perf_counter()
    return function(*arguments), time.perf_counter() - began


def _of_tree(post):
    return f"{post.n_leaves.mean():.0f} leaves, {post.n_chains} chains of {post.n_draws} draws"
