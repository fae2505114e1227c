"""Exact against sampled; counts fed in pieces; trees near the best one; the bar of the exact engine."""

import io
import pickle
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import exact
import pactree_mcmc as pt
from exact import design_counts, limits
from tests.problems.refusals import refuses

DAYS = pd.Timestamp("2020-03-01") + pd.to_timedelta(range(12), unit="D")
TABLE = pd.DataFrame({"smoker": [True, False] * 6, "day": DAYS})
RNG = np.random.default_rng(0)
OTHER_PAIRS = [
    ("draws draws", "got SampledPosterior and SampledPosterior; .*: both are Monte Carlo, .*exact.solve.*R-hat"),
    ("truth truth", r"got ExactPosterior and ExactPosterior; .*: both are exact, and .sample\(draws, rng\)"),
    ("draws truth", "got SampledPosterior and ExactPosterior; .*: swap them"),
    ("truth none", r"got ExactPosterior and NoneType; give an ExactPosterior, then a SampledPosterior\.$"),
]
DESIGNS = {
    "cyclic": pt.DyadicCuts(3, cyclic=True, bounds=[[0.0, 1.0]] * 2),
    "free": pt.DyadicCuts(2, bounds=[[0.0, 1.0]] * 2),
    "grid": pt.GridCuts([[0.3, 0.6], [0.5]]),
    "tree": pt.FixedTree(pt.Tree([0, 1, -1, -1, -1], [0.4, 0.7, 0, 0, 0], [1, 2, 0, 0, 0], [4, 3, 0, 0, 0])),
}
PRIOR = pt.BranchingProcess(0.5, 6)
NEAR = np.random.default_rng(3)
SHALLOW = pt.ChipmanPrior(0.9, 1.0, max_depth=2)
MODELS = {
    "classes": lambda: pt.TreeModel(LETTERED, COINS, tree_prior=SHALLOW),
    "leaf penalty": lambda: pt.TreeModel(NUMBERS, COINS, tree_prior=pt.LeafPenalty(1.5, max_depth=2)),
    "numbers": lambda: pt.TreeModel(NUMBERS[:, :2], NUMBERS[:, 2], tree_prior=SHALLOW),
    "grid": lambda: pt.TreeModel(NUMBERS, COINS, split_prior=pt.GridCuts(2), tree_prior=SHALLOW),
    "two rows": lambda: pt.TreeModel([[0.0], [1.0]], [0, 1]),
}
DESIGNS_THAT_LOOK_AT_THE_DATA = [
    (pt.LocalCuts(), "depends on the data"),
    (pt.GridCuts(4), "depends on the data"),
    (pt.DyadicCuts(2), "give DyadicCuts with bounds"),
]
NUMBERS = NEAR.integers(0, 3, (16, 3)).astype(float)
LETTERED = pd.DataFrame(
    {"a": NUMBERS[:, 0], "b": pd.Categorical.from_codes(NUMBERS[:, 1].astype(int), list("pqr")), "c": NUMBERS[:, 2]}
)
COINS = NEAR.integers(0, 2, 16)


@pytest.fixture(scope="module")
def both():
    truth = exact.solve(pt.TreeModel(TABLE, np.arange(12) > 5))
    return {"truth": truth, "draws": truth.sample(300, rng=1), "none": None}


@pytest.mark.more(
    everyday=["truth truth-got ExactPosterior and ExactPosterior; .*: both are exact, and .sample\\\\(draws, rng\\\\)"]
)
@pytest.mark.parametrize(("pair", "words"), OTHER_PAIRS)
def test_other_pairs_are_told_what_to_do(pair, words, both):
    with pytest.raises(TypeError, match=words):
        exact.compare(*(both[name] for name in pair.split()))


def test_splits_at_the_root_are_in_the_words_of_trees(both):
    rows = exact.compare(both["truth"], both["draws"]).rows
    root_quantities = [row.quantity for row in rows if row.quantity.startswith("root: ")]
    assert "root: day <= 2020-03-06" in root_quantities and "root: smoker = no" in root_quantities


X = RNG.integers(0, 5, (60, 3)).astype(float)
Y = X[:, 0] + RNG.normal(0.0, 2.5, 60)


@pytest.fixture(scope="module")
def truth():
    return exact.solve(pt.TreeModel(X, Y, tree_prior=pt.ChipmanPrior(0.95, 2.0, max_depth=3)))


def z_of_rows(truth, runs):
    """Exact values and z (runs, rows) of events and predictions over several runs."""
    rows = [[row for row in exact.compare(truth, run, X=X[:4]).rows if np.isfinite(row.z)] for run in runs]
    return np.array([row.exact for row in rows[0]]), np.array([[row.z for row in one] for one in rows])


def is_event(truth, run):
    rows = [row for row in exact.compare(truth, run, X=X[:4]).rows if np.isfinite(row.z)]
    return np.array([not row.quantity.startswith("predictive") for row in rows])


