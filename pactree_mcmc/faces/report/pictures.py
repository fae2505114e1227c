"""The pictures of the report as SVG: the icicle of paths, the map of trees, traces."""

from __future__ import annotations

import math
from typing import Any

from ...table.words import figures
from .text import cut, escaped, probability

HEIGHT, ROOT_WIDTH, FULL_WIDTH = 520, 74, 1000
"""Of the icicle: its height, the width of the box of the root, about the width of all."""
CHARACTER = 6.7
"""Width of a character of the labels."""
LABEL, GAUGE, BOTH = 13.0, 6.0, 21.0
"""Least height of a box with a label, with a gauge of its probability, and with both."""
SHAPES = (
    "m-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0z",
    "m-2.7-2.7h5.4v5.4h-5.4z",
    "m0-3.6l3.5 6.2h-7z",
    "m0-3.9l3.9 3.9l-3.9 3.9l-3.9-3.9z",
    "m-3.5-2.6h7l-3.5 6.2z",
    "m-1.2-3.6h2.4v2.4h2.4v2.4h-2.4v2.4h-2.4v-2.4h-2.4v-2.4h2.4z",
    "m-3.4-1.4h6.8v2.8h-6.8z",
    "m-1.4-3.4h2.8v6.8h-2.8z",
)
"""Marks of chains, about 3 pixels in radius."""
MAP = 460
TRACE_WIDTH, TRACE_HEIGHT = 520, 96


def icicle(paths: list[dict[str, Any]]) -> str:
    """Boxes from the root rightwards: as high as a row of a tree, both at random, takes the path often."""
    deepest = max(path["depth"] for path in paths)
    column = min(max((FULL_WIDTH - ROOT_WIDTH) / max(deepest, 1), 128.0), 240.0)
    width = ROOT_WIDTH + column * deepest
    boxes = "".join(_box(i, path, column) for i, path in enumerate(paths))
    return (
        f'<svg id="icicle" viewBox="0 0 {width:.0f} {HEIGHT}" style="width:{width:.0f}px" role="group" '
        f'aria-label="Icicle of {len(paths)} decision paths from the root rightwards">{boxes}</svg>'
    )


def _box(i: int, path: dict[str, Any], column: float) -> str:
    x = 0.0 if i == 0 else ROOT_WIDTH + column * (path["depth"] - 1)
    width = ROOT_WIDTH if i == 0 else column
    y, height = HEIGHT * path["top"], HEIGHT * (path["bottom"] - path["top"])
    fill = "c-none" if path["colour"] < 0 else f"c{path['colour']}"
    parts = [
        f'<g class="box" data-path="{i}"><title>{escaped(box_words(path))}</title>'
        f'<rect class="{fill}" x="{x:.1f}" y="{y:.1f}" width="{width - 1.5:.1f}" height="{max(height - 1, 0.8):.1f}"/>'
    ]
    if height >= LABEL:
        room = int((width - 8) / CHARACTER)
        said, fraction = path["words"], probability(path["probability"])
        label = cut(said, room - len(fraction) - 1) + " " + fraction if i else cut(said, room)
        base = y + min(height / 2 + 4, 16)
        parts.append(f'<text x="{x + 4:.1f}" y="{base:.1f}">{escaped(label)}</text>')
    if i and (GAUGE <= height < LABEL or height >= BOTH):
        long, at = width - 9.5, y + height - 4
        parts.append(
            f'<rect class="gauge" x="{x + 4:.1f}" y="{at:.1f}" width="{long * path["probability"]:.1f}" height="2"/>'
        )
        if path["exact"] is not None:
            tick = x + 4 + long * path["exact"]
            parts.append(f'<path class="tick" d="M{tick:.1f} {at - 2:.1f}v5"/>')
    return "".join(parts) + "</g>"


