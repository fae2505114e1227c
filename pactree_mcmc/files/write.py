"""Writing of the content of a file, in parts by name."""

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
        If the path cannot be used, or a part contains a value that no file can contain.
    OSError
        If the file cannot be written. What was at ``path`` is then still there.
    """
    path = check_target(path)
    write(path, encoded(parts, path), groups or {})


def encoded(value: dict, path: Path) -> Encoded:
    """Return parts in the form in which files contain them. A ValueError names a value that has no such form."""
    try:
        return CODEC.encode(value)
    except Unknown as error:
        raise ValueError(f"{path} is not written: {error}.") from error
