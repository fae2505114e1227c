"""Writing what a file of this library says, in parts by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .encoding import CODEC, Encoded, Unknown
from .store import check_target, write


def write_parts(parts: dict[str, Any], path: Any, groups: dict[str, Any] | None = None) -> None:
    """Write parts such as "model" and "draws" to a new file, beside groups of datasets for other programs.

    Raises
    ------
    ValueError
        If the path does not do, or a part holds what no file can hold.
    OSError
        If the file cannot be written; what was at ``path`` is still there.
    """
    path = check_target(path)
    write(path, encoded(parts, path), groups or {})


def encoded(value: dict, path: Path) -> Encoded:
    """Parts in the form files hold; a ValueError names what has none."""
    try:
        return CODEC.encode(value)
    except Unknown as error:
        raise ValueError(f"{path} is not written: {error}.") from error
