"""Every python block of the pages runs and prints what the page shows; what pages mention exists."""

import functools
import importlib
import importlib.util
import inspect
import itertools
import re
import shlex
import tomllib

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from tests import ROOT
from tests.problems.refusals import refuses
from tests.project.pages import (
    DOCS,
    FENCE,
    PAGES,
    check_page,
    foreign_numbers,
    indented_blocks,
    pictures,
    read_blocks,
    run_as_printed,
    unchecked_outputs,
)

COMMAND = re.compile(r"(?:\.venv/bin/)?(?:python|pactree|pip |pytest|sphinx-build)|export |RUN |ENV ")
RUN_BY_THE_BUILD = ("tutorial", "case_")
"""Beginnings of the names of pages whose blocks run when the site is built: `docs/conf.py`."""
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
BETWEEN = ("",), ("One paragraph.", "", "<!-- check: True -->", "", "Another one:")
SHOWN = "age 0.93 of 120\ndose 0.41 of 120"
NOT_OF_DRAWS = [
    ("errors 0.01 0 0.02 0", "age 0.985 of 120\ndose 0.41 of 120"),
    ("errors 0.01 0 0.02 0", "age 0.93 of 120\ndose 0.41 of 121"),
    ("errors 0.01 0 0.02 0", "dose 0.93 of 120\nage 0.41 of 120"),
    ("errors 0.01 0 0.02", SHOWN),
    ("words free, errors 0.01 0 0.02 0", "age 0.93 of 120 and\n0.41 of 121"),
    ("words free, errors 0.01 0 0.02 0", "age 0.93\nof 120 dose 0.41 of 120"),
    ("lines free", "dose 0.41 of 120"),
    ("lines free", ""),
]
SOURCES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "benchmarks/README.md", "pactree_mcmc/mcmc/moves/SKELETON.md")
TEXTS = sorted({*PAGES, *(ROOT / name for name in SOURCES), *(ROOT / "docs" / "develop").glob("*.md")})
FILES = [
    path.relative_to(ROOT).as_posix()
    for path in ROOT.rglob("*")
    if path.is_file() and not any(part in {".git", ".venv", "_build", "__pycache__"} for part in path.parts)
]
"""Files of the project."""
SPAN = re.compile(r"(?<!`)`([^`]+)`(?!`)")
PATH = re.compile(
    r"(?<![\w./])(?:benchmarks|docs|examples|verification|tests|pactree_mcmc|exact|\.ci)/[\w./*\-]*\w/?"
    r"|(?<![\w./<{])[\w/\-]*\w\.(?:py|md)\b"
)
OF_THE_READER = {"run.py", "my_move.py", "docs/_build"}
"""Files that a reader writes."""
FILE_NAMES = {"exact.md", "model.py"}
"""Files whose names look like attributes."""


def page(*lines):
    return "\n".join(lines)


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


@pytest.mark.planted
@pytest.mark.parametrize("between", BETWEEN)
@pytest.mark.parametrize("shown", ["b 1.0 of 1,000", "a 1.0001 of 1,000", "a 1.0 of 1,200", "a 1.0", ""])
def test_output_that_differs_is_seen(shown, between):
    text = page("```python", "0", "```", *between, "```text", shown, "```")
    refuses("prints", lambda: check_page(text, "page.md", lambda: "a 1.0 of 1,000\n"), AssertionError)
    check_page(text.replace(f"\n{shown}\n", "\na 1.0000000009 of 1,000\n"), "page.md", lambda: "a 1.0 of 1,000\n")


def shown_from_draws(comment):
    return page("```python", "0", "```", "", f"<!-- from draws: {comment} -->", "", "```text", SHOWN, "```")


@pytest.mark.planted
@pytest.mark.parametrize(("comment", "printed"), NOT_OF_DRAWS)
def test_what_no_draws_give_is_seen(comment, printed):
    with pytest.raises(AssertionError):
        check_page(shown_from_draws(comment), "page.md", lambda: printed)


