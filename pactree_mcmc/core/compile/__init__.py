"""How functions are compiled, linked and kept between processes."""

import numba

COMPILES = not numba.config.DISABLE_JIT
"""Whether this copy of the library is compiled; `pactree_mcmc.testing` makes one that is not."""
