"""Compilation of functions: options, linking, and the cache on disk. See docs/develop/parts.md."""

import numba

# True if this copy of the library is compiled. `pactree_mcmc.testing` imports another copy, which is not
COMPILES = not numba.config.DISABLE_JIT
