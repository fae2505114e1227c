"""Numbers and names as HTML says them; nothing of the caller's is ever markup."""

from __future__ import annotations

import html
import json
import re
from typing import Any

LONGEST_NAME = 100
"""Characters of the name of a feature, a class or a category."""
DASH = "-"
"""Where a number is not known."""
UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
)
"""Control characters, marks that turn the direction of what follows, and what is no character."""


def escaped(text: object) -> str:
    """Text as content or as a quoted attribute of HTML.

    Examples
    --------
    >>> escaped("<b title='x'>")
    '&lt;b title=&#x27;x&#x27;&gt;'
    """
    return html.escape(UNPRINTABLE.sub("\ufffd", str(text)), quote=True)


def as_json(value: Any) -> str:
    r"""JSON that may stand in a script element: ASCII without ``<``, ``>`` and ``&``.

    Examples
    --------
    >>> as_json({"name": "</script>"})
    '{"name":"\\u003c/script\\u003e"}'
    """
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def cut(text: str, most: int) -> str:
    """The text, or its beginning and an ellipsis."""
    return text if len(text) <= most else text[: max(most - 1, 1)] + "…"


def probability(p: float | None) -> str:
    """A probability with two digits that is 0 or 1 only if it is exactly so.

    Examples
    --------
    >>> [probability(p) for p in (0.0, 0.001, 0.254, 0.9999, 1.0, None)]
    ['0', '<0.01', '0.25', '>0.99', '1', '-']
    """
    if p is None:
        return DASH
    if p <= 0.0 or p >= 1.0 - 1e-12:
        return "0" if p <= 0.0 else "1"
    return "<0.01" if p < 0.005 else ">0.99" if p > 0.995 else f"{p:.2f}"


def number(x: float | None, digits: int = 3) -> str:
    """A number with so many digits; a dash where it is not known."""
    if x is None:
        return DASH
    return f"{x:,.0f}" if abs(x) >= 1000.0 else f"{x:.{digits}g}"
