"""Rows added to a model and to its posterior: against the model of all rows, and exact sums; bad input."""

import numpy as np
import pandas as pd
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.model import added_rows

N, OLD = 40, 30
RNG = np.random.default_rng(2)
FRAME = pd.DataFrame(
    {
        "size": RNG.integers(0, 5, N) / 4.0,
        "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(RNG.integers(0, 4, N), unit="D"),
        "colour": RNG.choice(["red", "green", "blue"], N),
        "grade": pd.Categorical(RNG.choice(["low", "high"], N), ["low", "high"], ordered=True),
    }
)
LABELS = np.where((FRAME["size"] > 0.5) ^ (RNG.random(N) < 0.2), "yes", "no")
NUMBERS = FRAME["size"].to_numpy() + RNG.normal(size=N)
PRIOR = pt.ChipmanPrior(0.8, 1.0, max_depth=2)
CHOICES = {
    "classes": (LABELS, {"leaf": pt.DirichletMultinomial(1.0)}),
    "numbers": (NUMBERS, {"leaf": pt.NormalInverseGamma(k0=0.3, a0=2.0, b0=1.0, m0=0.1)}),
    "regression in leaves": (
        NUMBERS,
        {"leaf": pt.NormalLinear(["size"], k0=0.3, a0=2.0, b0=1.0, m0=0.0, centers=[0.5], scales=[0.3])},
    ),
    "times": (
        np.column_stack([RNG.exponential(size=N), np.arange(N) % 3 > 0]),
        {"leaf": pt.ExponentialGamma(2.0, 1.0)},
    ),
    "few cuts": (LABELS, {"split_prior": pt.GridCuts([[0.3, 0.6], [18262.5, 18264.0], None, [0.5]])}),
}
FIXED = {"tune": 50, "kernel": "grow-prune", "progress": False}


def model_of(rows, y, table=FRAME, **parts):
    return pt.TreeModel(table[rows], y[rows], tree_prior=PRIOR, **parts)


@pytest.mark.parametrize("name", CHOICES)
def test_a_model_with_rows_added_is_the_model_of_all_rows(name):
    y, parts = CHOICES[name]
    model = model_of(slice(OLD), y, **parts).with_rows(FRAME[OLD:], y[OLD:])
    truth = exact.solve(model_of(slice(None), y, **parts), progress=False)
    joined = exact.solve(model, progress=False)
    assert model.n_rows == N and joined.log_evidence == pytest.approx(truth.log_evidence, abs=1e-9)
    assert np.allclose(joined._values(model.columns.numbers(FRAME)), truth._values(model.columns.numbers(FRAME)))


def test_missing_values_weights_and_a_constant_column():
    table = FRAME.assign(size=FRAME["size"].where(np.arange(N) % 4 > 0), same=1.0)
    weight = RNG.integers(1, 4, N).astype(float)
    parts = {"leaf": pt.DirichletMultinomial(1.0), "missing": "branch"}
    old = model_of(slice(OLD), LABELS, table, sample_weight=weight[:OLD], **parts)
    joined = exact.solve(old.with_rows(table[OLD:], LABELS[OLD:], sample_weight=weight[OLD:]))
    truth = exact.solve(model_of(slice(None), LABELS, table, sample_weight=weight, **parts))
    assert joined.log_evidence == pytest.approx(truth.log_evidence, abs=1e-9)
    one = old.with_rows(table[OLD : OLD + 1], LABELS[OLD : OLD + 1])
    assert one.n_rows == OLD + 1 and one.target.weights[-1] == 1.0


def test_parameters_set_from_the_data_stay():
    old = model_of(slice(OLD), NUMBERS)
    new = old.with_rows(FRAME[OLD:], NUMBERS[OLD:] + 100.0)
    assert repr(new.leaf) == repr(old.leaf) and "None" not in repr(old.leaf)
    binned = model_of(slice(OLD), NUMBERS, split_prior=pt.LocalCuts(max_cuts=2))
    joined = binned.with_rows(FRAME[OLD:], NUMBERS[OLD:])
    for before, after in zip(binned.scales, joined.scales, strict=True):
        assert np.array_equal(before.cuts, after.cuts)
    post = pt.sample(joined, 100, chains=2, rng=1, **FIXED)
    assert np.isfinite(post.log_score).all()


def test_an_updated_posterior_is_that_of_all_rows():
    y, parts = CHOICES["classes"]
    post = pt.sample(model_of(slice(OLD), y, **parts), 200, chains=2, rng=1, **FIXED)
    updated = post.update(FRAME[OLD:], y[OLD:], rng=2, draws=2000, **FIXED)
    truth = exact.solve(model_of(slice(None), y, **parts))
    assert updated.n_chains == 2 and updated.model.n_rows == N
    assert np.abs(updated.predict_proba(FRAME) - truth.predict_proba(FRAME)).max() < 0.05
    assert np.abs(post.predict_proba(FRAME) - truth.predict_proba(FRAME)).max() > 0.05


def test_chains_start_at_the_trees_at_hand():
    y, parts = CHOICES["classes"]
    post = pt.sample(model_of(slice(OLD), y, **parts), 100, chains=2, rng=1, **FIXED)
    model = post.model.with_rows(FRAME[OLD:], y[OLD:])
    starts = post._start_trees(model, 3)
    assert len(starts) == 3 and all(model.log_prior(tree) > -np.inf for tree in starts)
    sizes = {post.distinct_tree(t).n_leaves for t in post.tree_of_draw[:, -10:].ravel()}
    assert {tree.n_leaves for tree in starts} <= sizes
    strict = model.from_parts(model.parts._replace(tree_prior=pt.ChipmanPrior(0.9, 1.0, max_depth=0)))
    splits = [t for t in range(post.n_distinct_trees) if post.n_leaves_of_tree[t] > 1]
    only = pt.posterior_from_trees(post.model, [post.distinct_tree(t) for t in splits])
    assert only._start_trees(strict, 2) == "dispersed"


