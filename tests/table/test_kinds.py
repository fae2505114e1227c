"""Columns of every kind, their coding: codes say what thresholds say; words of cuts, new rows, many categories."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import exact
import pactree_mcmc as pt
from pactree_mcmc.table.coding import DyadicScale, code_type, encode, local_scale, quantile_scale, scale_from_cuts
from pactree_mcmc.table.columns import CategoryGroup, describe_columns, group_categories, labels_of
from pactree_mcmc.table.reader import Table
from tests.problems.refusals import refuses

N = 40
LATE = np.arange(N) >= 20
SMALL = pt.ChipmanPrior(max_depth=2)
LEVELS = ["2", "5", "10", "20", "50", "100"]
GRADES = np.resize(LEVELS, N)
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
JOINED = "ignore:column .* categories:UserWarning"
VALUES_THAT_FALL_TOGETHER = [
    np.array(["2024-01-01T00:00:00.000000001", "2024-01-01T00:00:00.000000002"], dtype="M8[ns]"),
    np.array([Decimal("0.1"), Decimal("0.1000000000000000000001")], dtype=object),
    np.array([1, 1 + np.longdouble(2) ** -60], dtype=np.longdouble),
]
TINY = 5e-324
SCALES = {
    "local": lambda x: local_scale(x, None),
    "local, thinned": lambda x: local_scale(x, 4),
    "quantile": lambda x: quantile_scale(x, 3),
    "quantile, many": lambda x: quantile_scale(x, 1000),
    "given": lambda x: scale_from_cuts(np.unique(np.append(x[::2], [-2.5, 0.5, 1e6]))),
    "given, none": lambda x: scale_from_cuts(np.empty(0)),
}
BOUNDS = {
    "unit": (0.0, 1.0),
    "odd": (-0.3, 7.7),
    "tiny": (0.0, 1e-300),
    "huge": (-1.5e308, 1.5e308),
    "far from zero": (1e6, 1e6 + 1.0),
}
DUPLICATES = np.array([[1.0, 5], [2, 5], [1, 5], [1, 6], [2, 5], [1, 5], [3, 7]])
WEIGHT = np.array([0.5, 1, 2, 1, 3, 0, 1])
TYPES_OF_CODES = [
    (256, 500_000, np.uint8),
    (257, 500_000, np.uint16),
    (2, 499_999, np.uint16),
    (65_536, 10, np.uint16),
    (65_537, 10, np.uint32),
    (1 << 31, 10**6, np.uint32),
]


def solved(table, y=LATE, **options):
    return exact.solve(pt.TreeModel(table, y, tree_prior=SMALL, **options))


def levels(values, order=LEVELS):
    return pd.DataFrame({"g": pd.Categorical(values, order, ordered=True)})


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
    assert not post.model.columns.is_nominal.any() and post.model.columns.kind(0).levels == tuple(LEVELS)
    assert len([key for key in post._root_split_pmf() if key]) == 5 and post.map_tree().split(0) == "g <= 10"
    enum = pl.DataFrame({"g": pl.Series(GRADES.tolist(), dtype=pl.Enum(LEVELS))})
    assert solved(enum, y).log_evidence == post.log_evidence and np.array_equal(post.predict(enum), y)
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


@pytest.mark.more(everyday=["int64"])
@pytest.mark.parametrize("name", LARGE)
def test_integers_that_would_be_rounded_are_refused(name):
    advice = r"column '\w+' holds -?\d+ in row \d+, which would be rounded .*subtract the same number"
    refuses(advice, lambda: pt.TreeModel(LARGE[name], LATE, missing="branch"))
    refuses(r"rounded|cannot hold exactly", lambda: pt.BayesianTreeClassifier(missing="branch").fit(LARGE[name], LATE))
    if "gaps" not in name and name != "polars":
        refuses("cannot hold exactly", lambda: exact.DyadicTreeClassifier().fit(LARGE[name], LATE))


@pytest.mark.parametrize("column", VALUES_THAT_FALL_TOGETHER)
def test_values_that_fall_together_are_refused(column):
    if len(set(column.astype(object).tolist())) == 1:
        pytest.skip("long double is not longer here")
    refuses("which 64-bit floating point cannot tell apart; round them", lambda: pt.TreeModel(column[:, None], [0, 1]))


def sizes_of(groups, n_rows):
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
    assert len(groups) <= 63 and max(sizes_of(groups, n_rows)) == largest_by_trial(n_rows, 63)


@pytest.fixture(scope="module")
def postal():
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
    assert proba[upper].mean() > 0.7 and proba[~upper].mean() < 0.3
    key = next(key for key in post._root_split_pmf() if key is not None and key[0] == 0)
    assert {len(label) for label in key[1]} == {5}
    post.save(tmp_path / "post.nc")
    loaded = pt.load(tmp_path / "post.nc")
    assert np.array_equal(loaded.predict_proba(frame)[:, 1], proba)
    assert isinstance(loaded.model.columns.categories[0][0], CategoryGroup)
    assert np.isfinite(post.predict_proba(pd.DataFrame({"zip": ["never seen"], "a": [0.5]}))).all()


def floats_after(x, n):
    return x + np.arange(n) * np.spacing(x)


VALUES = {
    "integers": np.arange(20.0),
    "ties": np.array([3.0, 1, 1, 2, 2, 2, 7, 7, 1, 3]),
    "constant": np.full(5, 0.1),
    "neighbours above 1": floats_after(1.0, 9),
    "neighbours below 1": 1.0 - np.arange(9) * np.spacing(0.5),
    "neighbours, large": floats_after(1e17, 7),
    "denormal": np.array([0.0, TINY, 2 * TINY, 3 * TINY, -TINY]),
    "huge": np.array([-1.7e308, 1.7e308, 1.6e308, 0.0, 1.0]),
    "all magnitudes": np.concatenate([s * 10.0 ** np.arange(-300, 301, 50) for s in (-1, 1)] + [[0.0]]),
    "signed zeros": np.array([-0.0, 0.0, 1.0, -1.0]),
    "irregular": np.random.default_rng(1).normal(size=200),
}


def codes_of(x, scale):
    table = Table(np.asarray(x)[:, None])
    return encode(table, describe_columns(table, None), [scale])[0].astype(np.int64)


@pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES.keys())
@pytest.mark.parametrize("x", VALUES.values(), ids=VALUES.keys())
def test_codes_say_what_thresholds_say(x, scale):
    scale = scale(x)
    codes, cuts = codes_of(x, scale), np.arange(scale.n_codes - 1)
    thresholds = scale.threshold(cuts, cuts + 1)
    assert np.all(np.isfinite(thresholds)) and np.all(np.diff(thresholds) > 0.0)
    for cut, threshold in zip(cuts, thresholds, strict=True):
        np.testing.assert_array_equal(x <= threshold, codes <= cut)
        assert scale.cut_of(float(threshold)) == cut


@pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES.keys())
def test_infinite_thresholds_are_the_trivial_cuts(scale):
    scale = scale(VALUES["ties"])
    assert scale.cut_of(np.inf) == scale.n_codes - 1 and scale.cut_of(-np.inf) == -1
    last = np.array([scale.n_codes - 1, -1])
    assert scale.threshold(last, np.full(2, scale.n_codes)).tolist() == [np.inf, -np.inf]


@pytest.mark.parametrize("levels", [1, 2, 3, 8, 20, 31])
@pytest.mark.parametrize(("lower", "upper"), BOUNDS.values(), ids=BOUNDS.keys())
def test_dyadic_codes_say_what_thresholds_say(lower, upper, levels):
    """Values on, just above and just below thresholds, on the bounds and outside them."""
    scale, rng = DyadicScale(lower, upper, levels), np.random.default_rng(levels)
    assert scale.n_codes == 2**levels
    cuts = np.unique(np.concatenate([rng.integers(scale.n_codes - 1, size=30), [0, scale.n_codes - 2]]))
    thresholds = scale.threshold(cuts, cuts + 1)
    fraction = rng.random(50)
    x = np.concatenate([thresholds, lower * fraction + upper * (1 - fraction), [lower, upper, -1.7e308, 1.7e308]])
    x = np.concatenate([x, np.nextafter(thresholds, np.inf), np.nextafter(thresholds, -np.inf)])
    codes = codes_of(x, scale)
    for cut, threshold in zip(cuts, thresholds, strict=True):
        np.testing.assert_array_equal(x <= threshold, codes <= cut)
        assert scale.cut_of(float(threshold)) == cut


@pytest.mark.parametrize("bounds", [(1.0, 1.0 + 2**-50), (1.0, np.nextafter(1.0, 2.0)), (0.0, TINY), (1e9, 1e9 + 1e-3)])
def test_dyadic_codes_follow_the_midpoints_where_rounding_makes_thresholds_equal(bounds):
    """The splits on a row's way down, each cell's midpoint, are answered alike in codes and in numbers."""
    scale = DyadicScale(*bounds, levels=31)
    x = np.linspace(*bounds, 20)
    codes = codes_of(x, scale)
    low, high = np.zeros(len(x), dtype=np.int64), np.full(len(x), scale.n_codes)
    for _ in range(31):
        cut = (low + high) // 2 - 1
        left = codes <= cut
        np.testing.assert_array_equal(left, x <= scale.threshold(cut, cut + 1))
        low, high = np.where(left, low, cut + 1), np.where(left, cut + 1, high)


@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_merging_rows_of_a_regression(weight):
    """Four kinds of rows; counts, weights and moments add up, in order of first occurrence."""
    y = np.array([1.0, 2, 4, 8, 16, 32, 64])
    model = pt.TreeModel(DUPLICATES, y, sample_weight=weight)
    units, w = model.units, np.ones(7) if weight is None else weight
    assert model.unit_of_row.tolist() == [0, 1, 0, 2, 1, 0, 3] and units.n_units == 4
    assert units.codes.tolist() == [[0, 1, 0, 2], [0, 0, 1, 2]] and units.rows.tolist() == [3, 2, 1, 1]
    centred = y - np.average(y, weights=w)
    for total, part in ((units.weight, w), (units.moments[0], w * centred), (units.moments[1], w * centred**2)):
        assert total == pytest.approx([part[[0, 2, 5]].sum(), part[[1, 4]].sum(), part[3], part[6]])


def test_merging_rows_of_a_classification():
    """Rows with equal codes stay apart when their labels differ."""
    model = pt.TreeModel(DUPLICATES, list("abbaaba"), sample_weight=WEIGHT)
    units = model.units
    assert model.unit_of_row.tolist() == [0, 1, 2, 3, 4, 2, 5] and units.label.tolist() == [0, 1, 1, 0, 0, 0]
    assert units.rows.tolist() == [1, 1, 2, 1, 1, 1] and units.weight.tolist() == [0.5, 1, 2, 1, 3, 1]
    assert model.root_cell().stats(2) == pytest.approx([5.5, 3.0])


@pytest.mark.parametrize(("n_codes", "n_rows", "dtype"), TYPES_OF_CODES)
def test_codes_take_small_integers(n_codes, n_rows, dtype):
    assert code_type(n_codes, n_rows) is dtype


@pytest.mark.parametrize("thin", [quantile_scale, local_scale], ids=["quantile", "local"])
@pytest.mark.parametrize("max_cuts", [1, 2, 7, 50, 255])
class TestThinning:
    """At most ``max_cuts`` cuts, between bins about equally full."""

    def test_distinct_values(self, thin, max_cuts):
        """With n distinct values every bin is full to within one row."""
        x = np.random.default_rng(max_cuts).permutation(np.random.default_rng(0).normal(size=1000))
        scale = thin(x, max_cuts)
        rows = np.bincount(codes_of(x, scale))
        assert scale.n_codes == max_cuts + 1 == len(rows) and rows.max() - rows.min() <= 1

    def test_ties(self, thin, max_cuts):
        """A bin overflows by no more than the rows of one value."""
        x = np.random.default_rng(1).poisson(8.0, 1000).astype(float)
        scale = thin(x, max_cuts)
        rows = np.bincount(codes_of(x, scale))
        most = np.unique(x, return_counts=True)[1].max()
        assert scale.n_codes <= min(max_cuts + 1, len(np.unique(x))) and rows.min() >= 1
        assert rows.max() <= 1000 / (max_cuts + 1) + most

    def test_few_values_keep_every_cut(self, thin, max_cuts):
        x = np.repeat(np.arange(max_cuts + 1.0), 3)
        assert thin(x, max_cuts).cuts.tolist() == (np.arange(max_cuts) + 0.5).tolist()


@pytest.mark.parametrize("max_cuts", [3, 40])
@pytest.mark.parametrize("x", VALUES.values(), ids=VALUES.keys())
def test_quantile_cuts_are_short_and_separate_the_rows_as_midpoints_do(x, max_cuts):
    """Each cut has at most six digits, or no shorter decimal lies between its neighbours."""
    scale, thinned = quantile_scale(x, max_cuts), local_scale(x, max_cuts)
    np.testing.assert_array_equal(codes_of(x, scale), codes_of(x, thinned))
    for cut, low, high in zip(scale.cuts.tolist(), thinned.high[:-1].tolist(), thinned.low[1:].tolist(), strict=True):
        digits = len(f"{cut!r}".partition("e")[0].replace(".", "").replace("-", "").strip("0"))
        inner = np.nextafter(low, np.inf)
        shorter = [float(f"{end:.{n}e}") for n in range(min(digits, 17) - 1) for end in (inner, cut, high)]
        assert digits <= 6 or not any(inner <= number < high for number in shorter)
