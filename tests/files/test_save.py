"""Saving and loading: predictions, draws and models are the same, here and in a fresh process."""

import datetime
import enum
import os
import resource
import warnings
from decimal import Decimal
from importlib import metadata
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pytest

import exact
import pactree_mcmc as pt
from pactree_mcmc.files.encoding import CODEC
from pactree_mcmc.files.store import encode_parts
from pactree_mcmc.loading.load import _decode_part
from pactree_mcmc.model.model import ModelParts
from pactree_mcmc.posterior.inference_data import load_arviz
from tests.problems.refusals import refuses
from tests.problems.runs import LABELS, MODELS, X, Y, assert_equal, assert_same, draw
from tests.programs import run

ROWS = np.column_stack([np.linspace(-2.0, 14.0, 50), np.linspace(5.0, -1.0, 50), np.arange(50) % 6])
FRAMES = {
    "pandas": pd.DataFrame(
        {"size": X[:, 0], "öl/4": pd.Categorical(np.array(list("dacb"))[X[:, 2].astype(int)]), "on": X[:, 1] > 2}
    ),
    "polars": pl.DataFrame({"size": X[:, 0], "kind": pl.Series(X[:, 2].astype(int)).cast(pl.String)}).with_columns(
        pl.col("kind").cast(pl.Categorical)
    ),
}
MIXED = np.array([None] * len(X), dtype=object)
TEXT = getattr(np.dtypes, "StringDType", None)
no_text = pytest.mark.skipif(TEXT is None, reason="this NumPy has no StringDType")
DAYS = pd.date_range("2024-10-26", periods=3, freq="D")
STAMP = pd.Timestamp("2024-10-27 02:30+01:00").tz_convert("Europe/Berlin")
NOMINAL = {
    "dates": [day.date() for day in DAYS],
    "datetimes": [day.to_pydatetime() for day in DAYS],
    "zones": [datetime.datetime(2024, 1, i, tzinfo=ZoneInfo("Europe/Berlin")) for i in (1, 2, 3)],
    "offsets": [datetime.datetime(2024, 1, i, tzinfo=datetime.UTC) for i in (1, 2, 3)],
    "times": [datetime.time(i, 30) for i in (1, 2, 3)],
    "durations": [datetime.timedelta(days=i, microseconds=7) for i in (-1, 0, 1)],
    "Timestamps": [STAMP, STAMP + pd.Timedelta(1, "h"), STAMP + pd.Timedelta(1, "ns")],
    "Timedeltas": [pd.Timedelta(f"{i}.000000123s") for i in (-1, 0, 1)],
    "periods": [pd.Period(day, freq="Q-DEC") + i for i, day in enumerate(DAYS)],
    "intervals": [pd.Interval(0, 1), pd.Interval(1, 2.5), pd.Interval(2.5, float("inf"))],
    "intervals of dates": [pd.Interval(day, day + pd.Timedelta(1, "D"), closed="both") for day in DAYS],
    "decimals": [Decimal("1.10"), Decimal("-0"), Decimal(1) / 3],
    "NumPy text": [np.str_("a"), np.str_("é"), np.str_("")],
}
MODEL_OF_EACH_PART = {
    "frozen": {"leaf": pt.FrozenLaplace(2.0), "estimation": 0.5},
    "rho by depth": {"tree_prior": pt.BranchingProcess([0.5, np.float32(0.25), 0.1], max_depth=2, conditioned=True)},
    "penalty": {"tree_prior": pt.LeafPenalty(1.5, max_depth=np.int64(7), empty_cost=0.0)},
    "cuts": {"split_prior": pt.GridCuts([[1, 2.5], range(1, 4), None], feature_weights=(1, 2, 0.5))},
    "bounds": {"split_prior": pt.DyadicCuts(3, cyclic=True, bounds=[(-1.0, 20.0)] * 3), "nominal": None},
    "loss": {"leaf": pt.PacBayesLoss(2.0, 0.1), "estimation": np.arange(len(X)) % 2 == 0},
}
LABELS_OF_ANY_KIND = [
    np.array([b"no", b"yes"])[(Y > 1).astype(int)],
    (Y > 1),
    np.array([3, -200], dtype=np.int16)[(Y > 1).astype(int)],
    np.array(["naïve", "日本"])[(Y > 1).astype(int)].tolist(),
    pytest.param(np.array(["a", "b"], dtype=TEXT and TEXT())[(Y > 1).astype(int)], marks=no_text),
    np.array([1.0, 2.0])[(Y > 1).astype(int)],
]
NAMES_WITH_A_NUL = [
    (["a\0b"], LABELS, r"the column name 'a\\x00b' has a NUL character.*rename it"),
    (["a"], ["no\0", *["yes"] * 19], r"the class label 'no\\x00' has a NUL"),
    (["a"], pd.Series(np.arange(20.0), name="y\0"), r"the name of y 'y\\x00' has a NUL"),
]


