"""The benchmark of silent losses: symmetries are verified, planted losses are found, figures of a file are counted."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

import pactree_mcmc as pt
from tests.project.test_benchmarks import load

made, loss, verdicts = load("silent_tables", "silent_loss", "silent_summary")
SYMMETRIC = ("tic_tac_toe", "tic_tac_toe_permuted", *made.MADE)


def table_of(name):
    try:
        return made.TABLES[name]()
    except made.tables.MissingTable:
        pytest.skip("the shared tables are not beside this checkout")


def run_line(table="a", seed=0, *, evidence=-50.0, se=0.05, warned=False, quantities=None, symmetry=None, **more):
    """A line of the file as `one_run` writes it, with invented figures."""
    figures = {"rows": 100, "features": 3, "cpu": 2.0, "log_evidence": evidence, "log_evidence_se": se}
    figures |= {"evidence_warning": None, "warned": warned, "quantities": quantities or {}, "symmetry": symmetry}
    return {"table": table, "seed": seed, "reference": False, **figures, **more}


def runs_with(evidences, se=0.05):
    return [run_line(seed=seed, evidence=float(e), se=se) for seed, e in enumerate(evidences)]


@pytest.mark.parametrize("name", SYMMETRIC)
def test_declared_symmetries_hold(name):
    """And not if one label is another, of a row that moves: rows whose features a symmetry keeps prove nothing."""
    table = table_of(name)
    made.check_symmetries(table)
    assert table.symmetries
    X = table.X.to_numpy()
    for symmetry in table.symmetries:
        np.testing.assert_array_equal(X[made.row_images(X, symmetry)], made.image(X, symmetry))
    moved = np.flatnonzero((made.image(X, table.symmetries[0]) != X).any(axis=1))[0]
    y = np.array(table.y)
    y[moved] = (y[moved] + 1) % 2
    with pytest.raises(made.NotSymmetric, match="does not map"):
        made.check_symmetries(table._replace(y=y))


def test_other_symmetries_are_refused():
    table = made.TABLES["cyclic_categories"]()
    for wrong, words in (
        (made.Symmetry((0, 2, 1)), "does not map"),
        (made.Symmetry((0, 0, 1)), "no permutation"),
        (made.Symmetry((0, 1, 2), ((0, (1, 2, 3, 4, 5, 0)),)), "does not map"),
    ):
        with pytest.raises(made.NotSymmetric, match=words):
            made.check_symmetries(table._replace(symmetries=(wrong,)))
    with pytest.raises(made.NotSymmetric, match="nominal"):
        made.check_symmetries(table._replace(nominal=["x0"]))


def test_missing_values_are_values_of_their_own():
    X = np.array([[1.0, np.nan], [np.nan, 1.0], [2.0, 2.0]])
    table = made.from_array(X, [0, 0, 1], symmetries=[made.exchange(2, (0, 1))])
    made.check_symmetries(table)
    assert made.row_images(X, table.symmetries[0]).tolist() == [1, 0, 2]
    with pytest.raises(made.NotSymmetric):
        made.check_symmetries(table._replace(y=np.array([0, 1, 1])))


def test_orbits_of_the_board():
    pairs = made.column_pairs(9, made.board_symmetries())
    corners, edges = (0, 2, 6, 8), (1, 3, 5, 7)
    assert set(pairs) == {(a, b) for group in (corners, edges) for a in group for b in group if a < b}
    assert len(set(made.board_symmetries())) == 7
    assert made.column_pairs(4, [made.exchange(4, (0, 1)), made.exchange(4, (1, 2))]) == [(0, 1), (0, 2), (1, 2)]


def test_reference_and_verdict_on_planted_runs():
    rng = np.random.default_rng(0)
    runs = runs_with([*rng.normal(-50.0, 0.05, 18), -50.0 - np.log(2.0), -50.15])
    value, error = verdicts.reference(runs)
    assert value == pytest.approx(-50.0, abs=0.05)
    assert error < 0.03
    wrong = [line["seed"] for line in runs if verdicts.is_wrong_by_evidence(line, (value, error))]
    assert wrong == [18]
    # the same deficit within a large error, and a small one with a tiny error
    assert not verdicts.is_wrong_by_evidence(run_line(evidence=-50.7, se=0.3), (value, error))
    assert not verdicts.is_wrong_by_evidence(run_line(evidence=-50.08, se=0.001), (-50.0, 0.001))
    assert not verdicts.is_wrong_by_evidence(run_line(evidence=-49.0, se=0.01), (value, error))
    assert not verdicts.is_wrong_by_evidence(run_line(evidence=None, se=None), (value, error))


def test_reference_is_the_higher_cluster_unless_it_is_one_run():
    lost = [-50.7] * 14
    assert verdicts.reference(runs_with([*lost, *[-50.0] * 6]))[0] == pytest.approx(-50.0)
    assert verdicts.reference(runs_with([*lost, -48.0]))[0] == pytest.approx(-50.7)
    assert verdicts.reference(runs_with([-50.0, -53.0]))[0] == -50.0
    assert verdicts.reference([run_line(evidence=None, se=None)]) is None
    assert verdicts.deficit(run_line(), None) is None


def test_symmetry_verdict_needs_both_z_and_difference():
    def wrong(worst, pairs=20):
        return verdicts.is_wrong_by_symmetry(run_line(symmetry={"pairs": pairs, "largest": 9.0, "worst": worst}))

    assert wrong(["root 0, 1", 5.5, 0.3])
    assert not wrong(["root 0, 1", 4.9, 0.3])
    assert not wrong(["root 0, 1", 5.05, 0.3], pairs=100_000)
    assert not wrong(None)
    assert not verdicts.is_wrong_by_symmetry(run_line())


def test_z_of_pairs_of_silent_runs():
    def line(seed, mean, warned=False):
        quantities = {"leaves": [mean, 1.0, 200.0], "in 0": [0.01, 0.1, 400.0], "row 3": [0.5, 0.0, 4000.0]}
        return run_line(seed=seed, se=None, warned=warned, quantities=quantities)

    runs = [line(0, 5.0), line(1, 9.0, warned=True), line(2, 5.3), line(3, 5.0)]
    # seeds 0 and 2 are a pair, seed 3 is left over; a rare feature and a constant are not judged
    assert verdicts.z_of_runs(runs) == [("scalars", pytest.approx(3.0))]
    first = run_line(quantities={"root 1": [1.0, 0.0, 4000.0]}, se=0.3)
    second = run_line(quantities={"root 2": [0.5, 0.5, 100.0]}, evidence=-49.6, se=0.4)
    expected = [("root", verdicts.MOST_Z), ("root", 10.0), ("evidence", pytest.approx(0.8))]
    assert verdicts.z_of_pair(first, second) == expected


def test_summary_of_an_invented_file(tmp_path):
    broken = {"pairs": 10, "largest": 30.0, "worst": ["root 0, 1", 30.0, 0.9]}
    whole = {"pairs": 10, "largest": 2.0, "worst": None}
    lines = [run_line("b", seed, symmetry=whole) for seed in range(4)]
    lines += [run_line("b", 4, evidence=-51.0, symmetry=broken), run_line("b", 5, evidence=-60.0, warned=True)]
    lines += [{"table": "a", "seed": 0, "reference": False, "error": "ValueError: no"}]
    lines += [run_line("a", 1, se=None, cpu=7.0), run_line("b", 0, symmetry=whole, cpu=4.0)]
    file = tmp_path / "runs.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"table": "b", "se')  # cut off
    said = list(verdicts.summary(verdicts.read(file), ["a", "absent", "b"]))
    assert "| a | 100 x 3 | 1 | 1 | 0 | 0 (- / -) | - | - | 7.0 |" in said
    assert "| b | 100 x 3 | 6 | 0 | 1 | 1 (1 / 1) | 1.00 | 0.00 | 2.0 |" in said
    assert any(
        line.startswith("1 of 6 runs without a warning are wrong (1 by evidence, 1 by symmetry)") for line in said
    )
    assert said[-1].startswith("b, seed 4: evidence 1.00 nats too small")
    assert "root 0, 1 differ by +0.900, z 30.0" in said[-1]
    assert verdicts.read(tmp_path / "none.jsonl") == {}


def test_symmetric_traces_that_differ_are_found():
    rng = np.random.default_rng(0)
    X = np.array([[0.0, 1.0], [1.0, 0.0]])
    table = made.from_array(X, np.array([0.5, 0.5]), symmetries=[made.exchange(2, (0, 1))])
    made.check_symmetries(table)

    def posterior(fraction):
        root = (rng.random((4, 500)) < fraction).astype(int)
        counts = np.stack([root == 0, root == 1], axis=-1).astype(int)
        values = np.full((4, 500, 2, 1), 0.5)
        return SimpleNamespace(
            root_feature=root,
            split_counts=counts,
            values_by_draw=lambda X: values[:, :, : len(X)],
            model=SimpleNamespace(classes_=None),
        )

    def is_wrong(fraction):
        return verdicts.is_wrong_by_symmetry({"symmetry": loss.compare_symmetric(posterior(fraction), table)})

    assert not is_wrong(0.5)
    assert is_wrong(0.8)
    stuck = loss.compare_symmetric(posterior(0.0), table)
    assert stuck["pairs"] == 4
    assert stuck["worst"][2] == 1.0
    assert is_wrong(0.0)
    assert loss.compare_symmetric(posterior(0.5), table._replace(symmetries=())) is None


def test_a_run_of_a_small_table_has_all_figures(monkeypatch):
    # a short run of fixed length in place of the default one
    short = {"draws": 20, "tune": 5, "chains": 2, "kernel": "grow-prune"}
    sample = pt.sample
    monkeypatch.setattr(
        loss.pt, "sample", lambda model, rng, progress: sample(model, rng=rng, progress=progress, **short)
    )
    y = np.repeat(["no", "yes"], 10)
    table = made.from_array(
        np.column_stack([np.arange(20.0), np.arange(20.0)]), y, symmetries=[made.exchange(2, (0, 1))]
    )
    monkeypatch.setitem(loss.TABLES, "small", lambda: table)
    line = loss.run_or_error("small", 3)
    assert "error" not in line, line
    assert json.loads(json.dumps(line)) == line
    assert (line["rows"], line["features"], line["log_evidence"]) == (20, 2, None)
    assert sum(name.startswith("row") for name in line["quantities"]) == 20
    assert all(0.0 <= line["quantities"][name][0] <= 1.0 for name in line["quantities"] if name.startswith("row"))
    assert line["symmetry"]["pairs"] == 2  # rows are their own images


def test_an_exception_is_a_line_of_its_own(monkeypatch):
    def fail():
        raise RuntimeError("x" * 500)

    monkeypatch.setitem(loss.TABLES, "broken", fail)
    line = loss.run_or_error("broken", 3)
    assert line["error"].startswith("RuntimeError: x")
    assert len(line["error"]) == loss.WARNING_LENGTH
    assert (line["table"], line["seed"]) == ("broken", 3)
