"""Settings made before anything is imported; which cases run without ``--all``, and in which order files run."""

import contextlib
import gc
import importlib
import os
from pathlib import Path

import pytest
from platformdirs import user_cache_path

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

NO_CASES = pytest.StashKey[dict]()
"""Ids that a mark ``more`` names although there is no such case, by function."""


def pytest_addoption(parser):
    """Add ``--all``: run the cases marked ``more``, too."""
    parser.addoption("--all", action="store_true", help="run all cases, not only those of every day")


def pytest_configure(config):
    """Let workers take files in the order of collection."""
    config.option.loadscopereorder = False
    config.stash[NO_CASES] = {}


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem(collector):
    """Note marks ``more`` that name cases which their functions do not have (`tests/project/test_imports.py`)."""
    items = yield
    for item in items if isinstance(items, list) else ():
        cases = {one.callspec.id for one in items if hasattr(one, "callspec")}
        for mark in item.iter_markers("more"):
            no_cases = sorted(set(mark.kwargs.get("everyday", ())) - cases)
            if no_cases:
                collector.config.stash[NO_CASES][item.nodeid.partition("[")[0]] = no_cases
    return items


def pytest_collection(session):
    """In a first run each worker rewrites the assertions of its part of the files, and finds the others on disk."""
    number = os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")
    if number and "tests" in {Path(arg).name for arg in session.config.args}:
        n_workers = int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
        for path in sorted(Path(__file__).parent.rglob("test_*.py"))[int(number) :: n_workers]:
            # the collection reports errors
            with contextlib.suppress(Exception):
                importlib.import_module(".".join(path.relative_to(session.config.rootpath).with_suffix("").parts))


@pytest.fixture(scope="session", autouse=True)
def sampler_compiled_as_one(request):
    """Before the first chain, whatever its kernel, all that any kernel calls is made ready."""
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
    """Leave out what runs with ``--all`` only, sort the files, and name tests that plant bugs."""
    if not config.option.all:
        config.hook.pytest_deselected(items=[item for item in items if not is_everyday(item)])
        items[:] = [item for item in items if is_everyday(item)]
    items.sort(key=lambda item: not item.path.as_posix().endswith(COMPILES_MOST))
    for item in items:
        if item.get_closest_marker("planted"):
            item.user_properties.append(("planted", "yes"))
        if is_everyday(item):
            item.user_properties.append(("everyday", "yes"))


def is_everyday(item):
    """Return False if a case runs with ``--all`` only."""
    case = item.callspec.id if hasattr(item, "callspec") else ""
    return all(case in mark.kwargs.get("everyday", ()) for mark in item.iter_markers("more"))


def pytest_collection_finish():
    """What imports have made stays: a collection of garbage need not look through it again and again."""
    gc.freeze()
