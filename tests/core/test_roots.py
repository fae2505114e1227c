"""Roots are those of SciPy, to the last digit."""

import numpy as np
import pytest
from scipy.optimize import brentq

from pactree_mcmc.core.roots import find_root

FUNCTIONS = {
    "cubic": lambda x: x**3 - 2.0 * x - 5.0,
    "steep": lambda x: np.tanh(50.0 * (x - 0.3)),
    "exponential": lambda x: np.exp(x) - 2.0,
    "logarithm": lambda x: np.log(x + 10.0) - 2.4,
    "small": lambda x: 1e-200 * (x**3 - 2.0),
    "step": lambda x: -1.0 if x < 0.7 else 2.0,
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("error", [2e-12, 1e-9, 1e-3])
def test_the_same_digits_as_those_of_scipy(name, error):
    rng = np.random.default_rng(3)
    for _ in range(40):
        low, high = -9.0 * rng.random(), 3.0 + 9.0 * rng.random()
        assert find_root(FUNCTIONS[name], low, high, error) == brentq(FUNCTIONS[name], low, high, xtol=error)


def test_ends_and_signs():
    assert find_root(lambda x: x, 0.0, 1.0) == 0.0
    assert find_root(lambda x: x - 1.0, 0.0, 1.0) == 1.0
    with pytest.raises(ValueError, match="the same sign"):
        find_root(lambda x: x * x + 1.0, -1.0, 1.0)
