"""One file, netCDF or Zarr, by its suffix: groups for ArviZ and xarray, and one group of our own, with a checksum."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from ..core.checks import in_words, is_integer
from .encoding import Encoded

AnyPath = str | os.PathLike[str]
GROUP = "pactree_mcmc"
LONGEST_PATH = 4000
FORMAT = 3
SUFFIXES = {".nc": "netCDF", ".nc4": "netCDF", ".netcdf": "netCDF", ".zarr": "Zarr"}
HEADER_BYTES = 4096
"""More than a netCDF file takes for the description of a variable."""
SEAL, DIGEST = b"\npactree-mcmc: sha256 of all bytes before this line ", 64
"""Mark near the end of a netCDF file, and the length of the digest after it."""
BLOCK = 1 << 22
PROBE = """
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
"""Reads our group of a file, in another process."""
LACKS_GROUP, PROBE_SECONDS = 3, 300
TEXT = "description"
"""Name of the variable that holds the JSON text, as bytes: attributes may not be that long."""


def check_target(path: Any, *, only: str | None = None) -> Path:
    """The path of a file to be written; a ValueError if its suffix or its folder is not usable."""
    path = as_path(path)
    kind = SUFFIXES.get(path.suffix.lower())
    if kind is None or (only is not None and kind != only):
        allowed = [suffix for suffix, other in SUFFIXES.items() if only in (None, other)]
        raise ValueError(f"{path} ends in {path.suffix!r}; give a path that ends in {' or '.join(allowed)}.")
    if not path.parent.is_dir():
        raise ValueError(f"the folder {path.parent} of {path} does not exist; create it first.")
    if path.is_dir() and kind == "netCDF":
        raise ValueError(f"{path} is a folder; give the path of a file.")
    return path


def as_path(path: Any) -> Path:
    """A path; a ValueError if it is none that a system could have."""
    if not isinstance(path, str | os.PathLike):
        raise ValueError(f"path is {in_words(path)}, a {type(path).__name__}; give the path of a file.")
    try:
        found = Path(path)
        found.exists()
        os.fsencode(found)
    except (OSError, ValueError, TypeError) as error:
        raise ValueError(f"path={in_words(path)} is no path of a file: {error}.") from error
    if "\0" in str(found) or len(str(found)) > LONGEST_PATH:
        raise ValueError(f"path={in_words(path)} is no path of a file: it is too long, or holds a zero byte.")
    return found


def write(path: Path, content: Encoded, groups: dict[str, Any]) -> None:
    """Write datasets by group and our own content, whole or not at all.

    Everything goes to a file beside ``path`` first, which replaces it when it is safely on the disk.

    Raises
    ------
    OSError
        If it cannot be written; what was at ``path`` is still there.
    """
    import xarray as xr

    part = path.with_name(f".{path.name}.part")
    own = xr.Dataset(_variables(content), attrs=_stamp(content))
    try:
        _remove(part)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            datasets = groups | {GROUP: own}
            _reserve(part, datasets.values())
            for name, dataset in datasets.items():
                _put(part, path.suffix, name, dataset)
        if part.is_file():
            _seal(part)
        _replace(part, path)
    except Exception as error:
        with contextlib.suppress(OSError):
            _remove(part)
        kept = f"; what was at {path} before is kept" if path.exists() else ""
        if isinstance(error, OSError | RuntimeError):
            number = getattr(error, "errno", None)
            why = os.strerror(number) if number else str(error)
            raise OSError(f"{path} could not be written: {why}{kept}.") from error
        raise


def _seal(part: Path) -> None:
    """Put the checksum of a whole file behind it, where HDF5 does not look."""
    with part.open("ab") as file:
        file.write(SEAL + _file_digest(part, part.stat().st_size).encode())


def _file_digest(path: Path, size: int) -> str:
    """Checksum of the first ``size`` bytes of a file."""
    out = hashlib.sha256()
    with path.open("rb") as file:
        while size > 0:
            block = file.read(min(size, BLOCK))
            if not block:
                break
            out.update(block)
            size -= len(block)
    return out.hexdigest()


def check_seal(path: Path) -> None:
    """See that HDF5 can be asked to read a file: it may crash on bytes that it has not written.

    A seal that does not fit tells of damage. Where there is none, another program has written to the file, or it was
    cut; another process then reads it first.

    Raises
    ------
    ValueError
        If the file is damaged.
    """
    body = path.stat().st_size - len(SEAL) - DIGEST
    with path.open("rb") as file:
        file.seek(max(body, 0))
        seal = file.read()
    if body > 0 and seal.startswith(SEAL):
        if seal[len(SEAL) :] != _file_digest(path, body).encode():
            raise ValueError(f"the content of {path} does not match its checksum: it is damaged or was altered.")
        return
    try:
        probe = [sys.executable, "-c", PROBE, str(path), GROUP]
        done = subprocess.run(probe, capture_output=True, stdin=subprocess.DEVNULL, timeout=PROBE_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ValueError(f"{path} cannot be read: it is damaged ({type(error).__name__}).") from error
    if done.returncode == LACKS_GROUP:
        raise ValueError(f"{path} has no group {GROUP}: it is no file of this library.")
    if done.returncode != 0:
        what = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise ValueError(f"{path} cannot be read: it is damaged ({what or f'signal {-done.returncode}'}).")


def _reserve(part: Path, datasets: Iterable[Any]) -> None:
    """See that the disk takes as much as is to be written: HDF5 may crash on a disk that fills up under it."""
    if not hasattr(os, "posix_fallocate"):
        return
    size = sum(dataset.nbytes + HEADER_BYTES * (1 + len(dataset.variables)) for dataset in datasets)
    handle = os.open(part, os.O_CREAT | os.O_WRONLY)
    try:
        os.posix_fallocate(handle, 0, size)
    finally:
        os.close(handle)
        _remove(part)


def _variables(content: Encoded) -> dict[str, tuple]:
    arrays = content.arrays | {TEXT: np.frombuffer(content.text.encode(), dtype=np.uint8)}
    return {name: (_dimensions(array.shape), array) for name, array in arrays.items()}


def _dimensions(shape: tuple[int, ...]) -> list[str]:
    """Return names of dimensions by their sizes, each once in an array, as xarray wants."""
    return [f"n{size}" + "_" * shape[:axis].count(size) for axis, size in enumerate(shape)]


def _stamp(content: Encoded) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "sha256": digest(content),
        "written_by": f"pactree-mcmc {metadata.version('pactree-mcmc')}",
    }


