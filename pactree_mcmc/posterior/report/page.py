"""The HTML of a report: a template with the style sheet and the script inside, all names escaped by Jinja."""

from __future__ import annotations

import base64
import functools
import hashlib
import math
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from ...table.words import count_text, rounded_texts, shortened
from .content import curves_in_boxes
from .words import UNPRINTABLE, probability_text, significant_digits, truncate, with_signs

if TYPE_CHECKING:
    from jinja2 import Environment

MAX_TITLE_LENGTH = 120
"""Largest number of characters of the title of a window."""
ICICLE_HEIGHT, ROOT_WIDTH, FULL_WIDTH = 520, 74, 1000
"""Height of the icicle, width of the box of the root, and approximate width of all boxes, in pixels."""
CHARACTER_WIDTH = 6.7
"""Width of a character of a label, in pixels."""
LABEL_HEIGHT, GAUGE_HEIGHT, BOTH_HEIGHT = 13.0, 6.0, 21.0
"""Smallest height of a box with a label, with a gauge of its probability, and with both, in pixels."""
CURVE_SIZE = (110, 40)
"""Width and height of the curve of an effect, in pixels."""
TRACE_WIDTH, TRACE_HEIGHT = 520, 96


@functools.cache
def environment() -> Environment:
    """Return the Jinja environment of the templates in this folder."""
    # imported here, so that importing the library stays fast
    from jinja2 import Environment, PackageLoader, StrictUndefined

    out = Environment(
        loader=PackageLoader(__package__, ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_without_unprintable,
    )
    out.filters |= {"cut": truncate, "number": significant_digits, "count": count_text, "nice": with_signs}
    out.filters["probability"] = probability_text
    # NaN is not JSON: a page with one would not be read
    out.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return out


def _without_unprintable(value: Any) -> Any:
    """Return ``value`` as text, U+FFFD in place of unprintable characters. HTML from the templates stays as it is."""
    return value if hasattr(value, "__html__") else UNPRINTABLE.sub("\ufffd", str(value))


def render_page(content: dict[str, Any], title: str) -> str:
    """Return the HTML of a page from a ``content`` that `report_content` has returned."""
    from markupsafe import Markup

    style, script = (files(__package__).joinpath(f"page.{kind}").read_text("utf-8") for kind in ("css", "js"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    credible_set = content["credible_set"]
    return (
        environment()
        .get_template("page.html")
        .render(
            content,
            title=title,
            window_title=truncate(title, MAX_TITLE_LENGTH),
            policy=Markup(f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"),
            style=Markup(style),
            script=Markup(script),
            data={
                "trees": content["trees"],
                "classes": content["classes"],
                "paths": [
                    [path["parent"], path["conditions"], round(path["probability"], 5)] for path in content["paths"]
                ],
                "mass": None if credible_set is None else credible_set.mass,
            },
            icicle=icicle_boxes(content["paths"]),
            curves=curves_in_boxes(content["effects"], *CURVE_SIZE),
            curve_size=CURVE_SIZE,
            curve_heads=_curve_heads(content),
            lines=[trace_lines(one) for one in content["traces"]],
        )
    )


def _curve_heads(content: dict[str, Any]) -> list[str]:
    """Return the heads of the columns of curves: such as "P(yes)" for each class, or "mean price"."""
    if content["classes"] is not None:
        return [f"P({name})" for name in content["curve_names"]]
    return [f"mean {content['target']}"]


def icicle_boxes(paths: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the size of the icicle, and for each path its box with a label that fits, in pixels."""
    deepest = max(path["depth"] for path in paths)
    column = max((FULL_WIDTH - ROOT_WIDTH) / max(deepest, 1), 128.0)
    boxes = []
    for i, path in enumerate(paths):
        x, width = (ROOT_WIDTH + column * (path["depth"] - 1), column) if i else (0.0, ROOT_WIDTH)
        y, height = ICICLE_HEIGHT * path["top"], ICICLE_HEIGHT * (path["bottom"] - path["top"])
        label = ""
        if height >= LABEL_HEIGHT:
            fraction = f" {probability_text(path['probability'])}" if i else ""
            label = _fit_condition(path["condition"], int((width - 8) / CHARACTER_WIDTH) - len(fraction)) + fraction
        has_gauge = i > 0 and (GAUGE_HEIGHT <= height < LABEL_HEIGHT or height >= BOTH_HEIGHT)
        boxes.append({"x": x, "y": y, "width": width, "height": height, "label": label, "has_gauge": has_gauge})
    return {"width": ROOT_WIDTH + column * deepest, "height": ICICLE_HEIGHT, "boxes": boxes}


def _fit_condition(condition: str, max_characters: int) -> str:
    """Return a condition in at most ``max_characters``."""
    if len(condition) > max_characters and condition.endswith("]"):
        condition = condition.rpartition(" [")[0]
    return shortened(condition, max_characters)


def trace_lines(quantity: dict[str, Any]) -> dict[str, Any]:
    """Return the trace of one quantity as ``lines``, the points of an SVG line for each chain, in pixels."""
    draws, chains = quantity["draws"], quantity["chains"]
    finite_values = chains[np.isfinite(chains)]
    low, high = (finite_values.min(), finite_values.max()) if finite_values.size else (0.0, 0.0)
    x = 4 + (TRACE_WIDTH - 8) * draws / max(draws[-1], 1)
    y = 6 + (TRACE_HEIGHT - 12) * (1 - (chains - low) / ((high - low) or 1.0))
    lines = []
    for values in y:
        points = [f"{a:.0f},{b:.0f}" for a, b in zip(x, values, strict=True) if math.isfinite(b)]
        # a line of one corner would not be seen
        lines.append(" ".join(points if len(points) > 1 else 2 * points))
    ends = " to ".join(rounded_texts([low, high]))
    return {"name": quantity["name"], "ends": ends, "lines": lines, "width": TRACE_WIDTH, "height": TRACE_HEIGHT}
