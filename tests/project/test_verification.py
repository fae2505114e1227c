"""The tools of ``verification/``: ranks, bounds, exact answers, the page. Its checks are run by its own command."""

import sys

import numpy as np
import pytest

from tests import ROOT

FOLDER = ROOT / "verification"


@pytest.fixture(autouse=True)
def scripts(monkeypatch):
    """The scripts' folder is searched as when one of them is run."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(FOLDER)
    yield
    for name in set(sys.modules) - before:
        if str(FOLDER) in str(getattr(sys.modules[name], "__file__", None)):
            del sys.modules[name]


@pytest.mark.planted
def test_ranks_that_are_not_uniform_are_noticed():
    from ranks import uniformity

    rng = np.random.default_rng(2)
    assert uniformity(rng.integers(0, 8, 2000), 8, 8) > 1e-4 and uniformity(rng.binomial(7, 0.5, 2000), 8, 8) < 1e-6


def test_the_bound_holds_for_independent_draws_and_not_for_others():
    from distances import distance

    rng, distribution = np.random.default_rng(3), {"a": 0.5, "b": 0.3, "c": 0.2}
    right, wrong = (
        rng.choice(list(distribution), size=(4, 800), p=p).astype(object) for p in ([0.5, 0.3, 0.2], [0.7, 0.2, 0.1])
    )
    assert distance(right, distribution, 3200.0, 1e-4).value < distance(right, distribution, 3200.0, 1e-4).allowed
    assert distance(wrong, distribution, 3200.0, 1e-4).value > distance(wrong, distribution, 3200.0, 1e-4).allowed
