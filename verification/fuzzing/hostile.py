"""Arguments that no function expects. Each is made for one call, so that no call can spoil it for the next."""

from __future__ import annotations

import array
import collections
import datetime
import decimal
import fractions
import io
import pathlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from scipy import sparse


class Odd:
    """An object one of whose special methods misbehaves; ``what`` says which and how."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        answers = {"list": [1, 2], "nothing": None, "deep": np.zeros((2, 2, 2)), "objects": np.array([{}, []], object)}
        if self.what == "raises":
            raise RuntimeError("no array today")
        return answers.get(self.what, np.arange(12.0))

    def __repr__(self) -> str:
        if self.what == "repr":
            raise AttributeError("no words either")
        return f"Odd({self.what!r})"


class OddLength:
    """Object with a length that is not valid."""

    def __init__(self, length: Any) -> None:
        self.length = length

    def __len__(self) -> int:
        if isinstance(self.length, Exception):
            raise self.length
        return self.length

    def __getitem__(self, i: Any) -> float:
        if self.length != 3 or i > 2:
            raise IndexError(i)
        return [0.25, "x", None][i]


class OddEqual:
    """Object that equals nothing, and whose comparisons have no truth value."""

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> Any:
        return np.array([True, False])

    def __lt__(self, other: object) -> Any:
        raise KeyError("not comparable")

    __gt__ = __le__ = __ge__ = __lt__

    def __bool__(self) -> bool:
        raise ZeroDivisionError("neither true nor false")


class OddNumber:
    """Object that claims to be a number and fails if it is used as one."""

    def __float__(self) -> float:
        raise OverflowError("too large")

    def __index__(self) -> int:
        return 1 << 80


class Anything:
    """Object that has every attribute, each of which is such an object again."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return Anything()


class Text(str):
    """A string that is equal to no other."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return False


class Integer(int):
    """An integer whose comparisons are always False."""

    __hash__ = int.__hash__

    def __lt__(self, other: object) -> bool:
        return False

    def __gt__(self, other: object) -> bool:
        return False


class Array(np.ndarray):
    """An array that refuses sums and comparisons."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{ufunc.__name__} is not for this array")


class Frame(pd.DataFrame):
    """A subclass of a frame."""


def _recursive() -> list:
    out: list = []
    out.append(out)
    return out


def _deep(levels: int) -> list:
    out: list = [1.0]
    for _ in range(levels):
        out = [out]
    return out


def _read_only() -> np.ndarray:
    out = np.arange(36.0).reshape(12, 3)
    out.setflags(write=False)
    return out


