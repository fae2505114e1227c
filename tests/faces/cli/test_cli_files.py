"""The command line over files: tables that cannot be read, and saved runs."""

import contextlib
import io
import json

import pytest

from pactree_mcmc.faces.cli import main
from tests.faces.cli.calls import RUN, answer, model_of, run, shop

BAD_FILES = {
    "empty": ("", "is empty; give a CSV file with a header line"),
    "blank": ("\n\n", "is empty; give a CSV file with a header line"),
    "header only": ("a,y\n", "has a header and no rows"),
    "one row": ("a,y\n1,2\n", "X has one row"),
    "target missing": ("a,yy\n1,2\n2,3\n", "has no column 'y', given as --target; did you mean 'yy'"),
    "target far": ("a,b\n1,2\n2,3\n", "has no column 'y', given as --target; its columns are a, b"),
    "only the target": ("y\n1\n2\n", "has no column beside the target 'y'"),
    "text among numbers": ("a,y\n1,2\n\n2,3\nn.a.,3\n", "line 5: text 'n.a.' in column 'a', which holds numbers"),
    "text after quoted lines": ('a,b,y\n"x\ny",1,2\nz,2,3\nz,?,3\n', "line 5: text '?' in column 'b'"),
    "long row": ("a,y\n1,2\n2,3,4\n", "line 3: 3 fields, but the header has 2"),
    "short row": ("a,y\n1,2\n2\n", "line 3: 1 fields, but the header has 2"),
    "missing": ("a,y\n1,2\nNaN,3\n", "line 3: no value in column 'a'; fill it in, leave such lines out with"),
    "missing in two columns": (
        "a,b,y\n1,,2\nNaN,3,3\n",
        "line 3: no value in column 'a', line 2: no value in column 'b'; fill it in",
    ),
    "text among numbers of two columns": (
        "a,b,y\n1,2,1\n2,x,2\nq,3,3\n",
        "2 columns cannot be used:",
    ),
    "missing target": ("a,y\n1,2\n2,\n", "line 3: no value in column 'y'; fill it in, or leave such lines out"),
    "infinite": ("a,y\n1,2\ninf,3\n", "line 3: column 'a' is infinite"),
    "text in the target": ("a,y\n1,2\n2,3\n4,b\n", "line 4: text 'b' in column 'y'"),
    "no name": ("a,,y\n1,2,3\n2,3,4\n", "line 1: column 2 has no name"),
    "same names": ("a,a,y\n1,2,3\n2,3,4\n", "line 1: two columns are called 'a'"),
    "other separator": ("a;y\n1;2\n2;3\n", "has one column, 'a;y'; give --separator ';'"),
}


@pytest.mark.tenth_a_day
@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_files_are_refused_in_one_line(capsys, tmp_path, name):
    content, message = BAD_FILES[name]
    path = tmp_path / "bad.csv"
    path.write_text(content)
    code, out, err = run(capsys, "fit", path, "--target", "y", *RUN)
    assert (code, out) == (1, "")
    assert len(err.splitlines()) == 1
    assert err.startswith("error: ")
    assert message in err


def test_files_and_folders_that_are_not_there(capsys, data, tmp_path):
    for command in (["fit", "nosuch.csv"], ["summary", "nosuch.nc"], ["predict", data, "nosuch.csv"]):
        code, out, err = run(capsys, *command, "--target", "bought", *RUN)
        assert (code, out) == (1, "")
        assert err.splitlines() == [f"error: {command[-1]}: No such file or directory"]
    code, _, err = run(capsys, "fit", data, "--target", "bought", "--out", tmp_path / "nosuch" / "run.nc")
    assert code == 1
    assert "does not exist or cannot be written to; make it first" in err


def test_a_saved_model_is_no_run(capsys, tmp_path):
    path = tmp_path / "model.nc"
    model_of(shop(20), "bought").save(path)
    code, out, err = run(capsys, "summary", path)
    assert (code, out) == (2, "")
    assert f"{path} is a saved model, which has no draws; give a saved run" in err


@pytest.fixture(scope="module")
def saved(data, tmp_path_factory):
    """A file, and what was said when it was made."""
    path = tmp_path_factory.mktemp("saved") / "run.nc"
    command = ["fit", data, "--target", "bought", "--ignore", "price,size", *RUN, "--out", str(path), "--json"]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main(command) == 0
    result = json.loads(out.getvalue())
    assert result["saved"] == str(path)
    return path, result


class TestSavedRuns:
    def test_summary(self, capsys, saved):
        path, result = saved
        second_answer = answer(capsys, "summary", path)
        for name in ("summary", "n_leaves_pmf", "feature_inclusion", "best_tree", "classes"):
            assert second_answer[name] == result[name]

    def test_predict(self, capsys, data, saved):
        result = answer(capsys, "predict", saved[0], data)
        command = ("predict", data, data, "--target", "bought", "--ignore", "price,size", *RUN)
        assert result["predictions"] == answer(capsys, *command)["predictions"]

    def test_compare(self, capsys, data, saved):
        result = answer(capsys, "compare", saved[0])
        command = ("compare", data, "--target", "bought", "--ignore", "price,size", *RUN)
        assert result["rows"] == answer(capsys, *command)["rows"]

    @pytest.mark.slow
    def test_a_damaged_file(self, capsys, saved, tmp_path):
        path = tmp_path / "run.nc"
        for content in (saved[0].read_bytes()[:2000], b"a,b\n1,2\n"):
            path.write_bytes(content)
            code, out, err = run(capsys, "summary", path)
            assert (code, out) == (1, "")
            assert len(err.splitlines()) == 1
            assert "run.nc" in err

    def test_a_target_is_refused(self, capsys, saved):
        code, _, err = run(capsys, "summary", saved[0], "--target", "bought")
        assert code == 2
        assert "which has its own" in err
