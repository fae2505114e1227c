"""Shah's bounds: written out, and what is refused."""

import math

import pytest
from scipy.special import comb
from scipy.stats import beta

from pactree_mcmc import certificates as pc


def message(k, n_features):
    return n_features**-k * (k + 1.0) ** -k * 2.0**-k


def test_written_out():
    k, p, m, e, delta = 5, 7, 120, 3, 0.1
    prior = message(k, p) / comb(m, k) * 6 / math.pi**2 / (k + 1) ** 2
    closed = 1 - math.exp(-(math.log(comb(m - k, e)) + math.log(1 / (prior * delta))) / (m - k - e))
    assert pc.compression(k, p, m, e, delta).raw == pytest.approx(closed)
    assert pc.compression_tail(k, p, m, e, delta).raw == pytest.approx(beta.isf(prior * delta, e + 1, m - k - e))
    discrete = message(k, p) * 4.0**-k
    closed = 1 - math.exp(-(math.log(comb(m, e)) + math.log(1 / (discrete * delta))) / (m - e))
    assert pc.occam_discrete(k, p, 4, m, e, delta).raw == pytest.approx(closed)

    def zeta(a):
        return 6 / math.pi**2 / (a + 1) ** 2

    coded = message(k, p) * zeta(0) ** 3 * zeta(2) * zeta(3) * zeta(1) * 2.0**-5
    bound = pc.occam_continuous(k, p, [2, 3], m, e, delta, halvings=[[0, 0], [1, 0]])
    assert bound.raw == pytest.approx(beta.isf(coded * delta, e + 1, m - e))
    assert set(bound.terms) == {"empirical risk", "features, nats", "structure, nats", "thresholds, nats"}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pc.compression(50, 3, 50, 0), "n_nodes=50 rows would be the compression set of n=50"),
        (lambda: pc.compression(5, 3, 50, 46), "errors=46 is out of range; there are n=45 rows"),
        (lambda: pc.occam_discrete(5, 0, 2, 50, 1), "n_features=0 is out of range"),
        (lambda: pc.occam_continuous(5, 3, [1.5], 50, 1), "give integers 0"),
        (lambda: pc.dyadic_length(0.5, 0.2, 0.0, 1.0), "not an interval of thresholds"),
        (lambda: pc.dyadic_length(0.3, 0.3 + 6e-17, 0.0, 1e9), "too short"),
    ],
)
def test_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
