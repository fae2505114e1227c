"""All plots: posteriors of every size and kind are drawn on the axes of the caller, and wrong arguments are refused."""

from itertools import product

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.faces.plots import plot_partial_dependence
from pactree_mcmc.posterior.inference_data import load_arviz
from pactree_mcmc.posterior.rows.dependence import rows_to_average
from tests.faces.plots.posteriors import problem, some, stump, twice

plots = pt.plots
LONG = "a $ name that goes on and on, beyond what anybody would call a column, \\frac{1}{2} and more of it " * 2
OF_DRAWS = ("plot_split_frequencies",)
NAMES = [name for name in plots.__all__ if name not in ("plot_calibration", "plot_posterior", "plot_survival")]


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
    assert draw(name, KINDS[kind](), ax=ax) is ax
    assert not other.has_data()
    assert plt.get_fignums() == [1]
    ax.get_figure().draw_without_rendering()


@pytest.mark.more(everyday=["plot_consensus", "plot_forest"])
@pytest.mark.parametrize("name", sorted(set(NAMES) - set(OF_DRAWS)))
def test_exact_posteriors_are_drawn(name):
    X = np.array([[i % 4, i // 4] for i in range(16)], dtype=float)
    draw(name, exact.solve(pt.TreeModel(X, X[:, 0] > 1))).get_figure().draw_without_rendering()


WRONG = [
    ("plot_partial_dependence", {"coverage": "half"}, ValueError, "coverage"),
    ("plot_partial_dependence", {"X": np.zeros((0, 2))}, ValueError, "no rows"),
    ("plot_split_frequencies", {"truth": 3}, TypeError, "truth"),
    ("plot_split_frequencies", {"min_probability": 2.0}, ValueError, "min_probability"),
    ("plot_forest", {"alpha": 1.5}, ValueError, "alpha"),
    ("plot_leaves", {"tree": "best"}, TypeError, "tree is"),
    ("plot_inclusion", {"max_features": 2.5}, ValueError, "max_features"),
]


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
