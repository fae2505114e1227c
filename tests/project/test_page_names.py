"""Commands, files, options and names that the pages mention exist."""

import functools
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
from tests.project.pages import FENCE, PAGES, indented_blocks, read_blocks

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


@functools.cache
def text_of(path):
    return path.read_text(encoding="utf-8")


def spans(path):
    """Return the code spans of a text outside fenced blocks, each in one line."""
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
    """Return the dotted names of a text that are names of nothing."""
    return sorted({name for name in python_names(path) if not lookup(name)} - FILE_NAMES)


FILE_NAMES = {"exact.md", "model.py"}
"""Files whose names look like attributes."""


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