def digest(content: Encoded) -> str:
    """Checksum of a content: of its text, and of names, shapes and bytes of its arrays."""
    out = hashlib.sha256(content.text.encode())
    for name, array in sorted(content.arrays.items()):
        out.update(f"|{name} {array.dtype.str} {array.shape}|".encode())
        out.update(np.ascontiguousarray(array).data)
    return out.hexdigest()


def _put(part: Path, suffix: str, group: str, dataset: Any) -> None:
    """Write one group, "/" for the whole."""
    if SUFFIXES[suffix.lower()] == "Zarr":
        dataset.to_zarr(part, group=None if group == "/" else group, mode="a", consolidated=False)
        return
    encoding: dict = {name: {} for name in dataset.variables}
    for name, variable in dataset.variables.items():
        if variable.dtype.kind in "fiu" and variable.ndim and variable.size > 1:
            encoding[name] = {"zlib": True, "complevel": 1, "_FillValue": None}
    inside = None if group == "/" else group
    dataset.to_netcdf(part, mode="a" if part.exists() else "w", group=inside, engine="h5netcdf", encoding=encoding)


def _replace(part: Path, path: Path) -> None:
    """Put ``part`` in the place of ``path``, having seen to it that it is on the disk."""
    files = [part] if part.is_file() else [file for file in part.rglob("*") if file.is_file()]
    for file in files:
        _flush(file)
    if part.is_dir() and path.exists():
        # a folder cannot be replaced at one stroke
        old = path.with_name(f".{path.name}.old")
        _remove(old)
        os.replace(path, old)
        os.replace(part, path)
        _remove(old)
    else:
        os.replace(part, path)
    if os.name == "posix":
        _flush(path.parent)


def _flush(path: Path) -> None:
    # Windows flushes only what may be written
    handle = os.open(path, os.O_RDONLY if os.name == "posix" else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def read(path: Any) -> Encoded:
    """Our own content of a file.

    Raises
    ------
    ValueError
        If there is no such file, it is no file of ours, of a later format, damaged or altered; the message says which.
    """
    path = as_path(path)
    if not path.exists():
        raise ValueError(f"{path} does not exist; give the path of a file that save or a checkpoint has written.")
    if SUFFIXES.get(path.suffix.lower()) is None:
        raise ValueError(f"{path} ends in {path.suffix!r}; files of posteriors end in {' or '.join(SUFFIXES)}.")
    if SUFFIXES[path.suffix.lower()] == "netCDF":
        check_seal(path)
    attrs, arrays = _contents(path)
    version, stamp = attrs.get("format"), attrs.get("sha256")
    if version is None or stamp is None or TEXT not in arrays:
        raise ValueError(f"the group {GROUP} of {path} is incomplete; the file was altered, write it anew.")
    if not is_integer(version) or int(version) != FORMAT:
        raise ValueError(
            f"{path} is of format {version}, by {attrs.get('written_by')}; this release reads format {FORMAT}: read it "
            f"with the release that wrote it{', or a later one' if is_integer(version) and version > FORMAT else ''}."
        )
    text = arrays.pop(TEXT).tobytes().decode(errors="replace")
    content = Encoded(text, arrays)
    if digest(content) != str(stamp):
        raise ValueError(f"the content of {path} does not match its checksum: it is damaged or was altered.")
    return content


def _contents(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Attributes and arrays of our own group of a file, as they were written."""
    import xarray as xr

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if SUFFIXES[path.suffix.lower()] == "Zarr":
                opened = xr.open_zarr(path, group=GROUP, consolidated=False, chunks=None, decode_cf=False)
            else:
                opened = xr.open_dataset(path, group=GROUP, engine="h5netcdf", decode_cf=False)
            with opened as dataset:
                return dict(dataset.attrs), {str(name): np.asarray(dataset[name].values) for name in dataset.data_vars}
    except Exception as error:
        lacking = "group not found" in str(error) or isinstance(error, KeyError | FileNotFoundError)
        what = f"has no group {GROUP}: it is no file of this library" if lacking else f"cannot be read: {error}"
        raise ValueError(f"{path} {what}.") from error
