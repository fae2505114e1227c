"""Leaves of one's own, and those of examples/leaves.py: they answer as the library's, wrong ones are found out."""

import copy
import importlib
import math
import pickle

import numpy as np
import pytest
from scipy import integrate, special, stats

import exact
import pactree_mcmc as pt
from pactree_mcmc.core.compile import address
from pactree_mcmc.model.leaf import base
from tests import ROOT
from tests.problems.leaves import own_classes, own_poisson
from tests.problems.refusals import refuses

RNG = np.random.default_rng(1)
N = 40
X = RNG.integers(6, size=(N, 2)).astype(float)
COUNTS = RNG.poisson(2.0 + 4.0 * (X[:, 0] > 2)).astype(float)
LABELS = np.where(RNG.random(N) < 0.2 + 0.6 * (X[:, 0] > 2), "yes", "no")
OWN, THEIRS = own_poisson(1.3, 0.6), pt.PoissonGamma(1.3, 0.6)
RUN = {"draws": 200, "tune": 20, "chains": 2, "rng": 1, "progress": False}
UNUSABLE = [
    (lambda: pt.CustomLeaf(3, stats=np.atleast_2d), "score is"),
    (lambda: pt.CustomLeaf(good), "stats is missing"),
    (lambda: pt.CustomLeaf(good, stats=3), "stats is"),
    (lambda: pt.CustomLeaf(good, stats=len, classes=True), "with classes=True"),
    (lambda: leaf_of(good, params=["a"]), "params"),
    (lambda: leaf_of(good, params=[np.inf]), "params is"),
    (lambda: leaf_of(good, y_columns=0), "y_columns"),
    (lambda: leaf_of(good, x_columns="x0"), "x_columns is"),
    (lambda: leaf_of(good, x_columns=[0, 0]), "x_columns is"),
    (lambda: leaf_of(good, name=3), "name is"),
    (lambda: leaf_of(good, params=[1.0]), "score takes no params"),
    (lambda: leaf_of(lambda s, n, p: -s[0]), "give params="),
    (lambda: leaf_of(lambda s: -s[0]), "score is called as"),
    (lambda: leaf_of(good, predict=lambda sums, p: sums), r"predict is called as predict\(stats\)"),
    (lambda: leaf_of(good, x_columns=[0]), r"stats is called as stats\(y, X\)"),
    (lambda: pt.TreeModel(X, COUNTS, leaf=leaf_of(good, y_columns=2)), "needs 2 columns"),
    (lambda: pt.TreeModel(X, np.column_stack([COUNTS, COUNTS]), leaf=OWN), "give one value a row"),
    (lambda: pt.TreeModel(X, COUNTS, leaf=leaf_of(good, stats=lambda y, X: X, x_columns=[7])), "is not a column"),
    (lambda: pt.resume(3, leaf=OWN), "leaf= is for the path"),
]
TIMES_RNG = np.random.default_rng(5)
N_EXAMPLE = 24
EXAMPLE_RNG = np.random.default_rng(8)
EXAMPLE_X = np.column_stack([np.arange(N_EXAMPLE) % 4, np.arange(N_EXAMPLE) % 3]).astype(float)
ORDER = ["low", "mid", "high", "top"]
AMOUNTS, EXAMPLE_COUNTS = (
    EXAMPLE_RNG.exponential(2.0, N_EXAMPLE) + 0.05,
    EXAMPLE_RNG.poisson(3.0, N_EXAMPLE).astype(float),
)
GRADES = np.array(ORDER)[np.clip((EXAMPLE_X[:, 0] + EXAMPLE_RNG.normal(size=N_EXAMPLE)).round().astype(int), 0, 3)]
LEAVES = {
    "amounts": ((2.0, 2.5, 3.0), AMOUNTS),
    "spread_counts": ((1.5, 2.5, 3.0), EXAMPLE_COUNTS),
    "successes": (
        (1.2, 0.7),
        np.column_stack([EXAMPLE_RNG.integers(0, 5, N_EXAMPLE), np.full(N_EXAMPLE, 5)]).astype(float),
    ),
    "ordered_classes": ((ORDER, 1.7), GRADES),
}
PRIORS = {
    "amounts": (stats.gamma(2.5, scale=1.0 / 3.0), 30.0),
    "spread_counts": (stats.beta(2.5, 3.0), 1.0),
    "successes": (stats.beta(1.2, 0.7), 1.0),
}


