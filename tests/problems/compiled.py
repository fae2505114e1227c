"""All functions of the sampler compiled as one, by the first worker that needs any of them.

A run compiles those of its kernel; a suite has runs of all kernels, which share most of what they call.
"""

import contextlib
import functools
import os
import tempfile
import time
from pathlib import Path

import numpy as np

import pactree_mcmc as pt
from pactree_mcmc.core.compile.jit import FASTER
from pactree_mcmc.core.compile.together import compile_together
from pactree_mcmc.mcmc.chain.chain import Chain
from pactree_mcmc.mcmc.edits.grow import grow_as_given
from pactree_mcmc.mcmc.kernel import STEPS, read_kernel
from pactree_mcmc.mcmc.run.entries import entries, members

PATIENCE = 300.0
"""Seconds after which a worker no longer waits for another."""


@contextlib.contextmanager
def one_at_a_time():
    """Let the workers of a suite do it in turn."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID")
    if run is None:
        yield
        return
    turn, end = Path(tempfile.gettempdir()) / f"pactree-{run}", time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            turn.mkdir()
            break
        except FileExistsError:
            time.sleep(0.1)
    try:
        yield
    finally:
        with contextlib.suppress(FileNotFoundError):
            turn.rmdir()


@functools.cache
def make_all_ready():
    """Compile them, or find them on disk: the other worker waits."""
    if not FASTER:
        return
    kernel = read_kernel(dict.fromkeys(STEPS, 1.0))
    chain = Chain(pt.TreeModel([[0.0], [1.0]], [0, 1]).lowered, kernel, np.random.default_rng(0))
    with one_at_a_time():
        compile_together(members(chain, [*entries(kernel, True)[1:], grow_as_given]))
