"""Settings made before anything is imported."""

import os

os.environ.setdefault("MPLBACKEND", "Agg")
