"""Nominal columns with more categories than a split can tell apart."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pactree_mcmc as pt
from pactree_mcmc.table.columns import CategoryGroup, group_categories, labels_of

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
    model = pt.TreeModel(frame, y, split_prior=pt.LocalCuts())
    post = pt.sample(model, draws=50, tune=50, chains=2, rng=1, progress=False)
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
