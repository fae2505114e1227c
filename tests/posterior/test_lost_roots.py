"""Roots that the learned density knows and the chains have lost; fits that disagree."""

import warnings

import numpy as np
import pytest

import pactree_mcmc as pt
from pactree_mcmc.mcmc.kernel import read_kernel
from pactree_mcmc.posterior.convergence import check_convergence, converged, objections, verdict
from pactree_mcmc.posterior.evidence import evidence_constant, fits_apart, lost_roots
from pactree_mcmc.tree.drawn import Course
from tests.posterior.test_convergence import STUMP, N, by_hand, cut_at, model_of, warned

# strata that the learned density knows and the chains do not


def with_strata(fractions, roots):
    """A posterior of draws with the given features at the root, whose density found these fractions of the evidence."""
    post = by_hand(model_of("two classes"), [cut_at(19.5), cut_at(0.5, feature=1)], roots)
    post.course = Course(read_kernel("whole"), 1, (), 1000, np.log(fractions) - 40.0)
    return post


def mixed_roots(fraction):
    return (np.random.default_rng(5).random((4, 1000)) < fraction).astype(np.int64)


def test_a_root_that_the_chains_lost_is_told():
    post = with_strata([0.7, 0.3], mixed_roots(0.0))
    (line,) = lost_roots(post)
    assert line == (
        "root feature 'x1': in 0.0000 of the draws, but by draws of the learned density its trees have about 0.30 of "
        "the evidence: the chains have lost it"
    )
    found = check_convergence(post)
    assert len(found) == 2 and found[1] == line
    assert found[0].startswith("the draws may not represent the posterior")
    assert line in verdict(post)
    assert line in warned(post)


@pytest.mark.parametrize(
    ("fractions", "drawn", "is_lost"),
    [
        ([0.7, 0.3], 0.3, False),
        ([0.7, 0.3], 0.01, False),
        ([0.7, 0.3], 0.002, True),
        ([0.94, 0.06], 0.0, True),
        ([0.96, 0.04], 0.0, False),
        ([1.0, 0.0], 0.0, False),
        ([0.0, 0.0], 0.0, False),
        ([0.0, 1.0], 0.0, True),
    ],
)
def test_roots_are_lost_where_they_are_likely_and_hardly_drawn(fractions, drawn, is_lost):
    with np.errstate(divide="ignore"):
        post = with_strata(fractions, mixed_roots(drawn))
    assert len(lost_roots(post)) == is_lost
    assert converged(post) == (not check_convergence(post)) == (not is_lost)


@pytest.mark.parametrize(("third", "is_lost"), [(0.02, False), (0.2, True)])
def test_a_root_whose_evidence_is_found_too_small_makes_no_other_lost(third, is_lost):
    """By the second, a quarter of the draws, all trees have the evidence 1; of the first next to nothing was found."""
    x = np.column_stack([np.arange(float(N)), np.arange(N) % 2.0, np.arange(N) % 3.0])
    roots = np.tile(np.arange(1000) % 4 == 0, (4, 1)).astype(np.int64)
    post = by_hand(pt.TreeModel(x, x[:, 0] > 19), [cut_at(19.5), cut_at(0.5, feature=1)], roots)
    fractions = np.log([0.001, 0.25, third])
    post.course = Course(read_kernel("whole"), 1, (), 1000, fractions)
    assert len(lost_roots(post)) == is_lost


@pytest.mark.parametrize(("above", "is_lost"), [(-4.0, False), (0.0, True)])
def test_strata_of_little_evidence_beside_that_of_the_bridge_are_not_lost(above, is_lost):
    """Where the weights of all strata are poor, a root of which a little more was found is not told to be lost."""
    rng = np.random.default_rng(3)
    x = rng.random((60, 3))
    model = pt.TreeModel(x, x[:, 0] > 0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pt.ConvergenceWarning)
        post = pt.sample(model, 100, rng=1, progress=False)
    assert (post.root_feature == 0).mean() > 0.95
    found = post.log_evidence - evidence_constant(model)
    post.course = post.course._replace(strata=found + np.array([above - 2.0, -np.inf, above]))
    # what fits say of the evidence is for those who ask for it
    post.course = post.course._replace(fits=np.full((2, 3), [post.log_evidence + 50.0, 1.0, 1.0]))
    del post._bridge
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(lost_roots(post)) == is_lost
    with pytest.warns(pt.ConvergenceWarning, match="have lost part of the posterior"):
        assert np.isfinite(post.log_evidence)


