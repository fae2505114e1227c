"""Every python block of the pages runs, page by page, and prints what the page says it prints.

A block runs in the namespace of the blocks above it. ``<!-- not run: reason -->`` on the line before excuses one. A
``text`` block right below a block is its output, numbers within 1%.
"""

import re
import tomllib
from typing import NamedTuple

import numpy as np
import pytest

from tests import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LANGUAGES = {"python", "text", "console", "toml", "{toctree}", "{eval-rst}", "{image}", "{figure}"}
FENCE, EXCUSE = re.compile(r"\s*```(.*)"), re.compile(r"<!-- not run:(.*)-->")
NUMBER = re.compile(r"-?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


class Block(NamedTuple):
    """A fenced block: the line of its fence, its text, and why it is not run."""

    language: str
    line: int
    text: str
    excuse: str | None
    follows: bool
    """Whether nothing but blank lines is between it and the block before."""


def blocks(page):
    """The fenced blocks of a page's text; a ValueError for a fence that would escape the tests."""
    out, inside, above, between = [], None, "", True
    for number, line in enumerate(page.splitlines(), start=1):
        fence = FENCE.fullmatch(line)
        if inside is not None and fence is None:
            inside[1].append(line)
        elif inside is not None:
            out.append(Block(inside[0], inside[2], "\n".join(inside[1]), inside[3], inside[4]))
            inside, above, between = None, "", False
        elif fence is not None:
            language, excuse = fence[1].strip(), EXCUSE.fullmatch(above.strip())
            if language not in LANGUAGES:
                raise ValueError(f"line {number}: a block in {language!r}; known are {sorted(LANGUAGES)}.")
            if excuse is not None and not excuse[1].strip():
                raise ValueError(f"line {number}: not run, and no reason given.")
            inside = language, [], number, excuse and excuse[1].strip(), not between
        elif line.strip():
            above, between = line, True
    if inside is not None:
        raise ValueError(f"line {inside[2]}: the block does not end.")
    return out


def run(page, name, capture):
    """Run the python blocks of a page and compare what they print."""
    space, printed = {"__name__": "__main__"}, None
    for block in blocks(page):
        if block.language == "python":
            printed = None
            if block.excuse is None:
                # so many empty lines that a traceback shows the line of the page
                exec(compile("\n" * block.line + block.text, name, "exec"), space)
                printed = capture()
        elif block.language == "text" and block.follows and printed is not None:
            assert_same(printed, block.text, f"{name}, line {block.line}")
            printed = None


def assert_same(printed, shown, where):
    """The same words, and the same numbers within 1%."""
    words = [" ".join(NUMBER.sub("#", text).split()) for text in (printed, shown)]
    assert words[0] == words[1], f"{where}: the block above prints\n{printed}"
    numbers = [np.array(NUMBER.findall(text), dtype=float) for text in (printed, shown)]
    np.testing.assert_allclose(*numbers, rtol=0.01, atol=1e-3, err_msg=f"{where}: printed, and shown")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_blocks_of_the_page_run(path, capsys, tmp_path, monkeypatch):
    import matplotlib.pyplot as plt

    monkeypatch.chdir(tmp_path)
    run(path.read_text(), str(path), lambda: capsys.readouterr().out)
    plt.close("all")


def test_links_between_pages_lead_somewhere():
    for path in PAGES:
        for target in re.findall(r"\]\(([^)#:]+\.md)[^)]*\)", path.read_text()):
            assert (path.parent / target).exists(), f"{path.name} links to {target}"


def test_public_names_are_in_the_reference():
    import exact
    import pactree_mcmc

    listed = re.findall(r"auto(?:class|function|exception):: (?:exact\.)?(\w+)", (ROOT / "docs" / "api.md").read_text())
    for module in (pactree_mcmc, exact):
        own = {n: v for n, v in vars(module).items() if getattr(v, "__module__", "").startswith(("pactree", "exact"))}
        names = {name for name, value in own.items() if name[0] != "_" and callable(value)}
        assert sorted(names - set(listed)) == []


def test_what_the_site_needs_is_an_extra():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needs = {re.split("[<>=]", need)[0] for need in project["optional-dependencies"]["docs"]}
    settings = (ROOT / "docs" / "conf.py").read_text()
    assert needs >= {"sphinx", "myst-parser"}
    assert all(need.replace("-", "_") in settings for need in needs)


def page(*lines):
    return "\n".join(lines)


def test_a_failing_block_fails_with_its_line():
    text = page("# Title", "", "```python", "a = 1", "```", "words", "```python", "a", "1 / 0", "```")
    with pytest.raises(ZeroDivisionError) as caught:
        run(text, "page.md", str)
    assert caught.traceback[-1].lineno + 1 == 9


def test_an_excused_block_is_not_run():
    run(page("<!-- not run: needs a cluster -->", "```python", "1 / 0", "```"), "page.md", str)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (("<!-- not run: -->", "```python", "```"), "line 2: not run, and no reason"),
        (("```py", "1 / 0", "```"), "line 1: a block in 'py'"),
        (("```", "1 / 0", "```"), "line 1: a block in ''"),
        (("```python", "1 / 0"), "line 1: the block does not end"),
    ],
)
def test_a_block_cannot_escape(lines, message):
    with pytest.raises(ValueError, match=message):
        blocks(page(*lines))


@pytest.mark.parametrize("shown", ["a 1.5", "b 1.0"])
def test_output_that_differs_is_seen(shown):
    text = page("```python", "0", "```", "", "```text", shown, "```")
    with pytest.raises(AssertionError):
        run(text, "page.md", lambda: "a 1.0\n")
    run(text.replace(shown, "a 1.001"), "page.md", lambda: "a 1.0\n")


def test_text_that_is_no_output_is_not_compared():
    text = page("```python", "0", "```", "words between", "```text", "anything", "```")
    run(text, "page.md", lambda: "a 1.0\n")
