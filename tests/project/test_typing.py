"""Packages export what they take; wrong uses name the error that mypy finds, which is a step of .ci/run."""

import ast
from pathlib import Path

import pytest

import exact
import pactree_mcmc as pt

HERE = Path(__file__).parent / "typing"
PUBLIC = {"pt": pt, "exact": exact, "certificates": pt.certificates, "plots": pt.plots, "testing": pt.testing}


def in_table_of_contents(module):
    """Names that the source of a package takes from its modules, and those it loads when asked for."""
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    taken = [n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.level]
    late = [getattr(module, name, {}) for name in ("_LATE", "_LATE_MODULES", "_ESTIMATORS")]
    return {alias.name for n in taken for alias in n.names}.union(*(names for names in late if isinstance(names, dict)))


@pytest.mark.parametrize("name", PUBLIC)
def test_what_a_package_takes_is_what_it_exports(name):
    module = PUBLIC[name]
    assert set(module.__all__) == in_table_of_contents(module)
    assert [known for known in module.__all__ if not hasattr(module, known)] == []


def test_wrong_uses_each_name_the_error_they_are():
    lines = (HERE / "wrong.py").read_text(encoding="utf-8").splitlines()
    bodies = [i for i, line in enumerate(lines) if line.startswith("    ")]
    assert len(bodies) >= 12
    assert [lines[i] for i in bodies if "# type: ignore[" not in lines[i]] == []
