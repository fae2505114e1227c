"""The rival of the benchmarks is at its best: its prunings are those of scikit-learn."""

import importlib

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from tests import ROOT

FOLDER = ROOT / "benchmarks"


def load(*names):
    """Return modules of the benchmarks, with the environment as it was before they changed it."""
    with pytest.MonkeyPatch.context() as patch:
        for variable in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
            patch.setenv(variable, "1")
        patch.syspath_prepend(str(FOLDER))
        patch.syspath_prepend(str(FOLDER / "mixing"))
        return [importlib.import_module(name) for name in names]


(rivals,) = load("rivals")
for compiled in ("_weakest_links", "_add_below", "_first_leaf"):
    # compiling takes longer than these small tables
    setattr(rivals, compiled, getattr(rivals, compiled).py_func)


PROBLEMS = {"iris": (DecisionTreeClassifier, load_iris, 4), "diabetes": (DecisionTreeRegressor, load_diabetes, 25)}


@pytest.mark.parametrize("name", PROBLEMS)
def test_prunings_are_those_of_scikit_learn(name):
    kind, load_table, every = PROBLEMS[name]
    X, y = load_table(return_X_y=True)
    whole = kind(random_state=0).fit(X, y)
    pruned = rivals.Pruned(whole)
    for price in [*pruned.prices()[::every], pruned.prices()[-1]]:
        expected = kind(random_state=0, ccp_alpha=price).fit(X, y)
        leaf = pruned.leaf_of(X, price)
        np.testing.assert_allclose(whole.tree_.value[leaf], expected.tree_.value[expected.apply(X)])
        n_leaves = pruned.totals(np.ones((whole.tree_.node_count, 1)), np.array([price]))[0, 0]
        assert n_leaves == len(np.unique(leaf)) == expected.get_n_leaves()
    assert expected.get_n_leaves() == 1  # prices reach up to the root