def test_output_that_the_page_leaves_out_is_seen():
    text = page("```python", "0", "```", "words", "```python", "1", "```")
    refuses("line 1: the page does not show", lambda: check_page(text, "page.md", lambda: "a 1.0\n"), AssertionError)
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


@functools.cache
def text_of(path):
    return path.read_text(encoding="utf-8")


def spans(path):
    prose = re.sub(r"(?ms)^\s*```.*?^\s*```", " ", text_of(path))
    return [" ".join(found.split()) for found in SPAN.findall(prose)]


def code_lines(path):
    """Return the lines of code of a text: spans, lines of fenced blocks and indented lines."""
    inside, lines = False, spans(path)
    for line in text_of(path).splitlines():
        if FENCE.fullmatch(line):
            inside = not inside
        elif inside:
            lines.append(line.strip())
    return lines + [line for _, line in indented_blocks(text_of(path))]


def commands(path):
    """Yield the words of each shell command of a text; commands joined by && are separate."""
    for line in code_lines(path):
        for part in re.split(r"\s*(?:&&|;(?!'))\s*", line.lstrip("# ")):
            if re.match(r"(?:\S*/)?(?:python3?|pytest|pip|sphinx-build)(?: |$)|\S+\.py ", part):
                try:
                    yield shlex.split(part)
                except ValueError:  # an apostrophe in a comment
                    continue


def exists(name):
    """Return True if the path of a file or folder of the project is or ends in this name."""
    name = name.rstrip("/")
    pattern = re.compile(rf"(?:^|.*/){re.escape(name).replace(re.escape('*'), '[^/]*')}(?:/.*)?")
    return any(pattern.fullmatch(file) for file in FILES)


def wrong_paths(path):
    """Return the files named in the code or the links of a text that do not exist."""
    linked = re.findall(r"\]\((?!\w+:)([\w./\-]+)", text_of(path))
    named = {found for line in code_lines(path) for found in PATH.findall(line)} - OF_THE_READER
    return sorted(
        [name for name in named if not exists(name)] + [link for link in linked if not (path.parent / link).exists()]
    )


@functools.cache
def source_of(script):
    """Return the source of a script and of the modules that it imports from its folder or the folder above."""
    file = ROOT / script
    own = text_of(file)
    names = re.findall(r"(?m)^\s*(?:from|import) (\w+)", own)
    beside = [folder / f"{name}.py" for name in names for folder in (file.parent, file.parent.parent)]
    return own + "".join(text_of(other) for other in beside if other.exists())


def wrong_words(script, words):
    """Return the options and the first words given to a script that its source does not contain."""
    source = source_of(script)
    options = [word.partition("=")[0] for word in words if word.startswith("--")]
    plain = list(itertools.takewhile(lambda word: re.fullmatch(r"[a-z]\w+", word), words))
    return [word for word in options if f'"{word}"' not in source] + [
        word for word in plain if not re.search(rf"\b{word}\b", source)
    ]


def wrong_commands(path):
    """Yield the commands of a text whose program, options or arguments do not exist."""
    extras = tomllib.loads(text_of(ROOT / "pyproject.toml"))["project"]["optional-dependencies"]
    for words in commands(path):
        line, program = " ".join(words), words[0].rpartition("/")[2]
        words = words[1:]
        if program.startswith("python") and words[:1] == ["-m"]:
            program, words = (words[1:2] or [""])[0], words[2:]
        elif program.startswith("python") and words and words[0].endswith(".py"):
            program, words = words[0], words[1:]
        if program == "pytest":
            yield from (f"{line}: {word}" for word in words if "/" in word and not _is_a_test(word))
        elif program == "pip":
            named = re.findall(r"\[(\w+)\]", line)
            yield from (f"{line}: no extra {name}" for name in named if name not in extras)
        elif program.startswith("tests."):
            if not exists(program.replace(".", "/") + ".py"):
                yield line
        elif program.endswith(".py") and program not in OF_THE_READER:
            scripts = [file for file in FILES if f"/{file}".endswith(f"/{program}")]
            if not scripts or all(wrong_words(script, words) for script in scripts):
                yield line


