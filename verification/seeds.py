"""Count the warnings of the main example, of the README's ten lines and of the pages, with several seeds.

    python verification/seeds.py [--seeds 10]          example and README, under each of four settings
    python verification/seeds.py --pages docs/*.md     every call of `pt.sample` on these pages, under the first setting

A setting switches vector instructions off in OpenBLAS or NumPy, so that sums may have other last digits. CPU seconds
are those of a process with one seed, imports included, once the code is compiled. The status is 1 if the example or
the README warned. The pages also have calls that are meant to warn; their comments say so.
"""

import argparse
import contextlib
import io
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "examples")]
os.environ.setdefault("MPLBACKEND", "Agg")
BLOCK = re.compile(r"(?ms)^(<!-- not run[^\n]*\n+)?```python\n(.*?)^```")
"""Python block of a page, behind the comment that excuses it from running."""


def settings():
    """Return the variables of the environment under each setting."""
    import numpy as np

    vector = " ".join(np.show_config(mode="dicts")["SIMD Extensions"].get("found", []))
    blas = [{"OPENBLAS_CORETYPE": kind} for kind in ("Prescott", "Haswell")]
    return [{}, *blas, {"NPY_DISABLE_CPU_FEATURES": vector}]


def run_example(seed):
    """Run the main example, and return how many warnings it gave."""
    import breast_cancer
    import matplotlib.pyplot as plt

    with recorded() as caught:
        breast_cancer.main(Path.cwd(), seed)
    plt.close("all")
    return len(caught)


def run_page(page, seed):
    """Run the blocks of a page with another seed in `pt.sample`; return for each call if the chains disagreed."""
    import matplotlib.pyplot as plt

    import pactree_mcmc as pt

    sample, disagreed = pt.sample, []

    def sample_with_seed(*args, **kwargs):
        with recorded() as caught:
            post = sample(*args, **{**kwargs, "rng": seed, "progress": False})
        disagreed.append(any(issubclass(one.category, pt.ConvergenceWarning) for one in caught))
        for one in caught:
            warnings.warn(one.message, stacklevel=2)
        return post

    pt.sample, names = sample_with_seed, {"__name__": "page"}
    try:
        for excuse, block in BLOCK.findall(page.read_text(encoding="utf-8")):
            if not excuse:
                exec(compile(block, str(page), "exec"), names)
    except Exception as failed:  # an assertion that holds for the draws of the page
        print(f"{page.name}, seed {seed}: {failed!r}", file=sys.stderr)
    finally:
        pt.sample = sample
        plt.close("all")
    return disagreed


@contextlib.contextmanager
def recorded():
    """Record all warnings, except that NumPy has no such feature to switch off."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", ImportWarning)
        yield caught


def run_seeds(name, n_seeds):
    """Print, as JSON, the seeds of the example (or the README) that warned, and the CPU seconds of each seed."""
    began = time.process_time()
    import breast_cancer  # noqa: F401

    imports, warned, seconds = time.process_time() - began, [], []
    for seed in range(1, n_seeds + 1):
        began = time.process_time()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            count = run_example(seed) if name == "example" else sum(run_page(ROOT / "README.md", seed))
        seconds.append(imports + time.process_time() - began)
        warned += [seed] * bool(count)
    print(json.dumps([warned, seconds]))


def compare_settings(n_seeds):
    """Print a row for each setting, and return if anything warned."""
    print("| program | setting | seeds that warned | CPU s, median | CPU s, most |")
    print("| --- | --- | --- | --- | --- |")
    any_warned = False
    for name in ("example", "readme"):
        for setting in settings():
            command = [sys.executable, __file__, "--seeds", str(n_seeds), "--run", name]
            with tempfile.TemporaryDirectory() as folder:
                done = subprocess.run(
                    command, env=os.environ | setting, cwd=folder, stdout=subprocess.PIPE, text=True, check=True
                )
            warned, seconds = json.loads(done.stdout)
            any_warned |= bool(warned)
            cells = [
                name,
                " ".join(f"`{variable}={value}`" for variable, value in setting.items()) or "none",
                ", ".join(map(str, warned)) or f"none of {n_seeds}",
                f"{statistics.median(seconds):.1f}",
                f"{max(seconds):.1f}",
            ]
            print(f"| {' | '.join(cells)} |", flush=True)
    return any_warned


def count_on_pages(pages, n_seeds):
    """Print, for each call of `pt.sample` on each page, how many of the seeds warned."""
    for page in pages:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            (Path(folder) / "examples").symlink_to(ROOT / "examples")
            with contextlib.redirect_stdout(io.StringIO()):
                runs = [run_page(page, seed) for seed in range(1, n_seeds + 1)]
        counts = [sum(one) for one in zip(*runs, strict=False)]
        print(f"{page.name}: of {n_seeds} seeds warned, call by call: {counts}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10, metavar="N", help="the seeds 1 to N (default: 10)")
    parser.add_argument("--pages", nargs="+", type=Path, metavar="PAGE", help="pages instead of example and README")
    parser.add_argument("--run", choices=["example", "readme"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.run:
        run_seeds(args.run, args.seeds)
        return 0
    if args.pages:
        count_on_pages([page.resolve() for page in args.pages], args.seeds)
        return 0
    return int(compare_settings(args.seeds))


if __name__ == "__main__":
    sys.exit(main())
