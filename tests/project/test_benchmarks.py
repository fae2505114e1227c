"""The benchmarks count right: rivals at their best, calibration, ratios, repeated measurements, tables."""

import importlib
import json
import sys
from types import SimpleNamespace

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


data, elsewhere, rivals, summaries, estimators, held_out, scale = load(
    "data", "elsewhere", "rivals", "estimator_summary", "estimators", "held_out", "scale"
)
for compiled in ("_weakest_links", "_add_below", "_first_leaf"):
    # compiling takes longer than these small tables
    setattr(rivals, compiled, getattr(rivals, compiled).py_func)


@pytest.mark.more
def test_scale_measures_seconds_and_slopes():
    assert scale.slope([1e3, 1e4, 1e5], [2.0, 20.0, 200.0]) == pytest.approx(1.0)
    found = scale.measure("solve", 3000)
    assert found["n"] == 3000 and found["fit"] > 0.0


def test_calibration_errors_by_hand():
    # two bins: .6 and .64 with one of two right, .95 with all right
    probability, right = np.array([0.61, 0.63, 0.95, 0.97]), np.array([1.0, 0.0, 1.0, 1.0])
    expected = (abs(1.0 - 1.24) + abs(2.0 - 1.92)) / 4.0
    assert rivals.calibration_error(probability, right) == pytest.approx(expected)
    inside = np.zeros((4, 100))
    for k, fraction in enumerate((0.4, 0.8, 1.0, 0.95)):
        inside[k, : int(100 * fraction)] = 1.0
    assert estimators.calibration(inside, True) == pytest.approx((0.1 + 0.0 + 0.1 + 0.0) / 4)
    assert estimators.calibration(np.zeros((0, 100)), True) is None


@pytest.mark.more
@pytest.mark.parametrize("make", [lambda: rivals.Cart(True, conformal=True), lambda: rivals.Forest(True, 16)])
def test_conformal_intervals_have_their_coverage(make):
    X, y = data.uneven_steps(1200)
    learner = make().fit(X[:600], y[:600])
    for coverage in rivals.COVERAGES:
        low, high = learner.predict_interval(X[600:], coverage).T
        assert np.mean((low <= y[600:]) & (y[600:] <= high)) == pytest.approx(coverage, abs=0.06)
        np.testing.assert_allclose((low + high) / 2.0, learner.predict(X[600:]))


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


def smoothed(tree, X, y, X_new, pseudo):
    """Return the smoothed fractions of the classes in the leaves of rows, counted row by row."""
    classes, leaf = np.unique(y), tree.apply(X)
    counts = np.array([[np.sum((leaf == t) & (y == k)) for k in classes] for t in tree.apply(X_new)])
    return (counts + pseudo / len(classes)) / (counts.sum(axis=1, keepdims=True) + pseudo)


def test_price_and_pseudo_rows_lose_least():
    """No other price of the path or number of pseudo rows does better in the same folds, found by refitting."""
    X, y = load_iris(return_X_y=True)
    cart = rivals.Cart(False, pseudo_rows=(0.01, 0.3, 3.0)).fit(X, y)
    losses = dict.fromkeys([(a, b) for a in cart.pruned.prices() for b in cart.pseudo_rows], 0.0)
    for train, test in rivals.folds_of(y, 5, False):
        for price, pseudo in losses:
            tree = DecisionTreeClassifier(random_state=0, ccp_alpha=price).fit(X[train], y[train])
            predicted = smoothed(tree, X[train], y[train], X[test], pseudo)
            losses[price, pseudo] += len(test) * rivals.loss(predicted, y[test], np.unique(y))
    assert losses[cart.price, cart.pseudo] == pytest.approx(min(losses.values()), rel=1e-9)
    assert max(losses.values()) > 1.5 * min(losses.values())
    tree = DecisionTreeClassifier(random_state=0, ccp_alpha=cart.price).fit(X, y)
    np.testing.assert_allclose(cart.predict(X), smoothed(tree, X, y, X, cart.pseudo))


def test_no_loss_is_infinite():
    """Pseudo votes save a forest from it, and a class that was never seen has a smallest probability."""
    X, y = load_iris(return_X_y=True)
    forest = rivals.Forest(False, 16, max_features=None).fit(X[::2], y[::2])
    predicted = forest.predict(X[1::2])
    np.testing.assert_allclose(predicted.sum(axis=1), 1.0)
    plain = rivals.loss(forest.forest.predict_proba(X[1::2]), y[1::2], forest.classes)
    assert rivals.loss(predicted, y[1::2], forest.classes) < min(plain, 0.5)
    even = np.array([[0.5, 0.5], [0.5, 0.5]])
    assert rivals.loss(even, np.array([0, 2]), np.array([0, 1])) == pytest.approx((np.log(2) - np.log(1e-15)) / 2)


