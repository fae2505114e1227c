"""The library under numba's bounds checks, compiled anew for it in a cache of its own."""

import os

import pytest

from tests.programs import run


def checked(folder, *words):
    """Return the result of the program."""
    return run("within_bounds", *words, env=os.environ | {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(folder)})


@pytest.mark.more
@pytest.mark.planted
def test_a_place_beyond_the_end_is_seen(tmp_path):
    assert "IndexError: index is out of bounds" in checked(tmp_path, "beyond").stderr


@pytest.mark.more
def test_within_bounds(tmp_path):
    process = checked(tmp_path)
    assert process.stdout == "within bounds\n", process.stderr
