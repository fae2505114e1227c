"""A warning names the line of the user's program, however deep in the library it is issued."""

import warnings

import numpy as np
import pytest

import pactree_mcmc as pt

MANY = np.array([f"c{i}" for i in range(80)])


def fit():
    return pt.BayesianTreeClassifier(nominal=[0]).fit(MANY[:, None], np.arange(80) % 2)


CALLS = {
    "a model": lambda: pt.TreeModel(MANY[:, None], np.arange(80) % 2, nominal=[0]),
    "classes": lambda: pt.TreeModel(np.arange(300.0)[:, None], np.arange(300)),
    "an estimator": fit,
}


@pytest.mark.more(everyday=["classes"])
@pytest.mark.parametrize("name", list(CALLS))
def test_at_any_depth(name):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        CALLS[name]()
    assert {one.filename for one in caught} == {__file__}