@pytest.mark.more(everyday=["stepped_low"])
@pytest.mark.parametrize("name", data.GENERATED)
def test_generated_tables_are_the_same_twice(name):
    (X, y), (again, y_again) = data.load(name), data.load(name)
    np.testing.assert_array_equal(X, again)
    np.testing.assert_array_equal(y, y_again)
    assert len(X) == len(y)
    assert np.isfinite(X).all() and np.isfinite(y).all()


def test_no_held_out_table_is_known():
    known = {name for names in estimators.TABLES.values() for name in names}
    names = [name for tables in held_out.TABLES.values() for name in tables]
    assert len(set(names)) == len(names) and not known & set(names)
    assert np.all(np.diff(held_out.SERVO_TIMES) > 0.0)


def test_folds_beyond_five_are_of_other_shuffles():
    y = np.arange(40.0)
    tests = [test.tolist() for _, test in estimators.splits(y, True, 12)]
    assert len(tests) == 12
    assert [test.tolist() for _, test in estimators.splits(y, True)] == tests[:5]
    for shuffle in (tests[:5], tests[5:10]):
        assert sorted(row for test in shuffle for row in test) == list(range(40))
    assert tests[0] != tests[5] != tests[10]


@pytest.mark.more
@pytest.mark.parametrize(
    ("task", "name", "shape"),
    [("classification", "glass", (214, 9)), ("regression", "servo", (167, 4)), ("regression", "ozone", (361, 12))],
)
def test_tables_of_r(task, name, shape):
    if held_out.missing_reason(name) is not None:
        pytest.skip(held_out.missing_reason(name))
    X, y = held_out.load(name)
    assert X.shape == shape
    assert np.isfinite(y).all()
    assert (task == "regression") == (len(np.unique(y)) > 20)


def lines(*losses, learner, few_rows=False):
    names = ("iris", "wine", "vote")
    return [
        {"task": "classification", "table": name, "learner": learner, "few_rows": few_rows}
        | {"loss": loss, "score": 0.9, "calibration": 0.1, "seconds": 1.0, "leaves": None}
        for name, loss in zip(names, losses, strict=False)
    ]


def test_summary_counts_on_the_tables_that_both_have(tmp_path):
    written = [*lines(9.0, 0.1, 0.3, learner="ours"), *lines(0.2, 0.2, 0.2, learner="CART")]
    written += [*lines(0.1, learner="ours"), *lines(0.4, 0.05, learner="boosting")]  # of two lines the last counts
    written += lines(7.0, learner="ours", few_rows=True)
    file = tmp_path / "measured.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in written))
    shown = list(summaries.summary(summaries.read(file), estimators.TABLES, estimators.LEARNERS, few_rows=False))
    mean = (0.5 * 0.5 * 1.5) ** (1 / 3)
    assert f"| ours over CART | {mean:.3f} | 0.500 | 2 of 3 | vote 1.5 |" in shown
    assert "| boosting over CART | 0.707 | 1.125 | 1 of 2 | iris 2 |" in shown
    assert "| ours over boosting | 0.707 | 1.125 | 1 of 2 | wine 2 |" in shown
    assert "| iris | 0.1000 | 0.2000 | 0.4000 | - | - |" in shown
    assert not any("7.0" in line for line in shown)


@pytest.mark.more
def test_run_goes_on_where_it_was_cut(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(estimators, "asked_for", lambda given: ["CART"])
    given = SimpleNamespace(out=tmp_path / "measured.jsonl", rivals=None, again=False, few_rows=True, folds=5)
    names = [("classification", "iris"), ("regression", "diabetes")]
    estimators.run(given, names[:1])
    first = given.out.read_text()
    estimators.run(given, names)
    made = [json.loads(line) for line in given.out.read_text().splitlines()]
    assert given.out.read_text().startswith(first)
    assert [line["table"] for line in made] == ["iris", "diabetes"]
    assert [line["rows"] for line in made] == [150, estimators.FEW_ROWS]
    assert 0.8 < made[0]["score"] <= 1.0 and made[1]["calibration"] < 0.1
    assert capsys.readouterr().out.count("CART: loss") == 2
    # BART has no model of three classes
    assert estimators.measure("classification", "iris", "BART", True, None) is None


SCRIPT = """
import sys, numpy as np
from elsewhere import read_given
arrays, options = read_given(sys.argv[1])
np.savez(sys.argv[2], twice=options["times"] * arrays["x"])
"""


def test_arrays_go_elsewhere_and_come_back(tmp_path):
    script = tmp_path / "twice.py"
    script.write_text(SCRIPT)
    found = elsewhere.run([sys.executable, script], {"x": np.arange(3.0)}, {"times": 2})
    np.testing.assert_array_equal(found["twice"], [0.0, 2.0, 4.0])
    with pytest.raises(elsewhere.Failed, match="KeyError"):
        elsewhere.run([sys.executable, script], {"z": np.arange(3.0)}, {"times": 2})
    assert elsewhere.interpreter_with("no_such_module", None) is None
    assert elsewhere.interpreter_with("numpy", None) == sys.executable
