"""What machines do to a run: no memory, no disk. Clear errors, finished work kept, no half a file.

Files cut or altered are in `loading/test_damage.py`, killed processes in `mcmc/run/test_checkpoint.py` and
`mcmc/run/test_executors.py`, Ctrl-C in `mcmc/run/test_interruption.py` and `mcmc/run/test_signals.py`.
"""

import os
import resource
from pathlib import Path

import pytest

import pactree_mcmc as pt
from pactree_mcmc.mcmc import course
from tests.problems.runs import assert_same, draw
from tests.programs import run


@pytest.mark.more
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory in use is read from /proc")
def test_no_memory(tmp_path):
    """Half a gigabyte left: the sampler and the engine say so, what was saved is there, and the process goes on."""
    done = run("out_of_memory", tmp_path / "run.nc", timeout=300)
    assert done.returncode == 0, done.stderr
    for word in ("sampler: ", "engine: ", "alive"):
        assert word in done.stderr, done.stderr


@pytest.mark.more
def test_a_disk_that_fills_up_under_a_run(monkeypatch, tmp_path):
    """The error names the file, the checkpoint before it is still whole, and the run is finished from there."""
    path, write, made = tmp_path / "run.nc", course.write_parts, []
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def until_full(parts, path):
        if len(made) == 2:
            resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
        write(parts, path)
        made.append(path.read_bytes())

    monkeypatch.setattr(course, "write_parts", until_full)
    try:
        with pytest.raises(OSError, match=r"run\.nc could not be written: .*before is kept"):
            draw("classes", 8, tune=1, kernel="grow-prune", checkpoint=path, every=1e-6)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == made[-1]
    assert os.listdir(tmp_path) == ["run.nc"]
    monkeypatch.setattr(course, "write_parts", write)
    assert_same(pt.resume(path, progress=False), draw("classes", 8, tune=1, kernel="grow-prune"))
