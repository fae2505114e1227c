"""Parameters and data from 1e-300 to 1e300: normalised answers, or a refusal that names a size."""

import mpmath
import numpy as np
import pytest
from scipy import stats

from pactree_mcmc.model.leaf.distributions import Burr, NegativeBinomial, StudentT
from tests.problems.extremes import faults


@pytest.mark.parametrize(
    "seeds", [range(40), pytest.param(range(40, 1000), marks=pytest.mark.more)], ids=["few", "many"]
)
def test_answers_or_a_refusal(seeds):
    assert [line for seed in seeds for line in faults(seed)] == []


@pytest.mark.parametrize("df", [1e-16, 0.02, 1.0, 3.5, 1e5])
@pytest.mark.parametrize("q", [1e-300, 1e-200, 1e-12, 0.3])
def test_quantiles_of_student_are_beyond_all_floats_or_right(df, q):
    law = StudentT(np.array([df]), np.array([0.0]), np.array([1.0]))
    (low,), (other,) = law.bracket(q)
    assert low == other < 0.0
    if low > -1e300:
        assert law.below(np.array([low]))[0] == pytest.approx(q, rel=1e-9)
        assert law.above(np.array([-low]))[0] == pytest.approx(q, rel=1e-9)
    else:
        # P(T < -1e300) = C 1e300^-df
        assert law.below(np.array([-1e300]))[0] > q


def test_counts_of_a_known_rate_are_of_poisson():
    law = NegativeBinomial(np.array([3e200]), np.array([1e200]))
    for y in (0.0, 2.0, 40.0):
        assert law.below(np.array([y]))[0] == pytest.approx(stats.poisson.cdf(y, 3.0), rel=1e-12)
        assert law.above(np.array([y]))[0] == pytest.approx(stats.poisson.sf(y, 3.0), rel=1e-12)


@pytest.mark.parametrize(
    ("c", "d", "scale"), [(100.0, 0.02, 1.0), (0.5, 3.0, 1e200), (1e3, 1e-3, 1e-8), (2.0, 1e6, 1.0)]
)
@pytest.mark.parametrize("q", [1e-300, 1e-12, 0.3, 0.7, 1.0 - 2.0**-40])
def test_quantiles_of_burr_are_right_where_the_power_overflows(c, d, scale, q):
    law = Burr(np.array([c]), np.array([d]), np.array([scale]))
    (y,), _ = law.bracket(q)
    with mpmath.workdps(60):
        z = -mpmath.log1p(-mpmath.mpf(q)) / mpmath.mpf(d)
        expected = mpmath.mpf(scale) * mpmath.expm1(z) ** (1 / mpmath.mpf(c))
    assert y == pytest.approx(float(expected), rel=1e-12)
    assert (law.below if q < 0.5 else law.above)(np.array([y]))[0] == pytest.approx(min(q, 1.0 - q), rel=1e-8)
