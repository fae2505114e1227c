"""An exact posterior where a module that reaches into numba cannot be imported; what it says, as one line."""

import sys

import numpy as np

if __name__ == "__main__":
    if sys.argv[1:] == ["other"]:
        sys.modules["pactree_mcmc.core.compile.private.linking"] = None
    import exact
    import pactree_mcmc as pt
    from pactree_mcmc.core.compile.jit import HAS_PRIVATE_PARTS

    x = np.arange(40.0)[:, None]
    model = pt.TreeModel(x, (x[:, 0] > 19) ^ (x[:, 0] % 7 == 0))
    print(HAS_PRIVATE_PARTS, repr(exact.solve(model).log_evidence))
