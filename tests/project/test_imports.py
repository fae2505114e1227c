"""Who may import whom, what is installed and of what types; what each folder costs; the cases of every day."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import exact
import pactree_mcmc as pt
from tests import ROOT
from tests.conftest import NO_CASES
from verification import size
from verification.imports import (
    EXACT_LAYERS,
    LAYERS,
    SAMPLERS,
    TABLES_OF_CONTENTS,
    arrows,
    circles,
    imports_of,
    layer_of,
    modules,
    sampler_modules,
    sources,
    within,
)

FACES_OVER_BOTH = [
    ROOT / "pactree_mcmc" / "faces" / path
    for path in ("warm_up.py", "sklearn/estimators.py", "data_dependent.py", "model_choice.py")
]
MODULES = modules()
HEAVY = ("arviz", "matplotlib", "sklearn", "pandas", "polars", "scipy.special")
HEAVY += ("xarray", "h5py", "h5netcdf", "tqdm", "dask")
LIGHT = {
    "pactree_mcmc": (*HEAVY, "exact"),
    "exact": HEAVY,
    "pactree_mcmc.posterior.inference_data, pactree_mcmc.faces.plots": ("arviz", "xarray", "pandas", "matplotlib"),
}
"""Modules that an import must not bring in."""
IMPORTS_OF_THE_SAMPLERS = [
    "from pactree_mcmc import progressive_mixture",
    "def f():\n    from pactree_mcmc.smc import rows_of_s",
    "import pactree_mcmc.smc",
    "from pactree_mcmc import sample",
    "from pactree_mcmc.mcmc.kernel import Kernel",
]
SLACK = 20
"""Number of lines by which a folder may be smaller than stated."""
COMMANDS = re.findall(r"^    (python3 -m venv .*)$", (ROOT / "README.md").read_text(), re.MULTILINE)
LEFT_OUT = (".*", "build", "dist", "*.egg-info", "__pycache__", "*.nb[ic]", "archives", "_build", "output")
USE = "import exact, pactree_mcmc; exact.solve, pactree_mcmc.TreeModel; print(pactree_mcmc.__file__)"
HERE = Path(__file__).parent / "typing"
PUBLIC = {"pt": pt, "exact": exact, "certificates": pt.certificates, "plots": pt.plots, "testing": pt.testing}


def test_the_sampler_knows_nothing_of_the_exact_engine():
    others = set(sources("pactree_mcmc")) - set(FACES_OVER_BOTH)
    assert [path for path in others if any(within(name, "exact") for name in imports_of(path))] == []


def test_no_import_runs_back_up():
    for module in set(MODULES) - set(TABLES_OF_CONTENTS):
        layers = EXACT_LAYERS if within(module, "exact") else LAYERS
        own = layer_of(module, layers) if module != "pactree_mcmc.mcmc" else 0
        for name in arrows(module):
            if name in TABLES_OF_CONTENTS:
                assert within(module, "pactree_mcmc.faces") or module == "exact.design_counts", (module, name)
            elif within(name, layers[0].partition(".")[0]):
                assert layer_of(name, layers) <= own, (module, name)


def test_no_circle_of_imports():
    assert circles() == {}


@pytest.mark.planted
def test_circles_are_seen(tmp_path):
    for name, text in {"graph": "def f():\n    from .answers import g", "answers": "from .graph import f"}.items():
        (tmp_path / "exact").mkdir(exist_ok=True)
        (tmp_path / "exact" / f"{name}.py").write_text(text)
    assert arrows("exact.graph", root=tmp_path) == {"exact.answers"}
    assert set(circles(tmp_path)) == {"exact.graph", "exact.answers"}


def test_the_exact_engine_does_not_reach_the_sampler():
    """Not by names that the package takes from the samplers, nor by way of modules such as `pactree_mcmc.loading`."""
    assert {path: sampling_imports(path) for path in sources("exact") if sampling_imports(path)} == {}
    own = [module for module in MODULES if within(module, "exact") and module not in TABLES_OF_CONTENTS]
    assert {module: sampler_modules(module) for module in own if sampler_modules(module)} == {}


def sampling_imports(path, root=ROOT):
    """Return the modules of the samplers that a file of the exact engine imports."""
    taken = [
        f"pactree_mcmc.{name.rpartition('.')[2]}"
        for name in imports_of(ROOT / "pactree_mcmc" / "__init__.py")
        if any(within(name, sampler) and name != sampler for sampler in SAMPLERS)
    ]
    assert {"pactree_mcmc.sample", "pactree_mcmc.progressive_mixture"} <= set(taken)
    return sorted(name for name in imports_of(path, root=root) if any(within(name, f) for f in (*SAMPLERS, *taken)))


@pytest.mark.planted
@pytest.mark.parametrize("text", IMPORTS_OF_THE_SAMPLERS)
def test_imports_of_the_samplers_are_seen(tmp_path, text):
    (tmp_path / "exact").mkdir()
    path = tmp_path / "exact" / "planted.py"
    path.write_text(text)
    assert sampling_imports(path, tmp_path) != []


@pytest.mark.more
@pytest.mark.parametrize("modules", LIGHT)
def test_importing_brings_in_nothing_heavy(modules):
    code = f"import sys, {modules}; print(*(m for m in {LIGHT[modules]!r} if m in sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert result.stdout.split() == []


def test_nothing_grows_without_a_word():
    stated, now = tomllib.loads(size.LEDGER.read_text(encoding="utf-8")), tomllib.loads(size.ledger())
    assert {part: list(numbers) for part, numbers in stated.items()} == {part: list(now[part]) for part in now}
    slack = {"lines": SLACK, "public": 0}
    other = {
        name: f"{number}, stated {stated[part][name]}"
        for part, numbers in now.items()
        for name, number in numbers.items()
        if not 0 <= stated[part][name] - number <= slack[part]
    }
    assert other == {}, "write the new numbers with `python verification/size.py --ledger`, and look at them"


def test_code_is_counted_without_prose(tmp_path):
    path = tmp_path / "some.py"
    text = '"""Text.\n\nMore.\n"""\n\n# comment\nA = 1  # value\n"""About A."""\n\n\n'
    path.write_text(text + 'def f(\n    x,\n):\n    """Do."""\n    return """a\n\nb"""\n')
    assert size.n_lines_of_code(path) == 6 and size.n_lines([path]) == len(path.read_text().splitlines())


def test_the_cases_that_are_named_exist(request):
    assert request.config.stash[NO_CASES] == {}


def test_the_readme_has_two_commands():
    example, tests = COMMANDS
    assert "pip install --no-compile '.[plots,sklearn]' &&" in example and "pip install -e '.[test]' &&" in tests
    assert tests.endswith("-m pytest")


def shell(command, folder):
    """Run a command as somebody does who has set nothing, and return what it prints."""
    env = {name: value for name, value in os.environ.items() if name not in ("NUMBA_CACHE_DIR", "PYTHONPATH")}
    done = subprocess.run(command, shell=True, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.more
@pytest.mark.skipif(os.name == "nt", reason="the commands are those of a Unix shell")
def test_both_commands_in_one_folder(tmp_path):
    clone, elsewhere = tmp_path / "clone", tmp_path / "elsewhere"
    shutil.copytree(ROOT, clone, ignore=shutil.ignore_patterns(*LEFT_OUT))
    elsewhere.mkdir()
    shell(COMMANDS[0], clone)
    (packages,) = (clone / ".venv" / "lib").glob("python*/site-packages")
    python = f"{clone}/.venv/bin/python"
    assert shell(f'{python} -c "{USE}"', elsewhere).startswith(str(packages))
    # one file of tests, since this is one of them
    shell(f"{COMMANDS[1]} -n 0 tests/core/test_logsum.py", clone)
    assert shell(f'{python} -c "{USE}"', elsewhere).strip() == f"{clone}/pactree_mcmc/__init__.py"
    shell(f"{python} -m pip uninstall --yes pactree-mcmc", clone)
    assert [path.name for path in packages.iterdir() if re.match(r".*pactree|exact", path.name)] == []


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
