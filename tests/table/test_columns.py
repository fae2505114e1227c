"""Tables that TreeModel accepts or refuses: frames as users have them, missing values, labels, weights, indices."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.table.words import DAY, MICROSECONDS, TIME, TRUTH, UTC, value_text
from tests.problems.refusals import refuses

N = 24
DAYS = pd.Timestamp("2020-03-01") + pd.to_timedelta(np.arange(N) % 6, unit="D")
SMOKER = np.random.default_rng(0).random(N) < 0.5
SMALL = pt.ChipmanPrior(max_depth=2)
BOOLEANS = {
    "bool": pd.DataFrame({"smoker": SMOKER}),
    "boolean": pd.DataFrame({"smoker": pd.array(SMOKER, dtype="boolean")}),
    "object": pd.DataFrame({"smoker": pd.Series(SMOKER, dtype=object)}),
    "polars": pl.DataFrame({"smoker": SMOKER.tolist()}),
}
DATES = {
    "pandas": (pd.DataFrame({"day": DAYS}), DAY, "day <= 2020-03-03"),
    "seconds": (pd.DataFrame({"day": DAYS.astype("datetime64[s]")}), DAY, "day <= 2020-03-03"),
    "polars date": (pl.DataFrame({"day": pl.Series(DAYS.tolist()).cast(pl.Date)}), DAY, "day <= 2020-03-03"),
    "polars datetime": (pl.DataFrame({"day": DAYS.tolist()}), DAY, "day <= 2020-03-03"),
    "array": (DAYS.to_numpy()[:, None], DAY, "x0 <= 2020-03-03"),
    "zone": (pd.DataFrame({"day": DAYS.tz_localize("Europe/Berlin")}), UTC, "day <= 2020-03-03 11:00 UTC"),
}
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
TEXT, WHOLE = pd.DataFrame({"c": ["1", "2", "2"]}), pd.DataFrame({"c": [1, 2, 2]})
HOURS = pd.date_range("2024-06-01", periods=3, freq="h", tz="Europe/Berlin")
NAN = np.nan
NEW = pd.DataFrame({"x": [NAN, 1.0, -1.0], "town": ["a", None, "c"], "z": [0, 1, 2]})
WORDS_OF_DATES = [
    ("2020-03-01T12:00", DAY, "2020-03-01"),
    ("1969-12-31T12:00", DAY, "1969-12-31"),
    ("1969-12-31T12:00", TIME, "1969-12-31 12:00"),
    ("2020-03-01T00:00", TIME, "2020-03-01 00:00"),
    ("2020-03-01T10:00:30", TIME, "2020-03-01 10:00:30"),
    ("2020-03-01T10:00:00.25", TIME, "2020-03-01 10:00:00.25"),
    ("2020-03-01T10:00:10.000001", UTC, "2020-03-01 10:00:10.000001 UTC"),
]
VALUES_WITH_LABELS = [
    lambda values: pt.LocalCuts(feature_weights=values),
    lambda values: pt.GridCuts(3, feature_weights=values),
    lambda values: pt.DirichletMultinomial(alpha=values),
    lambda values: pt.DyadicCuts(2, bounds=pd.concat([values, values + 1.0], axis=1)),
]
VALUES_THAT_LOOK_LIKE_THOSE_OF_THE_MODEL = [
    (TEXT, WHOLE, "nominal column 'c' holds numbers; the model was built on text"),
    (WHOLE, TEXT, "nominal column 'c' holds text; the model was built on numbers"),
    (HOURS.to_frame(name="c"), HOURS.tz_localize(None).to_frame(name="c"), "holds dates; .* with a time zone"),
    (HOURS.tz_localize(None).to_frame(name="c"), HOURS.to_frame(name="c"), "with a time zone; .* on dates: give"),
]
NO_TABLES = [
    (pl.DataFrame({"a": [1.0], "b": [1.0]}).lazy(), r"X is a LazyFrame, which is not a table; give X.collect\(\)"),
    ((row for row in [[1.0, 2.0]]), r"X is a generator, which is not a table; give list\(X\)"),
    (pd.DataFrame({"a": [1.0], "b": [1.0]}).to_records(index=False), r"of records; give pd.DataFrame\(X\)"),
    ([{"a": 1.0, "b": 1.0}], r"of records; give pd.DataFrame\(X\)"),
    (pd.Series({"a": 1.0, "b": 1.0}), r"for one row give a frame of one row, such as frame.iloc\[\[0\]\]"),
    ([1.0, 2.0], r"for one row give \[X\]"),
    (np.zeros((2, 2, 2)), r"X is of shape \(2, 2, 2\); give a table of shape \(n, p\)"),
]
WHAT_IS_REFUSED = [
    ([[NAN], [1.0]], {}, ["column 'x0'", "NaN", "row 0", 'missing="branch"']),
    ([[NAN], [NAN]], {"missing": "branch"}, ["column 'x0'", "no value at all", "drop it"]),
    ([[NAN], [np.inf]], {"missing": "branch"}, ["column 'x0'", "infinity", "row 1"]),
    ([[NAN], [1.0]], {"missing": "drop"}, ["missing='drop'", "error", "branch"]),
    ([[NAN], [1.0]], {"missing": None}, ["missing=None", "error", "branch"]),
    ([[None], ["a"]], {"nominal": [0]}, ["column 'x0'", "missing value", 'missing="branch"']),
    (
        [[NAN], [1.0]],
        {"missing": "branch", "split_prior": pt.FixedTree(pt.Tree([0, -1, -1], [0, 0, 0], [1, 0, 0], [2, 0, 0]))},
        ["column 'x0'", "FixedTree", "LocalCuts"],
    ),
    (
        [[NAN], [1.0]],
        {
            "missing": "branch",
            "split_prior": pt.LocalCuts(trivial=True),
            "tree_prior": pt.BranchingProcess(0.5, max_depth=2),
        },
        ["column 'x0'", "trivial"],
    ),
]
X = np.array([[0.0, 3.0], [1.0, 1.0], [2.0, 4.0], [3.0, 2.0]])
Y = [0, 1, 1, 0]
STUMP = pt.Tree([-1], [0], [0], [0])
SPLIT = pt.Tree([0, -1, -1], [1.5, 0, 0], [1, 0, 0], [2, 0, 0])
READ_ONLY = X.copy()
SAME_TABLES = {
    "Fortran order": np.asfortranarray(X),
    "float32": X.astype(np.float32),
    "float16": X.astype(np.float16),
    "int8": X.astype(np.int8),
    "uint64": X.astype(np.uint64),
    "objects": X.astype(object),
    "read-only": READ_ONLY,
    "strided": np.repeat(X, 2, axis=1)[:, ::2],
    "lists": X.tolist(),
    "pandas": pd.DataFrame(X, columns=["a", "b"]),
    "pandas, nullable": pd.DataFrame(X, columns=["a", "b"]).astype("Int64"),
    "pandas, nullable floats": pd.DataFrame(X).astype("Float64"),
    "polars": pl.DataFrame(X, schema=["a", "b"]),
    "polars, mixed types": pl.DataFrame({"a": X[:, 0].astype(int), "b": X[:, 1].astype(np.float32)}),
}
NOMINAL_TABLES = {
    "pandas": pd.DataFrame({"u": pd.Categorical(["b", "a", "c", "b"], categories=["c", "b", "a", "unused"])}),
    "polars categorical": pl.DataFrame({"u": pl.Series(["b", "a", "c", "b"], dtype=pl.Categorical)}),
    "lists": [["b"], ["a"], ["c"], ["b"]],
    "objects": np.array([["b"], ["a"], ["c"], ["b"]], dtype=object),
    "dict": {"u": ["b", "a", "c", "b"]},
}
LABELS = {
    "integers": ([3, 7, 7, 3], [3, 7]),
    "booleans": ([False, True, True, False], [False, True]),
    "strings": (["no", "yes", "yes", "no"], ["no", "yes"]),
    "objects": (np.array(["no", "yes", "yes", "no"], dtype=object), ["no", "yes"]),
    "series": (pd.Series([3, 7, 7, 3], index=[9, 8, 7, 6]), [3, 7]),
    "nullable": (pd.Series([3, 7, 7, 3], dtype="Int64"), [3, 7]),
    "categorical": (pd.Series(["no", "yes", "yes", "no"], dtype="category"), ["no", "yes"]),
    "polars": (pl.Series(["no", "yes", "yes", "no"]), ["no", "yes"]),
    "one column": (np.array([[3], [7], [7], [3]]), [3, 7]),
}
EDGES = {
    "constant column": (np.column_stack([X[:, 0], np.ones(4)]), Y),
    "constant table": (np.ones((4, 2)), Y),
    "constant y": (X, [2.5] * 4),
    "one class": (X, ["a"] * 4),
    "one feature": (X[:, :1], Y),
    "two rows": (X[:2], Y[:2]),
    "two identical rows": (X[[0, 0]], [0, 1]),
    "huge and tiny values": (np.array([[1e308, 5e-324], [-1e308, 0.0], [0.0, -5e-324], [1.0, 1e-300]]), Y),
}
SPLIT_PRIORS = [
    pt.LocalCuts(),
    pt.LocalCuts(True),
    pt.LocalCuts(max_cuts=1),
    pt.GridCuts(2),
    pt.DyadicCuts(2),
    pt.FixedTree(SPLIT),
]
N_INDEXED = 40
INDEXED = pd.DataFrame({"a": np.arange(float(N_INDEXED))}, index=[f"r{i}" for i in range(N_INDEXED)])
INDEXED_Y = pd.Series(np.arange(N_INDEXED) > 19, index=INDEXED.index)
SHUFFLED = np.random.default_rng(0).permutation(N_INDEXED)
E = pd.Series(np.arange(N_INDEXED) % 2 == 0, index=INDEXED.index)
LABELLED_STUMP = pt.Tree([-1], [0], [0], [0], value=[[0.5, 0.5]], classes=[False, True])
COUNTS = pd.Series(np.arange(N_INDEXED) % 3, index=INDEXED.index)
CALLS = {
    "y": lambda s: pt.TreeModel(INDEXED, s(INDEXED_Y)),
    "y, a frame": lambda s: pt.TreeModel(
        INDEXED, s(pd.DataFrame({"time": COUNTS + 1.0, "event": E})), leaf=pt.ExponentialGamma()
    ),
    "sample_weight": lambda s: pt.TreeModel(INDEXED, INDEXED_Y, sample_weight=s(COUNTS)),
    "sample_weight beside an array": lambda s: pt.TreeModel(INDEXED.to_numpy(), INDEXED_Y, sample_weight=s(COUNTS)),
    "estimation": lambda s: pt.TreeModel(INDEXED, INDEXED_Y, estimation=s(E), leaf=pt.FrozenLaplace()),
    "exposure": lambda s: pt.TreeModel(INDEXED, COUNTS, leaf=pt.PoissonGamma(exposure=s(COUNTS + 1.0))),
    "regressor": lambda s: pt.BayesianTreeRegressor().fit(INDEXED, s(COUNTS)),
    "classifier, weights": lambda s: pt.BayesianTreeClassifier().fit(INDEXED, INDEXED_Y, s(COUNTS)),
    "PAC-Bayes": lambda s: exact.PACBayesTreeClassifier().fit(INDEXED, s(INDEXED_Y)),
    "dyadic, weights": lambda s: exact.DyadicTreeClassifier().fit(INDEXED, INDEXED_Y, s(COUNTS)),
    "kd tree": lambda s: pt.kd_tree(INDEXED, 2, y=s(INDEXED_Y)),
    "held out": lambda s: post().holdout_certificate(INDEXED, s(INDEXED_Y)),
    "Occam": lambda s: pt.certificates.naive_occam(LABELLED_STUMP, INDEXED, s(INDEXED_Y), split_bits=1.0),
    "exposure of new rows": lambda s: pt.posterior_from_trees(
        pt.TreeModel(INDEXED, COUNTS, leaf=pt.PoissonGamma()), [LABELLED_STUMP]
    ).predict(INDEXED, exposure=s(COUNTS + 1.0)),
    "near-optimal trees": lambda s: post().trees_within(1.0).importance(INDEXED, s(INDEXED_Y)),
    "prunings": lambda s: exact.Prunings(LABELLED_STUMP, INDEXED, s(INDEXED_Y)),
}
TIMES, EVENT = np.arange(1.0, N_INDEXED + 1), np.arange(N_INDEXED) % 3 > 0
SURVIVAL = {
    "named": pd.DataFrame({"time": TIMES, "event": EVENT}),
    "in another order": pd.DataFrame({"event": EVENT.astype(int), "time": TIMES}),
    "capitals": pd.DataFrame({"Event": EVENT, "Time": TIMES}),
    "other names": pd.DataFrame({"died": EVENT, "days": TIMES}),
    "other names, 0 and 1": pd.DataFrame({"days": TIMES, "died": EVENT.astype(float)}),
    "nullable": pd.DataFrame({"time": TIMES, "event": EVENT}).convert_dtypes(),
    "records": np.array(list(zip(EVENT, TIMES, strict=True)), dtype=[("cens", bool), ("futime", float)]),
    "objects": np.array(list(zip(TIMES, EVENT, strict=True)), dtype=object),
    "tuples": list(zip(TIMES, EVENT, strict=True)),
}
UNCLEAR_TIMES_AND_EVENTS = [
    (pd.DataFrame({"a": TIMES, "b": TIMES}), "y has the columns 'a', 'b'; name two of them 'time' and 'event'"),
    (pd.DataFrame({"a": EVENT, "b": EVENT}), "of which only the event consists of True and False"),
    (pd.DataFrame({"a": TIMES, "b": EVENT, "c": TIMES}), "name two of them 'time' and 'event'"),
    (pd.DataFrame({"time": TIMES, "event": "yes"}), "column 'event' of y holds 'yes'"),
    (pd.DataFrame({"time": [None, *TIMES[1:]], "event": EVENT}), "y is missing in row 0"),
    (pd.DataFrame({"time": TIMES, "event": EVENT + 1}), "the event is 2.0 in row 1; give 1 where it was seen"),
]
ROW_LABELS = [f"id{i}" for i in range(12)]
TABLE = pd.DataFrame({"a": np.arange(12.0), "g": list("xy") * 6}, index=ROW_LABELS)
NUMBERED = pd.Series(np.arange(12.0), index=ROW_LABELS)
ERRORS_OF_ROWS = [
    (lambda: pt.TreeModel(changed(TABLE, "id5", np.nan), NUMBERED), r"\(first in row 5, labelled 'id5'\)"),
    (lambda: pt.TreeModel(changed(TABLE, "id5", np.inf)[3:], NUMBERED[3:]), r"\(first in row 2, labelled 'id5'\)"),
    (lambda: pt.TreeModel(TABLE, changed(NUMBERED, "id7", np.nan)), r"y is nan in row 7, labelled 'id7'; give"),
    (
        lambda: pt.TreeModel(TABLE, NUMBERED, sample_weight=changed(NUMBERED, "id2", -1.0)),
        r"row 2, labelled 'id2'; give",
    ),
    (lambda: pt.TreeModel(TABLE, NUMBERED + 0.5, leaf=pt.PoissonGamma()), r"row 0, labelled 'id0'; Poisson"),
    (
        lambda: exact.solve(pt.TreeModel(TABLE, NUMBERED), progress=False).predict(changed(TABLE, "id9", None)[2:]),
        r"\(first in row 7, labelled 'id9'\)",
    ),
    (lambda: pt.TreeModel(changed(TABLE, "id5", np.nan).reset_index(drop=True), NUMBERED.to_numpy()), r"row 5\)"),
    (lambda: pt.TreeModel(changed(TABLE, "id5", np.nan).to_numpy()[:, :1], NUMBERED.to_numpy()), r"row 5\)"),
]


def solved(table, y, **options):
    return exact.solve(pt.TreeModel(table, y, tree_prior=SMALL, **options))


def split(table, y):
    return solved(table, y).map_tree().split(0)


@pytest.mark.more(everyday=["bool"])
@pytest.mark.parametrize("kind", BOOLEANS)
def test_truth_values_print_as_yes_and_no(kind):
    post = solved(BOOLEANS[kind], SMOKER.astype(int))
    tree = post.map_tree()
    assert post.model.columns.kinds == (TRUTH,) and tree.split(0) == "smoker = no"
    assert tree.format().splitlines()[0] == f"smoker = no ({N} rows)" and 'label="smoker = no"' in tree.to_dot()
    nominal = solved(BOOLEANS[kind], SMOKER.astype(int), nominal="smoker").map_tree()
    assert nominal.split(0) == "smoker in {no}"


@pytest.mark.more(everyday=["pandas"])
@pytest.mark.parametrize("kind", DATES)
def test_dates_are_ordered_and_print_as_dates(kind):
    table, holds, words = DATES[kind]
    late = DAYS.to_numpy() > np.datetime64("2020-03-03")
    post = solved(table, np.where(late, "late", "early"))
    assert post.model.columns.kinds == (holds,) and post.map_tree().split(0) == words
    assert post.map_tree().format().startswith(words) and np.array_equal(post.predict(table) == "late", late)


@pytest.mark.parametrize(("text", "kind", "words"), WORDS_OF_DATES)
def test_words_of_dates(text, kind, words):
    days = np.datetime64(text, "us").astype(np.int64) / MICROSECONDS
    assert value_text(float(days), kind) == words


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


@pytest.mark.parametrize("call", VALUES_WITH_LABELS)
def test_values_by_column_or_class_with_labels_are_refused(call):
    values = pd.Series([1.0, 2.0], index=["b", "a"])
    refuses(r"has the labels \['b', 'a'\], but its entries are taken by position; bring", lambda: call(values))
    call(values.reset_index(drop=True))


@pytest.mark.parametrize(("built_on", "given", "message"), VALUES_THAT_LOOK_LIKE_THOSE_OF_THE_MODEL)
def test_values_that_only_look_like_those_of_the_model_are_refused(built_on, given, message):
    nominal = None if "time zone" in message else ["c"]
    columns = pt.TreeModel(built_on.reset_index(drop=True), [0, 1, 1], nominal=nominal).columns
    refuses(message, lambda: columns.numbers(given.reset_index(drop=True)))
    columns.numbers(built_on[:1])


@pytest.mark.parametrize(("X", "message"), NO_TABLES)
def test_what_is_not_a_table_is_said_with_what_helps(X, message):
    refuses(message, lambda: pt.TreeModel(X, [0, 1]))


def test_integers_that_are_names_of_columns_and_indices_of_others_are_refused():
    """The labels of such a frame are 0, 2, 3, as after pd.read_csv(header=None).drop(columns=1)."""
    X = pd.DataFrame({0: [0.0, 1.0, 2.0], 2: [1.0, 2.0, 1.0], 3: [0.0, 1.0, 1.0]})
    with pytest.raises(ValueError, match="2 is the index of column '3' and the name of another; give '3' or '2'"):
        pt.TreeModel(X, [0, 1, 1], nominal=[2])
    for nominal, expected in ((3, [2]), ("2", [1]), (0, [0]), (1, [1])):
        assert np.flatnonzero(pt.TreeModel(X, [0, 1, 1], nominal=nominal).columns.is_nominal).tolist() == expected


def table(n=50, seed=0):
    """Two columns with gaps, one without; missing values of the first tell the class."""
    rng = np.random.default_rng(seed)
    x, is_missing = rng.normal(size=n).round(1), rng.random(n) < 0.3
    town = rng.choice(["a", "b", None], n)
    y = np.where(is_missing, "lost", np.where(x > 0, "high", "low"))
    return pd.DataFrame({"x": np.where(is_missing, NAN, x), "town": town, "z": rng.integers(0, 3, n)}), y


def model(split_prior=None, **parts):
    X, y = table()
    split_prior = pt.LocalCuts(max_cuts=5) if split_prior is None else split_prior
    prior = pt.ChipmanPrior(0.95, 1.0, max_depth=2)
    return pt.TreeModel(X, y, nominal=["town"], missing="branch", split_prior=split_prior, tree_prior=prior, **parts)


def draws(of, n=60, **how):
    return pt.sample(of, n, tune=20, chains=2, rng=3, kernel="grow-prune", progress=False, **how)


def test_it_may_matter_that_a_value_is_missing():
    truth = exact.solve(model())
    text = truth.map_tree().format()
    assert "x is missing" in text or "x is known" in text
    assert truth.predict_proba(NEW)[0, truth.model.classes_.tolist().index("lost")] > 0.6
    assert {key[2] for key in truth._root_split_pmf() if key and key[0] == 0} == {"missing left", "missing right"}


@pytest.mark.parametrize("split_prior", [pt.LocalCuts(max_cuts=5), pt.GridCuts(5)], ids=["local", "grid"])
def test_draws_of_the_exact_posterior_agree_with_the_model(split_prior):
    """Each tree, read from its thresholds and sides, has the scores it was drawn with."""
    of = model(split_prior)
    sample = exact.solve(of).sample(40, rng=1)
    for t in range(sample.draws.n_distinct_trees):
        tree = sample.draws.distinct_tree(t)
        assert of.log_prior(tree) == pytest.approx(sample.draws.log_prior_of_tree[t], abs=1e-9)
        assert of.log_score(tree) == pytest.approx(sample.draws.log_score_of_tree[t], abs=1e-9)


@pytest.mark.parametrize("missing_left", [False, True])
def test_missing_values_go_to_the_side_that_the_split_says(missing_left):
    """The model gives each leaf the rows that the tree sends there by its threshold."""
    X = np.array([[NAN], [1.0], [2.0], [NAN], [3.0]])
    of = pt.TreeModel(X, [0, 1, 1, 0, 0], missing="branch")
    tree = pt.Tree([0, -1, -1], [1.5, 0, 0], [1, 0, 0], [2, 0, 0], default_left=[missing_left, False, False])
    leaf, units = tree.apply(X), {visit.number: set(visit.cell.index.tolist()) for visit in of.visit(tree)}
    assert set(leaf[[0, 3]]) == {1 if missing_left else 2}
    for number in (1, 2):
        assert units[number] == set(of.unit_of_row[leaf == number].tolist())


@pytest.mark.more(everyday=["DataFrame0"])
@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_forms_of_missing(frame):
    truth = exact.solve(model())
    expected = truth.predict_proba(NEW)
    columns = {"x": [None, 1.0, -1.0], "town": ["a", None, "c"], "z": [0, 1, 2]}
    assert (truth.predict_proba(frame(columns)) == expected).all()
    if frame is pd.DataFrame:
        assert (truth.predict_proba(NEW.convert_dtypes()) == expected).all()
    assert (truth.predict_proba(np.array(list(zip(*columns.values(), strict=True)), dtype=object)) == expected).all()


def test_missing_where_none_was_in_training():
    """A value missing in column z follows the larger branch."""
    X, y = [[0.0], [0.0], [0.0], [1.0]], [0, 0, 0, 1]
    of = pt.TreeModel(X, y, missing="branch", tree_prior=pt.ChipmanPrior(0.9, 1.0))
    truth, post = exact.solve(of), draws(of)
    assert truth.predict_proba([[NAN]]) == pytest.approx(truth.predict_proba([[0.0]]))
    assert (post.predict_proba([[NAN]]) == post.predict_proba([[0.0]])).all()


@pytest.mark.parametrize(("X", "parts", "words"), WHAT_IS_REFUSED)
def test_what_is_refused(X, parts, words):
    with pytest.raises(ValueError) as refused:
        pt.TreeModel(np.array(X, dtype=object), [0, 1], **parts)
    for word in words:
        assert word in str(refused.value)


def test_cuts_of_a_table_with_gaps_are_those_of_the_model():
    """`GridCuts.from_table(missing="branch")` of a model's own table is `GridCuts` of a number."""
    X, _ = table()
    refuses("column 'x' contains NaN", lambda: pt.GridCuts.from_table(X[["x", "z"]], 5))
    cuts = pt.GridCuts.from_table(X, 5, missing="branch")
    assert [None if c is None else len(c) for c in cuts.cuts] == [5, None, 2]
    with_given_cuts, counted = exact.solve(model(cuts)), exact.solve(model(pt.GridCuts(5)))
    assert with_given_cuts.log_evidence == counted.log_evidence
    assert np.array_equal(with_given_cuts.predict_proba(NEW), counted.predict_proba(NEW))
    known_values = X["x"].dropna().to_numpy()
    assert np.array_equal(cuts.cuts[0], pt.GridCuts.from_table(known_values[:, None], 5).cuts[0])


