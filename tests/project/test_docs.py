"""Every python block of the pages runs, and every output on a page is what the block above it prints."""

import importlib
import importlib.util
import re
import tomllib

import pytest

import pactree_mcmc as pt
from tests import ROOT
from tests.project.pages import (
    DOCS,
    PAGES,
    accidental_items,
    check_page,
    comment_on_draws,
    foreign_numbers,
    indented_blocks,
    pictures,
    read_blocks,
    run_as_printed,
    run_page,
    unchecked_outputs,
    written,
)

COMMAND = re.compile(r"(?:\.venv/bin/)?(?:python|pactree|pip |pytest|sphinx-build)|export |RUN |ENV ")


def page(*lines):
    return "\n".join(lines)


RUN_BY_THE_BUILD = ("tutorial", "case_")
"""Beginnings of the names of pages whose blocks run when the site is built: `docs/conf.py`."""


@pytest.mark.more(everyday=["README.md", "theory_certificates.md"])
@pytest.mark.parametrize(
    "path", [path for path in PAGES if not path.stem.startswith(RUN_BY_THE_BUILD)], ids=lambda path: path.name
)
def test_blocks_of_the_page_run(path, tmp_path):
    import matplotlib.pyplot as plt

    if path.stem == "arviz" and (utils := importlib.util.find_spec("arviz.utils")) is not None:
        # ArviZ 0 would compile for seconds what these small tables need no compiler for
        importlib.import_module(utils.name).Numba.disable_numba()
    run_as_printed(path.read_text(encoding="utf-8"), str(path), tmp_path, show_all=path in DOCS)
    plt.close("all")


def test_the_build_runs_the_pages_that_tests_leave_out():
    assert f"EXECUTED = {RUN_BY_THE_BUILD}".replace("'", '"') in (ROOT / "docs" / "conf.py").read_text()


def test_no_output_of_any_page_is_unchecked():
    assert [path.name for path in PAGES if unchecked_outputs(path.read_text(encoding="utf-8"))] == []


def test_numbers_in_sentences_are_those_of_blocks():
    pages = [path for path in DOCS if path.name.startswith(("index", "tutorial", "howto_"))]
    assert {path.name: found for path in pages if (found := foreign_numbers(path.read_text(encoding="utf-8")))} == {}


def test_indented_blocks_are_commands():
    for path in PAGES:
        lines = indented_blocks(path.read_text(encoding="utf-8"))
        assert [line for line in lines if not COMMAND.match(line[1])] == [], path.name


def test_no_line_of_a_paragraph_becomes_an_item():
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "benchmarks" / "README.md"]
    assert {path.name: found for path in pages if (found := accidental_items(path.read_text(encoding="utf-8")))} == {}


def test_pages_show_the_pictures_that_they_save():
    for path in DOCS:
        text = path.read_text(encoding="utf-8")
        for name in pictures(text):
            assert f"]({path.stem}/{name})" in text, path.name


def test_links_between_pages_lead_somewhere():
    for path in PAGES:
        for target in re.findall(r"\]\(([^)#:]+\.md)[^)]*\)", path.read_text()):
            assert (path.parent / target).exists(), f"{path.name} links to {target}"


def test_the_entry_to_cite_is_that_of_the_citation_file():
    facts = dict(re.findall(r'(?m)^([a-z-]+): "?(.*?)"?$', (ROOT / "CITATION.cff").read_text()))
    year, month, _ = facts["date-released"].split("-")
    entry = (ROOT / "docs" / "install.md").read_text()
    for name, value in {"title": facts["title"], "version": facts["version"], "year": year, "month": month}.items():
        assert re.search(rf"{name} += \{{{re.escape(value)}\}}", entry), f"{name} {value}"


def test_public_names_are_in_the_reference():
    import exact

    listed = re.findall(r"(?m)^   (\w+)$", (ROOT / "docs" / "api.md").read_text())
    for module in (pt, exact):
        own = {n: v for n, v in vars(module).items() if getattr(v, "__module__", "").startswith(("pactree", "exact"))}
        names = {name for name, value in own.items() if name[0] != "_" and callable(value)}
        assert sorted(names - set(listed)) == []


def test_what_the_site_needs_is_an_extra():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needs = {re.split(r"[<>=\[]", need)[0] for need in project["optional-dependencies"]["docs"]} - {project["name"]}
    settings = (ROOT / "docs" / "conf.py").read_text()
    assert needs >= {"sphinx", "myst-parser"}
    assert all(need.replace("-", "_") in settings for need in needs)


def test_a_failing_block_fails_with_its_line():
    text = page("# Title", "", "```python", "a = 1", "```", "words", "```python", "a", "1 / 0", "```")
    with pytest.raises(ZeroDivisionError) as caught:
        check_page(text, "page.md", str)
    assert caught.traceback[-1].lineno + 1 == 9


