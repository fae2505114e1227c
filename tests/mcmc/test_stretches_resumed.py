"""Runs with a time limit that were cut within a stretch, resumed from their checkpoints."""

import time
from itertools import repeat
from types import SimpleNamespace

import pytest

import pactree_mcmc as pt
from pactree_mcmc.loading.load import load_unfinished
from pactree_mcmc.mcmc import schedule as _schedule
from tests.mcmc.test_schedule import few
from tests.problems.runs import assert_same


@pytest.fixture
def holding(monkeypatch):
    """The criterion holds after the second stretch."""
    monkeypatch.setattr(_schedule, "judged", lambda plan, results: (plan.length.before > 0, None))


def cut_in_a_stretch(copies):
    """A checkpoint of the second stretch, with some of its draws."""
    for copy in copies:
        run = load_unfinished(copy)
        if run is not None and run.plans[0].length.before > 0:
            n = [result.n_draws for result in run.results]
            if 0 < min(n) < run.plans[0].length.draws:
                return copy
    raise AssertionError("no checkpoint lies within a stretch")


def started(tmp_path, draws):
    return few(draws=draws, steps=100, seconds=1e6, checkpoint=tmp_path / "run.nc", every=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("draws", [8, 9])
def test_a_run_with_time_to_spare_goes_on_as_if_it_was_not_cut(holding, copies, tmp_path, draws):
    whole = started(tmp_path, draws)
    assert (whole.n_draws, whole.course.steps) == (draws, 2 * draws)
    assert_same(pt.resume(cut_in_a_stretch(copies), progress=False), whole)


@pytest.mark.slow
def test_a_run_whose_time_is_over_has_all_its_draws(holding, copies, tmp_path, monkeypatch):
    whole = started(tmp_path, 8)
    clock = repeat(time.perf_counter() + 1e9)
    monkeypatch.setattr(_schedule, "time", SimpleNamespace(perf_counter=lambda: next(clock)))
    assert pt.resume(cut_in_a_stretch(copies), progress=False).n_draws == whole.n_draws
