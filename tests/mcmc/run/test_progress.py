"""What is said on the standard error while chains run, and while their code is compiled."""

import io
import os
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import pactree_mcmc as pt
from pactree_mcmc.core.compile.cache import CodeCache
from pactree_mcmc.faces.sklearn import base as _estimator_base
from pactree_mcmc.mcmc.kernel import read_kernel
from pactree_mcmc.mcmc.run import progress as _progress
from pactree_mcmc.mcmc.run.entries import entries
from pactree_mcmc.mcmc.run.progress import Progress, n_missing
from tests.programs import run

X = np.arange(40.0)[:, None]
MODEL = pt.TreeModel(X, X[:, 0] > 19)
RUN = {"draws": 300, "tune": 30, "chains": 2, "rng": 1, "kernel": "grow-prune"}


class Stream(io.StringIO):
    def __init__(self, terminal):
        super().__init__()
        self.terminal = terminal

    def isatty(self):
        return self.terminal


@pytest.fixture(params=[True, False], ids=["terminal", "file"])
def stream(request, monkeypatch):
    """A function that puts such a stream in the place of the standard error: pytest sets its own behind fixtures."""

    def put():
        made = Stream(request.param)
        monkeypatch.setattr(sys, "stderr", made)
        return made

    return put


def test_lines_where_there_is_no_terminal(monkeypatch):
    pt.sample(MODEL, **RUN, progress=False)
    made = Stream(False)
    monkeypatch.setattr(sys, "stderr", made)
    pt.sample(MODEL, **RUN)
    assert made.getvalue() == ""
    monkeypatch.setattr(_progress, "SECONDS", 0.0)
    pt.sample(MODEL, **RUN)
    last = made.getvalue().splitlines()[-1]
    assert last.startswith("600 of 600 draws after ")
    assert ", acceptance 0." in last
    pt.sample(MODEL, **RUN, progress=False)
    assert made.getvalue().splitlines()[-1] == last


def test_chains_on_an_executor_are_told_as_they_end(monkeypatch):
    made = Stream(False)
    monkeypatch.setattr(sys, "stderr", made)
    monkeypatch.setattr(_progress, "SECONDS", 0.0)
    with ThreadPoolExecutor(1) as pool:
        pt.sample(MODEL, **RUN, executor=pool)
    assert [line.split(" after")[0] for line in made.getvalue().splitlines()] == [
        "300 of 600 draws",
        "600 of 600 draws",
    ]


@pytest.mark.slow
def test_estimators_are_silent_unless_told(stream, monkeypatch):
    stream = stream()
    monkeypatch.setattr(_progress, "SECONDS", 0.0)
    few, y = {"n_estimators": 400, "work": 1e5, "random_state": 0}, X[:, 0] > 19
    monkeypatch.setattr(_estimator_base, "MOST_CELLS", 1)
    quiet = pt.BayesianTreeClassifier(**few).fit(X, y)
    assert stream.getvalue() == ""
    loud = pt.BayesianTreeClassifier(**few, verbose=1).fit(X, y)
    assert "400" in stream.getvalue()
    assert np.array_equal(quiet.predict_proba(X), loud.predict_proba(X))
    with pytest.raises(ValueError, match="verbose=-1 is out of range; give an integer >= 0"):
        pt.BayesianTreeRegressor(verbose=-1).fit(X, X[:, 0])


class Absent(CodeCache):
    """A cache that holds nothing, or only code for other types."""

    def __init__(self, function, other_types=False):
        super().__init__(function)
        self.other_types = other_types

    @property
    def has_code(self):
        return self.other_types

    _files = None


def miss(function):
    """What numba asks of the cache before it compiles."""
    function._cache.load_overload(None, None)


@pytest.fixture
def kernel(monkeypatch):
    """The kernel "grow-prune", its first and last functions not compiled yet."""
    made = read_kernel("grow-prune")
    functions = entries(made, False)
    if not hasattr(functions[0], "_cache"):
        pytest.skip("nothing is compiled")
    for function in functions:
        cache = Absent(function.py_func)
        cache.__class__ = Absent if function in (functions[0], *functions[-2:]) else Known
        monkeypatch.setattr(function, "_cache", cache)
        monkeypatch.setattr(function, "overloads", {})
    return made


class Known(Absent):
    """A cache that holds the code asked for."""

    @property
    def has_code(self):
        return True


def test_compiling_is_told_once_where_there_is_no_terminal(kernel, stream):
    stream = stream()
    functions = entries(kernel, False)
    with Progress(10, True, kernel, False) as progress:
        for function in (functions[0], *functions[-2:]):
            miss(function)
        compiling = progress.compiling
    assert compiling == "compiling 3 of 3"
    if stream.terminal:
        assert all(f"compiling {i} of 3" in stream.getvalue() for i in (1, 2, 3))
    else:
        assert stream.getvalue() == "compiling 1 of 3, once; later runs find it on disk\n"


def test_code_for_another_kind_of_table_counts_as_missing(kernel):
    functions = entries(kernel, False)
    assert n_missing(functions, functions[0]._cache) == 3
    functions[0]._cache.other_types = True
    assert n_missing(functions, functions[0]._cache) == len(functions)
    assert n_missing(functions, functions[1]._cache) == len(functions) - 1


@pytest.mark.slow
def test_entries_are_those_a_run_compiles(tmp_path):
    """In a process with an empty cache, what is announced is what is compiled."""
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "NUMBA_DISABLE_JIT": "0"}
    done = run("compiled_from_nothing", env=env)
    seen = done.stdout.split()
    expected = [function.__qualname__ for function in entries(read_kernel("grow-prune"), False)]
    # that of the root's line is called when the room of a chain is computed
    assert set(expected) <= set(seen) <= {*expected, "line_levels"}
    assert done.stderr.splitlines()[0] == f"compiling 1 of {len(expected)}, once; later runs find it on disk"
