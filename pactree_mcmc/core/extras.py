"""Optional packages, which only some parts of the library need, and the extras of pactree-mcmc that install them."""

from __future__ import annotations

from importlib.util import find_spec

EXTRAS = {"matplotlib": "plots", "sklearn": "sklearn", "arviz": "arviz"}
"""Name of the extra that installs each optional package."""


def is_installed(package: str) -> bool:
    """Return True if a package can be imported, without importing it."""
    return find_spec(package) is not None


def require(package: str, what: str) -> None:
    """Raise an ImportError if a package is not installed. The message says that ``what`` needs it, and what to install.

    Examples
    --------
    >>> require("sklearn", "pt.BayesianTreeClassifier")
    """
    if not is_installed(package):
        raise ImportError(
            f"{what} needs {package}, which is not installed; type: pip install 'pactree-mcmc[{EXTRAS[package]}]'",
            name=package,
        )
