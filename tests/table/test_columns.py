"""Frames as users have them: text, truth values, dates; what trees say of them; and which rows of y are missing."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.table.words import DAY, MICROSECONDS, TIME, TRUTH, UTC, value_text

N = 24
DAYS = pd.Timestamp("2020-03-01") + pd.to_timedelta(np.arange(N) % 6, unit="D")
SMOKER = np.random.default_rng(0).random(N) < 0.5
SMALL = pt.ChipmanPrior(max_depth=2)


def solved(table, y, **options):
    return exact.solve(pt.TreeModel(table, y, tree_prior=SMALL, **options))


def split(table, y):
    """Return the root split of the most probable tree."""
    return solved(table, y).map_tree().split(0)


BOOLEANS = {
    "bool": pd.DataFrame({"smoker": SMOKER}),
    "boolean": pd.DataFrame({"smoker": pd.array(SMOKER, dtype="boolean")}),
    "object": pd.DataFrame({"smoker": pd.Series(SMOKER, dtype=object)}),
    "polars": pl.DataFrame({"smoker": SMOKER.tolist()}),
}


@pytest.mark.more(everyday=["bool"])
@pytest.mark.parametrize("kind", BOOLEANS)
def test_truth_values_print_as_yes_and_no(kind):
    post = solved(BOOLEANS[kind], SMOKER.astype(int))
    tree = post.map_tree()
    assert post.model.columns.kinds == (TRUTH,)
    assert tree.split(0) == "smoker = no"
    assert tree.format().splitlines()[0] == f"smoker = no ({N} rows)"
    assert 'label="smoker = no"' in tree.to_dot()
    nominal = solved(BOOLEANS[kind], SMOKER.astype(int), nominal="smoker").map_tree()
    assert nominal.split(0) == "smoker in {no}"


DATES = {
    "pandas": (pd.DataFrame({"day": DAYS}), DAY, "day <= 2020-03-03"),
    "seconds": (pd.DataFrame({"day": DAYS.astype("datetime64[s]")}), DAY, "day <= 2020-03-03"),
    "polars date": (pl.DataFrame({"day": pl.Series(DAYS.tolist()).cast(pl.Date)}), DAY, "day <= 2020-03-03"),
    "polars datetime": (pl.DataFrame({"day": DAYS.tolist()}), DAY, "day <= 2020-03-03"),
    "array": (DAYS.to_numpy()[:, None], DAY, "x0 <= 2020-03-03"),
    "zone": (pd.DataFrame({"day": DAYS.tz_localize("Europe/Berlin")}), UTC, "day <= 2020-03-03 11:00 UTC"),
}


@pytest.mark.more(everyday=["pandas"])
@pytest.mark.parametrize("kind", DATES)
def test_dates_are_ordered_and_print_as_dates(kind):
    table, holds, words = DATES[kind]
    late = DAYS.to_numpy() > np.datetime64("2020-03-03")
    post = solved(table, np.where(late, "late", "early"))
    assert post.model.columns.kinds == (holds,)
    assert post.map_tree().split(0) == words
    assert post.map_tree().format().startswith(words)
    assert np.array_equal(post.predict(table) == "late", late)


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("2020-03-01T12:00", DAY, "2020-03-01"),
        ("1969-12-31T12:00", DAY, "1969-12-31"),
        ("1969-12-31T12:00", TIME, "1969-12-31 12:00"),
        ("2020-03-01T00:00", TIME, "2020-03-01 00:00"),
        ("2020-03-01T10:00:30", TIME, "2020-03-01 10:00:30"),
        ("2020-03-01T10:00:00.25", TIME, "2020-03-01 10:00:00.25"),
        ("2020-03-01T10:00:10.000001", UTC, "2020-03-01 10:00:10.000001 UTC"),
    ],
)
def test_words_of_dates(text, kind, words):
    days = np.datetime64(text, "us").astype(np.int64) / MICROSECONDS
    assert value_text(float(days), kind) == words


MISSING_LABELS = {
    "numbers": [1, None, 2, 3],
    "strings": ["a", None, "b", "a"],
    "object array": np.array([1.5, None, 2.0, 3.0], dtype=object),
    "Int64": pd.Series([1, None, 2, 3], dtype="Int64"),
    "string": pd.Series(["a", None, "b", "a"], dtype="string"),
    "category": pd.Series(["a", None, "b", "a"], dtype="category"),
    "boolean": pd.Series([True, None, False, True], dtype="boolean"),
    "polars numbers": pl.Series([1, None, 2, 3]),
    "polars strings": pl.Series(["a", None, "b", "a"]),
    "polars booleans": pl.Series([True, None, False, True]),
    "NaN": [1.0, np.nan, 2.0, 3.0],
}
FITS = {
    "model": lambda X, y: pt.TreeModel(X, y),
    "classifier": lambda X, y: pt.BayesianTreeClassifier().fit(X, y),
    "classifier, frame": lambda X, y: pt.BayesianTreeClassifier().fit(pd.DataFrame(X, columns=["a"]), y),
    "regressor": lambda X, y: pt.BayesianTreeRegressor().fit(X, y),
    "regressor, frame": lambda X, y: pt.BayesianTreeRegressor().fit(pd.DataFrame(X, columns=["a"]), y),
    **{
        name: lambda X, y, name=name: getattr(exact, name)().fit(X, y)
        for name in exact.__all__
        if name.endswith("Classifier")
    },
}


@pytest.mark.more(
    everyday=[
        "model-numbers",
        "model-category",
        "model-NaN",
        "classifier-numbers",
        "classifier-strings",
        "classifier-boolean",
        "classifier, frame-strings",
        "classifier, frame-object array",
        "classifier, frame-polars numbers",
        "regressor-Int64",
        "regressor-polars strings",
        "regressor, frame-string",
        "regressor, frame-polars booleans",
    ]
)
@pytest.mark.parametrize("labels", MISSING_LABELS)
@pytest.mark.parametrize("fit", FITS)
def test_missing_labels_are_named_by_row(fit, labels):
    with pytest.raises(ValueError, match=r"y is (missing|nan) in row 1; give .*, or drop the row"):
        FITS[fit](np.arange(4.0)[:, None], MISSING_LABELS[labels])


@pytest.mark.parametrize(
    "call",
    [
        lambda values: pt.LocalCuts(feature_weights=values),
        lambda values: pt.GridCuts(3, feature_weights=values),
        lambda values: pt.DirichletMultinomial(alpha=values),
        lambda values: pt.DyadicCuts(2, bounds=pd.concat([values, values + 1.0], axis=1)),
    ],
)
def test_values_by_column_or_class_with_labels_are_refused(call):
    values = pd.Series([1.0, 2.0], index=["b", "a"])
    with pytest.raises(ValueError, match=r"has the labels \['b', 'a'\], but its entries are taken by position; bring"):
        call(values)
    call(values.reset_index(drop=True))


TEXT, WHOLE = pd.DataFrame({"c": ["1", "2", "2"]}), pd.DataFrame({"c": [1, 2, 2]})
HOURS = pd.date_range("2024-06-01", periods=3, freq="h", tz="Europe/Berlin")


@pytest.mark.parametrize(
    ("built_on", "given", "message"),
    [
        (TEXT, WHOLE, "nominal column 'c' holds numbers; the model was built on text"),
        (WHOLE, TEXT, "nominal column 'c' holds text; the model was built on numbers"),
        (HOURS.to_frame(name="c"), HOURS.tz_localize(None).to_frame(name="c"), "holds dates; .* with a time zone"),
        (HOURS.tz_localize(None).to_frame(name="c"), HOURS.to_frame(name="c"), "with a time zone; .* on dates: give"),
    ],
)
def test_values_that_only_look_like_those_of_the_model_are_refused(built_on, given, message):
    nominal = None if "time zone" in message else ["c"]
    columns = pt.TreeModel(built_on.reset_index(drop=True), [0, 1, 1], nominal=nominal).columns
    with pytest.raises(ValueError, match=message):
        columns.numbers(given.reset_index(drop=True))
    columns.numbers(built_on[:1])


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (pl.DataFrame({"a": [1.0], "b": [1.0]}).lazy(), r"X is a LazyFrame, which is not a table; give X.collect\(\)"),
        ((row for row in [[1.0, 2.0]]), r"X is a generator, which is not a table; give list\(X\)"),
        (pd.DataFrame({"a": [1.0], "b": [1.0]}).to_records(index=False), r"of records; give pd.DataFrame\(X\)"),
        ([{"a": 1.0, "b": 1.0}], r"of records; give pd.DataFrame\(X\)"),
        (pd.Series({"a": 1.0, "b": 1.0}), r"for one row give a frame of one row, such as frame.iloc\[\[0\]\]"),
        ([1.0, 2.0], r"for one row give \[X\]"),
        (np.zeros((2, 2, 2)), r"X is of shape \(2, 2, 2\); give a table of shape \(n, p\)"),
    ],
)
def test_what_is_not_a_table_is_said_with_what_helps(X, message):
    with pytest.raises(ValueError, match=message):
        pt.TreeModel(X, [0, 1])


def test_integers_that_are_names_of_columns_and_indices_of_others_are_refused():
    """The labels of such a frame are 0, 2, 3, as after pd.read_csv(header=None).drop(columns=1)."""
    X = pd.DataFrame({0: [0.0, 1.0, 2.0], 2: [1.0, 2.0, 1.0], 3: [0.0, 1.0, 1.0]})
    with pytest.raises(ValueError, match="2 is the index of column '3' and the name of another; give '3' or '2'"):
        pt.TreeModel(X, [0, 1, 1], nominal=[2])
    for nominal, expected in ((3, [2]), ("2", [1]), (0, [0]), (1, [1])):
        assert np.flatnonzero(pt.TreeModel(X, [0, 1, 1], nominal=nominal).columns.is_nominal).tolist() == expected
