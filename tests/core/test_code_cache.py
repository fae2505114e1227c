"""Compiled code on disk: forgotten when a source changes; a folder that is damaged, full or missing only costs time."""

import pickle
import warnings

import numba
import pytest

from pactree_mcmc.core.compile import cache as _code_cache
from pactree_mcmc.core.compile.jit import jit
from tests.code_folders import write_code_to

pytestmark = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
ENTRY = """from ..far import (
    one,
    two,
)
from . import near

@jit
def f(): ...
"""


def twice(x):
    return 2 * x


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    write_code_to(tmp_path, monkeypatch)
    monkeypatch.setattr(_code_cache, "is_of_library", lambda function: True)
    _code_cache._warn_once.cache_clear()
    return tmp_path


def hits():
    second = jit(twice)
    assert second(3) == 6
    return sum(second.stats.cache_hits.values())


def files(folder, ending):
    return list(folder.rglob(f"*.{ending}"))


def test_kept_and_found(folder):
    assert hits() == 0 and hits() == 1 and len(files(folder, "nbi")) == 1


@pytest.fixture
def library(tmp_path, monkeypatch):
    """Write sources; ``stamp(package, **texts)`` is their hash, after the files of ``texts`` were changed."""
    files = {
        "pactree_mcmc/core/compile/cache.py": "",
        "pactree_mcmc/deep/__init__.py": "from .named import part as other\n",
        "pactree_mcmc/deep/entry.py": ENTRY,
        "pactree_mcmc/deep/named.py": "",
        "pactree_mcmc/deep/near.py": "",
        "pactree_mcmc/far.py": "from pactree_mcmc.deep import other\n",
        "pactree_mcmc/plain.py": "from .deep.entry import f\n",
        "exact/plain.py": "from pactree_mcmc.deep.entry import f\n",
    }

    def stamp(package, **texts):
        for name, text in (files | {f"{name.replace('__', '/')}.py": text for name, text in texts.items()}).items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        monkeypatch.setattr(_code_cache, "__file__", str(tmp_path / "pactree_mcmc" / "core" / "compile" / "cache.py"))
        _code_cache._source_texts.cache_clear()
        return _code_cache.sources_hash.__wrapped__(package)

    yield stamp
    _code_cache._source_texts.cache_clear()


@pytest.mark.parametrize("changed", ["entry", "near", "named"])
def test_what_compiled_code_reaches_counts(library, changed):
    before = library("pactree_mcmc.deep")
    if changed == "entry":
        assert library("pactree_mcmc.deep", pactree_mcmc__deep__entry="@jit\ndef f(): pass\n") != before
    else:
        assert library("pactree_mcmc.deep", **{f"pactree_mcmc__deep__{changed}": "x = 1\n"}) != before


@pytest.mark.parametrize("ending", ["nbi", "nbc"])
@pytest.mark.parametrize("content", [b"", b"\x80\x05damaged", "half", "one byte", pickle.dumps("no such version")])
def test_damaged(folder, ending, content):
    hits()
    (path,) = files(folder, ending)
    file_bytes = path.read_bytes()
    middle = len(file_bytes) // 2
    one_byte = file_bytes[:middle] + bytes([file_bytes[middle] ^ 1]) + file_bytes[middle + 1 :]
    path.write_bytes({"half": file_bytes[:middle], "one byte": one_byte}.get(content, content))
    assert hits() == 0 and hits() == 1


def moved_user(folder, to):
    """The code of `twice` in another folder than the user's."""
    hits()
    to.parent.mkdir(exist_ok=True)
    folder.rename(to)


@pytest.fixture
def user(folder, monkeypatch):
    write_code_to(folder / "user", monkeypatch)
    return folder / "user"


def test_code_of_an_archive_is_read_and_not_written(user, monkeypatch):
    archive = user.with_name("archive")
    moved_user(user, archive)
    monkeypatch.setattr(_code_cache, "ARCHIVE", archive)
    before = sorted(archive.rglob("*"))
    assert hits() == 1 and not user.exists() and sorted(archive.rglob("*")) == before


def no_folder(monkeypatch, blocked):
    """A user's folder that cannot be made: one below a file, or none."""
    if blocked:
        blocked.write_text("")
        write_code_to(blocked / "below", monkeypatch)
    else:
        write_code_to("", monkeypatch)
        monkeypatch.setattr("platformdirs.user_cache_path", lambda *args, **kwargs: _code_cache.Path("~/.cache"))


@pytest.mark.parametrize("name", ["file", None])
def test_a_user_who_cannot_write_reads_the_archive(user, name, monkeypatch):
    archive = user.with_name("archive")
    moved_user(user, archive)
    no_folder(monkeypatch, name and user.with_name(name))
    monkeypatch.setattr(_code_cache, "ARCHIVE", archive)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert hits() == 1


def test_full_disk(monkeypatch):
    def fail(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("numba.core.caching.IndexDataCacheFile._save_data", fail)
    with pytest.warns(RuntimeWarning, match="No space left on device.*NUMBA_CACHE_DIR"):
        hits()
