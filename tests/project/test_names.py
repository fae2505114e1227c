"""Names of the library say what they hold, and no name has two meanings: `docs/develop/index.md`, "Words"."""

import ast
import functools
import re
from collections import defaultdict

import pytest

from tests import ROOT

FILES = sorted(file for name in ("pactree_mcmc", "exact") for file in (ROOT / name).rglob("*.py"))
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
    "pactree_mcmc/mcmc/edits/proposal.py": {"made", "taken"},
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


def defined_names(source):
    """Yield the line and the name of each function, class, parameter, field and variable of a source."""
    for node in ast.walk(parse(source)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id


def objections(source):
    """Return the line and the name of each definition whose name is on the list."""
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
        names = {name for _, name in objections(file.read_text(encoding="utf-8"))}
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
@pytest.mark.parametrize(
    "source",
    [
        "kept = 1",
        "def _together(x):\n    return x",
        "def f(wanted):\n    pass",
        "class C:\n    units: int",
        "FAR = 2.0",
    ],
)
def test_a_name_on_the_list_is_noticed(source):
    assert len(objections(source)) == 1