def check(truth, runs, least=0.75):
    exact_values, z = z_of_rows(truth, runs)
    event = is_event(truth, runs[0])
    chance = np.minimum(exact_values, 1.0 - exact_values)
    for rows in (event & (chance < 0.05) & (chance > 0.001), event & (chance >= 0.05), ~event):
        some = z[:, rows]
        assert some.size and least < some.std() < 1.2
        assert np.mean(np.abs(some) > 2.0) < 0.09 and np.mean(np.abs(some) > 3.0) < 0.02


def test_independent_draws(truth):
    """With the variance of the draws, z of events of probability below .05 is beyond 3 in 4 of 100 runs."""
    check(truth, [truth.sample(1000, rng=seed) for seed in range(60)])


def test_an_event_that_is_never_seen_has_the_exact_variance(truth):
    run = truth.sample(1000, rng=1)
    rows = exact.compare(truth, run).rows
    for row in rows:
        if row.quantity.startswith(("leaves", "root", "inclusion")) and row.exact < 0.999:
            variance = row.exact * (1.0 - row.exact)
            # the effective size of independent draws is estimated, and seldom below one half of their number
            assert variance / 1500 < row.mc_error**2 < variance / 500


def test_a_wrong_sampler_is_seen(truth):
    other = pt.TreeModel(X, Y, tree_prior=pt.ChipmanPrior(0.5, 2.0, max_depth=3))
    wrong = exact.solve(other).sample(1000, rng=1)
    trees = [wrong.draws.distinct_tree(t) for t in range(wrong.draws.n_distinct_trees)]
    run = pt.posterior_from_trees(truth.model, trees, wrong.draws.tree_of_draw)
    assert exact.compare(truth, run).max_abs_z > 8.0


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("stream", "words"), [(io.StringIO, None), (Terminal, "3,000 of 5,000 cells")])
def test_the_bar(stream, words, monkeypatch):
    monkeypatch.setattr(sys, "stderr", stream())
    monkeypatch.setattr(limits, "DELAY", 0.0)
    with limits.stage(True, "summing", 5000) as bar:
        bar.add(3000)
    text = sys.stderr.getvalue()
    assert (text == "") if words is None else ("summing" in text and "of 5" in text and "cells" in text)
    assert "1.47s" not in text and "splits]" not in text


def _fed(design, pieces):
    counts = exact.DesignCounts(design)
    for piece in pieces:
        counts.update(*piece[:2], **piece[2])
    return counts


def _pieces(X, y, ends, **options):
    starts = [0, *ends]
    stops = [*ends, len(X)]
    return [(X[a:b], y[a:b], {name: column[a:b] for name, column in options.items()}) for a, b in zip(starts, stops)]


@pytest.mark.more(everyday=["cyclic"])
@pytest.mark.parametrize("name", DESIGNS)
def test_pieces_and_workers_equal_the_batch_exactly(name, monkeypatch):
    monkeypatch.setattr(design_counts, "MIN_UNMERGED_ROWS", 40)
    rng = np.random.default_rng(1)
    X, y = rng.random((500, 2)), np.array(["no", "yes", "who"])[rng.integers(0, 3, 500)]
    batch = exact.solve(pt.TreeModel(X, y, split_prior=DESIGNS[name], tree_prior=PRIOR))
    pieces = _pieces(X, y, [1, 2, 60, 61, 300])
    streamed = _fed(DESIGNS[name], pieces)
    merged = _fed(DESIGNS[name], pieces[3:]) + _fed(DESIGNS[name], pieces[:1]) + _fed(DESIGNS[name], pieces[1:3])
    for counts in (streamed, merged):
        assert counts.n_rows == 500 and counts.n_cells <= 3 * 64
        truth = counts.solve(tree_prior=PRIOR)
        assert truth.log_evidence == batch.log_evidence
        assert np.array_equal(truth.predict_proba(X), batch.predict_proba(X))
        assert np.array_equal(truth.cell_probabilities().leaf, batch.cell_probabilities().leaf)


@pytest.mark.more(everyday=["None"])
@pytest.mark.parametrize("leaf", [None, pt.NormalKnownVariance(1.0, 0.0, 0.5)])
def test_numbers_and_weights_equal_the_batch_up_to_rounding(leaf, monkeypatch):
    monkeypatch.setattr(design_counts, "MIN_UNMERGED_ROWS", 40)
    rng = np.random.default_rng(3)
    X, y, w = rng.random((400, 2)), 1e3 + rng.normal(size=400), rng.choice([0.0, 0.5, 2.0], 400)
    batch = exact.solve(pt.TreeModel(X, y, split_prior=DESIGNS["cyclic"], tree_prior=PRIOR, leaf=leaf, sample_weight=w))
    counts = _fed(DESIGNS["cyclic"], _pieces(X, y, [100, 101, 150, 390], sample_weight=w))
    truth = counts.solve(tree_prior=PRIOR, leaf=leaf)
    assert counts.n_cells <= 2 * 64 and truth.log_evidence == pytest.approx(batch.log_evidence, rel=1e-12)
    assert truth.predict(X) == pytest.approx(batch.predict(X), rel=1e-12)


