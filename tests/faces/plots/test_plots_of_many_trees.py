"""Plots of many trees: what is drawn are the numbers that the posterior answers."""

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgba

import exact
import pactree_mcmc as pt
from pactree_mcmc.faces.plots import (
    plot_consensus,
    plot_forest,
    plot_split_frequencies,
    style,
)
from tests.faces.plots.posteriors import LEAF, problem, some, stump, twice


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

    def test_one_chain_half_with_half(self):
        post = some(chains=1)
        ax = plot_split_frequencies(post)
        halves = pt.posterior_from_trees(
            post.model, [post.distinct_tree(t) for t in range(4)], post.tree_of_draw.reshape(2, 15)
        )
        actual = halves.support(0.05)
        line = next(line for line in ax.lines if line.get_label() == "first half")
        np.testing.assert_allclose(np.sort(line.get_ydata()), np.sort(actual.by_chain[actual.kind == "cell", 0]))

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

    def test_an_edge_is_as_dark_as_its_draws(self):
        model = problem()
        post = pt.posterior_from_trees(model, [stump(0, 2.5), stump(1, 1.5)], [[0] * 9 + [1]])
        ax = plot_forest(post, alpha=0.1)
        (collection,) = (c for c in ax.collections if isinstance(c, LineCollection))
        alphas = {tuple(np.round(c[:3], 6)): c[3] for c in collection.get_colors()}
        first, second = (tuple(np.round(to_rgba(style.COLORS[i])[:3], 6)) for i in (0, 1))
        assert alphas[first] == pytest.approx(1.0 - 0.9**9)
        assert alphas[second] == pytest.approx(0.1)
        names = [text.get_text() for text in ax.get_legend().get_texts()]
        assert names == ["f0", "f1", "most probable tree"]

    def test_rare_features_are_one_colour(self):
        trees = [stump(k, 2.5) for k in range(12)]
        ax = plot_forest(pt.posterior_from_trees(problem(p=12), trees))
        names = [text.get_text() for text in ax.get_legend().get_texts()]
        assert names[-2] == "6 other features"


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

    def test_three_children_and_rows_in_none(self):
        parent = np.array([-1, 0, 0, 0, 3])
        tree = pt.posterior_from_trees(problem(), [LEAF]).consensus_tree()._replace(
            words=["all rows", "a", "b", "c", "d"], support=np.array([1.0, 0.9, 0.8, 0.7, 0.6]),
            rows=np.array([60.0, 10.0, 20.0, 25.0, 5.0]), rest=np.array([5.0, 0, 0, 20.0, 0]), parent=parent,
            depth=np.array([0, 1, 1, 1, 2]), value=None, said=[[]] * 5,
        )  # fmt: skip
        ax = plot_consensus(tree)
        texts = [text.get_text() for text in ax.texts]
        assert [text for text in texts if "no child" in text] == ["5 rows\nin no child", "20 rows\nin no child"]
        assert len(ax.lines) == 6
        assert sum(line.get_linestyle() == "--" for line in ax.lines) == 2
        by_row = {}
        for box in ax.patches:
            by_row.setdefault(round(box.get_y() + box.get_height(), 6), []).append((box.get_x(), box.get_width()))
        for row in by_row.values():
            ends = sorted((x, x + width) for x, width in row)
            assert all(a[1] <= b[0] for a, b in zip(ends, ends[1:]))
