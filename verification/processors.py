"""Do draws depend on the processor? Runs of models of many kinds in processes that stand for other processors.

    python verification/processors.py               every model once in each environment, in four minutes
    python verification/processors.py --seeds 25    a thousand runs with another C library, in twenty minutes

BLAS and NumPy can be told which processor to take their code for; the C library can be told which instructions to leave
out. A processor that has instructions which this machine lacks cannot be imitated that way. In its place functions that
have variants for processors get random last digits.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENTS = {
    "BLAS: Prescott": {"OPENBLAS_CORETYPE": "Prescott"},
    "BLAS: Haswell": {"OPENBLAS_CORETYPE": "Haswell"},
    "BLAS: SkylakeX": {"OPENBLAS_CORETYPE": "SkylakeX"},
    "NumPy without AVX": {"NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL"},
    "C library without AVX2 and FMA": {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX2_Usable,-FMA_Usable"},
}
NEEDED = {"BLAS: Haswell": "avx2", "BLAS: SkylakeX": "avx512f"}
"""Instructions without which a process with this environment ends at once."""
C_LIBRARY = "C library without AVX2 and FMA"


def drawn(seeds: range, environment: dict[str, str], *words: str) -> dict[str, str]:
    """Return the digest of the draws of every run with every seed, by its name."""
    command = [sys.executable, "-m", "tests.programs.same_draws", *map(str, seeds), *words]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | environment, check=True, capture_output=True, text=True)
    return dict(line.split(": ") for line in done.stdout.splitlines())


def has(instructions: str) -> bool:
    """Return True if the processor has these instructions, by the system's own list (Linux)."""
    path = Path("/proc/cpuinfo")
    return path.exists() and instructions in path.read_text()


def compare(name: str, here: dict[str, str], there: dict[str, str]) -> int:
    """Print and return the number of runs whose trees differ."""
    other = [run for run in here if here[run] != there.get(run)]
    print(f"| {name} | {len(here)} | {len(other)} | {', '.join(other)} |", flush=True)
    return len(other)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, help="number of seeds to run with another C library")
    args = parser.parse_args()
    print("| environment | runs | other trees | which |\n| --- | --- | --- | --- |")
    if args.seeds:
        seeds = range(args.seeds)
        return compare(C_LIBRARY, drawn(seeds, {}), drawn(seeds, ENVIRONMENTS[C_LIBRARY]))
    seeds = range(7, 8)
    here, n_other = drawn(seeds, {}), 0
    for name, environment in ENVIRONMENTS.items():
        if name in NEEDED and not has(NEEDED[name]):
            print(f"| {name} | 0 | | this processor lacks {NEEDED[name]} |")
            continue
        n_other += compare(name, here, drawn(seeds, environment))
    return n_other + compare("random last digits", here, drawn(seeds, {}, "--other-digits"))


if __name__ == "__main__":
    sys.exit(main() > 0)
