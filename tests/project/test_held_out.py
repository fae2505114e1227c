"""Held-out tables of the benchmarks, which are none of the known ones, and the folds of all tables."""

import numpy as np
import pytest

from tests.project.test_benchmarks import estimators, load

(held_out,) = load("held_out")
KNOWN = {name for names in estimators.TABLES.values() for name in names}


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
