"""Axes show levels, dates, periods and truth values as people write them, not in stored form."""

import numpy as np
import pandas as pd
import pytest

import pactree_mcmc as pt

plt = pytest.importorskip("matplotlib.pyplot")
RNG = np.random.default_rng(2)
LEVELS = ["<25", "25-29", "30-35", ">35"]
N = 120
CODE = RNG.integers(0, 4, N)
COLUMNS = {
    "levels": pd.Series(pd.Categorical.from_codes(CODE, LEVELS, ordered=True)),
    "whole levels": pd.Series(pd.Categorical.from_codes(CODE, [10, 20, 30, 100], ordered=True)),
    "dates": pd.Series(pd.Timestamp("2020-01-01") + pd.to_timedelta(CODE * 30, "D")),
    "periods": pd.Series(pd.period_range("2020-01", periods=4, freq="M")[CODE]),
    "durations": pd.Series(pd.to_timedelta(CODE * 12, "h")),
    "truth values": pd.Series(CODE > 1),
}
WORDS = {
    "levels": set(LEVELS),
    "whole levels": {"10", "20", "30", "100"},
    "truth values": {"no", "yes"},
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
