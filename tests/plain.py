"""A copy of the package that runs as plain Python, beside the compiled one."""

import importlib
import pkgutil
import sys
from functools import cache
from types import SimpleNamespace

import numba
import numpy as np

PACKAGE = "pactree_mcmc"
FACES = ("faces", "__main__")


def _own_modules():
    return [name for name in sys.modules if name.partition(".")[0] == PACKAGE]


@cache
def plain_package():
    """Namespace of the package imported without compilation; submodules by their dotted name below the package.

    ``plain_package().package`` is the package itself, ``plain_package().module("mcmc.kernel")`` one of its modules.
    What is imported already stays as it is: the copy lives outside ``sys.modules``.
    """
    compiled = {name: sys.modules.pop(name) for name in _own_modules()}
    disabled, numba.config.DISABLE_JIT = numba.config.DISABLE_JIT, True
    try:
        package = importlib.import_module(PACKAGE)
        for found in pkgutil.walk_packages(package.__path__, PACKAGE + "."):
            if found.name.split(".")[1] not in FACES:
                importlib.import_module(found.name)
        plain = {name: sys.modules.pop(name) for name in _own_modules()}
    finally:
        numba.config.DISABLE_JIT = disabled
        for name in _own_modules():
            del sys.modules[name]
        sys.modules.update(compiled)
    mixed = quick(plain[f"{PACKAGE}.core.bits"].mixed)
    for module in plain.values():
        if hasattr(module, "mixed"):
            module.mixed = mixed
    return SimpleNamespace(package=package, module=lambda name: plain[f"{PACKAGE}.{name}"])


def quick(mixed):
    """The same hash, each computed once: NumPy's numbers are slow, and wrapping around makes them warn."""

    @cache
    def looked_up(x):
        with np.errstate(over="ignore"):
            return mixed(np.int64(x))

    return lambda x: looked_up(wrapped(int(x)))


def wrapped(x):
    """An integer as 64 bits hold it."""
    return (x + (1 << 63)) % (1 << 64) - (1 << 63)
