"""The benchmarks count right: calibration, ratios, repeated measurements, tables."""

import importlib
import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from tests import ROOT

FOLDER = ROOT / "benchmarks"


def load(*names):
    """Modules of the benchmarks; the environment, which they set for themselves, is put back."""
    with pytest.MonkeyPatch.context() as patch:
        for variable in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
            patch.setenv(variable, "1")
        patch.syspath_prepend(str(FOLDER))
        patch.syspath_prepend(str(FOLDER / "mixing"))
        return [importlib.import_module(name) for name in names]


data, elsewhere, rivals, summaries, estimators, scale = load(
    "data", "elsewhere", "rivals", "estimator_summary", "estimators", "scale"
)


def test_scale_measures_seconds_and_slopes():
    assert scale.slope([1e3, 1e4, 1e5], [2.0, 20.0, 200.0]) == pytest.approx(1.0)
    assert scale.slope([1e3, 1e5], [3.0, 3e4]) == pytest.approx(2.0)
    found = scale.measure("solve", 3000)
    assert found["n"] == 3000 and found["fit"] > 0.0 and len(found["most"]) == 3


def test_calibration_error_by_hand():
    # two bins: .6 and .64 with one of two right, .95 with all right
    probability, right = np.array([0.61, 0.63, 0.95, 0.97]), np.array([1.0, 0.0, 1.0, 1.0])
    expected = (abs(1.0 - 1.24) + abs(2.0 - 1.92)) / 4.0
    assert rivals.calibration_error(probability, right) == pytest.approx(expected)
    assert rivals.calibration_error(np.ones(5), np.ones(5)) == 0.0


def test_calibration_of_a_regression_is_the_mean_gap():
    inside = np.zeros((4, 100))
    for k, fraction in enumerate((0.4, 0.8, 1.0, 0.95)):
        inside[k, : int(100 * fraction)] = 1.0
    assert estimators.calibration(inside, True) == pytest.approx((0.1 + 0.0 + 0.1 + 0.0) / 4)
    assert estimators.calibration(np.zeros((0, 100)), True) is None


@pytest.mark.tenth_a_day
@pytest.mark.parametrize("make", [lambda: rivals.Cart(True, conformal=True), lambda: rivals.Forest(True, 16)])
def test_conformal_intervals_hold_their_share(make):
    X, y = data.uneven_steps(1200)
    learner = make().fit(X[:600], y[:600])
    for coverage in rivals.COVERAGES:
        low, high = learner.predict_interval(X[600:], coverage).T
        assert np.mean((low <= y[600:]) & (y[600:] <= high)) == pytest.approx(coverage, abs=0.06)
        np.testing.assert_allclose((low + high) / 2.0, learner.predict(X[600:]))


@pytest.mark.tenth_a_day
@pytest.mark.parametrize("name", data.GENERATED)
def test_generated_tables_are_the_same_twice(name):
    (X, y), (again, y_again) = data.load(name), data.load(name)
    np.testing.assert_array_equal(X, again)
    np.testing.assert_array_equal(y, y_again)
    assert len(X) == len(y)
    assert np.isfinite(X).all()
    assert np.isfinite(y).all()


def test_noise_alone_parts_low_and_high():
    _, f, low = data.friedman(1000, noise=0.1)
    _, g, high = data.friedman(1000, noise=5.0)
    np.testing.assert_array_equal(f, g)
    np.testing.assert_allclose(50.0 * (low - f), high - f)


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
    told = list(summaries.summary(summaries.read(file), estimators.TABLES, estimators.LEARNERS, few_rows=False))
    mean = (0.5 * 0.5 * 1.5) ** (1 / 3)
    assert f"| ours over CART | {mean:.3f} | 0.500 | 2 of 3 | vote 1.5 |" in told
    assert "| boosting over CART | 0.707 | 1.125 | 1 of 2 | iris 2 |" in told
    assert "| ours over boosting | 0.707 | 1.125 | 1 of 2 | wine 2 |" in told
    assert "| iris | 0.1000 | 0.2000 | 0.4000 | - | - |" in told
    assert "| vote | 0.3000 | 0.2000 | - | - | - |" in told
    assert not any("7.0" in line for line in told)


@pytest.mark.slow
def test_run_goes_on_where_it_was_cut(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(estimators, "asked_for", lambda given: ["CART"])
    given = SimpleNamespace(out=tmp_path / "measured.jsonl", rivals=None, again=False, few_rows=True, folds=5)
    names = [("classification", "iris"), ("regression", "diabetes")]
    estimators.run(given, names[:1])
    first = given.out.read_text()
    estimators.run(given, names)
    told = [json.loads(line) for line in given.out.read_text().splitlines()]
    assert given.out.read_text().startswith(first)
    assert [line["table"] for line in told] == ["iris", "diabetes"]
    assert told[0]["rows"] == 150
    assert told[1]["rows"] == estimators.FEW_ROWS
    assert 0.8 < told[0]["score"] <= 1.0
    assert told[1]["calibration"] < 0.1
    assert capsys.readouterr().out.count("CART: loss") == 2


def test_bart_has_no_model_of_three_classes():
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
