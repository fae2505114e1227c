"""The library is written in plain English: `docs/develop/index.md`."""

import ast
import io
import re
import tokenize

import pytest

from tests import ROOT

FILES = sorted(file for name in ("pactree_mcmc", "exact") for file in (ROOT / name).rglob("*.py"))
BEGINNING = re.compile(r"(?:What|How|Where|Whether|Of|Its|Their|By|That)\b")
"""Beginnings of a text that does not say what a function does or what a field is."""
PHRASE = re.compile(r"where nothing|(?<![Tt]here )\bis none\b|(?<![Tt]here )\bis no (?!smaller|larger)|\btold\b")


def texts(source):
    """Yield the line and the text of every docstring, and of every string below a constant or a field."""
    for node in ast.walk(ast.parse(source)):
        text = node.value.value if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) else None
        if isinstance(text, str):
            yield node.lineno, text


def objections(source):
    """Return the line and the reason of every text and every phrase of a source that is not plain."""
    found = [(line, f"begins with {text.split()[0]!r}") for line, text in texts(source) if BEGINNING.match(text)]
    # tokens take long to read, and few sources contain a phrase
    tokens = tokenize.generate_tokens(io.StringIO(source).readline) if PHRASE.search(source) else ()
    for token in tokens:
        if tokenize.tok_name[token.type] in ("COMMENT", "STRING", "FSTRING_MIDDLE"):
            found += [(token.start[0], f"contains {phrase[0]!r}") for phrase in PHRASE.finditer(token.string)]
    return sorted(found)


def test_texts_are_plain():
    found = {str(file.relative_to(ROOT)): objections(file.read_text(encoding="utf-8")) for file in FILES}
    assert {file: wrong for file, wrong in found.items() if wrong} == {}


@pytest.mark.planted
@pytest.mark.parametrize(
    "source",
    [
        '"""What a tree is."""',
        'def f():\n    """How it is done."""',
        'class C:\n    """A class."""\n\n    x: int\n    """Whether it is."""',
        'N = 1\n"""By name."""',
        "raise ValueError('the kernel is none')",
        "# of a file that is no file\n",
    ],
)
def test_a_text_that_is_not_plain_is_noticed(source):
    assert len(objections(source)) == 1


def test_plain_texts_are_left_alone():
    assert objections('N = 1\n"""Number of trees, if there are any."""\n\n\ndef whatever():\n    """Return N."""') == []
