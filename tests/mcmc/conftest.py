"""What several files of tests of the sampler need."""

import shutil

import pytest

from pactree_mcmc.mcmc.run import task as _run
from pactree_mcmc.mcmc.run.checkpoint import Checkpoint


@pytest.fixture
def copies(monkeypatch, tmp_path):
    """Copies of every checkpoint that is written, in turn; blocks are one draw long."""
    monkeypatch.setattr(_run, "BLOCK_SECONDS", -1.0)
    made, write = [], Checkpoint.write

    def write_and_copy(checkpoint, results):
        write(checkpoint, results)
        made.append(tmp_path / f"copy{len(made)}.nc")
        shutil.copy(checkpoint.path, made[-1])

    monkeypatch.setattr(Checkpoint, "write", write_and_copy)
    return made
