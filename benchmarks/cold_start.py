"""Measure processor seconds to the first result, imports included: empty cache, then a second process; rivals too.

In parentheses: the seconds divided by those that the same Python takes to add 1e8 squares, just before.

Run: python benchmarks/cold_start.py [--wheel PYTHON] [--rivals PYTHON]
     python benchmarks/cold_start.py --readme     each part of the README's first command, in a fresh clone

``--wheel`` is the Python of an environment in which the wheel of ``verification/wheel.py`` is installed, ``--rivals``
of one with stochtree and pymc-bart. A process is counted with all its children.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

OURS = """
import warnings; warnings.simplefilter("ignore")
import numpy as np, pactree_mcmc as pt
rng = np.random.default_rng(0)
X = rng.integers(0, 5, ({rows}, 2)).astype(float)
model = pt.TreeModel(X, (X[:, 0] > 2) ^ (rng.random({rows}) < .1))
{call}
"""
CALLS = {
    "pt.sample, defaults": "pt.sample(model, rng=0, progress=False)",
    "pt.sample, kernel local": "pt.sample(model, 100, tune=100, rng=0, progress=False)",
    "pt.sample, kernel grow-prune": "pt.sample(model, 100, tune=100, rng=0, kernel='grow-prune', progress=False)",
    "exact.solve": "import exact; exact.solve(model)",
}
DATA = """
import numpy as np
rng = np.random.default_rng(0)
X = rng.normal(size=(200, 2)); y = X[:, 0] + rng.normal(size=200)
"""
RIVALS = {
    "stochtree, BARTModel of 50 trees, 100 draws": DATA
    + "from stochtree import BARTModel; BARTModel().sample(X_train=X, y_train=y, num_gfr=0, num_mcmc=100,"
    + " mean_forest_params={'num_trees': 50})",
    "pymc-bart, 50 trees, 100 draws, one chain": DATA
    + """
import pymc as pm, pymc_bart as pmb
with pm.Model():
    mu = pmb.BART("mu", X, y, m=50)
    pm.Normal("y", mu, 1.0, observed=y)
    pm.sample(draws=100, tune=100, chains=1, cores=1, random_seed=0, progressbar=False)
""",
}
LOOP = "sum(i * i for i in range(10**8))"


def spent(python, script, cache, folder=None):
    """Run a script in ``folder`` (None: here), with compiled code in ``cache``; return CPU seconds with children."""
    return seconds_of([python, "-W", "ignore", "-c", script], cache, folder)


def seconds_of(command, cache, folder):
    """Run a command like `spent`."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH" or folder is None}
    env |= {"NUMBA_CACHE_DIR": cache, "PYTENSOR_FLAGS": f"base_compiledir={cache}"}
    before = os.times()
    subprocess.run(command, check=True, env=env, cwd=folder, capture_output=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def row(name, python, script, folder=None, second=None):
    """Print one line: seconds of a first process with an empty cache, and of a second, of ``second`` if it is given."""
    with tempfile.TemporaryDirectory() as cache:
        loop = spent(python, LOOP, cache)
        cells = [spent(python, script, cache, folder), spent(python, second or script, cache, folder)]
    print(f"| {name} | {' | '.join(f'{cell:.1f} ({cell / loop:.1f})' for cell in cells)} |", flush=True)


def measure_readme():
    """Print the CPU seconds of each part of the README's first command, and of its last part once more."""
    root = Path(__file__).resolve().parents[1]
    command = re.search(r"(?m)^    (python3 -m venv .*)$", (root / "README.md").read_text())[1]
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as cache:
        subprocess.run(["git", "clone", "--quiet", root, folder], check=True)
        print(f"| a sum of 1e8 squares | {spent(sys.executable, LOOP, cache):.1f} |", flush=True)
        parts = command.split(" && ")
        for part in (*parts, parts[-1]):
            print(f"| `{part}` | {seconds_of(['bash', '-c', part], cache, folder):.1f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wheel", help="the Python of an environment with the wheel")
    parser.add_argument("--rivals", help="the Python of an environment with stochtree and pymc-bart")
    parser.add_argument("--readme", action="store_true", help="the README's first command instead")
    args = parser.parse_args()
    if args.readme:
        measure_readme()
        return
    print("| first call, 200 rows; a second process, 1,000 rows | empty cache, CPU s | second process |")
    print("| --- | --- | --- |")
    for name, call in CALLS.items():
        script, second = (OURS.format(call=call, rows=rows) for rows in (200, 1000))
        row(f"{name}, source tree", sys.executable, script, second=second)
        if args.wheel:
            # elsewhere, so that the sources are not found beside
            row(f"{name}, wheel", args.wheel, script, tempfile.gettempdir(), second)
    row("pt.warm_up, source tree", sys.executable, "import pactree_mcmc as pt; pt.warm_up()")
    if args.rivals:
        for name, script in RIVALS.items():
            row(name, args.rivals, script, tempfile.gettempdir())


if __name__ == "__main__":
    main()