def predictions(post, rows=ROWS):
    rows = rows[:, : post.model.n_features]
    return post.predict(rows) if post.model.classes_ is None else post.predict_proba(rows)


@pytest.mark.more(everyday=["classes"])
@pytest.mark.parametrize("name", MODELS)
def test_loaded_is_saved(name, tmp_path):
    post = draw(name, 8)
    post.save(tmp_path / "run.nc")
    loaded = pt.load(tmp_path / "run.nc")
    assert_same(loaded, post)
    assert_equal(predictions(loaded), predictions(post))
    assert_equal(loaded.model.parts.units, post.model.parts.units)
    assert repr(loaded.model) == repr(post.model)
    best = post.map_tree()
    assert loaded.model.log_posterior(best) == post.model.log_posterior(best)
    assert_same(pt.resume(loaded, 4, progress=False), pt.resume(post, 4, progress=False))


@pytest.mark.parametrize("kind", list(FRAMES))
def test_columns_of_frames(kind, tmp_path):
    """Names and categories; a category unseen, and columns in another order."""
    frame = FRAMES[kind]
    post = pt.sample(pt.TreeModel(frame, LABELS), 10, tune=5, chains=2, rng=1, progress=False)
    post.save(tmp_path / "run.nc")
    loaded = pt.load(tmp_path / "run.nc")
    backwards = frame[list(frame.columns)[::-1]]
    assert_equal(loaded.predict_proba(backwards), post.predict_proba(frame))
    assert loaded._root_split_pmf() == post._root_split_pmf() and loaded.map_tree().format() == post.map_tree().format()


MIXED[:] = [["a", 1, 2.5, True][int(c) % 4] if c < 3 else "é" for c in X[:, 2]]


@pytest.mark.more(everyday=["bytes"])
@pytest.mark.parametrize("labels", LABELS_OF_ANY_KIND, ids=["bytes", "bool", "int16", "text", "StringDType", "floats"])
def test_labels_of_any_kind(labels, tmp_path):
    table = np.column_stack([X[:, 0].astype(object), MIXED])
    model = pt.TreeModel(table, labels, nominal=[1], leaf=pt.DirichletMultinomial([0.5, 1.5]))
    model.save(tmp_path / "model.nc")
    loaded = pt.load(tmp_path / "model.nc")
    assert isinstance(loaded, pt.TreeModel) and loaded.classes_.dtype == model.classes_.dtype
    assert loaded.classes_.tolist() == model.classes_.tolist()
    assert [type(c) for c in loaded.columns.categories[1]] == [type(c) for c in model.columns.categories[1]]
    assert_equal(loaded.columns.numbers(table), model.columns.numbers(table))


def test_categories_of_any_kind_are_saved(tmp_path):
    three = np.arange(len(X)) % 3
    table = pd.DataFrame({kind: pd.Series([each[i] for i in three], dtype=object) for kind, each in NOMINAL.items()})
    post = pt.sample(pt.TreeModel(table, LABELS, nominal=[*table]), 8, tune=4, chains=1, rng=1, progress=False)
    post.save(tmp_path / "run.nc")
    loaded = pt.load(tmp_path / "run.nc")
    assert_same(loaded, post)
    for k in range(len(NOMINAL)):
        before, after = (p.model.columns.categories[k].tolist() for p in (post, loaded))
        assert len(after) == 3 and after == before and repr(after) == repr(before)
        assert [(type(c), hash(c)) for c in after] == [(type(c), hash(c)) for c in before]
    assert_equal(loaded.predict_proba(table), post.predict_proba(table))


