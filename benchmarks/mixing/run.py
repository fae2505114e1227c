"""Measure the mixing of chains: problems with figures that pass or miss, and a table over kernels.

Run: python benchmarks/mixing/run.py [problem ...] [--kernel default --kernel grow=1,prune=1 ...] [--seconds S]

Without problems all run, the table last. `settings.py` has limits, priors and draws. Tables in files are looked for
beside the checkout, in shared/data, or in the folder PACTREE_DATA. --seconds replaces every time limit, for a trial.
Compilation is excluded everywhere. A busy machine needs more time; without `real` a run takes a quarter of an hour.

`real` runs with the defaults until the run ends itself: the limit is judged, not set. --tables and --seeds choose what
runs; another kernel runs for a fixed length, so `real --kernel local` is the former default.
"""

import argparse

import known_answers
from kernel_table import kernel_table
from measures import Check
from problems import WITH_EXACT_ANSWER
from real import real
from settings import KERNELS, REAL_SECONDS, REAL_SEEDS
from tables import MissingTable
from timing import Options, kernel_name, read_kernel

PROBLEMS = {
    "chipman_1998": known_answers.chipman_1998,
    "one_dimension": known_answers.one_dimension,
    "maptree_medium": known_answers.maptree_medium,
    "wu_tjelmeland_west": known_answers.wu_tjelmeland_west,
    "xor_twins": known_answers.xor_twins,
    "real": real,
}


def main():
    args = _arguments()
    chosen = args.problem or [*PROBLEMS, "table"]
    names = [name for name in chosen if name in PROBLEMS]
    checks = []
    for kernel in args.kernel or ["default"] if names else []:
        for name in names:
            print(f"\n## {name}, kernel {kernel_name(kernel)}", flush=True)
            checks += _run(name, _options(args, kernel))
    if "table" in chosen:
        print("\n## Kernels", flush=True)
        for line in kernel_table(args.kernel or KERNELS, args.seconds, args.table):
            print(line, flush=True)
    if checks:
        missed = [f"{where}: {check}" for where, check in checks if not check.passed]
        print("\n## Summary", f"{len(checks) - len(missed)} of {len(checks)} figures pass", *missed, sep="\n")


def _options(args, kernel):
    return Options(kernel, args.seconds, tuple(args.tables), args.seeds)


def _run(name, options):
    """Run one problem, print its lines as they come, and return its checks as pairs of a place and a `Check`."""
    checks = []
    try:
        for line in PROBLEMS[name](options):
            indent = 2 * isinstance(line, Check) or 8 * (not line.startswith("|"))
            print(f"{' ' * indent}{line}", flush=True)
            if isinstance(line, Check):
                checks.append((f"{name}, {kernel_name(options.kernel)}", line))
    except MissingTable as missing:
        print(f"        skipped: {missing}", flush=True)
    return checks


def _arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = [*PROBLEMS, "table"]
    parser.add_argument("problem", nargs="*", help=f"of {', '.join(known)}; default all")
    parser.add_argument("--kernel", action="append", type=read_kernel, help="a name, or move=weight,move=weight")
    parser.add_argument("--seconds", type=float, help="time limit of every run, in place of those of settings.py")
    parser.add_argument("--tables", nargs="+", default=[], choices=REAL_SECONDS, help="of real; default all")
    parser.add_argument("--seeds", type=int, default=REAL_SEEDS, help="runs of each table of real, from seed 0 on")
    parser.add_argument("--table", nargs="+", choices=WITH_EXACT_ANSWER, help="problems of table; default all")
    args = parser.parse_args()
    for name in args.problem:
        if name not in known:
            parser.error(f"problem {name!r} is unknown; give some of {', '.join(known)}")
    if args.seeds < 1:
        parser.error(f"--seeds {args.seeds} is out of range; give 1 or more")
    return args


if __name__ == "__main__":
    main()
