"""The command warm-up, which compiles all machine code once, for container images and clusters.

Each part is compiled in a process of its own.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np

import exact
import pactree_mcmc as pt

from ...core.compile.cache import CodeCacheWarning
from ...core.compile.folders import SHARED_VARIABLE, use_folder, writable_folder
from ...core.extras import is_installed
from ...mcmc.chain.chain import Chain
from ...mcmc.kernel import read_kernel
from ...mcmc.run.compiled import compile_all
from ...mcmc.run.workers import n_cores

MIN_FOUR_BYTE_VALUES = 1 << 16
"""Smallest number of distinct values of a column whose codes take four bytes."""


def random_table(n: int, columns: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Return random rows (n, columns) and a random number y (n,) for each row, the same at each call."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, columns)).round(1 if n < 1000 else 12)
    return X, X[:, 0] + rng.normal(size=n)


def compile_sampler() -> None:
    """Compile and cache the code of the default sampler and of posteriors, by a short run on random rows.

    Run the sampler for classes and for numbers, and call the methods of the posteriors.
    """
    X, y = random_table(200)
    for target in (y > 0.0, y):
        post = pt.sample(pt.TreeModel(X, target), 50, kernel="whole", work=1e6, rng=0, progress=False)
        post.predict(X)
        if target is y:
            post.predict_interval(X)
        post.summary()
        post.consensus_tree()
        post.feature_inclusion()
        post.support()
        post.modes()


def compile_kernels(n: int = 200) -> None:
    """Compile the functions of all kernels, for a table of ``n`` rows.

    From ``MIN_FOUR_BYTE_VALUES`` rows on, a column has so many distinct values that its codes take four bytes.
    """
    X, y = random_table(n, 3 if n < MIN_FOUR_BYTE_VALUES else 1)
    model, rng = pt.TreeModel(X, y).lowered, np.random.default_rng(0)
    Chain(model, read_kernel("grow-prune"), rng, prepare=compile_all)
    if n < MIN_FOUR_BYTE_VALUES:
        pt.sample(pt.TreeModel(X[:, :1], y), 20, tune=0, rng=0, progress=False)


def compile_sums() -> None:
    """Compile the functions of `exact` by running them."""
    X, y = random_table(60, 2)
    for target in (y > 0.0, y):
        post = exact.solve(pt.TreeModel(X.round(0), target, tree_prior=pt.ChipmanPrior(max_depth=3)))
        post.predict(X)
        post.summary()
        draws = post.sample(20, rng=0)
        for grow in (0, 1, 2):
            exact.visited(draws, grow)


def compile_estimators() -> None:
    """Fit the estimators, if scikit-learn is installed."""
    if is_installed("sklearn"):
        X, y = random_table(100)
        pt.BayesianTreeClassifier(work=1e6, random_state=0).fit(X, y > 0.0).predict_proba(X)
        pt.BayesianTreeRegressor(work=1e6, random_state=0).fit(X, y).predict(X)


COMPILED_PARTS: dict[str, Callable[[], None]] = {
    # first, since after "all kernels" it would use the functions compiled there, and would compile none itself
    "the default sampler": compile_sampler,
    "all kernels": compile_kernels,
    "exact sums": compile_sums,
    "estimators": compile_estimators,
    "all kernels, many distinct values": partial(compile_kernels, MIN_FOUR_BYTE_VALUES + 1),
}
"""Parts that are compiled, each in a process of its own."""


def run_part(name: str, to: str | None) -> float:
    """Compile the part COMPILED_PARTS[name] into the folder ``to``, or the user's own if None, and return the seconds.

    Raise an OSError if the code cannot be written.
    """
    start_time = time.perf_counter()
    if to is not None:
        use_folder(to)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        COMPILED_PARTS[name]()
    for warning in caught:
        if issubclass(warning.category, CodeCacheWarning):
            raise OSError(str(warning.message))
    return time.perf_counter() - start_time


def check_folder(to: str | None) -> Path:
    """Create the folder of compiled code ``to``, or the user's own if None, and return it.

    Raise an OSError if files cannot be written there.
    """
    folder = writable_folder() if to is None else Path(to).absolute()
    if folder is None:
        raise OSError("you have no home directory for compiled code; name a folder, --to FOLDER")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        return folder


def warm_up(args: argparse.Namespace) -> None:
    """Run the command warm-up: compile everything that is not on disk yet, and print the progress.

    ``args`` has the options ``to`` (folder or None), ``jobs`` (processes, or None for as many as cores) and ``quiet``.
    """
    folder = check_folder(args.to)
    jobs = min(args.jobs or n_cores(), len(COMPILED_PARTS))
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        parts = {pool.submit(run_part, name, args.to and str(folder)): name for name in COMPILED_PARTS}
        for number, future in enumerate(as_completed(parts), 1):
            seconds = future.result()
            if not args.quiet:
                line = f"compiled {number} of {len(COMPILED_PARTS)}: {parts[future]}, {seconds:.0f} s"
                print(line, file=sys.stderr, flush=True)
    if not args.quiet:
        readers = "later runs" if args.to is None else f"users who set {SHARED_VARIABLE} to this folder"
        print(f"everything is compiled, in {folder}; {readers} find it there.")
