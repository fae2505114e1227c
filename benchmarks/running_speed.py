"""Processor seconds of runs and exact sums, compiled already, of these sources and of others, in turns.

Run: python benchmarks/running_speed.py --before FOLDER [--repeats N]

``FOLDER`` is another checkout, such as one that ``git worktree add`` made. Both compile first.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np

NAMES = "grow-prune, classes", "grow-prune, numbers", "local, classes", "local, numbers", "whole, classes", "exact sum"


def jobs():
    """Return the functions that are timed, by name."""
    import exact
    import pactree_mcmc as pt

    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 10))
    f = np.sin(3 * X[:, 0]) + X[:, 1] * (X[:, 2] > 0)
    numbers = pt.TreeModel(X, f + rng.normal(size=1000) * 0.3)
    classes = pt.TreeModel(X, (f + rng.normal(size=1000) * 0.5 > 0).astype(int))
    grid = rng.integers(0, 8, (1000, 4)).astype(float)
    small = pt.TreeModel(grid, rng.random(1000) < 0.3 + 0.4 * (grid[:, 0] > 4), tree_prior=pt.ChipmanPrior(max_depth=4))

    def run(model, kernel, draws, **more):
        return lambda: pt.sample(model, draws, rng=1, kernel=kernel, progress=False, **more)

    fixed = {"tune": 50, "chains": 1}
    made = [
        run(classes, "grow-prune", 100, proposals=2000, **fixed),
        run(numbers, "grow-prune", 100, proposals=2000, **fixed),
        run(classes, "local", 50, **fixed),
        run(numbers, "local", 50, **fixed),
        run(classes, "whole", 100, chains=2, work=2e7),
        lambda: exact.solve(small),
    ]
    return dict(zip(NAMES, made, strict=True))


def measure():
    """Print the least seconds of each job after a first run, as JSON."""
    warnings.simplefilter("ignore")
    least = {}
    for name, job in jobs().items():
        job()
        for _ in range(2):
            began = time.process_time()
            job()
            least[name] = min(least.get(name, np.inf), time.process_time() - began)
    print(json.dumps(least))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", help="folder of other sources")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        return measure()
    if args.before is None:
        parser.error("give --before FOLDER")
    here = str(Path(__file__).resolve().parents[1])
    least = {}
    for folder in [args.before, here] * args.repeats:
        command = [sys.executable, __file__, "--measure"]
        env = os.environ | {"PYTHONPATH": str(Path(folder).resolve())}
        done = subprocess.run(command, env=env, cwd=folder, check=True, capture_output=True, text=True)
        for name, seconds in json.loads(done.stdout).items():
            least[folder, name] = min(least.get((folder, name), np.inf), seconds)
    print("| | before, CPU s | now | ratio |\n| --- | --- | --- | --- |")
    for name in NAMES:
        before, now = least[args.before, name], least[here, name]
        print(f"| {name} | {before:.3f} | {now:.3f} | {now / before:.2f} |")
    return None


if __name__ == "__main__":
    main()
