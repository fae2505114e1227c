"""Counts fed in pieces or merged from workers give the posterior of all rows at once."""

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import exact
import pactree_mcmc as pt
from exact import design_counts

DESIGNS = {
    "cyclic": pt.DyadicCuts(3, cyclic=True, bounds=[[0.0, 1.0]] * 2),
    "free": pt.DyadicCuts(2, bounds=[[0.0, 1.0]] * 2),
    "grid": pt.GridCuts([[0.3, 0.6], [0.5]]),
    "tree": pt.FixedTree(pt.Tree([0, 1, -1, -1, -1], [0.4, 0.7, 0, 0, 0], [1, 2, 0, 0, 0], [4, 3, 0, 0, 0])),
}
PRIOR = pt.BranchingProcess(0.5, 6)


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
        assert counts.n_rows == 500
        assert counts.n_cells <= 3 * 64
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
    assert counts.n_cells <= 2 * 64
    assert truth.log_evidence == pytest.approx(batch.log_evidence, rel=1e-12)
    assert truth.predict(X) == pytest.approx(batch.predict(X), rel=1e-12)


@pytest.mark.parametrize("kind", [object, "category", pd.CategoricalDtype(["red", "blue"], ordered=True)])
def test_nominal_columns_are_refused(kind):
    """Each piece would number its categories anew."""
    piece = pd.DataFrame({"x": [0.1, 0.9], "colour": pd.Series(["red", "blue"], dtype=kind)})
    with pytest.raises(ValueError, match="column 'colour' is categorical; a stream takes ordered columns only"):
        exact.DesignCounts(DESIGNS["grid"]).update(piece, [0, 1])


@pytest.mark.parametrize(
    ("split_prior", "message"),
    [
        (pt.LocalCuts(), "depends on the data"),
        (pt.GridCuts(4), "depends on the data"),
        (pt.DyadicCuts(2), "give DyadicCuts with bounds"),
    ],
)
def test_designs_that_look_at_the_data_are_refused(split_prior, message):
    with pytest.raises(ValueError, match=message):
        exact.DesignCounts(split_prior)


def test_bad_pieces():
    with pytest.raises(TypeError, match="split_prior is 3"):
        exact.DesignCounts(3)
    counts = exact.DesignCounts(DESIGNS["cyclic"]).update([[0.1, 0.2]], [1])
    with pytest.raises(ValueError, match="1 rows were added"):
        counts.solve(tree_prior=PRIOR)
    with pytest.raises(ValueError, match="X has 1 columns; the pieces before have 2"):
        counts.update([[0.1]], [1])
    with pytest.raises(ValueError, match=r"y has shape \(2,\); X has 1 rows"):
        counts.update([[0.1, 0.2]], [1, 2])
    with pytest.raises(ValueError, match="y has dtype float64; the pieces before have int64"):
        counts.update([[0.1, 0.2]], [0.5])
    with pytest.raises(ValueError, match="estimation was given for some pieces only"):
        counts.update([[0.1, 0.2]], [1], estimation=[True])
    with pytest.raises(ValueError, match="give finite weights >= 0"):
        counts.update([[0.1, 0.2]], [1], sample_weight=[-1.0])
    with pytest.raises(ValueError, match="different designs"):
        counts + exact.DesignCounts(DESIGNS["free"])
    with pytest.raises(ValueError, match="different designs"):
        _ = exact.DesignCounts(replace(DESIGNS["free"], feature_weights=[1.0, 2.0])) + exact.DesignCounts(
            DESIGNS["free"]
        )
    with pytest.raises(ValueError, match="PoissonGamma needs each count"):
        counts.update([[0.1, 0.2]], [1]).solve(leaf=pt.PoissonGamma())
    assert counts.n_rows == 2


def test_rows_do_not_travel():
    """Pickled counts are a cell and class each, and go on like those that stay."""
    X, y = np.random.default_rng(0).random((5000, 2)), np.arange(5000) % 2
    counts = exact.DesignCounts(DESIGNS["free"]).update(X, y)
    data = pickle.dumps(counts)
    assert len(data) < X.nbytes / 4
    there, here = pickle.loads(data).update(X, y), exact.DesignCounts(DESIGNS["free"]).update(X, y).update(X, y)
    assert there.n_rows == here.n_rows == 10_000
    assert there.solve().log_evidence == here.solve().log_evidence
    assert pickle.loads(pickle.dumps(exact.DesignCounts(DESIGNS["free"]))).n_rows == 0