def log_posteriors(table, y=Y, **parts):
    model = pt.TreeModel(table, y, **parts)
    return [model.log_posterior(tree) for tree in (STUMP, SPLIT)]


READ_ONLY.setflags(write=False)


@pytest.mark.parametrize("table", SAME_TABLES.values(), ids=SAME_TABLES.keys())
def test_tables_that_say_the_same(table):
    assert log_posteriors(table) == log_posteriors(X)


@pytest.mark.parametrize("table", NOMINAL_TABLES.values(), ids=NOMINAL_TABLES.keys())
def test_categoricals_and_text_are_nominal(table):
    columns = pt.TreeModel(table, Y).columns
    assert columns.is_nominal.tolist() == [True] and columns.categories[0].tolist() == ["a", "b", "c"]


def test_63_categories_are_allowed():
    model = pt.TreeModel(pd.DataFrame({"u": pd.Categorical([f"{i:02}" for i in range(63)])}), np.arange(63) % 2)
    tree = pt.Tree([0, -1, -1], [0] * 3, [1, 0, 0], [2, 0, 0], [0b1, -1, -1])
    assert model.log_prior(tree) == pytest.approx(np.log(0.95) - np.log(2.0**62 - 1) + np.log1p(-0.95 / 4))


@pytest.mark.parametrize(("y", "classes"), LABELS.values(), ids=LABELS.keys())
def test_labels(y, classes):
    model = pt.TreeModel(X, y)
    assert isinstance(model.leaf, pt.DirichletMultinomial) and model.classes_.tolist() == classes
    assert log_posteriors(X, y) == log_posteriors(X)