def test_runs_without_strata_have_lost_nothing():
    post = with_strata([0.7, 0.3], mixed_roots(0.0))
    post.course = post.course._replace(strata=None)
    assert lost_roots(post) == [] and check_convergence(post) == []
    post.course = None
    assert lost_roots(post) == []


def test_both_columns_of_a_feature_with_missing_values_are_its_stratum():
    """Splits that send the missing left, and right, are those of one feature."""
    x = np.column_stack([np.arange(float(N)), np.arange(N) % 2.0])
    x[::7, 1] = np.nan
    model = pt.TreeModel(x, np.arange(N) > 19, missing="branch")
    assert list(model.columns.source) == [0, 1, 1]
    post = by_hand(model, [STUMP, cut_at(19.5)], np.ones((4, 1000), dtype=np.int64))
    for fraction, is_lost in ((0.03, True), (0.02, False)):
        fractions = np.log([1.0 - 2 * fraction, fraction, fraction])
        post.course = Course(read_kernel("whole"), 1, (), 1000, fractions)
        assert len(lost_roots(post)) == is_lost


# densities fitted to either half of the chains


def with_fits(*fits):
    """A posterior of draws that mix well, of a run in which two fits found this evidence."""
    post = by_hand(model_of("two classes"), [cut_at(19.5), cut_at(0.5, feature=1)], mixed_roots(0.4))
    post.course = Course(read_kernel("whole"), 1, (), 1000, np.log([0.6, 0.4]), np.array(fits))
    return post


def test_fits_that_disagree_are_told():
    post = with_fits((-123.41, 0.1, 80.0), (-122.1, 0.08, 100.0))
    (line,) = fits_apart(post)
    assert line == (
        "the trees of half of the chains in tuning and those of the other half were fitted separately: by draws of the "
        "two fits the log evidence is -123.41 +- 0.10 and -122.10 +- 0.08; one fit lost part of the posterior, and so "
        "may the chains have: try another rng=, or more chains="
    )
    found = check_convergence(post)
    assert len(found) == 2 and found[1] == line == objections(post)[1]
    assert found[0].startswith("the draws may not represent the posterior")
    assert line in verdict(post) and line in warned(post)


@pytest.mark.parametrize(
    ("fits", "is_told"),
    [
        ([(-10.0, 0.1, 80.0), (-10.86, 0.1, 80.0)], False),
        ([(-10.0, 0.1, 80.0), (-10.88, 0.1, 80.0)], True),
        ([(-10.9, 0.1, 80.0), (-10.0, 0.1, 80.0)], True),
        ([(-10.0, 0.0, 120.0), (-10.29, 0.0, 120.0)], False),
        ([(-10.0, 0.0, 120.0), (-10.31, 0.0, 120.0)], True),
        ([(-10.0, 0.1, 80.0), (-20.0, 0.1, 9.9)], False),
        ([(-20.0, 0.1, 9.9), (-10.0, 0.1, 80.0)], False),
        ([(-10.0, 0.1, 10.0), (-12.0, 0.1, 10.0)], True),
        ([(-10.0, 0.9, 1.2), (-14.3, 0.1, 80.0)], False),
        ([(-10.0, 0.9, 1.2), (-14.4, 0.1, 80.0)], True),
        ([(-10.0, 0.9, 1.2), (-20.0, 0.9, 1.2)], False),
    ],
)
def test_fits_disagree_beyond_their_errors_where_these_are_known(fits, is_told):
    post = with_fits(*fits)
    assert len(fits_apart(post)) == len(check_convergence(post)) / 2.0 == is_told
    assert converged(post) != is_told
    post.course = post.course._replace(fits=None)
    assert fits_apart(post) == check_convergence(post) == []
