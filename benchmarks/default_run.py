"""Measure the CPU seconds of default runs by part of the run, with a hash of the draws, to compare two checkouts.

Prints one row of Markdown for each run: CPU seconds, steps, milliseconds of a step spent in the learned move, and the
seconds of the parts: independent trees, the learned move, the other moves, the fit of the density, and the diagnosis.

Run: python benchmarks/default_run.py [--tables heart_statlog concrete] [--seeds 0 1 2] [--steps 1000]
"""

import os

os.environ["NUMBA_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import collections
import hashlib
import sys
import threading
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "mixing"))

import numpy as np
import real
import tables

import pactree_mcmc as pt
from pactree_mcmc.mcmc import course
from pactree_mcmc.mcmc.chain.chain import Chain
from pactree_mcmc.mcmc.whole import rounds, tasks

TABLES = ("iris", "heart_statlog", "pima_diabetes", "concrete")
ROWS = 770
PARTS = ("trees", "learned", "other moves", "fit", "diagnosis")
seconds: dict = collections.defaultdict(float)
"""CPU seconds by part, which `count_time` adds to."""
lock = threading.Lock()


def count_time(owner, name, part):
    """Replace function ``name`` of a module or class by one that adds its CPU seconds to those of ``part(*args)``."""
    function = getattr(owner, name)

    def timed(*args, **kwargs):
        began = time.thread_time()
        try:
            return function(*args, **kwargs)
        finally:
            spent = time.thread_time() - began
            with lock:
                seconds[part(*args)] += spent

    setattr(owner, name, timed)


def model_of(name):
    """Return the default model of a table, of the first ROWS rows if it is large."""
    if name == "concrete":
        X, y, _ = tables.real(name)
        return pt.TreeModel(X[:ROWS], y[:ROWS])
    return real.model_of_table(name)


def hash_of(post):
    """Return a hash of the draws, the evidence and the number of steps, as text."""
    arrays = post.log_score, post.draws.tree_of_draw, post.draws.coded_trees.records()
    content = b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)
    return hashlib.sha256(content + repr((post.log_evidence, post.course.steps)).encode()).hexdigest()[:12]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=TABLES)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--steps", type=int, help="number of steps, 1000 or more; default: until the run ends")
    options = parser.parse_args()
    warnings.simplefilter("ignore", pt.ConvergenceWarning)
    count_time(Chain, "propose", lambda chain, i, n: "learned" if chain.kernel.names[i] == "learned" else "other moves")
    count_time(tasks, "sample_independent", lambda *args: "trees")
    count_time(rounds, "fit_density", lambda *args: "fit")
    count_time(course, "judge", lambda *args: "diagnosis")
    print(
        f"| table, seed | CPU s | steps | ms a step, learned | {' | '.join(f'{part}, s' for part in PARTS)} | draws |"
    )
    print("|" + " --- |" * (5 + len(PARTS)), flush=True)
    for name in options.tables:
        model = model_of(name)
        pt.sample(model, 2, rng=0, progress=False)
        for seed in options.seeds:
            seconds.clear()
            began = time.process_time()
            post = pt.sample(model, rng=seed, steps=options.steps, progress=False)
            spent, steps = time.process_time() - began, post.course.steps
            cells = [f"{spent:.2f}", f"{steps}", f"{1000 * seconds['learned'] / (steps * post.n_chains):.3f}"]
            cells += [f"{seconds[part]:.2f}" for part in PARTS]
            print(f"| {name}, {seed} | {' | '.join(cells)} | {hash_of(post)} |", flush=True)


if __name__ == "__main__":
    main()
