"""Checks of arguments that many public functions share."""

from typing import Any

import numpy as np


def check_count(name: str, value: Any, least: int = 1) -> None:
    """Refuse what is no integer >= ``least``."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name}={value!r} is out of range; give an integer >= {least}.")