def _frame(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame(columns)


def _days(n: int) -> Any:
    return pd.date_range("2020", periods=n)


SCALARS: tuple[Callable[[], Any], ...] = tuple(
    (lambda value=value: value)
    for value in (
        *(None, True, False, 0, 1, -1, 2, 3, 64, 2**31, 2**32, 2**63 - 1, 2**63, -(2**63) - 1),
        *(10**30, 10**400, -(10**400)),
        *(0.0, -0.0, 0.5, 1.5, -0.5, 2.0, 1e-12, 1e308, -1e308, 5e-324, 1.0 - 2**-53),
        *(float("nan"), float("inf"), -float("inf"), 1j, complex("nan")),
        *("", "0.5", "1", "nan", "default", "yes", "no", "\x00", "x" * 10_000, "日本\ud800"),
        *(b"", b"\xff\x00", bytearray(b"ab"), np.str_("yes"), np.bytes_(b"no"), np.bool_(True)),
        *(np.float32(0.5), np.float64("nan"), np.float16("inf"), np.longdouble("1e4000"), np.int8(-128)),
        *(np.uint64(2**64 - 1), np.complex64(1j), np.datetime64("NaT"), np.timedelta64(3, "D")),
        *(decimal.Decimal("0.3"), decimal.Decimal("NaN"), fractions.Fraction(1, 3), fractions.Fraction(10**400, 3)),
        *(datetime.datetime(2020, 1, 1), datetime.timedelta(3), pd.NaT, pd.NA, pd.Timestamp("2020"), pd.Interval(0, 1)),
        *(Ellipsis, NotImplemented, slice(None), int, object, len, pathlib.Path("nowhere"), range(3), range(10**12)),
    )
)
OBJECTS: tuple[Callable[[], Any], ...] = (
    object,
    lambda: lambda *a, **k: None,
    *(partial(Odd, what) for what in ("raises", "list", "nothing", "deep", "objects", "repr", "arange")),
    *(partial(OddLength, length) for length in (3, -1, 1 << 62, RuntimeError("no length"))),
    *(partial(Text, text) for text in ("error", "default")),
    OddEqual,
    OddNumber,
    Anything,
    lambda: Integer(-5),
    lambda: iter([1, 2, 3]),
    lambda: (x for x in [[0.0], [1.0]]),
    lambda: io.BytesIO(b"abc"),
    lambda: memoryview(b"abcdef"),
    lambda: array.array("d", [1.0, 2.0]),
    lambda: collections.deque([1, 2, 3]),
    lambda: collections.OrderedDict(a=1),
    lambda: {"feature": [0]},
    *(dict, set, list, tuple),
    lambda: {1, 2},
    lambda: {"grow-prune": float("nan")},
    lambda: {"grow-prune": 1.0, "no such move": 1.0},
    lambda: {3: 4},
    lambda: {"grow-prune": 10**400},
    lambda: [None],
    lambda: [None, None, None],
    lambda: [1, 2, 3],
    lambda: [[1, 2], [3]],
    lambda: [[[]]],
    lambda: [[1.0, "a"], [None, 2.0]],
    lambda: (0.5, "a"),
    lambda: ["a"] * 12,
    lambda: [float("nan")] * 12,
    lambda: [10**400] * 12,
    lambda: [2**63] * 12,
    lambda: [OddEqual() for _ in range(12)],
    lambda: [Odd("raises")] * 12,
    _recursive,
    *(partial(_deep, levels) for levels in (40, 70, 3000)),
)
ARRAYS: tuple[Callable[[], Any], ...] = (
    *(partial(np.array, value) for value in (0.5, 3, "yes", None)),
    *(partial(np.zeros, shape) for shape in (0, (0, 3), (12, 0), (0, 0), (2, 2, 2), (1,) * 32)),
    *(partial(np.zeros, shape) for shape in (12, (12, 3), (12, 1), (1, 3))),
    *(partial(np.zeros, (12, 3), dtype=dtype) for dtype in (complex, "M8[s]", np.float16)),
    *(partial(np.zeros, 12, dtype=dtype) for dtype in ("m8[D]", "V4", [("a", float), ("b", "U3")])),
    lambda: np.full((12, 3), np.longdouble("1e4000")),
    lambda: np.arange(12, dtype=">i8"),
    lambda: np.arange(12, dtype=np.uint64) + np.uint64(2**63),
    lambda: np.full(12, -(2**63)),
    lambda: np.arange(36, dtype=">f8").reshape(12, 3),
    lambda: np.arange(36.0).reshape(3, 12).T,
    lambda: np.arange(72.0).reshape(12, 6)[:, ::2],
    lambda: np.arange(36.0).reshape(12, 3)[::-1, ::-1],
    lambda: np.broadcast_to(np.float64(1.0), (12, 3)),
    lambda: np.broadcast_to(0.0, (10**5, 3)),
    _read_only,
    lambda: np.arange(12) % 2 == 0,
    lambda: np.arange(12) % 3,
    lambda: np.full(12, np.nan),
    lambda: np.full((12, 3), np.inf),
    lambda: np.array([[0.0, 1.0, np.nan]] * 12),
    lambda: np.full((12, 3), 1e308) * np.array([1, -1, 1]),
    lambda: np.arange(36.0).reshape(12, 3) * 5e-324,
    lambda: np.array(["a", "b"] * 6),
    lambda: np.array([b"a", b""] * 6),
    lambda: np.array(["a", "b"] * 6, dtype=np.dtypes.StringDType()),
    lambda: np.array([1, "a", None, 2.5] * 3, dtype=object),
    lambda: np.array([[1, "a", None]] * 12, dtype=object),
    lambda: np.array([{}, [], ()] * 4, dtype=object),
    lambda: np.array([OddEqual() for _ in range(12)], dtype=object),
    lambda: np.array([OddNumber()] * 12, dtype=object),
    lambda: np.array([10**400] * 12, dtype=object),
    lambda: np.array([[fractions.Fraction(1, 3)] * 3] * 12, dtype=object),
    lambda: np.array([decimal.Decimal("0.1")] * 12, dtype=object),
    lambda: np.ma.masked_array(np.arange(12.0), mask=np.arange(12) == 3),
    lambda: np.ma.masked_array(np.arange(36.0).reshape(12, 3), mask=np.eye(12, 3, dtype=bool)),
    lambda: np.ma.masked_array(np.arange(36.0).reshape(12, 3)),
    lambda: np.ma.masked,
    lambda: np.matrix(np.arange(36.0).reshape(12, 3)),
    lambda: np.arange(36.0).reshape(12, 3).view(Array),
    lambda: np.arange(12.0).view(Array),
    lambda: np.rec.array([(1, 2.0)] * 12, names="a,b"),
    lambda: sparse.csr_matrix(np.eye(12, 3)),
    lambda: sparse.coo_array(np.eye(12, 3)),
)
FRAMES: tuple[Callable[[], Any], ...] = (
    pd.DataFrame,
    lambda: Frame(np.arange(36.0).reshape(12, 3)),
    lambda: _frame(a=range(12), b=_days(12), c=1.0),
    lambda: _frame(a=range(12), b=pd.period_range("2020", periods=12), c=1.0),
    lambda: _frame(a=range(12), b=pd.array([1, None, 3] * 4, dtype="Int64"), c=1.0),
    lambda: _frame(a=range(12), b=pd.array(["x", None, "z"] * 4, dtype="string"), c=1.0),
    lambda: _frame(a=range(12), b=pd.Categorical([1.5, None, 2.5] * 4), c=1.0),
    lambda: _frame(a=range(12), b=pd.Categorical(["x"] * 12, categories=["x", "y"]), c=1.0),
    lambda: _frame(a=range(12), b=pd.Categorical(_days(12)), c=1.0),
    lambda: _frame(a=range(12), b=pd.arrays.SparseArray([0.0, 1.0] * 6), c=1.0),
    lambda: _frame(a=range(12), b=pd.interval_range(0, 12), c=1.0),
    lambda: _frame(a=range(12), b=[[1], {}, None] * 4, c=1.0),
    lambda: _frame(a=range(12), b=[1j] * 12, c=[True, None, False] * 4),
    lambda: pd.DataFrame(np.arange(36.0).reshape(12, 3), columns=["a", "a", "b"]),
    lambda: pd.DataFrame(np.arange(36.0).reshape(12, 3), columns=[1, None, ("x", 2)]),
    lambda: pd.DataFrame(np.eye(12, 2), columns=pd.MultiIndex.from_tuples([("a", 1), ("a", 2)])),
    lambda: pd.DataFrame(np.eye(12, 3), index=[0] * 12),
    lambda: pd.Series(np.arange(12.0), index=list("abcdefghijkl")),
    lambda: pd.Series(["a", None] * 6),
    lambda: pd.Series(pd.Categorical(["a", "b"] * 6)),
    lambda: pd.Series(_days(12)),
    lambda: pd.Index([1, 2, 3]),
    pl.DataFrame,
    lambda: pl.DataFrame({"a": range(12), "b": [[1], [2, 3], []] * 4, "c": [1.0] * 12}),
    lambda: pl.DataFrame({"a": range(12), "b": [{"x": 1}] * 12, "c": [None] * 12}),
    lambda: pl.DataFrame({"a": range(12), "b": [datetime.date(2020, 1, 1)] * 12, "c": ["x", None, "z"] * 4}),
    lambda: pl.DataFrame({"a": range(12), "b": pl.Series(["x", None, "z"] * 4, dtype=pl.Categorical), "c": [0.5] * 12}),
    lambda: pl.Series([1, None, 3] * 4),
    lambda: pl.LazyFrame({"a": [1, 2, 3]}),
)
HOSTILE = SCALARS + OBJECTS + ARRAYS + FRAMES
