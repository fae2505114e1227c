"""Runs with a time limit: they end in time with what they have, and say what they left out."""

import itertools
import pickle
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import pytest

import pactree_mcmc as pt
from pactree_mcmc.mcmc.run import loop as _loop
from pactree_mcmc.mcmc.run import run as _run
from pactree_mcmc.mcmc.run.loop import MAX_SPEED_UP, slices
from pactree_mcmc.mcmc.run.run import Stop
from tests.mcmc.run.test_executors import SPAWN
from tests.problems.runs import MODELS, assert_same
from tests.programs.interrupted_at import table

SLACK = 4.0
"""Seconds that loading compiled code and judging the draws may take on a busy machine."""


@pytest.fixture(scope="module")
def large():
    """A table on which the default run tunes for minutes."""
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
    "rest",
    [{}, {"kernel": "whole"}, {"kernel": "local"}, {"betas": 3}, {"betas": 3, "chains": 1}, {"work": 1e9}],
)
def test_tuning_counts(large, rest):
    """Ends in time, with equally many draws a chain that can be gone on with, and says what is missing."""
    draws = 20_000
    post, seconds, said = timed(large, 1.0, draws, **rest)
    assert seconds < 1.0 + SLACK
    assert 1 <= post.n_draws < draws and post.n_chains == rest.get("chains", 4)
    assert len(post.course.rests) == post.n_chains and post.course.steps == post.n_draws
    (cut,) = [line for line in said if line.startswith("seconds=1 ended the run early")]
    assert f"{draws - post.n_draws} of {draws} draws of each chain" in cut
    assert f"pt.resume(post, {draws - post.n_draws})" in cut
    assert ("tuning from round" in cut) == (post.draws.tempering is None and bool(post.course.kernel.is_guided))
    more = pt.resume(post, 2, progress=False)
    assert more.n_draws == post.n_draws + 2
    assert np.array_equal(more.log_score[:, : post.n_draws], post.log_score)


@pytest.mark.parametrize("pool", ["threads", pytest.param("processes", marks=pytest.mark.more)])
def test_an_executor_ends_in_time(large, pool):
    """One worker for four chains, each of which would take all the time."""
    made = ThreadPoolExecutor(1) if pool == "threads" else ProcessPoolExecutor(1, mp_context=SPAWN)
    with made as executor:
        if pool == "processes":
            # so that no time is taken to begin
            timed(pt.TreeModel(*table(60)), 5.0, 4, executor=executor)
        post, seconds, said = timed(large, 1.0, 20_000, executor=executor)
    assert seconds < 4.0 + SLACK
    assert 1 <= post.n_draws < 20_000 and len(post.course.rests) == 4
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
    assert half.is_set() and not stop.is_set()
    assert Stop(1e-9).seconds == _run.MIN_SECONDS
    assert pickle.loads(pickle.dumps(Stop())).until == np.inf


class Clock:
    """A clock that steps move."""

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
    assert sizes(clock, lambda i: 1.0, 200, np.inf) == [200]
    assert sizes(clock, lambda i: 1.0, 0, np.inf) == []


def test_slices_between_checkpoints_take_about_the_interval(clock):
    made = sizes(clock, lambda i: 0.5, 200, np.inf, "run.nc", 4.0)
    assert made[:4] == [1, 4, 8, 8] and sum(made) == 200
    assert sizes(clock, lambda i: 0.5, 7, np.inf, "run.nc", 1e-6) == [1] * 7
