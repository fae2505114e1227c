"""The picture of a shape: one box for each node, one strip for each leaf, texts with intervals, every kind of leaf."""

import numpy as np
import pytest

import pactree_mcmc as pt

RNG = np.random.default_rng(5)
X = np.column_stack([RNG.integers(0, 6, 80), RNG.integers(0, 3, 80)]).astype(float)
MODELS = {
    "two classes": lambda: pt.TreeModel(X, np.where(X[:, 0] > 2, "yes", "no")),
    "three classes": lambda: pt.TreeModel(X, X[:, 1].astype(int)),
    "numbers": lambda: pt.TreeModel(X, X[:, 0] + 0.1 * RNG.normal(size=80)),
    "nominal": lambda: pt.TreeModel(X, X[:, 1] > 0, nominal=[1]),
    "regression": lambda: pt.TreeModel(X, RNG.normal(size=80), leaf=pt.NormalLinear([0])),
}


def split_twice(k, threshold, other):
    return pt.Tree([k, other, -1, -1, -1], [threshold, 0.5, 0, 0, 0], [1, 2, 0, 0, 0], [4, 3, 0, 0, 0])


@pytest.mark.parametrize("name", MODELS)
def test_every_node_has_a_box_and_every_mean_a_strip(name):
    model = MODELS[name]()
    trees = [split_twice(0, cut, 0) for cut in (2.5, 3.5)]
    if name == "nominal":
        trees = [pt.Tree([1, -1, -1], [0, 0, 0], [1, 0, 0], [2, 0, 0], [1, -1, -1])]
    shape = pt.posterior_from_trees(model, trees, [[0] * 5 + [len(trees) - 1] * 5]).shapes().shapes[0]
    ax = pt.plots.plot_shape(shape)
    texts = [text.get_text() for text in ax.texts]
    n_leaves = len(shape.splits) + 1
    assert sum("rows" in text for text in texts) == n_leaves
    assert sum("≤" in text or " in {" in text for text in texts) == len(shape.splits)
    assert len(ax.patches) == len(shape.splits) + n_leaves
    names = {"three classes": ["0 ", "1 ", "2 "], "regression": []}.get(name, [""])
    strips = [text for text in texts if text.endswith("]") and "≤" not in text]
    assert len(strips) == n_leaves * len(names)
    assert sum(text.startswith("y = ") for text in texts) == n_leaves * (name == "regression")
    assert all(text.startswith(one) for text, one in zip(strips, names * n_leaves, strict=True))
    # a bar of the interval lies around the mark of the mean
    bars, marks = ([line for line in ax.lines if test(line)] for test in (is_bar, is_mark))
    for bar, mark in zip(bars, marks, strict=True):
        assert bar.get_xdata()[0] <= mark.get_xdata()[0] <= bar.get_xdata()[1]
    assert len(bars) == len(strips)


def is_bar(line):
    return line.get_zorder() == 2


def is_mark(line):
    return line.get_marker() == "|"


def test_refused():
    with pytest.raises(TypeError, match="shape"):
        pt.plots.plot_shape("tree")