def test_only_known_types_are_made_from_a_file():
    encoded = CODEC.encode(Decimal("1.5"))
    for name in ("system", "object", "ndarray"):
        with pytest.raises(ValueError, match=f"it holds a {name}, which this release does not know"):
            CODEC.decode(encoded._replace(text=encoded.text.replace("Decimal", name)))
    refuses("does not make sense", lambda: CODEC.decode(encoded._replace(text=encoded.text.replace("1.5", "one"))))


@no_text
def test_text_of_a_new_numpy_is_read_by_an_old_one(tmp_path, monkeypatch):
    labels = np.array(["no", "né"], dtype=TEXT())[(Y > 1).astype(int)]
    pt.TreeModel(X, labels).save(tmp_path / "model.nc")
    monkeypatch.delattr(np.dtypes, "StringDType")
    loaded = pt.load(tmp_path / "model.nc")
    assert loaded.classes_.dtype == np.dtype("U2") and loaded.classes_.tolist() == ["no", "né"]


@pytest.mark.more(everyday=["frozen"])
@pytest.mark.parametrize("what", list(MODEL_OF_EACH_PART))
def test_every_part_of_a_model(what, tmp_path):
    model = pt.TreeModel(X, LABELS, **({"nominal": [2]} | MODEL_OF_EACH_PART[what]))
    model.save(tmp_path / "model.nc")
    loaded = pt.load(tmp_path / "model.nc")
    for tree in exact.solve(model).draw_trees(5, rng=1):
        assert loaded.log_prior(tree) == model.log_prior(tree) and loaded.log_score(tree) == model.log_score(tree)
    assert exact.solve(loaded).log_evidence == exact.solve(model).log_evidence


def test_parts_are_all_there_is():
    """An attribute that a model gets one day must go into the file, or follow from what is there."""
    new_model = pt.TreeModel(X, Y)
    assert set(vars(new_model)) == {*ModelParts._fields, "shape", "rules"}
    assert set(vars(pt.TreeModel.from_parts(new_model.parts))) == set(vars(new_model))


def test_description_is_json_without_code(tmp_path):
    """Text and numbers alone: no class but those of the list is made."""
    encoded = encode_parts({"model": MODELS["fixed"].parts}, tmp_path)
    assert "pickle" not in encoded.text and all(a.dtype.kind in "fiu" for a in encoded.arrays.values())
    assert "os.system" not in CODEC.classes
    planted = encoded._replace(text=encoded.text.replace('"BranchingProcess"', '"Popen"'))
    refuses("holds a Popen, which this release does not know", lambda: _decode_part(planted, "run.nc"))


def test_arviz_and_xarray_read_the_file(tmp_path):
    """The groups of to_arviz, with their values; trees under their names."""
    import xarray as xr

    post = draw("classes", 12)
    post.save(tmp_path / "run.nc", log_likelihood=True)
    az = load_arviz()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = az.from_netcdf(str(tmp_path / "run.nc"))
        table = az.summary(data, var_names=["n_leaves", "log_score"])
    assert list(table.index) == ["n_leaves", "log_score"]
    assert_equal(np.asarray(data["posterior"]["n_leaves"]), post.n_leaves)
    assert data["log_likelihood"]["y"].shape == (2, 12, len(X))
    assert data["observed_data"]["y"].values.tolist() == LABELS.tolist()
    with xr.open_dataset(tmp_path / "run.nc", group="pactree_mcmc", engine="h5netcdf") as own:
        assert_equal(own["draws.trees.cut"].values, post.draws.coded_trees.cut)
        assert own.attrs["format"] == 4


