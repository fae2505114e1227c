"""Comparison of models: against refits without a row, enumeration, and exact sums; bad input."""

import warnings

import numpy as np
import pytest

import exact
import pactree_mcmc as pt

N = 24
RNG = np.random.default_rng(1)
X = np.column_stack([RNG.integers(0, 5, N), RNG.integers(0, 3, N)]).astype(float)
LABELS = np.where((X[:, 0] > 2) ^ (RNG.random(N) < 0.2), "yes", "no")
LEAF = pt.DirichletMultinomial(1.0)
SMALL, LARGE = pt.ChipmanPrior(0.5, 2.0, max_depth=2), pt.ChipmanPrior(0.95, 0.5, max_depth=2)


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
    with pytest.raises(ValueError, match="max_cells=-1 is out of range"):
        compared({"a": good}, max_cells=-1)
    with pytest.raises(ValueError, match=r"columns|features"):
        compared({"a": good}, X[:, :1])
