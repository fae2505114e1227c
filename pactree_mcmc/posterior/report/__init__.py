"""A posterior as one HTML page, and as a few lines of HTML for notebooks.

`content` computes the numbers and texts of the page, and `page` formats them with the template, style sheet and script
of this folder.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...core.checks import repr_of
from ...files.store import AnyPath, as_path
from ..convergence import short_diagnosis
from ..distribution import TreeDistribution
from ..trees.consensus import consensus_tree

PAGE_SUFFIXES = (".html", ".htm")
DEFAULT_TITLE = "Posterior over decision trees"


def report(
    post: TreeDistribution,
    path: AnyPath,
    *,
    truth: TreeDistribution | None = None,
    title: str | None = None,
    label: Any = None,
) -> Path:
    """Write the posterior as one HTML page, to look at in any browser.

    The page shows the verdict in words, the consensus tree with its support, all decision paths laid over each
    other, the most probable trees, predictions for a row that the reader types in, the
    diagnostics of the chains, the model and the run. It loads nothing and is readable without JavaScript.

    Parameters
    ----------
    path : path-like
        File to write, whose name ends in .html. An existing file is replaced.
    truth : Posterior, optional
        An exact posterior of the same model, such as ``exact.solve(model)``: its values are ticked beside those of
        the draws. An exact posterior is its own truth, and its paths and trees are of 1,000 independent draws.
    title : str, optional
        Heading of the page.
    label : optional
        Class whose probabilities the most probable shape and the effects of features show. Default: of two classes the
        last one, else up to eight.

    Returns
    -------
    Path
        Path of the file.

    Raises
    ------
    TypeError
        If ``truth`` is not an exact posterior, or ``title`` not a text.
    ValueError
        If the path cannot be written to, or ``truth`` is of another model, or ``label`` is not a class.

    Notes
    -----
    The same posterior makes the same bytes. A page of 4,000 draws takes some seconds and at most about 500 kB; if
    the trees are very large it has fewer of them, and says how many.

    Examples
    --------
    >>> import pathlib, tempfile, pactree_mcmc as pt
    >>> model = pt.TreeModel([[float(x)] for x in range(10)], [x > 5 for x in range(10)])
    >>> post = pt.posterior_from_trees(model, [pt.Tree([0, -1, -1], [4.5, 0, 0], [1, 0, 0], [2, 0, 0])])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     post.report(pathlib.Path(folder) / "page.html").stat().st_size < 100_000
    True
    """
    target = _check_page_path(path)
    if title is not None and not isinstance(title, str):
        raise TypeError(f"title is {repr_of(title)}; give a text, or None.")
    # imported here, so that importing the library stays fast
    from .content import report_content
    from .page import render_page

    text = render_page(report_content(post, truth, label), DEFAULT_TITLE if title is None else title)
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


def small_html(post: Any) -> str:
    """Return the verdict, a few numbers and the consensus tree as HTML for notebooks, without style and script."""
    from . import words
    from .page import environment

    facts, failed, verdict = [("data", words.data_line(post.model))], [], repr(post)
    evidence = "" if post.log_evidence is None else f"{post.log_evidence:.6f}"
    if post.draws is not None:
        failed = short_diagnosis(post)
        verdict = failed[0] if failed else "The chains agree within what is wanted."
        facts.append(("draws", words.run_line(post.draws)))
        evidence = "" if post.draws.tempering is None else words.evidence_text(post)
    pmf, inclusion, names = post.n_leaves_pmf(), post._feature_inclusion(), post.model.columns.names
    facts.append(("leaves", f"{float(pmf @ range(len(pmf))):.2f} on average, most often {int(pmf.argmax())}"))
    order = (-inclusion).argsort(kind="stable")[:4]
    frequent = [f"{names[k]} {words.probability_text(float(inclusion[k]))}" for k in order]
    facts.append(("features", ", ".join(frequent)))
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
            tree=consensus_tree(post).format().splitlines(),
        )
    )
