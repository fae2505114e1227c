"""``python -m pactree_mcmc``: see `pactree_mcmc.faces.cli`."""

import sys

from .faces.cli import main

if __name__ == "__main__":
    sys.exit(main())
