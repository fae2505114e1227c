"""Folders of compiled code for single tests."""

import numba


def write_code_to(folder, monkeypatch):
    """Let this process write compiled code to ``folder``, or to that of the user if it is "", until the test ends.

    numba reads its variables again, at a compilation, if one of them has changed since it read them. Therefore the
    variable is set with the value that numba has read from it.
    """
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(folder))
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(folder))