def both(**more):
    return pt.TreeModel(X, COUNTS, leaf=OWN, **more), pt.TreeModel(X, COUNTS, leaf=THEIRS, **more)


@pytest.fixture(scope="module")
def sampled():
    return [pt.sample(model, kernel="grow-prune", **RUN) for model in both()]


def test_exact_engine_agrees_to_the_last_bit():
    for own, theirs in (both(), both(sample_weight=np.arange(N) % 3.0)):
        own, theirs = exact.solve(own), exact.solve(theirs)
        assert own.log_evidence == theirs.log_evidence and np.array_equal(own.predict(X), theirs.predict(X))
        assert np.array_equal(own.predict_interval(X), theirs.predict_interval(X))


def test_draws_agree_to_the_last_bit(sampled):
    own, theirs = sampled
    assert np.array_equal(own.log_score, theirs.log_score)
    assert np.array_equal(own.draws.tree_of_draw, theirs.draws.tree_of_draw)
    for ask in ("predict", "predict_interval", "predict_std_new_y", "predict_std_over_trees"):
        assert np.array_equal(getattr(own, ask)(X), getattr(theirs, ask)(X)), ask
    assert np.array_equal(own.sample_predictive(X, 20, rng=3), theirs.sample_predictive(X, 20, rng=3))


def test_progressive_mixture_is_that_of_the_same_formula():
    own, theirs = (exact.progressive_mixture(model) for model in both())
    assert own.stage_log_evidence == pytest.approx(theirs.stage_log_evidence, abs=1e-10)
    assert own.predict(X) == pytest.approx(theirs.predict(X), abs=1e-10)


class TestFiles:
    @pytest.mark.more
    def test_a_file_needs_the_leaf_and_gives_the_same_posterior(self, sampled, tmp_path):
        path, post = tmp_path / "run.nc", sampled[0]
        post.save(path)
        refuses("a file holds no code", lambda: pt.load(path))
        loaded = pt.load(path, leaf=own_poisson(1.3, 0.6))
        assert np.array_equal(loaded.predict_interval(X), post.predict_interval(X))
        more = pt.resume(path, 50, leaf=OWN, progress=False)
        assert np.array_equal(more.log_score[:, :200], post.log_score) and more.n_draws == 250

    @pytest.mark.more(everyday=["leaf0-its params are"])
    @pytest.mark.parametrize(
        ("leaf", "message"),
        [
            (own_poisson(1.3, 0.7), "its params are"),
            (pt.CustomLeaf(lambda s, n: 0.0, stats=lambda y: y[:, None], name="poisson_score"), "its params are"),
            (own_classes(), "its name is"),
            (own_classes(name="poisson_score"), "its classes is"),
        ],
    )
    def test_another_leaf_is_refused(self, sampled, tmp_path, leaf, message):
        path = tmp_path / "run.nc"
        sampled[0].save(path)
        refuses(message, lambda: pt.load(path, leaf=leaf))


class TestElsewhere:
    def test_a_pickled_model_has_no_address(self):
        model = both()[0]
        truth = exact.solve(model).log_evidence
        assert "lowered" in vars(model)
        unpickled = pickle.loads(pickle.dumps(model))
        assert "lowered" not in vars(unpickled) and exact.solve(unpickled).log_evidence == truth
        assert copy.deepcopy(model.leaf) is model.leaf
        twice = pickle.dumps(model.leaf)
        assert pickle.loads(twice) is pickle.loads(twice)


@pytest.fixture(scope="module")
def bare():
    leaf = pt.CustomLeaf(
        lambda s, n: math.lgamma(1.3 + s[0]) - math.lgamma(1.3) - s[0] - s[1],
        stats=lambda y: np.column_stack([y, special.gammaln(y + 1.0)]),
        name="bare",
    )
    return pt.sample(pt.TreeModel(X, COUNTS, leaf=leaf), kernel="grow-prune", **RUN)


