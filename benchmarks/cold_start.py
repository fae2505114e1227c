"""Time to the first result of pt.sample and exact.solve: empty cache, then a second process, imports included.

Run: python benchmarks/cold_start.py
"""

import os
import subprocess
import sys
import tempfile

from clock import timed

CALLS = {
    "pt.sample, defaults": "pt.sample(model, rng=0, progress=False)",
    "pt.sample, kernel local": "pt.sample(model, 100, tune=100, rng=0, progress=False)",
    "pt.sample, kernel grow-prune": "pt.sample(model, 100, tune=100, rng=0, kernel='grow-prune', progress=False)",
    "exact.solve": "exact.solve(model)",
}
SCRIPT = """
import numpy as np, pactree_mcmc as pt, exact
rng = np.random.default_rng(0)
X = rng.integers(0, 5, (200, 2)).astype(float)
model = pt.TreeModel(X, (X[:, 0] > 2) ^ (rng.random(200) < .1))
{call}
"""


def main():
    print("| first call | empty cache | second process |\n| --- | --- | --- |", flush=True)
    for name, call in CALLS.items():
        with tempfile.TemporaryDirectory() as cache:
            env = os.environ | {"NUMBA_CACHE_DIR": cache}
            command = [sys.executable, "-W", "ignore", "-c", SCRIPT.format(call=call)]
            cells = []
            for _ in range(2):
                _, wall, _ = timed(lambda command=command, env=env: subprocess.run(command, check=True, env=env), 1)
                cells.append(f"{wall:.1f} s")
            print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
