"""Runs and exact answers under a limit of memory; what was saved before is there afterwards."""

import resource
import sys
from pathlib import Path

import numpy as np

import exact
import pactree_mcmc as pt
from tests.problems.runs import MODELS, X, draw


def main(path):
    """Say on the standard error what happens."""
    post = draw("classes", 10, kernel="grow-prune")
    post.save(path)
    truth = exact.solve(MODELS["fixed"])
    used_bytes = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used_bytes + (1 << 29), resource.RLIM_INFINITY))
    try:
        pt.resume(path, 10**9, progress=False)
    except MemoryError as error:
        print("sampler:", error, file=sys.stderr)
    try:
        rng = np.random.default_rng(0)
        exact.solve(pt.TreeModel(rng.random((400, 6)), rng.random(400), tree_prior=pt.ChipmanPrior(max_depth=6)))
    except (MemoryError, exact.Intractable) as error:
        print("engine:", type(error).__name__, error, file=sys.stderr)
    assert exact.solve(MODELS["fixed"]).log_evidence == truth.log_evidence
    assert np.array_equal(pt.load(path).predict_proba(X), post.predict_proba(X))
    print("alive", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1])
