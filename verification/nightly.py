"""Which cases of the tests wait for the night, chosen by the seconds each takes: writes tests/nightly.txt.

    python verification/nightly.py measure [FILE]     run the everyday tests and those listed, one after the other, and
                                                      write the processor seconds of each, compiling left out
    python verification/nightly.py choose [FILE]      choose from what was measured

Of every test function the cheapest case stays, if it takes no more than MOST seconds; a case of at most FREE seconds
stays too. Then those stay that try a value of a parameter which no other case of the function tries yet, most values a
second first, as long as all that stay take no more than BUDGET seconds. Functions in KEPT keep their cheapest case and
cases in KEPT stay, whatever they take.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import pytest
from numba.core import event

ROOT = Path(__file__).resolve().parents[1]
LIST = ROOT / "tests" / "nightly.txt"
BUDGET, MOST, FREE = 70.0, 0.3, 0.005
KEPT = {
    "tests/mcmc/run/test_length.py::test_the_default_run_repeats",
    "tests/mcmc/run/test_checkpoint.py::test_killed_run_is_finished",
    "tests/mcmc/run/test_learn.py::test_threads_and_processes_draw_the_same",
    "tests/project/test_imports.py::test_the_picture_is_up_to_date",
    "tests/whole/test_hostile.py::test_a_sample_of_the_calls",
}
PAGES = (
    *("index", "tutorial", "exact", "howto_estimators", "howto_exact_or_sampled", "howto_intervals", "howto_missing"),
    *("migrating", "theory_dyadic", "theory_pac_bayes", "theory_progressive", "tree_format"),
)
"""Pages of the documentation that are run every day: the first two that a newcomer reads, and those of a second."""
KEPT |= {f"tests/project/test_docs.py::test_blocks_of_the_page_run[{page}.md]" for page in PAGES}


class _Compiling(event.Listener):
    """Processor seconds spent in numba's compiler."""

    def __init__(self) -> None:
        self.depth, self.seconds, self.began = 0, 0.0, 0.0

    def on_start(self, event: object) -> None:
        self.began = time.process_time() if self.depth == 0 else self.began
        self.depth += 1

    def on_end(self, event: object) -> None:
        self.depth -= 1
        self.seconds += time.process_time() - self.began if self.depth == 0 else 0.0


class Seconds:
    """A plugin that writes the seconds of every test, its fixtures and its child processes included."""

    def __init__(self, path: Path) -> None:
        self.file, self.compiling = path.open("w", buffering=1), _Compiling()
        event.register("numba:compiler_lock", self.compiling)

    def used(self) -> float:
        """So far."""
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.process_time() + children.ru_utime + children.ru_stime - self.compiling.seconds

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item):
        """Time one."""
        before = self.used()
        result = yield
        self.file.write(f"{self.used() - before:.3f}\t{item.nodeid}\n")
        return result


def pytest_configure(config: pytest.Config) -> None:
    """As a plugin, which workers of pytest-xdist load too."""
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        worker = os.environ.get("PYTEST_XDIST_WORKER", "")
        config.pluginmanager.register(Seconds(Path(os.environ["SECONDS_OF_TESTS"] + worker)))


def measure(path: Path) -> None:
    """Run what is run every day and what is listed."""
    options = ["-o", "addopts=--doctest-modules --strict-markers", "-m", "not slow", "--nightly", "-q"]
    env = os.environ | {"SECONDS_OF_TESTS": str(path)}
    subprocess.run([sys.executable, "-m", "pytest", "-p", "verification.nightly", *options], cwd=ROOT, env=env)


def choose(path: Path) -> None:
    """Write the list."""
    seconds = {}
    for line in path.read_text().splitlines():
        took, name = line.split("\t", 1)
        seconds[name] = max(float(took), 0.001)
    functions = defaultdict(list)
    for name in seconds:
        functions[name.partition("[")[0]].append(name)
    kept = {name for name, took in seconds.items() if took <= FREE or name in KEPT}
    dear = []
    for function, names in functions.items():
        cheapest = min(names, key=seconds.__getitem__)
        if seconds[cheapest] <= MOST or function in KEPT:
            kept.add(cheapest)
        else:
            dear.append((seconds[cheapest], function))
    spent, tried = sum(seconds[name] for name in kept), {word for name in kept for word in _words(name)}
    left = {name: _words(name) for name in seconds if name not in kept}
    while left:
        gain, name = max((len(words - tried) / seconds[name], name) for name, words in left.items())
        if gain == 0.0:
            break
        words = left.pop(name)
        if spent + seconds[name] <= BUDGET and seconds[name] <= MOST:
            spent, tried = spent + seconds[name], tried | words
            kept.add(name)
    LIST.write_text("".join(f"{name}\n" for name in sorted(set(seconds) - kept)))
    print(f"{len(kept)} of {len(seconds)} cases stay, {spent:.0f} of {sum(seconds.values()):.0f} s; untried every day:")
    for took, function in sorted(dear, reverse=True):
        print(f"{took:6.1f}  {function}")


def _words(name: str) -> set[tuple[str, int, str]]:
    function, _, case = name.partition("[")
    return {(function, place, word) for place, word in enumerate(case.rstrip("]").split("-"))}


def main() -> None:
    """Measure or choose."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["measure", "choose"])
    parser.add_argument("file", nargs="?", default="seconds_of_tests.txt", help="seconds of every case")
    args = parser.parse_args()
    (measure if args.what == "measure" else choose)(Path(args.file).absolute())


if __name__ == "__main__":
    main()
