"""Texts of leaves that one number does not describe: regressions, times to an event, rates."""

import re

import numpy as np
import pandas as pd
import pytest

import pactree_mcmc as pt

N = 80
STUMP = ([0, -1, -1], [0.5, 0, 0], [1, 0, 0], [2, 0, 0])
TERM = re.compile(r"([+-]) (\S+) (\(.*? - .*?\)|[^ +-]+)")


def table(seed=0):
    return np.random.default_rng(seed).random((N, 2))


def stump_posterior(model, feature=0, threshold=0.5):
    nodes = [[feature, -1, -1], [threshold, 0, 0], *STUMP[2:]]
    return pt.posterior_from_trees(model, [pt.Tree(*nodes)])


def evaluated(formula, columns):
    """Values (n,) of ``y = 1.2 + 3.4 x0 - 0.5 (t - 1700000000)`` at rows of columns by name."""
    constant, rest = re.fullmatch(r"y\d* = (\S+)(.*)", formula).groups()
    out = np.full(len(next(iter(columns.values()))), float(constant))
    for sign, coefficient, name in TERM.findall(rest):
        origin = 0.0
        if name.startswith("("):
            name, text = name[1:-1].rsplit(" - ", 1)
            origin = float(text) if re.fullmatch(r"[\d.e+-]+", text) and "-" not in text else pd.Timestamp(text)
        x = columns[name] - origin
        x = x / pd.Timedelta("1D") if x.dtype.kind == "m" else x
        out += (1.0 if sign == "+" else -1.0) * float(coefficient) * np.asarray(x, dtype=float)
    return out


def leaf_formulas(text):
    return re.findall(r"leaf (.*?) \(\d+ rows\)", text)


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e6])
@pytest.mark.parametrize("offset", [0.0, 1e4, 1.7e9])
def test_the_printed_regression_gives_the_predictions(scale, offset):
    X = table()
    y = scale * (3.0 + 2.0 * X[:, 1] * np.where(X[:, 0] > 0.5, -1.0, 1.0) + 0.1 * np.sin(40.0 * X[:, 0]))
    frame = pd.DataFrame({"a": X[:, 0], "seconds": offset + 100.0 * X[:, 1]})
    post = stump_posterior(pt.TreeModel(frame, y, leaf=pt.NormalLinear(["seconds", "a"])))
    left, right = leaf_formulas(post.map_tree().format())
    columns = {name: frame[name].to_numpy() for name in frame}
    printed_values = np.where(X[:, 0] <= 0.5, evaluated(left, columns), evaluated(right, columns))
    np.testing.assert_allclose(printed_values, post.predict(frame), atol=2e-3 * y.std())
    assert len(left) < 90
    for text in (post.map_tree().to_dot(), post.consensus_tree().format()):
        assert left in text
        assert right in text


def survival(leaf):
    X = table()
    time = np.random.default_rng(1).exponential(1.0 + 5.0 * (X[:, 0] > 0.5))
    event = np.arange(N) % 3 > 0
    return X, time, event, stump_posterior(pt.TreeModel(X, np.column_stack([time, event]), leaf=leaf))


def test_times_show_mean_events_and_time_at_risk():
    X, time, event, post = survival(pt.ExponentialGamma())
    rows = X[:, 0] <= 0.5
    mean, events, at_risk = re.fullmatch(
        r"mean (\S+), (\d+) events, time at risk (\S+)", leaf_formulas(post.map_tree().format())[0]
    ).groups()
    assert float(mean) == pytest.approx(post.predict([[0.0, 0.0]])[0], rel=1e-3)
    assert int(events) == event[rows].sum()
    assert float(at_risk) == pytest.approx(time[rows].sum(), rel=1e-3)
    _, _, _, weibull = survival(pt.WeibullGamma(k=2.0))
    assert re.fullmatch(r"mean \S+, \d+ events", leaf_formulas(weibull.map_tree().format())[0])


def test_rows_are_not_exposures():
    X, exposure = table(), np.linspace(0.5, 4.0, N)
    y = np.random.default_rng(2).poisson(exposure * (1.0 + 5.0 * (X[:, 0] > 0.5))).astype(float)
    weight = np.arange(N) % 3.0
    for sample_weight in (None, weight):
        model = pt.TreeModel(X, y, leaf=pt.PoissonGamma(exposure=exposure), sample_weight=sample_weight)
        post = stump_posterior(model)
        w = np.ones(N) if sample_weight is None else weight
        rows = X[:, 0] <= 0.5
        assert post.map_tree().rows.tolist() == [w.sum(), w[rows].sum(), w[~rows].sum()]
        assert post.consensus_tree().rows[0] == w.sum()
        assert set(post.support(0.0).rows) <= {w.sum(), w[rows].sum(), w[~rows].sum()}
        text = post.map_tree().format()
        rate, events, exposed = re.search(r"leaf rate (\S+), (\d+) events, exposure (\S+) \(", text).groups()
        assert float(rate) == pytest.approx(post.predict([[0.0, 0.0]])[0], rel=1e-3)
        assert int(events) == (w * y)[rows].sum()
        assert float(exposed) == pytest.approx((w * exposure)[rows].sum(), rel=1e-3)
