"""The ArviZ face: every number in it is recomputed plainly, under whichever major of ArviZ is installed."""

import numpy as np
import pytest

import pactree_mcmc as pt
from pactree_mcmc.posterior import inference_data
from pactree_mcmc.posterior.ess import ess, rhat
from pactree_mcmc.posterior.inference_data import to_arviz

pd = pytest.importorskip("pandas")
SCALARS = ["n_leaves", "depth", "log_prior", "log_score"]


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
    """A posterior of given trees."""
    post = pt.posterior_from_trees(model, trees, tree_of_draw)
    if moves:
        post.draws.moves, post.draws.proposed, post.draws.accepted = moves, proposed, proposed // 2
    return post


def prior_trees(model, n=6, seed=0):
    """The stump and trees from the prior."""
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
            assert data[group][name].dims == dims
            assert data[group][name].dtype.kind == kind


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
    assert list(frame.index)[:5] == [*SCALARS, "lp"]
    assert frame.index[-1] == "tree distance"
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
