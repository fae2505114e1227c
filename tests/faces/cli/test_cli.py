"""The command line: answers for people and programs, exit codes, errors of one line that say where and what to do."""

import gzip
import io
import json
import re
import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import pactree_mcmc as pt
from pactree_mcmc.faces.cli.arguments import ARGUMENTS_WITH_OPTIONS, with_options
from pactree_mcmc.mcmc.run import progress as _progress
from tests import ROOT
from tests.faces.cli.calls import RUN, answer, posterior, run, shop


class TestFit:
    def test_same_posterior_as_the_library(self, capsys, data):
        result = answer(capsys, "fit", data, "--target", "bought", "--ignore", "price", *RUN)
        assert answer(capsys, "fit", data, "--target", "price", "--ignore", "bought", *RUN)["classes"] is None
        post = posterior("bought")
        assert result["features"] == ["age", "colour", "size"]
        assert result["nominal"] == ["colour"]
        assert result["classes"] == ["no", "yes"]
        assert list(result["feature_inclusion"].values()) == post._feature_inclusion().tolist()
        pmf = post.n_leaves_pmf()
        assert result["n_leaves_pmf"] == {str(m): pmf[m] for m in np.flatnonzero(pmf)}
        assert result["best_tree"]["text"] == post.map_tree().format()
        assert result["summary"]["n_leaves"]["mean"] == pytest.approx(post.n_leaves.mean())

    def test_tables_for_people(self, capsys, data):
        code, out, err = run(capsys, "fit", data, "--target", "bought", "--ignore", "price", *RUN)
        assert code == 0
        assert out.startswith("80 rows, 3 features, nominal: colour; classes: no, yes\n2 chains x 200 draws")
        for words in ("ess_bulk", "leaves  probability", "feature  probability", "best tree drawn", "|-- yes: "):
            assert words in out
        assert all(line.startswith(("note:", "  ")) for line in err.splitlines())

    def test_whole_numbers_are_classes_unless_told(self, capsys, data):
        command = ("fit", data, "--target", "age", "--ignore", "bought,price", *RUN)
        assert answer(capsys, *command)["classes"] == list(range(20, 28))
        assert answer(capsys, *command, "--regression")["classes"] is None

    def test_missing_lines_are_left_out_on_request(self, capsys, tmp_path):
        frame = shop()
        frame.loc[[3, 9], "colour"] = None
        frame.loc[5, "size"] = np.nan
        frame.to_csv(tmp_path / "gaps.csv", index=False)
        command = ("fit", tmp_path / "gaps.csv", "--target", "bought", "--ignore", "price", *RUN)
        result = answer(capsys, *command, "--missing", "drop")
        assert result["n_rows"] == 77
        assert "3 lines with missing values are left out." in result["notes"]
        code, _, err = run(capsys, *command)
        assert code == 1
        assert (
            "line 5: no value in column 'colour' (2 lines in all), line 7: no value in column 'size'; fill it in" in err
        )

    def test_other_separators_and_gzip(self, capsys, tmp_path):
        path = tmp_path / "shop.csv.gz"
        text = io.StringIO()
        shop().to_csv(text, index=False, sep=";")
        path.write_bytes(gzip.compress(text.getvalue().encode("utf-8-sig")))
        result = answer(capsys, "fit", path, "--target", "bought", "--separator", ";", *RUN)
        assert result["features"] == ["age", "colour", "size", "price"]

    @pytest.mark.slow
    def test_pictures(self, capsys, data, tmp_path):
        folder = tmp_path / "new" / "pictures"
        command = ("fit", data, "--target", "bought", "--ignore", "price", *RUN, "--plot", folder)
        result = answer(capsys, *command)
        assert result["pictures"] == sorted(map(str, folder.iterdir()), key=result["pictures"].index)
        assert len(result["pictures"]) >= 2
        assert not plt.get_fignums()
        for path in result["pictures"]:
            assert plt.imread(path).std() > 0.0


