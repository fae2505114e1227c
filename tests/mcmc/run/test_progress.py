"""What is said on the standard error while chains run, and while their code is compiled."""

import io
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import pactree_mcmc as pt
from pactree_mcmc.core.compile.cache import CodeCache, notify_watchers
from pactree_mcmc.faces.sklearn import estimators as _estimator_base
from pactree_mcmc.mcmc import course as _course
from pactree_mcmc.mcmc.run import loop as _loop
from pactree_mcmc.mcmc.run import run as _progress
from pactree_mcmc.mcmc.run.run import Progress

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
    monkeypatch.setattr(_progress, "SECONDS_BETWEEN_LINES", 0.0)
    pt.sample(MODEL, **RUN)
    last = made.getvalue().splitlines()[-1]
    assert last.startswith("600 of 600 draws after ")
    assert ", acceptance 0." in last
    pt.sample(MODEL, **RUN, progress=False)
    assert made.getvalue().splitlines()[-1] == last


def test_chains_on_an_executor_are_told_as_they_end(monkeypatch):
    pt.sample(MODEL, **RUN, progress=False)
    made = Stream(False)
    monkeypatch.setattr(sys, "stderr", made)
    monkeypatch.setattr(_progress, "SECONDS_BETWEEN_LINES", 0.0)
    with ThreadPoolExecutor(1) as pool:
        pt.sample(MODEL, **RUN, executor=pool)
    every = ["tuning, 30 of 60 steps", "tuning, 60 of 60 steps", "300 of 600 draws", "600 of 600 draws"]
    told = [line.split(" after")[0] for line in made.getvalue().splitlines()]
    # both chains may end between two looks
    assert told == [line for line in every if line in told] and told[-1] == every[-1]


@pytest.mark.more
def test_estimators_are_silent_unless_told(stream, monkeypatch):
    stream = stream()
    monkeypatch.setattr(_progress, "SECONDS_BETWEEN_LINES", 0.0)
    few, y = {"n_estimators": 400, "work": 1e5, "random_state": 0}, X[:, 0] > 19
    monkeypatch.setattr(_estimator_base, "MAX_EXACT_CELLS", 1)
    quiet = pt.BayesianTreeClassifier(**few).fit(X, y)
    assert stream.getvalue() == ""
    loud = pt.BayesianTreeClassifier(**few, verbose=1).fit(X, y)
    assert "400" in stream.getvalue()
    assert np.array_equal(quiet.predict_proba(X), loud.predict_proba(X))
    with pytest.raises(ValueError, match="verbose=-1 is out of range; give an integer >= 0"):
        pt.BayesianTreeRegressor(verbose=-1).fit(X, X[:, 0])


def test_compiling_is_announced_once_unless_there_is_a_terminal(stream):
    stream, cache = stream(), CodeCache(test_lines_where_there_is_no_terminal)
    with Progress(True) as progress:
        notify_watchers(cache)
        notify_watchers(cache)
        assert progress.compiling == "compiling function 2"
    if stream.terminal:
        assert all(f"compiling function {i}" in stream.getvalue() for i in (1, 2))
    else:
        assert stream.getvalue() == "compiling, once; later runs find the code on disk\n"


def test_lines_say_what_failed_last_and_when_the_run_ends(monkeypatch):
    made = Stream(False)
    monkeypatch.setattr(sys, "stderr", made)
    monkeypatch.setattr(_progress, "SECONDS_BETWEEN_LINES", 0.0)
    monkeypatch.setattr(_course, "log_posterior_failure", lambda log_posterior: "worst R-hat 1.234 (log posterior)")
    monkeypatch.setattr(_loop, "BLOCK_SECONDS", -1.0)
    pt.sample(MODEL, 250, chains=4, rng=1, kernel="local", steps=1000)
    lines = made.getvalue().splitlines()
    assert any("ends within" in line and "R-hat" not in line for line in lines)
    assert ", worst R-hat 1.234 (log posterior), ends within " in lines[-1]
