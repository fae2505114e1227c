"""The picture of a shape: one box for each node, one strip for each leaf, texts with intervals, every kind of leaf."""

import numpy as np
import pytest

import exact
import pactree_mcmc as pt

RNG = np.random.default_rng(5)
X = np.column_stack([RNG.integers(0, 6, 80), RNG.integers(0, 3, 80)]).astype(float)
MODELS = {
    "two classes": lambda: pt.TreeModel(X, np.where(X[:, 0] > 2, "yes", "no")),
    "three classes": lambda: pt.TreeModel(X, X[:, 1].astype(int)),
    "numbers": lambda: pt.TreeModel(X, X[:, 0] + 0.1 * RNG.normal(size=80)),
    "several outputs": lambda: pt.TreeModel(X, RNG.normal(size=(80, 2)), leaf=pt.MultivariateNormal(2)),
    "nominal": lambda: pt.TreeModel(X, X[:, 1] > 0, nominal=[1]),
    "regression": lambda: pt.TreeModel(X, RNG.normal(size=80), leaf=pt.NormalLinear([0])),
}


@pytest.mark.parametrize("name", MODELS)
def test_every_node_has_a_box_and_every_leaf_an_interval(name):
    post = pt.sample(MODELS[name](), 50, tune=50, chains=2, rng=1, kernel="grow-prune", progress=False)
    shape = post.shapes().shapes[0]
    ax = pt.plots.plot_shape(shape)
    texts = [text.get_text() for text in ax.texts]
    n_leaves = len(shape.splits) + 1
    assert sum("rows" in text for text in texts) == n_leaves
    assert sum("≤" in text or " in {" in text for text in texts) == len(shape.splits)
    strips = 0 if name == "regression" else n_leaves
    assert len(ax.patches) == len(shape.splits) + n_leaves + strips


def test_a_posterior_and_a_root_alone():
    ax = pt.plots.plot_shape(exact.solve(MODELS["two classes"]()))
    assert "most probable shape" in ax.get_title()
    root = pt.posterior_from_trees(pt.TreeModel([[0.0], [1.0]], ["a", "b"]), [pt.Tree([-1], [0], [0], [0])])
    assert len(pt.plots.plot_shape(root).texts) == 1


def test_refused():
    with pytest.raises(TypeError, match="shape"):
        pt.plots.plot_shape("tree")
