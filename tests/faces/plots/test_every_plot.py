"""All plots are drawn on the axes of the caller, and show what the posterior answers."""

import functools
from itertools import product

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import LineCollection, QuadMesh

import exact
import pactree_mcmc as pt
from pactree_mcmc.faces.plots import (
    plot_consensus,
    plot_forest,
    plot_inclusion,
    plot_n_leaves,
    plot_partial_dependence,
    plot_partition,
    plot_split_frequencies,
    plot_surface,
)
from pactree_mcmc.posterior.inference_data import ess, load_arviz
from pactree_mcmc.posterior.rows.dependence import rows_to_average
from tests.faces.plots.posteriors import LEAF, problem, some, stump, twice

plots = pt.plots
LONG = "a $ name that goes on and on, beyond what anybody would call a column, \\frac{1}{2} and more of it " * 2
OF_DRAWS = ("plot_split_frequencies",)
NAMES = [name for name in plots.__all__ if name not in ("plot_calibration", "plot_posterior", "plot_survival")]
WRONG = [
    ("plot_partial_dependence", {"coverage": "half"}, ValueError, "coverage"),
    ("plot_partial_dependence", {"X": np.zeros((0, 2))}, ValueError, "no rows"),
    ("plot_split_frequencies", {"truth": 3}, TypeError, "truth"),
    ("plot_split_frequencies", {"min_probability": 2.0}, ValueError, "min_probability"),
    ("plot_forest", {"alpha": 1.5}, ValueError, "alpha"),
    ("plot_leaves", {"tree": "best"}, TypeError, "tree is"),
    ("plot_inclusion", {"max_features": 2.5}, ValueError, "max_features"),
]
TREES = {
    "leaf": pt.Tree([-1], [0], [0], [0]),
    "ordered": pt.Tree([0, 1, -1, -1, -1], [2.5, 0.25, 0, 0, 0], [1, 2, 0, 0, 0], [4, 3, 0, 0, 0]),
    "nominal": pt.Tree([2, -1, -1], [0, 0, 0], [1, 0, 0], [2, 0, 0], categories=[0b101, -1, -1]),
}
posterior_of = pt.posterior_from_trees
RNG = np.random.default_rng(2)
LEVELS = ["<25", "25-29", "30-35", ">35"]
N = 120
WORDS = {"levels": set(LEVELS), "whole levels": {"10", "20", "30", "100"}, "truth values": {"no", "yes"}}


def draw(name, post, **kwargs):
    more = {"feature": 0, "individual": 3} if name == "plot_partial_dependence" else {}
    return getattr(plots, name)(post, **more, **kwargs)


def linear_leaves():
    X = np.random.default_rng(0).random((60, 2))
    model = pt.TreeModel(X, X[:, 1] + (X[:, 0] > 0.5), leaf=pt.NormalLinear([1]))
    return pt.posterior_from_trees(model, [stump(0, 0.5)])


def missing_values():
    x = np.concatenate([np.full(20, np.nan), np.tile([1.0, 2.0], 20)])
    X = np.column_stack([x, np.random.default_rng(0).random(60)])
    tree = pt.Tree([0, -1, -1], [np.nan, 0, 0], [1, 0, 0], [2, 0, 0], default_left=[True, 0, 0])
    return pt.posterior_from_trees(pt.TreeModel(X, np.isnan(x), missing="branch"), [tree])


KINDS = {
    "usual": some,
    "regression": lambda: some(True),
    "one draw": lambda: pt.posterior_from_trees(problem(), [twice(2.5, 1.5)], [[0]]),
    "30 features": lambda: pt.posterior_from_trees(problem(p=30), [stump(k, 2.5) for k in range(30)]),
    "12 chains, long names": lambda: some(chains=12, names=[LONG, "b " + LONG], classes=("$" + LONG, "z" + LONG)),
    "linear leaves": linear_leaves,
    "missing values": missing_values,
}


@pytest.mark.more(
    everyday=[
        "plot_consensus-usual",
        "plot_consensus-30 features",
        "plot_forest-one draw",
        "plot_inclusion-30 features",
        "plot_inclusion-linear leaves",
        "plot_leaves-12 chains, long names",
        "plot_leaves-missing values",
        "plot_n_leaves-usual",
        "plot_partial_dependence-regression",
        "plot_partial_dependence-linear leaves",
        "plot_partition-missing values",
        "plot_split_frequencies-usual",
        "plot_surface-regression",
        "plot_tree-one draw",
    ]
)
@pytest.mark.parametrize(("name", "kind"), list(product(NAMES, KINDS)))
def test_every_kind_is_drawn_on_the_axes_of_the_caller(name, kind):
    _, (ax, other) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    assert draw(name, KINDS[kind](), ax=ax) is ax and not other.has_data() and plt.get_fignums() == [1]
    ax.get_figure().draw_without_rendering()


