"""A posterior in a few lines of HTML, for notebooks: no style sheet, no script, no identifiers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...posterior.convergence import objections
from ...posterior.sampled import SampledPosterior
from .facts import data_words, described, described_model, described_run, evidence_words, run_words
from .text import cut, escaped, probability

if TYPE_CHECKING:
    from ...posterior.base import Posterior

N_LINES = 24
"""Nodes of the consensus tree shown."""
WIDTH, LONGEST = 160, 240
"""Characters of a line, and of the verdict."""


def small_page(post: Posterior) -> str:
    """The verdict, a few numbers and the consensus tree; the tree is text, as ``ConsensusTree.format`` has it."""
    numbers = [("data", data_words(described_model(post.model)))]
    if isinstance(post, SampledPosterior):
        if post.tree_of_draw.size == 0:
            return f"<p>{escaped(repr(post))}</p>"
        found = objections(post)
        said = found[0] if found else "The chains agree within what is wanted."
        numbers.append(("draws", run_words(described_run(post))))
        # a bridge to the evidence takes seconds, which a look at a variable must not
        evidence = "" if post.tempering is None else evidence_words(described(post))
    else:
        found, said = [], repr(post)
        evidence = "" if post.log_evidence is None else f"{post.log_evidence:.6f}"
    pmf = post.n_leaves_pmf()
    numbers.append(("leaves", f"{float(pmf @ range(len(pmf))):.2f} on average, most often {int(pmf.argmax())}"))
    inclusion = post.feature_inclusion()
    names = post.model.columns.names
    often = [f"{names[k]} {probability(float(inclusion[k]))}" for k in (-inclusion).argsort(kind="stable")[:4]]
    numbers.append(("features", ", ".join(often)))
    if evidence:
        numbers.append(("log evidence", evidence))
    rows = "".join(
        f'<tr><th style="text-align:left">{name}</th><td style="text-align:left">{escaped(cut(value, WIDTH))}</td></tr>'
        for name, value in numbers
    )
    lines = post.consensus_tree().format().splitlines()
    tree = "\n".join(escaped(cut(line, WIDTH)) for line in lines[:N_LINES])
    more = f"\n... {len(lines) - N_LINES} more" if len(lines) > N_LINES else ""
    more_found = "".join(f"<li>{escaped(cut(line, WIDTH))}</li>" for line in found[1:4])
    listed = f"<ul>{more_found}</ul>" if more_found else ""
    return (
        f"<div><p><b>{escaped(type(post).__name__)}.</b> {escaped(cut(said, LONGEST))}</p>{listed}<table>{rows}</table>"
        f"<pre>{tree}{more}</pre></div>"
    )
