"""Every python block of the pages runs, and every output on a page is what the block above it prints."""

import importlib
import importlib.util
import re

import pytest

import pactree_mcmc as pt
from tests import ROOT
from tests.project.pages import (
    DOCS,
    PAGES,
    check_page,
    foreign_numbers,
    indented_blocks,
    pictures,
    run_as_printed,
    unchecked_outputs,
)

COMMAND = re.compile(r"(?:\.venv/bin/)?(?:python|pactree|pip |pytest|sphinx-build)|export |RUN |ENV ")


def page(*lines):
    return "\n".join(lines)


RUN_BY_THE_BUILD = ("tutorial", "case_")
"""Beginnings of the names of pages whose blocks run when the site is built: `docs/conf.py`."""


@pytest.mark.more(everyday=["README.md", "certificates.md"])
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


def test_pages_show_the_pictures_that_they_save():
    for path in DOCS:
        text = path.read_text(encoding="utf-8")
        for name in pictures(text):
            assert f"]({path.stem}/{name})" in text, path.name


def sections_of(path):
    """Return the anchors of a page's sections."""
    titles = re.findall(r"(?m)^#+ (.*)$", re.sub(r"(?ms)^```.*?^```", "", path.read_text()))
    return [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles]


def test_links_between_pages_lead_somewhere():
    for path in [*PAGES, *(ROOT / "docs" / "develop").glob("*.md")]:
        text = " ".join(path.read_text().split("\n"))
        for target, anchor in re.findall(r"\]\(([^)#:\s]*\.md)?(?:#([\w-]+))?\)", text):
            page = path.parent / target if target else path
            assert page.exists(), f"{path.name} links to {target}"
            assert not anchor or anchor in sections_of(page), f"{path.name} links to {target}#{anchor}"


def test_a_section_begins_after_an_empty_line():
    for path in PAGES:
        text = re.sub(r"(?ms)^```.*?^```", "", path.read_text())
        assert re.findall(r"(?m)^.+\n(#+ .*)$", text) == [], path.name


SEARCHED = [
    "prior sensitivity",
    "cutpoint interval",
    "categorical predictors",
    "class imbalance",
    "repeated measures",
    "clustered patients",
    "how many rows",
    "n_jobs",
    "cores",
    "GPU",
    "time-dependent covariates",
    "minimum leaf size",
    "positive class",
    "missing values",
    "survival",
    "partial dependence",
    "variable importance",
    "MAP",
    "LOO",
    "exposure",
    "offset",
    "prior predictive",
    "Bayes factor",
    "burn-in",
    "effective sample size",
    "seed",
    "SHAP",
    "Kaplan-Meier",
    "interaction",
    "credible interval",
    "prediction interval",
    "calibration",
    "ROC",
    "AUC",
]
"""What visitors type into the search of the site. The build enters the words of docs/words.md into its index, which
the search ranks first if the whole entry is asked for."""


def test_words_that_visitors_search_for_lead_to_a_section():
    rows = re.findall(r"(?m)^\| (?!word \||---)(.+?) \| (.+) \|$", (ROOT / "docs" / "words.md").read_text())
    words = [word for row in rows for word in row[0].split(", ")]
    assert [word for word in SEARCHED if word not in words] == []
    assert sorted(set(words)) == sorted(words), "a word leads to two places"
    for _, text in rows:
        for name, anchor in re.findall(r"\((\w+\.md)#([\w-]+)\)", text):
            assert anchor in sections_of(ROOT / "docs" / name), f"{name}#{anchor}"


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


def test_results_in_the_reference_are_classes():
    package = ""
    for line in (ROOT / "docs" / "api.md").read_text().splitlines():
        package = line.removeprefix(".. currentmodule:: ") if line.startswith(".. currentmodule") else package
        if line.startswith("   ~"):
            module, name = f"{package}.{line.removeprefix('   ~')}".rsplit(".", 1)
            assert isinstance(getattr(importlib.import_module(module), name), type)


def test_a_failing_block_fails_with_its_line():
    text = page("# Title", "", "```python", "a = 1", "```", "words", "```python", "a", "1 / 0", "```")
    with pytest.raises(ZeroDivisionError) as caught:
        check_page(text, "page.md", str)
    assert caught.traceback[-1].lineno + 1 == 9


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


def test_output_that_the_page_leaves_out_is_seen():
    text = page("```python", "0", "```", "words", "```python", "1", "```")
    with pytest.raises(AssertionError, match="line 1: the page does not show"):
        check_page(text, "page.md", lambda: "a 1.0\n")
    check_page(text, "page.md", lambda: "a 1.0\n", show_all=False)
    check_page(text, "page.md", lambda: "")
    excuse = "<!-- output not shown: it is long -->\n"
    check_page((excuse + text).replace("```python\n1", f"{excuse}```python\n1"), "page.md", lambda: "a 1.0\n")


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
