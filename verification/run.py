"""Statistical verification: simulation-based calibration, joint tests, prior recovery, evidence, total variation.

Run: python verification/run.py [calibration joint prior evidence distances] [--quick] [--out docs/verification]

Writes the page OUT.md, with pictures and findings in the folder OUT, and ends with status 1 if a check fails or a
planted error is not noticed. It verifies the modules of this checkout. Nightly size: about an hour and a half on
one core; --quick: about eight minutes, by default in build/verification, so that no quick run replaces a full one.
"""

import argparse
import os
import sys
import time
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(1, str(ROOT))
os.environ.setdefault("MPLBACKEND", "Agg")

PARTS = ("calibration", "joint", "prior", "evidence", "distances")


def main():
    args = arguments()
    from report import keep, write_page

    folder = Path(args.out)
    folder.mkdir(parents=True, exist_ok=True)
    passed = True
    for name in args.part or PARTS:
        command = f"python verification/run.py {name}{' --quick' if args.quick else ''}"
        print(f"{name} ...", flush=True)
        began = time.perf_counter()
        part = __import__(name).verify(args.quick, folder)
        seconds = time.perf_counter() - began
        keep(part, name, command, seconds, folder)
        write_page(folder, PARTS)
        print(f"{name}: {part.n_checks} checks, {len(part.failures)} failed, {seconds:.0f} s", flush=True)
        for line in (*part.failures, *(f"not noticed: {c.what}, {c.figure}" for c in part.controls if not c.caught)):
            print(f"  {line}", flush=True)
        passed &= part.passed
    return 0 if passed else 1


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="*", help=f"of {', '.join(PARTS)}; default all")
    parser.add_argument("--quick", action="store_true", help="smaller samples")
    parser.add_argument("--out", help="folder; the page is beside it; default docs/verification")
    args = parser.parse_args()
    args.out = args.out or ROOT / ("build" if args.quick else "docs") / "verification"
    for name in args.part:
        if name not in PARTS:
            parser.error(f"part {name!r} is unknown; give some of {', '.join(PARTS)}")
    return args


if __name__ == "__main__":
    from pactree_mcmc import ConvergenceWarning

    warnings.simplefilter("ignore", ConvergenceWarning)  # short chains are meant
    sys.exit(main())