class TestWhatIsMissing:
    @pytest.mark.more(everyday=["<lambda>-predict0"])
    @pytest.mark.parametrize(
        ("ask", "argument"),
        [
            (lambda post: post.predict(X), "predict"),
            (lambda post: post.predict_interval(X), "cdf"),
            (lambda post: post.predict_std_new_y(X), "predict"),
            (lambda post: post.sample_predictive(X), "draw"),
            (lambda post: pt.simulate(post.model), "draw"),
        ],
    )
    def test_it_is_named(self, bare, ask, argument):
        refuses(rf"give CustomLeaf\({argument}=...\)", lambda: ask(bare))


def leaf_of(score, stats=lambda y: y[:, None], **more):
    return pt.CustomLeaf(score, stats=stats, **more)


def good(s, n):
    return -0.5 * s[0] * s[0]


def times(s, n):
    """Exponential times, rate ~ Gamma(1, 1); how many, and their sum."""
    return math.lgamma(1.0 + s[0]) - (1.0 + s[0]) * math.log(1.0 + s[1])


def lomax(sums, y):
    return 1.0 - (1.0 + np.maximum(y, 0.0) / (1.0 + sums[:, 1])) ** -(1.0 + sums[:, 0])


def failures(s, n):
    """Failures before a success, its probability ~ Beta(1, 1)."""
    return math.lgamma(1.0 + s[0]) + math.lgamma(1.0 + s[1]) - math.lgamma(2.0 + s[0] + s[1])


def geometric_cdf(sums, y):
    """More than y failures: one for each of y + 1 trials."""
    a, b = 1.0 + sums[:, 0], 1.0 + sums[:, 1]
    return 1.0 - np.exp(special.betaln(a, b + np.floor(y) + 1.0) - special.betaln(a, b))


def pairs(y):
    return np.column_stack([np.ones_like(y), y])


def of_times(**more):
    return pt.CustomLeaf(times, stats=pairs, **more)


def of_counts(**more):
    return pt.CustomLeaf(failures, stats=pairs, **more)


class TestCheck:
    @pytest.mark.parametrize(
        ("leaf", "message"),
        [
            (leaf_of(good, stats=lambda y: y[:, None] - y.mean()), "not additive"),
            (leaf_of(good, stats=lambda y: np.cumsum(y)[:, None]), "not additive"),
            (leaf_of(good, stats=lambda y: y), "returned shape"),
            (leaf_of(good, stats=lambda y: y[:, None] * np.nan), "finite numbers"),
            (leaf_of(lambda s, n: 1.0 - s[0]), "must be 0"),
            (leaf_of(lambda s, n: math.log(s[0] - 3.0) if s[0] > 0.0 else 0.0), "must be finite"),
            (leaf_of(good, log_score=lambda s: -0.5 * s[0] ** 2 - 1e-3 * s[0]), "both must be the same function"),
            (leaf_of(good, log_density=lambda sums, y: -y), "by the score it is"),
            (leaf_of(good, cdf=lambda sums, y: 1.0 / (1.0 + y)), "falls, or leaves"),
            (own_classes(predict=lambda sums: sums), "sum to one"),
            (leaf_of(good, predict=lambda sums: sums[:0, 0]), "predict= of .* returned shape"),
            (leaf_of(good, variance=lambda sums: -sums[:, 0]), "a variance is at least 0"),
            (of_times(cdf=lambda sums, y: 1.0 - np.exp(-y)), "by the score it is"),
            (of_times(cdf=lambda sums, y: lomax(sums, y) ** 1.001), "by the score it is"),
            (of_counts(cdf=lambda sums, y: lomax(sums, y)), "by the score it is"),
        ],
    )
    def test_what_is_wrong_is_said(self, leaf, message):
        refuses(message, lambda: leaf.check(LABELS if leaf.is_classifier else COUNTS))

    def test_a_right_one_passes(self):
        OWN.check(COUNTS)
        of_times(cdf=lomax, variance=lambda sums: sums[:, 0]).check(TIMES_RNG.exponential(size=50))
        # integers that are times, and numbers that are counts
        of_times(cdf=lomax).check(COUNTS)
        of_counts(cdf=geometric_cdf).check(COUNTS)
        of_counts(cdf=geometric_cdf, whole=True).check(COUNTS)
        leaf_of(good).check(COUNTS, cells=20, rng=3)

    @pytest.mark.planted
    def test_the_score_of_another_address_is_seen(self, monkeypatch):
        def other(s, n, params):
            return -0.1 * s[0]

        def wrong(function, with_params):
            return address.address_of(other, with_params)

        monkeypatch.setattr(base, "address_of", wrong)
        refuses("both must be the same function", lambda: OWN.check(COUNTS))
        refuses("both must be the same function", lambda: pt.TreeModel(X, COUNTS, leaf=OWN))


