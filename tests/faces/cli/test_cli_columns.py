"""The command line over columns as spreadsheets write them: decimal commas, dates, percent signs, damaged files."""

import gzip

import numpy as np
import pandas as pd
import pytest

import pactree_mcmc as pt
from pactree_mcmc.faces.cli.tables import BadTable, read_csv
from tests.faces.cli.calls import RUN, answer, run

N = 40


def write_table(path, columns, separator=";"):
    """A file with a column y, 0 and then 1, behind the others."""
    table = pd.DataFrame({**columns, "y": (np.arange(N) > 19).astype(int)})
    path.write_text(table.to_csv(sep=separator, index=False))
    return path


LOOKS = {
    "decimal comma": ([f"{i / 7:.3f}".replace(".", ",") for i in range(N)], "0,000", "--decimal ','"),
    "comma in some": ([f"{i},5" if i else "3" for i in range(N)], "1,5", "--decimal ','"),
    "comma and a word": ([f"{i},5" if i else "none" for i in range(N)], "1,5", "--decimal ','"),
    "percent": ([f"{i} %" for i in range(N)], "0 %", "percent signs"),
    "thousands": ([f"{i + 1}'000.5" for i in range(N)], "1'000.5", "separators of thousands"),
    "currency": ([f"€{i}.50" for i in range(N)], "€0.50", "currencies"),
    "negative in brackets": ([f"({i}.5)" for i in range(N)], "(0.5)", "separators of thousands"),
    "German dates": ([f"{i % 28 + 1:02}.02.2024" for i in range(N)], "01.02.2024", "--dates x"),
    "ISO dates": ([f"2024-02-{i % 28 + 1:02}" for i in range(N)], "2024-02-01", "--dates x"),
    "American dates": ([f"2/{i % 28 + 1}/2024" for i in range(N)], "2/1/2024", "--dates x"),
    "times": ([f"2024-02-01T10:{i:02}:00Z" for i in range(N)], "2024-02-01T10:00:00Z", "--dates x"),
    "named months": ([f"{i % 28 + 1} Feb 2024" for i in range(N)], "1 Feb 2024", "--dates x"),
    "clock": ([f"10:{i:02}" for i in range(N)], "10:00", "--dates x"),
}


@pytest.mark.tenth_a_day
@pytest.mark.parametrize("kind", LOOKS)
def test_text_that_looks_like_numbers_or_dates_is_refused(capsys, tmp_path, kind):
    values, example, option = LOOKS[kind]
    path = write_table(tmp_path / "t.csv", {"x": values})
    code, out, err = run(capsys, "fit", path, "--target", "y", "--separator", ";", *RUN)
    assert (code, out) == (1, "")
    assert f"text {example!r} in column 'x'" in err and option in err and "--nominal x" in err
    # the same for a target
    code, _, err = run(capsys, "fit", path, "--target", "x", "--separator", ";", *RUN)
    assert code == 1 and f"text {example!r} in column 'x'" in err


@pytest.mark.parametrize(
    "values", [["5-10", "10-20"], ["A1", "B2"], ["may", "june"], ["3.11.2", "3.12.0"], ["<5", ">5"]]
)
def test_other_text_is_nominal(tmp_path, values):
    path = write_table(tmp_path / "t.csv", {"x": np.resize(values, N)})
    assert read_csv(str(path), ";").values("x").tolist() == np.resize(values, N).tolist()


def test_categories_that_look_like_numbers_are_named(capsys, tmp_path):
    path = write_table(tmp_path / "t.csv", {"x": np.resize(["10 %", "20 %"], N)})
    result = answer(capsys, "fit", path, "--target", "y", "--separator", ";", "--nominal", "x", *RUN)
    assert result["nominal"] == ["x"]
    result = answer(capsys, "fit", path, "--target", "x", "--separator", ";", "--nominal", "x", *RUN)
    assert result["classes"] == ["10 %", "20 %"]


