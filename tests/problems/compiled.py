"""All functions of the sampler compiled as one, by the first worker that needs any of them."""

import numba
import numpy as np

import pactree_mcmc as pt
from pactree_mcmc.core.compile.jit import HAS_PRIVATE_PARTS
from pactree_mcmc.core.compile.together import Member, compile_together
from pactree_mcmc.mcmc.chain.chain import Chain
from pactree_mcmc.mcmc.kernel import read_kernel
from pactree_mcmc.mcmc.run import compiled
from pactree_mcmc.mcmc.sums.split_sums import scan, scan_cell
from pactree_mcmc.mcmc.whole.density.graph import add_tree, is_drawable
from pactree_mcmc.smc import grow_prior

done = not HAS_PRIVATE_PARTS


def compile_all(with_rare):
    """Compile the sampler's functions or find them on disk; if ``with_rare``, then those that few tests call."""
    global done
    if done:
        return
    # the chain made here is the first
    done = True
    model = pt.TreeModel([[0.0], [1.0]], [0, 1])
    chain = Chain(model.lowered, read_kernel("grow-prune"), np.random.default_rng(0), prepare=compiled.compile_all)
    if with_rare:
        compile_together(_rare(chain))


def _rare(chain):
    """Return the functions that few tests call, with the types of their arguments."""
    walk = numba.typeof(chain.packed_chain)
    at_node = walk.kind_of("model"), walk.kind_of("state"), compiled.INT
    args = {grow_prior: (walk, compiled.INT)}
    return [
        Member(function, args.get(function, at_node))
        for function in (add_tree, is_drawable, scan, scan_cell, grow_prior)
    ]
