"""Who may import whom: the sampler and the exact engine share the model and nothing else."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FACES_OVER_BOTH = [ROOT / "pactree_mcmc" / "cli" / "_commands.py", ROOT / "pactree_mcmc" / "_estimator_base.py"]
HEAVY = ("arviz", "matplotlib", "sklearn", "pandas", "polars")


def sources(package):
    return sorted((ROOT / package).rglob("*.py"))


def imported_modules(source, package):
    """Full names of all that ``source`` imports, wherever in the file; ``from a import b`` counts as a and a.b."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")
            above = parents[: len(parents) - node.level + 1] if node.level else []
            base = ".".join(above + ([node.module] if node.module else []))
            names |= {base} | {f"{base}.{alias.name}" for alias in node.names}
    return names


def imports_of(path):
    return imported_modules(path.read_text(encoding="utf-8"), ".".join(path.relative_to(ROOT).parent.parts))


def within(name, package):
    return name == package or name.startswith(package + ".")


@pytest.mark.parametrize(
    ("source", "package", "expected"),
    [
        ("import exact.graph.cells as g", "pactree_mcmc", {"exact.graph.cells"}),
        ("def f():\n    from exact import solve", "pactree_mcmc", {"exact", "exact.solve"}),
        ("from ..model import TreeModel", "pactree_mcmc.mcmc", {"pactree_mcmc.model", "pactree_mcmc.model.TreeModel"}),
        ("from .. import sample", "pactree_mcmc.mcmc", {"pactree_mcmc", "pactree_mcmc.sample"}),
        ("from .graph import build", "exact", {"exact.graph.cells", "exact.graph.cells.build"}),
        ("text = 'import exact'", "pactree_mcmc", set()),
    ],
)
def test_the_scan_itself(source, package, expected):
    assert imported_modules(source, package) == expected


@pytest.mark.parametrize("path", sources("pactree_mcmc"), ids=lambda path: str(path.relative_to(ROOT)))
def test_the_sampler_knows_nothing_of_the_exact_engine(path):
    if path not in FACES_OVER_BOTH:
        assert [name for name in imports_of(path) if within(name, "exact")] == []


@pytest.mark.parametrize("path", sources("exact"), ids=lambda path: str(path.relative_to(ROOT)))
def test_the_exact_engine_knows_nothing_of_the_sampler(path):
    """Neither the modules of ``pactree_mcmc.mcmc`` nor what the package takes from there."""
    taken = [
        f"pactree_mcmc.{name.rpartition('.')[2]}"
        for name in imports_of(ROOT / "pactree_mcmc" / "__init__.py")
        if within(name, "pactree_mcmc.mcmc") and name != "pactree_mcmc.mcmc"
    ]
    assert "pactree_mcmc.sample" in taken
    forbidden = ["pactree_mcmc.mcmc", *taken]
    assert [name for name in imports_of(path) if any(within(name, f) for f in forbidden)] == []


@pytest.mark.parametrize("path", sources("pactree_mcmc/model"), ids=lambda path: path.name)
def test_the_model_knows_nothing_of_its_engines(path):
    engines = ("pactree_mcmc.mcmc", "pactree_mcmc.posterior.sampled", "pactree_mcmc.mcmc.simulation", "exact")
    assert [name for name in imports_of(path) if any(within(name, e) for e in engines)] == []


@pytest.mark.parametrize("package", ["pactree_mcmc", "exact"])
def test_importing_brings_in_nothing_heavy(package):
    code = f"import sys, {package}; print(*(m for m in {HEAVY!r} if m in sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert result.stdout.split() == []


def test_importing_the_sampler_does_not_import_the_exact_engine():
    code = "import sys, pactree_mcmc; print('exact' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert result.stdout.strip() == "False"
