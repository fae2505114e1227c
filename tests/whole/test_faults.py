"""What machines and users do to a run: signals, no memory, no disk. Clear errors, finished work kept, no half a file.

Files cut or altered are in `loading/test_damage.py`, killed processes in `mcmc/run/test_checkpoint.py` and
`mcmc/run/test_executors.py`, Ctrl-C at chosen moments in `mcmc/run/test_interruption.py`.
"""

import os
import resource
import signal
import subprocess
import time
from pathlib import Path

import pytest

import pactree_mcmc as pt
from pactree_mcmc.mcmc.run import task
from pactree_mcmc.mcmc.run.checkpoint import Checkpoint
from tests import ROOT
from tests.problems.runs import assert_same, draw
from tests.programs import command


def child(name, *words):
    return subprocess.Popen(command(name, *words), cwd=ROOT, stderr=subprocess.PIPE, text=True)


def interrupted(process):
    """What a process says on SIGINT, sent anew if need be: Python drops one that meets it clearing a weak reference."""
    process.send_signal(signal.SIGINT)
    try:
        return process.communicate(timeout=30)[1]
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        return process.communicate(timeout=60)[1]


@pytest.mark.slow
@pytest.mark.parametrize(("moment", "tune"), [("tuning", 10**7), ("sampling", 0)])
def test_a_real_signal(moment, tune, tmp_path):
    """SIGINT ends the run within seconds: with the draws so far, or, while tuning, with KeyboardInterrupt."""
    running, saved = tmp_path / "run.nc", tmp_path / "saved.nc"
    process = child("drawn_until_interrupted", running, saved, tune)
    try:
        first = None
        while first is None or running.stat().st_mtime_ns == first:
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.05)
            if first is None and running.exists():
                first = running.stat().st_mtime_ns
        errors = interrupted(process)
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
    if moment == "tuning":
        assert "KeyboardInterrupt: interrupted before every chain had a draw" in errors
    else:
        assert process.returncode == 0, errors
        cut = pt.load(saved)
        assert 1 <= cut.n_draws < 10**7
        assert_same_draws(cut, draw("classes", cut.n_draws, kernel="grow-prune", rng=9, thin=50, tune=0))
    assert [name for name in os.listdir(tmp_path) if "part" in name] == []


def assert_same_draws(one, other):
    for c in range(one.n_chains):
        for name in ("log_prior", "log_score"):
            assert (getattr(one, name)[c] == getattr(other, name)[c]).all()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory in use is read from /proc")
def test_no_memory(tmp_path):
    """Half a gigabyte left: the sampler and the engine say so, what was saved is there, and the process goes on."""
    process = child("out_of_memory", tmp_path / "run.nc")
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    for word in ("sampler: ", "engine: ", "alive"):
        assert word in errors, errors


@pytest.mark.slow
def test_a_disk_that_fills_up_under_a_run(monkeypatch, tmp_path):
    """The error names the file, the checkpoint before it is still whole, and the run is finished from there."""
    path, write, made = tmp_path / "run.nc", Checkpoint.write, []
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def until_full(checkpoint, results):
        if len(made) == 2:
            resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
        write(checkpoint, results)
        made.append(path.read_bytes())

    monkeypatch.setattr(Checkpoint, "write", until_full)
    monkeypatch.setattr(task, "BLOCK_SECONDS", -1.0)
    try:
        with pytest.raises(OSError, match=r"run\.nc could not be written: .*before is kept"):
            draw("classes", 8, tune=1, kernel="grow-prune", checkpoint=path, every=1e-6)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == made[-1]
    assert os.listdir(tmp_path) == ["run.nc"]
    monkeypatch.setattr(Checkpoint, "write", write)
    assert_same(pt.resume(path, progress=False), draw("classes", 8, tune=1, kernel="grow-prune"))
