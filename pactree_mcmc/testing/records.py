"""Records as plain objects: NumPy's, written for arrays, take nine tenths of the time of uncompiled code."""

from __future__ import annotations

from typing import Any

import numpy as np


class Record:
    """One record, its fields as attributes."""

    def __init__(self, fields: Any) -> None:
        self.__dict__.update(fields)


class Records(list):
    """The records of an array; a field of all of them is copied out as an array."""

    def __init__(self, array: np.ndarray) -> None:
        super().__init__(Record(zip(array.dtype.names, row, strict=True)) for row in array.tolist())

    def __getattr__(self, name: str) -> np.ndarray:
        return np.array([getattr(record, name) for record in self])

    def copies(self) -> list[dict[str, Any]]:
        """The fields of every record, to be put back."""
        return [record.__dict__.copy() for record in self]

    def put_back(self, copies: list[dict[str, Any]]) -> None:
        """Restore what `copies` kept."""
        for record, fields in zip(self, copies, strict=True):
            record.__dict__ = fields.copy()


def with_records(group: Any) -> Any:
    """A NamedTuple of arrays and of such groups, its record arrays replaced; the other arrays are shared."""

    def replaced(value: Any) -> Any:
        if hasattr(value, "_fields"):
            return with_records(value)
        return Records(value) if isinstance(value, np.ndarray) and value.dtype.names else value

    return group._replace(**{name: replaced(getattr(group, name)) for name in group._fields})
