"""A small run; names of the functions that are compiled, since no cache has them."""

import numpy as np

import pactree_mcmc as pt
from pactree_mcmc.core.compile.cache import watching
from pactree_mcmc.mcmc.run.workers import Work, draw
from pactree_mcmc.mcmc.sampling import Plan, chain_seeds, read_kernel

if __name__ == "__main__":
    x = np.arange(40.0)[:, None]
    model, seen = pt.TreeModel(x, x[:, 0] > 19), []
    with watching(lambda of: seen.append(of._function.__qualname__)):
        plan = Plan(model, 20, 5, 1, read_kernel("grow-prune"), chain_seeds(1, 1)[0], "stump")
        draw(Work([plan], [None], None, True, None))
    print(*seen)