@pytest.mark.parametrize("split_prior", SPLIT_PRIORS, ids=repr)
@pytest.mark.parametrize(("table", "y"), EDGES.values(), ids=EDGES.keys())
def test_edges_are_no_errors(table, y, split_prior):
    model = pt.TreeModel(table, y, split_prior=split_prior, tree_prior=pt.BranchingProcess(0.5, 2))
    assert np.isfinite(model.log_posterior(STUMP))
    tree, simulated = pt.simulate(model, rng=1)
    assert np.isfinite(model.log_posterior(tree)) and len(simulated) == len(y)


@pytest.mark.parametrize(
    "weight", [[1, 2, 0, 1], pd.Series([1.0, 2.0, 0.0, 1.0], index=list("abcd")), pl.Series([1, 2, 0, 1])]
)
def test_sample_weights(weight):
    assert log_posteriors(X, sample_weight=weight) == log_posteriors(X, sample_weight=np.array([1.0, 2.0, 0.0, 1.0]))


@pytest.mark.parametrize("nominal", [None, 1])
@pytest.mark.parametrize("split_prior", SPLIT_PRIORS[:4], ids=repr)
def test_input_is_never_modified(split_prior, nominal):
    table, y, weight = X[[0, 1, 2, 3, 0, 1]].copy(), np.array([0.5, 2, 1, 0, 0.5, 2]), np.array([1.0, 2, 3, 4, 5, 6])
    before = [a.copy() for a in (table, y, weight)]
    prior = pt.BranchingProcess(0.5, 3)
    model = pt.TreeModel(table, y, split_prior=split_prior, nominal=nominal, sample_weight=weight, tree_prior=prior)
    model.log_posterior(SPLIT)
    for array, copy in zip((table, y, weight), before, strict=True):
        np.testing.assert_array_equal(array, copy)


