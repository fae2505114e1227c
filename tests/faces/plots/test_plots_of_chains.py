"""Plots of chains and of distributions: what is drawn are the numbers of the posterior."""

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.faces.plots import plot_inclusion, plot_n_leaves
from pactree_mcmc.posterior.inference_data import ess
from tests.faces.plots.posteriors import LEAF, problem, stump


@pytest.fixture(scope="module")
def both():
    """An exact posterior, and draws from it."""
    x = np.arange(16)
    truth = exact.solve(pt.TreeModel(np.column_stack([x % 4, x // 4]).astype(float), x % 4 > 1))
    return truth, truth.sample(300, rng=1)


def test_the_number_of_leaves_beside_the_exact_one(both):
    truth, post = both
    sampled_pmf = post.n_leaves_pmf()
    first = int(np.flatnonzero(sampled_pmf)[0])
    ax = plot_n_leaves(post)
    assert [bar.get_height() for bar in ax.patches][: len(sampled_pmf) - first] == pytest.approx(sampled_pmf[first:])
    assert ax.get_legend() is None
    ax = plot_n_leaves(post, truth=truth)
    heights = np.array([bar.get_height() for bar in ax.patches]).reshape(2, -1)
    probability = truth.n_leaves_pmf()
    likely_values = np.flatnonzero(
        np.maximum(probability, np.pad(sampled_pmf, (0, len(probability) - len(sampled_pmf)))) > 1e-4
    )
    assert heights[1] == pytest.approx(probability[likely_values[0] : likely_values[-1] + 1])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["sampled", "exact"]


def test_inclusion_is_sorted_with_names_errors_and_exact_values(both):
    truth, post = both
    ax = plot_inclusion(post, truth=truth)
    order = np.argsort(-post._feature_inclusion(), kind="stable")
    assert ax.lines[-1].get_xdata() == pytest.approx(truth._feature_inclusion()[order])
    has_split = np.random.default_rng(5).integers(0, 2, (3, 20))
    post = pt.posterior_from_trees(problem(names=["f0", "a $ long name " * 9]), [LEAF, stump(1, 2.5)], has_split)
    ax = plot_inclusion(post)
    p = has_split.mean()
    assert [bar.get_width() for bar in ax.patches] == pytest.approx([p, 0.0])
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels[0].startswith("a $ long name") and len(labels[0]) <= 32 and labels[1] == "f0"
    bottom, top = ax.get_ylim()
    assert bottom > top
    ends = ax.containers[1].lines[2][0].get_segments()
    error = 2.0 * np.sqrt(p * (1.0 - p) / ess(has_split))
    np.testing.assert_allclose(ends[0][:, 0], [p - error, p + error])
    few = plot_inclusion(pt.posterior_from_trees(problem(p=30), [stump(k, 2.5) for k in range(30)]), max_features=7)
    assert "7 of 30" in few.get_xlabel() and len(few.get_yticklabels()) == 7
