"""Held-out tables of the benchmarks: read from R if it is there, skipped with the reason if not."""

from types import SimpleNamespace

import numpy as np
import pytest

from tests.project.test_benchmarks import data, estimators, load

(held_out,) = load("held_out")
KNOWN = {name for names in estimators.TABLES.values() for name in names}
CSV = "name,Motor,Gain,Class\nx,0,2.5,3\ny,1,,1\nz,4,1.0,\n"


@pytest.fixture
def in_place_of_r(monkeypatch):
    """Return a function that sets what R answers to everything, or that R is not there."""

    def answer(out="", err="", code=0, found="Rscript"):
        held_out.read.cache_clear()
        monkeypatch.setattr(held_out.shutil, "which", lambda _: found)
        ended = SimpleNamespace(stdout=out, stderr=err, returncode=code)
        monkeypatch.setattr(held_out.subprocess, "run", lambda *_, **__: ended)

    yield answer
    held_out.read.cache_clear()


def run_benchmark(tmp_path, names):
    options = {"rivals": None, "again": False, "few_rows": True, "folds": 5}
    who = {"ours_only": False, "stated": False, "context": False}
    given = SimpleNamespace(out=tmp_path / "out.jsonl", **options, **who)
    estimators.run(given, names)
    return given.out


def test_without_r_the_tables_are_skipped(in_place_of_r, tmp_path, capsys):
    in_place_of_r(found=None)
    out = run_benchmark(tmp_path, [("regression", "servo"), ("classification", "glass")])
    said = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in said] == [["servo", "skipped:"], ["glass", "skipped:"]]
    assert all("R is not installed" in line for line in said)
    assert not out.exists()
    with pytest.raises(FileNotFoundError, match="servo: R is not installed"):
        held_out.load("servo")


def test_without_its_package_a_table_is_skipped(in_place_of_r, capsys):
    in_place_of_r(err="Warnung\nError in find.package(package): there is no package called 'mlbench'\n", code=1)
    assert not data.has_table("vowel")
    assert "its package mlbench (Error in find.package(package): there is no pack" in capsys.readouterr().out


def test_columns_and_rows_that_are_no_features_are_left_out(in_place_of_r, monkeypatch):
    in_place_of_r(out=CSV)
    source = held_out.Source("mlbench", "Servo", "Class", ("name",))
    monkeypatch.setitem(held_out.TABLES["regression"], "servo", source)
    X, y = data.load("servo")
    np.testing.assert_array_equal(X, [[0.0, 2.5], [1.0, np.nan]])
    assert y.tolist() == [held_out.SERVO_TIMES[2], held_out.SERVO_TIMES[0]]  # ranks become rise times


def test_no_held_out_table_is_known():
    names = [name for tables in held_out.TABLES.values() for name in tables]
    assert len(set(names)) == len(names)
    assert not KNOWN & set(names)
    assert np.all(np.diff(held_out.SERVO_TIMES) > 0.0)


def test_folds_beyond_five_are_of_other_shuffles():
    y = np.arange(40.0)
    tests = [test.tolist() for _, test in estimators.splits(y, True, 12)]
    assert len(tests) == 12
    assert [test.tolist() for _, test in estimators.splits(y, True, 3)] == tests[:3]
    assert [test.tolist() for _, test in estimators.splits(y, True)] == tests[:5]
    for shuffle in (tests[:5], tests[5:10]):
        assert sorted(row for test in shuffle for row in test) == list(range(40))
    assert tests[0] != tests[5] != tests[10]


@pytest.mark.slow
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
