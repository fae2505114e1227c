"""Errors give the labels of rows, labels with the same text print apart, and dictionaries of Arrow are read."""

import numpy as np
import pandas as pd
import pytest

import exact
import pactree_mcmc as pt

LABELS = [f"id{i}" for i in range(12)]
TABLE = pd.DataFrame({"a": np.arange(12.0), "g": list("xy") * 6}, index=LABELS)
Y = pd.Series(np.arange(12.0), index=LABELS)


def changed(data, label, value):
    """Return data with another value in the row of this label, of a frame in column a."""
    data = data.copy()
    data.loc[(label, "a") if data.ndim == 2 else label] = value
    return data


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: pt.TreeModel(changed(TABLE, "id5", np.nan), Y), r"\(first in row 5, labelled 'id5'\)"),
        (lambda: pt.TreeModel(changed(TABLE, "id5", np.inf)[3:], Y[3:]), r"\(first in row 2, labelled 'id5'\)"),
        (lambda: pt.TreeModel(TABLE, changed(Y, "id7", np.nan)), r"y is nan in row 7, labelled 'id7'; give"),
        (lambda: pt.TreeModel(TABLE, Y, sample_weight=changed(Y, "id2", -1.0)), r"row 2, labelled 'id2'; give"),
        (lambda: pt.TreeModel(TABLE, Y + 0.5, leaf=pt.PoissonGamma()), r"row 0, labelled 'id0'; Poisson"),
        (
            lambda: exact.solve(pt.TreeModel(TABLE, Y), progress=False).predict(changed(TABLE, "id9", None)[2:]),
            r"\(first in row 7, labelled 'id9'\)",
        ),
        (lambda: pt.TreeModel(changed(TABLE, "id5", np.nan).reset_index(drop=True), Y.to_numpy()), r"row 5\)"),
        (lambda: pt.TreeModel(changed(TABLE, "id5", np.nan).to_numpy()[:, :1], Y.to_numpy()), r"row 5\)"),
    ],
)
def test_an_error_gives_the_label_of_the_row(call, words):
    with pytest.raises(ValueError, match=words):
        call()


@pytest.mark.parametrize(("one", "other"), [(1, "1"), (True, "yes"), (2.5, "2.5")])
def test_labels_of_the_same_text_print_apart(one, other):
    X = pd.DataFrame({"g": [one, other, "z"] * 10})
    post = exact.solve(pt.TreeModel(X, [0, 1, 1] * 10, nominal=["g"]), progress=False)
    text = f"{post.map_tree().format()}\n{post.consensus_tree()}\n{post.shapes()}"
    plain = "yes" if one is True else str(one)
    assert f"in {{{plain}}}" in text
    assert f"'{other}'" in str(post.support(0.0).words)
    only = pd.DataFrame({"g": [other, "y", "z"] * 10})
    assert "'" not in exact.solve(pt.TreeModel(only, [0, 1, 1] * 10), progress=False).map_tree().format()


@pytest.mark.parametrize("ordered", [False, True])
def test_dictionaries_of_arrow_are_categoricals(ordered):
    pa = pytest.importorskip("pyarrow")
    codes = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2] * 4), pa.array(["lo", "mid", "hi"]), ordered=ordered)
    X = pd.DataFrame({"g": pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([codes])))})
    same = pd.DataFrame({"g": pd.Categorical(["lo", "mid", "hi"] * 4, ["lo", "mid", "hi"], ordered=ordered)})
    one, other = (exact.solve(pt.TreeModel(table, [0, 1, 1] * 4), progress=False) for table in (X, same))
    assert one.map_tree().format() == other.map_tree().format()
    assert np.array_equal(one.predict_proba(X), other.predict_proba(same))
