"""Evidences of two teams of chains: their mean, its error, and a warning if they differ."""

import re

import numpy as np
import pytest

from pactree_mcmc.posterior.convergence import SINGLE_TEAM_REMARK, check_convergence, first_failure, verdict
from pactree_mcmc.posterior.evidence import combined_evidence, evidence_difference_lines
from tests.posterior.test_convergence import cut_at, model_of, posterior_of_trees, warning_of
from tests.problems.runs import course_of_teams


def posterior_of_teams(evidences, teams=(0, 1, 0, 1), kernel="whole"):
    """A posterior of draws that mix well, of a run whose teams found these evidences."""
    draws = (np.random.default_rng(5).random((len(teams), 4000 // len(teams))) < 0.4).astype(np.int64)
    post = posterior_of_trees(model_of("two classes"), [cut_at(19.5), cut_at(0.5, feature=1)], draws)
    evidences = None if evidences is None else np.array(evidences)
    post.course = course_of_teams(kernel, teams, 1000, evidences)
    return post


# the mean


def test_teams_that_agree_are_weighted_by_their_precision():
    value, se = combined_evidence(np.array([[-10.0, 0.1], [-10.05, 0.2]]))
    assert value == pytest.approx((-10.0 * 4 - 10.05) / 5)
    assert se == pytest.approx((100.0 + 25.0) ** -0.5)


@pytest.mark.parametrize("difference", [0.5, 1.0, 30.0])
def test_the_error_covers_a_difference(difference):
    """Whichever team is right, its evidence is within two errors of the mean, even if its own error is the larger."""
    for errors in ([0.01, 0.01], [0.001, 0.05], [0.05, 0.001]):
        values = np.array([-10.0, -10.0 - difference])
        value, se = combined_evidence(np.column_stack([values, errors]))
        assert values[1] <= value <= values[0]
        assert (abs(values - value) <= 2.0 * se).all()
        assert se == pytest.approx(difference / 2.0, rel=0.1)


@pytest.mark.parametrize("errors", [(0.1, np.nan), (np.nan, 0.1), (np.nan, np.nan)])
def test_an_unknown_error_leaves_the_plain_mean(errors):
    assert combined_evidence(np.column_stack([[-10.0, -11.0], errors])) == (-10.5, None)


# the warning


def test_evidences_that_differ_are_reported():
    post = posterior_of_teams([(-123.41, 0.1), (-122.1, 0.08)])
    (line,) = evidence_difference_lines(post.course.evidences)
    assert line == (
        "the log evidence is -123.41 +- 0.10 by one half of the chains and -122.10 +- 0.08 by the other half, which "
        "tuned separately: one half has lost part of the posterior"
    )
    lines = check_convergence(post)
    assert len(lines) == 3 and lines[1] == line
    assert re.fullmatch(r"not converged; predictions: not; .* used: not; which tree: not\.", lines[0])
    sentence = f"The{line[3:]}."
    assert sentence in verdict(post) and sentence in warning_of(post) and first_failure(post)
    assert post.log_evidence_se > 0.6


@pytest.mark.parametrize(
    ("evidences", "is_told"),
    [
        ([(-10.0, 0.1), (-10.0, 0.1)], False),
        ([(-10.0, 0.1), (-10.56, 0.1)], False),
        ([(-10.0, 0.1), (-10.57, 0.1)], True),
        ([(-10.57, 0.1), (-10.0, 0.1)], True),
        ([(-10.0, 0.001), (-10.09, 0.001)], False),
        ([(-10.0, 0.001), (-10.11, 0.001)], True),
        ([(-10.0, 0.0), (-10.11, 0.0)], True),
        ([(-10.0, np.nan), (-30.0, 0.1)], False),
        ([(-10.0, 0.1)], False),
        ([(-10.0, 0.01), (-10.2, 0.01), (-10.1, 0.01)], True),
    ],
)
def test_evidences_differ_beyond_their_errors(evidences, is_told):
    """A warning needs more than four standard errors and a tenth of a nat, and known errors."""
    post = posterior_of_teams(evidences, teams=(0, 1, 2, 0)[: 1 + len(evidences)])
    assert len(evidence_difference_lines(post.course.evidences)) == (len(check_convergence(post)) > 0) == is_told
    assert bool(first_failure(post)) == is_told


def test_runs_without_evidences_have_nothing_to_compare():
    post = posterior_of_teams(None)
    assert evidence_difference_lines(None) == check_convergence(post) == [] and not first_failure(post)
    assert post.log_evidence is None and post.log_evidence_se is None
    post.course = None
    assert check_convergence(post) == [] and not first_failure(post)


# one chain


def test_one_team_has_no_witness():
    assert SINGLE_TEAM_REMARK in verdict(posterior_of_teams([(-10.0, 0.1)], teams=(0,)))
    for post in (
        posterior_of_teams([(-10.0, 0.1), (-10.0, 0.1)]),
        posterior_of_teams([(-10.0, 0.1), (-10.0, 0.1)], teams=(0, 1)),
        posterior_of_teams(None, teams=(0,), kernel="local"),
    ):
        assert "confirms it independently" not in verdict(post)
