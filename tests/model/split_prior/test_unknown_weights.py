"""Models whose feature weights are unknown: runs against exact answers over a grid of weights, priors, refusals."""

import warnings

import numpy as np
import pytest
from scipy.stats import beta

import exact
import pactree_mcmc as pt
from pactree_mcmc.model.plain import draw_prior, log_marginal_prior
from pactree_mcmc.posterior.convergence import check_convergence
from pactree_mcmc.posterior.ess import autocorrelation_times

RNG = np.random.default_rng(5)
N = 36
TABLE = np.column_stack([RNG.integers(0, 2, N), RNG.integers(0, 3, N), RNG.integers(0, 2, N)]).astype(float)
Y = TABLE[:, 0] * 0.8 + 0.6 * (TABLE[:, 1] == 1.0) + RNG.normal(size=N)
GAPS = RNG.random((N, 3)) < 0.15
GAPS[:, 1] = False
A = 1.5
"""Concentration."""
PRIOR = pt.ChipmanPrior(0.9, 0.6, max_depth=3)


def model_of(weights, p=3, kind="local", **rest):
    """A model of the first columns: binary, nominal, binary, so that most cells below the root lack some feature."""
    split = {
        "local": pt.LocalCuts(min_leaf=2, feature_weights=weights),
        "gaps": pt.LocalCuts(min_leaf=3, feature_weights=weights),
        "grid": pt.GridCuts([[0.5], None, [0.5]][:p], feature_weights=weights),
        "dyadic": pt.DyadicCuts(1, bounds=[(0.0, 1.0), (0.0, 2.0), (0.0, 1.0)][:p], feature_weights=weights),
    }[kind]
    nominal = [] if kind == "dyadic" else [1]
    rest |= {"missing": "branch"} if kind == "gaps" else {}
    rest = {"tree_prior": PRIOR, "leaf": pt.NormalInverseGamma(0.5, 0.2, 2.0, 1.0)} | rest
    table = np.where(GAPS[:, :p], np.nan, TABLE[:, :p]) if kind == "gaps" else TABLE[:, :p]
    return pt.TreeModel(table, Y, split_prior=split, nominal=nominal, **rest)


def points(p, m):
    """Weights (m ** (p - 1), p) that are equally likely under Dirichlet(A / p, ...)."""
    middle = (np.arange(m) + 0.5) / m
    if p == 2:
        x = beta.ppf(middle, A / 2, A / 2)
        return np.column_stack([x, 1.0 - x])
    x, y = (part.ravel() for part in np.meshgrid(beta.ppf(middle, A / 3, 2 * A / 3), beta.ppf(middle, A / 3, A / 3)))
    return np.column_stack([x, (1.0 - x) * y, (1.0 - x) * (1.0 - y)])


def exact_answers(p, kind):
    """Log evidence, and means of: root features, inclusion, weights and their squares; weights integrated out."""
    weights = np.maximum(points(p, 120 if p == 2 else 26), 1e-90)
    truths = [exact.solve(model_of(w, p, kind)) for w in weights]
    log_z = np.array([truth.log_evidence for truth in truths])
    posterior = np.exp(log_z - log_z.max())
    roots = np.array([roots_of(truth._root_split_pmf(), p) for truth in truths])
    result = np.column_stack([roots, [truth._feature_inclusion() for truth in truths], weights, weights**2])
    return log_z.max() + np.log(posterior.mean()), posterior @ result / posterior.sum()


def roots_of(pmf, p):
    out = np.zeros(p)
    for key, probability in pmf.items():
        if key is not None:
            out[key[0]] += probability
    return out


def traces(post, p):
    """The same by draw, (q, chains, draws)."""
    roots, is_split_on = post.root_feature[..., None] == np.arange(p), post.split_counts > 0
    weights = post.feature_weights
    return np.moveaxis(np.concatenate([roots, is_split_on, weights, weights**2], axis=-1).astype(float), -1, 0)


def far(found, expected, extra=0.0):
    """Return the errors of means (q, chains, draws) in standard errors."""
    times = autocorrelation_times(found)
    error = np.sqrt(found.var(axis=(1, 2)) * times / found[0].size + extra**2)
    return np.abs(found.mean(axis=(1, 2)) - expected) / np.maximum(error, 2e-4)


def sampled(model, draws=4000, **rest):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pt.ConvergenceWarning)
        return pt.sample(model, draws, **{"tune": 300, "rng": 3, "progress": False, "proposals": 20} | rest)


DRAWN = pt.DirichletWeights(concentration=A)
RUNS = [
    (2, "local", "local"),
    (3, "local", "local"),
    (2, "dyadic", "grow-prune"),
    (3, "local", "whole"),
    (3, "gaps", "local"),
]


@pytest.mark.more
@pytest.mark.parametrize(("p", "kind", "kernel"), RUNS)
def test_a_run_against_exact_answers_over_all_weights(p, kind, kernel):
    post = sampled(model_of(DRAWN, p, kind), kernel=kernel)
    assert far(traces(post, p), exact_answers(p, kind)[1]).max() < 4.5


