"""A leaf of one's own answers what the library's leaf of the same formula answers, and a wrong one is found out."""

import copy
import math
import pickle

import numpy as np
import pytest
from scipy import special

import exact
import pactree_mcmc as pt
from pactree_mcmc.core.compile import address
from pactree_mcmc.model.leaf import base
from tests.problems.leaves import own_classes, own_poisson

RNG = np.random.default_rng(1)
N = 40
X = RNG.integers(6, size=(N, 2)).astype(float)
COUNTS = RNG.poisson(2.0 + 4.0 * (X[:, 0] > 2)).astype(float)
LABELS = np.where(RNG.random(N) < 0.2 + 0.6 * (X[:, 0] > 2), "yes", "no")
OWN, THEIRS = own_poisson(1.3, 0.6), pt.PoissonGamma(1.3, 0.6)
RUN = {"draws": 200, "tune": 20, "chains": 2, "rng": 1, "progress": False}


def both(**more):
    return pt.TreeModel(X, COUNTS, leaf=OWN, **more), pt.TreeModel(X, COUNTS, leaf=THEIRS, **more)


@pytest.fixture(scope="module")
def sampled():
    return [pt.sample(model, kernel="grow-prune", **RUN) for model in both()]


def test_exact_engine_agrees_to_the_last_bit():
    for own, theirs in (both(), both(sample_weight=np.arange(N) % 3.0)):
        own, theirs = exact.solve(own), exact.solve(theirs)
        assert own.log_evidence == theirs.log_evidence
        assert np.array_equal(own.predict(X), theirs.predict(X))
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
        with pytest.raises(ValueError, match="a file holds no code"):
            pt.load(path)
        loaded = pt.load(path, leaf=own_poisson(1.3, 0.6))
        assert np.array_equal(loaded.predict_interval(X), post.predict_interval(X))
        more = pt.resume(path, 50, leaf=OWN, progress=False)
        assert np.array_equal(more.log_score[:, :200], post.log_score)
        assert more.n_draws == 250

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
        with pytest.raises(ValueError, match=message):
            pt.load(path, leaf=leaf)


class TestElsewhere:
    def test_a_pickled_model_has_no_address(self):
        model = both()[0]
        truth = exact.solve(model).log_evidence
        assert "lowered" in vars(model)
        unpickled = pickle.loads(pickle.dumps(model))
        assert "lowered" not in vars(unpickled)
        assert exact.solve(unpickled).log_evidence == truth
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
        with pytest.raises(ValueError, match=rf"give CustomLeaf\({argument}=...\)"):
            ask(bare)


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


RNG = np.random.default_rng(5)


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
        with pytest.raises(ValueError, match=message):
            leaf.check(LABELS if leaf.is_classifier else COUNTS)

    def test_a_right_one_passes(self):
        OWN.check(COUNTS)
        of_times(cdf=lomax, variance=lambda sums: sums[:, 0]).check(RNG.exponential(size=50))
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
        with pytest.raises(ValueError, match="both must be the same function"):
            OWN.check(COUNTS)
        with pytest.raises(ValueError, match="both must be the same function"):
            pt.TreeModel(X, COUNTS, leaf=OWN)


@pytest.mark.parametrize(
    ("call", "message"),
    [
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
    ],
)
def test_what_cannot_be_used_is_refused(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()
