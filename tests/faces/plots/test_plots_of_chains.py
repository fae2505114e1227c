"""Plots of chains and of distributions: what is drawn are the numbers of the posterior."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.faces.plots import (
    plot_depth,
    plot_inclusion,
    plot_ladder,
    plot_n_leaves,
    plot_posterior,
    plot_ranks,
    plot_trace,
)
from pactree_mcmc.posterior.evidence import Tempering
from pactree_mcmc.posterior.inference_data import ess
from tests.faces.plots.posteriors import LEAF, problem, some, stump, twice


@pytest.fixture(scope="module")
def both():
    """An exact posterior, and draws from it."""
    x = np.arange(16)
    truth = exact.solve(pt.TreeModel(np.column_stack([x % 4, x // 4]).astype(float), x % 4 > 1))
    return truth, truth.sample(300, rng=1)


@pytest.mark.parametrize(("plot", "name"), [(plot_n_leaves, "n_leaves_pmf"), (plot_depth, "depth_pmf")])
def test_distributions_beside_the_exact_ones(both, plot, name):
    truth, post = both
    sampled_pmf = getattr(post, name)()
    first = int(np.flatnonzero(sampled_pmf)[0])
    ax = plot(post)
    assert [bar.get_height() for bar in ax.patches][: len(sampled_pmf) - first] == pytest.approx(sampled_pmf[first:])
    assert ax.get_legend() is None
    ax = plot(post, truth=truth)
    heights = np.array([bar.get_height() for bar in ax.patches]).reshape(2, -1)
    probability = getattr(truth, name)()
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


def test_trace_has_a_line_for_each_chain():
    post = some(chains=3)
    first, second = plot_trace(post)
    np.testing.assert_array_equal([line.get_ydata() for line in first.lines], post.log_prior + post.log_score)
    np.testing.assert_array_equal([line.get_ydata() for line in second.lines], post.n_leaves)
    assert "R-hat" in first.get_title()
    axes = plt.subplots(1, 2)[1]
    assert list(plot_trace(post, axes)) == list(plot_ranks(post, axes)) == list(axes)
    with pytest.raises(ValueError, match="axes has 1 entries; give two Axes"):
        plot_trace(post, [axes[0]])


def test_four_plots_in_a_figure(both):
    figure = plot_posterior(both[1], truth=both[0])
    figure.draw_without_rendering()
    assert len(figure.axes) == 4


class TestRanks:
    def test_counts_of_each_chain(self):
        first, second = plot_ranks(some(), n_bins=6)
        for ax in (first, second):
            counts = np.array([patch.get_data().values for patch in ax.patches])
            assert counts.shape == (2, 6)
            assert counts.sum(axis=1).tolist() == [30, 30]
            assert counts.sum(axis=0).tolist() == [10] * 6

    def test_chains_apart_are_seen(self):
        post = pt.posterior_from_trees(problem(), [LEAF, twice(2.5, 1.5)], np.repeat([[0], [1]], 40, axis=1))
        counts = np.array([patch.get_data().values for patch in plot_ranks(post, n_bins=2)[1].patches])
        assert counts.tolist() == [[40, 0], [0, 40]]


class TestLadder:
    def tempered(self, chains=3, levels=5):
        rates = np.linspace(0.1, 0.9, chains * (levels - 1)).reshape(chains, -1)
        powers = np.tile(np.linspace(1.0, 0.0, levels), (chains, 1))
        stump = np.zeros((chains, 30), dtype=bool)
        actual = Tempering(powers, np.zeros((chains, 30, levels)), rates, np.arange(chains), -1.0, 0.1, stump)
        post = pt.posterior_from_trees(problem(), [LEAF], np.zeros((chains, 30), dtype=np.int64))
        post.tempering = actual
        return post

    def test_rates_and_round_trips(self):
        post = self.tempered()
        ax = plot_ladder(post)
        np.testing.assert_array_equal([line.get_ydata() for line in ax.lines], post.tempering.swap_rates)
        assert [tick.get_text() for tick in ax.get_xticklabels()] == ["1", "0.75", "0.5", "0.25", "0"]
        assert ax.get_title().endswith("round trips by chain: 0, 1, 2")

    def test_an_untempered_run(self):
        with pytest.raises(ValueError, match="the run was not tempered"):
            plot_ladder(some())
