"""Graphs that are too large are refused, early if far too large; building in pieces: the bar, memory, Ctrl-C."""

import pickle

import numpy as np
import pytest

import exact
import pactree_mcmc as pt
from exact import limits
from exact.graph import build as building
from exact.graph.boxes import distinct_points


def table(n, p, values=None, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((n, p)) if values is None else rng.integers(0, values, (n, p)).astype(float)
    return X, (X[:, 0] > np.median(X[:, 0])).astype(int)


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


@pytest.mark.parametrize("name", LOCAL)
def test_never_more_cells_are_foreseen_than_there_are(name):
    model = LOCAL[name]()
    points, graph = distinct_points(model), exact.build_graph(model)
    least = building.least_row_sets(model, points.codes, points.rows)
    assert 1 <= least <= graph.n_cells
    if name == "one column":
        assert least > 0.4 * graph.n_cells


LARGE = {
    "three columns": lambda: pt.TreeModel(*table(5000, 3)),
    "twenty columns": lambda: pt.TreeModel(*table(5000, 20)),
    "default cuts": lambda: pt.TreeModel(*table(20_000, 10), split_prior=pt.LocalCuts(max_cuts=100, min_leaf=5)),
    "ties": lambda: pt.TreeModel(*table(5000, 8, 12), split_prior=pt.LocalCuts()),
    "grid": lambda: pt.TreeModel(*table(500, 8), split_prior=pt.GridCuts(20)),
    "dyadic": lambda: pt.TreeModel(*table(500, 12), split_prior=pt.DyadicCuts(6)),
}


@pytest.mark.parametrize("name", LARGE)
def test_far_too_many_cells_are_refused_before_anything_is_built(name, monkeypatch):
    monkeypatch.setattr(building.Building, "build_all", lambda *_: pytest.fail("the graph is built"))
    monkeypatch.setattr(building, "build_dyadic", lambda *_: pytest.fail("the graph is built"))
    with pytest.raises(exact.Intractable, match=r"more than the 2e\+07 cells allowed") as refusal:
        exact.solve(LARGE[name]())
    assert refusal.value.needed > 20_000_000
    assert str(pickle.loads(pickle.dumps(refusal.value))) == str(refusal.value)


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
    with pytest.raises(exact.Intractable, match=r"bytes of available memory allowed\. Lower max_cuts"):
        exact.solve(model)
    monkeypatch.setattr(limits, "available_bytes", lambda: 20_000_000)
    assert exact.solve(model).graph.n_cells > 1_000
    monkeypatch.setattr(limits, "memory_bytes", lambda: 100_000)
    with pytest.raises(exact.Intractable, match="values of cells at every depth"):
        exact.solve(pt.TreeModel(*table(30, 2, 8)))


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
    assert building._interrupted == []
    assert truth.log_evidence == pytest.approx(expected.log_evidence, rel=1e-13)
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
