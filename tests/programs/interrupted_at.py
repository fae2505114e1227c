"""A run that says when it has come to a moment, and what is left of it after SIGINT: moment, rows of the table."""

import signal
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import pactree_mcmc as pt
from pactree_mcmc.mcmc import course
from pactree_mcmc.mcmc.run import loop
from pactree_mcmc.mcmc.whole import rounds


def announce_call(module, name, *, waits=False):
    """Let a function say when it is called; ``waits``: for ever."""
    real = getattr(module, name)

    def saying(*args, **rest):
        sys.stdout.write("there\n")
        sys.stdout.flush()
        if waits:
            time.sleep(1000.0)
        return real(*args, **rest)

    setattr(module, name, saying)


def table(n):
    """Numbers of which trees are large."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(n, 6))
    return X, X[:, 0] + np.sin(2.0 * X[:, 1]) + (X[:, 2] > 0.0) * X[:, 3] + 0.3 * rng.normal(size=n)


def draw(moment, model):
    """Begin the run that comes to the moment."""
    if moment == "rounds":
        announce_call(rounds, "tuning_round")
        return pt.sample(model, rng=1, progress=False)
    if moment == "rounds on an executor":
        announce_call(rounds, "tuning_round")
        with ThreadPoolExecutor(2) as pool:
            return pt.sample(model, rng=1, progress=False, executor=pool)
    if moment == "pilot":
        announce_call(course, "measure")
        return pt.sample(model, rng=1, progress=False, kernel="local")
    if moment == "tuning":
        announce_call(loop, "wait")
        return pt.sample(model, 10, tune=10**7, rng=1, progress=False)
    if moment == "drawing":
        announce_call(loop, "wait")
        return pt.sample(model, 10**7, tune=0, rng=1, progress=False)
    if moment == "judging":
        announce_call(course, "judge", waits=True)
        return pt.sample(model, 300, rng=1, progress=False, kernel="local")
    if moment == "warning":
        announce_call(course, "short_diagnosis", waits=True)
        return pt.sample(model, 30, tune=0, rng=1, progress=False)
    assert moment == "resuming"
    post = pt.sample(model, 30, tune=0, rng=1, progress=False)
    announce_call(loop, "wait")
    return pt.resume(post, 10**7, progress=False)


if __name__ == "__main__":
    # shells let what they run in the background ignore it
    signal.signal(signal.SIGINT, signal.default_int_handler)
    what, rows = sys.argv[1:]
    new_model = pt.TreeModel(*table(int(rows)))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            post = draw(what, new_model)
        except KeyboardInterrupt as error:
            print(f"KeyboardInterrupt: {error}")
        else:
            print(f"returned {post.n_draws} draws of {post.n_chains} chains")
    print(*(str(warning.message).splitlines()[0] for warning in caught), sep="\n")
