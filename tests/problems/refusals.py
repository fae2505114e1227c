"""Calls that the library refuses."""

import pytest


def refuses(message, call, error=ValueError):
    """Check that a call without arguments raises an error whose text matches ``message``."""
    with pytest.raises(error, match=message):
        call()