def test_an_excused_block_is_not_run():
    check_page(page("<!-- not run: needs a cluster -->", "```python", "1 / 0", "```"), "page.md", str)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (("<!-- not run: -->", "```python", "```"), "line 1: not run, and no reason"),
        (("<!-- output not shown: -->", "```python", "```"), "line 1: output not shown, and no reason"),
        (("<!-- check: -->",), "line 1: check, and no reason"),
        (("<!-- from draws: -->",), "line 1: from draws, and no reason"),
        (("<!-- from draws: about the same -->",), "line 1: from draws: about the same, which is none"),
        (("```py", "1 / 0", "```"), "line 1: a block in 'py'"),
        (("```", "1 / 0", "```"), "line 1: a block in ''"),
        (("```python", "1 / 0"), "line 1: the block does not end"),
    ],
)
def test_a_block_cannot_escape(lines, message):
    with pytest.raises(ValueError, match=message):
        read_blocks(page(*lines))


BETWEEN = ("",), ("One paragraph.", "", "<!-- check: True -->", "", "Another one:")


@pytest.mark.planted
@pytest.mark.parametrize("between", BETWEEN)
@pytest.mark.parametrize("shown", ["b 1.0 of 1,000", "a 1.0001 of 1,000", "a 1.0 of 1,200", "a 1.0", ""])
def test_output_that_differs_is_seen(shown, between):
    text = page("```python", "0", "```", *between, "```text", shown, "```")
    with pytest.raises(AssertionError, match="prints"):
        check_page(text, "page.md", lambda: "a 1.0 of 1,000\n")
    check_page(text.replace(f"\n{shown}\n", "\na 1.0000000009 of 1,000\n"), "page.md", lambda: "a 1.0 of 1,000\n")


SHOWN = "age 0.93 of 120\ndose 0.41 of 120"


def shown_from_draws(comment):
    return page("```python", "0", "```", "", f"<!-- from draws: {comment} -->", "", "```text", SHOWN, "```")


@pytest.mark.parametrize(
    ("comment", "printed"),
    [
        ("errors 0.01 0 0.02 0", "age 0.975 of 120\ndose 0.32 of 120"),
        ("errors 0.02", "age 0.84 of 120\ndose 0.5 of 120"),
        ("words free, errors 0.01 0 0.02 0", "dose 0.975 of 120\nage 0.32 of 120"),
        ("lines free", "age 3 of 4"),
    ],
)
def test_other_draws_are_the_output_of_a_page(comment, printed):
    check_page(shown_from_draws(comment), "page.md", lambda: printed)
    with pytest.raises(AssertionError, match="prints"):
        check_page(shown_from_draws(comment).replace(f"<!-- from draws: {comment} -->", ""), "page.md", lambda: printed)


@pytest.mark.planted
@pytest.mark.parametrize(
    ("comment", "printed"),
    [
        ("errors 0.01 0 0.02 0", "age 0.985 of 120\ndose 0.41 of 120"),
        ("errors 0.01 0 0.02 0", "age 0.93 of 120\ndose 0.41 of 121"),
        ("errors 0.01 0 0.02 0", "dose 0.93 of 120\nage 0.41 of 120"),
        ("errors 0.01 0 0.02", SHOWN),
        ("words free, errors 0.01 0 0.02 0", "age 0.93 of 120 and\n0.41 of 121"),
        ("words free, errors 0.01 0 0.02 0", "age 0.93\nof 120 dose 0.41 of 120"),
        ("lines free", "dose 0.41 of 120"),
        ("lines free", ""),
    ],
)
def test_what_no_draws_give_is_seen(comment, printed):
    with pytest.raises(AssertionError):
        check_page(shown_from_draws(comment), "page.md", lambda: printed)


@pytest.mark.parametrize(
    ("texts", "comment"),
    [
        (["a 0.1", "a 0.1"], None),
        (["a 0.1 of 7", "a 0.2 of 7", "a 0.3 of 7"], "errors 0.2 0"),
        (["a 0.1 b 0.2", "a 0.2 b 0.4", "a 0.3 b 0.6"], "errors 0.3"),
        (["a 0.1 of 7", "b 0.2 of 7", "a 0.3 of 7"], "words free, errors 0.2 0"),
        (["a", "b"], "words free"),
        (["a 0.1", "a 0.1\nb 0.2"], "lines free"),
    ],
)
def test_errors_are_those_of_the_seeds(texts, comment):
    assert comment_on_draws(texts) == comment


@pytest.mark.planted
@pytest.mark.parametrize("line", ["* n numbers.", "1. The mean", "# of rows", "  - 2 if not", "+ 1"])
@pytest.mark.parametrize("before", ["They take chains", "* an item that goes on with"])
def test_a_line_that_becomes_an_item_is_noticed(before, line):
    line = f"  {line}" if before[0] == "*" else line
    assert accidental_items(page("# Title", "", before, line, "of rows.")) == [line]
    assert accidental_items(page(before, f"`{line.strip()}`", "of rows.")) == []


