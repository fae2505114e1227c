"""Functions compiled as one, and code that comes with the library: used where it fits, refused where it does not."""

import pickle
import sys
import threading
from typing import NamedTuple

import numba
import numpy as np
import pytest
from numba.core import types

from pactree_mcmc.core.compile import cache as _cache
from pactree_mcmc.core.compile.cache import JointCache, watch_compilation
from pactree_mcmc.core.compile.jit import jit, pack
from pactree_mcmc.core.compile.together import Member, compile_together
from tests.code_folders import write_code_to

pytestmark = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")


class Numbers(NamedTuple):
    x: np.ndarray


@jit
def shared(o, i):
    if i >= len(o.x):
        raise IndexError("behind the end")
    return 3.0 * o.x[i]


def first(o, i):
    return shared(o, i) + 1.0


def second(o, i):
    o.x[i] = shared(o, i)


VALUES = Numbers(np.arange(4.0))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    write_code_to(tmp_path / "cache", monkeypatch)
    monkeypatch.setattr(_cache, "ARCHIVE", tmp_path / "archive")
    monkeypatch.setattr(_cache, "is_of_library", lambda function: True)
    monkeypatch.setattr(_cache, "sources_hash", lambda package: "the sources")
    return tmp_path


def compiled():
    """Both functions, as in a new process; and which of them had to be compiled."""
    functions, compilations = [jit(first), jit(second)], []
    kind = numba.typeof(pack(VALUES))
    with watch_compilation(lambda of: compilations.append(of._function.__name__)):
        compile_together([Member(function, (kind, types.int64)) for function in functions])
    return functions, compilations


def check(functions):
    values = Numbers(np.arange(4.0))
    one, two = functions
    assert one(pack(values), 2) == 7.0
    two(pack(values), 3)
    assert values.x.tolist() == [0.0, 1.0, 2.0, 9.0]
    with pytest.raises(IndexError, match="behind the end"):
        one(pack(values), 4)


def test_compiled_once_then_found():
    functions, compilations = compiled()
    check(functions)
    assert compilations == ["first", "second"]
    functions, compilations = compiled()
    check(functions)
    assert compilations == []


def third(o, i):
    return shared(o, i) - 1.0


def fourth(o, i):
    o.x[i] = shared(o, i) + 4.0


def test_what_is_missing_is_compiled_as_one():
    (one, _), _ = compiled()
    kind = numba.typeof(pack(VALUES))
    others = [jit(third), jit(fourth)]
    compile_together([Member(function, (kind, types.int64)) for function in (one, *others)])
    (a,), (b,), (c,) = (function.overloads.values() for function in (one, *others))
    assert b.library is c.library is not a.library and others[0](pack(Numbers(np.arange(4.0))), 2) == 5.0


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such locks")
def test_a_process_waits_while_another_one_compiles_the_same():
    compiled_here = []
    other = threading.Thread(target=lambda: compiled_here.append(compiled()[1]))
    with JointCache([jit(first), jit(second)]).locked():
        other.start()
        other.join(0.5)
        assert other.is_alive()
    other.join()
    assert compiled_here == [["first", "second"]]


def shipped(folder):
    compiled()
    (folder / "cache").rename(folder / "archive")


def read_index(folder):
    (path,) = (folder / "archive").rglob("*.nbi")
    with path.open("rb") as file:
        version = pickle.load(file)
        stamp, index = pickle.loads(file.read())
    return path, version, stamp, index


def for_another_processor(folder, magic):
    """Pretend that the archive was made by another processor, whose code is named by ``magic``."""
    path, version, stamp, index = read_index(folder)
    (((names, own), file),) = index.items()
    key = (names, (own[0], *magic))
    path.write_bytes(pickle.dumps(version) + pickle.dumps((stamp, {key: file})))
    index = _cache._Index(path.parent, path.stem)
    index.write(key, pickle.loads(index._load_data(file)[1])[1])


def test_code_that_came_with_the_library(folder):
    shipped(folder)
    functions, compilations = compiled()
    check(functions)
    assert compilations == [] and list((folder / "cache").rglob("*.nbc")) == []


def test_code_for_another_processor(folder):
    shipped(folder)
    for_another_processor(folder, ("another", "+none"))
    functions, compilations = compiled()
    check(functions)
    assert compilations == [] and len(list((folder / "cache").rglob("*.nbc"))) == 1
    (folder / "archive").rename(folder / "gone")
    assert compiled()[1] == []


@pytest.mark.parametrize("wrong", ["stale", "numba", "foreign", "damaged", "types"])
def test_an_archive_that_does_not_fit_is_refused(folder, wrong, monkeypatch):
    shipped(folder)
    path, version, stamp, index = read_index(folder)
    if wrong == "stale":
        monkeypatch.setattr(_cache, "sources_hash", lambda package: "newer sources")
    elif wrong == "numba":
        path.write_bytes(pickle.dumps("0.1") + pickle.dumps((stamp, index)))
    elif wrong == "foreign":
        path.parent.rename(
            path.parent.with_name(path.parent.name.replace(_cache.environment_id(), "py37-numba0.1-plan9"))
        )
    elif wrong == "damaged":
        next(path.parent.glob("*.nbc")).write_bytes(b"damaged")
    else:
        path.write_bytes(pickle.dumps(version) + pickle.dumps((stamp, {(("other",), k[1]): index[k] for k in index})))
    functions, compilations = compiled()
    check(functions)
    assert compilations == ["first", "second"]
