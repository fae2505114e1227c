"""The log likelihood for ArviZ leaves the row out: against refits without it, for every leaf, weights and exposure."""

import math
import warnings

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.posterior.inference_data import load_arviz, to_arviz
from pactree_mcmc.posterior.rows import left_out

N = 14
PRIOR = pt.ChipmanPrior(0.9, 0.7, max_depth=2)
WEIGHTS = np.resize([1.0, 2.0, 0.5, 0.0, 1.0, 3.7], N)


def table(n=N, seed=0):
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.integers(0, 4, n), rng.integers(0, 3, n)]).astype(float)


def problems():
    """Return y, leaf and further arguments of a model for every leaf with a likelihood, with all parameters."""
    rng = np.random.default_rng(1)
    X = table()
    label, number = (X[:, 0] > 1) ^ (rng.random(N) < 0.2), X[:, 0] + rng.normal(size=N)
    counts, exposure, mask = rng.poisson(2.0 * X[:, 0] + 1.0), rng.random(N) + 0.5, np.arange(N) % 3 == 0
    three = np.array(["a", "b", "c"])[(label + X[:, 1] // 2).astype(int)]
    same = rng.choice([1000.0, 1001.0, 1003.0], N)
    return {
        "dirichlet": (label, pt.DirichletMultinomial(0.7), {}),
        "dirichlet, three classes": (three, pt.DirichletMultinomial([0.3, 1.0, 2.0]), {}),
        "frozen": (label, pt.FrozenLaplace(1.5), {"estimation": mask}),
        "normal": (number, pt.NormalInverseGamma(0.3, 0.5, 1.2, 0.8), {}),
        "known variance": (number, pt.NormalKnownVariance(0.7, 0.3, 0.5), {}),
        "shared variance": (number, pt.NormalSharedVariance(0.3, 0.5, 1.2, 0.8), {}),
        "poisson": (counts.astype(float), pt.PoissonGamma(1.3, 0.6), {}),
        "poisson, exposure": (counts.astype(float), pt.PoissonGamma(1.3, 0.6, exposure), {}),
        "poisson, large counts": (same, pt.PoissonGamma(900.0, 0.9, exposure * 0.01 + 1.0), {}),
    }


PROBLEMS = problems()


def model_of(name, weight, split_prior=None):
    y, leaf, options = PROBLEMS[name]
    split_prior = pt.LocalCuts() if split_prior is None else split_prior
    options = {"tree_prior": PRIOR, "split_prior": split_prior, "sample_weight": weight, **options}
    return pt.TreeModel(table(), y, leaf=leaf, **options)


def all_trees(name, weight, split_prior=None):
    """Every tree of the prior, which no weight changes."""
    model = model_of("known variance" if name == "shared variance" else name, weight, split_prior)
    truth = exact.solve(model)
    return truth.best_trees(truth.n_trees).trees


def posterior_of_trees(model, trees):
    """A posterior whose draws are the trees, one after the other."""
    return pt.posterior_from_trees(model, trees)


def weights_without(weight, row):
    """The weights with one row left out; the table stays, so the trees do."""
    return np.where(np.arange(len(weight)) == row, 0.0, weight)


def log_sum(values):
    return float(np.logaddexp.reduce(values))


@pytest.mark.more(everyday=["dirichlet-False"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", PROBLEMS)
def test_log_likelihood_is_what_the_score_of_the_tree_gains_by_the_row(name, weighted):
    """Log score of all rows less that of all but one, plainly, tree by tree."""
    weight = WEIGHTS if weighted else np.ones(N)
    model = model_of(name, weight)
    trees = all_trees(name, weight)
    by_row = to_arviz(posterior_of_trees(model, trees), log_likelihood="exact")["log_likelihood"]["y"]
    scores = np.array([model.log_score(tree) for tree in trees])
    counted = weight > 0.0
    if name == "frozen":
        counted &= ~PROBLEMS[name][2]["estimation"]
    assert by_row["row"].values.tolist() == np.flatnonzero(counted).tolist()
    for row, log_densities in zip(by_row["row"].values, by_row.values[0].T):
        other = model_of(name, weights_without(weight, row))
        gain = scores - [other.log_score(tree) for tree in trees]
        np.testing.assert_allclose(log_densities, gain, rtol=1e-8, atol=1e-8)


@pytest.mark.more(everyday=["dirichlet-local", "dirichlet, three classes-trivial", "frozen-grid", "normal-dyadic"])
@pytest.mark.parametrize(
    "split_prior",
    [pt.LocalCuts(), pt.LocalCuts(trivial=True), pt.GridCuts([[0.5, 1.5], [0.5]]), pt.DyadicCuts(2)],
    ids=["local", "trivial", "grid", "dyadic"],
)
@pytest.mark.parametrize("name", [name for name in PROBLEMS if name != "shared variance"])
def test_harmonic_means_are_the_evidences_of_refits(name, split_prior):
    """``1 / p(y_i | y_-i)`` is the mean over all trees of ``1 / p(y_i | y_-i, T)``."""
    model, trees = model_of(name, WEIGHTS, split_prior), all_trees(name, WEIGHTS, split_prior)
    post = posterior_of_trees(model, trees)
    truth = exact.solve(model)
    log_weight = post.draws.log_prior_of_tree + post.draws.log_score_of_tree - truth.log_evidence
    assert log_sum(log_weight) == pytest.approx(0.0, abs=1e-9)
    by_row = to_arviz(post, log_likelihood="exact")["log_likelihood"]["y"]
    for row, log_densities in zip(by_row["row"].values, by_row.values[0].T):
        refit = exact.solve(model_of(name, weights_without(WEIGHTS, row), split_prior)).log_evidence
        assert -log_sum(log_weight - log_densities) == pytest.approx(truth.log_evidence - refit, abs=1e-8)


def large_table(n=120):
    """The audit's size: two noisy features, of which one tells."""
    rng = np.random.default_rng(5)
    X = np.column_stack([rng.integers(0, 8, n), rng.integers(0, 8, n)]).astype(float)
    return X, (X[:, 0] > 3) ^ (rng.random(n) < 0.1)


def exact_leave_one_out(X, y, **parts):
    """Sum of the log predictive densities of the rows, each from a refit to the others."""
    truth = exact.solve(pt.TreeModel(X, y, sample_weight=np.ones(len(y)), **parts))
    gains = [
        truth.log_evidence
        - exact.solve(pt.TreeModel(X, y, sample_weight=weights_without(np.ones(len(y)), i), **parts)).log_evidence
        for i in range(len(y))
    ]
    return truth, float(np.sum(gains))


@pytest.fixture(scope="module")
def two_models():
    """Small and large trees on noisy labels: exact leave-one-out, and independent draws."""
    X, y = large_table()
    out = {}
    for name, prior in {"small": pt.ChipmanPrior(0.5, 2.0, 2), "large": pt.LeafPenalty(0.0, 3)}.items():
        truth, elpd = exact_leave_one_out(X, y, tree_prior=prior, split_prior=pt.GridCuts(7))
        out[name] = elpd, truth.sample(4000, rng=1)
    return out


@pytest.mark.more
def test_compare_agrees_with_refits_in_order_and_size(two_models):
    az = load_arviz()
    elpd = {name: value for name, (value, _) in two_models.items()}
    assert elpd["small"] - elpd["large"] > 0.9
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = az.compare({name: to_arviz(post, log_likelihood=True) for name, (_, post) in two_models.items()})
    assert list(table.index) == ["small", "large"]
    column = "elpd_diff" if "elpd_diff" in table else "elpd_loo"
    assert abs(float(table.loc["large", column])) == pytest.approx(elpd["small"] - elpd["large"], abs=0.3)


def pareto_shapes_of(data):
    """Pareto shapes of the rows by ``az.loo``, whichever its major, without warnings if all are good."""
    loo = load_arviz().loo(data, pointwise=True)
    return np.asarray(loo.pareto_k)


CLEAN = {
    "gaussian": lambda rng, f: (f + rng.normal(0.0, 0.5, len(f)), None),
    "noisy": lambda rng, f: (f + rng.normal(0.0, 1.5, len(f)), None),
    "labels": lambda rng, f: (rng.random(len(f)) < 0.2 + 0.3 * f, None),
    "counts": lambda rng, f: (rng.poisson(np.exp(f)), pt.PoissonGamma()),
    "shared variance": lambda rng, f: (f + rng.normal(0.0, 0.5, len(f)), pt.NormalSharedVariance()),
}


def clean_table(name, seed):
    rng = np.random.default_rng(seed)
    X = rng.random((200, 3))
    y, leaf = CLEAN[name](rng, (X[:, 0] > 0.5) + (X[:, 1] > 0.3).astype(float))
    return X, y, leaf


@pytest.mark.more
def test_a_row_that_makes_its_own_leaf_is_called_influential():
    X, y, _ = clean_table("gaussian", 3)
    y[7] += 12.0
    post = pt.sample(pt.TreeModel(X, y), 500, tune=500, chains=4, rng=1, progress=False)
    data = to_arviz(post, log_likelihood=True)
    with pytest.warns(UserWarning, match="Pareto"):
        pareto_shapes = pareto_shapes_of(data)
    assert pareto_shapes[7] > 0.7


def test_influence_is_that_of_the_leaf_parameters():
    """The mean over parameters of the likelihood times that of its reciprocal, by quadrature."""
    model = pt.TreeModel(np.zeros((5, 1)), [0.0, 1.0, 0.5, 3.0, 0.2], leaf=pt.NormalKnownVariance(0.7, 0.3, 0.5))
    influence = left_out.log_densities(posterior_of_trees(model, [pt.Tree([-1], [0], [0], [0])]).draws)[1][0, 0]
    mean, precision = (0.5 * 0.3 + 4.7) / 5.5, 5.5 / 0.7
    grid = np.linspace(mean - 6.0, mean + 6.0, 20_001)
    weight = np.exp(-0.5 * precision * (grid - mean) ** 2)
    for y, one in zip(model.target.values, influence):
        likelihood = np.exp(-0.5 * (y - grid) ** 2 / 0.7)
        product = np.average(likelihood, weights=weight) * np.average(1.0 / likelihood, weights=weight)
        assert one == pytest.approx(math.log(product), abs=1e-8)


def effective_sizes(post):
    """Effective sample sizes of the importance weights of the rows."""
    weight = -left_out.log_densities(post.draws)[0].reshape(post.draws.tree_of_draw.size, -1)
    weight = np.exp(weight - weight.max(axis=0))
    return weight.sum(axis=0) ** 2 / (weight**2).sum(axis=0)


@pytest.mark.more
@pytest.mark.parametrize("name", CLEAN)
def test_rows_with_even_weights_are_not_called_influential(name):
    """Ties among the weights of trees once gave shapes above 0.7 to a quarter of the rows."""
    X, y, leaf = clean_table(name, 3)
    post = pt.sample(pt.TreeModel(X, y, leaf=leaf), 500, tune=500, chains=4, rng=1, progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        bad = ~(pareto_shapes_of(to_arviz(post, log_likelihood=True)) <= 0.7)
    assert bad.sum() <= 8 and np.all(effective_sizes(post)[bad] < 0.6 * post.draws.tree_of_draw.size)
