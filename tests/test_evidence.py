"""The ratio of two normalisers by draws of both laws, and the standard error of a ladder of such ratios."""

import math

import numpy as np
import pytest

from pactree_mcmc.evidence import gather, log_ratio
from pactree_mcmc.mcmc._tempering import LadderReport


def normals(rng, n, shift=1.5, scale=0.7):
    """Log ratio of the densities exp(-z^2/2), z = (x - shift) / scale, and exp(-x^2/2), at draws of each."""

    def relative(x):
        return x**2 / 2 - ((x - shift) / scale) ** 2 / 2

    return relative(shift + scale * rng.standard_normal(n)), relative(rng.standard_normal(n))


def test_two_normal_laws():
    """The normalisers are those of the scales."""
    high, low = normals(np.random.default_rng(1), 200_000)
    assert log_ratio(high, low) == pytest.approx(math.log(0.7), abs=0.01)
    assert log_ratio(-low, -high) == pytest.approx(-log_ratio(high, low), abs=1e-6)
    assert log_ratio(high + 1000.0, low + 1000.0) == pytest.approx(1000.0 + log_ratio(high, low), abs=1e-6)


BETAS = np.array([1.0, 0.5, 0.2, 0.0])
LADDERS = 150


def ladder(rng, n):
    """Independent draws at each power of a score s whose law at power 0 is standard normal: Z(b) = exp(b^2/2)."""
    scores = BETAS + rng.standard_normal((n, len(BETAS)))
    return LadderReport(BETAS, scores, np.zeros(n, dtype=bool), np.ones(len(BETAS) - 1), 0)


def test_a_ladder_with_known_evidence():
    """The estimate misses by as much as it says: over all ladders z has mean 0 and deviation 1 to four errors."""
    rng, z = np.random.default_rng(2), []
    for _ in range(LADDERS):
        found = gather([ladder(rng, 100)], None)
        z.append((found.log_evidence - 0.5) / found.log_evidence_se)
    assert abs(np.mean(z)) < 4.0 / math.sqrt(LADDERS)
    assert abs(np.std(z) - 1.0) < 4.0 * math.sqrt(0.5 / LADDERS) + 0.5 / 19  # the error of 20 blocks varies by itself
    assert found.log_evidence_se < 0.3


def test_chains_that_disagree_raise_the_error():
    rng = np.random.default_rng(3)
    one, other = ladder(rng, 400), ladder(rng, 400)
    apart = other._replace(scores=other.scores + 3.0)
    assert gather([one, apart], None).log_evidence_se > 10.0 * gather([one, other], None).log_evidence_se


def test_no_evidence_where_the_ladder_ends_early_or_the_stump_is_not_met():
    short = ladder(np.random.default_rng(4), 50)._replace(temperatures=np.array([1.0, 0.5, 0.2, 0.1]))
    assert gather([short], None).log_evidence is None
    assert gather([ladder(np.random.default_rng(4), 50)], -1.0).log_evidence is None