class TestOptions:
    COMMAND = ("--target", "bought", "--ignore", "price", *RUN)

    def test_priors_and_leaves_are_those_of_the_library(self, capsys, data):
        for options, words in (
            (("--tree-prior", "chipman", "--alpha", ".5", "--beta", "1", "--max-depth", "3"), CHIPMAN),
            (("--tree-prior", "branching", "--rho", ".3"), "tree_prior=BranchingProcess(rho=0.3, max_depth=10"),
            (("--tree-prior", "penalty", "--cost", "2.5"), "tree_prior=LeafPenalty(cost=2.5, max_depth=None, "),
            (("--leaf", "poisson", "--target", "age", "--ignore", "bought"), "leaf=PoissonGamma("),
            (("--min-leaf", "4", "--max-cuts", "3"), "split_prior=LocalCuts(trivial=False, min_leaf=4, max_cuts=3"),
        ):
            assert words in answer(capsys, "fit", data, *self.COMMAND, *options)["model"], options

    @pytest.mark.slow
    def test_a_checkpoint_is_finished_by_resume(self, capsys, data, tmp_path):
        path = tmp_path / "run.nc"
        result = answer(capsys, "fit", data, *self.COMMAND, "--checkpoint", path)
        resumed = answer(capsys, "resume", path, "--quiet")
        assert resumed["summary"] == result["summary"]
        more = answer(capsys, "resume", path, "--draws", "50", "--quiet", "--out", tmp_path / "more.nc")
        assert (more["draws"], more["saved"]) == (250, str(tmp_path / "more.nc"))
        code, _, err = run(capsys, "fit", data, *self.COMMAND, "--checkpoint", path)
        assert code == 1
        assert f"--checkpoint {path} exists already; python -m pactree_mcmc resume {path} goes on from it" in err

    def test_lines_of_progress_where_there_is_no_terminal(self, capsys, data, monkeypatch):
        monkeypatch.setattr(_progress, "SECONDS_BETWEEN_LINES", 0.0)
        loud = [option for option in self.COMMAND if option != "--quiet"]
        code, _, err = run(capsys, "fit", data, *loud)
        assert code == 0
        assert re.search(r"^tuning, \d+ of \d+ steps after \d+ s, acceptance 0\.\d+, leaves \d", err, re.MULTILINE)
        assert re.search(r"^\d+ of \d+ draws after \d+ s, acceptance 0\.\d+, leaves \d", err, re.MULTILINE)
        assert "draws after" not in run(capsys, "fit", data, *self.COMMAND)[2]


CHIPMAN = "tree_prior=ChipmanPrior(alpha=0.5, beta=1.0, max_depth=3)"


def test_advice_names_options_that_exist(capsys):
    """The arguments of the library in its messages are options of the command line."""
    helps = run(capsys, "fit", "--help")[1] + run(capsys, "compare", "--help")[1]
    assert all(f"--{name.replace('_', '-')}" in helps for name in ARGUMENTS_WITH_OPTIONS)
    for message, expected in {
        "a run without kernel=, tune=, thin= and proposals=.": "without --kernel, --tune, --thin and --proposals.",
        "about 3 times as many steps (steps=3000)": "as many steps (--steps 3000)",
        'or missing="branch".': "or --missing branch.",
        "fits: LocalCuts(max_cuts=3), max_depth=2, max_cells=1_200;": "--max-cuts 3, --max-depth 2, --max-cells 1_200;",
        "checkpoint='a b/run.nc' exists already": "--checkpoint a b/run.nc exists already",
        "exists; pt.resume('a.nc') goes on from it": "python -m pactree_mcmc resume a.nc goes on from it",
        "Try pt.resume(post, 27), which": "Try python -m pactree_mcmc resume RUN.nc --draws 27, which",
    }.items():
        assert expected in with_options(message)


