"""Settings made before anything is imported."""

import os

os.environ.setdefault("MPLBACKEND", "Agg")


def pytest_collection_modifyitems(items):
    """Tell a report (--junitxml) which tests plant a bug."""
    for item in items:
        if item.get_closest_marker("planted"):
            item.user_properties.append(("planted", "yes"))
