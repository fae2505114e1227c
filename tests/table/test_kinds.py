"""Ordered columns of every kind: their order, the words of their cuts, new rows, and values that fall together."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest

import exact
import pactree_mcmc as pt

N = 40
LATE = np.arange(N) >= 20
SMALL = pt.ChipmanPrior(max_depth=2)
LEVELS = ["2", "5", "10", "20", "50", "100"]
GRADES = np.resize(LEVELS, N)


def solved(table, y=LATE, **options):
    return exact.solve(pt.TreeModel(table, y, tree_prior=SMALL, **options))


def levels(values, order=LEVELS):
    return pd.DataFrame({"g": pd.Categorical(values, order, ordered=True)})


START = dt.datetime(2024, 1, 1, 8)
COLUMNS = {
    "hours": (pd.Series(pd.to_timedelta(np.arange(N), "h")), "duration", pd.Timedelta),
    "nanoseconds": (pd.Series(np.arange(N).astype("m8[ns]")), "duration", pd.Timedelta),
    "negative": (pd.Series(pd.to_timedelta(np.arange(N) - 60, "D")), "duration", pd.Timedelta),
    "polars durations": (pl.Series([dt.timedelta(minutes=i) for i in range(N)]), "duration", pd.Timedelta),
    "Python durations": (pd.Series([dt.timedelta(i) for i in range(N)], dtype=object), "duration", pd.Timedelta),
    "times of day": (pd.Series([dt.time(8, i) for i in range(N)]), "duration", pd.Timedelta),
    "months": (pd.Series(pd.period_range("2020-01", periods=N, freq="M")), "period", lambda t: pd.Period(t, "M")),
    "quarters": (pd.Series(pd.period_range("2001Q1", periods=N, freq="Q")), "period", lambda t: pd.Period(t, "Q")),
    "years": (
        pd.Series([pd.Period(str(y), "Y") for y in range(1990, 1990 + N)]),
        "period",
        lambda t: pd.Period(t, "Y"),
    ),
    "Python dates": (pd.Series([START.date() + dt.timedelta(i) for i in range(N)]), "day", pd.Timestamp),
    "Python times": (
        pd.Series([START + dt.timedelta(seconds=i) for i in range(N)], dtype=object),
        "time",
        pd.Timestamp,
    ),
    "decimals": (pd.Series([Decimal(i) / 10 for i in range(N)]), "number", Decimal),
}


@pytest.mark.more(everyday=["hours"])
@pytest.mark.parametrize("name", COLUMNS)
def test_a_printed_cut_gives_back_the_rows(name):
    """Values not above the printed cut are those on the left, and new rows go where equal rows went."""
    column, kind, expected_values = COLUMNS[name]
    table = (pd.DataFrame if isinstance(column, pd.Series) else pl.DataFrame)({"when": column})
    post = solved(table)
    tree = post.map_tree()
    assert post.model.columns.kind(0).name == kind
    words, cut = tree.split(0).split(" <= ")
    assert words == "when"
    plain_values = [pd.Timedelta(v.isoformat()) if isinstance(v, dt.time) else v for v in column.to_list()]
    plain_values = [pd.Timestamp(v) if isinstance(v, dt.date) else v for v in plain_values]
    assert [value <= expected_values(cut) for value in plain_values] == (~LATE).tolist()
    assert np.array_equal(post.predict(table), LATE)


def test_levels_have_an_order():
    y = np.isin(GRADES, LEVELS[:3])
    post = solved(levels(GRADES), y)
    assert not post.model.columns.is_nominal.any()
    assert post.model.columns.kind(0).levels == tuple(LEVELS)
    assert len([key for key in post._root_split_pmf() if key]) == 5
    assert post.map_tree().split(0) == "g <= 10"
    enum = pl.DataFrame({"g": pl.Series(GRADES.tolist(), dtype=pl.Enum(LEVELS))})
    assert solved(enum, y).log_evidence == post.log_evidence
    assert np.array_equal(post.predict(enum), y)
    assert solved(levels(GRADES), y, nominal=["g"]).model.columns.is_nominal.all()


def test_new_levels_are_matched_by_label():
    y = np.isin(GRADES, LEVELS[:3])
    post = solved(levels(GRADES), y)
    for new in (
        levels(GRADES, LEVELS[::-1]),
        levels(GRADES, ["1000", *LEVELS[1:], "2"]),
        pd.DataFrame({"g": GRADES}),
        pd.DataFrame({"g": GRADES.astype(int)}),
        pl.DataFrame({"g": GRADES.tolist()}),
        pd.DataFrame({"g": pd.Categorical(GRADES)}),
    ):
        assert np.array_equal(post.predict(new), y)
    with pytest.raises(ValueError, match=r"column 'g' holds '7' in row 1, which is not one of the levels.*2, 5, 10"):
        post.predict(pd.DataFrame({"g": ["2", "7"]}))
    with pytest.raises(ValueError, match=r"contains (NaN|None) .*the model was built without missing values"):
        post.predict(pd.DataFrame({"g": ["2", None]}))


LARGE = {
    "int64": np.repeat(np.array([2**53, 2**53 + 1]), 20)[:, None],
    "uint64": np.repeat(np.array([2**63, 2**63 + 1], dtype=np.uint64), 20)[:, None],
    "negative": np.repeat(np.array([-(2**53), -(2**53) - 1]), 20)[:, None],
    "objects": np.repeat(np.array([2**70, 2**70 + 1], dtype=object), 20)[:, None],
    "lists": [[2**53 + i // 20, 0.5] for i in range(N)],
    "pandas": pd.DataFrame({"a": np.repeat([2**53, 2**53 + 1], 20)}),
    "Int64": pd.DataFrame({"a": pd.array(np.repeat([2**53, 2**53 + 1], 20), dtype="Int64")}),
    "Int64 with gaps": pd.DataFrame({"a": pd.array([None, *np.repeat([2**53, 2**53 + 1], 20)[1:]], dtype="Int64")}),
    "polars": pl.DataFrame({"a": [None, *[2**53 + 1] * (N - 1)]}),
}


@pytest.mark.more(everyday=["int64"])
@pytest.mark.parametrize("name", LARGE)
def test_integers_that_would_be_rounded_are_refused(name):
    advice = r"column '\w+' holds -?\d+ in row \d+, which would be rounded .*subtract the same number"
    with pytest.raises(ValueError, match=advice):
        pt.TreeModel(LARGE[name], LATE, missing="branch")
    with pytest.raises(ValueError, match=r"rounded|cannot hold exactly"):
        pt.BayesianTreeClassifier(missing="branch").fit(LARGE[name], LATE)
    if "gaps" not in name and name != "polars":
        with pytest.raises(ValueError, match="cannot hold exactly"):
            exact.DyadicTreeClassifier().fit(LARGE[name], LATE)


@pytest.mark.parametrize(
    "column",
    [
        np.array(["2024-01-01T00:00:00.000000001", "2024-01-01T00:00:00.000000002"], dtype="M8[ns]"),
        np.array([Decimal("0.1"), Decimal("0.1000000000000000000001")], dtype=object),
        np.array([1, 1 + np.longdouble(2) ** -60], dtype=np.longdouble),
    ],
)
def test_values_that_fall_together_are_refused(column):
    if len(set(column.astype(object).tolist())) == 1:
        pytest.skip("long double is not longer here")
    with pytest.raises(ValueError, match="which 64-bit floating point cannot tell apart; round them"):
        pt.TreeModel(column[:, None], [0, 1])