def test_decimal_commas_are_read(capsys, tmp_path):
    """The posterior is that of the same numbers with points, in new rows too."""
    numbers = [i / 8 for i in range(N)]
    comma = write_table(tmp_path / "comma.csv", {"x": [str(x).replace(".", ",") for x in numbers]})
    point = write_table(tmp_path / "point.csv", {"x": numbers}, ",")
    more = ("--separator", ";", "--decimal", ",")
    result = answer(capsys, "fit", comma, "--target", "y", *more, *RUN)
    assert result["best_tree"] == answer(capsys, "fit", point, "--target", "y", *RUN)["best_tree"]
    predicted = answer(capsys, "predict", comma, comma, "--target", "y", *more, *RUN)["predictions"]
    assert [row["prediction"] for row in predicted] == [0] * 20 + [1] * 20
    quoted = tmp_path / "quoted.csv"
    quoted.write_text("x,y\n" + "".join(f'"{str(x).replace(".", ",")}",{int(x > 2.45)}\n' for x in numbers))
    other_answer = answer(capsys, "fit", quoted, "--target", "y", "--decimal", ",", *RUN)
    assert other_answer["best_tree"] == result["best_tree"]
    code, _, err = run(capsys, "fit", write_table(tmp_path / "p.csv", {"x": numbers}), "--target", "y", *more)
    assert code == 1 and "text '0.0' in column 'x' looks like a number; give --decimal '.'" in err


DATES = {
    "ISO": (lambda d: d.strftime("%Y-%m-%d"), "x", "x <= 2024-01-20"),
    "German": (lambda d: d.strftime("%d.%m.%Y"), "x", "x <= 2024-01-20"),
    "American": (lambda d: d.strftime("%m/%d/%Y"), "x=%m/%d/%Y", "x <= 2024-01-20"),
    "short": (lambda d: d.strftime("%d.%m.%y"), "x=%d.%m.%y", "x <= 2024-01-20"),
    "with a zone": (lambda d: d.strftime("%Y-%m-%dT12:00:00Z"), "x", "x <= 2024-01-21 00:00 UTC"),
    "with a clock": (lambda d: d.strftime("%d.%m.%Y 12:00"), "x", "x <= 2024-01-21 00:00"),
}


@pytest.mark.tenth_a_day
@pytest.mark.parametrize("kind", DATES)
def test_dates_are_read(capsys, tmp_path, kind):
    write, option, words = DATES[kind]
    days = pd.date_range("2024-01-01", periods=N)
    path = write_table(tmp_path / "t.csv", {"x": [write(day) for day in days]})
    command = ("--separator", ";", "--dates", option)
    result = answer(capsys, "fit", path, "--target", "y", *command, *RUN, "--out", tmp_path / "run.nc")
    assert result["best_tree"]["text"].startswith(words)
    predicted = answer(capsys, "predict", tmp_path / "run.nc", path, *command)["predictions"]
    assert [row["prediction"] for row in predicted] == [0] * 20 + [1] * 20
    if "=" not in option:  # the model knows which columns are dates
        assert answer(capsys, "predict", tmp_path / "run.nc", path, "--separator", ";")["predictions"] == predicted


def test_dates_that_cannot_be_read(capsys, tmp_path):
    path = write_table(tmp_path / "t.csv", {"x": [f"2/{i % 28 + 1}/2024" for i in range(N)]})
    code, _, err = run(capsys, "fit", path, "--target", "y", "--separator", ";", "--dates", "x")
    assert code == 1 and "text '2/1/2024' in column 'x', which holds dates" in err and "'x=%m/%d/%Y'" in err
    code, _, err = run(capsys, "fit", path, "--target", "y", "--separator", ";", "--dates", "z")
    assert code == 1 and "has no column 'z', given as --dates" in err


def test_tabs(capsys, tmp_path):
    path = write_table(tmp_path / "t.csv", {"x": range(N)}, "\t")
    by_sign = answer(capsys, "fit", path, "--target", "y", "--separator", "\\t", *RUN)
    assert by_sign["best_tree"] == answer(capsys, "fit", path, "--target", "y", "--separator", "\t", *RUN)["best_tree"]
    path.rename(tmp_path / "t.tsv")
    assert answer(capsys, "fit", tmp_path / "t.tsv", "--target", "y", *RUN)["best_tree"] == by_sign["best_tree"]
    (tmp_path / "u.csv").write_text("x\ty\n1\t2\n")
    with pytest.raises(BadTable, match=r"has one column.*give --separator '\\t'"):
        read_csv(str(tmp_path / "u.csv"))


