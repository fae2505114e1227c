"""PAC-Bayes bounds: formulas written out, the oracle inequalities, how they move, what is refused."""

import math

import numpy as np
import pytest

from pactree_mcmc import certificates as pc


def test_formulas():
    confidence = math.log(2.0 * math.sqrt(400) / 0.1)
    relaxed = pc.pac_bayes_lambda(0.2, 3.0, 400, 0.1, 0.5)
    assert relaxed.raw == pytest.approx(0.2 / 0.75 + (3.0 + confidence) / (0.5 * 0.75 * 400))
    tight = pc.pac_bayes_kl(0.2, 3.0, 400, 0.1).raw
    assert pc.binary_kl(0.2, tight) == pytest.approx((3.0 + confidence) / 400)
    assert pc.vote_factor_two(0.2, 3.0, 400, 0.1).raw == pytest.approx(2.0 * tight)
    assert pc.binary_kl(0.07, pc.vote_tandem(0.07, 3.0, 400, 0.1).raw / 4.0) == pytest.approx((6.0 + confidence) / 400)
    vacuous = pc.vote_tandem(0.5, 3.0, 400)
    assert vacuous.value == 1.0 < vacuous.raw


@pytest.mark.parametrize("seed", range(20))
def test_oracle_inequalities(seed):
    """The risk of a vote never exceeds what the true risk and tandem loss of its voters allow."""
    rng = np.random.default_rng(100 + seed)
    distribution, voters = rng.dirichlet(np.ones(12)), rng.dirichlet(np.ones(5))
    wrong = rng.random((5, 12)) < rng.uniform(0.1, 0.45)
    mean = voters @ wrong
    vote, risk, tandem = distribution @ (mean >= 0.5), distribution @ mean, distribution @ mean**2
    assert vote <= 2.0 * risk + 1e-12
    assert vote <= 4.0 * tandem + 1e-12


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pc.pac_bayes_lambda(0.1, 1.0, 100, 0.05, 2.0), r"lam=2.0 is out of range; give 0 < lam < 2"),
        (lambda: pc.pac_bayes_kl(0.1, 1.0, 100, 1.0), r"delta=1.0 is out of range; give 1e-300 <= delta < 1"),
        (lambda: pc.pac_bayes_kl(0.1, math.nan, 100), r"kl=nan is out of range"),
        (lambda: pc.pac_bayes_kl(0.1, 1.0, 0), r"n=0 is out of range; give an integer >= 1"),
    ],
)
def test_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
