"""Checks and conversions of arguments that many public functions share.

Arguments may be of any type, so no check compares or converts a value before its type is known, or relies on its repr.
"""

from __future__ import annotations

import functools
import numbers
import re
import reprlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, SupportsIndex, TypeVar, cast

import numpy as np

# source of randomness, as an argument of public functions
Seed = SupportsIndex | Sequence[int] | np.random.SeedSequence | np.random.BitGenerator | np.random.Generator | None
Function = TypeVar("Function", bound=Callable[..., Any])
MAX_COUNT = 2**31 - 1  # largest value of a count, since draws, rows and cells have indices of 31 bits

LARGEST_BELOW_ONE = 1.0 - 2.0**-53  # largest float64 below 1
MAX_EXACT_INTEGER = 1 << 53  # largest integer up to which float64 represents all integers

_SHORT_REPR = reprlib.Repr()
_SHORT_REPR.maxstring = _SHORT_REPR.maxother = 100
_SHORT_REPR.maxlist = _SHORT_REPR.maxtuple = _SHORT_REPR.maxdict = 8


def repr_of(value: Any) -> str:
    """Return a value as text for an error message: its repr, cut short, or its type if it has no repr."""
    try:
        text = _SHORT_REPR.repr(value)
    except Exception:
        return f"a {type(value).__name__}"
    return text.encode("utf-8", "backslashreplace").decode()


def is_integer(value: Any) -> bool:
    """Return True if a value is an integer of Python or NumPy, but not a boolean or a duration."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64)


def check_count(name: str, value: Any, least: int = 1, most: int = MAX_COUNT, *, or_none: bool = False) -> int:
    """Return ``value`` as an int if it is an integer from ``least`` to ``most``. Otherwise raise a ValueError."""
    if not is_integer(value) or not least <= int(value) <= most:
        wording = f"an integer >= {least}" if most >= MAX_COUNT else f"an integer {least}..{most}"
        if most == MAX_COUNT and is_integer(value) and int(value) > most:
            wording += f" and <= {most}"
        wording += ", or None" if or_none else ""
        raise ValueError(f"{name}={repr_of(value)} is out of range; give {wording}.")
    return int(value)


def set_field(instance: Any, name: str, value: Any) -> None:
    object.__setattr__(instance, name, value)


def as_number(value: Any) -> float | None:
    """Return a real number as float, infinite if it is too large. Return None for anything else, booleans included."""
    if not isinstance(value, numbers.Real) or isinstance(value, bool | np.bool_ | np.timedelta64):
        return None
    try:
        with np.errstate(over="ignore"):
            return float(value)
    except OverflowError:
        return float("inf") if value > 0 else -float("inf")  # type: ignore[operator]
    except Exception:
        return None


def check_number(name: str, value: Any, expected: str, least: float = -np.inf, most: float = np.inf) -> float:
    """Return a finite number in [``least``, ``most``] as float. Otherwise raise a ValueError."""
    number = as_number(value)
    if number is None or not least <= number <= most or not np.isfinite(number):
        raise ValueError(f"{name}={repr_of(value)} is out of range; give {expected}.")
    return number


def check_flag(name: str, value: Any) -> bool:
    """Return a boolean. Raise a ValueError for any other value."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name}={repr_of(value)} is not a boolean; give True or False.")
    return bool(value)


def check_choice(name: str, value: Any, choices: Iterable[str]) -> str:
    """Return ``value`` if it is one of the ``choices``. Otherwise raise a ValueError."""
    choices = list(choices)
    if not isinstance(value, str) or str(value) not in choices:
        raise ValueError(f"{name}={repr_of(value)} is unknown; give one of {choices}.")
    return str(value)


def check_type(name: str, value: Any, kind: Any, expected: str) -> None:
    """Raise a TypeError unless ``value`` is an instance of ``kind``. Its message says to give ``expected``."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} is {repr_of(value)}, a {type(value).__name__}; give {expected}.")


def refuse_long_range(name: str, value: Any) -> None:
    """Raise a ValueError if a value is a ``range`` of more than ``MAX_COUNT`` numbers, which may not fit in memory."""
    if isinstance(value, range) and value[MAX_COUNT:]:
        raise ValueError(f"{name} is {repr_of(value)}, which is too long; give at most {MAX_COUNT} numbers.")


def central_fractions(coverage: Any) -> tuple[float, float]:
    """Return the probabilities below the two ends of a central interval: (1 - coverage) / 2 and (1 + coverage) / 2."""
    coverage = check_number("coverage", coverage, "a probability 0 < coverage < 1", 1e-15, 1.0 - 1e-15)
    return (1.0 - coverage) / 2.0, (1.0 + coverage) / 2.0


def read_array(name: str, value: Any) -> np.ndarray:
    """Return an argument as an array of any dtype; ValueError if ragged or masked, which an array cannot represent."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise ValueError(f"{name} is an array with masked entries; fill them in, or drop them.")
    refuse_long_range(name, value)
    try:
        array = np.asarray(value)
        return array if type(array) is np.ndarray else np.asarray(array).view(np.ndarray)
    except Exception as error:
        raise ValueError(
            f"{name} is {repr_of(value)}, which makes no array ({type(error).__name__}); give an array or a list."
        ) from error


def inexact_row(values: np.ndarray) -> int | None:
    """Return the index of the first row of an array (n, ...) with an integer that float64 would round, or None."""
    if values.dtype.kind not in "iuO":
        return None
    if values.dtype.kind == "O":
        large = np.array(
            [isinstance(v, int | np.integer) and abs(int(v)) > MAX_EXACT_INTEGER for v in values.ravel().tolist()]
        )
        large = large.reshape(values.shape)
    elif values.dtype.itemsize < 8:
        return None
    else:
        large = (values > MAX_EXACT_INTEGER) | (values < -MAX_EXACT_INTEGER if values.dtype.kind == "i" else False)
    for place in np.argwhere(large).tolist():
        value = int(values[tuple(place)])
        number = as_number(value)
        if number is not None and np.isfinite(number) and int(number) != value:
            return int(place[0])
    return None


