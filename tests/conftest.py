"""Settings made before anything is imported."""

import os

os.environ.setdefault("MPLBACKEND", "Agg")

COMPILES_MOST = ("exact_engine/test_enumeration.py", "test_convergence.py")


def pytest_configure(config):
    """Workers take files in the order of collection, not the longest first."""
    config.option.loadscopereorder = False


def pytest_collection_modifyitems(items):
    """One worker begins with the exact engine, one with the sampler; reports (--junitxml) say which tests plant bugs.

    What one of them has compiled the other finds on disk, unless it needs it at the same time.
    """
    items.sort(key=lambda item: not item.path.as_posix().endswith(COMPILES_MOST))
    for item in items:
        if item.get_closest_marker("planted"):
            item.user_properties.append(("planted", "yes"))
