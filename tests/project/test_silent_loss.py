"""The benchmarks: silent losses are found; rivals of the library, and of the main example, are at their best."""

import importlib
import re

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris, load_wine
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from tests import ROOT

FOLDER = ROOT / "benchmarks"
PROBLEMS = {"iris": (DecisionTreeClassifier, load_iris, 4), "diabetes": (DecisionTreeRegressor, load_diabetes, 25)}


def load(*names):
    """Return modules of the benchmarks, with the environment as it was before they changed it."""
    with pytest.MonkeyPatch.context() as patch:
        for variable in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
            patch.setenv(variable, "1")
        patch.syspath_prepend(str(FOLDER))
        patch.syspath_prepend(str(FOLDER / "mixing"))
        return [importlib.import_module(name) for name in names]


made, verdicts = load("silent_tables", "silent_loss")
SYMMETRIC = ("tic_tac_toe", "tic_tac_toe_permuted", *made.MADE)


def table_of(name):
    try:
        return made.TABLES[name]()
    except made.tables.MissingTable:
        pytest.skip("the shared tables are not beside this checkout")


def run_line(table="a", seed=0, *, evidence=-50.0, se=0.05, warned=False, quantities=None, symmetry=None, **more):
    """A line of the file as `one_run` writes it, with invented figures."""
    figures = {"rows": 100, "features": 3, "cpu": 2.0, "log_evidence": evidence, "log_evidence_se": se}
    figures |= {"evidence_warning": None, "warned": warned, "quantities": quantities or {}, "symmetry": symmetry}
    return {"table": table, "seed": seed, "reference": False, **figures, **more}


def runs_with(evidences, se=0.05):
    return [run_line(seed=seed, evidence=float(e), se=se) for seed, e in enumerate(evidences)]


@pytest.mark.parametrize("name", SYMMETRIC)
def test_declared_symmetries_hold(name):
    """And not if one label is another, of a row that moves: rows whose features a symmetry keeps prove nothing."""
    table = table_of(name)
    made.check_symmetries(table)
    assert table.symmetries
    X = table.X.to_numpy()
    for symmetry in table.symmetries:
        np.testing.assert_array_equal(X[made.row_images(X, symmetry)], made.image(X, symmetry))
    moved = np.flatnonzero((made.image(X, table.symmetries[0]) != X).any(axis=1))[0]
    y = np.array(table.y)
    y[moved] = (y[moved] + 1) % 2
    with pytest.raises(made.NotSymmetric, match="does not map"):
        made.check_symmetries(table._replace(y=y))


def test_reference_and_verdict_on_planted_runs():
    rng = np.random.default_rng(0)
    runs = runs_with([*rng.normal(-50.0, 0.05, 18), -50.0 - np.log(2.0), -50.15])
    value, error = verdicts.reference(runs)
    assert value == pytest.approx(-50.0, abs=0.05) and error < 0.03
    wrong = [line["seed"] for line in runs if verdicts.is_wrong_by_evidence(line, (value, error))]
    assert wrong == [18]
    # the same deficit within a large error, and a small one with a tiny error
    assert not verdicts.is_wrong_by_evidence(run_line(evidence=-50.7, se=0.3), (value, error))
    assert not verdicts.is_wrong_by_evidence(run_line(evidence=-50.08, se=0.001), (-50.0, 0.001))
    assert not verdicts.is_wrong_by_evidence(run_line(evidence=-49.0, se=0.01), (value, error))
    assert not verdicts.is_wrong_by_evidence(run_line(evidence=None, se=None), (value, error))


(rivals,) = load("rivals")

for compiled in ("_weakest_links", "_add_below", "_first_leaf"):
    # compiling takes longer than these small tables
    setattr(rivals, compiled, getattr(rivals, compiled).py_func)


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


@pytest.fixture(scope="module")
def example():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "examples"))
        return importlib.import_module("breast_cancer")


@pytest.fixture(scope="module")
def table():
    told = load_wine(as_frame=True)
    return told.data[["ash", "alcohol"]], np.array(["a", "b", "c"])[told.target]


def counted(example, tree, X, y, X_new, pseudocount):
    leaf, classes = tree.apply(X), np.unique(y)
    counts = np.array([[np.sum((leaf == t) & (y == k)) for k in classes] for t in tree.apply(X_new)])
    return (counts + pseudocount / len(classes)) / (counts.sum(axis=1, keepdims=True) + pseudocount)


def test_cart_has_the_least_cross_validated_loss(example, table, monkeypatch):
    """Brute force: every tree of the pruning path, down to the root alone, with every pseudocount."""
    X, y = table
    monkeypatch.setattr(example, "PSEUDOCOUNTS", (0.01, 1.0))
    path = DecisionTreeClassifier(random_state=0).cost_complexity_pruning_path(X, y).ccp_alphas
    prices = [*(np.nextafter(path[1::12], 0.0)), 1.1 * path[-1]]

    def total(price, pseudocount):
        loss = 0.0
        for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(X, y):
            tree = DecisionTreeClassifier(ccp_alpha=price, random_state=0).fit(X.iloc[train], y[train])
            p = counted(example, tree, X.iloc[train], y[train], X.iloc[test], pseudocount)
            loss += log_loss(y[test], p, labels=np.unique(y))
        return loss

    cart, pseudocount = example.tuned_cart(X, y)
    losses = {(price, a): total(price, a) for price in prices for a in example.PSEUDOCOUNTS}
    assert total(cart.ccp_alpha, pseudocount) <= min(losses.values()) * (1.0 + 1e-9)
    assert losses[prices[0], 0.01] > 2.0 * min(losses.values())  # unsmoothed leaves of a large tree
    p = example.smooth(*example.leaf_fractions(cart, X), pseudocount)
    np.testing.assert_allclose(p, counted(example, cart, X, y, X, pseudocount))


@pytest.mark.filterwarnings("error::pactree_mcmc.ConvergenceWarning")
def test_it_runs_without_a_warning(example, tmp_path, capsys):
    example.main(tmp_path)
    shown = capsys.readouterr().out
    assert "most probable shape" in shown
    posterior, cart, _ = re.findall(r"(?m)^(?:posterior|CART|forest).* (\d\.\d+)  +\d\.\d+$", shown)
    assert float(posterior) < float(cart) and sorted(path.suffix for path in tmp_path.iterdir()) == [".png"] * 3
