"""Optional packages, which only some parts of the library need, and the extras of pactree-mcmc that install them."""

from __future__ import annotations

from importlib.util import find_spec

# name of the extra that installs each optional package
EXTRAS = {"matplotlib": "plots", "sklearn": "sklearn", "arviz": "arviz"}


def require_package(package: str, what: str) -> None:
    """Raise an ImportError if a package is not installed."""
    # the message says that ``what`` needs it, and what to install
    if find_spec(package) is None:
        raise ImportError(
            f"{what} needs {package}, which is not installed; type: pip install 'pactree-mcmc[{EXTRAS[package]}]'",
            name=package,
        )
