"""Predictions at many rows, in one pass over the cells or sent down the graph, against each row by hand."""

import numpy as np
import pandas as pd
import pytest

import exact
import pactree_mcmc as pt
from exact import rows as graph_rows
from exact.recursion.rows import MAX_ROWS_PER_PASS, row_goes_left

RNG = np.random.default_rng(4)
X = np.column_stack([RNG.integers(0, 5, 40), RNG.integers(0, 4, 40), RNG.normal(size=40).round(1)]).astype(float)
Y = (X[:, 0] + RNG.normal(size=40) > 2).astype(int)
FEW = pt.ChipmanPrior(max_depth=3)
WITH_GAPS = np.where(RNG.random((40, 3)) < 0.15, np.nan, X)
MIXED = pd.DataFrame({"a": X[:, 0], "b": pd.Categorical.from_codes(X[:, 1].astype(int), list("pqrs")), "c": X[:, 2]})
PRIORS = {
    "local": (X, pt.LocalCuts()),
    "local, few cuts": (X, pt.LocalCuts(max_cuts=3)),
    "smallest leaf": (X, pt.LocalCuts(min_leaf=3)),
    "trivial": (X[:, :2], pt.LocalCuts(trivial=True)),
    "one column": (X[:, 2:], pt.LocalCuts()),
    "one column asked": (X, pt.LocalCuts(feature_weights=[0, 0, 1])),
    "grid": (X, pt.GridCuts(4)),
    "dyadic": (X, pt.DyadicCuts(2)),
    "missing, local": (WITH_GAPS, pt.LocalCuts(max_cuts=3)),
    "missing, grid": (WITH_GAPS, pt.GridCuts(3)),
    "nominal, local": (MIXED, pt.LocalCuts()),
    "nominal, grid": (MIXED, pt.GridCuts(3)),
    "weights": (X[:, :2], pt.CustomSplits(lambda cut: cut.left + 1.0, of=pt.LocalCuts())),
}


def solved(name, y=Y, **how):
    table, split_prior = PRIORS[name]
    missing = "branch" if "missing" in name else "error"
    return exact.solve(pt.TreeModel(table, y, split_prior=split_prior, tree_prior=FEW, missing=missing, **how))


def new_rows(name, n=90):
    """Training rows, others of the same values, and others outside and between; missing and unknown ones."""
    table = PRIORS[name][0]
    rng = np.random.default_rng(7)
    if isinstance(table, pd.DataFrame):
        out = pd.concat([table, table.sample(n - len(table), random_state=1, replace=True)], ignore_index=True)
        out["a"] = rng.permutation(out["a"].to_numpy())
        out.loc[::3, "c"] += 0.05
        out["b"] = out["b"].astype(object)
        out.loc[::7, "b"] = "unknown"
        return out
    shuffled = np.column_stack([rng.permutation(column) for column in table.T])
    shifted = shuffled + rng.choice([0.0, 0.3, -7.0, 7.0], shuffled.shape)
    out = np.concatenate([table, shuffled, shifted])[:n]
    if "missing" not in name:
        out = np.where(np.isnan(out), 0.0, out)
    return out


def by_hand(truth, numbers):
    """Each row down the graph, the masses of the cells it may be in by depth, from the definition."""
    graph, placed = truth.graph, truth._rows._code_rows(numbers)
    left_of, out = row_goes_left.py_func, np.zeros((len(numbers), truth._rows.place_values.shape[1]))
    for i in range(len(numbers)):
        mass = {(0, 0): 1.0}
        for depth in range(int(truth.model.prior_tables.depth_limit) + 1):
            for (cell, at), here in list(mass.items()):
                if at != depth:
                    continue
                slot, edges = graph.slots_at(cell, depth), range(graph.first_edge[cell], graph.first_edge[cell + 1])
                stop = 1.0
                if graph.rows[cell] > 0 and graph.log_split[slot] > -np.inf:
                    stop = np.exp(graph.log_stop[slot] - truth.log_inside[slot])
                    for e in edges:
                        sides = [int(graph.left[e]), int(graph.right[e])]
                        below = [graph.slots_at(side, depth + 1) for side in sides]
                        log_part = graph.log_split[slot] + graph.log_rule[e] + truth.log_inside[below].sum()
                        part = here * np.exp(log_part - truth.log_inside[slot])
                        to_left = left_of(graph, truth._rows._router, e, cell, placed.x[i], placed.codes[i])
                        child = (sides[0 if to_left else 1], depth + 1)
                        mass[child] = mass.get(child, 0.0) + part
                out[i] += here * stop * truth._rows.place_values[cell]
    return out


@pytest.mark.more
@pytest.mark.parametrize("name", PRIORS)
def test_many_rows_are_each_predicted_as_by_hand(name):
    truth, rows = solved(name), new_rows(name)
    assert len(rows) > MAX_ROWS_PER_PASS
    expected = by_hand(truth, truth.model.columns.numbers(rows))
    assert truth.predict_proba(rows) == pytest.approx(expected, rel=1e-11)
    assert expected.sum(axis=1) == pytest.approx(1.0)


@pytest.mark.more(everyday=["local-524288"])
@pytest.mark.parametrize("block", [1 << 19, 50])
@pytest.mark.parametrize("name", ["local", "grid", "missing, grid"])
def test_distributions_of_many_rows_are_those_of_each(name, block, monkeypatch):
    truth, rows = solved(name, X[:, 0] + X[:, 2]), new_rows(name)
    one_by_one = [exact.solve(truth.model).predict_quantiles(rows[i : i + 1], [0.1, 0.5])[0] for i in range(0, 90, 18)]
    monkeypatch.setattr(graph_rows, "MAX_PLACES_PER_BLOCK", block)
    assert truth.predict_quantiles(rows, [0.1, 0.5])[::18] == pytest.approx(np.array(one_by_one), rel=1e-8, abs=1e-8)
    single = np.array([truth.predict_std_new_y(rows[i : i + 1])[0] for i in range(0, 90, 6)])
    assert truth.predict_std_new_y(rows)[::6] == pytest.approx(single, rel=1e-8)


def test_of_two_equal_branches_the_left_one_is_followed():
    """Two rows on either side; an unknown category, and a value missing where none was, go left in both engines."""
    table = pd.DataFrame({"a": [0.0, 1.0, 2.0, 3.0], "b": pd.Categorical(list("pprr"))})
    for column, new in (("a", np.nan), ("b", "unknown")):
        X = table[[column]]
        split_prior = pt.GridCuts([[1.5]]) if column == "a" else pt.LocalCuts()
        model = pt.TreeModel(
            X, [0, 0, 1, 1], missing="branch", split_prior=split_prior, tree_prior=pt.ChipmanPrior(0.9)
        )
        truth = exact.solve(model)
        row, left = pd.DataFrame({column: [new]}), X.iloc[:1]
        assert truth.predict_proba(row) == pytest.approx(truth.predict_proba(left))
        assert truth.map_tree().predict(row).tolist() == truth.map_tree().predict(left).tolist()
        assert truth.sample(50, 1).predict_proba(row) == pytest.approx(truth.sample(50, 1).predict_proba(left))