def test_exact_posteriors_are_solved_again():
    y, parts = CHOICES["classes"]
    old, new = (model_of(rows, y, **parts) for rows in (slice(OLD), slice(None)))
    truth, updated = exact.solve(new), exact.solve(old).update(FRAME[OLD:], y[OLD:], progress=False)
    assert updated.log_evidence == pytest.approx(truth.log_evidence, abs=1e-9)
    new_leaf_model = model_of(slice(None), y, leaf=pt.DirichletMultinomial(2.0))
    assert truth.reweight(new_leaf_model).log_evidence == pytest.approx(exact.solve(new_leaf_model).log_evidence)
    with pytest.raises(ValueError, match="the model differs in y from that of the posterior"):
        truth.reweight(old)
    for post in (exact.visited(truth.sample(20, rng=1)), exact.progressive_mixture(new)):
        with pytest.raises(ValueError, match=r"cannot be updated: compute the posterior of the new model"):
            post.update(FRAME[:1], y[:1])
        with pytest.raises(ValueError, match=r"cannot be reweighted"):
            post.reweight(new_leaf_model)


def test_outputs_of_new_rows_are_matched_by_name():
    y = pd.DataFrame({"h": NUMBERS, "w": 100.0 + FRAME["size"]})
    model, new = model_of(slice(OLD), y, leaf=pt.IndependentNormals(2)), y[OLD:]
    expected = model.with_rows(FRAME[OLD:], new).target.values
    records = new[["w", "h"]].to_records(index=False)
    for same in (new[["w", "h"]], new.assign(z=1.0), new.to_numpy(), records):
        table = FRAME[OLD:] if same is not records else FRAME[OLD:].reset_index(drop=True)
        assert np.array_equal(model.with_rows(table, same).target.values, expected)
    with pytest.raises(ValueError, match=r"y lacks \['w'\]; it has the columns \['h', 'q'\]"):
        exact.solve(model, progress=False).update(FRAME[OLD:], new.rename(columns={"w": "q"}))
    counts = pd.DataFrame({"won": np.arange(N) % 3, "games": 5})
    games = model_of(slice(OLD), counts, leaf=pt.BetaBinomial())
    named = counts.rename(columns={"won": "successes", "games": "trials"})
    for same in (counts, counts[["games", "won"]], named[["trials", "successes"]]):
        assert np.array_equal(games.with_rows(FRAME[OLD:], same[OLD:]).target.values, counts.to_numpy())


def test_updated_posteriors_of_both_engines_are_compared():
    y, parts = CHOICES["numbers"]
    model = model_of(slice(OLD), y, **parts)
    truth, other = exact.solve(model, progress=False), exact.solve(model, progress=False)
    updated = truth.update(FRAME[OLD:], y[OLD:])
    draws = other.update(FRAME[OLD:], y[OLD:]).sample(500, rng=1)
    assert exact.compare(updated, draws).max_abs_z < 5
    for one in (model.with_rows(FRAME[OLD:], y[OLD:] + 1.0), model_of(slice(None), y, split_prior=pt.LocalCuts())):
        with pytest.raises(ValueError, match="different models"):
            exact.compare(updated, exact.solve(one, progress=False).sample(10, rng=1))


@pytest.mark.planted
def test_codes_of_new_rows_in_another_order_are_noticed(monkeypatch):
    """Planted: the codes of the new rows are joined in reverse order, so that they belong to the y of other rows."""
    join = added_rows._join_codes

    def reversed_codes(*arguments):
        scale, old, new = join(*arguments)
        return scale, old, new[::-1]

    monkeypatch.setattr(added_rows, "_join_codes", reversed_codes)
    with pytest.raises(AssertionError):
        test_a_model_with_rows_added_is_the_model_of_all_rows("classes")


def test_rows_that_do_not_fit_are_refused():
    y, parts = CHOICES["classes"]
    old, new = model_of(slice(OLD), y, **parts), FRAME[OLD:]
    for X, labels, match in (
        (new.assign(colour="mauve"), y[OLD:], r"'colour' has a category that the model does not have, in row 0"),
        (new, np.full(N - OLD, "maybe"), r"y is maybe in row 0; the model has the classes \['no', 'yes'\]"),
        (new, y[:3], "X has 10 rows and y has 3"),
        (new.drop(columns="size"), y[OLD:], "X lacks column 'size'"),
    ):
        with pytest.raises(ValueError, match=match):
            old.with_rows(X, labels)
    branching = model_of(slice(OLD), y, missing="branch", **parts)
    with pytest.raises(ValueError, match=r"'size' has a missing value, as no row before, in row 0"):
        branching.with_rows(new.assign(size=np.nan), y[OLD:])
    counts = pt.TreeModel(FRAME[:OLD], np.arange(OLD) % 3, leaf=pt.PoissonGamma(1.0, 1.0, np.ones(OLD)))
    with pytest.raises(ValueError, match="exposure for each row"):
        counts.with_rows(new, np.arange(10))
    split = model_of(slice(OLD), y, leaf=pt.FrozenLaplace(1.0), estimation=0.5)
    with pytest.raises(ValueError, match="estimation="):
        split.with_rows(new, y[OLD:])