@pytest.mark.more
def test_the_evidence_of_a_ladder():
    """The weights are integrated out, by the draws of every level."""
    post = sampled(model_of(DRAWN), 3000, betas=4, tune=200)
    log_evidence = exact_answers(3, "local")[0]
    assert abs(post.log_evidence - log_evidence) < 4.0 * post.log_evidence_se + 2e-3
    assert post.log_evidence_se < 0.05


@pytest.mark.more
def test_what_draws_say():
    """The prior of a draw is that given its weights, in every answer; ArviZ and the summary have them."""
    model = model_of("dirichlet")
    post = sampled(model, 200)
    for chain, draw in ((0, 3), (3, 199), (2, 50)):
        tree = post.distinct_tree(post.tree_of_draw[chain, draw])
        with_weights = model.log_prior(tree, feature_weights=post.feature_weights[chain, draw])
        assert post.log_prior[chain, draw] == pytest.approx(with_weights, abs=1e-9)
        with_score = model.log_posterior(tree, feature_weights=post.feature_weights[chain, draw])
        assert with_score == pytest.approx(with_weights + post.log_score[chain, draw], abs=1e-9)
    assert post.feature_weights.sum(axis=-1) == pytest.approx(1.0)
    assert post.log_prior_of_tree[0] == pytest.approx(post.log_prior[post.tree_of_draw == 0].mean())
    sample = post.to_arviz()["posterior"]
    assert sample["feature_weights"].shape == (4, 200, 3) and sample["concentration"].shape == (4, 200)
    assert "concentration" in post.summary().index and "weight of feature 'x0'" in post.summary().index
    assert post.log_evidence is None
    with_weights = sampled(model_of([1, 2, 1]), 50)
    assert (
        with_weights.feature_weights is None
        and with_weights.concentration is None
        and with_weights.weights_of_draw is None
    )


@pytest.mark.more
def test_chains_that_disagree_about_weights_are_noticed():
    post = sampled(model_of("dirichlet"), 1000)
    assert not [line for line in check_convergence(post) if "concentration" in line]
    post.weights_of_draw[0, :, -2] = 1e-5
    assert [line for line in check_convergence(post) if line.startswith("concentration")]


STUMP, SPLIT = pt.Tree([-1], [0], [0], [0]), pt.Tree([0, -1, -1], [0.5, 0, 0], [1, 0, 0], [2, 0, 0])
REFUSED = {
    "exact": (lambda model: exact.solve(model), "no sum goes cell by cell; give feature_weights= as numbers"),
    "progressive": (lambda model: pt.progressive_mixture(model), "over trees alone.*give feature_weights= as numbers"),
    "prior": (lambda model: model.log_prior(SPLIT), "depends on the feature weights.*give feature_weights="),
    "too few": (lambda model: model.log_prior(SPLIT, feature_weights=[1.0]), r"shape \(1,\); give shape \(3,\)"),
    "none": (lambda model: model.log_prior(SPLIT, feature_weights=[0, 0, 0]), "give finite weights >= 0, not all 0"),
    "trees": (lambda model: pt.posterior_from_trees(model, [STUMP]), "trees without feature weights are not draws"),
    "divergence": (lambda model: sampled(model, 20).kl_to_prior(), "the feature weights are unknown"),
    "balance": (lambda model: pt.testing.check_balance("change", model), "checked given the weights"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_needs_the_weights_is_refused(name):
    call, message = REFUSED[name]
    leaf = {"leaf": pt.NormalKnownVariance(1.0, 0.0, 1.0)} if name == "progressive" else {}
    with pytest.raises(ValueError, match=message):
        call(model_of(DRAWN, **leaf))


def test_answers_that_need_no_weights():
    model = model_of(DRAWN)
    assert model.log_prior(STUMP) == model_of(None).log_prior(STUMP)
    assert model.log_prior(SPLIT, feature_weights=[1, 1, 1]) == model_of(None).log_prior(SPLIT)
    with pytest.raises(ValueError, match="has its feature weights; leave feature_weights out"):
        model_of(None).log_prior(SPLIT, feature_weights=[1, 1, 1])
    labels = pt.TreeModel(
        TABLE,
        Y > 0.5,
        estimation=np.arange(N) % 2 == 0,
        leaf=pt.FrozenLaplace(),
        split_prior=pt.GridCuts([[0.5], [0.5], [0.5]], feature_weights="dirichlet"),
    )
    assert "the feature weights are unknown" in labels.certificate_obstacle()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"concentration": 0.0}, "concentration=0.0 is out of range"),
        ({"concentration": np.inf}, "concentration=inf is out of range"),
        ({"rho": -1.0}, "rho=-1.0 is out of range"),
        ({"concentration": 1.0, "rho": 2.0}, "give concentration or rho, not both"),
    ],
)
def test_concentrations_out_of_range(given, said):
    with pytest.raises(ValueError, match=said):
        pt.DirichletWeights(**given)


def test_other_words_are_refused():
    with pytest.raises(ValueError, match=r"feature_weights='sparse'; give weights .*'dirichlet' or a DirichletWeights"):
        pt.LocalCuts(feature_weights="sparse")
    with pytest.raises(ValueError, match="mean nothing when cyclic"):
        pt.DyadicCuts(2, cyclic=True, feature_weights="dirichlet")


