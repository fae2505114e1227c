"""Pages and public docstrings use the field's words: `docs/develop/index.md`, "Words"."""

import inspect
import re

import exact
import pactree_mcmc as pt
from tests import ROOT

PAGES = [
    *sorted((ROOT / "docs").glob("*.md")),
    *(ROOT / name for name in ("README.md", "SECURITY.md", "benchmarks/README.md")),
]
WRITTEN_BY_PROGRAMS = {"trust.md", "verification.md"}
PACKAGES = (pt, exact, pt.certificates, pt.moves, pt.plots, pt.testing)

INSTEAD = {
    r"laws?": "distribution",
    r"shares?": "fraction, proportion, rate",
    r"prices?": "penalty, cost, alpha",
    r"tall(?:y|ies)": "count",
    r"ways? of parting|ways? to part": "split",
    r"freedom": "number of raw forms",
    r"loosen\w*|sunk|hangs?|hung": "a plain word",
    r"tells?|told": "says, shows, determines, estimates",
    r"stands? (?:still|for|on|in|there|beside)": "a plain word",
    r"(?:which|that|it) is none": "is not one",
    r"speaks? against": "the criteria that fail",
}
"""Words that are not written, and those that are written instead."""

MEANT = {
    "leaves share an unknown variance",
    "leaves share one variance",
    "the model shares a variance",
    "degrees of freedom",
    "--target price",
    "law of succession",
}
"""Uses that are meant."""


def objections(text):
    """Words of a text that have another one, each with what is around it."""
    text = re.sub(r"\s+", " ", text)
    for use in MEANT:
        text = text.replace(use, "")
    for word, instead in INSTEAD.items():
        for found in re.finditer(rf"\b(?:{word})\b", text, re.IGNORECASE if "none" not in word else 0):
            around = text[max(found.start() - 40, 0) : found.end() + 40]
            yield f"{found[0]!r} in '...{around}...': write {instead}"


def public_docstrings():
    """Docstrings of public names and of their public members, by name."""
    for package in PACKAGES:
        yield package.__name__, package.__doc__
        for name in package.__all__:
            value = getattr(package, name)
            if inspect.ismodule(value):
                continue
            yield f"{package.__name__}.{name}", getattr(value, "__doc__", None)
            for member in dir(value) if inspect.isclass(value) else ():
                held = inspect.getattr_static(value, member)
                if not member.startswith("_") and _is_ours(held):
                    yield f"{package.__name__}.{name}.{member}", inspect.getdoc(getattr(value, member))


def _is_ours(held):
    held = getattr(held, "func", getattr(held, "fget", getattr(held, "__func__", held)))
    return (getattr(held, "__module__", None) or "").startswith(("pactree_mcmc", "exact"))


def test_pages_use_the_words_of_the_field():
    for page in PAGES:
        if page.name not in WRITTEN_BY_PROGRAMS:
            prose = re.sub(r"(?s)```.*?```", " ", page.read_text(encoding="utf-8"))
            assert list(objections(prose)) == [], page.name


def test_docstrings_use_the_words_of_the_field():
    found = {name: list(objections(text or "")) for name, text in public_docstrings()}
    assert len(found) > 300
    assert {name: words for name, words in found.items() if words} == {}


def test_docstrings_name_what_users_have():
    """Single backticks are names that can be imported, methods, or described in the same docstring."""
    spaces = (*(package for package in PACKAGES if package is not pt.moves), pt.SampledPosterior, exact.ExactPosterior)
    wrong = {}
    for name, text in public_docstrings():
        package, _, last = name.rpartition(".")
        owner = getattr(next((one for one in spaces if getattr(one, "__name__", "") == package), None), last, None)
        for found in re.findall(r"(?<!`)`([A-Za-z_][\w.]*)`(?!`)", text or "") if owner is not None else ():
            first = re.sub(r"^(?:pactree_mcmc|pt|exact)\.", "", found).partition(".")[0]
            if not any(hasattr(space, first) for space in (*spaces, owner)) and f"{found} :" not in text:
                wrong.setdefault(name, []).append(found)
    assert wrong == {}
