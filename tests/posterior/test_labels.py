"""Every text and picture that shows one class takes ``label=``, and names the class."""

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.posterior.report.content import report_content

X = np.arange(40.0)[:, None]
TRUTH = exact.solve(pt.TreeModel(X, np.where(X[:, 0] > 25, "ill", "well")), progress=False)


@pytest.mark.parametrize("label", ["ill", "well"])
def test_a_shape_shows_the_class_that_is_asked_for(label):
    plt = pytest.importorskip("matplotlib.pyplot")
    shapes = TRUTH.shapes()
    leaves = shapes.shapes[0].leaves
    means = [f"{x:.3g}" for x in leaves.loc[leaves["class"] == label, "mean"]]
    for text in (shapes.format(label), shapes.shapes[0].format(label)):
        assert text.count(f"{label}: ") == 2 and all(f"{label}: {mean}" in text for mean in means)
    texts = [text.get_text() for text in pt.plots.plot_shape(TRUTH, label=label).texts]
    assert sum(text.startswith(f"{label} ") for text in texts) == 2
    other = "well" if label == "ill" else "ill"
    assert not any(text.startswith(other) for text in texts)
    plt.close("all")


@pytest.mark.parametrize("label", ["ill", "well"])
def test_a_report_shows_the_class_that_is_asked_for(label, tmp_path):
    content = report_content(TRUTH, None, label)
    assert content["curve_names"] == [label]
    leaves = [content["shape_tree"]]
    while leaves and "children" in leaves[0]:
        leaves = leaves[0]["children"] + leaves[1:]
    assert [strip.name for strip in leaves[0]["strips"]] == [label]
    TRUTH.report(tmp_path / "page.html", label=label)


@pytest.mark.parametrize(
    "call",
    [
        lambda: TRUTH.shapes().format("dead"),
        lambda: pt.plots.plot_shape(TRUTH, label=1),
        lambda: TRUTH.report("page.html", label="dead"),
    ],
)
def test_other_labels_are_refused(call):
    pytest.importorskip("matplotlib")
    with pytest.raises(ValueError, match=r"label=.* is not a class; give one of \['ill', 'well'\]"):
        call()
