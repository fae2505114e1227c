"""The predictive distribution of sampled trees against scores, a plain mixture and draws; calibration of classes."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy import stats as distributions

import exact
import pactree_mcmc as pt
from pactree_mcmc.model.leaf.distributions import NegativeBinomial, StudentT
from pactree_mcmc.posterior.rows import predictions
from pactree_mcmc.posterior.rows.predictions import law_of_new_y, mean_and_std_of_new_y
from tests.problems.models import cdf as mixture_cdf
from tests.problems.refusals import refuses

LEAVES = [
    pt.NormalInverseGamma(m0=0.3, k0=0.5, a0=2.0, b0=1.5),
    pt.NormalSharedVariance(m0=0.3, k0=0.5, a0=2.0, b0=1.5),
    pt.NormalKnownVariance(sigma2=0.7, m0=0.3, k0=0.5),
]
COUNTS = pt.PoissonGamma(shape=2.0, rate=1.5)
NUMBERS = [*LEAVES, COUNTS]
QUICK = {"kernel": "grow-prune", "progress": False}
N = 80
RNG = np.random.default_rng(5)
PRIOR = {"tree_prior": pt.ChipmanPrior(0.9, 1.0, max_depth=2)}
TREE = pt.Tree([0, -1, -1], [2.5, 0, 0], [1, 0, 0], [2, 0, 0])
LEAVES_WITHOUT_DRAWS = {
    "frozen": (pt.FrozenLaplace(), {"estimation": np.arange(N) < 40}),
    "custom": (
        pt.CustomLeaf(
            lambda s, n: 0.0, classes=True, predict=lambda s: (s + 1.0) / (s + 1.0).sum(axis=1, keepdims=True)
        ),
        {},
    ),
}


def named(leaf):
    return type(leaf).__name__


def sampled(leaf, weighted=False):
    rng = np.random.default_rng(3)
    X = rng.random((60, 2))
    y = np.where(X[:, 0] > 0.5, 2.0, -1.0) + rng.normal(size=60)
    y = rng.poisson(np.exp(y / 2.0)) if isinstance(leaf, pt.PoissonGamma) else y
    model = pt.TreeModel(X, y, leaf=leaf, sample_weight=rng.integers(1, 3, 60) if weighted else None)
    return pt.sample(model, 40, tune=20, chains=2, rng=1, **QUICK), rng.random((7, 2))


def frozen_scipy(distribution):
    """The distributions of a table as scipy has them."""
    if isinstance(distribution, NegativeBinomial):
        shape, rate = distribution.parameters
        return distributions.nbinom(shape, rate / (rate + 1.0))
    return distributions.t(*distribution.parameters)


def by_tree(post, X):
    """The weight of each tree drawn, and the distributions, as scipy has them, of the leaves that rows reach in it."""
    distribution = law_of_new_y(post._rows)
    for t, weight in enumerate(post.draws.weight_of_tree):
        yield (
            weight,
            frozen_scipy(distribution.take(post.draws.distinct_trees.offset[t] + post.draws.distinct_tree(t).apply(X))),
        )


@pytest.mark.more(everyday=["NormalSharedVariance-False"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("leaf", NUMBERS, ids=named)
def test_density_is_what_one_more_row_adds_to_the_score(leaf, weighted):
    post, _ = sampled(leaf, weighted)
    target, distribution = post.model.target, law_of_new_y(post._rows)
    counts = isinstance(leaf, pt.PoissonGamma)
    for t in range(min(post.draws.n_distinct_trees, 20)):
        nodes = np.arange(post.draws.distinct_trees.offset[t], post.draws.distinct_trees.offset[t + 1])
        leaves = nodes[post.draws.distinct_trees.feature[nodes] < 0]
        for i, node in enumerate(leaves):
            for y in (0.0, 1.0, 6.0) if counts else (-2.0, 0.1, 5.0):
                away = y - target.center
                more = post.draws.place_stats[leaves].copy()
                more[i] += [1.0, y, -math.lgamma(y + 1.0)] if counts else [1.0, away, away**2]
                added = leaf.log_tree_score(more, target) - leaf.log_tree_score(post.draws.place_stats[leaves], target)
                of_leaf = frozen_scipy(distribution.take(node))
                log_density = of_leaf.logpmf(y) if counts else of_leaf.logpdf(y)
                assert log_density == pytest.approx(added, abs=1e-8)


@pytest.mark.more(everyday=["NormalInverseGamma"])
@pytest.mark.parametrize("leaf", NUMBERS, ids=named)
def test_mixture_is_that_of_the_trees(leaf):
    post, X = sampled(leaf)
    mean, mean_square, cdf = np.zeros(7), np.zeros(7), np.zeros(7)
    for weight, distribution in by_tree(post, X):
        mean += weight * distribution.mean()
        mean_square += weight * (distribution.var() + distribution.mean() ** 2)
        cdf += weight * distribution.cdf(0.4)
    own_mean, own_std = mean_and_std_of_new_y(post._rows, X)
    assert np.allclose(own_mean, mean) and np.allclose(own_mean, post.predict(X))
    assert np.allclose(own_std**2, mean_square - mean**2)
    assert np.allclose(post.predict_std_new_y(X) ** 2, mean_square - mean**2)
    assert np.allclose(mixture_cdf(post, X, np.full(7, 0.4)), cdf)


@pytest.mark.parametrize("leaf", LEAVES, ids=named)
def test_quantiles_invert_the_distribution(leaf):
    post, X = sampled(leaf)
    q = [1e-6, 0.01, 0.5, 0.9, 1.0 - 1e-6]
    quantiles = post.predict_quantiles(X, q)
    assert np.all(np.diff(quantiles, axis=1) > 0.0)
    for j, fraction in enumerate(q):
        assert np.allclose(mixture_cdf(post, X, quantiles[:, j]), fraction, rtol=1e-6, atol=1e-9)


def test_large_counts():
    """Rates of 1e9 and of 1e-9, and a tail that leaves the whole numbers of float64."""
    x = np.repeat([0.0, 1.0], 20)
    post = pt.sample(pt.TreeModel(x[:, None], x * 1e9, leaf=pt.PoissonGamma()), 20, tune=20, chains=1, rng=0, **QUICK)
    q = post.predict_quantiles([[0.0], [1.0]], [0.05, 0.5, 0.95])
    assert q[0].tolist() == [0.0, 0.0, 0.0] and np.all(np.abs(q[1] - 1e9) < 4e5) and np.all(np.diff(q[1]))
    wild = pt.TreeModel([[0.0], [1.0]], [0, 0], leaf=pt.PoissonGamma(1e-3, 1e-12))
    post = pt.sample(wild, 4, tune=4, chains=1, rng=0, **QUICK)
    assert np.isfinite(post.predict_quantiles([[0.0]], [1e-9, 1.0 - 1e-9])).all()


def test_infinite_variance(monkeypatch):
    post, X = sampled(pt.NormalInverseGamma(a0=1e-3, b0=1.0))
    df, location, scale = law_of_new_y(post._rows).parameters
    law = StudentT(np.full_like(df, 1.5), location, scale)
    monkeypatch.setattr(predictions, "law_of_new_y", lambda rows: law)
    assert np.all(np.isinf(post.predict_std_new_y(X)))
    law.parameters[0][post.draws.distinct_trees.feature < 0] = 5.0
    assert np.all(np.isfinite(post.predict_std_new_y(X)))


class TestDraws:
    @pytest.mark.more
    @pytest.mark.parametrize("leaf", NUMBERS, ids=named)
    def test_follow_the_mixture(self, leaf):
        """Counts in bins of equal probability; the chance of a false alarm is 1e-5 a row."""
        post, X = sampled(leaf)
        draws = post.sample_predictive(X, 3000, rng=4)
        assert draws.shape == (3000, 7)
        edges = post.predict_quantiles(X, np.arange(1, 10) / 10)
        for i in range(len(X)):
            ends = np.unique(edges[i])
            below = np.array([mixture_cdf(post, X[[i]], np.array([e]))[0] for e in ends])
            expected = np.diff(np.concatenate([[0.0], below, [1.0]]))
            place = np.searchsorted(ends, draws[:, i])
            is_common = expected > 1e-3
            frequency = np.bincount(place, minlength=len(expected))[is_common]
            expected = expected[is_common] / expected[is_common].sum() * frequency.sum()
            assert distributions.chisquare(frequency, expected).pvalue > 1e-5

    @pytest.mark.more
    @pytest.mark.parametrize("leaf", [pt.DirichletMultinomial([0.5, 1.0, 2.0]), pt.FrozenLaplace(2.0)], ids=named)
    def test_labels_follow_their_probabilities(self, leaf):
        rng = np.random.default_rng(0)
        X, y = rng.random((60, 2)), np.array(["a", "b", "c"])[rng.integers(0, 3, 60)]
        mask = np.arange(60) % 2 == 0 if leaf.uses_estimation else None
        post = pt.sample(pt.TreeModel(X, y, leaf=leaf, estimation=mask), 20, tune=20, chains=2, rng=1, **QUICK)
        draws = post.sample_predictive(X[:5], 4000, rng=3)
        for j, label in enumerate("abc"):
            p = post.predict_proba(X[:5])[:, j]
            assert np.all(np.abs((draws == label).mean(axis=0) - p) < 5.0 * np.sqrt(p * (1.0 - p) / 4000))

    @pytest.mark.more
    def test_rows_of_a_draw_have_their_joint_distribution(self):
        """Two rows in one leaf share its mean: the variance of their difference is that of the noise alone."""
        y = np.array([0.0, 3.0, -2.0, 4.0])
        prior = pt.ChipmanPrior(0.5, 1.0, max_depth=0)
        model = pt.TreeModel(np.zeros((4, 1)), y, tree_prior=prior, leaf=pt.NormalKnownVariance(1.0, 0.0, 0.01))
        draws = pt.sample(model, 5, tune=0, chains=1, rng=0, **QUICK).sample_predictive(np.zeros((2, 1)), 20000, rng=2)
        mean_variance = 1.0 / 4.01
        assert np.var(draws[:, 0] - draws[:, 1]) == pytest.approx(2.0, rel=0.06)
        assert np.var(draws.sum(axis=1)) == pytest.approx(2.0 + 4.0 * mean_variance, rel=0.06)


class TestHostile:
    def test_classes(self):
        x = np.arange(20.0)[:, None]
        post = pt.sample(pt.TreeModel(x, np.arange(20) % 3), 4, tune=0, chains=1, rng=0, **QUICK)
        for ask in (post.predict_interval, post.predict_std_new_y, lambda X: post.predict_quantiles(X, 0.5)):
            with pytest.raises(
                ValueError, match=r"leaf of classes.*predict_proba gives.*sample_predictive draws labels"
            ):
                ask(x)
        loss = pt.sample(
            pt.TreeModel(x, np.arange(20) % 3, leaf=pt.PacBayesLoss(1.0)), 4, tune=0, chains=1, rng=0, **QUICK
        )
        refuses("PacBayesLoss is a loss, not a model of y", lambda: loss.sample_predictive(x))
        refuses("PacBayesLoss is a loss, not a model of y", lambda: loss.to_arviz(posterior_predictive=True))


X = np.column_stack([RNG.integers(0, 5, N), RNG.integers(0, 4, N)]).astype(float)
Y = np.where(RNG.random(N) < np.where(X[:, 0] > 2, 0.8, 0.3), "yes", np.where(X[:, 1] > 1, "no", "maybe"))


@pytest.fixture(scope="module")
def truth():
    return exact.solve(pt.TreeModel(X, Y, **PRIOR))


@pytest.mark.parametrize("label", [None, "no"])
def test_table_counts_rows_and_labels(truth, label):
    name = "yes" if label is None else label
    calibration = truth.calibration(X, Y, 3, label=label)
    table, probability = calibration.table(), truth.predict_proba(X)[:, list(truth.model.classes_).index(name)]
    assert set(table["class"]) == {name} and calibration.quantity == f"P({name})"
    assert table["group"].str.startswith(f"P({name}) ").all() and table["rows"].sum() == N and len(table) == 3
    for g, line in table.iterrows():
        here = calibration.group == g
        n, k = here.sum(), (Y[here] == name).sum()
        assert (line["rows"], line["events"]) == (n, k) and line["observed"] == pytest.approx(k / n)
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
    assert counts[0] == pytest.approx(counts[1], rel=0.1) and 0.8 < np.mean(is_covered) < 0.98


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
    refuses(r"label='x' is not a class", lambda: truth.calibration(X, Y, label="x"))
    refuses("times is given", lambda: truth.calibration(X, Y, times=[1.0]))
    refuses("80 rows and y has 3", lambda: truth.calibration(X, Y[:3]))
    refuses("sample_weight", lambda: truth.calibration(X, Y, sample_weight=np.zeros(N)))
    refuses("no curves", lambda: truth.calibration(X, Y).curve(0))
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
    refuses(r"post\.calibration", lambda: pt.plots.plot_calibration(truth), TypeError)