@pytest.mark.parametrize("kind", [object, "category", pd.CategoricalDtype(["red", "blue"], ordered=True)])
def test_nominal_columns_are_refused(kind):
    """Each piece would number its categories anew."""
    piece = pd.DataFrame({"x": [0.1, 0.9], "colour": pd.Series(["red", "blue"], dtype=kind)})
    with pytest.raises(ValueError, match="column 'colour' is categorical; a stream takes ordered columns only"):
        exact.DesignCounts(DESIGNS["grid"]).update(piece, [0, 1])


@pytest.mark.parametrize(("split_prior", "message"), DESIGNS_THAT_LOOK_AT_THE_DATA)
def test_designs_that_look_at_the_data_are_refused(split_prior, message):
    refuses(message, lambda: exact.DesignCounts(split_prior))


def test_bad_pieces():
    refuses("split_prior is 3", lambda: exact.DesignCounts(3), TypeError)
    counts = exact.DesignCounts(DESIGNS["cyclic"]).update([[0.1, 0.2]], [1])
    refuses("1 rows were added", lambda: counts.solve(tree_prior=PRIOR))
    refuses("X has 1 columns; the pieces before have 2", lambda: counts.update([[0.1]], [1]))
    refuses(r"y has shape \(2,\); X has 1 rows", lambda: counts.update([[0.1, 0.2]], [1, 2]))
    refuses("y has dtype float64; the pieces before have int64", lambda: counts.update([[0.1, 0.2]], [0.5]))
    refuses("estimation was given for some pieces only", lambda: counts.update([[0.1, 0.2]], [1], estimation=[True]))
    refuses("give finite weights >= 0", lambda: counts.update([[0.1, 0.2]], [1], sample_weight=[-1.0]))
    refuses("different designs", lambda: counts + exact.DesignCounts(DESIGNS["free"]))
    with pytest.raises(ValueError, match="different designs"):
        _ = exact.DesignCounts(replace(DESIGNS["free"], feature_weights=[1.0, 2.0])) + exact.DesignCounts(
            DESIGNS["free"]
        )
    refuses("PoissonGamma needs each count", lambda: counts.update([[0.1, 0.2]], [1]).solve(leaf=pt.PoissonGamma()))
    assert counts.n_rows == 2


def test_rows_do_not_travel():
    """Pickled counts are a cell and class each, and go on like those that stay."""
    X, y = np.random.default_rng(0).random((5000, 2)), np.arange(5000) % 2
    counts = exact.DesignCounts(DESIGNS["free"]).update(X, y)
    data = pickle.dumps(counts)
    assert len(data) < X.nbytes / 4
    there, here = pickle.loads(data).update(X, y), exact.DesignCounts(DESIGNS["free"]).update(X, y).update(X, y)
    assert there.n_rows == here.n_rows == 10_000 and there.solve().log_evidence == here.solve().log_evidence
    assert pickle.loads(pickle.dumps(exact.DesignCounts(DESIGNS["free"]))).n_rows == 0


@pytest.mark.parametrize("name", MODELS)
def test_exactly_the_trees_near_the_best(name):
    model = MODELS[name]()
    truth = exact.solve(model)
    every = truth.best_trees(truth.n_trees).trees
    log_joint = np.array([model.log_posterior(tree) for tree in every])
    for epsilon in (0.0, 1.0, 3.0):
        near = truth.trees_within(epsilon)
        is_near = log_joint >= log_joint.max() - epsilon - 1e-9
        assert near.complete and set(near.trees) == {tree for tree, here in zip(every, is_near, strict=True) if here}
        assert near.log_joint == pytest.approx(np.sort(log_joint[is_near])[::-1], abs=1e-9)
    few = truth.trees_within(1e6, most=2)
    assert len(few.trees) == min(2, len(every)) and few.complete == (len(every) <= 2)


def test_ambiguity_and_importance_against_predictions():
    near = exact.solve(MODELS["classes"]()).trees_within(3.0)
    labels = np.array([tree.predict(LETTERED) for tree in near.trees])
    assert near.ambiguity(LETTERED) == pytest.approx((labels != labels[0]).any(axis=0).mean())
    permuted, generator = LETTERED.copy(), np.random.default_rng(5)
    for column in LETTERED:
        permuted[column] = generator.permutation(LETTERED[column])
    importance = near.importance(LETTERED, COINS, rng=5)
    assert importance.shape == (3, 2)
    for k, column in enumerate(LETTERED):
        changed = LETTERED.assign(**{column: pd.Series(permuted[column], dtype=LETTERED[column].dtype)})
        increase = [
            np.mean(tree.predict(changed) != COINS) - np.mean(tree.predict(LETTERED) != COINS) for tree in near.trees
        ]
        assert importance[k] == pytest.approx([min(increase), max(increase)])
    with pytest.raises(ValueError, match="do not predict classes"):
        exact.solve(MODELS["numbers"]()).trees_within(0.0).ambiguity(np.ones((2, 2)))
    refuses(r"y has shape \(2,\)", lambda: near.importance(LETTERED, [0, 1]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"epsilon": -1.0}, "epsilon=-1.0 is out of range"), ({"epsilon": 1.0, "most": 0}, "most=0")],
)
def test_wrong_arguments(arguments, message):
    refuses(message, lambda: exact.solve(MODELS["two rows"]()).trees_within(**arguments))
