"""The ArviZ face, whichever its major: every number recomputed plainly; the log likelihood leaves the row out."""

import math
import warnings

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.posterior import inference_data
from pactree_mcmc.posterior.ess import ess, rhat
from pactree_mcmc.posterior.inference_data import load_arviz, to_arviz
from pactree_mcmc.posterior.rows import left_out

pd = pytest.importorskip("pandas")
SCALARS = ["n_leaves", "depth", "log_prior", "log_score"]
N = 14
PRIOR = pt.ChipmanPrior(0.9, 0.7, max_depth=2)
WEIGHTS = np.resize([1.0, 2.0, 0.5, 0.0, 1.0, 3.7], N)
CLEAN = {
    "gaussian": lambda rng, f: (f + rng.normal(0.0, 0.5, len(f)), None),
    "noisy": lambda rng, f: (f + rng.normal(0.0, 1.5, len(f)), None),
    "labels": lambda rng, f: (rng.random(len(f)) < 0.2 + 0.3 * f, None),
    "counts": lambda rng, f: (rng.poisson(np.exp(f)), pt.PoissonGamma()),
    "shared variance": lambda rng, f: (f + rng.normal(0.0, 0.5, len(f)), pt.NormalSharedVariance()),
}


def table(n=40, seed=0):
    """Two ordered columns with ties, and a nominal one; every row occurs twice."""
    rng = np.random.default_rng(seed)
    half = pd.DataFrame(
        {
            "size": rng.integers(0, 6, n // 2).astype(float),
            "weight of it": rng.normal(size=n // 2),
            "colour": pd.Categorical(rng.choice(["red", "green", "blue", "black"], n // 2)),
        }
    )
    return pd.concat([half, half], ignore_index=True)


def labels(X, seed=1):
    noise = np.random.default_rng(seed).random(len(X)) < 0.2
    return np.where((X["size"] > 2) ^ noise, np.where(X["colour"] == "red", "yes", "maybe"), "no")


def posterior_of_trees(model, trees, tree_of_draw, moves=(), proposed=None):
    post = pt.posterior_from_trees(model, trees, tree_of_draw)
    if moves:
        post.draws.moves, post.draws.proposed, post.draws.accepted = moves, proposed, proposed // 2
    return post


def prior_trees(model, n=6, seed=0):
    rng = np.random.default_rng(seed)
    return [pt.Tree([-1], [0], [0], [0]), *(pt.simulate(model, rng)[0] for _ in range(n - 1))]


@pytest.fixture(scope="module")
def sampled():
    X = table()
    weight = np.random.default_rng(2).integers(0, 3, len(X)).astype(float)
    model = pt.TreeModel(X, labels(X), sample_weight=weight, tree_prior=pt.ChipmanPrior(0.95, 0.5))
    return pt.sample(model, 25, tune=5, chains=3, rng=4, progress=False)


@pytest.fixture(scope="module")
def data(sampled):
    return to_arviz(sampled, log_likelihood=True)


def group_names(data):
    groups = data.groups if isinstance(data.groups, tuple) else data.groups()
    return {name.strip("/") for name in groups} - {""}


def test_variables_dims_and_dtypes(data):
    expected = {
        "posterior": {name: (("chain", "draw"), "f" if name.startswith("log") else "i") for name in SCALARS}
        | {"split_counts": (("chain", "draw", "feature"), "i")}
        | {"support": (("chain", "draw", "cell"), "i"), "tree_distance": (("chain", "draw", "focal"), "i")},
        "sample_stats": {
            "lp": (("chain", "draw"), "f"),
            "acceptance_rate": (("chain", "draw", "move"), "f"),
            "proposals": (("chain", "draw", "move"), "i"),
        },
        "observed_data": {"y": (("row",), "U")},
        "constant_data": {"sample_weight": (("row",), "f")},
        "log_likelihood": {"y": (("chain", "draw", "row"), "f")},
    }
    for group, variables in expected.items():
        assert set(data[group].data_vars) == set(variables)
        for name, (dims, kind) in variables.items():
            assert data[group][name].dims == dims and data[group][name].dtype.kind == kind


def test_posterior_values(sampled, data):
    counts = sampled.draws.split_counts_of_tree[sampled.draws.tree_of_draw]
    np.testing.assert_array_equal(data["posterior"]["split_counts"].values, counts)
    for name in SCALARS:
        np.testing.assert_array_equal(data["posterior"][name].values, getattr(sampled, name))
    np.testing.assert_array_equal(data["sample_stats"]["lp"].values, sampled.log_prior + sampled.log_score)


def replicates_of(post, **more):
    data = to_arviz(post, posterior_predictive=True, **more)
    (name,) = data["posterior_predictive"].data_vars
    return name, data["posterior_predictive"][name], data["observed_data"][name]


def check_replicates(post, n_draws):
    """Each row's fraction below its median, or of each class, is that of its leaf's distribution in the drawn trees."""
    name, replicates, observed = replicates_of(post)
    assert replicates.dims == ("chain", "draw", "row") and replicates.shape[2] == len(observed)
    values = replicates.values.reshape(n_draws, -1)
    if name == "class_number":
        p = post.predict_proba(table())
        frequency = np.array([(values == k).mean(axis=0) for k in range(p.shape[1])]).T
    else:
        p, frequency = np.full(40, 0.5), (values <= post.predict_quantiles(table(), 0.5)).mean(axis=0)
    assert np.all(np.abs(frequency - p) < 5.0 * np.sqrt(p * (1.0 - p) / n_draws) + 1e-9)


@pytest.mark.planted
def test_posterior_predictive_of_other_rows(monkeypatch):
    X = table()
    model = pt.TreeModel(X, X["size"].values + np.random.default_rng(0).normal(size=40))
    post, right = (
        posterior_of_trees(model, prior_trees(model), np.tile(np.arange(6), (2, 300))),
        inference_data.route_into,
    )

    def of_other_rows(leaf, trees, t, codes, units):
        right(leaf, trees, t, codes, units[::-1].copy())

    monkeypatch.setattr(inference_data, "route_into", of_other_rows)
    with pytest.raises(AssertionError):
        check_replicates(post, 3600)


@pytest.mark.parametrize("max_cuts", [None, 3])
def test_log_likelihood_of_counts_from_the_callers_table(max_cuts):
    X = table(60, seed=5)
    y, weight = labels(X), np.random.default_rng(6).integers(1, 3, 60).astype(float)
    split_prior, prior = pt.LocalCuts(max_cuts=max_cuts), pt.ChipmanPrior(0.99, 0.2)
    model = pt.TreeModel(X, y, split_prior=split_prior, tree_prior=prior, sample_weight=weight)
    post = pt.sample(model, 40, tune=0, chains=2, rng=7, progress=False)
    log_likelihood = to_arviz(post, log_likelihood=True)["log_likelihood"]["y"].values
    number = np.searchsorted(model.classes_, y)
    for c, d in np.ndindex(2, 40):
        leaf = post.draws.distinct_tree(int(post.draws.tree_of_draw[c, d])).apply(X)
        counts = np.zeros((leaf.max() + 1, 3))
        np.add.at(counts, (leaf, number), weight)
        of_class, all_in = counts[leaf, number] - weight, counts[leaf].sum(axis=1) - weight
        chance = (of_class + 1.0) / (all_in + 3.0)
        expected = np.where(weight == 2.0, (of_class + 2.0) / (all_in + 4.0), 1.0)
        np.testing.assert_allclose(log_likelihood[c, d], np.log(chance * expected), rtol=1.1e-10, atol=1.1e-10)


def test_a_loss_has_no_log_likelihood():
    model = pt.TreeModel(table(), labels(table()), leaf=pt.PacBayesLoss(2.0))
    post = posterior_of_trees(model, prior_trees(pt.TreeModel(table(), labels(table()))), [[0, 1, 2, 3]])
    with pytest.raises(ValueError, match="PacBayesLoss is a loss, not a likelihood"):
        to_arviz(post, log_likelihood=True)
    assert "log_likelihood" not in group_names(to_arviz(post))


def test_summary(sampled):
    frame = sampled.summary()
    assert list(frame.index)[:5] == [*SCALARS, "lp"] and frame.index[-1] == "tree distance"
    for name in list(frame.index)[5:-1]:
        what, feature = name.rsplit("feature ", 1)
        k = sampled.model.columns.names.index(feature.strip("'"))
        in_tree = (sampled.draws.split_counts_of_tree[:, k] > 0)[sampled.draws.tree_of_draw]
        holds = sampled.root_feature == k if what == "root " else in_tree
        of_chain = holds.mean(axis=1)
        assert of_chain.max() > 0.02 and of_chain.min() < 0.98
        assert frame.loc[name, ["mean", "ess_bulk", "rhat"]].tolist() == pytest.approx(
            [holds.mean(), ess(holds), rhat(holds)]
        )
    assert "root feature 'size'" in frame.index
    trees = sampled.tree_ess()
    assert frame.loc["tree distance"].tolist() == [trees.mean_distance, trees.sd_distance, trees.frechet, trees.rhat]
    assert frame.attrs["tree_ess"] == trees._asdict() and frame.attrs["asdsf"] == sampled.asdsf()._asdict()
    assert frame.attrs["verdict"].startswith("too few draws to judge convergence: 75")
    assert list(frame.columns) == ["mean", "sd", "ess_bulk", "rhat"]
    lp = sampled.log_prior + sampled.log_score
    assert frame.loc["lp"].tolist() == pytest.approx([lp.mean(), lp.std(ddof=1), ess(lp), rhat(lp)])
    m = sampled.n_leaves
    assert frame.loc["n_leaves"].tolist() == pytest.approx([m.mean(), m.std(ddof=1), ess(m), rhat(m)])
    fractions = sampled.draws.accepted.sum(axis=(0, 1)) / sampled.draws.proposed.sum(axis=(0, 1))
    assert frame.attrs["acceptance"] == pytest.approx(dict(zip(sampled.draws.moves, fractions, strict=True)))


class TestExpectation:
    def test_training_rows_and_classes(self, sampled):
        """Its quantiles are those of the closed form, and the other variables do not change."""
        data = to_arviz(sampled, expectation=True, rng=1)["posterior"]
        expectation = data["expectation"]
        assert expectation.dims == ("chain", "draw", "row", "class") and expectation.shape[:3] == (3, 25, 40)
        assert expectation["class"].values.tolist() == sampled.model.classes_.tolist()
        np.testing.assert_allclose(expectation.sum("class"), 1.0)
        ends = sampled.credible_interval(table(), 0.8)
        below = (expectation.values[..., None] <= ends).mean(axis=(0, 1, 2))
        np.testing.assert_allclose(below, [[0.1, 0.9]] * expectation.shape[3], atol=0.03)
        plain = to_arviz(sampled, rng=1)["posterior"]
        assert set(data.data_vars) - set(plain.data_vars) == {"expectation"}


@pytest.mark.parametrize("leaf", [pt.ExponentialGamma, lambda: pt.WeibullGamma(2.0)])
@pytest.mark.parametrize("names", [["time", "event"], ["months", "died"], None])
def test_times_stand_beside_their_flags(leaf, names):
    X, stump = np.arange(20.0)[:, None], [pt.Tree([0, -1, -1], [9.5, 0, 0], [1, 0, 0], [2, 0, 0])]
    y = np.column_stack([X[:, 0] + 1.0, X[:, 0] > 3])
    table = y if names is None else pd.DataFrame(y, columns=names)
    post = pt.posterior_from_trees(pt.TreeModel(X, table, leaf=leaf()), stump, [[0] * 5])
    with pytest.warns(UserWarning, match="some times are censored"):
        data = post.to_arviz(posterior_predictive=True)
    observed, drawn = data["observed_data"], data["posterior_predictive"]
    assert np.array_equal(observed["y"].values, y[:, 0]) and np.array_equal(observed["event"].values, y[:, 1] == 1)
    # a plot of both would compare censored times with uncensored ones
    assert set(drawn.data_vars) == {"uncensored_y"} and drawn["uncensored_y"].dims == ("chain", "draw", "row")


def few_rows(n=N, seed=0):
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.integers(0, 4, n), rng.integers(0, 3, n)]).astype(float)


def problems():
    """Return y, leaf and further arguments of a model for every leaf with a likelihood, with all parameters."""
    rng = np.random.default_rng(1)
    X = few_rows()
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
    return pt.TreeModel(few_rows(), y, leaf=leaf, **options)


def all_trees(name, weight, split_prior=None):
    """Every tree of the prior, which no weight changes."""
    model = model_of("known variance" if name == "shared variance" else name, weight, split_prior)
    truth = exact.solve(model)
    return truth.best_trees(truth.n_trees).trees


def posterior_of_all(model, trees):
    return pt.posterior_from_trees(model, trees)


def weights_without(weight, row):
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
    by_row = to_arviz(posterior_of_all(model, trees), log_likelihood="exact")["log_likelihood"]["y"]
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
    post = posterior_of_all(model, trees)
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
    loo = load_arviz().loo(data, pointwise=True)
    return np.asarray(loo.pareto_k)


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
    influence = left_out.log_densities(posterior_of_all(model, [pt.Tree([-1], [0], [0], [0])]).draws)[1][0, 0]
    mean, precision = (0.5 * 0.3 + 4.7) / 5.5, 5.5 / 0.7
    grid = np.linspace(mean - 6.0, mean + 6.0, 20_001)
    weight = np.exp(-0.5 * precision * (grid - mean) ** 2)
    for y, one in zip(model.target.values, influence):
        likelihood = np.exp(-0.5 * (y - grid) ** 2 / 0.7)
        product = np.average(likelihood, weights=weight) * np.average(1.0 / likelihood, weights=weight)
        assert one == pytest.approx(math.log(product), abs=1e-8)


def effective_sizes(post):
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
