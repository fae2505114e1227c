"""Folders of compiled code for single tests."""

import numba


def write_code_to(folder, monkeypatch):
    """Let this process write compiled code to ``folder``, or to that of the user if it is "", until the test ends."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(folder))
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(folder))
