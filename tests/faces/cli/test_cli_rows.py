"""The command line about rows: names of rows noticed and kept, and the score if the target is known."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from pactree_mcmc.faces.cli.tables import identifiers
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
    assert identifiers(pd.DataFrame(columns)) == ["name", "number"]
    assert identifiers(pd.DataFrame(columns).head(10)) == []


def test_the_score_of_classes_and_the_names_of_rows(capsys, data, new, tmp_path):
    command = ("predict", data, new, "--target", "bought", "--ignore", "price", *RUN)
    found = answer(capsys, *command, "--id", "customer,age")
    post = posterior("bought")
    frame = shop().head(30)
    proba, y = post.predict_proba(frame[["age", "colour", "size"]]), frame["bought"].to_numpy()
    place = np.searchsorted(post.model.classes_, y)
    assert found["score"]["accuracy"] == pytest.approx(np.mean(post.predict(frame) == y))
    assert found["score"]["log loss"] == pytest.approx(-np.log(proba[np.arange(30), place]).mean())
    assert [row["customer"] for row in found["predictions"]] == [f"c{i}" for i in range(30)]
    assert list(found["predictions"][0])[:3] == ["customer", "age", "prediction"]
    code, out, _ = run(capsys, *command, "--id", "customer", "--out", tmp_path / "out.csv")
    assert code == 0 and "score: accuracy " in out and pd.read_csv(tmp_path / "out.csv").columns[0] == "customer"
    code, _, err = run(capsys, *command, "--id", "custmer")
    assert code == 1 and "did you mean 'customer'" in err


def test_the_score_of_numbers_from_a_saved_run(capsys, data, new, tmp_path):
    saved = tmp_path / "run.nc"
    answer(capsys, "fit", data, "--target", "price", "--ignore", "bought", "--out", saved, *RUN)
    plain = answer(capsys, "predict", saved, new)
    found = answer(capsys, "predict", saved, new, "--target", "price")
    assert "score" not in plain and found["predictions"] == plain["predictions"]
    off = shop().head(30)["price"].to_numpy() - np.array([row["prediction"] for row in found["predictions"]])
    assert found["score"]["root mean square error"] == pytest.approx(np.sqrt(np.mean(off**2)))
    assert found["score"]["mean absolute error"] == pytest.approx(np.abs(off).mean())
    lacking = shop().head(5).assign(price=[1.0, None, 2.0, 3.0, 4.0])
    lacking.to_csv(tmp_path / "lacking.csv", index=False)
    assert "score" not in answer(capsys, "predict", saved, tmp_path / "lacking.csv", "--target", "price")
    assert json.dumps(found)


def test_every_table_has_three_decimals(capsys, data, tmp_path):
    """Columns of predictions that hardly differ have as many decimals as show the differences."""
    command = (data, "--target", "bought", "--ignore", "price", *RUN)
    summary = run(capsys, "summary", *command)[1].partition("best tree drawn")[0]
    tables = [summary, run(capsys, "predict", data, *command)[1]]
    small = tmp_path / "small.csv"
    shop().assign(y=1.0 + shop()["price"] * 1e-6)[["age", "y"]].to_csv(small, index=False)
    few = run(capsys, "predict", small, small, "--target", "y", *RUN)[1]
    for text in tables:
        rows = [line for line in text.splitlines() if re.search(r"\S  +-?\d", line)]
        assert {len(number) for number in re.findall(r"\d\.(\d+)\b", "\n".join(rows))} == {3}
    assert re.search(r"\d\.\d{8,}", few)