def box_words(path: dict[str, Any]) -> str:
    """What a box says when it is pointed at, and to screen readers."""
    error = "" if path["mcse"] is None else f" ± {path['mcse']:.2g}"
    exact = "" if path["exact"] is None else f", exact {path['exact']:.3f}"
    said = f"{path['way']}: in {path['probability']:.3f}{error} of the trees{exact}; {path['rows']:.0%} of the rows"
    leaf = "" if path["value"] is None else f", which predicts {path['value']}"
    return said + (f"; a leaf in {path['stops']:.3f} of the trees{leaf}" if path["stops"] > 0.0 else "")


def tree_map(content: dict[str, Any]) -> str:
    """Trees as points; the marks of chains differ in colour and shape, letters are where clusters lie."""
    points = content["points"]
    inner, margin = MAP - 48, 24
    marks: list[str] = []
    sums: dict[int, list[float]] = {}
    for point in points:
        x, y = margin + inner * point["x"], margin + inner * (1.0 - point["y"])
        chain = point["chain"] % len(SHAPES)
        size = min(1.0 + 0.35 * math.log2(point["draws"]), 3.0)
        turned = f" scale({size:.2f})" if size > 1.0 else ""
        held = " ".join(map(str, point["paths"]))
        marks.append(
            f'<path class="k{chain}" data-paths="{held}" data-tree="{point["tree"]}" '
            f'transform="translate({x:.1f} {y:.1f}){turned}" d="M0 0{SHAPES[chain]}"/>'
        )
        n = point["draws"]
        total = sums.setdefault(point["mode"], [0.0, 0.0, 0.0])
        total[0], total[1], total[2] = total[0] + n * x, total[1] + n * y, total[2] + n
    letters = ""
    if len(sums) > 1:
        letters = "".join(
            f'<text class="letter" x="{sx / n:.1f}" y="{max(sy / n - 8, 20):.1f}">{mode_letter(mode)}</text>'
            for mode, (sx, sy, n) in sorted(sums.items())
        )
    said = f"Map of {content['draws']} draws of trees; near trees share most cells"
    return (
        f'<svg id="map" viewBox="0 0 {MAP} {MAP}" role="img" aria-label="{said}">'
        f'<rect class="frame" x="1" y="1" width="{MAP - 2}" height="{MAP - 2}"/>{"".join(marks)}{letters}</svg>'
    )


def chain_mark(chain: int) -> str:
    """The mark of a chain, for the legend."""
    kind = chain % len(SHAPES)
    return (
        '<svg class="mark" viewBox="-5 -5 10 10" aria-hidden="true">'
        f'<path class="k{kind}" d="M0 0{SHAPES[kind]}"/></svg>'
    )


def mode_letter(mode: int) -> str:
    """A, B and so on; numbers behind Z."""
    return chr(65 + mode) if mode < 26 else str(mode)


def trace(content: dict[str, Any]) -> str:
    """One quantity of the draws, a line a chain."""
    known = [x for chain in content["chains"] for x in chain if x is not None]
    low, high = (min(known), max(known)) if known else (0.0, 0.0)
    span, last = (high - low) or 1.0, max(content["draws"][-1], 1)
    lines = []
    for c, chain in enumerate(content["chains"]):
        places = [
            f"{4 + (TRACE_WIDTH - 8) * draw / last:.0f},{6 + (TRACE_HEIGHT - 12) * (1 - (x - low) / span):.0f}"
            for draw, x in zip(content["draws"], chain, strict=True)
            if x is not None
        ]
        if len(places) == 1:
            places = places * 2
        lines.append(f'<polyline class="k{c % len(SHAPES)}" points="{" ".join(places)}"/>')
    name = escaped(content["name"])
    ends = " to ".join(figures([low, high]))
    return (
        f'<figure><figcaption>{name}, from {ends}</figcaption><svg class="trace" '
        f'viewBox="0 0 {TRACE_WIDTH} {TRACE_HEIGHT}" role="img" aria-label="Trace of the {name} by chain">'
        f'<rect class="frame" x="1" y="1" width="{TRACE_WIDTH - 2}" height="{TRACE_HEIGHT - 2}"/>{"".join(lines)}'
        "</svg></figure>"
    )
