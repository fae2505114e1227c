"""Default runs and exact sums; names of the functions that are compiled although everything was."""

import numpy as np

import exact
import pactree_mcmc as pt
from pactree_mcmc.core.compile.cache import watch_compilation

if __name__ == "__main__":
    compiled = []
    with watch_compilation(lambda of: compiled.append(of._function.__qualname__)):
        rng = np.random.default_rng(0)
        X, many = rng.normal(size=(50, 2)).round(1), rng.normal(size=(70_000, 2))
        for y in (X[:, 0] > 0.0, X[:, 0]):
            for columns in (X, X[:, :1]):
                post = pt.sample(pt.TreeModel(columns, y), 20, work=1e5, rng=0)
                post.summary()
                post.credible_interval(columns)
            exact.solve(pt.TreeModel(X[:, :1], y)).predict(X[:, :1])
        pt.sample(pt.TreeModel(many, many[:, 0]), 20, work=1e6, rng=0)
    print(*compiled)
