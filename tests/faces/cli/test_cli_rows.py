"""The command line about rows: names of rows noticed and kept, and the score if the target is known."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from pactree_mcmc.faces.cli.tables import identifier_columns
from tests.faces.cli.calls import RUN, answer, posterior, run, shop


@pytest.fixture
def new(tmp_path):
    shop().assign(customer=[f"c{i}" for i in range(80)]).head(30).to_csv(tmp_path / "new.csv", index=False)
    return tmp_path / "new.csv"


def test_names_of_rows_are_noticed(capsys, tmp_path):
    frame = shop().assign(customer_id=[f"c{i}" for i in range(80)], row=np.arange(80))
    frame.to_csv(tmp_path / "table.csv", index=False)
    notes = answer(capsys, "fit", tmp_path / "table.csv", "--target", "bought", "--ignore", "price", *RUN)["notes"]
    for name in ("customer_id", "row"):
        assert f"{name} has a value of its own in every row: --ignore {name}?" in notes
    few = answer(capsys, "fit", tmp_path / "table.csv", "--target", "bought", "--ignore", "customer_id,row", *RUN)
    assert not any("--ignore" in note for note in few["notes"])


def test_columns_that_are_data_are_no_names_of_rows():
    n = 40
    columns = {
        "fractions": np.linspace(0.0, 1.0, n),
        "gaps": np.arange(n) * 3,
        "twice": [f"c{max(i, 1)}" for i in range(n)],
        "missing": [None, *(f"c{i}" for i in range(1, n))],
        "same": 1.0,
        "name": [f"c{i}" for i in range(n)],
        "number": np.random.default_rng(0).permutation(n) + 1000,
    }
    assert identifier_columns(pd.DataFrame(columns)) == ["name", "number"]
    assert identifier_columns(pd.DataFrame(columns).head(10)) == []


def test_the_score_of_classes_and_the_names_of_rows(capsys, data, new, tmp_path):
    command = ("predict", data, new, "--target", "bought", "--ignore", "price", *RUN)
    result = answer(capsys, *command, "--id", "customer,age")
    post = posterior("bought")
    frame = shop().head(30)
    proba, y = post.predict_proba(frame[["age", "colour", "size"]]), frame["bought"].to_numpy()
    place = np.searchsorted(post.model.classes_, y)
    assert result["score"]["accuracy"] == pytest.approx(np.mean(post.predict(frame) == y))
    assert result["score"]["log loss"] == pytest.approx(-np.log(proba[np.arange(30), place]).mean())
    assert [row["customer"] for row in result["predictions"]] == [f"c{i}" for i in range(30)]
    assert list(result["predictions"][0])[:3] == ["customer", "age", "prediction"]
    code, out, _ = run(capsys, *command, "--id", "customer", "--out", tmp_path / "out.csv")
    assert code == 0 and "score: accuracy " in out and pd.read_csv(tmp_path / "out.csv").columns[0] == "customer"
    assert list(answer(capsys, *command, "--id", "age,age")["predictions"][0])[:2] == ["age", "prediction"]
    code, _, err = run(capsys, *command, "--id", "custmer")
    assert code == 1 and "did you mean 'customer'?" in err
    new.write_text("age,colour,size\n")
    code, _, err = run(capsys, *command)
    assert code == 1 and "has a header and no rows; give at least one row" in err


def test_the_score_of_numbers_from_a_saved_run(capsys, data, new, tmp_path):
    saved = tmp_path / "run.nc"
    answer(capsys, "fit", data, "--target", "price", "--ignore", "bought", "--out", saved, *RUN)
    plain = answer(capsys, "predict", saved, new)
    result = answer(capsys, "predict", saved, new, "--target", "price")
    assert "score" not in plain and result["predictions"] == plain["predictions"]
    off = shop().head(30)["price"].to_numpy() - np.array([row["prediction"] for row in result["predictions"]])
    assert result["score"]["root mean square error"] == pytest.approx(np.sqrt(np.mean(off**2)))
    assert result["score"]["mean absolute error"] == pytest.approx(np.abs(off).mean())
    lacking = tmp_path / "lacking.csv"
    shop().head(30).assign(price=lambda rows: rows["price"].where(rows.index > 4)).to_csv(lacking, index=False)
    some = answer(capsys, "predict", saved, lacking, "--target", "price")
    assert some["score"]["mean absolute error"] == pytest.approx(np.abs(off[5:]).mean())
    assert some["notes"] == ["5 of 30 rows have no value in column 'price'; the score is of the other 25."]
    shop().head(5).assign(price=None).to_csv(lacking, index=False)
    none = answer(capsys, "predict", saved, lacking, "--target", "price")
    assert "score" not in none and "has no value: nothing is scored" in none["notes"][0]
    assert json.dumps(result)


def test_a_column_that_is_not_the_target_is_not_scored_without_a_note(capsys, data, tmp_path):
    saved, new = tmp_path / "run.nc", tmp_path / "new.csv"
    answer(capsys, "fit", data, "--target", "bought", "--ignore", "price,size", "--out", saved, *RUN)
    wrong = answer(capsys, "predict", saved, data, "--target", "price")
    assert "score" not in wrong
    assert wrong["notes"][0] == "the target of the model is 'bought'; the score compares with 'price'."
    assert "has none of the classes of the model (no, yes) but '" in wrong["notes"][1]
    code, _, err = run(capsys, "predict", saved, data, "--target", "age")
    assert (code, "--target age is a feature of the model" in err) == (2, True)
    shop().assign(bought=["maybe", "yes", *shop()["bought"][2:]]).to_csv(new, index=False)
    result = answer(capsys, "predict", saved, new, "--target", "bought")
    assert result["score"]["accuracy"] > 0.5 and result["score"]["log loss"] is None
    assert "1 of 80 rows have labels in column 'bought' that are not classes" in result["notes"][0]
    assert "('maybe')" in result["notes"][0]


def test_classes_that_are_numbers_are_read_as_numbers(capsys, tmp_path):
    shop().assign(y=lambda rows: (rows["age"] > 23) * 1)[["age", "y"]].to_csv(tmp_path / "whole.csv", index=False)
    shop().assign(y=lambda rows: (rows["age"] > 23) * 1.0)[["age", "y"]].to_csv(tmp_path / "float.csv", index=False)
    result = answer(capsys, "predict", tmp_path / "whole.csv", tmp_path / "float.csv", "--target", "y", *RUN)
    assert result["score"]["accuracy"] == 1.0


def test_every_table_has_three_decimals(capsys, data, tmp_path):
    """Columns of predictions that hardly differ have as many decimals as show the differences."""
    command = (data, "--target", "bought", "--ignore", "price", *RUN)
    summary = run(capsys, "summary", *command)[1].partition("best tree drawn")[0]
    tables = [summary, run(capsys, "predict", data, *command)[1]]
    small = tmp_path / "small.csv"
    shop().assign(y=1.0 + shop()["price"] * 1e-6)[["age", "y"]].to_csv(small, index=False)
    few = run(capsys, "predict", small, small, "--target", "y", *RUN)[1]
    assert re.search(r"root mean square error [1-9]\.\d\de-0\d", few)
    for text in tables:
        rows = [line for line in text.splitlines() if re.search(r"\S  +-?\d", line)]
        assert {len(number) for number in re.findall(r"\d\.(\d+)\b", "\n".join(rows))} == {3}
    assert re.search(r"\d\.\d{8,}", few)