def test_simulated_trees_have_few_features():
    """Weights are drawn anew with each tree: small concentrations leave one feature."""
    rng, p = np.random.default_rng(2), 12
    X = rng.random((60, p))
    prior = pt.ChipmanPrior(0.95, 0.3)
    used = {}
    for a in (0.05, 1e5):
        split = pt.LocalCuts(min_leaf=5, feature_weights=pt.DirichletWeights(concentration=a))
        model = pt.TreeModel(X, X[:, 0], split_prior=split, tree_prior=prior)
        trees = [pt.simulate(model, rng)[0] for _ in range(30)]
        used[a] = np.mean([len(set(t.feature[t.feature >= 0].tolist())) for t in trees if t.n_leaves > 3])
    assert used[0.05] < 1.5 < 3.0 < used[1e5]


@pytest.mark.more
def test_a_file_keeps_the_weights(tmp_path):
    model = model_of("dirichlet")
    post = sampled(model, 50)
    post.save(tmp_path / "run.nc")
    loaded = pt.load(tmp_path / "run.nc")
    assert np.array_equal(loaded.weights_of_draw, post.weights_of_draw)
    assert np.array_equal(loaded.log_prior_of_tree, post.log_prior_of_tree)
    assert loaded.model.split_prior.feature_weights == "dirichlet"
    more = [pt.resume(one, 20, progress=False) for one in (loaded, post)]
    assert np.array_equal(more[0].weights_of_draw, more[1].weights_of_draw)


def continuous(weights, n=12, p=2, **rest):
    """A model in which every cell of two rows or more admits all features."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(n, p))
    return pt.TreeModel(
        X, X[:, 0] + 0.3 * rng.normal(size=n) > 0.0, split_prior=pt.LocalCuts(feature_weights=weights), **rest
    )


def mean_log_prior(model, tree, weights):
    """Log of the mean prior over weights that are equally likely."""
    logs = [model.log_prior(tree, feature_weights=w) for w in weights]
    return float(np.logaddexp.reduce(logs) - np.log(len(logs)))


def check_marginal_prior():
    model = continuous(pt.DirichletWeights(concentration=A), tree_prior=pt.ChipmanPrior(0.9, 0.5, max_depth=3))
    rng = np.random.default_rng(2)
    trees = [draw_prior(model, rng).tree for _ in range(6)]
    assert len({tree.n_leaves for tree in trees}) > 2
    for tree in trees:
        assert log_marginal_prior(model, tree) == pytest.approx(mean_log_prior(model, tree, points(2, 150)), abs=1e-2)


@pytest.mark.more
def test_the_prior_of_a_tree_is_its_mean_over_the_weights():
    check_marginal_prior()


@pytest.mark.planted
def test_a_mean_over_the_weights_of_another_concentration(monkeypatch):
    right = pt.DirichletWeights.concentrations
    monkeypatch.setattr(pt.DirichletWeights, "concentrations", lambda self, p: 2.0 * right(self, p))
    with pytest.raises(AssertionError):
        check_marginal_prior()


def test_an_unknown_concentration_is_averaged():
    model = continuous("dirichlet", p=3)
    values = model.split_prior.drawn_weights.concentrations(3)
    tree = draw_prior(model, np.random.default_rng(1)).tree
    each = [log_marginal_prior(continuous(pt.DirichletWeights(concentration=float(a)), p=3), tree) for a in values]
    assert log_marginal_prior(model, tree) == pytest.approx(np.logaddexp.reduce(each) - np.log(len(each)))


@pytest.mark.more
def test_credible_set_with_the_weights_integrated_out(tmp_path):
    model = continuous(pt.DirichletWeights(concentration=A), n=9, tree_prior=pt.ChipmanPrior(0.6, 1.0, max_depth=2))
    post = pt.sample(model, 2000, tune=300, chains=2, rng=1, kernel="cgm", proposals=30, progress=False)
    likely = post.credible_set(0.9)
    # odds of trees are those of how often they are drawn
    often = np.flatnonzero(post.weight_of_tree > 0.02)
    assert len(often) >= 5
    gap = np.log(post.weight_of_tree[often]) - post.log_posterior_of_tree[often]
    assert np.ptp(gap) < 0.4
    mean = np.log(post.weight_of_tree[often]) - (post.log_prior_of_tree + post.log_score_of_tree)[often]
    assert np.ptp(mean) > np.ptp(gap)
    best = likely.tree(0)
    assert best in likely and likely.level(best) == 0.0
    assert "credible set has" in post.report(tmp_path / "page.html").read_text()


def test_no_credible_set_without_a_closed_form(tmp_path):
    post = pt.sample(model_of("dirichlet"), 100, tune=50, chains=2, rng=1, kernel="grow-prune", progress=False)
    with pytest.raises(ValueError, match=r"of the \d+ trees drawn have no place .*Give feature_weights="):
        post.credible_set()
    assert "These trees have no common order" in post.report(tmp_path / "page.html").read_text()
