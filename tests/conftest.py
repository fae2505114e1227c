"""Compiled code is cached by a hash of the sources: numba's disk cache does not see edits of callees in other files."""

import hashlib
import os
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def _source_hash() -> str:
    digest = hashlib.sha256()
    for package in ("pactree_mcmc", "exact"):
        for path in sorted((ROOT / package).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(tempfile.gettempdir()) / f"pactree-numba-{_source_hash()}"))
os.environ.setdefault("MPLBACKEND", "Agg")
