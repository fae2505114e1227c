"""A release: the archive of compiled code, the wheel that carries it, and the source distribution, checked.

    python verification/wheel.py [--archive-only] [--out FOLDER]

The archive is for the Python and numba that run this. A wheel carries the archives of all those for which this was run
with ``--archive-only`` before; where none fits, the library compiles as it does from its sources.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from pactree_mcmc.core.compile.shipped import ARCHIVES, tag, write_archive

ROOT = Path(__file__).resolve().parents[1]


def make_archive() -> Path:
    """Compile everything in an empty cache, and keep it beside the sources."""
    # what an archive of before holds would not be compiled
    shutil.rmtree(ARCHIVES / tag(), ignore_errors=True)
    with tempfile.TemporaryDirectory() as cache:
        env = os.environ | {"NUMBA_CACHE_DIR": cache}
        subprocess.run([sys.executable, "-m", "pactree_mcmc", "warm-up"], check=True, cwd=ROOT, env=env)
        return write_archive(Path(cache))


def main() -> None:
    """Make the archive; build and check the distributions."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--archive-only", action="store_true", help="build nothing")
    parser.add_argument("--out", default=str(ROOT / "dist"), help="folder of the distributions")
    args = parser.parse_args()
    archive = make_archive()
    size = sum(file.stat().st_size for file in archive.rglob("*"))
    print(f"{archive.relative_to(ROOT)}: {size / 1e6:.1f} MB")
    if args.archive_only:
        return
    # the wheel from the tree, for the source distribution has no archive
    subprocess.run([sys.executable, "-m", "build", "--sdist", "--wheel", "--outdir", args.out, str(ROOT)], check=True)
    made = sorted(str(path) for path in Path(args.out).glob("pactree_mcmc-*"))
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *made], check=True)


if __name__ == "__main__":
    main()
