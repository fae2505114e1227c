"""Runs of several kernels; names of the functions that are compiled although everything was."""

import numpy as np

import exact
import pactree_mcmc as pt
from pactree_mcmc.core.compile.cache import watch_compilation

if __name__ == "__main__":
    compiled = []
    with watch_compilation(lambda of: compiled.append(of._function.__qualname__)):
        X = np.random.default_rng(0).normal(size=(50, 2)).round(1)
        for y in (X[:, 0] > 0.0, X[:, 0]):
            for kernel in ("default", "local", "cgm", {"grow-prune": 1.0, "rotate": 1.0}):
                rest = {"work": 1e5} if kernel == "default" else {"tune": 10}
                pt.sample(pt.TreeModel(X, y), 20, kernel=kernel, rng=0, **rest).summary()
            model = pt.TreeModel(X[:, :1], y)
            pt.sample(model, 20, tune=10, rng=0)
            exact.solve(model).predict(X[:, :1])
    print(*compiled)
