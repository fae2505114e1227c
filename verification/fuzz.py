"""Make random calls with hostile arguments, or damage files: only a documented error or a valid answer may result.

    python verification/fuzz.py                      100,000 calls of the public functions and methods
    python verification/fuzz.py --files 10000        10,000 changed copies of saved posteriors
    python verification/fuzz.py --replay 1234        one call again, with its traceback
    python verification/fuzz.py --only TreeModel     calls of one function, class or method

The seed and i alone determine call i. A separate process makes the calls, with warnings as errors. If it crashes or
hangs, this is reported and another process continues. The exit code is 1 if anything went wrong. With --keep the counts
are written to docs/verification, for docs/trust.md.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "verification")]
os.environ.setdefault("MPLBACKEND", "Agg")
SHOWN = 3
"""Number of examples printed of each fault."""
DIGEST_EVERY = 2000
"""Number of calls between two checks that none has changed its arguments."""


def arguments() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--files", type=int, help="change saved files so often, instead of calling functions")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=int, default=0, help="number of the first call")
    parser.add_argument("--only", help="one name, such as TreeModel, Posterior.predict or predict")
    parser.add_argument("--keep", action="store_true", help="write the counts to docs/verification")
    parser.add_argument("--replay", type=int, metavar="NUMBER", help="one call, with its traceback")
    parser.add_argument("--worker", choices=["calls", "files"], help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    """Do what the command line asks for, and return the exit code."""
    args = arguments()
    with tempfile.TemporaryDirectory() as folder:
        if args.worker is not None:
            from fuzzing.workers import serve

            serve(_task(args, Path(folder)))
            return 0
        if args.replay is not None:
            return _replay(args, Path(folder))
        return _fuzz(args)


def _task(args: argparse.Namespace, folder: Path):
    """Return the function that a worker calls with each number, which returns the kind of outcome and a text."""
    if args.worker == "files":
        from fuzzing.files import Files

        files = Files(folder)
        return lambda number: files.judge(args.seed, number)
    from fuzzing.calls import WRONG, call_of, make
    from fuzzing.world import World

    world = World(folder)
    whole, n_made = world.digest(), 0

    def task(number: int) -> tuple[str, str]:
        nonlocal n_made
        call = call_of(args.seed, number, args.only)
        kind, what = make(call, world)
        n_made += 1
        if n_made % DIGEST_EVERY == 0 and world.digest() != whole:
            return WRONG, f"one of the last {DIGEST_EVERY} calls changed what it was given"
        return kind, f"{call.target.name}: {what}"

    return task


def _replay(args: argparse.Namespace, folder: Path) -> int:
    if args.files is not None:
        from fuzzing.files import Files

        print(*Files(folder).judge(args.seed, args.replay), sep=": ")
        return 0
    from fuzzing.calls import call_of, described, make, shown
    from fuzzing.world import World

    world, call = World(folder), call_of(args.seed, args.replay, args.only)
    print(described(call, world))
    print(shown(call, world))
    print(*make(call, world), sep=": ")
    return 0


def _fuzz(args: argparse.Namespace) -> int:
    """Make all calls or changes in workers, print the counts and the faults, and return the exit code."""
    from fuzzing.calls import targets_called
    from fuzzing.workers import run

    targets_called(args.only)  # an unknown name is refused here, and not by one worker after the other
    n, of = (args.calls, "calls") if args.files is None else (args.files, "files")
    command = [sys.executable, __file__, "--worker", of, "--seed", str(args.seed)]
    command += [] if args.only is None else ["--only", args.only]
    began, kinds, wrong, memory = time.perf_counter(), collections.Counter(), {}, []
    for done, report in enumerate(run(command, range(args.start, args.start + n)), 1):
        kinds[report.kind] += 1
        memory.append(report.resident >> 20)
        if report.kind not in ("answered", "refused"):
            wrong.setdefault(f"{report.kind}: {report.what}", []).append(report.number)
        if done % (5000 if args.files is None else 500) == 0:
            print(f"{done:>7} {dict(kinds)} {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    for what, numbers in sorted(wrong.items()):
        print(f"{what}\n    {len(numbers)} times, --replay {' '.join(map(str, numbers[:SHOWN]))}")
    half = memory[len(memory) // 2 :]
    print(f"{n} {of}, seed {args.seed}, {time.perf_counter() - began:.0f} s: {dict(kinds)}")
    print(f"memory of the worker: {half[0]} MB half way, {half[-1]} MB at the end")
    if args.keep:
        summary = {
            "day": date.today().isoformat(),
            "n": n,
            "seed": args.seed,
            "seconds": round(time.perf_counter() - began),
            "kinds": dict(kinds),
        }
        summary |= {"wrong": sum(map(len, wrong.values())), "megabytes": [half[0], half[-1]]}
        (ROOT / "docs" / "verification" / f"fuzz_{of}.json").write_text(json.dumps(summary, indent=1) + "\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
