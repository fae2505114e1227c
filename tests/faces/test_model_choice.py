"""Comparison of models: against refits, enumeration and exact sums; models without evidence; bad input."""

import warnings

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from tests.problems.refusals import refuses

N = 24
RNG = np.random.default_rng(1)
X = np.column_stack([RNG.integers(0, 5, N), RNG.integers(0, 3, N)]).astype(float)
LABELS = np.where((X[:, 0] > 2) ^ (RNG.random(N) < 0.2), "yes", "no")
LEAF = pt.DirichletMultinomial(1.0)
SMALL, LARGE = pt.ChipmanPrior(0.5, 2.0, max_depth=2), pt.ChipmanPrior(0.95, 0.5, max_depth=2)
RNG_OF_TENTHS = np.random.default_rng(7)
TENTHS = RNG_OF_TENTHS.random((50, 2)).round(1)
Y = (TENTHS[:, 0] > 0.5) + 0.3 * RNG_OF_TENTHS.normal(size=50)
SHALLOW = pt.ChipmanPrior(max_depth=2)
RUN = {"draws": 150, "tune": 150, "chains": 2, "rng": 1, "progress": False}


def model_of(prior=SMALL, y=LABELS, leaf=LEAF, **more):
    return pt.TreeModel(X, y, tree_prior=prior, leaf=leaf, **more)


def compared(models, *args, **options):
    return pt.compare_models(models, *args, **{"rng": 1, "draws": 4000, "progress": False, **options})


def test_exact_models_against_enumeration_and_refits():
    models = {"small": model_of(), "large": model_of(LARGE)}
    table = compared(models, draws=10_000)
    assert set(table["engine"]) == {"exact"} and (table["log_evidence_se"] == 0.0).all()
    for name, model in models.items():
        truth = exact.solve(model)
        trees = truth.best_trees(truth.n_trees).trees
        evidence = np.logaddexp.reduce([model.log_prior(tree) + model.log_score(tree) for tree in trees])
        row = table.loc[name]
        assert row["log_evidence"] == pytest.approx(evidence, abs=1e-9)
        pmf = truth.n_leaves_pmf()
        assert row["n_leaves"] == pytest.approx(pmf @ np.arange(len(pmf)))
        without = []
        for i in range(N):
            rest = pt.TreeModel(X, LABELS, tree_prior=model.tree_prior, leaf=LEAF, sample_weight=np.arange(N) != i)
            without.append(exact.solve(rest).log_evidence)
        density = evidence - np.array(without)
        assert row["elpd_loo"] == pytest.approx(density.sum(), abs=0.04)
        assert row["elpd_loo_se"] == pytest.approx(np.sqrt(N) * density.std(ddof=1), rel=0.02)
        assert 100.0 < row["loo_ess"] <= 10_000.0
    odds = np.exp(table["log_evidence"] - np.logaddexp.reduce(table["log_evidence"].to_numpy()))
    assert np.allclose(table["probability"], odds) and table["probability"].sum() == pytest.approx(1.0)
    assert table["probability"].is_monotonic_decreasing


def test_the_prior_of_a_penalty_is_normalised():
    """The evidence is normalised by the sum of the prior over the same trees, so that penalties can be compared."""
    models = {cost: model_of(pt.LeafPenalty(cost, max_depth=2)) for cost in (0.5, 3.0)}
    table = compared(models)
    for cost, model in models.items():
        truth = exact.solve(model)
        trees = truth.best_trees(truth.n_trees).trees
        prior = np.array([model.log_prior(tree) for tree in trees])
        score = np.array([model.log_score(tree) for tree in trees])
        evidence = np.logaddexp.reduce(prior + score) - np.logaddexp.reduce(prior)
        assert table.loc[cost, "log_evidence"] == pytest.approx(evidence, abs=1e-9)


def test_a_run_that_did_not_converge_warns_in_one_line():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compared({"deep": model_of(LARGE)}, max_cells=0, draws=20)
    (message,) = [str(one.message) for one in caught if one.category is pt.ConvergenceWarning]
    assert message.startswith("model 'deep': too few draws") and "\n" not in message


def test_bad_input_is_refused():
    good = model_of()
    for wrong, error, match in (
        ([good], TypeError, "models is a list; give a dict"),
        ({}, ValueError, "models is empty"),
        ({"a": good, "b": X}, TypeError, r"models\['b'\] is a ndarray; give a TreeModel"),
        ({"a": good, "b": model_of(y=LABELS[::-1])}, ValueError, "differ in y"),
        ({"a": good, "b": model_of(y=X[:, 0] + 0.5, leaf=pt.NormalInverseGamma())}, ValueError, "their classes"),
        ({"a": good, "b": model_of(sample_weight=np.full(N, 2.0))}, ValueError, "sample_weight"),
        ({"a": model_of(leaf=pt.PacBayesLoss(1.0), estimation=np.arange(N) % 2 == 0)}, ValueError, "is a loss"),
        (
            {"all": model_of(leaf=pt.FrozenLaplace(), estimation=np.ones(N, bool))},
            ValueError,
            "'all'.*no row that counts",
        ),
    ):
        with pytest.raises(error, match=match):
            compared(wrong)
    refuses("max_cells=-1 is out of range", lambda: compared({"a": good}, max_cells=-1))
    refuses(r"columns|features", lambda: compared({"a": good}, X[:, :1]))


def compared_with_warnings(models):
    with pytest.warns(UserWarning, match="has no log evidence") as record:
        table = pt.compare_models(models, rng=1, progress=False)
    return table, [str(one.message) for one in record if "has no log evidence" in str(one.message)]


def test_a_probability_is_among_the_models_that_have_an_evidence():
    models = {
        "one": pt.TreeModel(TENTHS, Y, tree_prior=SHALLOW),
        "other": pt.TreeModel(TENTHS[:, :1], Y, tree_prior=SHALLOW),
        "shared": pt.sample(pt.TreeModel(TENTHS, Y, leaf=pt.NormalSharedVariance(), tree_prior=SHALLOW), **RUN),
    }
    table, lines = compared_with_warnings(models)
    evidence = table.log_evidence[["one", "other"]]
    expected = np.exp(evidence - np.logaddexp(*evidence))
    assert table.probability[["one", "other"]].to_numpy() == pytest.approx(expected.to_numpy())
    assert np.isnan(table.log_evidence["shared"]) and np.isnan(table.probability["shared"])
    assert len(lines) == 1 and "'shared'" in lines[0] and "share a parameter" in lines[0]


def test_the_reason_is_that_of_the_model():
    penalty = pt.TreeModel(TENTHS, Y, tree_prior=pt.LeafPenalty(1.0, max_depth=2))
    short = pt.TreeModel(TENTHS, Y, tree_prior=SHALLOW)
    models = {"penalty": pt.sample(penalty, **RUN), "short": pt.sample(short, **RUN, kernel="grow-prune")}
    table, lines = compared_with_warnings(models)
    assert table.probability.isna().all() and any("'penalty'" in line and "LeafPenalty" in line for line in lines)
    assert any("'short'" in line and "did not estimate it" in line for line in lines)
