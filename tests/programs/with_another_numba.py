"""A small run where a module that reaches into numba cannot be imported; the draws, as one line."""

import sys

import numpy as np

if __name__ == "__main__":
    if sys.argv[1:] == ["other"]:
        sys.modules["pactree_mcmc.core.compile.linking"] = None
    import pactree_mcmc as pt
    from pactree_mcmc.core.compile.jit import FASTER

    x = np.arange(40.0)[:, None]
    model = pt.TreeModel(x, (x[:, 0] > 19) ^ (x[:, 0] % 7 == 0))
    post = pt.sample(model, 50, tune=10, chains=1, kernel="grow-prune", rng=1, progress=False)
    print(FASTER, post.n_leaves().tolist())
