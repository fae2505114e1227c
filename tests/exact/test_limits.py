"""Graphs that are too large are refused, log weights that floats cannot hold too; predictions at many rows."""

import pickle

import numpy as np
import pandas as pd
import pytest

import exact
import pactree_mcmc as pt
from exact import limits
from exact import rows as graph_rows
from exact.graph import build as building
from exact.graph.boxes import distinct_points
from exact.recursion.rows import MAX_ROWS_PER_PASS, row_goes_left
from exact.recursion.semirings import exp_down
from tests.problems.refusals import refuses

LOCAL = {
    "ties": lambda: pt.TreeModel(*table(60, 3, 5)),
    "no ties": lambda: pt.TreeModel(*table(40, 2)),
    "one column": lambda: pt.TreeModel(*table(120, 1), split_prior=pt.LocalCuts()),
    "smallest leaf": lambda: pt.TreeModel(*table(40, 2), split_prior=pt.LocalCuts(min_leaf=4)),
    "smallest leaf, repeated rows": lambda: pt.TreeModel(*table(90, 2, 5), split_prior=pt.LocalCuts(min_leaf=4)),
    "few cuts": lambda: pt.TreeModel(*table(200, 2), split_prior=pt.LocalCuts(max_cuts=7)),
    "one feature asked": lambda: pt.TreeModel(*table(40, 3), split_prior=pt.LocalCuts(feature_weights=[0, 1, 0])),
    "nominal": lambda: pt.TreeModel(*table(60, 3, 4), nominal=[1]),
    "nominal, smallest leaf": lambda: pt.TreeModel(
        *table(60, 2, 5), nominal=[0, 1], split_prior=pt.LocalCuts(min_leaf=3)
    ),
    "depth": lambda: pt.TreeModel(*table(40, 3, 8), tree_prior=pt.ChipmanPrior(max_depth=3)),
    "depth 0": lambda: pt.TreeModel(*table(40, 3, 8), tree_prior=pt.ChipmanPrior(max_depth=0)),
    "missing": lambda: pt.TreeModel(
        np.where(np.arange(80).reshape(40, 2) % 9 == 5, np.nan, table(40, 2)[0]), table(40, 1)[1], missing="branch"
    ),
    "trivial": lambda: pt.TreeModel(
        *table(40, 2, 8), split_prior=pt.LocalCuts(trivial=True), tree_prior=pt.ChipmanPrior(max_depth=6)
    ),
}
TOO_LARGE = {
    "three columns": lambda: pt.TreeModel(*table(5000, 3)),
    "twenty columns": lambda: pt.TreeModel(*table(5000, 20)),
    "default cuts": lambda: pt.TreeModel(*table(20_000, 10), split_prior=pt.LocalCuts(max_cuts=100, min_leaf=5)),
    "ties": lambda: pt.TreeModel(*table(5000, 8, 12), split_prior=pt.LocalCuts()),
    "grid": lambda: pt.TreeModel(*table(500, 8), split_prior=pt.GridCuts(20)),
    "dyadic": lambda: pt.TreeModel(*table(500, 12), split_prior=pt.DyadicCuts(6)),
}
RNG_OF_LARGE = np.random.default_rng(1)
DOZEN = np.arange(12.0)[:, None]
LARGE = 5e4 * RNG_OF_LARGE.normal(size=12)
SHALLOW = pt.ChipmanPrior(max_depth=3)
RNG = np.random.default_rng(4)
FEW = pt.ChipmanPrior(max_depth=3)


