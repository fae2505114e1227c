"""Hash of the library's own sources on which compiled code depends."""

from __future__ import annotations

import functools
import hashlib
import re
from pathlib import Path
from typing import Any

LIBRARY_PACKAGES = ("pactree_mcmc", "exact")
IMPORT_LINE = re.compile(r"^from (\.*)([\w.]*) import (\([^)]*\)|[^\n]*)", re.MULTILINE)
DECORATOR = re.compile(r"^@jit|^@by_address|^@by_class", re.MULTILINE)


@functools.cache
def sources_hash(package: str = "") -> str:
    """Return a hash of the sources on which compiled code in the folder of ``package`` depends."""
    # the files of the folder with compiled code, everything that they import, directly or not, at the top of a module,
    # and those of `core.compile`; all sources if the package has no compiled code
    texts = _source_texts()
    modules = {name for name in texts if name.rpartition(".")[0] == package and DECORATOR.search(texts[name])}
    pending = list(modules)
    while pending:
        new = (_imported_names(pending.pop()) & texts.keys()) - modules
        modules |= new
        pending += new
    modules |= {name for name in texts if name.startswith(f"{__package__}.")} if modules else set(texts)
    digest = hashlib.sha256()
    for name in sorted(modules):
        digest.update(texts[name].encode())
    return digest.hexdigest()


def is_of_library(function: Any) -> bool:
    """Return True if a function belongs to the library, False if a user wrote it."""
    return (function.__module__ or "").partition(".")[0] in LIBRARY_PACKAGES


@functools.cache
def _source_texts() -> dict[str, str]:
    """Return the text of each source file of the library by the name of its module."""
    root = Path(__file__).parents[3]
    paths = (path for package in LIBRARY_PACKAGES for path in (root / package).rglob("*.py"))
    return {_module_name(path.relative_to(root)): path.read_text(encoding="utf-8") for path in paths}


def _module_name(path: Path) -> str:
    """Return the name of the module with this path, relative to the folder that contains the package."""
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def _imported_names(module: str) -> frozenset[str]:
    """Return the names in the top-level imports of ``module`` in full, some of which are names of modules."""
    # `from ..core import bits` gives "pactree_mcmc.core" and "pactree_mcmc.core.bits"
    out = set(re.findall(r"^import ([\w.]+)", _source_texts()[module], re.MULTILINE))
    is_package = any(name.startswith(f"{module}.") for name in _source_texts())
    for dots, base, names in IMPORT_LINE.findall(_source_texts()[module]):
        above = module.split(".")[: 1 - len(dots) or None] if is_package else module.split(".")[: -len(dots)]
        start = ".".join([*(above if dots else []), *([base] if base else [])])
        out |= {start, *(f"{start}.{name}" for name in re.findall(r"\w+", names))}
    return frozenset(out)
