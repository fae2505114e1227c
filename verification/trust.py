"""Write the page on trust: tests, their time, planted bugs, and what caught them.

    python -m pytest --all --junitxml=tests.xml
    python verification/planted.py
    python verification/run.py
    python verification/fuzz.py --keep
    python verification/fuzz.py --files 10000 --keep
    python verification/trust.py tests.xml [more.xml ...]

Writes docs/trust.md from the results of the other commands. Of a test in several files the last result counts. The exit
status is 1 if any failed or is missing.
"""

import argparse
import collections
import json
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import NamedTuple

from report import table

ROOT = Path(__file__).resolve().parents[1]
FOUND = ROOT / "docs" / "verification"
PARTS = ("calibration", "joint", "prior", "evidence", "distances")

FOLDERS = {
    **dict.fromkeys(
        ("mcmc", "smc"),
        "The sampler: transition matrices of moves, planted errors, states, runs, executors, checkpoints",
    ),
    **dict.fromkeys(("exact", "reference"), "The exact engine against enumeration of all trees"),
    "model": "Models: priors, leaf scores, numerics against arbitrary precision",
    **dict.fromkeys(("table", "tree"), "Tables and trees: columns, categories, coding"),
    "core": "Compiled code and its cache",
    "posterior": "Posteriors: answers and diagnostics",
    "certificates": "Certificates: coverage, enumeration, published values",
    **dict.fromkeys(("files", "loading"), "Files: saved, damaged and forged"),
    "faces": "Estimators, plots, report",
    "testing": "Checks for users' moves, leaves and split priors",
    "whole": "Pinned draws, published values, invariances, faults, hostile input",
    "project": "Pages, imports, types, benchmarks",
}
"""Subjects of the tests by folder. Other tests are examples of docstrings."""

FAULTS = {
    "Ctrl-C in tuning": ("tests.mcmc.run.test_interruption::test_nothing_drawn_is_raised",),
    "Ctrl-C in sampling": ("tests.mcmc.run.test_interruption::test_draws_so_far_are_returned",),
    "Ctrl-C between chains": ("tests.mcmc.run.test_interruption::test_finished_chains_of_an_executor_are_returned",),
    "a signal from another process": ("tests.mcmc.run.test_interruption::test_a_run_ends_at_once",),
    "memory limit reached": ("tests.whole.test_faults::test_no_memory",),
    "full disk while saving": ("tests.files.test_save::test_full_disk_keeps_the_old_file",),
    "disk that fills up under checkpoints": ("tests.whole.test_faults::test_a_disk_that_fills_up_under_a_run",),
    "process killed (SIGKILL) in a checkpointed run": ("tests.mcmc.test_resume::test_killed_run_is_finished",),
    "worker killed": (
        "tests.mcmc.run.test_executors::test_process_that_dies",
        "tests.mcmc.run.test_executors::test_lost_chain_is_finished_from_the_checkpoint",
    ),
    "truncated file": ("tests.loading.test_damage::test_truncated",),
    "altered or forged file": (
        "tests.loading.test_damage::test_flipped_bytes_of_the_content_are_refused",
        "tests.loading.test_damage::test_a_sample_of_changed_files",
        "tests.loading.test_damage::test_trees_that_lead_nowhere",
        "tests.loading.test_damage::test_description_that_makes_no_sense",
    ),
}
"""Tests that show that the library survives a fault, by fault."""

TEXT = """# Trust

For those who must decide whether to rely on the library. After this page you know how many tests there are, which
planted bugs they caught, what hostile input and which faults were tried, and what failed. `python verification/trust.py
tests.xml` writes this page from the results of other commands. You can run each of them again, with the same fixed
seeds. [Statistical verification](verification.md) has a page of its own. The seconds were measured on a machine of two
cores that also did other work.

## Tests

`python -m pytest --all --junitxml=tests.xml` runs all tests, and without `--all` those of every day, which are fixed in
the source. On {day} {n_tests} tests were run, among them the {n_everyday} of every day: {failed} failed, {skipped} were
skipped, {seconds:.0f} s in all, compiling included. Of a test that was mended and run again the last result counts.
Seeds are fixed, so a test that passes passes again: the false-alarm rate is 0. Some tests plant bugs of their own:
errors that they put into the code, or into its stored state, and must detect.

{levels}

## Planted in a copy of the sources

`python verification/planted.py` puts {n_planted} bugs into a copy of the sources, one at a time, and runs everyday
tests until one fails. {n_noticed} were noticed.

{planted}

## Hostile input

`python verification/fuzz.py --keep` and `python verification/fuzz.py --files 10000 --keep`: random calls of the public
functions and methods with hostile arguments, and changed copies of saved posteriors. "Refused" means a documented
error. "Wrong" means any other error, a warning of another library, a NaN, a wrong shape, a crash, or no answer within
two minutes.

{fuzz}

## Faults

{faults}

## Same seed, same bits

Draws of three small runs are pinned by digest (`tests/whole/test_pinned_draws.py`): threads, executors and repeated
runs give the same (`tests/mcmc/run/test_executors.py`, `tests/mcmc/test_sample.py`), and so do Python 3.11 to 3.13, and
the oldest dependencies allowed (`python verification/oldest.py`).
"""


