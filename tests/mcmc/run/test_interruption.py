"""Runs that Ctrl-C, SIGINT or the clock ends return what was drawn; what is said on the way."""

import io
import itertools
import pickle
import signal
import subprocess
import sys
import time
import warnings
from collections import Counter
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import pytest

import pactree_mcmc as pt
from pactree_mcmc.core.compile.cache import CodeCache, notify_watchers
from pactree_mcmc.faces.sklearn import estimators as _estimator_base
from pactree_mcmc.mcmc import course as _course
from pactree_mcmc.mcmc.run import loop as _loop
from pactree_mcmc.mcmc.run import run as _progress
from pactree_mcmc.mcmc.run import run as _run
from pactree_mcmc.mcmc.run.loop import MAX_SPEED_UP, slices
from pactree_mcmc.mcmc.run.run import Progress, Stop
from tests import ROOT
from tests.mcmc.run.test_executors import SPAWN
from tests.mcmc.test_sample import MODEL, assert_same_draws, chain_trees
from tests.problems.runs import MODELS, assert_same
from tests.programs import command
from tests.programs.interrupted_at import table

NOTHING = "nothing to return"
AT = {
    # moment: rows of the table, what is said
    "rounds": (2000, f"KeyboardInterrupt: interrupted before every chain had a draw; {NOTHING}"),
    "rounds on an executor": (2000, f"KeyboardInterrupt: interrupted before a chain had finished; {NOTHING}"),
    "pilot": (100_000, f"KeyboardInterrupt: interrupted before every chain had a draw; {NOTHING}"),
    "tuning": (2000, f"KeyboardInterrupt: interrupted before every chain had a draw; {NOTHING}"),
    "drawing": (2000, "returned "),
    "judging": (200, "returned 300 draws of 4 chains"),
    "warning": (200, "returned 30 draws of 4 chains"),
    "resuming": (200, "returned "),
}
WAIT, AGAIN, MOST = 0.3, 5.0, 4.0
"""Seconds from the moment to the signal, to another one if nothing comes of it, and to the end of the run."""
SLACK = 4.0
"""Seconds that loading compiled code and judging the draws may take on a busy machine."""
X = np.arange(40.0)[:, None]
LINE = pt.TreeModel(X, X[:, 0] > 19)
RUN = {"draws": 300, "tune": 30, "chains": 2, "rng": 1, "kernel": "grow-prune"}


@pytest.fixture
def interrupt_after(monkeypatch):
    """Make the main thread see Ctrl-C once all three chains have finished n blocks, each of which is one draw long."""
    monkeypatch.setattr(_loop, "BLOCK_SECONDS", -1.0)
    real, blocks_of_chain, raised = _loop.wait, Counter(), []

    def arm(n):
        for kernel in ("default", "grow-prune", "blanchard"):
            pt.sample(MODEL, 1, tune=1, chains=3, rng=1, kernel=kernel, progress=False)

        def wait(chain_of_task, **kwargs):
            done, pending = real(chain_of_task, **kwargs)
            blocks_of_chain.update(chain_of_task[task] for task in done)
            if len(blocks_of_chain) == 3 and min(blocks_of_chain.values()) >= n and not raised:
                raised.append(True)
                raise KeyboardInterrupt
            return done, pending

        monkeypatch.setattr(_loop, "wait", wait)

    return arm


def sample(draws, **rest):
    return pt.sample(MODEL, draws, chains=3, rng=1, start="stump", progress=False, **rest)


@pytest.mark.parametrize(("kernel", "tune"), [("grow-prune", 0), ("blanchard", 2)])
def test_draws_so_far_are_returned(kernel, tune, interrupt_after):
    """Every chain keeps equally many draws, the first ones of an uninterrupted run, and no other trees."""
    interrupt_after(8)
    with pytest.warns(UserWarning, match=r"interrupted: \d+ of 100000 draws a chain"):
        cut = sample(100_000, tune=tune, kernel=kernel)
    assert 1 <= cut.n_draws < 100_000 and cut.n_chains == 3
    assert_same_draws(cut, sample(cut.n_draws, tune=tune, kernel=kernel))
    assert set(np.unique(cut.draws.tree_of_draw)) == set(range(cut.draws.n_distinct_trees))
    best = int(np.argmax(cut.draws.log_prior_of_tree + cut.draws.log_score_of_tree))
    assert cut.map_tree() == cut.draws.distinct_tree(best)


def test_nothing_drawn_is_raised(interrupt_after):
    interrupt_after(2)
    with pytest.raises(KeyboardInterrupt, match="nothing to return"):
        sample(10, tune=10**7)
    assert sample(10, tune=1).n_draws == 10


class HangingExecutor(Executor):
    """Runs the first ``n_done`` tasks. The result of the next one meets Ctrl-C, and further ones never end."""

    def __init__(self, n_done):
        self.n_done, self.futures = n_done, []

    def submit(self, fn, /, *args, **kwargs):
        future = Future()
        if len(self.futures) < self.n_done:
            future.set_result(fn(*args, **kwargs))
        elif len(self.futures) == self.n_done:
            future.set_result(None)
            future.result = self.interrupted
        self.futures.append(future)
        return future

    @staticmethod
    def interrupted(timeout=None):
        raise KeyboardInterrupt


