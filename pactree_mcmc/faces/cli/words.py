"""What the library says, in the words of the command line: its advice names options."""

from __future__ import annotations

import re

OPTIONS = {
    **{
        name: "--" + name.replace("_", "-")
        for name in ("draws", "tune", "chains", "thin", "proposals", "steps", "seconds", "kernel")
    },
    **{name: "--" + name.replace("_", "-") for name in ("checkpoint", "every", "missing", "nominal", "leaf")},
    **{name: "--" + name.replace("_", "-") for name in ("max_cuts", "min_leaf", "max_depth", "max_cells", "betas")},
}
"""Arguments of the library that the command line has an option for."""
NAMES = "|".join(OPTIONS)
VALUE = r"""'[^']*'|"[^"]*"|\[[^\]]*\]|\w+(?:\.\d+)?"""
CHANGES: tuple[tuple[str, str], ...] = (
    (r"LocalCuts\((max_cuts=\w+)\)", r"\1"),
    (r"(max_depth=\w+) of the tree prior", r"\1"),
    (r"\(max_cuts, GridCuts, a smaller max_depth\)", "(--max-cuts, a smaller --max-depth)"),
    (r"\b(raise|raising) (tune|max_cells)\b", r"\1 \2="),
    (r"pt\.resume\('([^']*)'\)", r"python -m pactree_mcmc resume \1"),
    (r"pt\.resume\(path\)", "python -m pactree_mcmc resume"),
)


def in_options(text: str) -> str:
    """A message of the library with its arguments as options of the command line.

    Examples
    --------
    >>> in_options("try betas=8; or draws=4000, missing='branch'.")
    'try --betas 8; or --draws 4000, --missing branch.'
    """
    for pattern, change in CHANGES:
        text = re.sub(pattern, change, text)
    return re.sub(rf"\b({NAMES})=({VALUE})?", _as_option, text)


def _as_option(found: re.Match[str]) -> str:
    name, value = OPTIONS[found[1]], found[2]
    return name if value is None else f"{name} " + value.strip("\"'[]").replace(", ", ",")