def table(n, p, values=None, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((n, p)) if values is None else rng.integers(0, values, (n, p)).astype(float)
    return X, (X[:, 0] > np.median(X[:, 0])).astype(int)


@pytest.mark.parametrize("name", LOCAL)
def test_never_more_cells_are_foreseen_than_there_are(name):
    model = LOCAL[name]()
    points, graph = distinct_points(model), exact.build_graph(model)
    least = building.least_row_sets(model, points.codes, points.rows)
    assert 1 <= least <= graph.n_cells
    if name == "one column":
        assert least > 0.4 * graph.n_cells


@pytest.mark.parametrize("name", TOO_LARGE)
def test_far_too_many_cells_are_refused_before_anything_is_built(name, monkeypatch):
    monkeypatch.setattr(building.Building, "build_all", lambda *_: pytest.fail("the graph is built"))
    monkeypatch.setattr(building, "build_dyadic", lambda *_: pytest.fail("the graph is built"))
    with pytest.raises(exact.Intractable, match=r"more than the 2e\+07 cells allowed") as refusal:
        exact.solve(TOO_LARGE[name]())
    assert refusal.value.needed > 20_000_000 and str(pickle.loads(pickle.dumps(refusal.value))) == str(refusal.value)


@pytest.mark.parametrize(
    ("split_prior", "settings"),
    [
        (pt.LocalCuts(max_cuts=9), "max_cuts of LocalCuts or max_depth of ChipmanPrior"),
        (pt.GridCuts(5), "the number of cuts of GridCuts or max_depth of ChipmanPrior"),
        (pt.DyadicCuts(3), "levels of DyadicCuts or max_depth of ChipmanPrior"),
        (pt.kd_tree(table(60, 2)[0], 4), "max_depth of ChipmanPrior or the depth of the given tree"),
    ],
)
def test_two_settings_to_lower_are_named(split_prior, settings):
    model = pt.TreeModel(*table(60, 2), split_prior=split_prior)
    n_cells = exact.build_graph(model).n_cells
    with pytest.raises(exact.Intractable, match=rf"more than the {n_cells - 1:,} cells allowed\. Lower {settings}"):
        exact.solve(model, max_cells=n_cells - 1)
    assert exact.solve(model, max_cells=n_cells).graph.n_cells == n_cells


def test_cells_are_counted_while_they_are_built():
    """No bound is known under weights."""
    local = pt.CustomSplits(lambda cut: cut.left + 1.0, of=pt.LocalCuts())
    with pytest.raises(exact.Intractable, match="more than the 500 cells"):
        exact.solve(pt.TreeModel(*table(60, 3), split_prior=local), max_cells=500)


def test_too_much_memory_is_refused(monkeypatch):
    model = pt.TreeModel(*table(60, 3, 5))
    monkeypatch.setattr(limits, "available_bytes", lambda: 200_000)
    refuses(r"bytes of available memory allowed\. Lower max_cuts", lambda: exact.solve(model), exact.Intractable)
    monkeypatch.setattr(limits, "available_bytes", lambda: 20_000_000)
    assert exact.solve(model).graph.n_cells > 1_000
    monkeypatch.setattr(limits, "memory_bytes", lambda: 100_000)
    refuses("values of cells at every depth", lambda: exact.solve(pt.TreeModel(*table(30, 2, 8))), exact.Intractable)


class Stopping:
    """A bar at which Ctrl-C is pressed."""

    def __init__(self, after):
        self.left = after

    def add(self, n):
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt

    def show(self, total, text):
        pass


def stop_at(monkeypatch, name, after):
    """Press Ctrl-C in a stage with this name."""
    right = limits.stage

    def stage(is_shown, called, *how):
        return right(is_shown, called, *how) if called != name else MemoryUse(Stopping(after))

    monkeypatch.setattr(building, "stage", stage)
    monkeypatch.setattr(exact.solving, "stage", stage)


class MemoryUse:
    def __init__(self, bar):
        self.bar = bar

    def __enter__(self):
        return self.bar

    def __exit__(self, *_):
        return False


@pytest.mark.parametrize(("name", "after"), [("building", 0), ("building", 2), ("summing", 0)])
def test_what_was_built_before_ctrl_c_is_used_again(monkeypatch, name, after):
    model, other = pt.TreeModel(*table(60, 3, 5)), pt.TreeModel(*table(30, 2, 4))
    expected, n_calls = exact.solve(model), []
    monkeypatch.setattr(building, "FIRST_BUDGET", 1 << 10)
    monkeypatch.setattr(building, "next_size", lambda size, seconds: size)
    with monkeypatch.context() as patched:
        stop_at(patched, name, after)
        with pytest.raises(KeyboardInterrupt):
            exact.solve(model)
    assert building._interrupted[0][0] is model
    build = building.build_cells
    monkeypatch.setattr(building, "build_cells", lambda *how: n_calls.append(how) or build(*how))
    truth = exact.solve(model)
    assert building._interrupted == [] and truth.log_evidence == pytest.approx(expected.log_evidence, rel=1e-13)
    assert truth.graph.n_cells == expected.graph.n_cells
    resumed = len(n_calls)
    exact.solve(model)
    assert resumed < len(n_calls) - resumed
    with monkeypatch.context() as patched:
        stop_at(patched, name, after)
        with pytest.raises(KeyboardInterrupt):
            exact.solve(model)
    exact.solve(other)
    assert building._interrupted == []


@pytest.mark.parametrize("variance", [1e-4, 1e-30, 1e-200])
def test_a_known_variance_far_below_that_of_y_is_refused(variance):
    model = pt.TreeModel(DOZEN, LARGE, leaf=pt.NormalKnownVariance(variance), tree_prior=SHALLOW)
    with pytest.raises(exact.Intractable, match=r"1e\+12 nats of log evidence allowed.*larger variance"):
        exact.solve(model, progress=False)


@pytest.mark.parametrize("variance", [1e8, 1.0, 0.1])
def test_predictions_are_inside_their_intervals(variance):
    model = pt.TreeModel(DOZEN, LARGE, leaf=pt.NormalKnownVariance(variance), tree_prior=SHALLOW)
    truth = exact.solve(model, progress=False)
    low, high = truth.credible_interval(DOZEN).T
    assert np.all(low <= truth.predict(DOZEN)) and np.all(truth.predict(DOZEN) <= high)
    assert truth.n_leaves_pmf().sum() == pytest.approx(1.0, abs=1e-3)


@pytest.mark.more(everyday=["1e+18"])
@pytest.mark.parametrize("weight", [1e13, 1e15, 1e18])
def test_estimators_and_comparisons_sample_what_the_exact_engine_refuses(weight):
    pytest.importorskip("sklearn")
    x = (np.arange(40) % 2)[:, None] * 1.0
    y = np.where(x[:, 0] + 0.5 * RNG_OF_LARGE.normal(size=40) > 0.5, "p", "q")
    weights = np.full(40, weight)
    with pytest.raises(exact.Intractable, match="nats of log evidence"):
        exact.solve(pt.TreeModel(x, y, sample_weight=weights), progress=False)
    fitted = pt.BayesianTreeClassifier(random_state=0).fit(x, y, sample_weight=weights)
    assert fitted.predict_proba([[0.0], [1.0]]).sum(axis=1) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("weight", [1.0, 1e6, 1e9])
def test_class_probabilities_add_up(weight):
    x = (np.arange(40) % 2)[:, None] * 1.0
    y = x[:, 0] + 0.5 * RNG_OF_LARGE.normal(size=40) > 0.5
    truth = exact.solve(pt.TreeModel(x, y, sample_weight=np.full(40, weight)), progress=False)
    assert truth.predict_proba([[0.0], [1.0]]).sum(axis=1) == pytest.approx(1.0, abs=1e-4)


def test_the_exponential_does_not_read_behind_its_table():
    assert [exp_down(x) for x in (0.7, 1.5, 20.0)] == pytest.approx(np.exp([0.7, 1.5, 20.0]))
    assert exp_down(-1e300) == 0.0 and exp_down(np.nan) == 0.0 and exp_down(1e-13) == pytest.approx(1.0)


X = np.column_stack([RNG.integers(0, 5, 40), RNG.integers(0, 4, 40), RNG.normal(size=40).round(1)]).astype(float)
Y = (X[:, 0] + RNG.normal(size=40) > 2).astype(int)
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
