"""Who may import whom: the sampler and the exact engine share the model and nothing else."""

import subprocess
import sys

import pytest

from tests import ROOT
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
@pytest.mark.parametrize(
    "text",
    [
        "from pactree_mcmc import progressive_mixture",
        "def f():\n    from pactree_mcmc.smc import rows_of_s",
        "import pactree_mcmc.smc",
        "from pactree_mcmc import sample",
        "from pactree_mcmc.mcmc.kernel import Kernel",
    ],
)
def test_imports_of_the_samplers_are_seen(tmp_path, text):
    (tmp_path / "exact").mkdir()
    path = tmp_path / "exact" / "planted.py"
    path.write_text(text)
    assert sampling_imports(path, tmp_path) != []


LIGHT = {
    "pactree_mcmc": (*HEAVY, "exact"),
    "exact": HEAVY,
    "pactree_mcmc.posterior.inference_data, pactree_mcmc.faces.plots": ("arviz", "xarray", "pandas", "matplotlib"),
}
"""Modules that an import must not bring in."""


@pytest.mark.more
@pytest.mark.parametrize("modules", LIGHT)
def test_importing_brings_in_nothing_heavy(modules):
    code = f"import sys, {modules}; print(*(m for m in {LIGHT[modules]!r} if m in sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert result.stdout.split() == []
