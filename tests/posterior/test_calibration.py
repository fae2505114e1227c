"""Calibration of classes: fractions and intervals, weights as repeated rows, coverage under the model, bad input."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import exact
import pactree_mcmc as pt

N = 80
RNG = np.random.default_rng(5)
X = np.column_stack([RNG.integers(0, 5, N), RNG.integers(0, 4, N)]).astype(float)
Y = np.where(RNG.random(N) < np.where(X[:, 0] > 2, 0.8, 0.3), "yes", np.where(X[:, 1] > 1, "no", "maybe"))
PRIOR = {"tree_prior": pt.ChipmanPrior(0.9, 1.0, max_depth=2)}
TREE = pt.Tree([0, -1, -1], [2.5, 0, 0], [1, 0, 0], [2, 0, 0])


@pytest.fixture(scope="module")
def truth():
    return exact.solve(pt.TreeModel(X, Y, **PRIOR))


@pytest.mark.parametrize("label", [None, "no"])
def test_table_counts_rows_and_labels(truth, label):
    name = "yes" if label is None else label
    calibration = truth.calibration(X, Y, 3, label=label)
    table, probability = calibration.table(), truth.predict_proba(X)[:, list(truth.model.classes_).index(name)]
    assert set(table["class"]) == {name} and calibration.quantity == f"P({name})"
    assert table["group"].str.startswith(f"P({name}) ").all()
    assert table["rows"].sum() == N and len(table) == 3
    for g, line in table.iterrows():
        here = calibration.group == g
        n, k = here.sum(), (Y[here] == name).sum()
        assert (line["rows"], line["events"]) == (n, k)
        assert line["observed"] == pytest.approx(k / n)
        ends = stats.binomtest(int(k), int(n)).proportion_ci(0.9, method="wilson")
        assert (line["lower"], line["upper"]) == pytest.approx((ends.low, ends.high))
        assert line["expected"] == pytest.approx(probability[here].mean())
        assert line["expected_events"] == pytest.approx(probability[here].sum())
        assert line["expected_lower"] < line["expected"] < line["expected_upper"]
    # groups are in the order of the predictions
    assert np.all(np.diff(table["expected"]) > 0.0)


def test_intervals_of_one_tree_in_closed_form():
    post = pt.posterior_from_trees(pt.TreeModel(X, Y, **PRIOR), [TREE])
    table = post.calibration(X, Y, TREE, coverage=0.8).table()
    assert table["group"].tolist() == ["x0 <= 2.5", "x0 > 2.5"]
    assert table[["expected_lower", "expected_upper"]].to_numpy() == pytest.approx(
        post.credible_interval([[0.0, 0.0], [4.0, 0.0]], 0.8)[:, 2], abs=0.015
    )
    # rows of both leaves: the average of two independent beta variables
    both = post.calibration(X, Y, 1).table()
    a, b = (table["rows"] / N).tolist()
    drawn = post.draw_expectations([[0.0, 0.0], [4.0, 0.0]], 4000, rng=1)[:, :, 2] @ [a, b]
    assert both[["expected_lower", "expected_upper"]].to_numpy()[0] == pytest.approx(
        np.quantile(drawn, [0.05, 0.95]), abs=0.01
    )


def test_sampled_and_exact_agree(truth):
    sampled = pt.sample(truth.model, 1500, tune=200, chains=2, rng=1, kernel="local", progress=False)
    one, other = (post.calibration(X, Y, TREE, label="no").table() for post in (truth, sampled))
    assert one["group"].tolist() == other["group"].tolist()
    assert one.drop(columns=["group", "class"]).to_numpy() == pytest.approx(
        other.drop(columns=["group", "class"]).to_numpy(), abs=0.03, rel=0.03
    )


@pytest.mark.parametrize("of_times", [False, True])
def test_weights_are_repeated_rows(truth, of_times):
    post, y = truth, Y
    if of_times:
        time = RNG.exponential(1.0 + X[:, 0]).round(1) + 0.1
        y = pd.DataFrame({"time": time, "event": RNG.random(N) < 0.6})
        post = exact.solve(pt.TreeModel(X, y, leaf=pt.ExponentialGamma(), **PRIOR))
        y = y.to_numpy(dtype=float)
    weight = RNG.integers(0, 4, N)
    weighted = post.calibration(X, y, 3, sample_weight=weight).table()
    repeated = post.calibration(np.repeat(X, weight, axis=0), np.repeat(y, weight, axis=0), 3).table()
    pd.testing.assert_frame_equal(weighted, repeated)
    assert weighted.drop_duplicates("group")["rows"].sum() == weight.sum()
    doubled = post.calibration(X, y, 3, sample_weight=np.full(N, 2.0)).table()
    once = post.calibration(X, y, 3).table()
    assert doubled["events"].tolist() == (2 * once["events"]).tolist()
    assert (doubled["upper"] - doubled["lower"]).sum() < (once["upper"] - once["lower"]).sum()


@pytest.mark.more
def test_data_from_the_model_are_calibrated():
    """Held-out labels from the model add up to those expected, and the intervals hold the true fractions."""
    rng, counts, is_covered = np.random.default_rng(4), np.zeros(2), []
    for _ in range(40):
        blank = pt.TreeModel(X, Y, **PRIOR)
        number = pt.simulate(blank, rng=rng)[0].apply(X)
        p = rng.dirichlet(np.ones(3), number.max() + 1)[number]
        y, new = (np.array(["a", "b", "c"])[(rng.random((N, 1)) > p.cumsum(axis=1)).sum(axis=1)] for _ in range(2))
        if len(np.unique(y)) < 3:
            continue
        table = exact.solve(pt.TreeModel(X, y, leaf=pt.DirichletMultinomial(1.0), **PRIOR)).calibration(X, new, 3)
        truth = np.bincount(table.group, p[:, 2]) / np.bincount(table.group)
        counts += [table.event.sum(), table.expected_events.sum()]
        is_covered += ((table.lower[:, 0] <= truth) & (truth <= table.upper[:, 0])).tolist()
    assert counts[0] == pytest.approx(counts[1], rel=0.1)
    assert 0.8 < np.mean(is_covered) < 0.98


LEAVES_WITHOUT_DRAWS = {
    "frozen": (pt.FrozenLaplace(), {"estimation": np.arange(N) < 40}),
    "custom": (
        pt.CustomLeaf(
            lambda s, n: 0.0, classes=True, predict=lambda s: (s + 1.0) / (s + 1.0).sum(axis=1, keepdims=True)
        ),
        {},
    ),
}


@pytest.mark.parametrize("name", LEAVES_WITHOUT_DRAWS)
def test_leaves_without_draws_of_probabilities(name):
    leaf, arguments = LEAVES_WITHOUT_DRAWS[name]
    post = pt.posterior_from_trees(pt.TreeModel(X, Y, leaf=leaf, **arguments, **PRIOR), [TREE])
    table = post.calibration(X, Y, 2, label="no").table()
    # one tree, whose probabilities are fixed
    assert table["expected_lower"].tolist() == pytest.approx(table["expected"].tolist())
    assert table["expected_upper"].tolist() == pytest.approx(table["expected"].tolist())


def test_unknown_labels_and_numbers(truth):
    y = Y.copy()
    y[:5] = "other"
    assert truth.calibration(X, y, 1, label="no").table()["events"][0] == (y == "no").sum()
    flags = exact.solve(pt.TreeModel(X, Y == "yes", **PRIOR))
    table = flags.calibration(X, Y == "yes", 1).table()
    assert table["class"][0] == np.True_ and table["events"][0] == (Y == "yes").sum()


def test_refused(truth):
    with pytest.raises(ValueError, match=r"label='x' is not a class"):
        truth.calibration(X, Y, label="x")
    with pytest.raises(ValueError, match="times is given"):
        truth.calibration(X, Y, times=[1.0])
    with pytest.raises(ValueError, match="80 rows and y has 3"):
        truth.calibration(X, Y[:3])
    with pytest.raises(ValueError, match="sample_weight"):
        truth.calibration(X, Y, sample_weight=np.zeros(N))
    with pytest.raises(ValueError, match="no curves"):
        truth.calibration(X, Y).curve(0)
    with pytest.raises(ValueError, match="PacBayesLoss is a loss"):
        exact.solve(pt.TreeModel(X, Y, leaf=pt.PacBayesLoss(1.0), **PRIOR)).calibration(X, Y)
    with pytest.raises(ValueError, match="PoissonGamma is not a model of times to an event, nor of classes"):
        exact.solve(pt.TreeModel(X, X[:, 0], leaf=pt.PoissonGamma(), **PRIOR)).calibration(X, X[:, 0])


def test_pictures(truth):
    ax = pt.plots.plot_calibration(truth.calibration(X, Y, TREE))
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        f"x0 {side} 2.5 ({n} rows)" for side, n in (("<=", (X[:, 0] < 3).sum()), (">", (X[:, 0] > 2).sum()))
    ]
    assert ax.get_ylabel() == "observed fraction of 80 rows"
    assert pt.plots.plot_calibration(truth.calibration(X, Y, 20)).get_legend() is None
    with pytest.raises(TypeError, match=r"post\.calibration"):
        pt.plots.plot_calibration(truth)
