"""Pictures over features and of chains: what is drawn is what the posterior answers, whatever its size."""

import functools

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import LineCollection, QuadMesh

import pactree_mcmc as pt
from pactree_mcmc.faces.plots import plot_partial_dependence, plot_partition, plot_surface


@functools.cache
def problem(regression=False):
    """Two ordered features and a nominal one."""
    rng = np.random.default_rng(4)
    X = pd.DataFrame({"a": rng.integers(0, 5, 60), "b": rng.integers(0, 4, 60) / 2.0})
    X["kind"] = pd.Categorical(rng.choice(["p", "q", "r"], 60))
    hit = (X["a"] > 2) ^ (X["kind"] == "q")
    return pt.TreeModel(X, 2.0 * hit + rng.integers(0, 4, 60) / 4.0 if regression else np.where(hit, "yes", "no"))


TREES = {
    "leaf": pt.Tree([-1], [0], [0], [0]),
    "ordered": pt.Tree([0, 1, -1, -1, -1], [2.5, 0.25, 0, 0, 0], [1, 2, 0, 0, 0], [4, 3, 0, 0, 0]),
    "nominal": pt.Tree([2, -1, -1], [0, 0, 0], [1, 0, 0], [2, 0, 0], categories=[0b101, -1, -1]),
}


posterior_of = pt.posterior_from_trees


@functools.cache
def some(regression=False):
    draws = np.random.default_rng(1).integers(0, 3, (2, 30))
    return posterior_of(problem(regression), list(TREES.values()), draws)


def mesh_of(ax):
    return next(c for c in ax.collections if isinstance(c, QuadMesh))


def cells(ax):
    """Corners and values of the rectangles drawn."""
    mesh = mesh_of(ax)
    coordinates = mesh.get_coordinates()
    return coordinates[0, :, 0], coordinates[:, 0, 1], np.asarray(mesh.get_array()).reshape(len(coordinates) - 1, -1)


@pytest.mark.parametrize("regression", [False, True])
def test_spread_is_the_standard_deviation_over_draws(regression):
    post = some(regression)
    X = pd.DataFrame({"a": [0.0, 4.0, 3.0], "b": [0.0, 1.0, 1.5], "kind": ["p", "q", "new"]})
    expected = post.values_by_draw(X).std(axis=(0, 1))
    assert post.predict_std_over_trees(X) == pytest.approx(expected[:, 0] if regression else expected, abs=1e-7)
    assert expected.max() > 0.01


class TestSurface:
    @pytest.mark.more(everyday=["False-False"])
    @pytest.mark.parametrize("regression", [False, True])
    @pytest.mark.parametrize("spread", [False, True])
    def test_each_rectangle_has_the_posteriors_answer(self, regression, spread):
        post = some(regression)
        ax = plot_surface(post, ("a", "kind"), at={"b": 1.0}, spread=spread)
        x, y, values = cells(ax)
        assert 2.5 in x
        assert y.tolist() == [-0.5, 0.5, 1.5, 2.5]
        for i, kind in enumerate("pqr"):
            row = pd.DataFrame({"a": (x[1:] + x[:-1]) / 2.0, "b": 1.0, "kind": kind})
            answer = (
                post.predict_std_over_trees(row)
                if spread
                else post.predict(row)
                if regression
                else post.predict_proba(row)
            )
            answer = answer if answer.ndim == 1 else answer[:, 1]
            assert values[i] == pytest.approx(answer, abs=1e-9)
        assert [label.get_text() for label in ax.get_yticklabels()] == ["p", "q", "r"]
        assert (ax.get_xlabel(), ax.get_ylabel()) == ("a", "kind")
        bar = ax.get_figure().axes[-1].get_ylabel()
        assert bar == ("sd of " if spread else "") + ("mean" if regression else "P(yes)")


class TestPartition:
    def test_the_leaves_of_a_tree(self):
        post = some()
        ax = plot_partition(post, tree=post.draws.distinct_tree(1))
        x, y, values = cells(ax)
        assert x[1:-1].tolist() == [2.5]
        assert y[1:-1].tolist() == [0.25]
        tree = post.draws.distinct_tree(1)
        assert values == pytest.approx(tree.value[np.array([[2, 4], [3, 4]]), 1])
        lines = next(c for c in ax.collections if isinstance(c, LineCollection)).get_segments()
        drawn_lines = {tuple(map(tuple, np.round(line, 9).tolist())) for line in lines}
        upright = {((2.5, y[0]), (2.5, 0.25)), ((2.5, 0.25), (2.5, y[2]))}
        assert drawn_lines == {tuple((a, round(b, 9)) for a, b in line) for line in upright} | {
            ((round(x[0], 9), 0.25), (2.5, 0.25))
        }


class TestPartialDependence:
    @pytest.mark.parametrize("regression", [False, True])
    def test_of_an_ordered_feature(self, regression):
        post = some(regression)
        ax = plot_partial_dependence(post, "a")
        steps = ax.patches[-1].get_data()
        assert steps.edges[1:-1].tolist() == [2.5]
        # every tree weighs as often as it was drawn, and every row once
        X = post.model.row_numbers(np.arange(60))
        for value, edge in zip(steps.values, (0.0, 4.0), strict=True):
            rows = X.copy()
            rows[:, 0] = edge
            assert value == pytest.approx(post._rows.values(rows)[:, -1].mean())
        assert ax.get_ylabel() == ("mean" if regression else "P(yes)")
