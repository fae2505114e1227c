"""Time to the first result of pt.sample and exact.solve: empty cache, then a second process, imports included.

Run: python benchmarks/cold_start.py
"""

import os
import subprocess
import sys
import tempfile
import time

CALLS = {
    "pt.sample": "pt.sample(model, 100, tune=100, rng=0, progress=False)",
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
    for name, call in CALLS.items():
        with tempfile.TemporaryDirectory() as cache:
            for which in ("empty cache", "second process"):
                began = time.perf_counter()
                env = os.environ | {"NUMBA_CACHE_DIR": cache}
                subprocess.run([sys.executable, "-c", SCRIPT.format(call=call)], check=True, env=env)
                print(f"{name}, {which}: {time.perf_counter() - began:.1f} s")


if __name__ == "__main__":
    main()