def _is_a_test(word):
    file, _, name = word.partition("::")
    return exists(file) and (not name or f"def {name.partition('[')[0]}(" in text_of(ROOT / file))


# names of Python


@functools.cache
def objects():
    """Return the objects that pages call by these names."""
    X, y = np.arange(8.0)[:, None], [0, 0, 1, 1, 0, 0, 1, 1]
    model = pt.TreeModel(X, y)
    truth = exact.solve(model)
    post = pt.sample(model, 10, tune=10, chains=2, rng=1, kernel="grow-prune", progress=False)
    mixture = exact.progressive_mixture(pt.TreeModel(X, y, leaf=pt.FrozenLaplace(), estimation=0.5))
    tree = post.map_tree()
    prunings = exact.Prunings(tree, X, y)
    return {
        "pt": [pt],
        "exact": [exact],
        "moves": [pt.moves],
        "plots": [pt.plots],
        "post": [post, truth],
        "mixture": [mixture],
        "truth": [truth],
        "model": [model],
        "tree": [tree],
        "prunings": [prunings],
        "leaf": [pt.CustomLeaf],
    }


def lookup(name):
    """Return the objects with a dotted name, an empty list if there are none."""
    first, *rest = name.split(".")
    found = objects()[first]
    for part in rest:
        found = [_attribute(value, part) for value in found if hasattr(type(value), part) or hasattr(value, part)]
    return found


def _attribute(value, part):
    held = inspect.getattr_static(type(value), part, None)
    return held.fget if isinstance(held, property) and part == "log_evidence" else getattr(value, part)


def python_names(path):
    """Yield the dotted names in code spans and in blocks that are not run."""
    text = [*spans(path), *(block.text for block in read_blocks(text_of(path)) if block.not_run)]
    names = "|".join(map(re.escape, objects()))
    for piece in text:
        yield from (found for found in re.findall(rf"(?<![\w./\-\"'])((?:{names})(?:\.[a-zA-Z_]\w*)+)", piece))


def wrong_names(path):
    return sorted({name for name in python_names(path) if not lookup(name)} - FILE_NAMES)


CHECKS = {check.__name__: check for check in (wrong_paths, wrong_commands, wrong_names)}
"""What the pages mention: functions that return or yield the names that do not exist."""


@pytest.mark.parametrize("check", CHECKS)
def test_what_pages_mention_exists(check):
    found = {path.relative_to(ROOT).as_posix(): list(CHECKS[check](path)) for path in TEXTS}
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


@pytest.mark.planted
@pytest.mark.parametrize(
    ("claim", "wrong"),
    [
        ("see `benchmarks/no_such.py`", wrong_paths),
        ("see `pactree_mcmc/files/content.py`, lists", wrong_paths),
        ("see [this](no_such.md)", wrong_paths),
        ("`test_no_such.py` shows it", wrong_paths),
        ("\n    python benchmarks/no_such.py --quick\n", wrong_commands),
        ("`python benchmarks/progressive.py sped`", wrong_commands),
        ("`python verification/fuzz.py --file 10`", wrong_commands),
        ("`pytest tests/no_such`", wrong_commands),
        ("`python -m pytest -m slow tests/project/test_docs.py::test_no_such`", wrong_commands),
        ("\n    .venv/bin/pip install '.[no_such]' && python run.py\n", wrong_commands),
        ("`pt.no_such(model)`", wrong_names),
        ("`pt.plots.plot_no_such(post)`", wrong_names),
        ("`exact.Prunings.no_such`", wrong_names),
        ("`post.no_such()`", wrong_names),
        ("`post.course.no_such`", wrong_names),
        ("<!-- not run: slow -->\n```python\npt.no_such()\n```", wrong_names),
    ],
)
def test_a_name_of_nothing_is_noticed(claim, wrong, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"# Title\n\n{claim}\n")
    assert len(list(wrong(page))) == 1
