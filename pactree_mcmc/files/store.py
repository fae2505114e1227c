"""Writing and reading of a netCDF file of this library.

A file contains groups for ArviZ and xarray, and one group of this library, whose content has a digest.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from ..core.checks import is_integer, repr_of
from .calls import library_version
from .encoding import CODEC, Encoded, NotStorable

AnyPath = str | os.PathLike[str]
GROUP = "pactree_mcmc"
"""Name of the group of this library."""
MAX_PATH_LENGTH = 4000
"""Largest number of characters of a path."""
FORMAT = 4
"""Number of the format that this release writes and reads."""
SUFFIXES = (".nc", ".nc4", ".netcdf")
HEADER_BYTES = 4096
"""Upper bound on the bytes in which a netCDF file describes a variable."""
TEXT_VARIABLE = "description"
"""Name of the variable that holds the JSON text, as bytes: attributes may not be that long."""


def check_output_path(path: Any) -> Path:
    """Return the path of a file to be written. Raise a ValueError if its suffix or its folder cannot be used."""
    path = as_path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"{path} ends in {path.suffix!r}; give a path that ends in {' or '.join(SUFFIXES)}.")
    if not path.parent.is_dir():
        raise ValueError(f"the folder {path.parent} of {path} does not exist; create it first.")
    if path.is_dir():
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
    """Write parts such as "model" and "draws" to a new file, beside groups of datasets for other programs."""
    path = check_output_path(path)
    write_file(path, encode_parts(parts, path), groups or {})


def encode_parts(value: dict, path: Path) -> Encoded:
    """Return parts as text and arrays for the file ``path``. A ValueError names a value that no file can contain."""
    try:
        return CODEC.encode(value)
    except NotStorable as error:
        raise ValueError(f"{path} is not written: {error}.") from error


def write_file(path: Path, content: Encoded, groups: dict[str, Any]) -> None:
    """Write datasets by group and the content of this library to ``path``, completely or not at all."""
    # the data go to a temporary file in the same folder, which replaces ``path`` once it is on the disk
    import xarray as xr

    target = Path(os.path.realpath(path))
    part = target.with_name(f".{target.name}.part")
    arrays = content.arrays | {TEXT_VARIABLE: np.frombuffer(content.text.encode(), dtype=np.uint8)}
    attrs = {"format": FORMAT, "sha256": content_digest(content), "written_by": f"pactree-mcmc {library_version()}"}
    own = xr.Dataset({name: (_dimensions(array.shape), array) for name, array in arrays.items()}, attrs=attrs)
    datasets = groups | {GROUP: own}
    try:
        is_new = not target.exists()
        part.unlink(missing_ok=True)
        _reserve(part, datasets.values(), 0o666 if is_new else 0o600)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for number, (name, dataset) in enumerate(datasets.items()):
                _write_dataset(part, name, dataset, "a" if number else "w")
        _flush(part)
        if is_new:
            os.replace(part, target)
        else:
            _replace(part, target)
        if os.name == "posix":
            _flush(target.parent)
    except Exception as error:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        remark = f"; what was at {path} before is kept" if path.exists() else ""
        if isinstance(error, OSError | RuntimeError):
            error_number = getattr(error, "errno", None)
            why = os.strerror(error_number) if error_number else str(error)
            raise OSError(f"{path} could not be written: {why}{remark}.") from error
        raise


def _replace(part: Path, target: Path) -> None:
    """Replace the file ``target`` by ``part``, which gets its permissions and, where that is allowed, its owner."""
    old = target.stat()
    shutil.copystat(target, part)
    os.utime(part)
    if hasattr(os, "chown"):
        try:
            os.chown(part, old.st_uid, old.st_gid)
        except PermissionError:
            # a group of one's own can be given without the owner
            with contextlib.suppress(PermissionError):
                os.chown(part, -1, old.st_gid)
        # a change of owner may clear bits of the mode
        part.chmod(stat.S_IMODE(old.st_mode))
    os.replace(part, target)


def _reserve(part: Path, datasets: Iterable[Any], mode: int) -> None:
    """Create the file ``part``. Raise an OSError if the disk lacks room for the datasets: HDF5 may crash then."""
    size = sum(dataset.nbytes + HEADER_BYTES * (1 + len(dataset.variables)) for dataset in datasets)
    handle = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode)
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(handle, 0, size)
    finally:
        os.close(handle)


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


def _write_dataset(part: Path, group: str, dataset: Any, mode: str) -> None:
    """Write a dataset as one group of the file ``part``; "/" is the root group. Mode "w" makes a new file."""
    encoding: dict = {name: {} for name in dataset.variables}
    for name, variable in dataset.variables.items():
        if variable.dtype.kind in "fiu" and variable.ndim and variable.size > 1:
            encoding[name] = {"zlib": True, "complevel": 1, "_FillValue": None}
    dataset.to_netcdf(part, mode=mode, group=None if group == "/" else group, engine="h5netcdf", encoding=encoding)


def _flush(path: Path) -> None:
    """Write a file or folder to the disk, and wait until this is done."""
    # Windows flushes only files that are open for writing
    handle = os.open(path, os.O_RDONLY if os.name == "posix" else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_content(path: Any) -> Encoded:
    """Return the content of a file. Raise a ValueError if it is missing or damaged, or not of this library's format."""
    path = as_path(path)
    if not path.exists():
        raise ValueError(f"{path} does not exist; give the path of a file that save or a checkpoint has written.")
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"{path} ends in {path.suffix!r}; files of posteriors end in {' or '.join(SUFFIXES)}.")
    attrs, arrays = _group_content(path)
    number, stamp = attrs.get("format"), attrs.get("sha256")
    if number is None or stamp is None or TEXT_VARIABLE not in arrays:
        raise ValueError(f"the group {GROUP} of {path} is incomplete; the file was altered, write it anew.")
    if not is_integer(number) or int(number) != FORMAT:
        raise ValueError(
            f"{path} is of format {number}, by {attrs.get('written_by')}; this release reads format {FORMAT}: read it "
            f"with the release that wrote it{', or a later one' if is_integer(number) and number > FORMAT else ''}."
        )
    content = Encoded(arrays.pop(TEXT_VARIABLE).tobytes().decode(errors="replace"), arrays)
    digest = content_digest(content)
    if digest != stamp:
        raise ValueError(
            f"{path} does not match its checksum: the SHA-256 of its content is {digest[:12]}..., and the file says "
            f"{str(stamp)[:12]}.... It is damaged or was altered; use an intact copy, or write it anew."
        )
    return content


def _group_content(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the attributes and the arrays, by name, of the group GROUP of a file. A ValueError says if it has none."""
    import xarray as xr

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with xr.open_dataset(path, group=GROUP, engine="h5netcdf", decode_cf=False) as dataset:
                return dict(dataset.attrs), {str(name): np.asarray(dataset[name].values) for name in dataset.data_vars}
    except Exception as error:
        lacking = "group not found" in str(error) or isinstance(error, KeyError | FileNotFoundError)
        what = f"has no group {GROUP}: it is not a file of this library" if lacking else f"cannot be read: {error}"
        raise ValueError(f"{path} {what}.") from error
