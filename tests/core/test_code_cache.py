"""Compiled code on disk: forgotten when a source changes; a folder that is damaged, full or missing only costs time."""

import ast
import os
import pickle
import shutil
import time
import warnings

import numba
import pytest

from pactree_mcmc.core.compile import cache as _code_cache
from pactree_mcmc.core.compile import folders as _folders
from pactree_mcmc.core.compile import sources as _sources
from pactree_mcmc.core.compile.cache import CodeCache
from pactree_mcmc.core.compile.jit import jit
from tests import ROOT
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
    monkeypatch.delenv(_folders.SHARED_VARIABLE, raising=False)
    monkeypatch.setattr(_code_cache, "_warned", set())
    return tmp_path


def hits():
    """Return the number of hits that a new process would have (here: a new dispatcher)."""
    second = jit(twice)
    assert second(3) == 6
    return sum(second.stats.cache_hits.values())


def files(folder, ending):
    return list(folder.rglob(f"*.{ending}"))


def test_kept_and_found(folder):
    assert hits() == 0
    assert hits() == 1
    assert len(files(folder, "nbi")) == 1


def test_any_source_counts(monkeypatch):
    hits()
    monkeypatch.setattr(_code_cache, "sources_hash", lambda package: "another library")
    assert hits() == 0
    assert hits() == 1


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
        monkeypatch.setattr(_sources, "__file__", str(tmp_path / "pactree_mcmc" / "core" / "compile" / "sources.py"))
        _sources._source_texts.cache_clear()
        return _sources.sources_hash.__wrapped__(package)

    yield stamp
    _sources._source_texts.cache_clear()


@pytest.mark.parametrize("changed", ["entry", "near", "named"])
def test_what_compiled_code_reaches_counts(library, changed):
    before = library("pactree_mcmc.deep")
    if changed == "entry":
        assert library("pactree_mcmc.deep", pactree_mcmc__deep__entry="@jit\ndef f(): pass\n") != before
    else:
        assert library("pactree_mcmc.deep", **{f"pactree_mcmc__deep__{changed}": "x = 1\n"}) != before


def test_what_it_does_not_reach_does_not(library):
    before = library("pactree_mcmc.deep")
    assert library("pactree_mcmc.deep", pactree_mcmc__plain="x = 1\n", exact__plain="x = 1\n") == before
    assert library("pactree_mcmc.deep", pactree_mcmc__far="x = 1\n") != before


def test_everything_counts_for_others(library):
    before = library("my_package")
    assert library("my_package", exact__plain="x = 1\n") != before


@pytest.mark.more
def test_imports_are_those_of_the_parser():
    texts = _sources._source_texts()
    packages = {name for name in texts if any(other.startswith(f"{name}.") for other in texts)}
    for name, text in texts.items():
        imported = set()
        for node in ast.parse(text).body:
            if isinstance(node, ast.ImportFrom):
                above = name.split(".")[: len(name.split(".")) - node.level + (name in packages)] if node.level else []
                base = ".".join([*above, *([node.module] if node.module else [])])
                imported |= {base} | {f"{base}.{alias.name}" for alias in node.names}
            elif isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
        assert imported & set(texts) <= set(_sources._imported_names(name)), name


@pytest.mark.parametrize("ending", ["nbi", "nbc"])
@pytest.mark.parametrize("content", [b"", b"\x80\x05damaged", "half", "one byte", pickle.dumps("no such version")])
def test_damaged(folder, ending, content):
    hits()
    (path,) = files(folder, ending)
    file_bytes = path.read_bytes()
    middle = len(file_bytes) // 2
    one_byte = file_bytes[:middle] + bytes([file_bytes[middle] ^ 1]) + file_bytes[middle + 1 :]
    path.write_bytes({"half": file_bytes[:middle], "one byte": one_byte}.get(content, content))
    assert hits() == 0
    assert hits() == 1


def test_class_that_is_gone(folder):
    """The index of an older library may name what no longer exists."""
    hits()
    (path,) = files(folder, "nbi")
    path.write_bytes(pickle.dumps("older") + b"cpactree_mcmc.posterior\nNoSuchStruct\n.")
    assert hits() == 0
    assert hits() == 1


def test_a_file_under_the_name_of_another_key(folder):
    """Two processes that save forms of one function at the same time may write the same file."""
    first = jit(twice)
    assert (first(3), first(0.25)) == (6, 0.5)
    one, other = sorted(files(folder, "nbc"))
    other.write_bytes(one.read_bytes())
    second = jit(twice)
    assert (second(3), second(0.25)) == (6, 0.5)
    assert sum(second.stats.cache_hits.values()) == 1


# folders


def test_no_code_beside_the_sources(monkeypatch, tmp_path):
    """Pip would leave it there when it uninstalls the library."""
    write_code_to("", monkeypatch)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    for function in (twice, _folders.environment_id, jit(twice).py_func):
        folder = CodeCache(function).cache_path
        assert not folder.startswith(str(ROOT))
        assert "pactree-mcmc" in folder


