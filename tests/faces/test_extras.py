"""What is not needed to sample and to solve is an extra, which errors name."""

import sys
import tomllib

import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.core.texts import EXTRAS
from tests import ROOT
from tests.programs import run

USES = {
    "sklearn": (pt, "BayesianTreeRegressor", "pt.BayesianTreeRegressor needs sklearn"),
    "exact": (exact, "DyadicTreeClassifier", "exact.DyadicTreeClassifier needs sklearn"),
    "matplotlib": (pt, "plots", "pt.plots needs matplotlib"),
}


def test_extras_are_those_of_the_project_file():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    packages = {"sklearn": "scikit-learn", "matplotlib": "matplotlib", "arviz": "arviz"}
    for package, extra in EXTRAS.items():
        assert extras[extra][0].partition(">")[0] == packages[package]
        assert extra in extras["all"][0]


@pytest.mark.parametrize("name", USES)
def test_a_missing_package_is_named_with_its_extra(name, monkeypatch):
    module, use, message = USES[name]
    package = message.rpartition(" ")[2]
    monkeypatch.delitem(vars(module), use, raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"{message}.*pip install 'pactree-mcmc\[{EXTRAS[package]}\]'"):
        getattr(module, use)


@pytest.mark.more
def test_the_library_works_without_the_extras():
    process = run("without_extras")
    assert process.returncode == 0, process.stderr
    *errors, done = process.stdout.splitlines()
    assert done == "done"
    for error, extra in zip(errors, ("sklearn", "sklearn", "plots", "plots", "arviz"), strict=True):
        assert f"pip install 'pactree-mcmc[{extra}]'" in error
