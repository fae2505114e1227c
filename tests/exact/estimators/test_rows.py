"""Rows are sorted by all their columns, however many are equal in the first."""

import numpy as np
import pytest

from exact.estimators import rows as module


def assert_sorted_like_all_columns(n_values, p, n=300):
    rng = np.random.default_rng([n_values, p])
    X, label = rng.integers(0, n_values, (n, p)).astype(float), rng.integers(0, 3, n)
    np.testing.assert_array_equal(module.sorted_order(X, label), np.lexsort((label, *X.T[::-1])))


@pytest.mark.parametrize("p", [1, 3])
@pytest.mark.parametrize("n_values", [1, 2, 7, 100_000])
def test_order_is_that_of_all_columns(n_values, p):
    assert_sorted_like_all_columns(n_values, p)


@pytest.mark.planted
def test_ties_left_as_they_are_get_caught(monkeypatch):
    monkeypatch.setattr(module.np, "lexsort", lambda keys: np.arange(len(keys[0])))
    rng = np.random.default_rng(0)
    X, label = rng.integers(0, 7, (300, 2)).astype(float), rng.integers(0, 3, 300)
    found = module.sorted_order(X, label)
    monkeypatch.undo()
    assert not np.array_equal(found, np.lexsort((label, *X.T[::-1])))
