"""Writing and reading of a file of this library, one netCDF file or Zarr store.

A file contains groups for ArviZ and xarray, and one group of this library, whose content has a digest.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from ..core.checks import is_integer, repr_of
from ..core.extras import require_package
from .calls import library_version
from .encoding import CODEC, Encoded, NotStorable

AnyPath = str | os.PathLike[str]
GROUP = "pactree_mcmc"
"""Name of the group of this library."""
MAX_PATH_LENGTH = 4000
"""Largest number of characters of a path."""
FORMAT = 3
"""Number of the format that this release writes and reads."""
KIND_OF_SUFFIX = {".nc": "netCDF", ".nc4": "netCDF", ".netcdf": "netCDF", ".zarr": "Zarr"}
"""Kind of file that each suffix of a path selects."""
HEADER_BYTES = 4096
"""Upper bound on the bytes in which a netCDF file describes a variable."""
SEAL_MARK, DIGEST_LENGTH = b"\npactree-mcmc: sha256 of all bytes before this line ", 64
"""Mark near the end of a netCDF file, and length of the digest that follows it."""
DIGEST_BLOCK_BYTES = 1 << 22
"""Number of bytes that are read at once to compute a digest."""
PROBE_PROGRAM = """
import sys, h5py
with h5py.File(sys.argv[1], "r") as file:
    if sys.argv[2] not in file:
        sys.exit(3)
    group = file[sys.argv[2]]
    dict(group.attrs)
    for name in group:
        dict(group[name].attrs)
        group[name][()]
