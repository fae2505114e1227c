"""A posterior as one HTML page, and as a few lines of HTML for notebooks.

`content` computes the numbers and texts of the page, and `page` formats them with the template, style sheet and script
of this folder.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core.checks import repr_of
from ...files.store import AnyPath, as_path

if TYPE_CHECKING:
    from ...posterior.base import Posterior

PAGE_SUFFIXES = (".html", ".htm")
DEFAULT_TITLE = "Posterior over decision trees"


def write_report(post: Posterior, path: AnyPath, truth: Posterior | None = None, title: str | None = None) -> Path:
    """Write the report of a posterior as one HTML page, as `Posterior.report` describes, and return its path."""
    target = _check_page_path(path)
    if title is not None and not isinstance(title, str):
        raise TypeError(f"title is {repr_of(title)}; give a text, or None.")
    # imported here, so that importing the library stays fast
    from .content import report_content
    from .page import render_page

    text = render_page(report_content(post, truth), DEFAULT_TITLE if title is None else title)
    target.write_text(text, encoding="utf-8", newline="\n")
    return target


def _check_page_path(path: Any) -> Path:
    """Return the path of a page to be written. Raise a ValueError if its suffix or its folder cannot be used."""
    target = as_path(path)
    if target.suffix.lower() not in PAGE_SUFFIXES:
        raise ValueError(f"{target} ends in {target.suffix!r}; give a path that ends in .html.")
    if not target.parent.is_dir():
        raise ValueError(f"the folder {target.parent} of {target} does not exist; create it first.")
    if target.is_dir():
        raise ValueError(f"{target} is a folder; give the path of a file.")
    return target


def small_html(post: Posterior) -> str:
    """Return the verdict, a few numbers and the consensus tree as HTML for notebooks, without style and script."""
    from ...posterior.convergence import short_diagnosis
    from ...posterior.sampled import SampledPosterior
    from . import words
    from .page import environment

    facts, failed, verdict = [("data", words.data_line(post.model))], [], repr(post)
    if isinstance(post, SampledPosterior):
        failed = short_diagnosis(post)
        verdict = failed[0] if failed else "The chains agree within what is wanted."
        facts.append(("draws", words.run_line(post)))
    pmf, inclusion, names = post.n_leaves_pmf(), post._feature_inclusion(), post.model.columns.names
    facts.append(("leaves", f"{float(pmf @ range(len(pmf))):.2f} on average, most often {int(pmf.argmax())}"))
    frequent = [
        f"{names[k]} {words.probability_text(float(inclusion[k]))}" for k in (-inclusion).argsort(kind="stable")[:4]
    ]
    facts.append(("features", ", ".join(frequent)))
    if isinstance(post, SampledPosterior):
        # a bridge to the evidence takes seconds, which a look at a variable must not
        evidence = "" if post.tempering is None else words.evidence_text(post)
    else:
        evidence = "" if post.log_evidence is None else f"{post.log_evidence:.6f}"
    if evidence:
        facts.append(("log evidence", evidence))
    return (
        environment()
        .get_template("small.html")
        .render(
            name=type(post).__name__,
            verdict=verdict,
            objections=failed[1:-1],
            facts=facts,
            tree=post.consensus_tree().format().splitlines(),
        )
    )