GZIPPED_TABLE = gzip.compress(b"x,y\n" + b"".join(b"%d,%d\n" % (i, i % 2) for i in range(2000)))
DAMAGED = {
    "cut": GZIPPED_TABLE[:-100],
    "head only": GZIPPED_TABLE[:12],
    "no gzip": b"x,y\n1,2\n",
    "checksum": GZIPPED_TABLE[:-8] + bytes(4) + GZIPPED_TABLE[-4:],
    "changed": GZIPPED_TABLE[:200] + bytes(200) + GZIPPED_TABLE[400:],
}


@pytest.mark.parametrize("how", DAMAGED)
def test_damaged_gzip_files_are_named(capsys, tmp_path, how):
    path = tmp_path / "table.csv.gz"
    path.write_bytes(DAMAGED[how])
    code, out, err = run(capsys, "fit", path, "--target", "y", *RUN)
    assert (code, out, len(err.splitlines())) == (1, "", 1)
    assert f"{path} is a damaged gzip file, or none at all" in err
    good = tmp_path / "good.csv"
    good.write_text("x,y\n" + "1,0\n2,1\n" * 5)
    code, _, err = run(capsys, "predict", good, path, "--target", "y", *RUN)
    assert code == 1 and str(path) in err


ENCODINGS = {
    "latin1": ("é,y\n1,2\n".encode("latin1"), "is not UTF-8 text; save it as UTF-8, for example with iconv -f LATIN1"),
    "utf-16": ("x,y\n1,2\n".encode("utf-16"), "is not UTF-8 text; save it as UTF-8, for example with iconv -f UTF-16"),
    "compressed": (GZIPPED_TABLE, "is not UTF-8 text; it is compressed: let its name end in .gz"),
}


@pytest.mark.parametrize("name", ENCODINGS)
def test_encodings(tmp_path, name):
    content, words = ENCODINGS[name]
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(BadTable, match=words):
        read_csv(str(tmp_path / "t.csv"))


def test_long_numbers_are_exact(capsys, tmp_path):
    path = write_table(tmp_path / "t.csv", {"x": [2**53 + i // 20 for i in range(N)]})
    code, _, err = run(capsys, "fit", path, "--target", "y", "--separator", ";", *RUN)
    assert code == 1 and "column 'x' holds 9007199254740993 in row 20, which would be rounded" in err
    fine = write_table(tmp_path / "f.csv", {"x": [f"0.{i:02}00000000000000000" for i in range(N)]})
    assert answer(capsys, "fit", fine, "--target", "y", "--separator", ";", *RUN)["best_tree"]["n_leaves"] == 2


def test_a_run_of_the_library_predicts_from_a_file(capsys, tmp_path):
    """Levels, durations, periods and nominal integers of a saved model are read from text."""
    frame = pd.DataFrame(
        {
            "level": pd.Categorical(np.resize([1, 2, 3], N), ordered=True),
            "wait": pd.to_timedelta(np.arange(N), "h"),
            "month": pd.period_range("2020-01", periods=N, freq="M"),
            "code": np.resize([7, 8], N),
        }
    )
    late = np.arange(N) > 19
    model = pt.TreeModel(frame, (frame["code"] == 8) ^ late, nominal=["code"])
    post = pt.sample(model, 50, tune=50, chains=2, rng=1, kernel="grow-prune", progress=False)
    post.save(tmp_path / "run.nc")
    frame.to_csv(tmp_path / "t.csv", index=False)
    result = answer(capsys, "predict", tmp_path / "run.nc", tmp_path / "t.csv")["predictions"]
    assert np.allclose([row["p(True)"] for row in result], post.predict_proba(frame)[:, 1])
    (tmp_path / "bad.csv").write_text((tmp_path / "t.csv").read_text().replace("2020-02", "soon"))
    code, _, err = run(capsys, "predict", tmp_path / "run.nc", tmp_path / "bad.csv")
    assert code == 1 and "column 'month' holds no periods of frequency M" in err
