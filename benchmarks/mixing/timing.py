"""Run the sampler within limits of time and cores."""

import os
import time
from contextlib import contextmanager
from typing import Any, NamedTuple

import settings

import pactree_mcmc as pt


class Timed(NamedTuple):
    """A run with its numbers of draws and tuning steps, and its CPU seconds."""

    post: Any
    draws: int
    tune: int
    thin: int
    cpu_seconds: float

    @property
    def seconds(self):
        """Return the wall time of sampling, tuning included."""
        return self.post.seconds

    @property
    def proposals_per_second(self):
        """Return the proposals per second of all chains together, tuning included."""
        kept = self.post.proposed.sum()
        return kept * (1.0 + self.tune / (self.draws * self.thin)) / self.seconds


class Options(NamedTuple):
    """Options of the command line for a problem."""

    kernel: Any = "default"
    seconds: float | None = None
    tables: tuple = ()
    seeds: int = settings.REAL_SEEDS


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


def run_within(model, limit, *, most_draws=settings.MOST_DRAWS, **how):
    """Sample for about ``limit.seconds``, not longer; a pilot run finds the number of draws.

    A first call compiles. A run that leaves a quarter of the time or more, or takes longer, is made again with other
    draws, up to five times; the longest that kept to the limit counts, or else the last.
    """

    def call(draws, tune, thin=1):
        with cores(limit.cores):
            return pt.sample(model, draws, tune=tune, thin=thin, chains=limit.chains, progress=False, **how)

    call(4, 4)
    sweeps, pilot = 32, call(32, 0)
    while pilot.seconds < settings.MAX_PILOT_FRACTION * limit.seconds:
        sweeps *= 2
        pilot = call(sweeps, 0)
    total, seconds, best = sweeps, pilot.seconds, None
    for _ in range(5):
        total = max(int(0.95 * total * limit.seconds / seconds), 16)
        tune = int(settings.TUNE_FRACTION * total)
        thin = -(-(total - tune) // most_draws)
        draws, used = (total - tune) // thin, time.process_time()
        run = Timed(call(draws, tune, thin), draws, tune, thin, time.process_time() - used)
        seconds = run.seconds
        if seconds <= limit.seconds and (best is None or seconds > best.seconds):
            best = run
        if 0.75 * limit.seconds <= seconds <= limit.seconds:
            break
    return best or run


def kernel_name(kernel):
    """Return a kernel as the command line writes it."""
    return kernel if isinstance(kernel, str) else ",".join(f"{move}={weight:g}" for move, weight in kernel.items())


def read_kernel(text):
    """Return a kernel from the command line: a name, or a dictionary from move=weight,move=weight."""
    if "=" not in text:
        return text
    return {move: float(weight) for move, _, weight in (part.partition("=") for part in text.split(","))}
