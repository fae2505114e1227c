"""A run that was killed is finished from its checkpoint, with the draws of one that was not."""

import os
import signal
import subprocess
import time

import numpy as np
import pytest

import pactree_mcmc as pt
from pactree_mcmc.loading.load import load_run
from pactree_mcmc.mcmc.run import loop as _loop
from tests import ROOT
from tests.problems.runs import LABELS, MODELS, X, assert_same, course_of, draw, made_in
from tests.programs import command


@pytest.mark.more
@pytest.mark.parametrize(
    ("name", "rest"),
    [
        ("classes", {}),
        ("shared variance", {"betas": 2}),
        ("numbers", {"start": "grown", "rng": [1, np.random.Generator(np.random.MT19937(2))], "thin": 2}),
    ],
)
def test_every_checkpoint_leads_to_the_same_draws(name, rest, copies, tmp_path):
    """From before the first proposal, from after tuning, from among the draws."""
    path = tmp_path / "run.nc"
    whole = draw(name, 4, tune=1, checkpoint=path, every=1e-6, **rest)
    assert_same(pt.load(path), whole)
    if "rng" not in rest:
        assert_same(whole, draw(name, 4, tune=1, **rest))

    assert [made_in(copy) for copy in copies] == [(0, 0), (0, 0), (1, 1), (2, 2), (3, 3), (4, 4)]
    for copy in copies[:4]:
        assert_same(pt.resume(copy, progress=False), whole)
    assert_same(pt.load(copy), whole)


@pytest.mark.more
def test_checkpoint_is_readable_on_the_way(copies, tmp_path):
    whole = draw("classes", 6, tune=1, checkpoint=tmp_path / "run.nc", every=1e-6)
    on_the_way = next(copy for copy in copies if min(made_in(copy)) > 2)
    with pytest.warns(UserWarning, match=r"run on its way: \d+ of 6 draws a chain; pt.resume"):
        some = pt.load(on_the_way)
    assert 2 < some.n_draws < 6
    same = some.log_score == whole.log_score[:, : some.n_draws]
    assert same.all()
    with pytest.raises(ValueError, match="before every chain had a draw"):
        pt.load(copies[0])
    with pytest.raises(ValueError, match="leave draws out"):
        pt.resume(on_the_way, 5)


@pytest.mark.more
def test_a_resumed_posterior_writes_checkpoints_too(copies, tmp_path):
    half, whole = draw("numbers", 5), draw("numbers", 12)
    again = pt.resume(half, 7, checkpoint=tmp_path / "more.nc", every=1e-6, progress=False)
    assert_same(again, whole)
    assert len(copies) > 3
    assert_same(pt.resume(copies[1], checkpoint=tmp_path / "other.nc", progress=False), whole)
    assert_same(pt.resume(tmp_path / "other.nc"), whole)


@pytest.mark.more
def test_interrupted_run_goes_on(monkeypatch, tmp_path):
    """Ctrl-C returns what was drawn; the checkpoint has some of it, and the rest can be drawn."""
    monkeypatch.setattr(_loop, "BLOCK_SECONDS", -1.0)
    real, calls = _loop.wait, []

    def wait(*args, **kwargs):
        calls.append(1)
        if len(calls) == 40:
            raise KeyboardInterrupt
        return real(*args, **kwargs)

    monkeypatch.setattr(_loop, "wait", wait)
    path = tmp_path / "run.nc"
    with pytest.warns(UserWarning, match="interrupted"):
        cut = draw("classes", 40, checkpoint=path, every=1e-6)
    assert 0 < made_in(path)[0] <= cut.n_draws
    assert cut.n_draws < 40
    assert_same(pt.resume(path, progress=False), draw("classes", 40))


def test_what_is_there_is_not_overwritten(tmp_path):
    path = tmp_path / "run.nc"
    path.write_bytes(b"precious")
    with pytest.raises(ValueError, match=r"exists already; pt.resume"):
        draw(draws=2, checkpoint=path)
    assert path.read_bytes() == b"precious"


@pytest.mark.parametrize("every", [0.0, float("nan"), "1"])
def test_interval_out_of_range(every, tmp_path):
    with pytest.raises(ValueError, match="every="):
        draw(draws=2, checkpoint=tmp_path / "run.nc", every=every)


@pytest.mark.parametrize("name", ["run.csv", "nowhere/run.nc"])
def test_unusable_checkpoints(name, tmp_path):
    with pytest.raises(ValueError, match=r"give a path that ends in .nc|does not exist; create it"):
        draw(draws=2, checkpoint=tmp_path / name)


def test_a_model_no_file_can_hold_is_refused_before_sampling(tmp_path):
    class Mine(pt.DirichletMultinomial):
        pass

    model = pt.TreeModel(X, LABELS, leaf=Mine())
    with pytest.raises(ValueError, match="is a Mine"):
        pt.sample(model, 10**9, checkpoint=tmp_path / "run.nc")
    assert list(tmp_path.iterdir()) == []


def test_killed_run_is_finished(tmp_path):
    """SIGKILL in the middle; nothing half-written is left, and the draws are those of an uninterrupted run."""
    path = tmp_path / "run.nc"
    child = subprocess.Popen(command("drawn_until_killed", path), cwd=ROOT)
    try:
        least = 0
        while least < 10:
            assert child.poll() is None, "the child finished before it could be killed"
            time.sleep(0.1)
            least = min(made_in(path), default=0) if path.exists() else 0
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert child.returncode == -signal.SIGKILL
    assert least < 800
    again = pt.resume(path, progress=False)
    assert_same(again, draw("numbers", 800, rng=9))
    assert_same(pt.load(path), again)
    assert [name for name in os.listdir(tmp_path) if name != "run.nc"] in ([], [".run.nc.part"])


def test_the_model_goes_into_the_file_once_more(tmp_path):
    """A checkpoint needs nothing but itself: rows, weights and categories are those of the model."""
    path = tmp_path / "run.nc"
    draw("fractions of classes", 3, checkpoint=path)
    assert pt.load(path).model.log_posterior(pt.Tree([-1], [0], [0], [0])) == MODELS[
        "fractions of classes"
    ].log_posterior(pt.Tree([-1], [0], [0], [0]))


@pytest.mark.more
def test_the_interval_and_the_time_spent_are_kept(copies, tmp_path):
    path = tmp_path / "run.nc"
    draw("classes", 4, tune=1, kernel="grow-prune", checkpoint=path, every=2e-6)
    n_before = len(copies)
    _, half, _ = load_run(copies[3])
    assert pt.resume(copies[3], progress=False).draws.seconds > half.draws.seconds > 0.0
    assert len(copies) > n_before
    assert all(course_of(copy).every == 2e-6 for copy in copies[n_before:])