@pytest.mark.parametrize(("call", "message"), UNUSABLE)
def test_what_cannot_be_used_is_refused(call, message):
    refuses(message, call, (ValueError, TypeError))


assert len(set(GRADES)) == 4


@pytest.fixture(scope="module")
def examples():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "examples"))
        return importlib.import_module("leaves")


def example_of(examples, name):
    return getattr(examples, name)(*LEAVES[name][0])


def log_likelihood(name, p, y):
    if name == "amounts":
        return stats.gamma.logpdf(y, 2.0, scale=1.0 / p).sum()
    return (stats.nbinom.logpmf(y, 1.5, p) if name == "spread_counts" else stats.binom.logpmf(*y.T, p)).sum()


@pytest.mark.parametrize("name", LEAVES)
def test_the_checks_pass(examples, name):
    leaf, y = example_of(examples, name), LEAVES[name][1]
    report = pt.testing.check_leaf(leaf, y)
    assert report.max_difference < 1e-9 and {"value", "log_density", "draw"} <= set(report.offered)
    assert ("cdf" in report.offered) == (name == "amounts")


@pytest.mark.parametrize("name", PRIORS)
def test_the_score_is_the_integral_of_the_likelihood(examples, name):
    leaf, y, (prior, end) = example_of(examples, name), LEAVES[name][1], PRIORS[name]
    model = pt.TreeModel(EXAMPLE_X, y, leaf=leaf)
    own = leaf.row_stats(model.target)
    for rows in ([0], [1, 2, 3], list(range(6))):

        def density(p, rows=rows):
            return prior.pdf(p) * math.exp(log_likelihood(name, p, y[rows]))

        expected = integrate.quad(density, 0.0, end, limit=500, epsabs=0.0, epsrel=1e-10)[0]
        assert leaf.log_score(own[rows].sum(axis=0), model.target) == pytest.approx(math.log(expected), abs=1e-7)


def test_the_score_of_ordered_classes_is_the_product_of_predictions_row_after_row(examples):
    leaf = example_of(examples, "ordered_classes")
    model = pt.TreeModel(EXAMPLE_X, GRADES, leaf=leaf)
    own, labels, stats_, score = leaf.row_stats(model.target), model.classes_.tolist(), np.zeros((1, 4)), 0.0
    for i in EXAMPLE_RNG.permutation(N_EXAMPLE):
        # the beta posterior of each step, in plain words
        in_order = [stats_[0, labels.index(label)] for label in ORDER]
        reached, chance = 1.0, {}
        for j, label in enumerate(ORDER):
            stop = (1.7 / (4 - j) + in_order[j]) / (1.7 + sum(in_order[j:])) if j < 3 else 1.0
            chance[label] = reached * stop
            reached *= 1.0 - stop
        assert leaf.value(stats_, model.target)[0].tolist() == pytest.approx([chance[label] for label in labels])
        score += np.log(chance[GRADES[i]])
        stats_ += own[i]
        assert leaf.log_score(stats_[0], model.target) == pytest.approx(score, abs=1e-9)


@pytest.mark.parametrize("name", LEAVES)
def test_draws_have_the_mean_that_is_predicted(examples, name):
    leaf, rng = example_of(examples, name), np.random.default_rng(3)
    target = pt.TreeModel(EXAMPLE_X, LEAVES[name][1], leaf=leaf).target
    sums = np.tile(leaf.row_stats(target).sum(axis=0), (20_000, 1))
    value = leaf.value(sums[:1], target)[0]
    means = leaf.draw_expectation(rng, sums, np.arange(20_000), target)
    assert means.mean(axis=0) == pytest.approx(value, abs=0.03)
    y = leaf.draw(rng, sums, np.arange(20_000), target)
    y = np.eye(4)[y] if leaf.is_classifier else y.reshape(20_000, -1)[:, :1]
    assert y.mean(axis=0) == pytest.approx(value, abs=0.1)