def test_advice_of_a_real_run_names_options(capsys, tmp_path):
    """Chains that stay where they start are advised to temper, in words that can be typed."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (400, 4))
    frame = pd.DataFrame(X, columns=list("abcd")).assign(y=np.where(X[:, 0] ^ X[:, 1] ^ X[:, 2], "yes", "no"))
    frame.to_csv(tmp_path / "parity.csv", index=False)
    command = (tmp_path / "parity.csv", "--target", "y", "--kernel", "blanchard", "--draws", "60", "--tune", "0")
    notes = answer(capsys, "fit", *command, "--proposals", "1", "--seed", "1", "--quiet")["notes"]
    assert any("--" in note for note in notes)
    assert not any(re.search(r"\b(betas|draws|tune|chains)=", note) for note in notes)


class TestPredict:
    def test_classes(self, capsys, data, tmp_path):
        """Columns in another order, a further one, a category unseen in training."""
        new = shop(10)[["size", "colour", "price", "age"]]
        new.loc[0, "colour"] = "violet"
        new.to_csv(tmp_path / "new.csv", index=False)
        out = tmp_path / "out.csv"
        command = ("predict", data, tmp_path / "new.csv", "--target", "bought", "--ignore", "price", *RUN)
        result = answer(capsys, *command, "--out", out)
        post = posterior("bought")
        table = pd.DataFrame(result["predictions"])
        np.testing.assert_array_equal(table[["p(no)", "p(yes)"]], post.predict_proba(new))
        np.testing.assert_array_equal(table["prediction"], post.predict(new))
        pd.testing.assert_frame_equal(pd.read_csv(out), table)

    def test_regression_on_the_screen(self, capsys, data):
        code, out, _ = run(capsys, "predict", data, data, "--target", "price", "--ignore", "bought", *RUN)
        assert code == 0
        assert out.splitlines()[0].split() == ["prediction", "sd_over_trees"]
        assert len(out.splitlines()) == 23 and "score: root mean square error " in out
        assert out.splitlines()[-1] == "... 60 more rows; --out FILE.csv writes all, --json prints all"

    def test_interval(self, capsys, data):
        command = ("predict", data, data, "--target", "price", "--ignore", "bought", *RUN)
        plain, result = answer(capsys, *command), answer(capsys, *command, "--interval", "0.8")
        post = posterior("price")
        table = pd.DataFrame(result["predictions"])
        assert list(table) == ["prediction", "sd_over_trees", "lower", "upper", "mean_lower", "mean_upper"]
        assert list(pd.DataFrame(plain["predictions"])) == ["prediction", "sd_over_trees"]
        np.testing.assert_allclose(table[["lower", "upper"]], post.predict_interval(shop(), 0.8))
        np.testing.assert_allclose(table[["mean_lower", "mean_upper"]], post.credible_interval(shop(), 0.8))

    def test_interval_of_classes(self, capsys, data):
        command = ("predict", data, data, "--target", "bought", "--ignore", "price", "--interval", "0.8", *RUN)
        table = pd.DataFrame(answer(capsys, *command)["predictions"])
        post = posterior("bought")
        of_class = [[f"{name}({label})" for name in ("p", "lower", "upper")] for label in ("no", "yes")]
        assert list(table) == ["prediction", *of_class[0], *of_class[1]]
        ends = post.credible_interval(shop(), 0.8)
        for j, names in enumerate(of_class):
            np.testing.assert_allclose(table[names[1:]], ends[:, j])

    def test_interval_of_a_loss_is_refused(self, capsys, data, tmp_path):
        model = pt.TreeModel(shop()[["age", "size"]], shop()["bought"].to_numpy(), leaf=pt.PacBayesLoss(2.0))
        run_file = tmp_path / "loss.nc"
        pt.sample(model, 20, tune=20, chains=2, rng=3, kernel="grow-prune", progress=False).save(run_file)
        code, out, err = run(capsys, "predict", str(run_file), data, "--interval", "0.8")
        assert (code, out) == (1, "") and "is a loss, not a model of y" in err

    @pytest.mark.parametrize(
        ("lines", "message"),
        [
            ("age,size\n21,0.5", "has no column 'colour', given as a column of the model"),
            ("age,colour,size\n21,red,0.5\nold,red,1", "line 3: text 'old' in column 'age', which holds numbers"),
            ("age,colour,size\n21,,0.5", "line 2: no value in column 'colour'; fill it in"),
        ],
    )
    def test_bad_new_rows_are_found_before_the_run(self, capsys, data, tmp_path, lines, message, monkeypatch):
        (tmp_path / "new.csv").write_text(lines)
        monkeypatch.setattr(pt, "sample", None)
        command = ("predict", data, tmp_path / "new.csv", "--target", "bought", "--ignore", "price", *RUN)
        code, out, err = run(capsys, *command)
        assert (code, out) == (1, "")
        assert message in err


class TestReport:
    @pytest.mark.slow
    def test_a_saved_run_makes_a_page(self, capsys, data, tmp_path):
        run(capsys, "fit", data, "--target", "bought", "--ignore", "price", "--out", tmp_path / "run.nc", *RUN)
        code, out, err = run(capsys, "report", tmp_path / "run.nc", "-o", tmp_path / "page.html", "--title", "A shop")
        assert code == 0, err
        assert out.startswith("80 rows, 3 features, nominal: colour; classes: no, yes\n2 chains x 200 draws")
        assert out.endswith(f"written: {tmp_path / 'page.html'}\n")
        text = (tmp_path / "page.html").read_text()
        assert "<h1>A shop</h1>" in text
        assert f"python -m pactree_mcmc report {tmp_path / 'run.nc'} -o {tmp_path / 'page.html'}" in text

    def test_bad_paths_are_found_before_the_run(self, capsys, data, tmp_path):
        code, _, err = run(capsys, "report", data, "--target", "bought", "-o", tmp_path / "page.pdf")
        assert (code, "give a path that ends in .html" in err) == (1, True)
        code, _, err = run(capsys, "report", data, "--target", "bought")
        assert (code, "-o/--out" in err) == (2, True)

    def test_a_page_without_exact_values_says_why(self, capsys, data, tmp_path):
        command = ("report", data, "--ignore", "size", *RUN, "--exact", "-o", tmp_path / "page.html")
        code, _, err = run(capsys, *command, "--target", "bought", "--max-cells", "5")
        assert code == 0 and (tmp_path / "page.html").exists()
        assert "note: the page has no exact values: the exact sum needs more than the 5 cells allowed" in err
        assert "--max-cells 5: raise it, or leave out --exact." in err
        code, _, err = run(capsys, *command, "--target", "price", "--leaf", "shared-variance")
        assert code == 0 and "note: the page has no exact values: the score of NormalSharedVariance" in err


class TestCompare:
    COMMAND = ("--target", "bought", "--ignore", "price,size")

    def test_exact_against_sampled(self, capsys, data):
        result = answer(capsys, "compare", data, *self.COMMAND, *RUN)
        rows = {row["quantity"]: row for row in result["rows"]}
        assert rows["log evidence"]["sampled"] is None
        assert rows["inclusion: age"]["exact"] == pytest.approx(1.0, abs=0.01)
        assert result["n_cells"] > 10

    def test_what_is_not_tractable_is_refused_in_one_line(self, capsys, data):
        code, out, err = run(capsys, "compare", data, *self.COMMAND, *RUN, "--max-cells", "5")
        assert (code, out) == (1, "")
        assert len(err.splitlines()) == 1
        assert err.startswith("error: the exact sum needs more than the 5 cells allowed. Any one of these fits: --max-")
        assert "--max-cells " in err and "=" not in err

    def test_what_fits_is_what_to_give(self, capsys, data):
        command = ("compare", data, "--target", "bought", "--ignore", "price", *RUN)
        err = run(capsys, *command, "--max-cells", "500")[2]
        options = re.findall(r"(--max-[a-z]+) ([\d_]+)", err)
        assert {name for name, _ in options} == {"--max-cuts", "--max-depth", "--max-cells"}
        for name, value in options:
            assert run(capsys, *command, "--max-cells", "500", name, value)[0] == 0, name


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "the following arguments are required: command"),
        (["frobnicate"], "invalid choice: 'frobnicate'"),
        (["fit", "DATA"], "the following arguments are required: --target"),
        (["summary", "DATA"], "is not a saved run; name the column to predict, --target COLUMN"),
        (["predict", "DATA", "--target", "bought"], "the following arguments are required: new"),
        (["fit", "DATA", "--target", "bought", "--draws", "0"], "'0' is not an integer >= 1"),
        (["fit", "DATA", "--target", "bought", "--seed", "x"], "'x' is not an integer >= 0"),
        (["fit", "DATA", "--target", "bought", "--kernel", "best"], "invalid choice: 'best'"),
        (["fit", "DATA", "--target", "bought", "--ignore", "bought"], "is named in --ignore or --dates too"),
        (["fit", "DATA", "--target", "bought", "--dates", "bought"], "is named in --ignore or --dates too"),
        (["fit", "DATA", "--target", "age", "--nominal", "age", "--regression"], "but this is a regression"),
        (["fit", "DATA", "--target", "age", "--decimal", "x"], "invalid choice: 'x'"),
        (["fit", "DATA", "--target", "age", "--rho", ".5"], "--rho is of --tree-prior branching, not of chipman"),
        (["predict", "DATA", "DATA", "--target", "price", "--interval", "90"], "'90' is not a probability"),
    ],
)
def test_bad_usage(capsys, data, argv, message):
    code, out, err = run(capsys, *(data if a == "DATA" else a for a in argv))
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert err.startswith("error: ")
    assert message in err


def test_help_and_version(capsys):
    code, out, _ = run(capsys, "fit", "--help")
    assert code == 0
    assert "--target COLUMN" in out
    assert run(capsys, "--version")[0] == 0


def test_an_interrupted_run_has_its_own_code(capsys, data, monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt("interrupted before every chain had a draw; nothing to return")

    monkeypatch.setattr(pt, "sample", interrupted)
    code, out, err = run(capsys, "fit", data, "--target", "bought", "--ignore", "price", *RUN)
    assert (code, out) == (130, "")
    assert err == "error: interrupted before every chain had a draw; nothing to return\n"


@pytest.mark.slow
def test_a_program_answers_on_the_standard_output_and_has_its_errors_on_the_other(data):
    command = [sys.executable, "-m", "pactree_mcmc", "summary", data, *RUN, "--json", "--target"]
    good, bad = (
        subprocess.run([*command, *more], capture_output=True, text=True, cwd=ROOT, check=False)
        for more in (["bought", "--ignore", "price"], ["x"])
    )
    assert good.returncode == 0, good.stderr
    assert json.loads(good.stdout)["n_rows"] == 80
    assert (bad.returncode, bad.stdout) == (1, "")
    assert bad.stderr.splitlines() == [
        f"error: {data} has no column 'x', given as --target; its columns are age, colour, size, bought, price"
    ]
