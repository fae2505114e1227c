"""The programs that mypy checks use every public name; running mypy on them is a step of .ci/run."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import exact
import pactree_mcmc as pt
from tests import ROOT

HERE = Path(__file__).parent / "typing"
PUBLIC = {"pt": pt, "exact": exact, "certificates": pt.certificates, "plots": pt.plots, "testing": pt.testing}
MODULES = {("pt", name) for name in ("certificates", "moves", "plots", "testing")}


def used(path):
    """Attributes asked of the public modules, as (module, name)."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return {(n.value.id, n.attr) for n in nodes if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name)}


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


@pytest.mark.more(everyday=["pt"])
@pytest.mark.parametrize("name", PUBLIC)
def test_the_program_of_types_uses_every_public_name(name):
    uses = used(HERE / "face.py") | used(HERE / "face_exact.py") | MODULES
    assert [known for known in PUBLIC[name].__all__ if (name, known) not in uses] == []


def test_wrong_uses_each_name_the_error_they_are():
    lines = (HERE / "wrong.py").read_text(encoding="utf-8").splitlines()
    bodies = [i for i, line in enumerate(lines) if line.startswith("    ")]
    assert len(bodies) >= 12
    assert [lines[i] for i in bodies if "# type: ignore[" not in lines[i]] == []


@pytest.mark.more
def test_the_program_of_types_runs_to_its_end():
    words = [sys.executable, "-W", "ignore", "-m", "tests.project.typing.face"]
    more = {"capture_output": True, "text": True, "check": False}
    done = subprocess.run(words, cwd=ROOT, env=os.environ | {"MPLBACKEND": "Agg"}, **more)
    assert done.returncode == 0, done.stderr[-2000:]