def test_variables_of_numba_that_change_leave_the_folder(tmp_path, monkeypatch):
    """Numba reads its variables again, at a compilation, if one of them has changed."""
    _folders.use_folder(str(tmp_path / "named"))
    monkeypatch.setenv("NUMBA_DEBUG_CACHE", "0" if os.environ.get("NUMBA_DEBUG_CACHE") != "0" else "")
    assert (hits(), hits()) == (0, 1)
    assert len(files(tmp_path / "named", "nbi")) == 1


def moved_user(folder, to):
    """The code of `twice` in another folder than the user's."""
    hits()
    to.parent.mkdir(exist_ok=True)
    folder.rename(to)


@pytest.fixture
def user(folder, monkeypatch):
    """The user's folder, beside which there is room for others."""
    write_code_to(folder / "user", monkeypatch)
    return folder / "user"


@pytest.mark.parametrize("place", ["archive", "shared"])
def test_code_that_others_compiled_is_read_and_not_written(user, place, monkeypatch):
    named_folder = user.with_name(place)
    moved_user(user, named_folder)
    monkeypatch.setattr(_folders, "ARCHIVE", named_folder if place == "archive" else user.with_name("none"))
    if place == "shared":
        monkeypatch.setenv(_folders.SHARED_VARIABLE, str(named_folder))
    before = sorted(named_folder.rglob("*"))
    assert hits() == 1
    assert not user.exists()
    assert sorted(named_folder.rglob("*")) == before


def no_folder(monkeypatch, blocked):
    """A user's folder that cannot be made: one below a file, or none."""
    if blocked:
        blocked.write_text("")
        write_code_to(blocked / "below", monkeypatch)
    else:
        write_code_to("", monkeypatch)
        monkeypatch.setattr("platformdirs.user_cache_path", lambda *args, **kwargs: _folders.Path("~/.cache"))


@pytest.mark.parametrize("name", ["file", None])
def test_a_user_who_cannot_write_reads_what_others_compiled(user, name, monkeypatch):
    named_folder = user.with_name("given")
    moved_user(user, named_folder)
    no_folder(monkeypatch, name and user.with_name(name))
    monkeypatch.setenv(_folders.SHARED_VARIABLE, str(named_folder))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert hits() == 1


def thrice(x):
    return 3 * x


@pytest.mark.parametrize("name", ["file", None])
def test_a_user_who_cannot_write_is_told_once(user, name, monkeypatch):
    no_folder(monkeypatch, name and user.with_name(name))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert hits() == 0
        assert jit(thrice)(3) == 9
    (one,) = caught
    assert issubclass(one.category, RuntimeWarning)
    text = str(one.message)
    assert "NUMBA_CACHE_DIR" in text
    assert "PACTREE_SHARED_CACHE" in text
    assert "pt.warm_up()" in text


def test_a_shared_folder_that_is_none(user, monkeypatch):
    monkeypatch.setenv(_folders.SHARED_VARIABLE, str(user.with_name("missing")))
    with pytest.warns(RuntimeWarning, match=r"missing is not a folder that can be read; fill it by .*warm_up"):
        assert hits() == 0
    assert hits() == 1


def test_full_disk(monkeypatch):
    def fail(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("numba.core.caching.IndexDataCacheFile._save_data", fail)
    with pytest.warns(RuntimeWarning, match="No space left on device.*NUMBA_CACHE_DIR"):
        hits()


def test_versions_that_nobody_uses_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(_folders, "_user_folder", lambda: tmp_path / "user")
    part, day = tmp_path / "user" / _code_cache.OWN_FUNCTIONS, 86400.0
    for number in range(30):
        version = part / f"version{number}"
        version.mkdir(parents=True)
        (version / "code.nbc").write_bytes(b"")
        os.utime(version, (time.time(),) * 2 if number == 7 else (time.time() - 2.0 * number * day,) * 2)
    named = tmp_path / "named"
    shutil.copytree(part.parent, named)

    def remaining_versions(folder):
        write_code_to(folder if folder == named else "", monkeypatch)
        _folders.remove_old_versions.cache_clear()
        hits()
        return {path.name for path in (folder / _code_cache.OWN_FUNCTIONS).iterdir() if path.name.startswith("version")}

    # of a folder that somebody named, users may be unable to mark what they use
    assert len(remaining_versions(named)) == 30
    assert remaining_versions(part.parent) == {f"version{number}" for number in range(15)}
    monkeypatch.setattr(_folders, "MOST", 3)
    shutil.rmtree(next(path for path in part.iterdir() if path.name.startswith(_folders.environment_id())))
    assert remaining_versions(part.parent) == {f"version{number}" for number in (0, 1, 7)}
    shutil.rmtree(part)
    assert hits() == 0
