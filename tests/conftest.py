"""Settings made before anything is imported; which cases run today, and in which order files run."""

import contextlib
import gc
import importlib
import os
from datetime import date
from pathlib import Path

import pytest
from platformdirs import user_cache_path

from tests.days import DAYS, cases_of_day

os.environ.setdefault("MPLBACKEND", "Agg")


def _can_keep_code():
    """Return True if the user has a folder of compiled code, which all workers and programs share."""
    try:
        folder = user_cache_path("pactree-mcmc", appauthor=False)
    except RuntimeError:
        return False
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder.is_absolute() and os.access(folder, os.W_OK)


if not _can_keep_code():
    os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(__file__).parents[1] / ".numba_cache"))

MANY = 2000
"""Number of tests of a session above which rarely called functions are compiled together."""
COMPILES_MOST = ("exact/recursion/test_enumeration.py", "posterior/test_convergence.py")


def pytest_addoption(parser):
    """Add ``--day``: the day whose cases run, of those marked ``tenth_a_day``."""
    parser.addoption("--day", help="a number, whose last digit counts, or all; today if left out", type=_read_day)


def _read_day(text):
    return text if text == "all" else int(text) % DAYS


def pytest_configure(config):
    """Fix the day, which workers get with the options; workers take files in the order of collection."""
    if config.option.day is None:
        config.option.day = date.today().toordinal() % DAYS
    config.option.loadscopereorder = False


def pytest_collection(session):
    """In a first run each worker rewrites the assertions of its part of the files, and finds the others on disk.

    pytest rewrites them when it imports a file of tests. Without this every worker would do it for every file.
    """
    number = os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")
    if number and "tests" in {Path(arg).name for arg in session.config.args}:
        n_workers = int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
        for path in sorted(Path(__file__).parent.rglob("test_*.py"))[int(number) :: n_workers]:
            # the collection reports errors
            with contextlib.suppress(Exception):
                importlib.import_module(".".join(path.relative_to(session.config.rootpath).with_suffix("").parts))


def pytest_sessionstart(session):
    """Print the day first, with ``-q`` too, which leaves out what ``pytest_report_header`` returns."""
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None:
        terminal.write_line(f"cases of functions marked tenth_a_day: --day {session.config.option.day}")


@pytest.fixture(scope="session", autouse=True)
def sampler_compiled_as_one(request):
    """Before the first chain, whatever its kernel, all that any kernel calls is made ready.

    If most tests run, functions that few tests call are, too.
    """
    from pactree_mcmc.mcmc.chain.chain import Chain

    from .problems.compiled import compile_all

    init = Chain.__init__

    def make_ready_and_init(chain, *args, **kwargs):
        compile_all(with_rare=len(request.session.items) > MANY)
        init(chain, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Chain, "__init__", make_ready_and_init)
        yield


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config, items):
    """Choose the cases of the day from what ``-k`` and ``-m`` leave, sort the files, and name tests that plant bugs.

    One worker begins with the exact engine, one with the sampler. What one has compiled the other finds on disk,
    unless it needs it at the same time. Reports (--junitxml) say which tests plant bugs.
    """
    if config.option.day != "all":
        by_turns = [
            item.nodeid
            for item in items
            if item.get_closest_marker("tenth_a_day") and not item.get_closest_marker("slow")
        ]
        others = set(by_turns) - cases_of_day(by_turns, config.option.day)
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in others])
        items[:] = [item for item in items if item.nodeid not in others]
    items.sort(key=lambda item: not item.path.as_posix().endswith(COMPILES_MOST))
    for item in items:
        if item.get_closest_marker("planted"):
            item.user_properties.append(("planted", "yes"))


def pytest_collection_finish():
    """What imports have made stays: a collection of garbage need not look through it again and again."""
    gc.freeze()
