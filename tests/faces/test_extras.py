"""What is not needed is an extra, which errors name; after `pt.warm_up()` nothing is compiled."""

import os
import subprocess
import sys
import tomllib

import numba
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.core.texts import EXTRAS
from tests import ROOT
from tests.code_folders import write_code_to
from tests.problems.refusals import refuses
from tests.programs import run
from tests.strangers import readable_folder, stranger

USES = {
    "sklearn": (pt, "BayesianTreeRegressor", "pt.BayesianTreeRegressor needs sklearn"),
    "exact": (exact, "DyadicTreeClassifier", "exact.DyadicTreeClassifier needs sklearn"),
    "matplotlib": (pt, "plots", "pt.plots needs matplotlib"),
}
pytestmark = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")


def test_extras_are_those_of_the_project_file():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    packages = {"sklearn": "scikit-learn", "matplotlib": "matplotlib", "arviz": "arviz"}
    for package, extra in EXTRAS.items():
        assert extras[extra][0].partition(">")[0] == packages[package] and extra in extras["all"][0]


@pytest.mark.parametrize("name", USES)
def test_a_missing_package_is_named_with_its_extra(name, monkeypatch):
    module, use, message = USES[name]
    package = message.rpartition(" ")[2]
    monkeypatch.delitem(vars(module), use, raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    refuses(rf"{message}.*pip install 'pactree-mcmc\[{EXTRAS[package]}\]'", lambda: getattr(module, use), ImportError)


@pytest.mark.more
def test_the_library_works_without_the_extras():
    process = run("without_extras")
    assert process.returncode == 0, process.stderr
    *errors, done = process.stdout.splitlines()
    assert done == "done"
    for error, extra in zip(errors, ("sklearn", "sklearn", "plots", "plots", "arviz"), strict=True):
        assert f"pip install 'pactree-mcmc[{extra}]'" in error


@pytest.mark.more
def test_everything_is_compiled_once_for_everybody():
    options = stranger()
    with readable_folder() as folder:
        code = {"NUMBA_CACHE_DIR": str(folder / "code"), "PYTHONWARNINGS": "ignore"}
        program = [sys.executable, "-c", "import pactree_mcmc; pactree_mcmc.warm_up()"]
        process = subprocess.run(program, cwd=ROOT, env=os.environ | code, capture_output=True, text=True, check=True)
        assert process.stdout == process.stderr == ""
        options["env"] |= code
        after = run("compiled_after_warm_up", **options)
        assert after.returncode == 0, after.stderr
        assert after.stdout.split() == []


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file" / "below"
    write_code_to(folder, monkeypatch)
    refuses(str(folder), lambda: pt.warm_up(), OSError)
