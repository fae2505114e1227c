"""A posterior as one HTML page, and as a few lines for notebooks.

`report_content` computes what the page says, `page` writes it; the template, its style and its script lie beside.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core.checks import in_words
from ...files.store import AnyPath, as_path
from ...posterior.summaries.pages import pages

if TYPE_CHECKING:
    from ...posterior.base import Posterior

SUFFIXES = (".html", ".htm")
TITLE = "Posterior over decision trees"


def write_report(
    post: Posterior, path: AnyPath, truth: Posterior | None = None, title: str | None = None, command: str | None = None
) -> Path:
    """Write the report of a posterior; see `Posterior.report`."""
    target = check_page_path(path)
    for name, text in (("title", title), ("command", command)):
        if text is not None and not isinstance(text, str):
            raise TypeError(f"{name} is {in_words(text)}; give a text, or None.")
    # what it takes to draw a page is not needed to import the library
    from .content import report_content
    from .page import page

    text = page(report_content(post, truth, command), TITLE if title is None else title)
    target.write_text(text, encoding="utf-8", newline="\n")
    return target


def check_page_path(path: Any) -> Path:
    """The path of a page to be written; a ValueError if its suffix or its folder is not usable."""
    target = as_path(path)
    if target.suffix.lower() not in SUFFIXES:
        raise ValueError(f"{target} ends in {target.suffix!r}; give a path that ends in .html.")
    if not target.parent.is_dir():
        raise ValueError(f"the folder {target.parent} of {target} does not exist; create it first.")
    if target.is_dir():
        raise ValueError(f"{target} is a folder; give the path of a file.")
    return target


def small_html(post: Posterior) -> str:
    """The verdict, a few numbers and the consensus tree, for notebooks."""
    from .small import small_page

    return small_page(post)


pages.update({"report": write_report, "small": small_html})
