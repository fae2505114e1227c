"""Who may import whom: the sampler and the exact engine share the model and nothing else."""

import ast
import subprocess
import sys
from functools import cache

import pytest

from tests import ROOT

FACES_OVER_BOTH = [ROOT / "pactree_mcmc" / "faces" / path for path in ("cli/commands.py", "sklearn/base.py")]
LAYERS = (
    *(f"pactree_mcmc.{name}" for name in ("core", "files", "table", "tree", "model", "certificates", "posterior")),
    *(f"pactree_mcmc.mcmc.{name}" for name in ("state", "edits", "sums", "learned", "moves", "kernel", "chain", "run")),
    *(
        "pactree_mcmc.mcmc.simulation",
        "pactree_mcmc.mcmc.sampling",
        "pactree_mcmc.loading",
        "pactree_mcmc.mcmc.resuming",
    ),
    *("pactree_mcmc.moves", "pactree_mcmc.smc", "pactree_mcmc.testing", "exact", "pactree_mcmc.faces"),
)
"""From what knows nothing upwards; no module imports one of a layer above its own, wherever in its file."""
EXACT_LAYERS = tuple(
    f"exact.{name}" for name in ("graph", "semirings", "recursion", "answers", "exploring", "posterior", "visited")
)
EXACT_LAYERS += tuple(
    f"exact.{name}"
    for name in ("timbertrek", "ceilings", "anytime", "solving", "compare", "design_counts", "systems", "estimators")
)
TABLES_OF_CONTENTS = ("pactree_mcmc", "exact")
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


@cache
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
        ("from .graph import build", "exact", {"exact.graph", "exact.graph.build"}),
        ("text = 'import exact'", "pactree_mcmc", set()),
    ],
)
def test_the_scan_itself(source, package, expected):
    assert imported_modules(source, package) == expected


@pytest.mark.parametrize("path", sources("pactree_mcmc"), ids=lambda path: str(path.relative_to(ROOT)))
def test_the_sampler_knows_nothing_of_the_exact_engine(path):
    if path not in FACES_OVER_BOTH:
        assert [name for name in imports_of(path) if within(name, "exact")] == []


def module_of(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for package in TABLES_OF_CONTENTS for path in sources(package)}


@cache
def arrows(path):
    """Modules of the library that a source imports, wherever in it but for the eyes of type checkers alone."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            node.body = [ast.Pass()]
    package = ".".join(path.relative_to(ROOT).parent.parts)
    found = {name for name in imported_modules(ast.unparse(tree), package) if name in MODULES}
    return {name for name in found if not any(other.startswith(name + ".") for other in found)} - {module_of(path)}


def layer_of(module, layers):
    return next(i for i, layer in enumerate(layers) if within(module, layer))


@pytest.mark.parametrize("module", [m for m in MODULES if m not in (*TABLES_OF_CONTENTS, "pactree_mcmc.__main__")])
def test_no_import_runs_back_up(module):
    layers = EXACT_LAYERS if within(module, "exact") else LAYERS
    own = layer_of(module, layers) if module != "pactree_mcmc.mcmc" else 0
    for name in arrows(MODULES[module]):
        if name in TABLES_OF_CONTENTS:
            assert within(module, "pactree_mcmc.faces") or module == "exact.design_counts", name
        elif within(name, layers[0].partition(".")[0]):
            assert layer_of(name, layers) <= own, name


def test_no_circle_of_imports():
    """Imports inside functions count; the tables of contents import everything and count for nothing."""
    ahead = {module: arrows(path) - set(TABLES_OF_CONTENTS) for module, path in MODULES.items()}
    del ahead["pactree_mcmc"], ahead["exact"]
    while free := [module for module, behind in ahead.items() if not behind & ahead.keys()]:
        for module in free:
            del ahead[module]
    assert ahead == {}


def test_circles_and_arrows_are_seen(tmp_path, monkeypatch):
    for name, text in {"low": "def f():\n    from .high import g", "high": "from .low import f"}.items():
        (tmp_path / "exact").mkdir(exist_ok=True)
        (tmp_path / "exact" / f"{name}.py").write_text(text)
    low, high = (tmp_path / "exact" / f"{name}.py" for name in ("low", "high"))
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    monkeypatch.setitem(globals(), "MODULES", {"exact.low": low, "exact.high": high, "exact": low, "pactree_mcmc": low})
    assert arrows(low) == {"exact.high"}
    with pytest.raises(AssertionError):
        test_no_circle_of_imports()


def test_no_folder_is_a_drawer():
    for package in {path.parent for path in MODULES.values()}:
        files = [path for path in package.glob("*.py") if path.name != "__init__.py"]
        # one file a move or a leaf, however many there are
        assert len(files) <= 12 or package.name in ("moves", "leaf"), package


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


LIGHT = {
    "pactree_mcmc": (*HEAVY, "exact"),
    "exact": HEAVY,
    "pactree_mcmc.posterior.inference_data, pactree_mcmc.faces.plots": ("arviz", "xarray", "pandas", "matplotlib"),
}
"""What importing modules must not bring in."""


@pytest.mark.parametrize("modules", LIGHT)
def test_importing_brings_in_nothing_heavy(modules):
    code = f"import sys, {modules}; print(*(m for m in {LIGHT[modules]!r} if m in sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert result.stdout.split() == []
