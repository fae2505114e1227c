"""All functions that add statistics of units agree with the definition, to the last bit."""

import numpy as np
import pytest

from pactree_mcmc.model.rows import UnitStats, add_unit, add_units, scatter_units

U = 40


def problem(n_moments, weighted, seed=0):
    """Units, an order of some of them, and statistics that there are already."""
    rng = np.random.default_rng(seed)
    weight = rng.random(U) if weighted else np.ones(1)
    units = UnitStats(False, np.zeros(1, dtype=np.uint16), weight, -1 if weighted else 0, rng.random((n_moments, U)))
    return units, rng.permutation(U)[:30], rng.random((3, n_moments + 1))


def defined(units, order, stats, row):
    """Each statistic a running sum in the order given."""
    out = stats.copy()
    for u in order:
        out[row, 0] += units.weight[u & units.weight_all]
        out[row, 1:] += units.moments[:, u]
    return out


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_moments", range(1, 8))
def test_sums_of_any_number_of_moments(n_moments, weighted):
    units, order, stats = problem(n_moments, weighted)
    expected = defined(units, order[4:25], stats, 1)
    in_one_call, one_by_one, scattered = stats.copy(), stats.copy(), stats.copy()
    add_units(in_one_call, 1, units, order, 4, 25)
    for u in order[4:25]:
        add_unit(one_by_one, 1, units, u)
    scatter_units(scattered, np.ones(21, dtype=np.int64), units, order, 4, 25)
    for result in (in_one_call, one_by_one, scattered):
        np.testing.assert_array_equal(result, expected)
