"""Groups of arrays as one pointer: compiled code reads and writes what NumPy does, within bounds."""

import os
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest

from pactree_mcmc.core.compile.jit import jit, pack
from tests.programs import run

pytestmark = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
RECORD = np.dtype([("a", np.int64), ("b", np.int32), ("c", np.float32)], align=True)


class Inner(NamedTuple):
    """Numbers of all kinds, and arrays."""

    numbers: np.ndarray
    records: np.recarray
    flag: bool
    x: float
    n: int


class Outer(NamedTuple):
    """A group in a group, and a generator."""

    rng: Any
    inner: Inner
    table: np.ndarray
    cube: np.ndarray


class Drawing(NamedTuple):
    rng: Any


def outer(seed=0):
    rng = np.random.default_rng(seed)
    records = np.zeros(3, dtype=RECORD).view(np.recarray)
    records.a, records.b, records.c = [1, -2, 3], [4, 5, 6], [0.5, -0.25, 8.0]
    inner = Inner(rng.normal(size=4), records, bool(seed % 2), 2.5 + seed, -4 - seed)
    return Outer(np.random.default_rng(7), inner, rng.normal(size=(3, 4)), rng.integers(0, 99, (2, 3, 2)))


@jit
def read(o, i):
    last = o.table[-1, -1]
    row, total = o.table[i], 0.0
    for value in o.inner.numbers:
        total += value
    here = o.inner.records[i]
    sizes = len(o.table) + o.table.shape[1] * 10 + o.cube.size * 100 + o.inner.numbers.ndim
    return last, row[1], total, here.a, here.b, here.c, sizes, o.cube[1, i, 0], o.inner.flag, o.inner.x, o.inner.n


def read_plainly(o, i):
    here, sizes = o.inner.records[i], len(o.table) + o.table.shape[1] * 10 + o.cube.size * 100 + 1
    values = o.table[-1, -1], o.table[i, 1], o.inner.numbers.sum(), here.a, here.b, here.c, sizes, o.cube[1, i, 0]
    return *values, o.inner.flag, o.inner.x, o.inner.n


@pytest.mark.parametrize("seed", [0, 1])
def test_reading(seed):
    o = outer(seed)
    packed = pack(o)
    for i in (0, 1, 2, -1, -3):
        assert read(packed, i) == pytest.approx(read_plainly(o, i), abs=1e-12)


@jit
def write(o, i):
    o.table[i, 0] = 7
    o.table[0, :] = 1.5
    o.table[1] = o.table[2]
    o.inner.numbers[-1] += 2.5
    o.inner.numbers[:2] = o.inner.numbers[2:]
    o.inner.records[i].b = 9
    o.inner.records[0] = o.inner.records[2]
    o.cube[0, i, 1] -= 3


def test_writing():
    o, other = outer(), outer()
    write(pack(o), 2)
    write.py_func(other, 2)
    assert np.array_equal(o.table, other.table) and np.array_equal(o.inner.numbers, other.inner.numbers)
    assert np.array_equal(o.inner.records, other.inner.records) and np.array_equal(o.cube, other.cube)


def test_a_group_in_a_group_is_shared():
    o = outer()
    inner_pack = pack(o.inner)
    around = pack(o._replace(inner=inner_pack))
    del inner_pack
    write(around, 1)
    assert o.inner.records.b[1] == 9


@jit
def draw(o, out, n):
    for i in range(len(out)):
        out[i] = o.rng.integers(0, n)
    return o.rng.random(), o.rng.gamma(2.5), o.rng.standard_exponential()


@pytest.mark.parametrize(
    "n", [1, 2, 3, 1000, 3 << 30, (1 << 32) - 1, 1 << 32, (1 << 32) + 1, 5 << 40, (1 << 62) - 1, 3 << 61]
)
@pytest.mark.parametrize("bits", [np.random.PCG64, np.random.MT19937, np.random.Philox])
def test_drawn_as_numpy_draws(n, bits):
    ours, theirs = np.random.Generator(bits(3)), np.random.Generator(bits(3))
    out = np.empty(300, dtype=np.int64)
    rest = draw(pack(Drawing(ours)), out, n)
    assert out.tolist() == [theirs.integers(0, n) for _ in range(300)]
    assert rest == (theirs.random(), theirs.gamma(2.5), theirs.standard_exponential())


@pytest.mark.more
def test_another_numba_gives_the_same_answer(tmp_path):
    """Compile without the private parts of numba if they have changed."""
    import os

    env = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    faster, plainly = (run("with_another_numba", *words, env=env) for words in ((), ("other",)))
    assert faster.stdout.startswith("True")
    assert plainly.stdout.startswith("False"), plainly.stderr
    assert faster.stdout.split(" ", 1)[1] == plainly.stdout.split(" ", 1)[1]


def checked(folder, *words):
    return run("within_bounds", *words, env=os.environ | {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(folder)})


@pytest.mark.more
@pytest.mark.planted
def test_a_place_beyond_the_end_is_seen(tmp_path):
    assert "IndexError: index is out of bounds" in checked(tmp_path, "beyond").stderr


@pytest.mark.more
def test_within_bounds(tmp_path):
    process = checked(tmp_path)
    assert process.stdout == "within bounds\n", process.stderr
