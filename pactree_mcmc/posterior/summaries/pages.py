"""Ways to show a posterior as HTML; the face that draws them enters its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

pages: dict[str, Callable[..., Any]] = {}
"""By name: "report" writes a page of a posterior, "small" returns a few lines for notebooks."""
