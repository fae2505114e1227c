"""A sample of the changed files; all of them: python verification/fuzz.py --files 10000."""

import sys

import h5py
import numpy as np
import pytest

import pactree_mcmc as pt
from pactree_mcmc.files import store as _store
from tests import ROOT
from tests.problems.runs import draw

sys.path.insert(0, str(ROOT / "verification"))

from fuzzing.files import Files, cut


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return Files(tmp_path_factory.mktemp("files"))


@pytest.mark.slow
def test_a_sample(files):
    """Each is refused with an error that names it, or loads, answers and goes on."""
    seen = set()
    for number in range(45):
        if number % 3 == 0 and (files.judge(0, number)[1].startswith(cut.__name__)):
            continue
        kind, what = files.judge(0, number)
        assert kind != "wrong", f"python verification/fuzz.py --files 1 --replay {number}: {what}"
        seen.add((kind, what.partition(":")[0]))
    assert {kind for kind, _ in seen} == {"refused", "answered"}
    assert len({how for _, how in seen}) > 7


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The bytes of a file."""
    path = tmp_path_factory.mktemp("whole") / "run.nc"
    draw("classes", 3, kernel="grow-prune").save(path)
    return path.read_bytes()


@pytest.fixture
def path(whole, tmp_path):
    (tmp_path / "run.nc").write_bytes(whole)
    return tmp_path / "run.nc"


def test_hdf5_is_not_asked_about_damaged_bytes(path, monkeypatch):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    monkeypatch.setattr(h5py, "File", None)
    monkeypatch.setattr(_store, "_contents", None)
    with pytest.raises(ValueError, match=r"run\.nc does not match its checksum: .* damaged or was altered; use an"):
        pt.load(path)


def test_whole_files_need_no_other_process(path, monkeypatch):
    monkeypatch.setattr(_store.subprocess, "run", None)
    assert pt.load(path).n_draws == 3


@pytest.mark.parametrize("probe", ["import os; os.kill(os.getpid(), 11)", "import time; time.sleep(60)"])
def test_a_process_that_dies_of_a_file(probe, path, monkeypatch):
    """Let HDF5 crash, or run for ever, in another process."""
    path.write_bytes(path.read_bytes()[: -_store.DIGEST])
    monkeypatch.setattr(_store, "PROBE", probe)
    monkeypatch.setattr(_store, "PROBE_SECONDS", 0.5)
    with pytest.raises(ValueError, match=r"run\.nc cannot be read: it is damaged \((signal 11|TimeoutExpired)\)"):
        pt.load(path)


@pytest.mark.slow
def test_a_file_that_another_program_has_opened(path):
    """HDF5 cuts off what it did not write; the content still has its own checksum."""
    before = pt.load(path)
    with h5py.File(path, "a") as file:
        file["notes"] = np.arange(3)
    assert _store.SEAL not in path.read_bytes()
    assert np.array_equal(pt.load(path).tree_of_draw, before.tree_of_draw)