def test_lists_are_left_alone():
    lists = page("* one", "  and more", "* two", "", "1. three", "2. four", "")
    assert accidental_items(page(lists, "```python", "a", "* b", "```", "$$", "- c", "$$")) == []


@pytest.mark.planted
@pytest.mark.parametrize("shown", ["0.93", "[0.07 0.94]", "draw 3 of chain 1: R-hat 1.5", "1e-5"])
def test_every_number_of_an_output_counts(shown):
    for digit in re.finditer(r"\d", shown):
        changed = shown[: digit.start()] + str((int(digit[0]) + 1) % 10) + shown[digit.end() :]
        text = page("```python", "0", "```", "", "```text", changed, "```")
        with pytest.raises(AssertionError):
            check_page(text, "page.md", lambda: shown)


def test_output_that_the_page_leaves_out_is_seen():
    text = page("```python", "0", "```", "words", "```python", "1", "```")
    with pytest.raises(AssertionError, match="line 1: the page does not show"):
        check_page(text, "page.md", lambda: "a 1.0\n")
    check_page(text, "page.md", lambda: "a 1.0\n", show_all=False)
    check_page(text, "page.md", lambda: "")
    excuse = "<!-- output not shown: it is long -->\n"
    check_page((excuse + text).replace("```python\n1", f"{excuse}```python\n1"), "page.md", lambda: "a 1.0\n")


@pytest.mark.parametrize(
    ("lines", "unchecked"),
    [
        (("```text", "1", "```"), [1]),
        (("<!-- not run: slow -->", "", "```python", "```", "", "```text", "1", "```"), [6]),
        (("```python", "```", "```text", "1", "```", "and", "```text", "2", "```"), [7]),
        (("```python", "```", "prints", "```text", "1", "```"), []),
    ],
)
def test_output_of_no_block_is_listed(lines, unchecked):
    assert unchecked_outputs(page(*lines)) == unchecked


def test_sentences_are_checked():
    text = page("```python", "a = 0.93", "```", "P = .93", "<!-- check: abs(a - 0.93) < 0.005 -->")
    check_page(text, "page.md", str)
    with pytest.raises(AssertionError, match=r"line 5: .* is not true"):
        check_page(text.replace("a = 0.93", "a = 0.91"), "page.md", str)


def test_numbers_in_sentences_that_no_block_prints_are_listed():
    text = page(
        "It is ill with P = .93, not -1.5, in `x 0.3`.", "", "```text", "[0.07 0.9312]", "```", "| .4 |", "0.07."
    )
    assert foreign_numbers(text) == ["-1.5"]
    assert foreign_numbers(text.replace("0.9312", "0.9112")) == [".93", "-1.5"]
    assert foreign_numbers(text.replace("It is", "By `benchmarks/x.py` it is")) == []


def test_a_warning_of_which_the_page_does_not_speak_is_an_error():
    defined = page(
        "```python",
        "import warnings, pactree_mcmc as pt",
        "def run(): warnings.warn('few draws', pt.ConvergenceWarning)",
        "```",
    )
    check_page(f"{defined}\n{page('```python', 'run()  # warns: few draws', '```')}", "page.md", str)
    with pytest.raises(pt.ConvergenceWarning):
        check_page(f"{defined}\n{page('```python', 'run()', '```')}", "page.md", str)


def test_a_block_of_another_kind_is_listed():
    text = "Run\n\n    python run.py\n\nwhich prints\n\n    0.93\n\n* a list\n\n```text\n    1\n```"
    assert list(indented_blocks(text)) == [(3, "python run.py"), (7, "0.93")]


def test_todays_output_is_written():
    text = page("```python", "0", "```", "words", "```text", "old", "```", "```python", "1", "```", "end", "")
    shown = page("", "```text", "a 1.0", "```")
    new = written(text, [list(run_page(text, "page.md", lambda: "a 1.0\n"))])
    assert new == text.replace("old", "a 1.0").replace("1\n```", f"1\n```\n{shown}")
    check_page(new, "page.md", lambda: "a 1.0\n")
    assert written(new, [list(run_page(new, "page.md", lambda: "a 1.0\n"))]) == new


def test_errors_are_written():
    def write(page, *numbers):
        return written(page, [list(run_page(page, "page.md", lambda x=x: f"a {x}\n")) for x in numbers])

    text = page("```python", "0", "```", "", "```text", "old", "```", "")
    new = write(text, 1.0, 2.0, 3.0)
    assert new == page("```python", "0", "```", "", "<!-- from draws: errors 2 -->", "```text", "a 1.0", "```", "")
    assert write(new, 1.0, 1.1, 1.2) == new  # within the errors of the page
    assert write(new, 100.0, 101.0, 102.0) == new.replace("1.0", "100.0")
    assert write(new, 100.0, 100.0) == text.replace("old", "a 100.0")
