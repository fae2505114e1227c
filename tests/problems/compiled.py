"""All functions of the sampler compiled as one, by the first worker that needs any of them.

A run compiles those of its kernel; a suite has runs of all kernels, which share most of what they call.
"""

import numpy as np

import pactree_mcmc as pt
from pactree_mcmc.core.compile.jit import HAS_PRIVATE_PARTS
from pactree_mcmc.mcmc.chain.chain import Chain
from pactree_mcmc.mcmc.kernel import read_kernel
from pactree_mcmc.mcmc.run import compiled

done = not HAS_PRIVATE_PARTS


def compile_all():
    """Compile them, or find them on disk: the other worker waits."""
    global done
    if done:
        return
    # the chain made here is the first
    done = True
    model = pt.TreeModel([[0.0], [1.0]], [0, 1])
    Chain(model.lowered, read_kernel("grow-prune"), np.random.default_rng(0), prepare=compiled.compile_all)
