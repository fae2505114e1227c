"""Plots of many trees: what is drawn are the numbers that the posterior answers."""

import numpy as np
from matplotlib.collections import LineCollection

import exact
import pactree_mcmc as pt
from pactree_mcmc.faces.plots import plot_consensus, plot_forest, plot_split_frequencies
from tests.faces.plots.posteriors import problem, some, stump, twice


class TestSplitFrequencies:
    def test_each_chain_against_the_others(self):
        post = some(chains=3)
        ax = plot_split_frequencies(post)
        actual = post.support(0.05)
        here = actual.kind == "cell"
        for c in range(3):
            line = next(line for line in ax.lines if line.get_label() == f"chain {c}")
            np.testing.assert_allclose(line.get_ydata(), actual.by_chain[here, c])
            np.testing.assert_allclose(line.get_xdata(), np.delete(actual.by_chain[here], c, axis=1).mean(axis=1))
        assert f"{post.asdsf().asdsf:.3f}" in ax.get_title()

    def test_against_the_exact_probabilities(self):
        X = np.array([[i % 4, i // 4] for i in range(16)], dtype=float)
        truth = exact.solve(pt.TreeModel(X, X[:, 0] > 1))
        post = truth.sample(200, rng=1)
        ax = plot_split_frequencies(post, truth=truth)
        actual, expected = post.support(0.05), truth.support(0.0)
        exact_probability = dict(zip(expected.key, expected.probability, strict=True))
        line = next(line for line in ax.lines if line.get_label() == "splits")
        here = np.flatnonzero(actual.kind == "split")
        np.testing.assert_allclose(line.get_xdata(), [exact_probability[actual.key[i]] for i in here])
        np.testing.assert_allclose(line.get_ydata(), actual.probability[here])


class TestForest:
    def test_nodes_are_at_the_mean_of_their_rows(self):
        post = some()
        ax = plot_forest(post)
        segments = np.concatenate([c.get_segments() for c in ax.collections if isinstance(c, LineCollection)])
        assert set(segments[:, 0, 1]) == {0.0, 1.0}
        np.testing.assert_array_equal(segments[:, 1, 1], segments[:, 0, 1] + 1.0)
        # the most probable tree: its rows are in order, so a node is in the middle of its own
        best = post.map_tree()
        rows = best.rows / best.rows[0]
        path = ax.lines[0].get_xydata()
        left, right = path[1], path[int(np.flatnonzero((path[:, 1] == 1) & (path[:, 0] > path[1, 0]))[0])]
        np.testing.assert_allclose(left, [rows[1] / 2.0, 1.0])
        np.testing.assert_allclose(right, [1.0 - rows[best.right[0]] / 2.0, 1.0])
        # whatever the tree, the rows of two children are those of their parent
        for parent in np.unique(segments[:, 0], axis=0):
            below = segments[(segments[:, 0] == parent).all(axis=1), 1, 0]
            assert below.min() < parent[0] < below.max()


class TestConsensus:
    def test_boxes_say_words_support_and_rows(self):
        post = pt.posterior_from_trees(problem(), [stump(0, 2.5), twice(2.5, 1.5), stump(1, 1.5)], [[0, 1, 1, 1, 2]])
        tree = post.consensus_tree()
        ax = plot_consensus(post)
        texts = [text.get_text() for text in ax.texts]
        assert len(texts) == len(tree.words) == 5
        for text, p, rows in list(zip(texts, tree.support, tree.rows))[1:]:
            assert f"support {p:.2f}" in text
            assert f"{rows:.0f} row" in text
        assert "50%" in ax.get_title()
        widths = {round(line.get_linewidth(), 6) for line in ax.lines}
        scale = min(widths) / (0.6 + 3.4 * 0.2)
        assert widths == {round(scale * (0.6 + 3.4 * w), 6) for w in (0.2, 0.6)}
