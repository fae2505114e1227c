"""Optional packages, which only some parts of the library need, and the extras of pactree-mcmc that install them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.util import find_spec

EXTRAS = {"matplotlib": "plots", "sklearn": "sklearn", "arviz": "arviz", "zarr": "zarr"}
"""Name of the extra that installs each optional package."""


def is_installed(package: str) -> bool:
    """Return True if a package can be imported, without importing it."""
    return find_spec(package) is not None


def usable_names(names: Iterable[str], packages: Mapping[str, str]) -> list[str]:
    """Return the names that need no optional package, or one that is installed.

    ``packages`` has the optional package that a name needs, by name.

    Examples
    --------
    >>> usable_names(["Tree", "plots"], {"plots": "no_such_package"})
    ['Tree']
    """
    return [name for name in names if name not in packages or is_installed(packages[name])]


def require_package(package: str, what: str) -> None:
    """Raise an ImportError if a package is not installed. The message says that ``what`` needs it, and what to install.

    Examples
    --------
    >>> require_package("sklearn", "pt.BayesianTreeClassifier")
    """
    if not is_installed(package):
        raise ImportError(
            f"{what} needs {package}, which is not installed; type: pip install 'pactree-mcmc[{EXTRAS[package]}]'",
            name=package,
        )