def post():
    return exact.solve(pt.TreeModel(INDEXED, INDEXED_Y, tree_prior=pt.ChipmanPrior(max_depth=1)))


@pytest.mark.parametrize("call", CALLS)
def test_another_index_is_refused(call):
    with pytest.raises(
        ValueError, match=r"in another order .*\.loc\[\w+\.index\].*\.to_numpy\(\) to take it by position"
    ):
        CALLS[call](lambda column: column.iloc[SHUFFLED])
    with pytest.raises(ValueError, match=r"other labels than \w+\.index .*; give \w+\.to_numpy\(\) to take it by pos"):
        CALLS[call](lambda column: column.reset_index(drop=True))


def test_weights_of_nothing():
    with pytest.raises(ValueError, match="sample_weight is 0 in every row; give weights that count some rows"):
        pt.TreeModel(INDEXED, INDEXED_Y, sample_weight=np.zeros(N_INDEXED))
    for estimator in (pt.BayesianTreeClassifier(), exact.DyadicTreeClassifier()):
        with pytest.raises(ValueError, match=r"sample_weight is 0 in every row|at least one non-zero number"):
            estimator.fit(INDEXED, INDEXED_Y, np.zeros(N_INDEXED))
    refuses(
        "sample_weight is 0 in every row",
        lambda: exact.Prunings(LABELLED_STUMP, INDEXED, INDEXED_Y, sample_weight=np.zeros(N_INDEXED)),
    )
    refuses(r"exposure=0\.0 is out of range", lambda: pt.PoissonGamma(exposure=np.zeros(N_INDEXED)))