@pytest.mark.more
def test_fresh_process(tmp_path):
    """Another interpreter predicts the same from the file, and draws the same further trees."""
    draw("shared variance", 8).save(tmp_path / "run.nc")
    np.save(tmp_path / "rows.npy", ROWS)
    process = run("resumed_elsewhere", tmp_path / "run.nc", tmp_path / "rows.npy")
    assert process.returncode == 0, process.stderr
    assert_equal(np.load(tmp_path / "rows.npy"), draw("shared variance", 15).predict(ROWS))


@pytest.mark.more(everyday=["run.pkl"])
@pytest.mark.parametrize("path", ["run.pkl", "run", "nowhere/run.nc", "folder.nc"])
def test_unusable_targets(path, tmp_path):
    (tmp_path / "folder.nc").mkdir()
    refuses(r"give a path|does not exist; create it|is a folder", lambda: draw(draws=2).save(tmp_path / path))


def test_what_cannot_be_saved(tmp_path):
    truth = exact.solve(MODELS["classes"])
    refuses(r"^an ExactPosterior cannot be saved.*post\.model\.save", lambda: truth.save(tmp_path / "run.nc"))
    truth.model.save(tmp_path / "model.nc")
    assert exact.solve(pt.load(tmp_path / "model.nc")).log_evidence == truth.log_evidence
    refuses("holds a TreeModel; sample it", lambda: pt.resume(tmp_path / "model.nc", 5))

    class Mine(pt.DirichletMultinomial):
        pass

    post = pt.sample(pt.TreeModel(X, LABELS, leaf=Mine()), 3, tune=1, chains=1, rng=1, progress=False)
    refuses(r"model\.leaf is a Mine", lambda: post.save(tmp_path / "run.nc"))
    assert not (tmp_path / "run.nc").exists()


@pytest.mark.more
def test_full_disk_keeps_the_old_file(tmp_path):
    """No file may grow beyond a limit: the save fails in the middle, like on a full disk."""
    path = tmp_path / "run.nc"
    draw("classes", 3).save(path)
    before = path.read_bytes()
    large = draw("numbers", 60)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, hard))
    try:
        refuses(r"run\.nc could not be written: .*before is kept", lambda: large.save(path), OSError)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["run.nc"]
    large.save(path)
    assert_same(pt.load(path), large)


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


def test_sources_that_are_not_installed_are_saved(tmp_path, monkeypatch):
    def no_metadata(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", no_metadata)
    post = pt.sample(pt.TreeModel([[0.0], [1.0]], [0.0, 1.0]), 10, tune=5, chains=2, rng=1, progress=False)
    post.save(tmp_path / "post.nc")
    assert pt.load(tmp_path / "post.nc").draws.calls[0].versions["pactree-mcmc"] == pt.__version__
    assert post.to_arviz().posterior.attrs["inference_library_version"] == pt.__version__


@pytest.mark.parametrize(("names", "labels", "match"), NAMES_WITH_A_NUL)
def test_names_with_a_nul_are_refused_before_a_run(names, labels, match):
    n = len(labels)
    table = pd.DataFrame({name: np.arange(n) % 5 for name in names})
    refuses(match, lambda: pt.TreeModel(table, np.array(labels, dtype=object) if isinstance(labels, list) else labels))


def test_categories_that_no_file_holds_are_named_before_the_run():
    table = pd.DataFrame({"c": pd.Series([Colour.RED, Colour.BLUE] * 10, dtype=object)})
    with pytest.warns(
        UserWarning, match=r"column 'c' holds <Colour\.BLUE: 2>, a Colour, which a file cannot.*astype\(str"
    ):
        model = pt.TreeModel(table, np.arange(20) > 9, nominal=["c"])
    refuses("is a Colour", lambda: encode_parts({"model": model.parts}, "run.nc"))
    doubtful = datetime.datetime(2024, 1, 1, fold=1)  # its ISO text lacks the fold
    refuses("is a datetime", lambda: encode_parts({"day": doubtful}, "run.nc"))
