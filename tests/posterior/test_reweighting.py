"""Another prior on the same draws: against exact sums, refusals, planted bug."""

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.posterior import reweighting

N = 30
RNG = np.random.default_rng(5)
X = np.column_stack([RNG.integers(0, 4, N), RNG.integers(0, 3, N), np.ones(N)]).astype(float)
LABELS = np.where((X[:, 0] > 1) ^ (RNG.random(N) < 0.25), "yes", "no")
NUMBERS = X[:, 0] + RNG.normal(size=N)
VAGUE, STRICT = pt.ChipmanPrior(0.9, 0.5, max_depth=3), pt.ChipmanPrior(0.6, 1.5, max_depth=2)


def model_of(prior=VAGUE, y=LABELS, leaf=None, **more):
    leaf = pt.DirichletMultinomial(1.0) if leaf is None else leaf
    return pt.TreeModel(X, y, tree_prior=prior, leaf=leaf, **more)


def draws_of(model, n=8_000):
    return exact.solve(model).sample(n, rng=1)


@pytest.mark.tenth_a_day
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (model_of(), model_of(STRICT)),
        (model_of(), model_of(leaf=pt.DirichletMultinomial(0.5))),
        (model_of(), model_of(split_prior=pt.LocalCuts(feature_weights=[3.0, 1.0, 1.0]))),
        (
            model_of(y=NUMBERS, leaf=pt.NormalInverseGamma(k0=0.2, a0=2.0, b0=2.0, m0=0.0)),
            model_of(STRICT, NUMBERS, pt.NormalInverseGamma(k0=0.4, a0=2.5, b0=2.0, m0=0.5)),
        ),
    ],
    ids=["tree prior", "leaf", "split prior", "numbers"],
)
def test_reweighted_draws_are_those_of_the_other_model(old, new):
    post = draws_of(old)
    other, truth = post.reweight(new), exact.solve(new)
    info = other.reweighting
    assert 400.0 < info.ess <= 8_000.0 and other.model is new and other.tree_of_draw.shape == (1, 8_000)
    ratio = truth.log_evidence - exact.solve(old).log_evidence
    assert abs(info.log_evidence_ratio - ratio) < 4.0 * info.log_evidence_ratio_se < 0.2
    pmf, expected = other.n_leaves_pmf(), truth.n_leaves_pmf()
    size = max(len(pmf), len(expected))
    assert np.abs(np.pad(pmf, (0, size - len(pmf))) - np.pad(expected, (0, size - len(expected)))).max() < 0.04
    assert np.allclose(other._values(X[:8]), truth._values(X[:8]), atol=0.05)
    for t in range(min(other.n_distinct_trees, 5)):
        tree = other.distinct_tree(t)
        assert other.log_posterior_of_tree[t] == pytest.approx(new.log_posterior(tree))


def test_the_same_model_changes_nothing_but_the_order():
    post = draws_of(model_of(), 500)
    same = post.reweight(model_of(), rng=3)
    assert same.reweighting.ess == pytest.approx(500.0)
    assert same.reweighting.log_evidence_ratio == pytest.approx(0.0, abs=1e-9)
    assert same.reweighting.log_evidence_ratio_se == 0.0 and same.log_evidence is None
    assert np.allclose(same.n_leaves_pmf(), post.n_leaves_pmf())


def test_a_run_with_an_evidence_gives_that_of_the_other_model():
    post = pt.sample(model_of(), 400, rng=1, progress=False)
    other = post.reweight(model_of(STRICT))
    truth = exact.solve(model_of(STRICT)).log_evidence
    assert other.log_evidence == pytest.approx(truth, abs=max(4.0 * other.log_evidence_se, 0.02))


def test_every_answer_works_on_reweighted_draws(tmp_path):
    post = draws_of(model_of(), 1000).reweight(model_of(STRICT))
    assert post.summary().attrs["verdict"] and len(post.diagnosis) > 0
    assert post.consensus_tree().format() and post.credible_interval(X[:2]).shape == (2, 2, 2)
    post.save(tmp_path / "post.nc")
    assert np.array_equal(pt.load(tmp_path / "post.nc").predict_proba(X[:4]), post.predict_proba(X[:4]))


def test_missing_values_and_a_shared_variance():
    holes = np.where(np.arange(N)[:, None] % 7 == 0, np.nan, X[:, :1])
    models = [pt.TreeModel(holes, LABELS, tree_prior=prior, missing="branch") for prior in (VAGUE, STRICT)]
    other, truth = draws_of(models[0]).reweight(models[1]), exact.solve(models[1])
    assert np.allclose(other.predict_proba(holes[:8]), truth.predict_proba(holes[:8]), atol=0.05)
    leaf = pt.NormalSharedVariance(k0=0.2, a0=2.0, b0=2.0, m0=0.0)
    post = pt.sample(model_of(y=NUMBERS, leaf=leaf), 200, tune=50, chains=2, rng=1, kernel="grow-prune", progress=False)
    other = post.reweight(model_of(pt.ChipmanPrior(0.85, 0.6, max_depth=3), NUMBERS, leaf))
    assert np.isfinite(other.noise_variance).all() and set(other.noise_variance[0]) <= set(post.noise_variance.ravel())


@pytest.mark.planted
def test_equal_weights_are_noticed(monkeypatch):
    """Planted: draws that are resampled without their weights miss the sizes of the trees of the other model."""
    uniform = reweighting._systematic
    monkeypatch.setattr(reweighting, "_systematic", lambda p, rng: uniform(np.full(len(p), 1.0 / len(p)), rng))
    expected = exact.solve(model_of(STRICT)).n_leaves_pmf()
    pmf = draws_of(model_of()).reweight(model_of(pt.ChipmanPrior(0.6, 1.5, max_depth=3))).n_leaves_pmf()
    assert np.abs(pmf[: len(expected)] - expected[: len(pmf)]).max() > 0.08


def test_too_few_effective_draws_are_refused():
    post = draws_of(model_of(), 300)
    far = model_of(leaf=pt.DirichletMultinomial(40.0))
    with pytest.raises(ValueError, match=r"the effective size is [0-9.]+ of 300 draws, less than least_ess=299"):
        post.reweight(far, least_ess=299)
    stump = pt.posterior_from_trees(model_of(), [pt.Tree([0, -1, -1], [1.5, 0, 0], [1, 0, 0], [2, 0, 0])] * 5)
    never = model_of(split_prior=pt.LocalCuts(feature_weights=[0.0, 1.0, 1.0]))
    with pytest.raises(ValueError, match=r"the effective size is 0\.0 of 5 draws"):
        stump.reweight(never)


def test_other_data_are_refused():
    post = draws_of(model_of(), 200)
    for model, match in (
        (model_of(y=LABELS[::-1]), "differs in y"),
        (model_of(sample_weight=np.full(N, 2.0)), "differs in sample_weight"),
        (pt.TreeModel(X[:, :2], LABELS), "differs in its table"),
        (model_of(split_prior=pt.LocalCuts(feature_weights="dirichlet")), "feature weights are unknown"),
    ):
        with pytest.raises(ValueError, match=match):
            post.reweight(model)
    with pytest.raises(TypeError, match="model is"):
        post.reweight("strict")
    with pytest.raises(ValueError, match="least_ess=0"):
        post.reweight(model_of(), least_ess=0)
    shared = model_of(y=NUMBERS, leaf=pt.NormalSharedVariance())
    with pytest.raises(ValueError, match="share a variance"):
        draws_of(model_of(y=NUMBERS, leaf=pt.NormalInverseGamma()), 200).reweight(shared)
