"""The tools of ``verification/``: ranks, bounds, exact answers, the page. Its checks are run by its own command."""

import sys

import numpy as np
import pytest
from scipy.special import logsumexp

import exact
import pactree_mcmc as pt
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


def test_ranks_of_equal_values_are_drawn_at_random():
    from ranks import rank_of, uniformity

    rng = np.random.default_rng(1)
    ranks = [rank_of(3.0, [3.0, 3.0 + 1e-12, 3.0], rng) for _ in range(400)]
    assert uniformity(ranks, 4, 4) > 1e-4
    assert rank_of(2.0, [1.0, 3.0, 4.0], rng) == 1


@pytest.mark.planted
def test_ranks_that_are_not_uniform_are_noticed():
    from ranks import uniformity

    rng = np.random.default_rng(2)
    assert uniformity(rng.integers(0, 8, 2000), 8, 8) > 1e-4
    assert uniformity(rng.binomial(7, 0.5, 2000), 8, 8) < 1e-6


def test_exact_distributions_under_a_shared_variance():
    """The integral over the variance agrees with the sum over all trees, whose scores have it integrated out."""
    from answers import distributions_of

    X, y = [[0.0], [1.0], [2.0], [3.0]], [0.1, 0.3, 2.0, 1.7]
    leaf = pt.NormalSharedVariance(m0=0.5, k0=0.4, a0=3.0, b0=1.5)
    prior = pt.ChipmanPrior(0.9, 1.0)
    model = pt.TreeModel(X, y, leaf=leaf, tree_prior=prior)
    trees = exact.solve(pt.TreeModel(X, y, leaf=leaf.with_variance(1.0), tree_prior=prior)).best_trees(1000).trees
    log_joint = np.array([model.log_posterior(tree) for tree in trees])
    distributions = distributions_of(model)
    assert distributions.log_evidence == pytest.approx(logsumexp(log_joint), abs=1e-6)
    fraction = np.exp(log_joint - logsumexp(log_joint))
    for leaves in range(1, 5):
        summed = fraction[[tree.n_leaves == leaves for tree in trees]].sum()
        assert distributions.leaves[leaves] == pytest.approx(summed, abs=1e-6)


def test_the_bound_holds_for_independent_draws_and_not_for_others():
    from distances import distance

    rng, distribution = np.random.default_rng(3), {"a": 0.5, "b": 0.3, "c": 0.2}
    right, wrong = (
        rng.choice(list(distribution), size=(4, 800), p=p).astype(object) for p in ([0.5, 0.3, 0.2], [0.7, 0.2, 0.1])
    )
    assert distance(right, distribution, 3200.0, 1e-4).value < distance(right, distribution, 3200.0, 1e-4).allowed
    assert distance(wrong, distribution, 3200.0, 1e-4).value > distance(wrong, distribution, 3200.0, 1e-4).allowed


def test_the_page_tells_what_failed(tmp_path):
    from report import Control, Part, keep, write_page

    part = Part("A part", "Some text.", 3, 1e-3, ("x: p = 0",), (Control("an error", False, "z = 1"),))
    assert not part.passed
    keep(part, "prior", "python verification/run.py prior", 12.3, tmp_path)
    page = write_page(tmp_path, ("prior", "joint")).read_text()
    for told in ("[A part](#a-part)", "| 12 | 3 | 0.001 | 1 | 0 of 1 | **FAIL** |", "* x: p = 0", "| **no** | z = 1 |"):
        assert told in page
