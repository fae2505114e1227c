"""Records as plain objects, since NumPy's records take nine tenths of the time of uncompiled code."""

from __future__ import annotations

from typing import Any

import numpy as np


class Record:
    """Record whose fields are attributes."""

    def __init__(self, fields: Any) -> None:
        self.__dict__.update(fields)


class Records(list):
    """Records of an array. A field of all of them is returned as a new array."""

    def __init__(self, array: np.ndarray) -> None:
        super().__init__(Record(zip(array.dtype.names, row, strict=True)) for row in array.tolist())

    def __getattr__(self, name: str) -> np.ndarray:
        return np.array([getattr(record, name) for record in self])

    def copies(self) -> list[dict[str, Any]]:
        """Return copies of the fields of every record."""
        return [record.__dict__.copy() for record in self]

    def put_back(self, copies: list[dict[str, Any]]) -> None:
        """Restore fields that `copies` returned."""
        for record, fields in zip(self, copies, strict=True):
            record.__dict__ = fields.copy()


def with_records(group: Any) -> Any:
    """Return a NamedTuple of arrays and such groups with record arrays replaced. Other arrays are shared."""

    def replaced(value: Any) -> Any:
        if hasattr(value, "_fields"):
            return with_records(value)
        return Records(value) if isinstance(value, np.ndarray) and value.dtype.names else value

    return group._replace(**{name: replaced(getattr(group, name)) for name in group._fields})