@pytest.mark.parametrize("name", SURVIVAL)
def test_time_and_event_of_any_form(name):
    leaf = pt.ExponentialGamma()
    expected = pt.TreeModel(TIMES[:, None], np.column_stack([TIMES, EVENT]), leaf=leaf)
    model = pt.TreeModel(TIMES[:, None], SURVIVAL[name], leaf=leaf)
    assert np.array_equal(model.target.values, expected.target.values)
    if name == "named":
        import polars as pl

        other_model = pt.TreeModel(
            TIMES[:, None], pl.from_dict({"event": EVENT.tolist(), "time": TIMES.tolist()}), leaf=leaf
        )
        assert np.array_equal(other_model.target.values, expected.target.values)


@pytest.mark.parametrize(("y", "words"), UNCLEAR_TIMES_AND_EVENTS)
def test_time_and_event_that_are_not_clear(y, words):
    refuses(words, lambda: pt.TreeModel(TIMES[:, None], y, leaf=pt.WeibullGamma(k=2.0)))


def test_columns_of_y_without_effect_are_named():
    """Somebody may give the time of entry, for which no leaf model corrects."""
    y = pd.DataFrame({"entry": 0.5, "event": EVENT, "time": TIMES})
    with pytest.warns(
        UserWarning, match=r"ExponentialGamma uses \['time', 'event'\] alone; \['entry'\] have no effect"
    ):
        model = pt.TreeModel(TIMES[:, None], y, leaf=pt.ExponentialGamma())
    assert np.array_equal(model.target.values, np.column_stack([TIMES, EVENT]))


