"""The library is in plain English and the field's words, names with one meaning: docs/develop/index.md, Words."""

import ast
import functools
import inspect
import io
import re
import tokenize
from collections import defaultdict

import pytest

import exact
import pactree_mcmc as pt
from tests import ROOT

FILES = sorted(file for name in ("pactree_mcmc", "exact") for file in (ROOT / name).rglob("*.py"))
BEGINNING = re.compile(r"(?:What|How|Where|Whether|Of|Its|Their|By|That)\b")
"""Beginnings of a text that does not say what a function does or what a field is."""
PHRASE = re.compile(r"where nothing|(?<![Tt]here )\bis none\b|(?<![Tt]here )\bis no (?!smaller|larger)|\btold\b")
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
NO_NAME = re.compile(
    r"_*(?:allowed|asked|began|begun|chosen|done|drawn|ended|found|given|gone|grown|held|judged|kept|known|lost"
    r"|made|met|moved|needed|picked|pruned|put|read|said|seen|sent|settled|shown|spent|stopped|taken|told|tried|unused"
    r"|used|wanted|written|again|alone|anew|apart|at_once|far|farthest|inside|near|nearest|once|outside|together|whole"
    r"|corners?|fate|guess|guesses|in_words|is_even|lesson|mass_afresh|rooms?|settle|study|survey|tall|tally|tour|twins?"
    r"|units|walks?|ways?|weigh|weighed|weighs|worth)_*",
    re.IGNORECASE,
)
"""Participles, adverbs and figures of speech that by themselves do not say what they name."""
EXCEPTIONS = {
    "pactree_mcmc/core/compile/cache.py": {"read"},
    "pactree_mcmc/faces/data_dependent.py": {"together"},
    "pactree_mcmc/mcmc/chain/rest.py": {"tried"},
    "pactree_mcmc/mcmc/edits/proposal.py": {"taken"},
    "pactree_mcmc/mcmc/kernel.py": {"given"},
    "pactree_mcmc/mcmc/state/records.py": {"used"},
    "pactree_mcmc/model/rows.py": {"Units", "units"},
    "pactree_mcmc/model/leaf/custom.py": {"whole"},
    "pactree_mcmc/model/model.py": {"units"},
    "pactree_mcmc/posterior/trees/consensus.py": {"said"},
    "pactree_mcmc/table/columns.py": {"twins"},
    "pactree_mcmc/tree/coded.py": {"used"},
    "exact/limits.py": {"allowed", "needed"},
}
"""Public names, names that files of posteriors contain, and the verb to read."""
ONE_MEANING = {
    *("MOVE", "__all__", "__getattr__", "_", "_LATE", "_PACKAGES"),
    *("SMALLEST_FLOAT", "documented", "progressive_mixture"),
}
"""Names at the level of modules that have the same meaning in all their files."""
parse = functools.lru_cache(maxsize=None)(ast.parse)
NAMES_ON_THE_LIST = [
    "kept = 1",
    "def _together(x):\n    return x",
    "def f(wanted):\n    pass",
    "class C:\n    units: int",
    "FAR = 2.0",
]


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


def words_with_another(text):
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
            assert list(words_with_another(prose)) == [], page.name


def test_docstrings_use_the_words_of_the_field():
    found = {name: list(words_with_another(text or "")) for name, text in public_docstrings()}
    assert len(found) > 300 and {name: words for name, words in found.items() if words} == {}


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


def defined_names(source):
    """Yield the line and the name of each function, class, parameter, field and variable of a source."""
    for node in ast.walk(parse(source)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id


def names_on_the_list(source):
    return sorted((line, name) for line, name in defined_names(source) if NO_NAME.fullmatch(name))


def module_names(source):
    """Return the names that a source defines at the level of its module."""
    names = set()
    for node in parse(source).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", node)]
        names |= {getattr(target, "id", getattr(target, "name", None)) for target in targets}
    return names - {None}


def test_names_say_what_they_hold():
    wrong = {}
    for file in FILES:
        place = file.relative_to(ROOT).as_posix()
        names = {name for _, name in names_on_the_list(file.read_text(encoding="utf-8"))}
        if names != EXCEPTIONS.get(place, set()):
            wrong[place] = names ^ EXCEPTIONS.get(place, set())
    assert wrong == {}


def test_no_name_has_two_meanings():
    files = defaultdict(list)
    for file in FILES:
        for name in module_names(file.read_text(encoding="utf-8")) - ONE_MEANING:
            files[name].append(str(file.relative_to(ROOT)))
    assert {name: places for name, places in files.items() if len(places) > 1} == {}


@pytest.mark.planted
@pytest.mark.parametrize("source", NAMES_ON_THE_LIST)
def test_a_name_on_the_list_is_noticed(source):
    assert len(names_on_the_list(source)) == 1