def read_matrix(name: str, value: Any) -> np.ndarray:
    """Return an argument as float64, of any shape, maybe with NaN; ValueError if float64 would round an entry."""
    refuse_inexact(name, read_array(name, value))
    return read_numbers(name, value)


def refuse_inexact(name: str, values: np.ndarray) -> None:
    """Raise a ValueError if an array contains an integer that float64 would round."""
    row = inexact_row(values)
    if row is not None:
        raise ValueError(
            f"{name} holds integers in row {row} that 64-bit floating point cannot hold exactly (it holds all up to "
            "2**53); subtract the same number from all rows, or leave the column out."
        )


def refuse_other_rows(**arguments: Any) -> None:
    """Raise a ValueError if a pandas index has the length of the first one, but other entries or order."""
    # values are taken by position: a Series in another order than the table would be attached to other rows
    first: tuple[str, Any] | None = None
    for name, value in arguments.items():
        if not hasattr(value, "index") or not hasattr(value, "iloc"):
            continue
        if first is None:
            first = name, value.index
            continue
        index = value.index
        if not 0 < len(index) == len(first[1]) or index.equals(first[1]):
            continue
        labels = f"{first[0]}.index"
        pairs = list(zip(map(repr_of, index.tolist()), map(repr_of, first[1].tolist()), strict=True))
        row, (one, other) = next((place for place in enumerate(pairs) if len(set(place[1])) > 1), (0, pairs[0]))
        alike = index.is_unique and first[1].is_unique and set(index) == set(first[1])
        by_label = f"{name}.loc[{labels}] to take it by label, or " if alike else ""
        raise ValueError(
            f"{name} has {'the labels of ' + labels + ' in another order' if alike else 'other labels than ' + labels} "
            f"(row {row}: {one} and {other}); give {by_label}{name}.to_numpy() to take it by position."
        )


def names_rows(function: Function) -> Function:
    """Let errors of ``function`` about a row also give its label in the first pandas object among the arguments."""

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except ValueError as error:
            match = re.search(r"\brow (\d+)\b(?!, labelled)", str(error))
            index = next((x.index for x in (*args, *kwargs.values()) if hasattr(x, "iloc")), None)
            if match is not None and index is not None and int(match[1]) < len(index):
                label = index.tolist()[int(match[1])]
                if str(label) != match[1]:
                    text = str(error)
                    error.args = (f"{text[: match.end()]}, labelled {repr_of(label)}{text[match.end() :]}",)
            raise

    return cast(Function, checked)


def refuse_labels(name: str, value: Any, order: str) -> None:
    """Raise a ValueError if the value of an argument ``name`` is a pandas object whose index is not 0, 1, ...."""
    if hasattr(value, "iloc") and value.index.tolist() != list(range(len(value))):
        raise ValueError(
            f"{name} has the labels {repr_of(value.index.tolist())}, but its entries are taken by position; bring them "
            f"into the order {order}, and give {name}.to_numpy()."
        )


def read_labels(y: Any, X: Any = None) -> np.ndarray:
    """Return labels (n,) as an array, from a vector or a column (n, 1)."""
    refuse_other_rows(X=X, y=y)
    labels = read_array("y", y)
    return labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels


def labels_differ(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return a boolean array: True for each pair of entries of two arrays, which are broadcast, that differ."""
    # labels that cannot be compared, such as text and numbers, are different
    text = {array.dtype.kind in "UST" for array in (one, other) if array.dtype.kind != "O"}
    try:
        unlike = one != other if len(text) < 2 else None
    except Exception:
        unlike = None
    everywhere = np.ones(np.broadcast_shapes(one.shape, other.shape), dtype=np.bool_)
    return unlike if isinstance(unlike, np.ndarray) and unlike.dtype == np.bool_ else everywhere


def read_numbers(name: str, value: Any) -> np.ndarray:
    """Return an argument as a float64 array of real numbers, booleans included, maybe NaN, or raise a ValueError."""
    array = read_array(name, value)
    if array.dtype.kind == "O":
        flags = bool | np.bool_
        entries = [float(x) if isinstance(x, flags) else as_number(x) for x in array.ravel().tolist()]
        if None in entries:
            odd = repr_of(array.ravel()[entries.index(None)])
            raise ValueError(f"{name} holds {odd}, which is not a real number; give numbers.")
        return np.array(entries, dtype=np.float64).reshape(array.shape)
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name} has dtype {array.dtype}; give real numbers.")
    with np.errstate(over="ignore"):
        return array.astype(np.float64, copy=False)


def read_generator(rng: Any) -> np.random.Generator:
    """Return `numpy.random.default_rng(rng)`, or raise a ValueError that says what to give."""
    # a Generator is returned itself, so that the caller's draws advance it
    seeds = rng if isinstance(rng, list | tuple) else [rng]
    is_source = rng is None or isinstance(rng, np.random.SeedSequence | np.random.BitGenerator | np.random.Generator)
    if not is_source and not (seeds and all(is_integer(seed) and int(seed) >= 0 for seed in seeds)):
        raise ValueError(f"rng={repr_of(rng)} is not a source of randomness; give an integer >= 0 or a Generator.")
    return np.random.default_rng(rng if is_source else [int(seed) for seed in seeds] if seeds is rng else int(rng))
