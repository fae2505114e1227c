"""``python -m pactree_mcmc``: see `pactree_mcmc.cli`."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