def test_finished_chains_of_an_executor_are_returned():
    """Each chain has a task for its tuning, and one for its draws."""
    executor = HangingExecutor(4)
    with pytest.warns(UserWarning, match="1 of 3 chains had finished"):
        cut = sample(10, tune=1, executor=executor)
    assert cut.n_chains == 1 and chain_trees(cut, 0) == chain_trees(sample(10, tune=1), 0)
    assert executor.futures[5].cancelled()


def test_no_finished_chain_is_raised():
    with pytest.raises(KeyboardInterrupt):
        sample(10, tune=1, executor=HangingExecutor(0))


def interrupted(moment, rows):
    """What a run says that SIGINT meets a moment after it has come to a moment, and the seconds to its end."""
    # the standard error would fill its pipe
    process = subprocess.Popen(
        command("interrupted_at", moment, rows), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stdout.readline() == "there\n"
        time.sleep(WAIT)
        began = time.perf_counter()
        process.send_signal(signal.SIGINT)
        try:
            said = process.communicate(timeout=AGAIN)[0]
        except subprocess.TimeoutExpired:
            # Python drops a signal that meets it clearing a weak reference
            began = time.perf_counter()
            process.send_signal(signal.SIGINT)
            said = process.communicate(timeout=60)[0]
        return [line for line in said.splitlines() if line != "there"], time.perf_counter() - began
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.more(everyday=["rounds"])
@pytest.mark.parametrize("moment", list(AT))
def test_a_run_ends_at_once(moment):
    rows, expected = AT[moment]
    said, seconds = interrupted(moment, rows)
    assert said[0].startswith(expected), said
    assert seconds < MOST
    if expected.startswith("returned"):
        assert int(said[0].split()[1]) > 0 and any(line.startswith("interrupted") for line in said[1:]), said


@pytest.fixture(scope="module")
def large():
    model = pt.TreeModel(*table(2000))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for rest in ({"seconds": 1.0}, {"kernel": "local", "tune": 10}, {"betas": 3, "tune": 10}):
            pt.sample(pt.TreeModel(*table(60)), 4, rng=0, progress=False, **rest)
    return model


def timed(model, seconds, draws=1000, **rest):
    """A run with a time limit, its seconds, and the first lines of its warnings."""
    began = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        post = pt.sample(model, draws, rng=1, progress=False, seconds=seconds, **rest)
    return post, time.perf_counter() - began, [str(given.message).split("\n")[0] for given in caught]


@pytest.mark.more(everyday=["rest0"])
@pytest.mark.parametrize(
    "rest", [{}, {"kernel": "whole"}, {"kernel": "local"}, {"betas": 3}, {"betas": 3, "chains": 1}, {"work": 1e9}]
)
def test_tuning_counts(large, rest):
    """Ends in time, with equally many draws a chain that can be gone on with, and says what is missing."""
    draws = 20_000
    post, seconds, said = timed(large, 1.0, draws, **rest)
    assert seconds < 1.0 + SLACK and 1 <= post.n_draws < draws and post.n_chains == rest.get("chains", 4)
    assert len(post.course.rests) == post.n_chains and post.course.steps == post.n_draws
    (cut,) = [line for line in said if line.startswith("seconds=1 ended the run early")]
    assert f"{draws - post.n_draws} of {draws} draws of each chain" in cut
    assert f"pt.resume(post, {draws - post.n_draws})" in cut
    assert ("tuning from round" in cut) == (post.draws.tempering is None and bool(post.course.kernel.is_guided))
    more = pt.resume(post, 2, progress=False)
    assert more.n_draws == post.n_draws + 2 and np.array_equal(more.log_score[:, : post.n_draws], post.log_score)


@pytest.mark.parametrize("pool", ["threads", pytest.param("processes", marks=pytest.mark.more)])
def test_an_executor_ends_in_time(large, pool):
    """One worker for four chains, each of which would take all the time."""
    made = ThreadPoolExecutor(1) if pool == "threads" else ProcessPoolExecutor(1, mp_context=SPAWN)
    with made as executor:
        if pool == "processes":
            # so that no time is taken to begin
            timed(pt.TreeModel(*table(60)), 5.0, 4, executor=executor)
        post, seconds, said = timed(large, 1.0, 20_000, executor=executor)
    assert seconds < 4.0 + SLACK and 1 <= post.n_draws < 20_000 and len(post.course.rests) == 4
    assert any("seconds=1 ended the run early" in line for line in said)


@pytest.mark.more(everyday=["classes-rest0"])
@pytest.mark.parametrize(
    ("name", "rest"), [("classes", {}), ("classes", {"betas": 3}), ("numbers", {"kernel": "local"})]
)
def test_a_run_that_is_not_cut_is_the_run_without_a_clock(name, rest):
    whole = pt.sample(MODELS[name], 50, chains=2, rng=4, progress=False, **rest)
    for executor in (None, ThreadPoolExecutor(2)):
        post = pt.sample(
            MODELS[name], 50, chains=2, rng=4, progress=False, seconds=1e6, steps=50, executor=executor, **rest
        )
        assert_same(post, whole)


def test_a_cut_run_leaves_a_whole_file(large, tmp_path):
    post, seconds, _ = timed(large, 1.0, 20_000, checkpoint=tmp_path / "run.nc", kernel="local")
    assert seconds < 1.0 + SLACK
    assert_same(pt.load(tmp_path / "run.nc"), post)


def test_a_signal_reaches_another_process():
    """As the time of day; a signal that was given by hand is not known there."""
    stop = Stop(50.0)
    assert not stop.is_set() and stop.until == np.inf
    stop.start()
    again = pickle.loads(pickle.dumps(stop))
    assert again.until == pytest.approx(stop.until, abs=0.1) and not again.is_set()
    half = stop.at_fraction(0.5)
    assert half.until == stop.start_time + 25.0
    half.set()
    assert half.is_set() and not stop.is_set() and Stop(1e-9).seconds == _run.MIN_SECONDS
    assert pickle.loads(pickle.dumps(Stop())).until == np.inf


class Clock:
    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(_loop, "time", made)
    monkeypatch.setattr(_run, "time", made)
    return made


class OnTime(NamedTuple):
    """The part of a run that `slices` looks at."""

    stop: Stop
    path: str | None = None
    every: float = 60.0


def sizes(clock, cost, n, seconds, path=None, every=60.0):
    """Slices of ``n`` draws, if draw number i costs ``cost(i)`` seconds."""
    stop, made = Stop(seconds), []
    stop.start()
    for size in slices(OnTime(stop, path, every), n):
        clock.now += sum(cost(i) for i in range(sum(made), sum(made) + size))
        made.append(size)
    return made


@pytest.mark.parametrize("seconds", [1.0, 10.0])
@pytest.mark.parametrize("step", [1e-4, 0.01, 0.3, 2.0, 30.0])
def test_slices_end_in_time(clock, seconds, step):
    """However slow draws are, one at least; all are made if there is time."""
    made = sizes(clock, lambda i: step, 200, seconds)
    assert made[0] == 1 and all(b <= MAX_SPEED_UP * a for a, b in itertools.pairwise(made))
    # at most one draw that takes longer than all the time
    assert clock.now <= max(seconds, step + 1e-9)
    assert sum(made) == 200 or clock.now >= 0.5 * seconds or step > 0.5 * seconds


def test_slices_of_draws_that_get_slower_end_within_twice_the_time(clock):
    made = sizes(clock, lambda i: 0.001 * (1.0 + i / 50.0), 10**6, 10.0)
    assert 5.0 < clock.now <= 20.0 and sum(made) < 10**6


def test_without_clock_and_file_there_is_one_slice(clock):
    assert sizes(clock, lambda i: 1.0, 200, np.inf) == [200] and sizes(clock, lambda i: 1.0, 0, np.inf) == []


def test_slices_between_checkpoints_take_about_the_interval(clock):
    made = sizes(clock, lambda i: 0.5, 200, np.inf, "run.nc", 4.0)
    assert made[:4] == [1, 4, 8, 8] and sum(made) == 200
    assert sizes(clock, lambda i: 0.5, 7, np.inf, "run.nc", 1e-6) == [1] * 7


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
    pt.sample(LINE, **RUN, progress=False)
    made = Stream(False)
    monkeypatch.setattr(sys, "stderr", made)
    pt.sample(LINE, **RUN)
    assert made.getvalue() == ""
    monkeypatch.setattr(_progress, "SECONDS_BETWEEN_LINES", 0.0)
    pt.sample(LINE, **RUN)
    last = made.getvalue().splitlines()[-1]
    assert last.startswith("600 of 600 draws after ") and ", acceptance 0." in last
    pt.sample(LINE, **RUN, progress=False)
    assert made.getvalue().splitlines()[-1] == last


def test_chains_on_an_executor_are_told_as_they_end(monkeypatch):
    pt.sample(LINE, **RUN, progress=False)
    made = Stream(False)
    monkeypatch.setattr(sys, "stderr", made)
    monkeypatch.setattr(_progress, "SECONDS_BETWEEN_LINES", 0.0)
    with ThreadPoolExecutor(1) as pool:
        pt.sample(LINE, **RUN, executor=pool)
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
    assert "400" in stream.getvalue() and np.array_equal(quiet.predict_proba(X), loud.predict_proba(X))
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
    pt.sample(LINE, 250, chains=4, rng=1, kernel="local", steps=1000)
    lines = made.getvalue().splitlines()
    assert any("ends within" in line and "R-hat" not in line for line in lines)
    assert ", worst R-hat 1.234 (log posterior), ends within " in lines[-1]
