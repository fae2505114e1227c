"""Nominal columns with more categories than a split can tell apart."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pactree_mcmc as pt
from pactree_mcmc.table.labels import CategoryGroup, group_categories, labels_of

JOINED = "ignore:column .* categories:UserWarning"


def sizes_of(groups, n_rows):
    """Rows of each group."""
    rows = dict(zip(range(len(n_rows)), n_rows, strict=True))
    return [sum(rows[label] for label in labels_of(group)) for group in groups.tolist()]


def largest_by_trial(n_rows, most):
    """Smallest possible number of rows of the largest group, by trying every limit."""
    for limit in range(max(n_rows), sum(n_rows) + 1):
        groups, filled = 1, 0
        for rows in n_rows:
            groups, filled = (groups, filled + rows) if filled + rows <= limit else (groups + 1, rows)
        if groups <= most:
            return limit
    raise AssertionError


@given(st.lists(st.integers(1, 50), min_size=64, max_size=300))
@settings(max_examples=50, deadline=None)
def test_groups_are_neighbours_and_as_even_as_possible(n_rows):
    groups = group_categories(np.arange(len(n_rows)), np.array(n_rows))
    assert [label for group in groups.tolist() for label in labels_of(group)] == list(range(len(n_rows)))
    assert len(groups) <= 63
    assert max(sizes_of(groups, n_rows)) == largest_by_trial(n_rows, 63)


def test_missing_values_are_a_category_of_their_own():
    labels = np.array([*map(str, range(100, 200)), None], dtype=object)
    groups = group_categories(labels, np.ones(101, dtype=int))
    assert len(groups) <= 63
    assert groups[-1] is None


@pytest.fixture(scope="module")
def postal():
    """200 postal codes of which the upper half has another rate of successes."""
    rng = np.random.default_rng(0)
    zip_code = rng.integers(0, 200, 2000)
    frame = pd.DataFrame({"zip": [f"{z:05}" for z in zip_code], "a": rng.random(2000)})
    return frame, rng.random(2000) < np.where(zip_code < 100, 0.2, 0.8)


def test_many_categories_are_said_to_be_grouped(postal):
    with pytest.warns(UserWarning, match="column 'zip' has 200 categories.*groups"):
        model = pt.TreeModel(*postal)
    assert len(model.columns.categories[0]) <= 63


@pytest.mark.filterwarnings(JOINED)
def test_a_model_of_many_categories_is_sampled_saved_and_predicts(postal, tmp_path):
    frame, y = postal
    post = pt.sample(pt.TreeModel(frame, y), draws=50, tune=50, chains=2, rng=1, progress=False)
    proba = post.predict_proba(frame)[:, 1]
    upper = frame["zip"] >= "00100"
    assert proba[upper].mean() > 0.7
    assert proba[~upper].mean() < 0.3
    key = next(key for key in post._root_split_pmf() if key is not None and key[0] == 0)
    assert {len(label) for label in key[1]} == {5}
    post.save(tmp_path / "post.nc")
    loaded = pt.load(tmp_path / "post.nc")
    assert np.array_equal(loaded.predict_proba(frame)[:, 1], proba)
    assert isinstance(loaded.model.columns.categories[0][0], CategoryGroup)
    assert np.isfinite(post.predict_proba(pd.DataFrame({"zip": ["never seen"], "a": [0.5]}))).all()


@pytest.mark.filterwarnings(JOINED)
def test_the_prior_is_uniform_over_the_ways_to_part_the_groups(postal):
    frame, y = postal
    model = pt.TreeModel(frame[["zip"]], y)
    groups = len(model.columns.categories[0])
    tree = pt.Tree([0, -1, -1], [0] * 3, [1, 0, 0], [2, 0, 0], [0b1, -1, -1])
    stump = pt.Tree([-1], [0], [0], [0])
    # one group goes left, where nothing can be split; the right side stops with the probability of depth one
    assert model.log_prior(tree) == pytest.approx(np.log(0.95) - np.log(2.0 ** (groups - 1) - 1) + np.log1p(-0.95 / 4))
    assert model.log_prior(stump) == pytest.approx(np.log(0.05))


@pytest.mark.more(everyday=["64"])
@pytest.mark.filterwarnings(JOINED)
@pytest.mark.parametrize("n", [64, 65, 1_000, 20_000])
def test_any_number_of_categories(n):
    labels = np.random.default_rng(n).permutation(n).astype(str)
    model = pt.TreeModel(pd.DataFrame({"id": labels, "a": np.arange(n) % 7}), np.arange(n) % 2)
    assert len(model.columns.categories[0]) <= 63
    stump = pt.Tree([-1], [0], [0], [0])
    assert np.isfinite(model.log_posterior(stump))


@pytest.mark.filterwarnings(JOINED)
def test_groups_that_counted_rows_decide_have_no_certificate(postal):
    frame, y = postal
    estimation = np.arange(2000) % 2 == 0
    model = pt.TreeModel(
        frame, y, leaf=pt.PacBayesLoss(10.0), split_prior=pt.GridCuts([[], [0.5]]), estimation=estimation
    )
    with pytest.raises(ValueError, match="more than 63 categories"):
        pt.sample(model, draws=20, tune=20, chains=1, rng=1, progress=False).certificate(0.05)
