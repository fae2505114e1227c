"""Conversion of Python values to JSON text and plain arrays, the content of a file, and back.

Files contain no pickles. Reading a file makes objects of registered classes only.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import math
import zoneinfo
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any, NamedTuple, TypeVar

import numpy as np

T = TypeVar("T")
ARRAY_KINDS = "fiub"
"""Kinds of dtypes of numbers and booleans, which are stored as arrays. Other arrays are stored as lists in the text."""
SMALL_ARRAY_BYTES = 1 << 16
"""Number of bytes below which arrays of one dtype are joined into one array, since many arrays make files slow."""
JOINT_PREFIX = "small_"
"""First part of the names of joint arrays of small arrays. The dtype follows."""


class Encoded(NamedTuple):
    """A value in the form in which files contain it: text and arrays."""

    text: str
    """JSON text. An array is represented by its name, or by the name of a joint array and its first entry there."""
    arrays: dict[str, np.ndarray]
    """Arrays of numbers by name. Booleans and records are bytes."""


class _Arrays:
    """Arrays to be written to a file. Small ones of one dtype are joined unless their names begin with ``separate``."""

    def __init__(self, separate: tuple[str, ...]) -> None:
        self.separate = separate
        self.single: dict[str, np.ndarray] = {}
        self.shared: dict[int, tuple[np.ndarray, dict]] = {}
        self.small: dict[str, list[np.ndarray]] = {}
        self.used: dict[str, int] = {}

    def add(self, name: str, data: np.ndarray) -> dict:
        """Add an array, and return the JSON object that represents it in the text."""
        # This is {"array": its name}; for a small array the joint array's name, and its "start" and "size" in that
        data = np.ascontiguousarray(data, dtype=data.dtype.newbyteorder("<"))
        if data.nbytes >= SMALL_ARRAY_BYTES or name.startswith(self.separate):
            self.single[name] = data
            return {"array": name}
        pool = JOINT_PREFIX + data.dtype.name
        start = self.used.get(pool, 0)
        self.small.setdefault(pool, []).append(data.ravel())
        self.used[pool] = start + data.size
        return {"array": pool, "start": start, "size": data.size}

    def all(self) -> dict[str, np.ndarray]:
        """Return all arrays by name."""
        return self.single | {pool: np.concatenate(arrays) for pool, arrays in self.small.items()}


class NotStorable(ValueError):
    """Error for a value that a file cannot contain, or for content that cannot be decoded."""


class Codec:
    """Conversion of values of some ``classes`` and dtypes (``records``, by name) to an `Encoded`, and back."""

    def __init__(self, classes: Iterable[type], records: dict[str, np.dtype], separate: Iterable[str] = ()) -> None:
        self.classes = {name_in_file(cls): cls for cls in classes}
        self.records, self.separate = dict(records), tuple(separate)

    def encode(self, value: Any) -> Encoded:
        """Return the value as text and arrays. Raise NotStorable if a file cannot contain a part of it."""
        arrays = _Arrays(self.separate)
        return Encoded(json.dumps(self._encode(value, "", arrays), allow_nan=False), arrays.all())

    def parts(self, encoded: Encoded) -> dict[str, Encoded]:
        """Return the entries of an encoded dict by key, each of which can be decoded by itself."""
        try:
            forms = json.loads(encoded.text)["dict"]
            return {key: Encoded(json.dumps(form), encoded.arrays) for key, form in forms.items()}
        except Exception as error:
            raise NotStorable(f"its description does not make sense ({type(error).__name__}: {error})") from error

    def decode(self, encoded: Encoded) -> Any:
        """Return what `encode` has converted, a range as a tuple. Raise NotStorable if the content makes no sense."""
        try:
            return self._decode(json.loads(encoded.text), encoded.arrays)
        except NotStorable:
            raise
        except Exception as error:
            raise NotStorable(f"its description does not make sense ({type(error).__name__}: {error})") from error

    def _encode(self, value: Any, at: str, arrays: _Arrays) -> Any:
        """Return the JSON form of a value at path ``at``, such as ".draws.trees", and add its arrays to ``arrays``."""
        if value is None or type(value) in (bool, str, int):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": str(value)}
        if type(value) is bytes:
            return {"bytes": value.decode("latin-1")}
        if isinstance(value, np.generic) and value.dtype.kind in ARRAY_KINDS + "U":
            return {"scalar": self._encode(value.item(), at, arrays), "dtype": value.dtype.str}
        if isinstance(value, np.ndarray):
            return self._encode_array(value, at, arrays)
        if type(value) is list:
            return [self._encode(x, f"{at}.{i}", arrays) for i, x in enumerate(value)]
        if type(value) in (tuple, range):
            return {"tuple": [self._encode(x, f"{at}.{i}", arrays) for i, x in enumerate(value)]}
        if type(value) is dict and all(type(key) is str for key in value):
            return {"dict": {key: self._encode(x, f"{at}.{key}", arrays) for key, x in value.items()}}
        if self.classes.get(name_in_file(type(value))) is type(value):
            value = value.for_file() if hasattr(value, "for_file") else value
            names = field_names(type(value))
            fields = {name: self._encode(getattr(value, name), f"{at}.{name}", arrays) for name in names}
            return {"class": name_in_file(type(value)), "fields": fields}
        if hasattr(value, "__array__") and not isinstance(value, np.generic):
            return self._encode_array(np.asarray(value), at, arrays)
        if (parts := parts_of(value)) is not None:
            return {"scalar_type": type(value).__name__, "parts": [self._encode(part, at, arrays) for part in parts]}
        raise NotStorable(f"{at.lstrip('.')} is a {type(value).__name__}, {value!r}, which a file cannot hold")

    def _encode_array(self, value: np.ndarray, at: str, arrays: _Arrays) -> Any:
        """Return the JSON form of an array at path ``at``, and add the array to ``arrays``."""
        # the same object is added once, unless its path begins with an entry of ``separate``
        if at.lstrip(".").startswith(arrays.separate):
            return self._encode_new(value, at, arrays)
        if id(value) not in arrays.shared:
            arrays.shared[id(value)] = value, self._encode_new(value, at, arrays)
        return arrays.shared[id(value)][1]

    def _encode_new(self, value: np.ndarray, at: str, arrays: _Arrays) -> Any:
        """Return the JSON form of an array at ``at``, and add it to ``arrays`` unless it is empty, text or objects."""
        if value.dtype.names is not None:
            name = next((name for name, dtype in self.records.items() if dtype == value.dtype), None)
            if name is None:
                raise NotStorable(f"{at.lstrip('.')} holds records of {value.dtype}, which a file cannot hold")
            plain = np.ascontiguousarray(np.asarray(value)).view(self.records[name])
            data = plain.view(np.uint8) if plain.size else np.empty(0)
            form: dict[str, Any] = {"records": name, "layout": str(plain.dtype.descr)}
        elif value.dtype.kind in ARRAY_KINDS:
            data, form = (value.astype(np.uint8) if value.dtype.kind == "b" else value), {}
        else:
            labels = [self._encode(x, at, arrays) for x in value.ravel().tolist()]
            text = type(value.dtype).__name__ == "StringDType"
            return {"labels": labels, "dtype": "text" if text else value.dtype.str, "shape": list(value.shape)}
        form |= {"dtype": value.dtype.str, "shape": list(value.shape)}
        return form | arrays.add(at.lstrip("."), data) if data.size else form

    def _decode(self, form: Any, arrays: dict[str, np.ndarray]) -> Any:
        """Return the value whose JSON form, from `_encode`, is ``form``, given its ``arrays`` by name."""
        if isinstance(form, list):
            return [self._decode(x, arrays) for x in form]
        if not isinstance(form, dict):
            return form
        if "class" in form:
            if form["class"] not in self.classes:
                raise NotStorable(f"it holds a {form['class']}, which this release does not know")
            fields = {name: self._decode(x, arrays) for name, x in form["fields"].items()}
            return self.classes[form["class"]](**fields)
        if "tuple" in form:
            return tuple(self._decode(x, arrays) for x in form["tuple"])
        if "dict" in form:
            return {key: self._decode(x, arrays) for key, x in form["dict"].items()}
        if "bytes" in form:
            return form["bytes"].encode("latin-1")
        if "float" in form:
            return float(form["float"])
        if "scalar_type" in form:
            if form["scalar_type"] not in SCALAR_TYPES:
                raise NotStorable(f"it holds a {form['scalar_type']}, which this release does not know")
            return SCALAR_TYPES[form["scalar_type"]].make(*[self._decode(x, arrays) for x in form["parts"]])
        if "scalar" in form:
            return np.dtype(form["dtype"]).type(self._decode(form["scalar"], arrays))
        return self._decode_array(form, arrays)

    def _decode_array(self, form: dict, arrays: dict[str, np.ndarray]) -> np.ndarray:
        """Return the array whose JSON form is ``form``, given the ``arrays`` by name; records as a record array."""
        shape = tuple(form["shape"])
        if "labels" in form:
            labels = [self._decode(x, arrays) for x in form["labels"]]
            if form["dtype"] == "text":
                # NumPy 1.26 has no StringDType. It gets the same labels as text of fixed width.
                kind = np.dtypes.StringDType() if hasattr(np.dtypes, "StringDType") else np.str_
                return np.array(labels, dtype=kind).reshape(shape)
            out = np.empty(len(labels), dtype=np.dtype(form["dtype"]))
            out[:] = labels
            return out.reshape(shape)
        name = form.get("records")
        dtype = np.dtype(form["dtype"]) if name is None else self.records[name]
        if name is not None and str(dtype.descr) != form["layout"]:
            raise NotStorable(f"its records {name} have another layout than those of this release")
        if "array" not in form:
            if math.prod(shape) != 0:
                raise NotStorable(f"an array of shape {shape} is missing")
            out = np.zeros(shape, dtype=dtype)
        else:
            data = np.ascontiguousarray(arrays[form["array"]])
            if "start" in form:
                data = data[form["start"] : form["start"] + form["size"]]
            out = data.view(dtype) if name is not None else data.astype(dtype)
        return out.reshape(shape).view(np.recarray) if name is not None else out.reshape(shape)


def field_names(cls: type) -> tuple[str, ...]:
    """Return the names of the fields from which an object of a class is made."""
    if dataclasses.is_dataclass(cls):
        return tuple(field.name for field in dataclasses.fields(cls) if field.init)
    return cls._fields  # type: ignore[attr-defined]


def name_in_file(cls: type) -> str:
    """Return the name that a class has in files: ``NAME_IN_FILE`` if it has one, else its own."""
    return str(getattr(cls, "NAME_IN_FILE", cls.__name__))


CODEC = Codec((), {}, ("draws.trees", "draws.stats", "draws.tree_of_draw"))
"""Codec of the files of this library. Classes and record types are registered where they are defined."""


def register_class(cls: type[T]) -> type[T]:
    """Register a NamedTuple or dataclass whose values files may contain. This is a decorator of the class."""
    CODEC.classes[name_in_file(cls)] = cls
    return cls


def register_records(**records: np.dtype) -> None:
    """Register record types, by name, whose arrays files may contain."""
    CODEC.records.update(records)


class ScalarType(NamedTuple):
    """Conversion of the values of one type to parts that a file contains, and back."""

    parts: Callable[[Any], list[Any]]
    """Function of a value that returns its parts: text, numbers, None, or other values that can be stored."""
    make: Callable[..., Any]
    """Function of the parts that returns the value."""


def _pandas() -> Any:
    """Return the module pandas, which a model without such categories does not need."""
    import pandas as pd

    return pd


def _datetime_parts(value: datetime.datetime) -> list[Any]:
    """Return the ISO text of a datetime and the name of its time zone, or the text with an offset, if any, and None."""
    zone = getattr(value.tzinfo, "key", None)
    return [value.isoformat() if zone is None else value.replace(tzinfo=None).isoformat(), zone]


def _datetime(text: str, zone: str | None) -> datetime.datetime:
    """Return the datetime of an ISO text, with or without an offset, or in a named time zone."""
    value = datetime.datetime.fromisoformat(text)
    return value if zone is None else value.replace(tzinfo=zoneinfo.ZoneInfo(zone))


def _timestamp(text: str, unit: str, zone: str | None) -> Any:
    """Return the pandas Timestamp of an ISO text with its offset, in a time unit and a named time zone or None."""
    value = _pandas().Timestamp(text)
    return (value if zone is None else value.tz_convert(zone)).as_unit(unit)


SCALAR_TYPES = {
    "date": ScalarType(lambda x: [x.isoformat()], datetime.date.fromisoformat),
    "datetime": ScalarType(_datetime_parts, _datetime),
    "time": ScalarType(lambda x: [x.isoformat()], datetime.time.fromisoformat),
    "timedelta": ScalarType(lambda x: [x.days, x.seconds, x.microseconds], datetime.timedelta),
    "Decimal": ScalarType(lambda x: [str(x)], Decimal),
    "Timestamp": ScalarType(lambda x: [x.isoformat(), x.unit, None if x.tz is None else str(x.tz)], _timestamp),
    "Timedelta": ScalarType(
        lambda x: [x.isoformat(), x.unit], lambda text, unit: _pandas().Timedelta(text).as_unit(unit)
    ),
    "Period": ScalarType(
        lambda x: [x.ordinal, x.freqstr], lambda ordinal, freq: _pandas().Period(ordinal=ordinal, freq=freq)
    ),
    "Interval": ScalarType(lambda x: [x.left, x.right, x.closed], lambda *parts: _pandas().Interval(*parts)),
}
"""Types whose values can be stored, by the name that the file contains."""
SCALAR_MODULES = ("datetime", "decimal", "pandas")
"""Packages of these types."""


def parts_of(value: Any) -> list[Any] | None:
    """Return the parts of a value of one of the `SCALAR_TYPES`, or None if they would not give exactly this value."""
    kind = SCALAR_TYPES.get(type(value).__name__)
    if kind is None or type(value).__module__.partition(".")[0] not in SCALAR_MODULES:
        return None
    try:
        parts = kind.parts(value)
        restored = kind.make(*parts)
        is_exact = type(restored) is type(value) and restored == value and repr(restored) == repr(value)
        return parts if is_exact and hash(restored) == hash(value) else None
    except Exception:
        return None