"""
"""Program for a separate process that reads the group of this library, and may crash if the file is damaged."""
EXIT_CODE_LACKS_GROUP, PROBE_SECONDS = 3, 300
"""Exit code of `PROBE_PROGRAM` if the file lacks the group; seconds after which the file counts as damaged."""
TEXT_VARIABLE = "description"
"""Name of the variable that holds the JSON text, as bytes: attributes may not be that long."""


def check_output_path(path: Any, *, only: str | None = None) -> Path:
    """Return the path of a file to be written. Raise a ValueError if its suffix or its folder cannot be used.

    ``only`` is the one kind of file that is allowed, "netCDF" or "Zarr", or None for both.
    """
    path = as_path(path)
    kind = KIND_OF_SUFFIX.get(path.suffix.lower())
    if kind is None or (only is not None and kind != only):
        suffixes = [suffix for suffix, other in KIND_OF_SUFFIX.items() if only in (None, other)]
        raise ValueError(f"{path} ends in {path.suffix!r}; give a path that ends in {' or '.join(suffixes)}.")
    if kind == "Zarr":
        require_package("zarr", f"writing {path}")
    if not path.parent.is_dir():
        raise ValueError(f"the folder {path.parent} of {path} does not exist; create it first.")
    if path.is_dir() and kind == "netCDF":
        raise ValueError(f"{path} is a folder; give the path of a file.")
    return path


def as_path(path: Any) -> Path:
    """Return a ``Path``. Raise a ValueError if the argument cannot be the path of a file on any system."""
    if not isinstance(path, str | os.PathLike):
        raise ValueError(f"path is {repr_of(path)}, a {type(path).__name__}; give the path of a file.")
    try:
        checked = Path(path)
        checked.exists()
        os.fsencode(checked)
    except (OSError, ValueError, TypeError) as error:
        raise ValueError(f"path={repr_of(path)} cannot be the path of a file: {error}.") from error
    if "\0" in str(checked) or len(str(checked)) > MAX_PATH_LENGTH:
        raise ValueError(f"path={repr_of(path)} cannot be the path of a file: it is too long, or contains a zero byte.")
    return checked


def write_parts(parts: dict[str, Any], path: Any, groups: dict[str, Any] | None = None) -> None:
    """Write parts such as "model" and "draws" to a new file, beside groups of datasets for other programs.

    Raise a ValueError if the path cannot be used or a part contains a value that no file can contain, and an OSError if
    the file cannot be written.
    """
    path = check_output_path(path)
    write_file(path, encode_parts(parts, path), groups or {})


def encode_parts(value: dict, path: Path) -> Encoded:
    """Return parts as text and arrays for the file ``path``. A ValueError names a value that no file can contain."""
    try:
        return CODEC.encode(value)
    except NotStorable as error:
        raise ValueError(f"{path} is not written: {error}.") from error


def write_file(path: Path, content: Encoded, groups: dict[str, Any]) -> None:
    """Write datasets by group and the content of this library to ``path``, completely or not at all.

    ``groups`` are xarray datasets for other programs, by the name of their group. The data go to a temporary file in
    the same folder, which replaces ``path`` once it is on the disk. Until then the former file still exists.
    """
    import xarray as xr

    part = path.with_name(f".{path.name}.part")
    arrays = content.arrays | {TEXT_VARIABLE: np.frombuffer(content.text.encode(), dtype=np.uint8)}
    attrs = {
        "format": FORMAT,
        "sha256": content_digest(content),
        "written_by": f"pactree-mcmc {library_version()}",
    }
    own = xr.Dataset({name: (_dimensions(array.shape), array) for name, array in arrays.items()}, attrs=attrs)
    try:
        _remove(part)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            datasets = groups | {GROUP: own}
            _check_disk_space(part, datasets.values())
            for name, dataset in datasets.items():
                _write_dataset(part, path.suffix, name, dataset)
        if part.is_file():
            # HDF5 ignores bytes after its own
            seal = SEAL_MARK + _file_digest(part, part.stat().st_size).encode()
            with part.open("ab") as file:
                file.write(seal)
        _rename_safely(part, path)
    except Exception as error:
        with contextlib.suppress(OSError):
            _remove(part)
        remark = f"; what was at {path} before is kept" if path.exists() else ""
        if isinstance(error, OSError | RuntimeError):
            number = getattr(error, "errno", None)
            why = os.strerror(number) if number else str(error)
            raise OSError(f"{path} could not be written: {why}{remark}.") from error
        raise


def _file_digest(path: Path, size: int) -> str:
    """Return the SHA-256 of the first ``size`` bytes of a file."""
    out = hashlib.sha256()
    with path.open("rb") as file:
        while size > 0:
            block = file.read(min(size, DIGEST_BLOCK_BYTES))
            if not block:
                break
            out.update(block)
            size -= len(block)
    return out.hexdigest()


def check_seal(path: Path) -> None:
    """Raise a ValueError if a netCDF file is damaged, since HDF5 may crash on bytes that it has not written.

    If the file ends with a digest, the digest must be that of the bytes before it. If there is no digest, another
    program has written to the file, or it was truncated. Then a separate process must find and read the group GROUP.
    """
    body = path.stat().st_size - len(SEAL_MARK) - DIGEST_LENGTH
    with path.open("rb") as file:
        file.seek(max(body, 0))
        seal = file.read()
    if body > 0 and seal.startswith(SEAL_MARK):
        _check_digest(path, "bytes", _file_digest(path, body), seal[len(SEAL_MARK) :].decode(errors="replace"))
        return
    try:
        probe = [sys.executable, "-c", PROBE_PROGRAM, str(path), GROUP]
        result = subprocess.run(
            probe, capture_output=True, stdin=subprocess.DEVNULL, timeout=PROBE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ValueError(f"{path} cannot be read: it is damaged ({type(error).__name__}).") from error
    if result.returncode == EXIT_CODE_LACKS_GROUP:
        raise ValueError(f"{path} has no group {GROUP}: it is not a file of this library.")
    if result.returncode != 0:
        what = result.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise ValueError(f"{path} cannot be read: it is damaged ({what or f'signal {-result.returncode}'}).")


def _check_digest(path: Path, what: str, computed: str, stored: str) -> None:
    """Raise a ValueError if the computed digest of a file is not the stored one. ``what``: "bytes" or "content"."""
    if computed != stored:
        raise ValueError(
            f"{path} does not match its checksum: the SHA-256 of its {what} is {computed[:12]}..., and the file says "
            f"{stored[:12]}.... It is damaged or was altered; use an intact copy, or write it anew."
        )


def _check_disk_space(part: Path, datasets: Iterable[Any]) -> None:
    """Raise an OSError if the disk has no room for a file ``part`` of datasets, as HDF5 may crash on a full disk."""
    if not hasattr(os, "posix_fallocate"):
        return
    size = sum(dataset.nbytes + HEADER_BYTES * (1 + len(dataset.variables)) for dataset in datasets)
    handle = os.open(part, os.O_CREAT | os.O_WRONLY)
    try:
        os.posix_fallocate(handle, 0, size)
    finally:
        os.close(handle)
        _remove(part)


def _dimensions(shape: tuple[int, ...]) -> list[str]:
    """Return a name for each dimension of an array, by its size, all different, as xarray requires."""
    return [f"n{size}" + "_" * shape[:axis].count(size) for axis, size in enumerate(shape)]


def content_digest(content: Encoded) -> str:
    """Return the SHA-256 of the text, and of the names, dtypes, shapes and bytes of the arrays."""
    out = hashlib.sha256(content.text.encode())
    for name, array in sorted(content.arrays.items()):
        out.update(f"|{name} {array.dtype.str} {array.shape}|".encode())
        out.update(np.ascontiguousarray(array).data)
    return out.hexdigest()


def _write_dataset(part: Path, suffix: str, group: str, dataset: Any) -> None:
    """Write a dataset as one group of the file ``part``, of the kind that ``suffix`` selects; "/" is the root group."""
    if KIND_OF_SUFFIX[suffix.lower()] == "Zarr":
        dataset.to_zarr(part, group=None if group == "/" else group, mode="a", consolidated=False)
        return
    encoding: dict = {name: {} for name in dataset.variables}
    for name, variable in dataset.variables.items():
        if variable.dtype.kind in "fiu" and variable.ndim and variable.size > 1:
            encoding[name] = {"zlib": True, "complevel": 1, "_FillValue": None}
    group_name = None if group == "/" else group
    dataset.to_netcdf(part, mode="a" if part.exists() else "w", group=group_name, engine="h5netcdf", encoding=encoding)


def _rename_safely(part: Path, path: Path) -> None:
    """Flush ``part``, a file or folder, to the disk, then rename it to ``path``, which it replaces.

    If it cannot be renamed, the former file or folder is still at ``path``.
    """
    for file in (part, *part.rglob("*")):
        if file.is_file():
            _flush(file)
    if part.is_dir() and path.exists():
        # no single operation replaces a folder
        old = path.with_name(f".{path.name}.old")
        _remove(old)
        os.replace(path, old)
        try:
            os.replace(part, path)
        except OSError:
            os.replace(old, path)
            raise
        _remove(old)
    else:
        os.replace(part, path)
    if os.name == "posix":
        _flush(path.parent)


def _flush(path: Path) -> None:
    """Write a file or folder to the disk, and wait until this is done."""
    # Windows flushes only files that are open for writing
    handle = os.open(path, os.O_RDONLY if os.name == "posix" else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _remove(path: Path) -> None:
    """Remove a file or a folder if it exists."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def read_content(path: Any) -> Encoded:
    """Return the content of a file. Raise a ValueError if it is missing or damaged, or not of this library's format."""
    path = as_path(path)
    if not path.exists():
        raise ValueError(f"{path} does not exist; give the path of a file that save or a checkpoint has written.")
    if KIND_OF_SUFFIX.get(path.suffix.lower()) is None:
        raise ValueError(f"{path} ends in {path.suffix!r}; files of posteriors end in {' or '.join(KIND_OF_SUFFIX)}.")
    if KIND_OF_SUFFIX[path.suffix.lower()] == "netCDF":
        check_seal(path)
    else:
        require_package("zarr", f"reading {path}")
    attrs, arrays = _group_content(path)
    number, stamp = attrs.get("format"), attrs.get("sha256")
    if number is None or stamp is None or TEXT_VARIABLE not in arrays:
        raise ValueError(f"the group {GROUP} of {path} is incomplete; the file was altered, write it anew.")
    if not is_integer(number) or int(number) != FORMAT:
        raise ValueError(
            f"{path} is of format {number}, by {attrs.get('written_by')}; this release reads format {FORMAT}: read it "
            f"with the release that wrote it{', or a later one' if is_integer(number) and number > FORMAT else ''}."
        )
    text = arrays.pop(TEXT_VARIABLE).tobytes().decode(errors="replace")
    content = Encoded(text, arrays)
    _check_digest(path, "content", content_digest(content), str(stamp))
    return content


def _group_content(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the attributes and the arrays, by name, of the group GROUP of a file. A ValueError says if it has none."""
    import xarray as xr

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if KIND_OF_SUFFIX[path.suffix.lower()] == "Zarr":
                opened = xr.open_zarr(path, group=GROUP, consolidated=False, chunks=None, decode_cf=False)
            else:
                opened = xr.open_dataset(path, group=GROUP, engine="h5netcdf", decode_cf=False)
            with opened as dataset:
                return dict(dataset.attrs), {str(name): np.asarray(dataset[name].values) for name in dataset.data_vars}
    except Exception as error:
        lacking = "group not found" in str(error) or isinstance(error, KeyError | FileNotFoundError)
        what = f"has no group {GROUP}: it is not a file of this library" if lacking else f"cannot be read: {error}"
        raise ValueError(f"{path} {what}.") from error
