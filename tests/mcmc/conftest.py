"""What several files of tests of the sampler need."""

import shutil

import pytest

from pactree_mcmc.mcmc import course as _course


@pytest.fixture
def copies(monkeypatch, tmp_path):
    """Copies of every checkpoint that is written, in turn."""
    made, write = [], _course.write_parts

    def write_and_copy(parts, path):
        write(parts, path)
        made.append(tmp_path / f"copy{len(made)}.nc")
        shutil.copy(path, made[-1])

    monkeypatch.setattr(_course, "write_parts", write_and_copy)
    return made