@pytest.mark.more(everyday=["plot_consensus", "plot_forest"])
@pytest.mark.parametrize("name", sorted(set(NAMES) - set(OF_DRAWS)))
def test_exact_posteriors_are_drawn(name):
    X = np.array([[i % 4, i // 4] for i in range(16)], dtype=float)
    draw(name, exact.solve(pt.TreeModel(X, X[:, 0] > 1))).get_figure().draw_without_rendering()


@pytest.mark.parametrize(("name", "options", "error", "message"), WRONG)
def test_wrong_arguments_are_refused(name, options, error, message):
    with pytest.raises(error, match=message):
        draw(name, some(), **options)
    assert plt.get_fignums() == []


@pytest.mark.filterwarnings("ignore")
def test_arviz_draws_the_draws():
    """ArviZ's own trace plot, of either major version, takes what ``to_arviz`` returns."""
    picture = load_arviz().plot_trace(some().to_arviz(), var_names=["n_leaves"])
    assert plt.get_fignums() or hasattr(picture, "viz")


class TestIndividual:
    def test_thin_lines_are_the_means_for_single_rows(self):
        post = some(True)
        X = rows_to_average(post.model, None, 60).numbers[:5]
        ax = plot_partial_dependence(post, "f0", X=pd.DataFrame(X, columns=["f0", "f1"]), individual=5)
        curves = [p.get_data() for p in ax.patches][2:]
        assert len(curves) == 5
        for curve, row in zip(curves, X, strict=True):
            for value, low, high in zip(curve.values, curve.edges, curve.edges[1:]):
                new_rows = pd.DataFrame([[(low + high) / 2.0, row[1]]], columns=["f0", "f1"])
                assert value == pytest.approx(post.predict(new_rows)[0])
        mean = ax.patches[1].get_data().values
        np.testing.assert_allclose(mean, np.mean([c.values for c in curves], axis=0))

    def test_equal_rows_count_as_often_as_they_are(self):
        """Partial dependence is a mean over rows, not over distinct ones."""
        X = np.array([[0.0, 0.0]] * 9 + [[1.0, 1.0]])
        model = pt.TreeModel(X, np.arange(10.0), tree_prior=pt.ChipmanPrior(0.95, 0.5))
        post = pt.posterior_from_trees(model, [stump(1, 0.5)])
        mean = plot_partial_dependence(post, 0).patches[1].get_data().values
        np.testing.assert_allclose(mean, post.predict(X).mean())


@functools.cache
def three_features(regression=False):
    """Two ordered features and a nominal one."""
    rng = np.random.default_rng(4)
    X = pd.DataFrame({"a": rng.integers(0, 5, 60), "b": rng.integers(0, 4, 60) / 2.0})
    X["kind"] = pd.Categorical(rng.choice(["p", "q", "r"], 60))
    hit = (X["a"] > 2) ^ (X["kind"] == "q")
    return pt.TreeModel(X, 2.0 * hit + rng.integers(0, 4, 60) / 4.0 if regression else np.where(hit, "yes", "no"))


@functools.cache
def some_model(regression=False):
    draws = np.random.default_rng(1).integers(0, 3, (2, 30))
    return posterior_of(three_features(regression), list(TREES.values()), draws)


def mesh_of(ax):
    return next(c for c in ax.collections if isinstance(c, QuadMesh))


def cells(ax):
    """Corners and values of the rectangles drawn."""
    mesh = mesh_of(ax)
    coordinates = mesh.get_coordinates()
    return coordinates[0, :, 0], coordinates[:, 0, 1], np.asarray(mesh.get_array()).reshape(len(coordinates) - 1, -1)


@pytest.mark.parametrize("regression", [False, True])
def test_spread_is_the_standard_deviation_over_draws(regression):
    post = some_model(regression)
    X = pd.DataFrame({"a": [0.0, 4.0, 3.0], "b": [0.0, 1.0, 1.5], "kind": ["p", "q", "new"]})
    expected = post.values_by_draw(X).std(axis=(0, 1))
    assert post.predict_std_over_trees(X) == pytest.approx(expected[:, 0] if regression else expected, abs=1e-7)
    assert expected.max() > 0.01


class TestSurface:
    @pytest.mark.more(everyday=["False-False"])
    @pytest.mark.parametrize("regression", [False, True])
    @pytest.mark.parametrize("spread", [False, True])
    def test_each_rectangle_has_the_posteriors_answer(self, regression, spread):
        post = some_model(regression)
        ax = plot_surface(post, ("a", "kind"), at={"b": 1.0}, spread=spread)
        x, y, values = cells(ax)
        assert 2.5 in x and y.tolist() == [-0.5, 0.5, 1.5, 2.5]
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
        post = some_model()
        ax = plot_partition(post, tree=post.draws.distinct_tree(1))
        x, y, values = cells(ax)
        assert x[1:-1].tolist() == [2.5] and y[1:-1].tolist() == [0.25]
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
        post = some_model(regression)
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


@pytest.fixture(scope="module")
def both():
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
            assert f"support {p:.2f}" in text and f"{rows:.0f} row" in text
        assert "50%" in ax.get_title()
        widths = {round(line.get_linewidth(), 6) for line in ax.lines}
        scale = min(widths) / (0.6 + 3.4 * 0.2)
        assert widths == {round(scale * (0.6 + 3.4 * w), 6) for w in (0.2, 0.6)}


CODE = RNG.integers(0, 4, N)
COLUMNS = {
    "levels": pd.Series(pd.Categorical.from_codes(CODE, LEVELS, ordered=True)),
    "whole levels": pd.Series(pd.Categorical.from_codes(CODE, [10, 20, 30, 100], ordered=True)),
    "dates": pd.Series(pd.Timestamp("2020-01-01") + pd.to_timedelta(CODE * 30, "D")),
    "periods": pd.Series(pd.period_range("2020-01", periods=4, freq="M")[CODE]),
    "durations": pd.Series(pd.to_timedelta(CODE * 12, "h")),
    "truth values": pd.Series(CODE > 1),
}


def labels(axis):
    axis.figure.canvas.draw()
    low, high = sorted(axis.get_view_interval())
    ticks = zip(axis.get_majorticklocs(), axis.get_ticklabels(), strict=True)
    return [label.get_text() for place, label in ticks if low <= place <= high]


def posterior(column):
    X = pd.DataFrame({"f": COLUMNS[column], "z": RNG.random(N)})
    model = pt.TreeModel(X, (CODE > 1) * 1.0 + (X.z > 0.5))
    cuts = [model.scales[k].threshold(np.array([c]), np.array([c + 1]))[0] for k, c in ((0, 0), (1, 50))]
    trees = [pt.Tree([k, -1, -1], [cut, 0, 0], [1, 0, 0], [2, 0, 0]) for k, cut in enumerate(cuts)]
    return pt.posterior_from_trees(model, trees)


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("picture", ["dependence", "dependence of two", "surface", "partition"])
def test_ticks_are_in_words(column, picture):
    post = posterior(column)
    ax = {
        "dependence": lambda: pt.plots.plot_partial_dependence(post, "f"),
        "dependence of two": lambda: pt.plots.plot_partial_dependence(post, ["f", "z"]),
        "surface": lambda: pt.plots.plot_surface(post, ["f", "z"]),
        "partition": lambda: pt.plots.plot_partition(post, ["f", "z"]),
    }[picture]()
    found = labels(ax.xaxis)
    assert found
    if column in WORDS:
        assert set(found) == WORDS[column]
        # nor are codes beyond the ends of the axis ticks
        assert {text.get_text() for text in ax.xaxis.get_ticklabels()} == WORDS[column]
    elif column == "dates":
        assert all(pd.Timestamp("2019-12-01") < pd.Timestamp(text) < pd.Timestamp("2020-05-01") for text in found)
    elif column == "periods":
        assert all(pd.Period("2019-12", "M") <= pd.Period(text, "M") <= pd.Period("2020-05", "M") for text in found)
    else:
        assert all(pd.Timedelta("-2 days") < pd.Timedelta(text) < pd.Timedelta("3 days") for text in found)
    plt.close("all")


def test_many_levels_are_named_at_some_ticks():
    many = [f"level {i}" for i in range(40)]
    X = pd.DataFrame({"f": pd.Categorical.from_codes(RNG.integers(0, 40, 300), many, ordered=True)})
    post = pt.posterior_from_trees(pt.TreeModel(X, RNG.random(300)), [pt.Tree([-1], [0], [0], [0])])
    found = labels(pt.plots.plot_partial_dependence(post, 0).xaxis)
    assert 2 <= len(found) <= 12 and set(found) <= set(many) and len(set(found)) == len(found)
    plt.close("all")


@pytest.mark.parametrize("column", COLUMNS)
def test_values_of_other_features_are_given_as_in_a_table(column):
    X = pd.DataFrame({"f": COLUMNS[column], "z": RNG.random(N), "w": RNG.random(N)})
    model = pt.TreeModel(X, CODE * 1.0, leaf=pt.NormalInverseGamma())
    cuts = [model.scales[0].threshold(np.array([c]), np.array([c + 1]))[0] for c in range(model.n_codes[0] - 1)]
    tree = pt.Tree([0, -1, -1], [cuts[-1], 0, 0], [1, 0, 0], [2, 0, 0])
    post = pt.posterior_from_trees(model, [tree])
    for row in (int(np.argmin(CODE)), int(np.argmax(CODE))):
        ax = pt.plots.plot_surface(post, ["z", "w"], at={"f": COLUMNS[column][row]}, points=False)
        drawn = {float(value) for each in ax.collections for value in np.ravel(each.get_array())}
        assert list(drawn) == pytest.approx([post.predict(X.iloc[[row]])[0]])
        plt.close("all")
    for wrong in ("zzz", 1.5) if column == "levels" else ("zzz",):
        with pytest.raises(ValueError, match=r"column 'f' (holds|contains)"):
            pt.plots.plot_surface(post, ["z", "w"], at={"f": wrong})
