"""The benchmark of silent losses: symmetries are verified, planted losses are found."""

import numpy as np
import pytest

from tests.project.test_benchmarks import load

made, verdicts = load("silent_tables", "silent_loss")
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