class Test(NamedTuple):
    """A test of the suite: its module and name, its seconds, its outcome, True if it plants a bug or is everyday."""

    module: str
    name: str
    seconds: float
    outcome: str
    planted: bool
    everyday: bool


def read_tests(paths):
    """Return the tests in JUnit files, and the day on which the first ran."""
    suites = [ElementTree.parse(path).getroot().find("testsuite") for path in paths]
    tests = {}
    for case in (case for suite in suites for case in suite.iter("testcase")):
        outcome = next((kind for kind in ("failure", "error", "skipped") if case.find(kind) is not None), "passed")
        marks = {one.get("name") for one in case.iter("property")}
        seconds, module, name = float(case.get("time")), case.get("classname"), case.get("name")
        tests[module, name] = Test(module, name, seconds, outcome, "planted" in marks, "everyday" in marks)
    return list(tests.values()), suites[0].get("timestamp")[:10]


def subject_of(module):
    """Return the subject of a test module."""
    parts = module.split(".")
    return FOLDERS.get(parts[1], "Others") if parts[0] == "tests" else "Examples of docstrings"


def subjects(tests):
    """Return the table of the tests by subject."""
    rows = []
    for subject in dict.fromkeys([*FOLDERS.values(), "Others", "Examples of docstrings"]):
        here = [test for test in tests if subject_of(test.module) == subject]
        planted = [test for test in here if test.planted]
        caught = sum(test.outcome == "passed" for test in planted)
        n_everyday, seconds = sum(test.everyday for test in here), sum(test.seconds for test in here)
        if here:
            rows.append((subject, n_everyday, len(here), f"{seconds:.0f}", f"{caught} of {len(planted)}"))
    return table(("subject", "everyday tests", "tests run", "seconds", "own bugs caught"), rows)


def planted(found):
    """Return the table of the bugs planted in a copy; ``found`` is docs/verification/planted.json."""
    bugs = collections.defaultdict(list)
    for one in found:
        bugs[one["part"], one["caught"] and one["caught"].partition("[")[0]].append(one["bug"])
    rows = [(part, "; ".join(texts), f"`{test}`" if test else "**nothing**") for (part, test), texts in bugs.items()]
    return table(("part", "bugs", "noticed by"), rows)


def fuzz(results):
    """Return the table of the fuzzers; ``results`` are their records by name."""
    rows = [
        (
            what,
            one["day"],
            f"{one['n']:,}",
            one["seed"],
            one["seconds"],
            f"{one['kinds'].get('refused', 0):,}",
            f"{one['kinds'].get('answered', 0):,}",
            one["wrong"],
            " to ".join(map(str, one["megabytes"])),
        )
        for what, one in results.items()
    ]
    return table(
        ("of", "day", "number", "seed", "seconds", "refused", "answered", "wrong", "memory, second half, MB"), rows
    )


def faults(tests):
    """Return the table of the faults, and True if all are survived."""
    rows, survived = [], True
    for fault, names in FAULTS.items():
        here = [test for test in tests if f"{test.module}::{test.name.partition('[')[0]}" in names]
        good = len({test.name.partition("[")[0] for test in here if test.outcome == "passed"}) == len(names)
        good &= not any(test.outcome in ("failure", "error") for test in here)
        survived &= good
        shown = ", ".join(f"`{name.replace('.', '/').replace('::', '.py::')}`" for name in names)
        rows.append((fault, "yes" if good else "**no**", shown))
    return table(("fault", "survived", "shown by"), rows), survived


def main():
    """Write the page, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("junit", type=Path, nargs="+", help="file written by pytest --junitxml")
    tests, day = read_tests(parser.parse_args().junit)
    results = [json.loads((FOUND / f"{name}.json").read_text()) for name in PARTS]
    fuzzed = {what: json.loads((FOUND / f"fuzz_{what}.json").read_text()) for what in ("calls", "files")}
    shown, survived = faults(tests)
    failed = sum(test.outcome in ("failure", "error") for test in tests)
    bugs = json.loads((FOUND / "planted.json").read_text())
    n_noticed, n_everyday = sum(one["caught"] is not None for one in bugs), sum(test.everyday for test in tests)
    page = TEXT.format(
        n_planted=len(bugs),
        n_noticed=n_noticed,
        planted=planted(bugs),
        n_tests=f"{len(tests):,}",
        n_everyday=f"{n_everyday:,}",
        failed=failed,
        skipped=sum(test.outcome == "skipped" for test in tests),
        seconds=sum(test.seconds for test in tests),
        day=day,
        levels=subjects(tests),
        fuzz=fuzz(fuzzed),
        faults=shown,
    )
    (ROOT / "docs" / "trust.md").write_text(page)
    good = survived and not failed and n_noticed == len(bugs) and all(one["passed"] for one in results)
    return 0 if good and not any(one["wrong"] for one in fuzzed.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
