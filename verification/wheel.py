"""A release: the archive of compiled code, the wheel that carries it, and the source distribution, checked.

    python verification/wheel.py [--archive-only] [--out FOLDER]

The archive is for the Python and numba that run this. A wheel carries the archives of all those for which this was run
with ``--archive-only`` before; where none fits, the library compiles as it does from its sources.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from pactree_mcmc.core.compile.folders import ARCHIVE, build

ROOT = Path(__file__).resolve().parents[1]


def make_archive() -> list[Path]:
    """Compile everything into the archive beside the sources; return its files for this Python and numba."""
    # what an archive of before holds would not be compiled
    for folder in ARCHIVE.glob(f"*/{build()}-*"):
        shutil.rmtree(folder)
    subprocess.run([sys.executable, "-m", "pactree_mcmc", "warm-up", "--to", str(ARCHIVE)], check=True, cwd=ROOT)
    return sorted(ARCHIVE.glob(f"*/{build()}-*/*"))


def main() -> None:
    """Make the archive; build and check the distributions."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--archive-only", action="store_true", help="build nothing")
    parser.add_argument("--out", default=str(ROOT / "dist"), help="folder of the distributions")
    args = parser.parse_args()
    size = sum(file.stat().st_size for file in make_archive())
    print(f"{ARCHIVE.relative_to(ROOT)}, {build()}: {size / 1e6:.1f} MB")
    if args.archive_only:
        return
    # the wheel from the tree, for the source distribution has no archive
    subprocess.run([sys.executable, "-m", "build", "--sdist", "--wheel", "--outdir", args.out, str(ROOT)], check=True)
    made = sorted(str(path) for path in Path(args.out).glob("pactree_mcmc-*"))
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *made], check=True)


if __name__ == "__main__":
    main()
