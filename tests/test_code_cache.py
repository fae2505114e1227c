"""Compiled code on disk: forgotten when a source changes; a folder that is damaged, full or missing only costs time."""

import pickle

import numba
import pytest

from pactree_mcmc import _code_cache
from pactree_mcmc._numba import jit

pytestmark = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")


def twice(x):
    return 2 * x


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    _code_cache._warn.cache_clear()
    return tmp_path


def hits():
    """How often a new process would find its compiled form (here: a new dispatcher)."""
    again = jit(twice)
    assert again(3) == 6
    return sum(again.stats.cache_hits.values())


def files(folder, ending):
    return list(folder.rglob(f"*.{ending}"))


def test_kept_and_found(folder):
    assert hits() == 0
    assert hits() == 1
    assert len(files(folder, "nbi")) == 1


def test_any_source_counts(monkeypatch):
    hits()
    monkeypatch.setattr(_code_cache, "sources", lambda: "another library")
    assert hits() == 0
    assert hits() == 1


def test_sources_are_those_of_both_packages(tmp_path, monkeypatch):
    names = []
    for package in ("pactree_mcmc", "exact"):
        (tmp_path / package / "deep").mkdir(parents=True)
        names += [tmp_path / package / "a.py", tmp_path / package / "deep" / "b.py"]
    monkeypatch.setattr(_code_cache, "__file__", str(tmp_path / "pactree_mcmc" / "_code_cache.py"))
    seen = set()
    for name in names:
        name.write_text("x = 1\n")
        seen.add(_code_cache.sources.__wrapped__())
    assert len(seen) == len(names)


@pytest.mark.parametrize("ending", ["nbi", "nbc"])
@pytest.mark.parametrize("content", [b"", b"\x80\x05damaged", "half", pickle.dumps("no such version")])
def test_damaged(folder, ending, content):
    hits()
    (path,) = files(folder, ending)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2] if content == "half" else content)
    assert hits() == 0


def test_class_that_is_gone(folder):
    """The index of an older library may name what no longer exists."""
    hits()
    (path,) = files(folder, "nbi")
    path.write_bytes(pickle.dumps("older") + b"cpactree_mcmc.posterior\nNoSuchStruct\n.")
    assert hits() == 0
    assert hits() == 1


def test_full_disk(monkeypatch):
    def fail(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("numba.core.caching.IndexDataCacheFile._save_data", fail)
    with pytest.warns(RuntimeWarning, match="No space left on device.*NUMBA_CACHE_DIR"):
        hits()


def test_no_folder(folder, monkeypatch):
    (folder / "file").write_text("")
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(folder / "file" / "below"))
    monkeypatch.setattr("numba.core.caching.CacheImpl._locator_classes", [])
    with pytest.warns(RuntimeWarning, match="no locator available.*NUMBA_CACHE_DIR"):
        assert hits() == 0
