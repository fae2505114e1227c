"""Features of which the draws have less than the trees visited in tuning."""

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.mcmc.whole.evidence import visited_probabilities
from pactree_mcmc.posterior.convergence import first_failure, lacking_features, short_diagnosis
from tests.mcmc.whole.test_lost_modes import two_modes
from tests.problems.runs import course_of_teams


@pytest.fixture(scope="module")
def post():
    return pt.sample(two_modes(), 500, rng=1, progress=False)


def graphs_of(post):
    return list(post.course.tuned.graphs)


def test_bounds_are_those_of_the_exact_engine_on_a_table_that_the_graph_exhausts(post):
    """Few trees have much weight: the bounds lie below the exact probabilities, and nearly reach them."""
    truth = exact.solve(post.model)
    root = np.zeros(3)
    for key, probability in truth._root_split_pmf().items():
        if key is not None:
            root[key[0]] += probability
    bounds = visited_probabilities(post.model, graphs_of(post), np.array([[truth.log_evidence, 0.0]]))
    for bound, probability in zip(bounds, (root, truth._feature_inclusion()), strict=True):
        assert (bound <= probability + 1e-9).all() and (bound > probability - 0.05).all(), (bound, probability)
    assert np.array_equal(
        post.course.visited, visited_probabilities(post.model, graphs_of(post), post.course.evidences)
    )
    assert visited_probabilities(post.model, graphs_of(post), None) is None


def test_an_evidence_below_the_sum_does_not_make_probabilities_above_one(post):
    too_low = np.array([[post.log_evidence - 5.0, 0.1]])
    assert visited_probabilities(post.model, graphs_of(post), too_low).max() <= 1.0
    for graph in graphs_of(post):
        assert visited_probabilities(post.model, [graph], too_low)[0].sum() <= 1.0 + 1e-9


# draws that lack a feature


def posterior_with(fractions, bounds, repeats=1):
    """Draws whose root feature is 0, 1, 2 with these probabilities, in visits of ``repeats`` draws."""
    rng = np.random.default_rng(0)
    draws = np.repeat(rng.choice(3, size=(4, 1000 // repeats), p=fractions), repeats, axis=1)
    trees = [pt.Tree([k, -1, -1], [2.5, 0, 0], [1, 0, 0], [2, 0, 0]) for k in range(3)]
    post = pt.posterior_from_trees(two_modes(), trees, draws)
    used = np.zeros(3)
    post.course = course_of_teams("whole", (), 1000, np.array([[-1.0, 0.1]]))._replace(visited=np.array([bounds, used]))
    return post


@pytest.mark.planted
@pytest.mark.parametrize(
    ("fractions", "bounds", "lacking"),
    [
        ((0.6, 0.4, 0.0), (0.5, 0.3, 0.0), []),
        ((0.6, 0.398, 0.002), (0.5, 0.3, 0.03), [2]),
        ((0.6, 0.38, 0.02), (0.5, 0.3, 0.03), []),
        ((0.6, 0.4, 0.0), (0.5, 0.3, 0.012), [2]),
        ((0.6, 0.4, 0.0), (0.5, 0.3, 0.008), []),
        ((1.0, 0.0, 0.0), (0.9, 0.0, 0.0), []),
        ((0.9, 0.1, 0.0), (0.5, 0.45, 0.0), [1]),
    ],
)
def test_a_root_that_the_draws_lack_fails_whatever_r_hat_says(fractions, bounds, lacking):
    """As two teams that agree and both lack the root."""
    post = posterior_with(fractions, bounds)
    assert [lack.feature for lack in lacking_features(post)] == lacking
    assert bool(first_failure(post)) == bool(lacking)
    if lacking:
        line, lost, *_ = short_diagnosis(post)
        assert "which tree: not" in line and "a part of the posterior is missing" in lost
        assert lost.startswith(f"Root feature {post.model.columns.names[lacking[0]]!r} has probability 0.")


@pytest.mark.planted
def test_a_chain_that_never_leaves_its_root_fails():
    """The other chains never enter it."""
    post = pt.posterior_from_trees(
        two_modes(),
        [pt.Tree([k, -1, -1], [2.5, 0, 0], [1, 0, 0], [2, 0, 0]) for k in range(3)],
        np.concatenate([np.random.default_rng(0).integers(0, 2, (3, 1000)), np.full((1, 1000), 2)]),
    )
    bounds = np.array([[0.4, 0.4, 0.2], [0.0, 0.0, 0.0]])
    post.course = course_of_teams("whole", (), 1000, np.array([[-1.0, 0.1]]))._replace(visited=bounds)
    assert [(lack.feature, lack.is_mixing) for lack in lacking_features(post)] == [(2, False)]


@pytest.mark.planted
def test_visits_that_last_long_are_no_lack():
    """Three visits of twenty draws where six are expected may be chance."""
    assert lacking_features(posterior_with((0.6, 0.385, 0.015), (0.5, 0.3, 0.03), repeats=20)) == []


def test_files_keep_the_bounds(post, tmp_path):
    pytest.importorskip("xarray")
    post.save(tmp_path / "run.nc")
    again = pt.load(tmp_path / "run.nc")
    assert np.array_equal(again.course.visited, post.course.visited) and again.draws.caveat == post.draws.caveat == ""
