"""Compiled code on disk: forgotten when a source changes; a folder that is damaged, full or missing only costs time."""

import ast
import pickle

import numba
import pytest

from pactree_mcmc.core.compile import cache as _code_cache
from pactree_mcmc.core.compile import sources as _sources
from pactree_mcmc.core.compile.jit import jit

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
    monkeypatch.setattr(_code_cache, "sources", lambda package: "another library")
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
        _sources._texts.cache_clear()
        return _sources.sources.__wrapped__(package)

    yield stamp
    _sources._texts.cache_clear()


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


def test_imports_are_those_of_the_parser():
    texts = _sources._texts()
    packages = {name for name in texts if any(other.startswith(f"{name}.") for other in texts)}
    for name, text in texts.items():
        found = set()
        for node in ast.parse(text).body:
            if isinstance(node, ast.ImportFrom):
                above = name.split(".")[: len(name.split(".")) - node.level + (name in packages)] if node.level else []
                base = ".".join([*above, *([node.module] if node.module else [])])
                found |= {base} | {f"{base}.{alias.name}" for alias in node.names}
            elif isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
        assert found & set(texts) <= set(_sources._imports(name)), name


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