def changed(data, label, value):
    """Return data with another value in the row of this label, of a frame in column a."""
    data = data.copy()
    data.loc[(label, "a") if data.ndim == 2 else label] = value
    return data


@pytest.mark.parametrize(("call", "words"), ERRORS_OF_ROWS)
def test_an_error_gives_the_label_of_the_row(call, words):
    refuses(words, call)


@pytest.mark.parametrize(("one", "other"), [(1, "1"), (True, "yes"), (2.5, "2.5")])
def test_labels_of_the_same_text_print_apart(one, other):
    X = pd.DataFrame({"g": [one, other, "z"] * 10})
    post = exact.solve(pt.TreeModel(X, [0, 1, 1] * 10, nominal=["g"]), progress=False)
    text = f"{post.map_tree().format()}\n{post.consensus_tree()}\n{post.shapes()}"
    plain = "yes" if one is True else str(one)
    assert f"in {{{plain}}}" in text and f"'{other}'" in str(post.support(0.0).words)
    only = pd.DataFrame({"g": [other, "y", "z"] * 10})
    assert "'" not in exact.solve(pt.TreeModel(only, [0, 1, 1] * 10), progress=False).map_tree().format()


@pytest.mark.parametrize("ordered", [False, True])
def test_dictionaries_of_arrow_are_categoricals(ordered):
    pa = pytest.importorskip("pyarrow")
    codes = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2] * 4), pa.array(["lo", "mid", "hi"]), ordered=ordered)
    X = pd.DataFrame({"g": pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([codes])))})
    same = pd.DataFrame({"g": pd.Categorical(["lo", "mid", "hi"] * 4, ["lo", "mid", "hi"], ordered=ordered)})
    one, other = (exact.solve(pt.TreeModel(table, [0, 1, 1] * 4), progress=False) for table in (X, same))
    assert one.map_tree().format() == other.map_tree().format()
    assert np.array_equal(one.predict_proba(X), other.predict_proba(same))
