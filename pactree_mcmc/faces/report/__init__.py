"""A posterior as one HTML page, and as a few lines for notebooks.

`report_content` computes the content of the page, and `page` formats it with the template, style sheet and script of
this folder.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core.checks import in_words
from ...files.store import AnyPath, as_path

if TYPE_CHECKING:
    from ...posterior.base import Posterior

SUFFIXES = (".html", ".htm")
TITLE = "Posterior over decision trees"


def write_report(
    post: Posterior, path: AnyPath, truth: Posterior | None = None, title: str | None = None, command: str | None = None
) -> Path:
    """Write the report of a posterior, as `Posterior.report` describes."""
    target = check_page_path(path)
    for name, text in (("title", title), ("command", command)):
        if text is not None and not isinstance(text, str):
            raise TypeError(f"{name} is {in_words(text)}; give a text, or None.")
    # imported here, so that importing the library stays fast
    from .content import report_content
    from .page import page

    text = page(report_content(post, truth, command), TITLE if title is None else title)
    target.write_text(text, encoding="utf-8", newline="\n")
    return target


def check_page_path(path: Any) -> Path:
    """Return the path of a page to be written. Raise a ValueError if its suffix or its folder cannot be used."""
    target = as_path(path)
    if target.suffix.lower() not in SUFFIXES:
        raise ValueError(f"{target} ends in {target.suffix!r}; give a path that ends in .html.")
    if not target.parent.is_dir():
        raise ValueError(f"the folder {target.parent} of {target} does not exist; create it first.")
    if target.is_dir():
        raise ValueError(f"{target} is a folder; give the path of a file.")
    return target


def small_html(post: Posterior) -> str:
    """Return the verdict, a few numbers and the consensus tree as HTML for notebooks."""
    from .small import small_page

    return small_page(post)
